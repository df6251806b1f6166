//! From conditions to a verdict.

use crate::cases::{self, Case};
use holdup_model::survey::{Advice, CaseFinding, Exposure, Known, Model, Survey};

/// One thing that must hold for a case to hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Whether it holds; `None` when that is not known.
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
    pub(crate) fn unknown<T>(what: &str, known: &Known<T>) -> Self {
        let why = known.why_unknown.as_deref().unwrap_or("nothing tells");
        let found = format!("{what} is not known: {}: {why}.", known.source);
        Condition::new(None, found, known.remedy.clone().unwrap_or_default())
    }
}

/// What the conditions come to, with the reasons in the order of their weight.
fn weigh(conditions: &[Condition]) -> (Exposure, Vec<String>, Vec<String>) {
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

/// Every case on this host: those that hit first, then those that are open.
pub fn check(survey: &Survey) -> Vec<CaseFinding> {
    let servers = survey.servers.get().map_or(0, Vec::len);
    let mut findings: Vec<CaseFinding> = Vec::new();
    for case in cases::ALL {
        if case.is_per_server() && servers > 0 {
            findings.extend((0..servers).map(|server| judge(*case, survey, server)));
        } else {
            findings.push(judge(*case, survey, 0));
        }
    }
    findings.sort_by_key(|f| (rank(f.exposure), !f.harms));
    findings
}

fn rank(exposure: Exposure) -> u8 {
    match exposure {
        Exposure::Exposed => 0,
        Exposure::Undecided => 1,
        Exposure::NotExposed => 2,
    }
}

fn judge(case: &dyn Case, survey: &Survey, server: usize) -> CaseFinding {
    let conditions = match (case.is_per_server(), survey.servers.get()) {
        (true, Some(servers)) if servers.is_empty() => vec![Condition::new(
            Some(false),
            "No PostgreSQL server was found on this host.",
            "a server that runs here; `--pg` names one that was not found",
        )],
        (true, None) => vec![Condition::unknown("Whether a PostgreSQL server runs here", &survey.servers)],
        _ => case.conditions(survey, server),
    };
    let (exposure, reasons, would_change) = weigh(&conditions);
    let advice: Vec<Advice> = if exposure == Exposure::Exposed { case.advice(survey, server) } else { Vec::new() };
    let named = survey.servers.get().and_then(|all| all.get(server)).filter(|_| case.is_per_server());
    CaseFinding {
        case: case.meta().id.to_owned(),
        summary: case.meta().summary.to_owned(),
        exposure,
        harms: case.harms(),
        server: named.map(|s| s.name.clone()),
        reasons,
        would_change,
        advice,
    }
}

/// What all findings that harm come to.
pub fn overall(findings: &[CaseFinding]) -> Exposure {
    let has = |exposure: Exposure| findings.iter().any(|f| f.harms && f.exposure == exposure);
    if has(Exposure::Exposed) {
        Exposure::Exposed
    } else if has(Exposure::Undecided) {
        Exposure::Undecided
    } else {
        Exposure::NotExposed
    }
}

/// The model in words with its source, or the condition that it is not known.
///
/// # Errors
/// When no source names one; what the probe leaves over is told.
pub(crate) fn model(survey: &Survey) -> Result<(Model, String), Condition> {
    let known = &survey.preempt.model;
    if let Some(model) = known.get() {
        return Ok((*model, format!("{} ({})", model.word(), known.source)));
    }
    let probed = survey.probe.as_ref().and_then(|p| p.models.get());
    match probed.map(Vec::as_slice) {
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

/// CPUs that the server may use: those online, or fewer by the limit of its group.
pub(crate) fn cpus(survey: &Survey, limit: &Known<Option<f64>>) -> Option<f64> {
    let online = f64::from(*survey.machine.cpus_online.get()?);
    Some(limit.get().copied().flatten().map_or(online, |limit| limit.min(online)))
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
