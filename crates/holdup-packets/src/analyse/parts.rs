//! The connections of a capture in parts, each with its own table.

use super::Options;
use super::result::{Analysis, finish};
use crate::rfc;
use crate::segment::Segment;
use crate::wireshark::{Limits, Table, part};

/// Judges all segments of its connections.
pub(super) struct Part {
    pub(super) table: Table,
    own: Option<rfc::Judge>,
}

impl Part {
    #[inline]
    pub(super) fn judge(&mut self, segment: &Segment) {
        let Some(own) = &mut self.own else { return self.table.count(segment) };
        if let Some(marks) = self.table.judge(segment) {
            own.judge(segment, &marks);
        }
    }
}

pub(super) struct Parts {
    /// Of all parts together.
    pub(super) limits: Limits,
    pub(super) all: Vec<Part>,
    /// The number of segments before any limit can be reached.
    room: u32,
}

/// With less room, limits are checked for each segment.
const LEAST_ROOM: u32 = 1024;

impl Parts {
    pub(super) fn new(options: &Options) -> Self {
        let limits = options.limits.possible();
        let part = |_| Part { table: Table::new(limits), own: options.with_own.then(rfc::Judge::default) };
        Parts { limits, all: (0..options.threads.clamp(1, super::MOST_THREADS)).map(part).collect(), room: 0 }
    }

    pub(super) fn single(&mut self) -> Option<&mut Part> {
        match self.all.as_mut_slice() {
            [part] => Some(part),
            _ => None,
        }
    }

    /// Judges the next segment in its part, within the common limits.
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
        let used = total(self.all.iter().map(|part| part.table.used()));
        let part = part([segment.from, segment.to], self.all.len());
        let part = &mut self.all[part];
        let mine = part.table.used();
        // Less what the other parts use.
        part.table.limit(Limits {
            flows: self.limits.flows.saturating_sub(used.flows - mine.flows),
            unacknowledged: self.limits.unacknowledged.saturating_sub(used.unacknowledged - mine.unacknowledged),
        });
        part.judge(segment);
        // All parts count spans from the same time.
        let Some(first_ns) = self.all.iter().find_map(|part| part.table.first_ns()) else { return };
        self.all.iter_mut().for_each(|part| part.table.begin_at(first_ns));
        let room = room(self.limits, self.all.iter().map(|part| part.table.used()));
        if room >= LEAST_ROOM {
            self.room = room;
            self.all.iter_mut().for_each(|part| part.table.limit(self.limits));
        }
    }

    pub(super) fn finish(self) -> (Analysis, Option<rfc::Findings>) {
        let mut tables = Vec::with_capacity(self.all.len());
        let mut findings: Option<rfc::Findings> = None;
        for Part { table, own, .. } in self.all {
            tables.push(table);
            if let Some(own) = own {
                findings = Some(findings.unwrap_or_default().with(&own.finish()));
            }
        }
        (finish(tables), findings)
    }
}

fn total(used: impl Iterator<Item = Limits>) -> Limits {
    used.fold(Limits { flows: 0, unacknowledged: 0 }, |a, b| Limits {
        flows: a.flows.saturating_add(b.flows),
        unacknowledged: a.unacknowledged.saturating_add(b.unacknowledged),
    })
}

/// The number of segments that surely fit: each needs at most one connection and one unacknowledged segment.
pub(super) fn room(limits: Limits, used: impl Iterator<Item = Limits>) -> u32 {
    let used = total(used);
    let flows = limits.flows.saturating_sub(used.flows);
    flows.min(limits.unacknowledged.saturating_sub(used.unacknowledged))
}
