//! N workers that take one lock, work, and give it back: the programs of `lock-contention`.

use super::{Files, Levels, Results, Workload};
use crate::locks;
use crate::machine::Machine;
use crate::program::{Op, Program};
use crate::random::Span;
use crate::stats::{SwitchOut, WindowStats};
use crate::world::{Load, RegionSpec, TaskSpec};
use holdup_catalogue::Sharing;
use holdup_catalogue::lock_contention::{self, FirstTouch, Pages};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Measurement, Parameters, Problem};

/// What an arm says.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub workers: u32,
    pub algorithm: &'static str,
    pub section_ns: u64,
    pub think_ns: u64,
    pub processes: bool,
    /// First touches for each section.
    pub faults: u32,
    /// True if they come before the lock.
    pub touches_before: bool,
    pub huge: bool,
    /// True if worker i stays on CPU i, round and round.
    pub pin: bool,
}

/// Lines of the kernel that a fault writes and that the fault before may have written on another CPU, as threads of a
/// process share page tables: what a fault takes longer with two threads than with one, over what a line takes.
const FAULT_LINES: u32 = 7;

/// The workers.
pub fn load(setup: &Setup, cpus: u32) -> Load {
    // The counter that shows whether the lock protects. Where threads touch pages also the cursor that goes through them,
    // and what the kernel has of an address space: its VMA, its counters, the page tables and the pages themselves.
    let lines = if setup.faults > 0 && !setup.processes { 2 + FAULT_LINES * setup.faults } else { 1 };
    let mut ops = vec![Op::Lock(0), Op::Data { lock: 0, lines }];
    if setup.faults > 0 {
        let at = if setup.touches_before { 0 } else { ops.len() };
        ops.insert(at, Op::Touch { region: 0, pages: setup.faults });
    }
    ops.extend([
        Op::Compute(nearly(setup.section_ns)),
        Op::Unlock(0),
        Op::Done(0),
        Op::Compute(nearly(setup.think_ns)),
    ]);
    ops.extend(drops(setup));
    ops.push(Op::Jump(0));
    let task = |number: u32| TaskSpec {
        pinned: setup.pin.then(|| number % cpus),
        ..TaskSpec::new(0, if setup.processes { number } else { 0 })
    };
    let steps = if setup.huge { 512 } else { 1 };
    Load {
        programs: vec![Program::new("worker", ops)],
        tasks: (0..setup.workers).map(task).collect(),
        locks: vec![setup.algorithm],
        regions: vec![RegionSpec { huge: setup.huge, steps, together: false, end: 0, mapped: false }],
        marks: 1,
        ..Load::default()
    }
}

/// The parts that threads walk through in turn, and the fewest touches of each (`holdup_locks`).
const SEGMENTS: u32 = 4;
const SMALLEST_SEGMENT: u32 = 1024;

/// What a worker does on its way to the lock for the pages of sections to come: it drops page table entries, which is a
/// long call where many are dropped together. A process drops all its entries when it has touched them all. Threads walk
/// together, and the first to come by drops a segment: that may be any of them, so it is a matter of chance here.
fn drops(setup: &Setup) -> Vec<Op> {
    let faults = setup.faults;
    if faults == 0 {
        return Vec::new();
    }
    let segment = faults.saturating_mul(setup.workers + 1).next_multiple_of(SMALLEST_SEGMENT);
    if setup.processes {
        let times = segment.saturating_mul(SEGMENTS) / faults;
        return vec![Op::Repeat { to: 0, counter: 0, times }, Op::Forget(0)];
    }
    // With this chance not.
    let of = (u64::from(segment - faults) << 32) / u64::from(segment);
    vec![Op::Chance { of: u32::try_from(of).unwrap_or(u32::MAX), to: 0 }, Op::Forget(0)]
}

pub(super) struct LockContention;

