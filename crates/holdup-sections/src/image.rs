//! The parts of an ELF file for the analysis: code, pieces of functions, names, imports, declared points.

use crate::arch::{self, Architecture, Flow, Helper, Instruction, Instructions};
use crate::frames::Frames;
use crate::note::{self, Point};
use holdup_model::{MemoryBudget, Problem};
use object::ObjectSymbolTable;
use object::elf::RelocationType;
use object::read::elf::ElfFile64;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSegment, ObjectSymbol, Relocation, RelocationFlags, RelocationTarget,
    SegmentFlags, SymbolKind,
};
use std::collections::BTreeMap;
use std::rc::Rc;

/// No instruction is longer, bytes, also where several are one operation.
const LONGEST: usize = 64;

/// Memory at most of a function's symbol beside its name, and for each byte of code (a call of five has an entry), of unwind information
/// and of the global offset table, bytes. The time that they take grows with it.
const SYMBOL_BYTES: u64 = 640;
const BYTES_BY_CODE: u64 = 8;
const BYTES_BY_FRAMES: u64 = 4;
const BYTES_BY_SLOTS: u64 = 8;

/// Bytes of the file at their link-time address.
struct Loaded<'a> {
    begin: u64,
    bytes: &'a [u8],
    executable: bool,
}

/// One contiguous piece of a function: all of it, or the part that the compiler moved away as unlikely.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// The symbol at its begin.
    pub(crate) name: Option<String>,
}

/// The parts of the file.
pub(crate) struct Image<'a> {
    pub(crate) arch: &'static dyn Architecture,
    pub(crate) build_id: String,
    loaded: Vec<Loaded<'a>>,
    /// Sorted by begin, without overlap.
    pub(crate) fragments: Vec<Fragment>,
    /// Every function symbol that is defined here.
    pub(crate) symbols: BTreeMap<String, Vec<Symbol>>,
    /// Slots of the global offset table that hold an imported function's address.
    pub(crate) slots: BTreeMap<u64, String>,
    /// Functions that do one atomic operation, by address.
    pub(crate) helpers: Rc<BTreeMap<u64, Helper>>,
    /// Slots with the address of a function of this file: a static program that may lie anywhere calls its own library through them.
    own_slots: Rc<BTreeMap<u64, u64>>,
    pub(crate) frames: Frames<'a>,
    pub(crate) points: Vec<Point>,
    pub(crate) notes: Vec<String>,
}

/// A function symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol {
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    /// The function at `address` chooses the real one when the program starts (`STT_GNU_IFUNC`).
    pub(crate) indirect: bool,
}

impl<'a> Image<'a> {
    /// Reads an ELF file.
    ///
    /// # Errors
    /// When it is not one, has neither section headers nor functions, or takes more memory than the budget has.
    pub(crate) fn read(elf: &'a [u8], budget: &MemoryBudget) -> Result<Self, Problem> {
        let cannot = |why: String| Problem::host("section map", why);
        let take = |bytes: u64| budget.take(bytes).map_err(|refused| cannot(format!("its analysis {refused}")));
        if let Some(other) = other_machine(elf) {
            return Err(cannot(other));
        }
        let file = ElfFile64::<LittleEndian>::parse(elf)
            .map_err(|why| cannot(format!("the file is not a 64-bit little-endian ELF file: {why}")))?;
        let machine = file.elf_header().e_machine.get(LittleEndian);
        let Some(arch) = arch::ALL.iter().find(|arch| arch.abi().elf == machine).copied() else {
            return Err(cannot(format!("the file is not for {}", known_machines())));
        };
        let build_id = file.build_id().ok().flatten().unwrap_or_default();
        let build_id = build_id.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
        let loaded = loaded(&file);
        if !loaded.iter().any(|l| l.executable) {
            return Err(cannot("the file has no code".to_owned()));
        }
        let code: usize = loaded.iter().filter(|l| l.executable).map(|l| l.bytes.len()).sum();
        take(BYTES_BY_CODE * code as u64)?;
        for (name, times) in [(".eh_frame", BYTES_BY_FRAMES), (".got", BYTES_BY_SLOTS)] {
            take(times * section(&file, name).map_or(0, |(_, bytes)| bytes.len() as u64))?;
        }
        let mut notes = Vec::new();
        let text = section(&file, ".text").map_or(0, |(at, _)| at);
        let frames = Frames::read(section(&file, ".eh_frame"), text, &arch.abi().unwind);
        if frames.is_empty() {
            notes.push("no unwind information (.eh_frame): callees cannot be followed".to_owned());
        }
        let (symbols, names) = symbols(&file, &take)?;
        let mut image = Image {
            arch,
            build_id,
            loaded,
            fragments: Vec::new(),
            symbols,
            slots: slots(&file, &arch.abi().slots, &take)?,
            helpers: Rc::default(),
            own_slots: Rc::new(own_slots(&file, arch.abi().relative)),
            frames,
            points: Vec::new(),
            notes,
        };
        image.fragments = image.find_fragments(&names);
        if let Some((_, bytes)) = section(&file, ".note.holdup") {
            let (points, wrong) = note::points(bytes);
            image.points = points;
            image.notes.extend(wrong);
        }
        if image.fragments.is_empty() {
            let why = "the binary has neither symbols nor unwind information".to_owned();
            return Err(cannot(why).hint("take the package's own build of it: a packed binary cannot be analysed"));
        }
        Ok(image)
    }

