//! HTTP for scrapes: few connections, short ones, and the oldest goes when there are too many.
//!
//! All limits are for clients that are slow or hostile: a server that is watched must not notice them.

mod answer;
mod tls;

use crate::Exposed;
use answer::answer;
use holdup_model::Problem;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Connections at the same time. Another one ends the oldest: one that sends its request immediately, as Prometheus does, has
/// its answer long before.
const CONNECTIONS: usize = 64;
/// For the head of a request, and between two requests of a connection.
const HEAD: Duration = Duration::from_secs(10);
/// For a handshake of TLS.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// The life of a connection, for clients that read slowly.
const LIFE: Duration = Duration::from_secs(60);
/// What a request and its head may have, bytes.
const HEAD_BYTES: usize = 16 * 1024;
const HEADERS: usize = 64;

/// Where to listen, and for whom.
#[derive(Debug, Clone)]
pub struct Listen {
    /// The address and the port.
    pub address: SocketAddr,
    /// The token that a client must show, if any.
    pub token: Option<String>,
    /// The files of the certificate chain and of its key, for TLS.
    pub tls: Option<(PathBuf, PathBuf)>,
}

/// A socket that listens; nothing is accepted yet.
pub struct Listener {
    socket: TcpListener,
    token: Option<String>,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Opens the socket.
    ///
    /// # Errors
    /// When the port is taken, the address is none of this host's, or the files of TLS cannot be used.
    pub fn open(listen: &Listen) -> Result<Self, Problem> {
        let tls = listen.tls.as_ref().map(|(certificate, key)| tls::acceptor(certificate, key)).transpose()?;
        let failed = |e: std::io::Error| {
            Problem::host(format!("--listen {}", listen.address), e.to_string()).hint(match e.kind() {
                std::io::ErrorKind::AddrInUse => "another program has the port: --listen ADDRESS:PORT",
                _ => "--listen 127.0.0.1:PORT, with a port of 1024 or more where this user is not root",
            })
        };
        let socket = TcpListener::bind(listen.address).map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(Listener { socket, token: listen.token.clone(), tls })
    }

    /// The address that it listens on; with port 0 the kernel has chosen one.
    pub fn address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }
}

/// What every request is answered from.
struct Served {
    exposed: Arc<Exposed>,
    token: Option<String>,
    /// True if only this host can connect.
    is_local: bool,
}

/// The address of a client and ours; unknown of one that has gone.
type SocketPair = Option<(SocketAddr, SocketAddr)>;

/// Answers until the process ends.
///
/// # Errors
/// When the runtime cannot start.
pub fn serve(listener: Listener, exposed: Arc<Exposed>) -> Result<(), Problem> {
    let failed = |e: std::io::Error| Problem::internal("the HTTP server", e.to_string());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let is_local = listener.address().is_some_and(|address| address.ip().is_loopback());
    let served = Arc::new(Served { exposed, token: listener.token, is_local });
    runtime.block_on(async {
        let socket = tokio::net::TcpListener::from_std(listener.socket).map_err(failed)?;
        let mut open: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            let Ok((stream, client)) = socket.accept().await else {
                // No descriptor is left, or the client has gone: the next one may have better luck.
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            open.retain(|connection| !connection.is_finished());
            if open.len() >= CONNECTIONS
                && let Some(oldest) = open.pop_front()
            {
                oldest.abort();
            }
            let (served, tls) = (served.clone(), listener.tls.clone());
            let ends = stream.local_addr().ok().map(|ours| (client, ours));
            let task = tokio::spawn(async move {
                // What a client does wrong ends its connection, and nothing else.
                let _ended = timeout(LIFE, connection(stream, tls, served, ends)).await;
            });
            open.push_back(task.abort_handle());
        }
    })
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, served: Arc<Served>, ends: SocketPair) {
    match tls {
        None => requests(stream, served, ends).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(HANDSHAKE, tls.accept(stream)).await {
                requests(stream, served, ends).await;
            }
        }
    }
}

async fn requests(stream: impl AsyncRead + AsyncWrite + Unpin, served: Arc<Served>, ends: SocketPair) {
    let service = service_fn(move |request| {
        let served = served.clone();
        async move { Ok::<_, Infallible>(answer(request, &served, ends).await) }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES).max_headers(HEADERS);
    // An error is the client's: it has been answered with 4xx, or has gone.
    let _ended = http.serve_connection(TokioIo::new(stream), service).await;
}
