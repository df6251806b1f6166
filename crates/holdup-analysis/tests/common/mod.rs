//! Synthetic bundles with a known truth, from a seed.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod story;

use holdup_model::bundle::{BundleHead, CollectorState, Ending};
use holdup_model::metric::Measurement;
use holdup_model::plan::{EffectKind, Layout, MetricChoice, StopRule};
use holdup_model::trial::NamedHistogram;
use holdup_model::*;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;

/// The facts at the begin of a boot that is its own session.
pub fn reading(session: u32, facts: Vec<Fact>) -> EnvironmentReading {
    EnvironmentReading { session, boot: session, facts }
}

/// What a bundle is made from. The truth of every effect stands in it.
pub struct Maker {
    pub seed: u64,
    pub blocks: u32,
    pub sessions: u32,
    pub clients: Vec<i64>,
    pub layout: Layout,
    pub aa: bool,
    pub unobserved: bool,
    /// True ratio of throughput with autogroup off, for each number of clients.
    pub effect: fn(i64) -> f64,
    /// Coefficient of variation of a trial.
    pub cv: f64,
    /// Log of the change from the first to the last trial.
    pub drift: f64,
    /// Latency is multiplied by this without throughput knowing: breaks Little's law.
    pub latency_lie: f64,
    pub negative_control: bool,
    /// Log of the change of the ratio itself from the first to the last block.
    pub ratio_drift: f64,
    /// True ratio of the second baseline (A/A) to the first.
    pub aa_ratio: f64,
    pub stop: StopRule,
    pub effect_kind: EffectKind,
    /// Ratio of throughput of a trial that is slow, by its arm's number and its block.
    pub slow: fn(u32, u32) -> f64,
    /// True throughput of the baseline by the number of clients.
    pub curve: fn(i64) -> f64,
    /// Everything from this share of the run on is multiplied by this.
    pub step: (f64, f64),
    /// True if trials have histograms; simulations of many bundles go without.
    pub histograms: bool,
}

impl Default for Maker {
    fn default() -> Self {
        Maker {
            seed: 1,
            blocks: 8,
            sessions: 1,
            clients: vec![2, 16, 64],
            layout: Layout::Factorial,
            aa: true,
            unobserved: false,
            effect: |_| 1.0,
            cv: 0.015,
            drift: 0.0,
            latency_lie: 1.0,
            negative_control: false,
            ratio_drift: 0.0,
            aa_ratio: 1.0,
            stop: StopRule::Blocks,
            effect_kind: EffectKind::Mean,
            slow: |_, _| 1.0,
            curve: |clients| if clients > 2 { 17_000.0 } else { 20_000.0 },
            step: (1.0, 1.0),
            histograms: true,
        }
    }
}

pub struct Noise(pub Pcg64Mcg);

