//! Call stacks with weights: where CPU time went, or where tasks waited.

use serde::{Deserialize, Serialize};

/// Where a frame's code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FrameKind {
    /// A function of a program or library.
    User,
    /// A function that the compiler put into its caller; known from debug information.
    Inlined,
    /// A function of the kernel.
    Kernel,
}

/// One function in a stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Frame {
    /// The function, demangled; `[unknown]` where no symbol covers the address.
    pub function: String,
    /// The file that it lies in (`postgres`, `libc.so.6`), `[kernel]` or the kernel's module; `None` when unknown.
    pub module: Option<String>,
    /// Where its code runs.
    pub kind: FrameKind,
}

/// One distinct stack of one task name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The task's name (`postgres`).
    pub task: String,
    /// The role of its process under test (`server`, `load`); `None` for tasks outside.
    pub role: Option<String>,
    /// Indexes into [`StackProfile::frames`], outermost function first.
    pub frames: Vec<u32>,
    /// How much of [`StackProfile::unit`] was seen with this stack.
    pub weight: u64,
}

/// Stacks that were seen, each distinct one once, heaviest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackProfile {
    /// What they are stacks of: `on_cpu`, `off_cpu`, `waker`.
    pub name: String,
    /// What a weight counts: `samples`, `ns`.
    pub unit: String,
    /// The time that one sample stands for, ns; 0 where weights are times.
    pub period_ns: u64,
    /// The functions.
    pub frames: Vec<Frame>,
    /// The stacks.
    pub stacks: Vec<Stack>,
    /// Weight whose stack could not be followed to its outermost function; it is part of `stacks` as far as it went.
    pub truncated: u64,
}

impl StackProfile {
    /// How much memory it takes, bytes, without what the allocator adds.
    pub fn memory_bytes(&self) -> usize {
        let frame = |f: &Frame| size_of::<Frame>() + f.function.len() + f.module.as_ref().map_or(0, String::len);
        let stack = |s: &Stack| size_of::<Stack>() + s.task.len() + s.frames.len() * size_of::<u32>();
        self.frames.iter().map(frame).sum::<usize>() + self.stacks.iter().map(stack).sum::<usize>()
    }
}
