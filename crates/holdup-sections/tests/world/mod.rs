//! A program whose locks are known, run one instruction at a time: at each the answer of its map is compared with the lock words in
//! its memory.
#![allow(dead_code, unreachable_pub, reason = "each of the tests uses what it needs")]

use holdup_model::sections::SectionRole;
use holdup_sections::lookup::{Inside, Registers, Table, classify};
use object::{Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::ops::Range;

/// A program that stops behind every instruction.
pub trait Stepped {
    fn registers(&self) -> (u64, Registers);
    /// 8 bytes of its memory.
    fn read(&self, at: u64) -> Option<u64>;
    /// 8 bytes of each of these places.
    fn read_all(&self, places: &[u64]) -> Vec<u64> {
        places.iter().map(|at| self.read(*at).unwrap_or(0)).collect()
    }
    fn write(&self, at: u64, bytes: &[u8]);
    /// Executes one instruction, or several that cannot be stopped between; false when the program ended.
    fn step(&self) -> bool;
    /// The place that an instruction works on, when it is an atomic operation or the begin of one.
    fn atomic(&self, ip: u64, registers: &Registers) -> Option<u64>;
    /// The instruction of the program that an atomic operation is for: the call of a helper.
    fn asked_by(&self, ip: u64, _: &Registers) -> u64 {
        ip
    }
}

/// A lock word of the program, and who has it.
#[derive(Clone, Copy)]
pub struct Word {
    at: u64,
    bits: u64,
    ours: bool,
    /// Steps until the other task that has it gives it back.
    theirs: u32,
}

#[derive(Default, Debug)]
pub struct Tally {
    pub held: u64,
    pub held_and_mapped: u64,
    /// Holders whose lock shows, and those of which it is another.
    pub words: u64,
    pub wrong_words: BTreeMap<u64, u64>,
    pub wrong_holders: BTreeMap<u64, u64>,
    pub missed: BTreeMap<u64, u64>,
    pub waiting: u64,
    pub waiting_and_mapped: u64,
    pub wrong_waiters: BTreeMap<u64, u64>,
    pub missed_waiting: BTreeMap<u64, u64>,
}

pub struct World<'t> {
    task: &'t dyn Stepped,
    table: Table,
    words: Vec<Word>,
    dice: Dice,
    bias: u64,
    /// The code, in the file, of the function that does not wait when it fails.
    gives_up: Range<u64>,
}

/// A small generator of numbers: the measurement does not hang on its quality.
pub struct Dice(pub u64);

impl Dice {
    /// True once in this many calls.
    pub fn chance(&mut self, of: u64) -> bool {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33).is_multiple_of(of)
    }
}

impl<'t> World<'t> {
    /// A task of the program, whose code has the address in the file plus `bias`.
    pub fn new(task: &'t dyn Stepped, table: Table, bias: u64, elf: &[u8]) -> Self {
        let file = object::File::parse(elf).expect("an ELF file");
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok("words")).expect("it has its words");
        let mut words = Vec::new();
        for number in 0.. {
            let at = bias + symbol.address() + 16 * number;
            let (Some(word), Some(bits)) = (task.read(at), task.read(at + 8)) else { break };
            if word == 0 {
                break;
            }
            words.push(Word { at: word, bits, ours: false, theirs: 0 });
        }
        let gives_up = file.symbols().find(|symbol| symbol.name() == Ok("try_count")).expect("it tries one lock");
        let gives_up = gives_up.address()..gives_up.address() + gives_up.size();
        World { task, table, words, dice: Dice(1), bias, gives_up }
    }

    /// What another task does meanwhile: it takes a free lock for a while.
    fn others(&mut self, values: &mut [u64]) {
        for (i, value) in values.iter_mut().enumerate() {
            let Word { at, bits, theirs, .. } = self.words[i];
            let bytes = if bits == 0xff { 1 } else { 4 };
            let next = match theirs {
                1 => *value & !bits,
                // The lowest bit of a word that is all lock, or the one bit that is.
                0 if *value & bits == 0 && self.dice.chance(400) => {
                    self.words[i].theirs = 300;
                    *value | if bits.count_ones() == 1 { bits } else { 1 }
                }
                _ => *value,
            };
            self.words[i].theirs = self.words[i].theirs.saturating_sub(1);
            if next != *value {
                self.task.write(at, &next.to_le_bytes()[..bytes]);
                *value = next;
            }
        }
    }

    /// True if the instruction at `ip` is an atomic operation on a lock that another task has.
    fn attempts_in_vain(&self, ip: u64, registers: &Registers, values: &[u64]) -> bool {
        let Some(at) = self.task.atomic(ip, registers) else { return false };
        let theirs = |(word, value): (&Word, &u64)| word.at == at && !word.ours && value & word.bits != 0;
        let ip = self.task.asked_by(ip, registers);
        !self.gives_up.contains(&(ip - self.bias)) && self.words.iter().zip(values).any(theirs)
    }

    fn values(&self) -> Vec<u64> {
        self.task.read_all(&self.words.iter().map(|word| word.at).collect::<Vec<u64>>())
    }

    pub fn run(&mut self, steps: u64) -> Tally {
        let mut tally = Tally::default();
        let mut waits = false;
        let mut before = self.values();
        for _ in 0..steps {
            let (ip, registers) = self.task.registers();
            let class = classify(&self.table, ip, &registers, &|at| self.task.read(at));
            let owned = self.words.iter().any(|word| word.ours);
            tally.note(ip.wrapping_sub(self.bias), class.map(|class| class.role), owned, waits);
            if let Some(Inside { role: SectionRole::Holder, word, .. }) = class {
                tally.words += u64::from(word.is_some());
                if word.is_some_and(|word| !self.words.iter().any(|w| w.ours && w.at == word)) {
                    *tally.wrong_words.entry(ip.wrapping_sub(self.bias)).or_default() += 1;
                }
            }
            waits |= self.attempts_in_vain(ip, &registers, &before);
            assert!(self.task.step(), "it does not end");
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

impl Tally {
    /// The map is never wrong, and says nearly all.
    pub fn agrees(&self, least: u64, notes: &[String]) {
        assert!(self.held > least && self.waiting > least / 2, "it takes its locks and waits for them: {self:x?}");
        assert!(self.wrong_holders.is_empty(), "a holder in the map, and no lock: {self:x?}");
        assert!(self.wrong_waiters.is_empty(), "a waiter in the map, with the lock: {self:x?}");
        assert!(self.wrong_words.is_empty(), "another lock than the holder's: {self:x?}");
        assert!(self.words * 100 >= self.held_and_mapped * 90, "the lock does not show: {self:?}");
        assert!(self.held_and_mapped * 100 >= self.held * 95, "held and not in the map: {self:x?} {notes:?}");
        assert!(self.waiting_and_mapped * 100 >= self.waiting * 95, "waits and is not in the map: {self:x?} {notes:?}");
    }
}
