//! The workloads of plans as programs: what they bring on machines on which it can be reckoned.

use holdup_model::{Measured, Measurement, Parameters, Value};
use holdup_sim::machine::{Costs, Machine, known};
use holdup_sim::seen::Seen;
use holdup_sim::workloads::{self, Levels};
use holdup_sim::world::World;

fn machine() -> Machine {
    known::find("server-8").expect("it is there").machine
}

fn parameters(of: &[(&str, Value)]) -> Parameters {
    let mut all = Parameters::default();
    of.iter().for_each(|(name, value)| all.set(name, value.clone()));
    all
}

const MESSENGER: [&str; 11] = [
    "groups=2",
    "senders=3",
    "receivers=4",
    "size=100",
    "sharing=processes",
    "transport=socketpair",
    "messages=0",
    "timing=on",
    "sample_every=16",
    "placement=none",
    "by=holdup",
];
const WAKEUP: [&str; 8] = [
    "threads=8",
    "interval=1000000",
    "distance=0",
    "priority=0",
    "pin=on",
    "cpus=allowed",
    "placement=none",
    "by=holdup",
];

/// Parameters as `name=value`; the last of a name counts.
fn read(texts: &[&str], prefix: &str) -> Parameters {
    let value = |text: &str| match (text, text.parse::<i64>()) {
        ("on", _) => Value::Bool(true),
        ("off", _) => Value::Bool(false),
        (_, Ok(number)) => Value::Integer(number),
        _ => Value::Text(text.to_owned()),
    };
    let pairs: Vec<(String, Value)> = texts
        .iter()
        .map(|text| text.split_once('=').expect("name=value"))
        .map(|(name, text)| (format!("{prefix}{name}"), value(text)))
        .collect();
    parameters(&pairs.iter().map(|(name, value)| (name.as_str(), value.clone())).collect::<Vec<_>>())
}

/// What a workload brings in 50 ms after 10 ms, and what was seen.
fn run(workload: &str, parameters: &Parameters, machine: &Machine) -> (Vec<Measurement>, Seen) {
    let workload = workloads::find(workload).expect("it is there");
    let load = workload.load(parameters, &Levels::new(), machine).expect("a load");
    let mut world = World::new(machine, &load, 1);
    world.run_until(10_000_000);
    world.open();
    world.run_until(60_000_000);
    world.glance().expect("in order");
    let seen = world.close().clone();
    (workload.results(parameters, &seen, 50_000_000).0, seen)
}

fn number(all: &[Measurement], id: &str) -> f64 {
    match all.iter().find(|m| m.metric == id).map(|m| &m.value) {
        Some(Measured::Value(value)) => *value,
        other => panic!("{id}: {other:?}"),
    }
}

#[test]
fn a_wake_up_on_an_idle_machine_is_as_late_as_its_costs_are_long() {
    let mut machine = machine();
    let Costs { ipi_ns, idle_exit_ns, switch_ns, timer_slack_ns, .. } = machine.costs;
    let exact_ns = ipi_ns + idle_exit_ns + switch_ns;
    for (priority, expect_ns) in [("priority=0", timer_slack_ns + exact_ns), ("priority=80", exact_ns)] {
        let (all, seen) = run("wakeup", &read(&[&WAKEUP[..], &[priority]].concat(), ""), &machine);
        // Eight threads, one wake-up each millisecond.
        assert_eq!(number(&all, "cycles"), 400.0, "{priority}");
        assert_eq!(number(&all, "missed_periods"), 0.0, "{priority}");
        let (least, most) = seen.marks[0].lengths.range_ns().expect("they woke");
        assert!(least <= expect_ns && expect_ns <= most, "{priority}: {least} to {most}, not {expect_ns}");
        // The histogram keeps three digits.
        assert!((most - least) as f64 <= 0.002 * expect_ns as f64, "{priority}: {least} to {most}");
    }
    // An interval that is shorter than the way there and back misses every other moment.
    machine.costs.idle_exit_ns = 15_000 - ipi_ns - switch_ns;
    let (all, _) =
        run("wakeup", &read(&[&WAKEUP[..], &["priority=80", "interval=10000", "threads=1"]].concat(), ""), &machine);
    assert_eq!(number(&all, "cycles"), number(&all, "missed_periods"));
}

#[test]
fn messages_are_conserved_and_all_receivers_get_some() {
    for transport in ["transport=socketpair", "transport=pipe"] {
        for senders in ["senders=1", "senders=9"] {
            let parameters = read(&[&MESSENGER[..], &[transport, senders]].concat(), "");
            let (all, seen) = run("messenger", &parameters, &machine());
            let under_way = number(&all, "messages_sent") - number(&all, "messages_received");
            // Each of the 8 channels holds 640 messages at most, each of up to 18 senders is in a call.
            assert!((-18.0..=8.0 * 640.0).contains(&under_way), "{transport} {senders}: {under_way} under way");
            assert!(number(&all, "messages_per_s") > 100_000.0, "{transport} {senders}");
            let received = seen.by_task.iter().enumerate().filter(|(task, _)| is_receiver(*task, senders));
            assert!(received.clone().all(|(_, n)| *n > 100), "{transport} {senders}: {:?}", seen.by_task);
            assert_eq!(received.map(|(_, n)| n).sum::<u64>(), seen.marks[0].count, "{transport} {senders}");
        }
    }
}

/// Whether a task of two groups with 4 receivers each is one of these.
fn is_receiver(task: usize, senders: &str) -> bool {
    let senders: usize = senders.split_once('=').expect("a number").1.parse().expect("a number");
    task % (4 + senders) < 4
}

#[test]
fn members_share_a_machine_and_are_counted_for_themselves() {
    let machine = machine();
    let often = [&WAKEUP[..], &["interval=100000"]].concat();
    let alone = run("wakeup", &read(&often, ""), &machine).0;
    let mut both = parameters(&[("foreground", "wakeup".into()), ("background", "none".into())]);
    both.0.extend(read(&often, "wakeup.").0);
    let (same, _) = run("mixed", &both, &machine);
    assert_eq!(same, alone, "nobody is behind it");
    both.set("background", "messenger");
    both.0.extend(read(&[&MESSENGER[..], &["groups=8", "senders=20", "receivers=20"]].concat(), "messenger.").0);
    let (mixed, seen) = run("mixed", &both, &machine);
    assert!(number(&mixed, "latency_p99_us") > 5.0 * number(&alone, "latency_p99_us"), "{mixed:?}");
    assert!(number(&mixed, "messenger.messages_per_s") > 100_000.0);
    let (received, cycles) = (number(&mixed, "messenger.messages_per_s") * 0.05, number(&mixed, "cycles"));
    let counted: u64 = seen.by_task.iter().sum();
    assert_eq!(counted, (received + cycles).round() as u64, "by task they are all counted");
}
