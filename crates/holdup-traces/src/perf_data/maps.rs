//! Which file an address lies in: perf.data has no names of functions, so a frame is a file and a place in it.

use crate::bytes::{u32_at, u64_at};
use crate::frames::Interner;
use holdup_model::MemoryBudget;
use holdup_model::stacks::{Frame, FrameKind};
use std::collections::BTreeMap;

/// More mappings than this are not kept.
const MOST: usize = 200_000;

/// The longest name of a file (linux/limits.h). Children have the names of their parents' mappings.
const NAME_MAX: usize = 255;

/// The process of mappings of the kernel.
const KERNEL: u32 = u32::MAX;

/// Addresses from here on are marks in a chain (enum perf_callchain_context, linux/perf_event.h).
const FIRST_MARK: u64 = -4095_i64 as u64;
const MARK_KERNEL: u64 = -128_i64 as u64;
const MARK_USER: u64 = -512_i64 as u64;

#[derive(Clone)]
struct Mapping {
    end: u64,
    /// The place in its file that its first byte is.
    at: u64,
    name: String,
}

pub(super) struct Maps {
    of_process: BTreeMap<u32, BTreeMap<u64, Mapping>>,
    count: usize,
    pub(super) interner: Interner,
}

impl Maps {
    pub(super) fn new(budget: &MemoryBudget) -> Self {
        Maps { of_process: BTreeMap::new(), count: 0, interner: Interner::new(budget) }
    }

    /// Takes a record of a mapping; `begin` is where the name of its file stands.
    pub(super) fn add(&mut self, body: &[u8], begin: usize) {
        let (Some(pid), Some(address), Some(length), Some(at)) =
            (u32_at(body, 0), u64_at(body, 8), u64_at(body, 16), u64_at(body, 24))
        else {
            return;
        };
        let name = body.get(begin..).unwrap_or_default().split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name);
        // That of the kernel ends with the symbol that it begins with: `[kernel.kallsyms]_text`.
        let (name, at) = match name.starts_with("[kernel.kallsyms]") {
            true => ("[kernel]".to_owned(), 0),
            false => (name.rsplit('/').next().unwrap_or_default().chars().take(NAME_MAX).collect(), at),
        };
        if self.count < MOST {
            self.count += 1;
            let mapping = Mapping { end: address.saturating_add(length), at, name };
            self.of_process.entry(pid).or_default().insert(address, mapping);
        }
    }

    /// A process begins with the mappings of the one that made it.
    pub(super) fn fork(&mut self, parent: u32, child: u32) {
        if parent == child || self.of_process.contains_key(&child) {
            return;
        }
        let Some(maps) = self.of_process.get(&parent).filter(|maps| self.count + maps.len() < MOST).cloned() else {
            return;
        };
        self.count += maps.len();
        self.of_process.insert(child, maps);
    }

    /// A process runs another program.
    pub(super) fn exec(&mut self, pid: u32) {
        if let Some(maps) = self.of_process.remove(&pid) {
            self.count -= maps.len();
        }
    }

    /// The numbers of the frames of a chain, outermost first.
    pub(super) fn stack(&mut self, pid: u32, chain: &[u8]) -> Vec<u32> {
        let mut kind = FrameKind::User;
        let mut stack = Vec::with_capacity(chain.len() / 8);
        for address in chain.chunks_exact(8).filter_map(|bytes| u64_at(bytes, 0)) {
            match address {
                MARK_KERNEL => kind = FrameKind::Kernel,
                MARK_USER => kind = FrameKind::User,
                FIRST_MARK.. => {}
                _ => {
                    let frame = self.frame(pid, address, kind);
                    stack.push(self.interner.number(frame));
                }
            }
        }
        stack.reverse();
        stack
    }

    fn frame(&self, pid: u32, address: u64, kind: FrameKind) -> Frame {
        let pid = if kind == FrameKind::Kernel { KERNEL } else { pid };
        let of = self.of_process.get(&pid).and_then(|maps| maps.range(..=address).next_back());
        match of.filter(|(_, mapping)| address < mapping.end) {
            Some((begin, mapping)) => {
                let name = mapping.name.trim_matches(['[', ']']);
                let place = (address - begin).saturating_add(mapping.at);
                Frame { function: format!("[{name}+{place:#x}]"), module: Some(mapping.name.clone()), kind }
            }
            None => Frame { function: "[unknown]".to_owned(), module: None, kind },
        }
    }
}
