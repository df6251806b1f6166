//! Synthetic evidence of one watched system: quiet, unless a cause is put into it.

use holdup_model::bundle::{BundleHead, CollectorState, Ending};
use holdup_model::evidence::{BpfCost, EvidenceHistogram};
use holdup_model::explanation::{ArmExplanation, Cause};
use holdup_model::stacks::{Frame, FrameKind, Stack};
use holdup_model::*;
use std::collections::BTreeMap;

/// Windows of every story, of a second each.
pub const WINDOWS: u32 = 10;

/// A system that is watched, with causes in it.
#[derive(Clone)]
pub struct Story {
    /// What each window brings, before it is made a bundle.
    pub windows: Vec<Vec<Collected>>,
}

/// What is explained of a story.
pub fn only(story: &Story) -> ArmExplanation {
    holdup_analysis::explain(&story.bundle()).arms.remove(0)
}

/// What is said of one cause.
pub fn cause<'a>(arm: &'a ArmExplanation, id: &str) -> &'a Cause {
    arm.causes.iter().find(|c| c.id == id).expect("every cause is judged")
}

fn collected(id: &str, items: Vec<EvidenceItem>, seen: u64) -> Collected {
    Collected {
        collector: id.into(),
        items,
        coverage: Coverage { seen, lost: 0, notes: Vec::new() },
        cost: SelfCost { cpu_ns: 300_000, wakeups: 2, bytes: 4096, ..SelfCost::default() },
        ..Collected::default()
    }
}

fn item(name: &str, label: &str, unit: &str, value: f64) -> EvidenceItem {
    if label.is_empty() {
        EvidenceItem::new(name, unit, value)
    } else {
        EvidenceItem::labelled(name, label, unit, value)
    }
}

impl Story {
    /// Two CPUs, a server that uses them for most of the time, and nothing that holds it up. Numbers differ a little from
    /// window to window.
    pub fn quiet() -> Self {
        Story { windows: (0..WINDOWS).map(|w| Self::window(1.0 + f64::from(w * 7 % 5) / 100.0)).collect() }
    }

    fn switches(more: f64) -> Collected {
        let mut switches = vec![
            item("switched_out", "server: sleeping", "1", 40_000.0 * more),
            item("switched_out", "server: user boundary (R)", "1", 300.0 * more),
            item("switched_out", "server: in the kernel (R+)", "1", 30.0 * more),
            item("preempted_by_cause", "server: wake-up", "1", 250.0 * more),
            item("preempted_by_cause", "server: slice end", "1", 80.0),
            item("causes_inferred", "", "share", 0.0),
            item("preempted_by_off_cpu_s", "postgres < pgbench", "s", 0.02 * more),
            item("on_cpu_s", "server", "s", 1.5 * more),
            item("run_queue_wait_s", "server", "s", 0.04 * more),
            item("off_cpu_s", "server", "s", 6.0),
        ];
        switches.push(item("migrated", "server", "1", 20.0));
        let mut switches = collected("switches", switches, 80_000);
        switches.cost.bpf = Some(BpfCost { runs: 80_000, run_ns: 12_000_000 });
        switches.cost.memory_bytes = 1 << 20;
        switches
    }

    fn sections(more: f64) -> Collected {
        let sections = vec![
            item("sections_mapped", "", "1", 4.0),
            item("switch_outs_classified", "holder", "1", 3.0),
            item("switch_outs_classified", "waiter", "1", 1.0),
            item("switch_outs_classified", "neither", "1", 40_000.0),
            item("holder_switched_out", "StrategyGetBuffer: user boundary", "1", 3.0),
            item("holder_off_cpu_s", "StrategyGetBuffer: user boundary", "s", 0.0004 * more),
            item("section_samples", "StrategyGetBuffer: holder", "samples", 6.0),
            item("section_samples", "StrategyGetBuffer: waiter", "samples", 2.0),
            item("section_samples", "neither", "samples", 1_492.0),
            item("waiter_s", "StrategyGetBuffer", "s", 0.002 * more),
            item("waiter_behind_off_cpu_holder_s", "StrategyGetBuffer", "s", 0.0005 * more),
        ];
        collected("critical-sections", sections, 41_500)
    }

