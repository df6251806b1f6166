//! The values of PostgreSQL's settings as its own code reads them: numbers, their units, truth values.
//!
//! Source: `src/backend/utils/misc/guc.c` (`parse_int`, `parse_real`, `convert_to_base_unit`) and
//! `src/backend/utils/adt/bool.c` (`parse_bool_with_len`), PostgreSQL 15 to 18.

/// What a unit measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// In bytes.
    Memory,
    /// In microseconds.
    Time,
}

/// A unit: its size in bytes or microseconds, and which of both.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unit {
    /// How many bytes or microseconds it has.
    pub size: f64,
    pub measure: Measure,
}

/// Blocks of 8 kB, the unit of `shared_buffers` unless the server was built with others.
pub const BLOCKS: Unit = Unit { size: 8192.0, measure: Measure::Memory };

const MEMORY: [(&str, f64); 5] =
    [("TB", 1_099_511_627_776.0), ("GB", 1_073_741_824.0), ("MB", 1_048_576.0), ("kB", 1024.0), ("B", 1.0)];
const TIME: [(&str, f64); 6] = [("d", 86_400e6), ("h", 3_600e6), ("min", 60e6), ("s", 1e6), ("ms", 1e3), ("us", 1.0)];

/// The unit of a name as PostgreSQL writes it; also with a count before it, as `pg_settings.unit` has it (`8kB`).
pub fn unit(name: &str) -> Option<Unit> {
    let at = name.find(|c: char| !c.is_ascii_digit())?;
    let count: f64 = if at == 0 { 1.0 } else { name[..at].parse().ok()? };
    let (size, measure, _) = named(&name[at..])?;
    Some(Unit { size: count * size, measure })
}

/// A unit by its name, case included, with the size of the next smaller one.
fn named(name: &str) -> Option<(f64, Measure, Option<f64>)> {
    let within = |table: &[(&str, f64)], measure| {
        let at = table.iter().position(|(known, _)| *known == name)?;
        Some((table[at].1, measure, table.get(at + 1).map(|(_, size)| *size)))
    };
    within(&MEMORY, Measure::Memory).or_else(|| within(&TIME, Measure::Time))
}

/// A number of an integer setting whose own unit is `base`, in that unit: decimal, octal (`017`), hexadecimal (`0x1F`)
/// or with a fraction, which is rounded; with a unit after it where the setting has one.
///
/// # Errors
/// What is wrong with it, in the words of a message about the setting.
pub fn integer(text: &str, base: Option<Unit>) -> Result<i32, String> {
    let (value, rest) = whole_number(text).ok_or_else(|| format!("`{text}` is no number"))?;
    let value = in_base(value, rest, base)?.round_ties_even();
    // The setting is an int of C; `as` is exact within these bounds.
    if (f64::from(i32::MIN)..=f64::from(i32::MAX)).contains(&value) {
        return Ok(value as i32);
    }
    Err(format!("`{text}` exceeds the range of an integer"))
}

/// A number of a real setting whose own unit is `base`, in that unit.
pub fn real(text: &str, base: Option<Unit>) -> Result<f64, String> {
    let (value, rest) = floating(trim_start(text)).ok_or_else(|| format!("`{text}` is no number"))?;
    in_base(value, rest, base)
}

/// A number in bytes or microseconds with what it measures, for settings of unknown type; a bare one has neither.
pub fn quantity(text: &str) -> Option<(f64, Option<Measure>)> {
    let (value, rest) = floating(trim_start(text))?;
    let name = rest.trim();
    if name.is_empty() {
        return Some((value, None));
    }
    let (size, measure, _) = named(name)?;
    Some((value * size, Some(measure)))
}

/// A truth value: `on`, `off`, `true`, `false`, `yes`, `no` in any case and cut short as long as they are unique,
/// `1`, `0`.
pub fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if text == "1" || begins("true", 1) || begins("yes", 1) || begins("on", 2) {
        return Some(true);
    }
    (text == "0" || begins("false", 1) || begins("no", 1) || begins("off", 2)).then_some(false)
}

/// White space as `isspace` of C sees it.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}')
}

fn trim_start(text: &str) -> &str {
    text.trim_start_matches(is_space)
}

/// As `strtol` with base 0 reads it, or `strtod` where a point or an exponent follows or the number is too long.
fn whole_number(text: &str) -> Option<(f64, &str)> {
    let text = trim_start(text);
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (radix, digits) = match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(hex) if hex.starts_with(|c: char| c.is_ascii_hexdigit()) => (16, hex),
        _ if unsigned.starts_with('0') => (8, unsigned),
        _ => (10, unsigned),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let rest = &digits[end..];
    match i64::from_str_radix(&digits[..end], radix) {
        // Sizes are far below 2^53, and what is above is refused as too large.
        Ok(value) if !rest.starts_with(['.', 'e', 'E']) => {
            let value = value as f64;
            Some((if text.starts_with('-') { -value } else { value }, rest))
        }
        _ => floating(text),
    }
}

