//! Arms, and the order in which their trials run.

use crate::plan::Level;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Why an arm stands beside the baseline although no level differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replica {
    /// The same as the baseline (A/A): shows the noise floor.
    Same,
    /// The baseline without collectors: shows what looking costs.
    Unobserved,
}

/// One combination of levels.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Its number in the bundle, from 0.
    pub id: u32,
    /// What a table calls it, unique in the bundle.
    pub label: String,
    /// The name of its workload in the plan.
    pub workload: String,
    /// The level of each axis of its workload.
    pub axes: BTreeMap<String, Level>,
    /// The level of each factor that holds for its workload.
    pub factors: BTreeMap<String, Level>,
    /// Whether it repeats the baseline on purpose.
    pub replica: Option<Replica>,
}

/// One trial as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialSpec {
    /// Its place in the whole order, from 0.
    pub seq: u32,
    /// Its session, from 0.
    pub session: u32,
    /// Its boot, from 0, counted over all sessions; where nothing is chosen at boot, one for each session. Neighbours
    /// with the same number run in the same guest.
    #[serde(default)]
    pub boot: u32,
    /// Its block, from 0, counted over all sessions.
    pub block: u32,
    /// Its place in the block, from 0.
    pub position: u32,
    /// The arm.
    pub arm: u32,
}

/// All arms and the order of all trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Schedule {
    /// The arms; `arms[i].id == i`.
    pub arms: Vec<Arm>,
    /// The trials in order.
    pub trials: Vec<TrialSpec>,
}

impl Schedule {
    /// That of a record: one arm of this name, and a block for each window.
    pub fn of_windows(name: &str, windows: u32) -> Self {
        let arm = Arm {
            id: 0,
            label: name.to_owned(),
            workload: name.to_owned(),
            axes: BTreeMap::new(),
            factors: BTreeMap::new(),
            replica: None,
        };
        let trial = |n| TrialSpec { seq: n, session: 0, boot: 0, block: n, position: 0, arm: 0 };
        Schedule { arms: vec![arm], trials: (0..windows).map(trial).collect() }
    }
}
