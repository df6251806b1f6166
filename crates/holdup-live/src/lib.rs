//! The last windows of a watch in bounded memory, and what is shown and exported of them.
//!
//! [`Memory`] keeps windows and gives them back as a bundle. [`Now`] is what a screen shows of them: the sentence of the last
//! windows, what changed, and the account over all that are kept. [`Counters`] adds windows up, family by family
//! (`families`, a catalogue), and [`render`] has them in the formats of Prometheus.
//! A [`Trigger`] is a condition over windows, [`lists`] are what a screen has below its sentence.
//!
//! Not here: watching (`holdup-watch`), drawing (`holdup-screen`) and serving (`holdup-exporter`).
#![forbid(unsafe_code)]

mod counters;
mod exposition;
mod families;
pub mod lists;
mod memory;
mod now;
mod size;
mod stacks;
mod trigger;

pub use counters::{Counters, OTHER, Series, Value};
pub use exposition::{Format, Own, render};
pub use families::{Family, Kind, all as families};
pub use memory::{Bar, Memory};
pub use now::Now;
pub use trigger::Trigger;
