//! Synthetic bundles from a seed that look like the demo's, with a known truth.

#![allow(dead_code, unreachable_pub, reason = "each user takes its part")]

mod evidence;
pub mod rich;

use holdup_model::bundle::{BundleHead, Ending};
use holdup_model::plan::{Layout, MetricChoice, StopRule};
use holdup_model::trial::NamedHistogram;
use holdup_model::*;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

pub struct Noise(Pcg64Mcg);

impl Noise {
    pub fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    pub fn normal(&mut self, spread: f64) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        spread * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

const BEGIN_NS: i64 = 1_795_000_000_000_000_000;
const CLIENTS: [i64; 3] = [2, 16, 64];

/// A bundle like the demo's: select-only does not mind autogroup (equivalent) and gains by batch (different);
/// simple-update is so noisy that nothing is decided. One trial is void, one collector is not there.
pub fn demo() -> BundleData {
    make(2026)
}

/// The demo with what collectors of events bring; the trials of the A/A arm have none.
pub fn rich() -> BundleData {
    let mut bundle = demo();
    let mut noise = Noise(Pcg64Mcg::seed_from_u64(7));
    for trial in &mut bundle.trials {
        let arm = &bundle.schedule.arms[trial.arm as usize];
        if arm.replica.is_none() {
            let batch = arm.factors.get("sched-policy").is_some_and(|l| l.label == "batch");
            trial.evidence.extend(rich::collected(2_000.0, batch, &mut noise));
        }
    }
    bundle
}

pub fn make(seed: u64) -> BundleData {
    let mut noise = Noise(Pcg64Mcg::seed_from_u64(seed));
    let schedule = schedule(&mut noise);
    let mut trials = Vec::new();
    for spec in &schedule.trials {
        let arm = &schedule.arms[spec.arm as usize];
        if spec.seq == 41 {
            let mut lost = trial(spec, arm, trials.len(), &mut noise);
            lost.status = TrialStatus::Void { reason: "the environment moved: cpu.governor".into() };
            lost.environment_moved = vec![Fact::read("cpu.governor", "powersave", "/sys/devices/system/cpu")];
            trials.push(lost);
        }
        let mut one = trial(spec, arm, trials.len(), &mut noise);
        one.attempt = u32::from(spec.seq == 41);
        trials.push(one);
    }
    BundleData {
        head: BundleHead {
            run_id: "18e9fd5913319".into(),
            holdup_version: "0.1.0".into(),
            command: ["holdup", "run", "plans/demo.toml", "--out", "demo.holdup"].map(str::to_owned).into(),
            created_unix_ns: BEGIN_NS,
            target: "local".into(),
            emulated: None,
            machine: Machine { cpus: 2, memory_bytes: 8 << 30 },
        },
        plan: plan(seed),
        plan_source: "name = \"demo\"\n\n[factors]\nautogroup = [\"on\", \"off\"]\n".into(),
        metrics: ["select-only", "simple-update"].into_iter().flat_map(metrics).collect(),
        collectors: evidence::states(),
        environment: vec![EnvironmentReading { session: 0, boot: 0, facts: facts() }],
        schedule,
        trials,
        boot_logs: Vec::new(),
        log: vec![(BEGIN_NS, "factor migration-cost is left out: /sys/kernel/debug is not mounted".into())],
        ending: Some(Ending::Complete),
    }
}

fn factor(name: &str, levels: &[&str]) -> Factor {
    let levels = levels.iter().map(|l| Level::plain(*l)).collect();
    Factor { name: name.into(), levels, workloads: Vec::new(), optional: false }
}

fn workload(name: &str) -> WorkloadUse {
    let mut parameters = Parameters::default();
    parameters.set("script", name);
    parameters.set("scale", 10_i64);
    parameters.set("protocol", "prepared");
    let mut clients = factor("clients", &[]);
    clients.levels = CLIENTS.iter().map(|c| Level::plain(*c)).collect();
    WorkloadUse {
        name: name.into(),
        kind: "pgbench".into(),
        parameters,
        axes: vec![clients],
        negative_control: false,
        semantics: holdup_model::Semantics {
            closed_loops: vec![holdup_model::ClosedLoop {
                in_flight: vec!["clients".into()],
                closed_when: vec![("rate".into(), 0.into())],
                throughput: "tps".into(),
                latency: "latency_mean_us".into(),
                think: holdup_model::Think::Measured("think_mean_us".into()),
            }],
            diagnostics: vec!["think_mean_us".into(), "connect_ms".into(), "pgbench_tps".into()],
        },
    }
}

fn plan(seed: u64) -> Plan {
    Plan {
        name: "demo".into(),
        question: "What do more clients than CPUs cost here, and do autogroup or batch scheduling change it?".into(),
        workloads: vec![workload("select-only"), workload("simple-update")],
        factors: vec![factor("autogroup", &["on", "off"]), factor("sched-policy", &["other", "batch"])],
        profiles: Vec::new(),
        settings: vec![("postgres.shared_buffers".into(), Level::plain("256MB"))],
        design: Design {
            layout: Layout::OneAtATime,
            blocks: 5,
            sessions: 1,
            seed,
            aa_pair: true,
            unobserved_pair: false,
            settle_ns: 0,
            warmup_ns: 500_000_000,
            duration_ns: 1_500_000_000,
            stop: StopRule::Blocks,
            budget_ns: Some(330_000_000_000),
            retries: 1,
            max_steal_share: 0.1,
            effect: Default::default(),
        },
        metrics: vec![MetricChoice {
            id: "tps".into(),
            workload: None,
            primary: true,
            better: None,
            unit: None,
            margin: 0.05,
            from: None,
        }],
        collectors: evidence::IDS.map(str::to_owned).into(),
        collect: Default::default(),
        target: "local".into(),
        guest: None,
        hosts: None,
        nodes: None,
        exclude: Vec::new(),
        report: None,
    }
}

fn metrics(workload: &str) -> Vec<(String, Metric)> {
    let metric = |id: &str, unit: &str, better, summary: &str| {
        (workload.to_owned(), Metric { id: id.into(), unit: unit.into(), better, summary: summary.into() })
    };
    vec![
        metric("tps", "1/s", Direction::Higher, "transactions that ended well inside the window, per second of it"),
        metric("latency_mean_us", "us", Direction::Lower, "mean latency"),
        metric("latency_p50_us", "us", Direction::Lower, "median latency"),
        metric("latency_p99_us", "us", Direction::Lower, "99th percentile of latency"),
        metric("schedule_lag_mean_us", "us", Direction::Lower, "mean of how late transactions started"),
    ]
}

fn facts() -> Vec<Fact> {
    vec![
        Fact::read("kernel.release", "6.12.0-amd64", "/proc/sys/kernel/osrelease").steady(),
        Fact::read("kernel.preempt", "lazy", "/sys/kernel/debug/sched/preempt").steady(),
        Fact::read("kernel.command_line", "quiet \"<b>bold</b>\" & more", "/proc/cmdline"),
        Fact::read("cpu.model", "AMD EPYC", "/proc/cpuinfo"),
        Fact::absent("kernel.lockdown", "/sys/kernel/security/lockdown", "no such file or directory"),
    ]
}

fn schedule(noise: &mut Noise) -> Schedule {
    let mut arms: Vec<Arm> = Vec::new();
    for workload in ["select-only", "simple-update"] {
        for clients in CLIENTS {
            for (autogroup, policy, replica) in [
                ("on", "other", None),
                ("off", "other", None),
                ("on", "batch", None),
                ("on", "other", Some(Replica::Same)),
            ] {
                let mark = if replica.is_some() { " (A/A)" } else { "" };
                arms.push(Arm {
                    id: arms.len() as u32,
                    label: format!("{workload} clients={clients} autogroup={autogroup} sched-policy={policy}{mark}"),
                    workload: workload.into(),
                    axes: BTreeMap::from([("clients".to_owned(), Level::plain(clients))]),
                    factors: BTreeMap::from([
                        ("autogroup".to_owned(), Level::plain(autogroup)),
                        ("sched-policy".to_owned(), Level::plain(policy)),
                    ]),
                    replica,
                });
            }
        }
    }
    let mut trials: Vec<TrialSpec> = Vec::new();
    for block in 0..5 {
        let mut order: Vec<u32> = (0..arms.len() as u32).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, (noise.uniform() * (i + 1) as f64) as usize);
        }
        for (position, arm) in (0_u32..).zip(order) {
            trials.push(TrialSpec { seq: trials.len() as u32, session: 0, boot: 0, block, position, arm });
        }
    }
    Schedule { arms, trials }
}