    fn window(more: f64) -> Vec<Collected> {
        let cpu = vec![
            item("cpu_share", "user", "share", 0.5),
            item("cpu_share", "system", "share", 0.3),
            item("cpu_share", "idle", "share", 0.199),
            item("cpu_share", "iowait", "share", 0.0),
            item("cpu_share", "steal", "share", 0.001 * more),
            item("cpu_used", "server user", "cpus", 1.0 * more),
            item("cpu_used", "server system", "cpus", 0.5 * more),
        ];
        vec![
            Self::switches(more),
            Self::sections(more),
            collected(
                "faults",
                vec![
                    item("faults", "server: minor", "1", 900.0 * more),
                    item("fault_s", "server", "s", 0.0009 * more),
                    item("first_touch", "server", "1", 100.0),
                    item("fault_in_section", "StrategyGetBuffer", "1", 1.0),
                    item("fault_in_section_s", "StrategyGetBuffer", "s", 0.000_01 * more),
                ],
                900,
            ),
            Collected {
                stacks: vec![stacks(&[
                    (&["main", "exec_simple_query", "heapgettup"], 1_490),
                    (&["main", "s_lock"], 2),
                ])],
                ..collected("cpu-profile", vec![item("samples", "server", "samples", 1_492.0)], 1_492)
            },
            collected("cpu", cpu, 2),
            collected("run-queue", vec![item("run_queue_waiting", "server", "tasks", 0.04 * more)], 2),
            collected(
                "cgroup-throttling",
                vec![
                    item("cgroup_periods", "", "1", 10.0),
                    item("cgroup_throttled_periods", "", "1", 0.0),
                    item("cgroup_throttled_share", "", "share", 0.0),
                ],
                2,
            ),
            collected(
                "pressure",
                vec![
                    item("pressure_share", "cpu some", "share", 0.2),
                    item("pressure_share", "io some", "share", 0.001 * more),
                    item("pressure_share", "io full", "share", 0.0),
                    item("pressure_share", "memory some", "share", 0.002 * more),
                ],
                2,
            ),
            collected(
                "kworkers",
                vec![
                    item("kworker_wait_in_kernel_s", "kworker/0:1 < vhost-42", "s", 0.000_1 * more),
                    item("kworker_waits", "kworker/0:1 < vhost-42", "1", 2.0),
                ],
                2,
            ),
        ]
    }

    /// Sets an item in every window, a little different from window to window; a new one is added.
    pub fn set(mut self, collector: &str, name: &str, label: &str, value: f64) -> Self {
        for (w, window) in (0_u32..).zip(&mut self.windows) {
            let value = value * (1.0 + f64::from(w * 3 % 7) / 100.0);
            let Some(found) = window.iter_mut().find(|c| c.collector == collector) else { continue };
            let same = |i: &&mut EvidenceItem| i.name == name && i.label.as_deref().unwrap_or_default() == label;
            match found.items.iter_mut().find(same) {
                Some(item) => item.value = Measured::Value(value),
                None => found.items.push(item(name, label, "1", value)),
            }
        }
        self
    }

    /// Adds a histogram to a collector in every window.
    pub fn histogram(mut self, collector: &str, name: &str, label: &str, values_ns: &[(u64, u64)]) -> Self {
        for found in self.windows.iter_mut().flatten().filter(|c| c.collector == collector) {
            let mut histogram = SparseHistogram::new();
            values_ns.iter().for_each(|(ns, n)| histogram.record_n_ns(*ns, *n));
            let label = (!label.is_empty()).then(|| label.to_owned());
            found.histograms.push(EvidenceHistogram { name: name.into(), label, histogram });
        }
        self
    }

    /// Another profile in every window.
    pub fn stacks(mut self, stacks_: &[(&[&str], u64)]) -> Self {
        for found in self.windows.iter_mut().flatten().filter(|c| c.collector == "cpu-profile") {
            found.stacks = vec![stacks(stacks_)];
        }
        self
    }

    /// Takes a collector out: it was not asked for.
    pub fn without(mut self, collector: &str) -> Self {
        self.windows.iter_mut().for_each(|w| w.retain(|c| c.collector != collector));
        self
    }

    /// All items of a collector are absent, with a reason.
    pub fn absent(mut self, collector: &str, why: &str) -> Self {
        for found in self.windows.iter_mut().flatten().filter(|c| c.collector == collector) {
            found.items.iter_mut().for_each(|i| i.value = Measured::Absent(why.into()));
            found.histograms.clear();
            found.stacks.clear();
        }
        self
    }

