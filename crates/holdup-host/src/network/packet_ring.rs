//! What passes the links of a network namespace, in a ring that the kernel writes.
//!
//! Sources: packet(7); Documentation/networking/packet_mmap.rst; include/uapi/linux/if_packet.h (`tpacket_block_desc`,
//! `tpacket3_hdr`); net/packet/af_packet.c:tpacket_rcv, prb_retire_current_block (v6.18).

use super::tasks_namespaces::TasksNamespace;
use crate::{Host, HostError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The kernel hands over a block when it is full, or after this time.
const BLOCK_BYTES: usize = 1 << 18;
const BLOCK_TIMEOUT_MS: u32 = 20;
/// `struct tpacket_block_desc`: its status, how many packets it has, where the first one begins.
const BLOCK_STATUS: usize = 8;
const BLOCK_PACKETS: usize = 12;
const BLOCK_FIRST: usize = 16;
/// `struct tpacket3_hdr`, aligned, after which `struct sockaddr_ll` stands.
const HEADER: usize = 48;
/// The loopback link, whose packets pass it twice, out and in.
const LOOPBACK: u32 = 1;
const ETH_P_ALL: u16 = 0x0003;

/// How to capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capturing {
    /// How much of each packet is taken, bytes from its network header on.
    pub snap_bytes: u32,
    /// Size of the ring, bytes; whole blocks of 256 KiB, at least two.
    pub ring_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<'a> {
    /// When the kernel saw it, ns since the epoch.
    pub at_ns: i64,
    /// The index of the link that it passed.
    pub link: u32,
    /// True if it went out.
    pub is_outgoing: bool,
    /// Its protocol (`ETH_P_IP` 0x0800, `ETH_P_IPV6` 0x86dd).
    pub protocol: u16,
    /// What was taken of it, from its network header on.
    pub bytes: &'a [u8],
    /// Its whole length from its network header on, bytes.
    pub length: u32,
}

/// What the kernel says of a ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingCounts {
    /// Packets that passed, those dropped among them.
    pub packets: u64,
    /// Packets for which the ring had no room.
    pub dropped: u64,
}

/// A ring, which captures until it is dropped.
#[derive(Debug)]
pub struct PacketRing {
    socket: OwnedFd,
    base: NonNull<u8>,
    blocks: usize,
    next: usize,
    /// Packets of the blocks that were drained.
    handed_over: u64,
    counts: RingCounts,
}

// SAFETY: the mapping belongs to this value alone and is reached through `&mut self` only.
unsafe impl Send for PacketRing {}

impl Host {
    /// Captures what passes all links of a network namespace, or of the one that this thread is in.
    ///
    /// # Errors
    /// When this process may not (CAP_NET_RAW), the ring cannot be had, or the host is a captured tree.
    pub fn packet_ring(
        &self,
        namespace: Option<&TasksNamespace>,
        capturing: Capturing,
    ) -> Result<PacketRing, HostError> {
        let fault = |error: &io::Error| HostError::new("open", "a packet socket with a ring", error);
        if !self.is_live() {
            return Err(fault(&io::Error::new(io::ErrorKind::Unsupported, "only the running system can be captured")));
        }
        let open = || PacketRing::open(capturing);
        let ring = match namespace {
            Some(tasks) => tasks.within(open).and_then(|ring| ring),
            None => open(),
        };
        ring.map_err(|error| fault(&error))
    }
}

impl PacketRing {
    fn open(capturing: Capturing) -> io::Result<Self> {
        // No protocol yet: nothing comes before the ring and the filter are there.
        // SAFETY: socket(2) takes three numbers and gives a file descriptor or -1.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was just opened, and nothing else has it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as libc::c_int))?;
        take(&socket, capturing.snap_bytes.max(1))?;
        let blocks = capturing.ring_bytes.div_ceil(BLOCK_BYTES).clamp(2, 1 << 13);
        let frame = 1 << 11;
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK_BYTES as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame as u32,
            tp_frame_nr: (blocks * BLOCK_BYTES / frame) as u32,
            tp_retire_blk_tov: BLOCK_TIMEOUT_MS,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)?;
        let (read_write, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: the kernel chooses a place where nothing is mapped.
        let base = unsafe { mmap(std::ptr::null_mut(), blocks * BLOCK_BYTES, read_write, shared, &socket, 0)? };
        let base = NonNull::new(base.cast()).ok_or_else(|| io::Error::other("mapped at address 0"))?;
        let ring = PacketRing { socket, base, blocks, next: 0, handed_over: 0, counts: RingCounts::default() };
        ring.bind()?;
        Ok(ring)
    }

