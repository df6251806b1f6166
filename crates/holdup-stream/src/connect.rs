//! Making all connections of a trial, before its workers start.
//!
//! A connection is known by the address of the end that made it: foreign connections are closed immediately, and the
//! listener is gone before the first transfer. Sockets of UDP are connected to each other at both ends, so that the
//! kernel drops foreign datagrams.

use crate::profile::{Mode, Protocol};
use crate::setup::{Setup, SocketOptions};
use crate::sockets;
use holdup_host::network::{End, Endpoint, Network};
use holdup_model::Problem;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Connections requested before they are accepted: far fewer than the queue of a listener holds.
const BATCH: usize = 64;
const BACKLOG: i32 = 1024;
/// How long one batch may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Ends connections at both ends when it is dropped, so that workers that wait for the other machine end. One
/// that has stopped to receive leaves a sender waiting for a minute (tcp(7), tcp_fin_timeout).
#[derive(Debug)]
pub struct HangUp(pub Vec<RawFd>);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.iter().for_each(|socket| sockets::hang_up(*socket));
    }
}

/// One connection; data goes one way.
#[derive(Debug)]
pub(crate) struct Ends {
    client: OwnedFd,
    server: OwnedFd,
    pub(crate) client_sends: bool,
}

impl Ends {
    pub(crate) fn of(&self, end: End) -> RawFd {
        sockets::number(if end == End::Client { &self.client } else { &self.server })
    }

    pub(crate) fn sends(&self, end: End) -> bool {
        self.client_sends == (end == End::Client)
    }

    /// The socket of the one that receives.
    pub(crate) fn receiver(&self) -> RawFd {
        self.of(if self.client_sends { End::Server } else { End::Client })
    }
}

/// All connections, and how many that others made were turned away.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) ends: Vec<Ends>,
    pub(crate) strangers: u64,
}

/// Makes all connections.
///
/// # Errors
/// Of kind `Trial` when one cannot be made.
pub(crate) fn all(setup: &Setup, network: &Network) -> Result<Connected, Problem> {
    let flows = if setup.mode == Mode::Both { 2 * setup.connections } else { setup.connections };
    let (client, server) = (network.end(End::Client), network.end(End::Server));
    let made = match setup.protocol {
        Protocol::Tcp => tcp(flows, client, server, &setup.sockets)?,
        Protocol::Udp => (udp(flows, client, server, &setup.sockets)?, 0),
        Protocol::Unix => (unix(flows, &setup.sockets).map_err(|e| failed("unix", &e))?, 0),
    };
    let client_sends = |index: usize| match setup.mode {
        Mode::Write => true,
        Mode::Read => false,
        Mode::Both => index.is_multiple_of(2),
    };
    let with_direction = |(index, (client, server))| Ends { client, server, client_sends: client_sends(index) };
    Ok(Connected { ends: made.0.into_iter().enumerate().map(with_direction).collect(), strangers: made.1 })
}

fn failed(protocol: &str, error: &io::Error) -> Problem {
    let problem = Problem::trial(format!("{protocol} connections"), format!("they cannot be made: {error}"));
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => problem.hint("raise the limit on open files (ulimit -n, fs.file-max)"),
        Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE) => problem
            .hint("the ports are used up: widen net.ipv4.ip_local_port_range, or wait until old connections are gone"),
        _ => problem,
    }
}

type Pairs = Vec<(OwnedFd, OwnedFd)>;

fn tcp(flows: usize, client: &Endpoint, server: &Endpoint, options: &SocketOptions) -> Result<(Pairs, u64), Problem> {
    let failed = |e: io::Error| failed("tcp", &e);
    let listener = server.within(|| listen(server.address(), options))?.map_err(failed)?;
    let target = sockets::local_address(listener.as_fd()).map_err(failed)?;
    let (mut pairs, mut strangers) = (Vec::with_capacity(flows), 0);
    while pairs.len() < flows {
        let batch = BATCH.min(flows - pairs.len());
        let called = client
            .within(|| (0..batch).map(|_| call(target, options)).collect::<io::Result<Vec<_>>>())?
            .map_err(|e| refused(target, &e))?;
        strangers += accept_batch(&listener, called, &mut pairs).map_err(failed)?;
    }
    Ok((pairs, strangers))
}

