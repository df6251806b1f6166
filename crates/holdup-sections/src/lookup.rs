//! From an instruction pointer to the section: the flat table that is searched in the kernel, and the same search here.
//!
//! Entries are sorted by begin and do not overlap but for groups with one begin and one end, of which at most two have a
//! condition, one has none, and one is a callee. The search, as small as a BPF program needs it:
//!
//! 1. Find the group whose begin is the greatest that is not above the address; if the address is not below its end, there
//!    is none.
//! 2. Of its entries, in order: a range without a condition, or whose condition holds, is the answer. Conditions are asked
//!    only at the task's own instruction pointer: of a caller's registers at its call nothing is known.
//! 3. Its callee entry, if it has one: the return address is read at the stack pointer plus its offset (or the frame
//!    pointer plus its offset, when no frame below it was left out), the stack pointer is set behind it, and the search
//!    continues with the return address minus 1, which lies in the call instruction; at most [`DEEPEST`] times. On arm64 the return
//!    address may be in x30 yet; of a helper that is done the search continues with the return address itself, at which the task's
//!    registers are those that it has.

use holdup_model::sections::{
    CalleeRange, Condition, LockWord, Machine, ReturnAddress, SectionMap, SectionRange, SectionRole, WordBase,
};
use std::collections::BTreeSet;

/// Callees are followed up to this number of calls.
pub const DEEPEST: usize = 6;

/// Entries with one begin: two with a condition, one without, one callee.
pub const MOST_AT_ONE_PLACE: usize = 4;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// First address, in the process.
    pub begin: u64,
    /// First address behind it.
    pub end: u64,
    /// What code there is.
    pub kind: Kind,
}

/// What an entry's code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A section's.
    Range {
        /// Its number, over all maps in their order.
        section: u16,
        /// What a task there does.
        role: SectionRole,
        /// When.
        when: Option<Condition>,
        /// Which lock; an address of the file is one of the process here.
        word: Option<LockWord>,
    },
    /// A function's that may run inside one.
    Callee {
        /// Where its return address lies, from the stack pointer or the frame pointer, bytes.
        return_address_bytes: i32,
        /// True if that is from the frame pointer.
        by_frame_pointer: bool,
        /// Where its caller's registers are kept.
        saved: [u8; 6],
        /// Where that is, if not there.
        return_address: ReturnAddress,
        /// Bytes to the caller's stack pointer (arm64).
        frame_bytes: i32,
    },
}

/// An object in a process: its analysis and its address.
#[derive(Debug, Clone, Copy)]
pub struct Loaded<'a> {
    /// Its sections; `None` for a library of which only callees are known.
    pub map: Option<&'a SectionMap>,
    /// Further code of it that runs inside others' sections.
    pub callees: &'a [CalleeRange],
    /// Address in the process minus address in the file.
    pub bias: u64,
}

/// The table of one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Sorted by begin; within one begin in the order in which they are asked.
    pub entries: Vec<Entry>,
    /// Whose registers are meant.
    pub machine: Machine,
}

