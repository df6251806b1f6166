//! Distributions and call stacks of many trials as one.

use holdup_model::stacks::{Frame, Stack};
use holdup_model::{BundleData, Problem, SparseHistogram, StackProfile, Timeline, Trial};
use std::collections::BTreeMap;

/// Which trials of a bundle are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// The arm, by its label or its number; `None` for all.
    pub arm: Option<String>,
    /// The trial, by its number; it may be void. `None` for all that count.
    pub trial: Option<u32>,
    /// The profile (`on_cpu`); `None` for `on_cpu`, or the only one that is there.
    pub profile: Option<String>,
}

/// What identifies a histogram of evidence: collector, name, label.
pub(crate) type HistogramKey<'a> = (&'a str, &'a str, Option<&'a str>);

/// The histograms of evidence of some trials, all trials together.
pub(crate) fn histograms<'a>(trials: impl Iterator<Item = &'a Trial>) -> BTreeMap<HistogramKey<'a>, SparseHistogram> {
    let mut all: BTreeMap<HistogramKey<'a>, SparseHistogram> = BTreeMap::new();
    for c in trials.flat_map(|t| &t.evidence) {
        for h in &c.histograms {
            all.entry((&c.collector, &h.name, h.label.as_deref())).or_default().add(&h.histogram);
        }
    }
    all
}

/// The stack profiles of some trials: those of one name, unit and period as one, by name. Weights are added up.
pub(crate) fn profiles<'a>(trials: impl Iterator<Item = &'a Trial>) -> Vec<StackProfile> {
    let mut groups: BTreeMap<(&str, &str, u64), Merger<'a>> = BTreeMap::new();
    for p in trials.flat_map(|t| &t.evidence).flat_map(|c| &c.stacks) {
        groups.entry((&p.name, &p.unit, p.period_ns)).or_default().add(p);
    }
    let mut all: Vec<StackProfile> = groups
        .into_iter()
        .map(|((name, unit, period_ns), merger)| StackProfile {
            name: name.to_owned(),
            unit: unit.to_owned(),
            period_ns,
            truncated: merger.truncated,
            stacks: merger.stacks(),
            frames: merger.frames.into_iter().cloned().collect(),
        })
        .collect();
    all.iter_mut().for_each(holdup_model::on_cpu_states::add);
    all
}

/// What identifies a stack: task, role, functions.
type StackKey<'a> = (&'a str, Option<&'a str>, Vec<u32>);

#[derive(Default)]
struct Merger<'a> {
    places: BTreeMap<&'a Frame, u32>,
    frames: Vec<&'a Frame>,
    weights: BTreeMap<StackKey<'a>, u64>,
    truncated: u64,
}

impl<'a> Merger<'a> {
    fn add(&mut self, profile: &'a StackProfile) {
        let mut place = |frame: &'a Frame| {
            let next = self.frames.len() as u32;
            *self.places.entry(frame).or_insert_with(|| {
                self.frames.push(frame);
                next
            })
        };
        let places: Vec<u32> = profile.frames.iter().map(&mut place).collect();
        for s in &profile.stacks {
            // The store and the agent's line hold every index to the list of functions.
            let frames = s.frames.iter().filter_map(|f| places.get(*f as usize).copied()).collect();
            let weight = self.weights.entry((&s.task, s.role.as_deref(), frames)).or_default();
            *weight = weight.saturating_add(s.weight);
        }
        self.truncated = self.truncated.saturating_add(profile.truncated);
    }

    /// The stacks, heaviest first.
    fn stacks(&self) -> Vec<Stack> {
        let mut stacks: Vec<Stack> = self
            .weights
            .iter()
            .map(|((task, role, frames), weight)| Stack {
                task: (*task).to_owned(),
                role: role.map(str::to_owned),
                frames: frames.clone(),
                weight: *weight,
            })
            .collect();
        // Stable: stacks of one weight stay in the order of their names.
        stacks.sort_by_key(|s| std::cmp::Reverse(s.weight));
        stacks
    }
}

