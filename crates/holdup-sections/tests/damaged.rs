//! Damaged files: a reason or a map, never a panic, and soon.

mod elf;

use elf::Source;
use holdup_sections::lookup::{Loaded, Registers, Table, classify};
use holdup_sections::{NamedFunction, Wanted, library, map};
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

proptest! {
    #[test]
    fn changed_bytes(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = sample();
        // The space before the code is empty: what is damaged is the headers or what stands behind them.
        let full: Vec<usize> = (0..bytes.len()).filter(|at| *at < 128 || *at >= 0x1000).collect();
        for (at, value) in changes {
            let at = full[at.index(full.len())];
            bytes[at] = value;
        }
        survives(&bytes);
    }

    /// A real program has unwind information, imports and stubs.
    #[test]
    fn changed_bytes_of_a_program(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut bytes = std::fs::read("/bin/true").expect("every system has it");
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        survives(&bytes);
    }

    #[test]
    fn truncated(length in 0usize..0x1400) {
        let bytes = sample();
        survives(&bytes[..length.min(bytes.len())]);
    }

    #[test]
    fn garbage(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        survives(&bytes);
        let (file, size) = (elf::file(&bytes, &[], &bytes), bytes.len() as u64);
        survives(&file);
        survives(&elf::file(&bytes, &[("f".to_owned(), 0, size), ("g".to_owned(), size / 2, 0)], &bytes));
    }

    /// Code of atomic operations, jumps and calls only: every way of control flow among them.
    #[test]
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
#[test]
fn result_compared_with_memory() {
    for compare in [[0x23, 0x07], [0x3b, 0x07], [0x85, 0x07]] {
        let code =
            [&[0xb8, 1, 0, 0, 0, 0x87, 0x07], &compare[..], &[0x75, 0xf5, 0xc7, 0x07, 0, 0, 0, 0, 0xc3]].concat();
        survives(&elf::file(&code, &[("f".to_owned(), 0, code.len() as u64)], &[]));
    }
}

#[test]
fn what_is_no_x86_64_file_has_a_reason() {
    let good = sample();
    assert!(map(&good, &wanted()).is_ok());
    let why = |bytes: &[u8]| map(bytes, &wanted()).expect_err("it is damaged").why;
    assert!(why(b"").contains("not a 64-bit"));
    assert!(why(b"#!/bin/sh\n").contains("not a 64-bit"));
    let mut other = good.clone();
    other[18] = 183;
    assert!(why(&other).contains("only x86-64"), "{}", why(&other));
    let mut narrow = good.clone();
    narrow[4] = 1;
    assert!(why(&narrow).contains("not a 64-bit"));
}
