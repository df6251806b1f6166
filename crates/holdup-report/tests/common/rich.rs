//! What collectors of events would have seen: distributions, call stacks, a timeline, sections.

use super::Noise;
use holdup_model::evidence::{BpfCost, EvidenceHistogram};
use holdup_model::stacks::{Frame, FrameKind, Stack};
use holdup_model::timeline::{TimelineDoing, TimelineEvent, TimelineKind, TimelineTask};
use holdup_model::*;

/// Paths of calls as a profile of a PostgreSQL server has them: `k:` in the kernel, `i:` inlined, `w`: how much.
const PATHS: [(&str, u64); 14] = [
    (
        "main PostmasterMain ServerLoop PostgresMain exec_simple_query PortalRun ExecutorRun ExecScan i:ExecScanFetch IndexNext index_getnext_slot _bt_search _bt_compare",
        620,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain exec_simple_query PortalRun ExecutorRun ExecScan i:ExecScanFetch IndexNext index_getnext_slot heap_hot_search_buffer",
        210,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain exec_simple_query pg_parse_query raw_parser base_yyparse core_yylex",
        340,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain exec_simple_query pg_plan_queries standard_planner subquery_planner grouping_planner",
        260,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain exec_simple_query finish_xact_command CommitTransaction RecordTransactionCommit XLogFlush LWLockAcquireOrWait i:LWLockAttemptLock",
        180,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain exec_simple_query finish_xact_command CommitTransaction ProcArrayEndTransaction LWLockAcquire i:pg_atomic_fetch_or_u32",
        130,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain ReadCommand secure_read recv k:entry_SYSCALL_64_after_hwframe k:do_syscall_64 k:__sys_recvfrom k:unix_stream_recvmsg k:schedule_timeout k:__schedule k:finish_task_switch",
        290,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain ReadyForQuery secure_write send k:entry_SYSCALL_64_after_hwframe k:do_syscall_64 k:__sys_sendto k:unix_stream_sendmsg k:sock_def_readable k:__wake_up_sync_key k:try_to_wake_up k:ttwu_queue_wakelist",
        240,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain exec_simple_query PortalRun ExecutorRun ReadBuffer_common i:BufTableLookup hash_search_with_hash_value",
        150,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain exec_simple_query PortalRun ExecutorRun heap_update XLogInsert CopyXLogRecordToWAL WALInsertLockAcquire s_lock k:asm_sysvec_apic_timer_interrupt k:sysvec_apic_timer_interrupt k:update_curr",
        60,
    ),
    (
        "main PostmasterMain ServerLoop PostgresMain exec_simple_query PortalRun ExecutorRun palloc AllocSetAlloc k:asm_exc_page_fault k:exc_page_fault k:handle_mm_fault k:clear_page_erms",
        90,
    ),
    ("main PostmasterMain BackgroundWriterMain BgBufferSync SyncOneBuffer", 25),
    ("[unknown] memcpy", 40),
    (
        "main PostmasterMain WalWriterMain XLogBackgroundFlush pwrite k:entry_SYSCALL_64_after_hwframe k:do_syscall_64 k:ksys_pwrite64 k:ext4_file_write_iter",
        45,
    ),
];

fn frame(word: &str) -> Frame {
    let (kind, name) = match word.split_once(':') {
        Some(("k", name)) => (FrameKind::Kernel, name),
        Some((_, name)) => (FrameKind::Inlined, name),
        None => (FrameKind::User, word),
    };
    let module = match (kind, name) {
        (FrameKind::Kernel, _) => Some("[kernel]"),
        (_, "recv" | "send" | "pwrite" | "memcpy") => Some("libc.so.6"),
        (_, "[unknown]") => None,
        _ => Some("postgres"),
    };
    Frame { function: name.into(), module: module.map(str::to_owned), kind }
}

