//! The evidence of one arm, trial by trial. Absent is not zero: what a collector did not bring comes back as missing,
//! with the reason and the way to get it.

use holdup_model::bundle::CollectorState;
use holdup_model::evidence::{EvidenceHistogram, EvidenceItem};
use holdup_model::explanation::{EvidenceRef, Missing};
use holdup_model::{Arm, Availability, BundleData, Collected, Measured, Replica, SparseHistogram, StackProfile, Trial};
use std::collections::BTreeMap;

/// A part and the whole that it is a part of, in one trial.
pub(crate) type Piece = (f64, f64);

/// One arm and the trials of it that count.
pub struct Watched<'a> {
    pub arm: &'a Arm,
    /// Its trials that count and have evidence, and those of its A/A twin, in the order run.
    pub trials: Vec<&'a Trial>,
    /// CPUs of the machine.
    pub(crate) cpus: f64,
    states: &'a [CollectorState],
    asked_for: &'a [String],
}

/// Pieces of a share over the trials of an arm.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pieces {
    /// One for each trial that has both.
    pub(crate) pieces: Vec<Piece>,
    /// Those trials.
    pub(crate) trials: Vec<u32>,
    /// Why other trials have none.
    pub(crate) left_out: Option<Missing>,
}

impl Pieces {
    /// The parts and the wholes of all trials together.
    pub(crate) fn sums(&self) -> Piece {
        self.pieces.iter().fold((0.0, 0.0), |(parts, wholes), (part, whole)| (parts + part, wholes + whole))
    }
}

impl<'a> Watched<'a> {
    pub(crate) fn new(bundle: &'a BundleData, arm: &'a Arm) -> Self {
        // The baseline and its A/A twin are the same thing.
        let same: Vec<u32> = bundle.schedule.arms.iter().filter(|a| twins(arm, a)).map(|a| a.id).collect();
        let of_arm = |t: &Trial| t.arm == arm.id || same.contains(&t.arm);
        let is_looked_at = |t: &&Trial| t.is_done() && of_arm(t) && !t.evidence.is_empty() && t.window.is_some();
        Watched {
            arm,
            trials: bundle.trials.iter().filter(is_looked_at).collect(),
            cpus: f64::from(bundle.head.machine.cpus),
            states: &bundle.collectors,
            asked_for: &bundle.plan.collectors,
        }
    }

    /// The length of all windows, s.
    pub(crate) fn watched_s(&self) -> f64 {
        self.trials.iter().map(|t| window_s(t)).sum()
    }

    /// The length of the windows of these trials, s.
    pub(crate) fn length_s(&self, trials: &[u32]) -> f64 {
        self.trials.iter().filter(|t| trials.contains(&t.seq)).map(|t| window_s(t)).sum()
    }