    fn find_fragments(&self, names: &BTreeMap<u64, (u64, String)>) -> Vec<Fragment> {
        let mut pieces: Vec<(u64, u64)> = self.frames.functions().collect();
        pieces.sort_unstable();
        pieces.dedup_by_key(|piece| piece.0);
        let covered = |at: u64| {
            let next = pieces.partition_point(|piece| piece.0 <= at);
            next.checked_sub(1).and_then(|i| pieces.get(i)).is_some_and(|piece| at < piece.1)
        };
        let mut more = Vec::new();
        let mut addresses = names.iter().peekable();
        while let Some((&at, &(bytes, _))) = addresses.next() {
            if !covered(at) {
                let next = addresses.peek().map_or(u64::MAX, |next| *next.0);
                // A symbol without a size ends where the next one begins, and nowhere beyond 64 KiB.
                let bytes = if bytes == 0 { 1 << 16 } else { bytes };
                more.push((at, at.saturating_add(bytes).min(next)));
            }
        }
        pieces.extend(more);
        pieces.sort_unstable();
        let mut fragments: Vec<Fragment> = Vec::with_capacity(pieces.len());
        for (begin, end) in pieces {
            let Some(code) = self.code(begin) else { continue };
            let end = end.min(begin.saturating_add(code.len() as u64));
            if end <= begin {
                continue;
            }
            if let Some(last) = fragments.last_mut() {
                last.end = last.end.min(begin);
            }
            fragments.push(Fragment { begin, end, name: names.get(&begin).map(|(_, name)| name.clone()) });
        }
        fragments
    }

