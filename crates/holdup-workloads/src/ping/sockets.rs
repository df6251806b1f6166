//! The two ends, made before anyone works.
//!
//! # Strangers
//!
//! Any process that can reach the address of a UDP socket may send to it. Each end is connected to the other, so that the kernel
//! delivers nothing else to it; beside it stands a guard on the same port, not connected, to which the kernel
//! delivers all the rest (net/ipv4/udp.c compute_score, 6.18). So strangers take no room in the measured queue, do not
//! count in its drops, and can be counted themselves. SO_REUSEADDR, which allows the two on one port, is taken off
//! both afterwards, so that no other process can join them (net/ipv4/udp.c inet_rcv_saddr_equal, udp_lib_lport_inuse).

use crate::ping::setup::Setup;
use holdup_catalogue::ping::Protocol;
use holdup_host::network::{self, Endpoint, Network};
use holdup_model::Problem;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// The longest that an end waits inside the kernel before it looks whether it is to end.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);
/// `SO_MEMINFO` gives as many numbers: include/uapi/linux/sock_diag.h, `SK_MEMINFO_VARS`.
const MEMINFO: usize = 9;
/// Which of them is the count of drops: `SK_MEMINFO_DROPS`.
const MEMINFO_DROPS: usize = 8;
/// How long the two ends of a connection may take to find each other.
const CONNECT: Duration = Duration::from_secs(10);
/// How many connections of others are turned away before the two ends give up to find each other.
const MOST_STRANGERS: usize = 1000;

/// Which end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The one that sends.
    Client,
    /// The one that receives and answers.
    Server,
}

/// Where the ends are. A socket stays for ever in the network namespace of the thread that made it, wherever it is
/// bound or used from (network_namespaces(7)), so this is all that a namespace changes.
pub(crate) trait Namespaces {
    /// The address of an end.
    fn address(&self, side: Side) -> IpAddr;
    /// Makes a socket there.
    ///
    /// # Errors
    /// The kernel's.
    fn socket(&self, side: Side, kind: SocketType) -> io::Result<OwnedFd>;
}

/// What is here is at this address of the own namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Here(pub(crate) IpAddr);

impl Namespaces for Here {
    fn address(&self, _side: Side) -> IpAddr {
        self.0
    }

    fn socket(&self, _side: Side, kind: SocketType) -> io::Result<OwnedFd> {
        let family = if self.0.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        Ok(rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?)
    }
}

/// The ends in the places of a network that was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InNetwork<'a>(pub(crate) &'a Network);

impl InNetwork<'_> {
    fn place(&self, side: Side) -> &Endpoint {
        self.0.end(match side {
            Side::Client => network::End::Client,
            Side::Server => network::End::Server,
        })
    }
}

impl Namespaces for InNetwork<'_> {
    fn address(&self, side: Side) -> IpAddr {
        self.place(side).address()
    }

    fn socket(&self, side: Side, kind: SocketType) -> io::Result<OwnedFd> {
        let place = self.place(side);
        place.within(|| Here(place.address()).socket(side, kind)).map_err(|p| io::Error::other(p.why))?
    }
}

