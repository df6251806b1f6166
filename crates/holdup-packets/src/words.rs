//! Numbers in sentences.

use holdup_model::Estimate;
use holdup_model::text::grouped;

/// Three significant digits and separators of thousands: `8,110`, `27`, `0.41`. Whole parts are never rounded.
pub(crate) fn number(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    if !x.is_finite() || x.abs() >= 1e12 || x.abs() < 1e-4 {
        return format!("{x:.1e}");
    }
    let digits = (2.0 - x.abs().log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{x:.digits$}");
    match text.split_once('.') {
        Some((whole, rest)) => {
            let rest = rest.trim_end_matches('0');
            format!("{}{}{rest}", grouped(whole), if rest.is_empty() { "" } else { "." })
        }
        None => grouped(&text),
    }
}

/// A ratio with its interval, all three with the decimals of the ratio: `×8.05 (6.21 to 10.44)`.
pub(crate) fn ratio(e: &Estimate) -> String {
    let digits = match e.value {
        x if x < 0.1 => 3,
        x if x < 10.0 => 2,
        x if x < 100.0 => 1,
        _ => 0,
    };
    format!("×{:.digits$} ({:.digits$} to {:.digits$})", e.value, e.low, e.high)
}

/// A share as percent: `93 %`, `5.9 %`.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 10.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        for (x, text) in
            [(0.0, "0"), (8110.4, "8,110"), (27.0, "27"), (0.4149, "0.415"), (1_234_567.0, "1,234,567"), (2.5, "2.5")]
        {
            assert_eq!(number(x), text);
        }
    }
}
