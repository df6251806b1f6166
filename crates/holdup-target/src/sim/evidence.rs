//! The counters of a simulated machine as evidence of the collectors of real ones.

use super::timeline;
use holdup_model::evidence::EvidenceHistogram;
use holdup_model::{Availability, Collected, Coverage, EvidenceItem, Histogram, SparseHistogram};
use holdup_sim::stats::{HOLDERS, ProgramStats, SWITCH_OUTS, SwitchOut, WindowStats};
use holdup_sim::world::Load;

/// The collectors that the simulator has by default.
pub(super) const DEFAULTS: &[&str] = &["switches", "critical-sections", "faults"];

/// Whether the simulator has the evidence of a collector.
pub(super) fn availability(id: &str) -> Availability {
    match id {
        id if DEFAULTS.contains(&id) || id == "switch-outs" || id == timeline::ID => Availability::Ready,
        _ => Availability::Unavailable { reason: "a simulated machine does not have it".to_owned(), remedy: None },
    }
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
