//! The catalogue of explanations: what can delay a system, one file for each cause, and its line in [`ALL`].
//!
//! An explanation looks at the evidence of one arm and compares no arms. It states a share and its 95 % interval over
//! windows (trials): `supported` when the whole interval lies at or above a stated minimum, `refuted` when the whole of
//! it lies below, `undecided` when it holds the minimum or when evidence is missing.

use crate::account::{self, Entry};
use crate::watched::{Pieces, Watched};
use crate::words;
use holdup_model::explanation::{Advice, Cause, Missing};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Estimate, Meta, Trial};
use holdup_stats::{CONFIDENCE, share_of_sums};

pub mod fault_under_lock;
pub mod heavyweight_lock;
pub mod kworker_behind_hog;
pub mod lightweight_lock;
pub mod memory_pressure;
pub mod mutex;
pub mod nothing;
pub mod other_wait;
pub mod oversubscription;
pub mod preempted_holder;
pub mod replication;
pub mod saturated_thread;
pub mod short_connections;
pub mod slow_disk;
pub mod spin_wait;
pub mod steal;
pub mod stolen_by_higher_class;
pub mod throttling;
pub mod wal;

/// Every explanation. Those that explain a wait come before those that cover the rest of it.
pub static ALL: &[Explainer] = &[
    Explainer { meta: &steal::META, explain: steal::explain },
    Explainer { meta: &throttling::META, explain: throttling::explain },
    Explainer { meta: &stolen_by_higher_class::META, explain: stolen_by_higher_class::explain },
    Explainer { meta: &preempted_holder::META, explain: preempted_holder::explain },
    Explainer { meta: &fault_under_lock::META, explain: fault_under_lock::explain },
    Explainer { meta: &spin_wait::META, explain: spin_wait::explain },
    Explainer { meta: &heavyweight_lock::META, explain: heavyweight_lock::explain },
    Explainer { meta: &lightweight_lock::META, explain: lightweight_lock::explain },
    Explainer { meta: &mutex::META, explain: mutex::explain },
    Explainer { meta: &replication::META, explain: replication::explain },
    Explainer { meta: &wal::META, explain: wal::explain },
    Explainer { meta: &other_wait::META, explain: other_wait::explain },
    Explainer { meta: &memory_pressure::META, explain: memory_pressure::explain },
    Explainer { meta: &slow_disk::META, explain: slow_disk::explain },
    Explainer { meta: &kworker_behind_hog::META, explain: kworker_behind_hog::explain },
    Explainer { meta: &short_connections::META, explain: short_connections::explain },
    Explainer { meta: &oversubscription::META, explain: oversubscription::explain },
    Explainer { meta: &saturated_thread::META, explain: saturated_thread::explain },
    // Last, because it looks at all others.
    Explainer { meta: &nothing::META, explain: nothing::explain },
];

/// What an explanation looks at.
pub struct Context<'a> {
    /// The evidence of one arm.
    pub watched: &'a Watched<'a>,
    /// The results of the explanations before it in [`ALL`].
    pub so_far: &'a [Cause],
}

impl Context<'_> {
    /// The cause with this id, when it was found.
    pub(crate) fn found(&self, id: &str) -> Option<&Cause> {
        self.so_far.iter().find(|c| c.id == id && c.verdict == FindingVerdict::Supported)
    }
}

/// One explanation: it looks for one cause.
pub struct Explainer {
    /// What it says about itself.
    pub meta: &'static Meta,
    /// The result.
    pub explain: fn(&Context<'_>) -> Cause,
}

/// The words and the bound of a cause.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) meta: &'static Meta,
    /// Its name in sentences, without an article: `lock-holder preemption`.
    pub(crate) name: &'static str,
    /// What its share is of: `the CPU time of the watched tasks`.
    pub(crate) of: &'static str,
    /// The smallest share that counts.
    pub(crate) minimum: f64,
}

/// `23 % (20–26 %)`: the share and its 95 % interval.
pub(crate) fn share_in_words(e: &Estimate) -> String {
    format!("{} ({}–{})", words::percent(e.value), words::percent(e.low).trim_end_matches(" %"), words::percent(e.high))
}

