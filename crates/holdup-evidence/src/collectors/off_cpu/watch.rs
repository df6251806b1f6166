//! Reads the samples while the window is open, and sums them up.

use super::{META, kernel_side};
use crate::background::End;
use crate::collectors::switches::OUT_STATE_NAMES;
use crate::kernel::layout::{
    STACK_BACK, STACK_EXEC, STACK_FORK, STACK_LEFT, STACK_OFF, STACK_WAKER, StackSample, USER_BITS64, USER_NONE,
    USER_OTHER, name as comm_name, read,
};
use crate::kernel::{self, OffCpu, WindowCounts, roles};
use crate::processes::{Processes, followed_note, kernel_symbols, single_task};
use crate::reading::{Meter, thread_cpu_ns};
use crate::{CollectContext, tasks};
use aya::maps::{MapData, RingBuf};
use holdup_host::perf_samples::{HAS_LINK, Record};
use holdup_model::stacks::{Frame, FrameKind};
use holdup_model::{Collected, EvidenceItem, SelfCost};
use holdup_stacks::{Followed, KernelSymbols, Registers, Sample, Symbolizer, TaskId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The ring has room for some 480 samples.
const PAUSE: Duration = Duration::from_millis(100);
/// The waker's name of an interrupt, which is no task.
const INTERRUPT: &str = "[interrupt]";
/// The module of a frame that is a wait event and no function.
const WAIT_EVENT: &str = "[wait event]";
/// Of a backend that is in no wait event.
const NOT_WAITING: &str = "not waiting";
/// Pairs of names in the evidence, those with the most time.
const MOST_PAIRS: usize = 64;
/// The size of a record without a stack.
const HEAD_BYTES: usize = std::mem::offset_of!(StackSample, comm);

/// The programs under test and the kernel's functions, read before the window.
pub(super) struct Programs {
    processes: Processes,
    symbolizer: Symbolizer,
    kernel: KernelSymbols,
    notes: Vec<String>,
    cost: SelfCost,
}

impl Programs {
    pub(super) fn read(context: &CollectContext) -> Result<Self, String> {
        let host = &context.host;
        let mut meter = Meter::default();
        let mut symbolizer = Symbolizer::new();
        let mut notes = Vec::new();
        let (processes, kernel) = meter.spend(host, |reader| {
            let members = tasks::processes(reader, &context.subjects)?;
            let mut processes = Processes::new(host, &members, &context.foreign).by_task(context.options.by_task);
            for subject in &context.subjects {
                let _known_from_now_on = processes.space(subject.pid, &mut symbolizer);
            }
            let (kernel, nameless) = kernel_symbols(host);
            notes.extend(nameless);
            Ok::<_, String>((processes, kernel))
        })?;
        Ok(Programs { processes, symbolizer, kernel, notes, cost: meter.0 })
    }
}

/// Samples of a role, or of the wakers.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    samples: u64,
    whole: u64,
    truncated: u64,
}

/// The stack of a task that left its CPU.
struct Left {
    followed: Followed,
    role: u32,
    wait_event: Option<u32>,
}

/// A task's profile, its name, its role, and what it waited for.
type TaskKey = (usize, String, Option<u32>, Option<u32>);

/// Reads the ring while windows are open, and sums its samples up.
pub(super) struct Watcher {
    ring: RingBuf<MapData>,
    samples: Samples,
}

/// The samples of a window.
struct Samples {
    programs: Programs,
    by_task: bool,
    how: OffCpu,
    roles: Vec<String>,
    tasks: BTreeMap<TaskKey, TaskId>,
    by_role: Vec<Counts>,
    wakers: Counts,
    /// Tasks whose time off the CPU is not over, where samples are taken at its begin.
    left: BTreeMap<u32, Left>,
    /// Weight by wakee and waker, ns.
    pairs: BTreeMap<(String, String), u64>,
    /// Weight by role and wait event, ns.
    by_wait_event: BTreeMap<(u32, u32), u64>,
    /// When the code of a process was last read again, in rounds of the watcher.
    read_again: BTreeMap<u32, u64>,
    round: u64,
    other_code: u64,
    broken: u64,
    cost: SelfCost,
}

impl Watcher {
    pub(super) fn new(context: &CollectContext, programs: Programs, how: OffCpu, ring: RingBuf<MapData>) -> Self {
        let roles = roles(context);
        let samples = Samples {
            programs,
            by_task: context.options.by_task,
            how,
            tasks: BTreeMap::new(),
            by_role: vec![Counts::default(); roles.len()],
            left: BTreeMap::new(),
            roles,
            wakers: Counts::default(),
            pairs: BTreeMap::new(),
            by_wait_event: BTreeMap::new(),
            read_again: BTreeMap::new(),
            round: 0,
            other_code: 0,
            broken: 0,
            cost: SelfCost::default(),
        };
        Watcher { ring, samples }
    }

