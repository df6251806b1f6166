//! A database of PostgreSQL. The schema `holdup` has the tables, and views that people read (docs/store.md).

mod push;
mod read;
mod schema;

use crate::{Facts, Incoming, Pushed, Store};
use holdup_model::Problem;
use holdup_model::kept::{KeptFilter, KeptRun, KeptSeries};
use holdup_sql::hosts::Host;
use holdup_sql::{Client, Config, Error, SqlState, ToSql};
use std::time::Duration;

/// How long a statement may take: another push may hold the same run, and VACUUM may be at work.
const STATEMENT: Duration = Duration::from_secs(300);

/// The most bytes of an answer: tens of thousands of runs have some 100 MB.
const ANSWER_BYTES: u64 = 256 << 20;

/// How often a push is tried again whose server went away, and how long it waits in between.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(500);

pub(crate) struct PostgresStore {
    config: Config,
    client: Client,
    /// The version of the schema is known to be ours.
    is_checked: bool,
}

impl PostgresStore {
    pub(crate) fn connect(config: &Config) -> Result<Self, Problem> {
        let client = Client::connect(config)
            .map_err(|e| problem(config, &e))?
            .with_limit(STATEMENT)
            .with_most_bytes(ANSWER_BYTES);
        Ok(PostgresStore { config: config.clone(), client, is_checked: false })
    }

    fn problem(&self, e: &Error) -> Problem {
        problem(&self.config, e)
    }

    fn simple(&mut self, sql: &str) -> Result<(), Problem> {
        self.client.simple_query(sql).map(drop).map_err(|e| self.problem(&e))
    }

    fn rows(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<holdup_sql::Row>, Problem> {
        self.client.query_once(sql, values).map_err(|e| self.problem(&e))
    }

    /// True if the first row of an answer is.
    fn is_true(&mut self, sql: &str) -> Result<bool, Problem> {
        let rows = self.rows(sql, &[])?;
        let is_true = rows.first().map(|row| row.try_get(0)).transpose();
        Ok(is_true.map_err(|e| self.problem(&e.into()))?.unwrap_or(false))
    }

    /// Does something whole or not at all.
    fn transaction<T>(&mut self, work: impl FnOnce(&mut Client) -> Result<T, Error>) -> Result<T, Error> {
        self.client.simple_query("BEGIN")?;
        match work(&mut self.client) {
            Ok(done) => {
                self.client.simple_query("COMMIT")?;
                Ok(done)
            }
            Err(error) => {
                // A connection that is gone has rolled back.
                let _gone = self.client.simple_query("ROLLBACK");
                Err(error)
            }
        }
    }

    fn check(&mut self, to_write: bool) -> Result<(), Problem> {
        if !self.is_checked {
            schema::check(self, to_write)?;
            self.is_checked = true;
        }
        Ok(())
    }
}

/// Host, port and database, never the password.
fn place(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("store at {} port {port}, database {}", hosts.join(","), config.get_dbname().unwrap_or("(the user's)"))
}

fn problem(config: &Config, e: &Error) -> Problem {
    let problem = Problem::host(place(config), e.to_string());
    if matches!(e, Error::Rows | Error::Bytes(_)) {
        return problem.hint("ask for fewer runs: --last N, --since TIME, --plan NAME");
    }
    match e.code() {
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            let user = config.get_user().unwrap_or("USER");
            problem.hint(format!(
                "as the owner of the store: GRANT holdup_writer TO \"{user}\" to push, GRANT holdup_reader TO \"{user}\" to read"
            ))
        }
        Some(code) if *code == SqlState::DISK_FULL => {
            problem.hint("make room on the server, and push again: nothing of this run is kept")
        }
        Some(code) if *code == SqlState::INVALID_CATALOG_NAME => {
            problem.hint("make it first, as a user who may: CREATE DATABASE; then holdup store init")
        }
        Some(_) => problem,
        None => {
            problem.hint("check the connection with psql, which reads it in the same way, and that the server runs")
        }
    }
}

/// True if the server went away, and may come back.
fn is_lost(e: &Error) -> bool {
    match e {
        Error::Server(_) | Error::Noted(..) => match e.code() {
            Some(code) => {
                code.code().starts_with("57P")
                    || code.code().starts_with("08")
                    || *code == SqlState::TOO_MANY_CONNECTIONS
            }
            None => true,
        },
        Error::Abandoned | Error::Unreachable(_) => true,
        Error::Late(_) | Error::System(_) | Error::Config(_) | Error::Bytes(_) | Error::Rows => false,
    }
}

impl Store for PostgresStore {
    fn init(&mut self) -> Result<Vec<String>, Problem> {
        schema::init(self)
    }

    fn push(&mut self, bundle: &Incoming) -> Result<Pushed, Problem> {
        let mut tries = 0;
        loop {
            let pushed = match self.client.is_closed() {
                true => Client::connect(&self.config).map(|client| {
                    self.client = client.with_limit(STATEMENT).with_most_bytes(ANSWER_BYTES);
                    self.is_checked = false;
                }),
                false => Ok(()),
            };
            let lost = match pushed {
                Ok(()) => {
                    if let Err(p) = self.check(true) {
                        if !self.client.is_closed() || tries >= TRIES {
                            return Err(p);
                        }
                        tries += 1;
                        continue;
                    }
                    // A commit whose answer was lost is found by the run's id.
                    match self.transaction(|client| push::push(client, bundle)) {
                        Ok(pushed) => return Ok(pushed),
                        Err(e) => e,
                    }
                }
                Err(e) => e,
            };
            if !is_lost(&lost) || tries >= TRIES {
                return Err(self.problem(&lost));
            }
            tries += 1;
            std::thread::sleep(PAUSE);
        }
    }

    fn pull(&mut self, run_id: &str) -> Result<Vec<u8>, Problem> {
        self.check(false)?;
        read::pull(self, run_id)
    }

    fn list(&mut self, filter: &KeptFilter) -> Result<Vec<KeptRun>, Problem> {
        self.check(false)?;
        Ok(read::runs(self, filter)?.into_iter().map(|(_, run)| run).collect())
    }

    fn series(&mut self, filter: &KeptFilter, metric: Option<&str>) -> Result<KeptSeries, Problem> {
        self.check(false)?;
        read::series(self, filter, metric)
    }

    fn facts(&mut self, run_ids: &[String]) -> Result<Facts, Problem> {
        self.check(false)?;
        read::facts(self, run_ids)
    }

    fn prune(&mut self, before_unix_ns: i64, dry_run: bool) -> Result<Vec<KeptRun>, Problem> {
        self.check(!dry_run)?;
        let filter = KeptFilter { before_unix_ns: Some(before_unix_ns), ..KeptFilter::default() };
        let found = read::runs(self, &filter)?;
        if !dry_run {
            let rows: Vec<i64> = found.iter().map(|(row, _)| *row).collect();
            let done = self.transaction(|client| {
                client.execute("DELETE FROM holdup.run WHERE run = ANY($1)", &[&rows])?;
                client.execute(
                    "DELETE FROM holdup.environment e WHERE NOT EXISTS (SELECT FROM holdup.run r WHERE r.environment = e.environment)",
                    &[],
                )
            });
            done.map_err(|e| self.problem(&e))?;
        }
        Ok(found.into_iter().map(|(_, run)| run).collect())
    }
}