    /// What a collector brought from a trial.
    pub(crate) fn collected<'t>(&self, trial: &'t Trial, id: &str) -> Result<&'t Collected, Missing> {
        trial.evidence.iter().find(|c| c.collector == id).ok_or_else(|| self.why_missing(id))
    }

    /// Why a collector brought nothing at all.
    pub(crate) fn why_missing(&self, id: &str) -> Missing {
        let state = self.states.iter().find(|s| s.id == id).map(|s| &s.availability);
        let (why, remedy) = match state {
            Some(Availability::Unavailable { reason, remedy }) => (
                reason.clone(),
                remedy.clone().unwrap_or_else(|| format!("`holdup list collectors {id}` says what it needs")),
            ),
            _ if self.asked_for.iter().any(|asked| asked == id) => {
                ("it did not run".to_owned(), format!("`holdup list collectors {id}` says what it needs"))
            }
            _ => ("it was not asked for".to_owned(), format!("--collect {id}")),
        };
        Missing { collector: id.to_owned(), why, remedy }
    }

    /// The sum of a collector's items of one name whose label is accepted; those without a label have the empty one.
    /// A collector that ran and has no such item saw none: that is a zero.
    pub(crate) fn sum(
        &self,
        trial: &Trial,
        id: &str,
        item: &str,
        accept: impl Fn(&str) -> bool,
    ) -> Result<f64, Missing> {
        let of_name = self.collected(trial, id)?.items.iter().filter(|i| i.name == item);
        let mut sum = 0.0;
        for found in of_name {
            let value = measured(id, found)?;
            if accept(found.label.as_deref().unwrap_or_default()) {
                sum += value;
            }
        }
        Ok(sum)
    }

    /// The same over all labels.
    pub(crate) fn total(&self, trial: &Trial, id: &str, item: &str) -> Result<f64, Missing> {
        self.sum(trial, id, item, |_| true)
    }

    /// Like [`Watched::total`], but an item that is not there is missing and no zero: for items that a collector always
    /// brings when it can.
    pub(crate) fn required(
        &self,
        trial: &Trial,
        id: &str,
        item: &str,
        accept: impl Fn(&str) -> bool,
    ) -> Result<f64, Missing> {
        let accepted = self.values(trial, id, item)?.into_iter().filter(|(label, _)| accept(label));
        Ok(accepted.fold(0.0, |sum, (_, value)| sum + value))
    }

    /// The labels and values of a collector's items of one name, which it always brings when it can.
    pub(crate) fn values<'t>(&self, trial: &'t Trial, id: &str, item: &str) -> Result<Vec<(&'t str, f64)>, Missing> {
        let of_name = self.collected(trial, id)?.items.iter().filter(|i| i.name == item);
        let values = of_name.map(|found| Ok((found.label.as_deref().unwrap_or_default(), measured(id, found)?)));
        let values: Vec<(&str, f64)> = values.collect::<Result<_, Missing>>()?;
        if values.is_empty() { Err(brought_no(id, item)) } else { Ok(values) }
    }

    /// The share of all CPU time of these kinds (`idle`), where the collector brought any of them.
    pub(crate) fn cpu_share(&self, trial: &Trial, kinds: &[&str]) -> Result<f64, Missing> {
        let all = self.values(trial, "cpu", "cpu_share")?;
        let of_kinds = all.into_iter().filter(|(kind, _)| kinds.contains(kind)).map(|(_, share)| share);
        of_kinds
            .reduce(|sum, share| sum + share)
            .ok_or_else(|| brought_no("cpu", &format!("share of {}", kinds.join(", "))))
    }

    /// CPU time of the watched tasks in a trial, s.
    pub(crate) fn cpu_s(&self, trial: &Trial) -> Result<f64, Missing> {
        let by_switches = self.required(trial, "switches", "on_cpu_s", |_| true);
        by_switches.or_else(|why| {
            let cpus = self.required(trial, "cpu", "cpu_used", |_| true).map_err(|_| why)?;
            Ok(cpus * window_s(trial))
        })
    }

    /// A piece from every trial that has one.
    pub(crate) fn pieces(&self, piece: impl Fn(&Trial) -> Result<Piece, Missing>) -> Result<Pieces, Missing> {
        let mut left_out = None;
        let had = |trial: &'a Trial| {
            piece(trial).inspect_err(|missing| {
                left_out.get_or_insert_with(|| missing.clone());
            })
        };
        let (trials, pieces) = self.of_trials(had)?;
        Ok(Pieces { pieces, trials, left_out })
    }

    /// What every trial that has it has of something, the sequence numbers of the trials first.
    ///
    /// # Errors
    /// Why the first trial has it not, where none has it.
    pub(crate) fn of_trials<T>(
        &self,
        mut of: impl FnMut(&'a Trial) -> Result<T, Missing>,
    ) -> Result<(Vec<u32>, Vec<T>), Missing> {
        let (mut found, mut left_out) = ((Vec::new(), Vec::new()), None);
        for trial in self.trials.iter().copied() {
            match of(trial) {
                Ok(had) => {
                    found.0.push(trial.seq);
                    found.1.push(had);
                }
                Err(missing) => left_out = left_out.or(Some(missing)),
            }
        }
        match left_out {
            Some(missing) if found.0.is_empty() => Err(missing),
            _ => Ok(found),
        }
    }

    /// The sums of an item over all trials by label, largest first. Labels that sort first win ties.
    pub(crate) fn by_label(&self, id: &str, item: &str) -> Vec<(String, f64)> {
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        for collected in self.of_collector(id) {
            for found in collected.items.iter().filter(|i| i.name == item) {
                if let Some(value) = found.value.value().filter(|v| *v > 0.0) {
                    *sums.entry(found.label.as_deref().unwrap_or_default()).or_default() += value;
                }
            }
        }
        let mut sorted: Vec<(String, f64)> = sums.into_iter().map(|(label, sum)| (label.to_owned(), sum)).collect();
        sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
        sorted
    }

    /// The largest value of an item of this label in any trial.
    pub(crate) fn most(&self, id: &str, item: &str, label: &str) -> Option<f64> {
        let all = self.of_collector(id).flat_map(|c| &c.items);
        let of_label = all.filter(|i| i.name == item && i.label.as_deref() == Some(label));
        of_label.filter_map(|i| i.value.value()).reduce(f64::max)
    }

    /// A histogram over all trials; empty when there is none. `None` for a label accepts only those without one.
    pub(crate) fn histogram(&self, id: &str, name: &str, accept: impl Fn(&str) -> bool) -> SparseHistogram {
        let mut whole = SparseHistogram::new();
        for collected in self.of_collector(id) {
            for found in of_name(&collected.histograms, name) {
                if accept(found.label.as_deref().unwrap_or_default()) {
                    whole.add(&found.histogram);
                }
            }
        }
        whole
    }

    /// The stack profiles of one name in all trials.
    pub(crate) fn stacks(&self, id: &str, name: &str) -> Vec<&'a StackProfile> {
        self.of_collector(id).flat_map(|c| &c.stacks).filter(|p| p.name == name).collect()
    }

    pub(crate) fn of_collector(&self, id: &str) -> impl Iterator<Item = &'a Collected> {
        self.trials.iter().flat_map(|t| &t.evidence).filter(move |c| c.collector == id)
    }

    /// Those of some references that some trial really has.
    pub(crate) fn present(&self, wanted: &[(&str, &str)]) -> Vec<EvidenceRef> {
        let has = |(id, item): &(&str, &str)| {
            self.of_collector(id).any(|c| {
                c.items.iter().any(|i| i.name == *item && i.value.value().is_some())
                    || c.histograms.iter().any(|h| h.name == *item)
                    || c.stacks.iter().any(|s| s.name == *item)
            })
        };
        let present = wanted.iter().copied().filter(has);
        present.map(|(id, item)| EvidenceRef { collector: id.to_owned(), item: item.to_owned() }).collect()
    }
}

