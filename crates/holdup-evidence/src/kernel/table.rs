//! The section tables of the programs under test, as the BPF programs search them.

use crate::arch;
use crate::kernel::layout::{
    ALWAYS, CALLEE, Entry, HOLDER, Image, MEANINGS, Meaning, NEITHER, RETURNS_BY_REGISTER, RETURNS_BY_STACK,
    RETURNS_ONLY, WAITER, WORD_FIXED, WORD_OF_SECTION, WORD_UNKNOWN, zeroed,
};
use holdup_model::sections::{Condition, LockWord, Machine, ReleasedAt, ReturnAddress, SectionRole, WordBase};
use holdup_sections::lookup::{Kind, Loaded, Table};
use std::collections::BTreeMap;
const IMAGE_NONE: u32 = crate::kernel::layout::IMAGE_NONE as u32;
/// As many entries as a search of 17 steps finds.
const MOST_ENTRIES: usize = 1 << 16;

/// Tables of all processes under test; processes with the same files at the same places share one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Images {
    names: Vec<String>,
    entries: Vec<Entry>,
    images: Vec<Image>,
    releases: BTreeMap<u32, Vec<ReleasedAt>>,
    of_process: BTreeMap<u32, u32>,
    notes: Vec<String>,
}

impl Images {
    /// Adds the table of a program with these files and gives its number.
    pub(crate) fn add(&mut self, files: &[Loaded<'_>]) -> u32 {
        if self.images.is_empty() {
            self.images.push(zeroed());
        }
        let sections = files.iter().filter_map(|f| f.map).flat_map(|map| &map.sections);
        let numbers: Vec<u16> = sections.map(|section| section.name.clone()).map(|name| self.number(name)).collect();
        if numbers.is_empty() {
            return IMAGE_NONE;
        }
        let entries = entries(&Table::new(files), &numbers);
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else { return IMAGE_NONE };
        if self.entries.len() + entries.len() > MOST_ENTRIES {
            self.notes.push(format!("{} ranges of a program have no room in the table", entries.len()));
            return IMAGE_NONE;
        }
        let (begin, end) = (first.begin, last.end);
        let (first, count) = (self.entries.len() as u32, entries.len() as u32);
        self.images.push(Image { begin, end, first, count, unknown_off_cpu: 0 });
        self.entries.extend(entries);
        let number = self.images.len() as u32 - 1;
        self.releases.insert(number, releases(files));
        number
    }

    /// True if the releases of any section are known.
    pub(crate) fn has_releases(&self) -> bool {
        self.releases.values().any(|all| !all.is_empty())
    }

    /// Takes out the releases, by the number of a table, with addresses of its processes.
    pub(crate) fn take_releases(&mut self) -> BTreeMap<u32, Vec<ReleasedAt>> {
        std::mem::take(&mut self.releases)
    }

    /// Gives a process its table.
    pub(crate) fn assign(&mut self, pid: u32, number: u32) {
        self.of_process.insert(pid, number);
    }

    /// Adds a note, once.
    pub(crate) fn note(&mut self, what: String) {
        if !self.notes.contains(&what) {
            self.notes.push(what);
        }
    }

    fn number(&mut self, name: String) -> u16 {
        let known = self.names.iter().position(|n| *n == name);
        let number = known.unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        u16::try_from(number).unwrap_or(u16::MAX)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Those of one image.
    pub(crate) fn entries_of(&self, image: &Image) -> &[Entry] {
        self.entries.get(image.first as usize..).and_then(|from| from.get(..image.count as usize)).unwrap_or(&[])
    }

    pub(crate) fn images(&self) -> &[Image] {
        &self.images
    }

    pub(crate) fn of(&self, pid: u32) -> u32 {
        self.of_process.get(&pid).copied().unwrap_or(IMAGE_NONE)
    }

    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }
}

const NOTHING: Meaning = Meaning {
    mask: 0,
    value: 0,
    word_at: 0,
    word_load: 0,
    section: 0,
    reg: ALWAYS as u16,
    word_reg: WORD_UNKNOWN as u16,
    held: NEITHER as u8,
    differs: 0,
    word_loads: 0,
    returns: 0,
    unused: [0; 6],
};

/// With the way to the lock's address.
fn with_word(meaning: Meaning, word: Option<LockWord>) -> Option<Meaning> {
    let Some(LockWord { base, offset, load }) = word else { return Some(meaning) };
    let word_reg = match base {
        WordBase::Register(register) => place(register)?,
        WordBase::File => WORD_FIXED as u16,
        WordBase::Section => WORD_OF_SECTION as u16,
    };
    let word_load = load.unwrap_or_default() as u64;
    Some(Meaning { word_reg, word_at: offset as u64, word_load, word_loads: u8::from(load.is_some()), ..meaning })
}

/// Where a register lies in struct pt_regs, by its number in section maps.
fn place(register: u8) -> Option<u16> {
    arch::PROGRAMS?.registers.get(usize::from(register)).copied()
}

/// Where a function keeps its caller's registers, a byte for each in the order in which they lie in struct pt_regs.
fn kept(machine: Machine, saved: &[u8; 6]) -> Option<u64> {
    let mut places = Vec::new();
    for (register, times) in machine.saved().into_iter().zip(saved) {
        places.push((place(register)?, *times));
    }
    places.sort_unstable();
    Some(places.iter().rev().fold(0, |all, (_, times)| all << 8 | u64::from(*times)))
}

fn meaning(kind: &Kind, numbers: &[u16]) -> Option<Meaning> {
    Some(match kind {
        Kind::Range { section, role, when, word } => {
            let section = *numbers.get(usize::from(*section))?;
            let held = match role {
                SectionRole::Holder => HOLDER as u8,
                SectionRole::Waiter => WAITER as u8,
            };
            let always = with_word(Meaning { section, held, ..NOTHING }, *word)?;
            match *when {
                None => always,
                Some(Condition { register, mask, value, differs }) => {
                    let reg = place(register)?;
                    Meaning { mask, value, reg, differs: u8::from(differs), ..always }
                }
            }
        }
        Kind::Callee { return_address_bytes, by_frame_pointer, saved, return_address, frame_bytes } => {
            let machine = arch::PROGRAMS?.machine;
            let reg = place(if *by_frame_pointer { machine.frame() } else { machine.stack() })?;
            let (returns, frame_bytes) = match (return_address, machine) {
                (ReturnAddress::Stack, Machine::X86_64) => (RETURNS_BY_STACK, return_address_bytes + 8),
                (ReturnAddress::Stack, Machine::Aarch64) => (RETURNS_BY_STACK, *frame_bytes),
                (ReturnAddress::Register, _) => (RETURNS_BY_REGISTER, *frame_bytes),
                (ReturnAddress::Done, _) => (RETURNS_ONLY, *frame_bytes),
            };
            let signed = |bytes: i32| i64::from(bytes) as u64;
            Meaning {
                value: signed(*return_address_bytes),
                word_at: kept(machine, saved)?,
                word_load: signed(frame_bytes),
                held: CALLEE as u8,
                returns: returns as u8,
                reg,
                ..NOTHING
            }
        }
    })
}

/// Where the locks of these files are released, by begin. Sections have the numbers of their files: the instruction
/// alone decides.
fn releases(files: &[Loaded<'_>]) -> Vec<ReleasedAt> {
    let mut all = Vec::new();
    for file in files {
        let at = |address: &u64| address.wrapping_add(file.bias);
        for of_one in file.map.iter().flat_map(|map| &map.releases) {
            let (begin, end, section) = (at(&of_one.begin), at(&of_one.end), of_one.section);
            all.push(ReleasedAt { begin, end, section, at: of_one.at.iter().map(at).collect() });
        }
    }
    all
}

/// The table, with all meanings of an address in one entry.
fn entries(table: &Table, numbers: &[u16]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for group in table.entries.chunk_by(|a, b| a.begin == b.begin) {
        let mut meanings = [NOTHING; MEANINGS];
        let said = group.iter().filter_map(|entry| meaning(&entry.kind, numbers));
        for (place, meaning) in meanings.iter_mut().zip(said) {
            *place = meaning;
        }
        let (begin, end) = (group[0].begin, group[0].end);
        // What overlaps comes from two objects at one place, which no process has; the first one counts.
        if meanings[0] != NOTHING && entries.last().is_none_or(|last| last.end <= begin) {
            entries.push(Entry { begin, end, meaning: meanings });
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::SectionMap;
    use holdup_model::sections::{CalleeRange, ReturnAddress, Section, SectionRange, SectionSource};

    fn map() -> SectionMap {
        let section = |name: &str| Section { name: name.to_owned(), function: None, source: SectionSource::Note };
        let range = |begin, end, section, role, when| SectionRange { begin, end, section, role, when, word: None };
        let zero = Condition { register: 0, mask: 0xff, value: 0, differs: false };
        SectionMap {
            sections: vec![section("a"), section("b")],
            ranges: vec![
                range(0x10, 0x20, 0, SectionRole::Holder, None),
                range(0x20, 0x24, 0, SectionRole::Holder, Some(zero)),
                range(0x20, 0x24, 0, SectionRole::Waiter, Some(Condition { differs: true, ..zero })),
                range(0x40, 0x50, 1, SectionRole::Waiter, None),
            ],
            callees: vec![CalleeRange {
                begin: 0x60,
                end: 0x68,
                return_address_bytes: 8,
                by_frame_pointer: false,
                saved: [0; 6],
                return_address: ReturnAddress::Stack,
                frame_bytes: 0,
            }],
            ..SectionMap::default()
        }
    }

    fn at(map: &SectionMap, bias: u64) -> Loaded<'_> {
        Loaded { map: Some(map), callees: &[], bias }
    }

    #[test]
    fn ranges_are_cut_and_shifted() {
        let mut images = Images::default();
        let number = images.add(&[at(&map(), 0x1000)]);
        images.assign(7, number);
        assert_eq!((number, images.of(7), images.of(8)), (1, 1, IMAGE_NONE));
        let spans: Vec<(u64, u64)> = images.entries().iter().map(|e| (e.begin, e.end)).collect();
        assert_eq!(spans, [(0x1010, 0x1020), (0x1020, 0x1024), (0x1040, 0x1050), (0x1060, 0x1068)]);
        let held: Vec<[u8; 2]> = images.entries().iter().map(|e| [e.meaning[0].held, e.meaning[1].held]).collect();
        assert_eq!(held, [[0, 2], [0, 1], [1, 2], [3, 2]]);
        assert_eq!(Some(images.entries()[1].meaning[0].reg), place(0));
        assert_eq!(images.images()[1], Image { begin: 0x1010, end: 0x1068, first: 0, count: 4, unknown_off_cpu: 0 });
    }

    #[test]
    fn a_second_program_at_other_places_has_its_own_table_and_the_same_names() {
        let mut images = Images::default();
        images.add(&[at(&map(), 0x1000)]);
        let second = images.add(&[at(&map(), 0x9000)]);
        assert_eq!(images.names(), ["a", "b"]);
        assert_eq!(images.images()[second as usize].first, 4);
    }

    #[test]
    fn a_section_number_that_is_not_there_is_left_out() {
        let mut map = map();
        map.ranges[0].section = 9;
        let mut images = Images::default();
        images.add(&[at(&map, 0)]);
        assert!(images.entries().iter().all(|e| e.begin != 0x10));
    }
}
