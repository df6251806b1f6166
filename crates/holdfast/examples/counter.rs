//! Four threads count under one lock, each asking not to be preempted while it holds it.

#![allow(clippy::print_stdout, reason = "an example for a terminal")]

use holdfast::{Mutex, hold, status};

static COUNT: Mutex<u64> = Mutex::new(0);

fn main() {
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100_000 {
                    let hold = hold();
                    *COUNT.lock() += 1;
                    drop(hold);
                }
            });
        }
    });
    println!("{}, time slice extension: {:?}", *COUNT.lock(), status());
}
