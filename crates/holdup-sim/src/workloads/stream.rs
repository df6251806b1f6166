//! Connections that carry data for a while: the programs of `stream`.

use super::{Files, Levels, Results, Workload};
use crate::machine::Machine;
use crate::network::{Flows, LOST, RECEIVED, SENT, TRANSFER};
use crate::stats::WindowStats;
use crate::world::Load;
use holdup_catalogue::stream::{self, Protocol};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Measurement, Parameters, Problem};

pub(super) struct Stream;

/// What an arm says.
struct Setup {
    flows: Flows,
    connections: u64,
}

impl Setup {
    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let p = stream::Parameters::read_simulated(parameters)?;
        let both = p.flows();
        // Where there are fewer workers than connections, each carries what its connections would as one.
        let directions = both.iter().filter(|flows| **flows > 0).count() as u32;
        let most = both.map(|flows| flows.min(p.most_workers().div_ceil(directions)));
        let flows = Flows::new(p.protocol, p.network, p.sharing, p.placement, (p.transfer_bytes(), most));
        Ok(Setup { flows, connections: both.iter().map(|flows| u64::from(*flows)).sum() })
    }
}

impl Workload for Stream {
    fn id(&self) -> &'static str {
        "stream"
    }

    fn leaves_out(&self) -> &'static str {
        "TCP's window is fixed and its acknowledgements go straight back; retransmissions are segments that a full queue \
         dropped, and nothing is sent again for being late; ksoftirqd does not take over; several connections of a worker \
         are one; guests are tasks of the host"
    }

    fn load(&self, parameters: &Parameters, _levels: &Levels, machine: &Machine, _: &Files) -> Result<Load, Problem> {
        Setup::read(parameters)?.flows.load(machine)
    }

    fn results(&self, parameters: &Parameters, seen: &WindowStats, length_ns: u64) -> Results {
        // What cannot be read was refused when the load was made.
        let Ok(Setup { flows, connections }) = Setup::read(parameters) else { return Results::default() };
        let [received, transfers, sent, lost] = [RECEIVED, TRANSFER, SENT, LOST].map(|m| &seen.marks[m as usize]);
        let bytes = |segments: u64| segments as f64 * flows.segment_bytes();
        let is_tcp = flows.protocol == Protocol::Tcp;
        // Of what was lost TCP sends as much again.
        let again = |lost: u64| if is_tcp { lost } else { 0 };
        let gbit = |id: &str, segments: u64| match length_ns {
            0 => Measurement::absent(id, "the window had no length"),
            ns => Measurement::new(id, bytes(segments) * 8.0 / ns as f64),
        };
        let time = |id: &str, quantile| Measurement::percentile(id, &transfers.lengths, quantile, 1e3);
        let [client, server] = Flows::ends(seen);
        let cpu = |id: &str, ns: u64| match received.count {
            0 => Measurement::absent(id, "nothing was delivered in the window"),
            count => Measurement::new(id, ns as f64 / bytes(count)),
        };
        let tasks = u64::from(flows.there + flows.back);
        let each = flows.received(seen);
        let fairness = match (each.clone().min(), each.max()) {
            _ if tasks < connections => {
                Measurement::absent("fairness_min_max", "several connections of a worker are one")
            }
            (Some(least), Some(most)) if most > 0 => Measurement::new("fairness_min_max", least as f64 / most as f64),
            _ => Measurement::absent("fairness_min_max", "nothing was delivered in the window"),
        };
        let life = |mark: &crate::stats::MarkStats| mark.before + mark.count;
        let dropped = if is_tcp { 0.0 } else { bytes(life(lost)) };
        let measurements = vec![
            gbit("throughput_gbit_per_s", received.count),
            gbit("sent_gbit_per_s", sent.count.saturating_sub(again(lost.count))),
            Measurement::per_second("transfers_per_s", received.count / flows.segments(), length_ns),
            time("transfer_p50_us", 0.5),
            time("transfer_p99_us", 0.99),
            time("transfer_p999_us", 0.999),
            cpu("client_cpu_s_per_gb", client.cpu_ns),
            cpu("server_cpu_s_per_gb", server.cpu_ns),
            cpu("cpu_s_per_gb", client.cpu_ns + server.cpu_ns),
            fairness,
            Measurement::new("bytes_sent", bytes(life(sent).saturating_sub(again(life(lost))))),
            Measurement::new("bytes_received", bytes(life(received))),
            Measurement::new("bytes_dropped", dropped),
            match is_tcp {
                true => Measurement::new("retransmissions", life(lost) as f64),
                false => Measurement::absent("retransmissions", "only TCP sends anything again"),
            },
            Measurement::new("connections_held", connections as f64),
        ];
        (measurements, vec![NamedHistogram { name: "latency".to_owned(), histogram: transfers.lengths.clone() }])
    }
}
