//! The strongest test: a compiled program is run one instruction at a time, and at each the answer of the map is compared
//! with the lock words in its memory.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests, without libtest")]

mod tracer;

use holdup_model::sections::{SectionMap, SectionRole};
use holdup_sections::lookup::{Inside, Loaded, Registers, Table, classify};
use holdup_sections::{NamedFunction, Wanted, map};
use holdup_testkit::ignore;
use iced_x86::{Decoder, DecoderOptions, Mnemonic, OpKind};
use object::{Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::process::Command;
use tracer::Traced;

/// Compiles the program; `None` where there is no compiler.
fn compiled(compiler: &str, flags: &[&str], name: &str) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/locks.c");
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut command = Command::new(compiler);
    command.args(flags).args(["-o".as_ref(), out.as_os_str(), source.as_ref()]);
    match command.output() {
        Err(why) => ignore(format!("{compiler} cannot be run: {why}")),
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            out
        }
    }
}

/// A lock word of the program, and who has it.
#[derive(Clone, Copy)]
struct Word {
    at: u64,
    bits: u64,
    ours: bool,
    /// Steps until the other task that has it gives it back.
    theirs: u32,
}

#[derive(Default, Debug)]
struct Tally {
    held: u64,
    held_and_mapped: u64,
    /// Holders whose lock shows, and those of which it is another.
    words: u64,
    wrong_words: BTreeMap<u64, u64>,
    wrong_holders: BTreeMap<u64, u64>,
    missed: BTreeMap<u64, u64>,
    waiting: u64,
    waiting_and_mapped: u64,
    wrong_waiters: BTreeMap<u64, u64>,
    missed_waiting: BTreeMap<u64, u64>,
}

struct World {
    traced: Traced,
    table: Table,
    words: Vec<Word>,
    /// A small generator of numbers: what is measured does not hang on its quality.
    dice: u64,
    bias: u64,
    /// The code, in the file, of the function that does not wait when it fails.
    gives_up: Range<u64>,
}

impl World {
    fn start(program: &PathBuf, map: &SectionMap, elf: &[u8]) -> Self {
        let traced = Traced::start(Command::new(program)).expect("it can be traced");
        let bias = traced.base(&program.to_string_lossy()).expect("it is mapped");
        // The dynamic linker maps the C library before the program's entry.
        let file = object::File::parse(elf).expect("an ELF file");
        assert!(traced.go_to(bias + file.entry()));
        let (library, base) = traced.c_library().expect("the C library is mapped");
        let names: Vec<&str> = map.imports.iter().map(String::as_str).collect();
        let (_, inside) =
            holdup_sections::library(&std::fs::read(library).expect("readable"), &names).expect("an ELF file");
        let objects =
            [Loaded { map: Some(map), callees: &[], bias }, Loaded { map: None, callees: &inside.ranges, bias: base }];
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok("words")).expect("it has its words");
        let mut words = Vec::new();
        for number in 0.. {
            let at = bias + symbol.address() + 16 * number;
            let (Some(word), Some(bits)) = (traced.read(at), traced.read(at + 8)) else { break };
            if word == 0 {
                break;
            }
            words.push(Word { at: word, bits, ours: false, theirs: 0 });
        }
        let gives_up = file.symbols().find(|symbol| symbol.name() == Ok("try_count")).expect("it tries one lock");
        let gives_up = gives_up.address()..gives_up.address() + gives_up.size();
        World { traced, table: Table::new(&objects), words, dice: 1, bias, gives_up }
    }

    fn chance(&mut self, of: u64) -> bool {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.dice >> 33).is_multiple_of(of)
    }

    /// What another task does meanwhile: it takes a free lock for a while.
    fn others(&mut self, values: &mut [u64]) {
        for (i, value) in values.iter_mut().enumerate() {
            let Word { at, bits, theirs, .. } = self.words[i];
            let bytes = if bits == 0xff { 1 } else { 4 };
            let next = match theirs {
                1 => *value & !bits,
                // The lowest bit of a word that is all lock, or the one bit that is.
                0 if *value & bits == 0 && self.chance(400) => {
                    self.words[i].theirs = 300;
                    *value | if bits.count_ones() == 1 { bits } else { 1 }
                }
                _ => *value,
            };
            self.words[i].theirs = self.words[i].theirs.saturating_sub(1);
            if next != *value {
                self.traced.write(at, &next.to_le_bytes()[..bytes]);
                *value = next;
            }
        }
    }

    /// Whether the instruction at `ip` is an atomic operation on a lock that another task has.
    fn attempts_in_vain(&self, ip: u64, registers: &Registers, values: &[u64]) -> bool {
        let code = [self.traced.read(ip), self.traced.read(ip + 8)].map(|eight| eight.unwrap_or(0).to_le_bytes());
        let instruction = Decoder::with_ip(64, code.as_flattened(), ip, DecoderOptions::NONE).decode();
        let atomic = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
        let memory = (0..instruction.op_count()).find(|operand| instruction.op_kind(*operand) == OpKind::Memory);
        let (true, Some(operand)) = (atomic, memory) else { return false };
        let at = instruction.virtual_address(operand, 0, |register, _, _| {
            Some(if register.is_gpr() { registers.general[register.full_register().number()] } else { 0 })
        });
        let theirs = |(word, value): (&Word, &u64)| Some(word.at) == at && !word.ours && value & word.bits != 0;
        !self.gives_up.contains(&(ip - self.bias)) && self.words.iter().zip(values).any(theirs)
    }

    fn values(&self) -> Vec<u64> {
        self.words.iter().map(|word| self.traced.read(word.at).unwrap_or(0)).collect()
    }

    fn run(&mut self, steps: u64) -> Tally {
        let mut tally = Tally::default();
        let mut waits = false;
        let mut before = self.values();
        for _ in 0..steps {
            let (ip, registers) = self.traced.registers();
            let class = classify(&self.table, ip, &registers, &|at| self.traced.read(at));
            let owned = self.words.iter().any(|word| word.ours);
            tally.note(ip.wrapping_sub(self.bias), class.map(|class| class.role), owned, waits);
            if let Some(Inside { role: SectionRole::Holder, word, .. }) = class {
                tally.words += u64::from(word.is_some());
                if word.is_some_and(|word| !self.words.iter().any(|w| w.ours && w.at == word)) {
                    *tally.wrong_words.entry(ip.wrapping_sub(self.bias)).or_default() += 1;
                }
            }
            waits |= self.attempts_in_vain(ip, &registers, &before);
            assert!(self.traced.step(), "it does not end");
            let now = self.values();
            for ((word, before), now) in self.words.iter_mut().zip(&before).zip(&now) {
                match (before & word.bits != 0, now & word.bits != 0) {
                    (false, true) => (word.ours, waits) = (true, false),
                    (true, false) => word.ours = false,
                    _ => {}
                }
            }
            before = now;
            self.others(&mut before);
        }
        tally
    }
}

