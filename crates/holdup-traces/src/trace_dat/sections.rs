//! Sections and options of version 7.

use super::header::{Start, option, take_option};
use super::{CpuPart, Head, Tracing};
use crate::bytes::{Cursor, File};
use crate::compressed::{Compression, decompress};
use crate::ring::PAGE_BYTES;
use holdup_model::Problem;

/// A section is compressed.
const COMPRESSED: u16 = 1;

/// More options than a file has.
const MOST_OPTIONS: usize = 100_000;

pub(super) fn read(cursor: &mut Cursor<'_>, file: File<'_>, start: Start) -> Result<Head, Problem> {
    let compression = match cursor.text("the name of its compression")?.as_str() {
        "none" | "" => None,
        "zstd" => Some(Compression::Zstd),
        "zlib" => Some(Compression::Zlib),
        other => return Err(cursor.problem(format!("it is compressed with {other}, which is not known"))),
    };
    let _version_of_it = cursor.text("the version of its compression")?;
    let mut head = Head {
        tracing: Tracing { version: start.version, page_bytes: start.page_bytes, ..Tracing::default() },
        compression,
        ..Head::default()
    };
    let mut next = cursor.u64("where its options lie")?;
    let mut left = MOST_OPTIONS;
    while next != 0 {
        let options = section(file, next, option::DONE, compression)?;
        let place = File { bytes: &options, ..file };
        let mut cursor = Cursor::new(place, 0, u64::MAX);
        let here = next;
        next = 0;
        while !cursor.is_at_end() && left > 0 {
            left -= 1;
            let (id, length) = (cursor.u16("an option")?, cursor.u32("an option")?);
            let data = cursor.take(length as usize, "an option")?.to_vec();
            if id == option::DONE {
                next = crate::bytes::u64_at(&data, 0).unwrap_or(0);
                break;
            }
            of_option(&mut head, file, id, &data)?;
        }
        if next != 0 && next <= here || left == 0 {
            return Err(file.problem(here, "its options have no end"));
        }
    }
    Ok(head)
}

fn of_option(head: &mut Head, file: File<'_>, id: u16, data: &[u8]) -> Result<(), Problem> {
    let place = || crate::bytes::u64_at(data, 0).ok_or_else(|| file.problem(0, "an option that names no place"));
    match id {
        option::HEADER => {
            let part = section(file, place()?, id, head.compression)?;
            head.tracing.read_layout(&mut Cursor::new(File { bytes: &part, ..file }, 0, u64::MAX))
        }
        option::EVENTS => {
            let part = section(file, place()?, id, head.compression)?;
            head.tracing.read_events(&mut Cursor::new(File { bytes: &part, ..file }, 0, u64::MAX))
        }
        option::BUFFER => buffer(head, file, data),
        _ => {
            take_option(head, id, data);
            Ok(())
        }
    }
}

/// Where the events of a buffer lie. Of several the first counts that has events of the scheduler; trace-cmd writes the main one, which
/// has no name, first.
fn buffer(head: &mut Head, file: File<'_>, data: &[u8]) -> Result<(), Problem> {
    let what = "a buffer";
    let place = File { bytes: &data, ..file };
    let mut cursor = Cursor::new(place, 0, u64::MAX);
    let _section = cursor.u64(what)?;
    let name = cursor.text(what)?;
    let clock = cursor.text(what)?;
    let page_bytes = cursor.u32(what)? as usize;
    if !name.is_empty() && head.parts.iter().any(|part| part.length > 0) {
        return Ok(());
    }
    if !PAGE_BYTES.contains(&page_bytes) {
        return Err(file.problem(0, format!("a buffer with pages of {page_bytes} bytes")));
    }
    head.tracing.page_bytes = page_bytes;
    head.clock = clock;
    head.parts.clear();
    for _ in 0..cursor.u32(what)? {
        head.parts.push(CpuPart { cpu: cursor.u32(what)?, at: cursor.u64(what)?, length: cursor.u64(what)? });
    }
    Ok(())
}

/// The bytes of a section.
fn section(file: File<'_>, at: u64, id: u16, compression: Option<Compression>) -> Result<Vec<u8>, Problem> {
    let what = "a section";
    let mut cursor = Cursor::new(file, at, u64::MAX);
    let (found, flags) = (cursor.u16(what)?, cursor.u16(what)?);
    let _description = cursor.u32(what)?;
    let length = cursor.u64(what)?;
    if found != id {
        return Err(file.problem(at, format!("section {id} is expected here, and it is section {found}")));
    }
    match compression {
        Some(how) if flags & COMPRESSED != 0 => {
            let (packed, whole) = (cursor.u32(what)?, cursor.u32(what)?);
            let piece = file.exactly(cursor.at(), u64::from(packed), what)?;
            decompress(how, &piece, whole).map_err(|why| file.problem(at, why))
        }
        _ => file.exactly(cursor.at(), length, what),
    }
}
