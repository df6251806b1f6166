//! All that is measured is read as it was written.

use crate::common;
use common::{sample, write};
use holdup_model::bundle::{BundleData, CollectorState, Ending};
use holdup_model::captures::{
    CaptureDirection, CaptureFlow, CaptureRecord, CaptureTrace, PointKind, TracePoint, Traffic,
};
use holdup_model::evidence::{BpfCost, EvidenceHistogram};
use holdup_model::stacks::{Frame, FrameKind, Stack};
use holdup_model::timeline::{TimelineDoing, TimelineEvent, TimelineKind, TimelineTask};
use holdup_model::trial::{NamedHistogram, Trial, TrialStatus, Window};
use holdup_model::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Any text, NUL, quotes and other scripts included.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![".{0,12}", vec(any::<char>(), 0..6).prop_map(String::from_iter), Just(String::new())]
}

/// A number that can be measured.
fn number() -> impl Strategy<Value = f64> {
    any::<f64>().prop_filter("finite", |x| x.is_finite())
}

/// A count as the file can hold it.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, 0..=i64::MAX as u64]
}

fn measured() -> impl Strategy<Value = Measured> {
    prop_oneof![number().prop_map(Measured::Value), text().prop_map(Measured::Absent)]
}

fn fact() -> impl Strategy<Value = Fact> {
    (text(), option::of(text()), text(), option::of(text()), any::<bool>())
        .prop_map(|(key, value, source, absent, steady)| Fact { key, value, source, absent, steady })
}

fn histogram() -> impl Strategy<Value = NamedHistogram> {
    (text(), vec((any::<u64>(), 1..1_000_000_u64), 0..20)).prop_map(|(name, values)| {
        let mut histogram = Histogram::new();
        values.into_iter().for_each(|(ns, n)| histogram.record_n_ns(ns, n));
        NamedHistogram { name, histogram }
    })
}

fn collected() -> impl Strategy<Value = Collected> {
    let item = (text(), option::of(text()), text(), measured()).prop_map(|(name, label, unit, value)| EvidenceItem {
        name,
        label,
        unit,
        value,
    });
    let coverage = (count(), count(), vec(text(), 0..3));
    let bpf = option::of((count(), count()).prop_map(|(runs, run_ns)| BpfCost { runs, run_ns }));
    let cost = (count(), count(), count(), bpf, count());
    let rich = (
        vec((histogram(), option::of(text())), 0..3),
        vec(profile(), 0..3),
        option::of(timeline()),
        option::of(kept()),
    );
    (text(), vec(item, 0..6), coverage, cost, rich).prop_map(
        |(collector, items, (seen, lost, notes), (cpu_ns, wakeups, bytes, bpf, memory_bytes), rich)| Collected {
            collector,
            items,
            coverage: Coverage { seen, lost, notes },
            cost: SelfCost { cpu_ns, wakeups, bytes, bpf, memory_bytes },
            histograms: rich
                .0
                .into_iter()
                .map(|(h, label)| EvidenceHistogram { name: h.name, label, histogram: (&h.histogram).into() })
                .collect(),
            stacks: rich.1,
            timeline: rich.2,
            capture: rich.3,
        },
    )
}

fn kept() -> impl Strategy<Value = CaptureRecord> {
    let kind = prop_oneof![Just(PointKind::Data), Just(PointKind::SentAgain), Just(PointKind::Ack)];
    let point = (any::<i64>(), any::<i64>(), kind).prop_map(|(at_ns, byte, kind)| TracePoint { at_ns, byte, kind });
    let trace = (text(), any::<u32>(), text(), any::<u64>(), vec(point, 0..5), any::<u32>()).prop_map(
        |(end, stream, to, trouble, points, one_of)| CaptureTrace {
            capture: end.clone(),
            stream,
            from: end,
            to,
            trouble,
            points,
            one_of,
        },
    );
    let direction = || {
        (any::<u64>(), any::<u32>(), vec((text(), any::<u64>()), 0..3)).prop_map(|(n, most, marks)| {
            let traffic = Traffic { segments: n, data_segments: n / 2, payload_bytes: n };
            CaptureDirection { traffic, frame_bytes: n, in_flight_bytes_max: most, marks }
        })
    };
    let flow = (any::<u32>(), text(), any::<i64>(), option::of(any::<u64>()), [direction(), direction()]).prop_map(
        |(stream, end, begin_unix_ns, initial_rtt_ns, directions)| CaptureFlow {
            stream,
            from: end.clone(),
            to: end,
            first_frame: stream,
            begin_unix_ns,
            length_ns: begin_unix_ns.unsigned_abs(),
            completeness: 63,
            initial_rtt_ns,
            directions,
        },
    );
    (vec(flow, 0..3), count(), vec(trace, 0..3)).prop_map(|(flows, flows_beyond, traces)| CaptureRecord {
        flows,
        flows_beyond,
        traces,
        ..CaptureRecord::default()
    })
}

