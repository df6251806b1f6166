//! Rules for what a record may say of a claim.

use holdup_analysis::cases;
use holdup_catalogue::reports;
use holdup_model::published::{
    ClaimBearing, ClaimEvidence, ClaimVerdict, EvidenceKind, EvidenceQuantity, PublishedReport, ReportClaim,
};
use holdup_sim::factors::MECHANISMS;
use holdup_sim::machine::{OMISSIONS, catalogue};

/// The fewest blocks or sessions of a verdict.
const FEWEST: u32 = 4;
/// The most sentences of a cause.
const MOST_SENTENCES: usize = 5;

/// Lines for each rule that a record breaks.
pub(super) fn check(report: &PublishedReport) -> Vec<String> {
    let place = format!("reports/{}.toml", report.name);
    let mut wrong: Vec<String> = report.claims.iter().flat_map(|claim| check_claim(report, claim)).collect();
    if report.cause.trim().split(". ").count() > MOST_SENTENCES {
        wrong.push(format!("the cause has more than {MOST_SENTENCES} sentences"));
    }
    let mut ids: Vec<&str> = report.claims.iter().map(|claim| claim.id.as_str()).collect();
    ids.sort_unstable();
    wrong.extend(
        ids.windows(2).filter(|two| two[0] == two[1]).map(|two| format!("claim {}: it is there twice", two[0])),
    );
    wrong.into_iter().map(|what| format!("{place}: {what}")).collect()
}

/// Cases of `holdup check` that name a report without a record.
pub(super) fn check_cases() -> Vec<String> {
    let unknown = |case: &&&cases::Case| case.report.is_some_and(|name| reports::find(name).is_none());
    let named = cases::ALL.iter().filter(unknown);
    named.map(|case| format!("case {}: its report has no record", case.meta.id)).collect()
}

fn check_claim(report: &PublishedReport, claim: &ReportClaim) -> Vec<String> {
    let mut wrong: Vec<String> = claim.evidence.iter().flat_map(|evidence| check_evidence(report, evidence)).collect();
    let known = |id: &&String| MECHANISMS.iter().any(|m| m.id == **id) || OMISSIONS.iter().any(|o| o.id == **id);
    wrong.extend(claim.mechanisms.iter().filter(|id| !known(id)).map(|id| format!("there is no mechanism {id}")));
    let may_decide = |bearing| claim.evidence.iter().any(|e| e.bearing == bearing && decides(claim, e));
    let (is_for, is_against) = (may_decide(ClaimBearing::For), may_decide(ClaimBearing::Against));
    let is_carried = match claim.verdict {
        ClaimVerdict::Reproduced => is_for && !is_against,
        ClaimVerdict::Refuted => is_against && !is_for,
        ClaimVerdict::NotDecidable => true,
    };
    if !is_carried {
        wrong.push(format!("{} is not carried by its evidence", claim.verdict.words()));
    }
    wrong.into_iter().map(|what| format!("claim {}: {what}", claim.id)).collect()
}

/// True if evidence can carry a verdict.
fn decides(claim: &ReportClaim, evidence: &ClaimEvidence) -> bool {
    let is_enough = evidence.blocks.max(evidence.sessions) >= FEWEST;
    // An effect that is left out could be what the claim rests on, and so could a mechanism that is not known.
    let is_modelled = !claim.mechanisms.is_empty()
        && claim.mechanisms.iter().all(|id| OMISSIONS.iter().all(|omission| omission.id != id));
    let is_of_kind = match evidence.kind {
        EvidenceKind::Hardware | EvidenceKind::VirtualMachine | EvidenceKind::Emulated => true,
        EvidenceKind::Simulated => evidence.bearing != ClaimBearing::Against || is_modelled,
        EvidenceKind::SimulatedChosen => false,
    };
    is_enough && is_of_kind
}

