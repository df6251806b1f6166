//! One ELF file that code is mapped from.

use crate::debug::Debug;
use crate::demangle::demangled;
use crate::functions::{Context, Functions, Leaving, State};
use crate::symbols::Symbols;
use framehop::ExplicitModuleSectionInfo;
use gimli::{BaseAddresses, EhFrameHdr};
use holdup_model::MemoryBudget;
use holdup_model::sections::Machine;
use object::read::elf::ElfFile64;
use object::{
    Architecture, LittleEndian, Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _, SegmentFlags,
};
use std::ops::Range;
use std::sync::Arc;
const PAGE: u64 = 4096;
/// Where a signal's handler returns to on arm64, in the vDSO. Its symbol has no type (arch/arm64/kernel/vdso/sigreturn.S, 6.18).
const SIGNAL_RETURN: &str = "__kernel_rt_sigreturn";

/// A file's code: its functions, how to leave them, and what the compiler put inline.
#[derive(Debug, Clone)]
pub struct Module {
    name: String,
    build_id: Vec<u8>,
    pub(crate) machine: Machine,
    /// Loaded segments as (first byte in the file, bytes in the file, address).
    segments: Vec<(u64, u64, u64)>,
    /// Those of them that are executable.
    code: Vec<(u64, u64, u64)>,
    symbols: Symbols,
    functions: Functions,
    signal_return: Option<u64>,
    eh_frame: Option<Section>,
    eh_frame_hdr: Option<Section>,
    text: Option<Range<u64>>,
    got: Option<Range<u64>>,
    debug: Option<Debug>,
}

#[derive(Debug, Clone)]
struct Section {
    addresses: Range<u64>,
    bytes: Arc<[u8]>,
}

/// What the unwinder of one file reads.
pub(crate) type SectionInfo = ExplicitModuleSectionInfo<Arc<[u8]>>;

impl Module {
    /// Reads a file; it is not needed any more afterwards. `name` is what reports call it (`postgres`, `libc.so.6`).
    ///
    /// # Errors
    /// When it is no ELF file for x86-64 or arm64, or cut so that its headers or sections lie outside of it.
    pub fn parse(name: &str, file: &[u8]) -> Result<Self, String> {
        Self::parse_within(name, file, &MemoryBudget::for_trusted_program())
    }

