//! One buffer over a source, with the offset that its bytes have in it.

use super::compressed::Unpacked;
use super::{BUFFER_BYTES, Cut};
use holdup_model::Problem;
use std::io::{self, ErrorKind, Read as _};

/// A source of which a part is in the buffer.
pub(super) struct Stream<'a> {
    source: Unpacked<'a>,
    /// As long as what it can hold.
    buffer: Vec<u8>,
    /// What of the buffer is yet to be used.
    at: usize,
    end: usize,
    /// Where the buffer begins in the source, bytes.
    base: u64,
    has_ended: bool,
    is_cut: bool,
}

impl<'a> Stream<'a> {
    pub(super) fn new(source: Unpacked<'a>) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Stream { source, buffer, at: 0, end: 0, base: 0, has_ended: false, is_cut: false }
    }

    /// The first four bytes; `None` where there are fewer.
    pub(super) fn magic(&mut self) -> Result<Option<[u8; 4]>, Problem> {
        Ok(if self.has(4)? { self.head() } else { None })
    }

    /// Whether so many bytes are in the buffer, after reading what is missing. `false` tells that the source has fewer.
    #[inline]
    pub(super) fn has(&mut self, bytes: usize) -> Result<bool, Problem> {
        if self.end - self.at >= bytes { Ok(true) } else { self.fill(bytes) }
    }

    /// The next bytes, `None` where not so many are in the buffer.
    #[inline(always)]
    pub(super) fn next(&self, bytes: usize) -> Option<&[u8]> {
        self.buffer.get(self.at..self.end)?.get(..bytes)
    }

    /// Where in the buffer the next byte is.
    #[inline(always)]
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next bytes, as many as the array has; `None` where they are not in the buffer.
    #[inline(always)]
    pub(super) fn head<const N: usize>(&self) -> Option<[u8; N]> {
        self.buffer[self.at..self.end].first_chunk().copied()
    }

    /// Goes over bytes that are in the buffer.
    #[inline(always)]
    pub(super) fn take(&mut self, bytes: usize) {
        self.at = self.end.min(self.at + bytes);
    }

    /// Bytes of the buffer.
    #[inline(always)]
    pub(super) fn slice(&self, start: usize, length: usize) -> &[u8] {
        &self.buffer[start..start + length]
    }

    /// The offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Goes over bytes without keeping them; `false` where the source has fewer.
    pub(super) fn skip(&mut self, mut bytes: u64) -> Result<bool, Problem> {
        loop {
            let step = bytes.min((self.end - self.at) as u64);
            self.at += step as usize;
            bytes -= step;
            if bytes == 0 {
                return Ok(true);
            }
            if !self.has(1)? {
                return Ok(false);
            }
        }
    }

    /// Has nothing be in the buffer.
    pub(super) fn drop_rest(&mut self) {
        self.at = self.end;
    }

    /// What is left when no whole frame is: bytes of one, or a packed stream that broke off.
    pub(super) fn cut(&self) -> Option<Cut> {
        let lost_bytes = (self.end - self.at) as u64;
        let is_cut = self.has_ended && (lost_bytes > 0 || self.is_cut);
        is_cut.then(|| Cut { offset: self.offset(), lost_bytes })
    }

    #[cold]
    fn fill(&mut self, bytes: usize) -> Result<bool, Problem> {
        while self.end - self.at < bytes && !self.has_ended {
            if let Err(e) = self.read(bytes) {
                let place = format!("capture, after {} bytes", self.base + self.end as u64);
                return Err(Problem::host(place, e.to_string()).hint("what was read before is whole"));
            }
        }
        Ok(self.end - self.at >= bytes)
    }

    /// Moves what is left to the front, and reads behind it.
    fn read(&mut self, bytes: usize) -> io::Result<()> {
        self.move_to_front(bytes);
        loop {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => (self.has_ended, self.is_cut) = (true, self.source.is_cut),
                Ok(read) => self.end += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
            return Ok(());
        }
    }

    fn move_to_front(&mut self, bytes: usize) {
        self.buffer.copy_within(self.at..self.end, 0);
        self.base = self.offset();
        self.end -= self.at;
        self.at = 0;
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
    }

    /// Goes on in another buffer, of at least so many bytes, and leaves the one that it had there.
    pub(super) fn change_buffer(&mut self, other: &mut Vec<u8>, bytes: usize) {
        let left = self.end - self.at;
        other.resize(other.len().max(bytes).max(left), 0);
        other[..left].copy_from_slice(&self.buffer[self.at..self.end]);
        self.base = self.offset();
        (self.at, self.end) = (0, left);
        std::mem::swap(&mut self.buffer, other);
    }
}
