//! RPM packages: a lead, a signature header, a header and a compressed cpio archive.

use super::deb::with_file;
use super::unpack::{Kind, MOST_NAME_BYTES, Member, Unpacked, Unpacker};
use super::{MOST_BYTES, MOST_FILES, damaged, decompressed, skip};
use crate::files::hex;
use holdup_model::Problem;
use sha2::{Digest, Sha256};
use std::io::{self, Read};
use std::path::Path;

/// The header fields of a package.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct RpmFacts {
    /// `kernel-core`.
    pub name: String,
    /// `7.0.9`.
    pub version: String,
    /// `200.fc44`.
    pub release: String,
    /// `x86_64`, `aarch64`, `noarch`.
    pub architecture: String,
}

/// Reads the header of a package.
///
/// # Errors
/// When the file cannot be read or is not a package, with the offset.
pub fn read_rpm(path: &Path) -> Result<RpmFacts, Problem> {
    with_file(path, |from| head(from).map(|head| head.facts))
}

/// Unpacks the wanted members of a package, on the terms of [`unpack_deb`](super::unpack_deb).
///
/// Verifies the digests of header and payload if the package has them, but no signatures.
///
/// # Errors
/// When the file cannot be read, is not a whole package, a digest does not match, or the folder cannot be written.
pub fn unpack_rpm(path: &Path, into: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<(RpmFacts, Unpacked), Problem> {
    with_file(path, |from| read_from(from, into, wanted))
}

pub(crate) fn read_from(
    from: &mut dyn Read,
    into: &Path,
    wanted: &dyn Fn(&str) -> bool,
) -> io::Result<(RpmFacts, Unpacked)> {
    let head = head(from)?;
    let mut payload = Hashed { inner: from, hash: Sha256::new() };
    let mut unpacker = Unpacker::new(into, wanted);
    {
        let mut plain = decompressed(&mut payload)?;
        cpio(&mut plain, &mut |member, content| unpacker.take(member, content))?;
        io::copy(&mut plain.take(MOST_BYTES), &mut io::sink())?;
    }
    io::copy(&mut payload, &mut io::sink())?;
    if let Some(said) = head.payload_sha256
        && said != hex(&payload.hash.finalize())
    {
        return Err(damaged("the checksum of its payload does not fit"));
    }
    Ok((head.facts, unpacker.end()?))
}

struct Hashed<'a> {
    inner: &'a mut dyn Read,
    hash: Sha256,
}

impl Read for Hashed<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(into)?;
        self.hash.update(&into[..read]);
        Ok(read)
    }
}

struct Head {
    facts: RpmFacts,
    payload_sha256: Option<String>,
}

/// From rpm's rpmtag.h.
mod tag {
    pub(super) const SIGNATURE_SHA256: u32 = 273;
    pub(super) const NAME: u32 = 1000;
    pub(super) const VERSION: u32 = 1001;
    pub(super) const RELEASE: u32 = 1002;
    pub(super) const ARCH: u32 = 1022;
    pub(super) const PAYLOAD_FORMAT: u32 = 1124;
    pub(super) const PAYLOAD_DIGEST: u32 = 5092;
    pub(super) const PAYLOAD_DIGEST_ALGORITHM: u32 = 5093;
}

/// OpenPGP's number.
const SHA256: u32 = 8;

fn head(from: &mut dyn Read) -> io::Result<Head> {
    let mut lead = [0; 96];
    from.read_exact(&mut lead)?;
    if lead[..4] != [0xed, 0xab, 0xee, 0xdb] {
        return Err(damaged("not an RPM package"));
    }
    let signature = Header::read(from)?;
    // The signature is padded to eight bytes.
    skip(from, (8 - signature.store.len() as u64 % 8) % 8)?;
    let header = Header::read(from)?;
    if let Some(said) = signature.text(tag::SIGNATURE_SHA256)
        && said != header.sha256
    {
        return Err(damaged("the checksum of its header does not fit"));
    }
    let text = |tag| header.text(tag).unwrap_or_default();
    let facts = RpmFacts {
        name: text(tag::NAME),
        version: text(tag::VERSION),
        release: text(tag::RELEASE),
        architecture: text(tag::ARCH),
    };
    if facts.name.is_empty() {
        return Err(damaged("its header has no name"));
    }
    if let Some(format) = header.text(tag::PAYLOAD_FORMAT).filter(|format| format != "cpio") {
        return Err(damaged(format!("its payload is `{}`, not cpio", format.escape_debug())));
    }
    let is_sha256 = header.number(tag::PAYLOAD_DIGEST_ALGORITHM) == Some(SHA256);
    Ok(Head { payload_sha256: header.text(tag::PAYLOAD_DIGEST).filter(|_| is_sha256), facts })
}

