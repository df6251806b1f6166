//! The account: the wall time of the tasks under test, by state, as a sum that adds up.

use crate::arch;
use crate::kernel::layout::{
    ACCOUNT_ASLEEP, ACCOUNT_ENDED, ACCOUNT_STATES, ACCOUNT_WOKEN, AccountKey, AccountValue, FUTEX_LOCK, NO_SYSCALL,
    WAKER_INTERRUPT, WAKER_ON, WAKER_OTHER, WAKER_QUEUED, WokenKey,
};
use crate::kernel::{At, KernelCollector, OTHERS, Part, Program, WindowCounts, task_name};
use crate::postgres::backend_type;
use crate::reading::Produces;
use holdup_model::{Collected, EvidenceItem, Meta};
use std::collections::BTreeMap;

pub(crate) static ACCOUNT: KernelCollector = KernelCollector { meta: &META, produces: PRODUCES, part: &PART, report };

static PART: Part = Part {
    switches: &["want_account"],
    programs: &[
        Program { name: "migrates", at: At::Tracepoint("sched_migrate_task") },
        Program { name: "ends_wait", at: At::Tracepoint("sched_waking") },
    ],
    rings: &[],
};

static META: Meta = Meta {
    id: "account",
    summary: "where wall time goes: on a CPU, runnable behind what, asleep for what",
    docs: "A task is in one state at each moment, and each change of state charges the time since the last one, as does the \
           edge of a window: the states add up to the wall time. On a CPU; runnable behind tasks under test, behind \
           others (`behind_s` names them), behind a higher class (real-time), throttled by its cgroup or one above it, or \
           waking on a CPU that was idle; asleep (interruptible) or blocked (uninterruptible).\n\n\
           What a runnable task waited behind is what its CPU ran meanwhile: each CPU has clocks of the time that it ran \
           tasks under test, others, and real-time ones, which are read when a wait begins, moves to another CPU and \
           ends. The names in `behind_s` are those of the last task of each kind: \
           the 100 with the most time for each thing that waits, and of a process those of 256 rows of a window. The rest is \
           `(other programs)`. A task of PostgreSQL that sleeps is charged to its wait event, which is read from its memory as it leaves the CPU \
           (the exported variable my_wait_event_info): exact, without a connection and for all processes. Others are \
           charged to the system call that they sleep in; a futex whose word says \"locked, with waiters\" is a mutex.\n\n\
           `woken_by_s` says who ended a sleep: the task that woke the sleeper, or an interrupt (timers, devices). Since the \
           last waiter for the same thing was woken, it was in the hands of the next waker: of a waker under test that time is \
           split by what it did, asleep for what, runnable without a CPU, or running; its last four times off the CPU of \
           10 \u{b5}s and more are known. Before that the sleeper was queued behind others. A sleep that does not end in the \
           window has no waker, and sleeps of sessions without work (wait events Client and Activity) and of programs, but for \
           mutexes, are not asked for theirs.\n\n\
           `woken_wait_s` is the part of the runnable time between the end of a wait and the moment that the task runs, by what \
           it had waited for: until then pg_stat_activity still shows the wait event.\n\n\
           `account_s` has a label of three parts: kind of process | state | what it waits for. Needs root (or CAP_BPF \
           and CAP_PERFMON) and a kernel with BTF, 5.15 or later.",
    references: &[
        "kernel/sched/core.c:__schedule, ttwu_do_wakeup; set_task_cpu; kernel/sched/fair.c:throttled_hierarchy (v6.18)",
        "src/backend/utils/activity/wait_event.c, src/backend/utils/init/miscinit.c (PostgreSQL 15-18)",
    ],
};

const PRODUCES: Produces = &[
    ("account_s", "s", "wall time by kind of process, state and what it waited for (KIND | STATE | FOR)"),
    ("account_times", "1", "waits that ended in the window, with the same labels"),
    ("busiest_thread_s", "s", "time on a CPU of the thread that had most of it, by name (tid)"),
    ("busiest_thread_wait_s", "s", "time that the same thread was runnable and on no CPU"),
    ("ended_processes", "1", "processes that began while watched and ended in the window, by kind"),
    ("ended_on_cpu_s", "s", "the CPU time of all their life"),
    (
        "woken_by_s",
        "s",
        "sleeps that ended, by who ended them and what it did meanwhile (KIND | STATE | FOR | WAKER | WHAT IT DID)",
    ),
    ("woken_wait_s", "s", "time runnable between the end of a wait and the next run, by wait event (KIND | FOR)"),
    ("behind_s", "s", "time runnable behind tasks that are not under test (KIND | STATE | NAME)"),
];

