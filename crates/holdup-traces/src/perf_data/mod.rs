//! `perf.data` of perf, as a file and as a pipe writes it (tools/perf/Documentation/perf.data-file-format.txt, v6.18).

mod attributes;
mod header;
mod maps;
mod packed;
mod samples;

use crate::bytes::{Cursor, File, u16_at, u32_at, u64_at};
use crate::event::{Event, Name, What};
use crate::format::Formats;
use crate::order::Order;
use crate::{Sink, TraceHead, trace_dat};
use attributes::Attributes;
use holdup_model::Problem;
use maps::Maps;
use packed::Packed;
use std::collections::BTreeMap;

pub(crate) use header::{MAGIC, MAGIC_BIG_ENDIAN};

/// Types of records that matter here.
mod record {
    pub(super) const MAPPING: u32 = 1;
    pub(super) const LOST: u32 = 2;
    pub(super) const COMM: u32 = 3;
    pub(super) const FORK: u32 = 7;
    pub(super) const SAMPLE: u32 = 9;
    pub(super) const MAPPING_2: u32 = 10;
    pub(super) const LOST_SAMPLES: u32 = 13;
    pub(super) const ATTRIBUTE: u32 = 64;
    pub(super) const TRACING_DATA: u32 = 66;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const FEATURE: u32 = 80;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED_PADDED: u32 = 83;
}

/// A flag of a record of a name: the task runs another program.
const EXEC: u16 = 1 << 13;

/// The length of the head of each record: type, flags, length.
const HEAD: usize = 8;

pub(crate) fn read(file: File<'_>, sink: Sink<'_>) -> Result<TraceHead, Problem> {
    let header = header::read(file)?;
    let mut reader = Reader {
        file,
        attributes: header.attributes,
        formats: header.formats,
        rounds: Order::new(file),
        packed: None,
        maps: Maps::new(file.budget),
        names: BTreeMap::new(),
        head: header.head,
        is_pipe: header.is_pipe,
    };
    let mut cursor = Cursor::new(file, header.data.0, header.data.1);
    while cursor.left() >= HEAD as u64 {
        reader.record(&mut cursor, sink)?;
    }
    if !cursor.is_at_end() {
        return Err(file.cut(cursor.at(), "a record"));
    }
    if let Some(packed) = reader.packed.take() {
        let (rest, at) = packed.finish().map_err(|why| file.problem(cursor.at(), why))?;
        reader.unpacked(&rest, at, sink)?;
    }
    reader.rounds.finish(sink)?;
    if reader.formats.names.is_empty() {
        return Err(Problem::usage(file.name, "it has no tracepoint of the scheduler")
            .hint("perf sched record, or perf record -a -e 'sched:*'"));
    }
    if reader.attributes.are_sampled() {
        return Err(Problem::usage(file.name, "its tracepoints were sampled, so that switches are missing")
            .hint("perf record -c 1 records each; sample a clock in a record of its own"));
    }
    let mut head = reader.head;
    head.frames = reader.maps.interner.frames();
    head.notes.extend(reader.rounds.note());
    Ok(head)
}

struct Reader<'a> {
    file: File<'a>,
    attributes: Attributes,
    formats: Formats,
    rounds: Order<'a>,
    packed: Option<Packed>,
    maps: Maps,
    /// Names of threads, by their records; samples have none.
    names: BTreeMap<u32, Name>,
    head: TraceHead,
    is_pipe: bool,
}

