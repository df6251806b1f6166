//! pcap (draft-ietf-opsawg-pcap), and Alexey Kuznetzov's modified format.

use super::stream::Stream;
use super::{Found, Link, MOST_BLOCK_BYTES, MOST_FRAME_BYTES, damaged, number};
use holdup_model::Problem;

/// The file header.
pub(super) struct Header {
    link: Link,
    pub(super) interface: u32,
    is_big_endian: bool,
    /// The unit of the fraction of a second, ns.
    unit_ns: i64,
    /// 16, or 24 in the modified format.
    frame_header_bytes: usize,
    most_bytes: u32,
}

impl Header {
    pub(super) fn read(stream: &mut Stream, magic: Option<[u8; 4]>) -> Result<Self, Problem> {
        let Some(magic) = magic else {
            return Err(Problem::usage("capture", "it is empty, or shorter than four bytes")
                .hint("give a file from tcpdump, dumpcap or the like"));
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
                    format!("it begins with {a:02x} {b:02x} {c:02x} {d:02x}, which is neither pcap nor pcapng"),
                )
                .hint("editcap -F pcapng converts other formats"));
            }
        };
        stream.has(24)?;
        let Some(header) = stream.head::<24>() else {
            return Err(damaged(0, "the file header is incomplete"));
        };
        stream.take(24);
        let word = |i: usize| number(std::array::from_fn(|k| header[4 * i + k]), is_big_endian);
        let most_bytes = word(4).clamp(MOST_FRAME_BYTES, MOST_BLOCK_BYTES);
        // The highest bits describe a checksum after each frame, which counts as padding.
        let link = Link::from_number(word(5) & 0x03ff_ffff);
        Ok(Header { link, interface: 0, is_big_endian, unit_ns, frame_header_bytes, most_bytes })
    }

    /// The next frame, if it is complete in the buffer, and its length with its header.
    #[inline(always)]
    pub(super) fn frame(&self, stream: &Stream) -> Option<(Found, usize)> {
        let header = stream.head::<16>()?;
        let [seconds, part, length, wire_bytes] = self.words(header);
        let whole = self.frame_header_bytes + length as usize;
        if length > self.most_bytes {
            return None;
        }
        stream.next(whole)?;
        let start = stream.position() + self.frame_header_bytes;
        let at_ns = i64::from(seconds) * 1_000_000_000 + i64::from(part) * self.unit_ns;
        Some((Found { start, length, wire_bytes, at_ns, link: self.link, interface: self.interface }, whole))
    }

    /// Makes the next frame complete in the buffer; `false` after the last.
    pub(super) fn ready(&self, stream: &mut Stream) -> Result<bool, Problem> {
        if !stream.has(self.frame_header_bytes)? {
            return Ok(false);
        }
        let Some(header) = stream.head::<16>() else { return Ok(false) };
        let [_, _, length, _] = self.words(header);
        if length > self.most_bytes {
            let why = format!("a frame of {length} bytes, more than the limit of {}", self.most_bytes);
            return Err(damaged(stream.offset(), why));
        }
        stream.has(self.frame_header_bytes + length as usize)
    }

    #[inline(always)]
    fn words(&self, [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]: [u8; 16]) -> [u32; 4] {
        [[a, b, c, d], [e, f, g, h], [i, j, k, l], [m, n, o, p]].map(|bytes| number(bytes, self.is_big_endian))
    }
}
