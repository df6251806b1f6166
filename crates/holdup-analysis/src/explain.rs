//! What delays a system: every explanation, arm by arm, and how the arms differ.

use crate::account;
use crate::explanations::{self, Context, share_in_words};
use crate::wakers;
use crate::watched::{Watched, twins};
use crate::words;
use holdup_model::bundle::{Ending, OBSERVED};
use holdup_model::explanation::{ArmExplanation, Cause};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{BundleData, Explanation, Replica};
use std::collections::BTreeSet;

/// What a collector lost beyond this share of what it should have seen is said.
const NOTABLE_LOSS: f64 = 0.01;

/// Collectors that are there to explain a delay. The others show a part of it, and run by default.
const EXPLAINING: [&str; 7] =
    [account::ACCOUNT, "switches", "critical-sections", "faults", "cpu-profile", "off-cpu", "kworkers"];

/// True if a collector ran that is there to explain a delay.
pub(crate) fn is_explained(bundle: &BundleData) -> bool {
    // A bundle of nothing but what was watched has no other answer.
    bundle.plan.workloads.iter().any(|w| w.kind == OBSERVED)
        || bundle.trials.iter().flat_map(|t| &t.evidence).any(|c| EXPLAINING.contains(&c.collector.as_str()))
}

/// Looks for every cause in every arm that has evidence.
pub fn explain(bundle: &BundleData) -> Explanation {
    let mut notes = Vec::new();
    let mut arms = Vec::new();
    let all = &bundle.schedule.arms;
    for arm in all {
        // An unobserved arm has no evidence, and that of a twin counts with the baseline.
        if arm.replica == Some(Replica::Unobserved) || all.iter().any(|baseline| twins(baseline, arm)) {
            continue;
        }
        let watched = Watched::new(bundle, arm);
        if watched.trials.is_empty() {
            notes.push(format!("{}: no window with evidence that counts", arm.label));
        } else {
            let mut explained = one_arm(&watched);
            if bundle.is_of_traces() {
                "What tracing cost is not known.".clone_into(&mut explained.cost);
            }
            arms.push(explained);
        }
    }
    match &bundle.ending {
        Some(Ending::Failed { reason }) => notes.push(format!("it ended early: {reason}")),
        Some(Ending::Interrupted) => notes.push("it was interrupted: evidence until then".to_owned()),
        None => notes.push("it has no ending: it still runs, or was killed".to_owned()),
        Some(Ending::Complete | Ending::Decided | Ending::Budget) => {
            notes.extend(bundle.subject_end().map(str::to_owned));
        }
    }
    if bundle.is_of_traces() {
        notes.extend(bundle.log.iter().map(|(_, line)| line.clone()));
    }
    Explanation { caution: words::caution(&bundle.head), differences: differences(&arms), arms, notes }
}

fn one_arm(watched: &Watched<'_>) -> ArmExplanation {
    let mut causes: Vec<Cause> = Vec::new();
    for explainer in explanations::ALL {
        let mut cause = (explainer.explain)(&Context { watched, so_far: &causes });
        if cause.verdict == FindingVerdict::Skipped {
            continue;
        }
        bound_by_cpu_time(watched, &mut cause);
        cause.details.extend(losses(watched, &cause));
        causes.push(cause);
    }
    let (answer, verdict) = answer(&causes, watched);
    // Stable: causes that are alike keep the order of the catalogue.
    causes.sort_by(|a, b| {
        let key = |c: &Cause| {
            (c.id == explanations::nothing::META.id && c.verdict != FindingVerdict::Supported, words::rank(c.verdict))
        };
        let held =
            |c: &Cause| if c.verdict == FindingVerdict::Supported { c.tasks_held_up.unwrap_or(0.0) } else { 0.0 };
        key(a).cmp(&key(b)).then_with(|| held(b).total_cmp(&held(a)))
    });
    ArmExplanation {
        arm: watched.arm.id,
        label: watched.arm.label.clone(),
        answer,
        verdict,
        causes,
        windows: u32::try_from(watched.trials.len()).unwrap_or(u32::MAX),
        watched_s: watched.watched_s(),
        cost: cost(watched),
        account: account::states::of_arm(watched),
    }
}

