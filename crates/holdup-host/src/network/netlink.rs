//! The few rtnetlink requests that a network of holdup's own needs, and the socket that they go over.
//!
//! netlink-packet-route 0.34 has 52,000 lines for what takes 370 here, and netlink-packet-sock-diag 0.5 refuses a
//! `tcp_info` that is shorter than its own, as that of older kernels is; neither has a socket with a time limit.
//!
//! Sources: netlink(7), rtnetlink(7); `include/uapi/linux/{netlink,rtnetlink,if_link,neighbour}.h` (v6.18). Numbers
//! are in the byte order of the host, messages and attributes are padded to four bytes.

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

const NLMSG_HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 0x1;
const NLM_F_ACK: u16 = 0x4;
/// In an answer: the request is not repeated whole behind the error, only its header.
const NLM_F_CAPPED: u16 = 0x100;
/// In an answer: attributes follow the error.
const NLM_F_ACK_TLVS: u16 = 0x200;
/// With `NEW`: only where there is none yet.
pub(super) const CREATE_NEW: u16 = 0x400 | 0x200;
/// With `GET`: all of them.
pub(super) const DUMP: u16 = 0x300;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLA_TYPE_MASK: u16 = 0x3fff;
const NLA_F_NESTED: u16 = 0x8000;

/// A request that is being written: the header, a fixed part, attributes.
pub(super) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A request of a type (`RTM_…`) with its fixed part, a multiple of four bytes.
    pub(super) fn new(kind: u16, flags: u16, fixed: &[u8]) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&(flags | NLM_F_REQUEST).to_ne_bytes());
        // The socket sets the sequence number; the kernel knows the sender by the socket's address.
        bytes.extend_from_slice(&[0; 8]);
        bytes.extend_from_slice(fixed);
        Request { bytes }
    }

    /// One more attribute. Those of holdup are far below the 64 KiB that its length can say.
    pub(super) fn attribute(&mut self, kind: u16, value: &[u8]) -> &mut Self {
        self.nested(kind, false, |inside| inside.bytes.extend_from_slice(value))
    }

    /// An attribute that ends with a zero byte, as names do.
    pub(super) fn text(&mut self, kind: u16, value: &str) -> &mut Self {
        self.nested(kind, false, |inside| {
            inside.bytes.extend_from_slice(value.as_bytes());
            inside.bytes.push(0);
        })
    }

    /// An attribute that holds what `write` appends.
    pub(super) fn nest(&mut self, kind: u16, write: impl FnOnce(&mut Self)) -> &mut Self {
        self.nested(kind, true, write)
    }

    /// Bytes as they stand: the fixed part within a nested attribute.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(bytes);
        self
    }

    fn nested(&mut self, kind: u16, is_nest: bool, write: impl FnOnce(&mut Self)) -> &mut Self {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        write(self);
        let length = u16::try_from(self.bytes.len() - begin).unwrap_or(u16::MAX);
        let kind = if is_nest { kind | NLA_F_NESTED } else { kind };
        self.bytes[begin..begin + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes[begin + 2..begin + 4].copy_from_slice(&kind.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self
    }

    /// What stands behind the header.
    #[cfg(test)]
    pub(super) fn payload(&self) -> &[u8] {
        &self.bytes[NLMSG_HEADER..]
    }

    fn finished(&mut self, sequence: u32, flags: u16) -> &[u8] {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        let flags = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]) | flags;
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.bytes
    }
}

/// A socket that speaks with the kernel about the network namespace in which it was made, wherever it is used.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

impl Netlink {
    /// Opens one for rtnetlink in the namespace of the calling thread.
    pub(super) fn open() -> io::Result<Self> {
        // The protocol is the one of number 0, NETLINK_ROUTE.
        Self::open_protocol(None)
    }

    /// Opens one for generic netlink.
    pub(super) fn open_generic() -> io::Result<Self> {
        Self::open_protocol(Some(rustix::net::netlink::GENERIC))
    }

    /// Opens one for questions about sockets.
    pub(super) fn open_sock_diag() -> io::Result<Self> {
        Self::open_protocol(Some(rustix::net::netlink::SOCK_DIAG))
    }

