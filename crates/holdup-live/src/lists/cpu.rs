//! What tasks do on a CPU, by samples of their stacks.

use super::{CellKind, List, Row, column};
use crate::stacks;
use holdup_model::{BundleData, StackProfile};
use std::collections::BTreeMap;

pub(super) const LIST: List = List {
    title: "CPU",
    columns: &[column("function, module", CellKind::Text), column("of samples", CellKind::Share)],
    empty: "there are no samples of stacks (collector cpu-profile, which takes root)",
    rows,
    more: Some(more),
    has_stacks: false,
};

fn name(profile: &StackProfile, frame: u32) -> String {
    let frame = profile.frames.get(frame as usize);
    frame.map_or_else(|| "[unknown]".to_owned(), |f| format!("{}, {}", f.function, f.module.as_deref().unwrap_or("?")))
}

/// The innermost functions of watched tasks.
fn rows(bundle: &BundleData) -> Vec<Row> {
    let (mut by, mut all) = (BTreeMap::new(), 0_u64);
    for profile in bundle.trials.iter().flat_map(|trial| stacks::profiles(trial, "on_cpu")) {
        for stack in profile.stacks.iter().filter(|s| s.role.is_some()) {
            let Some(last) = stack.frames.last() else { continue };
            *by.entry(name(profile, *last)).or_insert(0_u64) += stack.weight;
            all += stack.weight;
        }
    }
    by.into_iter().map(|(name, n)| Row::new(name, vec![Some(n as f64 / all.max(1) as f64)])).collect()
}

/// The stacks that end in a function.
fn more(bundle: &BundleData, wanted: &str) -> Vec<String> {
    stacks::lines(bundle, "on_cpu", 12, |_, profile, stack| {
        stack.frames.last().is_some_and(|last| name(profile, *last) == wanted)
    })
}
