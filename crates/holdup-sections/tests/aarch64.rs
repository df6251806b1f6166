//! Locks of AArch64 in machine code, with what is true at each instruction.

use crate::elf;
use elf::{AARCH64, BASE, file_for, named, roles};
use holdup_sections::lookup::Registers;
use holdup_sections::{SectionMap, map};

/// PSTATE with the zero flag.
const ZERO: u64 = 1 << 30;

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A file with these functions behind each other.
fn file(functions: &[(&str, &[u32])]) -> Vec<u8> {
    let (mut code, mut symbols) = (Vec::new(), Vec::new());
    for (name, words) in functions {
        symbols.push(((*name).to_owned(), code.len() as u64, 4 * words.len() as u64));
        code.extend(bytes(words));
    }
    file_for(AARCH64, &code, &symbols, &[])
}

fn places(words: usize) -> Vec<u64> {
    (0..words as u64).map(|number| BASE + 4 * number).collect()
}

/// With a value in a register, and the flags.
fn with(register: usize, value: u64, flags: u64) -> Registers {
    let mut registers = Registers { flags, ..Registers::default() };
    registers.general[register] = value;
    registers
}

/// The map of one function, and its roles where its lock was taken and where it was not.
fn check(words: &[u32], taken: &Registers, failed: &Registers, expected: [&str; 2]) -> SectionMap {
    let map = map(&file(&[("f", words)]), &named(&["f"])).expect("an ELF file");
    let got = [taken, failed].map(|registers| roles(&map, &places(words.len()), registers));
    assert_eq!(got, expected, "{map:#x?}");
    map
}

const ONE: u32 = 0x5280_0022; // mov w2, #1
const SWAP: u32 = 0xb8a2_8003; // swpa w2, w3, [x0]
const LOAD: u32 = 0xf940_0404; // ldr x4, [x0, #8]
const ADD: u32 = 0x9100_0484; // add x4, x4, #1
const STORE: u32 = 0xf900_0404; // str x4, [x0, #8]
const RELEASE: u32 = 0x889f_fc1f; // stlr wzr, [x0]
const BARRIER: u32 = 0xd503_3bbf; // dmb ish
const CLEAR: u32 = 0xb900_001f; // str wzr, [x0]
const RET: u32 = 0xd65f_03c0;
const ISB: u32 = 0xd503_3fdf;
const NOP: u32 = 0xd503_201f;

/// `cbnz` of a register of 32 bits over a number of instructions.
const fn cbnz(register: u32, over: i32) -> u32 {
    0x3500_0000 | (over as u32 & 0x7_ffff) << 5 | register
}

const fn jump(over: i32) -> u32 {
    0x1400_0000 | over as u32 & 0x3ff_ffff
}

fn exchange_and_release() {
    let words = [ONE, SWAP, cbnz(3, 6), LOAD, ADD, STORE, RELEASE, RET, ISB, jump(-8)];
    let expected = [".WHHHHH.WW", ".WWHHHH.WW"];
    let map = check(&words, &with(3, 0, 0), &with(3, 1, 0), expected);
    let [released] = &map.releases[..] else { panic!("{map:#x?}") };
    assert_eq!(released.at, [BASE + 4 * 6]);
    // Nothing is named: the loop waits with an instruction for that.
    let wanted = holdup_sections::Wanted { shipped: true, functions: Vec::new() };
    let shipped = holdup_sections::map(&file(&[("f", &words)]), &wanted).expect("an ELF file");
    assert_eq!(shipped.ranges, map.ranges);
}

fn barrier_and_plain_store() {
    let words = [ONE, SWAP, cbnz(3, 7), LOAD, ADD, STORE, BARRIER, CLEAR, RET, ISB, jump(-9)];
    check(&words, &with(3, 0, 0), &with(3, 1, 0), [".WHHHHHH.WW", ".WWHHHHH.WW"]);
}

fn store_of_two_registers() {
    // `stp wzr, w2, [x0]` clears the lock, `stp w2, wzr, [x0, #-4]` too.
    for release in [0x2900_081f, 0x293f_fc02] {
        let words = [ONE, SWAP, cbnz(3, 4), LOAD, release, RET, ISB, jump(-6)];
        check(&words, &with(3, 0, 0), &with(3, 1, 0), [".WHHH.WW", ".WWHH.WW"]);
    }
}

