//! A small bundle with every kind of row, with fixed content.

#![allow(dead_code, reason = "each test binary uses its own share of these")]

use holdup_bundle::Writer;
use holdup_model::arm::{Arm, Replica, Schedule, TrialSpec};
use holdup_model::bundle::{BootLog, BundleData, BundleHead, CollectorState, Ending};
use holdup_model::captures::{
    Capture, CaptureComparison, CaptureDirection, CaptureFlow, CapturePart, CaptureRecord, CaptureTrace, Clusters,
    Distribution, Mark, MarkClass, MarkComparison, MarkCount, MarkRate, Moved, Parts, PointKind, QuantileComparison,
    RateRatio, TotalComparison, TracePoint, Traffic,
};
use holdup_model::catalogue::Availability;
use holdup_model::evidence::{BpfCost, EvidenceHistogram};
use holdup_model::outcome::{FindingVerdict, Verdict};
use holdup_model::plan::{Design, Extract, Factor, Layout, Level, MetricChoice, Plan, StopRule, WorkloadUse};
use holdup_model::stacks::{Frame, FrameKind, Stack, StackProfile};
use holdup_model::timeline::{Timeline, TimelineEvent, TimelineKind, TimelineTask};
use holdup_model::trial::{NamedHistogram, Trial, TrialStatus, Window};
use holdup_model::{
    Collected, Coverage, Direction, EnvironmentReading, EvidenceItem, Fact, Histogram, Machine, Measurement, Metric,
    Parameters, Problem, SelfCost, SparseHistogram, Value,
};
use std::path::Path;

const SECOND: i64 = 1_000_000_000;
const BEGIN: i64 = 1_770_000_000 * SECOND;

/// The same without what came with schema version 2 and later.
pub(crate) fn without_rich_evidence(mut data: BundleData) -> BundleData {
    data.trials.iter_mut().for_each(strip);
    without_captures(data)
}

/// The same without what came with schema version 3.
pub(crate) fn without_captures(mut data: BundleData) -> BundleData {
    data.trials.iter_mut().flat_map(|t| &mut t.evidence).for_each(|c| c.capture = None);
    data
}

/// Takes out of the evidence what schema version 2 added to it.
pub(crate) fn strip(trial: &mut Trial) {
    for c in &mut trial.evidence {
        (c.cost.bpf, c.cost.memory_bytes) = (None, 0);
        (c.histograms, c.stacks, c.timeline) = (Vec::new(), Vec::new(), None);
    }
}

/// A bundle of `blocks` blocks of two arms; the second trial of all is void and repeated.
pub(crate) fn sample(blocks: u32) -> BundleData {
    let plan = plan(blocks);
    let schedule = schedule(blocks);
    let mut trials = Vec::new();
    for spec in &schedule.trials {
        let seq = trials.len() as u32;
        if seq == 1 {
            trials.push(void_trial(seq, spec));
        }
        trials.push(trial(trials.len() as u32, spec, u32::from(seq == 1)));
    }
    BundleData {
        head: BundleHead {
            run_id: "5f1d00c0ffee".into(),
            holdup_version: "0.1.0".into(),
            command: ["holdup", "run", "it's.toml", ""].map(str::to_owned).to_vec(),
            created_unix_ns: BEGIN,
            target: "local".into(),
            emulated: None,
            machine: Machine { cpus: 2, memory_bytes: 8 << 30 },
        },
        plan,
        plan_source: "name = \"sample\"\n".into(),
        schedule,
        metrics: vec![
            ("pgbench".into(), metric("throughput_tps", "1/s", Direction::Higher)),
            ("pgbench".into(), metric("latency_p99_us", "us", Direction::Lower)),
        ],
        collectors: vec![
            CollectorState { id: "cpu-split".into(), availability: Availability::Ready },
            CollectorState {
                id: "psi".into(),
                availability: Availability::Degraded { reason: "no cpu.full line before 5.13".into() },
            },
            CollectorState {
                id: "run-delay".into(),
                availability: Availability::unavailable_but("no /proc/schedstat", "boot with CONFIG_SCHEDSTATS"),
            },
            CollectorState { id: "steal".into(), availability: Availability::unavailable("no hypervisor") },
        ],
        environment: vec![
            EnvironmentReading { session: 0, boot: 0, facts: facts("0.10") },
            EnvironmentReading { session: 0, boot: 0, facts: facts("0.20") },
            EnvironmentReading { session: 1, boot: 3, facts: Vec::new() },
        ],
        trials,
        log: vec![(BEGIN + 7, "the server was started".into()), (BEGIN + 9, "Müller's note ✓".into())],
        boot_logs: vec![boot_log("console", "SeaBIOS\r\n[    0.000000] Linux version ✓\r\n"), boot_log("kernel", "")],
        ending: Some(Ending::Complete),
    }
}

