//! What collectors count, as metrics: one number above zero from each trial, so that it can be searched and compared.
//!
//! A rate is a count or a time over the operations of its window. Of roles the server is taken where there is one, and
//! all others together where there is none.

use holdup_model::{BundleData, Collected, Direction, Measured, Measurement, Metric, Trial};

/// A member of the list.
#[derive(Debug, PartialEq)]
pub struct Rate {
    /// Its id as a metric.
    pub id: &'static str,
    /// The collector that brings it.
    pub collector: &'static str,
    item: &'static str,
    labels: Labels,
    amount: Amount,
    summary: &'static str,
}

/// How the labels of an item are made, and which of them count; no places are all of them.
#[derive(Debug, PartialEq)]
enum Labels {
    /// `ROLE` or `ROLE: PLACE`.
    Roles(&'static [&'static str]),
    /// `SECTION` or `SECTION: PLACE`; no section is known of some programs.
    Sections(&'static [&'static str]),
}

/// What an item is a number of.
#[derive(Debug, PartialEq)]
enum Amount {
    /// Events.
    Count,
    /// Seconds, of which the shortest that shows has this length.
    Seconds(f64),
}

/// What an amount is divided by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Per {
    /// Operations, of which this metric is the number in each second.
    Operation(String),
    /// Runs of a program: each trial is one.
    Run,
    /// Seconds of the window.
    Second,
}

use Amount::{Count, Seconds};
use Labels::{Roles, Sections};

const fn rate(
    id: &'static str,
    (collector, item): (&'static str, &'static str),
    labels: Labels,
    amount: Amount,
    summary: &'static str,
) -> Rate {
    Rate { id, collector, item, labels, amount, summary }
}

const IN_KERNEL: &[&str] = &["in a system call", "in a page fault"];
const EXACT: Amount = Seconds(1e-6);
/// The samples of critical-sections, 251 a second on each CPU.
const SAMPLED: Amount = Seconds(1.0 / 251.0);

const SWITCHED_OUT: (&str, &str) = ("switches", "switched_out");
const BY_CAUSE: (&str, &str) = ("switches", "preempted_by_cause");
const HOLDERS_OUT: (&str, &str) = ("critical-sections", "holder_switched_out");

/// All of them, in the order shown.
pub const ALL: &[Rate] = &[
    rate("switched_out_in_kernel", SWITCHED_OUT, Roles(&["in the kernel (R+)"]), Count, "runnable, inside the kernel"),
    rate(
        "switched_out_at_user_boundary",
        SWITCHED_OUT,
        Roles(&["user boundary (R)"]),
        Count,
        "runnable, on the way back",
    ),
    rate("switched_out_asleep", SWITCHED_OUT, Roles(&["sleeping", "blocked"]), Count, "not runnable any more"),
    rate("preempted_by_wakeup", BY_CAUSE, Roles(&["wake-up"]), Count, "for a task that woke up"),
    rate("preempted_at_slice_end", BY_CAUSE, Roles(&["slice end"]), Count, "at the end of the slice"),
    rate("migrated", ("switches", "migrated"), Roles(&[]), Count, "back on another CPU"),
    rate("run_queue_wait_us", ("switches", "run_queue_wait_s"), Roles(&[]), EXACT, "runnable without a CPU"),
    rate("on_cpu_us", ("switches", "on_cpu_s"), Roles(&[]), EXACT, "on a CPU"),
    rate("holder_switched_out", HOLDERS_OUT, Sections(&[]), Count, "holders of locks that left the CPU"),
    rate("holder_switched_out_in_kernel", HOLDERS_OUT, Sections(IN_KERNEL), Count, "of them, inside the kernel"),
    rate(
        "holder_left_after_fault",
        ("critical-sections", "holder_left_after"),
        Sections(&["page fault"]),
        Count,
        "holders that left on the way back from a page fault",
    ),
    rate("holder_off_cpu_us", ("critical-sections", "holder_off_cpu_s"), Sections(&[]), EXACT, "holders off the CPU"),
    rate(
        "lock_wait_on_cpu_us",
        ("critical-sections", "waiter_s"),
        Sections(&[]),
        SAMPLED,
        "waiting for locks on a CPU",
    ),
    rate("page_faults", ("faults", "faults"), Roles(&[]), Count, "page faults of all kinds"),
    rate("page_fault_us", ("faults", "fault_s"), Roles(&[]), EXACT, "in page faults"),
    rate("voluntary_switches", ("switch-counters", "voluntary_switches"), Roles(&[]), Count, "the task blocked"),
    rate("involuntary_switches", ("switch-counters", "involuntary_switches"), Roles(&[]), Count, "it was preempted"),
];

