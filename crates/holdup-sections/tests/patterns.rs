//! Assembled locks of every kind, with what is true at each instruction.

use crate::elf;
use elf::{Source, named, roles};
use holdup_model::sections::SectionMap;
use holdup_sections::lookup::{Loaded, Registers, Table, classify};
use holdup_sections::{Wanted, map};
use iced_x86::code_asm::*;

/// rflags with the zero flag, and with the carry flag.
const ZERO: u64 = 0x40;
const CARRY: u64 = 1;

/// The roles with registers as they are where the lock was taken, and where it was not.
fn check(source: Source, names: &[&str], taken: Registers, failed: Registers, expected: [&str; 2]) -> SectionMap {
    let (file, places) = source.build(|_| Vec::new());
    let map = map(&file, &named(names)).expect("an ELF file");
    let got = [roles(&map, &places, &taken), roles(&map, &places, &failed)];
    assert_eq!(got, expected, "{map:#x?}");
    map
}

fn with(result: u64, flags: u64) -> Registers {
    let mut registers = Registers { flags, ..Registers::default() };
    registers.general[0] = result;
    registers
}

type Assembled = Result<(), IcedError>;

fn exchange_of_a_byte() -> Assembled {
    let mut source = Source::new();
    let again = source.function("tas");
    let asm = &mut source.asm;
    let mut slow = asm.create_label();
    asm.mov(eax, 1)?;
    asm.xchg(byte_ptr(rdi), al)?;
    asm.test(al, al)?;
    asm.jne(slow)?;
    asm.inc(qword_ptr(rdi + 8))?;
    asm.mov(byte_ptr(rdi), 0)?;
    asm.ret()?;
    asm.set_label(&mut slow)?;
    asm.pause()?;
    asm.jmp(again)?;
    let (file, places) = source.build(|_| Vec::new());
    let map = map(&file, &named(&["tas"])).expect("an ELF file");
    assert_eq!(roles(&map, &places, &with(0, ZERO)), "WWHHHH.WW", "{map:#x?}");
    assert_eq!(roles(&map, &places, &with(1, 0)), "WWWWHH.WW", "{map:#x?}");
    // From the exchange to the store all is one way, and the store is its end.
    let [released] = &map.releases[..] else { panic!("{map:#x?}") };
    assert_eq!((released.begin, released.end, &released.at[..]), (places[2], places[6], &places[5..6]));
    Ok(())
}

fn every_way_out_of_a_section_is_known() -> Assembled {
    let mut source = Source::new();
    let again = source.function("two_ways");
    let asm = &mut source.asm;
    let (mut other, mut slow) = (asm.create_label(), asm.create_label());
    asm.mov(eax, 1)?;
    asm.xchg(byte_ptr(rdi), al)?;
    asm.test(al, al)?;
    asm.jne(slow)?;
    asm.cmp(qword_ptr(rdi + 8), 0)?;
    asm.jne(other)?;
    asm.mov(byte_ptr(rdi), 0)?;
    asm.ret()?;
    asm.set_label(&mut other)?;
    asm.dec(qword_ptr(rdi + 8))?;
    asm.mov(byte_ptr(rdi), 0)?;
    asm.ret()?;
    asm.set_label(&mut slow)?;
    asm.pause()?;
    asm.jmp(again)?;
    let places_of = |map: &SectionMap| map.releases.iter().flat_map(|r| r.at.clone()).collect::<Vec<u64>>();
    let (file, places) = source.build(|_| Vec::new());
    let map = map(&file, &named(&["two_ways"])).expect("an ELF file");
    let ways = [places[6], places[9]];
    assert!(!map.releases.is_empty() && map.releases.iter().all(|r| r.at == ways), "{:x?} {ways:x?}", places_of(&map));
    let covers = |at: u64| map.releases.iter().any(|r| (r.begin..r.end).contains(&at));
    assert!([4, 5, 6, 8, 9].iter().all(|i| covers(places[*i])), "{map:#x?}");
    assert!(![0, 1, 7, 10, 11, 12].iter().any(|i| covers(places[*i])), "{map:#x?}");
    Ok(())
}

