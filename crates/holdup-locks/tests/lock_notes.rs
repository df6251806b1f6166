//! The critical sections that the binary declares in its ELF note: the points lie where the atomic operations are, in the
//! very code of this test's executable, and linkers leave them right.

#![cfg(target_arch = "x86_64")]

use holdup_locks::algorithms;
use holdup_testkit::ignore;
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, MemorySize, Mnemonic, OpKind, Register};
use object::{Object, ObjectSection, SectionFlags, SectionKind};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    address: u64,
    kind: u16,
    lock: u32,
    section: String,
}

const ACQUIRED: u16 = 1;
const RELEASED: u16 = 2;
const WAITING: u16 = 3;
const WAITING_NO_LONGER: u16 = 4;

/// The points that a file declares, as they stand there.
fn points(bytes: &[u8]) -> Vec<Point> {
    let file = object::File::parse(bytes).expect("an ELF file");
    let section = file.section_by_name(".note.holdup").expect("it declares sections");
    assert_eq!(section.kind(), SectionKind::Note);
    let SectionFlags::Elf { sh_flags, .. } = section.flags() else { panic!("an ELF file") };
    assert_eq!(sh_flags.0 & object::elf::SHF_ALLOC.0, 0, "nothing is loaded");
    let mut rest = section.data().expect("it lies in the file");
    let mut found = Vec::new();
    while let [a, b, c, d, e, f, g, h, i, j, k, l, name @ ..] = rest {
        let word = |bytes: [&u8; 4]| u32::from_le_bytes(bytes.map(|b| *b)) as usize;
        let length = word([e, f, g, h]);
        assert_eq!((word([a, b, c, d]), word([i, j, k, l]), &name[..8]), (7, 1, &b"holdup\0\0"[..]));
        let (description, after) = name[8..].split_at(length);
        assert_eq!(description[10..12], [0, 0]);
        let section = description[16..].strip_suffix(&[0]).expect("ended by a zero byte");
        found.push(Point {
            address: u64::from_le_bytes(description[..8].try_into().expect("8 bytes")),
            kind: u16::from_le_bytes([description[8], description[9]]),
            lock: u32::from_le_bytes(description[12..16].try_into().expect("4 bytes")),
            section: std::str::from_utf8(section).expect("UTF-8").to_owned(),
        });
        rest = &after[length.next_multiple_of(4) - length..];
    }
    assert!(rest.is_empty(), "{} bytes are left", rest.len());
    found.sort();
    found.dedup();
    found
}

/// True if an address lies in code.
fn is_code(file: &object::File<'_>, address: u64) -> bool {
    file.sections().any(|section| {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return false };
        sh_flags.0 & object::elf::SHF_EXECINSTR.0 != 0
            && (section.address()..section.address() + section.size()).contains(&address)
    })
}

/// The instructions of this executable's functions that have points, by address, each with those that it can come from.
struct Code64 {
    instructions: BTreeMap<u64, Instruction>,
    before: BTreeMap<u64, Vec<u64>>,
}

impl Code64 {
    fn of(bytes: &[u8], points: &[Point]) -> Self {
        let file = object::File::parse(bytes).expect("an ELF file");
        let text = file.section_by_name(".text").expect("code");
        let data = text.data().expect("it lies in the file");
        let functions = functions(bytes);
        let mut code = Code64 { instructions: BTreeMap::new(), before: BTreeMap::new() };
        for point in points {
            let begin = *functions.range(..=point.address).next_back().expect("a symbol before it").0;
            let end = functions[&begin];
            assert!(point.address < end, "{point:?} in {begin:x}..{end:x}");
            if code.instructions.contains_key(&begin) {
                continue;
            }
            let offset = |address: u64| usize::try_from(address - text.address()).expect("it fits");
            let mut decoder = Decoder::with_ip(64, &data[offset(begin)..offset(end)], begin, DecoderOptions::NONE);
            let mut last = None;
            for instruction in &mut decoder {
                if let Some(last) = last {
                    code.before.entry(instruction.ip()).or_default().push(last);
                }
                let flow = instruction.flow_control();
                // What pads the code behind a jump is never run.
                let is_padding = last.is_none() && instruction.ip() != begin && is_nop(&instruction);
                last = match flow {
                    _ if is_padding => None,
                    FlowControl::Return | FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => None,
                    _ => Some(instruction.ip()),
                };
                if matches!(flow, FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch) {
                    code.before.entry(instruction.near_branch_target()).or_default().push(instruction.ip());
                }
                code.instructions.insert(instruction.ip(), instruction);
            }
        }
        code
    }

