//! Numbers in cells of at most eight characters.

use holdup_live::lists::CellKind;

/// A number of a column.
pub(crate) fn cell(kind: CellKind, value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "-".to_owned() };
    match kind {
        CellKind::Text => String::new(),
        CellKind::Share | CellKind::Named => format!("{:.1} %", 100.0 * value),
        CellKind::Tasks => plain(value),
        CellKind::Rate => format!("{}/s", plain(value)),
        CellKind::Time => time(value),
    }
}

fn plain(value: f64) -> String {
    match value {
        _ if value == 0.0 => "0".to_owned(),
        _ if value < 0.01 => "<0.01".to_owned(),
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ if value < 100_000.0 => format!("{value:.0}"),
        _ => format!("{:.1}M", value / 1e6),
    }
}

/// A time: `1.2 ms`.
pub(crate) fn time(s: f64) -> String {
    let (value, unit) = match s {
        _ if s < 1e-6 => (s * 1e9, "ns"),
        _ if s < 1e-3 => (s * 1e6, "us"),
        _ if s < 0.9995 => (s * 1e3, "ms"),
        _ if s < 120.0 => (s, "s"),
        _ if s < 7_200.0 => (s / 60.0, "min"),
        _ => (s / 3_600.0, "h"),
    };
    // Whole seconds, as windows are.
    let is_whole = (value - value.round()).abs() < 0.005;
    if value < 10.0 && !is_whole { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_cells() {
        let at = |kind, value| cell(kind, Some(value));
        assert_eq!(at(CellKind::Share, 0.1234), "12.3 %");
        assert_eq!(
            [0.0, 0.004, 3.456, 42.42, 4_242.4, 1_234_567.0].map(|n| at(CellKind::Tasks, n)),
            ["0", "<0.01", "3.46", "42.4", "4242", "1.2M"]
        );
        assert_eq!(
            [5e-10, 4.2e-5, 0.0123, 7.0, 600.0, 9e4].map(time),
            ["0.5 ns", "42 us", "12 ms", "7 s", "10 min", "25 h"]
        );
        assert_eq!(at(CellKind::Rate, 31_415.9), "31416/s");
        assert_eq!([None, Some(f64::NAN)].map(|n| cell(CellKind::Time, n)), ["-", "-"]);
    }
}
