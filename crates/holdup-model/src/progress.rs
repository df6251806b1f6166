//! Events of a run in progress. Engines and targets never print.

use crate::arm::Arm;
use crate::trial::Trial;

/// Something that happened.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// The run begins.
    Begin {
        /// Trials planned.
        trials: u32,
        /// True if the run may end before that, when every headline is decided.
        at_most: bool,
        /// Honest estimate of the whole, ns.
        estimate_ns: u64,
    },
    /// Something slow begins, such as making a cluster.
    Step(&'a str),
    /// Something worth knowing that does not stop the run.
    Note(&'a str),
    /// A trial begins.
    TrialBegin {
        /// Which one, from 1, repeats included.
        number: u32,
        /// Of how many.
        of: u32,
        /// Its arm.
        arm: &'a Arm,
        /// Estimate of the remaining time, this trial included, ns.
        left_ns: u64,
    },
    /// A trial is over, whether it counts or not.
    TrialEnd {
        /// The trial.
        trial: &'a Trial,
        /// Its arm.
        arm: &'a Arm,
    },
    /// The run is over.
    End,
}

/// Receives events. Calls come from the thread that runs the trials.
pub trait Observer {
    /// Receives one event.
    fn event(&mut self, event: Event<'_>);
}

/// An observer that ignores every event.
#[derive(Debug, Default, Clone, Copy)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _event: Event<'_>) {}
}
