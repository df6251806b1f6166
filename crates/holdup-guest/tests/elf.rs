//! Reading ELF files: real ones, and ones that were made to break a reader.
#![allow(clippy::unwrap_used, reason = "tests may")]

use holdup_guest::image::elf::Elf;
use proptest::prelude::*;

fn real() -> Vec<u8> {
    std::fs::read(std::env::current_exe().unwrap()).unwrap()
}

/// A library for x86-64: one segment that is the whole file, a dynamic section with these entries, then strings.
fn library(entries: &[(u64, u64)], strings: &[u8]) -> Vec<u8> {
    let at = 64 + 2 * 56;
    let size = (entries.len() + 3) * 16;
    let mut elf = vec![0; 64];
    elf[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    elf[16..20].copy_from_slice(&[3, 0, 62, 0]);
    elf[20] = 1;
    elf[32] = 64;
    elf[52..60].copy_from_slice(&[64, 0, 56, 0, 2, 0, 0, 0]);
    let total = (at + size + strings.len()) as u64;
    for (kind, offset, bytes) in [(1_u32, 0, total), (2, at as u64, size as u64)] {
        elf.extend(kind.to_le_bytes());
        elf.extend(4_u32.to_le_bytes());
        for field in [offset, offset, offset, bytes, bytes, 8] {
            elf.extend(field.to_le_bytes());
        }
    }
    let own = [(5, (at + size) as u64), (10, strings.len() as u64), (0, 0)];
    for (tag, value) in entries.iter().chain(&own) {
        elf.extend(tag.to_le_bytes());
        elf.extend(value.to_le_bytes());
    }
    elf.extend(strings);
    elf
}

#[test]
fn what_a_library_needs_is_read() {
    let strings = b"\0liba.so.1\0$ORIGIN/../lib:/opt/lib\0me.so\0";
    let elf = Elf::parse(library(&[(1, 1), (1, 1), (14, 35), (29, 11)], strings).as_slice()).unwrap();
    assert_eq!(elf.needed, ["liba.so.1", "liba.so.1"]);
    assert_eq!(elf.soname.as_deref(), Some("me.so"));
    assert_eq!(elf.runpath, ["$ORIGIN/../lib", "/opt/lib"]);
    assert!(elf.interpreter.is_none() && elf.rpath.is_empty());
    let both = Elf::parse(library(&[(15, 1), (29, 11)], strings).as_slice()).unwrap();
    assert!(both.rpath.is_empty(), "DT_RPATH counts only where there is no DT_RUNPATH");
}

#[test]
fn this_test_needs_a_c_library() {
    let elf = Elf::parse(real().as_slice()).unwrap();
    assert_eq!(elf.interpreter.is_some(), !elf.needed.is_empty());
}

#[test]
fn what_is_wrong_is_said() {
    let said = |bytes: &[u8]| Elf::parse(bytes).unwrap_err();
    assert!(said(b"").contains("too short"));
    assert!(said(&[b'x'; 64]).contains("not an ELF file"));
    let mut elf = library(&[(1, 1)], b"\0a\0");
    elf[4] = 1;
    assert!(said(&elf).contains("32-bit ELF file for x86-64"));
    elf[4] = 2;
    elf[5] = 2;
    assert!(said(&elf).contains("big-endian"));
    assert!(said(&library(&[(1, 77)], b"\0a\0")).contains("string 77"));
    assert!(said(&library(&[(1, 1)], b"\0\xff\xfe\0")).contains("UTF-8"));
    let many = vec![(1, 1); 5000];
    assert!(said(&library(&many, b"\0a\0")).contains("more than 4096"));
    let huge = vec![(0x7000_0000, 1); 70_000];
    assert!(said(&library(&huge, b"\0a\0")).contains("too long"));
    let mut headers = library(&[(1, 1)], b"\0a\0");
    headers[56..58].copy_from_slice(&[0xff, 0xff]);
    assert!(said(&headers).contains("65535 program headers"));
}

proptest! {
    #[test]
    fn truncated_files_never_panic(cut in 0_usize..4096) {
        let whole = real();
        let _read = Elf::parse(&whole[..cut.min(whole.len())]);
    }

    #[test]
    fn garbled_files_never_panic(places in proptest::collection::vec((0_usize..260, any::<u8>()), 1..12)) {
        let mut elf = library(&[(1, 1), (14, 1), (29, 3)], b"\0a\0b:c\0");
        let length = elf.len();
        for (place, byte) in places {
            elf[place % length] = byte;
        }
        let _read = Elf::parse(elf.as_slice());
    }

    #[test]
    fn random_entries_never_panic(
        entries in proptest::collection::vec((0_u64..40, any::<u64>()), 0..200),
        strings in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let _read = Elf::parse(library(&entries, &strings).as_slice());
    }
}
