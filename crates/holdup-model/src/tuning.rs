//! The log of a search of settings, and what it found. A file of lines, as that of [`crate::search`].

use crate::{Direction, Estimate};
use serde::{Deserialize, Serialize};

/// The version of the log's format.
pub const FORMAT: u32 = 1;

/// A metric that may not get worse.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Guard {
    /// The metric.
    pub metric: String,
    /// Which way it is better.
    pub better: Direction,
    /// How much worse.
    pub bound: Bound,
}

/// How much worse a metric may get.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// By this share of what it is with the settings that were found: 0.05 is 5 %.
    Share(f64),
    /// Up to this value, in the metric's unit.
    Value(f64),
}

impl Guard {
    /// How much worse it may get than `found`, as a share; below zero where that is worse than allowed already.
    pub fn allowed(&self, found: f64) -> f64 {
        match (self.bound, self.better) {
            (Bound::Share(share), _) => share,
            (Bound::Value(most), Direction::Lower) => most / found - 1.0,
            (Bound::Value(least), Direction::Higher) => found / least - 1.0,
        }
    }
}

/// A level of something that is tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriedLevel {
    /// How it is named; empty for the level that was found.
    pub label: String,
    /// The knobs that it sets, each with its value as in a plan; none for the level that was found.
    pub sets: Vec<(String, String)>,
}

/// Something that is tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// Its name.
    pub name: String,
    /// The levels; the first is what was found.
    pub levels: Vec<TriedLevel>,
    /// True if the levels lie in an order.
    pub is_ordered: bool,
    /// True if a server has to be started anew for another level.
    pub restarts: bool,
    /// What speaks for it, in half a sentence.
    pub why: String,
}

/// Something that is not tried, or a level of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name, with the level where it is one.
    pub name: String,
    /// Why.
    pub why: String,
}

/// How a search of settings began.
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
    /// The plan that each block is one of, as TOML.
    pub plan: String,
    /// The workload, as the plan names it.
    pub workload: String,
    /// Where the search runs, as a target of plans.
    #[serde(default)]
    pub searched_on: String,
    /// Where the winner is measured.
    #[serde(default)]
    pub target: String,
    /// True if a PostgreSQL server is under test.
    #[serde(default)]
    pub workload_has_server: bool,
    /// The metric.
    pub metric: String,
    /// Which way it is better.
    pub better: Direction,
    /// What may not get worse.
    pub guards: Vec<Guard>,
    /// What is tried.
    pub tried: Vec<Tried>,
    /// What is not.
    pub left_out: Vec<LeftOut>,
    /// Gains below this share do not pay.
    pub least: f64,
    /// The time for all of it, s.
    pub budget_s: f64,
    /// The seed of the search.
    pub seed: u64,
}

/// What a trial of a block gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// The level of each of [`Begin::tried`]; all 0 for the settings that were found.
    pub levels: Vec<u8>,
    /// The metric; absent where the trial failed.
    pub value: Option<f64>,
    /// The guards' metrics in their order, where they were measured.
    pub guards: Vec<Option<f64>>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "entry")]
pub enum Entry {
    /// The search began.
    Begin(Begin),
    /// The host that the blocks from here on are of; blocks of another host count no more.
    Host {
        /// Its CPUs, memory and kernel.
        host: String,
    },
    /// A block was measured.
    Block {
        /// The phase that it is of.
        phase: String,
        /// The bundle that holds it, beneath the folder of the search.
        bundle: String,
        /// How long it took.
        spent_s: f64,
        /// Its trials.
        seen: Vec<Seen>,
    },
    /// The search named a winner; fresh blocks without each of its settings follow.
    Found {
        /// The level of each of [`Begin::tried`].
        levels: Vec<u8>,
    },
    /// What each setting adds was measured, and those that do not pay are left out.
    Pruned {
        /// What is left.
        levels: Vec<u8>,
        /// Each setting of the winner: its number in [`Begin::tried`], its level and what it adds.
        shares: Vec<(usize, u8, Option<Estimate>)>,
        /// How long that took.
        spent_s: f64,
    },
    /// The search ended with this sentence.
    Answer {
        /// The answer.
        sentence: String,
        /// The exit code that it had.
        code: u8,
    },
}

