//! N workers that take one lock, work, and give it back: the programs of `lock-contention`.

use crate::program::{Op, Program};
use crate::random::Span;
use crate::world::{Load, RegionSpec, TaskSpec};

/// What an arm says.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// How many workers.
    pub workers: u32,
    /// The lock.
    pub algorithm: &'static str,
    /// Work inside the lock, ns.
    pub section_ns: u64,
    /// Work outside, ns.
    pub think_ns: u64,
    /// Whether workers are processes.
    pub processes: bool,
    /// First touches inside the lock.
    pub faults: u32,
    /// Whether they touch huge pages.
    pub huge: bool,
    /// Whether worker i stays on CPU i, round and round.
    pub pin: bool,
}

/// Lines of the kernel that a fault writes and that the fault before may have written on another CPU, as threads of a
/// process share page tables: what a fault takes longer with two threads than with one, over what a line takes.
const FAULT_LINES: u32 = 7;

/// The workers.
pub fn load(setup: &Setup, cpus: u32) -> Load {
    // The counter that shows whether the lock protects. Where threads touch pages also the cursor that goes through them,
    // and what the kernel has of an address space: its VMA, its counters, the page tables and the pages themselves.
    let lines = if setup.faults > 0 && !setup.processes { 2 + FAULT_LINES * setup.faults } else { 1 };
    let mut ops = vec![Op::Lock(0), Op::Data { lock: 0, lines }];
    if setup.faults > 0 {
        ops.push(Op::Touch { region: 0, pages: setup.faults });
    }
    ops.extend([
        Op::Compute(nearly(setup.section_ns)),
        Op::Unlock(0),
        Op::Done(0),
        Op::Compute(nearly(setup.think_ns)),
        Op::Jump(0),
    ]);
    let task = |number: u32| TaskSpec {
        program: 0,
        weight: 1024,
        pinned: setup.pin.then(|| number % cpus),
        process: if setup.processes { number } else { 0 },
    };
    let steps = if setup.huge { 512 } else { 1 };
    Load {
        programs: vec![Program { name: "worker".to_owned(), ops }],
        tasks: (0..setup.workers).map(task).collect(),
        locks: vec![setup.algorithm],
        regions: vec![RegionSpec { pages: 512, huge: setup.huge, steps }],
        channels: Vec::new(),
        devices: Vec::new(),
        marks: 1,
    }
}

/// Work takes not always the same time on a real CPU. Workers whose work did would keep step with one another and never
/// meet at the lock.
fn nearly(ns: u64) -> Span {
    Span::Uniform(ns - ns / 50, ns + ns / 50)
}
