//! Time for the map of a whole PostgreSQL server, where one is installed: `cargo bench -p holdup-sections --bench server`.

use holdup_sections::cached::CachedAnalysis;
use holdup_sections::lookup::{Loaded, Registers, Table, classify};
use holdup_sections::{Wanted, library, map};

const SERVER: &str = "/usr/lib/postgresql/15/bin/postgres";
const C_LIBRARY: &str = "/lib/x86_64-linux-gnu/libc.so.6";

fn main() {
    if std::path::Path::new(SERVER).exists() {
        divan::main();
    }
}

fn wanted() -> Wanted {
    Wanted { shipped: true, functions: Vec::new() }
}

#[divan::bench]
fn whole_map(bencher: divan::Bencher<'_, '_>) {
    let elf = std::fs::read(SERVER).expect("readable");
    bencher.bench_local(|| map(divan::black_box(&elf), &wanted()));
}

#[divan::bench]
fn kept_map(bencher: divan::Bencher<'_, '_>) {
    let elf = std::fs::read(SERVER).expect("readable");
    let map = map(&elf, &wanted()).expect("an ELF file");
    let kept = CachedAnalysis { build_id: map.build_id.clone(), is_program: true, map, ..CachedAnalysis::default() };
    let bytes = kept.encode().expect("it is small");
    bencher.bench_local(|| CachedAnalysis::decode(divan::black_box(&bytes)));
}

#[divan::bench]
fn callees_in_the_c_library(bencher: divan::Bencher<'_, '_>) {
    let elf = std::fs::read(C_LIBRARY).expect("readable");
    bencher.bench_local(|| library(divan::black_box(&elf), &["select", "nanosleep", "memcpy", "syscall"]));
}

#[divan::bench]
fn classify_an_address(bencher: divan::Bencher<'_, '_>) {
    let elf = std::fs::read(SERVER).expect("readable");
    let map = map(&elf, &wanted()).expect("an ELF file");
    let table = Table::new(&[Loaded { map: Some(&map), callees: &[], bias: 0 }]);
    let at = table.entries[table.entries.len() / 2].begin;
    bencher.bench_local(|| classify(divan::black_box(&table), at, &Registers::default(), &|_| None));
}
