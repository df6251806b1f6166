//! How many events per second the agenda carries out, beside bare loops over queues and beside libraries.
//!
//! `cargo bench -p holdup-sim --bench engine [-- --rounds N]`. Two models that the field knows: PHOLD (each event sets
//! another process's next event) and a closed M/M/96 with 1,024 clients. Every engine carries out the same events of the
//! same model; rounds are interleaved, so that a busy host is as bad for one as for the other, the clock is the thread's CPU time, and
//! medians are shown.
#![expect(clippy::print_stdout, reason = "a bench prints its result")]

mod by_simrs;
mod engines;
mod models;

use engines::{Binary, Calendar, Ours, Quaternary};
use models::{closed, phold};
use rustix::time::{ClockId, clock_gettime};

/// Executes this number of events and returns the time of the last one.
type Run = fn(u64) -> u64;
type Model = (&'static str, Vec<(&'static str, Run)>);

fn models() -> Vec<Model> {
    vec![
        (
            "PHOLD, 1,000 processes",
            vec![
                ("holdup", |n| phold::<Ours>(1000, n)),
                ("4-ary heap", |n| phold::<Quaternary>(1000, n)),
                ("calendar queue", |n| phold::<Calendar>(1000, n)),
                ("binary heap", |n| phold::<Binary>(1000, n)),
                ("simrs", |n| by_simrs::phold(1000, n)),
            ],
        ),
        (
            "closed M/M/96, 1,024 clients",
            vec![
                ("holdup", |n| closed::<Ours>(1024, 96, n)),
                ("4-ary heap", |n| closed::<Quaternary>(1024, 96, n)),
                ("calendar queue", |n| closed::<Calendar>(1024, 96, n)),
                ("binary heap", |n| closed::<Binary>(1024, 96, n)),
                ("simrs", |n| by_simrs::closed(1024, 96, n)),
            ],
        ),
        (
            "PHOLD, 100,000 processes",
            vec![
                ("holdup", |n| phold::<Ours>(100_000, n)),
                ("4-ary heap", |n| phold::<Quaternary>(100_000, n)),
                ("calendar queue", |n| phold::<Calendar>(100_000, n)),
                ("binary heap", |n| phold::<Binary>(100_000, n)),
                ("simrs", |n| by_simrs::phold(100_000, n)),
            ],
        ),
    ]
}

/// CPU time of this thread, s.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn main() {
    let mut arguments = std::env::args().skip_while(|a| a != "--rounds");
    let rounds: usize = arguments.nth(1).and_then(|n| n.parse().ok()).unwrap_or(15);
    let events = 2_000_000;
    for (name, engines) in models() {
        let mut rates = vec![Vec::new(); engines.len()];
        let mut ends = vec![0; engines.len()];
        for _ in 0..rounds {
            for (place, (_, run)) in engines.iter().enumerate() {
                let begun = cpu_s();
                ends[place] = run(events);
                rates[place].push(events as f64 / (cpu_s() - begun) / 1e6);
            }
        }
        // Those that order events of the same time by their slots agree exactly.
        assert!(ends.iter().all(|end| end.abs_diff(ends[0]) <= ends[0] / 1000), "the engines disagree: {ends:?}");
        println!("{name}");
        for ((engine, _), rates) in engines.iter().zip(&mut rates) {
            rates.sort_by(f64::total_cmp);
            let best = rates.last().copied().unwrap_or(0.0);
            println!("  {engine:<16} median {:6.1}, best {best:6.1} million events per second", rates[rates.len() / 2]);
        }
    }
}
