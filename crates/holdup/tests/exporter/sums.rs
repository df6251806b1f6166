//! What an exporter adds up against what a record of the same time has.

use crate::common::{Sandbox, is_root, wait_for};
use crate::exporter::server::{Exporter, Server};
use holdup_model::{BundleData, Trial};
use holdup_testkit::ignore;

/// The seconds of an item in a bundle between two moments, ns since 1970; windows at the edges count by their part.
fn between(bundle: &BundleData, item: &str, has: &str, (from, to): (i64, i64)) -> f64 {
    let of = |trial: &Trial| {
        let window = trial.window.unwrap();
        let inside = (window.end_unix_ns.min(to) - window.begin_unix_ns.max(from)).max(0);
        let part = inside as f64 / (window.end_unix_ns - window.begin_unix_ns) as f64;
        let items = trial.evidence.iter().flat_map(|c| &c.items).filter(|i| i.name == item);
        let items = items.filter(|i| i.label.as_deref().unwrap_or_default().contains(has));
        part * items.filter_map(|i| i.value.value()).sum::<f64>()
    };
    bundle.trials.iter().filter(|t| t.window.is_some()).map(of).sum()
}

pub(crate) fn the_sums_of_the_exporter_are_those_of_a_record() {
    if !is_root() {
        ignore("the account of time takes root");
    }
    let (place, server) = (Sandbox::new(), Server::start());
    let _load = server.load("60");
    let more = ["--flights", "flights", "--after", "1s", "--before", "10m"];
    let exporter = Exporter::start(&place, &server.url(), &more);
    wait_for("a window", || exporter.sum("holdup_watched_seconds_total", &[]) >= 1.0);
    let record = ["record", "--pg", &server.url(), "-d", "20s", "--windows", "20", "--out", "r.holdup", "--quiet"];
    place.expect(0, &[&record[..], &["--collect", "account,switches"]].concat());
    let counted = exporter.sum("holdup_watched_seconds_total", &[]);
    wait_for("a window after it", || exporter.sum("holdup_watched_seconds_total", &[]) >= counted + 2.0);
    // The windows that the counters are the sums of, with their moments.
    crate::common::signal(&exporter.child, rustix::process::Signal::USR1);
    let folder = place.path("flights");
    let flight = || {
        std::fs::read_dir(&folder)
            .ok()?
            .flatten()
            .map(|entry| entry.path())
            .find(|path| path.extension().is_some_and(|e| e == "holdup"))
    };
    wait_for("the flight", || flight().is_some());
    let (flight, record) =
        (holdup_bundle::read(&flight().unwrap()).unwrap(), holdup_bundle::read(&place.path("r.holdup")).unwrap());
    let edge = |trial: Option<&Trial>| trial.and_then(|t| t.window).unwrap();
    let span = (edge(record.trials.first()).begin_unix_ns, edge(record.trials.last()).end_unix_ns);
    for (item, has) in [
        ("account_s", ""),
        ("account_s", "client backend"),
        ("account_s", "on CPU"),
        ("account_s", "behind own tasks"),
        ("account_s", "Lock:transactionid"),
        ("on_cpu_s", "server"),
        ("run_queue_wait_s", "server"),
    ] {
        let [a, b] = [&flight, &record].map(|bundle| between(bundle, item, has, span));
        println!("{item} {has}: exporter {a:.3} s, record {b:.3} s, {:+.2} %", (a / b - 1.0) * 100.0);
        assert!(b > 0.0 && (a / b - 1.0).abs() < 0.03, "{item} {has}: exporter {a}, record {b}");
    }
    exporter.end();
    server.cluster.discard().unwrap();
}