fn bit_in_a_word() {
    // mov w2, #0x400000; ldseta w2, w3, [x0]; tbnz w3, #22; nop; ldclrl w2, w3, [x0]; ret; isb; b
    let words = [0x52a0_0802, 0xb8a2_3003, 0x37b0_0083, NOP, 0xb862_1003, RET, ISB, jump(-6)];
    check(&words, &with(3, 7, 0), &with(3, 0x40_0000, 0), [".WHHH.WW", ".WWHH.WW"]);
}

fn compare_and_swap_with_a_comparison_of_its_result() {
    // ldr w1, [x0]; orr w2, w1, #0x400000; mov w3, w1; casa w3, w2, [x0]; cmp w3, w1; b.ne; tbnz w1, #22; nop;
    // and w1, w1, #0xffbfffff; stlr w1, [x0]; ret; isb; b
    let words = [
        0xb940_0001,
        0x320a_0022,
        0x2a01_03e3,
        0x88e3_7c02,
        0x6b01_007f,
        0x54ff_ff61,
        0x37b0_00a1,
        NOP,
        0x1209_7821,
        0x889f_fc01,
        RET,
        ISB,
        jump(-12),
    ];
    let map = map(&file(&[("f", &words)]), &named(&["f"])).expect("an ELF file");
    let mut free = with(1, 7, ZERO);
    free.general[3] = 7;
    let mut taken = with(1, 0x40_0007, ZERO);
    taken.general[3] = 0x40_0007;
    // Before the comparison two registers decide together, which no condition says.
    let got = [&free, &taken].map(|registers| roles(&map, &places(words.len()), registers));
    assert_eq!([&got[0][5..], &got[1][5..]], ["HHHHH.WW", "WWHHH.WW"], "{map:#x?}");
}

fn exclusive_pair_of_an_exchange() {
    // mov w2, #1; ldaxr w3, [x0]; stxr w4, w2, [x0]; cbnz w4; cbnz w3; nop; stlr wzr, [x0]; ret; isb; b
    let words = [ONE, 0x885f_fc03, 0x8804_7c02, cbnz(4, -2), cbnz(3, 4), NOP, RELEASE, RET, ISB, jump(-8)];
    let mut taken = with(3, 0, 0);
    taken.general[4] = 0;
    check(&words, &taken, &with(3, 1, 0), [".WWHHHH.WW", ".WWWWHH.WW"]);
}

fn exclusive_pair_of_a_compare_and_swap() {
    // mov w2, #1; ldaxr w3, [x0]; cmp w3, #0; b.ne; stxr w4, w2, [x0]; cbnz w4; b.ne; nop; stlr wzr, [x0]; ret; isb; b
    let words = [
        ONE,
        0x885f_fc03,
        0x7100_007f,
        0x5400_0061,
        0x8804_7c02,
        cbnz(4, -4),
        0x5400_0081,
        NOP,
        RELEASE,
        RET,
        ISB,
        jump(-10),
    ];
    check(&words, &with(4, 0, ZERO), &with(4, 0, 0), [".WWWWHHHH.WW", ".WWWWWWHH.WW"]);
}

/// Code that chooses between both ways itself, as the helpers of libgcc do.
fn both_ways_in_one_function() {
    // mov w2, #1; ldrb w5, [x1]; cbz w5; swpa w2, w3, [x0]; b; ldaxr w3, [x0]; stxr w4, w2, [x0]; cbnz w4; cbnz w3; nop;
    // stlr wzr, [x0]; ret; isb; b
    let words = [
        ONE,
        0x3940_0025,
        0x3400_0065,
        SWAP,
        jump(4),
        0x885f_fc03,
        0x8804_7c02,
        cbnz(4, -2),
        cbnz(3, 4),
        NOP,
        RELEASE,
        RET,
        ISB,
        jump(-12),
    ];
    check(&words, &with(3, 0, 0), &with(3, 1, 0), [".WWWHWWHHHH.WW", ".WWWWWWWWHH.WW"]);
}

