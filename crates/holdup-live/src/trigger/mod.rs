//! Conditions over windows: when a flight recorder writes what it has.
//!
//! ```text
//! share(preempted-holder) > 20%                              the share of a cause, as `holdup explain` gives it
//! p99(holdup_run_queue_wait_seconds{role="server"}) > 10ms   a quantile of the durations in one window
//! holdup_task_seconds{wait_event_type="Lock"} > 5            a counter, for each second
//! holdup_blocked_sessions >= 3 for 30s                       a gauge, in every window for so long
//! ```

mod parse;

use crate::families::{self, Family, Kind, Reading, Seen};
use holdup_model::explanation::ArmExplanation;
use holdup_model::{Problem, SparseHistogram, Trial};
use std::fmt;

/// What is compared with the bound.
#[derive(Debug, Clone, PartialEq)]
enum Of {
    /// The share of a cause in one window.
    Share(String),
    /// A quantile of a family's durations in one window, s.
    Quantile(f64, Selected),
    /// What a counter grows by each second, or what a gauge is.
    Sum(Selected),
}

/// Series of a family: its name, and the labels that they must have.
#[derive(Debug, Clone, PartialEq)]
struct Selected {
    family: String,
    labels: Vec<(String, String)>,
}

/// How it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// A condition over windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Trigger {
    text: String,
    of: Of,
    operator: Operator,
    bound: f64,
    /// In windows of this much time, one after the other, ns; 0 for one window.
    for_ns: u64,
    /// For how long it has held, ns.
    held_ns: u64,
    /// True if it has been said that it holds.
    is_on: bool,
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Trigger {
    /// Reads a condition.
    ///
    /// # Errors
    /// When it is none, with the place; when it names a family, a label or a cause that does not exist.
    pub fn parse(text: &str) -> Result<Self, Problem> {
        parse::trigger(text)
    }

    /// Looks at a window. The value, where the condition begins to hold with it; it must cease to hold before it can
    /// begin again.
    pub fn look(&mut self, trial: &Trial, alone: Option<&ArmExplanation>, cpus: u32) -> Option<f64> {
        let length_ns = trial.window.map_or(0, |w| w.length_ns);
        // A window without evidence says nothing: what held still holds.
        let value = self.value(trial, alone, cpus)?;
        let holds = match self.operator {
            Operator::Above => value > self.bound,
            Operator::AtLeast => value >= self.bound,
            Operator::Below => value < self.bound,
            Operator::AtMost => value <= self.bound,
        };
        if !holds {
            (self.held_ns, self.is_on) = (0, false);
            return None;
        }
        self.held_ns = self.held_ns.saturating_add(length_ns);
        let begins = !self.is_on && self.held_ns >= self.for_ns;
        self.is_on |= begins;
        begins.then_some(value)
    }

    fn value(&self, trial: &Trial, alone: Option<&ArmExplanation>, cpus: u32) -> Option<f64> {
        let seen = Seen::of(trial, alone, cpus);
        match &self.of {
            Of::Share(cause) => alone?.causes.iter().find(|c| c.id == *cause)?.plain_share,
            Of::Sum(selected) => {
                let (seen, family) = (seen?, selected.family()?);
                let sum = selected.sum(&seen)?;
                Some(if family.kind == Kind::Gauge { sum } else { sum / seen.length_s })
            }
            Of::Quantile(quantile, selected) => {
                let durations = selected.durations(&seen?);
                durations.quantile_ns(*quantile).map(|ns| ns as f64 / 1e9)
            }
        }
    }
}

