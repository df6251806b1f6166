//! Tar archives, as dpkg and its relatives write them: ustar, with GNU's long names and POSIX's extended headers.
//!
//! Names have a limit here, because a header that announces a name of gigabytes is a cheap way to fill memory.

use super::unpack::{Kind, Member};
use super::{MOST_BYTES, MOST_FILES, damaged, fill, skip};
use std::io::{self, Read};

const BLOCK: u64 = 512;

/// The longest name, and the longest extended header, bytes.
const LONGEST: u64 = 64 << 10;

/// What a header before a member says about it.
#[derive(Default)]
struct Extended {
    path: Option<String>,
    target: Option<String>,
    bytes: Option<u64>,
}

/// Gives each member with a reader of its bytes, which may be left unread. Reads the stream to its end.
pub(super) fn members(
    from: &mut dyn Read,
    each: &mut dyn FnMut(&Member<'_>, &mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let mut extended = Extended::default();
    let mut headers = 0;
    let mut left = MOST_BYTES;
    loop {
        let mut block = [0; BLOCK as usize];
        fill(from, &mut block)?;
        if block.iter().all(|byte| *byte == 0) {
            break;
        }
        headers += 1;
        check_sum(&block)?;
        let mut bytes = number(&block[124..136])?;
        let kind = block[156];
        if let Some(more) = extended.bytes.take()
            && !b"LKxg".contains(&kind)
        {
            bytes = more;
        }
        left = left.checked_sub(bytes).ok_or_else(|| damaged(format!("it unpacks to more than {MOST_BYTES} bytes")))?;
        if headers > 2 * MOST_FILES {
            return Err(damaged(format!("it holds more than {MOST_FILES} files")));
        }
        let padding = bytes.next_multiple_of(BLOCK) - bytes;
        if b"LKxg".contains(&kind) {
            let text = name(from, bytes)?;
            match kind {
                b'L' => extended.path = Some(utf8(trimmed(&text))?),
                b'K' => extended.target = Some(utf8(trimmed(&text))?),
                b'x' => records(&text, &mut extended)?,
                // What is said of all members is a comment in practice.
                _ => {}
            }
            skip(from, padding)?;
            continue;
        }
        let said = std::mem::take(&mut extended);
        let path = said.path.map_or_else(|| own_name(&block), Ok)?;
        let target = said.target.map_or_else(|| utf8(trimmed(&block[157..257])), Ok)?;
        let kind = match kind {
            // Before POSIX, a folder was a file whose name ended so.
            b'0' | 0 | b'7' if path.ends_with('/') => Kind::Folder,
            b'0' | 0 | b'7' => Kind::File,
            b'1' => Kind::HardLink(&target),
            b'2' => Kind::Link(&target),
            b'5' => Kind::Folder,
            _ => Kind::Other,
        };
        let is_program = number(&block[100..108])? & 0o111 != 0;
        let mut content = from.take(bytes);
        each(&Member { path: &path, kind, bytes, is_program }, &mut content)?;
        let unread = content.limit();
        skip(from, unread + padding)?;
    }
    // The checksums of what compressed it come after the last member.
    let mut rest = from.take(MOST_BYTES);
    io::copy(&mut rest, &mut io::sink())?;
    match rest.limit() {
        0 => Err(damaged(format!("more than {MOST_BYTES} bytes follow its last member"))),
        _ => Ok(()),
    }
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn utf8(bytes: &[u8]) -> io::Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| damaged("a member's name is not UTF-8"))
}

fn own_name(block: &[u8]) -> io::Result<String> {
    let name = utf8(trimmed(&block[0..100]))?;
    let prefix = trimmed(&block[345..500]);
    // GNU's own format has times at the place of the prefix.
    if &block[257..263] == b"ustar\0" && !prefix.is_empty() {
        return Ok(format!("{}/{name}", utf8(prefix)?));
    }
    Ok(name)
}

/// Octal digits, or GNU's binary form for what is longer than 8 GiB.
fn number(field: &[u8]) -> io::Result<u64> {
    let wrong = || damaged(format!("a header of its tar has the number `{}`", field.escape_ascii()));
    if let [0x80, rest @ ..] = field {
        return rest
            .iter()
            .try_fold(0_u64, |sum, byte| sum.checked_mul(256)?.checked_add(u64::from(*byte)))
            .ok_or_else(wrong);
    }
    let text = std::str::from_utf8(trimmed(field)).map_err(|_| wrong())?.trim();
    if text.is_empty() { Ok(0) } else { u64::from_str_radix(text, 8).map_err(|_| wrong()) }
}

fn check_sum(block: &[u8]) -> io::Result<()> {
    let sum: u64 =
        block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u64::from(*byte) }).sum();
    match number(&block[148..156])? == sum {
        true => Ok(()),
        false => Err(damaged("the checksum of a header of its tar does not fit")),
    }
}

fn name(from: &mut dyn Read, bytes: u64) -> io::Result<Vec<u8>> {
    if bytes > LONGEST {
        return Err(damaged(format!("a member's name or extended header is {bytes} bytes long")));
    }
    let mut text = vec![0; usize::try_from(bytes).unwrap_or_default()];
    fill(from, &mut text)?;
    Ok(text)
}

/// `LENGTH KEY=VALUE\n` again and again.
fn records(text: &[u8], into: &mut Extended) -> io::Result<()> {
    let wrong = || damaged("an extended header of its tar cannot be read");
    let mut rest = text;
    while !rest.is_empty() && rest[0] != 0 {
        let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(wrong)?;
        let length = std::str::from_utf8(&rest[..space]).ok().and_then(|digits| digits.parse::<usize>().ok());
        let length = length.filter(|length| *length > space + 1 && *length <= rest.len()).ok_or_else(wrong)?;
        let record = rest[space + 1..length].strip_suffix(b"\n").ok_or_else(wrong)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or_else(wrong)?;
        let value = &record[equals + 1..];
        match &record[..equals] {
            b"path" => into.path = Some(utf8(value)?),
            b"linkpath" => into.target = Some(utf8(value)?),
            b"size" => into.bytes = Some(utf8(value)?.parse().map_err(|_| wrong())?),
            key if key.starts_with(b"GNU.sparse") => return Err(damaged("it holds a sparse file")),
            _ => {}
        }
        rest = &rest[length..];
    }
    Ok(())
}
