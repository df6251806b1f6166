//! The connections of a capture in parts, each with a table of its own.

use super::Options;
use super::result::{Analysis, finish};
use crate::rfc;
use crate::segment::Segment;
use crate::wireshark::{Limits, Table, part};

/// What is judged of some connections: by whom all their segments go.
pub(super) struct Part {
    pub(super) table: Table,
    own: Option<rfc::Judge>,
}

impl Part {
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
        let part = |_| Part { table: Table::new(limits), own: options.with_own.then(rfc::Judge::default) };
        Parts { limits, all: (0..options.threads.clamp(1, super::MOST_THREADS)).map(part).collect(), room: 0 }
    }

    /// The only part, if there are no others.
    pub(super) fn single(&mut self) -> Option<&mut Part> {
        match self.all.as_mut_slice() {
            [part] => Some(part),
            _ => None,
        }
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
        let used = total(self.all.iter().map(|part| part.table.used()));
        let part = part([segment.from, segment.to], self.all.len());
        let part = &mut self.all[part];
        let mine = part.table.used();
        // What others use is not there for this one.
        part.table.limit(Limits {
            flows: self.limits.flows.saturating_sub(used.flows - mine.flows),
            unacknowledged: self.limits.unacknowledged.saturating_sub(used.unacknowledged - mine.unacknowledged),
        });
        part.judge(segment);
        // What one has begun to count the others begin with as well.
        let Some(first_ns) = self.all.iter().find_map(|part| part.table.first_ns()) else { return };
        self.all.iter_mut().for_each(|part| part.table.begin_at(first_ns));
        let room = room(self.limits, self.all.iter().map(|part| part.table.used()));
        if room >= LEAST_ROOM {
            self.room = room;
            self.all.iter_mut().for_each(|part| part.table.limit(self.limits));
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
        (finish(tables), findings)
    }
}

/// What all parts use together.
fn total(used: impl Iterator<Item = Limits>) -> Limits {
    used.fold(Limits { flows: 0, unacknowledged: 0 }, |a, b| Limits {
        flows: a.flows.saturating_add(b.flows),
        unacknowledged: a.unacknowledged.saturating_add(b.unacknowledged),
    })
}

/// How many segments there is room for beside what parts use: each takes at most one connection, and one place among those that are
/// not acknowledged.
pub(super) fn room(limits: Limits, used: impl Iterator<Item = Limits>) -> u32 {
    let used = total(used);
    let flows = limits.flows.saturating_sub(used.flows);
    flows.min(limits.unacknowledged.saturating_sub(used.unacknowledged))
}
