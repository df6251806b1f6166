//! What `mixed` is made of: [`members`] says who takes part and which parameters and metrics are whose, [`gate`] opens
//! the windows of all members at once, [`session`] prepares and runs them.

mod gate;
pub(crate) mod members;
pub(crate) mod session;