fn boot_log(name: &str, text: &str) -> BootLog {
    let bytes = text.len() as u64;
    BootLog { session: 0, boot: 0, name: name.into(), text: text.into(), bytes, trimmed_bytes: 0 }
}

fn plan(blocks: u32) -> Plan {
    let mut parameters = Parameters::default();
    parameters.set("script", "select-only");
    parameters.set("rate_tps", 0.1 + 0.2);
    Plan {
        name: "sample".into(),
        question: "Does autogroup matter?".into(),
        workloads: vec![WorkloadUse {
            name: "pgbench".into(),
            kind: "pgbench".into(),
            parameters,
            axes: vec![Factor {
                name: "clients".into(),
                levels: vec![Level::plain(8)],
                workloads: Vec::new(),
                optional: false,
            }],
            negative_control: false,
            semantics: holdup_model::Semantics::default(),
        }],
        factors: vec![Factor {
            name: "autogroup".into(),
            levels: vec![Level::plain(true), Level::plain(false)],
            workloads: vec!["pgbench".into()],
            optional: true,
        }],
        profiles: Vec::new(),
        settings: vec![(
            "postgres.shared_buffers".into(),
            Level { value: Value::Integer(64 << 20), label: "64MB".into() },
        )],
        design: Design {
            layout: Layout::Factorial,
            blocks,
            sessions: 1,
            seed: u64::MAX,
            aa_pair: true,
            unobserved_pair: false,
            settle_ns: 1,
            warmup_ns: 2,
            duration_ns: 3,
            stop: StopRule::Blocks,
            budget_ns: None,
            retries: 1,
            max_steal_share: 0.1,
            effect: Default::default(),
        },
        metrics: vec![MetricChoice {
            id: "throughput_tps".into(),
            workload: None,
            primary: true,
            better: Some(Direction::Higher),
            unit: None,
            margin: 0.02,
            from: Some(Extract::Regex("tps = (.*)".into())),
        }],
        collectors: vec!["cpu-split".into()],
        collect: Default::default(),
        target: "local".into(),
        guest: None,
        hosts: None,
        nodes: None,
        exclude: Vec::new(),
        report: None,
    }
}

fn metric(id: &str, unit: &str, better: Direction) -> Metric {
    Metric { id: id.into(), unit: unit.into(), better, summary: format!("the {id}") }
}

fn schedule(blocks: u32) -> Schedule {
    let arm = |id, label: &str, autogroup: bool, replica| Arm {
        id,
        label: label.into(),
        workload: "pgbench".into(),
        axes: [("clients".to_owned(), Level::plain(8))].into(),
        factors: [
            ("autogroup".to_owned(), Level::plain(autogroup)),
            ("nice".to_owned(), Level { value: Value::Float(0.1), label: "a tenth".into() }),
            ("policy".to_owned(), Level::plain("other")),
        ]
        .into(),
        replica,
    };
    let arms = vec![arm(0, "autogroup=on", true, None), arm(1, "autogroup=on (same)", true, Some(Replica::Same))];
    let trials = (0..blocks * 2)
        .map(|seq| TrialSpec {
            seq,
            session: 0,
            boot: seq / 2,
            block: seq / 2,
            position: seq % 2,
            arm: (seq + seq / 2) % 2,
        })
        .collect();
    Schedule { arms, trials }
}

