//! One trial of `lock-contention`: the coordinator's side.
//!
//! The workers run from before the warm-up until after the window; nothing of theirs is stopped or
//! reset at its edges. At the begin and at the end of the window the coordinator reads every
//! worker's count of completed operations, between two readings of the clock. An acquisition is
//! recorded when it is a sampled one and the window is open at the end of its section, with its
//! whole length, even when it began in the warm-up. One that still waits when the window closes is not
//! in the histogram, but the time that it has waited by then counts for the longest acquisition, so that
//! a worker that never gets the lock does not look like one that never wanted it.

use crate::calibrate::Calibration;
use crate::faults::Pages;
use crate::record;
use crate::region::Region;
use crate::results::{self, Edge};
use crate::setup::Setup;
use crate::truth;
use crate::worker::Job;
use crate::workers::Workers;
use holdup_host::Host;
use holdup_load::clock::now_ns;
use holdup_load::drive;
use holdup_load::{TrialContext, TrialResult, WindowHooks};
use holdup_model::{Problem, Window};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A reading of all counts that took longer is repeated, because a preempted coordinator blurs the edge.
const SHARP_NS: u64 = 100_000;
/// How often a reading is repeated.
const READINGS: usize = 5;

/// Runs one trial.
///
/// # Errors
/// Of kind `Trial` when it is void, of kind `Interrupted` when it was cancelled.
pub fn run(setup: &Setup, calibration: &Calibration, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
    let region = Region::new(setup.workers).map_err(|e| no_memory(setup, &e))?;
    let region = Arc::new(region);
    let pages = match setup.faults {
        0 => None,
        faults => Some(Arc::new(Pages::new(faults, setup)?)),
    };
    setup
        .algorithm
        .entry
        .init(&region, setup.sharing)
        .map_err(|e| Problem::trial(format!("lock {}", setup.algorithm.meta.id), format!("it cannot be made: {e}")))?;
    let jobs = jobs(setup, calibration, &region, pages.as_ref(), trial.seed)?;
    let workers = Workers::start(&region, setup.algorithm, setup.sharing, jobs)?;
    let TrialContext { parameters, warmup_ns, duration_ns, seed, cancel, enough, window } = trial;
    let mut publisher = Publisher { setup, region: &region, window, published: None };
    let trial = TrialContext { parameters, warmup_ns, duration_ns, seed, cancel, enough, window: &mut publisher };
    let (begin, end) = drive::through(trial, region.stage(), setup.workers, workers, || edge(&region))?;
    let mut result = results::of(&region, &begin, &end)?;
    result.notes.push(format!("one of {} acquisitions was timed", setup.sampling(calibration.clock_ns)));
    result.notes.extend(results::faults_as_asked(setup, &result));
    Ok(result)
}

/// Publishes the workers' record, when one is kept, right before the window opens: all workers run by then, and those
/// which watch the window find it.
struct Publisher<'a> {
    setup: &'a Setup,
    region: &'a Region,
    window: &'a mut dyn WindowHooks,
    /// Removes what was published when the trial is over.
    published: Option<truth::Guard>,
}

impl WindowHooks for Publisher<'_> {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        if let Some((path, exact)) = &self.setup.truth {
            let algorithm = self.setup.algorithm;
            let published = record::published(self.region, algorithm.meta.id, algorithm.entry.named(*exact));
            let unwritable = |e| Problem::usage(format!("truth {}", path.display()), format!("cannot be written: {e}"));
            self.published = Some(published.write(path).map_err(unwritable)?);
        }
        self.window.open(subjects)
    }

    fn close(&mut self) -> Result<Window, Problem> {
        self.window.close()
    }
}

fn no_memory(setup: &Setup, error: &std::io::Error) -> Problem {
    Problem::trial(format!("{} workers", setup.workers), format!("no memory for their counts: {error}"))
}

fn jobs(
    setup: &Setup,
    calibration: &Calibration,
    region: &Arc<Region>,
    pages: Option<&Arc<Pages>>,
    seed: u64,
) -> Result<Vec<Job>, Problem> {
    let cpus = if setup.pin { Some(allowed_cpus()?) } else { None };
    let operation_ns = setup.section_ns.saturating_add(setup.think_ns).saturating_add(setup.faults as u64 * 500);
    let job = |index: usize| Job {
        region: region.clone(),
        index,
        sharing: setup.sharing,
        seed: seed ^ (index as u64 + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93),
        section: calibration.work(setup.section_ns),
        think: calibration.work(setup.think_ns),
        pages: pages.cloned(),
        sample_every: setup.sampling(calibration.clock_ns),
        batch: Job::batch_for(operation_ns),
        limit: u64::MAX,
        cpu: cpus.as_ref().map(|cpus| cpus[index % cpus.len()]),
        exact: setup.truth.as_ref().map(|(_, exact)| *exact),
    };
    Ok((0..setup.workers).map(job).collect())
}

