//! Findings to terminal, HTML, Markdown, JSON, CSV.
//!
//! Pure: a bundle and its analysis go in, text comes out, the same one every time. What was not
//! measured is shown as missing with its reason in every format; void trials are listed in all.
#![forbid(unsafe_code)]

mod check;
mod compare;
mod dry_run;
mod explain;
pub mod formats;
mod history;
mod matrix;
mod merge;
mod packets;
mod page;
mod predict;
pub mod profile;
mod series;
pub mod stacks;
mod tables;
mod text;
mod trace;

pub use check::{Checked, check_json, check_terminal};
pub use compare::{compare_json, compare_terminal};
pub use dry_run::dry_run;
pub use explain::{explain_json, explain_markdown, explain_terminal};
pub use formats::benchstat::benchstat;
pub use formats::csv::csv;
pub use formats::html::html;
pub use formats::json::json;
pub use formats::markdown::markdown;
pub use formats::schemas;
pub use formats::terminal::{TerminalOptions, terminal};
pub use history::{history_json, history_terminal};
pub use merge::{Choice, profile as stack_profile, timeline};
pub use packets::{counts_terminal, flow_line, flows, packets_html, packets_json, packets_terminal};
pub use predict::{predict_json, predict_terminal};
pub use trace::perfetto;
