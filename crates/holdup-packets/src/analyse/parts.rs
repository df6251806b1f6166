//! The connections of a capture in parts, each with a table of its own.

use super::Options;
use crate::flows::Analysis;
use crate::rfc;
use crate::segment::{Address, Endpoint, Segment};
use crate::wireshark::{self, Limits, Table};

/// What is judged of some connections: by whom all their segments go.
pub(super) struct Part {
    pub(super) table: Table,
    own: Option<rfc::Judge>,
    /// When the first segment of all parts was counted, where that is known.
    first_ns: Option<i64>,
}

impl Part {
    /// Tells when the first segment of all parts was counted, or a later one, which is not minded.
    pub(super) fn begin_at(&mut self, at_ns: i64) {
        self.table.begin_at(*self.first_ns.get_or_insert(at_ns));
    }

    /// Judges the next segment of its connections.
    #[inline]
    pub(super) fn judge(&mut self, segment: &Segment) {
        let Some(own) = &mut self.own else { return self.table.count(segment) };
        if let Some(marks) = self.table.judge(segment) {
            own.judge(segment, &marks);
        }
    }
}

/// All connections.
pub(super) struct Parts {
    /// Of all parts together.
    pub(super) limits: Limits,
    pub(super) all: Vec<Part>,
    /// How many segments can be judged before any limit can be reached.
    room: u32,
}

/// With room for fewer segments the limits are looked at with each.
const LEAST_ROOM: u32 = 1024;

impl Parts {
    /// One part for each thread.
    pub(super) fn new(options: &Options) -> Self {
        let limits = Limits { flows: options.flows, ..Limits::default() }.possible();
        let part =
            |_| Part { table: Table::new(limits), own: options.with_own.then(rfc::Judge::default), first_ns: None };
        Parts { limits, all: (0..options.threads.clamp(1, super::MOST_THREADS)).map(part).collect(), room: 0 }
    }

    /// The only part, if there are no others.
    pub(super) fn single(&mut self) -> Option<&mut Part> {
        match self.all.as_mut_slice() {
            [part] => Some(part),
            _ => None,
        }
    }

    /// How much of the limits is used.
    fn used(&self) -> Limits {
        self.all.iter().map(|part| part.table.used()).fold(Limits { flows: 0, unacknowledged: 0 }, sum)
    }

    /// Judges the next segment in its part, within the limits of all together.
    #[inline]
    pub(super) fn judge(&mut self, segment: &Segment) {
        match self.room.checked_sub(1) {
            Some(room) => {
                self.room = room;
                let part = part([segment.from, segment.to], self.all.len());
                self.all[part].judge(segment);
            }
            None => self.judge_near_limits(segment),
        }
    }

    #[inline(never)]
    fn judge_near_limits(&mut self, segment: &Segment) {
        let used = self.used();
        let first_ns = self.all.iter().find_map(|part| part.first_ns);
        let part = part([segment.from, segment.to], self.all.len());
        let part = &mut self.all[part];
        let mine = part.table.used();
        // What others use is not there for this one.
        part.table.limit(Limits {
            flows: self.limits.flows.saturating_sub(used.flows - mine.flows),
            unacknowledged: self.limits.unacknowledged.saturating_sub(used.unacknowledged - mine.unacknowledged),
        });
        match first_ns {
            Some(first_ns) => part.begin_at(first_ns),
            // It may not be counted.
            None => part.table.begin_at(segment.at_ns),
        }
        part.judge(segment);
        if first_ns.is_none() && part.table.has_counted() {
            part.first_ns = Some(segment.at_ns);
        }
        self.look_ahead();
    }

    /// Looks how many segments there is room for: each takes at most one connection, and one place among those that are not acknowledged.
    fn look_ahead(&mut self) {
        let Some(first_ns) = self.all.iter().find_map(|part| part.first_ns) else { return };
        let used = self.used();
        let flows = self.limits.flows.saturating_sub(used.flows);
        let room = flows.min(self.limits.unacknowledged.saturating_sub(used.unacknowledged));
        if room >= LEAST_ROOM {
            self.room = room;
            for part in &mut self.all {
                part.begin_at(first_ns);
                part.table.limit(self.limits);
            }
        }
    }

    /// What was counted, and what was found where it was asked for.
    pub(super) fn finish(self) -> (Analysis, Option<rfc::Findings>) {
        let mut tables = Vec::with_capacity(self.all.len());
        let mut findings: Option<rfc::Findings> = None;
        for Part { table, own, .. } in self.all {
            tables.push(table);
            if let Some(own) = own {
                findings = Some(findings.unwrap_or_default().with(&own.finish()));
            }
        }
        (wireshark::finish(tables), findings)
    }
}

/// What two parts use together.
pub(super) fn sum(a: Limits, b: Limits) -> Limits {
    Limits { flows: a.flows.saturating_add(b.flows), unacknowledged: a.unacknowledged.saturating_add(b.unacknowledged) }
}

/// Which of so many parts the connection between two ends is of, in either direction.
#[inline]
pub(super) fn part([from, to]: [Endpoint; 2], parts: usize) -> usize {
    let hosts = match (from.address, to.address) {
        (Address::V4(a), Address::V4(b)) => a ^ b,
        (a, b) => word(a) ^ word(b),
    };
    let mixed = (u64::from(hosts) << 16 ^ u64::from(from.port ^ to.port)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed >> 32) as usize * parts) >> 32
}

/// The words of an address, over each other.
fn word(address: Address) -> u32 {
    match address {
        Address::V4(bits) => bits,
        Address::V6(bits) => {
            let bits = u128::from(bits);
            (bits >> 96) as u32 ^ (bits >> 64) as u32 ^ (bits >> 32) as u32 ^ bits as u32
        }
    }
}
