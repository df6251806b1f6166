//! Frames: how the agent and the host separate messages from noise on a serial line.
//!
//! A console carries more than what is written to it: firmware and kernel lines, binary garbage, and now and then fewer
//! bytes than were sent. A frame says where it begins, how long it is, and what its bytes sum up to:
//!
//! | bytes | what |
//! | --- | --- |
//! | 4 | [`MAGIC`] |
//! | 1 | [`VERSION`] of this layout |
//! | 4 | sequence, from 0, one more for each frame of a sender |
//! | 4 | bytes of the body that follows the header, at most [`MOST_BODY_BYTES`] |
//! | 4 | CRC-32 (the one of zlib) of the body |
//! | 4 | CRC-32 of the header up to here |
//! | … | body: the payload, with a zero byte after each byte that is the first of the magic |
//!
//! Numbers are little-endian. The zero bytes keep the magic out of every body. So a frame that lost bytes ends where
//! the next one begins, and a payload that holds frames itself (a recorded console) cannot be taken for them when it
//! comes damaged.
//!
//! The line must be raw on both sides: a terminal that turns a line feed into two bytes damages every frame.

/// What a frame begins with: no UTF-8 text has these bytes, and no end of it is a beginning of it.
pub const MAGIC: [u8; 4] = [0xf5, 0xc1, 0xfe, 0x05];

/// The layout described at the head of this module.
pub const VERSION: u8 = 1;

/// Bytes before the body.
pub const HEADER_BYTES: usize = 21;

/// The longest payload.
pub const MOST_PAYLOAD_BYTES: usize = 64 << 20;

/// The most bytes of a body on the line: a payload in which each byte needs a zero byte after it.
pub const MOST_BODY_BYTES: usize = 2 * MOST_PAYLOAD_BYTES;

/// What follows the magic's first byte inside a body.
const STUFFING: u8 = 0;

/// A payload as the bytes of a frame. One longer than [`MOST_PAYLOAD_BYTES`] is refused by the decoder, with its length.
pub fn encode(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let stuffed = payload.iter().filter(|b| **b == MAGIC[0]).count();
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len() + stuffed);
    frame.resize(HEADER_BYTES, 0);
    for piece in payload.split_inclusive(|b| *b == MAGIC[0]) {
        frame.extend_from_slice(piece);
        if piece.last() == Some(&MAGIC[0]) {
            frame.push(STUFFING);
        }
    }
    let body = &frame[HEADER_BYTES..];
    let header =
        Header { sequence, body_bytes: u32::try_from(body.len()).unwrap_or(u32::MAX), body_sum: crc32fast::hash(body) };
    frame[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    frame
}

/// The numbers of a header.
struct Header {
    sequence: u32,
    body_bytes: u32,
    body_sum: u32,
}

impl Header {
    fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5..9].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[9..13].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes[13..17].copy_from_slice(&self.body_sum.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..17]);
        bytes[17..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8; HEADER_BYTES]) -> Result<Header, Damage> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if number(17) != crc32fast::hash(&bytes[..17]) {
            return Err(Damage::Header);
        }
        if bytes[4] != VERSION {
            return Err(Damage::Version(bytes[4]));
        }
        let header = Header { sequence: number(5), body_bytes: number(9), body_sum: number(13) };
        if header.body_bytes as usize > MOST_BODY_BYTES {
            return Err(Damage::TooLong(header.body_bytes));
        }
        Ok(header)
    }
}

/// Why something that began like a frame is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The sum of the header is wrong.
    Header,
    /// A whole header, of a layout with this number.
    Version(u8),
    /// A whole header, with a body of this many bytes, which is more than [`MOST_BODY_BYTES`].
    TooLong(u32),
    /// The sum of the body is wrong.
    Body,
    /// The next frame began before this one was whole: bytes were lost.
    CutShort,
    /// The sum is right, but a byte like the magic's first has no zero byte after it: another kind of sender.
    Stuffing,
    /// The line ended before the frame was whole.
    Ended,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Damage::Header => f.write_str("the sum of its header is wrong"),
            Damage::Version(version) => write!(f, "its layout is {version}, and {VERSION} is what is known here"),
            Damage::TooLong(bytes) => write!(f, "it claims a body of {bytes} bytes, more than {MOST_BODY_BYTES}"),
            Damage::Body => f.write_str("the sum of its body is wrong"),
            Damage::CutShort => f.write_str("the next frame began before it was whole"),
            Damage::Stuffing => f.write_str("a byte of the magic stands in its body"),
            Damage::Ended => f.write_str("the line ended before it was whole"),
        }
    }
}

