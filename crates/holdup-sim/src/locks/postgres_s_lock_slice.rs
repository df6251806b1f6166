//! PostgreSQL's spinlock whose holder asks the kernel for a longer slice (kernel/rseq.c, v7.2), in both forms of its turn. No
//! version of PostgreSQL has it.

use super::{postgres_s_lock, postgres_s_lock_exchange};
use crate::locking::Algorithm;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "postgres-s-lock-slice",
    only_simulated: Some("no version of PostgreSQL asks for slice extensions; slice-extension is a lock that does"),
    asks: true,
    ..postgres_s_lock::ALGORITHM
};

/// The same where every turn exchanges.
pub(super) const EXCHANGE: Algorithm = Algorithm {
    id: "postgres-s-lock-exchange-slice",
    only_simulated: ALGORITHM.only_simulated,
    asks: true,
    ..postgres_s_lock_exchange::ALGORITHM
};
