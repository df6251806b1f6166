//! Functions of stacks, each once.

use holdup_model::stacks::Frame;
use std::collections::BTreeMap;

/// Functions beyond this are one without a name.
const MOST: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Interner {
    numbers: BTreeMap<Frame, u32>,
}

impl Interner {
    /// The number of a function.
    pub(crate) fn number(&mut self, frame: Frame) -> u32 {
        let next = self.numbers.len();
        let frame = if next < MOST { frame } else { Frame { function: "[unknown]".to_owned(), module: None, ..frame } };
        *self.numbers.entry(frame).or_insert(next as u32)
    }

    /// All of them, in the order of their numbers.
    pub(crate) fn frames(self) -> Vec<Frame> {
        let mut all: Vec<(u32, Frame)> = self.numbers.into_iter().map(|(frame, number)| (number, frame)).collect();
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, frame)| frame).collect()
    }
}