impl Table {
    /// The table of a process with these objects. The sections of the second map are numbered behind those of the first.
    pub fn new(objects: &[Loaded<'_>]) -> Self {
        let mut entries = Vec::new();
        let mut first_section = 0u16;
        for object in objects {
            let ranges = object.map.map_or(&[][..], |map| &map.ranges);
            let own = object.map.map_or(&[][..], |map| &map.callees);
            let callees: Vec<CalleeRange> = own.iter().chain(object.callees).copied().collect();
            flatten(ranges, &callees, object.bias, first_section, &mut entries);
            let sections = object.map.map_or(0, |map| map.sections.len());
            first_section = first_section.saturating_add(u16::try_from(sections).unwrap_or(u16::MAX));
        }
        entries.sort_by_key(|entry: &Entry| entry.begin);
        let machine = objects.iter().find_map(|object| Some(object.map?.machine)).unwrap_or_default();
        Table { entries, machine }
    }

    /// The entries of the place that an address lies in.
    pub fn at(&self, address: u64) -> &[Entry] {
        let behind = self.entries.partition_point(|entry| entry.begin <= address);
        let Some(last) = behind.checked_sub(1).and_then(|i| self.entries.get(i)) else { return &[] };
        if address >= last.end {
            return &[];
        }
        let first = self.entries[..behind].partition_point(|entry| entry.begin < last.begin);
        &self.entries[first..behind]
    }
}

/// Ranges and callees of one object, cut where any of them begins or ends.
fn flatten(ranges: &[SectionRange], callees: &[CalleeRange], bias: u64, first_section: u16, out: &mut Vec<Entry>) {
    let ends = ranges.iter().flat_map(|r| [r.begin, r.end]).chain(callees.iter().flat_map(|c| [c.begin, c.end]));
    let cuts: Vec<u64> = ends.collect::<BTreeSet<u64>>().into_iter().collect();
    let place = |at: u64| cuts.partition_point(|cut| *cut < at);
    let mut certain: Vec<Vec<Kind>> = vec![Vec::new(); cuts.len()];
    let mut open: Vec<Vec<Kind>> = vec![Vec::new(); cuts.len()];
    let mut called: Vec<Option<Kind>> = vec![None; cuts.len()];
    for range in ranges.iter().filter(|range| range.begin < range.end) {
        let section = range.section.saturating_add(first_section);
        let word = range.word.map(|word| in_process(word, bias));
        let kind = Kind::Range { section, role: range.role, when: range.when, word };
        let list = if range.when.is_some() { &mut open } else { &mut certain };
        for here in &mut list[place(range.begin)..place(range.end)] {
            here.push(kind);
        }
    }
    for callee in callees.iter().filter(|callee| callee.begin < callee.end) {
        let CalleeRange { return_address_bytes, by_frame_pointer, saved, return_address, frame_bytes, .. } = *callee;
        let kind = Kind::Callee { return_address_bytes, by_frame_pointer, saved, return_address, frame_bytes };
        for here in &mut called[place(callee.begin)..place(callee.end)] {
            here.get_or_insert(kind);
        }
    }
    let mut last: Option<(Vec<Kind>, u64, u64)> = None;
    let mut write = |piece: Option<(Vec<Kind>, u64, u64)>| {
        let Some((kinds, begin, end)) = piece else { return };
        let (begin, end) = (begin.wrapping_add(bias), end.wrapping_add(bias));
        if begin < end {
            out.extend(kinds.into_iter().map(|kind| Entry { begin, end, kind }));
        }
    };
    for (i, pair) in cuts.windows(2).enumerate() {
        let mut kinds = of_one_place(&open[i], &certain[i]);
        kinds.extend(called[i]);
        match &mut last {
            Some((same, _, end)) if *same == kinds && *end == pair[0] => *end = pair[1],
            _ => {
                write(last.take());
                last = (!kinds.is_empty()).then_some((kinds, pair[0], pair[1]));
            }
        }
    }
    write(last);
}

fn in_process(word: LockWord, bias: u64) -> LockWord {
    match word.base {
        WordBase::File => LockWord { offset: word.offset.wrapping_add(bias as i64), ..word },
        WordBase::Register(_) | WordBase::Section => word,
    }
}

/// The entries of one place: at most two with a condition, then one without. A holder of any lock comes first: a task that
/// holds one and waits for another holds up others. Where more conditions meet there is none.
fn of_one_place(open: &[Kind], certain: &[Kind]) -> Vec<Kind> {
    if open.len() > 2 {
        return Vec::new();
    }
    let holder = |kind: &&Kind| matches!(kind, Kind::Range { role: SectionRole::Holder, .. });
    let certainly = certain.iter().find(holder).or_else(|| certain.first()).copied().map(|mut kind| {
        // Several ways that lead here may have the lock in different registers.
        if let Kind::Range { section, role, word, .. } = &mut kind {
            let alike = |other: &Kind| match other {
                Kind::Range { section: s, role: r, word: w, .. } => (s, r) != (section, role) || w == word,
                Kind::Callee { .. } => true,
            };
            *word = word.filter(|_| certain.iter().all(alike));
        }
        kind
    });
    match certainly {
        Some(kind) if holder(&&kind) => vec![kind],
        _ => open.iter().copied().chain(certainly).collect(),
    }
}

/// The registers of a task that was switched out or sampled in user code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    /// As [`Machine`] numbers them; what it does not have is 0.
    pub general: [u64; 32],
    /// rflags, or PSTATE.
    pub flags: u64,
}

impl Registers {
    fn value(&self, number: u8, machine: Machine) -> u64 {
        if number == machine.flags() {
            return self.flags;
        }
        self.general.get(usize::from(number)).copied().unwrap_or_default()
    }
}

