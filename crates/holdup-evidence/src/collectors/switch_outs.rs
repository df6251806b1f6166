//! The states in which tasks under test leave the CPU, counted by filters of a tracepoint.

use crate::kernel::probe::in_first_pid_namespace;
use crate::reading::{Meter, Produces, Reader, all_absent};
use crate::tasks;
use crate::{About, CollectContext, Collecting, Collector, Subject};
use holdup_host::perf::{Count, Counter, LONGEST_FILTER, Tracepoint};
use holdup_host::{Host, HostError, online_cpus};
use holdup_model::{Availability, Collected, Coverage, EvidenceItem, Meta, Problem};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct SwitchOuts;

static META: Meta = Meta {
    id: "switch-outs",
    summary: "switch-outs: blocked, at the user boundary (R), in the kernel (R+)",
    docs: "How often tasks under test left a CPU, split by where they were, from the tracepoint sched_switch: blocked \
           (not runnable any more); still runnable at the user boundary (prev_state R: on the return to user mode, or \
           in sched_yield); still runnable inside the kernel (R+: preempted there by an interrupt or at the end of a \
           section that held preemption off, or in cond_resched; rseq_slice_yield shows as R+ too). What a task did in \
           the kernel, a page fault or a system call, is not visible. Under `none` and `voluntary` R+ comes from \
           cond_resched and rseq_slice_yield only. Calls of sched_yield are not counted, because the tracepoint of a \
           system call slows down every system call of the host (measured: by a fifth for the shortest).\n\n\
           One perf counter for each CPU, role and state counts what its filter lets through; nothing is recorded. \
           Tasks are selected by the names that the processes under test have at the begin of the window, so tasks that \
           begin later under such a name count as well. Where a process outside has the same name, or there are too \
           many names, tasks are selected by their ids, and those that begin inside the window are missing, with a note. \
           Every switch of the host becomes longer by the filters, also those of other tasks: by about half a \
           microsecond with one role on a virtual machine where a switch takes 3.5; a plan can measure that with \
           `unobserved = true`. The counts of the CPUs begin and end some microseconds apart.\n\n\
           Needs tracefs, and root or CAP_PERFMON with access to tracefs.",
    references: &[
        "include/trace/events/sched.h:sched_switch, __trace_sched_switch_state (v6.18)",
        "kernel/sched/core.c:__schedule: trace_sched_switch(preempt, ...), SM_PREEMPT (v6.18)",
        "kernel/events/core.c:perf_tp_event; Documentation/trace/events.rst, Event filtering (v6.18)",
    ],
};

const PRODUCES: Produces = &[(
    "switched_out",
    "1",
    "times that tasks left a CPU, by role and place: blocked, user boundary (R), in the kernel (R+)",
)];

const TRACEPOINT: &str = "sched/sched_switch";

/// The state that a task leaves the CPU in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SwitchOutState {
    Blocked,
    UserBoundary,
    Kernel,
}

impl SwitchOutState {
    const ALL: [SwitchOutState; 3] = [SwitchOutState::Blocked, SwitchOutState::UserBoundary, SwitchOutState::Kernel];

    fn name(self) -> &'static str {
        match self {
            SwitchOutState::Blocked => "blocked",
            SwitchOutState::UserBoundary => "user boundary (R)",
            SwitchOutState::Kernel => "in the kernel (R+)",
        }
    }

    /// The part of a filter that lets this state through. `preempted` is the value of R+.
    fn condition(self, preempted: u64) -> String {
        match self {
            SwitchOutState::Blocked => format!("prev_state != 0 && prev_state != {preempted}"),
            SwitchOutState::UserBoundary => "prev_state == 0".to_owned(),
            SwitchOutState::Kernel => format!("prev_state == {preempted}"),
        }
    }
}

