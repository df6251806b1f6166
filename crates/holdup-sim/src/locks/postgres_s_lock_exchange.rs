//! PostgreSQL's spinlock where every turn exchanges: TAS_SPIN() is TAS() on arm64 in 15 to 17, and looks first from 18 on
//! (src/include/storage/s_lock.h).

use super::postgres_s_lock;
use crate::locking::Algorithm;

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "postgres-s-lock-exchange",
    only_simulated: Some("s_lock of PostgreSQL 15 to 17 on arm64; postgres-s-lock looks before it exchanges"),
    exchanges: true,
    ..postgres_s_lock::ALGORITHM
};
