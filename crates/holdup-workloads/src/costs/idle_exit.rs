//! An idle CPU that has to run a task.

use super::bench::{beside, each_ns, futex_wait, futex_wake_all, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use crate::load::clock::now_ns;
use holdup_model::Problem;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub(super) const COST: Cost = Cost {
    name: "idle_exit_ns",
    docs: "from FUTEX_WAKE until a thread that slept for 0.2 ms on a second CPU runs, less a FUTEX_WAKE that wakes nobody, \
           ipi_ns and switch_ns, 20 in a repeat; longer sleeps reach deeper idle states",
    measure,
};

fn measure(context: &Context) -> Result<Samples, Problem> {
    let (near, far) = context.two_cpus()?;
    let known_ns = context.known("ipi_ns")? + context.known("switch_ns")?;
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
    beside((near, &[far]), &sleeps, &release, || {
        let nobody = AtomicU32::new(0);
        repeats("an idle CPU", || {
            let empty_ns = quiet((0..40).map(|_| each_ns(10, || futex_wake_all(&nobody))).collect());
            let mut pieces = Vec::with_capacity(20);
            for _ in 0..20 {
                std::thread::sleep(Duration::from_micros(200));
                word.fetch_add(1, Ordering::SeqCst);
                let begin = now_ns();
                if futex_wake_all(&word) == 1 {
                    std::thread::sleep(Duration::from_micros(200));
                    let awake = awake_at.load(Ordering::SeqCst);
                    if awake > begin {
                        pieces.push((awake - begin) as f64 - empty_ns.unwrap_or_default() - known_ns);
                    }
                }
            }
            Ok(quiet(pieces))
        })
    })
}
