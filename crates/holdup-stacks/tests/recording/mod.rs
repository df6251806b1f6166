//! Programs that write down what a sampler would see of them.
#![allow(dead_code, reason = "each test uses its own part")]

use holdup_stacks::{Mapping, Module, Registers, SpaceId, Symbolizer};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One sample: registers and the stack from the stack pointer on.
pub(crate) struct StackSample {
    pub(crate) registers: Registers,
    pub(crate) stack: Vec<u8>,
}

/// What a program wrote.
pub(crate) struct Recording {
    pub(crate) samples: Vec<StackSample>,
    pub(crate) maps: String,
}

/// The folder of the programs' sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recording")
}

/// What compiles for an architecture, and what runs its programs.
pub(crate) struct Platform {
    pub(crate) compiler: &'static str,
    runner: &'static [&'static str],
    has_link: bool,
}

pub(crate) const HERE: Platform =
    Platform { compiler: "cc", runner: &[], has_link: matches!(std::env::consts::ARCH.as_bytes(), b"aarch64") };
/// A CPU of this name signs return addresses.
pub(crate) const ARM64: Platform =
    Platform { compiler: "aarch64-linux-gnu-gcc", runner: &["qemu-aarch64", "-cpu", "max"], has_link: true };

/// Compiles a program; `None` where there is no compiler.
pub(crate) fn compile(on: &Platform, source: &Path, into: &Path, options: &[&str]) -> Option<()> {
    let include = sources();
    let mut command = Command::new(on.compiler);
    command.args(options).arg("-I").arg(include).arg("-o").arg(into).arg(source);
    let output = command.output().ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// Runs a program that ends by `end()`; `None` where nothing can run it.
pub(crate) fn record(on: &Platform, program: &Path) -> Option<Recording> {
    let words: Vec<&OsStr> = on.runner.iter().map(OsStr::new).chain([program.as_os_str()]).collect();
    let output = Command::new(words[0]).args(&words[1..]).output().ok()?;
    assert!(output.status.success(), "{:?}", output.status);
    let (mut rest, mut samples) = (&output.stdout[..], Vec::new());
    loop {
        let (head, behind) = rest.split_at(40);
        let word = |at: usize| u64::from_le_bytes(head[at * 8..][..8].try_into().expect("eight"));
        let length = usize::try_from(word(4)).expect("short");
        rest = &behind[length..];
        if length == 0 {
            break;
        }
        let registers = Registers { ip: word(0), sp: word(1), bp: word(2), lr: on.has_link.then(|| word(3)) };
        samples.push(StackSample { registers, stack: behind[..length].to_vec() });
    }
    Some(Recording { samples, maps: String::from_utf8_lossy(rest).into_owned() })
}

/// Makes a recording's mappings known. Files are read through `file`.
pub(crate) fn space(maps: &str, symbolizer: &mut Symbolizer, mut file: impl FnMut(&str) -> Option<Vec<u8>>) -> SpaceId {
    let mut known = std::collections::BTreeMap::new();
    let mut mappings = Vec::new();
    for line in maps.lines() {
        let parts: Vec<&str> = line.split_ascii_whitespace().collect();
        let [range, permissions, offset, _, _, path] = parts[..] else { continue };
        if !permissions.contains('x') || !path.starts_with('/') {
            continue;
        }
        let module = *known.entry(path).or_insert_with(|| {
            let name = path.rsplit('/').next().unwrap_or(path);
            let parsed = Module::parse(name, &file(path)?).ok()?;
            symbolizer.add_module(parsed)
        });
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        let (start, end) = range.split_once('-').expect("a range");
        mappings.push(Mapping { start: hex(start), end: hex(end), offset: hex(offset), module });
    }
    symbolizer.add_space(&mappings).expect("there is room")
}