/// A listener on an address, on a port of the kernel's choice.
pub fn listen(address: IpAddr, options: &SocketOptions) -> io::Result<OwnedFd> {
    let listener = sockets::open(SocketType::STREAM, address, options)?;
    net::bind(&listener, &SocketAddr::new(address, 0))?;
    net::listen(&listener, BACKLOG)?;
    rustix::io::ioctl_fionbio(&listener, true)?;
    Ok(listener)
}

/// Connects; the kernel completes the handshake before accept(2) is called.
pub fn call(target: SocketAddr, options: &SocketOptions) -> io::Result<OwnedFd> {
    let socket = sockets::open(SocketType::STREAM, target.ip(), options)?;
    sockets::wait_at_most(socket.as_fd(), None, Some(PATIENCE))?;
    net::connect(&socket, &target)?;
    sockets::wait_at_most(socket.as_fd(), None, None)?;
    Ok(socket)
}

fn refused(target: SocketAddr, error: &io::Error) -> Problem {
    match error.raw_os_error() {
        Some(libc::ECONNREFUSED) => {
            Problem::trial(format!("connection to {target}"), "connection refused: no process listens there")
        }
        Some(libc::EINPROGRESS | libc::EAGAIN | libc::ETIMEDOUT) => {
            Problem::trial(format!("connection to {target}"), format!("no answer within {} s", PATIENCE.as_secs()))
        }
        _ => failed("tcp", error),
    }
}

/// Accepts until all that were called are there. Returns how many others were turned away.
fn accept_batch(listener: &OwnedFd, called: Vec<OwnedFd>, pairs: &mut Pairs) -> io::Result<u64> {
    let mut waiting = HashMap::with_capacity(called.len());
    for client in called {
        waiting.insert(sockets::local_address(client.as_fd())?, client);
    }
    accept_all(listener, waiting, |client, server| pairs.push((client, server)))
}

/// Accepts the connections from these addresses, in their order. Returns how many others were turned away, too.
pub fn accept_from(listener: &OwnedFd, from: &[SocketAddr]) -> io::Result<(Vec<OwnedFd>, u64)> {
    let waiting: HashMap<SocketAddr, usize> = from.iter().enumerate().map(|(index, from)| (*from, index)).collect();
    let mut accepted: Vec<(usize, OwnedFd)> = Vec::with_capacity(from.len());
    let strangers = accept_all(listener, waiting, |index, socket| accepted.push((index, socket)))?;
    accepted.sort_by_key(|(index, _)| *index);
    Ok((accepted.into_iter().map(|(_, socket)| socket).collect(), strangers))
}

