//! Reads the frames of a capture.
//!
//! A [`Reader`] recognises pcap and pcapng, and gzip and zstd around them. Frames are slices of its buffer and valid until the
//! next one, unless whole buffers are passed on ([`Block`]). [`Chain`] reads several files as one capture.

mod block;
mod chain;
mod compressed;
mod pcap;
mod pcapng;
mod stream;

pub use block::{Block, MOST_FRAMES};
pub use chain::Chain;

use holdup_model::Problem;
use std::fmt;
use std::io::Read;
use stream::Stream;

/// The read buffer, bytes. A larger one leaves the cache of a core, a smaller one needs more system calls.
pub const BUFFER_BYTES: usize = 256 << 10;

/// The buffer of a [`Block`], bytes.
pub const BLOCK_BYTES: usize = 128 << 10;

/// The longest accepted frame, unless the file announces longer ones: 256 KiB, as in Wireshark.
pub const MOST_FRAME_BYTES: u32 = 256 << 10;

/// The limit of the buffer's growth, bytes.
pub const MOST_BLOCK_BYTES: u32 = 16 << 20;

/// The link layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Ethernet (1).
    Ethernet,
    /// BSD loopback, family in the capturing host's byte order (0).
    Null,
    /// BSD loopback, family in network order (108).
    Loop,
    /// An IP packet of either version (12, 14, 101).
    Raw,
    /// An IPv4 packet (228).
    Ipv4,
    /// An IPv6 packet (229).
    Ipv6,
    /// Linux cooked, version 1 (113).
    CookedV1,
    /// Linux cooked, version 2 (276).
    CookedV2,
    /// Another link type, which is not supported.
    Other(u32),
}

impl Link {
    /// By its number in files (<https://www.tcpdump.org/linktypes.html>).
    pub fn from_number(number: u32) -> Self {
        match number {
            0 => Link::Null,
            1 => Link::Ethernet,
            12 | 14 | 101 => Link::Raw,
            108 => Link::Loop,
            113 => Link::CookedV1,
            228 => Link::Ipv4,
            229 => Link::Ipv6,
            276 => Link::CookedV2,
            other => Link::Other(other),
        }
    }
}

/// A captured frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// The capture time, ns since the epoch; 0 if the file has none.
    pub at_ns: i64,
    /// The link layer.
    pub link: Link,
    /// The interface number over all sections and files.
    pub interface: u32,
    /// The captured bytes.
    pub captured: &'a [u8],
    /// Its length on the wire, bytes.
    pub wire_bytes: u32,
}

#[derive(Debug, Clone, Copy)]
struct Found {
    start: usize,
    length: u32,
    wire_bytes: u32,
    at_ns: i64,
    link: Link,
    interface: u32,
}

/// A capture that ends within a frame: it was truncated or is still being written. The frames before are whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// The offset of the incomplete record in the decompressed capture.
    pub offset: u64,
    /// The number of its bytes.
    pub lost_bytes: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the capture is truncated: its last {} bytes, at offset {}, are not read",
            self.lost_bytes, self.offset
        )
    }
}

/// A source of frames.
pub trait Frames {
    /// The next frame, `None` after the last.
    ///
    /// # Errors
    /// When the source cannot be read, is not a capture or is damaged; after that there are no more frames.
    fn next(&mut self) -> Result<Option<Frame<'_>>, Problem>;
}

enum Format {
    Pcap(pcap::Header),
    PcapNg(pcapng::Sections),
}

/// Reads one capture.
pub struct Reader<'a> {
    stream: Stream<'a>,
    format: Format,
    /// The number of frames so far, earlier files included.
    frames: u32,
    cut: Option<Cut>,
    is_done: bool,
}

impl<'a> Reader<'a> {
    /// Reads the beginning of a capture, compressed or not.
    ///
    /// # Errors
    /// When the source cannot be read, is empty, or is not a capture.
    pub fn new(source: impl Read + Send + 'a) -> Result<Self, Problem> {
        let mut stream = Stream::new(compressed::unpacked(source)?);
        let format = match stream.magic()? {
            Some(pcapng::SECTION) => Format::PcapNg(pcapng::Sections::default()),
            magic => Format::Pcap(pcap::Header::read(&mut stream, magic)?),
        };
        Ok(Reader { stream, format, frames: 0, cut: None, is_done: false })
    }

