//! Test-and-test-and-set: an exchange, then reads until the lock is free, then an exchange.
//!
//! As the C library's spinlock: whether those that lose try by an exchange or a compare-exchange, they fetch the line to write.

use super::pthread_spin;
use crate::locking::Algorithm;

pub(super) const ALGORITHM: Algorithm = Algorithm { id: "ttas", ..pthread_spin::ALGORITHM };
