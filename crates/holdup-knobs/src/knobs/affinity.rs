//! The CPUs on which the processes under test may run.

use crate::pieces;
use crate::refused::wrong;
use crate::sample::{Sample, Surface};
use crate::tasks::{self, Privilege, SavedTask, TaskState};
use crate::{Knob, KnobContext, Past, Standing};
use holdup_host::{Host, HostError, cgroup, cpu_list, cpu_ranges};
use holdup_model::profile::Destination;
use holdup_model::text::shell_quoted;
use holdup_model::{Availability, Meta, ParameterKind, Problem, Value};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `affinity`.
pub(crate) struct Affinity;

static META: Meta = Meta {
    id: "affinity",
    summary: "CPUs that the server may run on, such as 0-3,7",
    docs: "A list of CPUs as in /proc and taskset. It is set on every thread of the processes under test: the \
           postmaster with all its children, which hand it on to each new backend; or holdup itself, which hands it on \
           to the load that it starts. What each single thread had before is kept and put back, also for processes \
           that were born meanwhile.\n\n\
           CPUs that are offline, or that the cpuset of a process does not have, are refused: the kernel would leave \
           them out without a word. It is another thing than a cpuset, which bounds it, and than cgroup-cpu-max, \
           which limits time and not place.\n\n\
           One's own processes need no privilege; those of other users need CAP_SYS_NICE. What was put back counts as \
           asked for (6.2 and later): when the cpuset of such a process grows afterwards, it keeps to the CPUs that \
           it had.",
    references: &[
        "sched_setaffinity(2), taskset(1)",
        "kernel/sched/syscalls.c:sched_setaffinity, sched_getaffinity (v6.18)",
        "cpuset(7); Documentation/admin-guide/cgroup-v2.rst: cpuset.cpus.effective (v6.18)",
    ],
};

/// The CPUs of a task as they are saved, written as the kernel lists them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Cpus {
    cpus: String,
}

impl TaskState for Cpus {
    type Around = ();

    fn around(_host: &Host) -> Result<(), HostError> {
        Ok(())
    }

    fn of(host: &Host, tid: u32, (): &()) -> Result<Self, HostError> {
        host.affinity(tid).map(|cpus| Cpus { cpus: cpu_ranges(&cpus) })
    }
}

impl Knob for Affinity {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn values(&self) -> ParameterKind {
        ParameterKind::Text
    }

