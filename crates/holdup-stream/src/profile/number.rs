//! Sizes, times and counts as uperf spells them (uperf 1.0.8: numbers.c).

use super::faults::Wrong;
use super::{MOST_DURATION_NS, MOST_ITERATIONS};

const SIZE_HINT: &str = "for example 64, 8k, 64k, 1m, 0.5g; k, m, g are of 1024";
const TIME_HINT: &str = "for example 30, 30s, 100ms, 5us, 10ns; without a unit it is seconds";

/// A number and what stands behind it.
struct Decimal<'a> {
    whole: u64,
    /// Digits behind the point, without it.
    fraction: &'a str,
    unit: String,
}

impl<'a> Decimal<'a> {
    /// Takes a text apart; `None` when it does not begin with a number.
    fn take(text: &'a str) -> Option<Result<Self, Wrong>> {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (whole, mut rest) = text.split_at(end);
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            (fraction, rest) = after.split_at(end);
        }
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let significant = whole.trim_start_matches('0');
        // More digits are above every bound anyway, and more behind the point are below a nanosecond of a day.
        if significant.len() > 18 {
            return Some(Err(Wrong::new("too large")));
        }
        let whole = significant.parse().unwrap_or(0);
        let fraction = fraction.get(..18).unwrap_or(fraction);
        Some(Ok(Decimal { whole, fraction, unit: rest.to_ascii_lowercase() }))
    }

    /// The number times the unit, in the smallest unit, truncated.
    fn times(&self, unit: u64) -> u64 {
        let whole = u128::from(self.whole) * u128::from(unit);
        let digits: u128 = self.fraction.parse().unwrap_or(0);
        let scale = 10u128.pow(u32::try_from(self.fraction.len()).unwrap_or(18));
        u64::try_from(whole.saturating_add(digits * u128::from(unit) / scale)).unwrap_or(u64::MAX)
    }
}

/// A size or any other number of uperf's `string_to_int`, at most `most`, with the unit's name for messages.
pub(super) fn size(text: &str, most: u64) -> Result<u64, Wrong> {
    let Some(decimal) = Decimal::take(text) else { return Err(Wrong::new("not a number").hint(SIZE_HINT)) };
    let decimal = decimal?;
    let unit = match decimal.unit.as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(Wrong::new("its unit is not known").hint(SIZE_HINT)),
    };
    let number = decimal.times(unit);
    if number > most { Err(too_large(most)) } else { Ok(number) }
}

/// A plain number, at most `most`. uperf reads these with `atoi`, which takes `10k` for 10.
pub(super) fn plain(text: &str, most: u64) -> Result<u64, Wrong> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Wrong::new("not a whole number").hint("digits only; this option takes no unit"));
    }
    match text.parse() {
        Ok(number) if number <= most => Ok(number),
        _ => Err(too_large(most)),
    }
}

/// A time in nanoseconds, above 0, and whether its unit was the `m` that uperf takes for milliseconds.
pub(super) fn time_ns(text: &str) -> Result<(u64, bool), Wrong> {
    let Some(decimal) = Decimal::take(text) else { return Err(Wrong::new("not a time").hint(TIME_HINT)) };
    let decimal = decimal?;
    let unit = match decimal.unit.as_str() {
        "" | "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "m" | "ms" | "msec" | "msecs" => 1_000_000,
        "u" | "us" | "usec" | "usecs" => 1_000,
        "n" | "ns" | "nsec" | "nsecs" => 1,
        unit if unit.starts_with("mi") => {
            return Err(Wrong::new("minutes are no unit of uperf, which would take them for milliseconds")
                .hint("write the time in seconds"));
        }
        _ => return Err(Wrong::new("its unit is not known").hint(TIME_HINT)),
    };
    match decimal.times(unit) {
        0 => Err(Wrong::new("no time at all").hint("uperf takes no time of 0 either")),
        ns if ns > MOST_DURATION_NS => Err(Wrong::new("too long").hint("at most 86400s, a day")),
        ns => Ok((ns, decimal.unit == "m")),
    }
}

fn too_large(most: u64) -> Wrong {
    let bound = match most {
        MOST_ITERATIONS => "2147483647".to_owned(),
        _ if most.is_multiple_of(1 << 30) => format!("{}g ({most})", most >> 30),
        _ => most.to_string(),
    };
    Wrong::new("too large").hint(format!("at most {bound}"))
}
