//! The strongest test: a compiled program is run one instruction at a time, and at each the answer of the map is compared
//! with the lock words in its memory.

use crate::emulated;
use crate::tracer;
use crate::world;
use emulated::Emulated;
use holdup_sections::lookup::{Loaded, Registers, Table};
use holdup_sections::{NamedFunction, Wanted, map};
use holdup_testkit::ignore;
use iced_x86::Mnemonic;
use object::{Object, ObjectSymbol};
use std::path::PathBuf;
use std::process::Command;
use tracer::Traced;
use world::{Stepped, World};

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

/// Those of the program's functions that take locks.
fn named() -> Wanted {
    let names =
        ["pop", "push", "try_count", "lock_page", "use_page", "lock_list", "use_list", "swap_lock", "slow_lock"];
    let functions = names.iter().map(|name| NamedFunction { name: (*name).to_owned(), lock: None }).collect();
    Wanted { shipped: false, functions }
}

impl Stepped for Traced {
    fn registers(&self) -> (u64, Registers) {
        self.registers()
    }
    fn read(&self, at: u64) -> Option<u64> {
        self.read(at)
    }
    fn write(&self, at: u64, bytes: &[u8]) {
        self.write(at, bytes);
    }
    fn step(&self) -> bool {
        self.step()
    }
    fn atomic(&self, ip: u64, registers: &Registers) -> Option<u64> {
        let instruction = self.instruction(ip);
        let is_atomic = instruction.has_lock_prefix() || instruction.mnemonic() == Mnemonic::Xchg;
        is_atomic.then(|| tracer::address(&instruction, registers)).flatten()
    }
}

fn follows(compiler: &str, flags: &[&str], name: &str) {
    let program = compiled(compiler, flags, name);
    let elf = std::fs::read(&program).expect("readable");
    let map = map(&elf, &named()).expect("an ELF file");
    let traced = Traced::start(Command::new(&program)).expect("it can be traced");
    let bias = traced.base(&program.to_string_lossy()).expect("it is mapped");
    // The dynamic linker maps the C library before the program's entry.
    assert!(traced.go_to(bias + object::File::parse(&*elf).expect("an ELF file").entry()));
    let (library, base) = traced.c_library().expect("the C library is mapped");
    let imports: Vec<&str> = map.imports.iter().map(String::as_str).collect();
    let (_, inside) =
        holdup_sections::library(&std::fs::read(library).expect("readable"), &imports).expect("an ELF file");
    let objects =
        [Loaded { map: Some(&map), callees: &[], bias }, Loaded { map: None, callees: &inside.ranges, bias: base }];
    World::new(&traced, Table::new(&objects), bias, &elf).run(20_000).agrees(1000, &map.notes);
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

/// The same for AArch64, where QEMU executes the program; a step takes it milliseconds.
fn follows_emulated(compiler: &str, flags: &[&str], cpu: &str, name: &str) {
    let program = compiled(compiler, &[flags, &["-static", "-no-pie"]].concat(), name);
    let elf = std::fs::read(&program).expect("readable");
    let map = map(&elf, &named()).expect("an ELF file");
    let emulated = Emulated::start(&program, cpu);
    let file = object::File::parse(&*elf).expect("an ELF file");
    let main = file.symbols().find(|symbol| symbol.name() == Ok("main")).expect("a program");
    emulated.go_to(main.address());
    let table = Table::new(&[Loaded { map: Some(&map), callees: &[], bias: 0 }]);
    World::new(&emulated, table, 0, &elf).run(2000).agrees(100, &map.notes);
}

const ARM: &str = "aarch64-linux-gnu-gcc";

/// Calls of the helpers of libgcc, which use one instruction.
fn arm_outline() {
    follows_emulated(ARM, &["-O2", "-moutline-atomics"], "max", "locks-arm-outline");
}

/// The same where the CPU has none of those instructions: loops of exclusive loads and stores.
fn arm_outline_on_an_old_cpu() {
    follows_emulated(ARM, &["-O2", "-moutline-atomics"], "cortex-a57", "locks-arm-outline-old");
}

fn arm_one_instruction() {
    follows_emulated(ARM, &["-O2", "-march=armv8.1-a"], "max", "locks-arm-lse");
}

fn arm_exclusive_pairs() {
    follows_emulated(ARM, &["-O2", "-mno-outline-atomics"], "max", "locks-arm-pairs");
}

fn arm_signed_return_addresses() {
    let flags = ["-O2", "-march=armv8.3-a", "-mbranch-protection=standard", "-fno-omit-frame-pointer"];
    follows_emulated(ARM, &flags, "max", "locks-arm-pauth");
}

/// Without what GCC knows of registers that its own functions leave as they are (docs/evidence.md, limits).
fn arm_small() {
    follows_emulated(ARM, &["-Os", "-mno-outline-atomics", "-fno-ipa-ra"], "max", "locks-arm-os");
}

holdup_testkit::tests!(
    gcc_optimised,
    gcc_with_frame_pointer,
    gcc_small,
    gcc_much,
    clang_optimised,
    arm_outline,
    arm_outline_on_an_old_cpu,
    arm_one_instruction,
    arm_exclusive_pairs,
    arm_signed_return_addresses,
    arm_small
);
