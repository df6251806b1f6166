//! The texts of the page: warnings at its head, verdicts, what is missing, the design.

use crate::series::Layout;
use crate::text::{self, clean};
use holdup_model::bundle::Ending;
use holdup_model::outcome::FindingVerdict;
use holdup_model::plan::{EffectKind, Layout as Arrangement, StopRule};
use holdup_model::{Analysis, Availability, BundleData, Finding, TrialStatus};

/// A finding at the top, with its answer in a word.
pub(crate) struct Headline<'a> {
    pub(crate) answer: &'static str,
    pub(crate) class: &'static str,
    /// The words before the colon: what is compared. Empty when the sentence has no such part.
    pub(crate) subject: &'a str,
    pub(crate) rest: &'a str,
    pub(crate) finding: &'a Finding,
    /// What belongs to the answer; how it was made stands with the trials behind it.
    pub(crate) shown: Vec<&'a str>,
    pub(crate) how: Vec<&'a str>,
}

/// The findings of the headline, in the order of the analysis.
pub(crate) fn headlines(analysis: &Analysis) -> Vec<Headline<'_>> {
    analysis.findings.iter().filter(|f| f.headline).map(headline).collect()
}

fn headline(finding: &Finding) -> Headline<'_> {
    let is_effect = finding.analysis == "effect";
    let (answer, class) = match finding.verdict {
        FindingVerdict::Supported if is_effect && finding.sentence.contains(": different, better") => {
            ("≠ better", "better")
        }
        FindingVerdict::Supported if is_effect && finding.sentence.contains(": different, worse") => {
            ("≠ worse", "worse")
        }
        FindingVerdict::Supported if is_effect => ("≠ different", "different"),
        FindingVerdict::Supported => ("! found", "worse"),
        FindingVerdict::Refuted if is_effect => ("= no difference", "equivalent"),
        FindingVerdict::Refuted => ("✓ not found", "equivalent"),
        FindingVerdict::Undecided => ("~ undecided", "undecided"),
        FindingVerdict::Skipped => ("– not measured", "undecided"),
    };
    let (subject, rest) = finding.sentence.split_once(": ").unwrap_or(("", &finding.sentence));
    let (how, shown) = finding.details.iter().map(String::as_str).partition(|d| d.starts_with("How: "));
    Headline { answer, class, subject, rest, finding, shown, how }
}

/// True if a bundle holds windows of a live system, in which nothing was started and nothing is compared.
pub(crate) fn is_record(bundle: &BundleData) -> bool {
    bundle.is_of_watching()
}

/// The warnings of a record: an early end, no evidence.
fn record_banners(bundle: &BundleData) -> Vec<String> {
    let done = bundle.trials.iter().filter(|t| t.is_done()).count();
    let mut banners = match &bundle.ending {
        Some(Ending::Failed { reason }) => {
            vec![format!("{}.", text::capital(&clean(reason)))]
        }
        Some(Ending::Interrupted) => vec![format!("Interrupted after {}.", text::count(done, "window"))],
        None => vec!["The recording still runs, or it was killed.".to_owned()],
        Some(Ending::Complete | Ending::Decided | Ending::Budget) => {
            bundle.subject_end().map(|end| format!("{}.", text::capital(&clean(end)))).into_iter().collect()
        }
    };
    if done == 0 {
        banners.push("This bundle holds no window that counts.".to_owned());
    }
    banners
}

/// What a reader must not overlook beside emulation: an early end, nothing that counts.
pub(crate) fn banners(bundle: &BundleData) -> Vec<String> {
    if is_record(bundle) {
        return record_banners(bundle);
    }
    let mut banners = Vec::new();
    let planned = bundle.schedule.trials.len();
    let done = bundle.trials.iter().filter(|t| t.is_done()).count();
    let so_far = format!("{done} of {planned} planned trials count");
    match &bundle.ending {
        Some(Ending::Complete | Ending::Decided) => {}
        Some(Ending::Budget) => banners.push(format!("The run used up its time budget before its end: {so_far}.")),
        Some(Ending::Interrupted) => banners.push(format!("The run was interrupted: {so_far}.")),
        Some(Ending::Failed { reason }) => banners.push(format!("The run failed ({}): {so_far}.", clean(reason))),
        None => banners.push(format!("The run never ended properly: it crashed, or it still runs. {so_far}.")),
    }
    if bundle.trials.is_empty() {
        banners.push("This bundle holds no trial: nothing was measured.".to_owned());
    } else if done == 0 {
        banners.push("Every trial of this run is void: nothing here may be compared.".to_owned());
    }
    banners
}

