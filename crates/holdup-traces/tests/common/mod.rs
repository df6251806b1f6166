//! What the tests have in common.
#![allow(dead_code, reason = "each test file uses a part of it")]

use holdup_model::Problem;
use holdup_traces::account::{Account, Finished, Selection, TaskTally};
use holdup_traces::{Bytes, TraceHead, read};
use std::collections::BTreeMap;

/// Reads a trace of these bytes.
pub(crate) fn followed(bytes: &dyn Bytes, selection: Selection) -> Result<(TraceHead, Finished), Problem> {
    let mut account = Account::new(selection);
    let head = read("it", bytes, &mut |event| {
        account.add(&event);
        Ok(())
    })?;
    let finished = account.finish(&head.frames);
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