fn facts(steal: &str) -> Vec<Fact> {
    vec![
        Fact::read("kernel.release", "6.18.5", "uname").steady(),
        Fact::read("cpu.steal_share", steal, "/proc/stat"),
        Fact::absent("cpu.microcode", "/proc/cpuinfo", "there is no such line"),
    ]
}

fn trial(seq: u32, spec: &TrialSpec, attempt: u32) -> Trial {
    let started = BEGIN + i64::from(seq) * 10 * SECOND;
    let mut histogram = Histogram::new();
    for i in 0..200_u64 {
        histogram.record_n_ns(100_000 + i * i * 137 + u64::from(seq), 1 + i % 7);
    }
    histogram.record_ns(u64::MAX);
    Trial {
        seq,
        session: spec.session,
        boot: spec.boot,
        block: spec.block,
        position: spec.position,
        arm: spec.arm,
        attempt,
        status: TrialStatus::Done,
        started_unix_ns: started,
        ended_unix_ns: started + 9 * SECOND,
        window: Some(Window {
            begin_unix_ns: started + SECOND,
            end_unix_ns: started + 6 * SECOND,
            length_ns: 5_000_000_001,
        }),
        measurements: vec![
            Measurement::new("throughput_tps", 1234.5 + f64::from(seq)),
            Measurement::absent("latency_p99_us", "fewer than 10 samples beyond"),
        ],
        histograms: vec![
            NamedHistogram { name: "latency".into(), histogram },
            NamedHistogram { name: "schedule_lag".into(), histogram: Histogram::new() },
        ],
        evidence: vec![
            Collected {
                collector: "cpu-split".into(),
                items: vec![
                    EvidenceItem::new("cpu_user_s", "s", 1.0),
                    EvidenceItem::labelled("softirq_total", "NET_RX", "1", 1.0 / 3.0),
                    EvidenceItem::absent("cpu_steal_s", "s", "no hypervisor"),
                ],
                coverage: Coverage { seen: 2, lost: 1, notes: vec!["3 tasks ended".into(), String::new()] },
                cost: SelfCost { cpu_ns: 12_345, wakeups: 2, bytes: 678, ..SelfCost::default() },
                ..Collected::default()
            },
            Collected {
                collector: "psi".into(),
                items: Vec::new(),
                coverage: Coverage::default(),
                cost: SelfCost {
                    bpf: Some(BpfCost { runs: 1_000, run_ns: 250_000 }),
                    memory_bytes: 8 << 20,
                    ..SelfCost::default()
                },
                histograms: vec![
                    evidence_histogram("run_queue_wait_ns", Some("server: after wake-up"), seq),
                    evidence_histogram("fault_ns", None, seq),
                ],
                stacks: vec![on_cpu(seq), StackProfile { name: "waker".into(), ..StackProfile::default() }],
                timeline: Some(timeline(seq)),
                capture: Some(kept(seq)),
            },
        ],
        environment_before: facts("0.10"),
        environment_moved: vec![Fact::read("cpu.steal_share", "0.30", "/proc/stat")],
        notes: vec!["pgbench (PostgreSQL) 15.6".into(), "two\nlines".into()],
    }
}

fn evidence_histogram(name: &str, label: Option<&str>, seq: u32) -> EvidenceHistogram {
    let mut histogram = SparseHistogram::new();
    (1..50_u64).for_each(|i| histogram.record_n_ns(i * i * 1_000 + u64::from(seq), i));
    EvidenceHistogram { name: name.into(), label: label.map(str::to_owned), histogram }
}

