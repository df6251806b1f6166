//! Archives in the format that the kernel unpacks as an initramfs: cpio "newc".
//!
//! Source of the format: `Documentation/driver-api/early-userspace/buffer-format.rst`, its reader: init/initramfs.c
//! (6.19). Nothing but the tree decides the bytes: times are zero, inode numbers count the entries from 1.

use std::io::{self, Write};

/// The largest file that fits: the header has eight hexadecimal digits for the size.
pub const SIZE_MAX: u64 = 0xffff_ffff;

/// Bits of `st_mode` that say what an entry is: inode(7).
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;
const S_IFLNK: u32 = 0o120_000;
const S_IFCHR: u32 = 0o020_000;

/// The name of the entry that ends an archive.
const TRAILER: &[u8] = b"TRAILER!!!";

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A file whose content of so many bytes follows.
    File(u64),
    /// A symbolic link whose target of so many bytes follows.
    Link(u64),
    /// A character device: major and minor number.
    CharDevice(u32, u32),
}

/// The head of one entry.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// Its path without a leading slash.
    pub path: &'a [u8],
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Writes one archive.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    entries: u32,
    written: u64,
}

impl<W: Write> Writer<W> {
    /// An archive that goes to `out`.
    pub fn new(out: W) -> Self {
        Writer { out, entries: 0, written: 0 }
    }

    /// Writes the head of an entry. The content of a file or link is written with `content`, all of it, next.
    ///
    /// # Errors
    /// When `out` cannot be written to, or a size does not fit the format.
    pub fn entry(&mut self, entry: &Entry<'_>) -> io::Result<()> {
        self.entries = self.entries.checked_add(1).ok_or_else(|| io::Error::other("too many entries"))?;
        let ino = self.entries;
        self.head(entry, ino, if entry.kind == EntryKind::Folder { 2 } else { 1 })
    }

    fn head(&mut self, entry: &Entry<'_>, ino: u32, links: u32) -> io::Result<()> {
        let (kind, size, device) = match entry.kind {
            EntryKind::Folder => (S_IFDIR, 0, (0, 0)),
            EntryKind::File(size) => (S_IFREG, size, (0, 0)),
            EntryKind::Link(size) => (S_IFLNK, size, (0, 0)),
            EntryKind::CharDevice(major, minor) => (S_IFCHR, 0, (major, minor)),
        };
        let mode = if ino == 0 { 0 } else { kind | entry.mode & 0o7777 };
        let too_large = |_| io::Error::new(io::ErrorKind::InvalidInput, "too large for a cpio archive");
        let size = u32::try_from(size).map_err(too_large)?;
        let name_size = u32::try_from(entry.path.len() + 1).map_err(too_large)?;
        let fields = [ino, mode, entry.uid, entry.gid, links, 0, size, 0, 0, device.0, device.1, name_size, 0];
        let mut head = String::with_capacity(110);
        head.push_str("070701");
        for field in fields {
            use std::fmt::Write as _;
            let _ok = write!(head, "{field:08x}");
        }
        self.content(head.as_bytes())?;
        self.content(entry.path)?;
        self.content(&[0])?;
        self.pad()
    }

    /// Writes a part of an entry's content.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn content(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    /// Ends the content of an entry.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn pad(&mut self) -> io::Result<()> {
        let over = usize::try_from(self.written % 4).unwrap_or(0);
        if over == 0 { Ok(()) } else { self.content(&[0; 4][over..]) }
    }

    /// Ends the archive; returns where it went and its size in bytes.
    ///
    /// # Errors
    /// When `out` cannot be written to.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        let trailer = Entry { path: TRAILER, kind: EntryKind::File(0), mode: 0, uid: 0, gid: 0 };
        self.head(&trailer, 0, 1)?;
        Ok((self.out, self.written))
    }
}

/// The bytes that an entry takes in an archive.
pub fn entry_bytes(path: &[u8], content: u64) -> u64 {
    let padded = |n: u64| n.div_ceil(4) * 4;
    padded(110 + path.len() as u64 + 1) + padded(content)
}
