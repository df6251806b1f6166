//! What knobs and collectors may do with a cluster of holdup's own.

use super::cluster::Cluster;
use super::sql;
use holdup_host::postgres::{PostgresControl, Setting, SettingContext};
use holdup_model::Problem;

impl PostgresControl for Cluster {
    fn postmaster_pid(&self) -> Option<u32> {
        self.pid()
    }

    fn connection_string(&self) -> String {
        self.connection_string_for("postgres")
    }

    fn version_num(&self) -> u32 {
        self.version()
    }

    fn query(&self, text: &str) -> Result<Vec<Vec<Option<String>>>, Problem> {
        sql::rows(&mut sql::connect(&self.config("postgres"))?, text)
    }

    fn setting(&self, name: &str) -> Result<Setting, Problem> {
        sql::setting(&mut sql::connect(&self.config("postgres"))?, name)
    }

    fn can_restart(&self) -> bool {
        true
    }

    fn alter(&self, name: &str, value: Option<&str>) -> Result<(), Problem> {
        let before = self.setting(name)?;
        // A change is always brought to its end below, so an equal entry is in force.
        if before.altered.as_deref() == value {
            return Ok(());
        }
        if before.context == SettingContext::Internal {
            return Err(Problem::usage(
                format!("PostgreSQL setting `{name}`"),
                "it is fixed when the server is built or the cluster made",
            ));
        }
        let kept = self.read_auto_conf()?;
        self.query(&sql::alter_system(name, value)).map_err(|p| refused(name, value, p))?;
        self.put_in_force(name, value).or_else(|problem| {
            self.write_auto_conf(&kept)?;
            // The server may be down now, or half way: what the old file says must be in force.
            match self.start(None).and_then(|()| sql::reload(&self.config("postgres"))) {
                Ok(()) => Err(refused(name, value, problem)),
                Err(worse) => Err(Problem::host(
                    "PostgreSQL server",
                    format!("after `{name}` was refused ({}) it cannot be brought back: {}", problem.why, worse.why),
                )),
            }
        })
    }
}

impl Cluster {
    fn put_in_force(&self, name: &str, value: Option<&str>) -> Result<(), Problem> {
        let config = self.config("postgres");
        sql::reload(&config)?;
        if sql::in_force(&mut sql::connect(&config)?, name, value)? {
            self.restart()?;
            if sql::in_force(&mut sql::connect(&config)?, name, value)? {
                return Err(Problem::host(
                    format!("PostgreSQL setting `{name}`"),
                    "it is not in force after a restart",
                ));
            }
        }
        Ok(())
    }
}

pub(super) fn refused(name: &str, value: Option<&str>, problem: Problem) -> Problem {
    let shown = value.map_or_else(|| "its default".to_owned(), |v| format!("`{v}`"));
    let refused = Problem::host(format!("PostgreSQL setting `{name}` to {shown}"), problem.why);
    match problem.hint {
        Some(hint) => refused.hint(hint),
        None => refused,
    }
}
