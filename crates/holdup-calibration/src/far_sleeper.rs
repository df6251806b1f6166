//! A thread that sleeps on a second CPU, which is idle then, and is woken from the first one.

use super::bench::{beside, each_ns, futex_wait, futex_wake_all, repeats};
use super::samples::quiet;
use super::{Context, Samples};
use holdup_load::clock::now_ns;
use holdup_model::Problem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How one wake-up went.
pub(super) struct FarWake {
    /// How long the call took that woke the thread, ns.
    pub(super) call_ns: f64,
    /// From the call until the thread ran, ns.
    pub(super) awake_ns: f64,
    /// How long a call takes that wakes no thread, ns.
    pub(super) empty_ns: f64,
}

/// Wakes the thread, 20 times in a repeat, after it slept for 0.2 ms. `of` says what is measured in one wake-up.
pub(super) fn far_wakes(
    context: &Context,
    what: &str,
    of: impl Fn(&FarWake) -> f64 + Sync,
) -> Result<Samples, Problem> {
    let (cpu, other) = context.two_cpus()?;
    let (word, awake_at) = (AtomicU32::new(0), AtomicU64::new(0));
    let sleeps = |stop: &AtomicBool| {
        while !stop.load(Ordering::SeqCst) {
            let now = word.load(Ordering::SeqCst);
            if !stop.load(Ordering::SeqCst) {
                futex_wait(&word, now);
                awake_at.store(now_ns(), Ordering::SeqCst);
            }
        }
    };
    let release = || {
        word.fetch_add(1, Ordering::SeqCst);
        futex_wake_all(&word);
    };
    beside((cpu, &[other]), &sleeps, &release, || {
        let unused = AtomicU32::new(0);
        repeats(what, || {
            let empty_ns =
                quiet((0..40).map(|_| each_ns(10, || futex_wake_all(&unused))).collect()).unwrap_or_default();
            let mut pieces = Vec::with_capacity(20);
            for _ in 0..20 {
                std::thread::sleep(Duration::from_micros(200));
                word.fetch_add(1, Ordering::SeqCst);
                let begin = now_ns();
                let woken = futex_wake_all(&word);
                let call_ns = (now_ns() - begin) as f64;
                if woken == 1 {
                    std::thread::sleep(Duration::from_micros(200));
                    let awake = awake_at.load(Ordering::SeqCst);
                    if awake > begin {
                        pieces.push(of(&FarWake { call_ns, awake_ns: (awake - begin) as f64, empty_ns }));
                    }
                }
            }
            Ok(quiet(pieces))
        })
    })
}
