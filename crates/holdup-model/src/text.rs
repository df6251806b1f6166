//! Words that sentences and tables share.

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

/// With a capital letter in front.
pub fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

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