    fn open_protocol(protocol: Option<rustix::net::Protocol>) -> io::Result<Self> {
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        rustix::net::bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        // The kernel answers within the call; the limit is for a kernel that does not, so that nothing hangs.
        set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_secs(10)))?;
        let on: libc::c_int = 1;
        // SAFETY: the kernel reads one int from `on`, which lives until the call returns.
        let _without_words = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_NETLINK,
                libc::NETLINK_EXT_ACK,
                (&raw const on).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        Ok(Netlink { socket, sequence: 0 })
    }

    /// Sends a request and waits until the kernel has done it.
    pub(super) fn ask(&mut self, request: &mut Request) -> io::Result<()> {
        self.get(request, &mut |_, _| ())
    }

    /// As [`Netlink::ask`]; `each` is given the type and the payload of what the kernel answers.
    pub(super) fn get(&mut self, request: &mut Request, each: &mut dyn FnMut(u16, &[u8])) -> io::Result<()> {
        self.sequence += 1;
        self.send(request.finished(self.sequence, NLM_F_ACK))?;
        self.answers(each)
    }

    /// Sends a request for a list; `each` is given the type and the payload of every member.
    pub(super) fn list(&mut self, request: &mut Request, each: &mut dyn FnMut(u16, &[u8])) -> io::Result<()> {
        self.sequence += 1;
        self.send(request.finished(self.sequence, DUMP))?;
        self.answers(each)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.socket, bytes, SendFlags::empty())?;
        Ok(())
    }

    /// Reads until the answer to the last request is whole.
    fn answers(&self, each: &mut dyn FnMut(u16, &[u8])) -> io::Result<()> {
        // One member with all its statistics takes some KiB; the kernel packs at most 32 KiB into one datagram
        // (net/netlink/af_netlink.c:netlink_recvmsg, v6.18).
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let (_, length) =
                rustix::io::retry_on_intr(|| rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::TRUNC))?;
            let datagram = buffer.get(..length).ok_or_else(|| garbage("an answer longer than 64 KiB"))?;
            for message in messages(datagram) {
                let message = message?;
                if message.sequence != self.sequence {
                    continue;
                }
                match message.kind {
                    NLMSG_ERROR => return refusal(&message),
                    // A list that could not be made ends with the errno in place of 0.
                    NLMSG_DONE => return finished(message.payload),
                    kind => each(kind, message.payload),
                }
            }
        }
    }
}

struct Message<'a> {
    kind: u16,
    flags: u16,
    sequence: u32,
    payload: &'a [u8],
}

fn garbage(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("rtnetlink gave {what}"))
}

/// The messages of one datagram.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = io::Result<Message<'_>>> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let message = split_message(rest);
        rest = message.as_ref().map_or(&[], |(_, rest)| *rest);
        Some(message.map(|(message, _)| message))
    })
}

fn split_message(bytes: &[u8]) -> io::Result<(Message<'_>, &[u8])> {
    let cut = || garbage("a message that is cut short");
    let header = bytes.get(..NLMSG_HEADER).ok_or_else(cut)?;
    let length = number32(header, 0).map_or(0, |n| n as usize);
    let payload = bytes.get(NLMSG_HEADER..length).ok_or_else(cut)?;
    let message = Message {
        kind: number16(header, 4).unwrap_or_default(),
        flags: number16(header, 6).unwrap_or_default(),
        sequence: number32(header, 8).unwrap_or_default(),
        payload,
    };
    Ok((message, bytes.get(length.next_multiple_of(4)..).unwrap_or_default()))
}

/// How a list ended.
fn finished(payload: &[u8]) -> io::Result<()> {
    match number32(payload, 0).unwrap_or_default().cast_signed() {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code.saturating_neg())),
    }
}

/// What an answer of type NLMSG_ERROR says: 0 is success, else a negative errno, with words where the kernel has some.
fn refusal(message: &Message<'_>) -> io::Result<()> {
    let code = number32(message.payload, 0).ok_or_else(|| garbage("an answer that is cut short"))?.cast_signed();
    if code == 0 {
        return Ok(());
    }
    let error = io::Error::from_raw_os_error(code.saturating_neg());
    let repeated = match number32(message.payload, 4) {
        Some(length) if message.flags & NLM_F_CAPPED == 0 => length as usize,
        _ => NLMSG_HEADER,
    };
    let behind = message.payload.get(4 + repeated.next_multiple_of(4)..).unwrap_or_default();
    let words = if message.flags & NLM_F_ACK_TLVS == 0 { None } else { attribute(behind, NLMSGERR_ATTR_MSG) };
    Err(match words {
        Some(words) => Refused { words: text(words), error }.into(),
        None => error,
    })
}

