//! Sections that a binary declares itself.

use crate::elf;
use elf::{Source, roles};
use holdup_model::sections::SectionSource;
use holdup_sections::lookup::Registers;
use holdup_sections::{Wanted, map};
use iced_x86::code_asm::*;

type Assembled = Result<(), IcedError>;

/// One entry of the note: address, kind, lock, name.
fn entry((address, kind, lock, name): (u64, u16, u32, &str)) -> Vec<u8> {
    let mut description = address.to_le_bytes().to_vec();
    description.extend(kind.to_le_bytes());
    description.extend([0, 0]);
    description.extend(lock.to_le_bytes());
    description.extend(name.as_bytes());
    description.push(0);
    let mut bytes = 7u32.to_le_bytes().to_vec();
    bytes.extend((description.len() as u32).to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(b"holdup\0\0");
    bytes.extend(&description);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn flags(flags: u64) -> Registers {
    Registers { flags, ..Registers::default() }
}

/// A lock whose release is known from the note alone: it is a store of a 1.
fn ticket(source: &mut Source) -> Assembled {
    let asm = &mut source.asm;
    let (mut again, mut ours) = (asm.create_label(), asm.create_label());
    asm.nop()?;
    asm.set_label(&mut again)?;
    asm.mov(eax, 5)?;
    asm.lock().cmpxchg(dword_ptr(rdi), ecx)?;
    asm.je(ours)?;
    asm.pause()?;
    asm.jmp(again)?;
    asm.set_label(&mut ours)?;
    asm.mov(edx, 1)?;
    asm.nop()?;
    asm.inc(qword_ptr(rdi + 8))?;
    asm.mov(dword_ptr(rdi), edx)?;
    asm.nop()?;
    asm.ret()
}

fn declared_points_bound_a_section() -> Assembled {
    let mut source = Source::new();
    source.function("anything");
    ticket(&mut source)?;
    let (file, places) = source.build(|at| {
        [(at[7], 1, 0, "spin"), (at[9], 2, 0, "spin"), (at[1], 3, 0, "spin"), (0, 1, 9, "dropped")].map(entry).concat()
    });
    let map = map(&file, &Wanted::default()).expect("an ELF file");
    assert_eq!(map.notes.len(), 1, "but for unwind information nothing is missing: {:?}", map.notes);
    let names: Vec<_> = map.sections.iter().map(|s| (s.name.as_str(), s.source)).collect();
    assert_eq!(names, [("spin", SectionSource::Note)]);
    // From the branch on the compare-and-swap it is held, though the point stands two instructions behind it.
    assert_eq!(roles(&map, &places, &flags(0x40)), ".WWHWWHHH...");
    assert_eq!(roles(&map, &places, &flags(0)), ".WWWWWHHH...");
    Ok(())
}

fn a_lock_that_a_called_function_declares() -> Assembled {
    let mut source = Source::new();
    let lock = source.function("lock");
    ticket(&mut source)?;
    let unlock = source.function("unlock");
    source.asm.nop()?;
    source.asm.mov(byte_ptr(rdi), 7)?;
    source.asm.ret()?;
    source.function("user");
    let asm = &mut source.asm;
    asm.push(rbx)?;
    asm.call(lock)?;
    asm.nop()?;
    asm.call(unlock)?;
    asm.pop(rbx)?;
    asm.ret()?;
    let (file, places) = source
        .build(|at| [(at[7], 1, 3, "futex"), (at[13], 2, 3, "futex"), (at[9], 2, 4, "futex")].map(entry).concat());
    let map = map(&file, &Wanted::default()).expect("an ELF file");
    // Another lock's release, by its number, does not end the section.
    assert_eq!(roles(&map, &places, &flags(0)), "......HHHHHH.....HH..");
    Ok(())
}

/// A function that returns with the lock or, after some turns, without: its callers know by the result.
fn declared_points_are_kept_in_a_function_that_may_return_without_the_lock() -> Assembled {
    let mut source = Source::new();
    source.function("wait");
    let asm = &mut source.asm;
    let (mut again, mut ours, mut gave_up) = (asm.create_label(), asm.create_label(), asm.create_label());
    let mut out = asm.create_label();
    asm.nop()?;
    asm.set_label(&mut again)?;
    asm.mov(eax, 5)?;
    asm.lock().cmpxchg(dword_ptr(rdi), ecx)?;
    asm.je(ours)?;
    asm.dec(esi)?;
    asm.je(gave_up)?;
    asm.pause()?;
    asm.jmp(again)?;
    asm.set_label(&mut ours)?;
    asm.mov(eax, 1)?;
    asm.jmp(out)?;
    asm.set_label(&mut gave_up)?;
    asm.xor(eax, eax)?;
    asm.set_label(&mut out)?;
    asm.ret()?;
    let (file, places) =
        source.build(|at| [(at[1], 3, 0, "spin"), (at[8], 1, 0, "spin"), (at[10], 4, 0, "spin")].map(entry).concat());
    let map = map(&file, &Wanted::default()).expect("an ELF file");
    assert_eq!(roles(&map, &places, &flags(0)), ".WWWWWWWHH..");
    Ok(())
}

fn a_damaged_note_is_noted() -> Assembled {
    let good = entry((0x40_1000, 1, 0, "x"));
    let cases: [(Vec<u8>, &str); 6] = [
        (good[..good.len() - 5].to_vec(), "cut off"),
        (vec![1, 2, 3], "cut off"),
        (vec![0xff; 40], "cut off"),
        (entry((0x40_1000, 9, 0, "x")), "not as declared"),
        (entry((0x40_1000, 1, 0, "")), "not as declared"),
        (entry((0x40_1000, 1, 0, "a\nb")), "not as declared"),
    ];
    for (note, why) in cases {
        let mut source = Source::new();
        source.function("anything");
        ticket(&mut source)?;
        let (file, _) = source.build(|_| note.clone());
        let map = map(&file, &Wanted::default()).expect("an ELF file");
        assert!(map.sections.is_empty());
        assert!(map.notes.iter().any(|note| note.contains(why)), "{why}: {:?}", map.notes);
    }
    Ok(())
}

/// A waiter in a function that takes the lock waits for the lock that all its callers declare.
fn a_lock_that_every_caller_declares_is_waited_for_where_it_is_taken() -> Assembled {
    let build = |second: &str| {
        let mut source = Source::new();
        let lock = source.function("lock");
        let asm = &mut source.asm;
        let mut again = asm.create_label();
        asm.nop()?;
        asm.set_label(&mut again)?;
        asm.pause()?;
        asm.mov(eax, 1)?;
        asm.xchg(dword_ptr(rdi), eax)?;
        asm.test(eax, eax)?;
        asm.jne(again)?;
        asm.ret()?;
        for user in ["one", "two"] {
            source.function(user);
            let asm = &mut source.asm;
            asm.push(rbx)?;
            asm.mov(rbx, rdi)?;
            asm.call(lock)?;
            asm.inc(qword_ptr(rbx + 8))?;
            asm.mov(dword_ptr(rbx), 0)?;
            asm.pop(rbx)?;
            asm.ret()?;
        }
        let note = |at: &[u64]| {
            let points =
                [(at[10], 1, 1, "spin"), (at[12], 2, 1, "spin"), (at[17], 1, 1, second), (at[19], 2, 1, second)];
            points.map(entry).concat()
        };
        let (file, places) = source.build(note);
        let wanted = Wanted { shipped: true, ..Wanted::default() };
        Ok::<_, IcedError>((map(&file, &wanted).expect("an ELF file"), places))
    };
    let (alike, places) = build("spin")?;
    let names: Vec<_> = alike.sections.iter().map(|s| (s.name.as_str(), s.source)).collect();
    assert_eq!(names, [("spin", SectionSource::Note)]);
    assert_eq!(roles(&alike, &places, &flags(0)), ".WWWHWH...HH.....HH..");
    // Where the callers declare two locks, what waits shows by the address alone.
    let (apart, _) = build("other")?;
    let names: Vec<_> = apart.sections.iter().map(|s| (s.name.as_str(), s.source)).collect();
    assert_eq!(
        names,
        [("lock", SectionSource::Spinning), ("other", SectionSource::Note), ("spin", SectionSource::Note),]
    );
    Ok(())
}

holdup_testkit::tests!(
    declared_points_bound_a_section,
    a_lock_that_a_called_function_declares,
    declared_points_are_kept_in_a_function_that_may_return_without_the_lock,
    a_damaged_note_is_noted,
    a_lock_that_every_caller_declares_is_waited_for_where_it_is_taken
);
