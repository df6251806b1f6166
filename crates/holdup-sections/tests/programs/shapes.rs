//! The five shapes of `shapes.c` in Rust.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

const BUSY: u32 = 1 << 20;

struct Shared {
    exchanged: AtomicU32,
    read_first: AtomicU32,
    compared: AtomicU32,
    bit: AtomicU32,
    next: AtomicU32,
    turn: AtomicU32,
    counts: [AtomicU64; 4],
}

static SHARED: Shared = Shared {
    exchanged: AtomicU32::new(0),
    read_first: AtomicU32::new(0),
    compared: AtomicU32::new(0),
    bit: AtomicU32::new(0),
    next: AtomicU32::new(0),
    turn: AtomicU32::new(0),
    counts: [const { AtomicU64::new(0) }; 4],
};

#[repr(C)]
pub struct Word(&'static AtomicU32, u64);

#[no_mangle]
#[used]
pub static words: ([Word; 5], [u64; 2]) = (
    [
        Word(&SHARED.exchanged, 0xffff_ffff),
        Word(&SHARED.read_first, 0xffff_ffff),
        Word(&SHARED.compared, 0xffff_ffff),
        Word(&SHARED.bit, BUSY as u64),
        Word(&SHARED.next, 0),
    ],
    [0, 0],
);

fn count(of: usize, by: u64) {
    let count = &SHARED.counts[of & 3];
    count.store(count.load(Relaxed).wrapping_add(by), Relaxed);
}

#[inline(never)]
fn with_exchanged(which: usize) {
    while SHARED.exchanged.swap(1, Acquire) != 0 {
        spin_loop();
    }
    for i in 0..which & 3 {
        count(i, which as u64);
    }
    SHARED.exchanged.store(0, Release);
}

#[inline(never)]
fn with_read_first(which: usize) {
    loop {
        while SHARED.read_first.load(Relaxed) != 0 {
            spin_loop();
        }
        if SHARED.read_first.swap(1, Acquire) == 0 {
            break;
        }
    }
    if which & 1 == 1 {
        count(1, which as u64);
    } else {
        count(2, 1);
    }
    SHARED.read_first.store(0, Release);
}

#[inline(never)]
fn with_compared(which: usize) {
    while SHARED.compared.compare_exchange_weak(0, 1, Acquire, Relaxed).is_err() {
        spin_loop();
    }
    count(which, 3);
    SHARED.compared.store(0, Release);
}

#[inline(never)]
fn with_bit(which: usize) {
    while SHARED.bit.fetch_or(BUSY, Acquire) & BUSY != 0 {
        spin_loop();
    }
    for i in 0..3 {
        count(i, (which + i) as u64);
    }
    SHARED.bit.fetch_and(!BUSY, Release);
}

#[inline(never)]
fn with_ticket(which: usize) {
    let mine = SHARED.next.fetch_add(1, Relaxed);
    while SHARED.turn.load(Acquire) != mine {
        spin_loop();
    }
    count(which & 1, 5);
    count(2, 1);
    SHARED.turn.store(mine.wrapping_add(1), Release);
}

fn main() {
    for i in 0..black_box(1_000_000) {
        with_exchanged(i);
        with_read_first(i);
        with_compared(i);
        with_bit(i);
        with_ticket(i);
    }
}
