//! Tables with a column for each CPU: /proc/interrupts and /proc/softirqs.

use crate::CollectContext;
use crate::reading::{WindowStats, increase};
use holdup_model::EvidenceItem;
use std::collections::BTreeMap;

/// Counts by label, summed over CPUs.
pub(crate) type Counts = BTreeMap<String, u64>;

/// Reads such a table.
pub(crate) fn read(path: &str, text: &str) -> Result<Counts, String> {
    let mut lines = text.lines();
    let cpus = lines.next().map_or(0, |head| head.split_ascii_whitespace().filter(|w| w.starts_with("CPU")).count());
    if cpus == 0 {
        return Err(format!("{path} has another form on this kernel: its first line names no CPU"));
    }
    let mut counts = Counts::new();
    for line in lines {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        let numbers: Vec<u64> = words.iter().take(cpus).map_while(|w| w.parse().ok()).collect();
        if numbers.is_empty() {
            continue;
        }
        let name = name.trim();
        let label = match words.get(cpus..).and_then(<[&str]>::last) {
            // A device's own name is the last word; `LOC` and the like explain themselves.
            Some(device) if name.bytes().all(|b| b.is_ascii_digit()) => format!("{name} {device}"),
            _ => name.to_owned(),
        };
        *counts.entry(label).or_default() += numbers.iter().fold(0_u64, |sum, n| sum.saturating_add(*n));
    }
    if counts.is_empty() { Err(format!("{path} has no row")) } else { Ok(counts) }
}

/// The increase of every row that moved.
pub(crate) fn compare(item: &str, before: &Counts, after: &Counts) -> WindowStats {
    let mut stats = WindowStats::default();
    for (label, now) in after {
        match increase(before.get(label).copied().unwrap_or(0), *now) {
            Some(0) => {}
            Some(count) => stats.items.push(EvidenceItem::labelled(item, label, "1", count as f64)),
            None => stats.lost += 1,
        }
    }
    if stats.lost > 0 {
        stats.notes.push(format!("{} counters ran backwards and were left out", stats.lost));
    }
    stats
}

/// Whether a table can be read here.
pub(crate) fn probe(context: &CollectContext, path: &str) -> Result<(), String> {
    context.host.read_text(path).map_err(|e| e.to_string()).and_then(|text| read(path, &text)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_summed_over_cpus_and_devices_are_named() {
        let text = "           CPU0       CPU1\n  4:   7   3   IO-APIC   4-edge   ttyS0\nLOC:  100  200  Local timer interrupts\nERR:  5\n";
        let counts = read("x", text).expect("a table");
        assert_eq!(counts.get("4 ttyS0"), Some(&10));
        assert_eq!(counts.get("LOC"), Some(&300));
        assert_eq!(counts.get("ERR"), Some(&5));
    }

    #[test]
    fn only_rows_that_moved_are_reported() {
        let before = Counts::from([("a".to_owned(), 1), ("b".to_owned(), 9), ("c".to_owned(), 4)]);
        let after = Counts::from([("a".to_owned(), 1), ("b".to_owned(), 2), ("c".to_owned(), 6), ("d".to_owned(), 3)]);
        let stats = compare("i", &before, &after);
        let moved: Vec<(Option<&str>, Option<f64>)> =
            stats.items.iter().map(|i| (i.label.as_deref(), i.value.value())).collect();
        assert_eq!(moved, [(Some("c"), Some(2.0)), (Some("d"), Some(3.0))]);
        assert_eq!(stats.lost, 1);
    }

    #[test]
    fn garbage_is_an_error() {
        for text in ["", "\n\n", "CPU0\n", "no cpu here\nLOC: 1\n"] {
            assert!(read("x", text).is_err(), "{text:?}");
        }
    }
}
