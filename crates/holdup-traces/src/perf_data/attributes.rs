//! What each event was asked to record (struct perf_event_attr of include/uapi/linux/perf_event.h, v6.18).

use crate::bytes::{u32_at, u64_at};
use std::collections::BTreeMap;

/// Bits of `sample_type`.
pub(super) mod sample {
    pub(in super::super) const IP: u64 = 1;
    pub(in super::super) const TID: u64 = 1 << 1;
    pub(in super::super) const TIME: u64 = 1 << 2;
    pub(in super::super) const ADDRESS: u64 = 1 << 3;
    pub(in super::super) const READ: u64 = 1 << 4;
    pub(in super::super) const CALLCHAIN: u64 = 1 << 5;
    pub(in super::super) const ID: u64 = 1 << 6;
    pub(in super::super) const CPU: u64 = 1 << 7;
    pub(in super::super) const PERIOD: u64 = 1 << 8;
    pub(in super::super) const STREAM: u64 = 1 << 9;
    pub(in super::super) const RAW: u64 = 1 << 10;
    pub(in super::super) const IDENTIFIER: u64 = 1 << 16;
}

/// The flag `sample_id_all`: other records end with their time and CPU.
const ID_ALL: u64 = 1 << 18;

/// The flag `freq`: samples are taken at a frequency.
const FREQUENCY: u64 = 1 << 10;

/// The type of events that are tracepoints.
pub(super) const TRACEPOINT: u32 = 2;

/// One event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attribute {
    pub(super) kind: u32,
    pub(super) fields: u64,
    pub(super) read_format: u64,
    flags: u64,
    /// Events for each sample; a frequency where the flags say so.
    period: u64,
}

/// All of a file.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    all: Vec<Attribute>,
    by_id: BTreeMap<u64, usize>,
}

impl Attributes {
    /// Adds one of the file's header; ids distinguish its samples.
    pub(super) fn add(&mut self, bytes: &[u8], ids: impl Iterator<Item = u64>) -> Result<(), &'static str> {
        let short = "an attribute is shorter than its fields";
        let attribute = Attribute {
            kind: u32_at(bytes, 0).ok_or(short)?,
            fields: u64_at(bytes, 24).ok_or(short)?,
            read_format: u64_at(bytes, 32).ok_or(short)?,
            flags: u64_at(bytes, 40).ok_or(short)?,
            period: u64_at(bytes, 16).ok_or(short)?,
        };
        let place = self.all.len();
        self.by_id.extend(ids.map(|id| (id, place)));
        self.all.push(attribute);
        Ok(())
    }

    /// Adds one of a record: the attribute, which says how long it is, and its ids.
    pub(super) fn add_record(&mut self, body: &[u8]) -> Result<(), &'static str> {
        let length = u32_at(body, 4).map_or(0, |n| n as usize);
        let (attribute, ids) = body.split_at_checked(length).ok_or("an attribute goes beyond its record")?;
        self.add(attribute, ids.chunks_exact(8).filter_map(|id| u64_at(id, 0)))
    }

    /// True if not every event of the tracepoints was recorded.
    pub(super) fn are_sampled(&self) -> bool {
        let is_sampled = |of: &Attribute| of.flags & FREQUENCY != 0 || of.period > 1;
        self.all.iter().any(|of| of.kind == TRACEPOINT && is_sampled(of))
    }

    /// That of a sample: by its id where there are several.
    pub(super) fn of_sample(&self, body: &[u8]) -> Option<&Attribute> {
        let first = self.all.first()?;
        if self.all.len() == 1 {
            return Some(first);
        }
        let place = match first.fields {
            fields if fields & sample::IDENTIFIER != 0 => 0,
            fields if fields & sample::ID != 0 => {
                8 * (fields & (sample::IP | sample::TID | sample::TIME | sample::ADDRESS)).count_ones() as usize
            }
            // Nothing distinguishes them, so all have the same fields.
            _ => return Some(first),
        };
        self.by_id.get(&u64_at(body, place)?).and_then(|i| self.all.get(*i))
    }

    /// The time and the CPU at the end of a record that is no sample.
    pub(super) fn trailer(&self, body: &[u8]) -> Option<(u64, u32)> {
        let first = self.all.first().filter(|first| first.flags & ID_ALL != 0)?;
        let mut at = body.len();
        let (mut time, mut cpu) = (None, 0);
        // From the end: identifier, CPU, stream, id, time.
        for bit in [sample::IDENTIFIER, sample::CPU, sample::STREAM, sample::ID, sample::TIME] {
            if first.fields & bit == 0 {
                continue;
            }
            at = at.checked_sub(8)?;
            match bit {
                sample::CPU => cpu = u32_at(body, at)?,
                sample::TIME => time = u64_at(body, at),
                _ => {}
            }
        }
        Some((time?, cpu))
    }
}
