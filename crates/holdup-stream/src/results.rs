//! From counts to metrics.

use crate::flow::STAMP_BYTES;
use crate::profile::Protocol;
use crate::trial::Done;
use holdup_host::network::{Counters, Topology};
use holdup_load::combine::Combination;
use holdup_load::metrics::{self, Row};
use holdup_load::record;
use holdup_load::worker_pool::Sharing;
use holdup_load::{Shared, TrialResult, client_hosts};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Direction, Histogram, Measurement, Metric, Problem};
use std::sync::atomic::Ordering;

/// What is measured, in the order shown.
pub const METRICS: &[Row] = &[
    ("throughput_gbit_per_s", "Gbit/s", Direction::Higher, "payload that receivers got in the window"),
    ("sent_gbit_per_s", "Gbit/s", Direction::Higher, "payload that the kernel took from senders in the window"),
    ("transfers_per_s", "1/s", Direction::Higher, "whole transfers that receivers got"),
    ("transfer_p50_us", "us", Direction::Lower, "time of a whole transfer, median"),
    ("transfer_p99_us", "us", Direction::Lower, "time of a whole transfer, 99th percentile"),
    ("transfer_p999_us", "us", Direction::Lower, "time of a whole transfer, 99.9th percentile"),
    ("client_cpu_s_per_gb", "s", Direction::Lower, "CPU time of the client's workers per 10^9 bytes delivered"),
    ("server_cpu_s_per_gb", "s", Direction::Lower, "CPU time of the server's workers per 10^9 bytes delivered"),
    ("cpu_s_per_gb", "s", Direction::Lower, "CPU time of the workers of both ends per 10^9 bytes delivered"),
    ("fairness_min_max", "1", Direction::Higher, "bytes of the slowest connection by those of the fastest; 1 is even"),
    ("bytes_sent", "bytes", Direction::Higher, "payload sent in the whole life of the trial"),
    ("bytes_received", "bytes", Direction::Higher, "payload received in the whole life of the trial"),
    ("bytes_dropped", "bytes", Direction::Lower, "payload dropped on the way, by the kernel's counters"),
    ("retransmissions", "1", Direction::Lower, "TCP segments that were sent again"),
    ("connections_held", "1", Direction::Higher, "connections open at the same time"),
];

/// The metrics of the workload.
pub fn metrics() -> Vec<Metric> {
    metrics::table(METRICS)
}

/// How several client hosts share the connections.
pub static SHARED: Shared = Shared {
    divide: |parameters, hosts| client_hosts::divide(parameters, "connections", hosts),
    combine: |metric| match metric {
        "fairness_min_max" => Combination::Absent("each client host compares its own connections, see the notes"),
        "retransmissions" => Combination::Absent("each client host adds those of the whole server"),
        "transfer_p50_us" | "transfer_p99_us" | "transfer_p999_us" => {
            Combination::Absent("the two ends of a connection have no common clock")
        }
        _ => Combination::usual(metric, "throughput_gbit_per_s"),
    },
};

/// What was counted over the whole life of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Life {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Datagrams, of UDP only.
    pub(crate) datagrams_sent: u64,
    pub(crate) datagrams_received: u64,
}

/// What is known of a window, of a profile or not.
pub(crate) struct Measured<'a> {
    pub(crate) length_ns: u64,
    pub(crate) sent: u64,
    pub(crate) received: u64,
    pub(crate) transfers: u64,
    pub(crate) latency: Result<&'a Histogram, String>,
    pub(crate) cpu_ns: [Option<u64>; 2],
    /// Bytes received while that CPU time was spent.
    pub(crate) cpu_bytes: u64,
    pub(crate) fairness: Result<f64, String>,
    pub(crate) life: Life,
    pub(crate) bytes_dropped: u64,
    pub(crate) retransmitted: Result<u64, String>,
    pub(crate) held: u64,
}

