//! The maps of PostgreSQL servers of all versions that holdup knows: those that are installed, and those that
//! `HOLDUP_POSTGRES_SERVERS` names (paths with colons between them; unpacked packages will do, also of another architecture,
//! nothing is run).

use holdup_model::sections::{Machine, SectionMap, SectionRole};
use holdup_sections::cached::CachedAnalysis;
use holdup_sections::{Wanted, map};
use holdup_testkit::ignore;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The sections that explanations name, in every version from 15 to 19; names that stand for each other with a bar
/// between them. A spin lock that is inlined has the name of the function whose source takes it, and what the compiler
/// leaves in a separate function has that function's name.
const EVERYWHERE: &[&str] = &[
    "StrategyGetBuffer",
    "StrategySyncStart",
    "StrategyNotifyBgWriter",
    "LockBufHdr",
    "InvalidateBuffer|InvalidateBuffer: buffer header",
    "LWLockWaitListLock",
    "LWLockRelease: wait list|LWLockReleaseInternal: wait list",
    "LWLockUpdateVar: wait list",
    "LWLockWaitForVar: wait list|LWLockQueueSelf: wait list",
    "XLogFlush",
    "ProcKill",
    "SIGetDataEntries",
    "s_lock",
];

/// Up to 18 alone: since then no buffer header is locked to look at it, and spin locks that are inlined do not name the function whose
/// source takes them.
const UNTIL_18: &[&str] = &["StrategyGetBuffer: buffer header", "ClockSweepTick", "ReserveXLogInsertLocation"];

/// In the same version for two architectures this share of the sections has the same names: what is inlined, and what stays a
/// function without a symbol, are the compiler's choices.
const LEAST_ALIKE: f64 = 0.9;

fn servers() -> Vec<PathBuf> {
    let named = std::env::var("HOLDUP_POSTGRES_SERVERS").unwrap_or_default();
    let installed = (15..=19).map(|major| PathBuf::from(format!("/usr/lib/postgresql/{major}/bin/postgres")));
    let named = named.split(':').filter(|path| !path.is_empty()).map(PathBuf::from);
    installed.filter(|path| path.exists()).chain(named).collect()
}

/// The version that the server prints with `--version`.
fn version(elf: &[u8]) -> String {
    let head = b"postgres (PostgreSQL) ";
    let at = elf.windows(head.len()).position(|w| w == head).map_or(0, |at| at + head.len());
    elf[at..].iter().take_while(|b| b.is_ascii_graphic()).map(|b| char::from(*b)).collect()
}

/// How many bytes of code hold the lock of the section of a name.
fn held(map: &SectionMap, name: &str) -> u64 {
    let own = |s: &holdup_model::sections::Section| {
        name.split('|').any(|name| {
            let (function, lock) = name.split_once(": ").map_or((name, ""), |(function, lock)| (function, lock));
            // A function without a symbol, known by the name that it gives to its error reports.
            let unnamed = s.name.contains(&format!("({function})")) && s.name.ends_with(lock);
            s.name == name || unnamed
        })
    };
    let of = |range: &&holdup_model::sections::SectionRange| {
        range.role == SectionRole::Holder && own(&map.sections[usize::from(range.section)])
    };
    map.ranges.iter().filter(of).map(|r| r.end - r.begin).sum()
}

fn every_version_has_the_locks_that_matter() {
    let servers = servers();
    if servers.is_empty() {
        ignore("no server is installed and HOLDUP_POSTGRES_SERVERS names none");
    }
    let mut missing = Vec::new();
    for path in servers {
        let elf = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let before = cpu_s();
        let map = map(&elf, &Wanted { shipped: true, functions: Vec::new() }).expect("an ELF file");
        let took = cpu_s() - before;
        let is_old = !version(&elf).starts_with("19");
        let expected: Vec<&str> = EVERYWHERE.iter().chain(UNTIL_18.iter().filter(|_| is_old)).copied().collect();
        let found: Vec<(&str, u64)> = expected.iter().map(|name| (*name, held(&map, name))).collect();
        let absent: Vec<&str> = found.iter().filter(|(_, bytes)| *bytes == 0).map(|(name, _)| *name).collect();
        let here = expected.len() - absent.len();
        let (version, sections, notes) = (version(&elf), map.sections.len(), map.notes.len());
        eprintln!(
            "{version} {:?}: {sections} sections, {here} of {} named, {notes} notes, {took:.2} s CPU",
            map.machine,
            expected.len()
        );
        let kept = CachedAnalysis {
            build_id: map.build_id.clone(),
            is_program: true,
            map: map.clone(),
            ..CachedAnalysis::default()
        };
        let bytes = kept.encode().expect("it is small");
        let before = cpu_s();
        assert_eq!(CachedAnalysis::decode(&bytes).as_ref(), Ok(&kept));
        eprintln!("{version}: kept in {} bytes, read in {:.2} ms CPU", bytes.len(), (cpu_s() - before) * 1e3);
        if std::env::var_os("HOLDUP_POSTGRES_PRINT").is_some() {
            map.sections.iter().for_each(|s| eprintln!("  {} {:?}", s.name, s.function));
            map.notes.iter().for_each(|n| eprintln!("  note: {n}"));
        }
        if !absent.is_empty() || sections < 150 {
            missing.push(format!("{version} ({}): {sections} sections, without {}", path.display(), absent.join(", ")));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// Names of sections, without those that have the address of a function in them.
fn names(map: &SectionMap) -> BTreeSet<String> {
    map.sections.iter().map(|section| section.name.clone()).filter(|name| !name.contains("function 0x")).collect()
}

fn a_version_has_the_same_sections_on_each_architecture() {
    let mut known: BTreeMap<String, BTreeMap<Machine, BTreeSet<String>>> = BTreeMap::new();
    for path in servers() {
        let elf = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let map = map(&elf, &Wanted { shipped: true, functions: Vec::new() }).expect("an ELF file");
        known.entry(version(&elf)).or_default().insert(map.machine, names(&map));
    }
    known.retain(|_, machines| machines.len() > 1);
    if known.is_empty() {
        ignore("HOLDUP_POSTGRES_SERVERS names no version for two architectures");
    }
    for (version, machines) in known {
        let [x86, arm] = [Machine::X86_64, Machine::Aarch64].map(|machine| &machines[&machine]);
        let (both, all) = (x86.intersection(arm).count(), x86.union(arm).count());
        let differ: Vec<&String> = x86.symmetric_difference(arm).collect();
        eprintln!("{version}: {both} of {all} sections have the same names; {differ:?}");
        assert!(both as f64 >= LEAST_ALIKE * all as f64, "{version}: {both} of {all}; {differ:?}");
    }
}

/// CPU time of this thread, s.
fn cpu_s() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it is a valid place for the result.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

holdup_testkit::tests!(every_version_has_the_locks_that_matter, a_version_has_the_same_sections_on_each_architecture);
