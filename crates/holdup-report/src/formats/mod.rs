//! The formats that a report can be had in, one file each, and the schemas of those that are JSON.

pub(crate) mod benchstat;
pub(crate) mod csv;
pub(crate) mod html;
pub(crate) mod json;
pub(crate) mod markdown;
pub(crate) mod terminal;

use holdup_model::{Analysis, BundleData};

#[derive(Debug, Clone, Copy)]
pub struct Format {
    /// Its name on the command line.
    pub id: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Renders a whole report in it; the terminal's at 80 columns without colour.
    pub render: fn(&BundleData, &Analysis) -> String,
}

/// Every format.
pub const ALL: &[Format] = &[
    Format {
        id: "terminal",
        summary: "verdicts, tables and notes for a terminal (holdup report)",
        render: terminal::plain,
    },
    Format {
        id: "html",
        summary: "one page with charts that needs no network (holdup report --html)",
        render: html::html,
    },
    Format {
        id: "markdown",
        summary: "tables for a ticket or a mail (holdup report --markdown)",
        render: markdown::markdown,
    },
    Format { id: "json", summary: "everything but the histograms, schema holdup.report/1", render: json::json },
    Format { id: "csv", summary: "a row for each trial and metric, void trials included", render: csv::csv },
    Format {
        id: "benchstat",
        summary: "the trials that count in the benchmark format of Go",
        render: benchstat::benchstat,
    },
];

/// The JSON Schemas, by the value of the documents' `schema` field.
pub fn schemas() -> &'static [(&'static str, &'static str)] {
    &[
        ("holdup.report/1", include_str!("../../schemas/report-1.json")),
        ("holdup.compare/1", include_str!("../../schemas/compare-1.json")),
        ("holdup.history/1", include_str!("../../schemas/history-1.json")),
        ("holdup.store/1", include_str!("../../schemas/store-1.json")),
        ("holdup.kept-history/1", include_str!("../../schemas/kept-history-1.json")),
        ("holdup.gate/1", include_str!("../../schemas/gate-1.json")),
        ("holdup.explain/1", include_str!("../../schemas/explain-1.json")),
        ("holdup.watch/1", include_str!("../../schemas/watch-1.json")),
        ("holdup.list/1", include_str!("../../schemas/list-1.json")),
        ("holdup.kernels/1", include_str!("../../schemas/kernels-1.json")),
        ("holdup.check/1", include_str!("../../schemas/check-1.json")),
        ("holdup.verify/1", include_str!("../../schemas/verify-1.json")),
        ("holdup.packets/1", include_str!("../../schemas/packets-1.json")),
        ("holdup.flow/1", include_str!("../../schemas/flow-1.json")),
        ("holdup.predict/1", include_str!("../../schemas/predict-1.json")),
        ("holdup.profile/1", include_str!("../../schemas/profile-1.json")),
    ]
}
