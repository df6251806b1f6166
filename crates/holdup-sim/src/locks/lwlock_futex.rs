//! PostgreSQL's LWLock with a futex mutex in front of its list: a backend that finds the list taken sleeps in the kernel
//! instead of spinning (pgsql-hackers, H. Okanovic, 2026-06-05: a futex in place of the spin on the wait list).

use super::{futex_mutex, lwlock};
use crate::locking::Algorithm;

pub(super) const ALGORITHM: Algorithm =
    Algorithm { id: "lwlock-futex", inner: Some(&futex_mutex::ALGORITHM), ..lwlock::ALGORITHM };
