//! What the compiler put inline, from debug information.

use crate::demangle::demangled;
use flate2::read::ZlibDecoder;
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use holdup_model::{MemoryBudget, MemoryLease};
use object::read::elf::ElfFile64;
use object::{CompressionFormat, Object as _, ObjectSection};
use std::io::Read as _;
use std::sync::Arc;

type Bytes = Arc<[u8]>;
/// Looks addresses up.
pub(crate) type Lookup<'a> = addr2line::Context<EndianSlice<'a, LittleEndian>>;

/// The debug sections of one file.
#[derive(Debug, Clone)]
pub(crate) struct Debug {
    sections: Arc<DwarfSections<Bytes>>,
    bytes: u64,
}

/// One file's debug information may be so large, unpacked; what has more goes without inlined functions.
const MOST_BYTES: u64 = 128 << 20;
/// Functions that are inlined into one another at one address, at most.
const DEEPEST: usize = 256;

impl Debug {
    /// Takes the sections with names and inlined functions. `None` where the file has none, or they are
    /// packed by something else than zlib, or too large.
    pub(crate) fn of(file: &ElfFile64<'_, object::LittleEndian>, budget: &MemoryBudget) -> Option<Self> {
        file.section_by_name(".debug_info")?;
        let (mut bytes, mut lease) = (0, budget.lease(0).ok()?);
        // The places of variables are not shown, and a good part of all bytes is theirs.
        let wanted = |id: SectionId| !matches!(id, SectionId::DebugLoc | SectionId::DebugLocLists);
        let mut load = |id: SectionId| -> Option<Bytes> {
            let data: Vec<u8> = match file.section_by_name(id.name()) {
                Some(section) if wanted(id) => unpacked(&section, MOST_BYTES - bytes, &mut lease)?,
                _ => Vec::new(),
            };
            bytes += data.len() as u64;
            Some(Arc::from(data))
        };
        let sections = DwarfSections::load(|id| load(id).ok_or(())).ok()?;
        drop(lease);
        budget.take(bytes).ok()?;
        Some(Debug { sections: Arc::new(sections), bytes })
    }

    /// What looks addresses up; `None` when its units cannot be read.
    pub(crate) fn lookup(&self) -> Option<Lookup<'_>> {
        let dwarf = self.sections.borrow(|section| EndianSlice::new(section, LittleEndian));
        addr2line::Context::from_dwarf(dwarf).ok()
    }

    /// Memory, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

fn unpacked<'data>(section: &impl ObjectSection<'data>, most: u64, lease: &mut MemoryLease) -> Option<Vec<u8>> {
    let packed = section.compressed_data().ok()?;
    let bytes = Some(packed.uncompressed_size).filter(|bytes| *bytes <= most)?;
    lease.take(bytes).ok()?;
    match packed.format {
        CompressionFormat::None => Some(packed.data.to_vec()),
        CompressionFormat::Zlib => {
            let mut plain = Vec::new();
            ZlibDecoder::new(packed.data).take(bytes).read_to_end(&mut plain).ok()?;
            Some(plain)
        }
        _ => None,
    }
}

/// The functions at an address, outermost first: the one that has symbols, then those put into it. Empty where the
/// debug information does not cover it.
pub(crate) fn functions(lookup: &Lookup<'_>, address: u64) -> Vec<String> {
    let Ok(mut frames) = lookup.find_frames(address).skip_all_loads() else { return Vec::new() };
    let mut names = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
        names.push(name.map_or_else(|| crate::UNKNOWN.to_owned(), |name| demangled(&name)));
        if names.len() >= DEEPEST {
            break;
        }
    }
    names.reverse();
    names
}
