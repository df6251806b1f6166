//! Tasks and what belongs to each, as the knobs of policies and of CPUs save and find it.

use holdup_host::{Host, HostError, Scheduling, process};
use holdup_model::{Problem, Value};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What a knob sets on each task.
pub(crate) trait TaskState: Clone + Serialize + DeserializeOwned {
    /// What must be known of the host to understand any task; asked once for all.
    type Around;

    fn around(host: &Host) -> Result<Self::Around, HostError>;

    /// What the task has now.
    fn of(host: &Host, tid: u32, around: &Self::Around) -> Result<Self, HostError>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedTask<S> {
    pub(crate) pid: u32,
    /// When the process began, in ticks since boot: its pid may be used again.
    pub(crate) pid_start: u64,
    pub(crate) tid: u32,
    pub(crate) tid_start: u64,
    /// True if it was set; descendants of such are only remembered.
    pub(crate) is_listed: bool,
    #[serde(flatten)]
    pub(crate) state: S,
}

pub(crate) fn encode<S: TaskState>(tasks: &[SavedTask<S>]) -> Result<Value, Problem> {
    serde_json::to_string(tasks).map(Value::Text).map_err(|e| Problem::internal("saved tasks", e.to_string()))
}

pub(crate) fn decode<S: TaskState>(saved: &Value) -> Result<Vec<SavedTask<S>>, Problem> {
    let Value::Text(text) = saved else {
        return Err(Problem::internal("saved tasks", format!("`{saved}` is not a list of tasks")));
    };
    serde_json::from_str(text).map_err(|e| Problem::internal("saved tasks", e.to_string()))
}

/// What [`crate::Knob::save`] gives for a knob of tasks: the state of the processes that nothing saved yet covers.
pub(crate) fn save<S: TaskState>(host: &Host, pids: &[u32], already: &[&Value]) -> Result<Option<Value>, Problem> {
    let known: Vec<Vec<SavedTask<S>>> = already.iter().map(|saved| decode(saved)).collect::<Result<_, _>>()?;
    let fresh = uncovered(host, pids, &known)?;
    if fresh.is_empty() { Ok(None) } else { encode::<S>(&snapshot(host, &fresh)?).map(Some) }
}

/// What [`crate::Knob::overlaps`] gives for a knob of tasks.
pub(crate) fn overlaps<S: TaskState>(host: &Host, pids: &[u32], saved: &Value) -> Result<bool, Problem> {
    let saved = decode::<S>(saved)?;
    uncovered(host, pids, &[saved]).map(|rest| rest.len() < pids.len())
}

/// `None` for an error that says that the task has ended meanwhile: ENOENT from files, ESRCH from system calls.
pub(crate) fn unless_ended<T>(result: Result<T, HostError>) -> Result<Option<T>, Problem> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(e) if e.is_gone() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// The threads of a process; none when it has ended.
pub(crate) fn of(host: &Host, pid: u32) -> Result<Vec<u32>, Problem> {
    Ok(unless_ended(process::tasks(host, pid))?.unwrap_or_default())
}

fn is<S>(saved: &SavedTask<S>, stat: &process::Stat) -> bool {
    saved.pid == stat.pid && saved.pid_start == stat.start_time
}

/// The processes of `pids` whose state no earlier snapshot holds. A process that was born of a known one after its
/// snapshot is held by that: what it has now it was born with.
fn uncovered<S>(host: &Host, pids: &[u32], known: &[Vec<SavedTask<S>>]) -> Result<Vec<u32>, Problem> {
    let all = process::all(host)?;
    let by_pid: BTreeMap<u32, &process::Stat> = all.iter().map(|s| (s.pid, s)).collect();
    let is_covered = |pid: u32, snapshot: &[SavedTask<S>]| {
        let Some(stat) = by_pid.get(&pid) else { return true };
        match snapshot.iter().find(|t| is(t, stat)) {
            Some(task) => task.is_listed,
            None => ancestor(&by_pid, snapshot, pid).is_some_and(|task| task.is_listed),
        }
    };
    Ok(pids.iter().copied().filter(|pid| !known.iter().any(|snapshot| is_covered(*pid, snapshot))).collect())
}

/// The nearest ancestor in a snapshot.
fn ancestor<'a, S>(
    by_pid: &BTreeMap<u32, &process::Stat>,
    snapshot: &'a [SavedTask<S>],
    pid: u32,
) -> Option<&'a SavedTask<S>> {
    let mut seen = BTreeSet::new();
    let mut at = by_pid.get(&pid)?.ppid;
    while seen.insert(at) {
        let stat = by_pid.get(&at)?;
        if let Some(task) = snapshot.iter().find(|t| is(t, stat) && t.tid == t.pid) {
            return Some(task);
        }
        at = stat.ppid;
    }
    None
}

