//! What is true of a run, by what the relay did: what our own judgement is to find in a capture of it.

use crate::namespaces::captures::Captured;
use crate::namespaces::relay::Passed;
use holdup_packets::rfc::Finding;
use holdup_packets::segment::{ACK, FIN, RST, SYN, Segment};
use std::collections::{BTreeMap, BTreeSet};

/// What each data segment is that begins before the highest byte that was captured of its direction, counted.
///
/// `segments` are those of `captured`, one for each.
pub(crate) fn truth(run: &[(Passed, Segment)], captured: &[Captured<'_>]) -> BTreeMap<Finding, u64> {
    let mut found = BTreeMap::new();
    // Of each direction: the number behind the highest byte, what was captured, which packets.
    let mut next: [Option<u32>; 2] = [None, None];
    let mut seen: [Vec<(u32, u32)>; 2] = Default::default();
    let mut packets = BTreeSet::new();
    for one in captured {
        let (passed, segment) = &run[one.number];
        let Some((seq, end)) = range(segment) else { continue };
        let from = passed.from;
        let before = *next[from].get_or_insert(seq);
        if (seq.wrapping_sub(before) as i32) < 0 && !is_probe(segment, before) {
            let finding = if !packets.insert(one.number) {
                Finding::Doubled
            } else if covered(&seen[from], seq, end) {
                if arrived(run, one.number, &packets, seq, end) { Finding::Needless } else { Finding::LostBehind }
            } else if is_first(run, one.number, seq, end) {
                Finding::Reordered
            } else {
                Finding::LostBefore
            };
            *found.entry(finding).or_insert(0) += 1;
        } else {
            packets.insert(one.number);
        }
        seen[from].push((seq, end));
        if (end.wrapping_sub(before) as i32) > 0 {
            next[from] = Some(end);
        }
    }
    found
}

/// The numbers that a segment takes, if it takes any.
fn range(segment: &Segment) -> Option<(u32, u32)> {
    let length = segment.payload_bytes? + u32::from(segment.has(SYN)) + u32::from(segment.has(FIN));
    (length > 0 && !segment.has(RST)).then(|| (segment.seq, segment.seq.wrapping_add(length)))
}

/// A keep-alive sends the last byte again, or none.
fn is_probe(segment: &Segment, next: u32) -> bool {
    segment.payload_bytes.is_some_and(|bytes| bytes <= 1)
        && !segment.has(SYN | FIN)
        && segment.has(ACK)
        && segment.seq.wrapping_add(1) == next
}

/// True if all of these numbers are in the ranges.
fn covered(ranges: &[(u32, u32)], seq: u32, end: u32) -> bool {
    let mut open = vec![(0, end.wrapping_sub(seq))];
    for (begin, up_to) in ranges {
        let (begin, up_to) = (begin.wrapping_sub(seq) as i32, up_to.wrapping_sub(seq) as i32);
        open = open
            .into_iter()
            .flat_map(|(from, to)| {
                let (from, to) = (from as i32, to as i32);
                [(from, to.min(begin)), (from.max(up_to), to)]
            })
            .filter(|(from, to)| from < to)
            .map(|(from, to)| (from as u32, to as u32))
            .collect();
    }
    open.is_empty()
}

/// True if other packets with these bytes, sent or captured before this one, came to the other side, then or later.
fn arrived(run: &[(Passed, Segment)], number: usize, captured: &BTreeSet<usize>, seq: u32, end: u32) -> bool {
    let from = run[number].0.from;
    let is_other = |i: usize| i < number || (i > number && captured.contains(&i));
    let came: Vec<(u32, u32)> = run
        .iter()
        .enumerate()
        .filter(|(i, (passed, _))| is_other(*i) && passed.from == from && !passed.came_ns.is_empty())
        .filter_map(|(_, (_, segment))| range(segment))
        .collect();
    covered(&came, seq, end)
}

/// True if no packet with any of these bytes was sent before.
fn is_first(run: &[(Passed, Segment)], number: usize, seq: u32, end: u32) -> bool {
    let from = run[number].0.from;
    run[..number]
        .iter()
        .filter(|(passed, _)| passed.from == from)
        .filter_map(|(_, segment)| range(segment))
        .all(|(begin, up_to)| (end.wrapping_sub(begin) as i32) <= 0 || (up_to.wrapping_sub(seq) as i32) <= 0)
}
