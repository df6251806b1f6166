//! Test-and-set that asks the kernel for a longer slice while it holds the lock (kernel/rseq.c,
//! include/linux/rseq_entry.h, v7.2).
//!
//! It asks before the exchange and withdraws the request after the release; a grant that was used is returned by a system
//! call then. Whether the kernel grants it is the kernel's part.

use super::tas;
use crate::locking::Algorithm;

pub(super) const ALGORITHM: Algorithm = Algorithm { id: "slice-extension", asks: true, ..tas::ALGORITHM };
