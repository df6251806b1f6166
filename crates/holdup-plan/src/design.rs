//! `[design]`.

use crate::checker::Checker;
use crate::draft::{Draft, find};
use crate::errors::Wrong;
use crate::node::{Data, Entry, Node};
use crate::source::Location;
use crate::values::{duration_ns, truth, unexpected};
use crate::words::{did_you_mean, shown};
use holdup_model::Design;
use holdup_model::plan::{DEFAULT_MAX_STEAL_SHARE, EffectKind, Layout, StopRule};

/// The keys of `[design]`.
pub(crate) const DESIGN_KEYS: &[&str] = &[
    "layout",
    "blocks",
    "max_blocks",
    "sessions",
    "seed",
    "aa",
    "unobserved",
    "warmup",
    "duration",
    "settle",
    "budget",
    "retries",
    "max_steal",
    "effect",
];

/// The seed of a plan that states none: fixed, so that a plan means the same order every time.
const DEFAULT_SEED: u64 = 1;
/// Blocks of a plan that compares nothing and states none.
const BLOCKS: u64 = 5;
/// Most blocks of a plan that compares something and states none.
const MAX_BLOCKS: u64 = 20;
/// Blocks in each session, and sessions, of a plan that varies something at boot and states none: a boot is what is
/// repeated then, and only another session boots the same arm again.
const BLOCKS_OF_BOOTS: u64 = 1;
const SESSIONS_OF_BOOTS: u64 = 5;
const MOST_BLOCKS: u64 = 100_000;
const MOST_SESSIONS: u64 = 10_000;
const MOST_RETRIES: u64 = 100;

