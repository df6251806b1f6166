//! The task that waits: it moves to the hog's CPU again and again and measures how long the hog kept running.

use super::calls::Calls;
use super::hog::{Begun, Doing, Hog};
use super::{Arrival, Measured, Quantiles, Waits, cpus_of, nanoseconds, own_cpu_ns};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many ticks the longest calls last: more than one tick must be left when the peer comes, or the end of the
/// call and the tick could not be distinguished.
pub(super) const WALK_TICKS: u32 = 5;

/// More samples of one kind gain nothing.
const MOST: usize = 200;

/// What each kind gets of the time.
const SHARES: [(Doing, f64); 4] =
    [(Doing::Faults, 0.17), (Doing::Walk, 0.48), (Doing::User, 0.20), (Doing::Poll, 0.15)];

#[derive(Debug)]
struct Peer {
    calls: Arc<Calls>,
    tick: Duration,
    /// The hog's CPU, and the one that the peer comes from.
    there: CpuSet,
    away: Option<CpuSet>,
    arrivals: u32,
    /// How long a hog takes from its start to its beginning; only for a peer that comes by timer.
    head_start: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    kept_ns: u64,
    waited_ns: u64,
}

pub(super) fn measure(
    tick: Duration,
    allowed: &CpuSet,
    calls: &Arc<Calls>,
    deadline: Instant,
) -> Result<Measured, String> {
    let _precise = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let (there, away) = choose(calls, tick, &cpus_of(allowed), deadline)?;
    let arrival = if away.is_some() { Arrival::FromAfar } else { Arrival::ByTimer };
    let head_start = warm_up(arrival, tick) + Duration::from_micros(500);
    let mut peer = Peer { calls: Arc::clone(calls), tick, there, away, arrivals: 0, head_start };
    let begun = Instant::now();
    let time = deadline.saturating_duration_since(begun);
    let none = || Err("not measured".to_owned());
    let mut measured =
        Measured { tick_ns: nanoseconds(tick), arrival, user: none(), faults: none(), walk: none(), poll: none() };
    let mut share_done = 0.0;
    for (doing, share) in SHARES {
        share_done += share;
        let until = begun + time.mul_f64(share_done);
        let (slot, can) = match doing {
            Doing::Walk => (&mut measured.walk, calls.walk_ns()),
            Doing::Poll => (&mut measured.poll, calls.poll_ns()),
            Doing::User if arrival == Arrival::ByTimer => {
                (&mut measured.user, Err("there is one CPU, and the timer on it interrupts user mode".to_owned()))
            }
            Doing::User => (&mut measured.user, Ok(0)),
            Doing::Faults => (&mut measured.faults, Ok(0)),
        };
        *slot = can.and_then(|call_ns| peer.waits(doing, call_ns, until));
    }
    Ok(measured)
}

