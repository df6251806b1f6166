//! Calls on sockets; none of them allocates, so that forked workers may make them.

use crate::setup::SocketOptions;
use rustix::net::{self, AddressFamily, Shutdown, SocketFlags, SocketType, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;

/// Makes a socket for addresses like this one and sets what was asked for.
pub(crate) fn open(kind: SocketType, address: IpAddr, options: &SocketOptions) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = net::socket_with(family, kind, SocketFlags::CLOEXEC, None)?;
    set(socket.as_fd(), options)?;
    if kind == SocketType::STREAM && options.no_delay {
        sockopt::set_tcp_nodelay(&socket, true)?;
    }
    Ok(socket)
}

/// Sets the sizes of both buffers, where they were asked for.
pub(crate) fn set(socket: BorrowedFd<'_>, options: &SocketOptions) -> io::Result<()> {
    if let Some(bytes) = options.send_buffer {
        sockopt::set_socket_send_buffer_size(socket, bytes as usize)?;
    }
    if let Some(bytes) = options.receive_buffer {
        sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?;
    }
    Ok(())
}

/// The own address.
///
/// # Errors
/// What the kernel says, or that it is of another family.
pub fn local_address(socket: BorrowedFd<'_>) -> io::Result<SocketAddr> {
    SocketAddr::try_from(net::getsockname(socket)?).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Lets calls that wait end after a while with EAGAIN.
pub(crate) fn wait_at_most(
    socket: BorrowedFd<'_>,
    receive: Option<Duration>,
    send: Option<Duration>,
) -> io::Result<()> {
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, receive)?;
    Ok(sockopt::set_socket_timeout(socket, sockopt::Timeout::Send, send)?)
}

/// Sends as send(2) does; a peer that is gone is an error and no signal.
#[inline(always)]
pub(crate) fn send(socket: RawFd, bytes: &[u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the kernel reads as many bytes as there are.
    let sent = unsafe { libc::send(socket, bytes.as_ptr().cast(), bytes.len(), flags | libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives as recv(2) does.
#[inline(always)]
pub(crate) fn receive(socket: RawFd, bytes: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the kernel writes as many bytes as there is room for.
    let got = unsafe { libc::recv(socket, bytes.as_mut_ptr().cast(), bytes.len(), flags) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Ends both directions, in any state.
pub(crate) fn hang_up(socket: RawFd) {
    // SAFETY: a plain system call on a number.
    unsafe { libc::shutdown(socket, libc::SHUT_RDWR) };
}

/// Says that nothing more will be sent.
pub(crate) fn end_sending(socket: RawFd) -> io::Result<()> {
    // SAFETY: the worker that calls this has the socket open until it ends.
    let socket = unsafe { BorrowedFd::borrow_raw(socket) };
    Ok(net::shutdown(socket, Shutdown::Write)?)
}

/// Datagrams that the kernel dropped for want of room in this socket's buffer (`SO_MEMINFO`, `SK_MEMINFO_DROPS`:
/// include/uapi/linux/sock_diag.h, v6.18; since 4.12).
pub(crate) fn drops(socket: RawFd) -> io::Result<u64> {
    const SK_MEMINFO_DROPS: usize = 8;
    let mut info = [0u32; 9];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the kernel writes at most as many bytes as `length` says.
    let got = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, info.as_mut_ptr().cast(), &raw mut length)
    };
    match got {
        0 => Ok(u64::from(info[SK_MEMINFO_DROPS])),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if an error only says that a call would have to wait, or was woken by a signal.
#[inline(always)]
pub(crate) fn is_wait(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR))
}

pub(crate) fn number(file: &OwnedFd) -> RawFd {
    file.as_raw_fd()
}
