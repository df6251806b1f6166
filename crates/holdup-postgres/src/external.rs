//! A server that exists already: `--pg URL`. Never started, stopped or restarted.

use super::control::refused;
use super::sql;
use holdup_host::Host;
use holdup_host::postgres::{PostgresControl, Setting, SettingContext};
use holdup_model::Problem;
use holdup_sql::Config;
use holdup_sql::config::Host as Address;
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
        let mut config: Config = url.parse().map_err(|e| {
            Problem::usage("--pg", format!("this is not a connection URL: {}", holdup_sql::Error::from(e))).hint(
                "write it as postgresql://USER@HOST/DATABASE or \"host=/run/postgresql user=USER dbname=DATABASE\"",
            )
        })?;
        let mut url = url.to_owned();
        if config.get_hosts().is_empty() {
            return Err(Problem::usage("--pg", "the connection URL names no host")
                .hint("for a Unix socket write \"host=/run/postgresql user=USER dbname=DATABASE\""));
        }
        if config.get_application_name().is_none() {
            config.application_name("holdup");
        }
        if let (None, Ok(secret)) = (config.get_password(), std::env::var("PGPASSWORD")) {
            config.password(&secret);
            url = with_password(&url, &secret);
        }
        let mut client = sql::connect(&config)
            .map_err(|p| p.hint("holdup connects without TLS; check the URL with psql, and that the server runs"))?;
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

/// The URL with a password that stood in PGPASSWORD, for the `postgres` crate, which does not look there.
fn with_password(url: &str, secret: &str) -> String {
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let encoded: String = secret.bytes().map(|b| format!("%{b:02X}")).collect();
        let mark = if url.contains('?') { '&' } else { '?' };
        return format!("{url}{mark}password={encoded}");
    }
    format!("{url} password={}", sql::conninfo(secret))
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

    #[test]
    fn a_password_of_the_environment_survives_both_forms() {
        for url in ["postgresql://u@h/d", "postgresql://u@h/d?connect_timeout=3", "host=h user=u dbname=d"] {
            let config: Config = with_password(url, "a b'%\\ä").parse().unwrap();
            assert_eq!(config.get_password(), Some("a b'%\\ä".as_bytes()), "{url}");
            assert_eq!(config.get_dbname(), Some("d"));
        }
    }
}
