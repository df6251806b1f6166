//! Streams of events, each in the order of time, as one.

use crate::Sink;
use crate::event::Event;
use holdup_model::Problem;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events in the order of their times.
pub(crate) trait Stream {
    /// The next one; `None` at the end.
    fn next(&mut self) -> Result<Option<Event>, Problem>;
}

/// Hands on the events of all streams by their times; of those of one time the first stream's first.
pub(crate) fn merge<S: Stream>(streams: &mut [S], sink: Sink<'_>) -> Result<(), Problem> {
    let mut next = Vec::with_capacity(streams.len());
    for stream in streams.iter_mut() {
        next.push(stream.next()?);
    }
    let mut order: BinaryHeap<Reverse<(u64, usize)>> =
        next.iter().enumerate().filter_map(|(i, event)| Some(Reverse((event.as_ref()?.at_ns, i)))).collect();
    while let Some(Reverse((_, i))) = order.pop() {
        // Most events of a CPU lie between two of another one's, so one look at the heap serves several.
        while let Some(event) = next[i].take() {
            sink(event)?;
            next[i] = streams[i].next()?;
            let Some(event) = &next[i] else { break };
            if order.peek().is_some_and(|Reverse(first)| *first < (event.at_ns, i)) {
                order.push(Reverse((event.at_ns, i)));
                break;
            }
        }
    }
    Ok(())
}