    fn samples(&self) -> &'static [Sample] {
        const {
            &[Sample {
                real_levels: &["0", "1", "0-1"],
                has_parts: true,
                ..Sample::new("affinity", Surface::Affinity, ["1-2", "3,0"])
            }]
        }
    }

    fn touches(&self, _instance: &str) -> String {
        "the CPUs that every thread of the processes under test may run on".to_owned()
    }

    fn probe(&self, context: &KnobContext<'_>, _instance: &str) -> Availability {
        if let Err(problem) = self.read(context, "") {
            return Availability::unavailable(format!("{}: {}", problem.what, problem.why));
        }
        let is_other = |pid: &&u32| !tasks::is_own(context.host, **pid);
        match context.pids.iter().find(is_other) {
            Some(pid) if !Privilege::of(context.host).may_all() => Availability::unavailable_but(
                format!("process {pid} belongs to another user"),
                "run holdup as root, or let it start the server itself",
            ),
            _ => Availability::Ready,
        }
    }

    fn read(&self, context: &KnobContext<'_>, _instance: &str) -> Result<Value, Problem> {
        let mut found = Vec::new();
        for pid in &context.pids {
            for tid in tasks::of(context.host, *pid)? {
                found.extend(tasks::unless_ended(Cpus::of(context.host, tid, &()))?.map(|now| now.cpus));
            }
        }
        if found.is_empty() {
            return Err(Problem::host("factor affinity", "none of the processes under test runs"));
        }
        Ok(pieces::summary(found.iter(), "tasks"))
    }

    fn check(&self, _instance: &str, value: &Value) -> Result<(), Problem> {
        wanted(value).map(|_| ())
    }

    fn write(&self, context: &KnobContext<'_>, _instance: &str, value: &Value) -> Result<(), Problem> {
        let (host, cpus) = (context.host, wanted(value)?);
        if let Ok(online) = host.read_value("/sys/devices/system/cpu/online") {
            refuse_beyond(value, &cpus, &online, "offline CPUs")?;
        }
        for pid in &context.pids {
            if let Some(cpuset) = cgroup::cpuset(host, *pid) {
                refuse_beyond(value, &cpus, &cpuset, &format!("CPUs outside of the cpuset of process {pid}"))?;
            }
        }
        for pid in &context.pids {
            for tid in tasks::of(host, *pid)? {
                tasks::unless_ended(host.set_affinity(tid, &cpus))?;
            }
        }
        Ok(())
    }

    fn same(&self, a: &Value, b: &Value) -> bool {
        match (wanted(a), wanted(b)) {
            (Ok(a), Ok(b)) => a == b,
            _ => a == b,
        }
    }

    fn save(&self, context: &KnobContext<'_>, _instance: &str, already: &[&Value]) -> Result<Option<Value>, Problem> {
        tasks::save::<Cpus>(context.host, &context.pids, already)
    }

    fn overlaps(&self, context: &KnobContext<'_>, saved: &Value) -> Result<bool, Problem> {
        tasks::overlaps::<Cpus>(context.host, &context.pids, saved)
    }

    fn standing(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<Standing, Problem> {
        let found = compare(context.host, past)?;
        if found.is_empty() {
            return Ok(Standing::Gone("the processes have ended".to_owned()));
        }
        let all = pieces::summary(found.iter().map(|task| &task.now), "tasks");
        Ok(if found.iter().all(|task| task.now == task.before) {
            Standing::Restored
        } else if found.iter().any(|task| task.is_ours) {
            Standing::Ours(all)
        } else {
            Standing::Foreign(all)
        })
    }

    /// Puts back each task that has what holdup wrote; one that someone else set meanwhile is left alone.
    fn restore(&self, context: &KnobContext<'_>, _instance: &str, past: &Past<'_>) -> Result<(), Problem> {
        let mut first = Ok(());
        // A parent is put back before its children are looked at again, so that none is born with the old level after.
        for _ in 0..2 {
            for task in compare(context.host, past)?.into_iter().filter(|task| task.is_ours) {
                let cpus = cpu_list(&task.before).unwrap_or_default();
                let done = tasks::unless_ended(context.host.set_affinity(task.tid, &cpus)).map(|_| ());
                first = first.and(done);
            }
        }
        first
    }

    fn by_hand(&self, _instance: &str, saved: &Value) -> String {
        let Ok(saved) = tasks::decode::<Cpus>(saved) else { return "taskset -cp LIST TASK for each task".to_owned() };
        let mut by_cpus: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for SavedTask { tid, state, .. } in saved.iter().filter(|task| task.is_listed) {
            by_cpus.entry(&state.cpus).or_default().push(tid.to_string());
        }
        let commands = by_cpus
            .iter()
            .map(|(cpus, tids)| format!("for t in {}; do taskset -cp {} $t; done", tids.join(" "), shell_quoted(cpus)));
        commands.collect::<Vec<_>>().join("; ")
    }

    fn is_of_processes(&self) -> bool {
        true
    }

    fn destinations(&self, _instance: &str, value: &Value) -> Vec<Destination> {
        vec![Destination::Service { directive: "CPUAffinity".to_owned(), value: value.to_string() }]
    }
}

