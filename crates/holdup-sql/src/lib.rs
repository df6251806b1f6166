//! Connections to PostgreSQL on which nothing waits without end.
//!
//! Start at [`Client`]. A server that is stopped, or a program that accepts connections and says nothing, must not keep
//! holdup from putting a host back: `connect_timeout` of libpq ends where the server has accepted the connection, and
//! `statement_timeout` is the server's own. So the whole of connecting and each statement have a deadline here; after one
//! has passed, the connection is of no more use. So has each answer a number of bytes and of rows: a server that lies could
//! otherwise fill all memory within the deadline.
//!
//! [`Config::of_user`] reads what a user wrote as libpq does, with services, the environment, the password file and TLS
//! ([`Config::from_str`](std::str::FromStr) reads a string exactly as it is). A server whose name has several addresses is tried at each.
//!
//! Not here: what is asked (`holdup-postgres`, `holdup-evidence`, `holdup-store`).

mod bounded;
mod config;
mod conninfo;
mod passfile;
mod service;
mod surroundings;
mod tls;

use bounded::{AnswerRoom, BoundedStream};
pub use config::Config;
use futures_util::{Stream, TryStreamExt as _};
use std::fmt::{self, Write as _};
use std::future::Future;
use std::pin::pin;
use std::time::Duration;
use tls::Mode;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
pub use tokio_postgres::error::SqlState;
use tokio_postgres::error::{DbError, Severity};
use tokio_postgres::tls::MakeTlsConnect;
pub use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, ToStatement};
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
/// The most bytes of the answer to a statement where nothing else is said.
const ANSWER_BYTES: u64 = 64 << 20;
/// The most bytes that a server says before the first statement.
const GREETING_BYTES: u64 = 1 << 20;
/// The most rows of an answer, and the most values: each takes 24 bytes in memory, where it is empty too.
const MOST_ROWS: usize = 1_000_000;
const MOST_VALUES: usize = 4_000_000;
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
    /// No server answers at this address, or it is none of this host.
    Unreachable(std::io::Error),
    /// The answer has more bytes than this.
    Bytes(u64),
    /// The answer has more rows or values than are read.
    Rows,
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
            _ => None,
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
            Error::Unreachable(error) => write!(f, "error connecting to server: {error}"),
            Error::Bytes(most) => write!(f, "the server's answer has more than {} MB, and is not read", most >> 20),
            Error::Rows => {
                write!(f, "the server's answer has more than {MOST_ROWS} rows or {MOST_VALUES} values, and is not read")
            }
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
    room: AnswerRoom,
    most_bytes: u64,
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
        let room = AnswerRoom::default();
        let connected = runtime.block_on(async { timeout(limit, open(config, &room)).await });
        let (client, connection) = match connected.map_err(|_| Error::Late(limit)).flatten() {
            Ok(connected) => connected,
            Err(error) if config.notes.is_empty() => return Err(error),
            Err(error) => return Err(Error::Noted(Box::new(error), config.notes.join("; "))),
        };
        Ok(Client { runtime, client: Some(client), connection, limit: STATEMENT, room, most_bytes: ANSWER_BYTES })
    }

    /// The same connection with another deadline for each statement.
    pub fn with_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// This connection with room for more, or less, of an answer.
    pub fn with_most_bytes(mut self, bytes: u64) -> Self {
        self.most_bytes = bytes;
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
        self.rows(statement, values)
    }

    /// The rows of a statement.
    pub fn query_once(&mut self, text: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        self.rows(text, values)
    }

    fn rows<T: ToStatement + ?Sized>(
        &mut self,
        statement: &T,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, Error> {
        let rows = self.within(async |client| {
            let values = values.iter().map(|value| *value as &dyn ToSql);
            bounded_rows(client.query_raw(statement, values).await?, Row::len).await
        })?;
        self.whole(rows)
    }

    /// The rows of a whole answer. The rest of another one would be taken for that of the next statement, so the connection ends.
    fn whole<R>(&mut self, rows: Option<Vec<R>>) -> Result<Vec<R>, Error> {
        rows.ok_or_else(|| {
            self.client = None;
            Error::Rows
        })
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
        let columns = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.len(),
            SimpleQueryMessage::RowDescription(columns) => columns.len(),
            _ => 0,
        };
        let rows = self.within(async |client| bounded_rows(client.simple_query_raw(text).await?, columns).await)?;
        self.whole(rows)
    }

    fn within<T, F>(&mut self, ask: F) -> Result<T, Error>
    where
        F: for<'a> AsyncFnOnce(&'a tokio_postgres::Client) -> Result<T, tokio_postgres::Error>,
    {
        let Client { runtime, client: open, limit, room, most_bytes, .. } = self;
        let Some(client) = open.as_ref() else { return Err(Error::Abandoned) };
        room.set(*most_bytes);
        match runtime.block_on(async { within(*limit, ask(client)).await }) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(_)) if room.is_over() => {
                *open = None;
                Err(Error::Bytes(*most_bytes))
            }
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
async fn open(config: &Config, room: &AnswerRoom) -> Result<Opened, Error> {
    let first = open_by(config, config.get_ssl_mode(), room).await;
    let second = match (config.tls.mode, config.get_ssl_mode()) {
        (Mode::Prefer, SslMode::Prefer) => SslMode::Disable,
        (Mode::Allow, SslMode::Disable) if !config.is_local() => SslMode::Require,
        _ => return first,
    };
    match first {
        // libpq tries the other way where the first one fails, and gives the first error.
        Err(error) if is_worth_another_way(&error) => open_by(config, second, room).await.or(Err(error)),
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

/// Connects to the first place that takes the connection.
async fn open_by(config: &Config, mode: SslMode, room: &AnswerRoom) -> Result<Opened, Error> {
    let mut exactly = (**config).clone();
    exactly.ssl_mode(mode);
    let mut last = Error::Config("no host is named".to_owned());
    for place in bounded::places(config)? {
        let addresses = place.addresses(config).await.unwrap_or_else(|e| {
            last = e;
            Vec::new()
        });
        for address in addresses {
            room.set(GREETING_BYTES);
            let opened = match bounded::connect(&address, config, room).await {
                Ok(stream) => start(&exactly, config, mode, stream, &place.name).await,
                Err(e) => Err(Error::Unreachable(e)),
            };
            match opened {
                Ok(opened) => return Ok(opened),
                Err(_) if room.is_over() => return Err(Error::Bytes(GREETING_BYTES)),
                Err(e) => last = e,
            }
        }
    }
    Err(last)
}

async fn start(
    exactly: &tokio_postgres::Config,
    config: &Config,
    mode: SslMode,
    stream: BoundedStream,
    name: &str,
) -> Result<Opened, Error> {
    // What ends the connection shows in the next statement.
    let opened: Opened = if mode == SslMode::Disable {
        let (client, connection) = exactly.connect_raw(stream, NoTls).await?;
        (client, tokio::spawn(async { drop(connection.await) }))
    } else {
        let mut tls = config.tls.connector()?;
        let tls = MakeTlsConnect::<BoundedStream>::make_tls_connect(&mut tls, name)
            .map_err(|e| Error::Config(e.to_string()))?;
        let (client, connection) = exactly.connect_raw(stream, tls).await?;
        (client, tokio::spawn(async { drop(connection.await) }))
    };
    let is_read_only = match config.get_target_session_attrs() {
        TargetSessionAttrs::ReadWrite => false,
        TargetSessionAttrs::ReadOnly => true,
        _ => return Ok(opened),
    };
    let answer = opened.0.query_one("SHOW transaction_read_only", &[]).await?;
    match answer.try_get::<_, &str>(0)? == "on" {
        found if found == is_read_only => Ok(opened),
        true => Err(Error::Config("the database does not allow writes".to_owned())),
        false => Err(Error::Config("the database is not read only".to_owned())),
    }
}

/// The rows of an answer; `None` where there are too many.
async fn bounded_rows<R>(
    rows: impl Stream<Item = Result<R, tokio_postgres::Error>>,
    columns: impl Fn(&R) -> usize,
) -> Result<Option<Vec<R>>, tokio_postgres::Error> {
    let (mut rows, mut found, mut values) = (pin!(rows), Vec::new(), 0);
    while let Some(row) = rows.try_next().await? {
        values += columns(&row);
        if found.len() == MOST_ROWS || values > MOST_VALUES {
            return Ok(None);
        }
        found.push(row);
    }
    Ok(Some(found))
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

    /// Finding H4 of the attacks. `greeting` is sent first, `row` to each statement without an end.
    fn flooded(greeting: Option<&'static [u8]>, row: &'static [u8], bytes: u64) -> Result<(), Error> {
        use std::io::{Read, Write};
        let (_folder, config, listener) = silent();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _startup = stream.read(&mut [0_u8; 512]).expect("a start-up message");
            let endless = |stream: &mut std::os::unix::net::UnixStream, what: &[u8]| {
                let many = what.repeat(65_536 / what.len() + 1);
                while stream.write_all(&many).is_ok() {}
            };
            if let Some(greeting) = greeting {
                // AuthenticationOk (protocol-message-formats of PostgreSQL).
                let _gone = stream.write_all(b"R\0\0\0\x08\0\0\0\0");
                return endless(&mut stream, greeting);
            }
            stream.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").expect("written");
            let _statement = stream.read(&mut [0_u8; 512]).expect("a statement");
            // RowDescription of as many columns.
            let columns = b"c\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0"
                .repeat(usize::from(u16::from_be_bytes([row[5], row[6]])));
            let length = 6 + columns.len() as u32;
            let _gone = stream.write_all(&[b"T", &length.to_be_bytes()[..], &row[5..7], &columns].concat());
            endless(&mut stream, row);
        });
        let asked = Client::connect(&config).and_then(|client| {
            let mut client = client.with_most_bytes(bytes);
            let asked = client.simple_query("SELECT 1").map(drop);
            assert!(client.is_closed(), "what is left would be taken for the next answer");
            asked
        });
        server.join().expect("the connection was closed");
        asked
    }

    #[test]
    fn a_server_that_says_more_than_was_asked_for_is_given_up() {
        let too_much = |asked: Result<(), Error>, most: u64| {
            assert!(matches!(&asked, Err(Error::Bytes(found)) if *found == most), "{asked:?}");
        };
        // DataRow of one value; one of 2 GB; a notice, a parameter, and a message of 2 GB before the first statement.
        too_much(flooded(None, b"D\0\0\0\x0d\0\x01\0\0\0\x03abc", 4 << 20), 4 << 20);
        too_much(flooded(None, b"D\x7f\xff\xff\xff\0\x01\x7f\xff\xff\0", 4 << 20), 4 << 20);
        too_much(flooded(Some(b"N\0\0\0\x07M\0\0"), b"-", 0), GREETING_BYTES);
        too_much(flooded(Some(b"S\0\0\0\x08k\0v\0"), b"-", 0), GREETING_BYTES);
        too_much(flooded(Some(b"R\x7f\xff\xff\xff"), b"-", 0), GREETING_BYTES);
    }

    #[test]
    fn a_server_that_says_more_values_than_fit_in_memory_is_given_up() {
        let null = |columns: u16| {
            let values = b"\xff\xff\xff\xff".repeat(usize::from(columns));
            let length = 6 + values.len() as u32;
            [&b"D"[..], &length.to_be_bytes(), &columns.to_be_bytes(), &values].concat().leak() as &[u8]
        };
        for columns in [u16::MAX, 0] {
            let asked = flooded(None, null(columns), ANSWER_BYTES);
            assert!(matches!(asked, Err(Error::Rows)), "{asked:?}");
        }
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