/// In the order of `enum account_state`.
const STATES: [&str; ACCOUNT_STATES] = [
    "on CPU",
    "behind own tasks",
    "behind other tasks",
    "behind a higher class",
    "throttled",
    "waking",
    "asleep",
    "blocked",
];

/// PostgreSQL's processes by what they are, others by their role.
fn kind(window: &WindowCounts, role: u8, kind: u8) -> String {
    let of_role = window.roles.get(usize::from(role)).map_or("", String::as_str);
    match (process_kind(window, role, kind), kind) {
        (Some(named), _) => named.to_owned(),
        (None, 0) => of_role.to_owned(),
        (None, kind) => format!("{of_role}: backend type {kind}"),
    }
}

/// What a process of PostgreSQL is; `None` for others.
pub(crate) fn process_kind(window: &WindowCounts, role: u8, kind: u8) -> Option<&'static str> {
    let version = window.versions.of(u32::from(role));
    version.and_then(|major| backend_type(major, u32::from(kind)))
}

/// What a task of a role sleeps for.
pub(crate) fn sleep(window: &WindowCounts, role: u8, wait_event: u32, syscall: u32) -> String {
    if wait_event != 0 {
        window.versions.wait_event(u32::from(role), wait_event)
    } else if syscall == NO_SYSCALL as u32 {
        "page fault".to_owned()
    } else if syscall == FUTEX_LOCK as u32 {
        "mutex".to_owned()
    } else {
        let name = arch::syscall_name(syscall);
        name.map_or_else(|| format!("system call {syscall}"), str::to_owned)
    }
}

/// The state of a task.
fn state_name(state: u8) -> &'static str {
    STATES.get(usize::from(state)).copied().unwrap_or("unknown")
}

fn waits_for(window: &WindowCounts, key: &AccountKey) -> String {
    if usize::from(key.state) < ACCOUNT_ASLEEP {
        return String::new();
    }
    sleep(window, key.role, key.wait_event, key.syscall)
}

/// `KIND | STATE | FOR`, and `WAKER | WHAT IT DID`.
fn woken_by(window: &WindowCounts, key: &WokenKey) -> (String, String) {
    let state = usize::from(key.by_state);
    let (waker, did) = if state == WAKER_INTERRUPT {
        ("interrupt".to_owned(), String::new())
    } else if state == WAKER_OTHER {
        (task_name(&key.by), String::new())
    } else {
        let did = match state {
            WAKER_ON => "running".to_owned(),
            WAKER_QUEUED => "queued".to_owned(),
            _ if state < ACCOUNT_ASLEEP => "runnable".to_owned(),
            _ => sleep(window, key.by_role, key.by_wait_event, key.by_syscall),
        };
        (kind(window, key.by_role, key.by_kind), did)
    };
    let of = state_name(key.state);
    let slept = sleep(window, key.role, key.wait_event, key.syscall);
    (format!("{} | {of} | {slept}", kind(window, key.role, key.kind)), format!("{waker} | {did}"))
}

/// Names of tasks that are not under test for each thing that waits: anybody can make more of them.
const MOST_NAMES: usize = 100;

/// Time by what waits and a name.
#[derive(Default)]
struct TimeByName(BTreeMap<String, BTreeMap<String, u64>>);

impl TimeByName {
    fn add(&mut self, of: String, name: String, ns: u64) {
        *self.0.entry(of).or_default().entry(name).or_default() += ns;
    }