/// What a task does in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inside {
    /// The section's number.
    pub section: u16,
    /// What it does there.
    pub role: SectionRole,
    /// The address of the lock's word, or the number of the section plus 1 where all of it are one lock.
    pub word: Option<u64>,
}

/// Where the stack keeps the return address of code that signs it (pointer authentication), the signature is above these bits.
const ADDRESS_BITS: u64 = (1 << 48) - 1;

/// The register that a call leaves the return address in (arm64).
const LINK: u8 = 30;

/// The section that a task is in; `stack` reads 8 bytes of its memory.
pub fn classify(table: &Table, ip: u64, registers: &Registers, stack: &dyn Fn(u64) -> Option<u64>) -> Option<Inside> {
    let mut at = ip;
    let machine = table.machine;
    let value = |number| registers.value(number, machine);
    let mut frame = Up { machine, registers, stack, pointer: value(machine.stack()), saved: [None; 6], is_own: true };
    // Known as long as every frame below kept it as its frame pointer.
    let mut frame_pointer = Some(value(machine.frame()));
    for depth in 0..=DEEPEST {
        let mut callee = None;
        for entry in table.at(at) {
            match entry.kind {
                Kind::Range { section, role, when, word } => {
                    if when.is_none_or(|when| frame.is_own && when.holds(value(when.register))) {
                        let word = word.and_then(|word| frame.word(word, section));
                        return Some(Inside { section, role, word });
                    }
                }
                Kind::Callee { return_address_bytes, by_frame_pointer, saved, return_address, frame_bytes } => {
                    callee = Some((return_address_bytes, by_frame_pointer, saved, return_address, frame_bytes));
                }
            }
        }
        let (bytes, by_frame_pointer, saved, return_address, frame_bytes) = callee?;
        let done = return_address == ReturnAddress::Done;
        let base = if by_frame_pointer { frame_pointer? } else { frame.pointer };
        let place = base.wrapping_add_signed(i64::from(bytes));
        let return_address = match (return_address, machine) {
            // Up the stack nothing is in x30: a call has overwritten it.
            (ReturnAddress::Register | ReturnAddress::Done, _) => (depth == 0).then(|| value(LINK))?,
            (ReturnAddress::Stack, Machine::X86_64) => stack(place)?,
            (ReturnAddress::Stack, Machine::Aarch64) => stack(place)? & ADDRESS_BITS,
        };
        // Of a function that is done, the caller has the same registers.
        frame.is_own = done;
        frame_pointer = if by_frame_pointer { stack(base) } else { None };
        frame.pointer = match machine {
            Machine::X86_64 => place.wrapping_add(8),
            Machine::Aarch64 => base.wrapping_add_signed(i64::from(frame_bytes)),
        };
        for (at, times) in frame.saved.iter_mut().zip(saved).filter(|(_, times)| *times > 0) {
            let place = frame.pointer.wrapping_sub(8 * u64::from(times));
            *at = Some((times != CalleeRange::ELSEWHERE).then_some(place));
        }
        at = if done { return_address } else { return_address.wrapping_sub(1) };
    }
    None
}

/// A frame up the stack.
struct Up<'a> {
    machine: Machine,
    registers: &'a Registers,
    stack: &'a dyn Fn(u64) -> Option<u64>,
    pointer: u64,
    /// Where its registers are kept, in the order of [`CalleeRange::saved`]; of those that a callee saved too far away, nothing.
    saved: [Option<Option<u64>>; 6],
    /// True if the registers are those of this frame.
    is_own: bool,
}

impl Up<'_> {
    fn word(&self, word: LockWord, section: u16) -> Option<u64> {
        let base = match word.base {
            WordBase::Section => return Some(u64::from(section) + 1),
            WordBase::File => 0,
            WordBase::Register(number) if number == self.machine.stack() => self.pointer,
            WordBase::Register(number) => {
                let own = Some(self.registers.value(number, self.machine));
                let place = self.machine.saved().iter().position(|kept| *kept == number);
                match place.map(|place| self.saved[place]) {
                    _ if self.is_own => own,
                    Some(None) => own,
                    Some(Some(at)) => (self.stack)(at?),
                    None => None,
                }?
            }
        };
        let at = base.wrapping_add_signed(word.offset);
        match word.load {
            None => Some(at),
            Some(more) => Some((self.stack)(at)?.wrapping_add_signed(more)),
        }
    }
}
