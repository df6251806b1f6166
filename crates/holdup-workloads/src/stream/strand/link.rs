//! The connections of a strand: opening, closing, and single calls on them. Nothing here allocates.

use crate::stream::profile::Protocol;
use crate::stream::profile::program::{Call, Endpoint};
use crate::stream::sockets;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// How long one call waits until the strand looks whether it is to go on.
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
    owned: Option<OwnedFd>,
    pub(crate) socket: RawFd,
    pub(crate) is_udp: bool,
}

/// Makes a socket as an endpoint of a profile is to be.
///
/// # Errors
/// What the kernel says.
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
    /// What the kernel says; EINTR when it is not to go on.
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
        Ok(Link { owned: Some(socket), socket: number, is_udp: endpoint.protocol == Protocol::Udp })
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
                    net::connect(listener, &from)?;
                    return Ok(Link { owned: None, socket: listener.as_raw_fd(), is_udp: true });
                }
                stranger();
            }
        }
        loop {
            let socket = net::accept_with(listener, SocketFlags::CLOEXEC)?;
            // What the two sides say is there at once; somebody who says nothing is given up.
            if protocol == Protocol::Unix {
                sockets::wait_at_most(socket.as_fd(), Some(LOOK), Some(LOOK))?;
            }
            let length = sockets::receive(socket.as_raw_fd(), &mut got, libc::MSG_WAITALL);
            if matches!(length, Ok(TOKEN_BYTES)) && got == *token {
                let number = socket.as_raw_fd();
                return Ok(Link { owned: Some(socket), socket: number, is_udp: false });
            }
            stranger();
        }
    }

    /// What closing a datagram socket takes beside: one that is kept waits for anybody again, and of one that is not
    /// it is told how many datagrams it dropped.
    pub(crate) fn leave(&self, dropped: impl FnOnce(u64)) {
        if self.owned.is_some() {
            return dropped(sockets::drops(self.socket).unwrap_or(0));
        }
        let nobody = libc::sockaddr { sa_family: libc::AF_UNSPEC as libc::sa_family_t, sa_data: Default::default() };
        // SAFETY: the kernel reads one address of the given length.
        unsafe { libc::connect(self.socket, &raw const nobody, size_of::<libc::sockaddr>() as libc::socklen_t) };
    }

    /// One call that sends.
    ///
    /// # Errors
    /// What the kernel says.
    #[inline]
    pub(crate) fn send(&self, bytes: &[u8], call: Call, flags: i32) -> io::Result<usize> {
        if call != Call::Message {
            return sockets::send(self.socket, bytes, flags);
        }
        let mut piece = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let message = message(&mut piece);
        // SAFETY: the kernel reads the message and the bytes that its one piece names.
        let sent = unsafe { libc::sendmsg(self.socket, &raw const message, flags | libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// One call that receives.
    ///
    /// # Errors
    /// What the kernel says.
    #[inline]
    pub(crate) fn receive(&self, bytes: &mut [u8], call: Call, flags: i32) -> io::Result<usize> {
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
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn send_file(&self, file: RawFd, offset: &mut i64, bytes: usize) -> io::Result<usize> {
        // SAFETY: the kernel reads and writes one offset.
        let sent = unsafe { libc::sendfile(self.socket, file, offset, bytes) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    /// Whether the connection becomes ready within a time.
    ///
    /// # Errors
    /// What the kernel says.
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
