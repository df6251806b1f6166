//! One session on a simulated machine.

use super::ahead::Ahead;
use super::{Simulated, Traces, evidence, machine_of, simulated, timeline};
use crate::head::VIRTUAL_BEGIN_UNIX_NS;
use crate::run::trial_seed;
use crate::session::{Closed, Session, SessionRequest, TrialDraft};
use holdup_model::{Arm, Fact, Problem, Replica, Trial, TrialSpec, TrialStatus, Window};
use holdup_sim::machine::{Described, Machine};
use holdup_sim::names::Names;
use holdup_sim::world::{Failure, World};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How much simulated time passes between two looks at whether to go on, ns.
const LOOK_NS: u64 = 1_000_000;

/// All that one trial needs.
pub(super) struct Job {
    pub(super) of_arm: Arc<Simulated>,
    pub(super) seed: u64,
    pub(super) warmup_ns: u64,
    pub(super) duration_ns: u64,
    pub(super) collectors: Vec<String>,
}

/// An open session.
pub(crate) struct SimSession<'a> {
    request: &'a SessionRequest<'a>,
    described: Described,
    traces: Traces,
    /// What each arm is, by number.
    arms: BTreeMap<u32, Arc<Simulated>>,
    /// The first trial of the session.
    first: u32,
    ahead: Ahead<Option<Trial>>,
}

impl<'a> SimSession<'a> {
    /// Begins to compute every trial of the session.
    pub(crate) fn open(request: &'a SessionRequest<'a>, at: &TrialSpec) -> Result<Self, Problem> {
        let described = machine_of(request)?;
        let traces = Traces::read(request.plan, &request.schedule.arms)?;
        let mut arms = BTreeMap::new();
        let mut jobs = Vec::new();
        for spec in request.schedule.trials.iter().filter(|t| t.session == at.session && t.seq >= at.seq) {
            let arm = &request.schedule.arms[spec.arm as usize];
            let of_arm = match arms.entry(spec.arm) {
                Entry::Occupied(there) => Arc::clone(there.get()),
                Entry::Vacant(new) => new.insert(Arc::new(simulated(&described, request.plan, arm, &traces)?)).clone(),
            };
            jobs.push(job(request, of_arm, spec));
        }
        let ahead = Ahead::begin(request.threads, jobs.len(), move |number, stop| simulate(&jobs[number], stop));
        Ok(SimSession { request, described, traces, arms, first: at.seq, ahead })
    }
}

/// What one trial takes on one CPU of this host, by the first trials of the schedule; at least one of them is computed
/// unless it takes longer than `at_most`.
///
/// # Errors
/// When the plan cannot be simulated.
pub fn trial_cost(request: &SessionRequest<'_>, at_most: Duration) -> Result<Option<Duration>, Problem> {
    let described = machine_of(request)?;
    let traces = Traces::read(request.plan, &request.schedule.arms)?;
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    let clock = {
        let stop = Arc::clone(&stop);
        std::thread::spawn(move || {
            std::thread::park_timeout(at_most);
            stop.store(true, Ordering::Relaxed);
        })
    };
    let mut costs = Vec::new();
    for spec in &request.schedule.trials {
        let before = Instant::now();
        let arm = &request.schedule.arms[spec.arm as usize];
        let of_arm = Arc::new(simulated(&described, request.plan, arm, &traces)?);
        if simulate(&job(request, of_arm, spec), &stop).is_none() {
            break;
        }
        costs.push(before.elapsed());
        if begun.elapsed() * 2 > at_most {
            break;
        }
    }
    clock.thread().unpark();
    let _ended = clock.join();
    let count = u32::try_from(costs.len()).unwrap_or(u32::MAX);
    Ok((count > 0).then(|| costs.iter().sum::<Duration>() / count))
}

fn job(request: &SessionRequest<'_>, of_arm: Arc<Simulated>, spec: &TrialSpec) -> Job {
    let plan = request.plan;
    let collectors = match request.schedule.arms[spec.arm as usize].replica {
        Some(Replica::Unobserved) => Vec::new(),
        _ => plan.collectors.iter().filter(|id| evidence::has(id, of_arm.workload.id())).cloned().collect(),
    };
    Job {
        of_arm,
        seed: trial_seed(plan.design.seed, spec.seq),
        warmup_ns: plan.design.warmup_ns,
        duration_ns: plan.design.duration_ns,
        collectors,
    }
}

