//! Windows through the whole of this crate: kept, added up, and shown in each format.

use holdup_live::{Counters, Format, Kind, Memory, OTHER, Own, Value, render};
use holdup_model::bundle::{BundleHead, OBSERVED};
use holdup_model::{
    BundleData, Collected, EvidenceHistogram, EvidenceItem, Machine, Plan, Schedule, SparseHistogram, Trial, Window,
};

const SECOND_NS: i64 = 1_000_000_000;

fn watch() -> BundleData {
    let head = BundleHead {
        run_id: "1".to_owned(),
        holdup_version: "0".to_owned(),
        command: Vec::new(),
        created_unix_ns: 0,
        target: "local".to_owned(),
        emulated: None,
        machine: Machine { cpus: 2, memory_bytes: 1 << 30 },
    };
    let plan = Plan::observational("record", "What?".to_owned(), OBSERVED, "local");
    BundleData::begun(head, plan, Schedule::of_windows(OBSERVED, 0))
}

/// A window of two seconds that ends at this second, in which backends wait for a lock for `waits_s`.
fn window(end_s: i64, waits_s: f64) -> Trial {
    let item = |label: &str, s: f64| EvidenceItem::labelled("account_s", label, "s", s);
    let account = Collected {
        collector: "account".to_owned(),
        items: vec![
            item("client backend | on CPU | ", 1.5),
            item("client backend | asleep | Lock:transactionid", waits_s),
            item("client backend | asleep | Client:ClientRead", 4.0),
            item("checkpointer | asleep | Activity:CheckpointerMain", 2.0),
        ],
        ..Collected::default()
    };
    let mut histogram = SparseHistogram::new();
    [1_000, 1_500, 2_000_000, 5_000_000_000].iter().for_each(|ns| histogram.record_ns(*ns));
    let label = Some("server: after wake-up".to_owned());
    let switches = Collected {
        collector: "switches".to_owned(),
        items: vec![EvidenceItem::labelled("switched_out", "server: user boundary (R)", "1", 7.0)],
        histograms: vec![EvidenceHistogram { name: "run_queue_wait_ns".to_owned(), label, histogram }],
        ..Collected::default()
    };
    let length_ns = 2 * SECOND_NS;
    let window = Window {
        begin_unix_ns: end_s * SECOND_NS - length_ns,
        end_unix_ns: end_s * SECOND_NS,
        length_ns: length_ns.unsigned_abs(),
    };
    Trial {
        started_unix_ns: window.begin_unix_ns,
        ended_unix_ns: window.end_unix_ns,
        window: Some(window),
        evidence: vec![account, switches],
        ..Trial::default()
    }
}

fn two_windows() -> (Memory, Counters) {
    let (mut memory, mut counters) = (Memory::new(1 << 20), Counters::new("postgres", 100));
    memory.begin(watch());
    for (end_s, waits_s) in [(2, 1.5), (4, 3.5)] {
        let trial = window(end_s, waits_s);
        let alone = memory.push(trial.clone());
        counters.add(&trial, alone.as_ref(), 2);
    }
    (memory, counters)
}

