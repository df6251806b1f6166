//! Bundles, findings, explanations, predictions, captures and surveys as text: terminal, HTML, Markdown, JSON, CSV.
//!
//! Pure: data go in, text comes out, the same one every time. Nothing is judged here (`holdup-analysis` does) and nothing
//! printed (`holdup` does). What was not measured is shown as missing with its reason; void trials are listed.
//!
//! Start at `formats/`: one file for each format of a bundle. By default the terminal has one screen (`screen`), with a
//! forest plot (`forest`); `--details` has everything. `page/` makes the parts of the HTML page, whose charts `web/` draws.
//! `explain`, `check`, `predict`, `packets`, `history`, `kept`, `search`, `tuning` and `dry_run` render the answers of the commands of these names,
//! `profile` exports settings, `stacks` and `trace` evidence for other tools.
#![forbid(unsafe_code)]

mod account;
mod check;
mod compare;
mod dry_run;
mod explain;
mod fleet;
mod forest;
pub mod formats;
mod history;
mod kept;
mod kept_page;
mod matrix;
mod merge;
mod packets;
mod page;
mod pictures;
mod predict;
pub mod profile;
mod screen;
mod search;
mod search_page;
mod series;
pub mod stacks;
mod tables;
mod text;
mod trace;
mod tuning;
mod tuning_page;

pub use check::{Checked, check_json, check_terminal};
pub use compare::{compare_json, compare_terminal};
pub use dry_run::dry_run;
pub use explain::{explain_json, explain_markdown, explain_terminal};
pub use fleet::{HostRow, HostState, fleet_head, fleet_json, fleet_terminal, sort_hosts};
pub use formats::benchstat::benchstat;
pub use formats::csv::csv;
pub use formats::html::{charts, html, html_with};
pub use formats::json::json;
pub use formats::markdown::markdown;
pub use formats::schemas;
pub use formats::terminal::{TerminalOptions, terminal};
pub use history::{history_json, history_terminal};
pub use kept::{
    gate_json, gate_junit, gate_markdown, gate_terminal, kept_history, kept_history_json, kept_list, kept_list_json,
};
pub use kept_page::kept_history_html;
pub use merge::{Choice, profile as stack_profile, timeline};
pub use packets::{counts_terminal, flow_line, flows, packets_html, packets_json, packets_terminal};
pub use page::Chart;
pub use page::timelines::ReadTrial;
pub use predict::{predict_json, predict_terminal};
pub use screen::list;
pub use search::{search_answer, search_log, search_undecided, search_without_change};
pub use search_page::search_html;
pub use trace::perfetto;
pub use tuning::{tuning_answer, tuning_log, tuning_profile, tuning_space};
pub use tuning_page::tuning_html;