/// The state of every thread of some processes, and of their descendants, which are marked as not listed.
fn snapshot<S: TaskState>(host: &Host, pids: &[u32]) -> Result<Vec<SavedTask<S>>, Problem> {
    let all = process::all(host)?;
    let begin: BTreeMap<u32, u64> = all.iter().map(|s| (s.pid, s.start_time)).collect();
    let mut order: Vec<(u32, bool)> = pids.iter().map(|pid| (*pid, true)).collect();
    let born = process::descendants(&all, pids);
    order.extend(born.into_iter().map(|pid| (pid, false)));
    let around = S::around(host)?;
    let mut saved = Vec::new();
    for (pid, is_listed) in order {
        let Some(pid_start) = begin.get(&pid).copied() else { continue };
        for tid in of(host, pid)? {
            let Some(state) = unless_ended(S::of(host, tid, &around))? else { continue };
            let Some(stat) = unless_ended(process::task_stat(host, pid, tid))? else { continue };
            saved.push(SavedTask { pid, pid_start, tid, tid_start: stat.start_time, is_listed, state });
        }
    }
    Ok(saved)
}

/// The tasks that run now and were set, or were born of such since, each with what it shall have again.
pub(crate) fn now<S: TaskState>(host: &Host, saved: &[SavedTask<S>]) -> Result<Vec<(u32, S)>, Problem> {
    let all = process::all(host)?;
    let by_pid: BTreeMap<u32, &process::Stat> = all.iter().map(|s| (s.pid, s)).collect();
    let mut found = Vec::new();
    for stat in &all {
        let own: Vec<&SavedTask<S>> = saved.iter().filter(|t| is(t, stat)).collect();
        let main = own.iter().find(|t| t.tid == t.pid).or(own.first()).copied();
        let nearest = main.or_else(|| ancestor(&by_pid, saved, stat.pid));
        let Some(nearest) = nearest.filter(|task| task.is_listed) else { continue };
        for tid in of(host, stat.pid)? {
            let began = unless_ended(process::task_stat(host, stat.pid, tid))?.map(|s| s.start_time);
            let Some(began) = began else { continue };
            let known = own.iter().find(|t| t.tid == tid && t.tid_start == began);
            found.push((tid, known.copied().unwrap_or(nearest).state.clone()));
        }
    }
    Ok(found)
}

/// True if a process runs as the user that holdup runs as.
pub(crate) fn is_own(host: &Host, pid: u32) -> bool {
    let euid = |pid: &str| -> Option<String> {
        let text = host.read_text(&format!("/proc/{pid}/status")).ok()?;
        let ids = text.lines().find_map(|l| l.strip_prefix("Uid:"))?;
        ids.split_ascii_whitespace().nth(1).map(str::to_owned)
    };
    match (euid("self"), euid(&pid.to_string())) {
        (Some(own), Some(other)) => own == other,
        // Without the files the attempt decides.
        _ => true,
    }
}

/// What holdup may do to the scheduling of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Privilege {
    /// CAP_SYS_NICE in the first user namespace.
    may_all: bool,
    /// The lowest nice value that RLIMIT_NICE lets a task go down to; 20 when none.
    floor: i32,
}

