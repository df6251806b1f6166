//! What the workload `command` is made of: starting a program behind a gate, watching over it while
//! its output flows, and reading metrics from what it said.

pub(crate) mod arguments;
pub(crate) mod background;
pub(crate) mod extract;
mod guard;
pub(crate) mod preload;
pub(crate) mod spawn;
pub(crate) mod supervise;
pub(crate) mod tail;