fn on_cpu(seq: u32) -> StackProfile {
    let frame = |function: &str, module: Option<&str>, kind| Frame {
        function: function.into(),
        module: module.map(str::to_owned),
        kind,
    };
    let stack = |role: Option<&str>, frames: &[u32], weight| Stack {
        task: "postgres".into(),
        role: role.map(str::to_owned),
        frames: frames.to_vec(),
        weight,
    };
    StackProfile {
        name: "on_cpu".into(),
        unit: "samples".into(),
        period_ns: 1_010_101,
        frames: vec![
            frame("main", Some("postgres"), FrameKind::User),
            frame("pg_atomic_read_u32", Some("postgres"), FrameKind::Inlined),
            frame("do_syscall_64", Some("[kernel]"), FrameKind::Kernel),
            frame("[unknown]", None, FrameKind::User),
        ],
        stacks: vec![
            stack(Some("server"), &[0, 1], 40 + u64::from(seq)),
            stack(Some("server"), &[0, 0, 2], 7),
            stack(None, &[3], 2),
            stack(Some("load"), &[], 1),
        ],
        truncated: 2,
    }
}

fn timeline(seq: u32) -> Timeline {
    let task = |tid, name: &str| TimelineTask { tid, pid: 100, name: name.into() };
    let event = |at_ns, cpu, kind| TimelineEvent { at_ns, cpu, kind };
    let switch = |from, to, left: &str, section: Option<&str>| TimelineKind::Switch {
        from,
        to,
        left: left.into(),
        section: section.map(str::to_owned),
    };
    Timeline {
        begin_ns: 5_000_000_000,
        end_ns: None,
        tasks: vec![task(100, "postgres"), task(101, "kworker/0:1")],
        events: vec![
            event(10, 0, switch(None, Some(0), "sleeping", None)),
            event(900 + u64::from(seq), 0, TimelineKind::Wakeup { task: 1, by: Some(0) }),
            event(1_200, 0, TimelineKind::Fault { task: 0, length_ns: 350, section: Some("WALWrite".into()) }),
            event(2_000, 0, switch(Some(0), Some(1), "user_boundary", Some("holder WALWrite"))),
            event(2_500, 1, TimelineKind::Wakeup { task: 0, by: None }),
            event(2_600, 0, switch(Some(1), None, "blocked", None)),
        ],
        lost: 3,
        left_out: 0,
    }
}

/// What an imported capture has; of a collector the last two are not there.
fn kept(seq: u32) -> CaptureRecord {
    let mark =
        Mark { field: "tcp.analysis.retransmission".into(), title: "retransmission".into(), class: MarkClass::Trouble };
    let traffic = Traffic { segments: 900, data_segments: 600, payload_bytes: 868_800 };
    let direction = |marks: &[(String, u64)]| CaptureDirection {
        traffic,
        frame_bytes: 928_200,
        in_flight_bytes_max: 65_160,
        marks: marks.to_vec(),
    };
    let flow = CaptureFlow {
        stream: seq,
        from: "10.0.0.1:40000".into(),
        to: "[fd00::2]:5201".into(),
        first_frame: 1,
        begin_unix_ns: BEGIN + 1,
        length_ns: 1_500_000_000,
        completeness: 31,
        initial_rtt_ns: Some(100_200),
        directions: [direction(&[(mark.field.clone(), 3)]), direction(&[])],
    };
    let point = |at_ns, byte, kind| TracePoint { at_ns, byte, kind };
    let trace = CaptureTrace {
        capture: "a.pcap".into(),
        stream: seq,
        from: flow.from.clone(),
        to: flow.to.clone(),
        trouble: 3,
        points: vec![
            point(0, 0, PointKind::Data),
            point(1_000, -1_448, PointKind::SentAgain),
            point(i64::MAX, i64::MIN, PointKind::Ack),
        ],
        one_of: 4,
    };
    let is_imported = seq == 0;
    CaptureRecord {
        capture: is_imported.then(|| capture(mark.clone(), traffic)),
        comparison: is_imported.then(|| comparison(mark)),
        flows: vec![flow],
        flows_beyond: 7,
        traces: vec![trace],
    }
}

fn rate(count: u64) -> MarkRate {
    MarkRate {
        count,
        per_million_segments: Some(1e6 / 3.0 * count as f64),
        per_million_segments_interval: Some((0.1 + 0.2, 1e300)),
        per_gb: None,
        per_gb_interval: None,
    }
}