/// The value of `prev_state` that is printed as `R+`, from how the event says it is printed: it is a bit above all
/// states that are reported, and those differ between kernels.
fn preempted_value(format: &str) -> Result<u64, String> {
    let other_form = |what: &str| format!("the format of {TRACEPOINT} has another form on this kernel: {what}");
    for field in ["prev_comm", "prev_pid", "prev_state"] {
        let is_field = |line: &str| line.trim_start().starts_with("field:") && line.contains(&format!(" {field}"));
        if !format.lines().any(is_field) {
            return Err(other_form(&format!("it has no field {field}")));
        }
    }
    let is_noise = |c: char| c.is_whitespace() || c == '(' || c == ')';
    let before = format.split("? \"+\" : \"\"").next().filter(|before| before.len() < format.len());
    let bit = before.and_then(|before| {
        let condition: String = before.get(before.rfind("REC->prev_state")?..)?.replace(is_noise, "");
        let value = condition.strip_prefix("REC->prev_state&")?;
        match value.strip_suffix("+1<<1") {
            Some(states) => {
                let all = states.split('|').map(number).try_fold(0, |all, state| Some(all | state?))?;
                all.checked_add(1)?.checked_mul(2)
            }
            None => number(value),
        }
    });
    bit.filter(|bit| bit.is_power_of_two()).ok_or_else(|| other_form("what prints `+` cannot be read"))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// One task: its id and its name.
type Named = (u32, String);

/// How the tasks of a role are selected.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TaskFilter {
    ByName(BTreeSet<String>),
    ById(BTreeSet<u32>),
}

impl TaskFilter {
    /// By name where no process outside has one of the names, else by id.
    fn of(tasks: &[Named], outside: &BTreeSet<&str>) -> Result<Self, String> {
        let names: BTreeSet<String> = tasks.iter().map(|(_, name)| name.clone()).collect();
        let is_own = names.iter().all(|name| can_be_filtered(name) && !outside.contains(name.as_str()));
        let by_name = TaskFilter::ByName(names);
        if is_own && by_name.filter().len() <= LONGEST_CHOICE {
            return Ok(by_name);
        }
        let by_id = TaskFilter::ById(tasks.iter().map(|(id, _)| *id).collect());
        match by_id.filter().len() <= LONGEST_CHOICE {
            true => Ok(by_id),
            false => Err(format!("{} tasks have too many ids and names for the filter of a tracepoint", tasks.len())),
        }
    }

    /// The part of a filter that lets these tasks through.
    fn filter(&self) -> String {
        let parts: Vec<String> = match self {
            TaskFilter::ByName(names) => names.iter().map(|name| format!("prev_comm == \"{name}\"")).collect(),
            TaskFilter::ById(ids) => ranges(ids).into_iter().map(range_condition).collect(),
        };
        parts.join(" || ")
    }

    fn has(&self, (id, name): &Named) -> bool {
        match self {
            TaskFilter::ByName(names) => names.contains(name),
            TaskFilter::ById(ids) => ids.contains(id),
        }
    }

    fn in_words(&self, role: &str) -> String {
        match self {
            TaskFilter::ByName(names) => {
                let (first, rest) = (names.iter().take(3).cloned().collect::<Vec<_>>(), names.len().saturating_sub(3));
                let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
                format!("tasks of {role} were selected by name: {}{more}", first.join(", "))
            }
            TaskFilter::ById(ids) => format!(
                "tasks of {role} were selected by id: the {} that were there when the window began, and none that began later",
                ids.len()
            ),
        }
    }
}

/// What a condition on `prev_state` leaves of a filter's length.
const LONGEST_CHOICE: usize = LONGEST_FILTER - 80;

/// True if a filter's parser, which has no escapes, takes a name.
fn can_be_filtered(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\' || b == b' ')
}

/// First and last of the ids that follow each other.
fn ranges(ids: &BTreeSet<u32>) -> Vec<(u32, u32)> {
    let mut out: Vec<(u32, u32)> = Vec::new();
    for id in ids {
        match out.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*id) => *last = *id,
            _ => out.push((*id, *id)),
        }
    }
    out
}

