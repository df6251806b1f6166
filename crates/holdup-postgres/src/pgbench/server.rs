//! The server that pgbench loads: one of our own, or one that exists.

use super::parameters::TableSize;
use crate::child::clean_command;
use crate::{Binaries, Cluster, External, RunAs, sql};
use holdup_host::postgres::PostgresControl;
use holdup_model::Problem;
use holdup_sql::hosts::Host as Address;
use holdup_sql::{Client, Config};
use std::ffi::OsString;
use std::process::Command;

/// Either.
pub(crate) enum Server {
    /// A temporary one.
    Own(Cluster),
    /// `--pg URL`, with the programs for the client side.
    Existing(External, Binaries),
}

impl Server {
    pub(crate) fn control(&self) -> &dyn PostgresControl {
        match self {
            Server::Own(cluster) => cluster,
            Server::Existing(external, _) => external,
        }
    }

    pub(crate) fn bin(&self) -> &Binaries {
        match self {
            Server::Own(cluster) => cluster.bin(),
            Server::Existing(_, bin) => bin,
        }
    }

    /// Whom pgbench runs as: as the server where that is ours, else as we do, which is whom an existing
    /// server may know (`peer` authentication).
    pub(crate) fn user(&self) -> Option<&RunAs> {
        match self {
            Server::Own(cluster) => cluster.user(),
            Server::Existing(..) => None,
        }
    }

    /// How often the server was started, as far as it is known.
    pub(crate) fn generation(&self) -> u64 {
        match self {
            Server::Own(cluster) => cluster.generation(),
            Server::Existing(..) => 0,
        }
    }

    /// How to connect to where the tables are.
    pub(crate) fn config(&self, tables: TableSize) -> Config {
        match self {
            Server::Own(cluster) => cluster.config(&tables.database()),
            Server::Existing(external, _) => external.config().clone(),
        }
    }

    pub(crate) fn client(&self, tables: TableSize) -> Result<Client, Problem> {
        sql::connect_patiently(&self.config(tables))
    }

    /// pgbench, with the way to the tables in its environment: nothing of it shows in a list of processes.
    pub(crate) fn pgbench(&self, tables: TableSize, application: &str) -> Command {
        let mut command = clean_command(&self.bin().program("pgbench"));
        command.envs(environment(&self.config(tables)));
        command.env("PGAPPNAME", application);
        command
    }
}

/// The environment variables of libpq that say the same as a configuration.
fn environment(config: &Config) -> Vec<(&'static str, OsString)> {
    let hosts: Vec<OsString> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Address::Tcp(name) => name.into(),
            Address::Unix(path) => path.clone().into_os_string(),
        })
        .collect();
    let ports: Vec<String> = config.get_ports().iter().map(u16::to_string).collect();
    let mut all = vec![("PGHOST", hosts.join(&OsString::from(",")))];
    let mut put = |key, value: Option<OsString>| all.extend(value.map(|v| (key, v)));
    put("PGPORT", (!ports.is_empty()).then(|| ports.join(",").into()));
    put("PGUSER", config.get_user().map(Into::into));
    put("PGDATABASE", config.get_dbname().map(Into::into));
    put("PGOPTIONS", config.get_options().map(Into::into));
    put("PGCONNECT_TIMEOUT", config.get_connect_timeout().map(|t| t.as_secs().to_string().into()));
    config.tls_environment().into_iter().for_each(|(key, value)| put(key, Some(value.into())));
    let password = config.get_password().map(|p| {
        use std::os::unix::ffi::OsStringExt as _;
        OsString::from_vec(p.to_vec())
    });
    put("PGPASSWORD", password);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_what_the_url_says() {
        let check = |url: &str, expect: &[(&str, &str)]| {
            let got = environment(&url.parse().unwrap());
            let got: Vec<(&str, &str)> = got.iter().map(|(k, v)| (*k, v.to_str().unwrap())).collect();
            assert_eq!(got, expect, "{url}");
        };
        check(
            "postgresql://u:p%20w@h:5433/d?sslmode=disable",
            &[
                ("PGHOST", "h"),
                ("PGPORT", "5433"),
                ("PGUSER", "u"),
                ("PGDATABASE", "d"),
                ("PGSSLMODE", "disable"),
                ("PGPASSWORD", "p w"),
            ],
        );
        check(
            "host=/run/postgresql,b user=u sslrootcert=/r sslmode=verify-ca",
            &[("PGHOST", "/run/postgresql,b"), ("PGUSER", "u"), ("PGSSLMODE", "verify-ca"), ("PGSSLROOTCERT", "/r")],
        );
    }
}
