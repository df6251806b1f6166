//! The model that fits a measurement; pure, over numbers.
//!
//! | hog is in | none, voluntary | lazy | full |
//! |---|---|---|---|
//! | a call of many ticks | leaves at its end | leaves at the next tick | leaves immediately |
//! | a shorter call | leaves at its end | leaves at its end or the tick | leaves immediately |
//! | user mode | leaves immediately | leaves at the next interrupt | leaves immediately |
//! | page faults | leaves immediately | leaves immediately | leaves immediately |
//!
//! All times are judged against the tick and against the faults, which are the same in every model and so
//! show what an arrival costs on this host at this time.

use super::{Measured, Waits};
use holdup_model::PreemptModel;

/// These differ only where the kernel has `might_resched()`.
const NONE_OR_VOLUNTARY: &[PreemptModel] = &[PreemptModel::None, PreemptModel::Voluntary];
const LAZY: &[PreemptModel] = &[PreemptModel::Lazy];
/// A PREEMPT_RT kernel whose model is full looks the same.
const FULL: &[PreemptModel] = &[PreemptModel::Full, PreemptModel::Rt];
const UNKNOWN: &[PreemptModel] = &[];

/// The models that fit a measurement, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The models; none where the measurement is undecided.
    pub models: &'static [PreemptModel],
    /// The reason in words, with the numbers.
    pub why: String,
}

/// When the hog left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Immediately,
    AtTick,
    AtEnd,
    Unclear,
}

impl Leaves {
    fn words(self) -> &'static str {
        match self {
            Leaves::Immediately => "immediately",
            Leaves::AtTick => "at the next tick",
            Leaves::AtEnd => "at its end",
            Leaves::Unclear => "at no clear time",
        }
    }
}

/// Fewer arrivals than this are no measurement.
const FEWEST: usize = 5;

/// Fewer than this have no quartiles.
const FEWEST_FOR_QUARTERS: usize = 12;

/// The model that fits the measurement.
pub fn classify(measured: &Measured) -> Verdict {
    let tick = measured.tick_ns as f64;
    let enough = |waits: &Result<Waits, String>, of: &str| match waits {
        Err(why) => Err(format!("no waits behind {of}: {why}")),
        Ok(waits) if waits.samples < FEWEST => {
            Err(format!("only {} waits behind {of}: the CPUs are busy with other tasks", waits.samples))
        }
        Ok(waits) => Ok(*waits),
    };
    let unknown = |why: String| Verdict { models: UNKNOWN, why };
    let faults = match enough(&measured.faults, "page faults") {
        Ok(faults) => faults,
        Err(why) => return unknown(why),
    };
    // Disturbances make an arrival longer, never shorter: the short ones show what it costs by itself.
    let arrival = faults.kept.p25 as f64;
    let [p50, p75] = [faults.kept.p50, faults.kept.p75].map(|ns| ns as f64 / tick);
    let busy = format!(
        "an arrival over page faults took {p50:.2} ticks, in a quarter of the cases at least {p75:.2}, which no model \
         explains: the host or its hypervisor is busy, or wake-up preemption is off"
    );
    // A lazy wait is half a tick on average: with an arrival that costs a good part of that, lazy and full look alike.
    if arrival > tick * 0.1 {
        return unknown(busy);
    }
    let is_disturbed = p50 > 0.1 || p75 > 0.25;
    let walk = enough(&measured.walk, "long calls").map(|walk| long_call(&walk, tick, arrival));
    let poll = enough(&measured.poll, "shorter calls").map_or(Leaves::Unclear, |poll| short_call(&poll, arrival));
    let user = enough(&measured.user, "user mode").map_or(Leaves::Unclear, |user| over_user(&user, tick, arrival));
    let verdict = together(&walk, poll, user);
    if is_disturbed && !is_unanimous(&walk, poll, user) {
        return unknown(format!("{busy}; {}", verdict.why));
    }
    verdict
}

/// True if all kinds fit one model, which is required where the host is disturbed.
fn is_unanimous(walk: &Result<Leaves, String>, poll: Leaves, user: Leaves) -> bool {
    matches!(
        (walk, poll, user),
        (Ok(Leaves::AtEnd), _, Leaves::Immediately)
            | (Ok(Leaves::AtTick), Leaves::AtEnd, Leaves::AtTick)
            | (Ok(Leaves::Immediately), Leaves::Immediately, Leaves::Immediately)
    )
}

