//! A buffer over a source, with its offset in the source.

use super::compressed::Unpacked;
use super::{BUFFER_BYTES, Cut};
use holdup_model::Problem;
use std::io::{self, ErrorKind, Read as _};

pub(super) struct Stream<'a> {
    source: Unpacked<'a>,
    /// Its length is its capacity.
    buffer: Vec<u8>,
    /// The unread part of the buffer.
    at: usize,
    end: usize,
    /// The offset of the buffer in the source.
    base: u64,
    has_ended: bool,
    is_cut: bool,
}

impl<'a> Stream<'a> {
    pub(super) fn new(source: Unpacked<'a>) -> Self {
        let buffer = vec![0; BUFFER_BYTES];
        Stream { source, buffer, at: 0, end: 0, base: 0, has_ended: false, is_cut: false }
    }

    pub(super) fn magic(&mut self) -> Result<Option<[u8; 4]>, Problem> {
        Ok(if self.has(4)? { self.head() } else { None })
    }

    /// Reads until `bytes` bytes are in the buffer; `false` if the source has fewer.
    #[inline]
    pub(super) fn has(&mut self, bytes: usize) -> Result<bool, Problem> {
        if self.end - self.at >= bytes { Ok(true) } else { self.fill(bytes) }
    }

    /// The next bytes, if they are in the buffer.
    #[inline(always)]
    pub(super) fn next(&self, bytes: usize) -> Option<&[u8]> {
        self.buffer.get(self.at..self.end)?.get(..bytes)
    }

    #[inline(always)]
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next bytes, if they are in the buffer.
    #[inline(always)]
    pub(super) fn head<const N: usize>(&self) -> Option<[u8; N]> {
        self.buffer[self.at..self.end].first_chunk().copied()
    }

    /// Skips bytes in the buffer.
    #[inline(always)]
    pub(super) fn take(&mut self, bytes: usize) {
        self.at = self.end.min(self.at + bytes);
    }

    #[inline(always)]
    pub(super) fn slice(&self, start: usize, length: usize) -> &[u8] {
        &self.buffer[start..start + length]
    }

    /// In the source.
    pub(super) fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Skips bytes; `false` if the source has fewer.
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

    pub(super) fn drop_rest(&mut self) {
        self.at = self.end;
    }

    /// An incomplete frame at the end, or a truncated compressed stream.
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
                return Err(Problem::host(place, e.to_string()).hint("the frames before are complete"));
            }
        }
        Ok(self.end - self.at >= bytes)
    }

    /// Moves the unread bytes to the front, and reads after them.
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

    /// Swaps the buffer with another of at least `bytes` bytes, and copies the unread bytes.
    pub(super) fn change_buffer(&mut self, other: &mut Vec<u8>, bytes: usize) {
        let left = self.end - self.at;
        other.resize(other.len().max(bytes).max(left), 0);
        other[..left].copy_from_slice(&self.buffer[self.at..self.end]);
        self.base = self.offset();
        (self.at, self.end) = (0, left);
        std::mem::swap(&mut self.buffer, other);
    }
}
