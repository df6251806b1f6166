//! What knobs and the journal exchange about putting back.

use holdup_model::Value;

/// What the journal knows about a change of the past.
#[derive(Debug, Clone, Copy)]
pub struct Past<'a> {
    /// What [`crate::Knob::save`] gave before the change.
    pub saved: &'a Value,
    /// What holdup wrote: the last value, and the one before when it is not known which of both took effect.
    pub written: &'a [Value],
    /// Every value that this run wrote, for what may have been passed by since: a process that was not listed any more.
    pub ever: &'a [Value],
}

/// How things stand, as against a change of the past.
#[derive(Debug, Clone, PartialEq)]
pub enum Standing {
    /// As they were before the change.
    Restored,
    /// As they were or as holdup left them: which, the host does not show. Putting back then does no harm and decides it.
    Alike(Value),
    /// As holdup left them, wholly or in part; what is in force.
    Ours(Value),
    /// Neither: someone else changed it meanwhile; what is in force.
    Foreign(Value),
    /// What was changed is not there any more, and why.
    Gone(String),
}
