//! The formats that a report can be had in, and the schemas of those that are JSON.

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Format {
    /// Its name on the command line.
    pub id: &'static str,
    /// One line.
    pub summary: &'static str,
}

/// Every format.
pub const ALL: &[Format] = &[
    Format { id: "terminal", summary: "verdicts, tables and notes for a terminal (holdup report)" },
    Format { id: "html", summary: "one page with charts that needs no network (holdup report --html)" },
    Format { id: "markdown", summary: "verdicts and tables for a ticket or a mail (holdup report --markdown)" },
    Format { id: "json", summary: "everything but the histograms, schema holdup.report/1" },
    Format { id: "csv", summary: "a row for each trial and metric, void trials included" },
    Format { id: "benchstat", summary: "the trials that count in the benchmark format of Go" },
];

/// The JSON Schemas, by the value of the documents' `schema` field.
pub fn schemas() -> &'static [(&'static str, &'static str)] {
    &[
        ("holdup.report/1", include_str!("../schemas/report-1.json")),
        ("holdup.compare/1", include_str!("../schemas/compare-1.json")),
        ("holdup.list/1", include_str!("../schemas/list-1.json")),
        ("holdup.verify/1", include_str!("../schemas/verify-1.json")),
    ]
}
