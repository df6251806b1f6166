//! The tables of pgbench: made in a cluster of our own; on an existing server used as they are, or made
//! and removed again.

use super::parameters::{Script, Settings, TableSize};
use super::server::Server;
use crate::child::{ChildOptions, Guarded, last_lines, spawn};
use crate::sql;
use holdup_load::Cancel;
use holdup_model::{Problem, ProblemKind};
use holdup_sql::{Client, Config};
use std::collections::BTreeSet;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

/// The tables, in the order in which pgbench drops them.
const TABLES: [&str; 4] = ["pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"];

/// Said of tables on an existing server, so that those that a killed run left are known as ours.
const COMMENT: &str = "made by holdup, may be removed";

/// What was made on an existing server. Removed at the latest when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct CreatedTables {
    at: Option<Config>,
}

/// Makes all tables that the trials need.
pub(crate) fn prepare(
    server: &Server,
    uses: &[Settings],
    cancel: &Cancel,
    step: &mut dyn FnMut(&str),
) -> Result<CreatedTables, Problem> {
    let sizes: BTreeSet<TableSize> = uses.iter().map(|s| s.tables).collect();
    match server {
        Server::Own(cluster) => {
            for size in sizes {
                step(&format!("making the tables of pgbench, scale {}, fill factor {}", size.scale, size.fillfactor));
                let mut client = sql::connect_patiently(&cluster.config("postgres"))?;
                sql::rows(&mut client, &format!("CREATE DATABASE {}", sql::identifier(&size.database())))?;
                initialise(server, size, cancel)?;
            }
            // What filling them left dirty is written now and not inside of the first trials.
            sql::rows(&mut sql::connect_patiently(&cluster.config("postgres"))?, "CHECKPOINT")?;
            Ok(CreatedTables::default())
        }
        Server::Existing(..) => {
            // A user's script brings its own tables.
            let sizes: BTreeSet<TableSize> =
                uses.iter().filter(|s| matches!(s.script, Script::Builtin(_))).map(|s| s.tables).collect();
            existing(server, &sizes, cancel, step)
        }
    }
}

fn existing(
    server: &Server,
    sizes: &BTreeSet<TableSize>,
    cancel: &Cancel,
    step: &mut dyn FnMut(&str),
) -> Result<CreatedTables, Problem> {
    let mut sizes = sizes.iter();
    let Some(&size) = sizes.next() else { return Ok(CreatedTables::default()) };
    if let Some(other) = sizes.next() {
        return Err(Problem::usage(
            format!("pgbench scales {} and {}", size.scale, other.scale),
            "on an existing server (--pg) all trials use the same tables, so scale and fillfactor must be one value",
        )
        .hint("leave --pg away: holdup then starts its own server"));
    }
    let mut client = server.client(size)?;
    match found(&mut client)? {
        TableState::Nothing => {
            step(&format!("making the tables of pgbench on the existing server, scale {}", size.scale));
            let made = CreatedTables::on(server, size);
            initialise(server, size, cancel).and_then(|()| mark(&mut client))?;
            Ok(made)
        }
        TableState::Whole { scale, fillfactor, ours }
            if (scale, fillfactor) == (size.scale.into(), size.fillfactor.into()) =>
        {
            Ok(if ours { CreatedTables::on(server, size) } else { CreatedTables::default() })
        }
        TableState::Whole { ours: true, .. } => {
            CreatedTables::on(server, size).remove()?;
            existing(server, &BTreeSet::from([size]), cancel, step)
        }
        TableState::Whole { scale, fillfactor, .. } => Err(Problem::host(
            "tables of pgbench",
            format!(
                "the existing server has them with scale {scale} and fill factor {fillfactor}, the plan wants scale {} \
                 and fill factor {}",
                size.scale, size.fillfactor
            ),
        )
        .hint(format!("set scale={scale} and fillfactor={fillfactor}, or name another database in the URL"))),
        TableState::Part(names) => Err(Problem::host(
            "tables of pgbench",
            format!(
                "the existing server has only {}, and holdup removes no tables that it did not make",
                names.join(", ")
            ),
        )
        .hint("name another database in the URL")),
    }
}

/// What is there on an existing server.
#[derive(Debug, PartialEq)]
enum TableState {
    Nothing,
    Part(Vec<String>),
    Whole { scale: i64, fillfactor: i64, ours: bool },
}