/// What something does alone, as the search has it.
#[derive(Debug, Clone, PartialEq)]
pub struct MainEffect {
    /// Its number in [`Begin::tried`].
    pub tried: usize,
    /// The level.
    pub level: u8,
    /// The metric with it over the metric without, and the standard error of the ratio's logarithm; absent where it
    /// fails or was not measured.
    pub ratio: Option<(f64, f64)>,
    /// Trials that had it.
    pub trials: u32,
}

/// Two levels that do together what neither does alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Interaction {
    /// Number and level of both.
    pub of: [(usize, u8); 2],
    /// The metric with both over what the two alone would give.
    pub ratio: f64,
    /// The standard error of its logarithm.
    pub se_log: f64,
}

/// A combination that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Tested {
    /// The level of each of [`Begin::tried`].
    pub levels: Vec<u8>,
    /// Blocks that it was in.
    pub blocks: u32,
    /// The metric with it over the metric with the settings that were found, and the standard error of its logarithm.
    pub ratio: (f64, f64),
    /// True if it may be chosen: it does not fail and breaks no guard.
    pub is_eligible: bool,
}

/// What a search believes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Beliefs {
    /// The best combination; all 0 when nothing pays.
    pub best: Vec<u8>,
    /// What each level does alone.
    pub effects: Vec<MainEffect>,
    /// What does not simply multiply.
    pub interactions: Vec<Interaction>,
    /// Combinations that were measured several times, the best first.
    pub tested: Vec<Tested>,
    /// Trials of the search.
    pub trials: u32,
    /// Combinations that were measured at all.
    pub points: usize,
}

/// What fresh blocks say of an arm against the settings that were found.
#[derive(Debug, Clone, PartialEq)]
pub struct Confirmed {
    /// The profile's name.
    pub name: String,
    /// The metric with it over the metric without.
    pub ratio: Option<Estimate>,
    /// Why there is no ratio, or what speaks against it.
    pub caution: Option<String>,
    /// Each guard's ratio, and how much worse it may be, as a share.
    pub guards: Vec<(Option<Estimate>, f64)>,
}

/// What a search of settings found.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The level of each of [`Begin::tried`] in the profile; all 0 when nothing pays.
    pub levels: Vec<u8>,
    /// What fresh blocks say of it; absent when nothing is better than what was found.
    pub confirmed: Option<Confirmed>,
    /// What they say of the profiles that were measured beside it.
    pub beside: Vec<Confirmed>,
    /// What each setting adds: its number, its level and the ratio of the winner to the winner without it.
    pub shares: Vec<(usize, u8, Option<Estimate>)>,
    /// What the search believed when it ended.
    pub beliefs: Beliefs,
    /// The bundle of the fresh blocks.
    pub bundle: Option<String>,
    /// The file of the profile.
    pub profile: Option<String>,
}

impl Answer {
    /// True if fresh blocks bear out that the profile is better, and no guard that it is broken.
    pub fn is_confirmed(&self, begin: &Begin) -> bool {
        self.confirmed.as_ref().is_some_and(|c| {
            let better = |r: &Estimate| match begin.better {
                Direction::Higher => r.low > 1.0,
                Direction::Lower => r.high < 1.0,
            };
            let all_measured = c.guards.iter().all(|(ratio, _)| ratio.is_some());
            c.ratio.as_ref().is_some_and(better) && all_measured && c.broken(begin).is_empty()
        })
    }
}

impl Confirmed {
    /// The guards whose interval lies beyond what is allowed.
    pub fn broken<'a>(&self, begin: &'a Begin) -> Vec<&'a Guard> {
        let beyond = |guard: &Guard, ratio: &Estimate, allowed: f64| match guard.better {
            Direction::Lower => ratio.low > 1.0 + allowed,
            Direction::Higher => ratio.high < 1.0 / (1.0 + allowed),
        };
        let broken = |(guard, (ratio, allowed)): &(&Guard, &(Option<Estimate>, f64))| {
            ratio.as_ref().is_some_and(|ratio| beyond(guard, ratio, *allowed))
        };
        begin.guards.iter().zip(&self.guards).filter(broken).map(|(guard, _)| guard).collect()
    }
}
