//! What is found in compiled programs, with symbols and without: the same instructions, in every form that a compiler gives to
//! atomic operations.

use holdup_model::sections::{SectionMap, SectionRole};
use holdup_sections::{Wanted, map};
use holdup_testkit::ignore;
use std::path::{Path, PathBuf};
use std::process::Command;

fn run(program: &str, arguments: &[&str]) {
    let output = match Command::new(program).args(arguments).output() {
        Err(why) => ignore(format!("{program} cannot be run: {why}")),
        Ok(output) => output,
    };
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn map_of(file: &Path) -> SectionMap {
    let elf = std::fs::read(file).expect("readable");
    map(&elf, &Wanted { shipped: true, functions: Vec::new() }).expect("an ELF file")
}

/// The map with the names left out: addresses, roles, conditions and locks in their order.
fn nameless(map: &SectionMap) -> Vec<String> {
    let mut all: Vec<String> = map
        .ranges
        .iter()
        .map(|r| format!("{:#x}..{:#x} {:?} {:?} {:?}", r.begin, r.end, r.role, r.when, r.word))
        .collect();
    all.sort();
    all
}

fn same(compiler: &str, strip: &str, flags: &[&str], name: &str) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/spins.c");
    let whole = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let bare = whole.with_extension("stripped");
    let [out, without] = [&whole, &bare].map(|path| path.to_str().expect("a plain path"));
    run(compiler, &[flags, &["-o", out, source]].concat());
    run(strip, &["-o", without, out]);
    let (with, without) = (map_of(&whole), map_of(&bare));
    let names: Vec<&str> = with.sections.iter().map(|section| section.name.as_str()).collect();
    for function in ["take", "in_a_word", "compared", "one_bit"] {
        let is_it = |name: &&str| name.split(':').next() == Some(function);
        assert!(names.iter().any(is_it), "{name}: {function} is not among {names:?}: {:?}", with.notes);
    }
    for role in [SectionRole::Holder, SectionRole::Waiter] {
        assert!(with.ranges.iter().any(|range| range.role == role), "{name}: {with:#x?}");
    }
    assert!(without.sections.iter().all(|s| !names.contains(&s.name.as_str())), "it still has its symbols");
    assert_eq!(nameless(&without), nameless(&with), "{name}");
    assert_eq!(without.callees, with.callees, "{name}");
}

fn x86_64() {
    same("gcc", "strip", &["-O2"], "spins-gcc");
    same("clang", "strip", &["-O2"], "spins-clang");
}

fn aarch64() {
    let kinds: [(&str, &[&str]); 6] = [
        ("outline", &["-moutline-atomics"]),
        ("lse", &["-march=armv8.1-a"]),
        ("pairs", &["-mno-outline-atomics"]),
        ("protected", &["-mbranch-protection=standard", "-moutline-atomics"]),
        ("protected-lse", &["-mbranch-protection=standard", "-march=armv8.5-a"]),
        ("frame", &["-fno-omit-frame-pointer", "-fstack-protector-strong"]),
    ];
    for (name, flags) in kinds {
        for level in ["-O2", "-Os", "-O3"] {
            let name = format!("spins-arm-{name}{level}");
            same("aarch64-linux-gnu-gcc", "aarch64-linux-gnu-strip", &[flags, &[level]].concat(), &name);
        }
    }
}

fn aarch64_by_clang() {
    // clang brings no headers for another architecture.
    run("aarch64-linux-gnu-gcc", &["--version"]);
    let kinds: [(&str, &[&str]); 3] =
        [("lse", &["-march=armv8.1-a"]), ("pairs", &["-mno-outline-atomics"]), ("outline", &["-moutline-atomics"])];
    for (name, flags) in kinds {
        let name = format!("spins-arm-clang-{name}");
        let cross = ["--target=aarch64-linux-gnu", "-O2"];
        same("clang", "aarch64-linux-gnu-strip", &[flags, &cross].concat(), &name);
    }
}

holdup_testkit::tests!(x86_64, aarch64, aarch64_by_clang);
