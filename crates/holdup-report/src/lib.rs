//! Findings to terminal, HTML, Markdown, JSON, CSV.
//!
//! Pure: a bundle and its analysis go in, text comes out, the same one every time. What was not
//! measured is shown as missing with its reason in every format; void trials are listed in all.
#![forbid(unsafe_code)]

mod benchstat;
mod compare;
mod csv;
mod data;
mod dry_run;
mod evidence;
pub mod formats;
mod markdown;
mod page;
mod tables;
mod terminal;
mod text;

pub use benchstat::benchstat;
pub use compare::{compare_json, compare_terminal};
pub use csv::csv;
pub use data::json;
pub use dry_run::dry_run;
pub use formats::schemas;
pub use markdown::markdown;
pub use page::html;
pub use terminal::{TerminalOptions, terminal};
