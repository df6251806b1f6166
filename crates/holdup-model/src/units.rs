//! Durations, sizes, and amounts relative to the machine, read from text.

use crate::Machine;

/// What is wrong with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Why it cannot be taken.
    pub why: String,
    /// What to write instead.
    pub hint: Option<String>,
}

impl Wrong {
    /// Without a hint.
    pub fn new(why: impl Into<String>) -> Self {
        Wrong { why: why.into(), hint: None }
    }

    /// With a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Longest unit first, so that a written duration goes from long to short.
const DURATION_UNITS: &[(&str, u64)] = &[
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];

const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1 << 10),
    ("KB", 1 << 10),
    ("KiB", 1 << 10),
    ("MB", 1 << 20),
    ("MiB", 1 << 20),
    ("GB", 1 << 30),
    ("GiB", 1 << 30),
    ("TB", 1 << 40),
    ("TiB", 1 << 40),
];

const DURATION_HINT: &str = "for example \"500ms\", \"2s\", \"1m30s\"; units: h, m, s, ms, us, ns";
const LONGEST_HINT: &str = "the longest duration is about 292 years";
const SIZE_HINT: &str = "for example \"64MB\", \"1GiB\" (both of 1024), \"50% memory\"";

/// A duration such as `500ms`, `1.5s` or `5m30s` in nanoseconds; `None` when the text is none.
/// A bare `0` is one, any other number without a unit is not.
pub fn parse_duration_ns(text: &str) -> Option<u64> {
    duration(text).ok()
}

/// A duration in nanoseconds, at most `i64::MAX`.
pub fn duration(text: &str) -> Result<u64, Wrong> {
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(0);
    }
    if rest.starts_with('-') {
        return Err(Wrong::new("a duration cannot be negative").hint(DURATION_HINT));
    }
    let mut total_ns: u64 = 0;
    let mut last_unit = u64::MAX;
    if rest.is_empty() {
        return Err(Wrong::new("not a duration").hint(DURATION_HINT));
    }
    while !rest.is_empty() {
        let Some((number, after)) = Decimal::take(rest) else {
            return Err(Wrong::new("not a duration").hint(DURATION_HINT));
        };
        let after = after.trim_start();
        let unit_end = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let unit = &after[..unit_end];
        if unit.is_empty() {
            return Err(Wrong::new("a duration needs a unit").hint(DURATION_HINT));
        }
        let Some((_, unit_ns)) = DURATION_UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(Wrong::new("not a unit of time that is known here").hint(DURATION_HINT));
        };
        if *unit_ns >= last_unit {
            return Err(Wrong::new("its units must go from long to short").hint(DURATION_HINT));
        }
        last_unit = *unit_ns;
        let part = number.times(*unit_ns).map_err(|e| e.wrong(("a duration", LONGEST_HINT), "a nanosecond"))?;
        total_ns = total_ns
            .checked_add(part)
            .filter(|ns| *ns <= i64::MAX as u64)
            .ok_or_else(|| Wrong::new("too long").hint(LONGEST_HINT))?;
        rest = after[unit_end..].trim_start();
    }
    Ok(total_ns)
}

/// A size in bytes. A bare number is in bytes.
pub fn size(text: &str) -> Result<u64, Wrong> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err(Wrong::new("a size cannot be negative").hint(SIZE_HINT));
    }
    let Some((number, unit)) = Decimal::take(text) else { return Err(Wrong::new("not a size").hint(SIZE_HINT)) };
    let unit = unit.trim_start();
    let unit_bytes = if unit.is_empty() {
        1
    } else {
        let known = SIZE_UNITS.iter().find(|(name, _)| *name == unit);
        known.ok_or_else(|| Wrong::new("not a unit of size that is known here").hint(SIZE_HINT))?.1
    };
    let bytes = number.times(unit_bytes).map_err(|e| e.wrong(("a size", SIZE_HINT), "a byte"))?;
    if bytes > i64::MAX as u64 {
        return Err(Wrong::new("too large").hint(SIZE_HINT));
    }
    Ok(bytes)
}

/// An amount that depends on the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relative {
    /// A number of CPUs or clients.
    Cpus(i64),
    /// A number of bytes.
    Memory(u64),
}

