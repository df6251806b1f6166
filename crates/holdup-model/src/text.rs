//! Words that sentences and tables share.

use crate::outcome::{CostChange, StatePoints};
use crate::{Comparison, Estimate};

/// The states of [`time_points`].
const SHOWN_STATES: usize = 2;

/// Digits with separators of thousands: `12345` is `12,345`.
pub fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 trial`, `2 trials`.
pub fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A number of bytes in the largest unit that leaves a number from 1 up, with at most one decimal: `2 MiB`, `1.5 GiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let text = format!("{value:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
}

/// `a`, `a and b`, `a, b and c`.
pub fn list<T: AsRef<str>>(items: &[T]) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} and {}", most.join(", "), last.as_ref())
        }
    }
}

/// Where the time of a comparison went:
/// `Of the 29 points lost, 26 (24 to 28) are Lock:transactionid and 2 (1 to 3) on a CPU; all other states 1.`
pub fn time_points(c: &Comparison) -> Option<String> {
    let of = c.time_points.as_ref()?;
    let round = |share: f64| match format!("{:.0}", share * 100.0) {
        zero if zero == "-0" => "0".to_owned(),
        number => number.replace('-', "−"),
    };
    let work = if c.metric.id == "tps" { "A transaction" } else { "A unit of work" };
    let total = round(of.points);
    let begin = match of.change {
        CostChange::Lost => format!("Of the {total} points lost,"),
        CostChange::More => {
            let times = factor(1.0 / (1.0 - of.points));
            format!("{work} takes {times} the time of sessions; of the {total} points more,")
        }
        CostChange::Less => format!("{work} takes {total} % less time of sessions; of these points,"),
    };
    let named: Vec<&StatePoints> = of.states.iter().filter(|s| s.points > 0.0).take(SHOWN_STATES).collect();
    let in_words = |(i, s): (usize, &&StatePoints)| {
        let are = if i == 0 { "are " } else { "" };
        format!("{} ({} to {}) {are}{}", round(s.points), round(s.low), round(s.high), s.name)
    };
    let shown: Vec<String> = named.iter().enumerate().map(in_words).collect();
    let rest = round(of.points - named.iter().map(|s| s.points).sum::<f64>());
    let rest = if rest == "0" { String::new() } else { format!("; all other states {rest}") };
    Some(format!("{begin} {}{rest}.", list(&shown)))
}

/// A bare ratio with three significant digits: `×0.048`, `×0.69`, `×4.18`, `×30.0`, `×1,143`.
pub fn factor(x: f64) -> String {
    match x {
        _ if !x.is_finite() => format!("×{x}"),
        _ if x < 0.1 => format!("×{x:.3}"),
        _ if x < 10.0 => format!("×{x:.2}"),
        _ if x < 100.0 => format!("×{x:.1}"),
        _ => format!("×{}", grouped(&format!("{x:.0}"))),
    }
}

/// A ratio with its interval: `×1.03 (1.01 to 1.05)`.
pub fn ratio(e: &Estimate) -> String {
    let [value, low, high] = ratio_parts(e);
    format!("×{value} ({low} to {high})")
}

/// A ratio and the ends of its interval, with as many decimals as the interval is worth, and enough that no end that is not 1 reads
/// as 1. What differs by less than a millionth is the same.
pub fn ratio_parts(e: &Estimate) -> [String; 3] {
    const SAME: f64 = 5e-7;
    let half = (e.high - e.low) / 2.0;
    let wanted = if half > SAME { -half.log10().floor() } else { 3.0 };
    let least = match e.value {
        v if v >= 10.0 => 0.0,
        v if v >= 0.1 => 2.0,
        _ => 3.0,
    };
    let mut digits = wanted.clamp(least, 6.0) as usize;
    let reads_as_one =
        |x: f64, digits: usize| (x - 1.0).abs() > SAME && format!("{x:.digits$}") == format!("{:.digits$}", 1.0);
    while digits < 6 && (reads_as_one(e.low, digits) || reads_as_one(e.high, digits)) {
        digits += 1;
    }
    [e.value, e.low, e.high].map(|x| if x.abs() >= 1e6 { format!("{x:.2e}") } else { format!("{x:.digits$}") })
}