    /// From now on it captures, on all links.
    fn bind(&self) -> io::Result<()> {
        // SAFETY: a C structure of numbers, for which zero is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = ETH_P_ALL.to_be();
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address lives through the call and has the length that is passed.
        let result = unsafe { libc::bind(self.socket.as_raw_fd(), (&raw const address).cast(), length) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits for at most this long until something was captured.
    ///
    /// # Errors
    /// When the kernel refuses to wait.
    pub fn wait(&self, longest: Duration) -> io::Result<()> {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let longest = Timespec { tv_sec: longest.as_secs() as i64, tv_nsec: i64::from(longest.subsec_nanos()) };
        match poll(&mut polled, Some(&longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands over what was captured, packet by packet in the order in which the kernel saw them, and gives the room back.
    /// Of what passes the loopback link only what comes in.
    pub fn drain(&mut self, each: &mut dyn FnMut(Packet<'_>)) {
        // A ring that is filled as fast as it is emptied must not hold the caller for ever.
        for _ in 0..self.blocks {
            let begin = self.next * BLOCK_BYTES;
            // SAFETY: the block lies in the mapping, its status is aligned, and both sides use it as one word.
            let status = unsafe { &*self.base.as_ptr().add(begin + BLOCK_STATUS).cast::<AtomicU32>() };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return;
            }
            // SAFETY: the block lies in the mapping, and the kernel does not write to it until its status is given back.
            let block = unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(begin), BLOCK_BYTES) };
            self.handed_over += packets(block, each);
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % self.blocks;
        }
    }

    /// Ends the capture and hands over the rest, for which the kernel's timeout of the last block is waited for. What has
    /// not come by then is counted as dropped.
    ///
    /// # Errors
    /// When the kernel refuses to end it, to wait or to count.
    pub fn finish(mut self, each: &mut dyn FnMut(Packet<'_>)) -> io::Result<RingCounts> {
        take(&self.socket, 0)?;
        for _ in 0..50 {
            self.drain(each);
            self.count()?;
            if self.handed_over >= self.counts.packets.saturating_sub(self.counts.dropped) {
                return Ok(self.counts);
            }
            self.wait(Duration::from_millis(u64::from(BLOCK_TIMEOUT_MS)))?;
        }
        self.counts.dropped = self.counts.packets.saturating_sub(self.handed_over);
        Ok(self.counts)
    }

    /// Adds what the kernel counted since the last time.
    fn count(&mut self) -> io::Result<()> {
        // Reading it sets it to zero (net/packet/af_packet.c:packet_getsockopt).
        // SAFETY: a C structure of numbers, for which zero is a value.
        let mut now: libc::tpacket_stats_v3 = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        let (level, name) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        // SAFETY: the structure lives through the call and has the length that is passed.
        let result =
            unsafe { libc::getsockopt(self.socket.as_raw_fd(), level, name, (&raw mut now).cast(), &raw mut length) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        self.counts.packets += u64::from(now.tp_packets);
        self.counts.dropped += u64::from(now.tp_drops);
        Ok(())
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: what was mapped by `open`, and no borrow of it is left.
        let _cannot_help = unsafe { munmap(self.base.as_ptr().cast(), self.blocks * BLOCK_BYTES) };
    }
}

fn set<T>(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value lives through the call and has the length that is passed.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Takes the first bytes of every packet from now on; with 0 it takes none.
fn take(socket: &OwnedFd, bytes: u32) -> io::Result<()> {
    // BPF_RET | BPF_K
    let mut program = [libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: bytes }];
    let filter = libc::sock_fprog { len: 1, filter: program.as_mut_ptr() };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

/// The packets of a block; returns how many the kernel says there are. One that does not lie in it whole ends the walk.
fn packets(block: &[u8], each: &mut dyn FnMut(Packet<'_>)) -> u64 {
    let word = |at: usize| -> Option<u32> {
        let bytes = block.get(at..at.checked_add(4)?)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let half = |at: usize| -> Option<u16> {
        let bytes = block.get(at..at.checked_add(2)?)?;
        Some(u16::from_ne_bytes(bytes.try_into().ok()?))
    };
    let packet = |at: usize| -> Option<(Packet<'_>, usize)> {
        let (taken, net) = (word(at + 12)? as usize, usize::from(half(at + 26)?));
        let address = at + HEADER;
        let packet = Packet {
            at_ns: i64::from(word(at + 4)?) * 1_000_000_000 + i64::from(word(at + 8)?),
            link: word(address + 4)?,
            is_outgoing: *block.get(address + 10)? == libc::PACKET_OUTGOING,
            protocol: u16::from_be(half(address + 2)?),
            bytes: block.get(at + net..(at + net).checked_add(taken)?)?,
            length: word(at + 16)?,
        };
        Some((packet, word(at)? as usize))
    };
    let (Some(count), Some(first)) = (word(BLOCK_PACKETS), word(BLOCK_FIRST)) else { return 0 };
    let mut at = first as usize;
    for _ in 0..count {
        let Some((packet, next)) = packet(at) else { break };
        if !(packet.is_outgoing && packet.link == LOOPBACK) {
            each(packet);
        }
        if next == 0 {
            break;
        }
        at += next;
    }
    u64::from(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    /// A packet as the kernel lays it out.
    fn laid_out(next: u32, link: u32, kind: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for word in [next, 7, 9, bytes.len() as u32, 1500, 0] {
            out.extend(word.to_ne_bytes());
        }
        out.extend([80_u16.to_ne_bytes(), 80_u16.to_ne_bytes()].concat());
        out.resize(HEADER, 0);
        out.extend(17_u16.to_ne_bytes());
        out.extend(0x0800_u16.to_be_bytes());
        out.extend(link.to_ne_bytes());
        out.extend([1, 0, kind, 0]);
        out.resize(80, 0);
        out.extend(bytes);
        out.resize(out.len().next_multiple_of(8), 0);
        out
    }

    fn block(count: u32, packets: &[Vec<u8>]) -> Vec<u8> {
        let mut out = vec![0; 48];
        out[BLOCK_PACKETS..BLOCK_PACKETS + 4].copy_from_slice(&count.to_ne_bytes());
        out[BLOCK_FIRST..BLOCK_FIRST + 4].copy_from_slice(&48_u32.to_ne_bytes());
        out.extend(packets.concat());
        out
    }

    fn seen(block: &[u8]) -> Vec<(u32, bool, Vec<u8>)> {
        let mut seen = Vec::new();
        packets(block, &mut |p| {
            assert_eq!((p.at_ns, p.protocol, p.length), (7_000_000_009, 0x0800, 1500));
            seen.push((p.link, p.is_outgoing, p.bytes.to_vec()));
        });
        seen
    }

    #[test]
    fn a_block_is_walked_and_what_leaves_by_the_loopback_link_is_left_out() {
        let one = laid_out(96, 2, libc::PACKET_OUTGOING, b"abcdefgh");
        let two = laid_out(88, LOOPBACK, libc::PACKET_OUTGOING, b"out");
        let three = laid_out(0, LOOPBACK, libc::PACKET_HOST, b"in");
        assert_eq!((one.len(), two.len()), (88, 88));
        let whole = block(3, &[laid_out(88, 2, libc::PACKET_OUTGOING, b"abcdefgh"), two, three]);
        let expected = vec![(2, true, b"abcdefgh".to_vec()), (LOOPBACK, false, b"in".to_vec())];
        assert_eq!(seen(&whole), expected);
        // However it is cut, the parsed part lies within it.
        for length in 0..whole.len() {
            assert!(seen(&whole[..length]).len() <= 2);
        }
        // One that leads outside of the block ends the walk.
        assert_eq!(seen(&block(2, &[laid_out(4096, 2, 0, b"a")])).len(), 1);
    }

    #[test]
    #[ignore = "takes root: a network namespace and a packet socket"]
    fn what_passes_a_link_is_captured_and_counted() {
        let host = Host::real();
        let member = super::super::Member::make().expect("root");
        let namespace = member.namespace.expect("its own namespace");
        let inside = TasksNamespace::new(namespace.try_clone().expect("another hold"), 0);
        let capturing = Capturing { snap_bytes: 96, ring_bytes: 1 << 20 };
        let ring = host.packet_ring(Some(&inside), capturing).expect("root");
        let sent = 40_000;
        namespace
            .within(|| {
                let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
                let mut to = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
                let (mut from, _) = listener.accept().expect("the other end");
                std::io::Write::write_all(&mut to, &vec![1; sent]).expect("sent");
                drop(to);
                assert_eq!(std::io::copy(&mut from, &mut std::io::sink()).expect("received"), sent as u64);
            })
            .expect("a thread in it");
        let (mut packets, mut payload) = (0_u64, 0);
        // All of it lies in a block that the kernel has not handed over yet.
        let counts = ring
            .finish(&mut |packet| {
                assert!(packet.bytes.len() <= 96 && packet.bytes.len() <= packet.length as usize, "{packet:?}");
                packets += 1;
                payload += (packet.length - 40) as usize / 1000 * 1000;
            })
            .expect("the kernel counts");
        assert!(packets >= 6 && payload >= sent / 2, "{packets} packets with {payload} bytes");
        assert_eq!(counts.dropped, 0);
        assert!(counts.packets >= packets, "{counts:?} and {packets} handed over");
    }
}