    /// Reads until asked to end.
    pub(super) fn run(watcher: &Mutex<Self>, end: &End) {
        while !end.wait(PAUSE) {
            watcher.lock().unwrap_or_else(PoisonError::into_inner).drain();
        }
    }

    /// Takes what is in the ring.
    fn drain(&mut self) {
        let begun = thread_cpu_ns();
        self.samples.round += 1;
        self.samples.cost.wakeups += 1;
        while let Some(item) = self.ring.next() {
            self.samples.take(&item);
        }
        self.samples.cost.cpu_ns += thread_cpu_ns().saturating_sub(begun);
    }

    /// The evidence of the window that has ended.
    pub(super) fn report(&mut self, window: &WindowCounts) -> Collected {
        self.drain();
        self.samples.report(window)
    }
}

/// The head of a sample and the copy of its stack; a record of a process has the first fields alone.
fn parse(bytes: &[u8]) -> Option<(StackSample, &[u8])> {
    if bytes.len() < HEAD_BYTES {
        return None;
    }
    let head: StackSample = read(bytes);
    let stack = bytes.get(size_of::<StackSample>()..).unwrap_or_default();
    Some((head, &stack[..stack.len().min(head.stack_bytes as usize)]))
}

impl Samples {
    fn take(&mut self, bytes: &[u8]) {
        self.cost.bytes += bytes.len() as u64;
        let Some((sample, stack)) = parse(bytes) else {
            self.broken += 1;
            return;
        };
        match usize::from(sample.kind) {
            STACK_OFF => self.off(&sample, stack),
            STACK_LEFT => self.left(&sample, stack),
            STACK_BACK => self.back(&sample),
            STACK_WAKER => self.waker(&sample, stack),
            STACK_EXEC => self.programs.processes.forget_code(sample.pid),
            STACK_FORK => self.programs.processes.note(&Record::Began {
                pid: sample.pid,
                tid: sample.pid,
                parent_pid: sample.tid,
                parent_tid: sample.tid,
            }),
            _ => self.broken += 1,
        }
    }

    fn off(&mut self, sample: &StackSample, stack: &[u8]) {
        let followed = self.follow_sleeper(sample, stack);
        self.count(&Left { followed, role: sample.role, wait_event: wait_event(sample) }, sample.weight_ns);
    }

    /// A task has left its CPU; for how long is known when it is back.
    fn left(&mut self, sample: &StackSample, stack: &[u8]) {
        let followed = self.follow_sleeper(sample, stack);
        self.left.insert(sample.tid, Left { followed, role: sample.role, wait_event: wait_event(sample) });
    }

    fn back(&mut self, sample: &StackSample) {
        if let Some(left) = self.left.remove(&sample.tid) {
            self.count(&left, sample.weight_ns);
        }
    }

    fn follow_sleeper(&mut self, sample: &StackSample, stack: &[u8]) -> Followed {
        let kernel = kernel_side::of_sleeper(&self.programs.kernel, kernel_of(sample));
        let comm = comm_name(&sample.comm);
        let name = if self.by_task { single_task(&comm, sample.tid) } else { comm };
        let task = self.task((STACK_OFF, name, Some(sample.role), wait_event(sample)));
        self.follow(task, sample, stack, &kernel)
    }

    fn count(&mut self, left: &Left, weight_ns: u64) {
        self.programs.symbolizer.add_followed(&left.followed, weight_ns);
        if let Some(event) = left.wait_event {
            *self.by_wait_event.entry((left.role, event)).or_default() += weight_ns;
        }
        if let Some(counts) = self.by_role.get_mut(left.role as usize) {
            counts.count(left.followed.is_complete);
        }
    }

    fn waker(&mut self, sample: &StackSample, stack: &[u8]) {
        let (kernel, is_interrupt) = kernel_side::of_waker(&self.programs.kernel, kernel_of(sample));
        let name = if is_interrupt { INTERRUPT.to_owned() } else { comm_name(&sample.comm) };
        let role = Some(sample.role).filter(|_| !is_interrupt);
        let task = self.task((STACK_WAKER, name.clone(), role, None));
        // Without kernel symbols an interrupt looks like a call: then no user stack is shown.
        let is_own = !is_interrupt && !self.programs.kernel.is_empty();
        let user = if is_own { sample.user } else { USER_NONE as u8 };
        let followed = self.follow(task, &StackSample { user, ..*sample }, stack, &kernel);
        self.programs.symbolizer.add_followed(&followed, sample.weight_ns);
        *self.pairs.entry((comm_name(&sample.wakee), name)).or_default() += sample.weight_ns;
        self.wakers.count(followed.is_complete);
    }

