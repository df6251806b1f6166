//! The scheduling policy and nice value of the processes under test.

use crate::refused::wrong;
use crate::tasks::{self, Privilege, SavedScheduling, SavedTask};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_host::{Host, Scheduling};
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};

/// `sched-policy`.
pub(crate) struct SchedPolicy;

const EXPECTED: &str = "other, batch, idle, or nice:N with N from -20 to 19";

static META: Meta = Meta {
    id: "sched-policy",
    summary: "scheduling policy of the server: other, batch, idle, nice:N",
    docs: "`other` is SCHED_OTHER at nice 0, `nice:N` the same at nice N, `batch` is SCHED_BATCH at nice 0, `idle` is \
           SCHED_IDLE. A batch task that wakes up does not preempt the one that runs; otherwise it has the same share. \
           Idle tasks run when little else wants to, and are preempted by everything.\n\n\
           It is set on every thread of the processes under test: the postmaster with all its children, which hand \
           it on to each new backend; or holdup itself, which hands it on to the load that it starts. What each \
           single thread had before is kept and put back, also for processes that were born meanwhile.\n\n\
           An ordinary user may set batch and take it back. A lower nice value, and a way back from idle or from a \
           higher nice value, need CAP_SYS_NICE or RLIMIT_NICE; without them such a level is refused, because it \
           could not be undone.",
    references: &[
        "sched(7), sched_setscheduler(2), setpriority(2)",
        "kernel/sched/syscalls.c:user_check_sched_setscheduler (v6.18)",
        "kernel/sched/fair.c:check_preempt_wakeup_fair (v6.18)",
    ],
};

