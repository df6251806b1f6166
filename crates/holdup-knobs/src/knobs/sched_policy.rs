//! The scheduling policy, nice value and slice of the processes under test.

use crate::pieces;
use crate::sample::{Sample, Surface};
use crate::sched_level::{Level, Slice, is_fair, word};
use crate::tasks::{self, Privilege, SavedTask, TaskState};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_host::{Host, HostError, Scheduling, cpu_list};
use holdup_model::profile::Destination;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use serde::{Deserialize, Serialize};
use std::io::ErrorKind;

/// `sched-policy`.
pub(crate) struct SchedPolicy;

static META: Meta = Meta {
    id: "sched-policy",
    summary: "scheduling policy: other, batch, idle, fifo:N, nice:N, slice:D",
    docs: "`other` is SCHED_OTHER and `batch` SCHED_BATCH; both take `nice:N` (-20 to 19, else 0) and `slice:D` after \
           them, in this order: `batch nice:5`, `other slice:3ms`; `nice:5` alone is `other nice:5`. `idle` is \
           SCHED_IDLE, `fifo:N` SCHED_FIFO at priority N (1 to 99).\n\n\
           A batch task that wakes up does not preempt the one that runs; otherwise it has the same share. Idle tasks \
           run when little else wants to, and are preempted by everything. A fifo task runs until it waits, before all \
           others: with more of them than CPUs the rest of the host gets only what real-time throttling leaves it \
           (kernel.sched_rt_runtime_us, 5 % by default).\n\n\
           The slice is how long a task runs before another one has its turn: 100us to 100ms, from Linux 6.12 on. A \
           level without it means the default one (base_slice_ns). The kernel does not say whether a slice is a \
           task's own; holdup takes one that differs from the default for that.\n\n\
           It is set on every thread of the processes under test: the postmaster with all its children, which hand \
           it on to each new backend; or holdup itself, which hands it on to the load that it starts. What each \
           single thread had before is kept and put back, also for processes that were born meanwhile.\n\n\
           An ordinary user may set batch and a slice and take them back. Fifo, a lower nice value, and a way back from \
           idle or from a higher nice value, need CAP_SYS_NICE or limits (RLIMIT_NICE); without them such a level is \
           refused, because it could not be undone.",
    references: &[
        "sched(7), sched_setattr(2), setpriority(2)",
        "kernel/sched/syscalls.c:user_check_sched_setscheduler, get_params (v6.18)",
        "kernel/sched/fair.c:check_preempt_wakeup_fair, __setparam_fair (v6.18)",
        "Documentation/scheduler/sched-rt-group.rst (v6.18)",
    ],
};

/// What a task has, as it is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    policy: u32,
    reset_on_fork: bool,
    nice: i32,
    priority: i32,
    /// In ns; `None` where the kernel does not report it.
    #[serde(default)]
    slice_ns: Option<u64>,
    /// True if the slice differs from the default one.
    #[serde(default)]
    has_own_slice: bool,
}

impl State {
    fn scheduling(&self) -> Scheduling {
        let State { policy, reset_on_fork, nice, priority, .. } = *self;
        Scheduling { policy, reset_on_fork, nice, priority }
    }

    fn word(&self) -> String {
        word(self.scheduling(), self.slice_ns.filter(|_| self.has_own_slice))
    }
}

impl TaskState for State {
    type Around = Vec<u64>;

    fn around(host: &Host) -> Result<Vec<u64>, HostError> {
        default_slices(host)
    }

    fn of(host: &Host, tid: u32, defaults: &Vec<u64>) -> Result<Self, HostError> {
        let Scheduling { policy, reset_on_fork, nice, priority } = host.scheduling(tid)?;
        let slice_ns = host.slice(tid)?;
        let has_own_slice = slice_ns.is_some_and(|slice| !defaults.contains(&slice));
        Ok(State { policy, reset_on_fork, nice, priority, slice_ns, has_own_slice })
    }
}

