//! The kernel's counters of TCP sockets, as `ss -i` shows them.
//!
//! Sources: sock_diag(7); `include/uapi/linux/inet_diag.h` (`inet_diag_req_v2`, `inet_diag_msg`), `include/uapi/linux/tcp.h`
//! (`tcp_info`), `net/ipv4/tcp_diag.c:tcp_diag_get_info`, `net/ipv4/tcp.c:tcp_get_info` (v6.18).

use super::TasksNamespace;
use super::netlink::{self, Netlink, Request, attribute, number32, number64};
use crate::{Host, HostError};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
/// Every state but TIME_WAIT (6), LISTEN (10) and NEW_SYN_RECV (12), which have no such numbers.
const STATES: u32 = 0xfff & !(1 << 6 | 1 << 10);
/// The length of `struct inet_diag_msg`, and where in it the cookie and the number of the file stand.
const HEADER: usize = 72;
const COOKIE: usize = 44;
const INODE: usize = 68;
/// Places of the state and the user in it, and the state of a connection that neither end has closed (`include/net/tcp_states.h`).
const STATE: usize = 1;
const UID: usize = 64;
const ESTABLISHED: u8 = 1;
/// `tcpi_rtt` and `tcpi_min_rtt`; the latter is all ones before the first sample.
const RTT: usize = 68;
const MIN_RTT: usize = 148;

/// What a number of [`TcpInfo`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpUnit {
    /// Segments, or how often something was seen.
    Count,
    Bytes,
    /// µs.
    Us,
}

/// A number of `tcp_info` that only grows while the socket lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpField {
    /// Its name in the kernel, without `tcpi_`.
    pub name: &'static str,
    /// What it counts.
    pub unit: TcpUnit,
    at: usize,
}

/// How many there are.
const FIELDS: usize = 11;

/// Those that are read, in the order of [`TcpInfo::values`].
pub const TCP_FIELDS: [TcpField; FIELDS] = [
    TcpField { name: "segs_out", unit: TcpUnit::Count, at: 136 },
    TcpField { name: "segs_in", unit: TcpUnit::Count, at: 140 },
    TcpField { name: "total_retrans", unit: TcpUnit::Count, at: 100 },
    TcpField { name: "dsack_dups", unit: TcpUnit::Count, at: 216 },
    TcpField { name: "reord_seen", unit: TcpUnit::Count, at: 220 },
    TcpField { name: "rcv_ooopack", unit: TcpUnit::Count, at: 224 },
    TcpField { name: "bytes_sent", unit: TcpUnit::Bytes, at: 200 },
    TcpField { name: "bytes_retrans", unit: TcpUnit::Bytes, at: 208 },
    TcpField { name: "busy_time", unit: TcpUnit::Us, at: 168 },
    TcpField { name: "rwnd_limited", unit: TcpUnit::Us, at: 176 },
    TcpField { name: "sndbuf_limited", unit: TcpUnit::Us, at: 184 },
];

/// A socket.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Its numbers, in the order of [`TCP_FIELDS`]; `None` where the kernel has no such number.
    pub values: [Option<u64>; FIELDS],
    /// Its smoothed round trip, µs; `None` before the first sample.
    pub rtt_us: Option<u32>,
    /// Its smallest round trip of late, µs.
    pub min_rtt_us: Option<u32>,
}

impl Host {
    /// The TCP sockets of a network namespace whose files are among these numbers, by the cookie that the kernel gives each
    /// socket once.
    ///
    /// # Errors
    /// When the namespace cannot be entered (CAP_SYS_ADMIN), or the kernel has no CONFIG_INET_TCP_DIAG.
    pub fn tcp_sockets(
        &self,
        namespace: &TasksNamespace,
        files: &BTreeSet<u64>,
    ) -> Result<BTreeMap<u64, TcpInfo>, HostError> {
        let read = || {
            let mut netlink = Netlink::open_sock_diag()?;
            let mut found = BTreeMap::new();
            for family in [libc::AF_INET, libc::AF_INET6] {
                read_family(&mut netlink, family as u8, files, &mut found)?;
            }
            Ok(found)
        };
        let read = namespace.within(read).and_then(|read| read);
        read.map_err(|error| HostError::new("ask", "the kernel about TCP sockets", &error))
    }
}

/// The user whose socket is at `local`, connected with `remote`, in the network namespace of this thread. `None` where there is no
/// such socket, which may be on another host, or the kernel has no CONFIG_INET_TCP_DIAG.
pub fn owner_of_tcp(local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let [from, to] = [local, remote].map(|end| end.ip().to_canonical());
    let mut question = [0; 56];
    let family = if from.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    question[0] = family as u8;
    question[1] = libc::IPPROTO_TCP as u8;
    question[8..10].copy_from_slice(&local.port().to_be_bytes());
    question[10..12].copy_from_slice(&remote.port().to_be_bytes());
    for (at, ip) in [(12, from), (28, to)] {
        match ip {
            IpAddr::V4(ip) => question[at..at + 4].copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => question[at..at + 16].copy_from_slice(&ip.octets()),
        }
    }
    // Any cookie.
    question[48..].fill(0xff);
    let mut owner = None;
    let mut each = |_: u16, payload: &[u8]| {
        // The kernel shows a socket that its user has closed as root's (net/core/sock.c:sock_i_uid, v6.12).
        if payload.get(STATE) == Some(&ESTABLISHED) {
            owner = number32(payload, UID);
        }
    };
    let mut netlink = Netlink::open_sock_diag().ok()?;
    netlink.get(&mut Request::new(SOCK_DIAG_BY_FAMILY, 0, &question), &mut each).ok()?;
    owner
}

