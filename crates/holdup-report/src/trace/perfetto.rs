//! A timeline as Chrome's JSON trace, which Perfetto (ui.perfetto.dev) opens.
//!
//! The form is that of "Trace Event Format" (Chromium project): `X` slices with begin and length in microseconds, `b`
//! and `e` for slices that need a track of their own, `i` for moments, `M` for the names of tracks. Each CPU is a track,
//! with the task that ran; each task is a track with what it did. Where the timeline records what CPUs did for
//! tasks, that stands inside of these slices. Faults and locks that are held have tracks of their own beside their task's.

use crate::text::clean;
use holdup_model::timeline::{Timeline, TimelineDoing, TimelineKind};
use serde_json::{Value, json};

/// The process that holds the tracks of CPUs: one more than any process id (PID_MAX_LIMIT, include/linux/threads.h).
const CPUS_PID: u32 = (1 << 22) + 1;

/// What a task is doing, as far as the events say.
#[derive(Clone, Default)]
enum State<'a> {
    /// Nothing was seen of it, or what was seen does not fit together since events were lost.
    #[default]
    Unknown,
    /// On a CPU.
    Running { since_ns: u64, cpu: u32 },
    /// Off the CPU.
    Off { since_ns: u64, left: &'a str, section: Option<&'a str>, woken_ns: Option<u64> },
}

/// The trace as it grows.
struct Trace<'a> {
    timeline: &'a Timeline,
    tasks: Vec<State<'a>>,
    /// Who runs on each CPU, and since when; `None` for the idle task and for what is not known.
    cpus: std::collections::BTreeMap<u32, Option<(u32, u64)>>,
    out: String,
    /// Slices inside of others, which stand behind those: of two that begin together, the outer one comes first.
    inner: String,
    /// Slices on tracks of their own.
    apart: u64,
}

/// The trace of one timeline. `title` says of what: it becomes the name of the CPUs' tracks.
///
/// A slice is drawn only where both of its ends were seen, or where it lasts to the end: where events were lost there is a
/// gap and nothing invented.
pub fn perfetto(timeline: &Timeline, title: &str) -> String {
    let mut trace = Trace {
        timeline,
        tasks: vec![State::Unknown; timeline.tasks.len()],
        cpus: std::collections::BTreeMap::new(),
        out: String::new(),
        inner: String::new(),
        apart: 0,
    };
    for event in &timeline.events {
        let (at_ns, cpu) = (event.at_ns, event.cpu);
        match &event.kind {
            TimelineKind::Switch { from, to, left, section } => {
                trace.switch(at_ns, cpu, (*from, *to), left, section.as_deref());
            }
            TimelineKind::Wakeup { task, by } => trace.wakeup(at_ns, *task, *by),
            TimelineKind::Fault { task, length_ns, section } => {
                trace.apart((at_ns, *length_ns), *task, ("fault", "page fault"), &json!({"section": section}));
            }
            TimelineKind::Stretch { task, doing, length_ns, lock } => {
                trace.stretch((at_ns, *length_ns), cpu, *task, *doing, lock.as_deref());
            }
            TimelineKind::Hold { task, lock, length_ns } => {
                let name = format!("holds {}", clean(lock));
                trace.apart((at_ns, *length_ns), *task, ("lock", &name), &json!({"lock": clean(lock)}));
            }
        }
    }
    trace.end(super::lanes::end(timeline));
    let inner = std::mem::take(&mut trace.inner);
    trace.out.push_str(&inner);
    trace.names(title);
    let other = json!({
        "title": clean(title), "begin_monotonic_ns": timeline.begin_ns.to_string(), "lost_events": timeline.lost,
    });
    let events = trace.out.trim_end_matches(",\n");
    format!("{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[\n{events}\n]}}\n")
}

/// Microseconds, as the format has them.
fn us(ns: u64) -> f64 {
    ns as f64 / 1_000.0
}

fn is_sleep(state: &str) -> bool {
    matches!(state, "sleeping" | "blocked")
}