impl Privilege {
    pub(crate) fn of(host: &Host) -> Self {
        const CAP_SYS_NICE: u32 = 23;
        if !host.is_live() {
            return Privilege { may_all: true, floor: 20 };
        }
        let has_capability = process::capabilities(host).is_some_and(|held| held >> CAP_SYS_NICE & 1 == 1);
        // The kernel asks for the capability in the first user namespace, which maps all ids onto themselves.
        let is_first = host.read_text("/proc/self/uid_map").is_ok_and(|map| {
            let words: Vec<&str> = map.split_ascii_whitespace().collect();
            words == ["0", "0", "4294967295"]
        });
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nice).current.unwrap_or(40);
        let floor = 20 - i32::try_from(limit.min(40)).unwrap_or(0);
        Privilege { may_all: has_capability && is_first, floor }
    }

    /// True if the tasks of every user may be set.
    pub(crate) fn may_all(self) -> bool {
        self.may_all
    }

    /// True if every change and its way back is open.
    pub(crate) fn is_full(self) -> bool {
        self.may_all || self.floor <= -20
    }

    /// True if the kernel lets a task of one's own go from one state to another
    /// (`kernel/sched/syscalls.c:user_check_sched_setscheduler` and `can_nice`, v6.18).
    pub(crate) fn permits(self, from: Scheduling, to: Scheduling) -> bool {
        let is_realtime = |s: Scheduling| matches!(s.policy, Scheduling::FIFO | Scheduling::RR | Scheduling::DEADLINE);
        if self.may_all || from == to {
            return true;
        }
        if is_realtime(to) || (from.reset_on_fork && !to.reset_on_fork) {
            return false;
        }
        let leaves_idle = from.policy == Scheduling::IDLE && to.policy != Scheduling::IDLE;
        (!leaves_idle || from.nice >= self.floor) && (to.nice >= from.nice || to.nice >= self.floor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct Nice {
        nice: i32,
    }

    impl TaskState for Nice {
        type Around = ();

        fn around(_host: &Host) -> Result<(), HostError> {
            Ok(())
        }

        fn of(host: &Host, tid: u32, (): &()) -> Result<Self, HostError> {
            host.scheduling(tid).map(|s| Nice { nice: s.nice })
        }
    }

    #[test]
    fn what_an_ordinary_user_may_do_is_what_the_kernel_lets_through() {
        let batch = |nice| Scheduling { policy: Scheduling::BATCH, ..Scheduling::other(nice) };
        let idle = |nice| Scheduling { policy: Scheduling::IDLE, ..Scheduling::other(nice) };
        let none = Privilege { may_all: false, floor: 20 };
        let to_five = Privilege { may_all: false, floor: 5 };
        let check = |who: Privilege, from, to, expect: bool| {
            assert_eq!(who.permits(from, to), expect, "{who:?} {from:?} {to:?}");
        };
        check(none, Scheduling::other(0), batch(0), true);
        check(none, batch(0), Scheduling::other(0), true);
        check(none, Scheduling::other(0), idle(0), true);
        check(none, idle(0), Scheduling::other(0), false);
        check(none, Scheduling::other(0), Scheduling::other(5), true);
        check(none, Scheduling::other(5), Scheduling::other(0), false);
        check(to_five, Scheduling::other(9), Scheduling::other(5), true);
        check(to_five, Scheduling::other(9), Scheduling::other(4), false);
        check(to_five, idle(6), Scheduling::other(6), true);
        check(Privilege { may_all: true, floor: 20 }, idle(0), Scheduling::other(-20), true);
    }

    #[test]
    fn children_born_later_are_covered_and_others_are_not() {
        let fs = MemoryFs::new();
        fs.put_process(10, 1, 100, Scheduling::other(0));
        fs.put_process(11, 10, 101, Scheduling::other(3));
        let host = fs.host();
        let saved = snapshot::<Nice>(&host, &[10]).expect("they run");
        fs.put_process(12, 11, 102, Scheduling::other(3));
        fs.put_process(13, 10, 103, Scheduling::other(0));
        fs.put_process(20, 1, 104, Scheduling::other(0));
        let known = [saved.clone()];
        assert_eq!(uncovered(&host, &[10, 13, 12, 20], &known).expect("they run"), [12, 20]);
        // 11 ran already and was not listed: its own state, and that of its children, must be saved before it is set.
        assert_eq!(uncovered(&host, &[11], &known).expect("they run"), [11]);
        let found = now(&host, &saved).expect("they run");
        assert_eq!(found, [(10, Nice { nice: 0 }), (13, Nice { nice: 0 })]);
        // The pid is used again by another process.
        fs.end_process(10);
        fs.put_process(10, 1, 999, Scheduling::other(0));
        assert_eq!(uncovered(&host, &[10], &known).expect("they run"), [10]);
    }
}
