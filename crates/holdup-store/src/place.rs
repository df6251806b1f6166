//! What a user calls a store.

use holdup_model::Problem;
use holdup_sql::Config;
use std::path::PathBuf;

/// The environment variable that names the store.
pub const VARIABLE: &str = "HOLDUP_STORE";

/// The keys that a connection may begin with.
const KEYS: [&str; 12] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "service",
    "sslmode",
    "sslrootcert",
    "passfile",
    "options",
    "application_name",
];

/// Where a store is.
#[derive(Debug, Clone)]
pub enum Place {
    /// A folder of bundles.
    Folder(PathBuf),
    /// A database.
    Postgres(Box<Config>),
}

impl Place {
    /// A connection (`postgresql://…`, or words such as `service=lab`), or a folder.
    ///
    /// # Errors
    /// When it is a connection and wrong. Its password is not in the error.
    pub fn of(text: &str) -> Result<Self, Problem> {
        let is_url = text.starts_with("postgres://") || text.starts_with("postgresql://");
        let key = text.trim_start().split_once('=').map(|(key, _)| key.trim_end());
        if !is_url && key.is_none_or(|key| !KEYS.contains(&key)) {
            return Ok(Place::Folder(PathBuf::from(text)));
        }
        let mut config = Config::of_user(text).map_err(|e| {
            Problem::usage("--store", e.to_string())
                .hint("write postgresql://USER@HOST/DATABASE, service=NAME, or the path of a folder")
        })?;
        if config.get_hosts().is_empty() {
            return Err(Problem::usage("--store", "the connection names no host").hint(
                "for a Unix socket write postgresql:///DATABASE?host=/run/postgresql, or set PGHOST or PGSERVICE",
            ));
        }
        config.application_name("holdup store");
        Ok(Place::Postgres(Box::new(config)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_folders_are_kept_apart() {
        let is_folder = |text: &str| matches!(Place::of(text).expect("a place"), Place::Folder(_));
        for folder in ["results", "./a=b", "/srv/results"] {
            assert!(is_folder(folder), "{folder}");
        }
        for connection in ["postgresql://u@h/d", "postgres://h/d", "host=/run/pg dbname=d"] {
            assert!(!is_folder(connection), "{connection}");
        }
        let refused = Place::of("postgresql://u:geheim@h/d?sslmode=x").expect_err("no mode").to_string();
        assert!(refused.contains("sslmode") && !refused.contains("geheim"), "{refused}");
    }
}