fn profile(name: &str, unit: &str, scale: u64, noise: &mut Noise) -> StackProfile {
    let mut profile =
        StackProfile { name: name.into(), unit: unit.into(), truncated: 40 * scale, ..StackProfile::default() };
    if unit == "samples" {
        profile.period_ns = 1_010_101;
    }
    for (path, weight) in PATHS {
        let words: Vec<&str> = path.split(' ').collect();
        // A path is left at any depth, most often near its end.
        for depth in (2..=words.len()).rev() {
            let left = words.len() - depth;
            let weight = (weight as f64 * noise.uniform() * 0.6_f64.powi(left as i32)) as u64 * scale;
            let mut place = |word: &&str| {
                let frame = frame(word);
                let at = profile.frames.iter().position(|f| *f == frame).unwrap_or_else(|| {
                    profile.frames.push(frame);
                    profile.frames.len() - 1
                });
                at as u32
            };
            let frames = words[..depth].iter().map(&mut place).collect();
            let role = if path.contains("BackgroundWriter") { None } else { Some("server".to_owned()) };
            if weight > 0 {
                profile.stacks.push(Stack { task: "postgres".into(), role, frames, weight });
            }
        }
    }
    profile.stacks.sort_by_key(|s| std::cmp::Reverse(s.weight));
    profile
}

fn histogram(name: &str, label: &str, count: u32, mean_ns: f64, noise: &mut Noise) -> EvidenceHistogram {
    let mut histogram = SparseHistogram::new();
    for _ in 0..count {
        histogram.record_ns((mean_ns * noise.normal(1.1).exp()) as u64);
    }
    EvidenceHistogram { name: name.into(), label: Some(label.into()), histogram }
}

/// Two tasks and a kernel thread on two CPUs.
pub fn timeline() -> Timeline {
    let task = |tid, pid, name: &str| TimelineTask { tid, pid, name: name.into() };
    let event = |at_ns, cpu, kind| TimelineEvent { at_ns, cpu, kind };
    Timeline {
        begin_ns: 77_000_000_000,
        end_ns: None,
        tasks: vec![task(4001, 4000, "postgres"), task(4002, 4000, "postgres"), task(19, 19, "kworker/0:1")],
        events: vec![
            event(1_000, 0, switch(None, Some(0), "sleeping", None)),
            event(1_500, 1, switch(None, Some(1), "sleeping", None)),
            event(4_000, 0, TimelineKind::Fault { task: 0, length_ns: 2_500, section: Some("WALWrite".into()) }),
            event(9_000, 0, TimelineKind::Wakeup { task: 2, by: Some(0) }),
            event(9_400, 0, switch(Some(0), Some(2), "user_boundary", Some("holder WALWrite"))),
            event(10_000, 1, switch(Some(1), None, "blocked", Some("waiter WALWrite"))),
            event(12_345, 0, switch(Some(2), Some(0), "blocked", None)),
            event(14_000, 0, TimelineKind::Wakeup { task: 1, by: Some(0) }),
            event(14_700, 1, switch(None, Some(1), "sleeping", None)),
            // The switch to task 0 on CPU 1 was lost: nothing may be drawn of it there.
            event(20_000, 1, switch(Some(0), None, "sleeping", None)),
            // With an account.
            event(21_000, 0, switch(Some(0), Some(2), "sleeping: Lock:transactionid", None)),
            event(23_000, 0, TimelineKind::Wakeup { task: 0, by: Some(2) }),
            event(23_500, 0, switch(Some(2), Some(0), "blocked", None)),
        ],
        lost: 1,
        left_out: 0,
    }
}

fn switch(from: Option<u32>, to: Option<u32>, left: &str, section: Option<&str>) -> TimelineKind {
    TimelineKind::Switch { from, to, left: left.into(), section: section.map(str::to_owned) }
}

/// Two CPUs of a simulated machine: a holder has a fault and is switched out, another task spins for the lock meanwhile.
pub fn simulated_timeline() -> Timeline {
    let task = |tid, name: &str| TimelineTask { tid, pid: tid, name: name.into() };
    let event = |at_ns, cpu, kind| TimelineEvent { at_ns, cpu, kind };
    let did = |task, doing, length_ns, lock: Option<&str>| TimelineKind::Stretch {
        task,
        doing,
        length_ns,
        lock: lock.map(str::to_owned),
    };
    use TimelineDoing::{Interrupt, Kernel, Spin, Switch};
    Timeline {
        begin_ns: 2_000_000,
        end_ns: Some(30_000),
        tasks: vec![task(1, "worker 1"), task(2, "worker 2"), task(3, "worker 3")],
        events: vec![
            event(0, 0, switch(None, Some(0), "", None)),
            event(0, 1, switch(None, Some(1), "", None)),
            event(2_000, 0, TimelineKind::Hold { task: 0, lock: "tas".into(), length_ns: 18_500 }),
            event(4_000, 1, did(1, Spin, 16_500, Some("tas"))),
            event(5_000, 0, TimelineKind::Fault { task: 0, length_ns: 2_000, section: Some("holder tas".into()) }),
            event(6_000, 0, did(0, Interrupt, 500, None)),
            event(7_500, 0, TimelineKind::Wakeup { task: 2, by: None }),
            event(8_000, 0, switch(Some(0), Some(2), "user boundary (R)", Some("holder tas"))),
            event(8_000, 0, did(2, Switch, 1_000, None)),
            event(12_000, 0, did(2, Kernel, 3_000, None)),
            event(15_000, 0, switch(Some(2), Some(0), "blocked: for a message", None)),
            event(15_000, 0, did(0, Switch, 1_000, None)),
            event(20_500, 1, TimelineKind::Hold { task: 1, lock: "tas".into(), length_ns: 2_000 }),
            event(24_000, 0, switch(Some(0), None, "exited", None)),
        ],
        lost: 7,
        left_out: 0,
    }
}

