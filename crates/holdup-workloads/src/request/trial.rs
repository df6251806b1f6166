//! One trial of `request`: the coordinator's side.

use crate::request::cpu_lock::CpuLocks;
use crate::request::idle_workers::{IdleWorkers, WakeSlot};
use crate::request::results::{self, Edge};
use crate::request::setup::Setup;
use crate::request::worker::{Region, Shared};
use crate::request::{messenger, worker};
use holdup_host::Host;
use holdup_load::clock::now_ns;
use holdup_load::drive;
use holdup_load::worker_pool::{self, Sharing, WorkerPool};
use holdup_load::{TrialContext, TrialResult};
use holdup_locks::calibrate::Calibration;
use holdup_model::Problem;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Runs one trial.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Interrupted` when it was cancelled.
pub(crate) fn run(setup: &Setup, calibration: &Calibration, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let shared = Arc::new(share(setup, calibration)?);
    run_shared(setup, &shared, trial)
}

fn share(setup: &Setup, calibration: &Calibration) -> Result<Shared, Problem> {
    let threads = setup.messengers + setup.all_workers();
    let board = Region::new(threads)
        .map_err(|e| Problem::trial(format!("{threads} threads"), format!("no memory for their counts: {e}")))?;
    let highest = holdup_host::cpu_topologies(&Host::real()).iter().map(|place| place.cpu).max().unwrap_or(0);
    Ok(Shared {
        board,
        idle: (0..setup.messengers).map(|_| IdleWorkers::default()).collect(),
        wake_slots: (0..setup.all_workers()).map(|_| WakeSlot::default()).collect(),
        workers_each: setup.workers,
        locks: setup.lock.then(|| CpuLocks::new(highest)),
        work: calibration.work(setup.work_ns),
        operations: setup.operations,
        think_ns: setup.think_ns,
        interval_ns: setup.interval_ns,
        messenger_cpus: setup.placement.client.clone(),
        worker_cpus: setup.placement.server.clone(),
        #[cfg(test)]
        disturbance: worker::tests::Disturbance::default(),
    })
}

fn run_shared(setup: &Setup, shared: &Arc<Shared>, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let mut jobs = Vec::with_capacity(setup.messengers + setup.all_workers());
    for index in 0..setup.messengers {
        let shared = shared.clone();
        jobs.push(worker_pool::Job::new(move || messenger::run(&shared, index)));
    }
    for index in 0..setup.all_workers() {
        let shared = shared.clone();
        jobs.push(worker_pool::Job::new(move || worker::run(&shared, index)));
    }
    let threads = jobs.len();
    let stop = shared.clone();
    let pool = WorkerPool::start(Sharing::Threads, "req", jobs, move || stop.stop())?;
    let (begin, end) = drive::through(trial, shared.board.stage(), threads, pool, || edge(shared))?;
    results::of(setup, shared, &begin, &end)
}

/// What was done so far.
fn edge(shared: &Shared) -> Edge {
    let before = now_ns();
    let requests: u64 = shared.worker_slots().map(|s| s.requests.0.load(Ordering::Acquire)).sum();
    let at_ns = before + (now_ns() - before) / 2;
    let arrivals = |interval_ns: f64| {
        let arrived = shared.messenger_slots().map(|s| s.arrivals.due(at_ns, interval_ns)).sum();
        let oldest = shared.messenger_slots().filter_map(|s| s.arrivals.oldest_wait_ns(at_ns, interval_ns)).max();
        (arrived, oldest)
    };
    let (arrived, oldest_wait_ns) = match shared.interval_ns {
        Some(interval_ns) => arrivals(interval_ns),
        None => (0, None),
    };
    Edge { at_ns, requests, arrived, oldest_wait_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Hooks;
    use holdup_catalogue::request;
    use holdup_load::Cancel;
    use holdup_model::{Histogram, Parameters, Value};

    fn parameters(changes: &[(&str, Value)]) -> Parameters {
        let mut parameters = request::Parameters::defaults(4);
        for (name, value) in [("work", 10_000), ("operations", 1), ("think", 0)] {
            parameters.set(name, value);
        }
        for (name, value) in changes {
            parameters.set(name, value.clone());
        }
        parameters
    }

    /// Runs a trial of a second in which `on_open` may disturb the workers.
    fn run_disturbed(parameters: &Parameters, on_open: impl Fn(&Shared)) -> Result<TrialResult, Problem> {
        let setup = Setup::read(parameters, &Host::real()).expect("valid");
        let shared = Arc::new(share(&setup, &Calibration::measure()).expect("there is memory"));
        let trial = TrialContext {
            parameters,
            warmup_ns: 20_000_000,
            duration_ns: 1_000_000_000,
            seed: 1,
            cancel: Cancel::default(),
            enough: Cancel::default(),
            window: &mut Hooks(&mut || on_open(&shared)),
        };
        run_shared(&setup, &shared, trial)
    }

    fn metric(result: &TrialResult, id: &str) -> f64 {
        let found = result.measurements.iter().find(|m| m.metric == id).expect("every metric is there");
        found.value.value().unwrap_or_else(|| panic!("{id}: {:?}", found.value))
    }

    fn longer_than(histogram: &Histogram, ns: u64) -> u64 {
        histogram.buckets().filter(|(low, _, _)| *low >= ns).map(|(_, _, count)| count).sum()
    }

    /// All workers stand still for 200 ms, from 100 ms after the window opened.
    fn stall(shared: &Shared) {
        let now = now_ns();
        shared.disturbance.until_ns.store(now + 300_000_000, Ordering::SeqCst);
        shared.disturbance.from_ns.store(now + 100_000_000, Ordering::SeqCst);
    }

    /// The same stall, seen by both loops: one that waits for an answer before it asks again sees as many slow requests as
    /// there are workers; one that counts from the schedule sees all that came meanwhile.
    #[test]
    fn an_open_loop_shows_a_stall_that_a_closed_one_omits() {
        let open = run_disturbed(&parameters(&[("rate", 1_000.0.into())]), stall).expect("runs");
        // 200 came within the stall, 4 of them to a free worker; those of its first half waited for 100 ms and more.
        assert!(metric(&open, "late_requests") >= 190.0, "{}", metric(&open, "late_requests"));
        assert!(longer_than(&open.histograms[0].histogram, 95_000_000) >= 95);
        assert!(metric(&open, "request_p99_us") >= 100_000.0);
        assert!(metric(&open, "request_max_us") >= 190_000.0);
        let closed = run_disturbed(&parameters(&[]), stall).expect("runs");
        let slow = longer_than(&closed.histograms[0].histogram, 95_000_000);
        assert!((4..=8).contains(&slow), "{slow} of 4 workers");
        assert!(metric(&closed, "request_p99_us") < 100_000.0);
        assert!(metric(&closed, "request_max_us") >= 190_000.0);
    }

    #[test]
    fn what_arrives_faster_than_it_is_done_is_a_backlog() {
        let changes: [(&str, Value); 4] =
            [("rate", 2_000.0.into()), ("work", 0.into()), ("think", 20_000_000.into()), ("workers", 2.into())];
        let result = run_disturbed(&parameters(&changes), |_| ()).expect("runs");
        // 2000 arrive, and two workers that sleep for 20 ms each time do 100 at most.
        let done = metric(&result, "requests_per_s");
        assert!(done <= 110.0, "{done}");
        assert!(metric(&result, "backlog") >= 1_850.0, "{}", metric(&result, "backlog"));
        assert!(metric(&result, "request_max_us") >= 850_000.0);
        assert!(result.notes.iter().any(|n| n.starts_with("the oldest request had waited ")), "{:?}", result.notes);
    }

    #[test]
    fn a_worker_that_ends_voids_the_trial() {
        for rate in [0.0, 1_000.0] {
            let deadly = |shared: &Shared| shared.disturbance.deadly.store(true, Ordering::SeqCst);
            let problem = run_disturbed(&parameters(&[("rate", rate.into())]), deadly).map(|_| ());
            let text = problem.expect_err("a worker is gone").to_string();
            assert!(text.starts_with("a worker is gone: thread ") && text.contains(" ended early"), "{text}");
        }
    }
}
