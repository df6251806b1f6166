//! Timelines as text: a lane for each task, and a line for each event.

use crate::Scenario;
use holdup_model::Problem;
use holdup_sim::machine::Machine;
use holdup_sim::world::{Event, PreemptedAt, ReschedRequest, SwitchReason, TraceEntry, World};
use std::fmt::Write as _;

/// The most entries of a timeline.
const MOST_ENTRIES: usize = 2_000;
/// How many characters a lane has at most.
const LANE: u64 = 80;

/// The states of a task in a lane. Those on a CPU come last, so that they are shown where two last equally long.
const DOES: [char; 4] = [' ', '.', '~', '#'];
const OFF: usize = 0;
const WAITS: usize = 1;
const SPINS: usize = 2;
const RUNS: usize = 3;

/// The state of the machine while its entries are rendered.
struct Renderer<'a> {
    scenario: &'a Scenario,
    /// The task of each CPU.
    current: Vec<Option<u32>>,
    /// The width of the column with the two tasks of a switch.
    width: usize,
}

pub(crate) fn of(scenario: &Scenario, machine: &Machine) -> Result<String, Problem> {
    scenario.load.check(machine, &scenario.names)?;
    let mut world = World::new(machine, &scenario.load, scenario.seed);
    world.start_trace(MOST_ENTRIES);
    let failure = world.advance(scenario.length_ns).err().or_else(|| world.deadlock());
    let (entries, missed) = world.trace();
    let end_ns = match entries.last() {
        Some(last) if missed > 0 => last.at_ns.max(1),
        // The lanes end where the machine stopped.
        _ if failure.is_some() => world.now_ns().max(1),
        _ => scenario.length_ns,
    };
    let mut out = String::new();
    lanes(&mut out, scenario, entries, end_ns);
    let longest = scenario.names.tasks.iter().map(String::len).max().unwrap_or(0).max("idle".len());
    let current = vec![None; machine.topology.cpus() as usize];
    let mut renderer = Renderer { scenario, current, width: 2 * longest + " -> ".len() };
    for entry in entries {
        if let Some(text) = renderer.line(entry) {
            let at = ms(entry.at_ns);
            let _infallible = writeln!(out, "{}", format!("{at:>9} ms  cpu {}  {text}", entry.cpu).trim_end());
        }
    }
    if missed > 0 {
        let _infallible = writeln!(out, "and {missed} more");
    }
    if let Some(failure) = failure {
        let _infallible = writeln!(out, "\n{}", world.problem(&failure, &scenario.names));
    }
    Ok(out)
}

fn ms(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000_000, ns / 1_000 % 1_000)
}

/// How long a character of a lane is, ns: 1, 2 or 5 times a power of ten.
fn step_ns(length_ns: u64) -> u64 {
    let mut ten = 1;
    loop {
        for step in [ten, 2 * ten, 5 * ten] {
            if length_ns.div_ceil(step) <= LANE {
                return step;
            }
        }
        ten *= 10;
    }
}

/// A lane for each task that exists in the beginning.
fn lanes(out: &mut String, scenario: &Scenario, entries: &[TraceEntry], end_ns: u64) {
    let step = step_ns(end_ns);
    let columns = end_ns.div_ceil(step) as usize;
    let longest = scenario.names.tasks.iter().map(String::len).max().unwrap_or(0);
    let mut lanes = vec![vec![[0u64; DOES.len()]; columns]; scenario.names.tasks.len()];
    let mut state = vec![(OFF, 0u64, false); scenario.names.tasks.len()];
    let mut until = |task: usize, (does, since, _): (usize, u64, bool), now: u64| {
        let mut at = since;
        while at < now.min(end_ns) {
            let column = at / step;
            let end = ((column + 1) * step).min(now);
            lanes[task][column as usize][does] += end - at;
            at = end;
        }
    };
    for entry in entries {
        for (task, does, wants) in changes(&entry.event) {
            let Some(place) = state.get_mut(task as usize) else { continue };
            until(task as usize, *place, entry.at_ns);
            let wants = wants.unwrap_or(place.2);
            let does = match does.unwrap_or(place.0) {
                RUNS | SPINS if wants => SPINS,
                SPINS => RUNS,
                does => does,
            };
            *place = (does, entry.at_ns, wants);
        }
    }
    for (task, place) in state.into_iter().enumerate() {
        until(task, place, end_ns);
    }
    let _infallible = writeln!(out, "{:longest$} |{} ms", "", ruler(step, columns));
    for (name, lane) in scenario.names.tasks.iter().zip(&lanes) {
        let most = |column: &[u64; DOES.len()]| (0..DOES.len()).max_by_key(|does| column[*does]).unwrap_or(OFF);
        let text: String = lane.iter().map(|column| DOES[most(column)]).collect();
        let _infallible = writeln!(out, "{name:longest$} |{}", text.trim_end());
    }
    out.push('\n');
}

/// Times above the lanes, at every tenth character.
fn ruler(step: u64, columns: usize) -> String {
    let mut text = String::new();
    for column in (0..columns).step_by(10) {
        let ns = column as u64 * step;
        let (whole, part) = (ns / 1_000_000, format!("{:06}", ns % 1_000_000));
        let part = part.trim_end_matches('0');
        let time = if part.is_empty() { format!("{whole}") } else { format!("{whole}.{part}") };
        let _infallible = write!(text, "{time:<10}");
    }
    text.trim_end().to_owned()
}