/// What an item holds.
pub(crate) fn measured(id: &str, item: &EvidenceItem) -> Result<f64, Missing> {
    match &item.value {
        Measured::Value(value) => Ok(*value),
        Measured::Absent(why) => Err(needs(id, why.clone())),
    }
}

fn brought_no(id: &str, item: &str) -> Missing {
    needs(id, format!("it brought no {item}"))
}

fn needs(id: &str, why: String) -> Missing {
    Missing { collector: id.to_owned(), why, remedy: format!("`holdup list collectors {id}` says what it needs") }
}

fn of_name<'h>(histograms: &'h [EvidenceHistogram], name: &str) -> impl Iterator<Item = &'h EvidenceHistogram> {
    histograms.iter().filter(move |h| h.name == name)
}

/// True if an arm repeats another on purpose, with all of its levels and collectors.
pub(crate) fn twins(arm: &Arm, other: &Arm) -> bool {
    other.replica == Some(Replica::Same)
        && arm.replica.is_none()
        && (&arm.workload, &arm.axes, &arm.factors) == (&other.workload, &other.axes, &other.factors)
}

/// The length of a trial's window, s; zero when it never opened.
pub(crate) fn window_s(trial: &Trial) -> f64 {
    trial.window.map_or(0.0, |w| w.length_ns as f64 / 1e9)
}

/// The time in the histograms of one trial whose label is accepted, s.
pub(crate) fn seconds_in(collected: &Collected, name: &str, accept: impl Fn(&str) -> bool) -> f64 {
    of_name(&collected.histograms, name)
        .filter(|h| accept(h.label.as_deref().unwrap_or_default()))
        .map(|h| h.histogram.mean_ns().unwrap_or(0.0) * h.histogram.count() as f64 / 1e9)
        .sum()
}

/// What stands behind the last `: ` of a label (`SECTION: CONTEXT`), or the whole.
pub(crate) fn after_colon(label: &str) -> &str {
    label.rsplit_once(": ").map_or(label, |(_, behind)| behind)
}

/// What stands before the last `: ` of a label, or the whole.
pub(crate) fn before_colon(label: &str) -> &str {
    label.rsplit_once(": ").map_or(label, |(before, _)| before)
}