/// Judges a cause by its share: what was lost in each trial, in task-seconds, by what there was.
pub(crate) fn judge(kind: &Kind, watched: &Watched<'_>, pieces: Result<Pieces, Missing>) -> Cause {
    let mut cause = blank(kind);
    let pieces = match pieces {
        Ok(pieces) => pieces,
        Err(missing) => {
            cause.sentence = format!(
                "{} cannot be judged: {} is missing ({}).",
                words::capital(kind.name),
                missing.collector,
                missing.why
            );
            cause.missing.push(missing);
            return cause;
        }
    };
    let (part, whole) = pieces.sums();
    cause.plain_share = (whole > 0.0).then(|| part / whole);
    cause.tasks_held_up = Some(part / watched.length_s(&pieces.trials)).filter(|held| held.is_finite());
    if let Some(left_out) = &pieces.left_out {
        let (used, all) = (pieces.trials.len(), watched.trials.len());
        cause.details.push(format!(
            "From {used} of {all} windows: {} is missing in the others ({}).",
            left_out.collector, left_out.why
        ));
    }
    cause.trials.clone_from(&pieces.trials);
    if !pieces.pieces.is_empty() && pieces.pieces.iter().all(|(_, whole)| *whole == 0.0) {
        cause.verdict = FindingVerdict::Refuted;
        cause.sentence = format!("{}: none ({}: 0 s).", words::capital(kind.name), kind.of);
        return cause;
    }
    match share_of_sums(&pieces.pieces, CONFIDENCE) {
        Ok(share) => {
            // A part is no more than its whole, and no less than nothing.
            let is_part = pieces.pieces.iter().all(|(part, whole)| part <= whole);
            let most = if is_part { 1.0 } else { f64::INFINITY };
            let share = Estimate { low: share.low.max(0.0).min(most), high: share.high.max(0.0).min(most), ..share };
            cause.verdict = by_interval(&share, kind.minimum);
            cause.sentence = plain_sentence(kind, &share, cause.verdict);
            cause.share = Some(share);
        }
        Err(no) => cause.sentence = format!("{} cannot be judged: {}.", words::capital(kind.name), no.reason),
    }
    cause
}

/// Judges a cause by states of the account where there is one, else by other evidence; and whether there is one. `kind`
/// says what the share is of without it.
pub(crate) fn judge_by_account(
    kind: &Kind,
    watched: &Watched<'_>,
    accept: impl Fn(&Entry<'_>) -> bool,
    otherwise: impl Fn(&Trial) -> Result<(f64, f64), Missing>,
) -> (Cause, bool) {
    match account::pieces(watched, accept) {
        Ok(pieces) => (judge(&Kind { of: account::OF, ..*kind }, watched, Ok(pieces)), true),
        Err(_) => (judge(kind, watched, watched.pieces(otherwise)), false),
    }
}

fn by_interval(share: &Estimate, minimum: f64) -> FindingVerdict {
    if share.low >= minimum {
        FindingVerdict::Supported
    } else if share.high < minimum {
        FindingVerdict::Refuted
    } else {
        FindingVerdict::Undecided
    }
}

fn plain_sentence(kind: &Kind, share: &Estimate, verdict: FindingVerdict) -> String {
    let (name, of, minimum) = (words::capital(kind.name), kind.of, words::percent(kind.minimum));
    match verdict {
        FindingVerdict::Supported => format!("{name}: {} of {of}.", share_in_words(share)),
        FindingVerdict::Refuted if share.high == 0.0 => format!("{name}: none (threshold {minimum} of {of})."),
        FindingVerdict::Refuted => {
            format!("{name}: at most {} of {of} (threshold {minimum}).", words::percent(share.high))
        }
        FindingVerdict::Undecided | FindingVerdict::Skipped => format!(
            "{name}: {} of {of}; the threshold of {minimum} lies within the interval, so it takes more windows.",
            share_in_words(share)
        ),
    }
}

/// A cause before it is judged.
pub(crate) fn blank(kind: &Kind) -> Cause {
    Cause {
        id: kind.meta.id.to_owned(),
        name: kind.name.to_owned(),
        verdict: FindingVerdict::Undecided,
        sentence: String::new(),
        share: None,
        plain_share: None,
        of: kind.of.to_owned(),
        minimum: kind.minimum,
        tasks_held_up: None,
        details: Vec::new(),
        advice: Vec::new(),
        missing: Vec::new(),
        evidence: Vec::new(),
        trials: Vec::new(),
    }
}

/// Advice; `experiment` and `conditions` may be empty for none.
pub(crate) fn advice(change: &str, effect: &str, conditions: &str, experiment: &str, undo: &str) -> Advice {
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Advice {
        change: change.to_owned(),
        effect: effect.to_owned(),
        conditions: given(conditions),
        experiment: given(experiment),
        undo: undo.to_owned(),
    }
}

/// The first of some shares in words: `user boundary 70 %, in a page fault 30 %`. `None` when there is nothing.
pub(crate) fn split(parts: &[(String, f64)], most: usize) -> Option<String> {
    let all: f64 = parts.iter().map(|(_, n)| n).sum();
    let shown = parts.iter().take(most).filter(|(_, n)| *n > 0.0);
    let shares: Vec<String> = shown.map(|(name, n)| format!("{name} {}", words::percent(n / all))).collect();
    (!shares.is_empty()).then(|| shares.join(", "))
}

/// Sums of labels that have the same name under `key`, largest first.
pub(crate) fn grouped(parts: &[(String, f64)], key: impl Fn(&str) -> &str) -> Vec<(String, f64)> {
    let mut sums: std::collections::BTreeMap<&str, f64> = std::collections::BTreeMap::new();
    for (label, n) in parts {
        *sums.entry(key(label)).or_default() += n;
    }
    let mut sorted: Vec<(String, f64)> = sums.into_iter().map(|(name, n)| (name.to_owned(), n)).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    sorted
}