/// Accepts until every expected connection is there. Returns the number of foreign ones that were refused.
fn accept_all<W>(
    listener: &OwnedFd,
    mut waiting: HashMap<SocketAddr, W>,
    mut take: impl FnMut(W, OwnedFd),
) -> io::Result<u64> {
    let deadline = Instant::now() + PATIENCE;
    let mut strangers = 0;
    while !waiting.is_empty() {
        match net::acceptfrom_with(listener, SocketFlags::CLOEXEC) {
            Ok((server, from)) => {
                let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                match from.and_then(|from| waiting.remove(&from)) {
                    Some(who) => take(who, server),
                    None => strangers += 1,
                }
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {
                if Instant::now() > deadline {
                    return Err(io::Error::other(format!("{} of a batch did not arrive", waiting.len())));
                }
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(strangers)
}

fn udp(flows: usize, client: &Endpoint, server: &Endpoint, options: &SocketOptions) -> Result<Pairs, Problem> {
    let failed = |e: io::Error| failed("udp", &e);
    let bound = |place: &Endpoint| {
        let one = || {
            let socket = sockets::open(SocketType::DGRAM, place.address(), options)?;
            net::bind(&socket, &SocketAddr::new(place.address(), 0))?;
            Ok(socket)
        };
        place.within(|| (0..flows).map(|_| one()).collect::<io::Result<Vec<_>>>())
    };
    let (client, server) = (bound(client)?.map_err(failed)?, bound(server)?.map_err(failed)?);
    for (client, server) in client.iter().zip(&server) {
        pair(client, server).map_err(failed)?;
    }
    Ok(client.into_iter().zip(server).collect())
}

/// Connects two sockets of UDP to each other, and forgets what others have sent to them before that.
fn pair(client: &OwnedFd, server: &OwnedFd) -> io::Result<()> {
    net::connect(client, &sockets::local_address(server.as_fd())?)?;
    net::connect(server, &sockets::local_address(client.as_fd())?)?;
    for socket in [client, server] {
        while sockets::receive(sockets::number(socket), &mut [0], libc::MSG_DONTWAIT).is_ok() {}
    }
    Ok(())
}

fn unix(flows: usize, options: &SocketOptions) -> io::Result<Pairs> {
    let one = |_| {
        let (client, server) = net::socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockets::set(client.as_fd(), options)?;
        sockets::set(server.as_fd(), options)?;
        Ok((client, server))
    };
    (0..flows).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn who_does_not_listen_is_named() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        let target = listener.local_addr().expect("is bound");
        drop(listener);
        let error = call(target, &SocketOptions::default()).expect_err("no process listens");
        let problem = refused(target, &error);
        assert_eq!(problem.what, format!("connection to {target}"));
        assert_eq!(problem.why, "connection refused: no process listens there");
    }

    #[test]
    fn a_stranger_is_turned_away_however_much_it_sends() {
        let network = Network::make(
            holdup_host::network::Topology::Host,
            holdup_host::network::Options::default(),
            &holdup_host::Host::real(),
        )
        .expect("the host's own");
        let server = network.end(End::Server);
        let options = SocketOptions::default();
        let listener = listen(server.address(), &options).expect("listens");
        let target = sockets::local_address(listener.as_fd()).expect("is bound");
        let mut stranger = TcpStream::connect(target).expect("the listener's queue has room");
        stranger.write_all(&[b'x'; 100_000]).expect("the kernel takes it");
        let called = vec![call(target, &options).expect("connects"), call(target, &options).expect("connects")];
        let mut pairs = Vec::new();
        assert_eq!(accept_batch(&listener, called, &mut pairs).expect("accepts"), 1);
        assert_eq!(pairs.len(), 2);
        for (client, server) in &pairs {
            sockets::send(sockets::number(client), b"ours", 0).expect("sends");
            let mut got = [0; 16];
            assert_eq!(sockets::receive(sockets::number(server), &mut got, 0).expect("receives"), 4);
            assert_eq!(&got[..4], b"ours");
        }
        // It was closed with what it had sent unread, which resets it.
        let mut byte = [0];
        let seen = std::io::Read::read(&mut stranger, &mut byte);
        assert!(!matches!(seen, Ok(1..)), "{seen:?}");
    }

    #[test]
    fn datagrams_of_strangers_are_dropped() {
        let network = Network::make(
            holdup_host::network::Topology::Host,
            holdup_host::network::Options::default(),
            &holdup_host::Host::real(),
        )
        .expect("the host's own");
        let place = network.end(End::Server);
        let pairs = udp(2, place, place, &SocketOptions::default()).expect("makes them");
        let (client, server) = &pairs[1];
        let target = sockets::local_address(server.as_fd()).expect("is bound");
        let stranger = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        stranger.send_to(b"strange", target).expect("sends");
        sockets::send(sockets::number(client), b"ours", 0).expect("sends");
        let mut got = [0; 16];
        assert_eq!(sockets::receive(sockets::number(server), &mut got, 0).expect("receives"), 4);
        let nothing = sockets::receive(sockets::number(server), &mut got, libc::MSG_DONTWAIT);
        assert!(nothing.is_err_and(|e| is_again(&e)));
    }

    fn is_again(error: &io::Error) -> bool {
        error.raw_os_error() == Some(libc::EAGAIN)
    }
}
