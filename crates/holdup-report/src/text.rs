//! Numbers, lines and columns as a reader wants them.

pub(crate) use holdup_model::foreign::line as clean;
pub(crate) use holdup_model::text::ratio;
pub(crate) use holdup_model::text::{capital, count, grouped, moment};

/// Columns that a text takes, for the scripts that a report is written in.
pub(crate) fn columns(text: &str) -> usize {
    text.chars().count()
}

/// `text` in lines of at most `width` columns: the first after `first`, the others after `rest`.
/// A word that is longer than a line stands on its own line, whole, so that it can be copied.
pub(crate) fn wrap(text: &str, width: usize, first: &str, rest: &str) -> String {
    let mut out = String::from(first);
    let mut used = columns(first);
    let mut fresh = true;
    // A number and its percent sign stay together.
    let text = clean(text).replace(" %", "\u{a0}%");
    for word in text.split(' ') {
        if word.is_empty() && fresh {
            continue;
        }
        let word = &word.replace('\u{a0}', " ");
        let need = columns(word);
        if !fresh && used + 1 + need > width {
            out.push('\n');
            out.push_str(rest);
            used = columns(rest);
            fresh = true;
        }
        if !fresh {
            out.push(' ');
            used += 1;
        }
        out.push_str(word);
        used += need;
        fresh = false;
    }
    out.push('\n');
    out
}

/// A number with four significant digits: `98,565`, `1.234`, `0.01235`. Whole parts are never rounded.
pub(crate) fn number(x: f64) -> String {
    if x == 0.0 {
        return "0".to_owned();
    }
    if !x.is_finite() || x.abs() >= 1e12 || x.abs() < 1e-6 {
        return format!("{x:.3e}");
    }
    let digits = (3.0 - x.abs().log10().floor()).clamp(0.0, 9.0) as usize;
    let text = format!("{x:.digits$}");
    let (sign, text) = text.strip_prefix('-').map_or(("", text.as_str()), |t| ("-", t));
    match text.split_once('.') {
        Some((whole, rest)) => format!("{sign}{}.{rest}", grouped(whole)),
        None => format!("{sign}{}", grouped(text)),
    }
}

/// A share as percent: `1.5 %`, `12 %`, `0.035 %`.
pub(crate) fn percent(share: f64) -> String {
    let p = share.abs() * 100.0;
    let digits = match p {
        _ if p >= 10.0 || p == 0.0 => 0,
        _ if p >= 1.0 => 1,
        _ if p >= 0.1 => 2,
        _ => 3,
    };
    if p > 0.0 && p < 0.0005 {
        return "<0.001 %".to_owned();
    }
    let text = format!("{p:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// A share as percent, to a tenth, for columns. What is there, however little, is not shown as nothing.
pub(crate) fn tenths(share: f64) -> String {
    let p = share * 100.0;
    if p != 0.0 && p.abs() < 0.05 { "<0.1 %".to_owned() } else { format!("{p:.1} %") }
}

/// A duration for people: `1 h 5 min`, `3 min 20 s`, `2.5 s`, `300 ms`.
pub(crate) fn duration(ns: u64) -> String {
    let s = ns as f64 / 1e9;
    let whole = (s).round() as u64;
    match ns {
        0 => "0 s".to_owned(),
        _ if s >= 3600.0 => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
        _ if s >= 60.0 => format!("{} min {} s", whole / 60, whole % 60),
        _ if s >= 1.0 => format!("{} s", (s * 10.0).round() / 10.0),
        _ if ns >= 1_000_000 => format!("{} ms", ns / 1_000_000),
        _ if ns >= 1_000 => format!("{} us", ns / 1_000),
        _ => format!("{ns} ns"),
    }
}

/// A latency for people, from ns: `1.234 ms`.
pub(crate) fn latency(ns: f64) -> String {
    match ns.abs() {
        n if n >= 1e9 => format!("{} s", number(ns / 1e9)),
        n if n >= 1e6 => format!("{} ms", number(ns / 1e6)),
        n if n >= 1e3 => format!("{} us", number(ns / 1e3)),
        _ => format!("{} ns", number(ns)),
    }
}

/// A command as a POSIX shell reads it: words with anything unusual stand in single quotes.
pub(crate) fn shell(words: &[String]) -> String {
    let plain = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c));
    let quoted = |w: &String| if plain(w) { w.clone() } else { format!("'{}'", w.replace('\'', r"'\''")) };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Rows in columns: the first to the left, the others to the right, two spaces between.
/// A row of one cell widens no column. `left` names further columns set to the left.
pub(crate) fn align(rows: &[Vec<String>], left: &[usize], indent: &str) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows.iter().filter(|r| r.len() > 1) {
        for (i, cell) in row.iter().enumerate() {
            match widths.get_mut(i) {
                Some(w) => *w = (*w).max(columns(cell)),
                None => widths.push(columns(cell)),
            }
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::from(indent);
        for (i, cell) in row.iter().enumerate() {
            let pad = if row.len() == 1 { 0 } else { widths[i].saturating_sub(columns(cell)) };
            if i > 0 {
                line.push_str("  ");
            }
            let is_left = i == 0 || left.contains(&i);
            if !is_left {
                line.push_str(&" ".repeat(pad));
            }
            line.push_str(cell);
            if is_left {
                line.push_str(&" ".repeat(pad));
            }
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_times_read_well() {
        let check = |got: String, expect: &str| assert_eq!(got, expect);
        check(number(98_565.4), "98,565");
        check(number(-1234.5), "-1,234");
        check(number(0.012_345_6), "0.01235");
        check(number(0.0), "0");
        check(duration(200_000_000_000), "3 min 20 s");
        check(duration(2_500_000_000), "2.5 s");
        check(duration(10_000_000_000), "10 s");
        check(duration(3_900_000_000_000), "1 h 5 min");
        check(latency(1_234_000.0), "1.234 ms");
        check(moment(0), "1970-01-01 00:00:00 UTC");
        check(moment(1_709_164_800_000_000_000), "2024-02-29 00:00:00 UTC");
        check(moment(-1), "1969-12-31 23:59:59 UTC");
        check(shell(&["a".into(), "b c".into(), "it's".into()]), r"a 'b c' 'it'\''s'");
        check(clean("a\u{1b}[31m\nb\u{202e}"), "a\\u001b[31m b\\u202e");
        check(wrap("one two three", 8, "- ", "  "), "- one\n  two\n  three\n");
    }
}
