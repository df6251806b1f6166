//! Where trials run, and the loop that runs them.
//!
//! The loop (`run`) walks the schedule and writes the bundle; a target opens
//! sessions and runs single trials. Both tell what happens through an
//! [`Observer`](holdup_model::Observer) and never print.

pub mod agent;
mod budget;
mod local;
mod parallel;
pub mod profiles;
mod qemu;
mod record;
mod run;
mod session;
pub mod targets;
mod vocabulary;
mod watching;
mod window;

pub use local::reach;
pub use qemu::Kept;
pub use record::{DEFAULT_WINDOWS, RecordOutcome, RecordRequest, default_collectors, record};
pub use run::{RunOutcome, RunRequest, run};
pub use session::{Closed, GuestOptions, Readiness, Session, SessionRequest, Target, TrialDraft};
pub use vocabulary::vocabulary;
pub use watching::Watching;

/// The target with this id.
pub fn find(id: &str) -> Option<&'static dyn Target> {
    targets::ALL.iter().copied().find(|t| t.meta().id == id)
}
