//! The task that waits: it comes to the hog's CPU again and again and asks how long the hog went on.

use super::calls::Calls;
use super::hog::{Doing, Hog};
use super::{Arrival, Measured, Quantiles, Waits, cpus_of, nanoseconds};
use rustix::thread::{CpuSet, Pid, sched_setaffinity};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many ticks the longest calls last: more than one tick must be left when the peer comes, or the end of the
/// call and the tick could not be told apart.
pub(super) const WALK_TICKS: u32 = 4;

/// More samples of one kind gain nothing.
const MOST: usize = 200;

/// What each kind gets of the time.
const SHARES: [(Doing, f64); 4] =
    [(Doing::Walk, 0.50), (Doing::User, 0.25), (Doing::Poll, 0.13), (Doing::Faults, 0.12)];

#[derive(Debug)]
struct Peer {
    hog: Hog,
    tick: Duration,
    /// The hog's CPU, and the one that the peer comes from.
    there: CpuSet,
    away: Option<CpuSet>,
    arrivals: u32,
}

#[derive(Debug, Clone, Copy)]
struct Sample {
    kept_ns: u64,
    waited_ns: u64,
    is_inside: bool,
}

pub(super) fn measure(
    tick: Duration,
    allowed: &CpuSet,
    calls: &Arc<Calls>,
    deadline: Instant,
) -> Result<Measured, String> {
    let hog = Hog::start(Arc::clone(calls), deadline + Duration::from_millis(500))?;
    let _precise = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let (there, away) = choose(&hog, tick, &cpus_of(allowed))?;
    let arrival = if away.is_some() { Arrival::FromAfar } else { Arrival::ByTimer };
    let mut peer = Peer { hog, tick, there, away, arrivals: 0 };
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
            Doing::Walk => (&mut measured.walk, calls.can_walk()),
            Doing::Poll => (&mut measured.poll, calls.can_poll()),
            Doing::User if arrival == Arrival::ByTimer => {
                (&mut measured.user, Err("there is one CPU, and the timer on it interrupts user mode".to_owned()))
            }
            Doing::User => (&mut measured.user, Ok(())),
            Doing::Faults | Doing::Nothing => (&mut measured.faults, Ok(())),
        };
        *slot = can.and_then(|()| peer.waits(doing, until));
    }
    Ok(measured)
}