fn range_condition((first, last): (u32, u32)) -> String {
    match first == last {
        true => format!("prev_pid == {first}"),
        false => format!("(prev_pid >= {first} && prev_pid <= {last})"),
    }
}

/// The tasks of a role, and the names of all processes outside of it.
type Tasks = (Vec<Named>, BTreeSet<String>);

fn tasks_by_role(reader: &mut Reader<'_>, subjects: &[Subject]) -> Result<BTreeMap<String, Tasks>, String> {
    let all = tasks::of_host(reader)?;
    let mut by_role: BTreeMap<String, (Vec<Named>, BTreeSet<u32>)> = BTreeMap::new();
    for (role, process) in tasks::members(&all, subjects)? {
        let (tasks, pids) = by_role.entry(role).or_default();
        pids.insert(process.pid);
        let folder = format!("/proc/{}/task", process.pid);
        for id in reader.list(&folder).unwrap_or_default().iter().filter_map(|id| id.parse::<u32>().ok()) {
            // A task that ended since is none to be watched.
            if let Ok(name) = reader.text(&format!("{folder}/{id}/comm")) {
                tasks.push((id, name.trim_end_matches('\n').to_owned()));
            }
        }
    }
    let outside =
        |pids: &BTreeSet<u32>| all.iter().filter(|p| !pids.contains(&p.pid)).map(|p| p.comm.clone()).collect();
    Ok(by_role.into_iter().map(|(role, (tasks, pids))| (role, (tasks, outside(&pids)))).collect())
}
struct Watched {
    role: String,
    state: SwitchOutState,
    counter: Counter,
}

struct Running {
    host: Host,
    subjects: Vec<Subject>,
    filters: BTreeMap<String, TaskFilter>,
    counters: Vec<Watched>,
    meter: Meter,
}

fn begin(context: &CollectContext) -> Result<Running, String> {
    let host = &context.host;
    let (tracepoint, preempted, cpus) = ground(host).map_err(|(why, _)| why)?;
    let mut meter = Meter::default();
    let (filters, counters) = meter.spend(host, |reader| {
        let mut filters = BTreeMap::new();
        for (role, (tasks, outside)) in tasks_by_role(reader, &context.subjects)? {
            let outside = outside.iter().map(String::as_str).collect();
            let choice = TaskFilter::of(&tasks, &outside).map_err(|why| format!("{role}: {why}"))?;
            if matches!(choice, TaskFilter::ById(_)) {
                in_first_pid_namespace(host)?;
            }
            filters.insert(role, choice);
        }
        let mut counters = Vec::new();
        for (role, choice) in &filters {
            for state in SwitchOutState::ALL {
                let filter = format!("{} && ({})", state.condition(preempted), choice.filter());
                for cpu in &cpus {
                    let counter = host.counter(&tracepoint, *cpu, &filter).map_err(|e| e.to_string())?;
                    counters.push(Watched { role: role.clone(), state, counter });
                }
            }
        }
        for watched in &counters {
            watched.counter.enable().map_err(|e| e.to_string())?;
        }
        Ok::<_, String>((filters, counters))
    })?;
    Ok(Running { host: host.clone(), subjects: context.subjects.clone(), filters, counters, meter })
}

/// What all counters stand on: the tracepoint, the value of R+ and the CPUs.
type Ground = (Tracepoint, u64, Vec<u32>);

/// The ground, or why there is none, with a remedy.
fn ground(host: &Host) -> Result<Ground, (String, Option<&'static str>)> {
    let tracepoint = Tracepoint::find(host, TRACEPOINT).map_err(|e| (e.to_string(), Some(without_tracefs(&e))))?;
    let preempted = preempted_value(&tracepoint.format).map_err(|why| (why, None))?;
    let cpus = online_cpus(host).filter(|cpus| !cpus.is_empty());
    let cpus = cpus.ok_or_else(|| ("the CPUs that are online cannot be read".to_owned(), None))?;
    Ok((tracepoint, preempted, cpus))
}