/// The CPUs of a level, sorted, each once.
fn wanted(value: &Value) -> Result<Vec<u32>, Problem> {
    let Value::Text(text) = value else { return Err(refused(value)) };
    let mut cpus = cpu_list(text).filter(|cpus| !cpus.is_empty()).ok_or_else(|| refused(value))?;
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn refused(value: &Value) -> Problem {
    wrong(META.id, value, "a list of CPUs such as 0-3,7")
}

/// Refuses a level that has CPUs beyond a list; a list that cannot be read bounds nothing.
fn refuse_beyond(value: &Value, wanted: &[u32], bounds: &str, what: &str) -> Result<(), Problem> {
    let Some(bounds) = cpu_list(bounds).filter(|cpus| !cpus.is_empty()) else { return Ok(()) };
    let beyond: Vec<u32> = wanted.iter().copied().filter(|cpu| !bounds.contains(cpu)).collect();
    if beyond.is_empty() {
        return Ok(());
    }
    Err(Problem::host(format!("factor affinity = {value}"), format!("{what}: {}", cpu_ranges(&beyond)))
        .hint(format!("it can be of {}", cpu_ranges(&bounds))))
}

/// A task that runs now, as against what was saved.
struct Compared {
    tid: u32,
    now: String,
    before: String,
    /// True if it differs from what was, and is what holdup wrote.
    is_ours: bool,
}

fn compare(host: &Host, past: &Past<'_>) -> Result<Vec<Compared>, Problem> {
    let levels: Vec<String> = past.ever.iter().filter_map(|v| wanted(v).ok()).map(|cpus| cpu_ranges(&cpus)).collect();
    let mut found = Vec::new();
    for (tid, before) in tasks::now(host, &tasks::decode::<Cpus>(past.saved)?)? {
        let Some(Cpus { cpus: now }) = tasks::unless_ended(Cpus::of(host, tid, &()))? else { continue };
        let is_ours = now != before.cpus && levels.contains(&now);
        found.push(Compared { tid, now, before: before.cpus, is_ours });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::Scheduling;
    use holdup_host::fake::MemoryFs;

    fn text(t: &str) -> Value {
        Value::Text(t.to_owned())
    }

    #[test]
    fn cpus_that_a_task_cannot_have_are_refused_before_any_is_set() {
        let fs = MemoryFs::of(&[
            ("/sys/devices/system/cpu/online", "0-5\n"),
            ("/proc/10/cgroup", "0::/a\n"),
            ("/sys/fs/cgroup/a/cpuset.cpus.effective", "0-3\n"),
        ]);
        fs.put_process(9, 1, 99, Scheduling::other(0));
        fs.put_process(10, 1, 100, Scheduling::other(0));
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![9, 10] };
        let check = |list: &str, expect: &str| {
            let refused = Affinity.write(&context, "", &text(list)).expect_err(list);
            assert!(refused.to_string().contains(expect), "{refused}");
            assert_eq!(fs.task_affinity(9), Some(vec![0]), "{list}");
        };
        check("4-7", "offline CPUs: 6-7");
        check("3-5", "outside of the cpuset of process 10: 4-5");
        for wrong in ["", "3-1", "all", "0;1", "0xf", "-1", "0-99999999"] {
            check(wrong, "not a value");
        }
        Affinity.write(&context, "", &text("3,0-1")).expect("it takes");
        assert_eq!(fs.task_affinity(9), Some(vec![0, 1, 3]));
        assert!(Affinity.same(&text("3,0-1"), &text("0,1,1,3")));
    }

    #[test]
    fn each_task_is_put_back_by_one_line_of_the_shell() {
        let fs = MemoryFs::new();
        fs.put_process(10, 1, 100, Scheduling::other(0));
        fs.put_process(11, 10, 101, Scheduling::other(0));
        fs.put_process(12, 10, 102, Scheduling::other(0));
        fs.put_affinity(11, &[0, 1, 2]);
        let host = fs.host();
        let context = KnobContext { host: &host, postgres: None, pids: vec![10, 11] };
        let saved = Affinity.save(&context, "", &[]).expect("they run").expect("fresh");
        let expect = "for t in 10; do taskset -cp 0 $t; done; for t in 11; do taskset -cp 0-2 $t; done";
        assert_eq!(Affinity.by_hand("", &saved), expect);
    }
}
