//! The section map of an executable that holds the measured loop: what a task holds and what it waits for is one lock, the one that the
//! loop declares.

#![cfg(target_arch = "x86_64")]

use holdup_catalogue::Algorithm;
use holdup_locks::algorithms;
use holdup_model::sections::{SectionMap, SectionRange, SectionRole, SectionSource, WordBase};
use holdup_sections::lookup::{Kind, Loaded, Table};
use holdup_sections::{Wanted, map};
use std::collections::BTreeSet;

fn own_map() -> SectionMap {
    // The code is only here when it could be run.
    assert!(algorithms::find(std::hint::black_box("tas")).is_some());
    let elf = std::fs::read(std::env::current_exe().expect("this test's")).expect("readable");
    map(&elf, &Wanted { shipped: true, ..Wanted::default() }).expect("an ELF file")
}

fn is_declared(map: &SectionMap, section: u16) -> bool {
    map.sections[usize::from(section)].source == SectionSource::Note
}

fn holders_and_waiters_of_each_algorithm_are_one_lock() {
    let map = own_map();
    for id in Algorithm::WORDS.iter().filter(|id| !id.starts_with("holdfast")) {
        let name = format!("lock-contention: {id}");
        let section = map.sections.iter().position(|section| section.name == name).expect("its points are declared");
        let of_lock = || map.ranges.iter().filter(|range| usize::from(range.section) == section);
        for role in [SectionRole::Holder, SectionRole::Waiter] {
            assert!(of_lock().any(|range| range.role == role && range.when.is_none()), "{id}: no {role:?}");
        }
        let is_section = |range: &&SectionRange| matches!(range.word, Some(word) if word.base == WordBase::Section);
        assert!(of_lock().all(|range| is_section(&range)), "{id}: an address, by which waiters and holders may differ");
    }
}

fn no_found_section_overlaps_a_declared_one() {
    let map = own_map();
    let overlaps = |found: &&SectionRange| {
        let mut declared = map.ranges.iter().filter(|range| is_declared(&map, range.section));
        declared.any(|range| range.begin < found.end && found.begin < range.end)
    };
    let found: Vec<_> = map.ranges.iter().filter(|range| !is_declared(&map, range.section)).collect();
    let overlapping: Vec<_> = found.into_iter().filter(overlaps).collect();
    assert!(overlapping.is_empty(), "{overlapping:x?}");
}

/// The table in the kernel has one answer for each place; it names the declared lock wherever the map does.
fn the_table_answers_with_the_declared_lock() {
    let map = own_map();
    let table = Table::new(&[Loaded { map: Some(&map), callees: &[], bias: 0 }]);
    let declared = map.ranges.iter().filter(|range| is_declared(&map, range.section) && range.when.is_none());
    let mut roles = BTreeSet::new();
    for range in declared {
        let certain = table.at(range.begin).iter().find_map(|entry| match entry.kind {
            Kind::Range { section, role, when: None, word } => Some((section, role, word)),
            _ => None,
        });
        let (section, role, word) = certain.expect("an answer");
        assert!(is_declared(&map, section), "{range:x?}: {}", map.sections[usize::from(section)].name);
        assert_eq!(word.map(|word| word.base), Some(WordBase::Section), "{range:x?}");
        roles.insert((section, role));
    }
    assert!(roles.len() > Algorithm::WORDS.len(), "{roles:?}");
}

holdup_testkit::tests!(
    holders_and_waiters_of_each_algorithm_are_one_lock,
    no_found_section_overlaps_a_declared_one,
    the_table_answers_with_the_declared_lock
);