/// The evidence of one trial. The arm with batch scheduling preempts less.
pub fn collected(tps: f64, batch: bool, noise: &mut Noise) -> Vec<Collected> {
    let rate = if batch { 0.3 } else { 1.0 } * tps;
    let mut of = |name: &str, label: &str, unit: &str, value: f64| {
        EvidenceItem::labelled(name, label, unit, (value * noise.normal(0.05).exp()).round())
    };
    let switches = vec![
        of("preempted_by", "postgres < postgres", "1", rate * 0.7),
        of("preempted_by", "postgres < pgbench", "1", rate * 0.5),
        of("preempted_by", "postgres < kworker/0:1", "1", rate * 0.04),
        of("preempted_by", "pgbench < postgres", "1", rate * 0.6),
        of("preempted_by_off_cpu_s", "postgres < pgbench", "s", 1.0),
    ];
    let sections = vec![
        of("section_samples", "WALWrite: holder", "samples", 40.0),
        of("section_samples", "WALWrite: waiter", "samples", 160.0),
        of("section_samples", "ProcArray: holder", "samples", 25.0),
        of("section_samples", "neither", "samples", 9_000.0),
        of("holder_switched_out", "WALWrite: user boundary", "1", rate * 0.02),
        of("holder_switched_out", "WALWrite: in a system call", "1", rate * 0.05),
        of("holder_off_cpu_s", "WALWrite: in a system call", "s", 2.0),
        of("waiter_switched_out", "WALWrite: sleeping", "1", rate * 0.4),
        of("holder_switched_out", "ProcArray: user boundary", "1", rate * 0.01),
        of("waiter_s", "WALWrite", "s", 8.0),
        of("waiter_behind_off_cpu_holder_s", "WALWrite", "s", 3.0),
        of("holder_preempted_by", "WALWrite < pgbench", "1", rate * 0.02),
        of("holder_preempted_by", "ProcArray < postgres", "1", rate * 0.01),
    ];
    let coverage = |seen| Coverage { seen, lost: 0, notes: Vec::new() };
    let cost = SelfCost {
        bpf: Some(BpfCost { runs: 9_000, run_ns: 1_500_000 }),
        memory_bytes: 8 << 20,
        ..SelfCost::default()
    };
    let one = |collector: &str, items, seen| Collected {
        collector: collector.into(),
        items,
        coverage: coverage(seen),
        cost,
        ..Collected::default()
    };
    let mut switches = one("switches", switches, 5_000);
    switches.histograms = vec![
        histogram("run_queue_wait_ns", "server: after wake-up", 400, 9_000.0, noise),
        histogram("run_queue_wait_ns", "server: after preemption", 150, 1_200_000.0, noise),
        histogram("off_cpu_ns", "server: user boundary", 8, 2_000_000.0, noise),
    ];
    let mut sections = one("critical-sections", sections, 300);
    sections.histograms = vec![histogram("holder_off_cpu_ns", "WALWrite", 30, 700_000.0, noise)];
    let mut on_cpu = one("cpu-profile", vec![EvidenceItem::labelled("samples", "server", "samples", 2_680.0)], 2_680);
    on_cpu.stacks = vec![profile("on_cpu", "samples", 1, noise)];
    let mut off_cpu = one("off-cpu", Vec::new(), 900);
    off_cpu.stacks = vec![profile("off_cpu", "ns", 1_000_003, noise)];
    let mut events = one("timeline", Vec::new(), 10);
    events.timeline = Some(timeline());
    vec![switches, sections, on_cpu, off_cpu, events]
}
