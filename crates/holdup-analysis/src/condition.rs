//! What must hold for a case to apply, and what several conditions amount to.

use crate::words::number;
use holdup_model::PreemptModel;
use holdup_model::survey::{Exposure, Reading, Server, Survey};

/// One thing that must hold for a case to apply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// True if it holds; `None` when that is not known.
    pub(crate) holds: Option<bool>,
    /// What was found, or why it is not known: a sentence.
    pub(crate) found: String,
    /// What would change it, or make it known.
    pub(crate) change: String,
}

impl Condition {
    pub(crate) fn new(holds: Option<bool>, found: impl Into<String>, change: impl Into<String>) -> Self {
        Condition { holds, found: found.into(), change: change.into() }
    }

    /// One that is not known: says what, why and what would make it known.
    pub(crate) fn unknown<T>(what: &str, known: &Reading<T>) -> Self {
        let why = known.why_unknown.as_deref().unwrap_or("no source names it");
        let found = format!("{what} is not known: {}: {why}.", known.source);
        Condition::new(None, found, known.remedy.clone().unwrap_or_default())
    }
}

/// The exposure that the conditions amount to, the reasons, and what would change it; what decides comes first.
pub(crate) fn weigh(conditions: &[Condition]) -> (Exposure, Vec<String>, Vec<String>) {
    let exposure = if conditions.iter().any(|c| c.holds == Some(false)) {
        Exposure::NotExposed
    } else if conditions.iter().any(|c| c.holds.is_none()) {
        Exposure::Undecided
    } else {
        Exposure::Exposed
    };
    let deciding = match exposure {
        Exposure::NotExposed => Some(false),
        Exposure::Undecided => None,
        Exposure::Exposed => Some(true),
    };
    let (first, rest): (Vec<&Condition>, Vec<&Condition>) = conditions.iter().partition(|c| c.holds == deciding);
    let reasons = first.iter().chain(&rest).map(|c| c.found.clone()).collect();
    let would_change = first.iter().map(|c| c.change.clone()).filter(|c| !c.is_empty()).collect();
    (exposure, reasons, would_change)
}

/// The model in words with its source, or the condition that it is not known.
///
/// # Errors
/// When no source names one, and the probe leaves several.
pub(crate) fn model(survey: &Survey) -> Result<(PreemptModel, String), Condition> {
    let known = &survey.preempt.model;
    let probed = survey.probe.as_ref().and_then(|p| p.models.get());
    if let Some(model) = known.get() {
        return match probed.filter(|measured| !measured.contains(model)) {
            None => Ok((*model, format!("{} ({})", model.word(), known.source))),
            Some(measured) => {
                let words: Vec<&str> = measured.iter().map(|m| m.word()).collect();
                let (says, fits) = (model.word(), words.join(" or "));
                let found = format!(
                    "The preemption model is not certain: {} says {says}, but what was measured fits \
                                     {fits}.",
                    known.source
                );
                Err(Condition::new(None, found, "probe again on a quieter host"))
            }
        };
    }
    match probed.map(Vec::as_slice) {
        // The two differ in what the kernel itself does under its locks, and not in any case here.
        Some([PreemptModel::Full, PreemptModel::Rt]) => Ok((PreemptModel::Full, "full or rt (measured)".to_owned())),
        Some([model]) => Ok((*model, format!("{} (measured)", model.word()))),
        Some(several) if !several.is_empty() && several.iter().all(|m| !m.preempts_kernel_code()) => {
            Ok((several[0], "none or voluntary (measured)".to_owned()))
        }
        _ => Err(Condition {
            change: known.remedy.clone().unwrap_or_default(),
            ..Condition::new(None, "The preemption model is not known; no source names it.", "")
        }),
    }
}

/// How this kernel is switched to a model that it offers: lockdown closes debugfs and leaves the boot option.
pub(crate) fn how_to_switch(survey: &Survey, word: &str) -> String {
    match survey.kernel.lockdown.get().map(String::as_str) {
        None | Some("none") => {
            format!("`echo {word} > /sys/kernel/debug/sched/preempt` as root, or boot with preempt={word}")
        }
        Some(_) => format!("boot with preempt={word}"),
    }
}

/// Whether `clients` are more than the CPUs that the server may use: those online, or fewer by the limit of its
/// group. `who` begins the sentence (`It has 12 clients`); the two changes are those of more and of no more.
pub(crate) fn more_than_cpus(
    survey: &Survey,
    server: &Server,
    clients: u32,
    who: &str,
    changes: (&str, &str),
) -> Condition {
    let online = &survey.machine.cpus_online;
    let limit = &server.cpu_limit_cpus;
    let known = [online.get().map(|cpus| f64::from(*cpus)), limit.get().copied().flatten()];
    let Some(least) = known.into_iter().flatten().reduce(f64::min) else {
        return Condition::unknown("The number of CPUs", online);
    };
    if f64::from(clients) > least {
        // The smaller of the two counts, so one of them is enough.
        let found = format!("{who}, more than the {} CPUs that it may use.", number(least));
        return Condition::new(Some(true), found, changes.0);
    }
    let open = match (online.get(), limit.get()) {
        (None, _) => Condition::unknown("how many CPUs are online", online),
        (_, None) => Condition::unknown("whether a limit leaves it fewer", limit),
        _ => {
            let found = format!("{who}, no more than the {} CPUs that it may use.", number(least));
            return Condition::new(Some(false), found, changes.1);
        }
    };
    Condition::new(None, format!("{who}, no more than {} CPUs; {}", number(least), open.found), open.change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_does_not_hold_clears_and_one_unknown_leaves_it_open() {
        let check = |holds: &[Option<bool>], expect: Exposure, first: &str| {
            let conditions: Vec<Condition> =
                holds.iter().map(|h| Condition::new(*h, format!("{h:?}"), format!("change {h:?}"))).collect();
            let (exposure, reasons, would) = weigh(&conditions);
            assert_eq!((exposure, reasons[0].as_str()), (expect, first), "{holds:?}");
            assert!(would.iter().all(|w| *w == format!("change {first}")), "{would:?}");
        };
        check(&[Some(true), Some(true)], Exposure::Exposed, "Some(true)");
        check(&[Some(true), None], Exposure::Undecided, "None");
        check(&[Some(true), None, Some(false)], Exposure::NotExposed, "Some(false)");
    }
}
