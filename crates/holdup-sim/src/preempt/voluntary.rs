//! As none, and `might_sleep()` is a point as well.

use super::Model;

pub(super) const MODEL: Model = Model { id: "voluntary", cond_resched: true, might_resched: true, ..Model::NEVER };
