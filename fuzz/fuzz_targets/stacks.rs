//! An ELF file with its unwind information, and a stack: the first two bytes say how long the stack is, 24 more are its
//! registers. Any file gives a reason or stacks, and every sample is in the profile.
#![no_main]

use holdup_stacks::{KernelSymbols, Mapping, Module, Registers, Sample, Symbolizer};
use libfuzzer_sys::fuzz_target;

const START: u64 = 0x40_0000;

fuzz_target!(|data: &[u8]| {
    let Some((head, rest)) = data.split_at_checked(26) else { return };
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| head[2 + 8 * at + i]));
    let length = usize::from(u16::from_le_bytes([head[0], head[1]])).min(rest.len());
    let (stack, file) = rest.split_at(length);
    let Ok(module) = Module::parse("fuzzed", file) else { return };
    let mut symbolizer = Symbolizer::new();
    let module = symbolizer.add_module(module);
    let end = START + file.len() as u64;
    let Some(space) = symbolizer.add_space(&[Mapping { start: START, end, offset: 0, module }]) else { return };
    let task = symbolizer.task("fuzzed", None);
    let places: Vec<u64> = (START..end).step_by(file.len() / 64 + 1).collect();
    for ip in &places {
        let registers = Some(Registers { ip: *ip, sp: word(1), bp: word(2), lr: Some(word(0)) });
        symbolizer.add_sample(&Sample { task, space: Some(space), registers, stack, kernel: &[word(0)], weight: 1 });
    }
    let profile = symbolizer.profile(&KernelSymbols::parse(&String::from_utf8_lossy(stack)), "on_cpu", "samples", 1);
    let sum: u64 = profile.stacks.iter().map(|stack| stack.weight).sum();
    assert_eq!(sum, places.len() as u64);
});
