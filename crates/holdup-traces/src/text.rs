//! Text of `perf script`, of `trace-cmd report`, and of tracefs itself (`trace`, `trace_pipe`): a line for each event, and after one
//! of perf, in lines that are indented, its stack.

use crate::bytes::File;
use crate::event::{Event, Left, Name, TaskId, What, waker};
use crate::frames::Interner;
use crate::lines::Lines;
use crate::{Sink, TraceHead};
use holdup_model::Problem;
use holdup_model::stacks::{Frame, FrameKind};

/// Names of events that are understood, with the colon behind them.
const EVENTS: [&str; 5] =
    ["sched_switch:", "sched_waking:", "sched_wakeup:", "sched_wakeup_new:", "sched_migrate_task:"];

/// True if the begin of a file is such text.
pub(crate) fn is_it(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.lines();
    lines.any(|line| line_head(line).is_some_and(|(_, rest)| event_of(rest).is_some() || is_sample(rest)))
}

/// More lines than this in a row that are not understood are damage, or another kind of text.
const MOST_UNKNOWN: u32 = 100_000;

/// Reads a text.
pub(crate) fn read(file: File<'_>, sink: Sink<'_>) -> Result<TraceHead, Problem> {
    let mut head = TraceHead { format: "text".to_owned(), ..TraceHead::default() };
    let (mut lines, mut interner) = (Lines::new(file), Interner::new(file.budget));
    let (mut sample, mut unknown, mut in_a_row, mut last_ns) = (None::<(Event, Vec<u32>)>, 0_u64, 0_u32, 0_u64);
    let mut late = 0_u64;
    while let Some(bytes) = lines.next()? {
        let line = String::from_utf8_lossy(bytes);
        // A name of a task may look like an address, so the rest of the line decides.
        let frame = if line.starts_with(['\t', ' ']) { frame(&line) } else { None };
        if let Some(frame) = frame.filter(|_| line_head(&line).is_none()) {
            // Stacks of tracepoints are of tasks that leave their CPU.
            if let Some((_, stack)) = &mut sample {
                stack.push(interner.number(frame));
            }
            continue;
        }
        hand_on(&mut sample, sink)?;
        if line.trim().is_empty() {
            continue;
        }
        if let Some(comment) = line.strip_prefix('#') {
            take_comment(&mut head, comment);
            continue;
        }
        let Some(event) = event(&line) else {
            // `CPU:1 [LOST 1234 EVENTS]` of tracefs and trace-cmd.
            if let Some(lost) = lost(&line, last_ns) {
                sink(lost)?;
                continue;
            }
            unknown += u64::from(line_head(&line).is_none());
            in_a_row += 1;
            if in_a_row > MOST_UNKNOWN {
                return Err(lines
                    .file
                    .problem(lines.at, "these lines are not those of perf script or trace-cmd report"));
            }
            continue;
        };
        in_a_row = 0;
        late += u64::from(event.at_ns < last_ns);
        last_ns = last_ns.max(event.at_ns);
        match event.what {
            What::Sample { .. } => sample = Some((event, Vec::new())),
            _ => sink(event)?,
        }
    }
    hand_on(&mut sample, sink)?;
    if unknown > 0 {
        head.notes.push(format!("{unknown} lines are not understood"));
    }
    if late > 0 {
        head.notes.push(format!("{late} lines are not in the order of time, and count at the time of the line before"));
    }
    head.frames = interner.frames();
    Ok(head)
}

/// A sample is whole when its stack has ended.
fn hand_on(sample: &mut Option<(Event, Vec<u32>)>, sink: Sink<'_>) -> Result<(), Problem> {
    let Some((mut event, mut frames)) = sample.take() else { return Ok(()) };
    // perf prints the innermost function first.
    frames.reverse();
    if let What::Sample { stack, .. } = &mut event.what {
        *stack = frames;
    }
    sink(event)
}

