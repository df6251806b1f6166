//! Packages as files: .deb and .rpm. Every byte of them is hostile.
//!
//! The crate `tar` reads tar (tar.rs lists its limits). The `ar` of a .deb and the cpio of an .rpm are read here, in 25 and 45
//! lines: `ar` 0.9 allocates the size of a name table (up to 10 GB) before reading it, `cpio` 0.4 reads names of up to 4 GiB,
//! and `rpm` 0.30 brings 50 crates and holds the payload in memory. No deb822 is parsed but four control fields: apt resolves.

mod compressed;
mod deb;
#[cfg(test)]
pub(crate) mod made;
mod rpm;
mod tar;
mod unpack;

pub use compressed::{decompressed, is_compressed};
pub(crate) use deb::read_from as deb_from;
pub use deb::{DebFacts, read_deb, unpack_deb};
pub(crate) use rpm::read_from as rpm_from;
pub use rpm::{RpmFacts, read_rpm, unpack_rpm};
pub use unpack::Unpacked;

use std::cell::Cell;
use std::io::{self, Read};
use std::path::Path;
use std::rc::Rc;

/// The unpacked size of one package. A kernel's modules with debugging data have less than 6 GB.
pub(crate) const MOST_BYTES: u64 = 8 << 30;

pub(crate) const MOST_FILES: u64 = 200_000;

/// Unpacks a tar, compressed or not, as [`unpack_deb`] does.
pub(crate) fn unpack_tar(from: &mut dyn Read, into: &Path, wanted: &dyn Fn(&str) -> bool) -> io::Result<Unpacked> {
    let mut unpacker = unpack::Unpacker::new(into, wanted);
    tar::members(&mut decompressed(from)?, &mut |member, content| unpacker.take(member, content))?;
    unpacker.end()
}

/// Counts what was read, for the offset in an error.
pub(crate) struct Counted<R> {
    inner: R,
    at: Rc<Cell<u64>>,
}

impl<R: Read> Counted<R> {
    pub(crate) fn new(inner: R) -> Self {
        Counted { inner, at: Rc::new(Cell::new(0)) }
    }

    /// The offset, which stays current while something else owns the reader.
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

/// The reason of a failed read; the caller adds the file and the offset.
pub(crate) fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the file is cut off".to_owned(),
        _ => error.to_string(),
    }
}

pub(crate) fn damaged(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

pub(crate) fn skip(from: &mut dyn Read, bytes: u64) -> io::Result<()> {
    match io::copy(&mut from.take(bytes), &mut io::sink())? {
        skipped if skipped == bytes => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
