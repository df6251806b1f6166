//! The log of a search: a file of lines, each an entry as JSON, of which the first is [`Entry::Begin`].
//!
//! What a search knows is a function of its log: it is continued from there after any end.

use crate::{Direction, Estimate};
use serde::{Deserialize, Serialize};

/// The version of the log's format.
pub const FORMAT: u32 = 1;

/// One of the things among which the change is searched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The value that stands for it: the hash of a commit, a kernel, a number.
    pub name: String,
    /// For people: the subject of a commit; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// The author's date of a commit, as git writes it (ISO 8601, strict).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub date: String,
}

/// What people read of a name: twelve digits of the hash of a commit, else all of it.
pub fn short(name: &str) -> &str {
    let is_hash = name.len() >= 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hash { &name[..12] } else { name }
}

/// How a search began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Begin {
    /// [`FORMAT`].
    pub format: u32,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The folder that it was given in.
    pub folder: String,
    /// ns since 1970.
    pub began_unix_ns: i64,
    /// The plan that each trial is one of, as TOML.
    pub plan: String,
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which way it is better.
    pub better: Direction,
    /// Which changes are looked for.
    #[serde(default)]
    pub look_for: LookFor,
    /// Smaller ones count as none, as a share.
    #[serde(default = "one_percent")]
    pub least: f64,
    /// What of the plan the candidates are values of.
    pub key: String,
    /// In order: the first is the good end, the last the bad one.
    pub candidates: Vec<Candidate>,
}

/// Which changes are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LookFor {
    /// For the worse.
    #[default]
    Worse,
    /// For the better.
    Better,
    /// Both.
    Any,
}

fn one_percent() -> f64 {
    0.01
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry")]
pub enum Entry {
    /// The search began.
    Begin(Begin),
    /// The host that the trials from here on are of; trials of another host count no more.
    Host {
        /// Its CPUs, memory and kernel.
        host: String,
    },
    /// A candidate was built.
    Built {
        /// Its name.
        candidate: String,
        /// How long that took.
        build_s: f64,
    },
    /// A candidate does not build, boot or run.
    Skipped {
        /// Its name.
        candidate: String,
        /// Why.
        why: String,
    },
    /// A trial that counts.
    Trial {
        /// The candidate's name.
        candidate: String,
        /// The metric, in its unit.
        value: f64,
        /// The bundle that holds the trial, beneath the folder of the search.
        bundle: String,
        /// From the end of the trial before in the same bundle, or from its begin, to the end of this one.
        spent_s: f64,
        /// The end of it, ns since 1970.
        ended_unix_ns: i64,
    },
    /// The search ended with this sentence.
    Answer {
        /// The answer.
        sentence: String,
        /// The exit code that it had.
        code: u8,
    },
}

/// What a search found, and what fresh trials say of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// In order; several where those between could not be measured.
    pub candidates: Vec<Candidate>,
    /// The one before them.
    pub parent: Candidate,
    /// Among how many it was searched.
    pub of: usize,
    /// The metric's id.
    pub metric: String,
    /// Which way it is better.
    pub better: Direction,
    /// Which changes were looked for.
    pub look_for: LookFor,
    /// True if they are commits.
    pub is_commit: bool,
    /// The probability that the search ended with.
    pub probability: f64,
    /// The last candidate over the parent, from fresh, interleaved blocks.
    pub ratio: Option<Estimate>,
    /// What speaks against trusting the ratio to its last digit.
    pub caution: Option<String>,
    /// Facts about the host that had one value at all boots of the parent and another at all boots of the last candidate.
    pub differs: Vec<String>,
    /// The bad end without the culprit over the bad end.
    pub reverted: Option<Estimate>,
    /// Why there is none.
    pub not_reverted: Option<String>,
    /// Where another change is likely, as the options of a search for it.
    pub others: Vec<String>,
    /// The range of what a merge brought, if the culprit is one.
    pub merged: Option<String>,
    /// Trials of the search.
    pub trials: usize,
    /// Candidates that were measured.
    pub measured: usize,
    /// The bundle of the fresh trials.
    pub bundle: String,
}

impl Answer {
    /// True if the interval of the fresh blocks excludes 1, on the side that was looked for: the search has named the culprit,
    /// so it decides.
    pub fn is_confirmed(&self) -> bool {
        self.is_separate() && (self.look_for == LookFor::Any || self.is_worse() == (self.look_for == LookFor::Worse))
    }

    /// True if the interval of the fresh blocks excludes 1.
    pub fn is_separate(&self) -> bool {
        self.ratio.as_ref().is_some_and(|ratio| ratio.low > 1.0 || ratio.high < 1.0)
    }

    /// True if the fresh blocks say that it is worse.
    pub fn is_worse(&self) -> bool {
        self.ratio.as_ref().is_some_and(|ratio| (self.better == Direction::Lower) == (ratio.value > 1.0))
    }
}

/// What a search believed at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// After how many trials.
    pub trials: usize,
    /// The probability of each candidate.
    pub probabilities: Vec<f64>,
    /// That there is no change.
    pub no_change: f64,
}

/// A candidate as it stands in a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Which one.
    pub candidate: Candidate,
    /// Its trials that count, in the metric's unit.
    pub values: Vec<f64>,
    /// Why it is skipped.
    pub skipped: Option<String>,
    /// The probability that it brought the change.
    pub probability: f64,
}
