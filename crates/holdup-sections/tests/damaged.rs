//! Damaged files: a reason or a map, never a panic, and soon.

use crate::elf;
use elf::Source;
use holdup_sections::lookup::{Loaded, Registers, Table, classify};
use holdup_sections::{MemoryBudget, NamedFunction, Wanted, library, library_within, map, map_within};
use iced_x86::code_asm::*;
use proptest::prelude::*;

fn wanted() -> Wanted {
    Wanted { shipped: true, functions: vec![NamedFunction { name: "f".to_owned(), lock: Some("lock".to_owned()) }] }
}

/// Reads the bytes in every way, and searches what comes of it.
fn survives(bytes: &[u8]) {
    match map(bytes, &wanted()) {
        Err(problem) => assert!(!problem.why.is_empty()),
        Ok(map) => {
            for range in &map.ranges {
                assert!(range.begin < range.end && usize::from(range.section) < map.sections.len());
            }
            assert!(map.ranges.is_sorted_by_key(|range| range.begin));
            assert!(map.callees.is_sorted_by_key(|callee| callee.begin));
            let table = Table::new(&[Loaded { map: Some(&map), callees: &map.callees, bias: u64::MAX - 0x1000 }]);
            assert!(table.entries.is_sorted_by_key(|entry| entry.begin));
            for entry in &table.entries {
                assert!(table.at(entry.begin).len() <= holdup_sections::lookup::MOST_AT_ONE_PLACE);
                let _ = classify(&table, entry.begin, &Registers::default(), &|at| Some(at ^ 0x55));
            }
        }
    }
    let _ = library(bytes, &["f", "g", "pthread_spin_lock"]);
}

fn sample() -> Vec<u8> {
    let mut source = Source::new();
    let again = source.function("f");
    let asm = &mut source.asm;
    let build = |asm: &mut CodeAssembler| -> Result<(), IcedError> {
        asm.mov(eax, 1)?;
        asm.xchg(byte_ptr(rdi), al)?;
        asm.test(al, al)?;
        asm.jne(again)?;
        asm.call(again)?;
        asm.lock().and(dword_ptr(rdi), 7)?;
        asm.mov(byte_ptr(rdi), 0)?;
        asm.ret()
    };
    build(asm).expect("it can be assembled");
    source.build(|_| vec![7, 0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, b'h', b'o', b'l', b'd', b'u', b'p', 0, 0]).0
}

/// A lock of AArch64: an exchange by one instruction, and one by an exclusive pair.
const ARM: [u32; 14] = [
    0x5280_0022,
    0xb8a2_8003,
    0x3500_0163,
    0x9400_0000,
    0x885f_fc03,
    0x8804_7c02,
    0x35ff_ffc4,
    0x3500_00c3,
    0x5800_0040,
    0xb860_1003,
    0x889f_fc1f,
    0xd65f_03c0,
    0xd503_3fdf,
    0x17ff_fff4,
];

fn arm(words: &[u32]) -> Vec<u8> {
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let functions = [("f".to_owned(), 0, code.len() as u64)];
    elf::file_for(elf::AARCH64, &code, &functions, &[])
}

/// The space before the code is empty: what is damaged is the headers or what stands behind them.
fn survives_changed(mut bytes: Vec<u8>, changes: &[(prop::sample::Index, u8)]) {
    let full: Vec<usize> = (0..bytes.len()).filter(|at| *at < 128 || *at >= 0x1000).collect();
    for (at, value) in changes {
        bytes[full[at.index(full.len())]] = *value;
    }
    survives(&bytes);
}

proptest! {
    fn changed_bytes_of_aarch64(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        survives_changed(arm(&ARM), &changes);
    }

    /// Atomic operations, parts of pairs, jumps, calls, numbers that are loaded, and any word.
    fn tangled_aarch64(pieces in prop::collection::vec((0usize..18, any::<u32>()), 1..120)) {
        let near = |by: u32, bits: u32| (by % 16).wrapping_sub(8) & bits;
        let words: Vec<u32> = pieces.into_iter().map(|(kind, by)| match kind {
            0..14 => ARM[kind],
            14 => 0x1400_0000 | near(by, 0x3ff_ffff),
            15 => 0x3500_0003 | near(by, 0x7_ffff) << 5,
            16 => 0x5800_0000 | near(by, 0x7_ffff) << 5,
            _ => by,
        }).collect();
        survives(&arm(&words));
    }

    fn changed_bytes(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        survives_changed(sample(), &changes);
    }

    /// A real program has unwind information, imports and stubs.
    fn changed_bytes_of_a_program(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut bytes = std::fs::read("/bin/true").expect("every system has it");
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        survives(&bytes);
    }

    fn truncated(length in 0usize..0x1400) {
        let bytes = sample();
        survives(&bytes[..length.min(bytes.len())]);
    }

    fn garbage(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        survives(&bytes);
        let (file, size) = (elf::file(&bytes, &[], &bytes), bytes.len() as u64);
        survives(&file);
        survives(&elf::file(&bytes, &[("f".to_owned(), 0, size), ("g".to_owned(), size / 2, 0)], &bytes));
    }

    /// Code of atomic operations, jumps and calls only: every way of control flow among them.
    fn tangled(pieces in prop::collection::vec((0usize..14, any::<i8>()), 1..120)) {
        let mut code = Vec::new();
        for (kind, to) in pieces {
            let to = to as u8;
            let piece: &[u8] = match kind {
                0 => &[0x86, 0x07],                               // xchg [rdi], al
                1 => &[0xf0, 0x0f, 0xb1, 0x17],                   // lock cmpxchg [rdi], edx
                2 => &[0xf0, 0x0f, 0xba, 0x6f, 4, 28],            // lock bts [rdi + 4], 28
                3 => &[0x84, 0xc0],                               // test al, al
                4 => &[0xb0, 1],                                  // mov al, 1
                5 => &[0xc6, 0x07, 0],                            // mov byte [rdi], 0
                6 => &[0x75, to],                                 // jne
                7 => &[0x74, to],                                 // je
                8 => &[0xeb, to],                                 // jmp
                9 => &[0xe8, to, 0, 0, 0],                        // call
                10 => &[0x48, 0x89, 0xfb],                        // mov rbx, rdi
                11 => &[0x53],                                    // push rbx
                12 => &[0xff, 0xe0],                              // jmp rax
                _ => &[0xc3],                                     // ret
            };
            code.extend_from_slice(piece);
        }
        let size = code.len() as u64;
        survives(&elf::file(&code, &[("f".to_owned(), 0, size)], &[]));
    }
}