/// The trials that are meant.
///
/// # Errors
/// A usage problem when there is no such arm or trial, or no trial of the arm counts.
fn trials<'a>(bundle: &'a BundleData, choice: &Choice) -> Result<Vec<&'a Trial>, Problem> {
    let arm = match &choice.arm {
        None => None,
        Some(wanted) => {
            let found = bundle.schedule.arms.iter().find(|a| a.label == *wanted || a.id.to_string() == *wanted);
            let arm = found.ok_or_else(|| {
                Problem::usage(format!("arm {wanted}"), "the bundle has no such arm")
                    .hint("holdup list arms BUNDLE names its arms")
            })?;
            Some(arm.id)
        }
    };
    let of_arm = |t: &&Trial| arm.is_none_or(|a| t.arm == a);
    let meant: Vec<&Trial> = match choice.trial {
        Some(seq) => bundle.trials.iter().filter(|t| t.seq == seq).filter(of_arm).collect(),
        None => bundle.trials.iter().filter(|t| t.is_done()).filter(of_arm).collect(),
    };
    match (meant.is_empty(), choice.trial) {
        (false, _) => Ok(meant),
        (true, Some(seq)) => {
            let of_arm = choice.arm.as_ref().map(|a| format!(" of the arm {a}")).unwrap_or_default();
            Err(Problem::usage(format!("trial {seq}"), format!("the bundle has no such trial{of_arm}"))
                .hint("holdup list trials BUNDLE names its trials"))
        }
        (true, None) => Err(Problem::usage("the trials", "none of them counts").hint("name a void one with --trial")),
    }
}

/// One stack profile of the trials that are meant, added up over them.
///
/// # Errors
/// A usage problem when there is no such arm, trial or profile.
pub fn profile(bundle: &BundleData, choice: &Choice) -> Result<StackProfile, Problem> {
    let mut all = profiles(trials(bundle, choice)?.into_iter());
    let names: Vec<String> = all.iter().map(|p| p.name.clone()).collect();
    let hint = "collect them with --collect cpu-profile or --collect off-cpu";
    let at = match &choice.profile {
        _ if all.is_empty() => {
            return Err(Problem::usage("call stacks", "the trials that are meant have none").hint(hint));
        }
        Some(wanted) => names.iter().position(|n| n == wanted),
        None if all.len() == 1 => Some(0),
        None => names.iter().position(|n| n == "on_cpu"),
    };
    let Some(at) = at else {
        let what = choice.profile.as_ref().map_or("the profile".to_owned(), |p| format!("the profile {p}"));
        return Err(Problem::usage(what, format!("there are {}", names.join(", "))).hint("choose one with --profile"));
    };
    if names.iter().filter(|n| **n == names[at]).count() > 1 {
        return Err(Problem::usage(
            format!("the profile {}", names[at]),
            "its samples stand for different times in different trials, so they do not add up",
        )
        .hint("choose one trial with --trial"));
    }
    Ok(all.swap_remove(at))
}

/// The timeline of the trials that are meant, the first where several have one.
///
/// # Errors
/// A usage problem when there is no such arm or trial, or none has a timeline.
pub fn timeline<'a>(bundle: &'a BundleData, choice: &Choice) -> Result<(&'a Trial, &'a Timeline), Problem> {
    let meant = trials(bundle, choice)?;
    let found = meant.iter().find_map(|t| {
        let timeline = t.evidence.iter().find_map(|c| c.timeline.as_ref())?;
        Some((*t, timeline))
    });
    found.ok_or_else(|| {
        let stacks = meant.iter().flat_map(|t| &t.evidence).any(|c| !c.stacks.is_empty());
        let why = match stacks {
            true => "the trials that are meant have call stacks, and no events in the order of time",
            false => "the trials that are meant have none",
        };
        Problem::usage("a timeline", why).hint("run again with --collect timeline")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::stacks::FrameKind;

    fn profile(frames: &[&str], stacks: &[(&[u32], u64)]) -> StackProfile {
        let frame = |f: &&str| Frame { function: (*f).to_owned(), module: None, kind: FrameKind::User };
        let stack = |(frames, weight): &(&[u32], u64)| Stack {
            task: "postgres".to_owned(),
            role: None,
            frames: frames.to_vec(),
            weight: *weight,
        };
        StackProfile {
            name: "on_cpu".to_owned(),
            unit: "samples".to_owned(),
            frames: frames.iter().map(frame).collect(),
            stacks: stacks.iter().map(stack).collect(),
            truncated: 1,
            ..StackProfile::default()
        }
    }

    #[test]
    fn stacks_are_one_by_their_functions_and_not_by_their_numbers() {
        let (a, b) = (profile(&["main", "f"], &[(&[0, 1], 5)]), profile(&["f", "main"], &[(&[1, 0], 2), (&[1], 9)]));
        let mut merger = Merger::default();
        merger.add(&a);
        merger.add(&b);
        let stacks: Vec<(Vec<u32>, u64)> = merger.stacks().into_iter().map(|s| (s.frames, s.weight)).collect();
        assert_eq!(stacks, [(vec![0], 9), (vec![0, 1], 7)]);
        assert_eq!((merger.frames.len(), merger.truncated), (2, 2));
    }
}
