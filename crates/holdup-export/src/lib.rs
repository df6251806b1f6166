//! A bundle for other programs: tables as Arrow and Parquet, the charts of the page as SVG, call stacks for pprof.
//!
//! Pure: a bundle and its analysis go in, bytes come out, the same ones every time. Which tables there are, and with which
//! columns, stands in `holdup_model::table`, in a list that the Python package has too; `holdup_bundle::Rows` reads those
//! that SQL can read, [`computed()`] makes the others. `svg/` has one file for each kind of chart; what is in a chart is the
//! page's (`holdup_report::charts`).
#![forbid(unsafe_code)]

mod arrow;
mod computed;
mod flat;
mod parquet;
mod pprof;
mod svg;

pub use arrow::arrow;
pub use computed::{Computed, computed};
pub use parquet::parquet;
pub use pprof::pprof;
pub use svg::svg;
