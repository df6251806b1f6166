//! What is sent.
//!
//! One of n messages begins with the time of its sending; the others begin with zeros. Where several senders
//! write to one TCP connection the kernel may cut a message in two and put another one between, so the time stands
//! there twice, once inverted, and one that does not fit is counted and not measured.

use holdup_load::clock::now_ns;

/// What the time of sending takes.
pub(crate) const STAMP_BYTES: usize = 16;

/// A buffer with room for one message.
pub(crate) struct Message {
    bytes: Vec<u8>,
}

/// What a received message says of its sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamp {
    /// It was not timed.
    None,
    /// When it was sent, CLOCK_MONOTONIC.
    At(u64),
    /// What stands there is no time: two messages were mixed.
    Torn,
}

impl Message {
    /// A message of that length, which was not timed.
    pub(crate) fn new(size: usize) -> Self {
        let mut message = Message { bytes: vec![0; size] };
        message.touch();
        message
    }

    /// Makes its pages present, those of the calling process.
    pub(crate) fn touch(&mut self) {
        // Not zero, so that the middle of a message cannot be taken for one that was not timed.
        self.bytes.fill(b'h');
        self.clear();
    }

    /// Its bytes, to be sent.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its bytes, to be received.
    #[inline(always)]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Writes the time into it.
    #[inline]
    pub(crate) fn stamp(&mut self) {
        self.put(now_ns());
    }

    /// Takes the time out again.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if let Some(head) = self.bytes.first_chunk_mut::<STAMP_BYTES>() {
            *head = [0; STAMP_BYTES];
        }
    }

    fn put(&mut self, ns: u64) {
        if let Some(head) = self.bytes.first_chunk_mut::<STAMP_BYTES>() {
            let mut stamp = [0; STAMP_BYTES];
            stamp[..8].copy_from_slice(&ns.to_ne_bytes());
            stamp[8..].copy_from_slice(&(!ns).to_ne_bytes());
            *head = stamp;
        }
    }

    /// What stands in it.
    #[inline(always)]
    pub(crate) fn read_stamp(&self) -> Stamp {
        let Some((time, rest)) = self.bytes.split_first_chunk::<8>() else { return Stamp::None };
        let Some(inverted) = rest.first_chunk::<8>() else { return Stamp::None };
        match (u64::from_ne_bytes(*time), u64::from_ne_bytes(*inverted)) {
            (0, 0) => Stamp::None,
            (time, inverted) if time == !inverted => Stamp::At(time),
            _ => Stamp::Torn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_when_it_was_sent_or_that_it_was_mixed() {
        let mut message = Message::new(100);
        assert_eq!((message.bytes().len(), message.read_stamp()), (100, Stamp::None));
        let before = now_ns();
        message.stamp();
        let Stamp::At(sent) = message.read_stamp() else { panic!("{:?}", message.read_stamp()) };
        assert!((before..=now_ns()).contains(&sent));
        message.put(0);
        assert_eq!(message.read_stamp(), Stamp::At(0), "zero is a time, too");
        message.bytes_mut()[3] ^= 1;
        assert_eq!(message.read_stamp(), Stamp::Torn);
        message.bytes_mut().fill(b'h');
        assert_eq!(message.read_stamp(), Stamp::Torn, "the middle of a message is no time");
        message.clear();
        assert_eq!(message.read_stamp(), Stamp::None);
    }

    #[test]
    fn a_short_message_has_no_time() {
        for size in [1, 15] {
            let mut message = Message::new(size);
            message.stamp();
            assert_eq!((message.bytes().len(), message.read_stamp()), (size, Stamp::None));
        }
    }
}