    /// True if every way to an address comes by an instruction of a kind, and in at most that number of steps.
    fn comes_from(&self, address: u64, most: u32, wanted: &impl Fn(&Instruction) -> bool) -> Result<(), String> {
        let ways = self.before.get(&address).map_or(&[][..], Vec::as_slice);
        if most == 0 || ways.is_empty() {
            return Err(format!("nothing of the kind before {address:x}"));
        }
        for way in ways {
            if !wanted(&self.instructions[way]) {
                self.comes_from(*way, most - 1, wanted)?;
            }
        }
        Ok(())
    }
}

fn is_nop(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
        || (instruction.mnemonic() == Mnemonic::Xchg && instruction.op0_kind() == OpKind::Register)
}

/// Begin and end of every function that has a symbol.
fn functions(bytes: &[u8]) -> BTreeMap<u64, u64> {
    use object::ObjectSymbol;
    let file = object::File::parse(bytes).expect("an ELF file");
    let functions = file.symbols().filter(|s| s.kind() == object::SymbolKind::Text && s.size() > 0);
    functions.map(|s| (s.address(), s.address() + s.size())).collect()
}

fn own_executable() -> Vec<u8> {
    std::fs::read(std::env::current_exe().expect("this test's")).expect("readable")
}

fn is_exchange(instruction: &Instruction) -> bool {
    (instruction.mnemonic() == Mnemonic::Xchg && instruction.op0_kind() == OpKind::Memory)
        || instruction.has_lock_prefix()
}

/// A ticket's turn has come when a plain load says so.
fn is_load_of_a_word(instruction: &Instruction) -> bool {
    let from_memory = instruction.op1_kind() == OpKind::Memory || instruction.op0_kind() == OpKind::Memory;
    from_memory
        && matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Cmp)
        && instruction.memory_size() == MemorySize::UInt32
        && instruction.memory_base() != Register::RSP
}

/// A store of 32 bits, or an exchange, to memory that is not on the stack.
fn is_release(instruction: &Instruction) -> bool {
    let stores = matches!(instruction.code(), Code::Mov_rm32_imm32 | Code::Mov_rm32_r32);
    (stores || is_exchange(instruction)) && instruction.op0_kind() == OpKind::Memory
}

fn is_call(instruction: &Instruction) -> bool {
    matches!(instruction.flow_control(), FlowControl::Call | FlowControl::IndirectCall)
}

/// How many instructions may lie between an operation and its point: tests, branches and moves of registers.
const ACQUIRED_WITHIN: u32 = 12;

