//! The section tables of the programs under test, as the BPF programs search them.

use crate::kernel::layout::{ALWAYS, Entry, IMAGE_NONE, Image, Meaning};
use holdup_model::sections::{CalleeRange, Condition, SectionMap, SectionRange, SectionRole};
use std::collections::{BTreeMap, BTreeSet};

/// `NEITHER` of state.h: no meaning.
const NEITHER: u8 = 2;
/// `CALLEE` of sections.bpf.h, which takes the same number in a table.
const CALLEE: u8 = 3;
/// Where registers lie in struct pt_regs on x86-64, by their number (arch/x86/include/uapi/asm/ptrace.h); 16 is rflags.
const PT_REGS: [u16; 17] = [80, 88, 96, 40, 152, 32, 104, 112, 72, 64, 56, 48, 24, 16, 8, 0, 144];
const RSP: usize = 4;
const RBP: usize = 5;
/// More entries than a search of 17 steps finds are not kept.
const MOST_ENTRIES: usize = 1 << 16;

/// One loaded file of a process: its map and where it lies.
#[derive(Debug, Clone)]
pub(crate) struct Placed<'a> {
    pub(crate) map: &'a SectionMap,
    /// What is added to the file's addresses.
    pub(crate) bias: u64,
}

/// Tables of all processes under test; processes with the same files at the same places share one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Images {
    names: Vec<String>,
    entries: Vec<Entry>,
    images: Vec<Image>,
    of_process: BTreeMap<u32, u32>,
    notes: Vec<String>,
}

