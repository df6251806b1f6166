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
use holdup_host::network::{End, Endpoint, Network};
use holdup_model::Problem;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::Duration;

/// The longest that an end waits inside the kernel before it looks whether it is to end.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);
/// `SO_MEMINFO` gives as many numbers: include/uapi/linux/sock_diag.h, `SK_MEMINFO_VARS`.
const MEMINFO: usize = 9;
/// Which of them is the count of drops: `SK_MEMINFO_DROPS`.
const MEMINFO_DROPS: usize = 8;
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
    fn address(&self, side: Side) -> Ipv4Addr;
    /// Makes a socket of IPv4 there.
    ///
    /// # Errors
    /// The kernel's.
    fn socket(&self, side: Side, kind: SocketType) -> io::Result<OwnedFd>;
}

/// Both ends on the loopback interface of the own namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loopback;

impl Namespaces for Loopback {
    fn address(&self, _side: Side) -> Ipv4Addr {
        Ipv4Addr::LOCALHOST
    }

    fn socket(&self, _side: Side, kind: SocketType) -> io::Result<OwnedFd> {
        Ok(rustix::net::socket_with(AddressFamily::INET, kind, SocketFlags::CLOEXEC, None)?)
    }
}

/// The ends in the places of a network that was made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InNetwork<'a>(pub(crate) &'a Network);

impl InNetwork<'_> {
    fn place(&self, side: Side) -> &Endpoint {
        self.0.end(match side {
            Side::Client => End::Client,
            Side::Server => End::Server,
        })
    }
}

impl Namespaces for InNetwork<'_> {
    fn address(&self, side: Side) -> Ipv4Addr {
        match self.place(side).address() {
            IpAddr::V4(address) => address,
            // The networks that holdup makes have IPv4 addresses.
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        }
    }

    fn socket(&self, side: Side, kind: SocketType) -> io::Result<OwnedFd> {
        self.place(side).within(|| Loopback.socket(side, kind)).map_err(|p| io::Error::other(p.why))?
    }
}

/// Two sockets, connected to each other.
#[derive(Debug)]
pub(crate) struct Ends {
    /// The one that sends.
    pub(crate) client: OwnedFd,
    /// The one that receives and answers.
    pub(crate) server: OwnedFd,
    /// See the head of this file. UDP only.
    guards: Vec<OwnedFd>,
    /// Strangers that came before the guards stood.
    early: u64,
}

impl Ends {
    /// The same sockets once more, for a test that does something to them.
    #[cfg(test)]
    pub(crate) fn again(&self) -> Self {
        let again = |socket: &OwnedFd| socket.try_clone().expect("a file more");
        Ends { client: again(&self.client), server: again(&self.server), guards: Vec::new(), early: 0 }
    }

    /// How many datagrams (UDP) or connections (TCP) came from others than the two ends.
    pub(crate) fn strangers(&self) -> u64 {
        let of_guard = |guard: &OwnedFd| empty(guard) + u64::from(drops(guard).unwrap_or(0));
        self.early + self.guards.iter().map(of_guard).sum::<u64>()
    }
}

/// Makes the two ends as an arm wants them.
///
/// # Errors
/// Of kind `Host` when the kernel does not give what is asked for.
pub(crate) fn endpoints(setup: &Setup, namespaces: &dyn Namespaces) -> Result<Ends, Problem> {
    let refused = |e: io::Error| Problem::host(format!("protocol {}", setup.protocol.word()), e.to_string());
    let ends = match setup.protocol {
        Protocol::Udp => udp(namespaces, setup).map_err(refused)?,
        Protocol::Tcp => tcp(namespaces, setup).map_err(refused)?,
        Protocol::UnixDatagram => pair(SocketType::DGRAM).map_err(refused)?,
        Protocol::UnixStream => pair(SocketType::STREAM).map_err(refused)?,
    };
    for end in [&ends.client, &ends.server] {
        buffers(end, setup)?;
        patience(end).map_err(refused)?;
    }
    Ok(ends)
}

fn pair(kind: SocketType) -> io::Result<Ends> {
    let (client, server) = rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    Ok(Ends { client, server, guards: Vec::new(), early: 0 })
}

fn udp(namespaces: &dyn Namespaces, setup: &Setup) -> io::Result<Ends> {
    // The guards are bound first: the kernel looks through the sockets of a port from the latest on.
    let guarded = |side: Side| -> io::Result<(OwnedFd, OwnedFd, SocketAddrV4)> {
        let guard = namespaces.socket(side, SocketType::DGRAM)?;
        let end = namespaces.socket(side, SocketType::DGRAM)?;
        for socket in [&guard, &end] {
            sockopt::set_socket_reuseaddr(socket, true)?;
        }
        rustix::net::bind(&guard, &SocketAddrV4::new(namespaces.address(side), 0))?;
        let at = own_address(&guard)?;
        rustix::net::bind(&end, &at)?;
        for socket in [&guard, &end] {
            sockopt::set_socket_reuseaddr(socket, false)?;
        }
        Ok((guard, end, at))
    };
    let (client_guard, client, client_at) = guarded(Side::Client)?;
    let (server_guard, server, server_at) = guarded(Side::Server)?;
    rustix::net::connect(&client, &server_at)?;
    rustix::net::connect(&server, &client_at)?;
    for end in [&client, &server] {
        // With it a full queue of a network device is an error of the sender's and not a silent loss: net/ipv4/udp.c
        // udp_send_skb drops ENOBUFS without it.
        report_errors(end)?;
        buffers(end, setup).map_err(|p| io::Error::other(p.to_string()))?;
    }
    let early = empty(&client) + empty(&server);
    Ok(Ends { client, server, guards: vec![client_guard, server_guard], early })
}

/// Sets IP_RECVERR (ip(7)), for which rustix has no call.
fn report_errors(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let length = size_of_val(&on) as libc::socklen_t;
    // SAFETY: the kernel reads one int.
    let set = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_IP, libc::IP_RECVERR, (&raw const on).cast(), length)
    };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn tcp(namespaces: &dyn Namespaces, setup: &Setup) -> io::Result<Ends> {
    let listener = namespaces.socket(Side::Server, SocketType::STREAM)?;
    rustix::net::bind(&listener, &SocketAddrV4::new(namespaces.address(Side::Server), 0))?;
    rustix::net::listen(&listener, 16)?;
    let client = namespaces.socket(Side::Client, SocketType::STREAM)?;
    rustix::net::bind(&client, &SocketAddrV4::new(namespaces.address(Side::Client), 0))?;
    // Buffers are set before the connection is made, because they decide its window (tcp(7)).
    for socket in [&listener, &client] {
        buffers(socket, setup).map_err(|p| io::Error::other(p.to_string()))?;
    }
    rustix::net::connect(&client, &own_address(&listener)?)?;
    let client_at = own_address(&client)?;
    for early in 0..MOST_STRANGERS {
        let (server, from) = rustix::net::acceptfrom_with(&listener, SocketFlags::CLOEXEC)?;
        if from.is_some_and(|from| SocketAddrV4::try_from(from).is_ok_and(|from| from == client_at)) {
            for end in [&client, &server] {
                sockopt::set_tcp_nodelay(end, !setup.coalesces())?;
            }
            return Ok(Ends { client, server, guards: Vec::new(), early: early as u64 });
        }
    }
    Err(io::Error::other(format!("{MOST_STRANGERS} others connected before the own end")))
}

fn own_address(socket: &OwnedFd) -> io::Result<SocketAddrV4> {
    SocketAddrV4::try_from(rustix::net::getsockname(socket)?).map_err(|_| io::Error::other("the address is not IPv4"))
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
