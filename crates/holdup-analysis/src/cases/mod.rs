//! The catalogue of cases: known ways in which the scheduler hurts, one file each, and its line in [`ALL`].
//!
//! A case is a list of conditions that must all hold. One that does not hold clears the host, whatever else is not
//! known; with none of those, one that is not known leaves the case undecided.

use crate::weigh::Condition;
use holdup_model::Meta;
use holdup_model::survey::{Advice, Survey};

pub mod advice_without_effect;
pub mod autogroup_sessions;
pub mod hrtick_confounder;
pub mod kworker_hog;
pub mod lazy_cold_pool;
pub mod migration_cost_folklore;
pub mod spin_oversubscription;

/// Every case, in the order in which they are told.
pub static ALL: &[&dyn Case] = &[
    &lazy_cold_pool::LazyColdPool,
    &spin_oversubscription::SpinOversubscription,
    &autogroup_sessions::AutogroupSessions,
    &migration_cost_folklore::MigrationCostFolklore,
    &kworker_hog::KworkerHog,
    &hrtick_confounder::HrtickConfounder,
    &advice_without_effect::AdviceWithoutEffect,
];

/// One case.
pub trait Case: Sync {
    /// What it says about itself.
    fn meta(&self) -> &'static Meta;

    /// Whether it harms by itself. One that does not only matters to whoever compares kernels or follows advice.
    fn harms(&self) -> bool {
        true
    }

    /// Whether it is about the server at this place of the survey, or about the host when there is none.
    fn is_per_server(&self) -> bool {
        false
    }

    /// What must hold for it to hit: for the server at this place, if it is about servers.
    fn conditions(&self, survey: &Survey, server: usize) -> Vec<Condition>;

    /// What to do where it hits.
    fn advice(&self, survey: &Survey, server: usize) -> Vec<Advice>;
}