/// `# hostname : db1`, `# os release : 6.12.9`, `# nrcpus online : 8`, of `perf script --header`.
fn take_comment(head: &mut TraceHead, comment: &str) {
    let Some((key, value)) = comment.split_once(':') else { return };
    match (key.trim(), value.trim()) {
        ("hostname", value) => head.host = Some(value.to_owned()),
        ("os release", value) => head.kernel = Some(value.to_owned()),
        ("nrcpus online", value) => head.cpus = value.parse().unwrap_or(0),
        _ => {}
    }
}

/// What stands before the name of an event.
struct LineHead<'a> {
    /// The task's name and its id.
    task: (&'a str, u32),
    cpu: u32,
    /// The flags of ftrace (`d.h2.`); empty where there are none.
    flags: &'a str,
    at_ns: u64,
}

/// Takes `NAME PID [CPU] TIME:` or `NAME-PID [CPU] FLAGS TIME:` from the begin of a line; names may have spaces and brackets.
fn line_head(line: &str) -> Option<(LineHead<'_>, &str)> {
    let mut from = 0;
    loop {
        let open = from + line.get(from..)?.find('[')?;
        from = open + 1;
        let (digits, rest) = line[from..].split_once(']')?;
        let Ok(cpu) = digits.parse() else { continue };
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let Some((before, rest)) = rest.split_once(": ").or_else(|| rest.strip_suffix(':').map(|rest| (rest, "")))
        else {
            continue;
        };
        let mut words = before.split_ascii_whitespace();
        let (first, second) = (words.next(), words.next());
        let (flags, time) = match (first, second, words.next()) {
            (Some(time), None, _) => ("", time),
            (Some(flags), Some(time), None) => (flags, time),
            _ => continue,
        };
        let (Some(at_ns), Some(task)) = (nanoseconds(time), task_before(&line[..open])) else { continue };
        return Some((LineHead { task, cpu, flags, at_ns }, rest.trim_start()));
    }
}

/// `NAME  PID`, `NAME  PID/TID`, `NAME-PID`, `NAME-PID  (TGID)`.
fn task_before(text: &str) -> Option<(&str, u32)> {
    let text = text.trim();
    let text = match text.rsplit_once('(') {
        Some((before, tgid)) if tgid.ends_with(')') => before.trim_end(),
        _ => text,
    };
    let digits = text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (before, tid) = text.split_at(text.len() - digits);
    let name = match before.strip_suffix('/') {
        // A process, and its thread.
        Some(of) if of.ends_with(|c: char| c.is_ascii_digit()) => of.trim_end_matches(|c: char| c.is_ascii_digit()),
        _ => before.strip_suffix('-').unwrap_or(before),
    };
    Some((name.trim(), tid.parse().ok()?))
}

/// `1234.567890` s.
pub(crate) fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let below = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - fraction.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(below)
}

/// The name of an event of the scheduler, and what stands behind it.
fn event_of(rest: &str) -> Option<(&'static str, &str)> {
    let rest = rest.strip_prefix("sched:").unwrap_or(rest);
    EVENTS.iter().find_map(|name| Some((*name, rest.strip_prefix(name)?.trim())))
}

/// `250000 cpu-clock:pppH:`: an event that has no fields.
fn is_sample(rest: &str) -> bool {
    let name = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ').trim_end();
    ["cpu-clock", "task-clock", "cycles", "cpu-cycles", "cpu_core/cycles", "instructions"]
        .iter()
        .any(|known| name.strip_prefix(known).is_some_and(|rest| rest.starts_with([':', '/'])))
}

fn event(line: &str) -> Option<Event> {
    let (head, rest) = line_head(line)?;
    let at = |what| Some(Event { at_ns: head.at_ns, cpu: head.cpu, what });
    let Some((name, fields)) = event_of(rest) else {
        let (name, tid) = head.task;
        let sample = What::Sample { tid, name: Some(Name::of(name.as_bytes())), stack: Vec::new() };
        return if is_sample(rest) && tid != 0 { at(sample) } else { None };
    };
    // The third flag: in an interrupt, a soft one, or both.
    let in_interrupt = head.flags.chars().nth(2).is_some_and(|c| matches!(c, 'h' | 'H' | 's' | 'z' | 'Z'));
    let by = waker(head.task.1, in_interrupt);
    match name {
        "sched_switch:" => at(switch(fields)?),
        "sched_migrate_task:" => {
            at(What::Migrate { tid: number(fields, "pid=")?, to_cpu: number(fields, "dest_cpu=")? })
        }
        _ => {
            let (task, cpu) = woken(fields)?;
            at(match name {
                "sched_waking:" => What::Waking { task, cpu, by },
                _ => What::Wakeup { task, cpu, by, is_new: name == "sched_wakeup_new:" },
            })
        }
    }
}

