//! What `mixed` is made of: [`members`] names the members with their parameters and metrics, [`gate`] opens
//! the windows of all members at the same time, [`session`] prepares and runs them.

mod gate;
pub(crate) mod members;
pub(crate) mod session;
