//! What `holdup tune` tries: knobs and settings of servers with levels that are worth a trial, one file for each group.

mod memory;
mod postgres;
mod power;
mod scheduler;

/// Something that is tried, at several levels beside the one that is in force.
#[derive(Debug, Clone, Copy)]
pub struct Tunable {
    /// Its name: that of the knob, where it sets one.
    pub name: &'static str,
    /// What it may cost to be wrong about it.
    pub class: Class,
    /// True if its levels lie in an order, so that neighbours are alike.
    pub is_ordered: bool,
    /// The levels. One that is in force already is not tried.
    pub levels: Levels,
    /// What speaks for it, in half a sentence.
    pub why: &'static str,
}

/// Levels of a [`Tunable`].
#[derive(Debug, Clone, Copy)]
pub enum Levels {
    /// Values of the knob that it is named after, as in a plan.
    Of(&'static [&'static str]),
    /// Several knobs that belong together: a label, and each knob with its value.
    Together(&'static [(&'static str, &'static [(&'static str, &'static str)])]),
}

/// What a wrong value may cost beside time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing: it can be put back, and nothing is lost.
    Safe,
    /// What was committed last may be lost in a crash; the database stays whole.
    Durability,
    /// The database may be broken after a crash, or grow without bound.
    Risky,
}

impl Class {
    pub const ALL: [Class; 3] = [Class::Safe, Class::Durability, Class::Risky];

    /// How `--knobs` names it.
    pub fn name(self) -> &'static str {
        match self {
            Class::Safe => "safe",
            Class::Durability => "durability",
            Class::Risky => "risky",
        }
    }
}

/// Tunables that are named together.
pub struct Group {
    /// How `--knobs` names it.
    pub id: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Its members.
    pub tunables: &'static [Tunable],
}

pub const ALL: &[Group] = &[scheduler::GROUP, memory::GROUP, power::GROUP, postgres::GROUP];

/// What a value of [`Levels::Together`] is for the pages that the largest of the tried buffer pools needs.
pub const PAGES_OF_POOL: &str = "pages of the buffer pool";

impl Tunable {
    const fn safe(name: &'static str, levels: &'static [&'static str], why: &'static str) -> Tunable {
        Tunable { name, class: Class::Safe, is_ordered: false, levels: Levels::Of(levels), why }
    }

    const fn ordered(name: &'static str, levels: &'static [&'static str], why: &'static str) -> Tunable {
        Tunable { is_ordered: true, ..Tunable::safe(name, levels, why) }
    }

    const fn of(self, class: Class) -> Tunable {
        Tunable { class, ..self }
    }

    /// Each level with its label and what it sets, as (knob, value).
    pub fn choices(&self) -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
        match self.levels {
            Levels::Of(values) => values.iter().map(|value| (*value, vec![(self.name, *value)])).collect(),
            Levels::Together(choices) => choices.iter().map(|(label, sets)| (*label, sets.to_vec())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tunable_sets_knobs_that_exist_and_has_levels() {
        let mut names = Vec::new();
        for tunable in ALL.iter().flat_map(|group| group.tunables) {
            assert!(!names.contains(&tunable.name), "{} stands there twice", tunable.name);
            names.push(tunable.name);
            assert!((1..8).contains(&tunable.choices().len()), "{}", tunable.name);
            for (label, sets) in tunable.choices() {
                assert!(!sets.is_empty() && !label.is_empty());
                for (knob, _) in sets {
                    assert!(crate::find(knob).is_some(), "{} sets {knob}", tunable.name);
                }
            }
        }
    }

    #[test]
    fn what_may_lose_data_is_not_called_safe() {
        for (name, least) in [
            ("postgres.fsync", Class::Risky),
            ("postgres.full_page_writes", Class::Risky),
            ("postgres.autovacuum", Class::Risky),
            ("postgres.synchronous_commit", Class::Durability),
        ] {
            let tunable = ALL.iter().flat_map(|group| group.tunables).find(|t| t.name == name).unwrap();
            assert!(tunable.class >= least, "{name}");
        }
    }
}
