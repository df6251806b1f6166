//! What a lock costs that no other thread wants, and a guard that asks for a longer slice.

use crate::cell::median;
use crate::locks::{ADAPTIVE, Holdfast, Lock, Mcs, Node, ParkingLot, Pthread, Spot, Std, Ticket};
use holdfast::Private;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Operations of one sample: about 2 ms.
const OPERATIONS: u32 = 200_000;

/// Time of an operation, in nanoseconds.
fn locked<L: Lock>() -> f64 {
    let mut place = MaybeUninit::uninit();
    L::init(&mut place, false);
    // SAFETY: it was initialised above.
    let lock: &L = unsafe { place.assume_init_ref() };
    let (node, is_over) = (Node::default(), AtomicBool::new(false));
    let spot = Spot { node: &node, is_over: &is_over };
    timed(|| lock.with(&spot, || black_box(())))
}

#[inline(always)]
fn timed(mut operation: impl FnMut()) -> f64 {
    let begin = Instant::now();
    for _ in 0..OPERATIONS {
        operation();
    }
    begin.elapsed().as_nanos() as f64 / f64::from(OPERATIONS)
}

fn nothing() -> f64 {
    timed(|| black_box(()))
}

fn hold() -> f64 {
    timed(|| {
        let _hold = holdfast::hold();
        black_box(());
    })
}

/// A row, and how to measure it.
type Kind = (&'static str, fn() -> f64);

/// Prints the table: medians of `samples`, interleaved, and ratios to std's.
pub(crate) fn table(samples: usize) {
    let kinds: [Kind; 9] = [
        (Std::NAME, locked::<Std>),
        (Holdfast::<Private>::NAME, locked::<Holdfast<Private>>),
        (ParkingLot::NAME, locked::<ParkingLot>),
        (Pthread::<0>::NAME, locked::<Pthread<0>>),
        (Pthread::<ADAPTIVE>::NAME, locked::<Pthread<ADAPTIVE>>),
        (Mcs::NAME, locked::<Mcs>),
        (Ticket::NAME, locked::<Ticket>),
        ("an empty loop", nothing),
        ("hold()", hold),
    ];
    let mut times = vec![Vec::new(); kinds.len()];
    for sample in 0..samples {
        for n in 0..kinds.len() {
            let n = (n + sample) % kinds.len();
            times[n].push(kinds[n].1());
        }
    }
    println!("Lock and unlock without contention ({samples} interleaved samples; hold(): {}):\n", holdfast::status());
    println!("| what | ns | ratio to std |\n|---|--:|--:|");
    for ((name, _), mine) in kinds.iter().zip(&times) {
        let ratios = mine.iter().zip(&times[0]).map(|(mine, std)| mine / std).collect();
        println!("| {name} | {:.2} | {:.3} |", median(mine.clone()), median(ratios));
    }
}
