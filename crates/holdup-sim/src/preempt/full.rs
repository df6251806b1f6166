//! Kernel code is preempted wherever preemption is on: by interrupts that return into it, and at the end of stretches with
//! preemption off.

use super::Model;

pub(super) const MODEL: Model = Model { id: "full", preempts_kernel: true, ..Model::NEVER };
