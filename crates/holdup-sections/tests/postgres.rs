//! The map of an installed PostgreSQL 15 server, as its package ships it: without symbols of static functions.

use crate::tracer;
use holdup_model::sections::{SectionMap, SectionRole};
use holdup_sections::lookup::{Inside, Loaded, Registers, Table, classify};
use holdup_sections::{Wanted, map};
use holdup_testkit::ignore;
use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
use object::{Object, ObjectSection};
use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tracer::{Traced, address};

/// Where the server of version 15 is; another one, of any version, is stepped through where `HOLDUP_POSTGRES_BIN` names
/// the folder of its programs.
fn bin() -> PathBuf {
    PathBuf::from(std::env::var_os("HOLDUP_POSTGRES_BIN").unwrap_or_else(|| "/usr/lib/postgresql/15/bin".into()))
}

/// The server's bytes and map.
fn server() -> (Vec<u8>, SectionMap) {
    let program = bin().join("postgres");
    let Ok(elf) = std::fs::read(&program) else {
        ignore(format!("there is no {}", program.display()));
    };
    let map = map(&elf, &Wanted { shipped: true, functions: Vec::new() }).expect("an ELF file");
    (elf, map)
}

fn finds_the_locks_that_matter() {
    let (_, map) = server();
    for name in [
        "StrategyGetBuffer",
        "StrategyGetBuffer: buffer header",
        "ClockSweepTick",
        "StrategyFreeBuffer",
        "StrategySyncStart",
        "StrategyNotifyBgWriter",
        "LockBufHdr",
        "InvalidateBuffer",
        "ReadBuffer_common",
        "LWLockWaitListLock",
        "LWLockRelease: wait list",
        "LWLockUpdateVar: wait list",
        "LWLockWaitForVar: wait list",
        "ReserveXLogInsertLocation",
        "XLogFlush",
        "ProcKill",
        "SIGetDataEntries",
        "s_lock",
    ] {
        let Some(number) = map.sections.iter().position(|s| s.name == name || s.name.contains(&format!("({name})")))
        else {
            panic!("{name} is not found: {:?}", map.notes)
        };
        let holders = map.ranges.iter().filter(|r| usize::from(r.section) == number && r.role == SectionRole::Holder);
        assert!(holders.count() > 0, "{name} is never held");
    }
    assert!(map.sections.len() > 150, "{} sections", map.sections.len());
    assert_eq!(map.build_id.len(), 40);
    assert!(map.imports.iter().any(|name| name == "select"), "pg_usleep waits in select: {:?}", map.imports);
    // The caller of s_lock waits there, and s_lock is itself a section.
    let s_lock = map.sections.iter().position(|s| s.name == "s_lock").expect("found above");
    let waits = map.ranges.iter().filter(|r| usize::from(r.section) == s_lock && r.role == SectionRole::Waiter);
    assert!(waits.map(|r| r.end - r.begin).sum::<u64>() > 60);
}

fn unlocked_code_is_in_no_section() {
    let (elf, map) = server();
    let text: u64 = object::File::parse(&*elf).expect("ELF").section_by_name(".text").expect("code").size();
    let covered: u64 = map.ranges.iter().map(|range| range.end - range.begin).sum();
    assert!(covered * 100 < text, "{covered} of {text} bytes of code are in sections");
}

/// A lock that the server holds, by its memory and registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owned {
    at: u64,
    bits: u64,
}

struct Stepped {
    traced: Traced,
    table: Table,
    bias: u64,
    /// Atomic operations with a breakpoint: the byte below it, and how often it was reached.
    sites: BTreeMap<u64, (u8, u32)>,
    steps: u64,
    held: u64,
    mapped: u64,
    /// Holders in the map whose lock shows, and those of which it is another.
    words: u64,
    wrong_words: BTreeMap<u64, u64>,
    wrong: BTreeMap<u64, u64>,
    missed: BTreeMap<u64, u64>,
    sections: BTreeMap<String, u64>,
    waited: u64,
    waiting_mapped: u64,
    missed_waiting: BTreeMap<u64, u64>,
}

