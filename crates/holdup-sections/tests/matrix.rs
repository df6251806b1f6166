//! Spin locks as three compilers make them at four levels: each program is run one instruction at a time, and what its map says is
//! compared with its lock words.
//!
//! A task holds a lock from the instruction behind the access that took it to the store that gives it back. It waits from its first
//! access in vain to the one that takes it. A map that says "waiter" of a first access that succeeds is neither right nor wrong:
//! it is the same instruction.

use crate::tracer::{Traced, address};
use crate::world::Dice;
use holdup_model::sections::SectionRole;
use holdup_sections::lookup::{Loaded, Table, classify};
use holdup_sections::{Wanted, map};
use holdup_testkit::ignore;
use iced_x86::Mnemonic;
use object::{Object, ObjectSymbol};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const SHAPES: [&str; 5] = ["exchanged", "read first", "compared", "bit", "ticket"];
const STEPS: u64 = 20_000;

fn run(command: &mut Command) {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.output() {
        Err(why) => ignore(format!("{name} cannot be run: {why}")),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
}

/// A place for what is built from a source of the tests.
fn places(source: &str, name: &str) -> (PathBuf, PathBuf) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    (source, Path::new(env!("CARGO_TARGET_TMPDIR")).join(name))
}

fn of_c(compiler: &str, level: &str) -> PathBuf {
    let (source, out) = places("shapes.c", &format!("shapes-{compiler}-{level}"));
    if level != "lto" {
        run(Command::new(compiler).arg(format!("-{level}")).arg("-o").arg(&out).arg(&source));
        return out;
    }
    let parts = ["1", "2"].map(|part| (part, out.with_extension(part)));
    for (part, object) in &parts {
        run(Command::new(compiler)
            .args(["-O2", "-flto", "-c", &format!("-DPART={part}"), "-o"])
            .arg(object)
            .arg(&source));
    }
    // Debian has Clang's plug-in for other linkers in a separate package.
    let linker: &[&str] = if compiler == "clang" { &["-fuse-ld=lld"] } else { &[] };
    run(Command::new(compiler).args(["-O2", "-flto", "-o"]).arg(&out).args(linker).args(parts.map(|part| part.1)));
    out
}

fn of_rust(level: &str) -> PathBuf {
    let (source, out) = places("shapes.rs", &format!("shapes-rustc-{level}"));
    let flags: &[&str] = match level {
        "lto" => &["-Copt-level=3", "-Clto=fat", "-Ccodegen-units=1"],
        _ => &[&format!("-Copt-level={}", &level[1..])],
    };
    let compiler = option_env!("RUSTC").unwrap_or("rustc");
    run(Command::new(compiler).args(["--edition=2021", "-Awarnings"]).args(flags).arg("-o").arg(&out).arg(&source));
    out
}

/// A lock of the program, and who has it.
#[derive(Debug, Clone, Copy, Default)]
struct Lock {
    at: u64,
    /// Bits that are set while it is held; none where two counters show it.
    bits: u32,
    is_ours: bool,
    waits: bool,
    /// Our ticket, as long as it is not served.
    mine: u32,
    has_drawn: bool,
    /// Steps until another task gives it back.
    theirs: u32,
}

#[derive(Debug, Clone, Default)]
struct Tally {
    held: u64,
    held_and_said: u64,
    waited: u64,
    waited_and_said: u64,
    wrong: u64,
    /// Where in the file it was wrong (true) or silent.
    places: BTreeMap<(bool, u64), u64>,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.held += other.held;
        self.held_and_said += other.held_and_said;
        self.waited += other.waited;
        self.waited_and_said += other.waited_and_said;
        self.wrong += other.wrong;
    }

    fn right(&self) -> u64 {
        self.held_and_said + self.waited_and_said
    }

    /// 1 where nothing is said.
    fn precision(&self) -> f64 {
        1.0 - self.wrong as f64 / (self.right() + self.wrong).max(1) as f64
    }

    fn recall(&self) -> f64 {
        self.right() as f64 / (self.held + self.waited).max(1) as f64
    }

    fn note(&mut self, at: u64, said: Option<SectionRole>, lock: &Lock) {
        self.held += u64::from(lock.is_ours);
        self.waited += u64::from(lock.waits);
        let is_right = match said {
            Some(SectionRole::Holder) => lock.is_ours,
            Some(SectionRole::Waiter) => !lock.is_ours,
            None => !lock.is_ours && !lock.waits,
        };
        self.held_and_said += u64::from(lock.is_ours && said == Some(SectionRole::Holder));
        self.waited_and_said += u64::from(lock.waits && said == Some(SectionRole::Waiter));
        if !is_right {
            self.wrong += u64::from(said.is_some());
            *self.places.entry((said.is_some(), at)).or_default() += 1;
        }
    }
}