/// Void trials, the same reason once: the reason and the trials.
pub(crate) fn voids(bundle: &BundleData) -> Vec<(String, Vec<u32>)> {
    let mut reasons: Vec<(String, Vec<u32>)> = Vec::new();
    for trial in &bundle.trials {
        let TrialStatus::Void { reason } = &trial.status else { continue };
        let reason = clean(reason);
        match reasons.iter_mut().find(|(r, _)| *r == reason) {
            Some((_, seqs)) => seqs.push(trial.seq),
            None => reasons.push((reason, vec![trial.seq])),
        }
    }
    reasons
}

/// Collectors, metrics and facts that could not be had, with the reason and the remedy.
pub(crate) fn missing(bundle: &BundleData, layouts: &[Layout<'_>]) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    for c in &bundle.collectors {
        match &c.availability {
            Availability::Ready => {}
            Availability::Degraded { reason } => all.push((format!("collector {}, in part", c.id), reason.clone())),
            Availability::Unavailable { reason, remedy } => {
                let remedy = remedy.as_ref().map(|r| format!(" (remedy: {r})")).unwrap_or_default();
                all.push((format!("collector {}", c.id), format!("{reason}{remedy}")));
            }
        }
    }
    for layout in layouts {
        for metric in &layout.metrics {
            let of: Vec<_> = layout.arms.iter().filter_map(|a| a.metric(&metric.id)).collect();
            let none: Vec<_> = of.iter().filter(|m| m.value.is_none()).collect();
            let Some(why) = none.first().and_then(|m| m.absent.clone()) else { continue };
            let where_ = if none.len() == of.len() { "all" } else { "some" };
            all.push((format!("metric {} of {}, in {where_} arms", metric.id, layout.workload.name), why));
        }
    }
    for fact in bundle.environment.iter().flat_map(|r| &r.facts).filter(|f| f.value.is_none()) {
        all.push((format!("fact {}", fact.key), fact.absent.clone().unwrap_or("no reason was recorded".to_owned())));
    }
    let mut seen: Vec<(String, String)> = Vec::new();
    for (what, why) in all {
        let one = (clean(&what), clean(&why));
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen
}

/// How the experiment was laid out, as (what, how).
pub(crate) fn design(bundle: &BundleData) -> Vec<(&'static str, String)> {
    let d = &bundle.plan.design;
    let arrangement = match d.layout {
        Arrangement::Factorial => "every combination of the factors' levels",
        Arrangement::OneAtATime => "the baseline, and each other level alone",
    };
    let levels = |f: &holdup_model::Factor| {
        let labels: Vec<String> = f.levels.iter().map(|l| clean(&l.label)).collect();
        format!("{} = {}", clean(&f.name), labels.join(", "))
    };
    let factors: Vec<String> = bundle.plan.factors.iter().map(levels).collect();
    let set: Vec<String> = bundle.plan.settings.iter().map(|(n, l)| clean(&format!("{n} = {}", l.label))).collect();
    let mut rows = vec![
        ("Arms", format!("{}: {arrangement}", bundle.schedule.arms.len())),
        ("Factors, the baseline first", if factors.is_empty() { "none".to_owned() } else { factors.join("; ") }),
        (
            "Blocks",
            format!(
                "{}{} in each of {}; each block runs every arm once, in random order{}",
                if d.stop == StopRule::Decided { "at most " } else { "" },
                d.blocks,
                text::count(d.sessions as usize, "session"),
                if d.stop == StopRule::Decided { "; it ends when every headline is decided" } else { "" },
            ),
        ),
        ("Seed of the order", d.seed.to_string()),
        (
            "One trial",
            format!(
                "settles {}, warms up {}, measures {}",
                text::duration(d.settle_ns),
                text::duration(d.warmup_ns),
                text::duration(d.duration_ns)
            ),
        ),
        ("Baseline twice (A/A)", if d.aa_pair { "yes" } else { "no, so the noise floor is not known" }.to_owned()),
        ("Void trials are repeated", format!("up to {}", text::count(d.retries as usize, "time"))),
    ];
    if d.effect == EffectKind::Trimmed {
        rows.push(("Ratios", "of the blocks without far slower trials (effect = trimmed)".to_owned()));
    }
    if let Some(budget) = d.budget_ns {
        rows.push(("Time budget", text::duration(budget)));
    }
    if !set.is_empty() {
        rows.push(("Set for all arms", set.join("; ")));
    }
    rows
}

/// What a workload is, in a line: its kind and its parameters.
pub(crate) fn workload(layout: &Layout<'_>) -> String {
    let w = layout.workload;
    let all = w.parameters.0.iter().map(|(k, v)| format!("{k} = {v}"));
    let parameters: Vec<String> = all.collect();
    let control = if w.negative_control { "; a negative control, which must not move" } else { "" };
    let with = if parameters.is_empty() { String::new() } else { format!(": {}", parameters.join(", ")) };
    clean(&format!("{}{with}{control}", w.kind))
}