impl Checker<'_> {
    pub(crate) fn design(&mut self, draft: &Draft, collectors: &[String], compares: bool, at_boot: bool) -> Design {
        for entry in draft.design.iter().filter(|e| !DESIGN_KEYS.contains(&e.key.as_str())) {
            let wrong = Wrong::new("[design] has no such key").hint(did_you_mean(&entry.key, DESIGN_KEYS));
            self.complain(&entry.place, format!("key `{}`", shown(&entry.key)), wrong);
        }
        let keys = &draft.design;
        let layout = self.word(keys, "layout", &["factorial", "one-at-a-time"]);
        let effect = self.word(keys, "effect", &["mean", "trimmed"]);
        let count = |checker: &mut Self, key, default, least, most| {
            u32::try_from(checker.count(keys, key, default, least, most)).unwrap_or(u32::MAX)
        };
        // Without anything to compare there is nothing to decide.
        let stop = if find(keys, "blocks").is_some() || !compares { StopRule::Blocks } else { StopRule::Decided };
        let blocks = match stop {
            StopRule::Blocks => count(self, "blocks", if at_boot { BLOCKS_OF_BOOTS } else { BLOCKS }, 1, MOST_BLOCKS),
            StopRule::Decided => {
                count(self, "max_blocks", if at_boot { BLOCKS_OF_BOOTS } else { MAX_BLOCKS }, 1, MOST_BLOCKS)
            }
        };
        self.one_of_both(keys, compares);
        let unobserved_pair = self.truth_of(keys, "unobserved", false);
        if let Some(entry) = find(keys, "unobserved").filter(|_| unobserved_pair && collectors.is_empty()) {
            let wrong = Wrong::new("no collectors run, so every arm is without them")
                .hint("name collectors, or take unobserved out");
            self.complain(&entry.node.place, "unobserved = true", wrong);
        }
        Design {
            layout: if layout == 1 { Layout::OneAtATime } else { Layout::Factorial },
            blocks,
            sessions: count(self, "sessions", if at_boot { SESSIONS_OF_BOOTS } else { 1 }, 1, MOST_SESSIONS),
            seed: self.count(keys, "seed", DEFAULT_SEED, 0, u64::MAX),
            aa_pair: self.truth_of(keys, "aa", true),
            unobserved_pair,
            settle_ns: self.duration_of(keys, "settle", true).unwrap_or(0),
            warmup_ns: self.duration_of(keys, "warmup", true).unwrap_or(500_000_000),
            duration_ns: self.duration_of(keys, "duration", false).unwrap_or(2_500_000_000),
            stop,
            budget_ns: self.duration_of(keys, "budget", false),
            retries: count(self, "retries", 2, 0, MOST_RETRIES),
            max_steal_share: self.share_of(keys, "max_steal", DEFAULT_MAX_STEAL_SHARE),
            effect: if effect == 1 { EffectKind::Trimmed } else { EffectKind::Mean },
        }
    }

    /// `blocks` is a number to run, `max_blocks` one to stop at: they exclude each other.
    fn one_of_both(&mut self, keys: &[Entry], compares: bool) {
        let Some(most) = find(keys, "max_blocks") else { return };
        let wrong = if find(keys, "blocks").is_some() {
            Wrong::new("blocks is there as well")
                .hint("blocks = N runs N blocks, max_blocks = N at most N: keep one of them")
        } else if !compares {
            Wrong::new("no factor and no axis has two levels, so there is no verdict to stop at")
                .hint("say blocks, or vary something")
        } else {
            return;
        };
        self.complain(&most.place, what("max_blocks", &most.node), wrong);
    }

    /// The number of a word in the list; the first when the key is not there or wrong.
    pub(crate) fn word(&mut self, keys: &[Entry], key: &str, words: &[&str]) -> usize {
        let Some(entry) = find(keys, key).filter(|e| !e.node.is_bad()) else { return 0 };
        let wrong = match &entry.node.data {
            Data::Text(text) => match words.iter().position(|w| w == text) {
                Some(found) => return found,
                None => Wrong::new("it is not one of its words").hint(did_you_mean(text, words)),
            },
            _ => unexpected(&entry.node, "a text").hint(did_you_mean("", words)),
        };
        self.complain(&entry.node.place, what(key, &entry.node), wrong);
        0
    }

    pub(crate) fn count(&mut self, keys: &[Entry], key: &str, default: u64, least: u64, most: u64) -> u64 {
        let Some(entry) = find(keys, key).filter(|e| !e.node.is_bad()) else { return default };
        let number = match &entry.node.data {
            Data::Integer(i) => Ok(u64::try_from(*i).ok()),
            Data::Text(text) => match text.trim().parse::<i128>() {
                Ok(i) => Ok(u64::try_from(i).ok()),
                Err(_) => Err(unexpected(&entry.node, "a whole number")),
            },
            _ => Err(unexpected(&entry.node, "a whole number")),
        };
        let wrong = match number {
            Ok(Some(n)) if (least..=most).contains(&n) => return n,
            Ok(_) => Wrong::new(format!("it must be from {least} to {most}")),
            Err(wrong) => wrong,
        };
        self.complain(&entry.node.place, what(key, &entry.node), wrong);
        default
    }

    pub(crate) fn truth_of(&mut self, keys: &[Entry], key: &str, default: bool) -> bool {
        let Some(entry) = find(keys, key).filter(|e| !e.node.is_bad()) else { return default };
        truth(&entry.node).unwrap_or_else(|wrong| {
            self.complain(&entry.node.place, what(key, &entry.node), wrong);
            default
        })
    }

    pub(crate) fn duration_of(&mut self, keys: &[Entry], key: &str, zero: bool) -> Option<u64> {
        let entry = find(keys, key).filter(|e| !e.node.is_bad())?;
        let place: &Location = &entry.node.place;
        match duration_ns(&entry.node) {
            Ok((0, _)) if !zero => {
                self.complain(place, what(key, &entry.node), Wrong::new("it must be longer than nothing"));
                None
            }
            Ok((ns, _)) => Some(ns),
            Err(wrong) => {
                self.complain(place, what(key, &entry.node), wrong);
                None
            }
        }
    }
}

fn what(key: &str, node: &Node) -> String {
    format!("{key} = {}", node.written())
}