impl Reader<'_> {
    /// Reads the record at the cursor.
    fn record(&mut self, cursor: &mut Cursor<'_>, sink: Sink<'_>) -> Result<(), Problem> {
        let at = cursor.at();
        let head = cursor.take(HEAD, "a record")?;
        let kind = u32_at(head, 0).unwrap_or_default();
        let is_exec = u16_at(head, 4).is_some_and(|flags| flags & EXEC != 0);
        let length = usize::from(u16_at(head, 6).unwrap_or_default());
        if length < HEAD {
            return Err(self.file.problem(at, format!("a record of {length} bytes: it has a head of {HEAD}")));
        }
        let body = cursor.take(length - HEAD, "a record")?;
        match kind {
            record::COMPRESSED | record::COMPRESSED_PADDED => {
                let body = match kind {
                    record::COMPRESSED => body,
                    // The number of bytes, which are padded.
                    _ => {
                        let length = u64_at(body, 0).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
                        body.get(8..8usize.saturating_add(length))
                            .ok_or_else(|| self.file.cut(at, "a compressed record"))?
                    }
                };
                let packed = self.packed.get_or_insert_with(Packed::default);
                let unpacked = packed.add(body).map_err(|why| self.file.problem(at, why))?;
                self.unpacked(&unpacked, at, sink)
            }
            record::TRACING_DATA => {
                let length = u64::from(u32_at(body, 0).unwrap_or_default());
                let begin = cursor.at();
                let mut inner = Cursor::new(self.file, begin, begin.saturating_add(length));
                let tracing = trace_dat::Tracing::read(&mut inner)?;
                self.formats = tracing.formats;
                cursor.skip(length.next_multiple_of(8), "the formats of events")
            }
            record::AUXTRACE => {
                let length = u64_at(body, 0).unwrap_or_default();
                cursor.skip(length, "a trace of the processor")
            }
            record::FINISHED_ROUND if self.packed.is_none() => self.rounds.end(sink),
            record::ATTRIBUTE => self.attributes.add_record(body).map_err(|why| self.file.problem(at, why)),
            record::FEATURE if self.is_pipe => {
                let number = u64_at(body, 0).unwrap_or_default();
                header::take_feature(&mut self.head, number, body.get(8..).unwrap_or_default());
                Ok(())
            }
            _ => self.plain((kind, is_exec), body, at, sink),
        }
    }

    /// Records that were compressed together.
    fn unpacked(&mut self, bytes: &[u8], at: u64, sink: Sink<'_>) -> Result<(), Problem> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let (kind, length) = (u32_at(rest, 0), u16_at(rest, 6).map(usize::from));
            let (Some(kind), Some(record)) = (kind, length.filter(|n| *n >= HEAD).and_then(|n| rest.get(..n))) else {
                return Err(self.file.problem(at, "a compressed record is damaged"));
            };
            let is_exec = u16_at(record, 4).is_some_and(|flags| flags & EXEC != 0);
            self.plain((kind, is_exec), &record[HEAD..], at, sink)?;
            rest = &rest[record.len()..];
        }
        Ok(())
    }

    /// Records of the kernel.
    fn plain(&mut self, (kind, is_exec): (u32, bool), body: &[u8], at: u64, sink: Sink<'_>) -> Result<(), Problem> {
        let cut = || self.file.problem(at, format!("a record of type {kind} is shorter than its fields"));
        let event = match kind {
            record::SAMPLE => {
                let mut event = samples::read(body, &self.attributes, &self.formats, &mut self.maps)
                    .map_err(|why| self.file.problem(at, why))?;
                if let Some(Event { what: What::Sample { tid, name, .. }, .. }) = &mut event {
                    *name = self.names.get(tid).copied();
                }
                event
            }
            record::LOST | record::LOST_SAMPLES => {
                let place = if kind == record::LOST { 8 } else { 0 };
                let count = u64_at(body, place).ok_or_else(cut)?;
                let (at_ns, cpu) = self.attributes.trailer(body).unwrap_or((self.rounds.newest_ns, 0));
                Some(Event { at_ns, cpu, what: What::Lost { count } })
            }
            record::COMM | record::FORK => {
                let (pid, tid) = match kind {
                    record::COMM => (u32_at(body, 0), u32_at(body, 4)),
                    _ => (u32_at(body, 0), u32_at(body, 8)),
                };
                let (pid, tid) = pid.zip(tid).ok_or_else(cut)?;
                match (kind, u32_at(body, 4)) {
                    (record::FORK, Some(parent)) => self.maps.fork(parent, pid),
                    _ if is_exec => self.maps.exec(pid),
                    _ => {}
                }
                let name = match kind {
                    record::COMM => body.get(8..).map(Name::of),
                    _ => u32_at(body, 12).and_then(|parent| self.names.get(&parent).copied()),
                };
                self.names.extend(name.map(|name| (tid, name)));
                // Which process a thread belongs to never changes, so that it needs no place in the order.
                sink(Event { at_ns: 0, cpu: 0, what: What::Process { tid, pid } })?;
                None
            }
            record::MAPPING | record::MAPPING_2 => {
                self.maps.add(body, if kind == record::MAPPING { 32 } else { 64 });
                None
            }
            _ => None,
        };
        match event {
            Some(event) => self.rounds.add(event, sink),
            None => Ok(()),
        }
    }
}
