//! From what the analysis found to a section map.

use crate::analysis::{Analysis, Found, Piece};
use crate::callees;
use crate::calls::spin_lock;
use crate::function::{Function, Index};
use crate::program::Program;
use crate::shipped::{self, postgres};
use crate::{NamedFunction, Wanted};
use holdup_model::sections::{ReleasedAt, Section, SectionMap, SectionRange, SectionRole, SectionSource};
use std::collections::{BTreeMap, BTreeSet};

/// More sections than a `u16` can number are cut off.
const MOST_SECTIONS: usize = u16::MAX as usize;

/// The wanted sections of a binary.
pub(crate) fn of(program: Program<'_>, wanted: &Wanted) -> SectionMap {
    let only_declared = wanted.functions.is_empty() && !(wanted.shipped && is_postgres(&program));
    assemble(Analysis::run(program, only_declared), wanted)
}

/// The wanted ones of the sections that were found.
fn assemble(mut analysis: Analysis<'_>, wanted: &Wanted) -> SectionMap {
    let mut map = empty(&analysis);
    map.notes = analysis.program.image.notes.clone();
    let product = is_postgres(&analysis.program);
    if wanted.shipped && !product {
        let why = "the binary is no product that holdup knows: sections that are declared or named, or wait with `pause` or `isb`";
        map.notes.push(why.to_owned());
    }
    let mut all = std::mem::take(&mut analysis.found);
    yield_to_declared(&mut all);
    let mut sections: BTreeMap<String, (Section, Vec<Found>)> = BTreeMap::new();
    for found in all.into_values().flatten() {
        if let Some((name, source)) = chosen(&analysis, &found, wanted, product) {
            let function = Some(analysis.known.name_of(&analysis.program, found.function));
            let section = Section { name: name.clone(), function, source };
            sections.entry(name).or_insert_with(|| (section, Vec::new())).1.push(found);
        }
    }
    note_what_is_missing(&analysis, wanted, product, &sections, &mut map);
    let mut calls = BTreeSet::new();
    sections.retain(|_, (_, places)| places.iter().any(|found| !found.pieces.is_empty()));
    for (number, (section, places)) in sections.into_values().enumerate().take(MOST_SECTIONS) {
        map.sections.push(section);
        let mut pieces: Vec<Piece> = Vec::new();
        for place in places {
            map.releases.extend(releases(&place, number as u16));
            calls.extend(place.calls);
            pieces.extend(place.pieces);
        }
        map.ranges.extend(joined(pieces, number as u16));
    }
    // Stable: of several ranges that begin at one address the first whose condition holds gives the role.
    map.ranges.sort_by_key(|range| (range.begin, range.when.is_none()));
    map.releases.sort();
    map.releases.dedup();
    let inside = callees::gather(&mut analysis, &calls);
    map.callees = inside.ranges;
    map.imports = inside.imports.into_iter().collect();
    map.notes.extend(inside.notes);
    map
}

/// A note has the first word on each instruction. A lock that is held in a declared wait stays: its holder holds up others. One that is
/// taken there, and held where the declared one is, is that one.
fn yield_to_declared(all: &mut BTreeMap<u64, Vec<Found>>) {
    let mut declared: BTreeMap<(u64, SectionRole), String> = BTreeMap::new();
    for found in all.values().flatten() {
        let Some(name) = &found.declared else { continue };
        declared.extend(found.pieces.iter().map(|piece| ((piece.begin, piece.role), name.clone())));
    }
    let is_held_as = |found: &Found, name: &String| {
        let mut held = found.pieces.iter().filter(|piece| piece.role == SectionRole::Holder);
        held.any(|piece| declared.get(&(piece.begin, SectionRole::Holder)) == Some(name))
    };
    for found in all.values_mut().flatten().filter(|found| found.declared.is_none()) {
        let waited_for = declared.get(&(found.taken_at, SectionRole::Waiter));
        if let Some(name) = waited_for.filter(|name| is_held_as(found, name)) {
            found.pieces.retain(|piece| piece.role == SectionRole::Waiter);
            found.join_declared(name.clone());
        }
        let covers = |at: u64, role| declared.contains_key(&(at, role));
        found.pieces.retain(|p| !covers(p.begin, SectionRole::Holder) && !covers(p.begin, p.role));
    }
}

fn empty(analysis: &Analysis<'_>) -> SectionMap {
    let image = &analysis.program.image;
    SectionMap { build_id: image.build_id.clone(), machine: image.arch.abi().machine, ..SectionMap::default() }
}

/// True if the binary is a PostgreSQL server.
fn is_postgres(program: &Program<'_>) -> bool {
    postgres::SIGNS.iter().all(|sign| program.image.symbols.contains_key(*sign))
}

