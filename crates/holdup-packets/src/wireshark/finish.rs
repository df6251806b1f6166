//! The connections of one table, or of several that share them, as [`Flow`]s in the order in which they began.

use super::state::{Connection, Side, connection, side};
use super::table::Connections;
use super::tallies::Tallies;
use super::{Counters, Table};
use crate::flows::{Direction, Flow};
use holdup_model::histogram::Histogram;

/// The connections of all tables, what was counted of them together, and the round trips of their handshakes.
pub(crate) fn finish(tables: Vec<Table>) -> (Judged, Counters, Histogram) {
    let mut counters = Counters::default();
    let mut initial_rtt_ns = Histogram::new();
    let mut judged = Vec::with_capacity(tables.len());
    for Table { connections, tallies, counters: more, .. } in tables {
        connections.iter().filter_map(initial_rtt).for_each(|rtt_ns| initial_rtt_ns.record_ns(rtt_ns));
        counters.add(more);
        judged.push((connections, tallies));
    }
    (Judged::new(judged), counters, initial_rtt_ns)
}

fn initial_rtt(connection: &Connection) -> Option<u64> {
    u64::try_from(connection.rtt_ns()).ok().filter(|rtt_ns| *rtt_ns > 0)
}

impl Counters {
    fn add(&mut self, other: Counters) {
        self.segments += other.segments;
        self.rto_ns.add(&other.rto_ns);
        self.spans.add(other.spans);
        self.given_up.segments_beyond_flows += other.given_up.segments_beyond_flows;
        self.given_up.unacknowledged += other.given_up.unacknowledged;
        self.given_up.fragments += other.given_up.fragments;
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Judged {
    tables: Vec<(Connections, Tallies)>,
    /// The position of each connection, if there are several tables.
    order: Vec<Position>,
}

/// A table, and an index in 24 bits.
#[derive(Debug, Clone, Copy)]
struct Position(u32);

impl Judged {
    fn new(tables: Vec<(Connections, Tallies)>) -> Self {
        if tables.len() == 1 {
            return Judged { tables, order: Vec::new() };
        }
        let places = |table: usize, n: usize| (0..n as u32).map(move |place| Position((table as u32) << 24 | place));
        let mut order: Vec<Position> =
            tables.iter().enumerate().flat_map(|(table, (connections, _))| places(table, connections.len())).collect();
        // No two connections begin in the same frame.
        order.sort_unstable_by_key(|Position(place)| {
            tables[(place >> 24) as usize].0.get(place & 0xff_ffff).first_frame
        });
        Judged { tables, order }
    }

    pub(crate) fn len(&self) -> usize {
        self.tables.iter().map(|(connections, _)| connections.len()).sum()
    }

    pub(crate) fn flow(&self, stream: u32) -> Flow {
        let Position(place) = self.order.get(stream as usize).copied().unwrap_or(Position(stream));
        let (connections, tallies) = &self.tables[(place >> 24) as usize];
        let connection = connections.get(place & 0xff_ffff);
        let mut ends = connections.ends(connection);
        let mut directions = connection.sides.map(|side| Direction {
            segments: side.segments.into(),
            data_segments: side.data_segments.into(),
            payload_bytes: side.payload_bytes,
            frame_bytes: side.frame_bytes,
            in_flight_bytes_max: side.in_flight_bytes_max,
            counts: tallies.counts(&side.tally),
        });
        if connection.has(connection::BEGAN_AT_1) {
            ends.reverse();
            directions.reverse();
        }
        let last = |side: &Side| if side.has(side::HAS_WINDOW) { side.last_at_ns } else { i64::MIN };
        Flow {
            stream,
            ends,
            first_frame: connection.first_frame,
            first_ns: connection.first_at_ns,
            last_ns: connection.sides.iter().map(last).fold(connection.first_at_ns, i64::max),
            completeness: connection.completeness,
            initial_rtt_ns: initial_rtt(connection),
            directions,
        }
    }
}