impl Knob for SchedPolicy {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Text
    }

    fn touches(&self, _instance: &str) -> String {
        "policy and nice value of every thread of the processes under test".to_owned()
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
            reason: "without CAP_SYS_NICE only batch can be set and undone; idle and other nice values are refused \
                     where the way back is closed (RLIMIT_NICE)"
                .to_owned(),
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let mut found = Vec::new();
        for pid in &context.pids {
            for tid in tasks::of(context.host, *pid)? {
                found.extend(tasks::scheduling(context.host, tid)?);
            }
        }
        if found.is_empty() {
            return Err(Problem::host("factor sched-policy", "none of the processes under test runs"));
        }
        Ok(summary(&found))
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        level(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        let level = level(value)?;
        let privilege = Privilege::of(context.host);
        let mut plan = Vec::new();
        for pid in &context.pids {
            for tid in tasks::of(context.host, *pid)? {
                let Some(now) = tasks::scheduling(context.host, tid)? else { continue };
                let wanted = level.at(now);
                if !wanted.is_undoable_from(now, privilege) {
                    return Err(Problem::host(
                        format!("factor sched-policy = {value}"),
                        format!("task {tid} of process {pid} is {} and could not be put back", word(now)),
                    )
                    .hint("run holdup as root, or raise RLIMIT_NICE (ulimit -e)"));
                }
                plan.push((tid, wanted.0));
            }
        }
        // Nothing is touched before every task was found to have a way back.
        plan.into_iter().try_for_each(|(tid, wanted)| tasks::set(context.host, tid, wanted))
    }

    fn same(&self, a: &Value, b: &Value) -> bool {
        match (level(a), level(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => a == b,
        }
    }

    fn save(&self, context: &KnobContext<'_>, _instance: &str, already: &[&Value]) -> Result<Option<Value>, Problem> {
        tasks::save::<SavedScheduling>(context.host, &context.pids, already)
    }

    fn overlaps(&self, context: &KnobContext<'_>, saved: &Value) -> Result<bool, Problem> {
        tasks::overlaps::<SavedScheduling>(context.host, &context.pids, saved)
    }

    fn standing(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<Standing, Problem> {
        let found = compare(context.host, past)?;
        if found.is_empty() {
            return Ok(Standing::Gone("the processes have ended".to_owned()));
        }
        let all: Vec<Scheduling> = found.iter().map(|task| task.now).collect();
        Ok(if found.iter().all(|task| task.now == task.before) {
            Standing::Restored
        } else if found.iter().any(|task| task.is_ours) {
            Standing::Ours(summary(&all))
        } else {
            Standing::Foreign(summary(&all))
        })
    }

    /// Puts back each task that has what holdup wrote; one that someone else set meanwhile is left alone.
    fn restore(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<(), Problem> {
        let mut first = Ok(());
        // A parent is put back before its children are looked at again, so that none is born with the old level after.
        for task in compare(context.host, past)?.into_iter().filter(|task| task.is_ours) {
            let done = tasks::set(context.host, task.tid, task.before);
            first = first.and(done);
        }
        first?;
        for task in compare(context.host, past)?.into_iter().filter(|task| task.is_ours) {
            tasks::set(context.host, task.tid, task.before)?;
        }
        Ok(())
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        let Ok(saved) = tasks::decode::<SavedScheduling>(saved) else {
            return "chrt and renice for each process".to_owned();
        };
        let mut commands: Vec<String> = Vec::new();
        let listed: Vec<&SavedTask<SavedScheduling>> =
            saved.iter().filter(|task| task.is_listed && task.tid == task.pid).collect();
        // One command line for each state, however many processes.
        for task in &listed {
            let state = Scheduling::from(task.state);
            let pids: Vec<String> =
                listed.iter().filter(|t| t.state == task.state).map(|t| t.pid.to_string()).collect();
            let command = format!(
                "for p in {}; do chrt -a {} -p {} $p; renice -n {} -p $(ls /proc/$p/task); done",
                pids.join(" "),
                chrt_option(state.policy),
                state.priority,
                state.nice
            );
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        commands.join("; ")
    }
}

/// A level as asked for; what it means for a task can depend on the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Nice(i32),
    Batch,
    Idle,
}

/// A state that a task shall get.
#[derive(Clone, Copy)]
struct Wanted(Scheduling);

impl Level {
    fn at(self, now: Scheduling) -> Wanted {
        Wanted(match self {
            Level::Nice(nice) => Scheduling::other(nice),
            Level::Batch => Scheduling { policy: Scheduling::BATCH, ..Scheduling::other(0) },
            // The nice value has no meaning under SCHED_IDLE; keeping it spares a way back that may be closed.
            Level::Idle => Scheduling { policy: Scheduling::IDLE, ..Scheduling::other(now.nice) },
        })
    }
}

impl Wanted {
    fn is_undoable_from(self, now: Scheduling, privilege: Privilege) -> bool {
        let has_way_back = ![now.policy, self.0.policy].contains(&Scheduling::DEADLINE);
        has_way_back && privilege.permits(now, self.0) && privilege.permits(self.0, now)
    }
}

fn level(value: &Value) -> Result<Level, Problem> {
    let refused = || wrong("sched-policy", value, EXPECTED);
    let Value::Text(text) = value else { return Err(refused()) };
    match text.as_str() {
        "other" => Ok(Level::Nice(0)),
        "batch" => Ok(Level::Batch),
        "idle" => Ok(Level::Idle),
        _ => {
            let nice = text.strip_prefix("nice:").and_then(|n| n.parse().ok());
            nice.filter(|n| (-20..=19).contains(n)).map(Level::Nice).ok_or_else(refused)
        }
    }
}

/// A state in the words of the levels, or in others where no level says it.
fn word(state: Scheduling) -> String {
    let reset = if state.reset_on_fork { " reset-on-fork" } else { "" };
    match (state.policy, state.nice) {
        (Scheduling::OTHER, 0) => format!("other{reset}"),
        (Scheduling::OTHER, nice) => format!("nice:{nice}{reset}"),
        (Scheduling::BATCH, 0) => format!("batch{reset}"),
        (Scheduling::BATCH, nice) => format!("batch at nice {nice}{reset}"),
        (Scheduling::IDLE, _) => format!("idle{reset}"),
        (Scheduling::FIFO, _) => format!("fifo at priority {}{reset}", state.priority),
        (Scheduling::RR, _) => format!("rr at priority {}{reset}", state.priority),
        (Scheduling::DEADLINE, _) => format!("deadline{reset}"),
        (Scheduling::EXT, nice) => format!("ext at nice {nice}{reset}"),
        (policy, nice) => format!("policy {policy} at nice {nice}{reset}"),
    }
}

/// One word when all tasks are alike, else each with its number of tasks.
fn summary(states: &[Scheduling]) -> Value {
    let mut words: Vec<(String, usize)> = Vec::new();
    for state in states {
        let word = word(*state);
        match words.iter_mut().find(|(known, _)| *known == word) {
            Some((_, count)) => *count += 1,
            None => words.push((word, 1)),
        }
    }
    words.sort();
    match words.as_slice() {
        [(word, _)] => Value::Text(word.clone()),
        _ => {
            let parts: Vec<String> = words.iter().map(|(word, count)| format!("{word} on {count} tasks")).collect();
            Value::Text(format!("mixed: {}", parts.join(", ")))
        }
    }
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

/// A task that runs now, as against what was saved.
struct Compared {
    tid: u32,
    now: Scheduling,
    before: Scheduling,
    /// Whether it differs from what was, and is what holdup wrote.
    is_ours: bool,
}

fn compare(host: &Host, past: &Past<'_>) -> Result<Vec<Compared>, Problem> {
    let levels: Vec<Level> = past.ever.iter().filter_map(|value| level(value).ok()).collect();
    let mut found = Vec::new();
    for (tid, before) in tasks::now(host, &tasks::decode::<SavedScheduling>(past.saved)?)? {
        let before = Scheduling::from(before);
        let Some(now) = tasks::scheduling(host, tid)? else { continue };
        // Policy and nice value are set one after the other: a task in between has one of both.
        let is_ours = now != before
            && levels.iter().any(|level| {
                let wrote = level.at(before).0;
                [before, wrote].iter().any(|s| s.policy == now.policy)
                    && [before, wrote].iter().any(|s| s.nice == now.nice)
            });
        found.push(Compared { tid, now, before, is_ours });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn levels_are_read_and_others_refused() {
        let check = |text: &str, expect: Option<Level>| {
            assert_eq!(level(&Value::Text(text.to_owned())).ok(), expect, "{text}");
        };
        check("other", Some(Level::Nice(0)));
        check("nice:0", Some(Level::Nice(0)));
        check("nice:-20", Some(Level::Nice(-20)));
        check("batch", Some(Level::Batch));
        for wrong in ["nice:20", "nice:-21", "nice:", "fifo", "Batch", "", "mixed: other on 1 tasks"] {
            check(wrong, None);
        }
        let text = |t: &str| Value::Text(t.to_owned());
        assert!(SchedPolicy.same(&text("other"), &text("nice:0")) && !SchedPolicy.same(&text("batch"), &text("idle")));
    }

    #[test]
    fn a_mixed_state_is_told_and_is_no_level() {
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
    fn a_deadline_task_is_refused_before_any_task_is_touched() {
        let fs = MemoryFs::new();
        fs.put_process(10, 1, 100, Scheduling::other(0));
        fs.put_process(11, 1, 101, Scheduling { policy: Scheduling::DEADLINE, ..Scheduling::other(0) });
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![10, 11] };
        let refused = SchedPolicy.write(&context, "", &Value::Text("batch".to_owned())).expect_err("deadline");
        assert!(refused.why.contains("task 11"), "{refused}");
        assert_eq!(fs.task(10), Some(Scheduling::other(0)));
    }
}
