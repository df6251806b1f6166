//! The bytes of a capture become frames.
//!
//! A [`Reader`] knows pcap and pcapng by how they begin, and gzip and zstd around them. Frames are slices of its one buffer:
//! a frame is told, used, and gone with the next, unless whole buffers of them are given away ([`Block`]). [`Chain`] reads
//! files one after another as one capture.

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

/// How much of a file is read at once, bytes. A larger buffer leaves the cache of a core, a smaller one makes more calls.
pub const BUFFER_BYTES: usize = 256 << 10;

/// The buffer of a [`Block`], bytes.
pub const BLOCK_BYTES: usize = 128 << 10;

/// The longest captured part of a frame that is believed, unless the file says that it has longer ones: 256 KiB, as with
/// Wireshark.
pub const MOST_FRAME_BYTES: u32 = 256 << 10;

/// The longest block that the buffer grows for, bytes, whatever the file says.
pub const MOST_BLOCK_BYTES: u32 = 16 << 20;

/// What a frame begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    /// Ethernet (1).
    Ethernet,
    /// BSD loopback, the family in the order of the machine that captured (0).
    Null,
    /// BSD loopback, the family in network order (108).
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
    /// Another one by its number, of which nothing is understood.
    Other(u32),
}

impl Link {
    /// By the number that files have for it (<https://www.tcpdump.org/linktypes.html>).
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

/// What was captured of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Its number, from 1.
    pub number: u32,
    /// When it was captured, ns since the epoch; 0 where the file has no time for it.
    pub at_ns: i64,
    /// What it begins with.
    pub link: Link,
    /// The interface, counted from 0 over all sections of a file and all files of a chain.
    pub interface: u32,
    /// What was captured of it.
    pub captured: &'a [u8],
    /// How long it was on the wire, bytes.
    pub wire_bytes: u32,
}

/// A frame that was found in the buffer.
#[derive(Debug, Clone, Copy)]
struct Found {
    start: usize,
    length: u32,
    wire_bytes: u32,
    at_ns: i64,
    link: Link,
    interface: u32,
}

/// A capture that ends in the middle of something: it was cut, or is still being written. What was whole before is not
/// touched by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    /// Where the last thing begins that is not whole: bytes from the start of the capture, unpacked.
    pub offset: u64,
    /// How much is there of it, bytes.
    pub lost_bytes: u64,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the capture is cut: its last {} bytes, at offset {}, are not read", self.lost_bytes, self.offset)
    }
}

/// What gives frames one after another.
pub trait Frames {
    /// The next frame, `None` after the last.
    ///
    /// # Errors
    /// When the source cannot be read, or what it gives is no capture or damaged; after that there are no more frames.
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
    /// How many frames were told, of captures before this one too.
    frames: u32,
    cut: Option<Cut>,
    is_done: bool,
}

impl<'a> Reader<'a> {
    /// Reads how a capture begins, packed or not.
    ///
    /// # Errors
    /// When the source cannot be read, is empty, or begins as no capture does.
    pub fn new(source: impl Read + Send + 'a) -> Result<Self, Problem> {
        let mut stream = Stream::new(compressed::unpacked(source)?);
        let format = match stream.magic()? {
            Some(pcapng::SECTION) => Format::PcapNg(pcapng::Sections::default()),
            magic => Format::Pcap(pcap::Header::read(&mut stream, magic)?),
        };
        Ok(Reader { stream, format, frames: 0, cut: None, is_done: false })
    }

    /// Has numbers of frames and interfaces go on after those of captures that were read before.
    #[must_use]
    fn after(mut self, frames: u32, interfaces: u32) -> Self {
        self.frames = frames;
        match &mut self.format {
            Format::Pcap(header) => header.interface = interfaces,
            Format::PcapNg(sections) => sections.count_from(interfaces),
        }
        self
    }

    /// Where the capture was cut, when it was and its end has been reached.
    pub fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Goes to the next frame. It is apart from [`Reader::found`] because a loop cannot give away what it borrows.
    ///
    /// What is usual, a frame that is whole in the buffer, is found without a call, so that what is known of it stays in
    /// registers; what else there is between frames is gone over by [`Reader::ready`].
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

    /// Makes a frame be the next thing in the buffer, and whole; `false` after the last.
    #[inline(never)]
    fn ready(&mut self) -> Result<bool, Problem> {
        if self.is_done {
            return Ok(false);
        }
        let ready = match &mut self.format {
            _ if self.frames == u32::MAX => {
                Err(Problem::usage("capture", format!("it has more than {} frames", u32::MAX))
                    .hint("cut it by editcap -c, and give its parts one by one"))
            }
            Format::Pcap(header) => header.ready(&mut self.stream),
            Format::PcapNg(sections) => sections.ready(&mut self.stream),
        };
        if ready != Ok(true) {
            self.is_done = true;
            self.cut = self.stream.cut();
            // What is in the buffer still would else be found when the next frame is asked for.
            self.stream.drop_rest();
        }
        ready
    }

    /// Reads on into the block's own buffer, and goes to the frames that are whole in it, at most [`MOST_FRAMES`]; `false` after the
    /// last. What is left at its end is kept here.
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

    /// The next frame where it is whole in the buffer, and how long it is with what is around it.
    #[inline(always)]
    fn buffered(&self) -> Option<(Found, usize)> {
        let found = match &self.format {
            Format::Pcap(header) => header.frame(&self.stream),
            Format::PcapNg(sections) => sections.frame(&self.stream),
        };
        found.filter(|_| self.frames < u32::MAX)
    }

    /// How many interfaces there were in the captures before this one, and in it.
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

/// A capture that says what cannot be, with the offset at which it does.
#[cold]
fn damaged(offset: u64, why: impl Into<String>) -> Problem {
    Problem::usage(format!("capture, at offset {offset}"), why)
        .hint("the capture is damaged there; editcap or pcapfix may save what follows")
}

/// A number of 32 bits in one of both orders.
#[inline]
fn number(bytes: [u8; 4], is_big_endian: bool) -> u32 {
    if is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
}
