//! What held a system up: causes with numbers, what they rest on, and what would change them.

use crate::account::Account;
use crate::outcome::{Estimate, FindingVerdict};
use serde::{Deserialize, Serialize};

/// What a number rests on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EvidenceRef {
    /// The collector's id.
    pub collector: String,
    /// The name of the item, histogram or stack profile.
    pub item: String,
}

/// Evidence that a cause cannot be judged without.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Missing {
    /// The collector that would bring it.
    pub collector: String,
    /// Why it is not there.
    pub why: String,
    /// How to get it (`--collect critical-sections`).
    pub remedy: String,
}

/// Something that would change a cause.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// What to do.
    pub change: String,
    /// What it does to this cause, how sure that is, and what it does not do.
    pub effect: String,
    /// What must be so for it to work; `None` for nothing in particular.
    pub conditions: Option<String>,
    /// A command line that measures it here.
    pub experiment: Option<String>,
    /// How to undo it.
    pub undo: String,
}

/// One cause that was looked at, in one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cause {
    /// Its id in the catalogue of explanations (`preempted-holder`).
    pub id: String,
    /// Its name in sentences (`preempted lock holders`).
    pub name: String,
    /// `supported`: it is there. `refuted`: it was looked for and is not. `undecided`: evidence is missing or too thin.
    pub verdict: FindingVerdict,
    /// One plain sentence with its numbers.
    pub sentence: String,
    /// What was lost to it, as a share of what `of` says; `None` where that could not be had.
    pub share: Option<Estimate>,
    /// The same without an interval, which one window has not. No part of the document.
    #[serde(skip)]
    pub plain_share: Option<f64>,
    /// What the share is of (`the CPU time of the watched tasks`).
    pub of: String,
    /// The smallest share that counts as a cause.
    pub minimum: f64,
    /// Tasks that it delayed, on average over the windows: what causes are put in order by. `None` when unknown.
    pub tasks_held_up: Option<f64>,
    /// More sentences.
    pub details: Vec<String>,
    /// What would change it.
    pub advice: Vec<Advice>,
    /// What is missing to judge it, or to judge it in full.
    pub missing: Vec<Missing>,
    /// What it rests on.
    pub evidence: Vec<EvidenceRef>,
    /// The trials (`Trial::seq`) behind it.
    pub trials: Vec<u32>,
}

/// What delayed one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmExplanation {
    /// The arm.
    pub arm: u32,
    /// Its label.
    pub label: String,
    /// The answer in a sentence.
    pub answer: String,
    /// `supported`: a cause was found. `refuted`: none of those looked for. `undecided`: none found and not all judged.
    pub verdict: FindingVerdict,
    /// The causes: what was found first, by how many tasks it delayed; then what is open, then what is not there.
    pub causes: Vec<Cause>,
    /// Windows that it rests on.
    pub windows: u32,
    /// Their length together, s.
    pub watched_s: f64,
    /// What looking cost, in a sentence.
    pub cost: String,
    /// Where the time of its sessions went; `None` where the collector `account` brought nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Account>,
}

/// What delayed a system, arm by arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Explanation {
    /// What stands above everything else in every rendering: that the times are not those of hardware.
    pub caution: Option<String>,
    /// The arms in order; those without evidence are left out.
    pub arms: Vec<ArmExplanation>,
    /// How the explanation differs between arms, in sentences.
    pub differences: Vec<String>,
    /// What else is to be known: arms that were left out, a record that ended early.
    pub notes: Vec<String>,
}

impl Explanation {
    /// The verdict over all arms: a cause in any of them, else anything that is open, else nothing.
    pub fn verdict(&self) -> FindingVerdict {
        let has = |verdict| self.arms.iter().any(|arm| arm.verdict == verdict);
        if has(FindingVerdict::Supported) {
            FindingVerdict::Supported
        } else if self.arms.is_empty() || has(FindingVerdict::Undecided) {
            FindingVerdict::Undecided
        } else {
            FindingVerdict::Refuted
        }
    }
}
