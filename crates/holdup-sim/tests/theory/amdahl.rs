//! Critical sections and Amdahl's law.
//!
//! A program of parallel parts and sections under a lock cannot be sped up by more cores than it has, nor beyond what its
//! sections take one after the other: they are Amdahl's sequential part where they always meet, and a smaller one where
//! several locks or few cores let them miss each other. Where everything is exponential, mean value analysis says exactly
//! how much.

use crate::theory::common::{BATCHES, Estimate, free, machine, none_deviates, program, run};
use holdup_sim::program::Op;
use holdup_sim::random::Span;
use holdup_sim::world::{Load, TaskSpec};

const WORK_NS: f64 = 1_000_000.0;

/// Mean value analysis (Reiser, Lavenberg 1980): rounds per ns of n cores that compute `parallel` ns and spend `section`
/// ns under one of `locks` locks, each as likely.
fn rounds(n: u32, parallel: f64, section: f64, locks: f64) -> f64 {
    let (mut waiting, mut rate) = (0.0, 0.0);
    for cores in 1..=n {
        let stay = section * (1.0 + waiting);
        rate = f64::from(cores) / (parallel + stay);
        waiting = rate / locks * stay;
    }
    rate
}

/// The same of the simulated machine, by the time that its cores spend in parallel parts.
fn simulated(n: u32, parallel: u64, section: u64, locks: u32) -> Estimate {
    // The release takes a nanosecond more.
    let mut ops = vec![Op::Compute(Span::Exponential(parallel - 1))];
    for lock in 0..locks {
        // One of those that are left, each as likely.
        let skip = ops.len() as u32 + 5;
        if lock + 1 < locks {
            let left = f64::from(locks - lock);
            ops.push(Op::Chance { of: (2f64.powi(32) * (1.0 - 1.0 / left)) as u32, to: skip });
        }
        let work = Op::Compute(Span::Exponential(section));
        ops.extend([Op::Lock(lock), work, Op::Unlock(lock), Op::Jump(0)]);
    }
    let load = Load {
        programs: vec![program(ops)],
        tasks: (0..n).map(|cpu| TaskSpec { pinned: Some(cpu), ..TaskSpec::default() }).collect(),
        locks: vec!["mcs"; locks as usize],
        ..Load::default()
    };
    let rate = rounds(n, parallel as f64, section as f64, f64::from(locks));
    let batch_ns = (80_000.0 / rate) as u64 / BATCHES as u64;
    let at = run(&machine(n, free()), &load, 6, batch_ns, BATCHES, |seen| {
        let ns: u64 = seen.locks.iter().map(|l| l.held_ns + l.spin_ns).sum();
        (ns as f64, batch_ns as f64)
    });
    Estimate::ratio(&at).map(f64::from(n), -1.0)
}

#[test]
fn sections_bound_what_many_cores_are_good_for() {
    let mut results = Vec::new();
    for (sequential, locks) in [(0.02, 1), (0.1, 1), (0.1, 4), (0.3, 2)] {
        for n in [1, 4, 16, 64] {
            let section = (sequential * WORK_NS) as u64;
            let parallel = WORK_NS as u64 - section;
            let rate = rounds(n, parallel as f64, section as f64, f64::from(locks));
            // Amdahl's law of one that waits for no other, and the sections one after the other.
            let most = f64::from(n).min(f64::from(locks) / sequential);
            let speedup = rate * WORK_NS;
            assert!(speedup <= most && (n < 64 || locks > 1 || speedup > 0.99 * most), "{speedup} of {most}");
            let name = format!("{n} cores, {sequential} under one of {locks} locks: cores in parallel parts");
            results.push(simulated(n, parallel, section, locks).check(&name, rate * parallel as f64));
        }
    }
    println!("{}", none_deviates(results));
}