/// A helper of libgcc by its code: `__aarch64_swp4_acq`, which nothing names.
fn call_of_a_helper() {
    // bti c; adrp x16; ldrb w16, [x16, #624]; cbz w16; swpa w0, w0, [x1]; ret; mov w16, w0; ldaxr w0, [x1];
    // stxr w17, w16, [x1]; cbnz w17; ret
    let helper = [
        0xd503_245f,
        0xb000_1710,
        0x3949_c210,
        0x3400_0070,
        0xb8a0_8020,
        RET,
        0x2a00_03f0,
        0x885f_fc20,
        0x8811_7c30,
        cbnz(17, -2),
        RET,
    ];
    // mov x1, x19; mov w0, #1; bl; cbnz w0; nop; stlr wzr, [x19]; ret; isb; b
    let call = 0x9400_0000 | (-13i32 as u32 & 0x3ff_ffff);
    let user = [0xaa13_03e1, 0x5280_0020, call, cbnz(0, 4), NOP, 0x889f_fe7f, RET, ISB, jump(-8)];
    let program = file(&[("helper", &helper), ("f", &user)]);
    let map = map(&program, &named(&["f"])).expect("an ELF file");
    let all = places(helper.len() + user.len());
    assert_eq!(roles(&map, &all[11..], &with(0, 0, 0)), "WWWHHH.WW", "{map:#x?}");
    assert_eq!(roles(&map, &all[11..], &with(0, 1, 0)), "WWWWHH.WW", "{map:#x?}");
    // In the helper the return address decides, which is in x30, and behind the exchange its result.
    assert_eq!(roles(&map, &all[..11], &with(30, all[14], 0)), "WWWWWHWWW.H", "the lock was free: {map:#x?}");
    let mut taken = with(30, all[14], 0);
    taken.general[0] = 1;
    assert_eq!(roles(&map, &all[..11], &taken), "WWWWWWWWW.W", "{map:#x?}");
    assert_eq!(roles(&map, &all[..11], &with(30, 0x1000, 0)), "...........", "called from elsewhere: {map:#x?}");
}

/// Numbers between instructions are no instructions: what loads them says where they are.
fn numbers_in_the_code() {
    // ldr x5, literal; b over the number, which looks like two calls.
    let call = 0x9400_0006;
    let words = [ONE, SWAP, cbnz(3, 7), 0x5800_0045, jump(3), call, call, RELEASE, RET, ISB, jump(-9)];
    let expected = [".WHHH..H.WW", ".WWHH..H.WW"];
    check(&words, &with(3, 0, 0), &with(3, 1, 0), expected);
}

fn an_instruction_that_is_not_known_ends_the_section_and_is_said() {
    let words = [ONE, SWAP, cbnz(3, 6), LOAD, 0xffff_ffff, STORE, RELEASE, RET, ISB, jump(-8)];
    let map = check(&words, &with(3, 0, 0), &with(3, 1, 0), ["..........", ".........."]);
    let note = format!("the instruction at {:#x} is not known", BASE + 16);
    assert!(map.notes.iter().any(|said| said.contains(&note)), "{:?}", map.notes);
}

/// A function that keeps its return address on the stack, signed.
fn called_inside() {
    // work: paciasp; stp x29, x30, [sp, #-16]!; ldp x29, x30, [sp], #16; retaa
    let work = [0xd503_233f, 0xa9bf_7bfd, 0xa8c1_7bfd, 0xd65f_0bff];
    // f: mov x19, x0; mov w2, #1; swpa w2, w3, [x19]; cbnz w3; bl work; stlr wzr, [x19]; ret; isb; b
    let call = 0x9400_0000 | (-8i32 as u32 & 0x3ff_ffff);
    let user = [0xaa00_03f3, ONE, 0xb8a2_8263, cbnz(3, 4), call, 0x889f_fe7f, RET, ISB, jump(-6)];
    let map = map(&file(&[("work", &work), ("f", &user)]), &named(&["f"])).expect("an ELF file");
    assert_eq!(roles(&map, &places(13)[4..], &with(3, 0, 0)), "..WHHH.WW", "{map:#x?}");
}

holdup_testkit::tests!(
    exchange_and_release,
    barrier_and_plain_store,
    store_of_two_registers,
    bit_in_a_word,
    compare_and_swap_with_a_comparison_of_its_result,
    exclusive_pair_of_an_exchange,
    exclusive_pair_of_a_compare_and_swap,
    both_ways_in_one_function,
    call_of_a_helper,
    numbers_in_the_code,
    an_instruction_that_is_not_known_ends_the_section_and_is_said,
    called_inside
);