impl Images {
    /// Adds the table of a process and gives its number.
    pub(crate) fn add(&mut self, pids: &[u32], files: &[Placed<'_>]) -> u32 {
        if self.images.is_empty() {
            self.images.push(Image::default());
        }
        let mut pieces = Vec::new();
        for file in files {
            let first = self.names.len();
            let numbers: Vec<u16> = file.map.sections.iter().map(|s| self.number(&s.name)).collect();
            debug_assert!(first <= self.names.len());
            pieces.extend(file.map.ranges.iter().filter_map(|r| range(r, &numbers, file.bias)));
            pieces.extend(file.map.callees.iter().map(|c| callee(c, file.bias)));
        }
        let entries = flatten(&pieces);
        if entries.is_empty() || self.entries.len() + entries.len() > MOST_ENTRIES {
            if !entries.is_empty() {
                self.notes.push(format!("{} ranges of a process have no room in the table", entries.len()));
            }
            return IMAGE_NONE;
        }
        let image = Image {
            begin: entries[0].begin,
            end: entries[entries.len() - 1].end,
            first: self.entries.len() as u32,
            count: entries.len() as u32,
        };
        self.entries.extend(entries);
        self.images.push(image);
        let number = self.images.len() as u32 - 1;
        self.of_process.extend(pids.iter().map(|pid| (*pid, number)));
        number
    }

    fn number(&mut self, name: &str) -> u16 {
        let known = self.names.iter().position(|n| n == name);
        let number = known.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        u16::try_from(number).unwrap_or(u16::MAX)
    }

    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    pub(crate) fn sections(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
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

/// A range with one meaning, before ranges are cut where they overlap.
#[derive(Debug, Clone, Copy)]
struct Piece {
    begin: u64,
    end: u64,
    meaning: Meaning,
}

const NOTHING: Meaning =
    Meaning { mask: 0, value: 0, section: 0, register: ALWAYS, held: NEITHER, differs: 0, unused: [0; 2] };

fn range(range: &SectionRange, numbers: &[u16], bias: u64) -> Option<Piece> {
    let section = *numbers.get(usize::from(range.section))?;
    let held = match range.role {
        SectionRole::Holder => 0,
        SectionRole::Waiter => 1,
    };
    let meaning = match range.when {
        None => Meaning { section, held, ..NOTHING },
        Some(Condition { register, mask, value, differs }) => Meaning {
            mask,
            value,
            section,
            held,
            register: *PT_REGS.get(usize::from(register))?,
            differs: u8::from(differs),
            unused: [0; 2],
        },
    };
    Some(Piece { begin: range.begin.wrapping_add(bias), end: range.end.wrapping_add(bias), meaning })
}

fn callee(callee: &CalleeRange, bias: u64) -> Piece {
    let register = if callee.by_frame_pointer { PT_REGS[RBP] } else { PT_REGS[RSP] };
    let value = i64::from(callee.return_address_bytes) as u64;
    let meaning = Meaning { value, held: CALLEE, register, ..NOTHING };
    Piece { begin: callee.begin.wrapping_add(bias), end: callee.end.wrapping_add(bias), meaning }
}

/// Entries that do not overlap, sorted. Where more than two meanings meet, sections come before callees and unconditional
/// ones before others, and what has no room is left out: it is told as neither, never as another's.
fn flatten(pieces: &[Piece]) -> Vec<Entry> {
    let edges: BTreeSet<u64> = pieces.iter().flat_map(|p| [p.begin, p.end]).collect();
    let edges: Vec<u64> = edges.into_iter().collect();
    let mut sorted: Vec<&Piece> = pieces.iter().filter(|p| p.begin < p.end).collect();
    sorted.sort_by_key(|p| p.begin);
    let mut entries: Vec<Entry> = Vec::new();
    let mut open: Vec<&Piece> = Vec::new();
    let mut next = 0;
    for pair in edges.windows(2) {
        let (begin, end) = (pair[0], pair[1]);
        open.retain(|p| p.end > begin);
        while let Some(piece) = sorted.get(next).filter(|p| p.begin <= begin) {
            open.push(piece);
            next += 1;
        }
        let mut here: Vec<Meaning> = open.iter().map(|p| p.meaning).collect();
        here.sort_by_key(|m| (m.held == CALLEE, m.register == ALWAYS, m.section, m.held));
        here.dedup();
        if here.is_empty() {
            continue;
        }
        let meaning = [here[0], here.get(1).copied().unwrap_or(NOTHING)];
        match entries.last_mut().filter(|e| e.end == begin && e.meaning == meaning) {
            Some(last) => last.end = end,
            None => entries.push(Entry { begin, end, meaning }),
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::sections::{Section, SectionSource};

    fn map() -> SectionMap {
        let section = |name: &str| Section { name: name.to_owned(), function: None, source: SectionSource::Note };
        let range = |begin, end, section, role, when| SectionRange { begin, end, section, role, when };
        let zero = Condition { register: 0, mask: 0xff, value: 0, differs: false };
        SectionMap {
            sections: vec![section("a"), section("b")],
            ranges: vec![
                range(0x10, 0x20, 0, SectionRole::Holder, None),
                range(0x20, 0x24, 0, SectionRole::Holder, Some(zero)),
                range(0x20, 0x24, 0, SectionRole::Waiter, Some(Condition { differs: true, ..zero })),
                range(0x40, 0x50, 1, SectionRole::Waiter, None),
            ],
            callees: vec![CalleeRange { begin: 0x60, end: 0x68, return_address_bytes: 8, by_frame_pointer: false }],
            ..SectionMap::default()
        }
    }

    #[test]
    fn ranges_are_cut_and_shifted() {
        let mut images = Images::default();
        let number = images.add(&[7], &[Placed { map: &map(), bias: 0x1000 }]);
        assert_eq!((number, images.of(7), images.of(8)), (1, 1, IMAGE_NONE));
        let spans: Vec<(u64, u64)> = images.entries().iter().map(|e| (e.begin, e.end)).collect();
        assert_eq!(spans, [(0x1010, 0x1020), (0x1020, 0x1024), (0x1040, 0x1050), (0x1060, 0x1068)]);
        let held: Vec<[u8; 2]> = images.entries().iter().map(|e| [e.meaning[0].held, e.meaning[1].held]).collect();
        assert_eq!(held, [[0, 2], [0, 1], [1, 2], [3, 2]]);
        assert_eq!(images.entries()[1].meaning[0].register, 80);
        assert_eq!(images.images()[1], Image { begin: 0x1010, end: 0x1068, first: 0, count: 4 });
    }

    #[test]
    fn a_second_process_with_other_places_has_its_own_table_and_the_same_names() {
        let mut images = Images::default();
        images.add(&[7], &[Placed { map: &map(), bias: 0x1000 }]);
        images.add(&[9], &[Placed { map: &map(), bias: 0x9000 }]);
        assert_eq!(images.names(), ["a", "b"]);
        assert_eq!((images.of(9), images.images()[2].first), (2, 4));
    }

    #[test]
    fn a_section_number_that_is_not_there_is_left_out() {
        let mut map = map();
        map.ranges[0].section = 9;
        let mut images = Images::default();
        images.add(&[1], &[Placed { map: &map, bias: 0 }]);
        assert!(images.entries().iter().all(|e| e.begin != 0x10));
    }
}
