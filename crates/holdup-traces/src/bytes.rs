//! Bytes of a file at any place, read in pieces.

use holdup_model::{MemoryBudget, Problem};
use std::io;

/// A file whose bytes can be read at any place.
pub trait Bytes {
    /// How many there are.
    fn length(&self) -> u64;

    /// Reads bytes at a place; how many were read, 0 at the end.
    ///
    /// # Errors
    /// Of the file.
    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize>;
}

impl<T: AsRef<[u8]>> Bytes for T {
    fn length(&self) -> u64 {
        self.as_ref().len() as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        let all = self.as_ref();
        let rest = usize::try_from(at).ok().and_then(|at| all.get(at..)).unwrap_or_default();
        let length = rest.len().min(into.len());
        into[..length].copy_from_slice(&rest[..length]);
        Ok(length)
    }
}

/// A file with its name for messages.
#[derive(Clone, Copy)]
pub(crate) struct File<'a> {
    pub(crate) bytes: &'a dyn Bytes,
    pub(crate) name: &'a str,
    pub(crate) budget: &'a MemoryBudget,
}

impl File<'_> {
    /// What is wrong at a byte.
    pub(crate) fn problem(&self, at: u64, why: impl Into<String>) -> Problem {
        Problem::usage(format!("{}, byte {at}", self.name), why)
    }

    /// It ends before the byte that is wanted.
    pub(crate) fn cut(&self, at: u64, what: &str) -> Problem {
        let end = self.bytes.length();
        Problem::usage(
            format!("{}, byte {end}", self.name),
            format!("it ends inside {what}, which begins at byte {at}"),
        )
        .hint("the record was cut, or the copy")
    }

    /// Fills a buffer from a place on; how much of it the file has.
    pub(crate) fn fill(&self, at: u64, into: &mut [u8]) -> Result<usize, Problem> {
        let mut done = 0;
        while done < into.len() {
            match self.bytes.read_at(at + done as u64, &mut into[done..]) {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.problem(at + done as u64, error.to_string())),
            }
        }
        Ok(done)
    }

    /// Bytes at a place; fewer of them are an error.
    pub(crate) fn exactly(&self, at: u64, length: u64, what: &str) -> Result<Vec<u8>, Problem> {
        let end = at.checked_add(length).filter(|end| *end <= self.bytes.length());
        let (Some(_), Ok(length)) = (end, usize::try_from(length)) else { return Err(self.cut(at, what)) };
        let mut into = vec![0; length];
        let read = self.fill(at, &mut into)?;
        if read < length { Err(self.cut(at, what)) } else { Ok(into) }
    }
}

/// Numbers and texts one after the other, in little-endian order.
pub(crate) struct Cursor<'a> {
    file: File<'a>,
    /// The bytes that were read last, and the place of their first.
    piece: Vec<u8>,
    begin: u64,
    at: u64,
    end: u64,
}

/// How much is read at a time.
const PIECE: usize = 1 << 18;

impl<'a> Cursor<'a> {
    pub(crate) fn new(file: File<'a>, at: u64, end: u64) -> Self {
        Cursor { file, piece: Vec::new(), begin: 0, at, end: end.min(file.bytes.length()) }
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.end
    }

    pub(crate) fn left(&self) -> u64 {
        self.end.saturating_sub(self.at)
    }

    /// The next bytes; they count as read.
    pub(crate) fn take(&mut self, length: usize, what: &str) -> Result<&[u8], Problem> {
        let from = self.at;
        if self.left() < length as u64 {
            return Err(self.file.cut(from, what));
        }
        let held = self.begin + self.piece.len() as u64;
        if from < self.begin || from + length as u64 > held {
            let most = usize::try_from(self.left()).unwrap_or(usize::MAX);
            self.piece.resize(PIECE.max(length).min(most), 0);
            let read = self.file.fill(from, &mut self.piece)?;
            self.piece.truncate(read);
            self.begin = from;
            if read < length {
                return Err(self.file.cut(from, what));
            }
        }
        self.at += length as u64;
        let first = (from - self.begin) as usize;
        Ok(&self.piece[first..first + length])
    }

    pub(crate) fn skip(&mut self, length: u64, what: &str) -> Result<(), Problem> {
        if self.left() < length {
            return Err(self.file.cut(self.at, what));
        }
        self.at += length;
        Ok(())
    }

    pub(crate) fn u8(&mut self, what: &str) -> Result<u8, Problem> {
        Ok(self.take(1, what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &str) -> Result<u16, Problem> {
        Ok(u16_at(self.take(2, what)?, 0).unwrap_or_default())
    }

    pub(crate) fn u32(&mut self, what: &str) -> Result<u32, Problem> {
        Ok(u32_at(self.take(4, what)?, 0).unwrap_or_default())
    }

    pub(crate) fn u64(&mut self, what: &str) -> Result<u64, Problem> {
        Ok(u64_at(self.take(8, what)?, 0).unwrap_or_default())
    }

    /// A text that ends with a zero byte.
    pub(crate) fn text(&mut self, what: &str) -> Result<String, Problem> {
        let (begin, mut text) = (self.at, Vec::new());
        loop {
            match self.u8(what)? {
                0 => return Ok(String::from_utf8_lossy(&text).into_owned()),
                _ if text.len() == LONGEST_TEXT => return Err(self.file.problem(begin, format!("{what} has no end"))),
                byte => text.push(byte),
            }
        }
    }

    /// A text of a known length, bytes.
    pub(crate) fn text_of(&mut self, length: u64, what: &str) -> Result<String, Problem> {
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > LARGEST_PART {
            return Err(self.file.problem(self.at, format!("{what} has {length} bytes: too many")));
        }
        Ok(String::from_utf8_lossy(self.take(length, what)?).into_owned())
    }

    /// What is wrong at the place that is read next.
    pub(crate) fn problem(&self, why: impl Into<String>) -> Problem {
        self.file.problem(self.at, why)
    }
}

const LONGEST_TEXT: usize = 4096;

/// Parts of a header that are larger than this are not believed, bytes.
pub(crate) const LARGEST_PART: usize = 64 << 20;

fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    array_at(bytes, at).map(u16::from_le_bytes)
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_le_bytes)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_le_bytes)
}