    fn follow(&mut self, task: TaskId, sample: &StackSample, stack: &[u8], kernel: &[u64]) -> Followed {
        let Programs { processes, symbolizer, .. } = &mut self.programs;
        let StackSample { pid, ip, sp, bp, lr, weight_ns: weight, .. } = *sample;
        let (registers, space) = match usize::from(sample.user) {
            USER_BITS64 => {
                let _asked_so_that_it_is_known = processes.role(pid);
                (Some(Registers { ip, sp, bp, lr: Some(lr).filter(|_| HAS_LINK) }), processes.space(pid, symbolizer))
            }
            USER_OTHER => {
                self.other_code += 1;
                (Some(Registers { ip: 0, sp: 0, bp: 0, lr: None }), None)
            }
            _ => (None, None),
        };
        let followed = symbolizer.follow(&Sample { task, space, registers, stack, kernel, weight });
        // It may have mapped more code since; but no process is read again and again.
        if !followed.is_complete && usize::from(sample.user) == USER_BITS64 {
            let round = self.round;
            let last = self.read_again.entry(pid).or_insert(0);
            if round >= *last + 10 {
                *last = round;
                processes.forget_code(pid);
            }
        }
        followed
    }

    fn task(&mut self, key: TaskKey) -> TaskId {
        if let Some(known) = self.tasks.get(&key) {
            return *known;
        }
        let role = key.2.and_then(|role| self.roles.get(role as usize)).map(String::as_str);
        let task = self.programs.symbolizer.separate_task(&key.1, role);
        self.tasks.insert(key, task);
        task
    }

