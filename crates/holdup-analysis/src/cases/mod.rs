//! The catalogue of cases: known ways in which the scheduler hurts, one file each, and its line in [`ALL`].
//!
//! A case is a list of conditions that must all hold. One that does not hold clears the host, even if others are not
//! known; otherwise one that is not known leaves the case undecided.

use crate::condition::Condition;
use holdup_model::Meta;
use holdup_model::survey::{Advice, Server, Survey, Weight};

pub mod advice_without_effect;
pub mod autogroup_sessions;
pub mod hrtick_confounder;
pub mod kworker_hog;
pub mod lazy_cold_pool;
pub mod migration_cost_folklore;
pub mod spin_oversubscription;

/// Every case, in the order shown.
pub static ALL: &[&Case] = &[
    &lazy_cold_pool::CASE,
    &spin_oversubscription::CASE,
    &autogroup_sessions::CASE,
    &migration_cost_folklore::CASE,
    &kworker_hog::CASE,
    &hrtick_confounder::CASE,
    &advice_without_effect::CASE,
];

pub struct Case {
    /// What it says about itself.
    pub meta: &'static Meta,
    /// How much it counts for the verdict.
    pub weight: Weight,
    /// The published report that it comes from, by the name of its record.
    pub report: Option<&'static str>,
    /// What it looks at.
    pub about: About,
}

/// What must hold for a case to hit, and what to do where it does.
pub enum About {
    /// It is about the host.
    Host {
        /// What must hold.
        conditions: fn(&Survey) -> Vec<Condition>,
        advice: fn(&Survey) -> Vec<Advice>,
    },
    /// It is about each server.
    Server {
        /// What must hold.
        conditions: fn(&Survey, &Server) -> Vec<Condition>,
        advice: fn(&Survey, &Server) -> Vec<Advice>,
    },
}
