//! The connections of a strand: opening, closing, and single calls on them. Nothing here allocates.

use crate::profile::Protocol;
use crate::profile::program::{Call, Endpoint};
use crate::sockets;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// How long one call waits until the strand checks whether it must stop.
pub(crate) const LOOK: Duration = Duration::from_millis(50);
/// What the end that calls sends first, so that the other one knows it from strangers.
pub(crate) const TOKEN_BYTES: usize = 16;
pub(crate) type Token = [u8; TOKEN_BYTES];

/// Where the other end waits.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Internet(SocketAddr),
    Unix(net::SocketAddrUnix),
}

/// One open connection.
#[derive(Debug)]
pub(crate) struct Link {
    /// `None` for a datagram socket that waits for the next one when this connection is closed.
    _owned: Option<OwnedFd>,
    pub(crate) socket: RawFd,
    pub(crate) is_udp: bool,
    /// Who is at the other end of a datagram socket that is kept.
    peer: Option<SocketAddr>,
}

/// Makes a socket as an endpoint of a profile is to be.
pub(crate) fn socket(endpoint: &Endpoint) -> io::Result<OwnedFd> {
    let (family, kind) = match endpoint.protocol {
        Protocol::Tcp => (AddressFamily::INET, SocketType::STREAM),
        Protocol::Udp => (AddressFamily::INET, SocketType::DGRAM),
        Protocol::Unix => (AddressFamily::UNIX, SocketType::STREAM),
    };
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    if let Some(bytes) = endpoint.window_bytes {
        sockopt::set_socket_send_buffer_size(&socket, bytes as usize)?;
        sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
    }
    if endpoint.nodelay {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    if let Some(name) = &endpoint.congestion {
        sockopt::set_tcp_congestion(&socket, name)?;
    }
    sockets::wait_at_most(socket.as_fd(), Some(LOOK), Some(LOOK))?;
    Ok(socket)
}

impl Link {
    /// Calls the other end. `goes_on` is asked while it does not answer.
    ///
    /// # Errors
    /// The kernel's error; EINTR when the strand must stop.
    pub(crate) fn call(
        endpoint: &Endpoint,
        target: &Target,
        token: &Token,
        mut goes_on: impl FnMut() -> bool,
    ) -> io::Result<Self> {
        let socket = socket(endpoint)?;
        let connected = match target {
            Target::Internet(address) => net::connect(&socket, address),
            Target::Unix(address) => net::connect(&socket, address),
        };
        match connected {
            Ok(()) => {}
            Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::AGAIN) => {
                while !ready(socket.as_fd(), PollFlags::OUT, LOOK)? {
                    if !goes_on() {
                        return Err(rustix::io::Errno::INTR.into());
                    }
                }
                sockopt::socket_error(&socket)?.map_err(io::Error::from)?;
            }
            Err(e) => return Err(e.into()),
        }
        let number = socket.as_raw_fd();
        if sockets::send(number, token, 0)? != TOKEN_BYTES {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let is_udp = endpoint.protocol == Protocol::Udp;
        Ok(Link { _owned: Some(socket), socket: number, is_udp, peer: None })
    }

    /// Takes the next connection that the other end makes, and counts those of others.
    ///
    /// # Errors
    /// What the kernel says; EAGAIN when none came for a while.
    pub(crate) fn accept(
        listener: BorrowedFd<'_>,
        protocol: Protocol,
        token: &Token,
        mut stranger: impl FnMut(),
    ) -> io::Result<Self> {
        let mut got = [0u8; TOKEN_BYTES];
        if protocol == Protocol::Udp {
            loop {
                let (length, _, from) = net::recvfrom(listener, &mut got, net::RecvFlags::TRUNC)?;
                let from = from.and_then(|from| SocketAddr::try_from(from).ok());
                if let (Some(from), TOKEN_BYTES) = (from, length)
                    && got == *token
                {
                    let socket = listener.as_raw_fd();
                    return Ok(Link { _owned: None, socket, is_udp: true, peer: Some(from) });
                }
                stranger();
            }
        }
        loop {
            let socket = net::accept_with(listener, SocketFlags::CLOEXEC)?;
            // What the two sides say arrives immediately; a silent peer is given up.
            if protocol == Protocol::Unix {
                sockets::wait_at_most(socket.as_fd(), Some(LOOK), Some(LOOK))?;
            }
            let length = sockets::receive(socket.as_raw_fd(), &mut got, libc::MSG_WAITALL);
            if matches!(length, Ok(TOKEN_BYTES)) && got == *token {
                let number = socket.as_raw_fd();
                return Ok(Link { _owned: Some(socket), socket: number, is_udp: false, peer: None });
            }
            stranger();
        }
    }

    /// How many datagrams a socket dropped that is closed with its connection; one that is kept is asked later.
    pub(crate) fn dropped(&self) -> u64 {
        if self.peer.is_some() { 0 } else { sockets::drops(self.socket).unwrap_or(0) }
    }

    /// The next datagram that is left, but not the first one of the next connection.
    pub(crate) fn take_left(&self, buffer: &mut [u8]) -> Option<usize> {
        if self.peer.is_some() {
            let (_, from) = self.receive_from(&mut buffer[..1], libc::MSG_DONTWAIT | libc::MSG_PEEK).ok()?;
            if from != self.peer {
                return None;
            }
        }
        sockets::receive(self.socket, buffer, libc::MSG_DONTWAIT).ok()
    }

    fn receive_from(&self, bytes: &mut [u8], flags: i32) -> io::Result<(usize, Option<SocketAddr>)> {
        // SAFETY: the connection is open as long as this is there.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket) };
        let flags = net::RecvFlags::from_bits_retain(flags as u32);
        let (got, _, from) = net::recvfrom(socket, bytes, flags)?;
        Ok((got, from.and_then(|from| SocketAddr::try_from(from).ok())))
    }

    #[inline]
    pub(crate) fn send(&self, bytes: &[u8], call: Call, flags: i32) -> io::Result<usize> {
        if let Some(peer) = &self.peer {
            // SAFETY: the connection is open as long as this is there.
            let socket = unsafe { BorrowedFd::borrow_raw(self.socket) };
            return Ok(net::sendto(socket, bytes, net::SendFlags::from_bits_retain(flags as u32), peer)?);
        }
        if call != Call::Message {
            return sockets::send(self.socket, bytes, flags);
        }
        let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let message = message(&mut piece);
        // SAFETY: the kernel reads the message and the bytes that its one piece names.
        let sent = unsafe { libc::sendmsg(self.socket, &raw const message, flags | libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    #[inline]
    pub(crate) fn receive(&self, bytes: &mut [u8], call: Call, flags: i32) -> io::Result<usize> {
        if self.peer.is_some() {
            // What strangers send is passed over, as if it had not come.
            let (got, from) = self.receive_from(bytes, flags)?;
            return if from == self.peer { Ok(got) } else { Err(rustix::io::Errno::INTR.into()) };
        }
        if call != Call::Message {
            return sockets::receive(self.socket, bytes, flags);
        }
        let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let mut message = message(&mut piece);
        // SAFETY: the kernel writes into the bytes that the one piece of the message names.
        let got = unsafe { libc::recvmsg(self.socket, &raw mut message, flags) };
        usize::try_from(got).map_err(|_| io::Error::last_os_error())
    }

    /// One call that sends from a file.
    pub(crate) fn send_file(&self, file: RawFd, offset: &mut i64, bytes: usize) -> io::Result<usize> {
        // SAFETY: the kernel reads and writes one offset.
        let sent = unsafe { libc::sendfile(self.socket, file, offset, bytes) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// True if the connection becomes ready within a time.
    pub(crate) fn ready(&self, to_send: bool, within: Duration) -> io::Result<bool> {
        // SAFETY: the connection is open as long as this is there.
        let socket = unsafe { BorrowedFd::borrow_raw(self.socket) };
        ready(socket, if to_send { PollFlags::OUT } else { PollFlags::IN }, within)
    }
}

fn message(piece: &mut libc::iovec) -> libc::msghdr {
    // SAFETY: zero bytes are a message without address, pieces and control data.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = piece;
    message.msg_iovlen = 1;
    message
}

fn ready(socket: BorrowedFd<'_>, events: PollFlags, within: Duration) -> io::Result<bool> {
    let timeout = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: i64::from(within.subsec_nanos()) };
    match poll(&mut [PollFd::from_borrowed_fd(socket, events)], Some(&timeout)) {
        Ok(n) => Ok(n > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(e) => Err(e.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::net::{Ipv4Addr, TcpStream, UdpSocket};

    fn endpoint(protocol: Protocol) -> Endpoint {
        Endpoint {
            host: None,
            protocol,
            port: None,
            window_bytes: None,
            nodelay: false,
            congestion: None,
            non_blocking: false,
        }
    }

    fn listener(protocol: Protocol) -> (OwnedFd, SocketAddr) {
        let listener = socket(&endpoint(protocol)).expect("makes it");
        net::bind(&listener, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).expect("binds");
        if protocol == Protocol::Tcp {
            net::listen(&listener, 16).expect("listens");
        }
        let address = sockets::local_address(listener.as_fd()).expect("is bound");
        (listener, address)
    }

    #[test]
    fn strangers_are_refused_with_any_greeting() {
        let token = [7; TOKEN_BYTES];
        let (listener, address) = listener(Protocol::Tcp);
        let mut loud = TcpStream::connect(address).expect("connects");
        loud.write_all(&[b'x'; 100_000]).expect("the kernel takes it");
        let mut short = TcpStream::connect(address).expect("connects");
        short.write_all(&token[..3]).expect("sends");
        let _silent = TcpStream::connect(address).expect("connects");
        let target = Target::Internet(address);
        let client = Link::call(&endpoint(Protocol::Tcp), &target, &token, || true).expect("calls");
        let mut strangers = 0;
        let server = Link::accept(listener.as_fd(), Protocol::Tcp, &token, || strangers += 1).expect("accepts");
        assert_eq!(strangers, 3);
        let mut got = [0; 8];
        assert_eq!(client.send(b"ours", Call::Plain, 0).expect("sends"), 4);
        assert_eq!(server.receive(&mut got, Call::Message, 0).expect("receives"), 4);
        let accepted = Link::accept(listener.as_fd(), Protocol::Tcp, &token, || ());
        assert!(accepted.is_err_and(|e| sockets::is_wait(&e)), "it does not wait for ever");
    }

    #[test]
    fn a_datagram_socket_serves_one_connection_after_another() {
        let token = [7; TOKEN_BYTES];
        let (listener, address) = listener(Protocol::Udp);
        let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        for _ in 0..2 {
            stranger.send_to(b"strange", address).expect("sends");
            let target = Target::Internet(address);
            let client = Link::call(&endpoint(Protocol::Udp), &target, &token, || true).expect("calls");
            let mut strangers = 0;
            let server = Link::accept(listener.as_fd(), Protocol::Udp, &token, || strangers += 1).expect("accepts");
            assert_eq!(strangers, 1);
            stranger.send_to(b"strange", address).expect("sends");
            assert_eq!(client.send(b"ours", Call::Message, 0).expect("sends"), 4);
            let mut got = [0; 16];
            let strange = server.receive(&mut got, Call::Plain, 0);
            assert!(strange.is_err_and(|e| sockets::is_wait(&e)), "it is passed over");
            assert_eq!(server.receive(&mut got, Call::Plain, 0).expect("receives"), 4);
            assert_eq!(server.send(b"answer", Call::Plain, 0).expect("sends"), 6);
            assert_eq!(client.receive(&mut got, Call::Plain, 0).expect("receives"), 6);
            assert_eq!(client.send(b"left", Call::Plain, 0).expect("sends"), 4);
            assert_eq!((server.take_left(&mut got), server.take_left(&mut got)), (Some(4), None));
        }
    }

    #[test]
    fn a_missing_listener_is_an_error() {
        let (listener, address) = listener(Protocol::Tcp);
        drop(listener);
        let refused = Link::call(&endpoint(Protocol::Tcp), &Target::Internet(address), &[0; TOKEN_BYTES], || true);
        assert_eq!(refused.expect_err("refused").raw_os_error(), Some(libc::ECONNREFUSED));
    }
}