/// The bits that are locks: of a buffer's state, and of an LWLock's up to 17 and since 18.
const FLAGS: u64 = 1 << 22 | 1 << 28 | 1 << 29;

/// The number of times that each atomic operation is watched.
const VISITS: u32 = 12;

impl Stepped {
    /// Executes the instruction at `ip`, and gives the lock that it took.
    fn execute(&mut self, ip: u64, registers: &Registers) -> (bool, Option<Owned>) {
        if let Some((byte, _)) = self.sites.get(&ip) {
            self.traced.write(ip, &[*byte]);
        }
        let instruction = self.traced.instruction(ip);
        let at = may_lock(&instruction).then(|| address(&instruction, registers)).flatten();
        let bytes = instruction.memory_size().size();
        let read = |traced: &Traced| {
            let value = at.and_then(|at| traced.read(at)).unwrap_or(0);
            if bytes >= 8 { value } else { value & ((1 << (8 * bytes)) - 1) }
        };
        let before = read(&self.traced);
        let alive = self.traced.step();
        if let Some((_, visits)) = self.sites.get_mut(&ip) {
            *visits += 1;
            if *visits < VISITS {
                self.traced.write(ip, &[0xcc]);
            } else {
                self.sites.remove(&ip);
            }
        }
        let after = read(&self.traced);
        let set = after & !before;
        let bits = match instruction.mnemonic() {
            Mnemonic::Xchg if before == 0 && after == 1 => 0xff,
            Mnemonic::Cmpxchg | Mnemonic::Bts if FLAGS & set == set && set.is_power_of_two() => set,
            _ => 0,
        };
        (alive, at.filter(|_| bits != 0).map(|at| Owned { at, bits }))
    }

    /// The lock that the atomic operation at `ip` wants, when it is one of the kinds that are known to be locks.
    fn wanted(&self, ip: u64, registers: &Registers) -> Option<Owned> {
        let instruction = match self.sites.get(&ip) {
            Some((byte, _)) => {
                self.traced.write(ip, &[*byte]);
                let instruction = self.traced.instruction(ip);
                self.traced.write(ip, &[0xcc]);
                instruction
            }
            None => self.traced.instruction(ip),
        };
        let at = may_lock(&instruction).then(|| address(&instruction, registers)).flatten()?;
        let registers = &registers.general;
        let bits = match instruction.mnemonic() {
            Mnemonic::Xchg if instruction.memory_size().size() == 1 => 0xff,
            // A new value that has one of the flags and the expected one not.
            Mnemonic::Cmpxchg => {
                let new = registers[instruction.op1_register().full_register().number()];
                (new & !registers[0]) & (1 << 22)
            }
            Mnemonic::Bts => 1 << instruction.immediate(1),
            _ => 0,
        };
        (bits != 0).then_some(Owned { at, bits })
    }

    /// Sets or clears a lock as another process would.
    fn set(&self, lock: Owned, taken: bool) {
        let value = self.traced.read(lock.at).unwrap_or(0);
        let value = if taken { value | (lock.bits & (FLAGS | 1)) } else { value & !lock.bits };
        self.traced.write(lock.at, &value.to_le_bytes()[..if lock.bits == 0xff { 1 } else { 4 }]);
    }