/// An index of tags, and a store with their values.
struct Header {
    index: Vec<[u32; 4]>,
    store: Vec<u8>,
    /// Over the whole header, in hexadecimal.
    sha256: String,
}

impl Header {
    fn read(from: &mut dyn Read) -> io::Result<Header> {
        let mut hash = Sha256::new();
        let mut begin = [0; 16];
        from.read_exact(&mut begin)?;
        hash.update(begin);
        if begin[..4] != [0x8e, 0xad, 0xe8, 1] {
            return Err(damaged("a header has no magic number"));
        }
        let (tags, bytes) = (big(&begin, 8), big(&begin, 12));
        // rpm's own limits (lib/header.c).
        if tags > 0xffff || bytes > 256 << 20 {
            return Err(damaged(format!("a header of {tags} tags and {bytes} bytes")));
        }
        let mut index = Vec::new();
        for _ in 0..tags {
            let mut entry = [0; 16];
            from.read_exact(&mut entry)?;
            hash.update(entry);
            index.push([big(&entry, 0), big(&entry, 4), big(&entry, 8), big(&entry, 12)]);
        }
        let mut store = Vec::new();
        from.take(u64::from(bytes)).read_to_end(&mut store)?;
        if store.len() as u64 != u64::from(bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hash.update(&store);
        Ok(Header { index, store, sha256: hex(&hash.finalize()) })
    }

    fn value(&self, tag: u32, kinds: &[u32]) -> Option<&[u8]> {
        let [_, _, offset, _] = self.index.iter().find(|[is, kind, ..]| *is == tag && kinds.contains(kind))?;
        self.store.get(usize::try_from(*offset).ok()?..)
    }

    /// The first string of a tag of the types string, string array and translated string.
    fn text(&self, tag: u32) -> Option<String> {
        let value = self.value(tag, &[6, 8, 9])?;
        let end = value.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&value[..end]).into_owned())
    }

    fn number(&self, tag: u32) -> Option<u32> {
        self.value(tag, &[4]).filter(|value| value.len() >= 4).map(|value| big(value, 0))
    }
}

/// Big-endian; zero beyond the end.
fn big(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok()).unwrap_or_default();
    u32::from_be_bytes(four)
}

