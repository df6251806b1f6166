//! What an exporter says of itself.

use crate::target::Target;
use holdup_host::Host;
use holdup_live::{Kind, Own};

/// What the exporter says of the targets and of its process.
pub(crate) fn of(targets: &[&Target], host: &Host) -> Vec<Own> {
    let mut all = of_targets(targets);
    all.extend(of_process(host));
    all
}

fn of_targets(targets: &[&Target]) -> Vec<Own> {
    let gauge = |name, help, unit| Own { name, help, kind: Kind::Gauge, unit, series: Vec::new() };
    let counter = |name, help| Own { name, help, kind: Kind::Counter, unit: "", series: Vec::new() };
    let mut up = gauge("holdup_up", "Whether what is named is watched now.", "");
    let mut begun =
        counter("holdup_watch_begins", "Times that watching began; more than one after the server restarted.");
    let mut collectors = gauge("holdup_collector_available", "Whether a collector works here.", "");
    let mut memory = gauge("holdup_memory_bytes", "Memory of the windows that are kept.", "bytes");
    let mut reach = gauge("holdup_memory_reach_seconds", "How far back the windows that are kept reach.", "seconds");
    let mut flights = counter("holdup_flights", "Bundles of the flight recorder, by what became of them.");
    for target in targets {
        let state = target.state();
        let watched = || vec![("watched", target.name().to_owned())];
        up.series.push((watched(), f64::from(u8::from(state.is_up))));
        begun.series.push((watched(), state.begun as f64));
        memory.series.push((watched(), state.memory.bytes() as f64));
        reach.series.push((watched(), state.memory.reach_ns() as f64 / 1e9));
        for collector in &state.collectors {
            let is_there = collector.availability.is_usable();
            let labels = [watched(), vec![("collector", collector.id.clone())]].concat();
            collectors.series.push((labels, f64::from(u8::from(is_there))));
        }
        if let Some(tally) = state.flights.as_ref().map(crate::Flights::tally) {
            for (what, n) in [("written", tally.written), ("failed", tally.failed), ("limited", tally.limited)] {
                flights.series.push(([watched(), vec![("result", what.to_owned())]].concat(), n as f64));
            }
        }
    }
    vec![up, begun, collectors, memory, reach, flights]
}

/// The names that clients of Prometheus give to these.
fn of_process(host: &Host) -> Vec<Own> {
    let own = |name, help, kind, unit, value: Option<f64>| Own {
        name,
        help,
        kind,
        unit,
        series: value.map(|value| (Vec::new(), value)).into_iter().collect(),
    };
    let usage = holdup_host::process::usage(host, std::process::id());
    let info = Own {
        name: "holdup_build_info",
        help: "The version of holdup.",
        kind: Kind::Gauge,
        unit: "",
        series: vec![(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0)],
    };
    vec![
        info,
        own("process_cpu_seconds", "CPU time of this process.", Kind::Counter, "seconds", usage.cpu_s),
        own(
            "process_resident_memory_bytes",
            "Resident memory of this process.",
            Kind::Gauge,
            "bytes",
            usage.resident_bytes,
        ),
        own("process_open_fds", "Open descriptors of this process.", Kind::Gauge, "", usage.descriptors),
    ]
}
