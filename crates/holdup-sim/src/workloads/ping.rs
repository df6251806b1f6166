//! One end that sends messages as fast as it can, and one that receives them: the programs of `ping` in its mode
//! `throughput`.

use super::{Files, Levels, Results, Workload};
use crate::machine::Machine;
use crate::network::{Flows, LOST, RECEIVED, SENT, TRANSFER};
use crate::stats::WindowStats;
use crate::world::Load;
use holdup_catalogue::ping;
use holdup_catalogue::stream::{Network, Protocol};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Measurement, Parameters, Problem};

pub(super) struct Ping;

/// What a message one way never has.
const ANSWERS: [&str; 4] = ["rtt_p50_us", "rtt_p99_us", "rtt_p999_us", "rtt_max_us"];
/// What simulated messages do not have.
const ABSENT: [&str; 8] = [
    "messages_not_sent",
    "replies_dropped",
    "replies_lost",
    "reply_timeouts",
    "duplicated",
    "out_of_order",
    "lost_unaccounted",
    "strangers",
];

fn flow(parameters: &Parameters) -> Result<Flows, Problem> {
    let p = ping::Parameters::read_simulated(parameters)?;
    let refuse = |what: String, hint: &str| {
        Err(Problem::host(what, "the simulated ping sends one way, as fast as it can").hint(hint))
    };
    if p.mode != ping::Mode::Throughput {
        return refuse(format!("mode {}", p.mode), "take mode = throughput");
    }
    if p.waiting == ping::Waiting::Poll {
        return refuse("waiting poll".to_owned(), "take waiting = block");
    }
    if let Some(rate) = p.rate.filter(|rate| *rate > 0) {
        return refuse(format!("rate {rate}"), "leave it out");
    }
    let protocol = match p.protocol {
        ping::Protocol::Udp => Protocol::Udp,
        ping::Protocol::Tcp => Protocol::Tcp,
        ping::Protocol::UnixDatagram | ping::Protocol::UnixStream => Protocol::Unix,
    };
    let network = match p.network {
        ping::Network::Host => Network::Host,
        ping::Network::Loopback => Network::Loopback,
        ping::Network::Veth => Network::Veth,
        ping::Network::Bridge => Network::Bridge,
        ping::Network::OpenVSwitch => Network::OpenVSwitch,
    };
    Ok(Flows::new(protocol, network, p.sharing, p.placement, (p.size, [1, 0])))
}

impl Workload for Ping {
    fn id(&self) -> &'static str {
        "ping"
    }

    fn leaves_out(&self) -> &'static str {
        "messages are sent one way only; each is read alone, also where TCP would put several together"
    }

    fn load(&self, parameters: &Parameters, _levels: &Levels, machine: &Machine, _: &Files) -> Result<Load, Problem> {
        flow(parameters)?.load(machine)
    }

    fn results(&self, parameters: &Parameters, seen: &WindowStats, length_ns: u64) -> Results {
        // What cannot be read was refused when the load was made.
        let Ok(flow) = flow(parameters) else { return Results::default() };
        let [received, transfers, sent, lost] = [RECEIVED, TRANSFER, SENT, LOST].map(|m| &seen.marks[m as usize]);
        // A message of more than one segment has come when the last one has.
        let messages = |segments: u64| segments / flow.segments();
        let rate = |id: &str, segments: u64| Measurement::per_second(id, messages(segments), length_ns);
        let way = |id: &str, quantile| Measurement::percentile(id, &transfers.lengths, quantile, 1e3);
        let [client, server] = Flows::ends(seen);
        let cpu = |id: &str, ns: u64| Measurement::per_operation(id, ns, messages(received.count));
        let life =
            |id: &str, mark: &crate::stats::MarkStats| Measurement::new(id, messages(mark.before + mark.count) as f64);
        let mut measurements = vec![
            rate("delivered_per_s", received.count),
            rate("messages_per_s", received.count),
            rate("sent_per_s", sent.count),
            rate("dropped_per_s", lost.count),
            match length_ns {
                0 => Measurement::absent("bandwidth_mbit_per_s", "the window had no length"),
                ns => {
                    let bits = received.count as f64 * flow.segment_bytes() * 8.0;
                    Measurement::new("bandwidth_mbit_per_s", bits * 1e3 / ns as f64)
                }
            },
        ];
        measurements.extend(ANSWERS.map(|id| Measurement::absent(id, "mode throughput has no answers")));
        measurements.extend([
            way("one_way_p50_us", 0.5),
            way("one_way_p99_us", 0.99),
            way("one_way_p999_us", 0.999),
            Measurement::absent("send_lag_p99_us", "no rate was asked for"),
            cpu("client_cpu_ns_per_message", client.cpu_ns),
            cpu("server_cpu_ns_per_message", server.cpu_ns),
            cpu("cpu_ns_per_message", client.cpu_ns + server.cpu_ns),
            life("messages_sent", sent),
            life("messages_received", received),
            life("messages_dropped", lost),
        ]);
        measurements.extend(ABSENT.map(|id| Measurement::absent(id, "a simulated network does neither of these")));
        let named = |name: &str| NamedHistogram { name: name.to_owned(), histogram: transfers.lengths.clone() };
        (measurements, vec![named("latency"), named("one_way")])
    }
}
