//! The live screen of `holdup watch`.
//!
//! [`State`] is what is shown: windows change it, keys change it ([`State::key`]), and [`draw`] makes a screen of it without a
//! terminal. [`Terminal`] is the only part that touches one; it is put back however the program ends.
#![forbid(unsafe_code)]

mod bars;
mod draw;
mod numbers;
mod state;
mod table;
mod terminal;

pub use crossterm::event::KeyCode;
pub use draw::{draw, text};
pub use state::{Act, State};
pub use terminal::{Input, Terminal};