/// What the default slice can be. A task that slept since the default was changed still shows the old one, so it is
/// what debugfs says, what holdup itself has, and what the kernel begins with.
fn default_slices(host: &Host) -> Result<Vec<u64>, HostError> {
    let mut slices = Vec::new();
    match host.read_value("/sys/kernel/debug/sched/base_slice_ns") {
        Ok(text) => slices.extend(text.parse::<u64>()),
        Err(e) if e.kind == ErrorKind::NotFound || e.kind == ErrorKind::PermissionDenied => {}
        Err(e) => return Err(e),
    }
    match host.slice(std::process::id()) {
        Ok(own) => slices.extend(own),
        Err(e) if e.is_gone() => {}
        Err(e) => return Err(e),
    }
    match host.read_value("/sys/devices/system/cpu/online") {
        Ok(list) => {
            let cpus = cpu_list(&list).map_or(1, |cpus| cpus.len().clamp(1, 8));
            // `sysctl_sched_base_slice` times `get_update_sysctl_factor` (kernel/sched/fair.c, v6.18).
            slices.push(700_000 * u64::from(1 + cpus.ilog2()));
        }
        Err(e) if e.is_gone() => {}
        Err(e) => return Err(e),
    }
    Ok(slices)
}

impl Knob for SchedPolicy {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Text
    }

    fn samples(&self) -> &'static [Sample] {
        const {
            &[Sample {
                real_levels: &[
                    "batch",
                    "idle",
                    "nice:5",
                    "nice:-5",
                    "batch nice:7",
                    "other",
                    "fifo:3",
                    "slice:3ms",
                    "batch slice:1ms",
                ],
                is_paired: true,
                has_parts: true,
                ..Sample::new("sched-policy", Surface::Policies, ["batch slice:3ms", "nice:5"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        "policy, nice value and slice of every thread of the processes under test".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        if let Err(problem) = self.read(context, "") {
            return Availability::unavailable(format!("{}: {}", problem.what, problem.why));
        }
        let privilege = Privilege::of(context.host);
        if privilege.is_full() {
            return Availability::Ready;
        }
        if let Some(pid) = context.pids.iter().find(|pid| !tasks::is_own(context.host, **pid)) {
            return Availability::unavailable_but(
                format!("process {pid} belongs to another user"),
                "run holdup as root, or let it start the server itself",
            );
        }
        Availability::Degraded {
            reason:
                "without CAP_SYS_NICE only batch and slices can be set and undone; fifo, idle and other nice values \
                     are refused where the way back is closed (RLIMIT_NICE)"
                    .to_owned(),
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let defaults = default_slices(context.host)?;
        let mut found = Vec::new();
        for pid in &context.pids {
            for tid in tasks::of(context.host, *pid)? {
                found.extend(tasks::unless_ended(State::of(context.host, tid, &defaults))?);
            }
        }
        if found.is_empty() {
            return Err(Problem::host("factor sched-policy", "none of the processes under test runs"));
        }
        Ok(summary(&found))
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        Level::parse(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        let defaults = default_slices(context.host)?;
        let level = Level::parse(value)?.without_default(&defaults);
        let privilege = Privilege::of(context.host);
        let mut plan = Vec::new();
        for pid in &context.pids {
            for tid in tasks::of(context.host, *pid)? {
                let Some(now) = tasks::unless_ended(State::of(context.host, tid, &defaults))? else { continue };
                if !is_undoable(now.scheduling(), level.scheduling(now.scheduling()), privilege) {
                    return Err(Problem::host(
                        format!("factor sched-policy = {value}"),
                        format!("task {tid} of process {pid} is {} and could not be put back", now.word()),
                    )
                    .hint("run holdup as root, or raise RLIMIT_NICE (ulimit -e)"));
                }
                if level.slice_ns().is_some() && now.slice_ns.is_none() && is_fair(now.scheduling()) {
                    return Err(Problem::host(
                        format!("factor sched-policy = {value}"),
                        "the kernel has no slices of single tasks",
                    )
                    .hint("use Linux 6.12 or later"));
                }
                plan.push((tid, now));
            }
        }
        // Nothing is touched before every task was found to have a way back.
        plan.into_iter().try_for_each(|(tid, now)| {
            let then = now.scheduling();
            put(context.host, tid, &now, level.scheduling(then), level.slice(then))
        })
    }

    fn same(&self, a: &Value, b: &Value) -> bool {
        match (Level::parse(a), Level::parse(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => a == b,
        }
    }

    fn same_here(&self, context: &KnobContext<'_>, _instance: &str, wanted: &Value, found: &Value) -> bool {
        match (Level::parse(wanted), default_slices(context.host)) {
            (Ok(level), Ok(defaults)) => self.same(&Value::Text(level.without_default(&defaults).to_string()), found),
            _ => self.same(wanted, found),
        }
    }

    fn save(&self, context: &KnobContext<'_>, _instance: &str, already: &[&Value]) -> Result<Option<Value>, Problem> {
        tasks::save::<State>(context.host, &context.pids, already)
    }

    fn overlaps(&self, context: &KnobContext<'_>, saved: &Value) -> Result<bool, Problem> {
        tasks::overlaps::<State>(context.host, &context.pids, saved)
    }

    fn standing(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<Standing, Problem> {
        let found = compare(context.host, past)?;
        if found.is_empty() {
            return Ok(Standing::Gone("the processes have ended".to_owned()));
        }
        let all: Vec<State> = found.iter().map(|task| task.now).collect();
        Ok(if found.iter().all(|task| task.is_back) {
            Standing::Restored
        } else if found.iter().any(|task| task.is_ours) {
            Standing::Ours(summary(&all))
        } else if found.iter().all(|task| task.is_back || task.is_alike) {
            Standing::Alike(summary(&all))
        } else {
            Standing::Foreign(summary(&all))
        })
    }

    /// Puts back each task that has what holdup wrote; one that someone else set meanwhile is left alone.
    fn restore(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<(), Problem> {
        let mut first = Ok(());
        // A parent is put back before its children are looked at again, so that none is born with the old level after.
        for _ in 0..2 {
            let found = compare(context.host, past)?;
            for Compared { tid, mut now, before, is_alike, .. } in found.into_iter().filter(|t| t.is_ours || t.is_alike)
            {
                now.has_own_slice |= is_alike;
                let slice = match before.slice_ns {
                    Some(own) if before.has_own_slice => Slice::Own(own),
                    _ => Slice::Default,
                };
                let done = put(context.host, tid, &now, before.scheduling(), slice);
                first = first.and(done);
            }
        }
        first
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        let Ok(saved) = tasks::decode::<State>(saved) else { return "chrt and renice for each process".to_owned() };
        let mut commands: Vec<String> = Vec::new();
        let listed: Vec<&SavedTask<State>> =
            saved.iter().filter(|task| task.is_listed && task.tid == task.pid).collect();
        // One command line for each state, however many processes.
        for task in &listed {
            let state = &task.state;
            let pids: Vec<String> = listed.iter().filter(|t| t.state == *state).map(|t| t.pid.to_string()).collect();
            let command = format!(
                "for p in {}; do chrt -a {} {}-p {} $p; renice -n {} -p $(ls /proc/$p/task); done",
                pids.join(" "),
                chrt_option(state.policy),
                chrt_slice(state),
                state.priority,
                state.nice
            );
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        let has_slices = listed.iter().any(|task| task.state.slice_ns.is_some());
        let note = if has_slices { "   # a slice takes chrt of util-linux 2.41 or later" } else { "" };
        format!("{}{note}", commands.join("; "))
    }

    fn is_of_processes(&self) -> bool {
        true
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        let line = |directive: &str, value: String| Destination::Service { directive: directive.to_owned(), value };
        let policy = |name: &str| line("CPUSchedulingPolicy", name.to_owned());
        match Level::parse(value) {
            // systemd knows no slice of a task's own, so such a level is none that it could set.
            Ok(Level::Fair { slice_ns: Some(_), .. }) | Err(_) => Vec::new(),
            Ok(Level::Fair { is_batch, nice, .. }) => {
                vec![policy(if is_batch { "batch" } else { "other" }), line("Nice", nice.to_string())]
            }
            Ok(Level::Idle) => vec![policy("idle")],
            Ok(Level::Fifo(priority)) => {
                vec![policy("fifo"), line("CPUSchedulingPriority", priority.to_string())]
            }
        }
    }
}

fn is_undoable(now: Scheduling, wanted: Scheduling, privilege: Privilege) -> bool {
    let has_way_back = ![now.policy, wanted.policy].contains(&Scheduling::DEADLINE);
    has_way_back && privilege.permits(now, wanted) && privilege.permits(wanted, now)
}

/// Gives a task a state; one that has ended needs none. A slice can be set under other and batch only, so it is set
/// before such a policy is left, or after it is taken.
fn put(host: &Host, tid: u32, now: &State, wanted: Scheduling, slice: Slice) -> Result<(), Problem> {
    let is_hidden = now.slice_ns.is_none() && !is_fair(now.scheduling());
    let own = match slice {
        Slice::Kept => None,
        // A real-time task does not show whether it has its own slice from before.
        Slice::Default if now.has_own_slice || is_hidden => Some(None),
        Slice::Default => None,
        Slice::Own(ns) if now.slice_ns == Some(ns) => None,
        Slice::Own(ns) => Some(Some(ns)),
    };
    let set_slice = |own| tasks::unless_ended(host.set_slice(tid, own)).map(|_| ());
    let is_first = is_fair(now.scheduling());
    let mut is = now.scheduling();
    // Under idle a slice is kept and cannot be set: what goes from idle to idle takes the way over batch.
    if own.is_some() && !is_first && !is_fair(wanted) && !is_hidden {
        is = Scheduling { policy: Scheduling::BATCH, ..Scheduling::other(is.nice) };
        tasks::unless_ended(host.set_scheduling(tid, is))?;
    }
    if let (Some(own), true) = (own, is_fair(is)) {
        set_slice(own)?;
    }
    if is != wanted {
        tasks::unless_ended(host.set_scheduling(tid, wanted))?;
    }
    match own {
        Some(own) if !is_first && is_fair(wanted) => set_slice(own),
        _ => Ok(()),
    }
}

/// One word when all tasks are alike, else each with its number of tasks.
fn summary(states: &[State]) -> Value {
    let words: Vec<String> = states.iter().map(State::word).collect();
    pieces::summary(words.iter(), "tasks")
}

fn chrt_option(policy: u32) -> &'static str {
    match policy {
        Scheduling::BATCH => "--batch",
        Scheduling::IDLE => "--idle",
        Scheduling::FIFO => "--fifo",
        Scheduling::RR => "--rr",
        _ => "--other",
    }
}

/// 0 is the default slice.
fn chrt_slice(state: &State) -> String {
    match state.slice_ns {
        Some(_) if !is_fair(state.scheduling()) => String::new(),
        Some(own) if state.has_own_slice => format!("-T {own} "),
        Some(_) => "-T 0 ".to_owned(),
        None => String::new(),
    }
}

/// A task that runs now, as against what was saved.
struct Compared {
    tid: u32,
    now: State,
    before: State,
    is_back: bool,
    /// True if its slice is one that holdup wrote and the default one now, so that it may be its own or not.
    is_alike: bool,
    /// True if it differs from what was, and is what holdup wrote.
    is_ours: bool,
}

fn compare(host: &Host, past: &Past<'_>) -> Result<Vec<Compared>, Problem> {
    let levels: Vec<Level> = past.ever.iter().filter_map(|value| Level::parse(value).ok()).collect();
    let slices: Vec<u64> = levels.iter().filter_map(|level| level.slice_ns()).collect();
    let defaults = default_slices(host)?;
    let mut found = Vec::new();
    for (tid, before) in tasks::now(host, &tasks::decode::<State>(past.saved)?)? {
        let Some(now) = tasks::unless_ended(State::of(host, tid, &defaults))? else { continue };
        let (is, was) = (now.scheduling(), before.scheduling());
        // Policy and nice value are set one after the other, and levels without a nice value keep the one that an earlier
        // level set: a task has a policy and a nice value that holdup wrote, or its own, but not always of one level.
        // One that goes back to idle may be on its way over batch.
        let passing = (was.policy == Scheduling::IDLE)
            .then_some(Scheduling { policy: Scheduling::BATCH, ..Scheduling::other(was.nice) });
        let wrote = || levels.iter().map(|level| level.scheduling(was)).chain([was]).chain(passing);
        let is_written =
            wrote().any(|s| (s.policy, s.priority) == (is.policy, is.priority)) && wrote().any(|s| s.nice == is.nice);
        let slice = SliceNow::of(&now, &before, &slices);
        let is_back = is == was && slice == SliceNow::Back;
        let is_of_holdup = is == was || is_written;
        let is_alike = is_of_holdup && slice == SliceNow::Alike;
        let is_settled = is == was && matches!(slice, SliceNow::Back | SliceNow::Alike);
        let is_ours = is_of_holdup && !is_settled && slice != SliceNow::Foreign;
        found.push(Compared { tid, now, before, is_back, is_alike, is_ours });
    }
    Ok(found)
}

#[derive(PartialEq)]
enum SliceNow {
    Back,
    Alike,
    Ours,
    Foreign,
}

impl SliceNow {
    fn of(now: &State, before: &State, written: &[u64]) -> SliceNow {
        match (now.slice_ns, before.slice_ns) {
            (None, _) | (_, None) => SliceNow::Back,
            (Some(now), Some(before)) if now == before => SliceNow::Back,
            // Also where the default was set to what a level said.
            (Some(slice), _) if written.contains(&slice) && !now.has_own_slice && !before.has_own_slice => {
                SliceNow::Alike
            }
            (Some(slice), _) if written.contains(&slice) => SliceNow::Ours,
            // A level without a slice has put the default one in place of the task's own.
            _ if before.has_own_slice && !now.has_own_slice => SliceNow::Ours,
            // Without its own slice before, a third value is the default one, which changes for the whole host.
            _ if !before.has_own_slice => SliceNow::Back,
            _ => SliceNow::Foreign,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    fn text(t: &str) -> Value {
        Value::Text(t.to_owned())
    }

    #[test]
    fn a_mixed_state_is_reported_and_is_no_level() {
        let fs = MemoryFs::new();
        fs.put_process(10, 1, 100, Scheduling::other(0));
        fs.put_process(11, 10, 101, Scheduling { policy: Scheduling::BATCH, ..Scheduling::other(0) });
        let host = fs.host();
        let read = |pids: &[u32]| {
            SchedPolicy
                .read(&KnobContext { host: &host, postgres: None, pids: pids.to_vec() }, "")
                .map(|v| v.to_string())
        };
        assert_eq!(read(&[10]).expect("it runs"), "other");
        assert_eq!(read(&[10, 11]).expect("they run"), "mixed: batch on 1 tasks, other on 1 tasks");
        assert_eq!(read(&[10, 99]).expect("one that ended is passed by"), "other");
        assert!(read(&[99]).is_err());
    }

    #[test]
    fn what_has_no_way_back_is_refused_before_any_task_is_touched() {
        let fs = MemoryFs::new();
        fs.put_process(10, 1, 100, Scheduling::other(0));
        fs.put_process(11, 1, 101, Scheduling { policy: Scheduling::DEADLINE, ..Scheduling::other(0) });
        let host = fs.host();
        let context = |pids: &[u32]| KnobContext { host: &host, postgres: None, pids: pids.to_vec() };
        let refused = SchedPolicy.write(&context(&[10, 11]), "", &text("batch")).expect_err("deadline");
        assert!(refused.why.contains("task 11"), "{refused}");
        // This kernel reports no slice.
        let refused = SchedPolicy.write(&context(&[10]), "", &text("batch slice:3ms")).expect_err("an old kernel");
        assert!(refused.hint.is_some_and(|h| h.contains("6.12")));
        assert_eq!(fs.task(10), Some(Scheduling::other(0)));
    }

    #[test]
    fn a_level_that_keeps_the_nice_value_of_an_earlier_one_is_put_back() {
        let fs = MemoryFs::new();
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![10] };
        let orders = [["batch", "idle"], ["idle", "batch"], ["nice:7", "fifo:3"], ["batch nice:-5", "idle"]];
        for levels in orders {
            fs.put_process(10, 1, 100, Scheduling::other(3));
            let saved = SchedPolicy.save(&context, "", &[]).expect("it runs").expect("fresh");
            let ever = levels.map(text);
            for level in &ever {
                SchedPolicy.write(&context, "", level).expect("it takes");
                let past = Past { saved: &saved, written: &ever[1..], ever: &ever };
                assert!(matches!(SchedPolicy.standing(&context, "", &past), Ok(Standing::Ours(_))), "{level}");
            }
            let past = Past { saved: &saved, written: &ever[1..], ever: &ever };
            SchedPolicy.restore(&context, "", &past).expect("it takes");
            assert_eq!(SchedPolicy.standing(&context, "", &past), Ok(Standing::Restored), "{levels:?}");
            assert_eq!(fs.task(10), Some(Scheduling::other(3)));
            // A nice value that no level has is another's.
            fs.put_task(10, Scheduling { policy: Scheduling::IDLE, ..Scheduling::other(11) });
            assert!(matches!(SchedPolicy.standing(&context, "", &past), Ok(Standing::Foreign(_))), "{levels:?}");
            fs.end_process(10);
        }
    }

    #[test]
    fn a_slice_under_idle_comes_back() {
        let fs = MemoryFs::of(&[("/sys/devices/system/cpu/online", "0-1\n")]);
        fs.put_process(10, 1, 100, Scheduling { policy: Scheduling::IDLE, ..Scheduling::other(3) });
        fs.put_default_slice(1_400_000);
        fs.put_own_slice(10, 2_000_000);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![10] };
        let saved = SchedPolicy.save(&context, "", &[]).expect("it runs").expect("fresh");
        let ever = [text("batch nice:7"), text("idle")];
        ever.iter().for_each(|level| SchedPolicy.write(&context, "", level).expect("it takes"));
        let past = Past { saved: &saved, written: &ever[1..], ever: &ever };
        SchedPolicy.restore(&context, "", &past).expect("it takes");
        assert_eq!(SchedPolicy.standing(&context, "", &past), Ok(Standing::Restored));
        assert_eq!(fs.task_slice(10), Some((2_000_000, true)));
    }

    #[test]
    fn a_slice_goes_where_the_policy_lets_it_and_comes_back() {
        let fs = MemoryFs::of(&[("/sys/devices/system/cpu/online", "0-1\n")]);
        fs.put_process(10, 1, 100, Scheduling::other(0));
        fs.put_process(11, 1, 100, Scheduling { policy: Scheduling::IDLE, ..Scheduling::other(0) });
        fs.put_process(12, 1, 100, Scheduling::other(0));
        fs.put_default_slice(1_400_000);
        fs.put_own_slice(11, 5_000_000);
        fs.put_own_slice(12, 9_000_000);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![10, 11, 12] };
        let saved = SchedPolicy.save(&context, "", &[]).expect("they run").expect("fresh");
        let (mut ever, slices) = (Vec::new(), || [10, 11, 12].map(|tid| fs.task_slice(tid).expect("it has one")));
        let first = slices();
        let mut apply = |level: &str, expect: [(u64, bool); 3]| {
            ever.push(text(level));
            SchedPolicy.write(&context, "", &text(level)).expect(level);
            assert_eq!(slices(), expect, "{level}");
            let past = Past { saved: &saved, written: &[], ever: &ever };
            assert!(matches!(SchedPolicy.standing(&context, "", &past), Ok(Standing::Ours(_))), "{level}");
        };
        let default = (1_400_000, false);
        // Under idle a slice cannot be taken away.
        apply("fifo:7", [default, (5_000_000, true), default]);
        apply("batch slice:3ms", [(3_000_000, true); 3]);
        assert_eq!(SchedPolicy.read(&context, "").expect("they run"), text("batch slice:3ms"));
        apply("other", [default; 3]);
        // The default one by its number is not pinned: it shall follow the default.
        apply("nice:1 slice:1400us", [default; 3]);
        assert!(SchedPolicy.same_here(&context, "", &text("nice:1 slice:1400us"), &text("nice:1")));
        let past = Past { saved: &saved, written: &[], ever: &ever };
        SchedPolicy.restore(&context, "", &past).expect("it takes");
        assert_eq!((slices(), SchedPolicy.standing(&context, "", &past)), (first, Ok(Standing::Restored)));
        let command = SchedPolicy.by_hand("", &saved);
        assert!(command.contains("--other -T 0 -p 0 $p") && command.contains("--other -T 9000000 -p"), "{command}");
        assert!(command.contains("--idle -p 0 $p"), "{command}");
    }
    #[test]
    fn a_slice_that_is_the_default_one_by_now_is_settled_and_no_complaint() {
        const BASE_SLICE: &str = "/sys/kernel/debug/sched/base_slice_ns";
        let fs = MemoryFs::of(&[("/sys/devices/system/cpu/online", "0-1\n"), (BASE_SLICE, "1400000\n")]);
        fs.put_process(10, 1, 100, Scheduling::other(0));
        fs.put_process(11, 1, 100, Scheduling::other(0));
        fs.put_default_slice(1_400_000);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![10, 11] };
        let saved = SchedPolicy.save(&context, "", &[]).expect("they run").expect("fresh");
        let ever = [text("batch slice:3ms"), text("slice:3ms")];
        let past = Past { saved: &saved, written: &ever[1..], ever: &ever };
        SchedPolicy.write(&context, "", &ever[1]).expect("it takes");
        fs.put_task(11, Scheduling { policy: Scheduling::BATCH, ..Scheduling::other(0) });
        // The level of another knob makes the slice that the tasks have of their own the default one.
        fs.put(BASE_SLICE, "3000000\n");
        assert!(matches!(SchedPolicy.standing(&context, "", &past), Ok(Standing::Ours(_))), "one is batch");
        SchedPolicy.restore(&context, "", &past).expect("it takes");
        assert_eq!([10, 11].map(|tid| fs.task_slice(tid)), [Some((1_400_000, false)); 2]);
        assert_eq!(SchedPolicy.standing(&context, "", &past), Ok(Standing::Restored));
        // Where the default is theirs, no restoring distinguishes it from their own slice.
        fs.put_own_slice(10, 3_000_000);
        assert_eq!(SchedPolicy.standing(&context, "", &past), Ok(Standing::Alike(text("other"))));
    }
}