/// The name and source of the section that a find belongs to; `None` when it is not wanted.
fn chosen(analysis: &Analysis<'_>, found: &Found, wanted: &Wanted, product: bool) -> Option<(String, SectionSource)> {
    if let Some(declared) = &found.declared {
        return Some((declared.clone(), SectionSource::Note));
    }
    let function = analysis.known.name_of(&analysis.program, found.function);
    let shown = found.source.as_ref().unwrap_or(&function);
    let is_asked = |named: &&NamedFunction| [&function, shown, &found.lock].contains(&&named.name);
    let named = wanted.functions.iter().find(is_asked);
    let lock = named.and_then(|named| named.lock.as_ref()).unwrap_or(&found.lock);
    let name = if lock.is_empty() { shown.clone() } else { format!("{shown}: {lock}") };
    match named {
        Some(_) => Some((name, SectionSource::Named)),
        None if !wanted.shipped => None,
        None if product => Some((name, SectionSource::Shipped)),
        None => found.spins.then_some((name, SectionSource::Spinning)),
    }
}

fn note_what_is_missing(
    analysis: &Analysis<'_>,
    wanted: &Wanted,
    product: bool,
    sections: &BTreeMap<String, (Section, Vec<Found>)>,
    map: &mut SectionMap,
) {
    for named in &wanted.functions {
        let here = |(section, places): &(Section, Vec<Found>)| {
            places.iter().any(|found| analysis.known.name_of(&analysis.program, found.function) == named.name)
                || section.name == named.name
                || section.name.strip_prefix(&named.name).is_some_and(|rest| rest.starts_with(": "))
        };
        if !sections.values().any(here) {
            let known = analysis.program.image.symbols.contains_key(&named.name);
            let why = if known { "no lock was found that it takes" } else { "the binary has no function of this name" };
            map.notes.push(format!("{}: {why}", named.name));
        }
    }
    for (function, reasons) in &analysis.given_up {
        let name = analysis.known.name_of(&analysis.program, *function);
        let named = wanted.functions.iter().any(|named| named.name == name);
        if named || (wanted.shipped && product) {
            map.notes.extend(reasons.iter().map(|why| format!("{name}: {why}")));
        }
    }
}

/// Where a holder that took the lock at one place gives it back, for each run of its instructions.
fn releases(found: &Found, section: u16) -> Vec<ReleasedAt> {
    if found.released_at.is_empty() {
        return Vec::new();
    }
    let mut held: Vec<(u64, u64)> =
        found.pieces.iter().filter(|p| p.role == SectionRole::Holder).map(|p| (p.begin, p.end)).collect();
    held.sort_unstable();
    let mut all: Vec<ReleasedAt> = Vec::new();
    for (begin, end) in held {
        match all.last_mut().filter(|last| last.end >= begin) {
            Some(last) => last.end = last.end.max(end),
            None => all.push(ReleasedAt { begin, end, section, at: found.released_at.clone() }),
        }
    }
    all
}

/// Adjacent pieces of one role become one range. The order of pieces with different conditions at one address is kept.
fn joined(pieces: Vec<Piece>, section: u16) -> Vec<SectionRange> {
    let (mut ranges, mut certain) = (Vec::new(), Vec::new());
    for piece in pieces {
        let Piece { begin, end, role, when, word } = piece;
        let range = SectionRange { begin, end, section, role, when, word };
        if piece.when.is_some() { ranges.push(range) } else { certain.push(range) }
    }
    // Holder before waiter.
    certain.sort_by_key(|range| (range.begin, range.role, range.word, range.end));
    let mut whole: Vec<SectionRange> = Vec::new();
    for range in certain {
        match whole
            .iter_mut()
            .rev()
            .take(4)
            .find(|w| (w.role, w.word) == (range.role, range.word) && w.end >= range.begin)
        {
            Some(last) => last.end = last.end.max(range.end),
            None => whole.push(range),
        }
    }
    let mut seen = BTreeSet::new();
    ranges.retain(|range| seen.insert(range.clone()));
    ranges.extend(whole);
    ranges
}

/// The functions of a library that take a spin lock, of those that are asked for: all of their code is waiting.
pub(crate) fn of_library(analysis: &mut Analysis<'_>, names: &[&str]) -> SectionMap {
    let mut map = empty(analysis);
    for name in shipped::SPIN_LOCKS.iter().filter(|name| names.contains(name)) {
        let Some(symbol) = analysis.program.image.symbols.get(*name).and_then(|symbols| symbols.first()).copied()
        else {
            continue;
        };
        let Ok(mut function) = Function::read(&mut analysis.program, symbol.address) else { continue };
        let section = map.sections.len() as u16;
        let start = function.index(function.entry).and_then(|entry| function.state(entry));
        let Some(lock) = start.map(|state| spin_lock(&state, function.arch.abi())) else { continue };
        let mut pieces = Vec::new();
        for at in 0..function.steps.len() as Index {
            let Some(state) = function.state(at) else { continue };
            let word = crate::word::shown(&lock, &state, function.arch.abi(), &function.nodes);
            let instruction = &function.step(at).instruction;
            let (begin, end) = (instruction.ip, instruction.next_ip());
            pieces.push(Piece { begin, end, role: SectionRole::Waiter, when: None, word });
        }
        let function = Some((*name).to_owned());
        map.sections.push(Section { name: (*name).to_owned(), function, source: SectionSource::Spinning });
        map.ranges.extend(joined(pieces, section));
    }
    map.ranges.sort();
    map
}
