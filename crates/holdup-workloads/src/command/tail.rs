//! The end of a stream, in memory that does not grow with the stream.

use std::collections::VecDeque;

/// The last bytes of a stream.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: VecDeque<u8>,
    capacity: usize,
    dropped: u64,
}

impl Tail {
    /// Keeps as many bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Tail { bytes: VecDeque::new(), capacity, dropped: 0 }
    }

    /// Takes more of the stream.
    pub(crate) fn push(&mut self, more: &[u8]) {
        let kept = &more[more.len().saturating_sub(self.capacity)..];
        let over = (self.bytes.len() + kept.len()).saturating_sub(self.capacity);
        self.bytes.drain(..over);
        self.bytes.extend(kept);
        self.dropped += (over + more.len() - kept.len()) as u64;
    }

    /// How many bytes of the stream are no longer there.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// What is there in whole lines: where the begin was dropped, a first line that may have been cut
    /// is left out, so that a number is never read from the middle of another one.
    pub(crate) fn whole_lines(&mut self) -> &[u8] {
        let cut = self.dropped > 0;
        let bytes = &*self.bytes.make_contiguous();
        match bytes.iter().position(|b| *b == b'\n') {
            Some(end) if cut => &bytes[end + 1..],
            None if cut => &[],
            _ => bytes,
        }
    }

    /// The last lines that are not empty, each cut to a readable length, for an error message.
    pub(crate) fn last_lines(&mut self, n: usize) -> String {
        const LONGEST_LINE: usize = 200;
        let bytes = &*self.bytes.make_contiguous();
        let text = String::from_utf8_lossy(bytes);
        let mut lines: Vec<String> = text
            .lines()
            .rev()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .take(n)
            .map(|line| line.chars().take(LONGEST_LINE).filter(|c| !c.is_control()).collect())
            .collect();
        lines.reverse();
        lines.join(" | ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_cut_first_line_is_left_out() {
        let check = |capacity: usize, pieces: &[&str], expect: &str, dropped: u64| {
            let mut tail = Tail::new(capacity);
            pieces.iter().for_each(|p| tail.push(p.as_bytes()));
            assert_eq!(String::from_utf8_lossy(tail.whole_lines()), expect, "{pieces:?}");
            assert_eq!(tail.dropped(), dropped, "{pieces:?}");
        };
        check(10, &[], "", 0);
        check(10, &["tps = 1\n"], "tps = 1\n", 0);
        check(10, &["tps = 1234", "5\n"], "", 2);
        check(10, &["abc\n", "tps = 12\n"], "tps = 12\n", 3);
        check(4, &["0123456789"], "", 6);
    }

    #[test]
    fn last_lines_are_short_and_printable() {
        let mut tail = Tail::new(1000);
        tail.push(b"one\n\n  two\x1b[31m \n\xff\n");
        assert_eq!(tail.last_lines(2), "two[31m | \u{fffd}");
        tail.push("x".repeat(500).as_bytes());
        assert_eq!(tail.last_lines(1).len(), 200);
    }

    proptest! {
        #[test]
        fn the_tail_is_the_end_of_the_stream(
            capacity in 0usize..20, pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..30), 0..10)
        ) {
            let whole: Vec<u8> = pieces.concat();
            let mut tail = Tail::new(capacity);
            pieces.iter().for_each(|p| tail.push(p));
            let kept = whole.len().min(capacity);
            prop_assert_eq!(&*tail.bytes.make_contiguous(), &whole[whole.len() - kept..]);
            prop_assert_eq!(tail.dropped(), (whole.len() - kept) as u64);
        }
    }
}
