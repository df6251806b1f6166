//! A server that exists already: `--pg URL`. Never started, stopped or restarted.

use super::control::refused;
use super::sql;
use holdup_host::Host;
use holdup_host::postgres::{PostgresControl, Setting, SettingContext};
use holdup_model::Problem;
use holdup_sql::Config;
use holdup_sql::hosts::Host as Address;
use std::collections::BTreeMap;

/// An existing server. Its password lives in this process and in the environment of its pgbench only.
pub struct External {
    config: Config,
    url: String,
    version_num: u32,
    postmaster: Option<u32>,
}

impl std::fmt::Debug for External {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("External").field("place", &sql::place(&self.config)).finish_non_exhaustive()
    }
}

impl External {
    /// Connects once, and finds out what is behind the URL (`postgresql://…` or `host=… user=…`).
    ///
    /// # Errors
    /// When the URL is wrong or the server refuses. The URL itself is never part of the error.
    pub fn connect(host: &Host, url: &str) -> Result<Self, Problem> {
        let mut config = Config::of_user(url).map_err(|e| {
            Problem::usage("--pg", e.to_string()).hint(
                "write it as postgresql://USER@HOST/DATABASE, \"host=/run/postgresql user=USER dbname=DATABASE\" or service=NAME",
            )
        })?;
        if config.get_hosts().is_empty() {
            return Err(Problem::usage("--pg", "the connection URL names no host")
                .hint("for a Unix socket write \"host=/run/postgresql user=USER dbname=DATABASE\", or set PGHOST or PGSERVICE"));
        }
        let url = config.to_conninfo();
        if config.get_application_name().is_none() {
            config.application_name("holdup");
        }
        let mut client = sql::connect(&config)
            .map_err(|p| p.hint("check the URL with psql, which reads it in the same way, and that the server runs"))?;
        let version = sql::one(&mut client, "SHOW server_version_num")?;
        let version_num =
            version.parse().map_err(|_| Problem::host("server_version_num", format!("`{version}` is not a number")))?;
        let backend = sql::one(&mut client, "SELECT pg_backend_pid()")?.parse().ok();
        let postmaster = is_local(&config).then_some(backend).flatten().and_then(|pid| postmaster_of(host, pid));
        Ok(External { config, url, version_num, postmaster })
    }

    /// How to connect to it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The settings that the server has, each with what a new value needs.
    ///
    /// # Errors
    /// When the server does not answer.
    pub fn settings(&self) -> Result<BTreeMap<String, SettingContext>, Problem> {
        let rows = self.query("SELECT name, context FROM pg_settings")?;
        let named = rows.into_iter().filter_map(|row| {
            let mut columns = row.into_iter().flatten();
            Some((columns.next()?, SettingContext::from_word(&columns.next()?)))
        });
        Ok(named.collect())
    }

    /// Host, port and database, without the password.
    pub fn place(&self) -> String {
        sql::place(&self.config)
    }
}

fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Address::Unix(_) => true,
        Address::Tcp(name) => name == "localhost" || name == "::1" || name.starts_with("127."),
    })
}

/// The parent of a backend, when both are processes of this host that are called postgres. A server in
/// another pid namespace or behind a tunnel has other numbers, which are no such processes here.
fn postmaster_of(host: &Host, backend: u32) -> Option<u32> {
    let status = host.read_text(&format!("/proc/{backend}/status")).ok()?;
    let parent: u32 = status.lines().find_map(|l| l.strip_prefix("PPid:"))?.trim().parse().ok()?;
    let called_postgres =
        |pid: u32| host.read_value(&format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.starts_with("postgres"));
    (called_postgres(backend) && called_postgres(parent)).then_some(parent)
}

impl PostgresControl for External {
    fn postmaster_pid(&self) -> Option<u32> {
        self.postmaster
    }

    fn connection_string(&self) -> String {
        self.url.clone()
    }

    fn version_num(&self) -> u32 {
        self.version_num
    }

    fn query(&self, text: &str) -> Result<Vec<Vec<Option<String>>>, Problem> {
        sql::rows(&mut sql::connect(&self.config)?, text)
    }

    fn setting(&self, name: &str) -> Result<Setting, Problem> {
        sql::setting(&mut sql::connect(&self.config)?, name)
    }

    fn can_restart(&self) -> bool {
        false
    }

    fn alter(&self, name: &str, value: Option<&str>) -> Result<(), Problem> {
        let before = self.setting(name)?;
        if before.altered.as_deref() == value {
            return Ok(());
        }
        if before.context != SettingContext::Reload {
            return Err(Problem::host(
                format!("PostgreSQL setting `{name}`"),
                "it needs a restart, and holdup never restarts a server that it did not start",
            )
            .hint("leave --pg away: holdup then starts its own server"));
        }
        self.query(&sql::alter_system(name, value)).map_err(|p| refused(name, value, p))?;
        let in_force = sql::reload(&self.config)
            .and_then(|()| sql::in_force(&mut sql::connect(&self.config)?, name, value).map(|_| ()));
        in_force.or_else(|problem| {
            self.query(&sql::alter_system(name, before.altered.as_deref()))?;
            sql::reload(&self.config)?;
            Err(refused(name, value, problem))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_urls_are_refused_without_being_shown() {
        for url in ["postgresql://u:geheim@", "host=/nowhere port=x password=geheim", "user=u password=geheim"] {
            let refused = External::connect(&Host::real(), url).unwrap_err().to_string();
            assert!(refused.starts_with("--pg: ") && !refused.contains("geheim"), "{refused}");
        }
    }
}