    /// Gives names to what was seen; the window is over, and the next one begins.
    fn report(&mut self, window: &WindowCounts) -> Collected {
        let mut collected = Collected { collector: META.id.to_owned(), ..Collected::default() };
        self.add_items(window, &mut collected);
        self.add_wait_events(window, &mut collected);
        self.root_stacks(window);
        let samples = self.by_role.iter().map(|followed| followed.samples).sum::<u64>() + self.wakers.samples;
        let mut coverage = kernel::coverage(window, samples);
        let mut cost = kernel::cost(window, &mut coverage);
        coverage.notes.append(&mut self.notes());
        let Programs { processes, symbolizer, kernel, notes, .. } = &mut self.programs;
        processes.add_debug_files(symbolizer);
        coverage.notes.append(notes);
        let (lost, lost_ns) = (window.counts.stacks_lost, window.counts.stacks_lost_ns);
        let dropped = symbolizer.dropped();
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                coverage.notes.push(format!("{count} {what}"));
            }
        };
        say(lost, &format!("samples, of {:.3} s, found no room in the ring", lost_ns as f64 / 1e9));
        say(dropped, "ns were left out because there were too many different stacks");
        say(self.other_code, "samples of code of 32 bits, which is not unwound");
        say(self.broken, "records of an unknown form were left out");
        coverage.notes.extend(processes.notes());
        coverage.lost += lost + self.broken;
        let of = |profile: usize| {
            let of_profile = self.tasks.iter().filter(move |((p, ..), _)| *p == profile);
            let tasks: BTreeSet<TaskId> = of_profile.map(|(_, task)| *task).collect();
            move |task| tasks.contains(&task)
        };
        for (profile, name) in [(STACK_OFF, "off_cpu"), (STACK_WAKER, "waker")] {
            collected.stacks.push(symbolizer.profile_of(of(profile), kernel, name, "ns", 0));
        }
        cost.cpu_ns += self.cost.cpu_ns;
        cost.wakeups += self.cost.wakeups;
        cost.bytes += self.cost.bytes + processes.bytes;
        cost.memory_bytes += symbolizer.bytes();
        collected.cost = cost;
        collected.coverage = coverage;
        self.clear();
        collected
    }

    /// Forgets the window.
    fn clear(&mut self) {
        let Programs { processes, symbolizer, .. } = &mut self.programs;
        processes.clear(symbolizer);
        processes.bytes = 0;
        if symbolizer.tasks() == 0 {
            self.tasks.clear();
            self.left.clear();
        }
        self.by_role.iter_mut().for_each(|counts| *counts = Counts::default());
        self.wakers = Counts::default();
        self.pairs.clear();
        self.by_wait_event.clear();
        (self.other_code, self.broken, self.cost) = (0, 0, SelfCost::default());
    }

    fn add_items(&self, window: &WindowCounts, collected: &mut Collected) {
        let items = &mut collected.items;
        for (role, by_state) in window.roles.iter().zip(window.counts.off_state_ns) {
            for (state, ns) in OUT_STATE_NAMES.iter().zip(by_state).filter(|(_, ns)| *ns > 0) {
                let label = format!("{role}: {state}");
                items.push(EvidenceItem::labelled("off_cpu_s", label, "s", ns as f64 / 1e9));
            }
        }
        for (role, followed) in self.roles.iter().zip(&self.by_role) {
            items.push(EvidenceItem::labelled("off_cpu_samples", role, "samples", followed.samples as f64));
        }
        let mut pairs: Vec<_> = self.pairs.iter().collect();
        pairs.sort_by_key(|(_, ns)| std::cmp::Reverse(**ns));
        for ((wakee, waker), ns) in pairs.into_iter().take(MOST_PAIRS) {
            let label = format!("{wakee} < {waker}");
            items.push(EvidenceItem::labelled("slept_by_waker_s", label, "s", *ns as f64 / 1e9));
        }
    }

    fn add_wait_events(&mut self, window: &WindowCounts, collected: &mut Collected) {
        if self.how.wait_event_at.iter().all(|at| *at == 0) {
            return;
        }
        let mut by_name: BTreeMap<String, u64> = BTreeMap::new();
        for ((role, event), ns) in &self.by_wait_event {
            let name = wait_event_name(window, *role, *event);
            *by_name.entry(name).or_default() += ns;
        }
        for (event, ns) in by_name {
            let item = EvidenceItem::labelled("off_cpu_by_wait_event_s", event, "s", ns as f64 / 1e9);
            collected.items.push(item);
        }
        self.programs.notes.push(
            "wait events were read from each backend's memory (my_wait_event_info) at the moment of its sample"
                .to_owned(),
        );
        self.programs.notes.extend(window.versions.notes.iter().cloned());
    }

    /// The stacks of PostgreSQL's processes stand on what they waited for.
    fn root_stacks(&mut self, window: &WindowCounts) {
        for ((_, _, role, event), task) in &self.tasks {
            let (Some(role), Some(event)) = (role, event) else { continue };
            let function = wait_event_name(window, *role, *event);
            let module = Some(WAIT_EVENT.to_owned());
            self.programs.symbolizer.set_root(*task, Frame { function, module, kind: FrameKind::User });
        }
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = Vec::new();
        let whole = self.roles.iter().map(String::as_str).zip(self.by_role.iter());
        let sampled = whole.chain([("wakers", &self.wakers)]).filter(|(_, f)| f.samples > 0);
        notes.extend(sampled.map(|(role, f)| followed_note(role, f.whole, f.truncated)));
        let period_ms = self.how.period_ns as f64 / 1e6;
        notes.push(match self.how.has_sched_exit {
            true => format!("each sample counts for {period_ms} ms off the CPU"),
            false => {
                "this kernel lacks sched_exit_tp (Linux 6.16), which runs when a task is back: stacks were sampled when \
                      tasks left, and single ones may have a large weight"
                    .to_owned()
            }
        });
        notes.push("times off the CPU that did not end in the window are left out".to_owned());
        let prepared_ms = std::mem::take(&mut self.programs.cost).cpu_ns as f64 / 1e6;
        if prepared_ms > 0.0 {
            let what = "of CPU time before the window";
            notes.push(format!("reading the programs under test took {prepared_ms:.0} ms {what}"));
        }
        notes
    }
}

impl Counts {
    fn count(&mut self, is_whole: bool) {
        self.samples += 1;
        let counted = if is_whole { &mut self.whole } else { &mut self.truncated };
        *counted += 1;
    }
}

fn wait_event_name(window: &WindowCounts, role: u32, event: u32) -> String {
    if event == 0 { NOT_WAITING.to_owned() } else { window.versions.wait_event(role, event) }
}

/// What a backend of PostgreSQL waited for.
fn wait_event(sample: &StackSample) -> Option<u32> {
    (sample.has_wait_event != 0).then_some(sample.wait_event)
}

/// The kernel's call chain of a sample.
fn kernel_of(sample: &StackSample) -> &[u64] {
    let count = (sample.kernel_bytes as usize / 8).min(sample.kernel.len());
    &sample.kernel[..count]
}