    /// The same system with an account: eight sessions that mostly wait for their clients.
    pub fn with_account(mut self) -> Self {
        for window in &mut self.windows {
            window.push(collected("account", Vec::new(), 80_000));
        }
        self.session("on CPU | ", 1.5)
            .session("behind own tasks | ", 0.03)
            .session("behind other tasks | ", 0.005)
            .session("waking | ", 0.005)
            .session("asleep | IO:WALSync", 0.02)
            .session("asleep | Client:ClientRead", 6.4)
            .set("account", "account_s", "checkpointer | asleep | Activity:CheckpointerMain", 1.0)
            .set("account", "busiest_thread_s", "postgres (42)", 0.3)
            .set("account", "busiest_thread_wait_s", "postgres (42)", 0.0)
    }

    /// Time of the sessions in a state of the account.
    pub fn session(self, state: &str, seconds: f64) -> Self {
        self.set("account", "account_s", &format!("client backend | {state}"), seconds)
    }

    /// Sessions that begin and end have most of the CPU time, this much each.
    pub fn short_connections(self, each_s: f64) -> Self {
        self.set("account", "ended_on_cpu_s", "client backend", 1.2).set(
            "account",
            "ended_processes",
            "client backend",
            1.2 / each_s,
        )
    }

    /// The sessions are tasks of a program that is no PostgreSQL server, one of which runs all the time.
    pub fn saturated_thread(mut self, wait_s: f64) -> Self {
        for account in self.windows.iter_mut().flatten().filter(|c| c.collector == "account") {
            account.items.retain(|i| i.name != "account_s" && !i.name.starts_with("busiest_thread"));
            account.items.push(item("account_s", "server | on CPU | ", "s", 0.998 - wait_s));
            account.items.push(item("account_s", "server | behind other tasks | ", "s", wait_s));
            account.items.push(item("account_s", "server | asleep | system call 232", "s", 3.0));
            account.items.push(item("busiest_thread_s", "redis-server (42)", "s", 0.998 - wait_s));
            account.items.push(item("busiest_thread_wait_s", "redis-server (42)", "s", wait_s));
        }
        self
    }

    /// Threads of a program sleep for a mutex. For `without_cpu_s` of 3 s, as far as the waker was in no queue itself, the one
    /// that had it was without a CPU.
    pub fn mutex(self, without_cpu_s: f64) -> Self {
        let woken_by = |did: &str| format!("server | asleep | mutex | server | {did}");
        self.saturated_thread(0.0)
            .set("account", "busiest_thread_s", "redis-server (42)", 0.5)
            .set("account", "account_s", "server | asleep | mutex", 4.0)
            .set("account", "woken_by_s", &woken_by("queued"), 1.0)
            .set("account", "woken_by_s", &woken_by("runnable"), without_cpu_s)
            .set("account", "woken_by_s", &woken_by("running"), 3.0 - without_cpu_s)
            .set("account", "woken_by_s", "server | asleep | epoll_wait | interrupt | ", 2.0)
    }

    /// Time of sessions that slept for an event, by who ended it.
    pub fn woken_by(self, event: &str, waker: &str, seconds: f64) -> Self {
        self.set("account", "woken_by_s", &format!("client backend | asleep | {event} | {waker}"), seconds)
    }

    /// Holders are preempted and others spin meanwhile.
    pub fn preempted_holder(self) -> Self {
        let section = "critical-sections";
        let lock = |context: &str| format!("StrategyGetBuffer: {context}");
        // What is left of sections of 20 us: anything up to that, evenly.
        let residuals: Vec<(u64, u64)> = (0..2_000).map(|i| (5 + i * 10, 1)).collect();
        self.set(section, "holder_switched_out", &lock("user boundary"), 150.0)
            .set(section, "holder_switched_out", &lock("in a page fault"), 80.0)
            .set(section, "holder_switched_out", &lock("in a system call"), 10.0)
            .set(section, "holder_off_cpu_s", &lock("user boundary"), 0.12)
            .set(section, "holder_off_cpu_s", &lock("in a page fault"), 0.08)
            .set(section, "holder_preempted_by_cause", &lock("wake-up"), 160.0)
            .set(section, "holder_preempted_by_cause", &lock("slice end"), 80.0)
            .set(section, "holder_preempted_by", "StrategyGetBuffer < pgbench", 170.0)
            .set(section, "holder_preempted_by", "StrategyGetBuffer < postgres", 70.0)
            .set(section, "section_samples", &lock("holder"), 60.0)
            .set(section, "section_samples", &lock("waiter"), 380.0)
            .set(section, "section_samples", "neither", 1_060.0)
            .set(section, "waiter_s", "StrategyGetBuffer", 0.38)
            .set(section, "waiter_behind_off_cpu_holder_s", "StrategyGetBuffer", 0.36)
            .histogram(section, "section_residual_ns", "StrategyGetBuffer", &residuals)
            .stacks(&[
                (&["main", "exec_simple_query", "heapgettup"], 1_112),
                (&["main", "StartReadBuffer", "GetVictimBuffer", "StrategyGetBuffer", "s_lock"], 380),
            ])
    }