struct World<'t> {
    task: &'t Traced,
    locks: Vec<Lock>,
    dice: Dice,
}

impl World<'_> {
    fn word(&self, at: u64) -> u32 {
        self.task.read(at).unwrap_or(0) as u32
    }

    /// Numbers that show whether a lock is held: its bits, or the numbers that are drawn and served.
    fn values(&self, lock: &Lock) -> (u32, u32) {
        if lock.bits == 0 { (self.word(lock.at), self.word(lock.at + 4)) } else { (self.word(lock.at) & lock.bits, 0) }
    }

    /// Another task takes a free lock for a while.
    fn others(&mut self) {
        for i in 0..self.locks.len() {
            let mut lock = self.locks[i];
            let (word, turn) = self.values(&lock);
            let is_free = word == turn && !lock.is_ours;
            let next = |word: u32| word.wrapping_add(1).to_le_bytes();
            match (lock.theirs, lock.bits) {
                (0, _) if !is_free || !self.dice.chance(300) => {}
                (0, 0) => (lock.theirs, ()) = (200, self.task.write(lock.at, &next(word))),
                (0, bits) => {
                    let bit = if bits == u32::MAX { 1 } else { bits };
                    (lock.theirs, ()) = (200, self.task.write(lock.at, &(self.word(lock.at) | bit).to_le_bytes()));
                }
                (1, 0) => (lock.theirs, ()) = (0, self.task.write(lock.at + 4, &next(turn))),
                (1, bits) => {
                    (lock.theirs, ()) = (0, self.task.write(lock.at, &(self.word(lock.at) & !bits).to_le_bytes()));
                }
                _ => lock.theirs -= 1,
            }
            self.locks[i] = lock;
        }
    }

    /// Executes one instruction, and what it did to each lock.
    fn step(&mut self) {
        let (ip, registers) = self.task.registers();
        let instruction = self.task.instruction(ip);
        // `lea` has an operand in memory and does not touch it.
        let is_access = instruction.mnemonic() != Mnemonic::Lea;
        let touched = is_access.then(|| address(&instruction, &registers)).flatten();
        let before: Vec<(u32, u32)> = self.locks.iter().map(|lock| self.values(lock)).collect();
        assert!(self.task.step(), "it does not end");
        for (i, before) in before.into_iter().enumerate() {
            let mut lock = self.locks[i];
            let now = self.values(&lock);
            let at = |offset| touched == Some(lock.at + offset);
            if lock.bits == 0 {
                if now.0 != before.0 {
                    (lock.mine, lock.has_drawn) = (before.0, true);
                }
                if lock.has_drawn && at(4) {
                    let is_ours = now.1 == lock.mine;
                    (lock.is_ours, lock.waits, lock.has_drawn) = (is_ours, !is_ours, !is_ours);
                }
                lock.is_ours &= now.1 == before.1;
            } else {
                match (before.0 != 0, now.0 != 0) {
                    (false, true) => (lock.is_ours, lock.waits) = (true, false),
                    (true, false) => lock.is_ours = false,
                    (true, true) => lock.waits |= at(0) && !lock.is_ours,
                    (false, false) => {}
                }
            }
            self.locks[i] = lock;
        }
    }
}

