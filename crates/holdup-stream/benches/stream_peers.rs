//! `stream` against iperf3 and uperf over the loopback link, interleaved: delivered rate and CPU time per 10^9 bytes.
//!
//! By hand: `cargo bench -p holdup-stream --bench stream_peers -- [ROUNDS [SECONDS [UPERF]]]`, where UPERF is the
//! program's path. A peer that is not there is left out. CPU time of the peers is that of their whole life, with the
//! making of connections; ours is that of the window.

#[path = "by_hand/peer.rs"]
mod peer;

use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, TrialContext, WindowHooks};
use holdup_model::{Problem, Value, Window};
use holdup_workloads::find;
use peer::Cost;

const CONNECTIONS: i64 = 50;

struct NoCollectors;

impl WindowHooks for NoCollectors {
    fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
        Ok(())
    }

    fn close(&mut self) -> Result<Window, Problem> {
        // The workload takes the times of its rates itself.
        Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: 0 })
    }
}

fn ours(mode: &str, size: i64, workers: i64, seconds: u64) -> Option<Cost> {
    let values: [(&str, Value); 10] = [
        ("connections", CONNECTIONS.into()),
        ("protocol", "tcp".into()),
        ("mode", mode.into()),
        ("size", size.into()),
        ("workers", workers.into()),
        ("sharing", "threads".into()),
        ("network", "host".into()),
        ("rate", 0.into()),
        ("no_delay", false.into()),
        ("placement", "none".into()),
    ];
    let mut parameters = holdup_catalogue::stream::Parameters::defaults(2);
    for (name, value) in values {
        parameters.set(name, value);
    }
    let mut prepared = find("stream")?
        .prepare(PrepareContext {
            other_end: None,
            host: &Host::real(),
            parameters: &parameters,
            combinations: std::slice::from_ref(&parameters),
            metrics: &[],
            postgres: &PostgresOptions::default(),
            workdir: std::env::temp_dir(),
            cancel: Cancel::default(),
            step: &mut |_| {},
        })
        .expect("it can be prepared everywhere");
    let result = prepared
        .run(TrialContext {
            parameters: &parameters,
            warmup_ns: 200_000_000,
            duration_ns: seconds * 1_000_000_000,
            seed: 1,
            cancel: Cancel::default(),
            enough: Cancel::default(),
            window: &mut NoCollectors,
        })
        .expect("a trial without trouble");
    let metric = |id: &str| result.measurements.iter().find(|m| m.metric == id)?.value.value();
    Some(Cost {
        gbit_per_s: metric("throughput_gbit_per_s")?,
        client_s_per_gb: metric("client_cpu_s_per_gb")?,
        server_s_per_gb: metric("server_cpu_s_per_gb")?,
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

type Field = fn(&Cost) -> f64;

/// Medians of each, and of the ratios within the rounds.
#[allow(clippy::print_stdout, reason = "a bench shows what it measured")]
fn show(name: &str, rounds: &[(Cost, Cost)]) {
    let fields: [(&str, Field); 3] =
        [("Gbit/s", |c| c.gbit_per_s), ("client s/GB", |c| c.client_s_per_gb), ("server s/GB", |c| c.server_s_per_gb)];
    for (unit, of) in fields {
        let (ours, theirs) = (median(rounds.iter().map(|r| of(&r.0))), median(rounds.iter().map(|r| of(&r.1))));
        let ratio = median(rounds.iter().map(|(ours, theirs)| of(ours) / of(theirs)));
        println!("{name:28} {unit:10} ours {ours:8.4}  theirs {theirs:8.4}  ours/theirs {ratio:6.3}");
    }
}

#[allow(clippy::print_stdout, reason = "a bench shows what it measured")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let number = |at: usize, or: u64| arguments.get(at).and_then(|a| a.parse().ok()).unwrap_or(or);
    let (rounds, seconds) = (number(0, 5), number(1, 2));
    let uperf = arguments.get(2).map_or("uperf", String::as_str);
    let (mut iperf3, mut few, mut by_uperf) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let theirs = peer::iperf3(CONNECTIONS, seconds);
        iperf3.extend(ours("write", 128 << 10, CONNECTIONS, seconds).zip(theirs));
        few.extend(ours("write", 128 << 10, 1, seconds).zip(theirs));
        by_uperf.extend(ours("read", 64 << 10, CONNECTIONS, seconds).zip(peer::uperf(uperf, CONNECTIONS, seconds)));
    }
    for (name, rounds) in [("iperf3, 50 workers", &iperf3), ("iperf3, 1 worker", &few), ("uperf, read 64k", &by_uperf)]
    {
        if rounds.is_empty() {
            println!("{name:28} left out: the peer is not there, or said nothing");
        } else {
            show(name, rounds);
        }
    }
}
