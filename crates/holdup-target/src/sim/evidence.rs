//! The counters of a simulated machine as evidence of the collectors of real ones.

use super::{timeline, traces};
use holdup_model::evidence::EvidenceHistogram;
use holdup_model::{Availability, Collected, Coverage, EvidenceItem, Histogram, Plan, Replay, SparseHistogram};
use holdup_sim::stats::{HOLDERS, ProgramStats, SWITCH_OUTS, SwitchOut, WindowStats};
use holdup_sim::world::Load;

/// The collectors that the simulator has by default.
const DEFAULTS: &[&str] = &["switches", "critical-sections", "faults"];
/// Those of a trace that is replayed.
const DEFAULTS_OF_REPLAY: &[&str] = &["switches", "tasks"];

fn defaults_of(kind: &str) -> &'static [&'static str] {
    if kind == traces::KIND { DEFAULTS_OF_REPLAY } else { DEFAULTS }
}

/// The collectors that the simulator has by default for workloads of these kinds.
pub(super) fn defaults<'a>(kinds: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for kind in kinds {
        for id in defaults_of(kind) {
            if !all.iter().any(|known| known == id) {
                all.push((*id).to_owned());
            }
        }
    }
    all
}

/// True if the simulator has the evidence of a collector for a workload of this kind.
pub(super) fn has(id: &str, kind: &str) -> bool {
    defaults_of(kind).contains(&id) || id == "switch-outs" || id == timeline::ID
}

/// Whether the simulator has the evidence of a collector for any workload of a plan.
pub(super) fn availability(id: &str, plan: &Plan) -> Availability {
    let mut kinds = plan.workloads.iter().map(|used| used.kind.as_str());
    if kinds.clone().any(|kind| has(id, kind)) {
        return Availability::Ready;
    }
    let reason = match DEFAULTS.contains(&id) && kinds.any(|kind| kind == traces::KIND) {
        true => "a trace of the scheduler does not show it",
        false => "a simulated machine does not have it",
    };
    Availability::Unavailable { reason: reason.to_owned(), remedy: None }
}

/// One collector's evidence.
pub(super) fn collected(id: &str, seen: &WindowStats, load: &Load) -> Collected {
    let mut into = Collected {
        collector: id.to_owned(),
        coverage: Coverage { seen: seen.switches, ..Coverage::default() },
        ..Collected::default()
    };
    for (name, role) in by_role(seen, load) {
        match id {
            "switches" => switches(&mut into, name, &role),
            "switch-outs" => switch_outs(&mut into, name, &role),
            "faults" => faults(&mut into, name, &role),
            _ => {}
        }
    }
    match id {
        "critical-sections" => sections(&mut into, seen, load),
        "faults" => faults_of_holders(&mut into, seen, load),
        "tasks" => {
            if let Some(replay) = &load.replay {
                tasks(&mut into, seen, replay);
            }
        }
        _ => {}
    }
    into
}

/// What was seen of each role: several programs may have the same.
fn by_role<'a>(seen: &WindowStats, load: &'a Load) -> Vec<(&'a str, ProgramStats)> {
    let mut all: Vec<(&str, ProgramStats)> = Vec::new();
    for (program, role) in load.programs.iter().zip(&seen.roles) {
        match all.iter_mut().find(|(name, _)| *name == program.role) {
            Some((_, sum)) => sum.add(role),
            None => all.push((&program.role, role.clone())),
        }
    }
    all
}

pub(super) fn place_of(way: SwitchOut) -> &'static str {
    match way {
        SwitchOut::Blocked => "blocked",
        SwitchOut::AtBoundary => "user boundary (R)",
        SwitchOut::InKernel => "in the kernel (R+)",
        SwitchOut::Exited => "exited",
    }
}

/// That collector counts three ways, and none that ended.
fn switch_outs(into: &mut Collected, role: &str, seen: &ProgramStats) {
    for way in [SwitchOut::Blocked, SwitchOut::AtBoundary, SwitchOut::InKernel] {
        let label = format!("{role} {}", place_of(way));
        into.items.push(EvidenceItem::labelled("switched_out", label, "1", seen.switch_outs[way as usize] as f64));
    }
}

fn switches(into: &mut Collected, role: &str, seen: &ProgramStats) {
    for way in SWITCH_OUTS {
        let label = format!("{role}: {}", place_of(way));
        into.items.push(EvidenceItem::labelled("switched_out", label, "1", seen.switch_outs[way as usize] as f64));
    }
    let on_cpu_ns = seen.user_ns + seen.kernel_ns + seen.spin_ns;
    into.items.push(EvidenceItem::labelled("on_cpu_s", role, "s", on_cpu_ns as f64 / 1e9));
    let waited_s = seen.waited.mean_ns().unwrap_or(0.0) * seen.waited.count() as f64 / 1e9;
    into.items.push(EvidenceItem::labelled("run_queue_wait_s", role, "s", waited_s));
    into.items.push(EvidenceItem::labelled("migrated", role, "1", seen.migrations as f64));
    histogram(into, "run_queue_wait_ns", role, &seen.waited);
}

fn faults(into: &mut Collected, role: &str, seen: &ProgramStats) {
    into.items.push(EvidenceItem::labelled("faults", format!("{role}: minor"), "1", seen.faults as f64));
    into.items.push(EvidenceItem::labelled("first_touch", role, "1", seen.faults as f64));
}

