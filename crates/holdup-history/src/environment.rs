//! What of the environment changed where results changed.

use crate::words;
use holdup_model::kept::{ChangedSeries, KeptHistory};
use std::collections::{BTreeMap, BTreeSet};

/// Runs on each side of a change whose facts are compared: a fact that differs among them changes by itself.
const NEIGHBOURS: usize = 3;

/// The runs whose facts [`named`] needs, as places in the history's list.
pub fn runs_near_changes(history: &KeptHistory) -> BTreeSet<usize> {
    let near = |series: &ChangedSeries| -> Vec<usize> {
        series.changes.iter().flat_map(|c| sides(series, c.at)).flatten().copied().collect()
    };
    history.series.iter().flat_map(near).collect()
}

fn sides(series: &ChangedSeries, at: usize) -> [&[usize]; 2] {
    let end = (at + NEIGHBOURS).min(series.runs.len());
    [&series.runs[at.saturating_sub(NEIGHBOURS)..at], &series.runs[at..end]]
}

/// The history with what changed in the environment at each change. `facts` are those of runs by their place.
pub fn named(mut history: KeptHistory, facts: &BTreeMap<usize, BTreeMap<String, String>>) -> KeptHistory {
    for series in &mut history.series {
        let environments: Vec<Vec<String>> = series
            .changes
            .iter()
            .map(|change| {
                let of_side = |side: &[usize]| side.iter().filter_map(|run| facts.get(run)).collect::<Vec<_>>();
                let [before, after] = sides(series, change.at).map(of_side);
                changed(&before, &after)
            })
            .collect();
        for (change, environment) in series.changes.iter_mut().zip(environments) {
            change.environment = environment;
        }
    }
    history.findings = words::findings(&history);
    history
}

/// Facts with one value on each side that are not the same.
fn changed(before: &[&BTreeMap<String, String>], after: &[&BTreeMap<String, String>]) -> Vec<String> {
    let keys: BTreeSet<&String> = before.iter().chain(after).flat_map(|facts| facts.keys()).collect();
    let only = |side: &[&BTreeMap<String, String>], key: &str| -> Option<String> {
        let values: BTreeSet<&str> = side.iter().filter_map(|facts| facts.get(key)).map(String::as_str).collect();
        (values.len() == 1 && side.iter().all(|facts| facts.contains_key(key)))
            .then(|| values.into_iter().collect::<String>())
    };
    keys.into_iter()
        .filter_map(|key| {
            let (old, new) = (only(before, key)?, only(after, key)?);
            (old != new).then(|| format!("{key}: {old} → {new}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_by_itself_is_no_change_of_the_environment() {
        let facts = |kernel: &str, load: &str| -> BTreeMap<String, String> {
            [("kernel", kernel), ("load", load)].into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect()
        };
        let runs = [facts("6.1", "1"), facts("6.1", "2"), facts("6.2", "3"), facts("6.2", "4")];
        let all: Vec<&BTreeMap<String, String>> = runs.iter().collect();
        assert_eq!(changed(&all[..2], &all[2..]), ["kernel: 6.1 → 6.2"]);
        assert!(changed(&all[..1], &[]).is_empty());
    }
}
