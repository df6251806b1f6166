//! Connections that stop reading where a server says more than was asked for.

use crate::{Config, Error};
use rustix::net::sockopt;
use std::future::Future;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_postgres::config::{Host, LoadBalanceHosts};

/// The port where none is named.
const PORT: u16 = 5432;

/// How many bytes of an answer may still come, below zero where more came.
#[derive(Debug, Clone, Default)]
pub(crate) struct AnswerRoom(Arc<AtomicI64>);

impl AnswerRoom {
    /// Makes room for an answer.
    pub(crate) fn set(&self, bytes: u64) {
        self.0.store(i64::try_from(bytes).unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// True if the server said more than there was room for.
    pub(crate) fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) < 0
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        self.0.fetch_sub(bytes as i64, Ordering::Relaxed);
        if self.is_over() { Err(io::Error::other("the answer is too long")) } else { Ok(()) }
    }
}

/// A connection's stream of bytes, encrypted or not.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// A stream that reads no more than there is room for.
pub(crate) struct BoundedStream {
    stream: Box<dyn ByteStream>,
    room: AnswerRoom,
}

impl AsyncRead for BoundedStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        Poll::Ready(self.room.take(into.filled().len() - before))
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A place of a connection string: where to connect, and the name that a certificate is for.
pub(crate) struct ServerPlace {
    host: Host,
    port: u16,
    /// Empty on a Unix socket.
    pub(crate) name: String,
}

/// An address of a place.
pub(crate) enum ServerAddress {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// The places of a connection string, in the order in which they are tried.
pub(crate) fn places(config: &Config) -> Result<Vec<ServerPlace>, Error> {
    let (hosts, addresses, ports) = (config.get_hosts(), config.get_hostaddrs(), config.get_ports());
    let count = hosts.len().max(addresses.len());
    for (what, found) in [("hosts", hosts.len()), ("addresses (hostaddr)", addresses.len())] {
        if found != 0 && found != count {
            return Err(Error::Config(format!("{found} {what} are named for {count} places")));
        }
    }
    if ports.len() > 1 && ports.len() != count {
        return Err(Error::Config(format!("{} ports are named for {count} hosts", ports.len())));
    }
    let places = (0..count).filter_map(|i| {
        let address = addresses.get(i).map(|address| Host::Tcp(address.to_string()));
        let name = match hosts.get(i) {
            Some(Host::Tcp(name)) => name.clone(),
            _ => String::new(),
        };
        let port = ports.get(i).or(ports.first()).copied().unwrap_or(PORT);
        Some(ServerPlace { host: address.or_else(|| hosts.get(i).cloned())?, port, name })
    });
    Ok(in_order_of(config, places.collect()))
}

/// Places in another order each time, where the connection string asks for that (`load_balance_hosts`).
fn in_order_of<T>(config: &Config, mut all: Vec<T>) -> Vec<T> {
    if config.get_load_balance_hosts() == LoadBalanceHosts::Random {
        all.sort_by_cached_key(|_| RandomState::new().hash_one(0));
    }
    all
}

impl ServerPlace {
    /// Addresses in the order in which they are tried.
    pub(crate) async fn addresses(&self, config: &Config) -> Result<Vec<ServerAddress>, Error> {
        Ok(match &self.host {
            Host::Unix(folder) => vec![ServerAddress::Unix(folder.join(format!(".s.PGSQL.{}", self.port)))],
            Host::Tcp(name) => {
                let found = lookup_host((name.as_str(), self.port)).await.map_err(Error::Unreachable)?;
                in_order_of(config, found.map(ServerAddress::Tcp).collect())
            }
        })
    }
}

/// Connects to an address.
pub(crate) async fn connect(address: &ServerAddress, config: &Config, room: &AnswerRoom) -> io::Result<BoundedStream> {
    let stream: Box<dyn ByteStream> = match address {
        ServerAddress::Unix(path) => Box::new(in_time(config, UnixStream::connect(path)).await?),
        ServerAddress::Tcp(address) => {
            let stream = in_time(config, TcpStream::connect(address)).await?;
            set_options(&stream, config)?;
            Box::new(stream)
        }
    };
    Ok(BoundedStream { stream, room: room.clone() })
}

/// Within `connect_timeout`, which holds for each address.
async fn in_time<S>(config: &Config, connecting: impl Future<Output = io::Result<S>>) -> io::Result<S> {
    match config.get_connect_timeout() {
        Some(limit) => timeout(*limit, connecting).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())),
        None => connecting.await,
    }
}

fn set_options(stream: &TcpStream, config: &Config) -> io::Result<()> {
    stream.set_nodelay(true)?;
    if let Some(limit) = config.get_tcp_user_timeout() {
        // libpq has it in milliseconds, which tokio-postgres takes for seconds.
        sockopt::set_tcp_user_timeout(stream, u32::try_from(limit.as_secs()).unwrap_or(u32::MAX))?;
    }
    if config.get_keepalives() {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, config.get_keepalives_idle())?;
        config.get_keepalives_interval().map_or(Ok(()), |every| sockopt::set_tcp_keepintvl(stream, every))?;
        config.get_keepalives_retries().map_or(Ok(()), |most| sockopt::set_tcp_keepcnt(stream, most))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn config(text: &str) -> Config {
        text.parse().expect("a connection string")
    }

    #[test]
    fn places_that_do_not_fit_together_are_refused() {
        let refused = |text: &str| places(&config(text)).err().expect("refused").to_string();
        assert_eq!(refused("host=a,b hostaddr=127.0.0.1"), "1 addresses (hostaddr) are named for 2 places");
        assert_eq!(refused("host=a hostaddr=127.0.0.1,127.0.0.2"), "1 hosts are named for 2 places");
        assert_eq!(refused("host=a,b,c port=1,2"), "2 ports are named for 3 hosts");
        let names = |text: &str| places(&config(text)).expect("places").into_iter().map(|place| place.name);
        assert!(names("host=a,b,c").eq(["a", "b", "c"]));
        let is_mixed = |_| !names("host=a,b,c load_balance_hosts=random").eq(["a", "b", "c"]);
        assert!((0..100).any(is_mixed));
    }

    #[test]
    fn a_place_that_is_silent_is_left_and_a_connection_has_its_options() {
        let config = config(
            "host=a connect_timeout=1 tcp_user_timeout=2000 keepalives_idle=7 keepalives_interval=3 keepalives_retries=4",
        );
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let late = runtime.block_on(in_time(&config, std::future::pending::<io::Result<()>>()));
        assert_eq!(late.expect_err("silent").kind(), io::ErrorKind::TimedOut);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let stream = runtime.block_on(TcpStream::connect(listener.local_addr().expect("bound"))).expect("connected");
        set_options(&stream, &config).expect("set");
        assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(2000));
        assert_eq!(sockopt::tcp_keepidle(&stream), Ok(Duration::from_secs(7)));
        assert_eq!(sockopt::tcp_keepintvl(&stream), Ok(Duration::from_secs(3)));
        assert_eq!(sockopt::tcp_keepcnt(&stream), Ok(4));
    }
}
