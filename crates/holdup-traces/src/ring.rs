//! Pages of the kernel's ring buffer, as `per_cpu/*/trace_pipe_raw` of tracefs gives them (kernel/trace/ring_buffer.c, v6.18).

use crate::bytes::{u32_at, u64_at};
use crate::event::{Event, What};
use crate::format::Formats;
use crate::merge::Stream;
use holdup_model::Problem;
use std::collections::VecDeque;

/// Pages of other sizes are not believed, bytes.
pub(crate) const PAGE_BYTES: std::ops::RangeInclusive<usize> = 64..=1 << 20;

/// Where the parts of a page lie: the format `header_page` says it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageLayout {
    /// Bytes of the number behind the time stamp, 4 or 8.
    commit_bytes: usize,
    /// Where the events begin.
    data_at: usize,
    /// The length of a page.
    pub(crate) page_bytes: usize,
}

impl PageLayout {
    pub(crate) fn of(header_page: &str) -> Option<Self> {
        let line = |name: &str| header_page.lines().find(|line| line.contains(name));
        let number = |line: &str, key: &str| {
            let part = line.split(';').find_map(|part| part.trim().strip_prefix(key))?;
            part.trim().parse::<usize>().ok()
        };
        let commit = line(" commit;")?;
        let data = line(" data;")?;
        let data_at = number(data, "offset:")?;
        let page_bytes = data_at.checked_add(number(data, "size:")?).filter(|n| PAGE_BYTES.contains(n))?;
        let commit_bytes = number(commit, "size:")?;
        let is_known = number(commit, "offset:")? == 8 && matches!(commit_bytes, 4 | 8) && data_at == 8 + commit_bytes;
        is_known.then_some(PageLayout { commit_bytes, data_at, page_bytes })
    }
}

/// Pages of one CPU, one after the other.
pub(crate) trait Pages {
    /// The next one, and the byte of the file that it begins at; `None` at the end.
    fn next_page(&mut self) -> Result<Option<(u64, &[u8])>, Problem>;

    /// What is wrong at a byte of the file.
    fn problem(&self, at: u64, why: String) -> Problem;
}

/// How times of a ring buffer become ns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Clock {
    /// Multiplier, shift and offset, of a clock that counts cycles (TSC2NSEC of trace-cmd).
    pub(crate) cycles: Option<(u32, u32, u64)>,
}

impl Clock {
    fn ns(self, stamp: u64) -> u64 {
        match self.cycles {
            None => stamp,
            Some((multiplier, shift, offset)) => {
                let ns = (u128::from(stamp) * u128::from(multiplier)) >> shift.min(63);
                u64::try_from(ns).unwrap_or(u64::MAX).saturating_add(offset)
            }
        }
    }
}

/// The events of one CPU.
pub(crate) struct Ring<'f, P> {
    pages: P,
    cpu: u32,
    layout: PageLayout,
    formats: &'f Formats,
    clock: Clock,
    /// The events of the last page that are not yet handed on.
    events: VecDeque<Event>,
    last_ns: u64,
}

impl<'f, P: Pages> Ring<'f, P> {
    pub(crate) fn new(pages: P, cpu: u32, layout: PageLayout, formats: &'f Formats, clock: Clock) -> Self {
        Ring { pages, cpu, layout, formats, clock, events: VecDeque::new(), last_ns: 0 }
    }
}

/// Events were lost before this page; their number stands behind its events.
const MISSED: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
const LENGTH: u64 = (1 << 27) - 1;

/// `type_len` of a record's first word.
const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// Bits of the time in the first word.
const SHIFT: u32 = 27;
/// Bits of an absolute time stamp; those above are of the one before.
const ABSOLUTE_BITS: u32 = 59;

impl<P: Pages> Stream for Ring<'_, P> {
    fn next(&mut self) -> Result<Option<Event>, Problem> {
        while self.events.is_empty() {
            let Some((begin, page)) = self.pages.next_page()? else { return Ok(None) };
            let layout = (self.cpu, self.layout, self.clock);
            match read_page(page, layout, self.formats, &mut self.last_ns, &mut self.events) {
                Ok(()) => {}
                Err((at, why)) => {
                    let cpu = self.cpu;
                    return Err(self.pages.problem(begin + at as u64, format!("{why}, in a page of CPU {cpu}")));
                }
            }
        }
        Ok(self.events.pop_front())
    }
}

/// The events of a page; else the place in it that is wrong, and why.
fn read_page(
    page: &[u8],
    (cpu, layout, clock): (u32, PageLayout, Clock),
    formats: &Formats,
    last_ns: &mut u64,
    events: &mut VecDeque<Event>,
) -> Result<(), (usize, &'static str)> {
    let cut = || (page.len(), "it ends inside a page");
    let mut stamp = u64_at(page, 0).ok_or_else(cut)?;
    let commit = match layout.commit_bytes {
        4 => u64::from(u32_at(page, 8).ok_or_else(cut)?),
        _ => u64_at(page, 8).ok_or_else(cut)?,
    };
    let end = layout.data_at + (commit & LENGTH) as usize;
    let records = page.get(..end).ok_or((8, "a page says that it has more bytes than a page"))?;
    let mut push = |stamp: u64, what: What| {
        let at_ns = clock.ns(stamp);
        // Writers that were interrupted may have stamped in another order than they wrote.
        *last_ns = at_ns.max(*last_ns);
        events.push_back(Event { at_ns: *last_ns, cpu, what });
    };
    if commit & MISSED != 0 {
        let count = if commit & MISSED_STORED != 0 { u64_at(page, end).unwrap_or(0) } else { 0 };
        push(stamp, What::Lost { count });
    }
    let mut at = layout.data_at;
    while at < end {
        let word = |at: usize| u32_at(records, at).ok_or((at, "a record goes beyond the end of its page"));
        let first = word(at)?;
        let (kind, delta) = (first & 31, u64::from(first >> 5));
        let data = match kind {
            PADDING if delta == 0 => break,
            PADDING => {
                stamp = stamp.wrapping_add(delta);
                at = at.saturating_add(4).saturating_add(word(at + 4)? as usize);
                continue;
            }
            TIME_EXTEND => {
                stamp = stamp.wrapping_add(delta | u64::from(word(at + 4)?) << SHIFT);
                at += 8;
                continue;
            }
            TIME_STAMP => {
                let below = delta | u64::from(word(at + 4)?) << SHIFT;
                stamp = stamp >> ABSOLUTE_BITS << ABSOLUTE_BITS | below & ((1 << ABSOLUTE_BITS) - 1);
                at += 8;
                continue;
            }
            0 => {
                let length = (word(at + 4)? as usize).max(4);
                let begin = at + 8;
                let next = (at + 4).saturating_add(length).next_multiple_of(4);
                at = next;
                begin..next
            }
            words => {
                let begin = at + 4;
                at = begin + words as usize * 4;
                begin..at
            }
        };
        stamp = stamp.wrapping_add(delta);
        let record = records.get(data.clone()).ok_or((data.start, "a record goes beyond the end of its page"))?;
        if let Some(what) = formats.read(record) {
            push(stamp, what);
        }
    }
    Ok(())
}