impl Measured<'_> {
    /// One measurement for each metric.
    pub(crate) fn measurements(&self) -> Vec<Measurement> {
        let gbit = |id: &str, bytes: u64| match self.length_ns {
            0 => Measurement::absent(id, "the window had no length, or no transaction moves data"),
            // Bits per ns are Gbit/s.
            length_ns => Measurement::new(id, bytes as f64 * 8.0 / length_ns as f64),
        };
        let percentile = |id: &str, quantile| match &self.latency {
            Ok(latency) => Measurement::percentile(id, latency, quantile, 1e3),
            Err(why) => Measurement::absent(id, why.clone()),
        };
        let cpu = |id: &str, ns: Option<u64>| match (ns, self.cpu_bytes) {
            (None, _) => Measurement::absent(id, "the CPU time of a worker could not be read at an edge of the window"),
            (_, 0) => Measurement::absent(id, "nothing was delivered in the window"),
            // Nanoseconds per byte are seconds per 10^9 bytes.
            (Some(ns), received) => Measurement::new(id, ns as f64 / received as f64),
        };
        let or_absent = |id: &str, value: Result<f64, &String>| match value {
            Ok(value) => Measurement::new(id, value),
            Err(why) => Measurement::absent(id, why.clone()),
        };
        vec![
            gbit("throughput_gbit_per_s", self.received),
            gbit("sent_gbit_per_s", self.sent),
            Measurement::per_second("transfers_per_s", self.transfers, self.length_ns),
            percentile("transfer_p50_us", 0.5),
            percentile("transfer_p99_us", 0.99),
            percentile("transfer_p999_us", 0.999),
            cpu("client_cpu_s_per_gb", self.cpu_ns[0]),
            cpu("server_cpu_s_per_gb", self.cpu_ns[1]),
            cpu("cpu_s_per_gb", self.cpu_ns[0].zip(self.cpu_ns[1]).map(|(client, server)| client + server)),
            or_absent("fairness_min_max", self.fairness.as_ref().copied()),
            Measurement::new("bytes_sent", self.life.sent as f64),
            Measurement::new("bytes_received", self.life.received as f64),
            Measurement::new("bytes_dropped", self.bytes_dropped as f64),
            or_absent("retransmissions", self.retransmitted.as_ref().map(|n| *n as f64)),
            Measurement::new("connections_held", self.held as f64),
        ]
    }
}

/// What a trial without a profile brought. All workers have ended.
///
/// # Errors
/// Of kind `Trial` when what was sent is not what was received and dropped.
pub(crate) fn of(done: &Done<'_>) -> Result<TrialResult, Problem> {
    let setup = done.setup;
    let mut notes = Vec::new();
    let (life, bytes_dropped) = reckon(done, &mut notes)?;
    let moved: Vec<[u64; 3]> = done
        .begin
        .flows
        .iter()
        .zip(&done.end.flows)
        .map(|(begin, end)| std::array::from_fn(|i| end[i].saturating_sub(begin[i])))
        .collect();
    let sum = |i: usize| moved.iter().map(|flow| flow[i]).sum::<u64>();
    let latency = record::together(done.workers.slots().map(|worker| &worker.latency));
    let cpu = |end: usize| Some(done.end.cpu_ns[end]?.saturating_sub(done.begin.cpu_ns[end]?));
    let measured = Measured {
        length_ns: done.end.at_ns.saturating_sub(done.begin.at_ns),
        sent: sum(0),
        received: sum(1),
        transfers: sum(2),
        latency: if !done.has_one_clock {
            Err("the two ends have clocks of their own".to_owned())
        } else if setup.size < STAMP_BYTES as u64 {
            Err(format!(
                "a transfer of {} bytes has no room for the moment of its begin, which takes {STAMP_BYTES}",
                setup.size
            ))
        } else {
            Ok(&latency)
        },
        cpu_ns: [cpu(0), cpu(1)],
        cpu_bytes: sum(1),
        fairness: fairness(moved.iter().map(|flow| flow[1])),
        life,
        bytes_dropped,
        retransmitted: retransmitted(setup.protocol, setup.network.topology, done.counters, &mut notes)
            .map(|here| here + done.sent_again_elsewhere.unwrap_or(0)),
        held: done.held,
    };
    let workers = if setup.sharing == Sharing::Threads { "threads" } else { "processes" };
    notes.push(format!("{} {workers} at each end", setup.workers));
    notes.extend(setup.placement.in_words());
    if done.strangers > 0 {
        notes.push(format!("{} connections of others were turned away", done.strangers));
    }
    let measurements = measured.measurements();
    let named = |histogram| NamedHistogram { name: "latency".to_owned(), histogram };
    let histograms = done.has_one_clock.then_some(latency).map(named).into_iter().collect();
    Ok(TrialResult::new(measurements, histograms, notes))
}

/// The least of all by the most of all.
pub(crate) fn fairness(bytes: impl Iterator<Item = u64> + Clone) -> Result<f64, String> {
    match (bytes.clone().min(), bytes.max()) {
        (Some(least), Some(most)) if most > 0 => Ok(least as f64 / most as f64),
        _ => Err("nothing was delivered in the window".to_owned()),
    }
}

/// What TCP sent again, and whose segments that were.
pub(crate) fn retransmitted(
    protocol: Protocol,
    topology: Topology,
    counters: &Counters,
    notes: &mut Vec<String>,
) -> Result<u64, String> {
    if protocol != Protocol::Tcp {
        return Err(format!("{} does not send anything again", protocol.word()));
    }
    if topology == Topology::Host {
        notes.push("retransmissions are those of the whole host, counters of drops as well".to_owned());
    }
    let of = |end: Option<u64>| end.ok_or_else(|| "the kernel does not count Tcp.RetransSegs".to_owned());
    let client = of(counters.client.tcp_retransmitted())?;
    // One namespace has one counter.
    let server = if counters.links.contains_key("server") || counters.links.contains_key("switch.server") {
        of(counters.server.tcp_retransmitted())?
    } else {
        0
    };
    Ok(client + server)
}

