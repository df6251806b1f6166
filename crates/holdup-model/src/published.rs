//! Record of a published report: its claims, and the evidence for each.

use crate::PreemptModel;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A record, as `reports/NAME.toml` has it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedReport {
    /// Name of its file, without the ending.
    pub name: String,
    /// Question that its page answers, as its title.
    pub title: String,
    /// Sentence that says what was reported, without a full stop.
    pub summary: String,
    /// Messages and pages, the first one first.
    #[serde(rename = "publication")]
    pub publications: Vec<ReportPublication>,
    /// Cause as far as it is known, in five sentences at most.
    pub cause: String,
    /// Claims, each with its verdict, the most important first.
    #[serde(rename = "claim")]
    pub claims: Vec<ReportClaim>,
    /// Lines of the table for operators, the best first.
    pub advice: Vec<ReportAdvice>,
    /// Sentences that say what the evidence lacks.
    pub missing: Vec<String>,
    /// Experiment that decides the claims on the right machine.
    pub settling: DecidingExperiment,
    /// Further pages of ours, relative to `docs/`.
    #[serde(default)]
    pub pages: Vec<String>,
}

/// A message or a page in which it was published.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportPublication {
    /// Author; `None` where it is not known here.
    pub author: Option<String>,
    /// Title; `None` where it is not known here.
    pub title: Option<String>,
    /// Date as 2026-04-03, or the year alone.
    pub date: String,
    /// List or site, and what is not known of it.
    pub place: String,
    /// Message-ID without brackets; `None` where it is not known here.
    pub message_id: Option<String>,
}

/// Statement of a report that can be true or false.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportClaim {
    /// Word for it in tables, unique in its report.
    pub id: String,
    /// Sentence that says it, with a full stop.
    pub sentence: String,
    /// Numbers that were published; empty where none is known here.
    #[serde(default)]
    pub numbers: Vec<ClaimNumber>,
    /// Machine, versions and load that it was found with.
    pub conditions: String,
    /// Ratio that a prediction is held against, if it has one.
    pub ratio: Option<PublishedRatio>,
    /// Ids of what it comes from: mechanisms of the simulator, or what that leaves out; empty where it is not known.
    #[serde(default)]
    pub mechanisms: Vec<String>,
    /// Answer that the evidence carries (`crates/xtask/src/reports/rules.rs`).
    pub verdict: ClaimVerdict,
    /// Reason for that in one clause.
    pub why: String,
    /// Experiments that bear on it, of any kind.
    #[serde(default)]
    pub evidence: Vec<ClaimEvidence>,
}

/// Numbers of one quantity, as they were published.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimNumber {
    /// Quantity, and the arms in the order of the values.
    pub of: String,
    /// Values, one for each arm, in `unit`.
    pub values: Vec<f64>,
    /// Unit of the values; empty for ratios and counts.
    pub unit: String,
}

/// A ratio of a plan's primary metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedRatio {
    /// Factors and axes that it is of, each with the level that took the place of the first one, as shown.
    pub levels: BTreeMap<String, String>,
    /// Levels of others at which it was found; empty for any.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// Metric with the levels over the metric with the first ones.
    pub value: f64,
    /// Author, place and date, for the line of a prediction.
    pub source: String,
}

/// Answer that the evidence gives to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// Evidence that may decide shows it, and none denies it.
    Reproduced,
    /// Evidence that may decide excludes it, and none shows it.
    Refuted,
    /// Neither, with what is at hand today.
    NotDecidable,
}

/// All verdicts, in the order in which they are counted.
pub const VERDICTS: [ClaimVerdict; 3] = [ClaimVerdict::Reproduced, ClaimVerdict::Refuted, ClaimVerdict::NotDecidable];

impl ClaimVerdict {
    /// Words of tables and sentences for it.
    pub fn words(self) -> &'static str {
        match self {
            ClaimVerdict::Reproduced => "reproduced",
            ClaimVerdict::Refuted => "refuted",
            ClaimVerdict::NotDecidable => "not decidable",
        }
    }
}

