//! Connections to PostgreSQL on which nothing waits without end.
//!
//! Start at [`Client`]. A server that is stopped, or a program that accepts connections and says nothing, must not keep
//! holdup from putting a host back: `connect_timeout` of libpq ends where the server has accepted the connection, and
//! `statement_timeout` is the server's own. So the whole of connecting and each statement have a deadline here; after one
//! has passed, the connection is of no more use.
//!
//! [`Config::of_user`] reads what a user wrote as libpq does, with services, the environment, the password file and TLS
//! ([`Config::from_str`](std::str::FromStr) reads a string exactly as it is). A server whose name has several addresses is tried at each.
//!
//! Not here: what is asked (`holdup-postgres`, `holdup-evidence`, `holdup-store`).

mod config;
mod conninfo;
mod passfile;
mod service;
mod surroundings;
mod tls;

pub use config::Config;
use std::fmt::{self, Write as _};
use std::future::Future;
use std::time::Duration;
use tls::Mode;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::NoTls;
use tokio_postgres::config::SslMode;
pub use tokio_postgres::error::SqlState;
use tokio_postgres::error::{DbError, Severity};
pub use tokio_postgres::types::ToSql;
pub use tokio_postgres::{Row, SimpleQueryMessage, Statement};

/// The hosts and modes of a [`Config`].
pub mod hosts {
    pub use tokio_postgres::config::{Host, SslMode};
}

/// How long connecting may take where nothing else is said, the answers of the server included.
pub const CONNECT: Duration = Duration::from_secs(10);
/// How long a statement may take where nothing else is said.
pub const STATEMENT: Duration = Duration::from_secs(30);
/// How long a statement may take that goes through tables: `pg_prewarm`, VACUUM, CHECKPOINT.
pub const LONG_STATEMENT: Duration = Duration::from_secs(3600);
/// How long the farewell to a server may take.
const FAREWELL: Duration = Duration::from_millis(200);

/// Why a connection or a statement failed.
#[derive(Debug)]
pub enum Error {
    /// What the server or the way to it said.
    Server(tokio_postgres::Error),
    /// It took longer than this.
    Late(Duration),
    /// The connection is of no use since an earlier statement took too long.
    Abandoned,
    /// No runtime could be made.
    System(std::io::Error),
    /// The connection string, or a file that it names, is wrong.
    Config(String),
    /// Another error, with what was left out of the connection.
    Noted(Box<Error>, String),
}

impl Error {
    /// The code that the server gave (PostgreSQL's appendix A).
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Error::Server(error) => error.code(),
            Error::Noted(error, _) => error.code(),
            Error::Late(_) | Error::Abandoned | Error::System(_) | Error::Config(_) => None,
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Error::Server(error)
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    /// One line, without anything of the connection string.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Server(error) => f.write_str(&in_words(error)),
            Error::Late(limit) => write!(f, "no answer within {} s", limit.as_secs_f64()),
            Error::Abandoned => f.write_str("the connection ended with an earlier statement"),
            Error::System(error) => error.fmt(f),
            Error::Config(why) => f.write_str(why),
            Error::Noted(error, note) => write!(f, "{error} ({note})"),
        }
    }
}

/// What the server says with detail and hint, or the error with its causes.
fn in_words(error: &tokio_postgres::Error) -> String {
    let Some(db) = error.as_db_error() else {
        let mut text = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(inner) = cause {
            if !text.contains(&inner.to_string()) {
                let _infallible = write!(text, ": {inner}");
            }
            cause = inner.source();
        }
        return text;
    };
    let mut text = format!("{}: {}", db.severity(), db.message());
    for more in [db.detail(), db.hint()].into_iter().flatten() {
        let _infallible = write!(text, " ({more})");
    }
    text
}

/// A connection. Dropping it says farewell to the server, without waiting for an answer.
pub struct Client {
    runtime: Runtime,
    /// `None` once a deadline has passed, or the server has ended the session.
    client: Option<tokio_postgres::Client>,
    connection: JoinHandle<()>,
    limit: Duration,
}

impl Client {
    /// Connects within [`CONNECT`]; each statement may take [`STATEMENT`].
    ///
    /// # Errors
    /// When the server refuses, or does not answer in time.
    pub fn connect(config: &Config) -> Result<Self, Error> {
        Self::connect_within(config, CONNECT)
    }