    /// As [`Module::parse`], of a file that may be made to do harm: names, unwind and debug information for which the budget has no
    /// memory are left out. It is shared by the modules, and nothing is given back.
    ///
    /// # Errors
    /// As [`Module::parse`].
    pub fn parse_within(name: &str, file: &[u8], budget: &MemoryBudget) -> Result<Self, String> {
        let (elf, machine) = parse_elf(name, file)?;
        let section = |name: &str| {
            let section = elf.section_by_name(name)?;
            let bytes = section.data().ok().filter(|bytes| !bytes.is_empty())?;
            budget.take(bytes.len() as u64).ok()?;
            let end = section.address().checked_add(bytes.len() as u64)?;
            Some(Section { addresses: section.address()..end, bytes: Arc::from(bytes) })
        };
        let addresses = |name: &str| {
            let section = elf.section_by_name(name)?;
            Some(section.address()..section.address().checked_add(section.size())?)
        };
        let (eh_frame, mut eh_frame_hdr) = (section(".eh_frame"), section(".eh_frame_hdr"));
        let (text, got) = (addresses(".text"), addresses(".got"));
        let start = |range: Option<&Range<u64>>| range.map_or(0, |range| range.start);
        let bases = BaseAddresses::default()
            .set_eh_frame(start(eh_frame.as_ref().map(|s| &s.addresses)))
            .set_eh_frame_hdr(start(eh_frame_hdr.as_ref().map(|s| &s.addresses)))
            .set_text(start(text.as_ref()))
            .set_got(start(got.as_ref()));
        eh_frame_hdr = eh_frame_hdr.filter(|hdr| points_forward(&hdr.bytes, &bases));
        let functions =
            eh_frame.as_ref().map_or_else(Functions::default, |s| Functions::of(&s.bytes, bases, machine, budget));
        let (mut segments, mut code) = (Vec::new(), Vec::new());
        for segment in elf.segments() {
            let (offset, length) = segment.file_range();
            segments.push((offset, length, segment.address()));
            if matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0) {
                code.push((offset, length, segment.address()));
            }
        }
        Ok(Module {
            name: name.to_owned(),
            build_id: elf.build_id().ok().flatten().unwrap_or_default().to_vec(),
            machine,
            segments,
            code,
            symbols: symbols(&elf, &functions, budget),
            debug: Debug::of(&elf, budget),
            functions,
            signal_return: signal_return(&elf, machine),
            eh_frame,
            eh_frame_hdr,
            text,
            got,
        })
    }

    /// Takes symbols and debug information from the file that a distribution keeps them in
    /// (`/usr/lib/debug/.build-id/..`).
    ///
    /// # Errors
    /// When it is no such file, or belongs to another build: nothing is taken then.
    pub fn add_debug_file(&mut self, file: &[u8]) -> Result<(), String> {
        self.add_debug_file_within(file, &MemoryBudget::for_trusted_program())
    }

    /// As [`Module::add_debug_file`], of a file that may be made to do harm; see [`Module::parse_within`].
    ///
    /// # Errors
    /// As [`Module::add_debug_file`].
    pub fn add_debug_file_within(&mut self, file: &[u8], budget: &MemoryBudget) -> Result<(), String> {
        let name = format!("debug information of {}", self.name);
        let (elf, _) = parse_elf(&name, file)?;
        let build_id = elf.build_id().ok().flatten().unwrap_or_default();
        if build_id.is_empty() || build_id != self.build_id {
            return Err(format!("{name}: it belongs to build {}, not {}", hex(build_id), hex(&self.build_id)));
        }
        let symbols = symbols(&elf, &self.functions, budget);
        if !symbols.is_empty() {
            self.symbols = symbols;
        }
        self.debug = Debug::of(&elf, budget).or(self.debug.take());
        Ok(())
    }

    /// What reports call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The build's own id, hexadecimal; empty where it has none.
    pub fn build_id(&self) -> String {
        hex(&self.build_id)
    }

    /// Memory, bytes.
    pub fn bytes(&self) -> u64 {
        let sections = [&self.eh_frame, &self.eh_frame_hdr].into_iter().flatten().map(|s| s.bytes.len() as u64);
        let debug = self.debug.as_ref().map_or(0, Debug::bytes);
        sections.sum::<u64>() + self.symbols.bytes() + self.functions.bytes() + debug
    }

    /// The address that the file itself gives to one of its bytes.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let (begin, _, address) =
            self.segments.iter().find(|(begin, length, _)| offset >= *begin && offset - begin < *length)?;
        address.checked_add(offset - begin)
    }

    /// The address that the file itself gives to the begin of a mapping of code at this place in the file. A mapping
    /// begins with a page (fs/binfmt_elf.c:elf_load), and linkers put the end of one segment and the begin of the next
    /// into one page of the file, while their addresses are in different pages.
    pub(crate) fn address_of_mapping(&self, offset: u64) -> Option<u64> {
        let has = |(begin, length, _): &&(u64, u64, u64)| {
            (begin & !(PAGE - 1)..begin.saturating_add(*length)).contains(&offset)
        };
        match self.code.iter().find(has) {
            Some((begin, _, address)) if offset < *begin => address.checked_sub(begin - offset),
            Some((begin, _, address)) => address.checked_add(offset - begin),
            None => self.address_of(offset),
        }
    }

    /// How the function at an address is left.
    pub(crate) fn leaving(&self, address: u64, context: &mut Context) -> Leaving {
        self.eh_frame.as_ref().map_or(Leaving::Unknown, |s| self.functions.leaving(&s.bytes, address, context))
    }

    /// See [`Functions::leave`].
    pub(crate) fn leave(
        &self,
        address: u64,
        from: State,
        context: &mut Context,
        read: &mut dyn FnMut(u64) -> Result<u64, ()>,
    ) -> Option<Option<(State, bool)>> {
        self.functions.leave(&self.eh_frame.as_ref()?.bytes, address, from, context, read)
    }

    /// True if a signal's handler returns to this address, behind which its frame has the registers of what was interrupted.
    pub(crate) fn is_signal_return(&self, address: u64) -> bool {
        self.signal_return == Some(address)
    }

    pub(crate) fn debug(&self) -> Option<&Debug> {
        self.debug.as_ref()
    }

    /// The function at an address by its symbol; else by where its unwind information says that it begins.
    pub(crate) fn function(&self, address: u64) -> String {
        match self.symbols.find(address) {
            Some(name) => demangled(name),
            None if self.is_signal_return(address) => SIGNAL_RETURN.to_owned(),
            None => match self.functions.find(address) {
                Some(function) => format!("[{}+{:#x}]", self.name, function.begin),
                None => crate::UNKNOWN.to_owned(),
            },
        }
    }

    pub(crate) fn has_symbol(&self, address: u64) -> bool {
        self.symbols.find(address).is_some()
    }

    pub(crate) fn section_info(&self) -> SectionInfo {
        let addresses = |section: &Option<Section>| section.as_ref().map(|s| s.addresses.clone());
        let bytes = |section: &Option<Section>| section.as_ref().map(|s| s.bytes.clone());
        SectionInfo {
            base_svma: 0,
            text_svma: self.text.clone(),
            got_svma: self.got.clone(),
            eh_frame_svma: addresses(&self.eh_frame),
            eh_frame: bytes(&self.eh_frame),
            eh_frame_hdr_svma: addresses(&self.eh_frame_hdr),
            eh_frame_hdr: bytes(&self.eh_frame_hdr),
            ..SectionInfo::default()
        }
    }
}

