//! What an exporter watches, and what each is called.

use super::Args;
use crate::design::collectors;
use holdup_host::Host;
use holdup_model::Problem;
use holdup_sql::Config;
use holdup_watch::{Watching, default_collectors};

/// Collectors that cost most of all and of which no metric is made. Wait events are in the account.
const TOO_DEAR: [&str; 2] = ["cpu-profile", "wait-events"];
/// The one that names queries in a bundle: for flights alone.
const OF_FLIGHTS: &str = "queries";

/// How one thing is found.
enum How {
    Postgres(String),
    Comm(String),
    Cgroup(String),
    Pid(u32),
}

/// One thing to be watched.
pub(super) struct Watched {
    how: How,
    /// The value of the label `watched`.
    pub(super) name: String,
    pub(super) collectors: Vec<String>,
}

impl Watched {
    /// Finds it, with the connection to a PostgreSQL server where there is one.
    ///
    /// # Errors
    /// When it is not there.
    pub(super) fn find(&self, host: &Host) -> Result<(Watching, Option<String>), Problem> {
        match &self.how {
            How::Postgres(server) => Watching::postgres(host, server),
            How::Comm(name) => Ok((Watching::comm(host, name)?, None)),
            How::Cgroup(path) => Ok((Watching::cgroup(host, path)?, None)),
            How::Pid(pid) => Ok((Watching::pids(host, &[*pid])?, None)),
        }
    }
}

/// All that the command line names.
///
/// # Errors
/// When it names nothing, or the same twice.
pub(super) fn of(args: &Args) -> Result<Vec<Watched>, Problem> {
    let named = args
        .pg
        .iter()
        .map(|server| (server_name(server), How::Postgres(server.clone())))
        .chain(args.comm.iter().map(|name| (format!("comm:{name}"), How::Comm(name.clone()))))
        .chain(args.cgroup.iter().map(|path| (format!("cgroup:{path}"), How::Cgroup(path.clone()))))
        .chain(args.pid.iter().map(|pid| (format!("pid:{pid}"), How::Pid(*pid))));
    let mut all: Vec<Watched> = Vec::new();
    for (name, how) in named {
        if all.iter().any(|known| known.name == name) {
            return Err(Problem::usage(name, "it is named twice"));
        }
        let collectors = of_target(args, &how);
        all.push(Watched { how, name, collectors });
    }
    if all.is_empty() {
        let why = "nothing is named that is to be watched";
        return Err(Problem::usage("holdup exporter", why).hint("--pg auto, --comm NAME, --cgroup PATH or --pid PID"));
    }
    Ok(all)
}

fn of_target(args: &Args, how: &How) -> Vec<String> {
    if let Some(given) = &args.collect {
        return collectors(given);
    }
    let has_connection = matches!(how, How::Postgres(server) if is_connection(server));
    let mut ids = default_collectors(has_connection);
    ids.retain(|id| !TOO_DEAR.contains(&id.as_str()) && (args.flights.is_some() || id != OF_FLIGHTS));
    ids
}

/// Whether `--pg` names a way to connect, and not a process.
fn is_connection(server: &str) -> bool {
    server != "auto" && server.parse::<u32>().is_err()
}

/// `postgres` for the only one, `postgres:PID`, `postgres:HOST:PORT`; never a password.
fn server_name(server: &str) -> String {
    if server == "auto" {
        return "postgres".to_owned();
    }
    if !is_connection(server) {
        return format!("postgres:{server}");
    }
    match Config::of_user(server) {
        Ok(config) => format!("postgres:{}", place(&config)),
        // The error comes when it connects.
        Err(_) => "postgres:url".to_owned(),
    }
}

fn place(config: &Config) -> String {
    use holdup_sql::hosts::Host as At;
    let host = config.get_hosts().first().map(|host| match host {
        At::Tcp(name) => name.clone(),
        At::Unix(folder) => folder.display().to_string(),
    });
    let port = config.get_ports().first().copied().unwrap_or(5432);
    format!("{}:{port}", host.unwrap_or_else(|| "localhost".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_where_a_server_is_and_no_secret() {
        for (given, name) in [
            ("auto", "postgres"),
            ("4711", "postgres:4711"),
            ("postgresql://u:secret@db1:5433/x", "postgres:db1:5433"),
            ("host=/run/postgresql password=secret", "postgres:/run/postgresql:5432"),
        ] {
            assert_eq!(server_name(given), name);
        }
    }
}
