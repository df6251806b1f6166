//! What is exported: one file for each source of families, and its line in [`ALL`].
//!
//! Names and units follow Prometheus: base units, the unit last, `_total` for counters (which the exposition adds). Labels are
//! names of things on the host, never texts of queries, and each family has a bounded number of series.

mod account;
mod causes;
mod critical_sections;
mod faults;
mod host;
mod own;
mod postgres;
mod switches;

use holdup_model::explanation::ArmExplanation;
use holdup_model::{Collected, SparseHistogram, Trial};

/// All families, source by source.
pub(crate) const ALL: &[&[Family]] = &[
    account::FAMILIES,
    causes::FAMILIES,
    critical_sections::FAMILIES,
    faults::FAMILIES,
    host::FAMILIES,
    own::FAMILIES,
    postgres::FAMILIES,
    switches::FAMILIES,
];

/// What kind of family it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution of durations.
    Histogram,
}

impl Kind {
    /// Its name in the formats of exposition.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// All families, source by source.
pub fn all() -> impl Iterator<Item = &'static Family> {
    ALL.iter().copied().flatten()
}

impl Family {
    /// Its name in a query: that of a counter ends in `_total`.
    pub fn exposed_name(&self) -> String {
        exposed_name(self.name, self.kind)
    }
}

/// The name of a family in a query.
pub(crate) fn exposed_name(name: &str, kind: Kind) -> String {
    if kind == Kind::Counter { format!("{name}_total") } else { name.to_owned() }
}

/// One family: what it is, and how it is read from a window.
#[derive(Clone, Copy)]
pub struct Family {
    /// Its name without `_total`, unit last.
    pub name: &'static str,
    /// One sentence.
    pub help: &'static str,
    pub kind: Kind,
    /// Its unit (`seconds`); empty for counts.
    pub unit: &'static str,
    /// The names of its labels, in the order of their values. `watched` stands before them in every series.
    pub labels: &'static [&'static str],
    /// Reads it from a window.
    pub(crate) read: fn(&Seen<'_>, &mut Sink<'_>),
}

/// A window, and what can be said about it alone.
pub(crate) struct Seen<'a> {
    pub(crate) trial: &'a Trial,
    pub(crate) alone: Option<&'a ArmExplanation>,
    /// CPUs of the machine.
    pub(crate) cpus: f64,
    /// Length of the window, s.
    pub(crate) length_s: f64,
}

/// Takes what a family has in a window: values of labels, and how much is added (of a gauge: what it is now).
pub(crate) type Sink<'a> = dyn FnMut(&[&str], Reading<'_>) + 'a;

/// What is added to one series.
pub(crate) enum Reading<'a> {
    Number(f64),
    Durations(&'a SparseHistogram),
}

impl<'a> Seen<'a> {
    /// A window on a machine with this number of CPUs; `None` where it never opened.
    pub(crate) fn of(trial: &'a Trial, alone: Option<&'a ArmExplanation>, cpus: u32) -> Option<Self> {
        let length_s = trial.window?.length_ns as f64 / 1e9;
        Some(Seen { trial, alone, cpus: f64::from(cpus), length_s })
    }

    pub(crate) fn collector(&self, id: &str) -> Option<&'a Collected> {
        self.trial.evidence.iter().find(|c| c.collector == id)
    }

    /// The items of this name that have a value, with their labels.
    pub(crate) fn items(&self, id: &str, name: &str) -> impl Iterator<Item = (&'a str, f64)> {
        let items = self.collector(id).map_or(&[][..], |c| c.items.as_slice());
        items
            .iter()
            .filter(move |item| item.name == name)
            .filter_map(|item| Some((item.label.as_deref().unwrap_or_default(), item.value.value()?)))
    }

    pub(crate) fn histograms(&self, id: &str, name: &str) -> impl Iterator<Item = (&'a str, &'a SparseHistogram)> {
        let histograms = self.collector(id).map_or(&[][..], |c| c.histograms.as_slice());
        histograms
            .iter()
            .filter(move |h| h.name == name)
            .map(|h| (h.label.as_deref().unwrap_or_default(), &h.histogram))
    }
}

/// A label of evidence in its parts: `A | B | C`, `A < B`, `A: B`. Missing ones are empty.
pub(crate) fn parts<'a, const N: usize>(label: &'a str, between: &str) -> [&'a str; N] {
    let mut parts = label.splitn(N, between);
    std::array::from_fn(|_| parts.next().unwrap_or_default())
}

/// A word as a value of a label: `behind own tasks` is `behind_own_tasks`.
pub(crate) fn word(text: &str) -> String {
    text.chars().map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect()
}

/// Adds every item of this name under its label.
pub(crate) fn each(seen: &Seen<'_>, id: &str, name: &str, into: &mut Sink<'_>) {
    seen.items(id, name).for_each(|(label, value)| into(&[label], Reading::Number(value)));
}

/// Adds every item of this name under two labels, which are the parts of its label.
pub(crate) fn pairs(seen: &Seen<'_>, id: &str, name: &str, between: &str, into: &mut Sink<'_>) {
    for (label, value) in seen.items(id, name) {
        let [a, b] = parts(label, between);
        into(&[a, b], Reading::Number(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let mut names = BTreeSet::new();
        for family in all() {
            let name = family.name;
            assert!(names.insert(name), "{name} is there twice");
            assert!(name.starts_with("holdup_") && !name.ends_with("_total"), "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{name}");
            assert!(family.unit.is_empty() || name.ends_with(&format!("_{}", family.unit)), "{name}: the unit is last");
            assert!(["", "seconds", "bytes", "ratio"].contains(&family.unit), "{name}: a base unit");
            assert!(family.help.ends_with('.') && family.help.len() < 200, "{name}");
            assert!(family.labels.iter().all(|l| !["le", "watched", "job", "instance"].contains(l)), "{name}");
        }
    }

    #[test]
    fn a_label_has_as_many_parts_as_are_asked_for() {
        assert_eq!(
            parts::<3>("client backend | asleep | Lock:tuple", " | "),
            ["client backend", "asleep", "Lock:tuple"]
        );
        assert_eq!(parts::<3>("server | on CPU", " | "), ["server", "on CPU", ""]);
        assert_eq!(parts::<2>("a: b: c", ": "), ["a", "b: c"]);
        assert_eq!(word("user boundary (R)"), "user_boundary__r_");
    }
}