/// The result of an exchange that is compared with memory, not with a number.
fn result_compared_with_memory() {
    for compare in [[0x23, 0x07], [0x3b, 0x07], [0x85, 0x07]] {
        let code =
            [&[0xb8, 1, 0, 0, 0, 0x87, 0x07], &compare[..], &[0x75, 0xf5, 0xc7, 0x07, 0, 0, 0, 0, 0xc3]].concat();
        survives(&elf::file(&code, &[("f".to_owned(), 0, code.len() as u64)], &[]));
    }
}

fn what_is_no_file_for_a_known_architecture_has_a_reason() {
    let good = sample();
    assert!(map(&good, &wanted()).is_ok());
    let why = |bytes: &[u8]| map(bytes, &wanted()).expect_err("it is damaged").why;
    assert!(why(b"").contains("not a 64-bit"));
    assert!(why(b"#!/bin/sh\n").contains("not a 64-bit"));
    let mut narrow = good.clone();
    narrow[4] = 1;
    assert!(why(&narrow).contains("not a 64-bit"));
    // Big-endian, as s390x is.
    let head = |class: u8, order: u8, machine: [u8; 2]| {
        let mut other = good.clone();
        (other[4], other[5]) = (class, order);
        other[18..20].copy_from_slice(&machine);
        why(&other)
    };
    let known = "and only x86-64 and aarch64 are analysed";
    assert_eq!(head(2, 2, [0, 22]), format!("the binary is for s390x, {known}"));
    assert_eq!(head(1, 1, [3, 0]), format!("the binary is for i386, {known}"));
    assert_eq!(head(1, 1, [40, 0]), format!("the binary is for arm (32 bits), {known}"));
    assert_eq!(head(2, 1, [9, 9]), format!("the binary is for machine number 2313, {known}"));
    // AArch64 with big-endian data, and with pointers of 32 bits.
    assert!(head(2, 2, [0, 183]).contains("not a 64-bit little-endian"));
    assert!(head(1, 1, [183, 0]).contains("not a 64-bit little-endian"));
}

/// The bytes of one architecture as the other's: other instructions, and no panic.
fn code_of_the_other_architecture() {
    let mut wrong = sample();
    wrong[18] = elf::AARCH64;
    survives(&wrong);
    let mut wrong = arm(&ARM);
    wrong[18] = 62;
    survives(&wrong);
}

/// Another user chooses how many symbols a watched program has: 1.5 million took 600 MB and 21 s.
fn a_program_with_more_symbols_than_there_is_memory_for_is_refused() {
    let functions: Vec<_> = (0..4_000).map(|n| (format!("LWLockAcquire{n}"), 0, 1)).collect();
    let file = elf::file(&[0xc3; 16], &functions, &[]);
    let budget = MemoryBudget::new(1 << 20);
    for refused in [map_within(&file, &wanted(), &budget).err(), library_within(&file, &["f"], &budget).err()] {
        let why = refused.expect("is refused").why;
        assert!(why.contains("more than 1MB of memory"), "{why}");
    }
    map_within(&file, &wanted(), &MemoryBudget::new(4 << 20)).expect("is read");
    // The second file finds what the first one has left.
    let both = MemoryBudget::new(4 << 20);
    map_within(&file, &wanted(), &both).expect("is read");
    assert!(map_within(&file, &wanted(), &both).is_err());
}

holdup_testkit::tests!(
    a_program_with_more_symbols_than_there_is_memory_for_is_refused,
    changed_bytes_of_aarch64,
    tangled_aarch64,
    changed_bytes,
    changed_bytes_of_a_program,
    truncated,
    garbage,
    tangled,
    result_compared_with_memory,
    what_is_no_file_for_a_known_architecture_has_a_reason,
    code_of_the_other_architecture
);
