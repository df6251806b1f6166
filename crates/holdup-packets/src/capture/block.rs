//! A buffer with its frames, to pass from the reading thread to others.

use super::{Found, Frame};

/// The largest number of frames in a block.
pub const MOST_FRAMES: usize = 4096;

/// Frames with their buffer.
#[derive(Debug, Default)]
pub struct Block {
    pub(super) bytes: Vec<u8>,
    pub(super) found: Vec<Found>,
    pub(super) frames_before: u32,
}

impl Block {
    /// The number of frames.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// True if it is empty.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The bytes from the first frame to the end of the last.
    pub fn bytes(&self) -> usize {
        let end = self.found.last().map_or(0, |last| last.start + last.length as usize);
        end - self.found.first().map_or(0, |first| first.start)
    }

    /// A frame by its index.
    #[inline(always)]
    pub fn frame(&self, place: usize) -> Frame<'_> {
        let Found { start, length, wire_bytes, at_ns, link, interface } = self.found[place];
        let captured = &self.bytes[start..start + length as usize];
        Frame { number: self.frames_before + 1 + place as u32, at_ns, link, interface, captured, wire_bytes }
    }

    /// All frames in order.
    #[inline]
    pub fn frames(&self) -> impl ExactSizeIterator<Item = Frame<'_>> {
        (0..self.len()).map(|place| self.frame(place))
    }
}
