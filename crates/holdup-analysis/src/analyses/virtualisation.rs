//! What virtual machines did to the trials in them.

use super::{Context, note};
use crate::words;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Finding, Meta};
use std::collections::BTreeSet;

pub static META: Meta = Meta {
    id: "virtualisation",
    summary: "guests with more CPUs than the host, and CPU time taken from them",
    docs: "A guest's CPU is a task of the host. Where guests have more CPUs than the host gives them, the host \
           preempts them as well, holders of locks included, and the guest's scheduler knows nothing of it. What a guest \
           waited for a CPU of the host is its steal time, from the collector cpu; an arm that lost more than another \
           differs in that too. Steal is counted with KVM only: under emulation a guest cannot see it.",
    references: &[
        "arch/x86/kernel/kvm.c:kvm_steal_clock (v6.18)",
        "kernel/sched/cputime.c:steal_account_process_time (v6.18)",
    ],
};

/// Steal beyond this share of all CPU time is named, and so is a difference between arms beyond it.
const NOTABLE: f64 = 0.01;

/// A difference between arms within this many of its standard errors may be chance.
const STANDARD_ERRORS: f64 = 3.0;

pub(super) fn run(context: &Context<'_>) -> Vec<Finding> {
    // Trials on the host itself: the question does not arise.
    if values(context, "guest.accel").is_empty() {
        return Vec::new();
    }
    let mut findings = vec![cpus(context)];
    findings.extend(steal(context));
    findings
}

/// The values of a fact over all boots.
fn values<'a>(context: &Context<'a>, key: &str) -> BTreeSet<&'a str> {
    let facts = context.bundle().environment.iter().flat_map(|reading| &reading.facts);
    facts.filter(|f| f.key == key).filter_map(|f| f.value.as_deref()).collect()
}

/// The guests' CPUs against those of the host, and how they were made.
fn cpus(context: &Context<'_>) -> Finding {
    // Every pair that a boot had, so that one boot on fewer CPUs than the others does not hide among them.
    let pairs = context.bundle().environment.iter().filter_map(|reading| {
        let number = |key: &str| {
            let fact = reading.facts.iter().find(|f| f.key == key);
            fact.and_then(|f| f.value.as_deref()).and_then(|v| v.parse::<u32>().ok())
        };
        Some((number("guest.cpus")?, number("guest.host_cpus")?))
    });
    let (verdict, sentence) = match pairs.max_by_key(|(guest, host)| i64::from(*guest) - i64::from(*host)) {
        None => (
            FindingVerdict::Undecided,
            "Whether the guests had more CPUs than the host gave them is not known.".to_owned(),
        ),
        Some((guest, host)) if guest > host => (
            FindingVerdict::Supported,
            format!(
                "Guests had {} on {} of the host: the host preempts them too, holders of locks included.",
                words::count(guest as usize, "CPU"),
                host
            ),
        ),
        Some((guest, host)) => (
            FindingVerdict::Refuted,
            format!("Guests had {}, no more than the {host} of the host.", words::count(guest as usize, "CPU")),
        ),
    };
    let mut details = Vec::new();
    for (key, what) in [("guest.accel", "Accelerator"), ("guest.accel_reason", "Why"), ("guest.qemu_version", "QEMU")] {
        let found: Vec<&str> = values(context, key).into_iter().collect();
        if !found.is_empty() {
            details.push(format!("{what}: {}.", found.join("; ")));
        }
    }
    Finding { details, ..note(&META, verdict, sentence) }
}

/// Steal of one arm: its label and its shares, trial by trial.
struct Stolen<'a> {
    label: &'a str,
    shares: Vec<f64>,
    trials: Vec<u32>,
}

impl Stolen<'_> {
    fn mean(&self) -> f64 {
        self.shares.iter().sum::<f64>() / self.shares.len() as f64
    }

    /// The square of the standard error of the mean; `None` for a single trial.
    fn error_squared(&self) -> Option<f64> {
        let n = self.shares.len() as f64;
        let mean = self.mean();
        (n > 1.0).then(|| self.shares.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
    }
}

/// CPU time that the host took from the guests, arm by arm.
fn steal(context: &Context<'_>) -> Vec<Finding> {
    let arms: Vec<Stolen<'_>> = context
        .index
        .arms()
        .map(|arm| {
            let done = context.index.done(arm.id).iter();
            let (trials, shares) = done.filter_map(|t| Some((t.seq, stolen(t)?))).unzip();
            Stolen { label: &arm.label, shares, trials }
        })
        .filter(|arm| !arm.shares.is_empty())
        .collect();
    let kvm = values(context, "guest.accel").contains("kvm");
    let most = arms.iter().max_by(|a, b| a.mean().total_cmp(&b.mean()));
    let least = arms.iter().min_by(|a, b| a.mean().total_cmp(&b.mean()));
    let (Some(most), Some(least)) = (most, least) else {
        let sentence = "What the host took from the guests is not known: no trial that counts has its steal time.";
        return vec![note(&META, FindingVerdict::Skipped, sentence.to_owned())];
    };
    if !kvm && most.mean() == 0.0 {
        let sentence = "What the host took from the guests is not known: under emulation a guest cannot see it.";
        return vec![note(&META, FindingVerdict::Skipped, sentence.to_owned())];
    }
    let taken = words::percent(most.mean());
    let (verdict, sentence) = if most.mean() > NOTABLE {
        let sentence = format!("The host took up to {taken} of the guests' CPU time: most from {}.", most.label);
        (FindingVerdict::Supported, sentence)
    } else {
        (FindingVerdict::Refuted, format!("The host took at most {taken} of the guests' CPU time from any arm."))
    };
    let details = arms.iter().map(|a| format!("{}: {}.", a.label, words::percent(a.mean()))).collect();
    let mut findings = vec![Finding { details, trials: most.trials.clone(), ..note(&META, verdict, sentence) }];
    findings.extend(between_arms(most, least));
    findings
}

/// Whether the arms were stolen from unequally.
fn between_arms(most: &Stolen<'_>, least: &Stolen<'_>) -> Option<Finding> {
    let gap = most.mean() - least.mean();
    if gap <= NOTABLE {
        return None;
    }
    let error = most.error_squared().zip(least.error_squared()).map(|(a, b)| (a + b).sqrt());
    let what = format!(
        "{} lost {} of its CPU time to the host, {} lost {}",
        most.label,
        words::percent(most.mean()),
        least.label,
        words::percent(least.mean())
    );
    let (verdict, sentence) = match error {
        Some(error) if gap > STANDARD_ERRORS * error => (
            FindingVerdict::Supported,
            format!("{what}: a difference between them may be the host's and not that of their levels."),
        ),
        Some(_) => (FindingVerdict::Undecided, format!("{what}: that may be chance.")),
        None => (FindingVerdict::Undecided, format!("{what}; from one trial each nothing more can be said.")),
    };
    let trials: BTreeSet<u32> = most.trials.iter().chain(&least.trials).copied().collect();
    Some(Finding { trials: trials.into_iter().collect(), ..note(&META, verdict, sentence) })
}

/// The share of CPU time that was stolen in a trial.
fn stolen(trial: &holdup_model::Trial) -> Option<f64> {
    let items = trial.evidence.iter().filter(|c| c.collector == "cpu").flat_map(|c| &c.items);
    let mut steal = items.filter(|i| i.name == "cpu_share" && i.label.as_deref() == Some("steal"));
    steal.find_map(|i| i.value.value())
}
