//! The hold that knobs and collectors have on a PostgreSQL server.
//!
//! The server itself is found, started and stopped by `holdup-postgres`; this
//! trait stands below both so that neither needs the other.

use holdup_model::Problem;

/// What a setting needs before a new value is in force: `pg_settings.context`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingContext {
    /// Fixed when the server was built or the cluster made.
    Internal,
    /// A restart.
    Postmaster,
    /// A reload, or a new connection.
    Reload,
}

impl SettingContext {
    /// What a word of `pg_settings.context` means.
    pub fn from_word(context: &str) -> Self {
        match context {
            "internal" => SettingContext::Internal,
            "postmaster" => SettingContext::Postmaster,
            _ => SettingContext::Reload,
        }
    }
}

/// A setting as the server reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The value in force, as `SHOW` prints it (`128MB`).
    pub shown: String,
    /// The value that ALTER SYSTEM has left in postgresql.auto.conf, if any.
    pub altered: Option<String>,
    /// What a change needs.
    pub context: SettingContext,
}

/// A server that knobs and collectors may use.
pub trait PostgresControl: Send + Sync {
    /// The process id of the postmaster, when the server is on this host and may be looked at.
    fn postmaster_pid(&self) -> Option<u32>;

    /// A connection string for the `postgres` crate.
    fn connection_string(&self) -> String;

    /// The `server_version_num`, such as 150018.
    fn version_num(&self) -> u32;

    /// Runs one query on a new connection and gives the rows as text.
    ///
    /// # Errors
    /// When the server is gone or the query fails.
    fn query(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Problem>;

    /// The state of a setting.
    ///
    /// # Errors
    /// When there is no such setting or the server is gone.
    fn setting(&self, name: &str) -> Result<Setting, Problem>;

    /// True if a restart can be done by holdup.
    fn can_restart(&self) -> bool;

    /// True if holdup made the server and takes it away as a whole, so that nothing in it needs to be put back.
    /// Holdup may restart a server that it started, unless this says otherwise.
    fn is_temporary(&self) -> bool {
        self.can_restart()
    }

    /// Puts `value` in force with ALTER SYSTEM (`None`: ALTER SYSTEM RESET) and a reload or,
    /// where the setting needs it and `can_restart`, a restart. When the server refuses the
    /// value, the old one is in force again and the server runs when this returns.
    ///
    /// # Errors
    /// When the value is refused, or the server cannot be brought back.
    fn alter(&self, name: &str, value: Option<&str>) -> Result<(), Problem>;
}
