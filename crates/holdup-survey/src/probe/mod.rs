//! Which preemption model is active, measured: how long a runnable task waits for a CPU on which another
//! task computes in user mode, takes page faults, or is in a long system call.
//!
//! No name, log or configuration file is asked, and no right is needed. The task in the way (the hog) has the idle
//! policy, so that one of the ordinary policy preempts it whenever the model lets it. The other (the peer) moves to
//! the hog's CPU by changing its own affinity: that puts it on the other run queue from afar and marks the
//! hog for preemption, whichever caches the two CPUs share (kernel/sched/core.c:move_queued_task, v6.18). A wake-up
//! from afar would not do: between CPUs without a common cache it goes through an interrupt of the
//! target (kernel/sched/core.c:ttwu_queue_cond, v6.18), after which every model reschedules immediately.

mod calls;
mod classify;
mod hog;
mod peer;

pub use classify::{Verdict, classify};

use calls::{Calls, OpenFiles};
use holdup_model::Problem;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How the peer came to the hog's CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// From another CPU, by its affinity.
    FromAfar,
    /// Woken by a timer of the same CPU, the only one that may be used. A timer is an interrupt, and every model
    /// reschedules when an interrupt returns to user mode, so waits over a user-mode hog are the same in all.
    ByTimer,
}

/// Quantiles of times in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quantiles {
    /// A tenth is at most this.
    pub p10: u64,
    /// A quarter is at most this.
    pub p25: u64,
    /// Half is at most this.
    pub p50: u64,
    /// Three quarters are at most this.
    pub p75: u64,
    /// Nine of ten are at most this.
    pub p90: u64,
}

impl Quantiles {
    /// The quantiles of samples; all zero when there are none.
    fn of(mut samples: Vec<u64>) -> Self {
        samples.sort_unstable();
        let at = |share: usize| {
            let last = samples.len().saturating_sub(1);
            samples.get((last * share + 50) / 100).copied().unwrap_or(0)
        };
        Quantiles { p10: at(10), p25: at(25), p50: at(50), p75: at(75), p90: at(90) }
    }
}

/// What the peer met over one kind of hog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waits {
    /// How many arrivals.
    pub samples: usize,
    /// How long the hog kept running after the peer had set out, in CPU time of the two: other tasks that ran meanwhile
    /// do not count. By the clock where the peer came [`Arrival::ByTimer`].
    pub kept: Quantiles,
    /// How long the peer was under way by the clock, with all that stood in its way.
    pub waited: Quantiles,
    /// The CPU time of a call that nothing disturbs; 0 where there is none.
    pub call_ns: u64,
}

/// The measurement: for each kind of hog the waits, or the reason why there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// The period of the scheduler's tick, 1/HZ.
    pub tick_ns: u64,
    /// How the peer came to the CPU.
    pub arrival: Arrival,
    /// Over user mode.
    pub user: Result<Waits, String>,
    /// Over page faults.
    pub faults: Result<Waits, String>,
    /// Over calls of several ticks.
    pub walk: Result<Waits, String>,
    /// Over shorter calls of another kind.
    pub poll: Result<Waits, String>,
}

/// The CPU time of the calling thread in nanoseconds.
fn own_cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The tick from the resolution of the coarse clock, which is its period (kernel/time/posix-timers.c:
/// posix_get_coarse_res, v6.12).
fn tick() -> Result<Duration, Problem> {
    let period = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    let period = Duration::new(u64::try_from(period.tv_sec).unwrap_or(0), u32::try_from(period.tv_nsec).unwrap_or(0));
    if !(Duration::from_micros(500)..=Duration::from_millis(20)).contains(&period) {
        return Err(Problem::host(
            "the scheduler's tick",
            format!("the resolution of CLOCK_MONOTONIC_COARSE is {period:?}, which is no tick of a Linux kernel"),
        ));
    }
    Ok(period)
}

/// A measurement and its verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probe {
    pub measured: Measured,
    /// The models that fit.
    pub verdict: Verdict,
}

/// Measures for about `budget`. Two seconds are a good budget; one is enough on a quiet host.
pub fn probe(budget: Duration) -> Result<Probe, Problem> {
    let measured = measure(budget)?;
    Ok(Probe { verdict: classify(&measured), measured })
}

/// Measures for about `budget`.
///
/// Two threads are started and end with it, at the latest two seconds after the budget; the soft limit of open
/// files is raised meanwhile. The calling thread's affinity and policy stay as they are.
///
/// # Errors
/// When threads, policies or affinities are refused, or the threads got no CPU time to end in.
pub fn measure(budget: Duration) -> Result<Measured, Problem> {
    let tick = tick()?;
    let allowed = sched_getaffinity(None).map_err(|e| Problem::host("the CPUs that may be used", e.to_string()))?;
    let files = OpenFiles::raise();
    let (result, results) = channel();
    let (tid_sender, tids) = channel();
    let its_cpus = allowed;
    let peer = std::thread::Builder::new()
        .name("holdup-probe-peer".to_owned())
        .spawn(move || {
            let _sent = tid_sender.send(rustix::thread::gettid());
            let deadline = Instant::now() + budget;
            let calls = Arc::new(Calls::prepare(tick * peer::WALK_TICKS, &files));
            let _sent = result.send(peer::measure(tick, &its_cpus, &calls, deadline));
        })
        .map_err(|e| Problem::host("the probe", format!("no thread could be started: {e}")))?;
    let late = Duration::from_secs(1);
    let measured = match results.recv_timeout(budget + late) {
        Err(RecvTimeoutError::Timeout) => {
            // A real-time task may hold the CPU that the peer waits for; anywhere else it can come to its end.
            if let Ok(tid) = tids.try_recv() {
                let _moved = rustix::thread::sched_setaffinity(Some(tid), &allowed);
            }
            results.recv_timeout(late).map_err(|_| ())
        }
        other => other.map_err(|_| ()),
    };
    let Ok(measured) = measured else {
        return Err(Problem::host("the probe", "its thread got no CPU time to end in; the host is too busy"));
    };
    let _ended = peer.join();
    measured.map_err(|why| Problem::host("the probe", why))
}

/// The CPUs of a set, in order.
fn cpus_of(set: &CpuSet) -> Vec<usize> {
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let of = Quantiles::of((1..=101).rev().collect());
        assert_eq!((of.p10, of.p25, of.p50, of.p75, of.p90), (11, 26, 51, 76, 91));
        assert_eq!(Quantiles::of(vec![7]).p90, 7);
        assert_eq!(Quantiles::of(Vec::new()), Quantiles::default());
    }

    #[test]
    fn a_probe_leaves_its_caller_as_it_was() {
        let state = || {
            let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
            (cpus_of(&sched_getaffinity(None).expect("it may be asked")), files)
        };
        let before = state();
        match probe(Duration::from_millis(200)) {
            Ok(probe) => {
                assert!(probe.measured.tick_ns > 0);
                assert!(!probe.verdict.why.is_empty());
            }
            // On a host that is too busy for the threads to end in time.
            Err(problem) => assert!(problem.why.contains("busy"), "{problem}"),
        }
        assert_eq!(state(), before);
    }
}
