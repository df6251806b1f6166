//! What was seen of a simulated machine, as the collectors of real ones tell it.

use holdup_model::evidence::EvidenceHistogram;
use holdup_model::{Availability, Collected, Coverage, EvidenceItem, Histogram, SparseHistogram};
use holdup_sim::seen::{Left, RoleSeen, Seen, WAYS};
use holdup_sim::world::Load;

/// The collectors whose evidence the simulator tells.
pub(super) const TOLD: &[&str] = &["switches", "critical-sections", "faults"];

/// Whether the simulator tells what a collector tells.
pub(super) fn availability(id: &str) -> Availability {
    match id {
        id if TOLD.contains(&id) => Availability::Ready,
        _ => Availability::Unavailable { reason: "a simulated machine does not tell it".to_owned(), remedy: None },
    }
}

/// One collector's evidence.
pub(super) fn collected(id: &str, seen: &Seen, load: &Load) -> Collected {
    let mut into = Collected {
        collector: id.to_owned(),
        coverage: Coverage { seen: seen.switches, ..Coverage::default() },
        ..Collected::default()
    };
    for (program, role) in load.programs.iter().zip(&seen.roles) {
        match id {
            "switches" => switches(&mut into, &program.role, role),
            "faults" => faults(&mut into, &program.role, role),
            _ => {}
        }
    }
    if id == "critical-sections" {
        sections(&mut into, seen, load);
    }
    into
}

fn place_of(way: Left) -> &'static str {
    match way {
        Left::Waits => "blocked",
        Left::Boundary => "user boundary (R)",
        Left::Inside => "in the kernel (R+)",
        Left::Ends => "exited",
    }
}

fn switches(into: &mut Collected, role: &str, seen: &RoleSeen) {
    for way in WAYS {
        let label = format!("{role}: {}", place_of(way));
        into.items.push(EvidenceItem::labelled("switched_out", label, "1", seen.left[way as usize] as f64));
    }
    let on_cpu_ns = seen.user_ns + seen.kernel_ns + seen.spin_ns;
    into.items.push(EvidenceItem::labelled("on_cpu_s", role, "s", on_cpu_ns as f64 / 1e9));
    let waited_s = seen.waited.mean_ns().unwrap_or(0.0) * seen.waited.count() as f64 / 1e9;
    into.items.push(EvidenceItem::labelled("run_queue_wait_s", role, "s", waited_s));
    into.items.push(EvidenceItem::labelled("migrated", role, "1", seen.migrations as f64));
    histogram(into, "run_queue_wait_ns", role, &seen.waited);
}

fn faults(into: &mut Collected, role: &str, seen: &RoleSeen) {
    into.items.push(EvidenceItem::labelled("faults", format!("{role}: minor"), "1", seen.faults as f64));
    into.items.push(EvidenceItem::labelled("first_touch", role, "1", seen.faults as f64));
    into.items.push(EvidenceItem::labelled("fault_in_section", "any lock", "1", seen.faults_holding as f64));
}

fn sections(into: &mut Collected, seen: &Seen, load: &Load) {
    for (name, lock) in load.locks.iter().zip(&seen.locks) {
        let off_cpu_s = lock.holder_preempted.mean_ns().unwrap_or(0.0) * lock.holder_preempted.count() as f64 / 1e9;
        into.items.push(EvidenceItem::labelled("acquisitions", *name, "1", lock.acquisitions as f64));
        into.items.push(EvidenceItem::labelled("holder_off_cpu_s", *name, "s", off_cpu_s));
        histogram(into, "holder_off_cpu_ns", name, &lock.holder_preempted);
        histogram(into, "lock_wait_ns", name, &lock.waits);
    }
    for (way, context) in [(Left::Boundary, "user boundary"), (Left::Inside, "in the kernel")] {
        let count: u64 = seen.roles.iter().map(|r| r.left_holding[way as usize]).sum();
        into.items.push(EvidenceItem::labelled(
            "holder_switched_out",
            format!("any lock: {context}"),
            "1",
            count as f64,
        ));
    }
    let spin_ns: u64 = seen.roles.iter().map(|r| r.spin_ns).sum();
    into.items.push(EvidenceItem::labelled("waiter_s", "any lock", "s", spin_ns as f64 / 1e9));
}

fn histogram(into: &mut Collected, name: &str, label: &str, histogram: &Histogram) {
    if histogram.count() == 0 {
        return;
    }
    let mut sparse = SparseHistogram::default();
    for (lowest, _, count) in histogram.buckets() {
        sparse.record_n_ns(lowest, count);
    }
    into.histograms.push(EvidenceHistogram { name: name.to_owned(), label: Some(label.to_owned()), histogram: sparse });
}