fn without_tracefs(error: &HostError) -> &'static str {
    match error.is_gone() {
        true => "mount -t tracefs nodev /sys/kernel/tracing",
        false => "run holdup as root",
    }
}

fn counts(counters: &[Watched]) -> Result<BTreeMap<(String, SwitchOutState), Count>, HostError> {
    // All are stopped before the first is read, so that the places belong to the same time.
    for watched in counters {
        watched.counter.disable()?;
    }
    let mut sums: BTreeMap<(String, SwitchOutState), Count> = BTreeMap::new();
    for Watched { role, state, counter } in counters {
        let one = counter.read()?;
        let sum = sums.entry((role.clone(), *state)).or_default();
        sum.count += one.count;
        sum.enabled_ns += one.enabled_ns;
        sum.running_ns += one.running_ns;
    }
    Ok(sums)
}

/// How many tasks under test live now that no counter lets through.
fn missed(
    reader: &mut Reader<'_>,
    subjects: &[Subject],
    filters: &BTreeMap<String, TaskFilter>,
) -> Result<u64, String> {
    let now = tasks_by_role(reader, subjects)?;
    let is_missed = |role: &str, task: &Named| filters.get(role).is_none_or(|filter| !filter.has(task));
    let missed = now.iter().map(|(role, (tasks, _))| tasks.iter().filter(|task| is_missed(role, task)).count());
    Ok(missed.sum::<usize>() as u64)
}

impl Collecting for Running {
    fn stop(self: Box<Self>) -> Collected {
        let Running { host, subjects, filters, counters, mut meter } = *self;
        let (counts, missed) = meter.spend(&host, |reader| {
            let counts = counts(&counters);
            // Removing the counters is a part of the price.
            drop(counters);
            (counts, missed(reader, &subjects, &filters))
        });
        let counts = match counts {
            Ok(counts) => counts,
            Err(e) => return all_absent(META.id, PRODUCES, &e.to_string(), meter.0),
        };
        let mut notes: Vec<String> = filters.iter().map(|(role, filter)| filter.in_words(role)).collect();
        match &missed {
            Ok(0) => {}
            Ok(missed) => notes.push(format!("{missed} tasks began inside the window and were not counted")),
            // The counters have seen the tasks all the same.
            Err(why) => notes.push(format!("tasks that began inside the window are not known: {why}")),
        }
        let interrupted = counts.values().any(|count| count.running_ns < count.enabled_ns);
        if interrupted {
            notes.push("the counters did not run all the time; the counts are too low".to_owned());
        }
        let items = counts.iter().map(|((role, state), count)| {
            let label = format!("{role} {}", state.name());
            EvidenceItem::labelled("switched_out", label, "1", count.count as f64)
        });
        Collected {
            collector: META.id.to_owned(),
            items: items.collect(),
            coverage: Coverage {
                seen: counts.values().map(|count| count.count).sum(),
                lost: missed.unwrap_or(0),
                notes,
            },
            cost: meter.0,
            ..Collected::default()
        }
    }
}