fn read_family(
    netlink: &mut Netlink,
    family: u8,
    files: &BTreeSet<u64>,
    found: &mut BTreeMap<u64, TcpInfo>,
) -> io::Result<()> {
    let mut question = [0; 56];
    question[0] = family;
    question[1] = libc::IPPROTO_TCP as u8;
    question[2] = 1 << (INET_DIAG_INFO - 1);
    question[4..8].copy_from_slice(&STATES.to_ne_bytes());
    let listed = netlink.list(&mut Request::new(SOCK_DIAG_BY_FAMILY, 0, &question), &mut |_, payload| {
        if let Some((file, cookie, info)) = socket(payload)
            && files.contains(&file)
        {
            found.insert(cookie, info);
        }
    });
    match listed {
        Err(e) if netlink::errno(&e) == Some(libc::ENOENT) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "the kernel does not list TCP sockets (it needs CONFIG_INET_TCP_DIAG)",
        )),
        listed => listed,
    }
}

/// The number of a socket's file, its cookie, its numbers.
fn socket(payload: &[u8]) -> Option<(u64, u64, TcpInfo)> {
    let info = attribute(payload.get(HEADER..)?, INET_DIAG_INFO)?;
    let value = |field: &TcpField| {
        // Those behind the counts of segments, but for the three of late, have 64 bits.
        match field.unit {
            TcpUnit::Count => number32(info, field.at).map(u64::from),
            TcpUnit::Bytes | TcpUnit::Us => number64(info, field.at),
        }
    };
    let info = TcpInfo {
        values: TCP_FIELDS.each_ref().map(value),
        rtt_us: number32(info, RTT).filter(|us| *us > 0),
        min_rtt_us: number32(info, MIN_RTT).filter(|us| *us != u32::MAX),
    };
    Some((u64::from(number32(payload, INODE)?), number64(payload, COOKIE)?, info))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn a_socket_that_is_cut_short_is_none_and_an_old_kernel_has_fewer_numbers() {
        let mut header = [0; HEADER];
        header[COOKIE..COOKIE + 8].copy_from_slice(&77_u64.to_ne_bytes());
        header[INODE..].copy_from_slice(&5_u32.to_ne_bytes());
        let mut info = [0; 200];
        info[100..104].copy_from_slice(&9_u32.to_ne_bytes());
        info[MIN_RTT..MIN_RTT + 4].copy_from_slice(&[0xff; 4]);
        let mut request = Request::new(SOCK_DIAG_BY_FAMILY, 0, &header);
        request.attribute(INET_DIAG_INFO, &info);
        let payload = request.payload();
        let (file, cookie, info) = socket(payload).expect("whole");
        assert_eq!((file, cookie, info.rtt_us, info.min_rtt_us), (5, 77, None, None));
        assert_eq!(info.values[2], Some(9), "total_retrans");
        assert_eq!(info.values[3], None, "dsack_dups lies behind the end");
        for length in 0..payload.len() {
            assert_eq!(socket(&payload[..length]), None, "{length}");
        }
    }

    #[test]
    fn the_other_end_of_a_connection_has_an_owner_until_it_is_closed() {
        for at in ["127.0.0.1:0", "[::]:0"] {
            let listener = TcpListener::bind(at).expect("a port");
            let port = listener.local_addr().expect("its address").port();
            let near = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
            let (far, client) = listener.accept().expect("its other end");
            let ours = far.local_addr().expect("its address");
            assert_eq!(owner_of_tcp(client, ours), Some(rustix::process::geteuid().as_raw()), "{at}");
            drop(near);
            assert_eq!(owner_of_tcp(client, ours), None, "{at}");
        }
    }

    #[test]
    fn a_transfer_of_this_process_is_reported() {
        let host = Host::real();
        let me = std::process::id();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut near = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let mut far = listener.accept().expect("its other end").0;
        near.write_all(&[1; 50_000]).expect("sent");
        far.read_exact(&mut [0; 50_000]).expect("received");
        let files = host.socket_files(&[me]);
        let sent = TCP_FIELDS.iter().position(|f| f.name == "bytes_sent").expect("it is there");
        let mut all = Vec::new();
        // Other tests of this process may have sockets in namespaces of their own for a while.
        for namespace in host.network_namespaces(&[me]) {
            // Entering a namespace takes CAP_SYS_ADMIN, even the own one.
            let Ok(sockets) = host.tcp_sockets(&namespace, &files) else { return };
            all.extend(sockets.into_values());
            assert!(host.tcp_sockets(&namespace, &BTreeSet::new()).expect("asked again").is_empty());
        }
        assert!(all.iter().any(|s| s.values[sent].is_some_and(|n| n >= 50_000)), "{all:?}");
    }
}