fn every_point_of_the_measured_loop_lies_at_its_operation() {
    // The code is only here when it could be run.
    assert!(algorithms::find(std::hint::black_box("tas")).is_some());
    let bytes = own_executable();
    let file = object::File::parse(&*bytes).expect("an ELF file");
    if functions(&bytes).is_empty() {
        ignore("this executable is stripped and its functions have no ends");
    }
    // Copies that the linker has dropped have no place in the code.
    let (points, dropped): (Vec<_>, Vec<_>) = points(&bytes).into_iter().partition(|p| is_code(&file, p.address));
    // holdfast declares its own.
    let is_own = |id: &&&str| !id.starts_with("holdfast");
    let ids: Vec<_> = holdup_catalogue::Algorithm::WORDS.iter().filter(is_own).collect();
    let names: Vec<_> = ids.iter().map(|id| format!("lock-contention: {id}")).collect();
    let (of_holdfast, points): (Vec<_>, Vec<_>) = points.into_iter().partition(|p| p.section == "holdfast: mutex");
    for kind in [ACQUIRED, RELEASED, WAITING] {
        // Two algorithms, three loops or more of each.
        assert!(of_holdfast.iter().filter(|p| p.kind == kind).count() >= 6, "{of_holdfast:?}");
    }
    assert!(points.iter().all(|point| names.contains(&point.section)));
    println!("{} points in code, {} in functions that the linker has dropped", points.len(), dropped.len());
    let code = Code64::of(&bytes, &points);
    for (id, name) in ids.into_iter().zip(&names) {
        let is_of_library =
            matches!(*id, "pthread-mutex" | "pthread-adaptive" | "pthread-spin" | "std-mutex" | "parking-lot");
        let of_kind = |kind| points.iter().filter(move |p| p.section == *name && p.kind == kind).map(|p| p.address);
        let [acquired, released, waiting, no_longer] =
            [ACQUIRED, RELEASED, WAITING, WAITING_NO_LONGER].map(|kind| of_kind(kind).count());
        println!("{id}: {acquired} acquired, {released} released, {waiting} waiting, {no_longer} waiting no longer");
        assert!(acquired > 0 && released > 0 && waiting > 0, "{id}");
        // The others have no way to give up.
        let gives_up = !is_of_library || matches!(*id, "pthread-mutex" | "pthread-adaptive");
        assert_eq!(no_longer > 0, gives_up, "{id}");
        for address in points.iter().filter(|p| p.section == *name).map(|p| p.address) {
            assert!(code.instructions.contains_key(&address), "{id}: {address:x} is inside of an instruction");
        }
        for address in of_kind(ACQUIRED) {
            // Through a function that waits, the way comes by its call.
            // std looks first whether a holder has panicked.
            let within = if *id == "std-mutex" { 4 * ACQUIRED_WITHIN } else { ACQUIRED_WITHIN };
            let from = code.comes_from(address, within, &|instruction| match *id {
                "pthread-mutex" | "pthread-adaptive" | "pthread-spin" => is_call(instruction),
                "ticket" | "mcs" | "clh" => is_exchange(instruction) || is_load_of_a_word(instruction),
                _ => is_exchange(instruction) || is_call(instruction),
            });
            assert_eq!(from, Ok(()), "{id}: acquired at {address:x}");
        }
        for address in of_kind(RELEASED).filter(|_| !is_of_library) {
            // A compare-exchange says in a flag whether it has given the lock back, and moves of registers may stand before the branch.
            let right = code.comes_from(address, if *id == "mcs" { ACQUIRED_WITHIN } else { 1 }, &is_release);
            assert_eq!(right, Ok(()), "{id}: released at {address:x}");
        }
        // The library gives it back within the call, or what is inlined of it.
        for address in of_kind(RELEASED).filter(|_| is_of_library) {
            let next = code.instructions.range(address..).map(|(_, instruction)| instruction);
            let gives_back = |instruction: &Instruction| is_call(instruction) || is_exchange(instruction);
            assert!(next.take(12).any(gives_back), "{id}: released at {address:x}");
        }
    }
}

/// Sections of a separate program: a point each before an instruction that is known again.
const PROGRAM: &str = r#"
#[path = "NOTE"] pub(crate) mod note;
macro_rules! sign { ($n:literal) => { unsafe { core::arch::asm!(concat!(".4byte 0x5ec71000 + ", stringify!($n))) } } }
#[inline(never)]
fn alive(go: bool) {
    if go {
        point!(acquired, "alive", 7);
        sign!(1);
        point!(released, "alive", 7);
        sign!(2);
    }
}
#[inline(always)]
fn copied(go: bool) {
    if go {
        point!(waiting, "copied, twice", 8);
        sign!(3);
    }
}
#[unsafe(no_mangle)]
pub extern "C" fn dropped(go: bool) {
    if go {
        point!(waiting_no_longer, "dropped", 9);
        sign!(4);
    }
}
fn main() {
    let go = std::hint::black_box(false);
    alive(go);
    copied(go);
    copied(std::hint::black_box(go));
}
"#;

