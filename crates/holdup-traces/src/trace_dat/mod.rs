//! `trace.dat` of trace-cmd, versions 6 and 7 (trace-cmd.dat.v6(5), trace-cmd.dat.v7(5)).

mod header;
mod sections;

pub(crate) use header::{MAGIC, Tracing};

use crate::bytes::{Cursor, File};
use crate::compressed::{Compression, decompress};
use crate::merge::merge;
use crate::ring::{Clock, Pages, Ring};
use crate::{Sink, TraceHead};
use holdup_model::Problem;

/// The events of one CPU in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuPart {
    pub(crate) cpu: u32,
    pub(crate) at: u64,
    pub(crate) length: u64,
}

/// What the file says before its events.
#[derive(Debug, Default)]
struct Head {
    tracing: Tracing,
    parts: Vec<CpuPart>,
    compression: Option<Compression>,
    clock: String,
    cycles: Option<(u32, u32, u64)>,
    kernel: Option<String>,
}

pub(crate) fn read(file: File<'_>, sink: Sink<'_>) -> Result<TraceHead, Problem> {
    let mut cursor = Cursor::new(file, 0, u64::MAX);
    let start = header::start(&mut cursor)?;
    let head = match start.version.as_str() {
        "6" => header::version_6(&mut cursor, start)?,
        "7" => sections::read(&mut cursor, file, start)?,
        other => {
            let why = format!("version {other} of trace.dat is not known");
            return Err(file.problem(10, why).hint("trace-cmd record --file-version 6 writes one that is"));
        }
    };
    let is_in_cycles = head.clock.contains("tsc") && head.cycles.is_none();
    if is_in_cycles || head.clock == "counter" {
        let clock = head.clock;
        return Err(Problem::usage(file.name, format!("its clock is {clock}, whose unit is not known"))
            .hint("record with trace-cmd record -C mono"));
    }
    let Some(layout) = head.tracing.page else {
        return Err(Problem::usage(file.name, "it does not say how its pages are laid out"));
    };
    if head.parts.is_empty() {
        return Err(Problem::usage(file.name, "it has no events: the latency format has none that can be read")
            .hint("trace-cmd record writes one that has"));
    }
    let clock = Clock { cycles: if head.clock.contains("tsc") { head.cycles } else { None } };
    let mut rings = Vec::with_capacity(head.parts.len());
    for part in &head.parts {
        let pages = PartPages::new(file, *part, head.tracing.page_bytes, head.compression)?;
        rings.push(Ring::new(pages, part.cpu, layout, &head.tracing.formats, clock));
    }
    merge(&mut rings, sink)?;
    let is_local = head.clock.is_empty() || head.clock == "local";
    let notes = is_local.then(|| {
        "its clock is local to each CPU (trace-cmd record -C mono has one for all): times between two CPUs may be off by some microseconds".to_owned()
    });
    Ok(TraceHead {
        format: format!("trace.dat {}", head.tracing.version),
        cpus: u32::try_from(head.parts.len()).unwrap_or(u32::MAX),
        kernel: head.kernel,
        notes: notes.into_iter().collect(),
        ..TraceHead::default()
    })
}

/// The pages of one CPU.
pub(crate) struct PartPages<'a> {
    file: File<'a>,
    at: u64,
    end: u64,
    page: Vec<u8>,
    /// Where the pages are compressed: how, chunks that are left, the last one, and what of it was handed on.
    chunks: Option<(Compression, u32)>,
    chunk: Vec<u8>,
    done: usize,
    chunk_at: u64,
}

impl<'a> PartPages<'a> {
    pub(crate) fn new(
        file: File<'a>,
        part: CpuPart,
        page_bytes: usize,
        how: Option<Compression>,
    ) -> Result<Self, Problem> {
        let end = part.at.checked_add(part.length).filter(|end| *end <= file.bytes.length());
        let Some(end) = end else { return Err(file.cut(part.at, &format!("the events of CPU {}", part.cpu))) };
        let mut at = part.at;
        let mut chunks = None;
        if let (Some(how), true) = (how, part.length > 0) {
            let mut cursor = Cursor::new(file, at, end);
            chunks = Some((how, cursor.u32("the number of compressed chunks")?));
            at = cursor.at();
        }
        Ok(PartPages { file, at, end, page: vec![0; page_bytes], chunks, chunk: Vec::new(), done: 0, chunk_at: at })
    }

    fn next_chunk(&mut self) -> Result<bool, Problem> {
        let Some((how, left)) = &mut self.chunks else { return Ok(false) };
        if *left == 0 {
            return Ok(false);
        }
        *left -= 1;
        let mut cursor = Cursor::new(self.file, self.at, self.end);
        let what = "a compressed chunk";
        let (packed, whole) = (cursor.u32(what)?, cursor.u32(what)?);
        let piece = self.file.exactly(self.at + 8, u64::from(packed), what)?;
        self.chunk = decompress(*how, &piece, whole).map_err(|why| self.file.problem(self.at, why))?;
        (self.chunk_at, self.done) = (self.at, 0);
        self.at += 8 + u64::from(packed);
        Ok(true)
    }
}

impl Pages for PartPages<'_> {
    fn next_page(&mut self) -> Result<Option<(u64, &[u8])>, Problem> {
        if self.chunks.is_none() {
            let begin = self.at;
            if begin >= self.end {
                return Ok(None);
            }
            let length = self.page.len().min(usize::try_from(self.end - begin).unwrap_or(usize::MAX));
            let page = &mut self.page[..length];
            if self.file.fill(begin, page)? < length {
                return Err(self.file.cut(begin, "a page"));
            }
            self.at += length as u64;
            return Ok(Some((begin, page)));
        }
        while self.done >= self.chunk.len() {
            if !self.next_chunk()? {
                return Ok(None);
            }
        }
        let begin = self.done;
        self.done = (begin + self.page.len()).min(self.chunk.len());
        Ok(Some((self.chunk_at, &self.chunk[begin..self.done])))
    }

    fn problem(&self, at: u64, why: String) -> Problem {
        // Of what is compressed the chunk is all that is known.
        self.file.problem(if self.chunks.is_some() { self.chunk_at } else { at }, why)
    }
}