    /// Holders fault on memory that they touch for the first time, and others spin behind them.
    pub fn fault_under_lock(self) -> Self {
        self.set("faults", "fault_in_section", "StrategyGetBuffer", 4_000.0)
            .set("faults", "fault_in_section_s", "StrategyGetBuffer", 0.02)
            .set("faults", "first_touch", "server", 4_000.0)
            .set("faults", "faults", "server: minor", 4_900.0)
            .set("critical-sections", "section_samples", "StrategyGetBuffer: holder", 25.0)
            .set("critical-sections", "section_samples", "StrategyGetBuffer: waiter", 40.0)
            .set("critical-sections", "waiter_s", "StrategyGetBuffer", 0.04)
            .histogram("faults", "fault_in_section_ns", "StrategyGetBuffer", &[(3_000, 900), (20_000, 100)])
    }

    /// Many want a lock whose holder runs.
    pub fn spin_wait(self) -> Self {
        self.set("critical-sections", "section_samples", "StrategyGetBuffer: holder", 300.0)
            .set("critical-sections", "section_samples", "StrategyGetBuffer: waiter", 350.0)
            .set("critical-sections", "section_samples", "neither", 850.0)
            .set("critical-sections", "waiter_s", "StrategyGetBuffer", 0.35)
            .stacks(&[
                (&["main", "exec_simple_query", "heapgettup"], 1_142),
                (&["main", "ReadBuffer", "StrategyGetBuffer", "s_lock.constprop.0", "perform_spin_delay"], 350),
            ])
    }

    /// More runnable tasks than CPUs.
    pub fn oversubscription(self) -> Self {
        self.set("switches", "run_queue_wait_s", "server", 9.0)
            .set("run-queue", "run_queue_waiting", "server", 9.0)
            .set("switches", "on_cpu_s", "server", 1.95)
            .set("cpu", "cpu_used", "server user", 1.4)
            .set("cpu", "cpu_share", "idle", 0.01)
    }

    /// The control group has half a CPU less than it wants.
    pub fn throttling(self) -> Self {
        self.set("cgroup-throttling", "cgroup_throttled_share", "", 0.4)
            .set("cgroup-throttling", "cgroup_throttled_periods", "", 8.0)
            .set("switches", "run_queue_wait_s", "server", 0.9)
            .set("run-queue", "run_queue_waiting", "server", 0.9)
            .set("switches", "switched_out", "server: throttled", 16.0)
            .histogram("switches", "off_cpu_ns", "server: throttled", &[(25_000_000, 16)])
    }

    /// A FIFO task runs half of the time.
    pub fn stolen(self) -> Self {
        self.set("switches", "preempted_by_cause", "server: higher class", 100.0)
            .set("switches", "preempted_by_cause", "server: wake-up", 10.0)
            .set("switches", "preempted_by_cause", "server: slice end", 5.0)
            .set("switches", "preempted_by_off_cpu_s", "postgres < rt-hog", 0.5)
            .set("switches", "run_queue_wait_s", "server", 0.5)
            .set("run-queue", "run_queue_waiting", "server", 0.5)
    }

    /// The hypervisor takes a fifth.
    pub fn steal(self) -> Self {
        self.set("cpu", "cpu_share", "steal", 0.2)
    }

    /// Tasks are blocked and the host waits for I/O.
    pub fn slow_disk(self) -> Self {
        self.set("pressure", "pressure_share", "io some", 0.6)
            .set("switches", "switched_out", "server: blocked", 300.0)
            .histogram("switches", "off_cpu_ns", "server: blocked", &[(8_000_000, 300)])
    }

    /// Tasks of the host wait for memory.
    pub fn memory(self) -> Self {
        self.set("pressure", "pressure_share", "memory some", 0.4)
    }

    /// Those of the control group wait for memory, and for little else of the disk.
    pub fn memory_of_the_group(self) -> Self {
        let of_group = |story: Self, label, share| story.set("pressure", "group_pressure_share", label, share);
        of_group(of_group(self, "memory some", 0.4), "io some", 0.5)
    }

    /// Kernel threads wait behind vhost.
    pub fn kworker(self) -> Self {
        self.set("kworkers", "kworker_wait_in_kernel_s", "kworker/0:1 < vhost-42", 0.3).set(
            "kworkers",
            "kworker_waits",
            "kworker/0:1 < vhost-42",
            400.0,
        )
    }

