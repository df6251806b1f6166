//! Every case on one host.

use crate::cases::{self, About, Case};
use crate::condition::{Condition, weigh};
use holdup_model::survey::{Advice, CaseFinding, Exposure, Server, Survey, Weight};

/// Every case on this host: those that apply first, then those that are undecided.
pub fn check(survey: &Survey) -> Vec<CaseFinding> {
    let mut findings: Vec<CaseFinding> = cases::ALL.iter().flat_map(|case| judge(case, survey)).collect();
    findings.sort_by_key(|f| (rank(f.exposure), f.weight as u8));
    findings
}

fn rank(exposure: Exposure) -> u8 {
    match exposure {
        Exposure::Exposed => 0,
        Exposure::Undecided => 1,
        Exposure::NotExposed => 2,
    }
}

/// The findings of a case: one finding for the host, or one for each server.
fn judge(case: &Case, survey: &Survey) -> Vec<CaseFinding> {
    let (conditions, advice) = match &case.about {
        About::Host { conditions, advice } => {
            return vec![finding(case, None, &conditions(survey), || advice(survey))];
        }
        About::Server { conditions, advice } => (conditions, advice),
    };
    let without = |condition: Condition| vec![finding(case, None, &[condition], Vec::new)];
    match survey.servers.get().map(Vec::as_slice) {
        None => without(Condition::unknown("Whether a PostgreSQL server runs here", &survey.servers)),
        Some([]) => without(Condition::new(
            Some(false),
            "No PostgreSQL server was found on this host.",
            "a server that runs here; `--pg` names one that was not found",
        )),
        Some(servers) => servers
            .iter()
            .map(|server| finding(case, Some(server), &conditions(survey, server), || advice(survey, server)))
            .collect(),
    }
}

fn finding(
    case: &Case,
    server: Option<&Server>,
    conditions: &[Condition],
    advice: impl FnOnce() -> Vec<Advice>,
) -> CaseFinding {
    let (exposure, reasons, would_change) = weigh(conditions);
    CaseFinding {
        case: case.meta.id.to_owned(),
        summary: case.meta.summary.to_owned(),
        exposure,
        weight: case.weight,
        server: server.map(|s| s.name.clone()),
        reasons,
        would_change,
        advice: if exposure == Exposure::Exposed { advice() } else { Vec::new() },
    }
}

/// The verdict of all findings, by their weights.
pub fn overall(findings: &[CaseFinding]) -> Exposure {
    let any = |exposure: Exposure, weights: &[Weight]| {
        findings.iter().any(|f| f.exposure == exposure && weights.contains(&f.weight))
    };
    if any(Exposure::Exposed, &[Weight::High, Weight::Low]) {
        Exposure::Exposed
    } else if any(Exposure::Undecided, &[Weight::High]) {
        Exposure::Undecided
    } else {
        Exposure::NotExposed
    }
}