fn set_of(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

/// The hog's CPU and the other one: of those that may be used the two on which an idle task gets most, best first.
fn choose(hog: &Hog, tick: Duration, cpus: &[usize]) -> Result<(CpuSet, Option<CpuSet>), String> {
    const MOST_TRIED: usize = 8;
    let tid = Pid::from_raw(hog.tid());
    let mut tried: Vec<(u64, usize)> = Vec::new();
    hog.order(Doing::User);
    for cpu in cpus.iter().copied().take(MOST_TRIED) {
        if sched_setaffinity(tid, &set_of(cpu)).is_err() {
            continue;
        }
        let before = hog.cpu_ns().ok_or("the CPU time of a thread cannot be read")?;
        std::thread::sleep(tick * 3);
        let after = hog.cpu_ns().ok_or("the CPU time of a thread cannot be read")?;
        tried.push((after.saturating_sub(before), cpu));
    }
    hog.order(Doing::Nothing);
    tried.sort_by_key(|(got, cpu)| (std::cmp::Reverse(*got), *cpu));
    let mut best = tried.iter().map(|(_, cpu)| set_of(*cpu));
    let there = best.next().ok_or("the affinity of a thread cannot be set on any allowed CPU")?;
    sched_setaffinity(tid, &there).map_err(|e| format!("the affinity of a thread: {e}"))?;
    Ok((there, best.next()))
}

impl Peer {
    /// Arrives until there are enough samples or the time is over.
    fn waits(&mut self, doing: Doing, until: Instant) -> Result<Waits, String> {
        let mut samples = Vec::with_capacity(MOST);
        let mut calls = Vec::with_capacity(MOST);
        if let Some(away) = &self.away {
            sched_setaffinity(None, away).map_err(|e| format!("the affinity of a thread: {e}"))?;
        }
        self.hog.order(doing);
        let has_calls = matches!(doing, Doing::Walk | Doing::Poll);
        let call_ns = if has_calls { self.calibrate(until).unwrap_or(0) } else { 0 };
        while samples.len() < MOST && Instant::now() < until {
            let sample = if self.away.is_some() {
                self.from_afar(has_calls.then_some(call_ns), until)?
            } else {
                self.by_timer(doing, call_ns)?
            };
            samples.extend(sample);
            if has_calls {
                calls.push(self.hog.phase().took_ns);
            }
        }
        self.hog.order(Doing::Nothing);
        if samples.is_empty() {
            return Err("the hog got no CPU time in which the peer could arrive".to_owned());
        }
        Ok(Waits {
            samples: samples.len(),
            inside: samples.iter().filter(|s| s.is_inside).count(),
            kept: Quantiles::of(samples.iter().map(|s| s.kept_ns).collect()),
            waited: Quantiles::of(samples.iter().map(|s| s.waited_ns).collect()),
            call_ns: Quantiles::of(calls).p50,
        })
    }

    /// How long a call takes that nothing disturbs: the median of three.
    fn calibrate(&self, until: Instant) -> Option<u64> {
        let mut took = Vec::new();
        let mut last = self.hog.phase().number;
        while took.len() < 4 && Instant::now() < until {
            std::thread::sleep(self.tick / 8);
            let phase = self.hog.phase();
            if phase.number >= last + 2 {
                last = phase.number;
                took.push(phase.took_ns);
            }
        }
        // The first one may have been another kind's, or one that began before the order.
        let took = took.split_off(took.len().min(1));
        (!took.is_empty()).then(|| Quantiles::of(took).p50)
    }

    /// A number from 0 to 1, spread evenly over the samples: multiples of the golden ratio.
    fn spread(&mut self) -> f64 {
        self.arrivals += 1;
        (f64::from(self.arrivals) * 0.618_033_988_749_895).fract()
    }

    fn hog_cpu(&self) -> Result<u64, String> {
        self.hog.cpu_ns().ok_or_else(|| "the CPU time of a thread cannot be read".to_owned())
    }

    /// Goes to the hog's CPU from the other one, and back. `None` when the time is over before the hog runs.
    fn from_afar(&mut self, call_ns: Option<u64>, until: Instant) -> Result<Option<Sample>, String> {
        let Some(away) = self.away.clone() else { return Ok(None) };
        let spread = self.spread();
        let is_met = match call_ns {
            Some(call_ns) => self.meet_call(call_ns, spread, until)?,
            None => {
                std::thread::sleep(self.tick.mul_f64(spread));
                self.meet_running(until)?
            }
        };
        let Some(met) = is_met else { return Ok(None) };
        let kept = self.hog_cpu()?;
        let begun = Instant::now();
        sched_setaffinity(None, &self.there).map_err(|e| format!("the affinity of a thread: {e}"))?;
        let waited_ns = nanoseconds(begun.elapsed());
        let kept_ns = self.hog_cpu()?.saturating_sub(kept);
        let is_inside = call_ns.is_some() && self.hog.phase().number == met;
        sched_setaffinity(None, &away).map_err(|e| format!("the affinity of a thread: {e}"))?;
        Ok(Some(Sample { kept_ns, waited_ns, is_inside }))
    }

    /// Waits until the hog is well on its CPU. Returns its phase.
    fn meet_running(&self, until: Instant) -> Result<Option<u64>, String> {
        loop {
            let (begun, before) = (Instant::now(), self.hog_cpu()?);
            while begun.elapsed() < Duration::from_micros(30) {
                std::hint::spin_loop();
            }
            let ran = self.hog_cpu()?.saturating_sub(before);
            if u128::from(ran) * 2 > begun.elapsed().as_nanos() {
                return Ok(Some(self.hog.phase().number));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::sleep(self.tick / 4);
        }
    }

    /// Waits until the hog is in a call that it began a little ago, and runs. Returns its phase.
    fn meet_call(&self, call_ns: u64, spread: f64, until: Instant) -> Result<Option<u64>, String> {
        let earliest = (call_ns as f64 * (0.05 + 0.2 * spread)) as u64;
        let latest = call_ns / 10 * 4;
        let mut before = self.hog_cpu()?;
        while Instant::now() < until {
            let phase = self.hog.phase();
            let now = self.hog_cpu()?;
            let own = now.saturating_sub(phase.begun_ns);
            let is_running = now > before;
            before = now;
            if phase.number % 2 == 1 && is_running && (earliest..latest).contains(&own) {
                return Ok(Some(phase.number));
            }
            std::hint::spin_loop();
        }
        Ok(None)
    }

    /// Sleeps on the hog's CPU until a timer ends within what the hog does.
    fn by_timer(&mut self, doing: Doing, call_ns: u64) -> Result<Option<Sample>, String> {
        let has_calls = call_ns > 0;
        // A call that the last arrival interrupted comes to its end first.
        self.hog.order(Doing::Nothing);
        let begun = Instant::now();
        while self.hog.phase().number % 2 == 1 && begun.elapsed() < self.tick * 8 * WALK_TICKS {
            std::thread::sleep(self.tick / 8);
        }
        std::thread::sleep(Duration::from_micros(300));
        let before = self.hog.phase().number;
        let lead = if has_calls { call_ns as f64 * 1e-9 } else { self.tick.as_secs_f64() };
        // The hog sleeps for 100 us at a time while it has nothing to do.
        let ends = Instant::now() + Duration::from_micros(200) + Duration::from_secs_f64(lead * (0.05 + 0.2 * self.spread()));
        self.hog.order(doing);
        std::thread::sleep(ends.saturating_duration_since(Instant::now()));
        let waited_ns = nanoseconds(ends.elapsed());
        let phase = self.hog.phase();
        let was_in_call = phase.number > before && phase.number <= before + 2 && phase.begun_at < ends;
        if has_calls && !was_in_call {
            return Ok(None);
        }
        Ok(Some(Sample { kept_ns: waited_ns, waited_ns, is_inside: has_calls && phase.number == before + 1 }))
    }
}
