//! Kernel code is preempted only at `cond_resched()`; user code immediately, also by an interrupt from another CPU.

use super::Model;

pub(super) const MODEL: Model = Model { id: "none", cond_resched: true, ..Model::NEVER };
