//! What tasks do on a CPU, by samples of their stacks.

use super::{CellKind, List, Row, column};
use holdup_model::{BundleData, StackProfile};
use std::collections::BTreeMap;

pub(super) const LIST: List = List {
    title: "CPU",
    columns: &[column("function, module", CellKind::Text), column("of samples", CellKind::Share)],
    empty: "there are no samples of stacks (collector cpu-profile, which takes root)",
    rows,
    more: Some(more),
};

fn profiles(bundle: &BundleData) -> impl Iterator<Item = &StackProfile> {
    let collected = bundle.trials.iter().flat_map(|t| &t.evidence).filter(|c| c.collector == "cpu-profile");
    collected.flat_map(|c| &c.stacks).filter(|p| p.name == "on_cpu")
}

fn name(profile: &StackProfile, frame: u32) -> String {
    let frame = profile.frames.get(frame as usize);
    frame.map_or_else(|| "[unknown]".to_owned(), |f| format!("{}, {}", f.function, f.module.as_deref().unwrap_or("?")))
}

/// The innermost functions of watched tasks.
fn rows(bundle: &BundleData) -> Vec<Row> {
    let (mut by, mut all) = (BTreeMap::new(), 0_u64);
    for profile in profiles(bundle) {
        for stack in profile.stacks.iter().filter(|s| s.role.is_some()) {
            let Some(last) = stack.frames.last() else { continue };
            *by.entry(name(profile, *last)).or_insert(0_u64) += stack.weight;
            all += stack.weight;
        }
    }
    by.into_iter().map(|(name, n)| Row { name, numbers: vec![Some(n as f64 / all.max(1) as f64)] }).collect()
}

/// The stacks that end in a function, the heaviest first, innermost functions first.
fn more(bundle: &BundleData, wanted: &str) -> Vec<String> {
    let mut stacks: BTreeMap<Vec<String>, u64> = BTreeMap::new();
    for profile in profiles(bundle) {
        for stack in profile.stacks.iter().filter(|s| s.role.is_some()) {
            if stack.frames.last().is_some_and(|last| name(profile, *last) == wanted) {
                let names = stack.frames.iter().rev().map(|frame| name(profile, *frame)).collect();
                *stacks.entry(names).or_insert(0) += stack.weight;
            }
        }
    }
    let mut stacks: Vec<(Vec<String>, u64)> = stacks.into_iter().collect();
    stacks.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let line = |(names, n): &(Vec<String>, u64)| {
        let head = format!("{n} samples");
        std::iter::once(head).chain(names.iter().take(8).map(|name| format!("  {name}"))).collect::<Vec<_>>()
    };
    stacks.iter().take(4).flat_map(line).collect()
}