/// Why a task is off the CPU, in words.
fn words(left: &str) -> String {
    // A sleep has the name of its wait event or system call; a simulated machine says `blocked: for a message`.
    let named = |(state, slept_for): &(&str, &str)| is_sleep(state) && !slept_for.starts_with("for ");
    if let Some((_, slept_for)) = left.split_once(": ").filter(named) {
        return clean(slept_for);
    }
    match left {
        "user_boundary" => "preempted at the user boundary".to_owned(),
        "in_kernel" => "preempted in the kernel".to_owned(),
        other => clean(&other.replace('_', " ")),
    }
}

impl<'a> Trace<'a> {
    fn add(&mut self, event: &Value) {
        self.out.push_str(&event.to_string());
        self.out.push_str(",\n");
    }

    fn name(&self, task: u32) -> String {
        self.timeline.tasks.get(task as usize).map_or_else(|| format!("task {task}"), |t| clean(&t.name))
    }

    /// The process and thread of a task; `None` for one that the timeline does not list.
    fn ids(&self, task: u32) -> Option<(u32, u32)> {
        self.timeline.tasks.get(task as usize).map(|t| (t.pid, t.tid))
    }

    fn slice(&mut self, task: u32, name: &str, (from_ns, to_ns): (u64, u64), args: &Value) {
        if let (Some((pid, tid)), true) = (self.ids(task), to_ns >= from_ns) {
            let dur = us(to_ns - from_ns);
            self.add(
                &json!({"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": us(from_ns), "dur": dur, "args": args}),
            );
        }
    }

    fn switch(
        &mut self,
        at_ns: u64,
        cpu: u32,
        (from, to): (Option<u32>, Option<u32>),
        left: &'a str,
        section: Option<&'a str>,
    ) {
        let ran = self.cpus.insert(cpu, to.map(|t| (t, at_ns))).flatten();
        if let Some((task, since_ns)) = ran.filter(|(task, since)| Some(*task) == from && *since <= at_ns) {
            let args = json!({"tid": self.ids(task).map(|i| i.1), "left": words(left), "section": section});
            self.add(&json!({
                "ph": "X", "name": self.name(task), "pid": CPUS_PID, "tid": CPUS_PID.saturating_add(cpu), "ts": us(since_ns),
                "dur": us(at_ns - since_ns), "args": args,
            }));
        }
        // Who should have been there, and was not seen to go, is somewhere else by now.
        if let Some((task, _)) = ran.filter(|(task, _)| Some(*task) != from) {
            self.set(task, State::Unknown);
        }
        if let Some(task) = from {
            if matches!(self.tasks.get(task as usize), Some(State::Running { cpu: on, .. }) if *on == cpu) {
                self.close(task, at_ns);
            }
            let off = State::Off { since_ns: at_ns, left, section, woken_ns: None };
            self.set(task, if left == "exited" { State::Unknown } else { off });
        }
        if let Some(task) = to {
            if matches!(self.tasks.get(task as usize), Some(State::Off { .. })) {
                self.close(task, at_ns);
            }
            self.set(task, State::Running { since_ns: at_ns, cpu });
        }
    }

    fn set(&mut self, task: u32, state: State<'a>) {
        if let Some(place) = self.tasks.get_mut(task as usize) {
            *place = state;
        }
    }

    /// Draws what a task did up to now.
    fn close(&mut self, task: u32, at_ns: u64) {
        match self.tasks.get(task as usize).cloned() {
            None | Some(State::Unknown) => {}
            Some(State::Running { since_ns, cpu }) => {
                self.slice(task, "running", (since_ns, at_ns), &json!({ "cpu": cpu }));
            }
            Some(State::Off { since_ns, left, section, woken_ns }) => {
                // The section goes first: of two slices that begin together, the outer one comes first.
                if let Some(section) = section {
                    self.slice(task, &clean(section), (since_ns, at_ns), &json!({}));
                }
                self.slice(task, &words(left), (since_ns, woken_ns.unwrap_or(at_ns)), &json!({ "section": section }));
                if let Some(woken_ns) = woken_ns {
                    self.slice(task, "runnable", (woken_ns, at_ns), &json!({ "section": section }));
                }
            }
        }
    }