    /// Steps from a breakpoint until every lock is given back. On some visits another process has the lock meanwhile.
    fn follow(&mut self, map: &SectionMap, visit: u32) -> bool {
        let mut owned: Vec<Owned> = Vec::new();
        let mut theirs: Option<(Owned, u32)> = None;
        let mut waits = false;
        for step in 0..8000 {
            let (ip, registers) = self.traced.registers();
            if step == 0
                && visit % 3 == 1
                && let Some(lock) = self.wanted(ip, &registers)
            {
                self.set(lock, true);
                theirs = Some((lock, if visit == 4 { 1500 } else { 70 }));
            }
            let class = classify(&self.table, ip, &registers, &|at| self.traced.read(at));
            self.steps += 1;
            self.compare(ip, class, &owned, waits, map);
            if owned.is_empty() && theirs.is_none() && !waits && step > 0 && !self.sites.contains_key(&ip) {
                return true;
            }
            let vain = theirs.is_some_and(|(lock, _)| self.wanted(ip, &registers).is_some_and(|w| w.at == lock.at));
            let (alive, took) = self.execute(ip, &registers);
            if !alive {
                return false;
            }
            waits = (waits || vain) && took.is_none();
            owned.extend(took);
            owned.retain(|lock| self.traced.read(lock.at).is_some_and(|value| value & lock.bits != 0));
            theirs = match theirs {
                Some((lock, 1)) => {
                    self.set(lock, false);
                    None
                }
                other => other.map(|(lock, steps)| (lock, steps - 1)),
            };
        }
        true
    }

    fn compare(&mut self, ip: u64, class: Option<Inside>, owned: &[Owned], waits: bool, map: &SectionMap) {
        let at = ip.wrapping_sub(self.bias);
        self.held += u64::from(!owned.is_empty());
        let role = class.map(|inside| inside.role);
        match class {
            Some(Inside { section, role: SectionRole::Holder, word }) if !owned.is_empty() => {
                self.mapped += 1;
                self.words += u64::from(word.is_some());
                if word.is_some_and(|word| owned.iter().all(|lock| lock.at != word)) {
                    *self.wrong_words.entry(at).or_default() += 1;
                }
                *self.sections.entry(map.sections[usize::from(section)].name.clone()).or_default() += 1;
            }
            _ if role == Some(SectionRole::Holder) => *self.wrong.entry(at).or_default() += 1,
            _ if !owned.is_empty() => *self.missed.entry(at).or_default() += 1,
            _ if role == Some(SectionRole::Waiter) && waits => self.waiting_mapped += 1,
            _ if waits => *self.missed_waiting.entry(at).or_default() += 1,
            _ => {}
        }
        self.waited += u64::from(waits);
    }
}

fn may_lock(instruction: &Instruction) -> bool {
    let memory = (0..instruction.op_count()).any(|operand| instruction.op_kind(operand) == OpKind::Memory);
    let atomic = match instruction.mnemonic() {
        Mnemonic::Xchg => true,
        Mnemonic::Cmpxchg | Mnemonic::Bts => instruction.has_lock_prefix(),
        _ => false,
    };
    memory && atomic
}

/// Every atomic operation in the server's code.
fn atomics(elf: &[u8]) -> Vec<u64> {
    let file = object::File::parse(elf).expect("ELF");
    let text = file.section_by_name(".text").expect("code");
    let code = text.data().expect("in the file");
    let decoder = Decoder::with_ip(64, code, text.address(), DecoderOptions::NONE);
    decoder.into_iter().filter(may_lock).map(|instruction| instruction.ip()).collect()
}

/// A new database, and the command of a server that is its only user. The server refuses to run as root.
fn single(folder: &Path) -> Command {
    let script = folder.join("commands");
    let commands = "create table t as select i, repeat('x', 400) as x from generate_series(1, 3000) i\n\
                    create index on t (i)\nselect count(*) from t\ncheckpoint\nupdate t set i = i + 1 where i % 50 = 0\n\
                    vacuum t\ndrop table t\ncheckpoint\n";
    std::fs::write(&script, commands).expect("writable");
    let unprivileged = |program: &str| {
        let mut command = Command::new(bin().join(program));
        command.uid(65534).gid(65534).current_dir(folder).env("LC_ALL", "C");
        command
    };
    if let Err(why) = std::os::unix::fs::chown(folder, Some(65534), Some(65534)) {
        ignore(format!("only root can start a server as another user: {why}"));
    }
    let made = unprivileged("initdb")
        .args(["-D", "data", "-A", "trust", "--no-sync"])
        .output()
        .unwrap_or_else(|why| ignore(format!("there is no initdb: {why}")));
    if !made.status.success() {
        ignore(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr)));
    }
    let mut server = unprivileged("postgres");
    server.args(["--single", "-D", "data", "-c", "shared_buffers=1MB", "template1"]);
    server.stdin(std::fs::File::open(script).expect("readable")).stdout(Stdio::null()).stderr(Stdio::null());
    server
}

