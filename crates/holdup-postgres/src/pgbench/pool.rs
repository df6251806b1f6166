//! The buffer pool before a trial: warm or cold.

use super::parameters::TableSize;
use super::server::Server;
use crate::sql;
use holdup_model::plan::Level;
use holdup_model::{Problem, Value};
use holdup_sql::Client;
use std::collections::{BTreeMap, BTreeSet};

/// A state of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pool {
    Warm,
    Cold,
}

/// What keeps the pool in its state.
#[derive(Debug)]
pub(crate) struct BufferPool {
    /// The generation of the server whose pool was warmed; zero for none.
    warmed: u64,
    /// The generation of the server that has done work, and so has something in its pool.
    worked: u64,
    /// The state that was asked for last.
    state: Option<Pool>,
}

/// The level of `postgres.pool`, if an arm has one.
fn asked(factors: &BTreeMap<String, Level>) -> Result<Option<Pool>, Problem> {
    match factors.get("postgres.pool").map(|level| &level.value) {
        None => Ok(None),
        Some(Value::Text(t)) if t == "warm" => Ok(Some(Pool::Warm)),
        Some(Value::Text(t)) if t == "cold" => Ok(Some(Pool::Cold)),
        Some(other) => Err(Problem::internal("factor postgres.pool", format!("`{other}` is neither warm nor cold"))),
    }
}

impl BufferPool {
    /// Making the tables has filled the pool.
    pub(crate) fn new(server: &Server) -> Self {
        BufferPool { warmed: 0, worked: server.generation(), state: None }
    }

    /// The pool holds what trials or a warm-up read. After a failure it may hold nothing: a crash of a
    /// backend empties it without a new postmaster.
    pub(crate) fn after_trial(&mut self, server: &Server, failed: bool) {
        self.worked = server.generation();
        if failed {
            self.warmed = 0;
        }
    }

    /// What is worth saying beside a trial.
    pub(crate) fn note(&self) -> Option<String> {
        let says = "postgres.pool = cold: shared buffers were empty, the page cache of the system was not";
        (self.state == Some(Pool::Cold)).then(|| says.to_owned())
    }

    /// Puts the pool into the state of an arm.
    pub(crate) fn set(
        &mut self,
        server: &Server,
        sizes: &BTreeSet<TableSize>,
        factors: &BTreeMap<String, Level>,
    ) -> Result<(), Problem> {
        let asked = asked(factors)?;
        match server {
            Server::Own(cluster) => {
                let state = asked.unwrap_or(Pool::Warm);
                self.state = Some(state);
                if state == Pool::Cold {
                    // Another factor may have restarted it just now; then it is cold already.
                    if cluster.generation() == self.worked {
                        cluster.restart()?;
                    }
                } else if self.warmed != cluster.generation() {
                    for size in sizes {
                        warm(&mut server.client(*size)?, true)?;
                    }
                    (self.warmed, self.worked) = (cluster.generation(), cluster.generation());
                }
            }
            Server::Existing(..) => {
                self.state = asked;
                match asked {
                    None => {}
                    Some(Pool::Cold) => {
                        return Err(Problem::host(
                            "factor postgres.pool = cold",
                            "it needs a restart, and holdup never restarts a server that it did not start",
                        )
                        .hint("leave --pg away: holdup then starts its own server"));
                    }
                    // Others may have pushed our pages out since the last trial.
                    Some(Pool::Warm) => {
                        for size in sizes {
                            warm(&mut server.client(*size)?, false)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads the tables of pgbench and their indexes into the pool.
fn warm(client: &mut Client, may_install: bool) -> Result<(), Problem> {
    let mut prewarm = sql::one(client, "SELECT count(*) FROM pg_extension WHERE extname = 'pg_prewarm'")? == "1";
    if !prewarm && may_install {
        // The server may have been installed without its contrib modules.
        prewarm = sql::rows(client, "CREATE EXTENSION IF NOT EXISTS pg_prewarm").is_ok();
    }
    if prewarm {
        let all = "SELECT pg_prewarm(c.oid::regclass) FROM pg_class c WHERE c.relkind IN ('r', 'i') \
                   AND c.relname LIKE 'pgbench\\_%'";
        return sql::rows(client, all).map(|_| ());
    }
    // Not by a sequential scan: one of a large table goes through a ring of 32 buffers and leaves the pool
    // as it was (src/backend/storage/buffer/freelist.c:GetAccessStrategy, 17.11).
    for statement in [
        "BEGIN",
        "SET LOCAL enable_seqscan = off",
        "SET LOCAL enable_bitmapscan = off",
        "SET LOCAL max_parallel_workers_per_gather = 0",
        "SELECT sum(abalance) FROM pgbench_accounts WHERE aid > 0",
        "SELECT sum(bbalance) FROM pgbench_branches WHERE bid > 0",
        "SELECT sum(tbalance) FROM pgbench_tellers WHERE tid > 0",
        "COMMIT",
    ] {
        sql::rows(client, statement)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_understood() {
        let check = |value: Option<&str>, expect: Option<Pool>| {
            let factors = value.map(|v| ("postgres.pool".to_owned(), Level::plain(v))).into_iter().collect();
            assert_eq!(asked(&factors), Ok(expect));
        };
        check(None, None);
        check(Some("warm"), Some(Pool::Warm));
        check(Some("cold"), Some(Pool::Cold));
        let wrong = [("postgres.pool".to_owned(), Level::plain("tepid"))].into();
        assert!(asked(&wrong).is_err());
    }
}
