//! How to reach a server: what `tokio-postgres` knows, and how TLS is used.

use crate::conninfo::{self, Pairs};
use crate::surroundings::Surroundings;
use crate::tls::{Mode, Tls};
use crate::{Error, tls};
use std::ops::{Deref, DerefMut};
use std::str::FromStr;
use tokio_postgres::config::{Host, SslMode};

/// A way to a server. What `tokio-postgres` has of it is read and set as on its own type.
#[derive(Clone)]
pub struct Config {
    inner: tokio_postgres::Config,
    pub(crate) tls: Tls,
    /// What was left out and why.
    pub(crate) notes: Vec<String>,
    /// All of it as a connection string; empty where it was made by calls.
    pairs: Pairs,
}

impl std::fmt::Debug for Config {
    /// Without the password, which `tokio-postgres` leaves out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("inner", &self.inner).field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::new()
    }
}

impl Deref for Config {
    type Target = tokio_postgres::Config;

    fn deref(&self) -> &Self::Target {
        &self.inner
    }
}

impl DerefMut for Config {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.inner
    }
}

impl FromStr for Config {
    type Err = Error;

    /// A connection string, exactly as it is: nothing is taken from the environment.
    fn from_str(text: &str) -> Result<Self, Error> {
        Config::of(conninfo::parse(text)?, Vec::new())
    }
}

impl Config {
    /// An empty one, without TLS.
    pub fn new() -> Self {
        let mut inner = tokio_postgres::Config::new();
        inner.ssl_mode(SslMode::Disable);
        Config { inner, tls: Tls::default(), notes: Vec::new(), pairs: Pairs::new() }
    }

    /// What a user wrote, completed as libpq does: from a service (`service=`, `PGSERVICE`), the environment (`PGHOST` and so on), the
    /// password file, and the certificates in `~/.postgresql`.
    ///
    /// # Errors
    /// When it is no connection string, or asks for what is not there. Nothing of it is in the error but names of files and services.
    pub fn of_user(text: &str) -> Result<Self, Error> {
        Config::completed(text, &Surroundings::here())
    }

    pub(crate) fn completed(text: &str, around: &Surroundings) -> Result<Self, Error> {
        let mut pairs = conninfo::parse(text)?;
        let notes = conninfo::complete(&mut pairs, around)?;
        tls::complete(&mut pairs, around)?;
        Config::of(pairs, notes)
    }

    fn of(pairs: Pairs, notes: Vec<String>) -> Result<Self, Error> {
        let mut rest = pairs.clone();
        let tls = Tls::take(&mut rest)?;
        let mut inner = tokio_postgres::Config::from_str(&conninfo::to_string(&rest)).map_err(Error::Server)?;
        let is_local = is_local(&inner);
        // libpq uses no TLS on a Unix socket, whichever mode is asked for.
        inner.ssl_mode(match tls.mode {
            _ if is_local => SslMode::Disable,
            Mode::Disable | Mode::Allow => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        Ok(Config { inner, tls, notes, pairs })
    }

    /// True if the server is on Unix sockets only.
    pub(crate) fn is_local(&self) -> bool {
        is_local(&self.inner)
    }

    /// All of it as a connection string, the password included: another holdup reads the same from it, in any environment.
    pub fn to_conninfo(&self) -> String {
        conninfo::to_string(&self.pairs)
    }

    /// The variables with which libpq uses TLS in the same way.
    pub fn tls_environment(&self) -> Vec<(&'static str, String)> {
        self.tls.environment()
    }
}

fn is_local(config: &tokio_postgres::Config) -> bool {
    !config.get_hosts().is_empty() && config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)))
}