/// Causes that cost CPU time of tasks that spin.
const OF_SPINNING: [&str; 3] = ["preempted-holder", "fault-under-lock", "spin-wait"];

/// What uses less than this of one CPU, on average, loses next to nothing by spinning.
const FEW: f64 = 0.05;

/// A task that spins is on a CPU: where sessions are hardly ever on one, spinning costs them no more than that, whether it can
/// be seen or not.
fn bound_by_cpu_time(watched: &Watched<'_>, cause: &mut Cause) {
    if cause.verdict != FindingVerdict::Undecided || !OF_SPINNING.contains(&cause.id.as_str()) {
        return;
    }
    let Some((share, tasks)) = account::on_cpu(watched) else { return };
    let at_most = if share < cause.minimum {
        format!("{} of the time of sessions at work", words::percent(share))
    } else if tasks < FEW {
        format!("{} of one CPU", words::percent(tasks))
    } else {
        return;
    };
    cause.verdict = FindingVerdict::Refuted;
    cause.sentence = format!("{}: at most {at_most}, which is all that they use.", words::capital(&cause.name));
    cause.missing.clear();
    cause.tasks_held_up = Some(0.0);
}

/// Causes of which the scheduler is the whole: their sentences need no word on its part.
const OF_THE_SCHEDULER: [&str; 5] =
    ["throttling", "stolen-by-higher-class", "oversubscription", "kworker-behind-hog", "preempted-holder"];

/// What the scheduler has in waits for tasks without a CPU is said from here on.
const THROUGH: f64 = 0.01;

/// From this share of the time on, what is undecided is the first sentence where no cause is found.
const MEASURED: f64 = 0.1;

/// The answer: the cause that delays most tasks, the scheduler's part in the time, and the others.
fn answer(causes: &[Cause], watched: &Watched<'_>) -> (String, FindingVerdict) {
    let mut found: Vec<&Cause> = causes
        .iter()
        .filter(|c| c.verdict == FindingVerdict::Supported && c.id != explanations::nothing::META.id)
        .collect();
    found.sort_by(|a, b| b.tasks_held_up.unwrap_or(0.0).total_cmp(&a.tasks_held_up.unwrap_or(0.0)));
    let undecided =
        || causes.iter().filter(|c| c.verdict == FindingVerdict::Undecided && c.id != explanations::nothing::META.id);
    let measured = measured_alone(undecided()).filter(|_| found.is_empty());
    let is_open = |c: &&Cause| measured.is_none_or(|measured| measured.id != c.id);
    let open: Vec<&str> = undecided().filter(is_open).map(|c| c.name.as_str()).collect();
    let left_open = if open.is_empty() { String::new() } else { format!(" Not judged: {}.", words::list(&open)) };
    if let Some(measured) = measured {
        return (format!("{}{left_open}", measured.sentence), FindingVerdict::Undecided);
    }
    if let Some((most, others)) = found.split_first() {
        let of_it = account::scheduler_share(watched).filter(|_| !OF_THE_SCHEDULER.contains(&most.id.as_str()));
        let of_it = of_it.map(|share| format!(" The scheduler: {}{}.", words::percent(share), through(watched)));
        let of_it = of_it.unwrap_or_default();
        let beside: Vec<String> = others.iter().map(|c| beside(c)).collect();
        let beside = if beside.is_empty() { String::new() } else { format!(" Also: {}.", words::list(&beside)) };
        // What was not judged could be more than what was found only where that is less than half.
        let left_open = if most.share.as_ref().is_some_and(|share| share.value > 0.5) { "" } else { &left_open };
        return (format!("{}{of_it}{beside}{left_open}", most.sentence), FindingVerdict::Supported);
    }
    let on_cpu = account::on_cpu_in_words(watched);
    if open.is_empty() {
        let bound = causes.last().and_then(|c| c.details.first()).map(|d| format!(" {d}")).unwrap_or_default();
        return (format!("No known cause of delay{on_cpu}.{bound}"), FindingVerdict::Refuted);
    }
    (format!("No cause of delay found{on_cpu}.{left_open}"), FindingVerdict::Undecided)
}