    /// Evidence of the names with the most time, and of the rest as one.
    fn items(self, item: &'static str, rest: &str) -> Vec<EvidenceItem> {
        let mut items = Vec::new();
        for (of, names) in self.0 {
            let mut names: Vec<(String, u64)> = names.into_iter().collect();
            names.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
            let (few, many) = names.split_at(names.len().min(MOST_NAMES));
            let others: u64 = many.iter().map(|(_, ns)| ns).sum();
            let mut few = few.to_vec();
            match few.iter_mut().find(|(name, _)| name == rest) {
                Some((_, ns)) => *ns += others,
                None if others > 0 => few.push((rest.to_owned(), others)),
                None => {}
            }
            let labelled = |(name, ns): (String, u64)| {
                EvidenceItem::labelled(item, format!("{of} | {name}"), "s", ns as f64 / 1e9)
            };
            items.extend(few.into_iter().map(labelled));
        }
        items
    }
}

type Row = (AccountKey, AccountValue);

fn report(window: &WindowCounts, collected: &mut Collected) -> Result<u64, String> {
    let account = window.account.as_ref().map_err(|why| format!("this kernel does not take its programs: {why}"))?;
    let mut sums: BTreeMap<String, AccountValue> = BTreeMap::new();
    let (ended, states): (Vec<&Row>, Vec<&Row>) =
        account.states.iter().partition(|(key, _)| usize::from(key.state) == ACCOUNT_ENDED);
    let (woken, states): (Vec<&Row>, Vec<&Row>) =
        states.into_iter().partition(|(key, _)| usize::from(key.state) == ACCOUNT_WOKEN);
    for (key, value) in woken {
        let event = sleep(window, key.role, key.wait_event, key.syscall);
        let label = format!("{} | {event}", kind(window, key.role, key.kind));
        collected.items.push(EvidenceItem::labelled("woken_wait_s", label, "s", value.ns as f64 / 1e9));
    }
    for (key, value) in ended {
        let kind = kind(window, key.role, key.kind);
        collected.items.push(EvidenceItem::labelled("ended_processes", &kind, "1", value.times as f64));
        collected.items.push(EvidenceItem::labelled("ended_on_cpu_s", &kind, "s", value.ns as f64 / 1e9));
    }
    for (key, value) in states {
        let state = state_name(key.state);
        let label = format!("{} | {state} | {}", kind(window, key.role, key.kind), waits_for(window, key));
        let sum = sums.entry(label).or_insert(AccountValue { ns: 0, times: 0 });
        sum.ns += value.ns;
        sum.times += value.times;
    }
    for (label, value) in &sums {
        collected.items.push(EvidenceItem::labelled("account_s", label, "s", value.ns as f64 / 1e9));
        if value.times > 0 {
            collected.items.push(EvidenceItem::labelled("account_times", label, "1", value.times as f64));
        }
    }
    let (mut behind, mut woken) = (TimeByName::default(), TimeByName::default());
    let mut wakers: BTreeMap<String, u64> = BTreeMap::new();
    for (key, value) in &account.behind {
        let of = format!("{} | {}", kind(window, key.role, key.kind), state_name(key.state));
        behind.add(of, task_name(&key.by), value.ns);
    }
    for (key, value) in &account.woken {
        let (of, waker) = woken_by(window, key);
        match usize::from(key.by_state) {
            WAKER_OTHER => woken.add(of, waker, value.ns),
            _ => *wakers.entry(format!("{of} | {waker}")).or_default() += value.ns,
        }
    }
    collected.items.extend(behind.items("behind_s", OTHERS));
    let of_wakers = wakers.iter().map(|(label, ns)| EvidenceItem::labelled("woken_by_s", label, "s", *ns as f64 / 1e9));
    collected.items.extend(of_wakers.chain(woken.items("woken_by_s", &format!("{OTHERS} | "))));
    if collected.items.iter().any(|item| item.label.as_deref().is_some_and(|label| label.contains(OTHERS))) {
        collected.coverage.notes.push(format!("there are more names than are kept: the rest is {OTHERS}"));
    }
    collected.coverage.notes.extend(window.versions.notes.iter().cloned());
    if let Some(busiest) = &window.busiest {
        let label = format!("{} ({})", task_name(&busiest.comm), busiest.tid);
        let both = [("busiest_thread_s", busiest.ns), ("busiest_thread_wait_s", busiest.wait_ns)];
        collected.items.extend(both.map(|(name, ns)| EvidenceItem::labelled(name, &label, "s", ns as f64 / 1e9)));
    }
    Ok(window.counts.switches)
}
