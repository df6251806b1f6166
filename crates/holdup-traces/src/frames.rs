//! Functions of stacks, each once.

use holdup_model::MemoryBudget;
use holdup_model::stacks::Frame;
use std::collections::BTreeMap;

/// Functions beyond this are one without a name.
const MOST: usize = 1 << 20;

pub(crate) struct Interner {
    numbers: BTreeMap<Frame, u32>,
    budget: MemoryBudget,
}

/// Memory of a function in a map or a list, bytes.
pub(crate) fn frame_bytes(frame: &Frame) -> u64 {
    (2 * size_of::<Frame>() + frame.function.len() + frame.module.as_ref().map_or(0, String::len)) as u64
}

impl Interner {
    pub(crate) fn new(budget: &MemoryBudget) -> Self {
        Interner { numbers: BTreeMap::new(), budget: budget.clone() }
    }

    /// The number of a function. A trace with one that there is no memory for is refused when it was read.
    pub(crate) fn number(&mut self, frame: Frame) -> u32 {
        if let Some(known) = self.numbers.get(&frame) {
            return *known;
        }
        let next = self.numbers.len();
        let has_room = next < MOST && self.budget.take(frame_bytes(&frame)).is_ok();
        let frame = if has_room { frame } else { Frame { function: "[unknown]".to_owned(), module: None, ..frame } };
        *self.numbers.entry(frame).or_insert(next as u32)
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn frames(self) -> Vec<Frame> {
        let mut all: Vec<(u32, Frame)> = self.numbers.into_iter().map(|(frame, number)| (number, frame)).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, frame)| frame).collect()
    }
}
