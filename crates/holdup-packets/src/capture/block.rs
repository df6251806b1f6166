//! Frames of one buffer together, to be gone through by another thread than the one that reads.

use super::{Found, Frame};

/// The most frames of a block.
pub const MOST_FRAMES: usize = 4096;

/// Frames that were found, with the buffer that they are in.
#[derive(Debug, Default)]
pub struct Block {
    pub(super) bytes: Vec<u8>,
    /// Places in `bytes`.
    pub(super) found: Vec<Found>,
    /// How many frames there were before.
    pub(super) frames_before: u32,
}

impl Block {
    /// How many frames it has.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// How many bytes its frames take, with what is between them.
    pub fn bytes(&self) -> usize {
        let end = self.found.last().map_or(0, |last| last.start + last.length as usize);
        end - self.found.first().map_or(0, |first| first.start)
    }

    /// One by its place, from 0.
    #[inline(always)]
    pub fn frame(&self, place: usize) -> Frame<'_> {
        let Found { start, length, wire_bytes, at_ns, link, interface } = self.found[place];
        let captured = &self.bytes[start..start + length as usize];
        Frame { number: self.frames_before + 1 + place as u32, at_ns, link, interface, captured, wire_bytes }
    }

    /// All, in order.
    #[inline]
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        (0..self.len()).map(|place| self.frame(place))
    }
}