fn found(client: &mut Client) -> Result<TableState, Problem> {
    let mut names = Vec::new();
    for table in TABLES {
        if sql::one(client, &format!("SELECT to_regclass({}) IS NOT NULL", sql::literal(table)))? == "t" {
            names.push(table.to_owned());
        }
    }
    match names.len() {
        0 => return Ok(TableState::Nothing),
        n if n < TABLES.len() => return Ok(TableState::Part(names)),
        _ => {}
    }
    let number = |client: &mut Client, text: &str| -> Result<i64, Problem> {
        let value = sql::one(client, text)?;
        value.parse().map_err(|_| Problem::host("tables of pgbench", format!("`{text}` gave `{value}`")))
    };
    let scale = number(client, "SELECT count(*) FROM pgbench_branches")?;
    let fillfactor = number(
        client,
        "SELECT coalesce((SELECT option_value FROM pg_class c, pg_options_to_table(c.reloptions) \
         WHERE c.oid = 'pgbench_accounts'::regclass AND option_name = 'fillfactor'), '100')",
    )?;
    let comment = "SELECT coalesce(obj_description('pgbench_accounts'::regclass, 'pg_class'), '')";
    let ours = sql::one(client, comment)? == COMMENT;
    Ok(TableState::Whole { scale, fillfactor, ours })
}

fn mark(client: &mut Client) -> Result<(), Problem> {
    sql::rows(client, &format!("COMMENT ON TABLE pgbench_accounts IS {}", sql::literal(COMMENT))).map(|_| ())
}

impl CreatedTables {
    fn on(server: &Server, size: TableSize) -> Self {
        CreatedTables { at: Some(server.config(size)) }
    }

    /// Removes what was made.
    pub(crate) fn remove(mut self) -> Result<(), Problem> {
        self.remove_once()
    }

    fn remove_once(&mut self) -> Result<(), Problem> {
        let Some(config) = self.at.take() else { return Ok(()) };
        let drop = format!("DROP TABLE IF EXISTS {}", TABLES.join(", "));
        sql::connect_patiently(&config).and_then(|mut client| sql::rows(&mut client, &drop)).map(|_| ()).map_err(|p| {
            Problem::new(ProblemKind::NotRestored, "tables of pgbench on the existing server", p.why)
                .hint(format!("remove them by hand: {drop}"))
        })
    }
}

impl Drop for CreatedTables {
    fn drop(&mut self) {
        // Errors have no receiver in a destructor; the comment on the tables says which program made them.
        let _left = self.remove_once();
    }
}

fn initialise(server: &Server, size: TableSize, cancel: &Cancel) -> Result<(), Problem> {
    let what = "pgbench -i";
    let failed = |e: std::io::Error| Problem::host(what, e.to_string());
    let mut command = server.pgbench(size, "holdup-init");
    command.args(["-i", "-q"]);
    command.arg(format!("--scale={}", size.scale)).arg(format!("--fillfactor={}", size.fillfactor));
    if let Server::Own(cluster) = server {
        return cluster.run(what, command, cancel);
    }
    let mut errors = tempfile::tempfile().map_err(failed)?;
    command.stdout(Stdio::null()).stderr(errors.try_clone().map_err(failed)?);
    let options = ChildOptions { user: None, death_signal: libc::SIGKILL, many_files: false };
    let mut child = Guarded(spawn(command, &options).map_err(failed)?);
    let status = child.wait(what, Duration::MAX, Some(cancel))?;
    if status.is_some_and(|s| s.success()) {
        return Ok(());
    }
    let mut said = Vec::new();
    std::io::Seek::rewind(&mut errors).and_then(|()| errors.read_to_end(&mut said)).map_err(failed)?;
    Err(Problem::host(what, last_lines(&String::from_utf8_lossy(&said), 4)))
}

/// What pgbench itself does before a run without `-n`: the tables that every transaction writes to start
/// each trial small. Never on an existing server.
pub(crate) fn tidy(server: &Server, sizes: &BTreeSet<TableSize>) -> Result<(), Problem> {
    if matches!(server, Server::Existing(..)) {
        return Ok(());
    }
    for size in sizes {
        let mut client = server.client(*size)?;
        for sql in ["TRUNCATE pgbench_history", "VACUUM pgbench_branches", "VACUUM pgbench_tellers"] {
            sql::rows(&mut client, sql)?;
        }
    }
    Ok(())
}
