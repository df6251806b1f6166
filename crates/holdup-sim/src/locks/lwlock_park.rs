//! PostgreSQL's LWLock with holdfast's mutex in front of its list: a backend that finds the list taken looks a few times and
//! sleeps.

use super::{holdfast, lwlock};
use crate::locking::Algorithm;

pub(super) const ALGORITHM: Algorithm =
    Algorithm { id: "lwlock-park", inner: Some(&holdfast::ALGORITHM), ..lwlock::ALGORITHM };
