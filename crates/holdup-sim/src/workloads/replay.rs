//! The tasks of a trace: the programs of `replay`.

use super::{Files, Levels, Results, Workload, account};
use crate::machine::Machine;
use crate::program::{Op, Program};
use crate::sched::weight;
use crate::stats::WindowStats;
use crate::world::{Load, PHASES, Policy, TaskSpec};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Parameters, Problem, Replay, ReplayStep, ReplayTask};
use std::collections::BTreeMap;

pub(super) struct ReplayWorkload;

/// Names that are counted apart, those with the most CPU time; the others are together.
const MOST_NAMES: usize = 32;
/// The priority of nice 0 in the kernel, and the lowest one that is no real-time task's (include/linux/sched/prio.h, v6.18).
const NICE_0: i32 = 120;
const MAX_RT: i32 = 100;

/// The programs, by the names of tasks, and the number of each task's. A program is what counters are kept by.
fn programs(replay: &Replay) -> (Vec<Program>, Vec<u32>) {
    let mut ran: BTreeMap<&str, u64> = BTreeMap::new();
    for task in &replay.tasks {
        let ns = task.steps.iter().map(|step| if let ReplayStep::Run { ns, .. } = step { *ns } else { 0 });
        *ran.entry(&task.name).or_default() += ns.sum::<u64>();
    }
    let mut names: Vec<(&str, u64)> = ran.into_iter().collect();
    names.sort_by_key(|(name, ns)| (std::cmp::Reverse(*ns), *name));
    let place = |task: &ReplayTask| names.iter().take(MOST_NAMES).position(|(name, _)| *name == task.name);
    let others = names.len().min(MOST_NAMES);
    let numbers = replay.tasks.iter().map(|task| place(task).unwrap_or(others) as u32).collect();
    let mut named: Vec<&str> = names.iter().take(MOST_NAMES).map(|(name, _)| *name).collect();
    if names.len() > MOST_NAMES {
        named.push("other");
    }
    (named.into_iter().map(|name| Program::new(name, vec![Op::Follow])).collect(), numbers)
}

fn policy(task: &ReplayTask) -> Policy {
    match task.priority {
        MAX_RT.. => Policy::Other,
        // The trace does not distinguish FIFO from RR; deadline and stop tasks come before all others.
        priority => Policy::Fifo((MAX_RT - 1 - priority).clamp(1, 99) as u8),
    }
}

impl Workload for ReplayWorkload {
    fn id(&self) -> &'static str {
        "replay"
    }

    fn leaves_out(&self) -> &'static str {
        "tasks run as long as in the trace, with any caches and at any frequency; sleeps that no task ends are as long as \
         there; affinity is known of threads of the kernel only, no policy beside nice and real-time priorities (FIFO); \
         critical sections and faults are not known; what other guests of the host take is not"
    }

    fn load(&self, _: &Parameters, _: &Levels, machine: &Machine, files: &Files) -> Result<Load, Problem> {
        let replay =
            files.trace.clone().ok_or_else(|| Problem::internal("workload replay", "its trace was not read"))?;
        let cpus = machine.topology.cpus();
        let (programs, numbers) = programs(&replay);
        let spec = |(number, task): (usize, &ReplayTask)| TaskSpec {
            weight: weight::of_nice(task.priority - NICE_0),
            policy: policy(task),
            pinned: task.is_bound.then_some(task.cpu % cpus),
            kernel: task.is_kernel,
            ..TaskSpec::new(numbers[number], number as u32)
        };
        let tasks = replay.tasks.iter().enumerate().map(spec).collect();
        Ok(Load { programs, tasks, marks: 1, replay: Some(replay), ..Load::default() })
    }

    fn results(&self, _: &Parameters, seen: &WindowStats, length_ns: u64) -> Results {
        let mut waits = Histogram::new();
        seen.roles.iter().for_each(|role| waits.add(&role.waited));
        let wait = |id: &str, quantile| Measurement::percentile(id, &waits, quantile, 1e3);
        let mean_ns = waits.mean_ns();
        let account = account(&seen.roles);
        let measurements = vec![
            match mean_ns {
                Some(ns) => Measurement::new("run_queue_wait_mean_us", ns / 1e3),
                None => Measurement::absent("run_queue_wait_mean_us", "no task waited for a CPU"),
            },
            wait("run_queue_wait_p50_us", 0.5),
            wait("run_queue_wait_p90_us", 0.9),
            wait("run_queue_wait_p99_us", 0.99),
            Measurement::new("run_queue_wait_s", mean_ns.unwrap_or(0.0) * waits.count() as f64 / 1e9),
            match seen.replay.as_ref().map_or(0, |replay| replay.left) {
                0 => Measurement::new("finish_s", length_ns as f64 / 1e9),
                left => Measurement::absent("finish_s", format!("{left} tasks had not come to their end")),
            },
            Measurement::per_second("phases_per_s", seen.marks[PHASES as usize].count, length_ns),
            Measurement::per_second("preemptions_per_s", account.involuntary, length_ns),
            match length_ns {
                0 => Measurement::absent("cpus_used", "the trial had no length"),
                ns => Measurement::new("cpus_used", account.cpu_ns as f64 / ns as f64),
            },
        ];
        (measurements, vec![NamedHistogram { name: "run_queue_wait".to_owned(), histogram: waits }])
    }
}