/// Calls `each` for each member of a cpio archive (`newc`).
fn cpio(from: &mut dyn Read, each: &mut dyn FnMut(&Member<'_>, &mut dyn Read) -> io::Result<()>) -> io::Result<()> {
    let mut left = MOST_BYTES;
    for _ in 0..=MOST_FILES {
        let mut head = [0; 110];
        from.read_exact(&mut head)?;
        match &head[..6] {
            b"070701" | b"070702" => {}
            b"07070X" => return Err(damaged("its payload has files of more than 4 GiB, which holdup does not read")),
            _ => return Err(damaged("a member of its payload has no header")),
        }
        let field = |at: usize| {
            let digits = std::str::from_utf8(&head[6 + 8 * at..14 + 8 * at]).ok();
            digits
                .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                .ok_or_else(|| damaged("a member of its payload has a malformed number"))
        };
        let (mode, bytes, name_bytes) = (field(1)?, u64::from(field(6)?), field(11)?);
        if name_bytes as usize > MOST_NAME_BYTES {
            return Err(damaged(format!("a member's name is {name_bytes} bytes long")));
        }
        left = left.checked_sub(bytes).ok_or_else(|| damaged(format!("it unpacks to more than {MOST_BYTES} bytes")))?;
        let name = text(from, u64::from(name_bytes))?;
        skip(from, pad(110 + u64::from(name_bytes)))?;
        if name == "TRAILER!!!" {
            return Ok(());
        }
        let in_target = if mode & 0o170_000 == 0o120_000 { bytes } else { 0 };
        if in_target > MOST_NAME_BYTES as u64 {
            return Err(damaged(format!("{name} is a link to a name of {in_target} bytes")));
        }
        let target = text(from, in_target)?;
        let kind = match mode & 0o170_000 {
            // Only the last of several hard links has the content.
            0o100_000 if bytes == 0 && field(4)? > 1 => Kind::Other,
            0o100_000 => Kind::File,
            0o040_000 => Kind::Folder,
            0o120_000 => Kind::Link(&target),
            _ => Kind::Other,
        };
        let mut content = from.take(bytes - in_target);
        each(&Member { path: &name, kind, bytes, is_program: mode & 0o111 != 0 }, &mut content)?;
        let unread = content.limit();
        skip(from, unread + pad(bytes))?;
    }
    Err(damaged(format!("it holds more than {MOST_FILES} files")))
}

fn pad(bytes: u64) -> u64 {
    bytes.next_multiple_of(4) - bytes
}

fn text(from: &mut dyn Read, bytes: u64) -> io::Result<String> {
    let mut text = vec![0; usize::try_from(bytes).unwrap_or_default()];
    from.read_exact(&mut text)?;
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    text.truncate(end);
    String::from_utf8(text).map_err(|_| damaged("a member's name is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::made::rpm;
    use std::fs;

    fn unpacked(bytes: &[u8]) -> (io::Result<(RpmFacts, Unpacked)>, tempfile::TempDir) {
        let outer = tempfile::tempdir().unwrap();
        let into = outer.path().join("into");
        fs::create_dir(&into).unwrap();
        (read_from(&mut &*bytes, &into, &|_| true), outer)
    }

    #[test]
    fn a_package_is_unpacked_and_its_digests_are_verified() {
        let whole = rpm(&[
            ("./lib/modules/7.0.1-1.x/vmlinuz", 0o100_755, b"image"),
            ("./lib/modules/7.0.1-1.x/build", 0o120_777, b"/usr/src/kernels/7.0.1"),
            ("./lib/modules/7.0.1-1.x/up", 0o120_777, b"../../../../x"),
        ]);
        let (read, outer) = unpacked(&whole);
        let (facts, unpacked_files) = read.unwrap();
        assert_eq!(
            (facts.name.as_str(), facts.version.as_str(), facts.release.as_str()),
            ("kernel-core", "7.0.1", "1.x")
        );
        assert_eq!(facts.architecture, "x86_64");
        assert_eq!(unpacked_files.files.len(), 2);
        assert!(unpacked_files.left_out[0].contains("leaves the package"), "{:?}", unpacked_files.left_out);
        assert_eq!(fs::read(outer.path().join("into/lib/modules/7.0.1-1.x/vmlinuz")).unwrap(), b"image");
        for cut in 0..whole.len() {
            assert!(unpacked(&whole[..cut]).0.is_err(), "cut at {cut}");
        }
        let place = |what: &[u8]| whole.windows(what.len()).position(|w| w == what).unwrap();
        for (what, says) in [(b"image".as_slice(), "payload"), (b"kernel-core", "header")] {
            let mut wrong = whole.clone();
            wrong[place(what)] ^= 1;
            let error = unpacked(&wrong).0.unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn nothing_leaves_the_folder() {
        let (read, outer) = unpacked(&rpm(&[("./a/../../evil", 0o100_644, b"x")]));
        assert!(read.unwrap_err().to_string().contains("leaves the package"));
        assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 1);
        let (fits, long) = (vec![b'x'; 4096], vec![b'x'; 4097]);
        assert!(unpacked(&rpm(&[("./a", 0o120_777, &long)])).0.unwrap_err().to_string().contains("4097 bytes"));
        let read = unpacked(&rpm(&[("./a", 0o120_777, &fits)])).0;
        assert!(read.is_err_and(|error| !error.to_string().contains("bytes")), "the system's limit counts the end");
    }
}
