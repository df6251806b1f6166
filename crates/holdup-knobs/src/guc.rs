//! When two values of a PostgreSQL setting are the same (`128MB`, `131072kB`, `16384` blocks of 8 kB).

use holdup_host::guc::{boolean, integer, quantity, real, unit};

/// What PostgreSQL says about the type of a setting (`pg_settings.vartype` and `unit`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Kind {
    /// `bool`, `integer`, `real`, `string`, `enum`; empty when it is not known.
    pub(crate) vartype: String,
    /// The unit of a bare number: `8kB`, `kB`, `ms`, `s` …
    pub(crate) unit: Option<String>,
}

/// True if two values have the same effect. Without a [`Kind`] a bare number equals only a bare number.
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

fn same_number(a: &str, b: &str, kind: &Kind) -> bool {
    let base = kind.unit.as_deref().and_then(unit);
    if kind.vartype == "integer" {
        return integer(a, base).is_ok_and(|a| integer(b, base) == Ok(a));
    }
    let is_near = |x: f64, y: f64| (x - y).abs() <= 1e-9 * x.abs().max(y.abs());
    if kind.vartype == "real" || base.is_some() {
        return real(a, base).is_ok_and(|a| real(b, base).is_ok_and(|b| is_near(a, b)));
    }
    match (quantity(a), quantity(b)) {
        (Some((x, of_x)), Some((y, of_y))) => of_x == of_y && is_near(x, y),
        _ => false,
    }
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
        check("5kB", "0", "integer", "8kB", false);
        // Half a block is rounded to the even number, which is none.
        check("4kB", "0", "integer", "8kB", true);
        check("0x4000", "128MB", "integer", "8kB", true);
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