    /// The code from an address to the end of its segment.
    pub(crate) fn code(&self, at: u64) -> Option<&'a [u8]> {
        self.bytes(at, true)
    }

    fn bytes(&self, at: u64, executable: bool) -> Option<&'a [u8]> {
        self.loaded
            .iter()
            .filter(|l| l.executable || !executable)
            .find_map(|l| l.bytes.get(usize::try_from(at.checked_sub(l.begin)?).ok()?..))
            .filter(|bytes| !bytes.is_empty())
    }

    /// An unsigned number of some bytes at an address.
    pub(crate) fn number(&self, at: u64, bytes: usize) -> Option<u64> {
        let mut all = [0; 8];
        all.get_mut(..bytes)?.copy_from_slice(self.bytes(at, false)?.get(..bytes)?);
        Some(u64::from_le_bytes(all))
    }

    /// A name of the C language that stands as a string at an address.
    pub(crate) fn identifier(&self, at: u64) -> Option<&'a str> {
        let bytes = self.bytes(at, false)?;
        let length = bytes.iter().take(64).position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(bytes.get(..length)?).ok()?;
        let fits = !text.is_empty()
            && !text.as_bytes()[0].is_ascii_digit()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        fits.then_some(text)
    }

    /// The fragment that an address lies in.
    pub(crate) fn fragment_at(&self, at: u64) -> Option<&Fragment> {
        self.fragments.get(self.fragment(at)?)
    }

    /// Looks for helpers at addresses that are sorted.
    pub(crate) fn find_helpers(&mut self, called: impl Iterator<Item = u64>) {
        let (mut last, mut helpers) = (None, BTreeMap::new());
        for at in called.filter(|at| last.replace(*at) != Some(*at)) {
            let helper = self.code(at).and_then(|code| self.arch.helper(code, at));
            helpers.extend(helper.map(|helper| (at, helper)));
        }
        self.helpers = Rc::new(helpers);
    }

    /// The instructions from an address to the end of its fragment.
    pub(crate) fn instructions(&self, begin: u64) -> Option<Instructions<'a>> {
        let (fragment, code) = (self.fragment_at(begin)?, self.code(begin)?);
        let length = usize::try_from(fragment.end - begin).unwrap_or(usize::MAX).min(code.len());
        let all = self.arch.instructions(&code[..length], begin);
        let (helpers, slots) = (Rc::clone(&self.helpers), Rc::clone(&self.own_slots));
        let is_plain = helpers.is_empty() && slots.is_empty();
        Some(if is_plain { all } else { Box::new(all.map(move |one| whole(&helpers, &slots, one))) })
    }

    /// The instruction at an address.
    pub(crate) fn instruction(&self, at: u64) -> Option<Instruction> {
        let code = self.code(at)?;
        self.arch
            .instructions(&code[..code.len().min(LONGEST)], at)
            .next()
            .map(|one| whole(&self.helpers, &self.own_slots, one))
    }

    /// The fragment that an address lies in, by its number.
    pub(crate) fn fragment(&self, at: u64) -> Option<usize> {
        let next = self.fragments.partition_point(|fragment| fragment.begin <= at);
        let number = next.checked_sub(1)?;
        (at < self.fragments.get(number)?.end).then_some(number)
    }
}

/// A call of a helper is its operation, and one through a slot of this file is one of the function there.
fn whole(helpers: &BTreeMap<u64, Helper>, slots: &BTreeMap<u64, u64>, mut instruction: Instruction) -> Instruction {
    let own = |slot| slots.get(&slot).copied();
    instruction.flow = match instruction.flow {
        Flow::CallSlot(slot) => own(slot).map_or(instruction.flow, Flow::Call),
        Flow::JumpSlot(slot) => own(slot).map_or(instruction.flow, Flow::Jump),
        flow => flow,
    };
    let helper = |to| helpers.get(&to).map(|helper| helper.form);
    let known = match instruction.flow {
        Flow::Call(to) => helper(to).map(|form| Instruction { flow: Flow::Helper(to), form, ..instruction }),
        Flow::Jump(to) => helper(to).map(|form| Instruction { flow: Flow::Return, form, ..instruction }),
        _ => None,
    };
    known.unwrap_or(instruction)
}

/// The architectures that are analysed, in a sentence.
fn known_machines() -> String {
    let names: Vec<&str> = arch::ALL.iter().map(|arch| arch.abi().id).collect();
    names.join(" and ")
}

/// What an ELF file is for, where that is no architecture that is analysed: its head says so, however damaged the rest is.
fn other_machine(elf: &[u8]) -> Option<String> {
    let head = elf.strip_prefix(&object::elf::ELFMAG)?.get(..16)?;
    let machine = [head[14], head[15]];
    let machine =
        if head[1] == object::elf::ELFDATA2MSB.0 { u16::from_be_bytes(machine) } else { u16::from_le_bytes(machine) };
    let machine = object::elf::Machine(machine);
    if arch::ALL.iter().any(|known| known.abi().elf == machine) {
        return None;
    }
    Some(format!("the binary is for {}, and only {} are analysed", name(machine), known_machines()))
}

/// A machine's name as Debian has it, where it is in use.
fn name(machine: object::elf::Machine) -> String {
    use object::elf::*;
    match machine {
        EM_386 => "i386".to_owned(),
        EM_ARM => "arm (32 bits)".to_owned(),
        EM_S390 => "s390x".to_owned(),
        EM_RISCV => "riscv64".to_owned(),
        EM_PPC64 => "ppc64el".to_owned(),
        EM_LOONGARCH => "loong64".to_owned(),
        other => format!("machine number {}", other.0),
    }
}

fn section<'a>(file: &ElfFile64<'a, LittleEndian>, name: &str) -> Option<(u64, &'a [u8])> {
    let section = file.section_by_name(name)?;
    Some((section.address(), section.data().ok()?))
}

