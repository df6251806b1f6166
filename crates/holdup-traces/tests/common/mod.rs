//! What the tests have in common.
#![allow(dead_code, reason = "each test file uses a part of it")]

use holdup_model::{MemoryBudget, Problem, TooLarge};
use holdup_traces::account::{Account, Finished, Selection, TaskTally};
use holdup_traces::{Bytes, TraceHead, read};
use std::collections::BTreeMap;

/// Reads a trace of these bytes.
pub(crate) fn followed(bytes: &dyn Bytes, selection: Selection) -> Result<(TraceHead, Finished), Problem> {
    within(bytes, selection, &MemoryBudget::default())
}

pub(crate) fn within(
    bytes: &dyn Bytes,
    selection: Selection,
    budget: &MemoryBudget,
) -> Result<(TraceHead, Finished), Problem> {
    let mut account = Account::new(selection, budget);
    let of = |refused: TooLarge| refused.of("it");
    let head = read("it", bytes, budget, &mut |event| account.add(&event).map_err(of))?;
    let finished = account.finish(&head.frames).map_err(of)?;
    Ok((head, finished))
}

/// The numbers of each task over all windows.
pub(crate) fn by_task(finished: &Finished) -> BTreeMap<u32, TaskTally> {
    let mut all: BTreeMap<u32, TaskTally> = BTreeMap::new();
    for (tid, tally) in finished.windows.iter().flat_map(|totals| &totals.tasks) {
        all.entry(*tid).or_default().add(tally.clone());
    }
    all
}