    fn wakeup(&mut self, at_ns: u64, task: u32, by: Option<u32>) {
        if let Some(State::Off { woken_ns: woken @ None, left, .. }) = self.tasks.get_mut(task as usize)
            // What it waits for may stand behind a colon.
            && left.split(':').next().is_some_and(is_sleep)
        {
            *woken = Some(at_ns);
        }
        let by = by.map_or_else(|| "an interrupt".to_owned(), |b| self.name(b));
        if let Some((pid, tid)) = self.ids(task) {
            let name = format!("woken by {by}");
            self.add(&json!({"ph": "i", "s": "t", "name": name, "pid": pid, "tid": tid, "ts": us(at_ns)}));
        }
    }

    /// What has its own track, because the task may leave the CPU and come back inside it.
    fn apart(&mut self, (at_ns, length_ns): (u64, u64), task: u32, (category, name): (&str, &str), args: &Value) {
        let Some((pid, tid)) = self.ids(task) else { return };
        self.apart += 1;
        let end_ns = at_ns.saturating_add(length_ns);
        for (ph, ts) in [("b", at_ns), ("e", end_ns)] {
            self.add(&json!({
                "ph": ph, "cat": category, "id": self.apart, "name": name, "pid": pid, "tid": tid, "ts": us(ts), "args": args,
            }));
        }
    }

    /// What a CPU did for its task stands on the tracks of both.
    fn stretch(&mut self, at: (u64, u64), cpu: u32, task: u32, doing: TimelineDoing, lock: Option<&str>) {
        let (at_ns, length_ns) = at;
        let name = match (doing, lock) {
            (TimelineDoing::Kernel, None) => "in the kernel".to_owned(),
            (TimelineDoing::Kernel, Some(lock)) => format!("in the kernel for {}", clean(lock)),
            (TimelineDoing::Spin, lock) => format!("spins for {}", lock.map_or_else(|| "a lock".to_owned(), clean)),
            (TimelineDoing::Switch, _) => "switch".to_owned(),
            (TimelineDoing::Interrupt, _) => "interrupt".to_owned(),
        };
        let tracks = [Some((CPUS_PID, CPUS_PID.saturating_add(cpu))), self.ids(task)];
        for (pid, tid) in tracks.into_iter().flatten() {
            let slice = json!({
                "ph": "X", "name": name, "pid": pid, "tid": tid, "ts": us(at_ns), "dur": us(length_ns),
                "args": {"lock": lock.map(clean)},
            });
            self.inner.push_str(&slice.to_string());
            self.inner.push_str(",\n");
        }
    }

    /// Draws what is still under way at the end.
    fn end(&mut self, at_ns: u64) {
        for (cpu, ran) in std::mem::take(&mut self.cpus) {
            let is_there =
                |task: u32| matches!(self.tasks.get(task as usize), Some(State::Running { cpu: on, .. }) if *on == cpu);
            if let Some((task, since_ns)) = ran.filter(|(task, since)| *since <= at_ns && is_there(*task)) {
                self.add(&json!({
                    "ph": "X", "name": self.name(task), "pid": CPUS_PID, "tid": CPUS_PID.saturating_add(cpu), "ts": us(since_ns),
                    "dur": us(at_ns - since_ns), "args": {"tid": self.ids(task).map(|i| i.1)},
                }));
            }
        }
        for task in 0..self.tasks.len() as u32 {
            self.close(task, at_ns);
        }
    }

    fn names(&mut self, title: &str) {
        let meta = |kind: &str, pid: u32, tid: u32, name: &str| json!({"ph": "M", "name": kind, "pid": pid, "tid": tid, "args": {"name": name}});
        let cpus: std::collections::BTreeSet<u32> = self.timeline.events.iter().map(|e| e.cpu).collect();
        self.add(&meta("process_name", CPUS_PID, CPUS_PID, &format!("CPUs: {}", clean(title))));
        self.add(&json!({"ph": "M", "name": "process_sort_index", "pid": CPUS_PID, "args": {"sort_index": -1}}));
        for cpu in cpus {
            self.add(&meta("thread_name", CPUS_PID, CPUS_PID.saturating_add(cpu), &format!("CPU {cpu}")));
        }
        for task in &self.timeline.tasks {
            self.add(&meta("thread_name", task.pid, task.tid, &clean(&task.name)));
            if task.pid == task.tid {
                self.add(&meta("process_name", task.pid, task.tid, &clean(&task.name)));
            }
        }
    }
}
