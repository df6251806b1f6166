//! Call stacks from registers, copies of stacks and ELF files.
//!
//! Pure: bytes go in, a [`holdup_model::StackProfile`] comes out. Files that are cut, packed or made to do harm give a
//! reason or shorter stacks, never a panic, and never the name of a neighbour: what no symbol covers is told by the
//! begin of its function, what cannot be followed any further ends in `[unknown]` and counts as truncated.
//!
//! Only x86-64 is unwound: System V psABI for AMD64, 3.6.2 (DWARF register numbers), 4.2.4 (`.eh_frame`).
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

/// What stands for a function that nothing is known of.
pub(crate) const UNKNOWN: &str = "[unknown]";
