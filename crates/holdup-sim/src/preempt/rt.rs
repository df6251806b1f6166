//! As full. Spin locks of the kernel are mutexes with priority inheritance, so code under them can be preempted.

use super::Model;

pub(super) const MODEL: Model = Model { id: "rt", preempts_kernel: true, sleeping_locks: true, ..Model::NEVER };