    /// Continues the numbers of frames and interfaces of earlier files.
    #[must_use]
    fn after(mut self, frames: u32, interfaces: u32) -> Self {
        self.frames = frames;
        match &mut self.format {
            Format::Pcap(header) => header.interface = interfaces,
            Format::PcapNg(sections) => sections.count_from(interfaces),
        }
        self
    }

    /// Where the capture is truncated, once its end has been reached.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Advances to the next frame. Separate from [`Reader::found`], because a loop cannot return what it borrows.
    ///
    /// A frame that is complete in the buffer is found without a call, so that its fields stay in registers; [`Reader::ready`]
    /// handles everything else between frames.
    #[inline(always)]
    fn advance(&mut self) -> Result<Option<Found>, Problem> {
        loop {
            if let Some((found, bytes)) = self.buffered() {
                self.stream.take(bytes);
                self.frames += 1;
                return Ok(Some(found));
            }
            if !self.ready()? {
                return Ok(None);
            }
        }
    }

    /// Makes the next frame complete in the buffer; `false` after the last.
    #[inline(never)]
    fn ready(&mut self) -> Result<bool, Problem> {
        if self.is_done {
            return Ok(false);
        }
        let ready = match &mut self.format {
            _ if self.frames == u32::MAX => {
                Err(Problem::usage("capture", format!("it has more than {} frames", u32::MAX))
                    .hint("split it with editcap -c, and analyse the parts"))
            }
            Format::Pcap(header) => header.ready(&mut self.stream),
            Format::PcapNg(sections) => sections.ready(&mut self.stream),
        };
        if ready != Ok(true) {
            self.is_done = true;
            self.cut = self.stream.cut();
            // Otherwise the next call would find it in the buffer.
            self.stream.drop_rest();
        }
        ready
    }

    /// Reads into the block's buffer and takes the complete frames in it, at most [`MOST_FRAMES`]; `false` after the last.
    /// Incomplete data stays here.
    fn block(&mut self, block: &mut Block) -> Result<bool, Problem> {
        block.found.clear();
        self.stream.change_buffer(&mut block.bytes, BLOCK_BYTES);
        let is_there = self.ready();
        block.frames_before = self.frames;
        while let Some((found, bytes)) = self.buffered()
            && block.found.len() < MOST_FRAMES
        {
            self.stream.take(bytes);
            self.frames += 1;
            block.found.push(found);
        }
        self.stream.change_buffer(&mut block.bytes, 0);
        is_there
    }

    /// The next frame, if it is complete in the buffer, and the length of its record.
    #[inline(always)]
    fn buffered(&self) -> Option<(Found, usize)> {
        let found = match &self.format {
            Format::Pcap(header) => header.frame(&self.stream),
            Format::PcapNg(sections) => sections.frame(&self.stream),
        };
        found.filter(|_| self.frames < u32::MAX)
    }

    fn interfaces(&self) -> u32 {
        match &self.format {
            Format::Pcap(header) => header.interface + 1,
            Format::PcapNg(sections) => sections.interfaces(),
        }
    }

    #[inline(always)]
    fn found(&self, found: Found) -> Frame<'_> {
        let Found { start, length, wire_bytes, at_ns, link, interface } = found;
        let captured = self.stream.slice(start, length as usize);
        Frame { number: self.frames, at_ns, link, interface, captured, wire_bytes }
    }
}

impl Frames for Reader<'_> {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<Frame<'_>>, Problem> {
        Ok(self.advance()?.map(|found| self.found(found)))
    }
}

#[cold]
fn damaged(offset: u64, why: impl Into<String>) -> Problem {
    Problem::usage(format!("capture, at offset {offset}"), why)
        .hint("the capture is damaged there; editcap or pcapfix may recover what follows")
}

#[inline]
fn number(bytes: [u8; 4], is_big_endian: bool) -> u32 {
    if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}