    /// The same with another deadline.
    pub fn connect_within(config: &Config, limit: Duration) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::System)?;
        let connected = runtime.block_on(async { timeout(limit, open(config)).await });
        let (client, connection) = match connected.map_err(|_| Error::Late(limit)).flatten() {
            Ok(connected) => connected,
            Err(error) if config.notes.is_empty() => return Err(error),
            Err(error) => return Err(Error::Noted(Box::new(error), config.notes.join("; "))),
        };
        Ok(Client { runtime, client: Some(client), connection, limit: STATEMENT })
    }

    /// The same connection with another deadline for each statement.
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// True if no statement can be sent any more.
    pub fn is_closed(&self) -> bool {
        self.client.as_ref().is_none_or(tokio_postgres::Client::is_closed)
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// When the server refuses, or does not answer in time; so for the others.
    pub fn prepare(&mut self, text: &str) -> Result<Statement, Error> {
        self.within(async |client| client.prepare(text).await)
    }

    /// The rows of a prepared statement.
    pub fn query(&mut self, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.within(async |client| client.query(statement, values).await)
    }

    /// The rows of a statement.
    pub fn query_once(&mut self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.within(async |client| client.query(text, values).await)
    }

    /// Executes a statement; returns how many rows it changed.
    pub fn execute(&mut self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        self.within(async |client| client.execute(text, values).await)
    }

    /// The only row of a statement.
    ///
    /// # Errors
    /// As for [`Client::prepare`], and when there is not one row.
    pub fn query_one(&mut self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Row, Error> {
        self.within(async |client| client.query_one(text, values).await)
    }

    /// The rows of statements, as text.
    pub fn simple_query(&mut self, text: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        self.within(async |client| client.simple_query(text).await)
    }

    fn within<T, F>(&mut self, ask: F) -> Result<T, Error>
    where
        F: for<'a> AsyncFnOnce(&'a tokio_postgres::Client) -> Result<T, tokio_postgres::Error>,
    {
        let Client { runtime, client: open, limit, .. } = self;
        let Some(client) = open.as_ref() else { return Err(Error::Abandoned) };
        match runtime.block_on(async { within(*limit, ask(client)).await }) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => {
                // The server closes the connection then, which may not have been seen yet.
                let severity = error.as_db_error().and_then(DbError::parsed_severity);
                if matches!(severity, Some(Severity::Fatal | Severity::Panic)) {
                    *open = None;
                }
                Err(error.into())
            }
            Err(late) => {
                // An answer that still comes would be taken for that of the next statement.
                *open = None;
                Err(late)
            }
        }
    }
}

type Opened = (tokio_postgres::Client, JoinHandle<()>);

/// Connects as the mode of TLS says.
async fn open(config: &Config) -> Result<Opened, Error> {
    let first = open_by(config, config.get_ssl_mode()).await;
    let second = match (config.tls.mode, config.get_ssl_mode()) {
        (Mode::Prefer, SslMode::Prefer) => SslMode::Disable,
        (Mode::Allow, SslMode::Disable) if !config.is_local() => SslMode::Require,
        _ => return first,
    };
    match first {
        // libpq tries the other way where the first one fails, and gives the first error.
        Err(error) if is_worth_another_way(&error) => open_by(config, second).await.or(Err(error)),
        first => first,
    }
}

/// True if a server that refused may take the connection with TLS, or without.
fn is_worth_another_way(error: &Error) -> bool {
    match error {
        Error::Server(error) => error.code().is_none_or(|code| *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION),
        _ => false,
    }
}

async fn open_by(config: &Config, mode: SslMode) -> Result<Opened, Error> {
    let mut exactly = (**config).clone();
    exactly.ssl_mode(mode);
    // What ends the connection shows in the next statement.
    if mode == SslMode::Disable {
        let (client, connection) = exactly.connect(NoTls).await?;
        return Ok((client, tokio::spawn(async { drop(connection.await) })));
    }
    let (client, connection) = exactly.connect(config.tls.connector()?).await?;
    Ok((client, tokio::spawn(async { drop(connection.await) })))
}

async fn within<T>(limit: Duration, ask: impl Future<Output = T>) -> Result<T, Error> {
    timeout(limit, ask).await.map_err(|_| Error::Late(limit))
}

impl Drop for Client {
    fn drop(&mut self) {
        drop(self.client.take());
        let farewell = async { timeout(FAREWELL, &mut self.connection).await };
        let _too_late = self.runtime.block_on(farewell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A program that accepts connections and says nothing.
    fn silent() -> (tempfile::TempDir, Config, UnixListener) {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).expect("a socket");
        let mut config = Config::new();
        config.host_path(folder.path()).user("u");
        (folder, config, listener)
    }

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for() {
        let (_folder, config, _listener) = silent();
        let late = Client::connect_within(&config, Duration::from_millis(50)).err().expect("no answer");
        assert_eq!(late.to_string(), "no answer within 0.05 s");
        let mut config = Config::new();
        config.host_path("/nowhere").user("u").password("geheim");
        let refused = Client::connect(&config).err().expect("no server").to_string();
        assert!(refused.contains("No such file") && !refused.contains("geheim"), "{refused}");
    }

    #[test]
    fn a_server_that_falls_silent_is_given_up() {
        use std::io::{Read, Write};
        let (_folder, config, listener) = silent();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut startup = [0_u8; 512];
            let _read = stream.read(&mut startup).expect("a start-up message");
            // AuthenticationOk and ReadyForQuery (protocol-message-formats of PostgreSQL).
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").expect("written");
            // Until the client hangs up.
            while stream.read(&mut startup).is_ok_and(|read| read > 0) {}
        });
        let mut client = Client::connect(&config).expect("it answers").with_limit(Duration::from_millis(50));
        assert!(matches!(client.simple_query("SELECT 1"), Err(Error::Late(_))));
        assert!(client.is_closed());
        assert!(matches!(client.simple_query("SELECT 1"), Err(Error::Abandoned)));
        drop(client);
        server.join().expect("the connection was closed");
    }
}