impl Noise {
    fn uniform(&mut self) -> f64 {
        ((self.0.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self, spread: f64) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        spread * (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

fn metric(id: &str, unit: &str, better: Direction) -> (String, Metric) {
    ("select-only".into(), Metric { id: id.into(), unit: unit.into(), better, summary: id.into() })
}

impl Maker {
    fn factor(name: &str, levels: Vec<Level>) -> Factor {
        Factor { name: name.into(), levels, workloads: Vec::new(), optional: false }
    }

    fn plan(&self) -> Plan {
        let mut parameters = Parameters::default();
        parameters.set("scale", 10_i64);
        Plan {
            name: "synthetic".into(),
            question: "Does autogroup matter?".into(),
            workloads: vec![WorkloadUse {
                name: "select-only".into(),
                kind: "pgbench".into(),
                parameters,
                axes: vec![Self::factor("clients", self.clients.iter().map(|c| Level::plain(*c)).collect())],
                negative_control: self.negative_control,
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
            }],
            factors: vec![Self::factor("autogroup", vec![Level::plain(true), Level::plain(false)])],
            settings: Vec::new(),
            profiles: Vec::new(),
            design: Design {
                layout: self.layout,
                blocks: self.blocks,
                sessions: self.sessions,
                seed: self.seed,
                aa_pair: self.aa,
                unobserved_pair: self.unobserved,
                settle_ns: 0,
                warmup_ns: 500_000_000,
                duration_ns: 2_000_000_000,
                stop: self.stop,
                budget_ns: None,
                retries: 1,
                max_steal_share: 0.1,
                effect: self.effect_kind,
            },
            metrics: vec![MetricChoice {
                id: "tps".into(),
                workload: None,
                primary: true,
                better: None,
                unit: None,
                margin: 0.02,
                from: None,
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

    fn arms(&self) -> Vec<Arm> {
        let mut arms = Vec::new();
        for clients in &self.clients {
            let mut add = |autogroup: bool, replica: Option<Replica>| {
                let mark = match replica {
                    None => "",
                    Some(Replica::Same) => " (A/A)",
                    Some(Replica::Unobserved) => " (unobserved)",
                };
                let level = Level::plain(autogroup);
                arms.push(Arm {
                    id: arms.len() as u32,
                    label: format!("select-only clients={clients} autogroup={}{mark}", level.label),
                    workload: "select-only".into(),
                    axes: BTreeMap::from([("clients".to_owned(), Level::plain(*clients))]),
                    factors: BTreeMap::from([("autogroup".to_owned(), level)]),
                    replica,
                });
            };
            add(true, None);
            add(false, None);
            if self.aa {
                add(true, Some(Replica::Same));
            }
            if self.unobserved {
                add(true, Some(Replica::Unobserved));
            }
        }
        arms
    }

    pub fn make(&self) -> BundleData {
        let mut noise = Noise(Pcg64Mcg::seed_from_u64(self.seed));
        let arms = self.arms();
        let mut planned: Vec<TrialSpec> = Vec::new();
        for block in 0..self.blocks * self.sessions {
            let mut order: Vec<u32> = (0..arms.len() as u32).collect();
            for i in (1..order.len()).rev() {
                order.swap(i, (noise.uniform() * (i + 1) as f64) as usize);
            }
            for (position, arm) in (0_u32..).zip(order) {
                let session = block / self.blocks;
                planned.push(TrialSpec { seq: planned.len() as u32, session, boot: session, block, position, arm });
            }
        }
        let total = planned.len();
        let trials = planned.iter().map(|spec| self.trial(spec, &arms[spec.arm as usize], total, &mut noise)).collect();
        BundleData {
            head: BundleHead {
                run_id: format!("{:08x}00000000", 0xfeed_0000 + self.seed),
                holdup_version: "0.1.0".into(),
                command: vec!["holdup".into(), "run".into(), "synthetic.toml".into()],
                created_unix_ns: 1_800_000_000_000_000_000,
                target: "local".into(),
                emulated: None,
                machine: Machine { cpus: 2, memory_bytes: 4 << 30 },
            },
            plan: self.plan(),
            plan_source: "name = \"synthetic\"\n".into(),
            schedule: Schedule { arms, trials: planned },
            metrics: vec![
                metric("latency_mean_us", "us", Direction::Lower),
                metric("tps", "1/s", Direction::Higher),
                metric("latency_p99_us", "us", Direction::Lower),
            ],
            collectors: vec![CollectorState { id: "cpu-split".into(), availability: Availability::Ready }],
            environment: vec![reading(0, vec![Fact::read("kernel.release", "6.18.0", "uname(2)")])],
            trials,
            log: Vec::new(),
            boot_logs: Vec::new(),
            ending: Some(Ending::Complete),
        }
    }

    fn trial(&self, spec: &TrialSpec, arm: &Arm, total: usize, noise: &mut Noise) -> Trial {
        let clients = match arm.axes["clients"].value {
            Value::Integer(n) => n,
            _ => 1,
        };
        let on = arm.factors["autogroup"].value == Value::Bool(true);
        let place = f64::from(spec.seq) / total.max(2) as f64;
        let truth = (self.curve)(clients) * if on { 1.0 } else { (self.effect)(clients) };
        let truth = truth * if place >= self.step.0 { self.step.1 } else { 1.0 };
        let truth = truth * if arm.replica == Some(Replica::Same) { self.aa_ratio } else { 1.0 };
        let truth = truth * if on { 1.0 } else { (self.ratio_drift * place).exp() };
        let truth = truth * (self.slow)(arm.id, spec.block);
        let tps = truth * (self.drift * place + noise.normal(self.cv)).exp();
        let mean_us = clients as f64 / tps * 1e6;
        let mut histogram = Histogram::new();
        for i in 1..=if self.histograms { 2_000_u64 } else { 0 } {
            histogram.record_ns((mean_us * 1e3 * (0.5 + i as f64 / 2_000.0)) as u64);
        }
        let begin = 1_800_000_000_000_000_000 + i64::from(spec.seq) * 3_000_000_000;
        let observed = arm.replica != Some(Replica::Unobserved);
        Trial {
            seq: spec.seq,
            session: spec.session,
            boot: spec.boot,
            block: spec.block,
            position: spec.position,
            arm: arm.id,
            attempt: 0,
            status: TrialStatus::Done,
            started_unix_ns: begin,
            ended_unix_ns: begin + 2_600_000_000,
            window: Some(Window {
                begin_unix_ns: begin + 500_000_000,
                end_unix_ns: begin + 2_500_000_000,
                length_ns: 2_000_000_000,
            }),
            measurements: vec![
                Measurement::new("tps", tps),
                Measurement::new("latency_mean_us", mean_us * self.latency_lie),
                Measurement::new("latency_p99_us", mean_us * 1.49),
            ],
            histograms: vec![NamedHistogram { name: "latency".into(), histogram }],
            evidence: if observed { vec![Self::evidence()] } else { Vec::new() },
            environment_before: vec![Fact::read("cpu.governor", "performance", "/sys")],
            environment_moved: Vec::new(),
            notes: Vec::new(),
        }
    }

    fn evidence() -> Collected {
        Collected {
            collector: "cpu-split".into(),
            items: vec![
                EvidenceItem::new("user_s", "s", 1.5),
                EvidenceItem::new("switches_involuntary", "1", 400.0),
                EvidenceItem::absent("steal_s", "s", "not a virtual machine"),
            ],
            coverage: Coverage { seen: 2, lost: 0, notes: Vec::new() },
            cost: SelfCost { cpu_ns: 400_000, wakeups: 2, bytes: 4096, ..SelfCost::default() },
            ..Collected::default()
        }
    }
}

/// Makes a trial void.
pub fn void(trial: &mut Trial, reason: &str) {
    trial.status = TrialStatus::Void { reason: reason.into() };
}

/// Every finding as text: verdict, sentence, details.
pub fn text(findings: &[Finding]) -> String {
    let mut out = String::new();
    for f in findings {
        let mark = if f.headline { "!" } else { "-" };
        out.push_str(&format!("{mark} {} {:?}, {} trials: {}\n", f.analysis, f.verdict, f.trials.len(), f.sentence));
        for detail in &f.details {
            out.push_str(&format!("    {detail}\n"));
        }
    }
    out
}

/// A run of one cell with 16 sessions all along: a transaction takes 0.5 ms of CPU time, and the rest of a session's time is
/// spent waiting for a row. The baseline waits for 0.4 ms, the other for so long that it has `ratio` of its throughput.
pub fn with_account(ratio: fn(i64) -> f64) -> BundleData {
    let base = |_| 16.0 / 0.9e-3;
    let mut bundle = Maker { clients: vec![16], effect: ratio, curve: base, cv: 0.01, ..Maker::default() }.make();
    for trial in &mut bundle.trials {
        let (tps, length_s) = (trial.metric("tps").unwrap_or(1.0), 2.0);
        let on_cpu_s = 0.5e-3 * tps * length_s;
        let state =
            |state: &str, s: f64| EvidenceItem::labelled("account_s", format!("client backend | {state}"), "s", s);
        let items = vec![
            state("on CPU | ", on_cpu_s),
            state("asleep | Lock:transactionid", 16.0 * length_s - on_cpu_s),
            EvidenceItem::labelled("account_s", "checkpointer | asleep | Activity:CheckpointerMain", "s", length_s),
        ];
        trial.evidence.push(Collected { collector: "account".into(), items, ..Collected::default() });
    }
    bundle
}