impl Selected {
    fn family(&self) -> Option<&'static Family> {
        families::all().find(|family| family.name == self.family)
    }

    /// True if a series has the labels.
    fn accepts(&self, family: &Family, values: &[&str]) -> bool {
        self.labels.iter().all(|(name, wanted)| {
            let at = family.labels.iter().position(|label| label == name);
            at.and_then(|at| values.get(at)).is_some_and(|value| value == wanted)
        })
    }

    /// What its series have in a window, one by one.
    fn each(&self, seen: &Seen<'_>, take: &mut dyn FnMut(Reading<'_>)) {
        if let Some(family) = self.family() {
            (family.read)(seen, &mut |values, reading| {
                if self.accepts(family, values) {
                    take(reading);
                }
            });
        }
    }

    /// The sum of the series; zero where the window has evidence and none of these series.
    fn sum(&self, seen: &Seen<'_>) -> Option<f64> {
        let mut sum = 0.0;
        self.each(seen, &mut |reading| {
            sum += match reading {
                Reading::Number(value) => value,
                Reading::Durations(durations) => durations.count() as f64,
            }
        });
        (!seen.trial.evidence.is_empty()).then_some(sum)
    }

    fn durations(&self, seen: &Seen<'_>) -> SparseHistogram {
        let mut all = SparseHistogram::new();
        self.each(seen, &mut |reading| {
            if let Reading::Durations(durations) = reading {
                all.add(durations);
            }
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::{Collected, EvidenceHistogram, EvidenceItem, Window};

    fn window(blocked: f64, waits_ns: &[u64]) -> Trial {
        let mut histogram = SparseHistogram::new();
        waits_ns.iter().for_each(|ns| histogram.record_ns(*ns));
        let blockers = Collected {
            collector: "blockers".to_owned(),
            items: vec![EvidenceItem::labelled("blocked_sessions", "pid 1 | active", "sessions", blocked)],
            ..Collected::default()
        };
        let label = Some("server: after wake-up".to_owned());
        let switches = Collected {
            collector: "switches".to_owned(),
            items: vec![EvidenceItem::labelled("on_cpu_s", "server", "s", 3.0)],
            histograms: vec![EvidenceHistogram { name: "run_queue_wait_ns".to_owned(), label, histogram }],
            ..Collected::default()
        };
        let window = Window { begin_unix_ns: 0, end_unix_ns: 2_000_000_000, length_ns: 2_000_000_000 };
        Trial { window: Some(window), evidence: vec![blockers, switches], ..Trial::default() }
    }

    fn look(trigger: &mut Trigger, trial: &Trial) -> Option<f64> {
        trigger.look(trial, None, 2)
    }

    #[test]
    fn it_begins_to_hold_once() {
        let mut trigger = Trigger::parse("holdup_blocked_sessions >= 3").expect("it reads");
        let pushed: Vec<Option<f64>> =
            [1.0, 3.0, 4.0, 2.0, 5.0].iter().map(|n| look(&mut trigger, &window(*n, &[]))).collect();
        assert_eq!(pushed, [None, Some(3.0), None, None, Some(5.0)]);
    }

    #[test]
    fn it_must_hold_for_as_long_as_it_says() {
        let mut trigger = Trigger::parse("holdup_blocked_sessions > 2 for 5s").expect("it reads");
        let pushed: Vec<bool> = [3.0, 3.0, 1.0, 3.0, 3.0, 3.0, 3.0]
            .iter()
            .map(|n| look(&mut trigger, &window(*n, &[])).is_some())
            .collect();
        assert_eq!(pushed, [false, false, false, false, false, true, false]);
    }

    #[test]
    fn counters_are_for_each_second_and_quantiles_of_one_window() {
        let mut rate = Trigger::parse("holdup_on_cpu_seconds{role=\"server\"} > 1.4").expect("it reads");
        assert_eq!(look(&mut rate, &window(0.0, &[])), Some(1.5));
        let mut other = Trigger::parse("holdup_on_cpu_seconds{role=\"load\"} > 0").expect("it reads");
        assert_eq!(look(&mut other, &window(0.0, &[])), None);
        let mut p99 = Trigger::parse("p99(holdup_run_queue_wait_seconds{after=\"wake_up\"}) > 10ms").expect("it reads");
        assert_eq!(look(&mut p99, &window(0.0, &[1_000_000; 100])), None);
        assert!(look(&mut p99, &window(0.0, &[20_000_000; 100])).is_some_and(|s| (s - 0.02).abs() < 0.001));
        assert_eq!(look(&mut p99, &window(0.0, &[])), None, "without a duration there is no quantile");
    }

    #[test]
    fn a_window_without_evidence_says_nothing() {
        let mut trigger = Trigger::parse("holdup_on_cpu_seconds < 1").expect("it reads");
        assert_eq!(look(&mut trigger, &Trial::default()), None);
    }
}