fn set_of(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// The hog's CPU and the other one: of those that may be used the two on which an idle task gets most, best first.
fn choose(
    calls: &Arc<Calls>,
    tick: Duration,
    cpus: &[usize],
    deadline: Instant,
) -> Result<(CpuSet, Option<CpuSet>), String> {
    const MOST_TRIED: usize = 8;
    let mut hogs = Vec::new();
    for cpu in cpus.iter().copied().take(MOST_TRIED) {
        hogs.push((cpu, Hog::start(Doing::User, calls, &set_of(cpu), Duration::ZERO, deadline)?));
    }
    std::thread::sleep(tick * 5);
    let mut tried = Vec::new();
    for (cpu, hog) in hogs {
        let got = hog.begun()?.and_then(|hog| Some(hog.cpu_ns_now()?.saturating_sub(hog.cpu_ns)));
        tried.push((std::cmp::Reverse(got), cpu));
    }
    tried.sort_unstable();
    let mut best = tried.iter().map(|(_, cpu)| set_of(*cpu));
    let there = best.next().ok_or("no CPU may be used")?;
    Ok((there, best.next()))
}

impl Peer {
    /// Arrives until there are enough samples or the time is over.
    fn waits(&mut self, doing: Doing, call_ns: u64, until: Instant) -> Result<Waits, String> {
        let mut samples = Vec::with_capacity(MOST);
        let home = self.away.as_ref().unwrap_or(&self.there);
        sched_setaffinity(None, home).map_err(refused)?;
        let arrival = if self.away.is_some() { Arrival::FromAfar } else { Arrival::ByTimer };
        let warm_up = warm_up(arrival, self.tick);
        while samples.len() < MOST && Instant::now() < until {
            let hog = Hog::start(doing, &self.calls, &self.there, warm_up, until + self.tick * 50)?;
            let sample = match self.away {
                Some(away) => self.arrive_from_afar(&hog, &away, doing, call_ns, until)?,
                None => self.arrive_by_timer(&hog, call_ns)?,
            };
            samples.extend(sample);
        }
        if samples.is_empty() {
            return Err("no hog was found at work when the peer set out".to_owned());
        }
        Ok(Waits {
            samples: samples.len(),
            kept: Quantiles::of(samples.iter().map(|s| s.kept_ns).collect()),
            waited: Quantiles::of(samples.iter().map(|s| s.waited_ns).collect()),
            call_ns,
        })
    }

    /// A number from 0 to 1, spread evenly over the samples: multiples of the golden ratio.
    fn spread(&mut self) -> f64 {
        self.arrivals += 1;
        (f64::from(self.arrivals) * 0.618_033_988_749_895).fract()
    }

    /// Goes to the hog's CPU from the other one, and back. `None` when the hog is not met at work.
    fn arrive_from_afar(
        &mut self,
        hog: &Hog,
        away: &CpuSet,
        doing: Doing,
        call_ns: u64,
        until: Instant,
    ) -> Result<Option<Sample>, String> {
        let spread = self.spread();
        let Some(begun) = self.meet(hog, doing, call_ns, spread, until)? else { return Ok(None) };
        // Where a reschedule is due, the kernel skips the next update of the run queue's clock (kernel/sched/core.c:
        // wakeup_preempt, rq_clock_skip_update, v6.18). What the hog used between the last tick and its leaving is then
        // charged to the task that runs next, which is the peer: the two sums together have it.
        let Some(before) = begun.cpu_ns_now() else { return Ok(None) };
        let together = before + own_cpu_ns();
        let set_out = Instant::now();
        sched_setaffinity(None, &self.there).map_err(refused)?;
        let waited_ns = nanoseconds(set_out.elapsed());
        // The peer may also be charged for what was before it set out.
        let after = begun.cpu_ns_now().map(|its| (its + own_cpu_ns()).saturating_sub(together).min(waited_ns));
        sched_setaffinity(None, away).map_err(refused)?;
        Ok(after.map(|kept_ns| Sample { kept_ns, waited_ns }))
    }

    /// Waits until the hog is at work and has been for a little. `None` when it was not met in time.
    fn meet(
        &self,
        hog: &Hog,
        doing: Doing,
        call_ns: u64,
        spread: f64,
        until: Instant,
    ) -> Result<Option<Begun>, String> {
        let begun = loop {
            match hog.begun()? {
                Some(begun) => break begun,
                None if Instant::now() >= until => return Ok(None),
                // Short sleeps rather than turns: they keep the peer's claim to its own CPU, should that one be busy.
                None => std::thread::sleep(Duration::from_micros(30)),
            }
        };
        // Well within a call, and evenly between two ticks of user mode, where the tick is what ends a lazy wait.
        let tick_ns = nanoseconds(self.tick);
        let (span, begins, latest) = match doing {
            Doing::Walk | Doing::Poll => (call_ns, 0.05 + 0.2 * spread, call_ns / 10 * 4),
            Doing::User => (tick_ns, spread, u64::MAX),
            Doing::Faults => (tick_ns, 0.1 * spread, u64::MAX),
        };
        let earliest = (span as f64 * begins) as u64;
        let mut last = (begun.at, begun.cpu_ns);
        let patience = Duration::from_nanos(span) * 10;
        while begun.at.elapsed() < patience {
            let Some(cpu_ns) = begun.cpu_ns_now() else { return Ok(None) };
            let now = Instant::now();
            let used = cpu_ns.saturating_sub(begun.cpu_ns);
            if used > latest {
                return Ok(None);
            }
            let ran = cpu_ns.saturating_sub(last.1);
            let is_running = u128::from(ran) * 2 > now.saturating_duration_since(last.0).as_nanos();
            if used >= earliest && is_running {
                return Ok(Some(begun));
            }
            last = (now, cpu_ns);
            let left = Duration::from_nanos(earliest.saturating_sub(used));
            if left > Duration::from_micros(200) {
                std::thread::sleep(left - Duration::from_micros(100));
            } else {
                std::hint::spin_loop();
            }
        }
        Ok(None)
    }

    /// Sleeps on the hog's CPU until a timer ends within what the hog does.
    fn arrive_by_timer(&mut self, hog: &Hog, call_ns: u64) -> Result<Option<Sample>, String> {
        let is_call = call_ns > 0;
        let span = if is_call { Duration::from_nanos(call_ns) } else { self.tick };
        let ends = Instant::now() + self.head_start + span.mul_f64(0.05 + 0.2 * self.spread());
        std::thread::sleep(ends.saturating_duration_since(Instant::now()));
        let waited_ns = nanoseconds(ends.elapsed());
        let Some(begun) = hog.begun()? else {
            self.head_start = (self.head_start * 3 / 2).min(self.tick * 20);
            return Ok(None);
        };
        if begun.at > ends {
            self.head_start = (self.head_start * 3 / 2).min(self.tick * 20);
            return Ok(None);
        }
        if is_call && ends - begun.at > span.mul_f64(0.4) {
            self.head_start = self.head_start * 4 / 5;
            return Ok(None);
        }
        Ok(Some(Sample { kept_ns: waited_ns, waited_ns }))
    }
}

/// How long a hog computes before it begins.
///
/// Where both live on one CPU, the lags of the two go with them: a task of the ordinary policy that is not
/// eligible is not picked over one of the idle policy (kernel/sched/fair.c:pick_eevdf, v6.18), and the peer owes what
/// it ran since the hog was made. While the peer sleeps, this lets the debt go.
fn warm_up(arrival: Arrival, tick: Duration) -> Duration {
    match arrival {
        Arrival::FromAfar => Duration::ZERO,
        Arrival::ByTimer => tick * 3 / 2,
    }
}

fn refused(error: rustix::io::Errno) -> String {
    format!("the affinity of a thread: {error}")
}