fn exchange_after_a_read() -> Assembled {
    let mut source = Source::new();
    source.function("ttas");
    let asm = &mut source.asm;
    let (mut again, mut slow) = (asm.create_label(), asm.create_label());
    asm.lea(rbx, ptr(rdi + 16))?;
    asm.set_label(&mut again)?;
    asm.cmp(dword_ptr(rbx), 0)?;
    asm.jne(slow)?;
    asm.mov(ecx, 1)?;
    asm.xchg(dword_ptr(rbx), ecx)?;
    asm.test(ecx, ecx)?;
    asm.je(slow)?;
    asm.pause()?;
    asm.jmp(again)?;
    asm.set_label(&mut slow)?;
    asm.ret()?;
    // The branch leads to the return either way: with the lock, and without it from the read.
    check(source, &["ttas"], with(0, ZERO), with(1, 0), ["..........", ".........."]);

    let mut source = Source::new();
    source.function("ttas");
    let asm = &mut source.asm;
    let (mut again, mut slow) = (asm.create_label(), asm.create_label());
    asm.lea(rbx, ptr(rdi + 16))?;
    asm.set_label(&mut again)?;
    asm.cmp(dword_ptr(rbx), 0)?;
    asm.jne(slow)?;
    asm.mov(eax, 1)?;
    asm.xchg(dword_ptr(rbx), eax)?;
    asm.test(eax, eax)?;
    asm.jne(slow)?;
    asm.nop()?;
    asm.mov(dword_ptr(rdi + 16), 0)?;
    asm.ret()?;
    asm.set_label(&mut slow)?;
    asm.pause()?;
    asm.jmp(again)?;
    check(source, &["ttas"], with(0, ZERO), with(1, 0), [".WWWWHHHH.WW", ".WWWWWWHH.WW"]);
    Ok(())
}

fn compare_and_swap_with_its_result_in_a_byte() -> Assembled {
    let mut source = Source::new();
    source.function("cas");
    let asm = &mut source.asm;
    let mut again = asm.create_label();
    asm.mov(edx, 1)?;
    asm.set_label(&mut again)?;
    asm.xor(eax, eax)?;
    asm.lock().cmpxchg(dword_ptr(rdi), edx)?;
    asm.sete(cl)?;
    asm.test(cl, cl)?;
    asm.je(again)?;
    asm.nop()?;
    asm.xor(esi, esi)?;
    asm.xchg(dword_ptr(rdi), esi)?;
    asm.ret()?;
    // At `test` and `je` the byte or the flags decide: both are set as they are where the lock is taken, or not.
    let mut taken = with(0, ZERO);
    taken.general[1] = 1;
    let failed = with(1, 0);
    let (file, places) = source.build(|_| Vec::new());
    let map = map(&file, &named(&["cas"])).expect("an ELF file");
    assert_eq!(&roles(&map, &places, &taken)[..5], ".WWHH");
    assert_eq!(&roles(&map, &places, &with(1, ZERO))[5..], "WHHH.", "behind `test` a set zero flag is a failure");
    assert_eq!(&roles(&map, &places, &failed)[..5], ".WWWW");
    Ok(())
}

fn flag_in_a_word_by_compare_and_swap() -> Assembled {
    let mut source = Source::new();
    let load = source.function("page");
    let asm = &mut source.asm;
    let (mut swap, mut ours) = (asm.create_label(), asm.create_label());
    asm.mov(eax, dword_ptr(rdi + 24))?;
    asm.set_label(&mut swap)?;
    asm.mov(edx, eax)?;
    asm.mov(ebx, eax)?;
    asm.or(edx, 0x40_0000)?;
    asm.lock().cmpxchg(dword_ptr(rdi + 24), edx)?;
    asm.jne(swap)?;
    asm.test(ebx, 0x40_0000)?;
    asm.je(ours)?;
    asm.pause()?;
    asm.jmp(load)?;
    asm.set_label(&mut ours)?;
    asm.and(ebx, !0x40_0000)?;
    asm.mov(dword_ptr(rdi + 24), ebx)?;
    asm.ret()?;
    let (file, places) = source.build(|_| Vec::new());
    let map = map(&file, &named(&["page"])).expect("an ELF file");
    let registers = |old: u64, flags| {
        let mut all = with(old, flags);
        all.general[3] = old;
        all
    };
    assert_eq!(roles(&map, &places, &registers(7, ZERO)), "WWWWWHHHWWHH.", "swapped, and it was free");
    assert_eq!(&roles(&map, &places, &registers(0x40_0007, ZERO))[5..7], "WW", "swapped, but it was taken");
    assert_eq!(&roles(&map, &places, &registers(7, 0))[5..6], "W", "not swapped");
    Ok(())
}