/// Runs the server as a single user, and from every atomic operation on by single steps: the map must agree with the lock
/// words in memory.
fn a_running_server_agrees_with_its_map() {
    let (elf, map) = server();
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("single-user");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("writable");
    let command = single(&folder);
    let traced = Traced::start(command).expect("it can be traced");
    let program = bin().join("postgres").display().to_string();
    let bias = traced.base(&program).expect("mapped");
    assert!(traced.go_to(bias + object::File::parse(&*elf).expect("ELF").entry()));
    let (library, base) = traced.c_library().expect("mapped");
    let names: Vec<&str> = map.imports.iter().map(String::as_str).collect();
    let (_, inside) =
        holdup_sections::library(&std::fs::read(library).expect("readable"), &names).expect("an ELF file");
    let objects =
        [Loaded { map: Some(&map), callees: &[], bias }, Loaded { map: None, callees: &inside.ranges, bias: base }];
    let mut stepped = Stepped {
        traced,
        table: Table::new(&objects),
        bias,
        sites: BTreeMap::new(),
        steps: 0,
        held: 0,
        mapped: 0,
        words: 0,
        wrong_words: BTreeMap::new(),
        wrong: BTreeMap::new(),
        missed: BTreeMap::new(),
        sections: BTreeMap::new(),
        waited: 0,
        waiting_mapped: 0,
        missed_waiting: BTreeMap::new(),
    };
    for at in atomics(&elf) {
        let at = at + bias;
        let byte = stepped.traced.read(at).expect("code") as u8;
        stepped.sites.insert(at, (byte, 0));
        stepped.traced.write(at, &[0xcc]);
    }
    while stepped.traced.go_on() {
        let ip = stepped.traced.registers().0 - 1;
        let Some((_, visit)) = stepped.sites.get(&ip).copied() else { continue };
        stepped.traced.set_ip(ip);
        if !stepped.follow(&map, visit) {
            break;
        }
    }
    let (held, mapped) = (stepped.held, stepped.mapped);
    eprintln!(
        "{} steps, {held} with a lock, {mapped} in the map; wrong {:x?}; missed {:x?}",
        stepped.steps, stepped.wrong, stepped.missed
    );
    let (waited, waiting_mapped) = (stepped.waited, stepped.waiting_mapped);
    eprintln!("{waited} waiting, {waiting_mapped} in the map; missed {:x?}", stepped.missed_waiting);
    eprintln!("{:?}", stepped.sections);
    assert!(stepped.wrong.is_empty(), "a holder in the map, and no lock in the server: {:x?}", stepped.wrong);
    // Hash tables take their lock only where they are partitioned: most of their code runs with and without it, and is in
    // no section. Every place counts alike here, however often it is passed.
    eprintln!("the lock shows in {} of {mapped}; wrong {:x?}", stepped.words, stepped.wrong_words);
    assert!(stepped.wrong_words.is_empty(), "{:x?}", stepped.wrong_words);
    assert!(stepped.words * 100 >= mapped * 80, "{} of {mapped}", stepped.words);
    assert!(held > 1000 && mapped * 100 >= held * 85, "{mapped} of {held}: {:x?}", stepped.missed);
    assert!(waited > 5000 && waiting_mapped * 100 >= waited * 95, "{waiting_mapped} of {waited}");
    assert!(stepped.sections.len() > 20, "{:?}", stepped.sections);
}

holdup_testkit::tests!(
    finds_the_locks_that_matter,
    unlocked_code_is_in_no_section,
    a_running_server_agrees_with_its_map
);
