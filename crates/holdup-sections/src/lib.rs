#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod analysis;
mod arch;
mod atomic;
pub mod cached;
mod callees;
mod calls;
mod decide;
mod flood;
mod frames;
mod function;
mod image;
pub mod lookup;
mod map;
mod note;
mod program;
mod shipped;
mod ticket;
mod values;
mod word;

pub use holdup_model::{MemoryBudget, Problem, SectionMap};

use analysis::Analysis;
use holdup_model::sections::CalleeRange;
use image::Image;
use program::Program;
use serde::{Deserialize, Serialize};

/// Which sections are looked for. Those that a note declares are always there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Those of products that holdup knows.
    pub shipped: bool,
    /// Those of functions that the user names.
    pub functions: Vec<NamedFunction>,
}

/// A function that takes locks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFunction {
    /// Its symbol.
    pub name: String,
    /// What its lock is to be called in the section's name.
    pub lock: Option<String>,
}

/// The sections of a binary. Functions that are neither shipped nor named nor declare a point are not looked at. Of several ranges at one address the first whose condition holds gives the role.
///
/// # Errors
/// When the bytes are no ELF file for a known architecture, or one without code or functions.
pub fn map(elf: &[u8], wanted: &Wanted) -> Result<SectionMap, Problem> {
    map_within(elf, wanted, &MemoryBudget::for_trusted_program())
}

/// As [`map`], of a file that may be made to do harm.
///
/// # Errors
/// As [`map`], and when its analysis takes more memory than the budget has. It gives nothing back, so that one budget bounds the time of
/// many files, too.
pub fn map_within(elf: &[u8], wanted: &Wanted, budget: &MemoryBudget) -> Result<SectionMap, Problem> {
    let program = Program::scan(Image::read(elf, budget)?);
    Ok(map::of(program, wanted))
}

/// What of a library runs inside sections of others that call it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Callees {
    /// The library's build id, hexadecimal.
    pub build_id: String,
    /// Its code, sorted by begin, addresses as the file's program headers have them.
    pub ranges: Vec<CalleeRange>,
    /// Functions of further objects that it calls, by name.
    pub imports: Vec<String>,
    /// What could not be found, and why.
    pub notes: Vec<String>,
}

/// The code of functions that a library defines, and of what they call there; those that take a spin lock are sections.
pub fn library(elf: &[u8], names: &[&str]) -> Result<(SectionMap, Callees), Problem> {
    library_within(elf, names, &MemoryBudget::for_trusted_program())
}

/// As [`library`], of a file that may be made to do harm; see [`map_within`].
///
/// # Errors
/// As [`library`], and when its analysis takes more memory than the budget has.
pub fn library_within(elf: &[u8], names: &[&str], budget: &MemoryBudget) -> Result<(SectionMap, Callees), Problem> {
    let image = Image::read(elf, budget)?;
    let build_id = image.build_id.clone();
    let mut analysis = Analysis::without_locks(Program::scan(image));
    let inside = callees::of_library(&mut analysis, names);
    let imports = inside.imports.into_iter().collect();
    let map = map::of_library(&mut analysis, names);
    Ok((map, Callees { build_id, ranges: inside.ranges, imports, notes: inside.notes }))
}
