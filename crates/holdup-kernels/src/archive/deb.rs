//! Debian packages: an `ar` archive of a version, a control tar and a data tar.

use super::unpack::Unpacked;
use super::{Counted, MOST_BYTES, damaged, decompressed, reason, skip, tar, unpack_tar};
use holdup_model::Problem;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The control fields of a package.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct DebFacts {
    /// `linux-binary-7.0.13+deb13-amd64`.
    pub package: String,
    /// `7.0.13-1~bpo13+1`.
    pub version: String,
    /// `amd64`, `arm64`, `all`.
    pub architecture: String,
    /// The source package, if its name or version differs: `linux-signed-amd64 (7.0.13+1~bpo13+1)`.
    pub source: Option<String>,
}

/// Reads the control fields of a package.
///
/// # Errors
/// When the file cannot be read or is not a whole package, with the offset.
pub fn read_deb(path: &Path) -> Result<DebFacts, Problem> {
    with_file(path, |from| read_from(from, None).map(|(facts, _)| facts))
}

/// Unpacks the members of a package whose paths (`usr/bin/x`, without a leading slash) are wanted, below a folder that must be
/// empty and the caller's own.
///
/// Nothing is written outside it: a member whose path leaves it is an error, a link that leaves it is left out and listed.
/// Owners, times, capabilities and maintainer scripts are dropped.
///
/// # Errors
/// When the file cannot be read, is not a whole package, unpacks to more than 8 GiB, or the folder cannot be written.
pub fn unpack_deb(path: &Path, into: &Path, wanted: &dyn Fn(&str) -> bool) -> Result<(DebFacts, Unpacked), Problem> {
    with_file(path, |from| read_from(from, Some((into, wanted))))
}

/// Reads a package file; errors have the offset.
pub(super) fn with_file<T>(path: &Path, read: impl FnOnce(&mut Counted<File>) -> io::Result<T>) -> Result<T, Problem> {
    let what = format!("package {}", path.display());
    let file = holdup_files::open_input(path).map_err(|e| Problem::host(&what, e.to_string()))?;
    let mut from = Counted::new(file);
    let at = from.at();
    read(&mut from).map_err(|e| Problem::host(what, format!("{} (at byte {})", reason(&e), at.get())))
}

type Wanted<'a> = Option<(&'a Path, &'a dyn Fn(&str) -> bool)>;

pub(crate) fn read_from(from: &mut dyn Read, wanted: Wanted<'_>) -> io::Result<(DebFacts, Unpacked)> {
    let mut magic = [0; 8];
    from.read_exact(&mut magic)?;
    if &magic != b"!<arch>\n" {
        return Err(damaged("not a Debian package"));
    }
    let mut facts = None;
    while let Some((name, bytes)) = next_member(from)? {
        let mut content = from.take(bytes);
        let mut is_last = false;
        let mut unpacked = Unpacked::default();
        match name.as_str() {
            "debian-binary" => check_version(&mut content)?,
            _ if name.starts_with("control.tar") => facts = Some(control(&mut content)?),
            _ if name.starts_with("data.tar") => {
                is_last = true;
                if let Some((into, wanted)) = wanted {
                    unpacked = unpack_tar(&mut content, into, wanted)?;
                }
            }
            _ => {}
        }
        let left = content.limit();
        skip(from, left + bytes % 2)?;
        if is_last {
            let facts = facts.ok_or_else(|| damaged("its data comes before its control"))?;
            return Ok((facts, unpacked));
        }
    }
    Err(damaged("it has no data"))
}

/// The name and length of the next member.
fn next_member(from: &mut dyn Read) -> io::Result<Option<(String, u64)>> {
    let mut head = [0; 60];
    let mut read = 0;
    while read < head.len() {
        match from.read(&mut head[read..])? {
            0 if read == 0 => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    let text = std::str::from_utf8(&head).map_err(|_| damaged("the header of a member is not text"))?;
    if !text.ends_with("`\n") {
        return Err(damaged("a member has no header"));
    }
    let word = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default().trim_end();
    let bytes = word(48..58);
    let bytes = bytes.parse().map_err(|_| damaged(format!("a member is `{}` bytes long", bytes.escape_debug())))?;
    if bytes > MOST_BYTES {
        return Err(damaged(format!("a member is {bytes} bytes long")));
    }
    Ok(Some((word(0..16).trim_end_matches('/').to_owned(), bytes)))
}

fn check_version(content: &mut dyn Read) -> io::Result<()> {
    let mut text = String::new();
    content.take(64).read_to_string(&mut text)?;
    match text.starts_with("2.") {
        true => Ok(()),
        false => Err(damaged(format!("it is of version `{}`, not 2", text.trim().escape_debug()))),
    }
}

fn control(content: &mut dyn Read) -> io::Result<DebFacts> {
    let mut facts = None;
    tar::members(&mut decompressed(content)?, &mut |member, content| {
        if member.path.trim_start_matches("./") == "control" {
            let mut text = Vec::new();
            content.take(1 << 20).read_to_end(&mut text)?;
            facts = Some(fields(&String::from_utf8_lossy(&text)));
        }
        Ok(())
    })?;
    facts.filter(|facts| !facts.package.is_empty()).ok_or_else(|| damaged("its control names no package"))
}

fn fields(text: &str) -> DebFacts {
    let mut facts = DebFacts::default();
    for line in text.lines() {
        match line.split_once(": ") {
            Some(("Package", value)) => facts.package = value.trim().to_owned(),
            Some(("Version", value)) => facts.version = value.trim().to_owned(),
            Some(("Architecture", value)) => facts.architecture = value.trim().to_owned(),
            Some(("Source", value)) => facts.source = Some(value.trim().to_owned()),
            _ => {}
        }
    }
    facts
}

#[cfg(test)]
#[path = "deb_tests.rs"]
mod tests;
