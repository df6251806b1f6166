//! What stands before and behind the records.

use super::attributes::Attributes;
use crate::bytes::{Cursor, File, u32_at, u64_at};
use crate::format::Formats;
use crate::{TraceHead, trace_dat};
use holdup_model::Problem;

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8] = b"PERFILE2";
/// The same, written on a big-endian machine.
pub(crate) const MAGIC_BIG_ENDIAN: &[u8] = b"2ELIFREP";

/// The length of the header of a pipe: that, and its own length.
const PIPE_LENGTH: u64 = 16;

/// Numbers of parts behind the records.
mod feature {
    pub(super) const TRACING_DATA: u64 = 1;
    pub(super) const HOST: u64 = 3;
    pub(super) const RELEASE: u64 = 4;
    pub(super) const CPUS: u64 = 7;
    pub(super) const BITS: u64 = 256;
}

/// More attributes than a file has.
const MOST_ATTRIBUTES: u64 = 100_000;

pub(super) struct Header {
    pub(super) attributes: Attributes,
    pub(super) formats: Formats,
    pub(super) head: TraceHead,
    /// The first byte of the records, and that behind them.
    pub(super) data: (u64, u64),
    pub(super) is_pipe: bool,
}

pub(super) fn read(file: File<'_>) -> Result<Header, Problem> {
    let what = "the header";
    let mut cursor = Cursor::new(file, 0, u64::MAX);
    let magic = cursor.take(MAGIC.len(), what)?;
    if magic == MAGIC_BIG_ENDIAN {
        return Err(file
            .problem(0, "it was written on a big-endian machine, whose records holdup does not read")
            .hint("perf script on that machine, and import its text"));
    }
    if magic != MAGIC {
        return Err(file.problem(0, "it does not begin as perf.data of version 2 does"));
    }
    let mut header = Header {
        attributes: Attributes::default(),
        formats: Formats::default(),
        head: TraceHead { format: "perf.data".to_owned(), ..TraceHead::default() },
        data: (PIPE_LENGTH, u64::MAX),
        is_pipe: false,
    };
    let length = cursor.u64(what)?;
    if length == PIPE_LENGTH {
        header.is_pipe = true;
        return Ok(header);
    }
    let each = cursor.u64(what)?;
    let (attributes_at, attributes_length) = (cursor.u64(what)?, cursor.u64(what)?);
    let (data_at, data_length) = (cursor.u64(what)?, cursor.u64(what)?);
    cursor.skip(16, "the types of events")?;
    let features = cursor.take(32, what)?.to_vec();
    let data_end = data_at.checked_add(data_length).filter(|end| *end <= file.bytes.length());
    if data_length == 0 {
        return Err(file
            .problem(48, "it says that it has no records: perf did not come to its end")
            .hint("perf record writes the length when it ends; perf report cannot read such a file either"));
    }
    let Some(data_end) = data_end else { return Err(file.cut(data_at, "the records")) };
    header.data = (data_at, data_end);
    read_attributes(file, (attributes_at, attributes_length, each), &mut header.attributes)?;
    let mut places = Cursor::new(file, data_end, u64::MAX);
    for number in 0..feature::BITS {
        if features[(number / 8) as usize] & (1 << (number % 8)) == 0 {
            continue;
        }
        let (at, length) = (places.u64("a part behind the records")?, places.u64("a part behind the records")?);
        match number {
            feature::TRACING_DATA => {
                let mut inner = Cursor::new(file, at, at.saturating_add(length));
                header.formats = trace_dat::Tracing::read(&mut inner)?.formats;
            }
            feature::HOST | feature::RELEASE | feature::CPUS => {
                take_feature(
                    &mut header.head,
                    number,
                    &file.exactly(at, length.min(1 << 16), "a part behind the records")?,
                );
            }
            _ => {}
        }
    }
    Ok(header)
}

fn read_attributes(file: File<'_>, (at, length, each): (u64, u64, u64), into: &mut Attributes) -> Result<(), Problem> {
    // An attribute and where its ids lie.
    if !(64..=4096).contains(&each) || length / each > MOST_ATTRIBUTES {
        return Err(file.problem(16, format!("an attribute has {each} bytes: between 64 and 4096 is possible")));
    }
    for number in 0..length / each {
        let begin = at.saturating_add(number * each);
        let bytes = file.exactly(begin, each, "an attribute")?;
        let (attribute, ids) = bytes.split_at(bytes.len() - 16);
        let (ids_at, ids_length) = (u64_at(ids, 0).unwrap_or_default(), u64_at(ids, 8).unwrap_or_default());
        let ids = file.exactly(ids_at, ids_length, "the ids of an attribute")?;
        into.add(attribute, ids.chunks_exact(8).filter_map(|id| u64_at(id, 0)))
            .map_err(|why| file.problem(begin, why))?;
    }
    Ok(())
}

/// What a part says that is understood.
pub(super) fn take_feature(head: &mut TraceHead, number: u64, bytes: &[u8]) {
    // A length, and a text that is padded with zeros.
    let text = || {
        let text = bytes.get(4..).unwrap_or_default();
        String::from_utf8_lossy(text.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
    };
    match number {
        feature::HOST => head.host = Some(text()).filter(|text| !text.is_empty()),
        feature::RELEASE => head.kernel = Some(text()).filter(|text| !text.is_empty()),
        // Those that are configured, then those that are online.
        feature::CPUS => head.cpus = u32_at(bytes, 4).unwrap_or(0),
        _ => {}
    }
}