/// The tasks whose state changes: what each does from now on, and whether it wants a lock; `None` for as before.
fn changes(event: &Event) -> Vec<(u32, Option<usize>, Option<bool>)> {
    match *event {
        Event::Switch { from, to } => {
            let left = |(task, why)| {
                let stays = matches!(why, SwitchReason::Preempted(..) | SwitchReason::Yields);
                (task, Some(if stays { WAITS } else { OFF }), None)
            };
            from.map(left).into_iter().chain(to.map(|task| (task, Some(RUNS), None))).collect()
        }
        Event::Wakes { task, .. } => vec![(task, Some(WAITS), None)],
        Event::Wants { task, .. } => vec![(task, None, Some(true))],
        Event::Takes { task, .. } => vec![(task, None, Some(false))],
        Event::Promoted | Event::Granted | Event::Expired | Event::Returned { .. } => Vec::new(),
    }
}

impl Renderer<'_> {
    fn task(&self, task: u32) -> String {
        self.scenario.names.task(task)
    }

    /// A lock that has a name; those inside of others have none.
    fn lock(&self, lock: u32) -> Option<&str> {
        self.scenario.names.locks.get(lock as usize).map(String::as_str)
    }

    /// The task on a CPU, as far as the entries show.
    fn on(&self, cpu: u32) -> String {
        self.current[cpu as usize].map_or_else(|| "idle".to_owned(), |task| self.task(task))
    }

    fn line(&mut self, entry: &TraceEntry) -> Option<String> {
        let on = self.on(entry.cpu);
        Some(match entry.event {
            Event::Switch { from, to } => {
                self.current[entry.cpu as usize] = to;
                let left = from.map_or_else(|| "idle".to_owned(), |(task, _)| self.task(task));
                let switch = format!("{left} -> {}", self.on(entry.cpu));
                let why = from.map(|(task, why)| self.why(task, why)).unwrap_or_default();
                format!("{switch:width$}  {why}", width = self.width)
            }
            Event::Wakes { task, by, is_new, asks } => {
                let name = self.task(task);
                let how = match by {
                    _ if is_new => format!("{name} begins"),
                    Some(by) => format!("{name} is woken by {}", self.task(by)),
                    None => format!("{name} wakes up"),
                };
                match asks {
                    None => how,
                    Some((_, ReschedRequest::None)) => format!("{how}; {on} keeps running"),
                    Some((_, ReschedRequest::Lazy)) => format!("{how} and asks {on} lazily to reschedule"),
                    Some((_, ReschedRequest::Immediate)) => format!("{how} and asks {on} to reschedule"),
                }
            }
            Event::Promoted => format!("the tick makes the lazy request to {on} an immediate one"),
            Event::Granted => format!("{on} gets a slice extension"),
            Event::Returned { given: true } => format!("{on} gives its slice extension back"),
            Event::Returned { given: false } => format!("a system call ends the slice extension of {on}"),
            Event::Expired => format!("the slice extension of {on} expires"),
            Event::Wants { task, lock } => format!("{} wants {}", self.task(task), self.lock(lock)?),
            Event::Takes { task, lock } => format!("{} has {}", self.task(task), self.lock(lock)?),
        })
    }

    fn why(&self, task: u32, why: SwitchReason) -> String {
        let lock = |lock| self.lock(lock).unwrap_or("a list of waiters").to_owned();
        match why {
            SwitchReason::Preempted(place, held) => {
                let place = match place {
                    PreemptedAt::User => "in user code".to_owned(),
                    PreemptedAt::Spin(wanted) => format!("while it spins for {}", lock(wanted)),
                    PreemptedAt::AfterCall => "on the return from a system call".to_owned(),
                    PreemptedAt::AfterFault => "on the return from a page fault".to_owned(),
                    PreemptedAt::IntoCall => "on the way into a system call".to_owned(),
                    PreemptedAt::Call => "inside a system call".to_owned(),
                    PreemptedAt::Point => "inside a system call, at a cond_resched()".to_owned(),
                    PreemptedAt::Fault => "inside a page fault".to_owned(),
                    PreemptedAt::FaultPoint => "inside a page fault, where it might sleep".to_owned(),
                };
                let held = held.map(|held| format!(", holding {}", lock(held))).unwrap_or_default();
                format!("{} is preempted {place}{held}", self.task(task))
            }
            SwitchReason::Yields => format!("{} yields", self.task(task)),
            SwitchReason::Sleeps => format!("{} sleeps", self.task(task)),
            SwitchReason::Lock(wanted) => format!("{} sleeps until it can have {}", self.task(task), lock(wanted)),
            SwitchReason::Message => format!("{} waits for a message", self.task(task)),
            SwitchReason::Room => format!("{} waits for room in a channel", self.task(task)),
            SwitchReason::Device => format!("{} waits for a device", self.task(task)),
            SwitchReason::Children => format!("{} waits for its children", self.task(task)),
            SwitchReason::Ends => format!("{} ends", self.task(task)),
        }
    }
}