/// The CPUs that holdup may use.
fn allowed_cpus() -> Result<Vec<u32>, Problem> {
    let cpus: Vec<u32> = holdup_host::cpu_topologies(&Host::real()).iter().map(|place| place.cpu).collect();
    if cpus.is_empty() { Err(Problem::trial("pin on", "no CPU is allowed")) } else { Ok(cpus) }
}

/// Reads every worker's count.
fn edge(region: &Region) -> Edge {
    let mut counts = Vec::new();
    let mut at_ns = 0;
    for _ in 0..READINGS {
        counts.clear();
        let before = now_ns();
        counts.extend(region.slots().map(|s| s.operations.0.load(Ordering::Relaxed)));
        let after = now_ns();
        at_ns = before + (after - before) / 2;
        if after - before <= SHARP_NS {
            break;
        }
    }
    let since = region.slots().map(|s| s.waiting_since_ns.load(Ordering::Relaxed)).filter(|since| *since != 0);
    let longest_wait_ns = since.map(|since| at_ns.saturating_sub(since)).max();
    Edge { at_ns, counts, longest_wait_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{Acquired, Algorithm, Properties, RawLock, Sharing, Worker};
    use holdup_catalogue::lock_contention;
    use holdup_load::Cancel;
    use holdup_model::Meta;

    const META: Meta = Meta { id: "broken", summary: "for tests", docs: "", references: &[] };
    const NOTHING: Properties = Properties { fair: false, may_sleep: false, needs_kernel: false };

    /// Lets every worker in.
    const OPEN_TO_ALL: u8 = 0;
    /// Gives up.
    const STUCK: u8 = 1;
    /// Needs what no kernel gives.
    const UNAVAILABLE: u8 = 2;

    struct Broken<const HOW: u8>;

    impl<const HOW: u8> RawLock for Broken<HOW> {
        type Local = ();
        fn free() -> Self {
            Broken
        }
        fn local(_worker: &Worker) {}
        fn begin((): &mut ()) -> std::io::Result<()> {
            if HOW == UNAVAILABLE { Err(std::io::Error::from_raw_os_error(libc::ENXIO)) } else { Ok(()) }
        }
        fn acquire(&self, (): &mut (), _stopped: &impl Fn() -> bool) -> Acquired {
            if HOW == STUCK { Acquired::Stuck } else { Acquired::Uncontended }
        }
        fn release(&self, (): &mut ()) {}
    }

    static REFUSED: Algorithm = Algorithm::of::<Broken<UNAVAILABLE>>(&META, NOTHING);
    static OPEN: Algorithm = Algorithm::of::<Broken<OPEN_TO_ALL>>(&META, NOTHING);
    static HOPELESS: Algorithm = Algorithm::of::<Broken<STUCK>>(&META, NOTHING);

    struct Hooks;

    impl WindowHooks for Hooks {
        fn open(&mut self, _subjects: &[(String, u32)]) -> Result<(), Problem> {
            Ok(())
        }
        fn close(&mut self) -> Result<Window, Problem> {
            Ok(Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: 1 })
        }
    }

    fn outcome(algorithm: &'static Algorithm, sharing: Sharing) -> String {
        let parameters = lock_contention::Parameters::defaults(4);
        let mut setup = Setup::read(&parameters).expect("valid");
        (setup.algorithm, setup.sharing, setup.section_ns) = (algorithm, sharing, 50_000);
        let trial = TrialContext {
            parameters: &parameters,
            warmup_ns: 0,
            duration_ns: 100_000_000,
            seed: 1,
            cancel: Cancel::default(),
            enough: Cancel::default(),
            window: &mut Hooks,
        };
        run(&setup, &Calibration::measure(), trial).expect_err("the lock is broken").to_string()
    }

    #[test]
    fn a_lock_that_lets_two_in_voids_the_trial() {
        for sharing in [Sharing::Threads, Sharing::Processes] {
            let outcome = outcome(&OPEN, sharing);
            assert!(outcome.starts_with("mutual exclusion: ") && outcome.contains("two workers"), "{outcome}");
        }
    }

    #[test]
    fn a_lock_that_the_kernel_refuses_voids_the_trial() {
        for sharing in [Sharing::Threads, Sharing::Processes] {
            let outcome = outcome(&REFUSED, sharing);
            assert!(outcome.contains("the kernel refused what its lock needs: No such device"), "{outcome}");
        }
    }

    #[test]
    fn a_lock_that_gives_up_voids_the_trial() {
        for sharing in [Sharing::Threads, Sharing::Processes] {
            let outcome = outcome(&HOPELESS, sharing);
            assert!(outcome.starts_with("a worker is gone: worker "), "{outcome}");
            assert!(outcome.ends_with("gave up: its lock was stuck"), "{outcome}");
        }
    }
}