impl Collector for SwitchOuts {
    fn about(&self) -> About {
        About::of(&META, PRODUCES)
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        let (tracepoint, _, cpus) = match ground(&context.host) {
            Ok(ground) => ground,
            Err((why, None)) => return Availability::unavailable(why),
            Err((why, Some(remedy))) => return Availability::unavailable_but(why, remedy),
        };
        // Removed again immediately; it was never switched on.
        match context.host.counter(&tracepoint, cpus[0], "") {
            Ok(_) => Availability::Ready,
            Err(e) => Availability::unavailable_but(e.to_string(), "run holdup as root, or with CAP_PERFMON"),
        }
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        match begin(context) {
            Ok(running) => Ok(Box::new(running)),
            Err(why) => {
                let too_many = why.contains("too many open files");
                let problem = Problem::host("collector switch-outs", why);
                Err(if too_many { problem.hint("ulimit -n unlimited, or as high as it goes") } else { problem })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &str = "\tfield:char prev_comm[16];\n\tfield:pid_t prev_pid;\n\tfield:long prev_state;\n";

    #[test]
    fn the_value_of_r_plus_comes_from_the_event_s_format() {
        let printed = |what: &str| format!("name: sched_switch\n{FIELDS}\nprint fmt: \"%s%s\", {what}");
        let v6_18 = "(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | \
                     0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & 1, \
                     \"|\", { 0x00000001, \"S\" }) : \"R\", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | \
                     0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? \"+\" : \"\", 1";
        assert_eq!(preempted_value(&printed(v6_18)), Ok(0x100));
        let fewer = "REC->prev_state & (((0x0000 | 0x0001 | 0x0002 | 0x0004) + 1) << 1) ? \"+\" : \"\"";
        assert_eq!(preempted_value(&printed(fewer)), Ok(0x10));
        assert_eq!(preempted_value(&printed("REC->prev_state & 2048 ? \"+\" : \"\"")), Ok(2048));
        for garbage in [
            "",
            "REC->prev_state",
            "? \"+\" : \"\"",
            "REC->prev_state & ((1 | 0xzz) + 1) << 1 ? \"+\" : \"\"",
            "REC->prev_state & 3 ? \"+\" : \"\"",
            "REC->prev_state & ((0xffffffffffffffff) + 1) << 1 ? \"+\" : \"\"",
            "REC->other & 256 ? \"+\" : \"\"",
        ] {
            let why = preempted_value(&printed(garbage)).expect_err(garbage);
            assert!(why.ends_with("what prints `+` cannot be read"), "{why}");
        }
        let why = preempted_value(&printed(fewer).replace("prev_pid", "pid")).expect_err("no field");
        assert!(why.ends_with("it has no field prev_pid"), "{why}");
    }

    fn named(tasks: &[(u32, &str)]) -> Vec<Named> {
        tasks.iter().map(|(id, name)| (*id, (*name).to_owned())).collect()
    }

    #[test]
    fn tasks_are_selected_by_name_where_no_other_has_it() {
        let filter = |tasks: &[(u32, &str)], outside: &[&str]| {
            TaskFilter::of(&named(tasks), &outside.iter().copied().collect()).map(|choice| choice.filter())
        };
        let server = [(7, "postgres"), (9, "postgres"), (8, "a b")];
        assert_eq!(filter(&server, &["sh"]).as_deref(), Ok("prev_comm == \"a b\" || prev_comm == \"postgres\""));
        let by_id = Ok("(prev_pid >= 7 && prev_pid <= 9)");
        assert_eq!(filter(&server, &["postgres"]).as_deref(), by_id);
        // Names that the filter's parser would not understand.
        for name in ["", "a\"b", "a\\", "\u{fffd}", "a\nb"] {
            assert_eq!(
                filter(&[(7, name), (u32::MAX, "x")], &[]).as_deref(),
                Ok("prev_pid == 7 || prev_pid == 4294967295")
            );
        }
        let many: Vec<Named> = (0..4096).map(|i| (10_000 + i, format!("lock-{i}"))).collect();
        let choice = TaskFilter::of(&many, &BTreeSet::new()).expect("they follow each other");
        assert_eq!(choice.filter(), "(prev_pid >= 10000 && prev_pid <= 14095)");
        assert!(choice.has(&(10_000, String::new())) && !choice.has(&(1, "lock-0".to_owned())));
        let scattered: Vec<Named> = (0..4096).map(|i| (2 * i, format!("lock-{i}"))).collect();
        assert!(TaskFilter::of(&scattered, &BTreeSet::new()).expect_err("too long").starts_with("4096 tasks"));
    }
}