/// One kind alone may be wrong: where two contradict each other there is no verdict.
fn together(walk: &Result<Leaves, String>, poll: Leaves, user: Leaves) -> Verdict {
    let models = match (walk, poll, user) {
        // No model that preempts kernel code lets a call of many ticks come to its end. The shorter call gives way by
        // itself under voluntary (seen on 6.12 and 6.18), so it has no say.
        (Ok(Leaves::AtEnd), _, Leaves::Immediately | Leaves::Unclear) => NONE_OR_VOLUNTARY,
        // An interrupt on its CPU (high-resolution preemption sends one) makes also a lazy hog leave user mode immediately.
        (Ok(Leaves::AtTick), Leaves::AtEnd | Leaves::Unclear, _) => LAZY,
        // Full is what a call that gives way by itself would feign, so both calls have to say it.
        (Ok(Leaves::Immediately), Leaves::Immediately, Leaves::Immediately | Leaves::Unclear) => FULL,
        (Err(_), Leaves::Immediately, Leaves::Immediately) => FULL,
        (Err(_), Leaves::AtEnd, Leaves::AtTick) => LAZY,
        _ => UNKNOWN,
    };
    let walk = match walk {
        Ok(leaves) => format!("a task in a long call left {}", leaves.words()),
        Err(why) => why.clone(),
    };
    let why = format!("{walk}, in a shorter call {}, in user mode {}", poll.words(), user.words());
    Verdict { models, why }
}

/// When the hog left a call of several ticks.
///
/// Disturbances make waits longer, hardly ever shorter. So the short ones of the waits decide.
fn long_call(walk: &Waits, tick: f64, arrival: f64) -> Leaves {
    let call = walk.call_ns as f64;
    let [p10, p25, p50, p75] = [walk.kept.p10, walk.kept.p25, walk.kept.p50, walk.kept.p75].map(|ns| ns as f64);
    // The peer sets out before two fifths of the call are over.
    if p10 >= call * 0.45 && p10 >= tick * 1.4 {
        return Leaves::AtEnd;
    }
    if walk.samples < FEWEST_FOR_QUARTERS {
        return Leaves::Unclear;
    }
    // Evenly between 0 and 1 tick, plus the arrival itself.
    if p50 <= arrival * 1.5 + tick * 0.05 {
        return Leaves::Immediately;
    }
    // With high-resolution preemption (HRTICK, on from 7.1 on x86) a slice ends before the tick, so the waits are shorter.
    let is_spread = p25 >= arrival * 2.0 && p50 >= arrival * 3.0 && p50 >= tick * 0.15;
    if call >= tick * 2.5 && is_spread && p50 <= tick + arrival && p75 <= tick * 1.15 + arrival {
        return Leaves::AtTick;
    }
    Leaves::Unclear
}

/// When the hog left a call of less than a tick, where it is long enough to be distinguished from an arrival.
fn short_call(poll: &Waits, arrival: f64) -> Leaves {
    let call = poll.call_ns as f64;
    if call < arrival * 5.0 {
        return Leaves::Unclear;
    }
    match poll.kept.p50 as f64 / call {
        // What is left of a call when the peer sets out; its length was measured at another time.
        share if share >= 0.4 => Leaves::AtEnd,
        share if share <= 0.25 => Leaves::Immediately,
        _ => Leaves::Unclear,
    }
}

/// When the hog left user mode.
fn over_user(user: &Waits, tick: f64, arrival: f64) -> Leaves {
    if user.samples < FEWEST_FOR_QUARTERS {
        return Leaves::Unclear;
    }
    let [p25, p50] = [user.kept.p25, user.kept.p50].map(|ns| ns as f64);
    if p50 <= arrival * 1.5 + tick * 0.05 {
        return Leaves::Immediately;
    }
    if p25 >= tick * 0.12 && p50 >= tick * 0.3 && p50 >= arrival * 2.0 {
        return Leaves::AtTick;
    }
    Leaves::Unclear
}

#[cfg(test)]
mod tests {
    use super::super::{Arrival, Quantiles};
    use super::*;
    use std::collections::BTreeSet;

    /// Measurements on real kernels. A row: the model that the kernel had (by its debugfs or log), the verdict, the
    /// kernel, the tick, the arrival, then behind faults, walk, poll and user mode each `samples,call,p10,p25,p50,p75,p90`
    /// in nanoseconds, or `-`.
    const RECORDED: &str = include_str!("recorded.txt");

    fn waits(text: &str) -> Result<Waits, String> {
        if text == "-" {
            return Err("not recorded".to_owned());
        }
        let n: Vec<u64> = text.split(',').map(|n| n.parse().expect("a number")).collect();
        let kept = Quantiles { p10: n[2], p25: n[3], p50: n[4], p75: n[5], p90: n[6] };
        Ok(Waits { samples: usize::try_from(n[0]).expect("it is small"), kept, waited: kept, call_ns: n[1] })
    }

    fn measured(row: &[&str]) -> Measured {
        let arrival = if row[4] == "ByTimer" { Arrival::ByTimer } else { Arrival::FromAfar };
        let tick_ns = row[3].parse().expect("a number");
        let [faults, walk, poll, user] = [5, 6, 7, 8].map(|column| waits(row[column]));
        Measured { tick_ns, arrival, user, faults, walk, poll }
    }