/// Runs up to a time, or to the end of a trace; `None` when it was asked to give up.
fn run(world: &mut World, end_ns: u64, stop: &AtomicBool) -> Option<Result<(), Failure>> {
    while world.now_ns() < end_ns && world.replayed_until_ns().is_none() {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let ran = world.advance(end_ns.min(world.now_ns() + LOOK_NS));
        if ran.is_err() {
            return Some(ran);
        }
    }
    Some(Ok(()))
}

/// A trial whose times begin in 1970; `None` when it was asked to give up. One whose machine stopped is void, with the
/// failure as its reason.
pub(super) fn simulate(job: &Job, stop: &AtomicBool) -> Option<Trial> {
    let Simulated { machine, load, workload, parameters, at_most_ns } = &*job.of_arm;
    let mut world = World::new(machine, load, job.seed);
    if job.collectors.iter().any(|id| id == timeline::ID) {
        world.record(timeline::MOST);
    }
    let at = |ns: u64| VIRTUAL_BEGIN_UNIX_NS.saturating_add_unsigned(ns);
    let (warmup_ns, duration_ns) = at_most_ns.map_or((job.warmup_ns, job.duration_ns), |ns| (0, ns));
    let end_ns = warmup_ns.saturating_add(duration_ns);
    let mut ran = match world.reaches(end_ns) {
        Ok(()) => run(&mut world, warmup_ns, stop)?,
        beyond => beyond,
    };
    if ran.is_ok() {
        world.open();
        ran = run(&mut world, end_ns, stop)?;
    }
    let failure = ran.err().or_else(|| world.deadlock());
    if let Some(failure) = failure {
        let problem = world.problem(&failure, &Names::of(load));
        let mut trial = Trial::begun(at(0));
        trial.ended_unix_ns = at(world.now_ns());
        trial.status = TrialStatus::Void { reason: format!("{}: {}", problem.what, problem.why) };
        trial.notes.extend(problem.hint);
        return Some(trial);
    }
    let end_ns = world.replayed_until_ns().unwrap_or(end_ns);
    let length_ns = end_ns - warmup_ns;
    let seen = world.close();
    let (measurements, histograms) = workload.results(parameters, seen, length_ns);
    let mut trial = Trial::begun(at(0));
    trial.ended_unix_ns = at(end_ns);
    trial.window = Some(Window { begin_unix_ns: at(warmup_ns), end_unix_ns: at(end_ns), length_ns });
    let collectors = job.collectors.iter().filter(|id| *id != timeline::ID);
    trial.evidence = collectors.map(|id| evidence::collected(id, seen, load)).collect();
    if let Some(recorded) = world.recorded() {
        trial.evidence.push(timeline::collected(&recorded, &world, load, warmup_ns, length_ns));
    }
    (trial.measurements, trial.histograms) = (measurements, histograms);
    Some(trial)
}

impl Session for SimSession<'_> {
    fn environment(&mut self) -> Vec<Fact> {
        let mut facts = facts(&self.described);
        facts.extend(self.traces.facts());
        facts
    }

    fn trial(&mut self, _arm: &Arm, spec: &TrialSpec, _seed: u64) -> TrialDraft {
        let cancel = &self.request.cancel;
        let result = self.ahead.result((spec.seq - self.first) as usize, &|| cancel.is_cancelled());
        match result.flatten() {
            Some(mut trial) => {
                trial.environment_before =
                    self.arms.get(&spec.arm).map(|of| machine_facts(&of.machine)).unwrap_or_default();
                // A void one is not repeated: with its seed it would come to the same end.
                TrialDraft { trial, problem: None }
            }
            None => {
                let mut trial = Trial::begun(VIRTUAL_BEGIN_UNIX_NS);
                let problem = match cancel.is_cancelled() {
                    true => Problem::interrupted("the simulation of a trial"),
                    false => Problem::internal("the simulation of a trial", "its thread is gone"),
                };
                trial.status = TrialStatus::Void { reason: format!("{}: {}", problem.what, problem.why) };
                TrialDraft { trial, problem: Some(problem) }
            }
        }
    }

    fn close(self: Box<Self>) -> Closed {
        Closed::default()
    }
}