/// The points in code of the program built with these options, with the number of what follows each; `None` where it
/// cannot be built so here.
fn built(folder: &Path, options: &str) -> Option<Vec<(u32, u16, u32, String)>> {
    let note = Path::new(env!("CARGO_MANIFEST_DIR")).join("../holdfast/src/note.rs");
    let source = folder.join("program.rs");
    std::fs::write(&source, PROGRAM.replace("NOTE", note.to_str().expect("UTF-8"))).expect("writable");
    let program = folder.join("program");
    let compiler = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let output = Command::new(compiler)
        .args(["--edition", "2024", "-Awarnings", "-o"])
        .args([&program, &source])
        .args(options.split_whitespace())
        .output()
        .expect("the compiler that built this test");
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        let missing = ["may not be installed", "cannot find", "unable to find", "invalid linker name"];
        assert!(missing.iter().any(|m| why.contains(m)), "{options}: {why}");
        return None;
    }
    assert!(Command::new(&program).status().expect("it runs").success(), "{options}");
    let bytes = std::fs::read(&program).expect("readable");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let at = |address: u64| {
        let data = file.sections().find_map(|s| s.data_range(address, 4).ok().flatten()).expect("in a section");
        u32::from_le_bytes(data.try_into().expect("4 bytes")).wrapping_sub(0x5ec7_1000)
    };
    let alive = points(&bytes).into_iter().filter(|p| is_code(&file, p.address));
    let mut alive: Vec<_> = alive.map(|p| (at(p.address), p.kind, p.lock, p.section)).collect();
    alive.sort();
    Some(alive)
}

fn linkers_keep_the_points_and_their_addresses() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut linked = 0;
    for options in [
        "",
        "-Copt-level=3 -Clto=fat -Ccodegen-units=1 -Cstrip=symbols",
        "-Copt-level=3 -Clto=fat -Cstrip=symbols -Ctarget-feature=+crt-static",
        "-Copt-level=3 -Crelocation-model=static",
        "-Copt-level=3 -Clinker-features=-lld -Clink-arg=-fuse-ld=bfd -Cstrip=symbols",
        "-Copt-level=3 -Clinker-features=-lld -Clink-arg=-fuse-ld=bfd -Ctarget-feature=+crt-static",
        "-Copt-level=3 -Clinker-features=-lld -Clink-arg=-fuse-ld=lld -Cstrip=symbols",
        "-Copt-level=3 --target=x86_64-unknown-linux-musl -Cstrip=symbols",
    ] {
        let Some(points) = built(folder.path(), options) else {
            println!("cannot be linked here with {options}");
            continue;
        };
        linked += 1;
        let expected = [
            (1, ACQUIRED, 7, "alive"),
            (2, RELEASED, 7, "alive"),
            (3, WAITING, 8, "copied, twice"),
            (3, WAITING, 8, "copied, twice"),
            // Kept by GNU ld; with lld the function is gone and its point does not lie in code.
            (4, WAITING_NO_LONGER, 9, "dropped"),
        ]
        .map(|(after, kind, lock, name)| (after, kind, lock, name.to_owned()));
        let kept = points.len();
        assert!(kept == 4 || kept == 5, "{options}: {points:?}");
        assert_eq!(points, expected[..kept], "{options}");
    }
    assert!(linked >= 2, "the compiler's own linker is there");
}

holdup_testkit::tests!(
    every_point_of_the_measured_loop_lies_at_its_operation,
    linkers_keep_the_points_and_their_addresses
);
