//! Reading ELF files: real ones, and ones that were made to break a reader.
use holdup_guest::image::elf::Elf;
use proptest::prelude::*;

fn real() -> Vec<u8> {
    std::fs::read(std::env::current_exe().unwrap()).unwrap()
}

/// A library for x86-64.
fn library(entries: &[(u64, u64)], strings: &[u8]) -> Vec<u8> {
    library_of(62, false, entries, strings)
}

/// A library for a machine: one segment that is the whole file, a dynamic section with these entries, then strings.
fn library_of(machine: u8, is_big: bool, entries: &[(u64, u64)], strings: &[u8]) -> Vec<u8> {
    // Numbers, of which the low bytes count, in the machine's order.
    let word = |number: u64, bytes: usize| {
        let mut word = number.to_le_bytes()[..bytes].to_vec();
        if is_big {
            word.reverse();
        }
        word
    };
    let at = 64 + 2 * 56;
    let size = (entries.len() + 3) * 16;
    let mut elf = b"\x7fELF\x02\x01\x01".to_vec();
    elf[5] += u8::from(is_big);
    elf.resize(16, 0);
    for (number, bytes) in [(3, 2), (u64::from(machine), 2), (1, 4), (0, 8), (64, 8), (0, 8), (0, 4)] {
        elf.extend(word(number, bytes));
    }
    for number in [64, 56, 2, 0, 0, 0] {
        elf.extend(word(number, 2));
    }
    let total = (at + size + strings.len()) as u64;
    for (kind, offset, bytes) in [(1, 0, total), (2, at as u64, size as u64)] {
        elf.extend(word(kind, 4));
        elf.extend(word(4, 4));
        for field in [offset, offset, offset, bytes, bytes, 8] {
            elf.extend(word(field, 8));
        }
    }
    let own = [(5, (at + size) as u64), (10, strings.len() as u64), (0, 0)];
    for (tag, value) in entries.iter().chain(&own) {
        elf.extend(word(*tag, 8));
        elf.extend(word(*value, 8));
    }
    elf.extend(strings);
    elf
}

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

fn a_library_whose_high_byte_comes_first_is_read() {
    let entries = [(1, 1), (14, 11), (15, 17)];
    let strings = b"\0liba.so.1\0me.so\0/opt/lib\0";
    let big = Elf::parse(library_of(22, true, &entries, strings).as_slice()).unwrap();
    assert_eq!((big.machine.0, big.machine.to_string().as_str()), (22, "s390x"));
    let little = Elf::parse(library(&entries, strings).as_slice()).unwrap();
    assert_eq!(Elf { machine: little.machine, ..big }, little);
    assert_eq!(little.rpath, ["/opt/lib"]);
}

fn this_test_needs_a_c_library() {
    let elf = Elf::parse(real().as_slice()).unwrap();
    assert_eq!(elf.interpreter.is_some(), !elf.needed.is_empty());
}

fn what_is_wrong_is_said() {
    let said = |bytes: &[u8]| Elf::parse(bytes).unwrap_err();
    assert!(said(b"").contains("too short"));
    assert!(said(&[b'x'; 64]).contains("not an ELF file"));
    let mut elf = library(&[(1, 1)], b"\0a\0");
    elf[4] = 1;
    assert!(said(&elf).contains("32-bit ELF file for x86-64"));
    elf[4] = 2;
    elf[5] = 3;
    assert!(said(&elf).contains("its byte order 3"));
    let mut big = library_of(22, true, &[(1, 1)], b"\0a\0");
    big[4] = 1;
    assert!(said(&big).contains("32-bit ELF file for s390x"));
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
    fn truncated_files_never_panic(cut in 0_usize..4096) {
        let whole = real();
        let _read = Elf::parse(&whole[..cut.min(whole.len())]);
    }

    fn garbled_files_never_panic(is_big in any::<bool>(), places in proptest::collection::vec((0_usize..260, any::<u8>()), 1..12)) {
        let mut elf = library_of(22, is_big, &[(1, 1), (14, 1), (29, 3)], b"\0a\0b:c\0");
        let length = elf.len();
        for (place, byte) in places {
            elf[place % length] = byte;
        }
        let _read = Elf::parse(elf.as_slice());
    }

    fn random_entries_never_panic(
        entries in proptest::collection::vec((0_u64..40, any::<u64>()), 0..200),
        strings in proptest::collection::vec(any::<u8>(), 0..64),
    ) {
        let _read = Elf::parse(library(&entries, &strings).as_slice());
    }
}

holdup_testkit::tests!(
    what_a_library_needs_is_read,
    a_library_whose_high_byte_comes_first_is_read,
    this_test_needs_a_c_library,
    what_is_wrong_is_said,
    truncated_files_never_panic,
    garbled_files_never_panic,
    random_entries_never_panic
);