fn check_evidence(report: &PublishedReport, evidence: &ClaimEvidence) -> Vec<String> {
    let mut wrong = Vec::new();
    if evidence.kind == EvidenceKind::Emulated
        && !matches!(evidence.quantity, EvidenceQuantity::Count | EvidenceQuantity::Ordering)
    {
        wrong.push("an emulator gives counts and orderings only".to_owned());
    }
    if evidence.models.is_empty() || evidence.sessions == 0 {
        wrong.push(format!("evidence without models or sessions: {}", evidence.result));
    }
    if evidence.recorded.is_some() && evidence.result.contains('×') {
        wrong.push(format!("a ratio of a kept run is written by hand: {}", evidence.result));
    }
    if evidence.kind.is_simulated() {
        match catalogue::find(&evidence.machine) {
            Err(problem) => wrong.push(problem.to_string()),
            Ok(machine) => {
                let mut chosen = machine.parameters.iter().filter(|p| p.chosen_for.as_ref() == Some(&report.name));
                // A run may set the cost to another value, which its note says then.
                if evidence.kind == EvidenceKind::Simulated
                    && let Some(cost) = chosen.find(|p| !evidence.note.as_ref().is_some_and(|n| n.contains(p.name)))
                {
                    wrong.push(format!("{} of {} was chosen for it", cost.name, machine.name));
                }
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record that keeps the rules, changed so that it breaks one.
    #[test]
    fn each_rule_refuses_the_record_that_breaks_it() {
        let good = include_str!("good.toml");
        let of = |text: &str| check(&reports::parse("good", text).expect("it is a record"));
        assert_eq!(of(good), Vec::<String>::new());
        for (changes, why) in [
            (vec![("blocks = 6", "blocks = 3")], "reproduced is not carried"),
            (vec![("blocks = 6", "blocks = 3"), ("sessions = 1", "sessions = 4")], ""),
            (vec![("kind = \"virtual-machine\"", "kind = \"emulated\"")], ""),
            (
                vec![
                    ("kind = \"virtual-machine\"", "kind = \"emulated\""),
                    ("quantity = \"count\"", "quantity = \"ratio\""),
                ],
                "an emulator gives counts and orderings only",
            ),
            (vec![("kind = \"virtual-machine\"", "kind = \"simulated\"")], ""),
            (vec![("kind = \"virtual-machine\"", "kind = \"simulated-chosen\"")], "reproduced is not carried"),
            (
                vec![("kind = \"virtual-machine\"", "kind = \"simulated\""), ("\"server-8\"", "\"graviton4-96\"")],
                "contender_ns of graviton4-96 was chosen for it",
            ),
            (vec![("bearing = \"for\"", "bearing = \"open\"")], "reproduced is not carried"),
            (vec![("verdict = \"reproduced\"", "verdict = \"refuted\"")], "refuted is not carried"),
            (
                vec![
                    ("\"reproduced\"", "\"refuted\""),
                    ("\"for\"", "\"against\""),
                    ("\"virtual-machine\"", "\"simulated\""),
                ],
                "",
            ),
            (
                vec![
                    ("\"reproduced\"", "\"refuted\""),
                    ("\"for\"", "\"against\""),
                    ("\"virtual-machine\"", "\"simulated\""),
                    ("\"mechanism.fault-under-lock\"", "\"late-segments\""),
                ],
                "refuted is not carried",
            ),
            (
                vec![
                    ("\"reproduced\"", "\"refuted\""),
                    ("\"for\"", "\"against\""),
                    ("\"virtual-machine\"", "\"simulated\""),
                    ("[\"mechanism.fault-under-lock\"]", "[]"),
                ],
                "refuted is not carried",
            ),
            (vec![("\"mechanism.fault-under-lock\"", "\"phase-of-the-moon\"")], "no mechanism phase-of-the-moon"),
            (vec![("models = [\"none\"]", "models = []")], "without models"),
            (vec![("cause = \"It is known.\"", "cause = \"A. B. C. D. E. F.\"")], "more than 5 sentences"),
        ] {
            let mut text = good.to_owned();
            for (from, to) in &changes {
                assert!(text.contains(from), "{from}");
                text = text.replace(from, to);
            }
            let wrong = of(&text);
            match why {
                "" => assert_eq!(wrong, Vec::<String>::new(), "{changes:?}"),
                why => assert!(wrong.iter().any(|line| line.contains(why)), "{changes:?}: {wrong:?}"),
            }
        }
    }
}
