//! Text of `perf sched timehist --state`: a line for each time on a CPU, when it ends, with the wait before it. The events that
//! perf made it of are put back in place.

use crate::bytes::File;
use crate::event::{Event, Left, Name, TaskId, What};
use crate::lines::Lines;
use crate::order::Order;
use crate::{Sink, TraceHead};
use holdup_model::Problem;
use std::collections::BTreeMap;

/// What stands above the columns.
const COLUMNS: &str = "sch delay";

/// True if the begin of a file is such text.
pub(crate) fn is_it(head: &[u8]) -> bool {
    String::from_utf8_lossy(head).lines().take(50).any(|line| line.contains(COLUMNS) && line.contains("run time"))
}

/// The priority is not in the text; this is the middle of ordinary tasks.
const PRIORITY: i32 = 120;

/// Times are cut to whole microseconds.
const CUT_NS: u64 = 2_000;

/// A time on a CPU.
struct Run {
    end_ns: u64,
    cpu: u32,
    task: TaskId,
    pid: Option<u32>,
    delay_ns: u64,
    ran_ns: u64,
    left: Left,
}

/// Reads a text.
pub(crate) fn read(file: File<'_>, sink: Sink<'_>) -> Result<TraceHead, Problem> {
    let (mut lines, mut order) = (Lines::new(file), Order::new(file));
    // The last run on each CPU, of which the end is not yet an event.
    let mut before: BTreeMap<u32, Run> = BTreeMap::new();
    let mut unknown = 0_u64;
    let mut has_state = false;
    while let Some(bytes) = lines.next()? {
        let line = String::from_utf8_lossy(bytes);
        has_state |= line.contains(COLUMNS) && line.trim_end().ends_with("state");
        if !line.trim_start().starts_with(|c: char| c.is_ascii_digit()) {
            continue;
        }
        if !has_state {
            return Err(lines
                .file
                .problem(lines.at, "it does not say how a task left its CPU")
                .hint("perf sched timehist --state does; perf script has all"));
        }
        let Some(run) = run(&line) else {
            unknown += 1;
            continue;
        };
        if let Some(pid) = run.pid {
            sink(Event { at_ns: 0, cpu: 0, what: What::Process { tid: run.task.tid, pid } })?;
        }
        for event in events(before.get(&run.cpu), &run) {
            order.add(event, sink)?;
        }
        before.insert(run.cpu, run);
    }
    for run in before.into_values() {
        order.add(switch(&run, run.end_ns, TaskId::default()), sink)?;
    }
    order.finish(sink)?;
    let mut notes = vec!["the text does not have priorities: tasks count as ordinary ones".to_owned()];
    if unknown > 0 {
        notes.push(format!("{unknown} lines are not understood"));
    }
    notes.extend(order.note());
    Ok(TraceHead { format: "timehist".to_owned(), notes, ..TraceHead::default() })
}

fn switch(from: &Run, at_ns: u64, to: TaskId) -> Event {
    Event { at_ns, cpu: from.cpu, what: What::Switch { from: from.task, left: from.left, to } }
}

/// How the CPU came from one run to the next.
fn events(before: Option<&Run>, run: &Run) -> Vec<Event> {
    let begin_ns = run.end_ns.saturating_sub(run.ran_ns);
    let mut events = Vec::with_capacity(3);
    let mut at_ns = begin_ns;
    let idle = TaskId { tid: 0, priority: PRIORITY, name: Name::default() };
    let from_idle = |at_ns| Event {
        at_ns,
        cpu: run.cpu,
        what: What::Switch { from: idle, left: Left::UserBoundary, to: run.task },
    };
    match before {
        Some(before) if begin_ns <= before.end_ns + CUT_NS => {
            at_ns = before.end_ns;
            events.push(switch(before, at_ns, run.task));
        }
        Some(before) => events.extend([switch(before, before.end_ns, idle), from_idle(begin_ns)]),
        // Of the first run of a CPU perf knows no begin.
        None if run.ran_ns > 0 => events.push(from_idle(begin_ns)),
        None => {}
    }
    if run.delay_ns > 0 {
        let what = What::Waking { task: run.task, cpu: run.cpu, by: None };
        events.push(Event { at_ns: at_ns.saturating_sub(run.delay_ns), cpu: run.cpu, what });
    }
    events
}

/// `   34062.677900 [0000]  NAME[TID/PID]     0.000      0.000      1.278      S`
fn run(line: &str) -> Option<Run> {
    let (time, rest) = line.trim().split_once(char::is_whitespace)?;
    let (cpu, rest) = rest.trim_start().strip_prefix('[')?.split_once(']')?;
    let (rest, state) = rest.trim().rsplit_once(char::is_whitespace)?;
    let left = match state {
        // perf before 6.9 has the letters of older kernels, where this bit was another state, which never leaves a CPU.
        "W" => Left::InKernel,
        letters => Left::of_letters(letters)?,
    };
    let (mut rest, mut numbers) = (rest.trim_end(), [0_u64; 3]);
    for number in numbers.iter_mut().rev() {
        let (before, word) = rest.rsplit_once(char::is_whitespace)?;
        *number = crate::text::nanoseconds(word)? / 1000;
        rest = before.trim_end();
    }
    let (name, tid, pid) = match rest.rsplit_once('[') {
        Some((name, ids)) => {
            let ids = ids.strip_suffix(']')?;
            let (tid, pid) = ids.split_once('/').map_or((ids, None), |(tid, pid)| (tid, Some(pid)));
            (name, tid, pid)
        }
        None => (rest, rest.strip_prefix(':')?, None),
    };
    Some(Run {
        end_ns: crate::text::nanoseconds(time)?,
        cpu: cpu.parse().ok()?,
        task: TaskId { tid: tid.parse().ok()?, priority: PRIORITY, name: Name::of(name.as_bytes()) },
        pid: pid.and_then(|pid| pid.parse().ok()),
        delay_ns: numbers[1],
        ran_ns: numbers[2],
        left,
    })
}