fn flag_in_a_word_by_bit_test() -> Assembled {
    let mut source = Source::new();
    let again = source.function("list");
    let asm = &mut source.asm;
    let mut slow = asm.create_label();
    asm.lock().bts(dword_ptr(rdi + 4), 28)?;
    asm.jb(slow)?;
    asm.mov(dword_ptr(rsi + 4), 0)?;
    asm.lock().or(dword_ptr(rdi + 4), 0x2000_0000)?;
    asm.lock().and(dword_ptr(rdi + 4), !0x1000_0000)?;
    asm.ret()?;
    asm.set_label(&mut slow)?;
    asm.pause()?;
    asm.jmp(again)?;
    // A plain store of 0 at the same offset of something else is not how such a flag is cleared.
    check(source, &["list"], with(0, 0), with(0, CARRY), ["WHHHH.WW", "WWHHH.WW"]);
    Ok(())
}

fn one_attempt_does_not_wait() -> Assembled {
    let mut source = Source::new();
    source.function("try");
    let asm = &mut source.asm;
    let mut failed = asm.create_label();
    asm.mov(eax, 1)?;
    asm.xchg(byte_ptr(rdi), al)?;
    asm.test(al, al)?;
    asm.jne(failed)?;
    asm.nop()?;
    asm.mov(byte_ptr(rdi), 0)?;
    asm.ret()?;
    asm.set_label(&mut failed)?;
    asm.xor(eax, eax)?;
    asm.ret()?;
    check(source, &["try"], with(0, ZERO), with(1, 0), ["..HHHH...", "....HH..."]);
    Ok(())
}

/// A function that takes the lock at rdi + 8 for its caller, slowly.
fn slow_lock(source: &mut Source) -> Result<CodeLabel, IcedError> {
    let function = source.function("slow_lock");
    let asm = &mut source.asm;
    asm.pause()?;
    asm.mov(eax, 1)?;
    asm.xchg(byte_ptr(rdi + 8), al)?;
    asm.test(al, al)?;
    asm.jne(function)?;
    asm.ret()?;
    Ok(function)
}

fn lock_taken_by_a_called_function() -> Assembled {
    let mut source = Source::new();
    let lock = slow_lock(&mut source)?;
    source.function("caller");
    let asm = &mut source.asm;
    let mut over = asm.create_label();
    asm.push(rbx)?;
    asm.mov(rbx, rdi)?;
    asm.call(lock)?;
    asm.cmp(qword_ptr(rbx), 3)?;
    asm.je(over)?;
    asm.inc(qword_ptr(rbx))?;
    asm.mov(byte_ptr(rbx + 8), 0)?;
    asm.pop(rbx)?;
    asm.ret()?;
    asm.set_label(&mut over)?;
    asm.mov(byte_ptr(rbx + 8), 0)?;
    asm.pop(rbx)?;
    asm.ret()?;
    let expected = ["WWWHHH...HHHH..H..", "WWWWWH...HHHH..H.."];
    let map = check(source, &["slow_lock", "caller"], with(0, ZERO), with(1, 0), expected);
    let names: Vec<&str> = map.sections.iter().map(|section| section.name.as_str()).collect();
    assert_eq!(names, ["caller: slow_lock", "slow_lock"]);
    Ok(())
}

/// The lock has one address, in the function that waits for it, in the one that holds it, and in what that calls.
fn a_lock_is_known_by_its_address() -> Assembled {
    let mut source = Source::new();
    let lock = slow_lock(&mut source)?;
    source.function("caller");
    let asm = &mut source.asm;
    asm.push(rbx)?;
    asm.mov(rbx, rdi)?;
    asm.call(lock)?;
    asm.inc(qword_ptr(rbx))?;
    asm.mov(byte_ptr(rbx + 8), 0)?;
    asm.pop(rbx)?;
    asm.ret()?;
    let (file, places) = source.build(|_| Vec::new());
    // Nothing is named: the function that takes the lock waits with `pause`.
    let map = map(&file, &Wanted { shipped: true, functions: Vec::new() }).expect("an ELF file");
    let table = Table::new(&[Loaded { map: Some(&map), callees: &[], bias: 0 }]);
    let mut registers = with(1, 0);
    (registers.general[7], registers.general[3]) = (0x5000, 0x5000);
    let words: Vec<Option<u64>> = places.iter().map(|at| classify(&table, *at, &registers, &|_| None)?.word).collect();
    let known = words.iter().flatten().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(known.into_iter().collect::<Vec<_>>(), [&0x5008], "{words:x?} {map:#x?}");
    assert_eq!(words.iter().filter(|word| word.is_some()).count(), 8, "{words:x?} {map:#x?}");
    Ok(())
}