/// What a line brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message, whole.
    Frame {
        /// Its number.
        sequence: u32,
        /// Its bytes.
        payload: Vec<u8>,
    },
    /// The next frame does not have the number that follows its predecessor's (0 at the beginning): messages were
    /// lost, or (`found` less than `expected`) the sender began anew. The frame itself comes next.
    Gap {
        /// The number that was due.
        expected: u32,
        /// The number that came.
        found: u32,
    },
    /// Bytes between frames, as they came; a stretch may come in several pieces.
    Noise(Vec<u8>),
    /// What began like a frame and is none. What follows is searched for the next frame.
    Damaged {
        /// What is wrong with it.
        why: Damage,
        /// Its bytes as far as they are known to belong to it.
        bytes: Vec<u8>,
    },
}

/// Finds frames in what comes over a line, however it is cut into pieces.
///
/// It keeps what was fed and not yet taken, and nothing beyond: a header that claims much allocates nothing.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    /// What came; up to `taken` it has been handed out.
    bytes: Vec<u8>,
    taken: usize,
    /// From `taken` on, this many bytes are known to begin no magic (in a body: after the header).
    searched: usize,
    expected: u32,
    /// A frame that waits until the gap before it is reported.
    held: Option<(u32, Vec<u8>)>,
}

impl Decoder {
    /// A decoder of a line on which nothing came so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what came.
    pub fn feed(&mut self, bytes: &[u8]) {
        // What was handed out is dropped only when it is at least as much as what stays, so that each byte moves at
        // most once.
        if self.taken > 0 && self.taken >= self.bytes.len() - self.taken {
            self.bytes.drain(..self.taken);
            self.taken = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// What is known of the bytes so far; `None` until more is fed.
    #[allow(clippy::should_implement_trait, reason = "it is no iterator: after None it continues with what is fed")]
    pub fn next(&mut self) -> Option<Received> {
        if let Some((sequence, payload)) = self.held.take() {
            return Some(Received::Frame { sequence, payload });
        }
        let rest = &self.bytes[self.taken..];
        if rest.first().is_none_or(|b| *b != MAGIC[0]) || !begins_like_magic(rest) {
            let noise = find_magic(rest, 0);
            return (noise > 0).then(|| Received::Noise(self.take(noise)));
        }
        let header = rest.first_chunk::<HEADER_BYTES>()?;
        let header = match Header::read(header) {
            Ok(header) => header,
            // Bytes may have been lost, so that another frame begins inside of what should be the header.
            Err(why) => return Some(self.damaged(why, find_magic(&rest[..HEADER_BYTES], 1))),
        };
        let whole = HEADER_BYTES + header.body_bytes as usize;
        let end = whole.min(rest.len());
        let from = self.searched.clamp(HEADER_BYTES, end);
        let next = find_magic(&rest[..end], from);
        if end - next >= MAGIC.len() {
            return Some(self.damaged(Damage::CutShort, next));
        }
        self.searched = next;
        if rest.len() < whole {
            return None;
        }
        let body = &rest[HEADER_BYTES..whole];
        if crc32fast::hash(body) != header.body_sum {
            // The last bytes may be the beginning of the next frame, when as many were lost.
            return Some(self.damaged(Damage::Body, next));
        }
        let Some(payload) = unstuff(body) else { return Some(self.damaged(Damage::Stuffing, whole)) };
        self.skip(whole);
        let (expected, found) = (self.expected, header.sequence);
        self.expected = found.wrapping_add(1);
        if found == expected {
            return Some(Received::Frame { sequence: found, payload });
        }
        self.held = Some((found, payload));
        Some(Received::Gap { expected, found })
    }

    /// What is left at the end of the line, after [`Decoder::next`] gave `None`; to be called until it gives `None`.
    pub fn end(&mut self) -> Option<Received> {
        if let Some(received) = self.next() {
            return Some(received);
        }
        let rest = &self.bytes[self.taken..];
        match rest.len() {
            0 => None,
            n if n < MAGIC.len() => Some(Received::Noise(self.take(n))),
            // A frame inside of what was lost is still wanted.
            _ => {
                let next = find_magic(rest, 1);
                Some(self.damaged(Damage::Ended, next))
            }
        }
    }

    /// Bytes that were fed and are not yet returned.
    pub fn pending_bytes(&self) -> usize {
        self.bytes.len() - self.taken
    }

    fn damaged(&mut self, why: Damage, bytes: usize) -> Received {
        Received::Damaged { why, bytes: self.take(bytes) }
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let bytes = self.bytes[self.taken..self.taken + count].to_vec();
        self.skip(count);
        bytes
    }

    fn skip(&mut self, count: usize) {
        self.taken += count;
        self.searched = 0;
        if self.taken == self.bytes.len() {
            // A large message does not hold its memory for ever.
            self.bytes = Vec::new();
            self.taken = 0;
        }
    }
}

/// True if the bytes are the magic, or all of them a beginning of it.
fn begins_like_magic(bytes: &[u8]) -> bool {
    let count = bytes.len().min(MAGIC.len());
    bytes[..count] == MAGIC[..count]
}

/// Where, from `from` on, the magic begins or may begin; the length when it does not.
fn find_magic(bytes: &[u8], from: usize) -> usize {
    let mut at = from.min(bytes.len());
    while let Some(next) = bytes[at..].iter().position(|b| *b == MAGIC[0]) {
        at += next;
        if begins_like_magic(&bytes[at..]) {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// The payload of a body; `None` when a byte like the magic's first stands alone.
fn unstuff(body: &[u8]) -> Option<Vec<u8>> {
    let mut payload = Vec::with_capacity(body.len());
    let mut pieces = body.split_inclusive(|b| *b == MAGIC[0]);
    let mut due = false;
    for piece in &mut pieces {
        let piece = if due { piece.strip_prefix(&[STUFFING])? } else { piece };
        payload.extend_from_slice(piece);
        due = piece.last() == Some(&MAGIC[0]);
    }
    (!due).then_some(payload)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What the pieces bring, up to the end of the line, with stretches of noise put together.
    fn received<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Received> {
        let mut decoder = Decoder::new();
        let mut all = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            while let Some(one) = decoder.next() {
                add(&mut all, one);
            }
        }
        while let Some(one) = decoder.end() {
            add(&mut all, one);
        }
        assert_eq!(decoder.pending_bytes(), 0);
        all
    }

    fn add(all: &mut Vec<Received>, one: Received) {
        match (all.last_mut(), one) {
            (Some(Received::Noise(before)), Received::Noise(more)) => before.extend(more),
            (_, one) => all.push(one),
        }
    }

    fn frame(sequence: u32, payload: &[u8]) -> Received {
        Received::Frame { sequence, payload: payload.to_vec() }
    }

    /// Bytes in which those that matter to the codec are common.
    fn awkward(most: usize) -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(MAGIC[0]), Just(MAGIC[1]), Just(MAGIC[2]), Just(MAGIC[3]), Just(0), any::<u8>()];
        prop::collection::vec(byte, 0..most)
    }

    /// Awkward bytes without a whole magic, and whose end begins none.
    fn noise(most: usize) -> impl Strategy<Value = Vec<u8>> {
        awkward(most).prop_map(|mut bytes| {
            bytes.push(b'\n');
            while let Some(at) = bytes.windows(4).position(|w| w == MAGIC) {
                bytes[at] = b'?';
            }
            bytes
        })
    }

    #[test]
    fn the_layout_is_as_described() {
        let bytes = encode(0x0102_0304, &[1, 0xf5, 2]);
        assert_eq!(bytes[..13], [0xf5, 0xc1, 0xfe, 5, 1, 4, 3, 2, 1, 4, 0, 0, 0]);
        assert_eq!(bytes[13..17], crc32fast::hash(&[1, 0xf5, 0, 2]).to_le_bytes());
        assert_eq!(bytes[17..21], crc32fast::hash(&bytes[..17]).to_le_bytes());
        assert_eq!(bytes[21..], [1, 0xf5, 0, 2]);
        assert!(std::str::from_utf8(&MAGIC[..1]).is_err());
    }

    #[test]
    fn gaps_are_reported_before_the_frame_that_shows_them() {
        let line = [encode(0, b"a"), encode(2, b"c"), encode(3, b"d"), encode(0, b"again")].concat();
        let expected = [
            frame(0, b"a"),
            Received::Gap { expected: 1, found: 2 },
            frame(2, b"c"),
            frame(3, b"d"),
            Received::Gap { expected: 4, found: 0 },
            frame(0, b"again"),
        ];
        assert_eq!(received([line.as_slice()]), expected);
        let line = [encode(u32::MAX, b""), encode(0, b"")].concat();
        assert_eq!(received([line.as_slice()])[1..], [frame(u32::MAX, b""), frame(0, b"")]);
    }

    #[test]
    fn a_frame_that_lost_bytes_does_not_take_the_next_one_with_it() {
        let (first, second) = (encode(0, b"first message"), encode(1, b"second"));
        for lost in 1..first.len() {
            for at in 0..=first.len() - lost {
                let mut line = first.clone();
                line.drain(at..at + lost);
                line.extend_from_slice(&second);
                let all = received([line.as_slice()]);
                assert_eq!(all.last(), Some(&frame(1, b"second")), "{lost} bytes lost at {at}: {all:?}");
                assert!(!all.contains(&frame(0, b"first message")));
            }
        }
    }

    #[test]
    fn headers_that_are_whole_and_wrong_say_so() {
        let damage = |bytes: Vec<u8>| match received([bytes.as_slice()]).into_iter().next() {
            Some(Received::Damaged { why, .. }) => Some(why),
            _ => None,
        };
        let claim = |body_bytes| Header { sequence: 0, body_bytes, body_sum: 0 }.to_bytes().to_vec();
        assert_eq!(damage(claim(u32::MAX)), Some(Damage::TooLong(u32::MAX)));
        assert_eq!(damage(claim(MOST_BODY_BYTES as u32)), Some(Damage::Ended));
        let mut other = encode(0, b"x");
        other[4] = 9;
        let sum = crc32fast::hash(&other[..17]).to_le_bytes();
        other[17..21].copy_from_slice(&sum);
        assert_eq!(damage(other), Some(Damage::Version(9)));
        let alone = [MAGIC[0], b'x'];
        let mut other = Header { sequence: 0, body_bytes: 2, body_sum: crc32fast::hash(&alone) }.to_bytes().to_vec();
        other.extend_from_slice(&alone);
        assert_eq!(damage(other), Some(Damage::Stuffing));
    }

    #[test]
    fn a_claim_allocates_nothing() {
        let mut decoder = Decoder::new();
        decoder.feed(&Header { sequence: 0, body_bytes: MOST_BODY_BYTES as u32, body_sum: 0 }.to_bytes());
        assert_eq!(decoder.next(), None);
        assert!(decoder.bytes.capacity() < 4096);
        // What was handed out does not pile up either.
        let mut decoder = Decoder::new();
        for i in 0..10_000u32 {
            decoder.feed(&encode(i, &[7; 100]));
            decoder.feed(&MAGIC[..1]);
            decoder.feed(b".");
            while decoder.next().is_some() {}
        }
        assert!(decoder.bytes.capacity() < 4096);
    }

    proptest! {
        #[test]
        fn any_payload_comes_back(sequence: u32, payload in awkward(300)) {
            let all = received([encode(sequence, &payload).as_slice()]);
            prop_assert_eq!(all.last(), Some(&frame(sequence, &payload)));
            prop_assert_eq!(all.len(), if sequence == 0 { 1 } else { 2 });
        }

        #[test]
        fn however_it_is_cut_it_is_the_same(
            parts in prop::collection::vec((any::<bool>(), awkward(60)), 0..8),
            cuts in prop::collection::vec(1usize..40, 1..20),
        ) {
            let mut line = Vec::new();
            for (i, (is_frame, bytes)) in parts.iter().enumerate() {
                line.extend(if *is_frame { encode(i as u32, bytes) } else { bytes.clone() });
            }
            let whole = received([line.as_slice()]);
            let single = received(line.chunks(1));
            prop_assert_eq!(&whole, &single);
            let mut pieces = Vec::new();
            let mut rest = line.as_slice();
            for cut in cuts.iter().cycle().take_while(|_| !line.is_empty()) {
                if rest.is_empty() { break; }
                let (piece, more) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = more;
            }
            prop_assert_eq!(&whole, &received(pieces));
        }

        #[test]
        fn a_flipped_bit_is_never_a_good_frame(
            before in noise(20), payload in awkward(80), inner in awkward(20), at: prop::sample::Index, bit in 0u8..8,
        ) {
            // The payload holds a whole frame, as a recorded console does.
            let payload = [payload, encode(0, &inner)].concat();
            let mut bytes = encode(0, &payload);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            let line = [before, bytes, encode(1, b"next")].concat();
            let all = received([line.as_slice()]);
            let frames: Vec<_> = all.iter().filter(|r| matches!(r, Received::Frame { .. })).collect();
            prop_assert_eq!(frames, [&frame(1, b"next")]);
        }

        #[test]
        fn noise_comes_back_as_it_is(parts in prop::collection::vec((noise(50), awkward(50)), 1..6)) {
            let mut line = Vec::new();
            let mut expected = Vec::new();
            for (i, (noise, payload)) in parts.iter().enumerate() {
                line.extend_from_slice(noise);
                line.extend(encode(i as u32, payload));
                expected.extend([Received::Noise(noise.clone()), frame(i as u32, payload)]);
            }
            prop_assert_eq!(received(line.chunks(7)), expected);
        }

        #[test]
        fn no_byte_is_lost(line in awkward(400)) {
            let mut bytes_out = Vec::new();
            for one in received(line.chunks(9)) {
                match one {
                    Received::Noise(bytes) | Received::Damaged { bytes, .. } => bytes_out.extend(bytes),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            prop_assert_eq!(bytes_out, line);
        }
    }
}