/// Durations with the body of a log-logistic and a tail of one in a hundred.
fn histogram(count: u64, mean_us: f64) -> Histogram {
    let mut h = Histogram::new();
    let body = count * 99 / 100;
    for i in 0..400_u64 {
        let u = (i as f64 + 0.5) / 400.0;
        let value = mean_us * 0.86 * (0.33 * (u / (1.0 - u)).ln()).exp();
        h.record_n_ns((value * 1e3) as u64, body * (i + 1) / 400 - body * i / 400);
    }
    let tail = count - body;
    for i in 0..tail.min(200) {
        let u = (i as f64 + 0.5) / tail.min(200) as f64;
        let n = tail * (i + 1) / tail.min(200) - tail * i / tail.min(200);
        h.record_n_ns((mean_us * (3.0 - 4.0 * (1.0 - u).ln()) * 1e3) as u64, n);
    }
    h
}

fn trial(spec: &TrialSpec, arm: &Arm, seq: usize, noise: &mut Noise) -> Trial {
    let clients = match arm.axes["clients"].value {
        Value::Integer(n) => n,
        _ => 1,
    };
    let (select, batch) = (arm.workload == "select-only", arm.factors["sched-policy"].label == "batch");
    let (base, spread) = match (select, clients) {
        (true, 2) => (39_500.0, 0.006),
        (true, 16) => (37_100.0, 0.008),
        (true, _) => (30_200.0, 0.009),
        (false, 2) => (310.0, 0.12),
        (false, 16) => (1_420.0, 0.10),
        (false, _) => (3_150.0, 0.14),
    };
    let gain = if select && batch { 1.0 + 0.03 * (clients as f64).log2() } else { 1.0 };
    let tps: f64 = base * gain * noise.normal(spread).exp();
    let mean_us = clients as f64 / tps * 1e6;
    let latency = histogram((tps * 1.5) as u64, mean_us);
    let us = |q: f64| latency.quantile_ns(q).map(|ns| ns as f64 / 1e3);
    let begin = BEGIN_NS + seq as i64 * 2_400_000_000;
    Trial {
        seq: seq as u32,
        session: spec.session,
        boot: spec.boot,
        block: spec.block,
        position: spec.position,
        arm: arm.id,
        attempt: 0,
        status: TrialStatus::Done,
        started_unix_ns: begin,
        ended_unix_ns: begin + 2_300_000_000,
        window: Some(Window {
            begin_unix_ns: begin + 600_000_000,
            end_unix_ns: begin + 2_100_000_000,
            length_ns: 1_500_000_000,
        }),
        measurements: vec![
            Measurement::new("tps", tps),
            Measurement::new("latency_mean_us", mean_us),
            us(0.5).map_or_else(
                || Measurement::absent("latency_p50_us", "empty"),
                |v| Measurement::new("latency_p50_us", v),
            ),
            us(0.99).map_or_else(
                || Measurement::absent("latency_p99_us", "empty"),
                |v| Measurement::new("latency_p99_us", v),
            ),
            Measurement::absent("schedule_lag_mean_us", "no rate is set, so nothing has a scheduled start"),
        ],
        evidence: evidence::collected(tps, clients as f64, batch, noise),
        histograms: vec![NamedHistogram { name: "latency".into(), histogram: latency }],
        environment_before: vec![Fact::read("cpu.governor", "performance", "/sys/devices/system/cpu")],
        environment_moved: Vec::new(),
        notes: Vec::new(),
    }
}

