//! Captures whose truth is known.

use holdup_packets::analyse::{Analysis, Flows};
use holdup_packets::flows::{Direction, Flow, GivenUp};
use holdup_packets::kinds::Kind;
use holdup_packets::segment::{Address, Endpoint};
use holdup_packets::spans::Spans;
use holdup_stats::random::Noise;

const SECOND: i64 = 1_000_000_000;

/// What is to be made.
#[derive(Clone)]
pub(crate) struct World {
    pub flows: u32,
    /// Data segments of each connection, on average.
    pub segments: u32,
    pub payload: u32,
    /// Marks for each data segment.
    pub rates: Vec<(Kind, f64)>,
    pub seed: u64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        World { flows: 50, segments: 2000, payload: 1448, rates: vec![], seed }
    }

    pub(crate) fn with(mut self, kind: Kind, rate: f64) -> Self {
        self.rates.push((kind, rate));
        self
    }
}

/// Data from the first end, an ACK for every second segment, twenty seconds.
pub(crate) fn make(world: &World) -> Analysis {
    let mut noise = Noise::new(world.seed);
    let mut spans = Spans::default();
    let mut analysis = Analysis {
        frames: 0,
        segments: 0,
        other_frames: 3,
        first_ns: 0,
        last_ns: 20 * SECOND,
        flows: Flows::default(),
        initial_rtt_ns: Default::default(),
        ack_rtt_ns: Default::default(),
        rto_ns: Default::default(),
        payload_bytes: Default::default(),
        inter_arrival_ns: Default::default(),
        spans: Spans::default(),
        given_up: GivenUp::default(),
    };
    let mut flows = Vec::new();
    for stream in 0..world.flows {
        let n = (f64::from(world.segments) * (0.5 * noise.normal()).exp()) as u32 + 10;
        let mut directions = [Direction::default(), Direction::default()];
        // Each connection has its own rates.
        let own = (0.2 * noise.normal()).exp();
        for i in 0..n {
            let at = i64::from(i) * 20 * SECOND / i64::from(n) + i64::from(stream);
            let span = spans.at(at);
            span.segment(world.payload);
            span.ack_rtt.record((100_000.0 * (0.3 * noise.normal()).exp()) as u64);
            analysis.ack_rtt_ns.record_ns(100_000);
            analysis.payload_bytes.record_ns(u64::from(world.payload));
            directions[0].segments += 1;
            directions[0].data_segments += 1;
            directions[0].payload_bytes += u64::from(world.payload);
            directions[0].frame_bytes += u64::from(world.payload) + 66;
            if i % 2 == 1 {
                span.segment(0);
                directions[1].segments += 1;
                directions[1].frame_bytes += 66;
            }
            for (kind, rate) in &world.rates {
                if noise.uniform() < rate * own {
                    span.mark(*kind);
                    directions[0].counts.add(*kind, 1);
                }
            }
        }
        let end = |host: u32, port| Endpoint { address: Address::V4(0x0a00_0000 + host), port };
        flows.push(Flow {
            stream,
            ends: [end(1, 40_000 + stream as u16), end(2, 5201)],
            first_frame: stream + 1,
            first_ns: 0,
            last_ns: 20 * SECOND,
            completeness: 31,
            initial_rtt_ns: Some(80_000),
            directions,
        });
        analysis.segments += u64::from(n) + u64::from(n / 2);
    }
    analysis.frames = analysis.segments + 3;
    analysis.flows = flows.into_iter().collect();
    analysis.spans = spans;
    analysis
}
