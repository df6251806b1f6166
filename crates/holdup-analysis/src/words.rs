//! Numbers and lists as a reader wants them.

use holdup_model::bundle::BundleHead;
use holdup_model::outcome::FindingVerdict;
/// The same as [`ratio`], shorter.
pub(crate) use holdup_model::text::ratio as ratio_short;
use holdup_model::text::{self, grouped};
pub(crate) use holdup_model::text::{capital, count, list};
use holdup_model::{Estimate, Metric};

/// What stands above everything else that is said of times that are not those of hardware.
pub(crate) fn caution(head: &BundleHead) -> Option<String> {
    let what = head.emulated.as_ref()?;
    Some(format!(
        "Times here are {what}, not those of hardware: orderings and event counts may be compared, absolute times may \
         not."
    ))
}

/// The order of notes: what was found, what is open, what is fine, what was not looked at.
pub(crate) fn rank(verdict: FindingVerdict) -> u8 {
    match verdict {
        FindingVerdict::Supported => 1,
        FindingVerdict::Undecided => 2,
        FindingVerdict::Refuted => 3,
        FindingVerdict::Skipped => 4,
    }
}

/// A share as percent with two significant digits: `1.5 %`, `12 %`, `0.03 %`.
pub(crate) fn percent(share: f64) -> String {
    let p = share.abs() * 100.0;
    let digits = match p {
        _ if p >= 10.0 || p == 0.0 => 0,
        _ if p >= 1.0 => 1,
        _ if p >= 0.1 => 2,
        _ => 3,
    };
    let text = format!("{p:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    if text == "0" && p > 0.0 { "less than 0.001 %".to_owned() } else { format!("{text} %") }
}

/// A number with four significant digits and separators of thousands: `98,570`, `1.234`.
pub(crate) fn number(x: f64) -> String {
    if !x.is_finite() || x == 0.0 || x.abs() >= 1e15 {
        return format!("{x}");
    }
    let magnitude = x.abs().log10().floor();
    let digits = (3.0 - magnitude).clamp(0.0, 12.0) as usize;
    let scale = 10_f64.powf((magnitude - 3.0).max(0.0));
    let text = format!("{:.digits$}", (x / scale).round_if(magnitude > 3.0) * scale);
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let (sign, whole) = whole.strip_prefix('-').map_or(("", whole), |w| ("-", w));
    let grouped = grouped(whole);
    let rest = rest.map(|r| r.trim_end_matches('0')).filter(|r| !r.is_empty());
    match rest {
        Some(rest) => format!("{sign}{grouped}.{rest}"),
        None => format!("{sign}{grouped}"),
    }
}

trait RoundIf {
    fn round_if(self, really: bool) -> Self;
}

impl RoundIf for f64 {
    fn round_if(self, really: bool) -> Self {
        if really { self.round() } else { self }
    }
}

/// A ratio with its interval: `×1.03 (95 % interval 1.01 to 1.05)`.
pub(crate) fn ratio(e: &Estimate) -> String {
    let [value, low, high] = text::ratio_parts(e);
    format!("×{value} ({} % interval {low} to {high})", (e.confidence * 100.0).round())
}

/// What a sentence calls a metric: `throughput (tps)`, `latency p99`, `lock waits`.
pub(crate) fn metric_name(metric: &Metric) -> String {
    if metric.id == "tps" {
        return "throughput (tps)".to_owned();
    }
    let bare = ["_us", "_ns", "_ms", "_s"]
        .iter()
        .find_map(|unit| metric.id.strip_suffix(unit).filter(|bare| !bare.ends_with("_per")))
        .unwrap_or(&metric.id);
    bare.replace('_', " ")
}

/// At most ten trial numbers: `trial 3`, `trials 3, 7 and 12`, `trials 1, 2, … and 14 more`.
pub(crate) fn trials(seqs: &[u32]) -> String {
    let shown: Vec<String> = seqs.iter().take(10).map(u32::to_string).collect();
    match seqs.len() {
        1 => format!("trial {}", shown.join("")),
        n if n > 10 => format!("trials {} and {} more", shown.join(", "), n - 10),
        _ => format!("trials {}", list(&shown)),
    }
}

/// `p 0.012`, `p below 0.001`.
pub(crate) fn p_value(p: f64) -> String {
    if p < 0.001 { "p below 0.001".to_owned() } else { format!("p {p:.3}") }
}

/// A count with separators of thousands: `12,345`.
pub(crate) fn integer(n: u64) -> String {
    grouped(&n.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let check = |x: f64, expect: &str| assert_eq!(number(x), expect);
        check(98_565.4, "98,570");
        check(1_234_567.0, "1,235,000");
        check(0.012_345_6, "0.01235");
        check(12.0, "12");
        check(-1234.5, "-1,234");
        check(0.0, "0");
        let check = |x: f64, expect: &str| assert_eq!(percent(x), expect);
        check(0.015, "1.5 %");
        check(0.02, "2 %");
        check(0.123, "12 %");
        check(0.0003, "0.03 %");
        check(0.0, "0 %");
        check(1e-9, "less than 0.001 %");
    }

    #[test]
    fn ratios_show_what_the_interval_is_worth() {
        let check = |value: f64, low: f64, high: f64, expect: &str| {
            let e = Estimate { value, low, high, confidence: 0.95, n: 5, method: String::new() };
            assert_eq!(ratio_short(&e), expect);
        };
        check(1.03, 1.01, 1.05, "×1.03 (1.01 to 1.05)");
        check(1.024, 1.0003, 1.05, "×1.0240 (1.0003 to 1.0500)");
        check(38.2, 36.9, 39.4, "×38 (37 to 39)");
        check(0.9712, 0.9701, 0.9723, "×0.971 (0.970 to 0.972)");
        check(0.021, 0.018, 0.024, "×0.021 (0.018 to 0.024)");
        check(2.0, 2.0, 2.0, "×2.000 (2.000 to 2.000)");
    }
}