impl Tally {
    fn note(&mut self, at: u64, role: Option<SectionRole>, owned: bool, failed: bool) {
        self.held += u64::from(owned);
        self.waiting += u64::from(failed);
        match role {
            Some(SectionRole::Holder) if owned => self.held_and_mapped += 1,
            Some(SectionRole::Holder) => *self.wrong_holders.entry(at).or_default() += 1,
            _ if owned => *self.missed.entry(at).or_default() += 1,
            _ => {}
        }
        match role {
            Some(SectionRole::Waiter) if owned => *self.wrong_waiters.entry(at).or_default() += 1,
            Some(SectionRole::Waiter) => self.waiting_and_mapped += u64::from(failed),
            _ if failed => *self.missed_waiting.entry(at).or_default() += 1,
            _ => {}
        }
    }
}

fn follows(compiler: &str, flags: &[&str], name: &str) {
    let program = compiled(compiler, flags, name);
    let elf = std::fs::read(&program).expect("readable");
    let names =
        ["pop", "push", "try_count", "lock_page", "use_page", "lock_list", "use_list", "swap_lock", "slow_lock"];
    let functions = names.iter().map(|name| NamedFunction { name: (*name).to_owned(), lock: None }).collect();
    let map = map(&elf, &Wanted { shipped: false, functions }).expect("an ELF file");
    let tally = World::start(&program, &map, &elf).run(20_000);
    assert!(tally.held > 1000 && tally.waiting > 500, "the program takes its locks and waits for them: {tally:x?}");
    assert!(tally.wrong_holders.is_empty(), "a holder in the map, and no lock: {tally:x?}");
    assert!(tally.wrong_waiters.is_empty(), "a waiter in the map, with the lock: {tally:x?}");
    assert!(tally.wrong_words.is_empty(), "another lock than the holder's: {tally:x?}");
    assert!(tally.words * 100 >= tally.held_and_mapped * 90, "the lock does not show: {tally:?}");
    assert!(tally.held_and_mapped * 100 >= tally.held * 95, "held and not in the map: {tally:x?} {:?}", map.notes);
    assert!(
        tally.waiting_and_mapped * 100 >= tally.waiting * 95,
        "waiting and not in the map: {tally:x?} {:?}",
        map.notes
    );
}

fn gcc_optimised() {
    follows("gcc", &["-O2"], "locks-gcc-o2");
}

fn gcc_with_frame_pointer() {
    follows("gcc", &["-O2", "-fno-omit-frame-pointer", "-fstack-protector-strong"], "locks-gcc-frame");
}

fn gcc_small() {
    follows("gcc", &["-Os"], "locks-gcc-os");
}

fn gcc_much() {
    follows("gcc", &["-O3"], "locks-gcc-o3");
}

fn clang_optimised() {
    follows("clang", &["-O2"], "locks-clang-o2");
}

holdup_testkit::tests!(gcc_optimised, gcc_with_frame_pointer, gcc_small, gcc_much, clang_optimised);
