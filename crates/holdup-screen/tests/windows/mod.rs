//! Windows that are made up, for tests and the bench.

#![allow(dead_code, reason = "each of its users has a part of it")]

use holdup_model::bundle::{BundleHead, OBSERVED};
use holdup_model::stacks::{Frame, FrameKind, Stack};
use holdup_model::{
    BundleData, Collected, EvidenceHistogram, EvidenceItem, Machine, Plan, Schedule, SparseHistogram, StackProfile,
    Trial, Window,
};

pub(crate) fn watch() -> BundleData {
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

fn of(collector: &str, items: Vec<EvidenceItem>) -> Collected {
    Collected { collector: collector.to_owned(), items, ..Collected::default() }
}

/// The nth window of a second: sessions wait for one another's rows from the twentieth on.
pub(crate) fn window(n: i64) -> Trial {
    let item = |name: &str, label: &str, value: f64| EvidenceItem::labelled(name, label, "s", value);
    let waits = if n < 20 { 0.2 } else { 4.0 + 0.1 * (n % 3) as f64 };
    let account = vec![
        item("account_s", "client backend | on CPU | ", 1.5),
        item("account_s", "client backend | behind own tasks | ", 0.5),
        item("account_s", "client backend | asleep | Lock:transactionid", waits),
        item("account_times", "client backend | asleep | Lock:transactionid", 100.0),
        item("account_s", "client backend | blocked | IO:WALSync", 0.3),
        item("account_s", "client backend | asleep | Client:ClientRead", 4.0),
        item("account_s", "checkpointer | asleep | Activity:CheckpointerMain", 1.0),
        item("woken_wait_s", "client backend | Lock:transactionid", 0.1),
        item("woken_by_s", "client backend | asleep | Lock:transactionid | client backend | running", waits * 0.75),
        item("woken_by_s", "client backend | asleep | Lock:transactionid | client backend | runnable", waits * 0.25),
    ];
    let tasks = vec![
        item("task_on_cpu_s", "4711 | 4711 | client backend", 0.8),
        item("task_without_cpu_s", "4711 | 4711 | client backend", 0.1),
        item("task_slept_for_s", "4711 | 4711 | client backend | Client:ClientRead", 0.07),
        item("task_slept_for_s", "4711 | 4711 | client backend | LWLock:WALWrite", 0.03),
        item("task_asleep_s", "4711 | 4711 | client backend", 0.1),
        item("task_switches", "4711 | 4711 | client backend", 1_200.0),
        item("task_preempted", "4711 | 4711 | client backend", 200.0),
        item("task_on_cpu_s", "4712 | 4712 | client backend", 0.01),
        item("task_slept_for_s", "4712 | 4712 | client backend | Lock:transactionid", 0.98),
        item("task_asleep_s", "4712 | 4712 | client backend", 0.98),
        item("task_switches", "4712 | 4712 | client backend", 12.0),
        item("task_on_cpu_s", "901 | 900 | archiver-helper", 0.002),
        item("other_tasks", "other", 57.0),
        item("task_on_cpu_s", "other", 1.2),
        item("task_switches", "other", 9_000.0),
    ];
    let mut histogram = SparseHistogram::new();
    [10_000, 20_000, 3_000_000].iter().for_each(|ns| histogram.record_ns(*ns));
    let label = Some("server: after wake-up".to_owned());
    let switches = vec![
        item("preempted_by", "postgres < pgbench", 50.0),
        item("preempted_by_off_cpu_s", "postgres < pgbench", 0.2),
    ];
    let mut switches = of("switches", switches);
    switches.histograms = vec![EvidenceHistogram { name: "run_queue_wait_ns".to_owned(), label, histogram }];
    let begin_unix_ns = n * 1_000_000_000;
    let window = Window { begin_unix_ns, end_unix_ns: begin_unix_ns + 1_000_000_000, length_ns: 1_000_000_000 };
    Trial {
        started_unix_ns: begin_unix_ns,
        ended_unix_ns: window.end_unix_ns,
        window: Some(window),
        evidence: vec![of("account", account), switches, of("tasks", tasks)],
        ..Trial::default()
    }
}

/// The same window at another time.
pub(crate) fn at(trial: &Trial, n: usize) -> Trial {
    let begin_unix_ns = n as i64 * 1_000_000_000;
    let end_unix_ns = begin_unix_ns + 1_000_000_000;
    let window = Some(Window { begin_unix_ns, end_unix_ns, length_ns: 1_000_000_000 });
    Trial { started_unix_ns: begin_unix_ns, ended_unix_ns: end_unix_ns, window, ..trial.clone() }
}

/// What a query's sessions and tasks were seen in: `off-cpu` with stacks of single tasks, on a CPU and off it.
pub(crate) fn with_stacks(mut trial: Trial) -> Trial {
    let frame = |function: &str, module: &str, kind| Frame {
        function: function.to_owned(),
        module: Some(module.to_owned()),
        kind,
    };
    let frames = vec![
        frame("Lock:transactionid", "[wait event]", FrameKind::User),
        frame("exec_simple_query", "postgres", FrameKind::User),
        frame("XactLockTableWait", "postgres", FrameKind::User),
        frame("schedule", "[kernel]", FrameKind::Kernel),
        frame("heap_update", "postgres", FrameKind::User),
        frame("copy_page", "[kernel]", FrameKind::Kernel),
    ];
    let stack = |task: &str, frames: &[u32], weight| Stack {
        task: task.to_owned(),
        role: Some("server".to_owned()),
        frames: frames.to_vec(),
        weight,
    };
    let profile = |name: &str, unit: &str, stacks| StackProfile {
        name: name.to_owned(),
        unit: unit.to_owned(),
        period_ns: 0,
        frames: frames.clone(),
        stacks,
        truncated: 0,
    };
    let on = vec![
        stack("postgres-4711", &[1, 4], 30),
        stack("postgres-4711", &[1, 4, 5], 10),
        stack("postgres-4712", &[1], 5),
    ];
    let off = vec![stack("postgres-4712", &[0, 1, 2, 3], 900_000_000), stack("postgres-4711", &[1, 3], 1_000_000)];
    let mut of_cpu = of("cpu-profile", Vec::new());
    of_cpu.stacks.push(profile("on_cpu", "samples", on));
    let mut of_off_cpu = of("off-cpu", Vec::new());
    of_off_cpu.stacks.push(profile("off_cpu", "ns", off));
    let in_query = |name, label, value| EvidenceItem::labelled(name, label, "1", value);
    let queries = vec![
        in_query("sessions_in_query", "77 | Lock:transactionid", 0.9),
        in_query("sessions_in_query", "78 | CPU", 0.5),
        in_query("session_in_query", "4712 | 77", 0.9),
        in_query("session_in_query", "4711 | 77", 0.2),
        in_query("session_in_query", "4711 | 78", 0.6),
    ];
    trial.evidence.extend([of_cpu, of_off_cpu, of("queries", queries)]);
    trial
}

/// A window with what a busy server brings: `tasks` sessions of which the largest are listed, 24 wait events, 300 stacks.
pub(crate) fn large(n: usize, tasks: usize) -> Trial {
    let mut trial = window(n as i64);
    let item = |name: &str, label: String, value: f64| EvidenceItem::labelled(name, label, "s", value);
    let vary = |at: usize| 0.001 * ((at * 7_919 + n * 31) % 1_000) as f64;
    let kinds =
        ["client backend", "autovacuum worker", "parallel worker", "walwriter", "checkpointer", "background writer"];
    let events = (0..24).map(|event| format!("LWLock:Event{event:02}")).collect::<Vec<_>>();
    let account = &mut trial.evidence[0].items;
    for (k, kind) in kinds.into_iter().enumerate() {
        for (e, event) in events.iter().enumerate() {
            let at = k * 24 + e;
            account.push(item("account_s", format!("{kind} | asleep | {event}"), vary(at)));
            account.push(item("account_times", format!("{kind} | asleep | {event}"), 100.0 * vary(at)));
            account.push(item("woken_wait_s", format!("{kind} | {event}"), 0.1 * vary(at)));
            for (waker, did) in [("client backend", "running"), ("client backend", "runnable"), ("interrupt", "")] {
                let label = format!("{kind} | asleep | {event} | {waker} | {did}");
                account.push(item("woken_by_s", label, 0.3 * vary(at)));
            }
        }
        for (b, by) in ["kworker/0:1", "pgbench", "ksoftirqd/1", "rcu_preempt"].into_iter().enumerate() {
            account.push(item("behind_s", format!("{kind} | behind other tasks | {by}"), 0.01 * vary(b)));
        }
    }
    let of_tasks = &mut trial.evidence[2].items;
    of_tasks.clear();
    let listed = tasks.min(128);
    for task in 0..listed {
        let label = format!("{tid} | {tid} | client backend", tid = 100_000 + task);
        of_tasks.push(item("task_on_cpu_s", label.clone(), vary(task)));
        of_tasks.push(item("task_without_cpu_s", label.clone(), 0.1 * vary(task + 1)));
        of_tasks.push(item("task_asleep_s", label.clone(), 0.5));
        of_tasks.push(item("task_switches", label.clone(), 1_000.0 * vary(task)));
        of_tasks.push(item("task_preempted", label.clone(), 100.0 * vary(task)));
        for event in [task % 24, (task + 7) % 24] {
            of_tasks.push(item("task_slept_for_s", format!("{label} | {}", events[event]), 0.2));
        }
    }
    for name in ["other_tasks", "task_on_cpu_s", "task_without_cpu_s", "task_asleep_s", "task_switches"] {
        of_tasks.push(item(name, "other".to_owned(), (tasks - listed) as f64));
    }
    for cpu in 0..64 {
        let mut histogram = SparseHistogram::new();
        (0..200).for_each(|at| histogram.record_ns(1_000 + 977 * at * (cpu + 1)));
        let label = Some(cpu.to_string());
        trial.evidence[1].histograms.push(EvidenceHistogram {
            name: "run_queue_wait_by_cpu_ns".to_owned(),
            label,
            histogram,
        });
    }
    trial.evidence.push(profile());
    trial
}

/// 300 stacks of 20 functions.
fn profile() -> Collected {
    let mut profile = of("cpu-profile", Vec::new());
    let frame = |f: usize| Frame {
        function: format!("a_function_of_postgres_{f}"),
        module: Some("postgres".to_owned()),
        kind: FrameKind::User,
    };
    let stack = |s: usize| Stack {
        task: "postgres".to_owned(),
        role: Some("server".to_owned()),
        frames: (0..20).map(|depth| ((s * 13 + depth * 29) % 400) as u32).collect(),
        weight: 1 + (s % 7) as u64,
    };
    profile.stacks.push(StackProfile {
        name: "on_cpu".to_owned(),
        unit: "samples".to_owned(),
        period_ns: 10_101_010,
        frames: (0..400).map(frame).collect(),
        stacks: (0..300).map(stack).collect(),
        truncated: 0,
    });
    profile
}