    /// A bundle of one arm.
    pub fn bundle(&self) -> BundleData {
        bundle(&[("observed", self)])
    }
}

fn stacks(all: &[(&[&str], u64)]) -> StackProfile {
    let mut frames: Vec<Frame> = Vec::new();
    let mut index = |name: &str| {
        let at = frames.iter().position(|f| f.function == name).unwrap_or(frames.len());
        if at == frames.len() {
            frames.push(Frame { function: name.into(), module: Some("postgres".into()), kind: FrameKind::User });
        }
        at as u32
    };
    let stacks = all
        .iter()
        .map(|(names, weight)| Stack {
            task: "postgres".into(),
            role: Some("server".into()),
            frames: names.iter().map(|n| index(n)).collect(),
            weight: *weight,
        })
        .collect();
    StackProfile { name: "on_cpu".into(), unit: "samples".into(), period_ns: 1_000_000, frames, stacks, truncated: 0 }
}

/// The collectors of a story.
const COLLECTORS: [&str; 10] = [
    "account",
    "switches",
    "critical-sections",
    "faults",
    "cpu-profile",
    "cpu",
    "run-queue",
    "cgroup-throttling",
    "pressure",
    "kworkers",
];

/// A bundle with an arm for each story. What a collector of no window is was not asked for.
pub fn bundle(stories: &[(&str, &Story)]) -> BundleData {
    let has = |id: &&&str| stories.iter().any(|(_, s)| s.windows.iter().flatten().any(|c| c.collector == **id));
    let asked: Vec<String> = COLLECTORS.iter().filter(has).map(|id| (*id).to_owned()).collect();
    let mut trials = Vec::new();
    let mut planned = Vec::new();
    for (arm, (_, story)) in (0_u32..).zip(stories) {
        for (block, evidence) in (0_u32..).zip(&story.windows) {
            let seq = trials.len() as u32;
            planned.push(TrialSpec { seq, session: 0, boot: 0, block, position: arm, arm });
            trials.push(trial(seq, block, arm, evidence.clone()));
        }
    }
    let arms = (0_u32..).zip(stories).map(|(id, (label, _))| arm(id, label)).collect();
    BundleData {
        head: BundleHead {
            run_id: "00000000feed000000000001".into(),
            holdup_version: "0.1.0".into(),
            command: ["holdup", "record", "--pid", "42"].map(String::from).to_vec(),
            created_unix_ns: 1_800_000_000_000_000_000,
            target: "local".into(),
            emulated: None,
            machine: Machine { cpus: 2, memory_bytes: 4 << 30 },
        },
        plan: plan(stories, asked.clone()),
        plan_source: String::new(),
        schedule: Schedule { arms, trials: planned },
        metrics: Vec::new(),
        collectors: asked.into_iter().map(|id| CollectorState { id, availability: Availability::Ready }).collect(),
        environment: Vec::new(),
        trials,
        log: Vec::new(),
        boot_logs: Vec::new(),
        ending: Some(Ending::Complete),
    }
}

fn arm(id: u32, label: &str) -> Arm {
    Arm {
        id,
        label: label.into(),
        workload: "observed".into(),
        axes: BTreeMap::new(),
        factors: BTreeMap::new(),
        replica: None,
    }
}

fn trial(seq: u32, block: u32, arm: u32, evidence: Vec<Collected>) -> Trial {
    let begin = 1_800_000_000_000_000_000 + i64::from(seq) * 1_000_000_000;
    Trial {
        seq,
        session: 0,
        boot: 0,
        block,
        position: arm,
        arm,
        attempt: 0,
        status: TrialStatus::Done,
        started_unix_ns: begin,
        ended_unix_ns: begin + 1_000_000_000,
        window: Some(Window { begin_unix_ns: begin, end_unix_ns: begin + 1_000_000_000, length_ns: 1_000_000_000 }),
        measurements: Vec::new(),
        histograms: Vec::new(),
        evidence,
        environment_before: Vec::new(),
        environment_moved: Vec::new(),
        notes: Vec::new(),
    }
}

fn plan(stories: &[(&str, &Story)], collectors: Vec<String>) -> Plan {
    let blank = Plan::observational("record", "What holds process 42 up?".into(), "observed", "local");
    Plan {
        design: Design {
            blocks: stories.first().map_or(0, |(_, s)| s.windows.len() as u32),
            duration_ns: 1_000_000_000,
            ..blank.design
        },
        collectors,
        ..blank
    }
}
