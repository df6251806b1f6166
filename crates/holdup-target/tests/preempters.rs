//! Who takes the CPU from holders of a lock: what the counts of `critical-sections` say against the single events of
//! `timeline`, with a task that does so on purpose.

use holdup_catalogue::lock_contention;
use holdup_evidence::{CollectContext, Collecting, Collector, Subject};
use holdup_induce::trial::{Trial, prepare};
use holdup_model::timeline::TimelineKind;
use holdup_model::{Availability, Collected, Parameters};
use holdup_testkit::ignore;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::Duration;

const COLLECTORS: [&str; 3] = ["critical-sections", "timeline", "switches"];
const WINDOW_MS: u64 = 1_500;
/// The name of `holdup_induce::cpu_thief`.
const THIEF: &str = "hu-thief";

/// What the collectors say of holders that are inside for four fifths of their time.
fn watched(workers: u32) -> Vec<Collected> {
    let mut parameters: Parameters = lock_contention::Parameters::defaults(workers);
    parameters.set("section", 200_000);
    parameters.set("think", 50_000);
    let mut prepared = prepare("lock-contention", &parameters).expect("it can be prepared everywhere");
    let (sender, receiver) = mpsc::channel();
    let mut on_open = || {
        let all: Vec<&dyn Collector> =
            COLLECTORS.iter().map(|id| holdup_evidence::find(id).expect("it exists")).collect();
        let subjects = vec![Subject { role: "load".to_owned(), pid: std::process::id() }];
        let context = CollectContext { subjects, ..CollectContext::default() }.for_collectors(&all);
        let running: Vec<Box<dyn Collecting>> =
            all.iter().map(|c| c.start(&context).unwrap_or_else(|p| panic!("{p:?}"))).collect();
        let sender = sender.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(WINDOW_MS));
            sender.send(running.into_iter().map(Collecting::stop).collect()).expect("the test waits for it");
        });
    };
    Trial::new(&parameters, WINDOW_MS + 400).run_with(&mut *prepared, &mut on_open).expect("it runs");
    receiver.recv().expect("the watcher ended")
}

/// The values of a name, by label.
fn by_label<'a>(seen: &'a Collected, name: &str) -> BTreeMap<&'a str, f64> {
    let named = seen.items.iter().filter(|item| item.name == name);
    named.filter_map(|item| Some((item.label.as_deref()?, item.value.value()?))).collect()
}

/// Preemptions of holders by section and task, event by event.
fn of_the_timeline(seen: &Collected) -> BTreeMap<String, f64> {
    let timeline = seen.timeline.as_ref().expect("a timeline");
    assert_eq!(timeline.lost, 0);
    let mut counts = BTreeMap::new();
    for event in &timeline.events {
        let TimelineKind::Switch { to: Some(to), left, section: Some(section), .. } = &event.kind else { continue };
        // The cause stands behind a colon, for a task that could go on.
        let (Some(section), true) = (section.strip_prefix("holder "), left.contains(": ")) else { continue };
        *counts.entry(format!("{section} < {}", timeline.tasks[*to as usize].name)).or_default() += 1.0;
    }
    counts
}

/// The two look at their begin and end one behind the other.
fn are_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= 3.0 + 0.02 * one.max(other)
}

fn who_took_the_cpu_from_holders_is_named() {
    let collector = holdup_evidence::find("critical-sections").expect("it exists");
    if let Availability::Unavailable { reason, .. } = collector.probe(&CollectContext::default()) {
        ignore(format!("critical-sections cannot work here: {reason}"));
    }
    let cpus = u32::try_from(std::thread::available_parallelism().expect("a number").get()).expect("it fits");
    let (busy, period) = (Duration::from_millis(1), Duration::from_millis(8));
    let thieves: Result<Vec<_>, _> = (0..cpus).map(|cpu| holdup_induce::cpu_thief(cpu, busy, period)).collect();
    let _thieves = match thieves {
        Ok(thieves) => thieves,
        Err(problem) => ignore(problem),
    };
    let seen = watched(cpus);
    let (summary, single) = (by_label(&seen[0], "holder_preempted_by"), of_the_timeline(&seen[1]));
    let causes = by_label(&seen[0], "holder_preempted_by_cause");
    println!("summary {summary:#?}\nof the timeline {single:#?}\ncauses {causes:#?}");
    let sum = |of: &mut dyn Iterator<Item = (&str, f64)>, end: &str| {
        of.filter(|(label, _)| label.ends_with(end)).map(|(_, value)| value).sum::<f64>()
    };
    let mut all = summary.iter().map(|(label, value)| (*label, *value));
    let stolen = sum(&mut all.clone(), &format!(" < {THIEF}"));
    // It comes some 180 times on each CPU, and somebody is inside most of the time; a loaded machine leaves less of it.
    assert!(stolen >= 5.0, "{stolen}");
    // The thief always has this name; others change theirs, and a timeline gives a task one name for all its events.
    let mut events = single.iter().map(|(label, value)| (label.as_str(), *value));
    let of_thief = sum(&mut events.clone(), &format!(" < {THIEF}"));
    assert!(are_near(stolen, of_thief), "{stolen} {of_thief}");
    let (all_counted, all_events) = (sum(&mut all.clone(), ""), sum(&mut events, ""));
    assert!(are_near(all_counted, all_events), "{all_counted} {all_events}");
    // It is of a higher class, and the cause says so; each preemption has one of both.
    let higher = sum(&mut causes.iter().map(|(label, value)| (*label, *value)), ": higher class");
    assert!(higher + 3.0 >= stolen, "{higher} {stolen}");
    assert!(are_near(sum(&mut all, ""), causes.values().sum()));
    // And the account of all preemptions has at least those of holders.
    let of_all = by_label(&seen[2], "preempted_by");
    let by_thief = sum(&mut of_all.iter().map(|(label, value)| (*label, *value)), &format!(" < {THIEF}"));
    assert!(by_thief + 3.0 >= stolen, "{by_thief} {stolen}");
}

holdup_testkit::tests!(
    truth:
    who_took_the_cpu_from_holders_is_named
);