fn loaded<'a>(file: &ElfFile64<'a, LittleEndian>) -> Vec<Loaded<'a>> {
    file.segments()
        .take(64)
        .filter_map(|segment| {
            let executable = matches!(segment.flags(), SegmentFlags::Elf { p_flags, .. } if p_flags.0 & 1 != 0);
            Some(Loaded { begin: segment.address(), bytes: segment.data().ok()?, executable })
        })
        .collect()
}

/// Takes memory that is about to be kept.
type TakeBytes<'a> = &'a dyn Fn(u64) -> Result<(), Problem>;

/// Symbols by name, and of each address one name and size.
type Symbols = (BTreeMap<String, Vec<Symbol>>, BTreeMap<u64, (u64, String)>);

fn symbols(file: &ElfFile64<'_, LittleEndian>, take: TakeBytes<'_>) -> Result<Symbols, Problem> {
    let mut by_name: BTreeMap<String, Vec<Symbol>> = BTreeMap::new();
    let mut names: BTreeMap<u64, (u64, String, bool)> = BTreeMap::new();
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        // STT_GNU_IFUNC of elf.h.
        let indirect = matches!(symbol.flags(), object::SymbolFlags::Elf { st_info, .. } if st_info.0 & 0xf == 10);
        if symbol.is_undefined() || symbol.address() == 0 || !(symbol.kind() == SymbolKind::Text || indirect) {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        if name.is_empty() {
            continue;
        }
        take(SYMBOL_BYTES + 2 * name.len() as u64)?;
        let here = Symbol { address: symbol.address(), bytes: symbol.size(), indirect };
        by_name.entry(name.to_owned()).or_default().push(here);
        let global = symbol.is_global();
        names
            .entry(symbol.address())
            .and_modify(|old| {
                if global && !old.2 {
                    *old = (symbol.size().max(old.0), name.to_owned(), true);
                }
            })
            .or_insert_with(|| (symbol.size(), name.to_owned(), global));
    }
    for all in by_name.values_mut() {
        all.sort_unstable();
        all.dedup();
    }
    Ok((by_name, names.into_iter().map(|(at, (bytes, name, _))| (at, (bytes, name))).collect()))
}

/// See [`Image::own_slots`]: those of the global offset table, which nothing writes once the program has started. The address stands in
/// the slot (also with DT_RELR), or in its relocation.
fn own_slots(file: &ElfFile64<'_, LittleEndian>, kind: RelocationType) -> BTreeMap<u64, u64> {
    let Some((begin, bytes)) = section(file, ".got") else { return BTreeMap::new() };
    let places = (begin..).step_by(8);
    let stored = bytes.chunks_exact(8).map(|eight| eight.try_into().map_or(0, u64::from_le_bytes));
    let end = begin.saturating_add(bytes.len() as u64);
    let moved = |(at, relocation): (u64, Relocation)| match relocation.flags() {
        RelocationFlags::Elf { r_type } if r_type == kind => Some((at, relocation.addend() as u64)),
        _ => None,
    };
    let relocated = file.dynamic_relocations().into_iter().flatten().filter_map(moved);
    let all = places.zip(stored).chain(relocated.filter(|(at, _)| (begin..end).contains(at)));
    all.filter(|(_, address)| *address != 0).collect()
}

fn slots(
    file: &ElfFile64<'_, LittleEndian>,
    kinds: &[RelocationType],
    take: TakeBytes<'_>,
) -> Result<BTreeMap<u64, String>, Problem> {
    let mut slots = BTreeMap::new();
    let is_slot = |relocation: &Relocation| matches!(relocation.flags(), RelocationFlags::Elf { r_type } if kinds.contains(&r_type));
    let symbol = |relocation: &Relocation| match relocation.target() {
        RelocationTarget::Symbol(index) => file.dynamic_symbol_table()?.symbol_by_index(index).ok(),
        _ => None,
    };
    for (at, relocation) in file.dynamic_relocations().into_iter().flatten().filter(|(_, one)| is_slot(one)) {
        let symbol = symbol(&relocation);
        let Some(name) = symbol.as_ref().and_then(|symbol| symbol.name().ok()).filter(|name| !name.is_empty()) else {
            continue;
        };
        take(SYMBOL_BYTES + name.len() as u64)?;
        slots.insert(at, name.to_owned());
    }
    Ok(slots)
}
