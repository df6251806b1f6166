//! Call stacks from registers, copies of stacks, and the bytes of binaries, with names.
//!
//! - `symbolizer.rs` unwinds samples and counts them in a tree of calls (`tree.rs`); names are looked up at the end.
//! - `module.rs` is one ELF file: symbols, unwind information (`functions.rs`), inlined functions (`debug.rs`).
//! - `space.rs` is the mappings of a process, `kernel.rs` the functions of the kernel.
//!
//! Not here: taking samples (`holdup-host`), reading mappings and files (`holdup-evidence`), drawing (`holdup-report`).
//! No file is opened. A damaged file gives a reason or shorter stacks, never a panic, and code without a symbol never gets
//! the name of its neighbour: it is named by the begin of its code.
//!
//! Start with [`Symbolizer::add_sample`].
#![forbid(unsafe_code)]

mod debug;
mod demangle;
mod functions;
mod kernel;
mod module;
mod space;
mod symbolizer;
mod symbols;
mod tree;

pub use kernel::KernelSymbols;
pub use module::Module;
pub use space::{Mapping, ModuleId, SpaceId};
pub use symbolizer::{Followed, Registers, Sample, Symbolizer, TaskId};

/// The name of an unknown function.
pub(crate) const UNKNOWN: &str = "[unknown]";
