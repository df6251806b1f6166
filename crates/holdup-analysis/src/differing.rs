//! What differs between the boots of two arms besides what was chosen.

use holdup_model::BundleData;
use std::collections::{BTreeMap, BTreeSet};

/// They say which kernel it is, which the reader knows.
const OF_THE_CHOICE: [&str; 4] = ["kernel.release", "kernel.version", "guest.kernel_sha256", "guest.kernel_source"];

/// A value of this many words is a list, of which only what differs is of interest.
const WORDS_OF_A_LIST: usize = 4;

/// The facts that have one value at all boots of the first arm and another at all boots of the second, in words.
pub fn differing_facts(bundle: &BundleData, first: u32, second: u32) -> Vec<String> {
    let of_arm = |arm: u32| -> BTreeMap<&str, BTreeSet<&str>> {
        let planned = bundle.schedule.trials.iter();
        let boots: BTreeSet<u32> = planned.filter(|trial| trial.arm == arm).map(|trial| trial.boot).collect();
        let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for reading in bundle.environment.iter().filter(|reading| boots.contains(&reading.boot)) {
            for fact in &reading.facts {
                values.entry(&fact.key).or_default().extend(fact.value.as_deref());
            }
        }
        values
    };
    let (first, second) = (of_arm(first), of_arm(second));
    let only = |values: Option<&BTreeSet<&str>>| match values?.iter().collect::<Vec<_>>()[..] {
        [one] => Some((*one).to_owned()),
        _ => None,
    };
    let keys = first.keys().filter(|key| !OF_THE_CHOICE.contains(*key));
    keys.filter_map(|key| {
        let (old, new) = (only(first.get(key))?, only(second.get(key))?);
        (old != new).then(|| format!("{key}: {}", change(&old, &new)))
    })
    .collect()
}

fn change(old: &str, new: &str) -> String {
    let words = |text: &str| -> Vec<String> { text.split_ascii_whitespace().map(str::to_owned).collect() };
    let (had, has) = (words(old), words(new));
    if had.len().min(has.len()) < WORDS_OF_A_LIST {
        return format!("{new}, before {old}");
    }
    let without = |all: &[String], others: &[String]| -> String {
        all.iter().filter(|word| !others.contains(word)).cloned().collect::<Vec<_>>().join(" ")
    };
    match (without(&has, &had), without(&had, &has)) {
        (came, gone) if gone.is_empty() => format!("{came} came"),
        (came, gone) if came.is_empty() => format!("{gone} went"),
        (came, gone) => format!("{came}, before {gone}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_lists_only_what_differs_is_said() {
        assert_eq!(change("voluntary", "lazy"), "lazy, before voluntary");
        let (old, new) = ("A NO_B C D", "A B C D E");
        assert_eq!(change(old, new), "B E, before NO_B");
        assert_eq!(change("A B C D", "A B C D E"), "E came");
        assert_eq!(change("A B C D E", "A B C D"), "E went");
    }
}