fn faults_of_holders(into: &mut Collected, seen: &WindowStats, load: &Load) {
    for (name, lock) in load.locks.iter().zip(&seen.locks) {
        into.items.push(EvidenceItem::labelled("fault_in_section", *name, "1", lock.faults as f64));
        into.items.push(EvidenceItem::labelled("fault_in_section_s", *name, "s", lock.fault_ns as f64 / 1e9));
    }
}

/// Tasks in the evidence: those that ran for longest, and those that waited for longest.
const MOST_TASKS: usize = 32;

/// By task of a trace, as the collector names them; which process a thread is of is not known.
fn tasks(into: &mut Collected, seen: &WindowStats, replay: &Replay) {
    let Some(counted) = &seen.replay else { return };
    let waited = counted.waits.iter().map(|waits| waits.mean_ns().unwrap_or(0.0) * waits.count() as f64 / 1e9);
    let waited_s: Vec<f64> = waited.collect();
    let mut by_cpu: Vec<usize> = (0..replay.tasks.len()).collect();
    let mut by_wait = by_cpu.clone();
    by_cpu.sort_by_key(|place| std::cmp::Reverse(seen.cpu_ns[*place]));
    by_wait.sort_by(|a, b| waited_s[*b].total_cmp(&waited_s[*a]));
    let mut kept: Vec<usize> = by_cpu.iter().take(MOST_TASKS).chain(by_wait.iter().take(MOST_TASKS)).copied().collect();
    kept.sort_unstable();
    kept.dedup();
    for place in &kept {
        let task = &replay.tasks[*place];
        let label = format!("{} | {} | {}", task.tid, task.tid, task.name);
        let waits = &counted.waits[*place];
        let values = [
            ("task_on_cpu_s", "s", seen.cpu_ns[*place] as f64 / 1e9),
            ("task_without_cpu_s", "s", waited_s[*place]),
            ("task_switches", "1", waits.count() as f64),
        ];
        let items = values.into_iter().filter(|(.., value)| *value > 0.0);
        into.items.extend(items.map(|(id, unit, value)| EvidenceItem::labelled(id, label.clone(), unit, value)));
        if waits.count() > 0 {
            let (name, histogram) = ("task_run_queue_wait_ns".to_owned(), waits.clone());
            into.histograms.push(EvidenceHistogram { name, label: Some(label), histogram });
        }
    }
    let others = replay.tasks.len() - kept.len();
    if others > 0 {
        into.items.push(EvidenceItem::labelled("other_tasks", "other", "1", others as f64));
    }
}

/// What stands for one sample of a sampling profiler, ns: a simulation knows the time itself.
const SAMPLE_NS: f64 = 1e6;

fn sections(into: &mut Collected, seen: &WindowStats, load: &Load) {
    let mut of_locks_ns = 0;
    for (name, lock) in load.locks.iter().zip(&seen.locks) {
        let mut item = |id: &str, label: String, unit: &str, value: f64| {
            into.items.push(EvidenceItem::labelled(id, label, unit, value));
        };
        item("acquisitions", (*name).to_owned(), "1", lock.acquisitions as f64);
        for ((context, count), off_ns) in HOLDERS.iter().zip(lock.holder_left).zip(lock.holder_off_ns) {
            item("holder_switched_out", format!("{name}: {context}"), "1", count as f64);
            item("holder_off_cpu_s", format!("{name}: {context}"), "s", off_ns as f64 / 1e9);
        }
        item("waiter_s", (*name).to_owned(), "s", lock.spin_ns as f64 / 1e9);
        item("waiter_behind_off_cpu_holder_s", (*name).to_owned(), "s", lock.spin_behind_ns as f64 / 1e9);
        item("section_samples", format!("{name}: holder"), "samples", lock.held_ns as f64 / SAMPLE_NS);
        item("section_samples", format!("{name}: waiter"), "samples", lock.spin_ns as f64 / SAMPLE_NS);
        of_locks_ns += lock.held_ns + lock.spin_ns;
        histogram(into, "holder_off_cpu_ns", name, &lock.holder_preempted);
        histogram(into, "lock_wait_ns", name, &lock.waits);
    }
    let all_ns: u64 = seen.roles.iter().map(|r| r.user_ns + r.kernel_ns + r.spin_ns).sum();
    let neither = all_ns.saturating_sub(of_locks_ns) as f64 / SAMPLE_NS;
    into.items.push(EvidenceItem::labelled("section_samples", "neither", "samples", neither));
    into.items.push(EvidenceItem::new("sections_mapped", "1", load.locks.len() as f64));
    let count = |of: &dyn Fn(&ProgramStats) -> u64| seen.roles.iter().map(of).sum::<u64>() as f64;
    let holding = count(&|r| r.switch_outs_holding.iter().sum());
    let outs = count(&|r| r.switch_outs.iter().sum());
    into.items.push(EvidenceItem::labelled("switch_outs_classified", "holder", "1", holding));
    into.items.push(EvidenceItem::labelled("switch_outs_classified", "neither", "1", outs - holding));
}

fn histogram(into: &mut Collected, name: &str, label: &str, histogram: &Histogram) {
    if histogram.count() == 0 {
        return;
    }
    into.histograms.push(EvidenceHistogram {
        name: name.to_owned(),
        label: Some(label.to_owned()),
        histogram: SparseHistogram::from(histogram),
    });
}