/// True if the table of `.eh_frame_hdr` has only entries that lie behind the beginning of `.eh_frame` that it names. With
/// others gimli 0.33 subtracts below zero (`EhHdrTable::pointer_to_offset`); unwinding goes without the table then.
fn points_forward(bytes: &[u8], bases: &BaseAddresses) -> bool {
    let header = EhFrameHdr::new(bytes, gimli::LittleEndian);
    let Ok(header) = header.parse(bases, 8) else { return false };
    let Ok(begin) = header.eh_frame_ptr().direct() else { return false };
    let Some(table) = header.table() else { return true };
    let mut entries = table.iter(bases);
    while let Ok(Some((_, entry))) = entries.next() {
        if entry.direct().is_ok_and(|at| at < begin) {
            return false;
        }
    }
    true
}

fn parse_elf<'a>(name: &str, file: &'a [u8]) -> Result<(ElfFile64<'a, LittleEndian>, Machine), String> {
    let elf = ElfFile64::<LittleEndian>::parse(file).map_err(|e| format!("{name}: no ELF file of 64 bits: {e}"))?;
    match elf.architecture() {
        Architecture::X86_64 => Ok((elf, Machine::X86_64)),
        Architecture::Aarch64 => Ok((elf, Machine::Aarch64)),
        other => Err(format!("{name}: its code is for {other:?}, not x86-64 or arm64")),
    }
}

fn symbols(elf: &ElfFile64<'_, LittleEndian>, functions: &Functions, budget: &MemoryBudget) -> Symbols {
    Symbols::of(elf, |address| functions.find(address).filter(|f| f.begin == address).map(|f| f.end), budget)
}

fn signal_return(elf: &ElfFile64<'_, LittleEndian>, machine: Machine) -> Option<u64> {
    let mut symbols = elf.dynamic_symbols().filter(|_| machine == Machine::Aarch64);
    symbols.find(|symbol| symbol.name() == Ok(SIGNAL_RETURN)).map(|symbol| symbol.address())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