    fn rows() -> Vec<Vec<&'static str>> {
        let rows = RECORDED.lines().filter(|line| !line.starts_with('#'));
        rows.map(|line| line.split_ascii_whitespace().collect()).collect()
    }

    #[test]
    fn recorded_measurements_fit_their_model_or_are_undecided() {
        for row in rows() {
            let verdict = classify(&measured(&row));
            let name = match verdict.models {
                NONE_OR_VOLUNTARY => "NoneOrVoluntary",
                LAZY => "Lazy",
                FULL => "Full",
                _ => "Unknown",
            };
            assert_eq!(name, row[1], "{row:?}: {}", verdict.why);
            let truth = if matches!(row[0], "none" | "voluntary") { "NoneOrVoluntary" } else { row[0] };
            assert!(name == "Unknown" || name.eq_ignore_ascii_case(truth), "{row:?}: {}", verdict.why);
        }
    }

    #[test]
    fn the_records_have_verdicts_and_refusals() {
        for model in ["NoneOrVoluntary", "Lazy", "Full", "Unknown"] {
            let kernels: BTreeSet<&str> = rows().iter().filter(|row| row[1] == model).map(|row| row[2]).collect();
            assert!(kernels.len() >= 3, "{model} on {kernels:?}");
        }
    }

    /// A quiet host with a tick of 4 ms; times in microseconds.
    fn quiet(walk: [u64; 5], poll: u64, user: [u64; 5]) -> Measured {
        let waits = |call_us: u64, us: [u64; 5]| {
            let [p10, p25, p50, p75, p90] = us.map(|us| us * 1000);
            let kept = Quantiles { p10, p25, p50, p75, p90 };
            Ok(Waits { samples: 100, kept, waited: kept, call_ns: call_us * 1000 })
        };
        Measured {
            tick_ns: 4_000_000,
            arrival: Arrival::FromAfar,
            user: waits(0, user),
            faults: waits(0, [10, 11, 12, 14, 20]),
            walk: waits(20_000, walk),
            poll: waits(800, [poll; 5]),
        }
    }

    const END: [u64; 5] = [15_000, 16_000, 17_000, 18_000, 19_000];
    const TICK: [u64; 5] = [400, 1000, 2000, 3000, 3600];
    const ONCE: [u64; 5] = [10, 11, 12, 15, 20];

    #[test]
    fn the_models_have_their_patterns() {
        let check = |measured: Measured, expect: &[PreemptModel]| {
            let verdict = classify(&measured);
            assert_eq!(verdict.models, expect, "{measured:?}: {}", verdict.why);
        };
        check(quiet(END, 600, ONCE), NONE_OR_VOLUNTARY);
        check(quiet(END, 12, ONCE), NONE_OR_VOLUNTARY);
        check(quiet(TICK, 600, TICK), LAZY);
        check(quiet(TICK, 600, ONCE), LAZY);
        check(quiet(ONCE, 12, ONCE), FULL);
        // Each contradiction takes the verdict away.
        check(quiet(END, 600, TICK), UNKNOWN);
        check(quiet(TICK, 12, TICK), UNKNOWN);
        check(quiet(ONCE, 600, ONCE), UNKNOWN);
        check(quiet(ONCE, 12, TICK), UNKNOWN);
    }

    #[test]
    fn without_the_long_call_user_mode_decides_where_it_can() {
        let without = |poll, user| {
            let refused = Err("/proc/kallsyms: Permission denied".to_owned());
            classify(&Measured { walk: refused, ..quiet(END, poll, user) })
        };
        assert_eq!(without(600, TICK).models, LAZY);
        assert_eq!(without(12, ONCE).models, FULL);
        let either = without(600, ONCE);
        assert_eq!(either.models, UNKNOWN);
        assert!(either.why.contains("Permission denied"), "{}", either.why);
    }

    #[test]
    fn a_busy_host_is_named() {
        let slow = |faults_us: u64| {
            let mut measured = quiet(TICK, 600, TICK);
            if let Ok(faults) = &mut measured.faults {
                faults.kept.p25 = faults_us * 1000;
                faults.kept.p50 = faults_us * 1000;
            }
            classify(&measured)
        };
        assert_eq!(slow(12).models, LAZY);
        assert!(slow(2000).why.contains("busy"));
        // Where only some arrivals are disturbed, all kinds have to agree.
        let disturbed = |user: [u64; 5]| {
            let mut measured = quiet(TICK, 600, user);
            if let Ok(faults) = &mut measured.faults {
                faults.kept.p75 = 3_000_000;
            }
            classify(&measured)
        };
        assert_eq!(disturbed(TICK).models, LAZY);
        assert!(disturbed(ONCE).why.contains("busy"));
        let mut few = quiet(END, 600, ONCE);
        if let Ok(walk) = &mut few.walk {
            walk.samples = 4;
        }
        assert_eq!(classify(&few).models, UNKNOWN);
    }
}