fn number_that_another_counter_shows() -> Assembled {
    let mut source = Source::new();
    source.function("ticket");
    let asm = &mut source.asm;
    let (mut again, mut ours) = (asm.create_label(), asm.create_label());
    asm.mov(eax, 1)?;
    asm.lock().xadd(dword_ptr(rdi), eax)?;
    asm.cmp(dword_ptr(rdi + 4), eax)?;
    asm.je(ours)?;
    asm.set_label(&mut again)?;
    asm.pause()?;
    asm.mov(edx, dword_ptr(rdi + 4))?;
    asm.cmp(edx, eax)?;
    asm.jne(again)?;
    asm.set_label(&mut ours)?;
    asm.inc(qword_ptr(rdi + 8))?;
    asm.inc(dword_ptr(rdi + 4))?;
    asm.ret()?;
    let expected = ["...HWWWHHH.", "...WWWWWHH."];
    let map = check(source, &["ticket"], with(0, ZERO), with(1, 0), expected);
    assert!(map.sections.iter().all(|section| section.name == "ticket"), "{map:#x?}");
    Ok(())
}

/// The same number compared once is an index or a count.
fn number_that_is_compared_once_is_no_ticket() -> Assembled {
    let mut source = Source::new();
    source.function("count");
    let asm = &mut source.asm;
    let mut full = asm.create_label();
    asm.mov(eax, 1)?;
    asm.lock().xadd(dword_ptr(rdi), eax)?;
    asm.cmp(dword_ptr(rdi + 4), eax)?;
    asm.je(full)?;
    asm.inc(qword_ptr(rdi + 8))?;
    asm.set_label(&mut full)?;
    asm.pause()?;
    asm.ret()?;
    let map = check(source, &["count"], with(0, ZERO), with(1, 0), [".......", "......."]);
    assert!(map.sections.is_empty(), "{map:#x?}");
    Ok(())
}

/// glibc's pthread_spin_lock on x86: 1 is free, and a decrement to 0 takes it. Counted down once, it is the count of an object's users.
fn number_that_is_counted_down_to_zero() -> Assembled {
    let mut source = Source::new();
    let again = source.function("pthread_spin_lock");
    let asm = &mut source.asm;
    let mut slow = asm.create_label();
    asm.lock().dec(dword_ptr(rdi))?;
    asm.jne(slow)?;
    asm.inc(qword_ptr(rdi + 8))?;
    asm.mov(dword_ptr(rdi), 1)?;
    asm.ret()?;
    asm.set_label(&mut slow)?;
    asm.pause()?;
    asm.cmp(dword_ptr(rdi), 0)?;
    asm.jg(again)?;
    asm.jmp(slow)?;
    check(source, &["pthread_spin_lock"], with(0, ZERO), with(1, 0), ["WHHH.WWWW", "WWHH.WWWW"]);

    let mut source = Source::new();
    source.function("put");
    let asm = &mut source.asm;
    let mut last = asm.create_label();
    asm.lock().dec(dword_ptr(rdi))?;
    asm.je(last)?;
    asm.ret()?;
    asm.set_label(&mut last)?;
    asm.pause()?;
    asm.mov(dword_ptr(rdi), 1)?;
    asm.ret()?;
    let map = check(source, &["put"], with(0, ZERO), with(1, 0), ["......", "......"]);
    assert!(map.sections.is_empty(), "{map:#x?}");
    Ok(())
}

fn lock_given_back_by_a_called_function() -> Assembled {
    let mut source = Source::new();
    let unlock = source.function("unlock");
    source.asm.mov(byte_ptr(rsi + 8), 0)?;
    source.asm.inc(qword_ptr(rsi))?;
    source.asm.ret()?;
    let lock = slow_lock(&mut source)?;
    source.function("caller");
    let asm = &mut source.asm;
    asm.push(rbx)?;
    asm.mov(rbx, rdi)?;
    asm.call(lock)?;
    asm.inc(qword_ptr(rbx))?;
    asm.mov(rsi, rbx)?;
    asm.call(unlock)?;
    asm.inc(qword_ptr(rbx))?;
    asm.pop(rbx)?;
    asm.ret()?;
    // In the called function the caller's return address decides, which this does not look at.
    check(source, &["caller"], with(0, ZERO), with(1, 0), ["............HHH..."; 2]);
    Ok(())
}