fn profile() -> impl Strategy<Value = StackProfile> {
    let kind = prop_oneof![Just(FrameKind::User), Just(FrameKind::Inlined), Just(FrameKind::Kernel)];
    let frame =
        (text(), option::of(text()), kind).prop_map(|(function, module, kind)| Frame { function, module, kind });
    let stack = (text(), option::of(text()), vec(0..4_u32, 0..6), 0..1_u64 << 50);
    let stack = stack.prop_map(|(task, role, frames, weight)| Stack { task, role, frames, weight });
    (text(), text(), count(), vec(frame, 4..6), vec(stack, 0..8), count()).prop_map(
        |(name, unit, period_ns, frames, stacks, truncated)| StackProfile {
            name,
            unit,
            period_ns,
            frames,
            stacks,
            truncated,
        },
    )
}

fn timeline() -> impl Strategy<Value = Timeline> {
    let task = (any::<u32>(), any::<u32>(), text()).prop_map(|(tid, pid, name)| TimelineTask { tid, pid, name });
    let some = || option::of(0..2_u32);
    let doing = proptest::sample::select(vec![
        TimelineDoing::Kernel,
        TimelineDoing::Spin,
        TimelineDoing::Switch,
        TimelineDoing::Interrupt,
    ]);
    let kind = prop_oneof![
        (some(), some(), text(), option::of(text())).prop_map(|(from, to, left, section)| TimelineKind::Switch {
            from,
            to,
            left,
            section
        }),
        (0..2_u32, some()).prop_map(|(task, by)| TimelineKind::Wakeup { task, by }),
        (0..2_u32, any::<u64>(), option::of(text())).prop_map(|(task, length_ns, section)| TimelineKind::Fault {
            task,
            length_ns,
            section
        }),
        (0..2_u32, doing, any::<u64>(), option::of(text()))
            .prop_map(|(task, doing, length_ns, lock)| { TimelineKind::Stretch { task, doing, length_ns, lock } }),
        (0..2_u32, text(), any::<u64>()).prop_map(|(task, lock, length_ns)| TimelineKind::Hold {
            task,
            lock,
            length_ns
        }),
    ];
    // Out of order as well: what a collector brought comes back as it is.
    let event = (any::<u64>(), any::<u32>(), kind).prop_map(|(at_ns, cpu, kind)| TimelineEvent { at_ns, cpu, kind });
    let times = (count(), option::of(any::<u64>()));
    (times, vec(task, 2..4), vec(event, 0..8), count()).prop_map(|(times, tasks, events, lost)| Timeline {
        begin_ns: times.0,
        end_ns: times.1,
        tasks,
        events,
        lost,
        left_out: 0,
    })
}

fn trial() -> impl Strategy<Value = Trial> {
    let place = (any::<u32>(), any::<u32>(), any::<u32>(), 0..2_u32, any::<u32>(), any::<u32>());
    let status =
        option::of(text()).prop_map(|void| void.map_or(TrialStatus::Done, |reason| TrialStatus::Void { reason }));
    let times = (any::<i64>(), any::<i64>(), option::of((any::<i64>(), any::<i64>(), count())));
    let measurement = (text(), measured()).prop_map(|(metric, value)| Measurement { metric, value });
    let parts = (vec(measurement, 0..4), vec(histogram(), 0..3), vec(collected(), 0..3));
    let words = (vec(fact(), 0..4), vec(fact(), 0..3), vec(text(), 0..3));
    (place, status, times, parts, words).prop_map(|(place, status, times, parts, words)| Trial {
        seq: 0,
        session: place.0,
        block: place.1,
        position: place.2,
        arm: place.3,
        attempt: place.4,
        boot: place.5,
        status,
        started_unix_ns: times.0,
        ended_unix_ns: times.1,
        window: times.2.map(|(begin_unix_ns, end_unix_ns, length_ns)| Window { begin_unix_ns, end_unix_ns, length_ns }),
        measurements: parts.0,
        histograms: parts.1,
        evidence: parts.2,
        environment_before: words.0,
        environment_moved: words.1,
        notes: words.2,
    })
}

