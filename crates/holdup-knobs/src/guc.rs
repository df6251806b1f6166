//! When two values of a PostgreSQL setting are the same (`128MB`, `131072kB`, `16384` blocks of 8 kB).

/// What PostgreSQL says about the type of a setting (`pg_settings.vartype` and `unit`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    /// `bool`, `integer`, `real`, `string`, `enum`; empty when it is not known.
    pub(crate) vartype: String,
    /// The unit of a bare number: `8kB`, `kB`, `ms`, `s` …
    pub(crate) unit: Option<String>,
}

/// What a unit measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Measure {
    /// In bytes.
    Memory,
    /// In microseconds.
    Time,
}

/// Whether two values have the same effect. Without a [`Kind`] a bare number equals only a bare number.
pub(crate) fn same(a: &str, b: &str, kind: &Kind) -> bool {
    let (a, b) = (a.trim(), b.trim());
    if a == b {
        return true;
    }
    match kind.vartype.as_str() {
        // Only those of lists and paths; case matters there.
        "string" => false,
        "bool" => boolean(a).is_some() && boolean(a) == boolean(b),
        "enum" => a.eq_ignore_ascii_case(b) || (boolean(a).is_some() && boolean(a) == boolean(b)),
        "integer" | "real" => same_number(a, b, kind),
        _ => {
            let is_word = |text: &str| boolean(text).is_some() && text.parse::<f64>().is_err();
            if is_word(a) || is_word(b) {
                boolean(a) == boolean(b)
            } else {
                same_number(a, b, kind) || a.eq_ignore_ascii_case(b)
            }
        }
    }
}

fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some(true),
        "off" | "false" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

fn same_number(a: &str, b: &str, kind: &Kind) -> bool {
    let base = kind.unit.as_deref().and_then(unit);
    let (Some((x, of_x)), Some((y, of_y))) = (number(a, base), number(b, base)) else { return false };
    if of_x != of_y {
        return false;
    }
    // An integer setting is rounded to its own unit (src/backend/utils/misc/guc.c:parse_int).
    let grain = base.map_or(1.0, |(size, _)| size);
    if kind.vartype == "integer" {
        return (x / grain).round() == (y / grain).round();
    }
    (x - y).abs() <= 1e-9 * x.abs().max(y.abs())
}

/// A number in bytes or microseconds, with what it measures; a bare one counts in the base unit.
fn number(text: &str, base: Option<(f64, Measure)>) -> Option<(f64, Option<Measure>)> {
    let end = text.find(|c: char| c.is_ascii_alphabetic() && c != 'e' && c != 'E').unwrap_or(text.len());
    let (digits, suffix) = (text[..end].trim(), text[end..].trim());
    let value: f64 = digits.parse().ok()?;
    if suffix.is_empty() {
        // A bare number counts in the unit of the setting.
        return match base {
            Some((size, measure)) => Some((value * size, Some(measure))),
            None => Some((value, None)),
        };
    }
    let (size, measure) = unit(suffix)?;
    Some((value * size, Some(measure)))
}

/// The size of a unit of PostgreSQL in bytes or microseconds; also such as `8kB`.
fn unit(name: &str) -> Option<(f64, Measure)> {
    let at = name.find(|c: char| !c.is_ascii_digit())?;
    let count: f64 = if at == 0 { 1.0 } else { name[..at].parse().ok()? };
    let (size, measure) = match &name[at..] {
        "B" => (1.0, Measure::Memory),
        "kB" => (1024.0, Measure::Memory),
        "MB" => (1024.0 * 1024.0, Measure::Memory),
        "GB" => (1024.0 * 1024.0 * 1024.0, Measure::Memory),
        "TB" => (1024.0 * 1024.0 * 1024.0 * 1024.0, Measure::Memory),
        "us" => (1.0, Measure::Time),
        "ms" => (1e3, Measure::Time),
        "s" => (1e6, Measure::Time),
        "min" => (60e6, Measure::Time),
        "h" => (3600e6, Measure::Time),
        "d" => (86400e6, Measure::Time),
        _ => return None,
    };
    Some((count * size, measure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_same_effect_are_the_same() {
        let check = |a: &str, b: &str, vartype: &str, unit: &str, expect: bool| {
            let kind = Kind { vartype: vartype.to_owned(), unit: Some(unit.to_owned()).filter(|u| !u.is_empty()) };
            assert_eq!(same(a, b, &kind), expect, "{a} {b} {kind:?}");
            assert_eq!(same(b, a, &kind), expect, "{b} {a} {kind:?}");
        };
        check("128MB", "131072kB", "integer", "8kB", true);
        check("128MB", "16384", "integer", "8kB", true);
        check("128MB", "16384", "integer", "kB", false);
        check("128MB", "129MB", "integer", "8kB", false);
        check("1GB", "1024MB", "", "", true);
        check("1GB", "1024", "", "", false);
        check("1.5GB", "1536MB", "integer", "8kB", true);
        check("4kB", "0", "integer", "8kB", false);
        check("90s", "1.5min", "integer", "s", true);
        check("5min", "300", "integer", "s", true);
        check("2ms", "2", "real", "ms", true);
        check("0.5", ".50", "real", "", true);
        check("0.5", "0.6", "real", "", false);
        check("1e3", "1000", "real", "", true);
        check("on", "true", "bool", "", true);
        check("on", "1", "bool", "", true);
        check("off", "1", "bool", "", false);
        check("on", "1", "", "", true);
        check("-1", "-1", "integer", "kB", true);
        check("Replica", "replica", "enum", "", true);
        check("try", "on", "enum", "", false);
        check("on", "yes", "enum", "", true);
        check("/Tmp", "/tmp", "string", "", false);
        check("a, b", "a, b", "string", "", true);
        check("1MB", "1s", "", "", false);
        check("", "0", "", "", false);
    }
}