fn what_is_not_bounded_is_given_up() -> Assembled {
    // The release goes by a pointer that is loaded from elsewhere: nothing shows that it is the same lock.
    let mut source = Source::new();
    source.function("lost");
    let asm = &mut source.asm;
    let mut again = asm.create_label();
    asm.mov(rbx, ptr(rdi))?;
    asm.set_label(&mut again)?;
    asm.mov(eax, 1)?;
    asm.xchg(byte_ptr(rbx + 8), al)?;
    asm.test(al, al)?;
    asm.jne(again)?;
    asm.mov(rcx, ptr(rdi + 64))?;
    asm.mov(byte_ptr(rcx + 9), 0)?;
    asm.ret()?;
    let map = check(source, &["lost"], with(0, ZERO), with(1, 0), ["........", "........"]);
    assert!(map.notes.iter().any(|note| note.contains("before a release")), "{:?}", map.notes);

    // By the same offset it may be the release: the section ends there at the latest.
    let mut source = Source::new();
    source.function("maybe");
    let asm = &mut source.asm;
    let mut again = asm.create_label();
    asm.mov(rbx, ptr(rdi))?;
    asm.set_label(&mut again)?;
    asm.mov(eax, 1)?;
    asm.xchg(byte_ptr(rbx + 8), al)?;
    asm.test(al, al)?;
    asm.jne(again)?;
    asm.mov(rcx, ptr(rdi + 64))?;
    asm.mov(byte_ptr(rcx + 8), 0)?;
    asm.nop()?;
    asm.ret()?;
    check(source, &["maybe"], with(0, ZERO), with(1, 0), [".WWHHHH..", ".WWWWHH.."]);
    Ok(())
}

fn where_ways_with_and_without_the_lock_meet_nothing_is_said() -> Assembled {
    let mut source = Source::new();
    source.function("sometimes");
    let asm = &mut source.asm;
    let (mut again, mut joined, mut end) = (asm.create_label(), asm.create_label(), asm.create_label());
    asm.test(esi, esi)?;
    asm.je(joined)?;
    asm.set_label(&mut again)?;
    asm.mov(eax, 1)?;
    asm.xchg(byte_ptr(rdi), al)?;
    asm.test(al, al)?;
    asm.jne(again)?;
    asm.nop()?;
    asm.set_label(&mut joined)?;
    asm.inc(qword_ptr(rdi + 8))?;
    asm.test(esi, esi)?;
    asm.je(end)?;
    asm.mov(byte_ptr(rdi), 0)?;
    asm.set_label(&mut end)?;
    asm.ret()?;
    let expected = ["..WWHHH.....", "..WWWWH....."];
    let map = check(source, &["sometimes"], with(0, ZERO), with(1, 0), expected);
    assert!(map.notes.iter().any(|note| note.contains("with and without the lock")), "{:?}", map.notes);
    Ok(())
}

fn part_that_was_moved_away_belongs_to_its_function() -> Assembled {
    let mut source = Source::new();
    let again = source.function("whole");
    let asm = &mut source.asm;
    let (mut cold, mut back) = (asm.create_label(), asm.create_label());
    asm.mov(eax, 1)?;
    asm.xchg(byte_ptr(rdi), al)?;
    asm.test(al, al)?;
    asm.jne(again)?;
    asm.cmp(dword_ptr(rdi + 4), 7)?;
    asm.je(cold)?;
    asm.set_label(&mut back)?;
    asm.mov(byte_ptr(rdi), 0)?;
    asm.ret()?;
    source.function_at("whole.cold", &mut cold);
    let asm = &mut source.asm;
    asm.inc(qword_ptr(rdi + 8))?;
    asm.jmp(back)?;
    check(source, &["whole"], with(0, ZERO), with(1, 0), ["WWHHHHH.HH", "WWWWHHH.HH"]);
    Ok(())
}

holdup_testkit::tests!(
    exchange_of_a_byte,
    every_way_out_of_a_section_is_known,
    exchange_after_a_read,
    compare_and_swap_with_its_result_in_a_byte,
    flag_in_a_word_by_compare_and_swap,
    flag_in_a_word_by_bit_test,
    one_attempt_does_not_wait,
    lock_taken_by_a_called_function,
    a_lock_is_known_by_its_address,
    number_that_another_counter_shows,
    number_that_is_compared_once_is_no_ticket,
    number_that_is_counted_down_to_zero,
    lock_given_back_by_a_called_function,
    what_is_not_bounded_is_given_up,
    where_ways_with_and_without_the_lock_meet_nothing_is_said,
    part_that_was_moved_away_belongs_to_its_function
);
