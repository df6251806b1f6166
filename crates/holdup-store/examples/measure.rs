//! How fast a store is, and how large: pushes a bundle under many run ids, each read and verified anew, then lists and looks at the history.
//!
//! `cargo run --release -p holdup-store --example measure STORE BUNDLE RUNS [PUSHERS]`

#![allow(clippy::print_stdout, reason = "an example for a terminal")]

use holdup_model::kept::KeptFilter;
use holdup_store::{Incoming, Place, open};
use std::path::PathBuf;
use std::time::Instant;

const DAY: i64 = 86_400_000_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [store, bundle, runs, rest @ ..] = arguments.as_slice() else {
        return Err("STORE BUNDLE RUNS [PUSHERS]".into());
    };
    let (place, bundle, runs): (Place, PathBuf, usize) = (Place::of(store)?, bundle.into(), runs.parse()?);
    let pushers: usize = rest.first().map_or(Ok(1), |n| n.parse())?;
    open(&place)?.init()?;
    let first = Incoming::read(&bundle, None)?;
    let trials = first.trials.len();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let push = |from: usize| {
            let mut store = open(&place).expect("a store");
            for run in (from..runs).step_by(pushers) {
                let mut incoming = Incoming::read(&bundle, Some("db1")).expect("a bundle");
                incoming.kept.run.run_id = format!("{run:032x}");
                incoming.kept.run.created_unix_ns = 1_700_000_000_000_000_000 + run as i64 * DAY / 24;
                let level = if run < runs / 2 { 1.0 } else { 0.93 };
                let noise = 1.0 + ((run * 7_919) % 101) as f64 / 5_000.0;
                for metric in incoming.kept.arms.iter_mut().flat_map(|arm| &mut arm.metrics) {
                    metric.mean *= level * noise;
                }
                store.push(&incoming).expect("pushed");
            }
        };
        let all: Vec<_> = (0..pushers).map(|from| scope.spawn(move || push(from))).collect();
        all.into_iter().for_each(|pusher| pusher.join().expect("a pusher"));
    });
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{runs} runs of {trials} trials and {} bytes pushed by {pushers}: {seconds:.1} s, {:.0} trials a second, {} trials, {} MB of bundles",
        first.bytes.len(),
        (runs * trials) as f64 / seconds,
        runs * trials,
        runs * first.bytes.len() / 1_000_000
    );
    let mut store = open(&place)?;
    for _ in 0..3 {
        let begun = Instant::now();
        let listed = store.list(&KeptFilter::default())?.len();
        let list = begun.elapsed().as_secs_f64();
        let begun = Instant::now();
        let filter =
            KeptFilter { plan: Some(first.kept.run.plan.clone()), last: Some(10_000), ..KeptFilter::default() };
        let kept = store.series(&filter, None)?;
        let read = begun.elapsed().as_secs_f64();
        let history = holdup_history::history(&kept, holdup_history::Split::default());
        println!(
            "list of {listed}: {list:.2} s; history of {}: {:.2} s, of it {read:.2} s to read; {} series, {} changes",
            kept.runs.len(),
            begun.elapsed().as_secs_f64(),
            history.series.len(),
            history.series.iter().map(|s| s.changes.len()).sum::<usize>()
        );
    }
    Ok(())
}
