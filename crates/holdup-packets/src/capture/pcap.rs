//! pcap (draft-ietf-opsawg-pcap), and what Alexey Kuznetzov's patch of old made of it.

use super::stream::Stream;
use super::{Found, Link, MOST_BLOCK_BYTES, MOST_FRAME_BYTES, damaged, number};
use holdup_model::Problem;

/// What the header of the file says.
pub(super) struct Header {
    link: Link,
    is_big_endian: bool,
    /// How many ns the lesser unit of a time has.
    unit_ns: i64,
    /// Bytes of the header of a frame: 16, or 24 where an interface and a protocol follow its lengths.
    frame_header_bytes: usize,
    most_bytes: u32,
}

impl Header {
    /// Reads the header of a file, whose first four bytes were looked at.
    pub(super) fn read(stream: &mut Stream, magic: Option<[u8; 4]>) -> Result<Self, Problem> {
        let Some(magic) = magic else {
            return Err(Problem::usage("capture", "it is empty, or shorter than four bytes")
                .hint("give a file that tcpdump, dumpcap or the like has written"));
        };
        let (is_big_endian, unit_ns, frame_header_bytes) = match magic {
            [0xa1, 0xb2, 0xc3, 0xd4] => (true, 1000, 16),
            [0xd4, 0xc3, 0xb2, 0xa1] => (false, 1000, 16),
            [0xa1, 0xb2, 0x3c, 0x4d] => (true, 1, 16),
            [0x4d, 0x3c, 0xb2, 0xa1] => (false, 1, 16),
            [0xa1, 0xb2, 0xcd, 0x34] => (true, 1000, 24),
            [0x34, 0xcd, 0xb2, 0xa1] => (false, 1000, 24),
            [a, b, c, d] => {
                return Err(Problem::usage(
                    "capture",
                    format!("it begins with {a:02x} {b:02x} {c:02x} {d:02x}, as neither pcap nor pcapng does"),
                )
                .hint("editcap -F pcapng makes a file of pcapng from those of other programs"));
            }
        };
        stream.has(24)?;
        let Some(header) = stream.head::<24>() else {
            return Err(damaged(0, "the header of the file is not whole"));
        };
        stream.take(24);
        let word = |i: usize| number(std::array::from_fn(|k| header[4 * i + k]), is_big_endian);
        let most_bytes = word(4).clamp(MOST_FRAME_BYTES, MOST_BLOCK_BYTES);
        // The highest bits say whether a checksum ends each frame, and how long it is; it stands where padding does.
        let link = Link::from_number(word(5) & 0x03ff_ffff);
        Ok(Header { link, is_big_endian, unit_ns, frame_header_bytes, most_bytes })
    }

    /// Goes to the next frame.
    #[inline]
    pub(super) fn advance(&self, stream: &mut Stream, interfaces: u32) -> Result<Option<Found>, Problem> {
        if !stream.has(self.frame_header_bytes)? {
            return Ok(None);
        }
        let Some(header) = stream.head::<16>() else { return Ok(None) };
        let word = |i: usize| {
            number([header[4 * i], header[4 * i + 1], header[4 * i + 2], header[4 * i + 3]], self.is_big_endian)
        };
        let (seconds, part, length, wire_bytes) = (word(0), word(1), word(2), word(3));
        if length > self.most_bytes {
            let why = format!("a frame of {length} bytes, more than the {} that can be", self.most_bytes);
            return Err(damaged(stream.offset(), why));
        }
        let whole = self.frame_header_bytes + length as usize;
        if !stream.has(whole)? {
            return Ok(None);
        }
        let start = stream.take(whole) + self.frame_header_bytes;
        let at_ns = i64::from(seconds) * 1_000_000_000 + i64::from(part) * self.unit_ns;
        Ok(Some(Found { start, length, wire_bytes, at_ns, link: self.link, interface: interfaces - 1 }))
    }
}