/// One count for each shape.
fn tallies(program: &Path) -> Vec<Tally> {
    let elf = std::fs::read(program).expect("readable");
    let map = map(&elf, &Wanted { shipped: true, functions: Vec::new() }).expect("an ELF file");
    let file = object::File::parse(&*elf).expect("an ELF file");
    let task = Traced::start(Command::new(program)).expect("it can be traced");
    let bias = task.base(&program.to_string_lossy()).expect("it is mapped");
    let function = |name: &str| {
        let here = |symbol: &object::Symbol<'_, '_>| {
            symbol.name().is_ok_and(|full| full == name || full.contains(&format!("{}{name}17h", name.len())))
        };
        file.symbols().find(here).unwrap_or_else(|| panic!("{program:?} has no {name}")).address()
    };
    assert!(task.go_to(bias + function("main")));
    let words = bias + function("words");
    let locks = (0..5).map(|i| Lock {
        at: task.read(words + 16 * i).expect("readable"),
        bits: task.read(words + 16 * i + 8).expect("readable") as u32,
        ..Lock::default()
    });
    let mut world = World { task: &task, locks: locks.collect(), dice: Dice(1) };
    let table = Table::new(&[Loaded { map: Some(&map), callees: &[], bias }]);
    let mut all = vec![Tally::default(); SHAPES.len()];
    for _ in 0..STEPS {
        let (ip, registers) = task.registers();
        let said = classify(&table, ip, &registers, &|at| task.read(at));
        // The program has one lock at a time, or none.
        let busy = world.locks.iter().position(|lock| lock.is_ours || lock.waits);
        let number = said
            .and_then(|said| said.word)
            .and_then(|word| world.locks.iter().position(|lock| lock.at == word || lock.at + 4 == word));
        let i = busy.or(number).unwrap_or(0);
        all[i].note(ip.wrapping_sub(bias), said.map(|said| said.role), &world.locks[i]);
        world.step();
        world.others();
    }
    all
}

/// The counts of a program, printed; the whole must reach these.
fn reaches(program: &Path, precision: f64, recall: f64) {
    let all = tallies(program);
    let mut whole = Tally::default();
    all.iter().for_each(|tally| whole.add(tally));
    let mut said = String::new();
    for (shape, tally) in SHAPES.iter().zip(&all) {
        said += &format!(
            "\n{shape}: precision {:.3}, recall {:.3}, of {} held and {} waited",
            tally.precision(),
            tally.recall(),
            tally.held,
            tally.waited
        );
        said += &format!(" {:x?}", tally.places);
    }
    let name = program.file_name().expect("a name").to_string_lossy();
    println!("{name}: precision {:.3}, recall {:.3}", whole.precision(), whole.recall());
    assert!(
        all.iter().all(|tally| tally.held > 100 && tally.waited > 100),
        "each lock is taken and waited for: {said}"
    );
    assert!(
        whole.precision() >= precision && whole.recall() >= recall,
        "{name}: precision {:.3}, recall {:.3}{said}",
        whole.precision(),
        whole.recall()
    );
}

/// A test for each row of the matrix: its name, the program, and what is reached.
macro_rules! matrix {
    ($($name:ident: $program:expr, $precision:literal, $recall:literal;)*) => {
        $(fn $name() {
            if !cfg!(target_arch = "x86_64") {
                ignore("programs for x86-64 are stepped here");
            }
            reaches(&$program, $precision, $recall);
        })*
        holdup_testkit::tests!($($name),*);
    };
}

matrix! {
    gcc_o0: of_c("gcc", "O0"), 0.99, 0.95;
    gcc_o2: of_c("gcc", "O2"), 0.99, 0.95;
    gcc_o3: of_c("gcc", "O3"), 0.99, 0.95;
    gcc_lto: of_c("gcc", "lto"), 0.99, 0.95;
    clang_o0: of_c("clang", "O0"), 0.99, 0.95;
    clang_o2: of_c("clang", "O2"), 0.99, 0.95;
    clang_o3: of_c("clang", "O3"), 0.99, 0.95;
    clang_lto: of_c("clang", "lto"), 0.99, 0.95;
    // Here the atomic operation is in a separate function, and so is `pause`: nothing is found, and nothing wrong is said.
    rustc_o0: of_rust("O0"), 1.0, 0.0;
    rustc_o2: of_rust("O2"), 0.99, 0.95;
    rustc_o3: of_rust("O3"), 0.99, 0.95;
    rustc_lto: of_rust("lto"), 0.99, 0.95;
}
