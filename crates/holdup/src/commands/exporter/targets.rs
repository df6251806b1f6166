//! What an exporter watches, and what each is called.

use super::Args;
use crate::cli::{Watched, is_connection};
use crate::design::collectors;
use holdup_model::Problem;
use holdup_sql::Config;
use holdup_watch::default_collectors;

/// Collectors that cost most of all and of which no metric is made. Wait events are in the account.
const TOO_DEAR: [&str; 2] = ["cpu-profile", "wait-events"];
/// The one that names queries in a bundle: for flights alone.
const OF_FLIGHTS: &str = "queries";

/// One thing to be watched.
pub(super) struct Target {
    pub(super) how: Watched,
    /// The value of the label `watched`.
    pub(super) name: String,
    pub(super) collectors: Vec<String>,
}

/// All that the command line names.
///
/// # Errors
/// When it names nothing, or the same twice.
pub(super) fn of(args: &Args) -> Result<Vec<Target>, Problem> {
    let none = Watched::default;
    let pg = args.pg.iter().map(|server| (server_name(server), Watched { pg: Some(server.clone()), ..none() }));
    let comm = args.comm.iter().map(|name| (format!("comm:{name}"), Watched { comm: Some(name.clone()), ..none() }));
    let cgroup = args.cgroup.iter().map(|at| (format!("cgroup:{at}"), Watched { cgroup: Some(at.clone()), ..none() }));
    let pid = args.pid.iter().map(|pid| (format!("pid:{pid}"), Watched { pid: vec![*pid], ..none() }));
    let mut all: Vec<Target> = Vec::new();
    for (name, how) in pg.chain(comm).chain(cgroup).chain(pid) {
        if all.iter().any(|known| known.name == name) {
            return Err(Problem::usage(name, "it is named twice"));
        }
        let collectors = of_target(args, &how);
        all.push(Target { how, name, collectors });
    }
    if all.is_empty() {
        let why = "nothing is named that is to be watched";
        return Err(Problem::usage("holdup exporter", why).hint("--pg auto, --comm NAME, --cgroup PATH or --pid PID"));
    }
    Ok(all)
}

fn of_target(args: &Args, how: &Watched) -> Vec<String> {
    if let Some(given) = &args.collect {
        return collectors(given);
    }
    let mut ids = default_collectors(how.has_connection());
    ids.retain(|id| !TOO_DEAR.contains(&id.as_str()) && (args.flights.is_some() || id != OF_FLIGHTS));
    ids
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
