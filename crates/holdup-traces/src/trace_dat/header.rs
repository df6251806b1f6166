//! What stands before the events of `trace.dat`, and in a part of `perf.data`.

use super::{CpuPart, Head};
use crate::bytes::{Cursor, LARGEST_PART};
use crate::format::Formats;
use crate::ring::{PAGE_BYTES, PageLayout};
use holdup_model::Problem;

/// The first bytes of a file.
pub(crate) const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Formats, and how pages are laid out.
#[derive(Debug, Default)]
pub(crate) struct Tracing {
    pub(crate) version: String,
    pub(crate) page_bytes: usize,
    pub(crate) page: Option<PageLayout>,
    pub(crate) formats: Formats,
}

/// The first bytes, which all versions have.
pub(super) struct Start {
    pub(super) version: String,
    pub(super) page_bytes: usize,
}

pub(super) fn start(cursor: &mut Cursor<'_>) -> Result<Start, Problem> {
    let what = "the header";
    if cursor.take(MAGIC.len(), what)? != MAGIC {
        return Err(cursor.problem("it does not begin as trace.dat does"));
    }
    let version = cursor.text("the version")?;
    if cursor.u8(what)? != 0 {
        return Err(cursor
            .problem("it was written on a big-endian machine, whose traces holdup does not read")
            .hint("trace-cmd report on that machine, and import its text"));
    }
    let _bytes_of_a_long = cursor.u8(what)?;
    let page_bytes = cursor.u32(what)? as usize;
    if !PAGE_BYTES.contains(&page_bytes) {
        return Err(cursor.problem(format!("a page of {page_bytes} bytes: between 64 and 1048576 is possible")));
    }
    Ok(Start { version, page_bytes })
}

impl Tracing {
    /// Reads the parts from `header_page` to the names of tasks, which versions 6 and older have one after the other.
    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Tracing, Problem> {
        let Start { version, page_bytes } = start(cursor)?;
        let mut tracing = Tracing { version, page_bytes, ..Tracing::default() };
        tracing.read_parts(cursor)?;
        Ok(tracing)
    }

    fn read_parts(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        self.read_layout(cursor)?;
        self.skip_ftrace(cursor)?;
        self.read_events(cursor)?;
        let symbols = cursor.u32("symbols of the kernel")?;
        cursor.skip(u64::from(symbols), "symbols of the kernel")?;
        let printk = cursor.u32("formats of printk")?;
        cursor.skip(u64::from(printk), "formats of printk")
    }

    /// `header_page` and `header_event`.
    pub(super) fn read_layout(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let (at, name) = (cursor.at(), cursor.text("header_page")?);
        if name != "header_page" {
            return Err(cursor.problem(format!("header_page is expected at byte {at}, and there is something else")));
        }
        let length = cursor.u64(&name)?;
        self.page = PageLayout::of(&cursor.text_of(length, &name)?);
        let name = cursor.text("header_event")?;
        let length = cursor.u64(&name)?;
        cursor.skip(length, "header_event")
    }

    /// Formats of events that are no tracepoints.
    pub(super) fn skip_ftrace(&self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        for _ in 0..cursor.u32("formats of ftrace")? {
            let length = cursor.u64("formats of ftrace")?;
            cursor.skip(length, "formats of ftrace")?;
        }
        Ok(())
    }

    /// Formats of tracepoints.
    pub(super) fn read_events(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Problem> {
        let what = "formats of events";
        for _ in 0..cursor.u32(what)? {
            let system = cursor.text(what)?;
            for _ in 0..cursor.u32(what)? {
                let length = cursor.u64(what)?;
                if length > LARGEST_PART as u64 {
                    return Err(cursor.problem(format!("a format of {length} bytes")));
                }
                self.formats.add(&system, &cursor.text_of(length, what)?);
            }
        }
        Ok(())
    }
}

/// Numbers of options in a file.
pub(super) mod option {
    pub(in super::super) const DONE: u16 = 0;
    pub(in super::super) const BUFFER: u16 = 3;
    pub(in super::super) const CLOCK: u16 = 4;
    pub(in super::super) const UNAME: u16 = 5;
    pub(in super::super) const CYCLES: u16 = 14;
    pub(in super::super) const HEADER: u16 = 16;
    pub(in super::super) const EVENTS: u16 = 18;
}

/// What an option says that is of any version.
pub(super) fn take_option(head: &mut Head, id: u16, data: &[u8]) {
    let text = || String::from_utf8_lossy(data).trim_end_matches('\0').trim().to_owned();
    match id {
        // `[local] global counter …`: the one in brackets is in use.
        option::CLOCK => {
            let all = text();
            let used = all.split('[').nth(1).and_then(|rest| rest.split(']').next());
            head.clock = used.map_or_else(|| all.clone(), str::to_owned);
        }
        // `Linux HOST RELEASE …`
        option::UNAME => head.kernel = text().split_ascii_whitespace().nth(2).map(str::to_owned),
        option::CYCLES => {
            let number = |at| crate::bytes::u32_at(data, at);
            let offset = crate::bytes::u64_at(data, 8);
            head.cycles = number(0).zip(number(4)).zip(offset).map(|((m, s), o)| (m, s, o));
        }
        _ => {}
    }
}

/// The rest of a file of version 6.
pub(super) fn version_6(cursor: &mut Cursor<'_>, start: Start) -> Result<Head, Problem> {
    let mut head = Head {
        tracing: Tracing { version: start.version, page_bytes: start.page_bytes, ..Tracing::default() },
        ..Head::default()
    };
    head.tracing.read_parts(cursor)?;
    let names = cursor.u64("names of tasks")?;
    cursor.skip(names, "names of tasks")?;
    let cpus = cursor.u32("the number of CPUs")?;
    let mut kind = cursor.take(10, "the kind of its events")?.to_vec();
    if kind.starts_with(b"options") {
        loop {
            let id = cursor.u16("an option")?;
            if id == option::DONE {
                break;
            }
            let length = cursor.u32("an option")? as usize;
            if length > LARGEST_PART {
                return Err(cursor.problem(format!("an option of {length} bytes")));
            }
            take_option(&mut head, id, cursor.take(length, "an option")?);
        }
        kind = cursor.take(10, "the kind of its events")?.to_vec();
    }
    if kind.starts_with(b"flyrecord") {
        // Its clock stands before the events, where it has one.
        head.parts = parts(cursor, cpus)?;
    } else if !kind.starts_with(b"latency") {
        return Err(cursor.problem("neither `options`, `latency` nor `flyrecord` stands here"));
    }
    Ok(head)
}

fn parts(cursor: &mut Cursor<'_>, cpus: u32) -> Result<Vec<CpuPart>, Problem> {
    let what = "where the events of a CPU lie";
    (0..cpus).map(|cpu| Ok(CpuPart { cpu, at: cursor.u64(what)?, length: cursor.u64(what)? })).collect()
}