/// The member with this id.
pub fn find(id: &str) -> Option<&'static Rate> {
    ALL.iter().find(|rate| rate.id == id)
}

impl Per {
    /// What rates of a workload are divided by: a program runs once in each trial, and what has a throughput has operations.
    pub fn of(kind: &str, metrics: &[Metric]) -> Per {
        let is_throughput = |m: &&Metric| m.unit == "1/s" && m.better == Direction::Higher && !m.id.contains('.');
        match metrics.iter().find(is_throughput) {
            _ if ["command", "external"].contains(&kind) => Per::Run,
            Some(metric) => Per::Operation(metric.id.clone()),
            None => Per::Second,
        }
    }

    fn words(&self) -> &'static str {
        match self {
            Per::Operation(id) if id == "tps" => "transaction",
            Per::Operation(_) => "operation",
            Per::Run => "run",
            Per::Second => "s",
        }
    }

    /// By how much an amount of this trial is divided.
    fn number(&self, trial: &Trial) -> Result<f64, String> {
        let seconds = || {
            let window = trial.window.ok_or("its window never opened")?;
            Ok::<f64, String>(window.length_ns as f64 / 1e9)
        };
        let number = match self {
            Per::Run => 1.0,
            Per::Second => seconds()?,
            Per::Operation(id) => seconds()? * trial.metric(id).ok_or_else(|| format!("{id} is absent"))?,
        };
        if number > 0.0 && number.is_finite() { Ok(number) } else { Err("no operation ended in it".to_owned()) }
    }
}

impl Rate {
    /// As a metric; less is better.
    pub fn metric(&self, per: &Per) -> Metric {
        let what = if self.amount == Count { "1" } else { "us" };
        let summary = match self.amount {
            Count => format!("{} ({} of {})", self.summary, self.item, self.collector),
            Seconds(_) => format!("time {} ({} of {})", self.summary, self.item, self.collector),
        };
        Metric { id: self.id.to_owned(), unit: format!("{what}/{}", per.words()), better: Direction::Lower, summary }
    }

    /// The rate of one trial, always above zero: where nothing was seen, half of the least that shows.
    ///
    /// # Errors
    /// Why there is none. What was not looked for is no zero.
    pub fn of(&self, trial: &Trial, per: &Per) -> Result<f64, String> {
        let collected = trial.evidence.iter().find(|c| c.collector == self.collector);
        let collected = collected.ok_or_else(|| format!("the collector {} brought nothing", self.collector))?;
        let sum = self.sum(collected)?;
        let (least, scale) = match self.amount {
            Count => (1.0, 1.0),
            Seconds(shortest) => (shortest, 1e6),
        };
        let amount = if sum > 0.0 { sum } else { least / 2.0 };
        Ok(amount * scale / per.number(trial)?)
    }

    fn sum(&self, collected: &Collected) -> Result<f64, String> {
        let values = |item: &str| {
            let found = collected.items.iter().filter(|i| i.name == item);
            let value = |i: &holdup_model::EvidenceItem| match &i.value {
                Measured::Value(value) => Ok((i.label.clone().unwrap_or_default(), *value)),
                Measured::Absent(why) => Err(format!("{item} is absent: {why}")),
            };
            found.map(value).collect::<Result<Vec<(String, f64)>, String>>()
        };
        let all = values(self.item)?;
        let counts = |label: &str, places: &[&str]| {
            let place = label.rsplit_once(": ").map_or("", |(_, place)| place);
            places.is_empty() || places.contains(&place)
        };
        match self.labels {
            Roles(_) if all.is_empty() => Err(format!("{} brought no {}", self.collector, self.item)),
            Roles(places) => {
                let has_server = all.iter().any(|(label, _)| is_server(label));
                let of_role = all.iter().filter(|(label, _)| !has_server || is_server(label));
                Ok(of_role.filter(|(label, _)| counts(label, places)).map(|(_, value)| value).sum())
            }
            Sections(places) => {
                let mapped: f64 = values("sections_mapped")?.iter().map(|(_, value)| value).sum();
                if mapped == 0.0 && all.is_empty() {
                    return Err("no critical section of these programs is known".to_owned());
                }
                Ok(all.iter().filter(|(label, _)| counts(label, places)).map(|(_, value)| value).sum())
            }
        }
    }