/// An errno with the kernel's own words about it.
#[derive(Debug)]
struct Refused {
    words: String,
    error: io::Error,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.error, self.words.trim_end_matches('.'))
    }
}

impl std::error::Error for Refused {}

impl From<Refused> for io::Error {
    fn from(refused: Refused) -> Self {
        io::Error::new(refused.error.kind(), refused)
    }
}

/// The errno of an error, also of one with the kernel's words.
pub(super) fn errno(error: &io::Error) -> Option<i32> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Refused>());
    inner.map_or(error, |refused| &refused.error).raw_os_error()
}

/// The attributes in some bytes, as pairs of type and value. What is cut short ends them.
pub(super) fn attributes(mut rest: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(number16(rest, 0)?);
        let kind = number16(rest, 2)? & NLA_TYPE_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// The first attribute of a type.
pub(super) fn attribute(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == kind).map(|(_, value)| value)
}

/// Text that ends with a zero byte or the attribute; bytes that are not UTF-8 are replaced.
pub(super) fn text(value: &[u8]) -> String {
    let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

pub(super) fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

pub(super) fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

pub(super) fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn attributes_are_read_as_they_were_written() {
        let mut request = Request::new(16, CREATE_NEW, &[7; 16]);
        request.text(3, "eth0").attribute(4, &1500_u32.to_ne_bytes());
        request.nest(18, |info| {
            info.text(1, "veth").nest(2, |data| {
                data.nest(1, |peer| {
                    peer.raw(&[0; 16]).text(3, "x");
                });
            });
        });
        let bytes = request.finished(9, NLM_F_ACK).to_vec();
        let (message, rest) = split_message(&bytes).expect("whole");
        assert_eq!((message.kind, message.flags, message.sequence, rest.len()), (16, 0x605, 9, 0));
        let all = &message.payload[16..];
        assert_eq!(attribute(all, 3).map(text).as_deref(), Some("eth0"));
        assert_eq!(attribute(all, 4).and_then(|v| number32(v, 0)), Some(1500));
        let info = attribute(all, 18).expect("nested");
        assert_eq!(attribute(info, 1).map(text).as_deref(), Some("veth"));
        let peer = attribute(attribute(info, 2).expect("data"), 1).expect("peer");
        assert_eq!(attribute(&peer[16..], 3).map(text).as_deref(), Some("x"));
    }

    #[test]
    fn the_kernels_words_go_with_the_errno() {
        let mut payload = (-libc::EOPNOTSUPP).to_ne_bytes().to_vec();
        payload.extend_from_slice(&[0; NLMSG_HEADER]);
        let mut words = Request { bytes: Vec::new() };
        payload.extend_from_slice(&words.text(NLMSGERR_ATTR_MSG, "Unknown device type.").bytes);
        let flags = NLM_F_CAPPED | NLM_F_ACK_TLVS;
        let message = Message { kind: NLMSG_ERROR, flags, sequence: 1, payload: &payload };
        let error = refusal(&message).expect_err("refused");
        assert_eq!(errno(&error), Some(libc::EOPNOTSUPP));
        assert!(error.to_string().ends_with("(Unknown device type)"), "{error}");
        let plain = refusal(&Message { flags: NLM_F_CAPPED, ..message }).expect_err("refused");
        assert_eq!(errno(&plain), Some(libc::EOPNOTSUPP));
    }

    proptest! {
        #[test]
        fn bytes_of_any_kind_make_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            for message in messages(&bytes).take(100) {
                let Ok(message) = message else { break };
                let _said = refusal(&message);
                for (_, value) in attributes(message.payload) {
                    let _inner = attributes(value).count();
                }
            }
            let _count = attributes(&bytes).count();
        }
    }
}
