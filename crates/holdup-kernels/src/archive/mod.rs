//! Packages as files: .deb and .rpm. Every byte of them is hostile.

mod compressed;
mod deb;
#[cfg(test)]
pub(crate) mod made;
mod rpm;
mod tar;
mod unpack;

pub use compressed::decompressed;
pub(crate) use deb::read_from as deb_from;
pub use deb::{DebFacts, read_deb, unpack_deb};
pub(crate) use rpm::read_from as rpm_from;
pub use rpm::{RpmFacts, read_rpm, unpack_rpm};
pub use unpack::Unpacked;

use std::cell::Cell;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

/// The most that one package may unpack to: a kernel's modules with their debugging data are below 6 GB.
pub(crate) const MOST_BYTES: u64 = 8 << 30;

/// The most files of one package.
pub(crate) const MOST_FILES: u64 = 200_000;

/// Unpacks a tar, compressed or not, as [`unpack_deb`] does with a package.
pub(crate) fn unpack_tar(from: &mut dyn Read, into: &Path, wanted: &dyn Fn(&str) -> bool) -> io::Result<Unpacked> {
    let mut unpacker = unpack::Unpacker::new(into, wanted);
    tar::members(&mut decompressed(from)?, &mut |member, content| unpacker.take(member, content))?;
    unpacker.end()
}

/// Counts what was read, so that an error can tell where in the file it is.
pub(crate) struct Counted<R> {
    inner: R,
    at: Rc<Cell<u64>>,
}

impl<R: Read> Counted<R> {
    pub(crate) fn new(inner: R) -> Self {
        Counted { inner, at: Rc::new(Cell::new(0)) }
    }

    /// The offset, which goes on changing while something else owns the reader.
    pub(crate) fn at(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.at)
    }
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.at.set(self.at.get() + read as u64);
        Ok(read)
    }
}

/// What went wrong while a package was read, in words that begin lower case; the caller adds the file and the offset.
pub(crate) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file is cut off".to_owned(),
        _ => error.to_string(),
    }
}

pub(crate) fn damaged(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Fills `into`, or says that the file is cut off.
pub(crate) fn fill(from: &mut dyn Read, into: &mut [u8]) -> io::Result<()> {
    from.read_exact(into)
}

/// Reads and drops so many bytes.
pub(crate) fn skip(from: &mut dyn Read, bytes: u64) -> io::Result<()> {
    match io::copy(&mut from.take(bytes), &mut io::sink())? {
        skipped if skipped == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