/// Two sockets, connected to each other.
#[derive(Debug, Clone)]
pub(crate) struct Ends {
    /// The one that sends.
    pub(crate) client: Arc<End>,
    /// The one that receives and answers.
    pub(crate) server: Arc<End>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct End {
    socket: OwnedFd,
    /// See the head of this file. UDP only.
    guard: Option<OwnedFd>,
    /// Strangers that came before the guard stood, or before the own connection.
    early: u64,
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl End {
    /// How many datagrams (UDP) or connections (TCP) came from others than the other end.
    pub(crate) fn strangers(&self) -> u64 {
        let of_guard = |guard: &OwnedFd| empty(guard) + u64::from(drops(guard).unwrap_or(0));
        self.early + self.guard.as_ref().map_or(0, of_guard)
    }

    /// Connects it to the other end, at this address; what others have sent to it before is counted and dropped.
    pub(crate) fn join(&mut self, other: SocketAddr, setup: &Setup) -> io::Result<()> {
        rustix::net::connect(&self.socket, &other)?;
        // With it a full queue of a network device is an error of the sender's and not a silent loss: net/ipv4/udp.c
        // udp_send_skb drops ENOBUFS without it.
        report_errors(&self.socket, other.is_ipv4())?;
        made_as_asked(&self.socket, setup)?;
        self.early += empty(&self.socket);
        Ok(())
    }
}

/// Makes the two ends as an arm wants them.
///
/// # Errors
/// Of kind `Host` when the kernel does not give what is asked for.
pub(crate) fn endpoints(setup: &Setup, namespaces: &dyn Namespaces) -> Result<Ends, Problem> {
    let refused = |e: io::Error| Problem::host(format!("protocol {}", setup.protocol.word()), e.to_string());
    let (client, server) = match setup.protocol {
        Protocol::Udp => udp(namespaces, setup).map_err(refused)?,
        Protocol::Tcp => tcp(namespaces, setup).map_err(refused)?,
        Protocol::UnixDatagram => pair(SocketType::DGRAM).map_err(refused)?,
        Protocol::UnixStream => pair(SocketType::STREAM).map_err(refused)?,
    };
    [&client, &server].into_iter().try_for_each(|end| made_ready(end, setup))?;
    Ok(Ends { client: Arc::new(client), server: Arc::new(server) })
}

/// The buffers as an arm wants them, and waits that end soon.
///
/// # Errors
/// Of kind `Host` when the kernel does not give what is asked for.
pub(crate) fn made_ready(end: &End, setup: &Setup) -> Result<(), Problem> {
    buffers(&end.socket, setup)?;
    patience(&end.socket).map_err(|e| Problem::host("the timeout of a socket", e.to_string()))
}

fn pair(kind: SocketType) -> io::Result<(End, End)> {
    let (client, server) = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    let end = |socket| End { socket, guard: None, early: 0 };
    Ok((end(client), end(server)))
}

fn udp(namespaces: &dyn Namespaces, setup: &Setup) -> io::Result<(End, End)> {
    let (mut client, mut server) = (datagram(namespaces, Side::Client)?, datagram(namespaces, Side::Server)?);
    client.join(own_address(&server)?, setup)?;
    server.join(own_address(&client)?, setup)?;
    Ok((client, server))
}

/// A socket for datagrams with its guard, not joined to the other end yet.
///
/// # Errors
/// The kernel's.
pub(crate) fn datagram(namespaces: &dyn Namespaces, side: Side) -> io::Result<End> {
    // The guard is bound first: the kernel looks through the sockets of a port from the latest on.
    let guard = namespaces.socket(side, SocketType::DGRAM)?;
    let socket = namespaces.socket(side, SocketType::DGRAM)?;
    for socket in [&guard, &socket] {
        sockopt::set_socket_reuseaddr(socket, true)?;
    }
    rustix::net::bind(&guard, &SocketAddr::new(namespaces.address(side), 0))?;
    rustix::net::bind(&socket, &own_address(&guard)?)?;
    for socket in [&guard, &socket] {
        sockopt::set_socket_reuseaddr(socket, false)?;
    }
    Ok(End { socket, guard: Some(guard), early: 0 })
}

/// Sets IP_RECVERR (ip(7)) or IPV6_RECVERR (ipv6(7)), for which rustix has no call.
fn report_errors(socket: &OwnedFd, is_ipv4: bool) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    let (level, name) =
        if is_ipv4 { (libc::IPPROTO_IP, libc::IP_RECVERR) } else { (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) };
    // SAFETY: the kernel reads one int.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const on).cast(), length) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn tcp(namespaces: &dyn Namespaces, setup: &Setup) -> io::Result<(End, End)> {
    let listener = listen(namespaces, setup)?;
    let client = call(namespaces, setup, own_address(&listener)?)?;
    let server = accept(&listener, own_address(&client)?, setup)?;
    Ok((stream_end(client, setup, 0)?, server))
}

/// Listens for one connection.
///
/// # Errors
/// The kernel's.
pub(crate) fn listen(namespaces: &dyn Namespaces, setup: &Setup) -> io::Result<OwnedFd> {
    let listener = namespaces.socket(Side::Server, SocketType::STREAM)?;
    rustix::net::bind(&listener, &SocketAddr::new(namespaces.address(Side::Server), 0))?;
    // Buffers are set before the connection is made, because they decide its window (tcp(7)).
    made_as_asked(&listener, setup)?;
    rustix::net::listen(&listener, 16)?;
    sockopt::set_socket_timeout(&listener, sockopt::Timeout::Recv, Some(CONNECT))?;
    Ok(listener)
}

/// Connects to a listener.
///
/// # Errors
/// The kernel's.
pub(crate) fn call(namespaces: &dyn Namespaces, setup: &Setup, to: SocketAddr) -> io::Result<OwnedFd> {
    let client = namespaces.socket(Side::Client, SocketType::STREAM)?;
    rustix::net::bind(&client, &SocketAddr::new(namespaces.address(Side::Client), 0))?;
    made_as_asked(&client, setup)?;
    sockopt::set_socket_timeout(&client, sockopt::Timeout::Send, Some(CONNECT))?;
    rustix::net::connect(&client, &to)?;
    Ok(client)
}

/// Takes the connection that comes from this address; others are turned away.
///
/// # Errors
/// The kernel's, or that too many others come.
pub(crate) fn accept(listener: &OwnedFd, client: SocketAddr, setup: &Setup) -> io::Result<End> {
    for early in 0..MOST_STRANGERS {
        let (server, from) = rustix::net::acceptfrom_with(listener, SocketFlags::CLOEXEC)?;
        if from.is_some_and(|from| SocketAddr::try_from(from).is_ok_and(|from| from == client)) {
            return stream_end(server, setup, early as u64);
        }
    }
    Err(io::Error::other(format!("{MOST_STRANGERS} others connected before the own end")))
}

/// One end of a connection.
///
/// # Errors
/// The kernel's.
pub(crate) fn stream_end(socket: OwnedFd, setup: &Setup, early: u64) -> io::Result<End> {
    sockopt::set_tcp_nodelay(&socket, !setup.coalesces())?;
    Ok(End { socket, guard: None, early })
}

/// The own address of a socket.
///
/// # Errors
/// What the kernel says, or that it is of another family.
pub(crate) fn own_address(socket: &impl AsFd) -> io::Result<SocketAddr> {
    SocketAddr::try_from(rustix::net::getsockname(socket)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn made_as_asked(socket: &OwnedFd, setup: &Setup) -> io::Result<()> {
    buffers(socket, setup).map_err(|p| io::Error::other(p.to_string()))
}

/// Sets the buffers that the arm asks for; the kernel keeps twice as much for its own book-keeping (socket(7)).
fn buffers(socket: &OwnedFd, setup: &Setup) -> Result<(), Problem> {
    let short = |name: &str, limit: &str, bytes: usize, got: usize| {
        let why = format!("the kernel gives {} bytes", got / 2);
        Problem::host(format!("{name} {bytes}"), why).hint(format!("raise {limit}, or take a smaller buffer"))
    };
    let failed = |name: &str| {
        let name = name.to_owned();
        move |e: rustix::io::Errno| Problem::host(name, io::Error::from(e).to_string())
    };
    if setup.receive_buffer > 0 {
        let (name, bytes) = ("receive_buffer", setup.receive_buffer);
        if sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_err() {
            sockopt::set_socket_recv_buffer_size(socket, bytes).map_err(failed(name))?;
        }
        let got = sockopt::socket_recv_buffer_size(socket).map_err(failed(name))?;
        if got < bytes.saturating_mul(2) {
            return Err(short(name, "net.core.rmem_max", bytes, got));
        }
    }
    if setup.send_buffer > 0 {
        let (name, bytes) = ("send_buffer", setup.send_buffer);
        if sockopt::set_socket_send_buffer_size_force(socket, bytes).is_err() {
            sockopt::set_socket_send_buffer_size(socket, bytes).map_err(failed(name))?;
        }
        let got = sockopt::socket_send_buffer_size(socket).map_err(failed(name))?;
        if got < bytes.saturating_mul(2) {
            return Err(short(name, "net.core.wmem_max", bytes, got));
        }
    }
    Ok(())
}

fn patience(socket: &OwnedFd) -> io::Result<()> {
    for direction in [sockopt::Timeout::Recv, sockopt::Timeout::Send] {
        sockopt::set_socket_timeout(socket, direction, Some(PATIENCE))?;
    }
    Ok(())
}

/// How many datagrams the kernel has dropped at a socket because it had no room there, modulo 2^32: getsockopt
/// `SO_MEMINFO`, net/core/sock.c `sk_get_meminfo`. The calls for it are not in rustix.
///
/// # Errors
/// When the kernel does not count them (before Linux 4.12).
pub(crate) fn drops(socket: &impl AsFd) -> io::Result<u32> {
    let mut info = [0u32; MEMINFO];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes to `info`.
    let got = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    match got {
        0 if length as usize >= size_of_val(&info) => Ok(info[MEMINFO_DROPS]),
        0 => Err(io::Error::other("SO_MEMINFO has no count of drops")),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Takes everything out of a socket; returns how many datagrams that were.
fn empty(socket: &OwnedFd) -> u64 {
    let mut count = 0;
    let mut byte = [0u8; 1];
    while rustix::net::recv(socket, &mut byte, RecvFlags::DONTWAIT).is_ok() {
        count += 1;
    }
    count
}