/// What was sent must be what was received and what named counters say was dropped.
fn reckon(done: &Done<'_>, notes: &mut Vec<String>) -> Result<(Life, u64), Problem> {
    let mut life = Life::default();
    for flow in done.flows.slots() {
        life.sent += flow.sent.0.bytes.load(Ordering::Acquire);
        life.received += flow.received.0.bytes.load(Ordering::Acquire);
        life.datagrams_sent += flow.sent.0.transfers.load(Ordering::Relaxed);
        life.datagrams_received += flow.received.0.transfers.load(Ordering::Relaxed);
    }
    if done.setup.protocol != Protocol::Udp {
        let uneven = done.flows.slots().enumerate().find_map(|(index, flow)| {
            let (sent, received) =
                (flow.sent.0.bytes.load(Ordering::Acquire), flow.received.0.bytes.load(Ordering::Acquire));
            (sent != received)
                .then(|| format!("over connection {index} {sent} bytes were sent and {received} received"))
        });
        return match uneven {
            None => Ok((life, 0)),
            Some(why) => Err(Problem::trial("what was sent is not what was received", why)),
        };
    }
    datagrams(&life, done.socket_drops, &done.counters.losses(), notes)?;
    Ok((life, life.sent - life.received))
}

/// Datagrams that did not arrive must stand in a counter of drops.
pub(crate) fn datagrams(
    life: &Life,
    socket_drops: u64,
    losses: &[(String, u64)],
    notes: &mut Vec<String>,
) -> Result<(), Problem> {
    let void = |why: String| Err(Problem::trial("what was sent is not what was received and dropped", why));
    let (sent, received) = (life.datagrams_sent, life.datagrams_received);
    let Some(lost) = sent.checked_sub(received) else {
        return void(format!("{sent} datagrams were sent and {received} received"));
    };
    let Some(elsewhere) = lost.checked_sub(socket_drops) else {
        return void(format!(
            "{sent} datagrams were sent, {received} received and {socket_drops} dropped at the receivers' sockets"
        ));
    };
    // What a socket drops is also counted as Udp.RcvbufErrors, MemErrors or InCsumErrors of its namespace.
    let at_sockets = ["RcvbufErrors", "MemErrors", "InCsumErrors", "NoPorts", "SndbufErrors"];
    let on_the_way: Vec<_> = losses.iter().filter(|(name, _)| !at_sockets.iter().any(|s| name.ends_with(s))).collect();
    let counted: u64 = on_the_way.iter().map(|(_, n)| n).sum();
    if elsewhere > counted {
        return void(format!(
            "{sent} datagrams were sent, {received} received, {socket_drops} dropped at the receivers' sockets and at \
             most {counted} on the way, which leaves {}",
            elsewhere - counted
        ));
    }
    if lost > 0 {
        let named: Vec<String> = on_the_way.iter().map(|(name, n)| format!("{name} {n}")).collect();
        let way =
            if elsewhere > 0 { format!(", {elsewhere} on the way ({})", named.join(", ")) } else { String::new() };
        notes.push(format!(
            "of {sent} datagrams {received} arrived, {socket_drops} were dropped at the receivers' sockets{way}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(sent: u64, received: u64, at_sockets: u64, losses: &[(&str, u64)]) -> String {
        let life = Life { datagrams_sent: sent, datagrams_received: received, ..Life::default() };
        let losses: Vec<(String, u64)> = losses.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        let mut notes = Vec::new();
        match datagrams(&life, at_sockets, &losses, &mut notes) {
            Ok(()) => notes.join("; "),
            Err(problem) => problem.why,
        }
    }

    #[test]
    fn datagrams_are_received_or_dropped_by_somebody_who_counts() {
        assert_eq!(shown(10, 10, 0, &[]), "");
        assert_eq!(
            shown(10, 7, 3, &[("client.Udp.RcvbufErrors", 3)]),
            "of 10 datagrams 7 arrived, 3 were dropped at the receivers' sockets"
        );
        assert_eq!(
            shown(10, 5, 3, &[("server.link.rx_dropped", 2), ("server.Udp.RcvbufErrors", 3)]),
            "of 10 datagrams 5 arrived, 3 were dropped at the receivers' sockets, 2 on the way (server.link.rx_dropped 2)"
        );
        assert_eq!(shown(10, 11, 0, &[]), "10 datagrams were sent and 11 received");
        assert_eq!(shown(10, 9, 2, &[]), "10 datagrams were sent, 9 received and 2 dropped at the receivers' sockets");
        assert_eq!(
            shown(10, 5, 3, &[("server.link.rx_dropped", 1), ("server.Udp.RcvbufErrors", 9)]),
            "10 datagrams were sent, 5 received, 3 dropped at the receivers' sockets and at most 1 on the way, which leaves 1"
        );
    }

    #[test]
    fn the_slowest_is_weighed_against_the_fastest() {
        assert_eq!(fairness([5, 10, 7].into_iter()), Ok(0.5));
        assert_eq!(fairness([0, 10].into_iter()), Ok(0.0));
        assert!(fairness([0, 0].into_iter()).is_err());
        assert!(fairness(std::iter::empty()).is_err());
    }
}