/// The fields as the kernel prints them, or as the plug-in of libtraceevent does: `NAME:PID [PRIORITY] S ==> NAME:PID [PRIORITY]`.
fn switch(fields: &str) -> Option<What> {
    let (from, to) = fields.split_once(" ==> ")?;
    if from.starts_with("prev_comm=") {
        let from_task = TaskId {
            name: Name::of(between(from, "prev_comm=", " prev_pid=")?.as_bytes()),
            tid: number(from, "prev_pid=")?,
            priority: signed(from, "prev_prio=")?,
        };
        let left = from.rsplit_once("prev_state=")?.1.split_ascii_whitespace().next()?;
        let to_task = TaskId {
            name: Name::of(between(to, "next_comm=", " next_pid=")?.as_bytes()),
            tid: number(to, "next_pid=")?,
            priority: signed(to, "next_prio=")?,
        };
        return Some(What::Switch { from: from_task, left: Left::of_letters(left)?, to: to_task });
    }
    let (from_task, left) = short_task(from)?;
    Some(What::Switch { from: from_task, left: Left::of_letters(left.trim())?, to: short_task(to)?.0 })
}

/// `NAME:PID [PRIORITY]`, and what stands behind it.
fn short_task(text: &str) -> Option<(TaskId, &str)> {
    let (before, behind) = text.trim().rsplit_once('[')?;
    let (priority, rest) = behind.split_once(']')?;
    let (name, tid) = before.trim_end().rsplit_once(':')?;
    let task = TaskId {
        name: Name::of(name.trim().as_bytes()),
        tid: tid.trim().parse().ok()?,
        priority: priority.trim().parse().ok()?,
    };
    Some((task, rest))
}

/// The task of a wake-up and its CPU: `comm=X pid=1 prio=120 target_cpu=001`, or `X:1 [120]<CANT FIND …> CPU:001`.
fn woken(fields: &str) -> Option<(TaskId, u32)> {
    if fields.starts_with("comm=") {
        let task = TaskId {
            name: Name::of(between(fields, "comm=", " pid=")?.as_bytes()),
            tid: number(fields, " pid=")?,
            priority: signed(fields, " prio=")?,
        };
        return Some((task, number(fields, "target_cpu=")?));
    }
    let (before, behind) = fields.rsplit_once("CPU:")?;
    let end = before.find(']')? + 1;
    Some((short_task(&before[..end])?.0, behind.split_ascii_whitespace().next()?.parse().ok()?))
}

fn between<'a>(text: &'a str, before: &str, behind: &str) -> Option<&'a str> {
    let text = text.strip_prefix(before).or_else(|| text.split_once(before).map(|(_, rest)| rest))?;
    // A name may have the text in it that stands behind names.
    text.rsplit_once(behind).map(|(name, _)| name)
}

fn word<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.rsplit_once(key)?.1.split_ascii_whitespace().next()
}

fn number(text: &str, key: &str) -> Option<u32> {
    word(text, key)?.parse().ok()
}

fn signed(text: &str, key: &str) -> Option<i32> {
    word(text, key)?.parse().ok()
}

/// `CPU:1 [LOST 1234 EVENTS]`
fn lost(line: &str, at_ns: u64) -> Option<Event> {
    let (before, behind) = line.trim().split_once(" [LOST ")?;
    let cpu = before.strip_prefix("CPU:")?.parse().ok()?;
    let count = behind.split(' ').next()?.parse().unwrap_or(0);
    Some(Event { at_ns, cpu, what: What::Lost { count } })
}