/// Makes a trial void.
pub fn void(trial: &mut Trial, reason: &str) {
    trial.status = TrialStatus::Void { reason: reason.into() };
}

/// The screen of a command: 24 lines of 80 columns; only what can be copied as one word is longer.
#[allow(dead_code, reason = "each user takes its part")]
pub fn is_one_screen(what: &str, text: &str) {
    assert!(text.lines().count() <= 24, "{what} has {} lines:\n{text}", text.lines().count());
    let is_long = |l: &&str| l.chars().count() > 80 && l.trim_start_matches(['→', '▸', ' ']).contains(' ');
    let long: Vec<&str> = text.lines().filter(is_long).collect();
    assert!(long.is_empty(), "{what}: {long:#?}");
}

/// What the page's script reads.
pub fn data(page: &str) -> serde_json::Value {
    let (_, rest) = page.split_once(r#"<script type="application/json" id="data">"#).expect("the page has data");
    serde_json::from_str(rest.split_once("</script>").expect("it ends").0).expect("is JSON")
}

/// A section of the page as text: tags out, cells apart.
pub fn section(page: &str, id: &str) -> String {
    let (_, rest) = page.split_once(&format!("<section id=\"{id}\">")).expect("the section is there");
    let inside = rest.split_once("</section>").expect("it ends").0.replace("</td>", " | ").replace("</th>", " | ");
    let mut text = String::new();
    let mut in_tag = false;
    for c in inside.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            c if !in_tag => text.push(c),
            _ => {}
        }
    }
    text.replace("&#60;", "<")
}