/// What the machine is, as facts.
fn facts(described: &Described) -> Vec<Fact> {
    let source = format!("machine file {}", described.name);
    let t = described.machine.topology;
    let mut facts = vec![
        Fact::read("kernel.release", format!("{} (simulated)", described.version), &source),
        Fact::read("cpu.online", format!("{}", t.cpus()), &source),
        Fact::read(
            "cpu.topology",
            format!("{} threads × {} cores × {} caches × {} nodes", t.smt, t.cores, t.llcs, t.nodes),
            &described.topology_source,
        ),
        Fact::read("simulated.machine", &described.name, &source),
    ];
    facts.extend(
        described
            .parameters
            .iter()
            .map(|p| Fact::read(format!("simulated.{}", p.name), format!("{}", p.value_ns), &p.source)),
    );
    facts
}

/// What the arm's machine has that factors change.
fn machine_facts(machine: &Machine) -> Vec<Fact> {
    vec![
        Fact::read("simulated.cpus", machine.topology.cpus().to_string(), "the simulated machine"),
        Fact::read("kernel.preempt", machine.kernel.preempt.id, "the simulated kernel"),
        Fact::read("sched.base_slice_ns", format!("{}", machine.kernel.fair.base_slice_ns), "the simulated kernel"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Parameters;
    use holdup_scenarios::Scenario;
    use holdup_sim::{machine::catalogue, workloads};

    fn job(text: &str, duration_ns: u64) -> Job {
        let scenario = Scenario::parse("test", text, 1).expect("it can be read");
        let machine = catalogue::find("server-8").expect("it is there").machine;
        let workload = workloads::find("lock-contention").expect("it is there");
        let of_arm = Arc::new(Simulated {
            machine,
            load: scenario.load,
            workload,
            parameters: Parameters::default(),
            at_most_ns: None,
        });
        Job { of_arm, seed: 1, warmup_ns: 1_000_000, duration_ns, collectors: Vec::new() }
    }

    #[test]
    fn a_trial_that_stops_is_void_with_the_reason_and_those_around_it_are_whole() {
        let good = "lock a: tas\nprogram p {\n  forever {\n    lock a\n    compute 1us\n    unlock a\n    done x\n  }\n}\ntask p";
        let crossed = "lock a: tas\nlock b: tas\n\
                       program p {\n  lock a\n  compute 3ms\n  lock b\n  unlock b\n  unlock a\n}\n\
                       program q {\n  lock b\n  compute 3ms\n  lock a\n  unlock a\n  unlock b\n}\ntask p\ntask q";
        let no_time = "program p {\n  forever {\n  }\n}\ntask p";
        // The lock that a result is taken from.
        let no_time = format!("lock a: tas\n{no_time}");
        let jobs = [good, crossed, &no_time, good].map(|text| job(text, 5_000_000));
        let ahead = Ahead::begin(None, jobs.len(), move |number, stop| simulate(&jobs[number], stop));
        let trials: Vec<Trial> =
            (0..4).map(|number| ahead.result(number, &|| false).flatten().expect("a trial")).collect();
        let shown = |trial: &Trial| match &trial.status {
            TrialStatus::Done => "done".to_owned(),
            TrialStatus::Void { reason } => format!("{reason}; {}", trial.notes.join("; ")),
        };
        let endings: Vec<String> = trials.iter().map(shown).collect();
        assert_eq!((endings[0].as_str(), endings[3].as_str()), ("done", "done"));
        let crossed = "deadlock, found at 6.000 ms of simulated time: p 0 waits for lock 1 (tas), which q 1 holds; \
                       q 1 waits for lock 0 (tas), which p 0 holds; take locks in the same order everywhere";
        assert_eq!(endings[1], crossed);
        assert!(
            endings[2].contains("the loop runs without any time passing; let something in the loop"),
            "{}",
            endings[2]
        );
        assert!(trials[0].metric("operations_per_s") > Some(0.0));
        assert!(trials[1].metric("operations_per_s").is_none(), "a void trial has no numbers");
    }

    #[test]
    fn a_duration_that_no_clock_counts_voids_the_trial_and_nothing_more() {
        let trial = simulate(&job("lock a: tas\nprogram p {\n}\ntask p", u64::MAX), &AtomicBool::new(false));
        let Some(Trial { status: TrialStatus::Void { reason }, .. }) = trial else { panic!("it is void") };
        assert!(reason.contains("the clock of this machine ends"), "{reason}");
    }
}