/// `ffffffff81234567 schedule+0x27 ([kernel.kallsyms])`
fn frame(line: &str) -> Option<Frame> {
    let (address, rest) = line.trim().split_once(' ')?;
    u64::from_str_radix(address, 16).ok()?;
    let (function, module) = match rest.trim().rsplit_once(" (") {
        Some((function, module)) => (function, Some(module.trim_end_matches(')'))),
        None => (rest.trim(), None),
    };
    let function = function.rsplit_once("+0x").map_or(function, |(name, _)| name);
    let is_kernel = module.is_some_and(|module| module.starts_with("[kernel") || module.starts_with("[guest.kernel"));
    let is_module = module.is_some_and(|module| module.starts_with('[') && module != "[vdso]" && module != "[unknown]");
    let short = module.map(|module| module.rsplit('/').next().unwrap_or(module).to_owned());
    Some(Frame {
        function: function.to_owned(),
        module: if is_kernel { Some("[kernel]".to_owned()) } else { short.filter(|name| name != "[unknown]") },
        kind: if is_kernel || is_module { FrameKind::Kernel } else { FrameKind::User },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::unwrap_used, reason = "a test")]
    fn task(name: &str, tid: u32, priority: i32) -> TaskId {
        TaskId { tid, priority, name: Name::of(name.as_bytes()) }
    }

    #[test]
    fn lines_of_all_tools_are_understood() {
        let check = |line: &str, expect: Option<(u64, u32, What)>| {
            let found = event(line).map(|event| (event.at_ns, event.cpu, event.what));
            assert_eq!(found, expect, "{line}");
        };
        let switch = |left| What::Switch { from: task("a b [1] c", 1234, 120), left, to: task("swapper/0", 0, 120) };
        check(
            "       a b [1] c  1234 [000]   100.123456: sched:sched_switch: prev_comm=a b [1] c prev_pid=1234 prev_prio=120 \
             prev_state=R+ ==> next_comm=swapper/0 next_pid=0 next_prio=120",
            Some((100_123_456_000, 0, switch(Left::InKernel))),
        );
        check(
            "a b [1] c  1234/1234  [007]   100.123456789: sched:sched_switch: a b [1] c:1234 [120] S ==> swapper/0:0 [120]",
            Some((100_123_456_789, 7, switch(Left::Sleeping))),
        );
        check(
            "  a b [1] c-1234  (   12) [002] d..2.   5.000001: sched_switch: prev_comm=a b [1] c prev_pid=1234 prev_prio=120 \
             prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120",
            Some((5_000_001_000, 2, switch(Left::Blocked))),
        );
        let woken = |by| What::Waking { task: task("ping", 9, 98), cpu: 3, by };
        check(
            " swapper 0 [001] 7.5: sched:sched_waking: comm=ping pid=9 prio=98 target_cpu=003",
            Some((7_500_000_000, 1, woken(None))),
        );
        check(
            " bash-77 [001] d.h2. 7.5: sched_waking: comm=ping pid=9 prio=98 target_cpu=003",
            Some((7_500_000_000, 1, woken(None))),
        );
        check(
            " bash-77 [001] 7.5: sched_waking: ping:9 [98]<CANT FIND FIELD success> CPU:003",
            Some((7_500_000_000, 1, woken(Some(77)))),
        );
        check(
            " bash 77 [001] 7.5: sched:sched_migrate_task: comm=ping pid=9 prio=120 orig_cpu=1 dest_cpu=0",
            Some((7_500_000_000, 1, What::Migrate { tid: 9, to_cpu: 0 })),
        );
        check(
            "postgres  77 [001] 7.5:     250000 cpu-clock:pppH: ",
            Some((7_500_000_000, 1, What::Sample { tid: 77, name: Some(Name::of(b"postgres")), stack: Vec::new() })),
        );
        check("postgres  77 [001] 7.5: sched:sched_stat_runtime: comm=a pid=1 runtime=5 [ns]", None);
        check("not a line", None);
    }
}
