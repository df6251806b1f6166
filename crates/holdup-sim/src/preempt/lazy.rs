//! As full for real-time tasks. The fair class sets its own bit, TIF_NEED_RESCHED_LAZY: it is checked at the return to user
//! mode only, no interrupt carries it to another CPU, and a tick that finds it set makes it an immediate request
//! (`sched_tick()`).

use super::Model;

pub(super) const MODEL: Model = Model { id: "lazy", preempts_kernel: true, lazy: true, ..Model::NEVER };
