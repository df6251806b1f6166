//! Waking a task, for the waker.

use super::bench::{beside, each_ns, futex_wait, futex_wake_all, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_load::clock::now_ns;
use holdup_model::Problem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

pub(super) const COST: Cost = Cost {
    name: "wake_ns",
    docs: "FUTEX_WAKE of 8 threads that sleep on the waker's CPU less one that wakes none, for each of them; they have \
           SCHED_BATCH, so that none preempts the waker",
    measure,
};

/// Threads that one call wakes.
const SLEEPERS: usize = 8;

fn measure(context: &Context) -> Result<Samples, Problem> {
    let cpu = context.cpu()?;
    let word = AtomicU32::new(0);
    let sleeps = |stop: &AtomicBool| {
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: of the calling thread; without effect where the kernel refuses, which it does not for this policy.
        unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
        while !stop.load(Ordering::SeqCst) {
            let now = word.load(Ordering::SeqCst);
            if !stop.load(Ordering::SeqCst) {
                futex_wait(&word, now);
            }
        }
    };
    let release = || {
        word.fetch_add(1, Ordering::SeqCst);
        futex_wake_all(&word);
    };
    beside((cpu, &[cpu; SLEEPERS]), &sleeps, &release, || {
        let unused = AtomicU32::new(0);
        repeats("wake-ups", || {
            let empty_ns = quiet((0..40).map(|_| each_ns(10, || futex_wake_all(&unused))).collect());
            let mut pieces = Vec::with_capacity(12);
            let mut pause = Duration::from_micros(300);
            for _ in 0..40 {
                std::thread::sleep(pause);
                word.fetch_add(1, Ordering::SeqCst);
                let begin = now_ns();
                let woken = futex_wake_all(&word);
                let ns = (now_ns() - begin) as f64;
                if woken == SLEEPERS as i64 {
                    pieces.push((ns - empty_ns.unwrap_or_default()) / SLEEPERS as f64);
                } else {
                    // Where others use the CPU the sleepers need longer to fall asleep again.
                    pause = (pause * 2).min(Duration::from_millis(4));
                }
                if pieces.len() == 12 {
                    break;
                }
            }
            Ok(quiet(pieces))
        })
    })
}