/// The sum of the series of a family whose labels are accepted; of durations how many. `None` where it has none.
fn sum_of(counters: &Counters, family: &str, accept: impl Fn(&[String]) -> bool) -> Option<f64> {
    let (_, series) = counters.families().find(|(f, _)| f.name == family)?;
    let accepted = series.iter().filter(|(labels, _)| accept(labels)).map(|(_, series)| match &series.value {
        Value::Number(value) => *value,
        Value::Durations(histogram) => histogram.count() as f64,
    });
    accepted.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

fn text(counters: &[&Counters], own: &[Own], format: Format) -> String {
    String::from_utf8(render(counters, own, format)).expect("text")
}

#[test]
fn sums_are_those_of_the_windows_that_are_kept() {
    let (memory, counters) = two_windows();
    let sum = |name: &str, has: &str| sum_of(&counters, name, |labels| labels.iter().any(|label| label == has));
    assert_eq!(sum("holdup_task_seconds", "transactionid"), Some(5.0));
    assert_eq!(sum("holdup_cause_seconds", "heavyweight-lock"), Some(5.0));
    assert_eq!(sum("holdup_switches", "user_boundary"), Some(14.0));
    assert_eq!(sum_of(&counters, "holdup_watched_seconds", |_| true), Some(4.0));
    assert_eq!(sum_of(&counters, "holdup_run_queue_wait_seconds", |_| true), Some(8.0));
    // A gauge is of the last window: 3.5 of 5 s.
    assert_eq!(sum("holdup_cause_share_ratio", "heavyweight-lock"), Some(0.7));
    let bundle = memory.last(10).expect("a watch has begun");
    assert_eq!((bundle.trials.len(), bundle.schedule.trials.len(), bundle.plan.design.blocks), (2, 2, 2));
    assert_eq!(bundle.trials.iter().map(|t| t.seq).collect::<Vec<_>>(), [0, 1]);
    let bars: Vec<f64> = memory.bars().map(|bar| bar.states.iter().map(|(_, _, s)| s).sum()).collect();
    assert_eq!(bars, [3.0, 5.0]);
}

#[test]
fn memory_is_bounded_and_says_how_far_it_reaches() {
    let mut memory = Memory::new(20_000);
    assert!(memory.push(window(2, 1.0)).is_none(), "nothing is explained before a watch has begun");
    memory.begin(watch());
    for end in 2..500 {
        memory.push(window(2 * end, 1.0));
    }
    let n = memory.windows().len();
    assert!((5..100).contains(&n), "{n} windows");
    assert!(memory.bytes() <= 20_000, "{}", memory.bytes());
    assert_eq!(memory.reach_ns(), n as u64 * 2_000_000_000);
    let mut tiny = Memory::new(1);
    tiny.begin(watch());
    tiny.push(window(2, 1.0));
    tiny.push(window(4, 2.0));
    assert_eq!(tiny.windows().len(), 1, "the newest stays");
}

#[test]
fn the_formats_say_the_same() {
    let (_, counters) = two_windows();
    let own = [Own {
        name: "holdup_up",
        help: "Up.",
        kind: Kind::Gauge,
        unit: "",
        series: vec![(vec![("watched", "a\"b\\c\nd".to_owned())], 1.0)],
    }];
    let open = text(&[&counters], &own, Format::OpenMetrics);
    let plain = text(&[&counters], &own, Format::Text);
    let waits = "holdup_task_seconds_total{watched=\"postgres\",kind=\"client backend\",state=\"asleep\",\
                 wait_event_type=\"Lock\",wait_event=\"transactionid\"} 5\n";
    assert!(open.contains(waits) && plain.contains(waits), "{open}");
    assert!(open.contains("# TYPE holdup_task_seconds counter\n# UNIT holdup_task_seconds seconds\n"), "{open}");
    assert!(plain.contains("# TYPE holdup_task_seconds_total counter\n") && !plain.contains("# UNIT"), "{plain}");
    assert!(open.ends_with("holdup_up{watched=\"a\\\"b\\\\c\\nd\"} 1\n# EOF\n") && !plain.contains("# EOF"), "{open}");
    let bucket = |le: &str| {
        format!(
            "holdup_run_queue_wait_seconds_bucket{{watched=\"postgres\",role=\"server\",after=\"wake_up\",le=\"{le}\"}} "
        )
    };
    for (le, n) in [("0.000001", 2), ("0.000002", 4), ("0.002048", 6), ("4.194304", 6), ("+Inf", 8)] {
        assert!(open.contains(&format!("{}{n}\n", bucket(le))), "{le}: {open}");
    }
    let numbers =
        |text: &str| text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(numbers(&open), numbers(&plain));
    // A message for each family, with its length before it.
    let bytes = render(&[&counters], &own, Format::Protobuf);
    let (mut rest, mut messages) = (bytes.as_slice(), 0);
    while !rest.is_empty() {
        let mut length = 0_usize;
        let used = rest.iter().position(|byte| byte & 0x80 == 0).expect("a varint") + 1;
        rest[..used].iter().enumerate().for_each(|(n, byte)| length |= usize::from(byte & 0x7f) << (7 * n));
        rest = &rest[used + length..];
        messages += 1;
    }
    assert_eq!(messages, open.matches("# TYPE ").count());
}

#[test]
fn a_family_has_a_bounded_number_of_series_and_no_sum_goes_back() {
    let mut counters = Counters::new("x", 3);
    let of = |names: &[&str]| {
        let item = |name: &&str| EvidenceItem::labelled("on_cpu_s", *name, "s", 1.0);
        let switches = Collected {
            collector: "switches".to_owned(),
            items: names.iter().map(item).collect(),
            ..Collected::default()
        };
        Trial { evidence: vec![switches], ..window(2, 0.0) }
    };
    let series = |counters: &Counters| -> Vec<(String, f64)> {
        let (_, series) =
            counters.families().find(|(family, _)| family.name == "holdup_on_cpu_seconds").expect("it is there");
        let number = |value: &Value| if let Value::Number(n) = value { *n } else { 0.0 };
        series.iter().map(|(labels, s)| (labels[0].clone(), number(&s.value))).collect()
    };
    counters.add(&of(&["a", "b", "c", "d", "e"]), None, 2);
    let named = |pairs: &[(&str, f64)]| pairs.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect::<Vec<_>>();
    assert_eq!(series(&counters), named(&[("a", 1.0), ("b", 1.0), ("c", 1.0), (OTHER, 2.0)]));
    // An hour in which only two of them grow: the third gives its place to the next that is new.
    for _ in 0..1_800 {
        counters.add(&of(&["a", "b"]), None, 2);
    }
    counters.add(&of(&["d"]), None, 2);
    assert_eq!(series(&counters), named(&[("a", 1_801.0), ("b", 1_801.0), ("d", 1.0), (OTHER, 2.0)]));
}

#[test]
fn a_client_gets_the_format_that_it_asks_for() {
    let prometheus = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.5,\
                      application/openmetrics-text;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
    for (accept, format) in [
        ("", Format::Text),
        ("*/*", Format::Text),
        (prometheus, Format::Protobuf),
        ("application/openmetrics-text; version=1.0.0,text/plain;version=0.0.4;q=0.5", Format::OpenMetrics),
        ("application/openmetrics-text; version=2.0.0", Format::Text),
        ("text/plain, application/openmetrics-text;q=0", Format::Text),
        ("application/vnd.google.protobuf; proto=other; encoding=delimited", Format::Text),
        (";;q=,,=", Format::Text),
    ] {
        assert_eq!(Format::accepted(accept), format, "{accept}");
    }
}