/// As `strtod` reads decimal numbers.
fn floating(text: &str) -> Option<(f64, &str)> {
    let bytes = text.as_bytes();
    let digits = |mut at: usize| {
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        at
    };
    let begin = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let mut end = digits(begin);
    let mut count = end - begin;
    if bytes.get(end) == Some(&b'.') {
        let after = digits(end + 1);
        count += after - end - 1;
        end = after;
    }
    if count == 0 {
        return None;
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'-' | b'+')));
        let after = digits(end + 1 + sign);
        if after > end + 1 + sign {
            end = after;
        }
    }
    let value: f64 = text[..end].parse().ok()?;
    value.is_finite().then_some((value, &text[end..]))
}

/// A number with what follows it, in the unit of its setting. A fraction of a unit is rounded to whole ones of the next
/// smaller unit.
fn in_base(value: f64, rest: &str, base: Option<Unit>) -> Result<f64, String> {
    let name = rest.trim_matches(is_space);
    if name.is_empty() {
        return Ok(value);
    }
    let Some(base) = base else { return Err(format!("`{name}` follows the number of a setting without a unit")) };
    match named(name) {
        Some((size, measure, smaller)) if measure == base.measure => {
            let value = value * (size / base.size);
            Ok(smaller.map_or(value, |smaller| {
                let grain = smaller / base.size;
                (value / grain).round_ties_even() * grain
            }))
        }
        _ => Err(format!("`{name}` is no unit of this setting")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_the_server_reads_them() {
        let blocks = |text: &str, expect: Option<i32>| assert_eq!(integer(text, Some(BLOCKS)).ok(), expect, "{text:?}");
        blocks("16384", Some(16384));
        blocks("128MB", Some(16384));
        blocks(" 128 MB ", Some(16384));
        blocks("131072kB", Some(16384));
        blocks("134217728B", Some(16384));
        blocks("0.125GB", Some(16384));
        blocks("1.5GB", Some(196_608));
        blocks("1e-3 TB", Some(131_072));
        blocks("0x4000", Some(16384));
        blocks("0X10MB", Some(2048));
        blocks("010MB", Some(1024));
        blocks("0", Some(0));
        blocks("0MB", Some(0));
        blocks("-1", Some(-1));
        blocks("1B", Some(0));
        blocks("4096B", Some(0));
        blocks("4097B", Some(1));
        blocks("12288B", Some(2));
        blocks("+5", Some(5));
        blocks("16TB", Some(i32::MAX).filter(|_| false));
        for wrong in [
            "",
            " ",
            "MB",
            "08MB",
            "128mb",
            "128Mb",
            "128M",
            "128k",
            "1 2",
            "1MBs",
            "0x",
            "1e",
            "nan",
            "inf",
            "--1",
            "128 M B",
            "1s",
            "99999999999999999999",
            "1e400",
            "é",
            "1é",
        ] {
            blocks(wrong, None);
        }
        assert_eq!(integer("100", None), Ok(100));
        assert_eq!(integer("99.5", None), Ok(100));
        assert_eq!(integer("100.5", None), Ok(100));
        assert!(integer("100MB", None).is_err_and(|why| why.contains("without a unit")));
        let seconds = unit("s");
        assert_eq!(integer("5min", seconds), Ok(300));
        assert_eq!(integer("1500ms", seconds), Ok(2));
        assert!(integer("5MB", seconds).is_err());
        assert_eq!(real("1.5ms", unit("ms")), Ok(1.5));
        assert_eq!(real("010", unit("ms")), Ok(10.0));
    }

    #[test]
    fn truth_values_may_be_cut_short_as_long_as_they_are_unique() {
        for yes in ["on", "ON", "t", "tr", "true", "TRUE", "y", "yes", "1"] {
            assert_eq!(boolean(yes), Some(true), "{yes}");
        }
        for no in ["off", "of", "f", "false", "n", "No", "0"] {
            assert_eq!(boolean(no), Some(false), "{no}");
        }
        for neither in ["", "o", "onn", "10", "01", "truely", "try", "-1", "é"] {
            assert_eq!(boolean(neither), None, "{neither}");
        }
    }

    #[test]
    fn units_have_their_size() {
        assert_eq!(unit("8kB"), Some(BLOCKS));
        assert_eq!(unit("min").map(|unit| unit.size), Some(60e6));
        for wrong in ["", "8", "8KB", "kb", "8 kB"] {
            assert_eq!(unit(wrong), None, "{wrong}");
        }
    }
}
