//! What others captured, as a bundle: one arm for each capture, one trial each. Nothing is run, so that there are no facts of
//! a host in it, and its times are those of the captures.

use crate::head::{number_of, without_place};
use holdup_bundle::Writer;
use holdup_model::bundle::{BundleHead, CollectorState, Ending, IMPORTED};
use holdup_model::plan::Level;
use holdup_model::{Arm, Availability, Collected, Factor, Machine, Plan, Problem, Schedule, Trial, TrialSpec, Window};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

/// The workload of an import in its bundle.
const CAPTURED: &str = "captured";

/// The collector whose evidence a capture of packets is.
const COLLECTOR: &str = "capture";

/// The factor that distinguishes the arms.
const FACTOR: &str = "capture";

/// One capture.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Its name, unlike those of the others.
    pub name: String,
    /// When its first frame was captured, and its last, ns since 1970.
    pub times_unix_ns: (i64, i64),
    /// What was seen in it.
    pub evidence: Collected,
    /// What else is worth keeping.
    pub notes: Vec<String>,
}

/// Writes the bundle of captures; the first is the baseline.
///
/// # Errors
/// When it cannot be written; a file that is there is never overwritten.
pub fn import(captures: Vec<Imported>, command: &[String], out: &Path) -> Result<(), Problem> {
    let (plan, schedule) = plan(&captures);
    let source = "# This bundle was imported from captures that others made: there is no plan to run.\n";
    let states = [CollectorState { id: COLLECTOR.to_owned(), availability: Availability::Ready }];
    let mut writer = Writer::create(out, &head(&captures, command), &plan, source, &schedule, &[], &states)?;
    for (spec, capture) in schedule.trials.iter().zip(captures) {
        writer.add_trial(&trial(*spec, capture))?;
    }
    writer.finish(&Ending::Complete)
}

fn head(captures: &[Imported], command: &[String]) -> BundleHead {
    let content = |c: &Imported| format!("{} {:?} {:?}", c.name, c.times_unix_ns, c.evidence.items);
    let words: String = captures.iter().map(content).collect();
    head_of_import(&words, captures.iter().map(|c| c.times_unix_ns.0).min(), command)
}

/// What stands at the begin of an imported bundle: the same contents, in words, give the same, whenever and wherever they
/// are imported. `begin_unix_ns` is when the first of it was measured, where that is known.
pub fn head_of_import(words: &impl Display, begin_unix_ns: Option<i64>, command: &[String]) -> BundleHead {
    BundleHead {
        run_id: format!("{:016x}{:08x}", number_of(words), 0),
        holdup_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: without_place(command),
        created_unix_ns: begin_unix_ns.unwrap_or(0),
        target: IMPORTED.to_owned(),
        emulated: None,
        machine: Machine { cpus: 0, memory_bytes: 0 },
    }
}

fn plan(captures: &[Imported]) -> (Plan, Schedule) {
    let names: Vec<&str> = captures.iter().map(|c| c.name.as_str()).collect();
    let question = match names.as_slice() {
        [one] => format!("What is in {one}?"),
        [first, others @ ..] => format!("What got worse from {first} to {}?", others.join(", ")),
        [] => String::new(),
    };
    let levels = names.iter().map(|name| Level::plain(*name)).collect();
    let plan = Plan {
        factors: vec![Factor { name: FACTOR.to_owned(), levels, workloads: Vec::new(), optional: false }],
        collectors: vec![COLLECTOR.to_owned()],
        ..Plan::observational(IMPORTED, question, CAPTURED, IMPORTED)
    };
    let arm = |(id, name): (u32, &&str)| Arm {
        id,
        label: (*name).to_owned(),
        workload: CAPTURED.to_owned(),
        axes: BTreeMap::new(),
        factors: [(FACTOR.to_owned(), Level::plain(*name))].into(),
        replica: None,
    };
    let trial = |n| TrialSpec { seq: n, session: 0, boot: 0, block: 0, position: n, arm: n };
    let schedule =
        Schedule { arms: (0..).zip(&names).map(arm).collect(), trials: (0..names.len() as u32).map(trial).collect() };
    (plan, schedule)
}

fn trial(spec: TrialSpec, capture: Imported) -> Trial {
    let (begin_unix_ns, end_unix_ns) = capture.times_unix_ns;
    let length_ns = u64::try_from(end_unix_ns.saturating_sub(begin_unix_ns)).unwrap_or(0);
    let blank = Trial::begun(begin_unix_ns);
    Trial {
        seq: spec.seq,
        position: spec.position,
        arm: spec.arm,
        started_unix_ns: begin_unix_ns,
        ended_unix_ns: end_unix_ns,
        window: Some(Window { begin_unix_ns, end_unix_ns, length_ns }),
        evidence: vec![capture.evidence],
        notes: capture.notes,
        ..blank
    }
}