/// A moment in UTC, to the second: `2026-11-21 06:40:17 UTC`.
///
/// Days to dates after H. Hinnant, "chrono-compatible low-level date algorithms" (public domain).
pub fn moment(unix_ns: i64) -> String {
    let seconds = unix_ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", second / 3600, second % 3600 / 60, second % 60)
}

/// A day in UTC: `2026-11-21`.
pub fn day(unix_ns: i64) -> String {
    moment(unix_ns).split(' ').next().unwrap_or_default().to_owned()
}

/// With a capital letter in front.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// A word of the shell: as it is where it has only letters, digits and `@%+=:,./_-`, else in single quotes (sh(1)).
pub fn shell_quoted(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"@%+=:,./_-".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A text as a literal of SQL. With a backslash it is an escape string, which every server reads alike, also one with
/// `standard_conforming_strings` off (PostgreSQL documentation, 4.1.2.2).
pub fn sql_quoted(text: &str) -> String {
    let escape = if text.contains('\\') { "E" } else { "" };
    format!("{escape}'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backslash_ends_no_literal() {
        assert_eq!(sql_quoted("it's"), "'it''s'");
        assert_eq!(sql_quoted(r"a\'; SELECT 1 --"), r"E'a\\''; SELECT 1 --'");
    }

    #[test]
    fn words_of_the_shell_are_quoted_where_they_must_be() {
        for plain in ["madvise", "0-3,5", "/sys/fs/cgroup/a.b/cpu.max", "kernel.x=1", "100%"] {
            assert_eq!(shell_quoted(plain), plain);
        }
        assert_eq!(shell_quoted("max 100000"), "'max 100000'");
        assert_eq!(shell_quoted(""), "''");
        assert_eq!(shell_quoted("0; rm -rf /"), "'0; rm -rf /'");
        assert_eq!(shell_quoted("a'$(id)'`id`"), r"'a'\''$(id)'\''`id`'");
    }

    #[test]
    fn lists_end_with_and() {
        let check = |items: &[&str], expect: &str| assert_eq!(list(items), expect);
        check(&[], "");
        check(&["a"], "a");
        check(&["a", "b"], "a and b");
        check(&["a", "b", "c"], "a, b and c");
    }

    #[test]
    fn factors_have_three_digits() {
        let check = |x: f64, expect: &str| assert_eq!(factor(x), expect);
        check(0.0481, "×0.048");
        check(0.5, "×0.50");
        check(30.12, "×30.1");
        check(1143.4, "×1,143");
        check(f64::INFINITY, "×inf");
    }

    #[test]
    fn a_ratio_that_does_not_move_has_few_decimals() {
        let check = |value: f64, low: f64, high: f64, expect: &str| {
            let e = Estimate { value, low, high, confidence: 0.95, n: 5, method: String::new() };
            assert_eq!(ratio(&e), expect);
        };
        check(1.0, 1.0 - 1e-12, 1.0 + 1e-12, "×1.000 (1.000 to 1.000)");
        check(1.0, 0.99999, 1.00001, "×1.00000 (0.99999 to 1.00001)");
    }

    #[test]
    fn sizes_stand_in_the_unit_that_fits() {
        let check = |bytes: u64, expect: &str| assert_eq!(size(bytes), expect);
        check(0, "0 bytes");
        check(1023, "1023 bytes");
        check(2 << 20, "2 MiB");
        check(3 << 29, "1.5 GiB");
        check((1 << 30) - 1, "1 GiB");
        check(u64::MAX, "16777216 TiB");
    }
}