    /// Adds the rate to every trial of a bundle, so that its arms can be compared by it.
    pub fn add_to(&self, bundle: &mut BundleData, workload: &str, per: &Per) {
        bundle.metrics.push((workload.to_owned(), self.metric(per)));
        for trial in &mut bundle.trials {
            let value = self.of(trial, per);
            trial.measurements.push(match value {
                Ok(value) => Measurement::new(self.id, value),
                Err(why) => Measurement::absent(self.id, why),
            });
        }
    }
}

fn is_server(label: &str) -> bool {
    label.split(": ").next() == Some("server")
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::{EvidenceItem, Window};

    fn trial(collector: &str, items: Vec<EvidenceItem>) -> Trial {
        Trial {
            window: Some(Window { begin_unix_ns: 0, end_unix_ns: 2_000_000_000, length_ns: 2_000_000_000 }),
            measurements: vec![Measurement::new("tps", 50.0)],
            evidence: vec![Collected { collector: collector.to_owned(), items, ..Collected::default() }],
            ..Trial::default()
        }
    }

    fn item(name: &str, label: &str, value: f64) -> EvidenceItem {
        EvidenceItem::labelled(name, label, "1", value)
    }

    fn tps() -> Per {
        Per::Operation("tps".to_owned())
    }

    #[test]
    fn the_server_is_taken_where_there_is_one() {
        let rate = find("switched_out_in_kernel").unwrap();
        let of_load = item("switched_out", "load: in the kernel (R+)", 7.0);
        let boundary = item("switched_out", "server: user boundary (R)", 90.0);
        let of_server = item("switched_out", "server: in the kernel (R+)", 30.0);
        let both = trial("switches", vec![of_load.clone(), boundary, of_server]);
        assert_eq!(rate.of(&both, &tps()), Ok(0.3));
        assert_eq!(rate.of(&both, &Per::Second), Ok(15.0));
        assert_eq!(rate.of(&trial("switches", vec![of_load]), &Per::Run), Ok(7.0));
        assert_eq!(rate.metric(&tps()).unit, "1/transaction");
    }

    #[test]
    fn nothing_seen_is_half_of_the_least_and_not_looked_for_is_an_error() {
        let rate = find("migrated").unwrap();
        assert_eq!(rate.of(&trial("switches", vec![item("migrated", "load", 0.0)]), &Per::Run), Ok(0.5));
        assert!(rate.of(&trial("switches", Vec::new()), &Per::Run).unwrap_err().contains("brought no migrated"));
        assert!(rate.of(&trial("cpu", Vec::new()), &Per::Run).unwrap_err().contains("switches brought nothing"));
        let absent = EvidenceItem::absent("migrated", "1", "the ring was lost");
        assert!(rate.of(&trial("switches", vec![absent]), &Per::Run).unwrap_err().contains("the ring was lost"));
        let holders = find("holder_switched_out").unwrap();
        let mapped = |n: f64| trial("critical-sections", vec![EvidenceItem::new("sections_mapped", "1", n)]);
        assert_eq!(holders.of(&mapped(3.0), &tps()), Ok(0.005));
        assert!(holders.of(&mapped(0.0), &tps()).unwrap_err().contains("no critical section"));
    }

    #[test]
    fn what_has_no_throughput_is_divided_by_seconds() {
        let metric =
            |id: &str, unit: &str, better| Metric { id: id.into(), unit: unit.into(), better, summary: String::new() };
        let all = [metric("lost_per_s", "1/s", Direction::Lower), metric("messages_per_s", "1/s", Direction::Higher)];
        assert_eq!(Per::of("ping", &all), Per::Operation("messages_per_s".to_owned()));
        assert_eq!(Per::of("wakeup", &all[..1]), Per::Second);
        assert_eq!(Per::of("command", &all), Per::Run);
    }
}