impl Workload for LockContention {
    fn id(&self) -> &'static str {
        "lock-contention"
    }

    fn leaves_out(&self) -> &'static str {
        "sections and think times last as long as asked for within 2 %, and every acquisition that waits is timed"
    }

    fn load(&self, parameters: &Parameters, _levels: &Levels, machine: &Machine, _: &Files) -> Result<Load, Problem> {
        let p = lock_contention::Parameters::read_simulated(parameters)?;
        let algorithm = locks::id(p.algorithm.word()).ok_or_else(|| {
            Problem::host(format!("algorithm {}", p.algorithm), "the simulator does not have it")
                .hint(format!("it has {}", locks::ids().join(", ")))
        })?;
        let setup = Setup {
            workers: p.threads,
            algorithm,
            section_ns: p.section,
            think_ns: p.think,
            processes: p.sharing == Sharing::Processes,
            faults: p.faults,
            touches_before: p.first_touch == FirstTouch::Before,
            huge: p.pages == Pages::Huge,
            pin: p.pin,
        };
        Ok(load(&setup, machine.topology.cpus()))
    }

    fn results(&self, _parameters: &Parameters, seen: &WindowStats, length_ns: u64) -> Results {
        let lock = &seen.locks[0];
        let role = &seen.roles[0];
        let operations = seen.marks[0].count;
        // Acquisitions without waiting take too little time to measure.
        let mut acquire = lock.waits.clone();
        acquire.record_n_ns(1, lock.acquisitions.saturating_sub(lock.waits.count()));
        let longest = match acquire.range_ns() {
            None => Measurement::absent("acquire_max_ns", "no acquisition ended in the window"),
            Some((_, most)) => Measurement::new("acquire_max_ns", most as f64),
        };
        let fairness = match (seen.by_task.iter().min(), seen.by_task.iter().max()) {
            (Some(least), Some(most)) if *most > 0 => {
                Measurement::new("fairness_min_max", *least as f64 / *most as f64)
            }
            _ => Measurement::absent("fairness_min_max", "no worker completed an operation in the window"),
        };
        let involuntary =
            role.switch_outs[SwitchOut::AtBoundary as usize] + role.switch_outs[SwitchOut::InKernel as usize];
        let measurements = vec![
            Measurement::per_second("operations_per_s", operations, length_ns),
            Measurement::percentile("acquire_p50_ns", &acquire, 0.5, 1.0),
            Measurement::percentile("acquire_p99_ns", &acquire, 0.99, 1.0),
            Measurement::percentile("acquire_p999_ns", &acquire, 0.999, 1.0),
            longest,
            fairness,
            Measurement::per_operation(
                "sleeps_per_operation",
                role.switch_outs[SwitchOut::Blocked as usize],
                operations,
            ),
            Measurement::per_operation("minor_faults_per_operation", role.faults, operations),
            Measurement::per_second("involuntary_switches_per_s", involuntary, length_ns),
            match seen.asked {
                true => Measurement::per_second("slice_grants_per_s", seen.grants, length_ns),
                false => Measurement::absent("slice_grants_per_s", "the algorithm asks for no time slice extensions"),
            },
        ];
        (measurements, vec![NamedHistogram { name: "acquire".to_owned(), histogram: acquire }])
    }
}

/// Work takes not always the same time on a real CPU. Workers whose work did would keep step with one another and never
/// meet at the lock.
fn nearly(ns: u64) -> Span {
    Span::Uniform(ns - ns / 50, ns + ns / 50)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Costs, Kernel, Topology};
    use crate::preempt;
    use crate::stats::ProgramStats;
    use crate::world::World;

    fn seen(model: &str, faults: u32, processes: bool) -> ProgramStats {
        seen_with(model, faults, processes, false)
    }

    fn seen_with(model: &str, faults: u32, processes: bool, touches_before: bool) -> ProgramStats {
        let topology = Topology { smt: 1, cores: 2, llcs: 1, nodes: 1 };
        let kernel = Kernel::of("6.18", preempt::find(model).expect("a model"), 250, 2).expect("a kernel");
        // Long enough that ticks meet it.
        let costs = Costs { forget_ns: 500, ..Costs::DEFAULT };
        let machine = Machine { topology, costs, kernel };
        let setup = Setup {
            workers: 8,
            algorithm: "tas",
            section_ns: 300,
            think_ns: 1_000,
            processes,
            faults,
            touches_before,
            huge: false,
            pin: false,
        };
        let mut world = World::new(&machine, &load(&setup, 2), 1);
        world.open();
        world.run_until(2_000_000_000);
        world.close().roles[0].clone()
    }

    /// Of faults alone none leaves a CPU inside the kernel: there is no cond_resched() on their way.
    #[test]
    fn none_lets_go_inside_the_kernel_where_page_table_entries_are_dropped() {
        for processes in [true, false] {
            assert!(seen("none", 16, processes).switch_outs[SwitchOut::InKernel as usize] > 0, "processes {processes}");
            assert_eq!(seen("none", 0, processes).switch_outs[SwitchOut::InKernel as usize], 0);
        }
    }

    #[test]
    fn voluntary_lets_go_inside_faults_as_well_and_full_wherever_it_is_asked() {
        let inside = |model| seen(model, 16, true).switch_outs[SwitchOut::InKernel as usize];
        let (none, voluntary, full) = (inside("none"), inside("voluntary"), inside("full"));
        assert!(none < voluntary && voluntary < full, "none {none}, voluntary {voluntary}, full {full}");
    }

    #[test]
    fn every_section_has_as_many_faults_as_asked_for() {
        for processes in [true, false] {
            let seen = seen("full", 16, processes);
            assert!(seen.faults > 100_000 && seen.faults == seen.faults_holding, "{seen:?}");
        }
        let before = seen_with("full", 16, true, true);
        assert!(before.faults > 100_000 && before.faults_holding == 0, "{before:?}");
    }
}
