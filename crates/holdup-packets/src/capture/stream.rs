//! One buffer over a source, with the offset that its bytes have in it.

use super::{BUFFER_BYTES, Cut};
use crate::capture::compressed::Unpacked;
use holdup_model::Problem;
use std::io::{ErrorKind, Read};

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
}

impl<'a> Stream<'a> {
    pub(super) fn new(source: Unpacked<'a>) -> Self {
        Stream { source, buffer: vec![0; BUFFER_BYTES], at: 0, end: 0, base: 0, has_ended: false }
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

    /// The next bytes, as many as the array has; `None` where they are not in the buffer.
    #[inline]
    pub(super) fn head<const N: usize>(&self) -> Option<[u8; N]> {
        self.buffer[self.at..self.end].first_chunk().copied()
    }

    /// Goes over bytes that are in the buffer and returns where they begin in it.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> usize {
        let start = self.at;
        self.at = self.end.min(start + bytes);
        start
    }

    /// Bytes of the buffer.
    #[inline]
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

    /// What is left when no whole frame is: bytes of one, or a packed stream that broke off.
    pub(super) fn cut(&self) -> Option<Cut> {
        let lost_bytes = (self.end - self.at) as u64;
        let is_cut = self.has_ended && (lost_bytes > 0 || self.source.is_cut);
        is_cut.then(|| Cut { offset: self.offset(), lost_bytes })
    }

    #[cold]
    fn fill(&mut self, bytes: usize) -> Result<bool, Problem> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.base += self.at as u64;
        self.end -= self.at;
        self.at = 0;
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        while self.end < bytes && !self.has_ended {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.has_ended = true,
                Ok(read) => self.end += read,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    let place = format!("capture, after {} bytes", self.base + self.end as u64);
                    return Err(Problem::host(place, e.to_string()).hint("what was read before is whole"));
                }
            }
        }
        Ok(self.end >= bytes)
    }
}