/// Experiment that bears on a claim, with what it counted.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimEvidence {
    /// Kind of machine that it ran on.
    pub kind: EvidenceKind,
    /// Machine and load in words; of simulations the name of the machine.
    pub machine: String,
    /// Version of the kernel, as 6.19.14.
    pub kernel: String,
    /// Preemption models that it compares, or the one that it ran under.
    pub models: Vec<PreemptModel>,
    /// Kind of number that its result is.
    pub quantity: EvidenceQuantity,
    /// Result in words; the ratio of a recorded run is not repeated in it.
    pub result: String,
    /// Side of the claim that the result is on.
    pub bearing: ClaimBearing,
    /// Events that were counted, where they are few.
    pub events: Option<u64>,
    /// Blocks that count, over all sessions; 0 where that is not known.
    #[serde(default)]
    pub blocks: u32,
    /// Boots, or servers that were set up anew.
    pub sessions: u32,
    /// Command that runs the experiment once more.
    pub command: String,
    /// Ratio of a recorded run; `None` where the run is not kept.
    pub recorded: Option<RecordedRatio>,
    /// Limit of what it says, in a clause.
    pub note: Option<String>,
}

/// Ratio that is computed from a bundle of the repository.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordedRatio {
    /// File below `reports/bundles`, without the ending `.holdup.gz`.
    pub bundle: String,
    /// Name of the workload in the plan.
    pub workload: String,
    /// Id of the metric in the bundle.
    pub metric: String,
    /// Name of the factor that differs.
    pub factor: String,
    /// Level of it, as shown, against the first one.
    pub level: String,
    /// Levels of other factors and axes; empty where there are none.
    #[serde(default)]
    pub at: BTreeMap<String, String>,
    /// Ratio and ends of its 95 % interval, with three decimals.
    pub ratio: [f64; 3],
}

/// Kind of machine that an experiment ran on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceKind {
    /// Machine without a hypervisor under it.
    Hardware,
    /// Guest whose CPUs are those of the hardware.
    VirtualMachine,
    /// Guest whose CPUs are emulated, as by QEMU's TCG.
    Emulated,
    /// Simulator, with no cost chosen for the claim.
    Simulated,
    /// Simulator, with a cost chosen so that the claim comes out.
    SimulatedChosen,
}

impl EvidenceKind {
    /// Words of tables and sentences for it.
    pub fn words(self) -> &'static str {
        match self {
            EvidenceKind::Hardware => "hardware",
            EvidenceKind::VirtualMachine => "virtual machine",
            EvidenceKind::Emulated => "emulated",
            EvidenceKind::Simulated => "simulated",
            EvidenceKind::SimulatedChosen => "simulated, a cost chosen for it",
        }
    }

    /// True if no kernel ran, only a model of one.
    pub fn is_simulated(self) -> bool {
        matches!(self, EvidenceKind::Simulated | EvidenceKind::SimulatedChosen)
    }
}

/// Kind of number that a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvidenceQuantity {
    /// Ratio of rates or times of two arms.
    Ratio,
    /// Share of time, such as that of all CPU time.
    Share,
    /// Number of events, by itself or for each operation.
    Count,
    /// Order of several arms, without a size.
    Ordering,
}

/// Side of a claim that a result is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimBearing {
    /// Result that shows what is claimed.
    For,
    /// Result that shows otherwise than claimed.
    Against,
    /// Result that leaves the claim open.
    Open,
}

/// Line of the table for operators.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportAdvice {
    /// Measure that an operator can take today.
    pub action: String,
    /// Effect that it had, or that follows from the source.
    pub effect: String,
    /// Kind of evidence with its limits, a publication, or the source code.
    pub evidence: String,
}

/// Experiment of some ten minutes that decides claims on the right machine.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DecidingExperiment {
    /// Machine that it takes, in words.
    pub owner: String,
    /// Commands to type there, in their order.
    pub commands: Vec<String>,
    /// Rule by which its outcome is read.
    pub reading: String,
}

impl PublishedReport {
    /// Claims counted by verdict, such as `1 reproduced, 7 not decidable`.
    pub fn verdicts(&self) -> String {
        let count = |verdict| self.claims.iter().filter(|claim| claim.verdict == verdict).count();
        let counted = VERDICTS.into_iter().map(|verdict| (count(verdict), verdict.words()));
        let shown: Vec<String> = counted.filter(|(n, _)| *n > 0).map(|(n, words)| format!("{n} {words}")).collect();
        shown.join(", ")
    }

    /// Ratios of its claims that a prediction is held against.
    pub fn ratios(&self) -> impl Iterator<Item = &PublishedRatio> {
        self.claims.iter().filter_map(|claim| claim.ratio.as_ref())
    }
}