fn level() -> impl Strategy<Value = Level> {
    let value = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Integer),
        number().prop_map(Value::Float),
        text().prop_map(Value::Text),
    ];
    (value, text()).prop_map(|(value, label)| Level { value, label })
}

fn availability() -> impl Strategy<Value = Availability> {
    prop_oneof![
        Just(Availability::Ready),
        text().prop_map(|reason| Availability::Degraded { reason }),
        (text(), option::of(text())).prop_map(|(reason, remedy)| Availability::Unavailable { reason, remedy }),
    ]
}

fn ending() -> impl Strategy<Value = Option<Ending>> {
    prop_oneof![
        Just(None),
        Just(Some(Ending::Complete)),
        Just(Some(Ending::Decided)),
        Just(Some(Ending::Budget)),
        Just(Some(Ending::Interrupted)),
        text().prop_map(|reason| Some(Ending::Failed { reason })),
    ]
}

fn data() -> impl Strategy<Value = BundleData> {
    let head = (text(), vec(text(), 0..4), any::<i64>(), option::of(text()), any::<u32>(), count());
    let plan = (text(), any::<u64>(), number(), vec((text(), level()), 0..3), level());
    let lists = (
        vec((text(), text(), any::<bool>()), 0..3),
        vec((text(), availability()), 0..3),
        vec((any::<u32>(), any::<u32>(), vec(fact(), 0..3)), 0..3),
        vec((any::<i64>(), text()), 0..3),
    );
    (head, plan, lists, vec(trial(), 0..4), ending()).prop_map(|(head, plan, lists, trials, ending)| {
        let mut data = sample(1);
        (data.head.run_id, data.head.command, data.head.created_unix_ns) = (head.0, head.1, head.2);
        (data.head.emulated, data.head.machine) = (head.3, Machine { cpus: head.4, memory_bytes: head.5 });
        (data.plan.question, data.plan.design.seed, data.plan.metrics[0].margin) = (plan.0, plan.1, plan.2);
        data.plan.settings = plan.3;
        data.schedule.arms[1].factors = plan.4.label.chars().map(|c| (c.to_string(), plan.4.clone())).collect();
        data.plan.factors[0].levels.push(plan.4);
        data.metrics = lists
            .0
            .into_iter()
            .map(|(workload, id, up)| {
                let better = if up { Direction::Higher } else { Direction::Lower };
                (workload, Metric { unit: id.clone(), summary: id.clone(), id, better })
            })
            .collect();
        data.collectors = lists.1.into_iter().map(|(id, availability)| CollectorState { id, availability }).collect();
        let reading = |(session, boot, facts)| EnvironmentReading { session, boot, facts };
        data.environment = lists.2.into_iter().map(reading).collect();
        (data.log, data.trials, data.ending) = (lists.3, trials, ending);
        data.trials.iter_mut().zip(0..).for_each(|(trial, seq)| trial.seq = seq);
        data
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    fn what_is_written_is_read(data in data()) {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
        let path = folder.path().join("a.holdup");
        write(&path, &data).map_err(|p| TestCaseError::fail(p.to_string()))?;
        let read = holdup_bundle::read(&path).map_err(|p| TestCaseError::fail(p.to_string()))?;
        prop_assert_eq!(&read, &data);
        let (salvaged, damage) = holdup_bundle::read_salvage(&path).map_err(|p| TestCaseError::fail(p.to_string()))?;
        prop_assert_eq!((&salvaged, damage), (&data, Vec::new()));
    }
}

holdup_testkit::tests!(what_is_written_is_read);
