//! The records of published reports: one file each in `reports/`, and this list.

use holdup_model::Problem;
use holdup_model::published::PublishedReport;
use std::sync::LazyLock;

/// The records, each with its name and its file, in the order shown to users.
const FILES: &[(&str, &str)] = &[
    ("postgres-lazy-2026", include_str!("../../../reports/postgres-lazy-2026.toml")),
    ("tradeoff-2019", include_str!("../../../reports/tradeoff-2019.toml")),
    ("tweaks-2013", include_str!("../../../reports/tweaks-2013.toml")),
    ("lwlock-wait-list-2026", include_str!("../../../reports/lwlock-wait-list-2026.toml")),
    ("uperf-lazy-2026", include_str!("../../../reports/uperf-lazy-2026.toml")),
];

static ALL: LazyLock<Vec<PublishedReport>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| parse(name, text).expect("a test reads every record of the list");
    FILES.iter().map(read).collect()
});

/// Every record, in the order of the list.
pub fn all() -> &'static [PublishedReport] {
    &ALL
}

/// The record of this name, if there is one.
pub fn find(name: &str) -> Option<&'static PublishedReport> {
    ALL.iter().find(|report| report.name == name)
}

/// Reads a record. `name` is that of its file.
///
/// # Errors
/// When it is no TOML, when a key is not known, missing or of the wrong type, with the line.
pub fn parse(name: &str, text: &str) -> Result<PublishedReport, Problem> {
    toml_edit::de::from_str(text).map_err(|error| {
        let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Problem::usage(format!("report {name}, line {line}"), error.message().trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_read_under_its_name() {
        for (name, text) in FILES {
            assert_eq!(parse(name, text).map(|report| report.name), Ok((*name).to_owned()));
        }
    }

    #[test]
    fn a_wrong_record_is_refused_with_its_place() {
        let (_, good) = FILES[0];
        for (from, to, line, why) in [
            ("\nsummary = ", "\nsumary = ", 3, "unknown field `sumary`"),
            ("\nverdict = \"", "\nverdict = \"surely-", 0, "unknown variant"),
            ("\nblocks = ", "\nblocks = -", 0, "invalid value"),
            ("\nmodels = [\"", "\nmodels = [\"lasy\", \"", 0, "unknown variant `lasy`"),
        ] {
            assert!(good.contains(from), "{from}");
            let problem = parse("x", &good.replacen(from, to, 1)).expect_err(to);
            let at = if line > 0 { line } else { good[..good.find(from).expect("it is there")].lines().count() + 1 };
            assert_eq!(problem.what, format!("report x, line {at}"), "{problem}");
            assert!(problem.why.contains(why), "{problem}");
        }
    }
}