/// `2x cpus` or `50% memory`; `None` when the text means neither.
///
/// # Errors
/// When the factor or the share is out of bounds.
pub fn relative(text: &str, machine: Machine) -> Option<Result<Relative, Wrong>> {
    let text = text.trim();
    if let Some(front) = text.strip_suffix("cpus").or_else(|| text.strip_suffix("cpu")) {
        let front = front.trim_end().strip_suffix('x')?.trim_end();
        let hint = "for example \"2x cpus\" or \"0.5x cpus\"";
        let number = whole_decimal(front).filter(|n| *n > 0.0);
        return Some(match number.map(|n| (n * f64::from(machine.cpus)).round().max(1.0)) {
            None => Err(Wrong::new("the factor of CPUs must be a number above 0").hint(hint)),
            // f64 holds every whole number up to 2^53.
            Some(count) if count <= 9.0e15 => Ok(Relative::Cpus(count as i64)),
            Some(_) => Err(Wrong::new("too many").hint(hint)),
        });
    }
    if let Some(front) = text.strip_suffix("memory") {
        let front = front.trim_end().strip_suffix('%')?.trim_end();
        let number = whole_decimal(front).filter(|n| *n > 0.0 && *n <= 100.0);
        return Some(match number {
            None => Err(Wrong::new("the share of memory must be above 0 % and at most 100 %")
                .hint("for example \"25% memory\"")),
            Some(percent) => {
                let bytes = machine.memory_bytes as f64 * percent / 100.0;
                Ok(Relative::Memory((bytes.round() as u64).clamp(1, i64::MAX as u64)))
            }
        });
    }
    None
}

/// A text that is a decimal number and nothing else.
fn whole_decimal(text: &str) -> Option<f64> {
    match Decimal::take(text) {
        Some((_, "")) => text.parse().ok().filter(|x: &f64| x.is_finite()),
        _ => None,
    }
}

/// Bytes as PostgreSQL takes them: whole megabytes, or kilobytes below one.
pub fn postgres_size(bytes: u64) -> String {
    if bytes >= 1 << 20 { format!("{}MB", bytes >> 20) } else { format!("{}kB", (bytes >> 10).max(1)) }
}

