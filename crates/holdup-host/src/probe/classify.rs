//! What a measurement tells about the model; pure, over numbers.
//!
//! | hog is in | none, voluntary | lazy | full |
//! |---|---|---|---|
//! | a call of many ticks | leaves at its end | leaves at the next tick | leaves at once |
//! | a shorter call | leaves at its end | leaves at its end or the tick | leaves at once |
//! | user mode | leaves at once | leaves at the next interrupt | leaves at once |
//! | page faults | leaves at once | leaves at once | leaves at once |
//!
//! All times are judged against the tick and against the faults, which are the same in every model and so
//! show what an arrival costs on this host at this time.

use super::{Measured, Waits};

/// A preemption model, as far as waits tell one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// None or voluntary: these differ only where the kernel has `might_resched()`.
    NoneOrVoluntary,
    /// Lazy.
    Lazy,
    /// Full. A PREEMPT_RT kernel whose model is full looks the same.
    Full,
    /// The measurement does not tell.
    Unknown,
}

/// What the measurement tells, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The model.
    pub model: Model,
    /// The reason in words, with the numbers.
    pub why: String,
}

/// When the hog left its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    AtOnce,
    AtTick,
    AtEnd,
    Unclear,
}

impl Leaves {
    fn words(self) -> &'static str {
        match self {
            Leaves::AtOnce => "at once",
            Leaves::AtTick => "at the next tick",
            Leaves::AtEnd => "at its end",
            Leaves::Unclear => "at no clear time",
        }
    }
}

/// Fewer arrivals than this tell nothing about a quarter of them.
const FEWEST: usize = 12;

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
    let unknown = |why: String| Verdict { model: Model::Unknown, why };
    let faults = match enough(&measured.faults, "page faults") {
        Ok(faults) => faults,
        Err(why) => return unknown(why),
    };
    let arrival = faults.kept.p50 as f64;
    if arrival > tick / 4.0 {
        return unknown(format!(
            "an arrival over page faults took {:.2} ticks, which no model explains: the host or its hypervisor is busy, \
             or wake-up preemption is off",
            arrival / tick
        ));
    }
    let walk = enough(&measured.walk, "long calls").map(|walk| long_call(&walk, tick, arrival));
    let poll = enough(&measured.poll, "shorter calls").map_or(Leaves::Unclear, |poll| short_call(&poll, arrival));
    let user = enough(&measured.user, "user mode").map_or(Leaves::Unclear, |user| over_user(&user, tick, arrival));
    together(walk, poll, user)
}

/// One kind alone may be wrong: where two contradict each other there is no verdict.
fn together(walk: Result<Leaves, String>, poll: Leaves, user: Leaves) -> Verdict {
    let model = match (&walk, poll, user) {
        (Ok(Leaves::AtEnd), Leaves::AtEnd | Leaves::Unclear, Leaves::AtOnce | Leaves::Unclear) => {
            Model::NoneOrVoluntary
        }
        // An interrupt on its CPU (high-resolution preemption sends one) makes also a lazy hog leave user mode at once.
        (Ok(Leaves::AtTick), Leaves::AtEnd | Leaves::Unclear, _) => Model::Lazy,
        (Ok(Leaves::AtOnce), Leaves::AtOnce | Leaves::Unclear, Leaves::AtOnce | Leaves::Unclear) => Model::Full,
        (Err(_), Leaves::AtOnce, Leaves::AtOnce) => Model::Full,
        (Err(_), Leaves::AtEnd, Leaves::AtTick) => Model::Lazy,
        _ => Model::Unknown,
    };
    let walk = match walk {
        Ok(leaves) => format!("a task in a long call left {}", leaves.words()),
        Err(why) => why,
    };
    let why = format!("{walk}, in a shorter call {}, in user mode {}", poll.words(), user.words());
    Verdict { model, why }
}

/// When the hog left a call of several ticks.
///
/// Disturbances make waits longer, hardly ever shorter. So the short ones of the waits decide.
fn long_call(walk: &Waits, tick: f64, arrival: f64) -> Leaves {
    let call = walk.call_ns as f64;
    let [p10, p25, p50, p90] = [walk.kept.p10, walk.kept.p25, walk.kept.p50, walk.kept.p90].map(|ns| ns as f64);
    // The peer sets out before two fifths of the call are over.
    if p10 >= call * 0.45 && p10 >= tick * 1.4 {
        return Leaves::AtEnd;
    }
    // Evenly between 0 and 1 tick, plus the arrival itself.
    if p50 <= arrival * 1.5 + tick * 0.1 {
        return Leaves::AtOnce;
    }
    let is_spread = p25 >= tick * 0.12 && p50 >= tick * 0.3 && p50 >= arrival * 2.0;
    if call >= tick * 2.5 && is_spread && p50 <= tick + arrival && p90 <= tick * 1.4 + arrival {
        return Leaves::AtTick;
    }
    Leaves::Unclear
}

/// When the hog left a call of less than a tick, where it is long enough to be told from an arrival.
fn short_call(poll: &Waits, arrival: f64) -> Leaves {
    let call = poll.call_ns as f64;
    if call < arrival * 5.0 {
        return Leaves::Unclear;
    }
    match poll.kept.p50 as f64 / call {
        share if share >= 0.5 => Leaves::AtEnd,
        share if share <= 0.3 => Leaves::AtOnce,
        _ => Leaves::Unclear,
    }
}

/// When the hog left user mode.
fn over_user(user: &Waits, tick: f64, arrival: f64) -> Leaves {
    let [p25, p50] = [user.kept.p25, user.kept.p50].map(|ns| ns as f64);
    if p50 <= arrival * 1.5 + tick * 0.1 {
        return Leaves::AtOnce;
    }
    if p25 >= tick * 0.12 && p50 >= tick * 0.3 && p50 >= arrival * 2.0 {
        return Leaves::AtTick;
    }
    Leaves::Unclear
}