/// Where time was measured to go and what for is not decided: it says more than what could not be judged.
fn measured_alone<'a>(undecided: impl Iterator<Item = &'a Cause>) -> Option<&'a Cause> {
    let share = |c: &Cause| c.share.as_ref().map_or(0.0, |share| share.value);
    undecided.filter(|c| share(c) >= MEASURED).max_by(|a, b| share(a).total_cmp(&share(b)))
}

/// `, and 21 % through tasks that they wait for`; empty where that is little.
fn through(watched: &Watched<'_>) -> String {
    let share = wakers::scheduler_share(watched).filter(|share| *share >= THROUGH);
    share.map(|share| format!(", and {} through tasks that they wait for", words::percent(share))).unwrap_or_default()
}

/// A cause beside the largest one: its name and share.
fn beside(cause: &Cause) -> String {
    let share = cause.share.as_ref().map(|share| format!(" ({})", words::percent(share.value)));
    format!("{}{}", cause.name, share.unwrap_or_default())
}

/// Events that the collectors of a cause lost.
fn losses(watched: &Watched<'_>, cause: &Cause) -> Vec<String> {
    let ids: BTreeSet<&str> = cause.evidence.iter().map(|e| e.collector.as_str()).collect();
    let lost = ids.into_iter().filter_map(|id| {
        let (seen, lost) = watched
            .of_collector(id)
            .fold((0_u64, 0_u64), |(s, l), c| (s.saturating_add(c.coverage.seen), l.saturating_add(c.coverage.lost)));
        // Two readings at the window's edges are no events: what they lose are tasks, which their notes name.
        let is_of_events = seen > 2 * watched.trials.len() as u64;
        let share = lost as f64 / seen.saturating_add(lost) as f64;
        (is_of_events && share > NOTABLE_LOSS)
            .then(|| format!("{id} lost {} of its events: its counts are too low.", words::percent(share)))
    });
    lost.collect()
}

/// The overhead: the CPU time of collectors and of BPF programs.
fn cost(watched: &Watched<'_>) -> String {
    let (mut own_ns, mut bpf_ns, mut unaccounted) = (0_u64, 0_u64, false);
    for collected in watched.trials.iter().flat_map(|t| &t.evidence) {
        own_ns = own_ns.saturating_add(collected.cost.cpu_ns);
        match collected.cost.bpf {
            Some(bpf) => bpf_ns = bpf_ns.saturating_add(bpf.run_ns),
            // Programs that the kernel does not account for leave memory behind, and no time.
            None => unaccounted |= collected.cost.memory_bytes > 0,
        }
    }
    let share = |ns: u64| words::percent(ns as f64 / 1e9 / watched.watched_s());
    let bpf = match (bpf_ns, unaccounted) {
        (0, false) => String::new(),
        (0, true) => ", without BPF programs, which this kernel does not account".to_owned(),
        (ns, _) => format!(", BPF programs {}", share(ns)),
    };
    format!("Overhead: {} of one CPU{bpf}.", share(own_ns))
}

/// How the explanation differs between arms: against the first arm, cause by cause.
fn differences(arms: &[ArmExplanation]) -> Vec<String> {
    let Some((first, others)) = arms.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for arm in others {
        let before = found.len();
        for cause in arm.causes.iter().filter(|c| c.id != explanations::nothing::META.id) {
            let Some(base) = first.causes.iter().find(|c| c.id == cause.id) else { continue };
            let sides = [(base, first.label.as_str()), (cause, arm.label.as_str())].map(|(c, label)| side(c, label));
            let apart = match (&base.share, &cause.share) {
                (Some(a), Some(b)) => a.high < b.low || b.high < a.low,
                _ => false,
            };
            let matters = [base, cause].iter().any(|c| c.verdict == FindingVerdict::Supported);
            if matters && (apart || base.verdict != cause.verdict) {
                let how = if apart { "" } else { " (the intervals overlap)" };
                found.push(format!("{}: {}; {}{how}.", words::capital(&cause.name), sides[0], sides[1]));
            }
        }
        if found.len() == before {
            found.push(format!("{} and {} have the same explanation.", first.label, arm.label));
        }
    }
    found
}

fn side(cause: &Cause, label: &str) -> String {
    match &cause.share {
        Some(share) => format!("{label} {}", share_in_words(share)),
        None => format!("{label} not judged"),
    }
}
