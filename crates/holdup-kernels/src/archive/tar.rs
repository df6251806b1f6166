//! Tar archives as dpkg writes them: ustar, with GNU's long names and POSIX's extended headers.
//!
//! The crate `tar` reads headers and their checksums. It would also read a long name of any announced size into memory (a few MB
//! of zstd make 8 GiB of zeros), so it yields raw members here, and names are bounded by [`MOST_HEADER_BYTES`].

use super::unpack::{Kind, Member};
use super::{MOST_BYTES, MOST_FILES, damaged};
use std::io::{self, Read};
use tar::{Archive, EntryType, Header, PaxExtensions};

const MOST_HEADER_BYTES: u64 = 64 << 10;

/// What headers before a member say about it.
#[derive(Default)]
struct Extended {
    path: Option<String>,
    target: Option<String>,
}

/// An archive ends with a block of zeros; the crate would take the end of the file for it.
struct CutOff;

impl Read for CutOff {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Calls `each` for each member with a reader of its bytes, which may be left unread. Reads the stream to its end.
pub(super) fn members(
    from: &mut dyn Read,
    each: &mut dyn FnMut(&Member<'_>, &mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let mut archive = Archive::new(Read::chain(&mut *from, CutOff));
    let mut extended = Extended::default();
    let mut left = MOST_BYTES;
    for (number, member) in archive.entries()?.raw(true).enumerate() {
        let mut member = member?;
        let bytes = member.size();
        left = left.checked_sub(bytes).ok_or_else(|| damaged(format!("it unpacks to more than {MOST_BYTES} bytes")))?;
        if number as u64 >= 2 * MOST_FILES {
            return Err(damaged(format!("it holds more than {MOST_FILES} files")));
        }
        match member.header().entry_type() {
            EntryType::GNULongName => extended.path = Some(name(&header_text(&mut member, bytes)?)?),
            EntryType::GNULongLink => extended.target = Some(name(&header_text(&mut member, bytes)?)?),
            EntryType::XHeader => extended.take(&header_text(&mut member, bytes)?)?,
            EntryType::XGlobalHeader => drop(header_text(&mut member, bytes)?),
            kind => {
                let header = member.header().clone();
                let said = std::mem::take(&mut extended);
                let path = said.path.map_or_else(|| name(&header.path_bytes()), Ok)?;
                let target = said.target.map_or_else(|| target(&header), Ok)?;
                let kind = match kind {
                    // Before POSIX, a folder was a file whose name ended in a slash.
                    EntryType::Regular | EntryType::Continuous if !path.ends_with('/') => Kind::File,
                    EntryType::Regular | EntryType::Continuous | EntryType::Directory => Kind::Folder,
                    EntryType::Link => Kind::HardLink(&target),
                    EntryType::Symlink => Kind::Link(&target),
                    _ => Kind::Other,
                };
                let is_program = header.mode()? & 0o111 != 0;
                each(&Member { path: &path, kind, bytes, is_program }, &mut member)?;
            }
        }
    }
    // The checksums of the compression come after the last member.
    let mut rest = from.take(MOST_BYTES);
    io::copy(&mut rest, &mut io::sink())?;
    match rest.limit() {
        0 => Err(damaged(format!("more than {MOST_BYTES} bytes follow its last member"))),
        _ => Ok(()),
    }
}

impl Extended {
    fn take(&mut self, records: &[u8]) -> io::Result<()> {
        let records = records.split(|byte| *byte == 0).next().unwrap_or_default();
        for record in PaxExtensions::new(records) {
            let record = record?;
            match record.key_bytes() {
                b"path" => self.path = Some(name(record.value_bytes())?),
                b"linkpath" => self.target = Some(name(record.value_bytes())?),
                b"size" => return Err(damaged("it holds a file of more than 8 GiB")),
                key if key.starts_with(b"GNU.sparse") => return Err(damaged("it holds a sparse file")),
                _ => {}
            }
        }
        Ok(())
    }
}

fn header_text(from: &mut dyn Read, bytes: u64) -> io::Result<Vec<u8>> {
    if bytes > MOST_HEADER_BYTES {
        return Err(damaged(format!("a member's name or extended header is {bytes} bytes long")));
    }
    let mut text = vec![0; usize::try_from(bytes).unwrap_or_default()];
    from.read_exact(&mut text)?;
    Ok(text)
}

fn target(header: &Header) -> io::Result<String> {
    header.link_name_bytes().map_or_else(|| Ok(String::new()), |target| name(&target))
}

/// A name up to the first zero byte.
fn name(bytes: &[u8]) -> io::Result<String> {
    let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8(name.to_vec()).map_err(|_| damaged("a member's name is not UTF-8"))
}
