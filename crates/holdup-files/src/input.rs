//! Files that are read: what the user named, and what a descriptor of a folder leads to.

use crate::refused;
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

/// The most bytes that a plan, a profile, a machine file or a configuration may have.
pub const MOST_BYTES_OF_TEXT: u64 = 4 << 20;

/// Opens a regular file that the user named, for reading. Links are followed, because the user named them.
///
/// # Errors
/// When it cannot be opened, or is a folder, a FIFO, a socket or a device: those are not opened at all.
pub fn open_input(path: &Path) -> io::Result<File> {
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    reopen_regular(found.as_fd())
}

/// Reads the whole of a regular file that the user named.
///
/// # Errors
/// As for [`open_input`], and when the file has more than `most` bytes.
pub fn read_input(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_bounded(open_input(path)?, most)
}

/// Reads a text of at most [`MOST_BYTES_OF_TEXT`] bytes that the user named.
///
/// # Errors
/// As for [`read_input`], and when it is not UTF-8: the error names the first byte that is not.
pub fn read_text_input(path: &Path) -> io::Result<String> {
    String::from_utf8(read_input(path, MOST_BYTES_OF_TEXT)?)
        .map_err(|e| refused(format!("byte {} is not UTF-8", e.utf8_error().valid_up_to())))
}

/// Opens for reading what a descriptor made with O_PATH stands for, if it is a regular file.
///
/// # Errors
/// When it is none, or may not be read.
pub fn reopen_regular(found: impl AsFd) -> io::Result<File> {
    must_be_regular(&found)?;
    // Through /proc, because a second look-up by name could find another file (open(2), O_PATH).
    let link = format!("/proc/self/fd/{}", found.as_fd().as_raw_fd());
    // O_NONBLOCK for regular files of FUSE and for leases.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file: OwnedFd = open(link, flags, Mode::empty())?;
    Ok(File::from(file))
}

pub(crate) fn must_be_regular(file: impl AsFd) -> io::Result<()> {
    let what = match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a folder",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Symlink => "a symbolic link",
        FileType::Unknown => "of an unknown type",
    };
    Err(refused(format!("it is {what}, not a regular file")))
}

/// Reads the whole of an open file.
///
/// # Errors
/// When it cannot be read, or has more than `most` bytes.
pub fn read_bounded(file: File, most: u64) -> io::Result<Vec<u8>> {
    let size = file.metadata()?.len();
    let too_large = || refused(format!("it has more than {most} bytes"));
    if size > most {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    // It may grow meanwhile.
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large()) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, mknodat};

    #[test]
    fn only_regular_files_of_bounded_size_are_read() {
        let top = tempfile::tempdir().unwrap();
        let (file, link, fifo) = (top.path().join("file"), top.path().join("link"), top.path().join("fifo"));
        std::fs::write(&file, "12345").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(read_input(&link, 5).unwrap(), b"12345");
        assert_eq!(read_input(&file, 4).unwrap_err().to_string(), "it has more than 4 bytes");
        assert_eq!(read_input(&fifo, 4).unwrap_err().to_string(), "it is a FIFO, not a regular file");
        let device = read_input(Path::new("/dev/zero"), 4).unwrap_err();
        assert_eq!(device.to_string(), "it is a character device, not a regular file");
        assert_eq!(read_input(top.path(), 4).unwrap_err().to_string(), "it is a folder, not a regular file");
        assert_eq!(read_input(&top.path().join("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&file, b"ab\xff").unwrap();
        assert_eq!(read_text_input(&file).unwrap_err().to_string(), "byte 2 is not UTF-8");
    }
}
