//! Small pieces of reading what tools print.

/// The number at the begin of a text, spaces before it left out: `12.5 usec` is 12.5.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end =
        text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+' | 'e' | 'E')).unwrap_or(text.len());
    let value: f64 = text[..end].parse().ok()?;
    value.is_finite().then_some(value)
}

/// The number after the first place where a text stands.
pub fn number_after(text: &str, name: &str) -> Option<f64> {
    number(text.split_once(name)?.1)
}

/// A whole number that is not negative after the first place where a text stands.
pub fn count_after(text: &str, name: &str) -> Option<u64> {
    let rest = text.split_once(name)?.1.trim_start();
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// A text as part of a reason: its first line that is not empty, not endless.
pub fn shown(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|l| !l.is_empty()).unwrap_or("nothing");
    line.chars().filter(|c| !c.is_control()).take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_where_they_stand() {
        assert_eq!(number("  12.5 usec"), Some(12.5));
        assert_eq!((number("-"), number(""), number("x1"), number("1e999")), (None, None, None, None));
        assert_eq!(number_after("Time: 0.212\n", "Time:"), Some(0.212));
        assert_eq!(count_after("Sent=17; x", "Sent="), Some(17));
        assert_eq!((count_after("Sent=-1", "Sent="), count_after("none", "Sent=")), (None, None));
        assert_eq!(shown("\n  a\x1b[b \n c"), "a[b");
    }
}
