//! What a message holds: its number, when it was sent, and two flags. The rest of it is zeroes.
//!
//! | size | number | flags | time of sending |
//! |---|---|---|---|
//! | 14 bytes and more | 46 bits | 2 | 64 bits, ns of CLOCK_MONOTONIC |
//! | 8 to 13 bytes | 30 bits | 2 | 32 bits, ns, so that it is known modulo 4.29 s |
//! | 1 to 7 bytes | all of it | none | none |
//!
//! Little endian. A number is cut to its lowest bits; the receiver takes the one nearest to what it expects.

/// The smallest message that holds the full time.
pub(crate) const WIDE: usize = 14;
/// The smallest message that holds any time, and flags.
pub(crate) const COMPACT: usize = 8;
/// Where the time stands in a [`WIDE`] message.
const WIDE_TIME_AT: usize = 6;
/// Where the time stands in a [`COMPACT`] message.
const COMPACT_TIME_AT: usize = 4;
/// The flags, below the number.
const FLAGS: u32 = 2;
/// The answer is wanted.
const ANSWER: u64 = 1;
/// It was sent while the window was open.
const COUNTS: u64 = 2;

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    /// Its number, from 0.
    pub(crate) number: u64,
    /// When it was sent, or should have been; `None` when it is too short to say.
    pub(crate) sent_ns: Option<u64>,
    /// True if it asks for an answer.
    pub(crate) answer: bool,
    /// True if it was sent inside the window.
    pub(crate) counts: bool,
}

impl Message {
    /// Writes it to the begin of `to`, whose length is the message's.
    #[inline]
    pub(crate) fn write(&self, to: &mut [u8]) {
        let flags = (u64::from(self.answer) * ANSWER) | (u64::from(self.counts) * COUNTS);
        let time = self.sent_ns.unwrap_or(0);
        let head = ((self.number << FLAGS) | flags).to_le_bytes();
        if to.len() >= WIDE {
            to[..WIDE_TIME_AT].copy_from_slice(&head[..WIDE_TIME_AT]);
            to[WIDE_TIME_AT..WIDE].copy_from_slice(&time.to_le_bytes());
        } else if to.len() >= COMPACT {
            to[..COMPACT_TIME_AT].copy_from_slice(&head[..COMPACT_TIME_AT]);
            to[COMPACT_TIME_AT..COMPACT].copy_from_slice(&time.to_le_bytes()[..COMPACT - COMPACT_TIME_AT]);
        } else {
            let length = to.len();
            to.copy_from_slice(&self.number.to_le_bytes()[..length]);
        }
    }

    /// Reads one. `expected` is the number that should come next, `now_ns` the time now, `bare_answer` whether a message
    /// without flags asks for an answer.
    #[inline]
    pub(crate) fn read(from: &[u8], expected: u64, now_ns: u64, bare_answer: bool) -> Self {
        let whole = |bytes: &[u8]| {
            let mut word = [0u8; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        };
        if from.len() >= WIDE {
            let head = whole(&from[..WIDE_TIME_AT]);
            let number = nearest(head >> FLAGS, WIDE_TIME_AT as u32 * 8 - FLAGS, expected);
            let sent_ns = Some(whole(&from[WIDE_TIME_AT..WIDE]));
            Message { number, sent_ns, answer: head & ANSWER != 0, counts: head & COUNTS != 0 }
        } else if from.len() >= COMPACT {
            let head = whole(&from[..COMPACT_TIME_AT]);
            let number = nearest(head >> FLAGS, COMPACT_TIME_AT as u32 * 8 - FLAGS, expected);
            let time = whole(&from[COMPACT_TIME_AT..COMPACT]) as u32;
            let sent_ns = Some(now_ns.wrapping_sub(u64::from((now_ns as u32).wrapping_sub(time))));
            Message { number, sent_ns, answer: head & ANSWER != 0, counts: head & COUNTS != 0 }
        } else {
            let number = nearest(whole(from), from.len() as u32 * 8, expected);
            Message { number, sent_ns: None, answer: bare_answer, counts: false }
        }
    }
}

/// The number nearest to `expected` whose lowest `bits` are these.
#[inline]
fn nearest(low: u64, bits: u32, expected: u64) -> u64 {
    if bits == 0 || bits >= 64 {
        return low;
    }
    let apart = (low.wrapping_sub(expected) << (64 - bits)).cast_signed() >> (64 - bits);
    match expected.checked_add_signed(apart) {
        Some(number) => number,
        // Nothing is before the first one.
        None => expected.wrapping_add_signed(apart).wrapping_add(1 << bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_short_message_says_less() {
        let sent = Message { number: 7, sent_ns: Some(123_456_789_012), answer: true, counts: true };
        let check = |size: usize, expect: Message| {
            let mut bytes = vec![0xA5; size];
            sent.write(&mut bytes);
            assert_eq!(Message::read(&bytes, 5, 123_456_800_000, false), expect, "{size} bytes");
        };
        check(1, Message { sent_ns: None, answer: false, counts: false, ..sent });
        check(7, Message { sent_ns: None, answer: false, counts: false, ..sent });
        check(8, sent);
        check(13, sent);
        check(14, sent);
        check(65_507, sent);
        assert_eq!(Message::read(&[], 5, 0, true).number, 0, "nothing at all is read without a panic");
    }

    proptest! {
        #[test]
        fn a_number_is_known_again_when_it_is_near(size in 1usize..40, expected in 0u64..1 << 44, apart in -100i64..100) {
            let number = expected.saturating_add_signed(apart);
            let sent = Message { number, sent_ns: Some(1 << 40), answer: false, counts: true };
            let mut bytes = vec![0; size];
            sent.write(&mut bytes);
            let got = Message::read(&bytes, expected, (1 << 40) + 4_000_000_000, false);
            prop_assert_eq!(got.number, number);
            prop_assert_eq!(got.sent_ns, (size >= 8).then_some(1 << 40));
        }

        #[test]
        fn anything_can_be_read(bytes in proptest::collection::vec(any::<u8>(), 0..40), expected: u64, now: u64) {
            let _read = Message::read(&bytes, expected, now, true);
        }
    }
}