const SHOWN_DURATIONS: [(i64, &str); 4] = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
const SHOWN_SIZES: [(i64, &str); 4] = [(1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"), (1, "B")];

/// A duration in the largest unit that leaves a whole number: `10us`, `1s`; `0ns`.
pub fn shown_duration(ns: i64) -> String {
    in_largest_unit(ns, SHOWN_DURATIONS)
}

/// A size in the largest unit that leaves a whole number: `128kB`, `1GB`; `0B`.
pub fn shown_size(bytes: i64) -> String {
    in_largest_unit(bytes, SHOWN_SIZES)
}

fn in_largest_unit(n: i64, units: [(i64, &str); 4]) -> String {
    let (unit, name) = units.into_iter().find(|(unit, _)| n != 0 && n % unit == 0).unwrap_or(units[3]);
    format!("{}{name}", n / unit)
}

/// An exact decimal number: `digits / 10^decimals`.
struct Decimal {
    digits: u128,
    decimals: u32,
}

/// Why a multiplication has no whole result.
enum Inexact {
    TooLarge,
    TooFine,
}

impl Inexact {
    fn wrong(self, (what, longest): (&str, &str), smallest: &str) -> Wrong {
        match self {
            Inexact::TooLarge => Wrong::new(format!("too large for {what}")).hint(longest),
            Inexact::TooFine => Wrong::new(format!("not a whole number of the smallest step, {smallest}")),
        }
    }
}

impl Decimal {
    /// The number at the front of a text, and what follows it.
    fn take(text: &str) -> Option<(Self, &str)> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let is_number = !whole.is_empty() && !fraction.contains('.') && number.len() <= 30 && !number.ends_with('.');
        if !is_number {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some((Decimal { digits, decimals: u32::try_from(fraction.len()).ok()? }, rest))
    }

    fn times(&self, unit: u64) -> Result<u64, Inexact> {
        let product = self.digits.checked_mul(u128::from(unit)).ok_or(Inexact::TooLarge)?;
        let scale = 10_u128.checked_pow(self.decimals).ok_or(Inexact::TooFine)?;
        if !product.is_multiple_of(scale) {
            return Err(Inexact::TooFine);
        }
        u64::try_from(product / scale).map_err(|_| Inexact::TooLarge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let check = |text: &str, expect: Result<u64, &str>| {
            let got = duration(text);
            assert_eq!(got.as_ref().map(|ns| *ns).map_err(|w| w.why.as_str()), expect, "{text}");
            assert_eq!(parse_duration_ns(text), expect.ok(), "{text}");
        };
        check("500ms", Ok(500_000_000));
        check("2s", Ok(2_000_000_000));
        check("1.5s", Ok(1_500_000_000));
        check("1500ns", Ok(1_500));
        check("10us", Ok(10_000));
        check("10µs", Ok(10_000));
        check("1h", Ok(3_600_000_000_000));
        check("5m30s", Ok(330_000_000_000));
        check("5m 30s", Ok(330_000_000_000));
        check(" 2 s ", Ok(2_000_000_000));
        check("0", Ok(0));
        check("0s", Ok(0));
        check("0.5ns", Err("not a whole number of the smallest step, a nanosecond"));
        check("30s5m", Err("its units must go from long to short"));
        check("1s1s", Err("its units must go from long to short"));
        check("500", Err("a duration needs a unit"));
        check("", Err("not a duration"));
        check("s", Err("not a duration"));
        check("1.s", Err("not a duration"));
        check(".5s", Err("not a duration"));
        check("1.2.3s", Err("not a duration"));
        check("NaN", Err("not a duration"));
        check("-1s", Err("a duration cannot be negative"));
        check("1e3ms", Err("not a unit of time that is known here"));
        check("2 fortnights", Err("not a unit of time that is known here"));
        check("2600000h", Err("too long"));
        check("2562047h", Ok(9_223_369_200_000_000_000));
        check("99999999999999999999999999999h", Err("too large for a duration"));
    }

    #[test]
    fn sizes() {
        let check = |text: &str, expect: Result<u64, &str>| {
            assert_eq!(size(text).as_ref().map(|b| *b).map_err(|w| w.why.as_str()), expect, "{text}");
        };
        check("64MB", Ok(64 << 20));
        check("1GiB", Ok(1 << 30));
        check("1.5GB", Ok(3 << 29));
        check("8kB", Ok(8192));
        check("17", Ok(17));
        check("17 B", Ok(17));
        check("0.3B", Err("not a whole number of the smallest step, a byte"));
        check("1PB", Err("not a unit of size that is known here"));
        check("1mb", Err("not a unit of size that is known here"));
        check("-1MB", Err("a size cannot be negative"));
        check("", Err("not a size"));
        check("99999999TB", Err("too large for a size"));
    }

    #[test]
    fn relative_amounts() {
        let machine = Machine { cpus: 6, memory_bytes: 8 << 30 };
        let check = |text: &str, expect: Option<Result<Relative, &str>>| {
            let got = relative(text, machine);
            let got = got.as_ref().map(|r| r.as_ref().map(|r| *r).map_err(|w| w.why.as_str()));
            assert_eq!(got, expect, "{text}");
        };
        check("2x cpus", Some(Ok(Relative::Cpus(12))));
        check("1xcpus", Some(Ok(Relative::Cpus(6))));
        check("0.5 x cpus", Some(Ok(Relative::Cpus(3))));
        check("0.25x cpus", Some(Ok(Relative::Cpus(2))));
        check("0.01x cpus", Some(Ok(Relative::Cpus(1))));
        check("0x cpus", Some(Err("the factor of CPUs must be a number above 0")));
        check("-1x cpus", Some(Err("the factor of CPUs must be a number above 0")));
        check("NaNx cpus", Some(Err("the factor of CPUs must be a number above 0")));
        check("infx cpus", Some(Err("the factor of CPUs must be a number above 0")));
        check("99999999999999999999x cpus", Some(Err("too many")));
        check("25% memory", Some(Ok(Relative::Memory(2 << 30))));
        check("0.5 % memory", Some(Ok(Relative::Memory(42_949_673))));
        check("101% memory", Some(Err("the share of memory must be above 0 % and at most 100 %")));
        check("0% memory", Some(Err("the share of memory must be above 0 % and at most 100 %")));
        check("cpus", None);
        check("memory", None);
        check("64", None);
        assert_eq!(postgres_size(2 << 30), "2048MB");
        assert_eq!(postgres_size(1000), "1kB");
        assert_eq!(postgres_size(300 << 10), "300kB");
    }
}