fn capture(mark: Mark, traffic: Traffic) -> Capture {
    Capture {
        name: "a.pcap".into(),
        answer: "1 segment".into(),
        frames: 901,
        other_frames: 1,
        connections: 8,
        traffic,
        frame_bytes: 928_200,
        begin_unix_ns: BEGIN,
        length_ns: 1_500_000_000,
        clusters: Some(Clusters::Spans),
        marks: vec![MarkCount { mark: mark.clone(), rate: rate(3) }],
        judgement: None,
        distributions: vec![Distribution {
            name: "ack_rtt_ns".into(),
            title: "segment to ACK".into(),
            count: 500,
            quantiles: vec![(0.5, 1.0 / 3.0, false)],
        }],
        by: Parts::Flow,
        parts: vec![CapturePart { name: "#0".into(), traffic, trouble: 3, marks: vec![(mark, 3)] }],
        parts_in_all: 8,
        notes: vec!["Müller's note ✓".into()],
    }
}

fn comparison(mark: Mark) -> CaptureComparison {
    let ratio = RateRatio { ratio: None, at_least: Some(2.0 / 3.0), at_most: None, clusters: None, absent: None };
    CaptureComparison {
        baseline: "a.pcap".into(),
        other: "b.pcap".into(),
        answer: "Retransmissions".into(),
        verdict: FindingVerdict::Undecided,
        details: vec![String::new()],
        margin: 0.02,
        totals: vec![TotalComparison {
            name: "length_s".into(),
            title: "length".into(),
            baseline: Some(0.7 / 3.0),
            other: None,
            ratio: Some(ratio.clone()),
        }],
        marks: vec![MarkComparison {
            mark,
            baseline: rate(0),
            other: rate(3),
            per_segment: ratio.clone(),
            per_byte: ratio.clone(),
            p_adjusted: Some(1e-17 / 3.0),
            verdict: Verdict::Equivalent,
            moved: Moved::Undecided,
            traffic_needed: Some(4.0 / 3.0),
            caveat: None,
        }],
        quantiles: vec![QuantileComparison {
            name: "ack_rtt_ns".into(),
            title: "segment to ACK".into(),
            quantile: 0.99,
            baseline: 1.0 / 7.0,
            other: 2.0 / 7.0,
            thin: true,
            shift: ratio,
        }],
        notes: Vec::new(),
    }
}

fn void_trial(seq: u32, spec: &TrialSpec) -> Trial {
    Trial {
        status: TrialStatus::Void { reason: "the server went away".into() },
        window: None,
        measurements: Vec::new(),
        histograms: Vec::new(),
        evidence: Vec::new(),
        environment_moved: Vec::new(),
        ..trial(seq, spec, 0)
    }
}

/// The trial after the last of `data`, with the parts of another trial: for tests that need many.
pub(crate) fn next_trial(data: &BundleData) -> Trial {
    let seq = data.trials.len() as u32;
    trial(seq, &data.schedule.trials[seq as usize % data.schedule.trials.len()], 0)
}

/// The writer of a bundle that begins as `data` does.
pub(crate) fn create(path: &Path, data: &BundleData) -> Result<Writer, Problem> {
    Writer::create(path, &data.head, &data.plan, &data.plan_source, &data.schedule, &data.metrics, &data.collectors)
}

/// Writes all of `data`.
pub(crate) fn write(path: &Path, data: &BundleData) -> Result<(), Problem> {
    let mut writer = create(path, data)?;
    for reading in &data.environment {
        writer.add_environment(reading.session, reading.boot, &reading.facts)?;
    }
    for trial in &data.trials {
        writer.add_trial(trial)?;
    }
    for (unix_ns, text) in &data.log {
        writer.log(*unix_ns, text)?;
    }
    for log in &data.boot_logs {
        writer.add_boot_log(log.boot, &log.name, log.text.as_bytes())?;
    }
    match &data.ending {
        Some(ending) => writer.finish(ending),
        None => Ok(()),
    }
}

pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
