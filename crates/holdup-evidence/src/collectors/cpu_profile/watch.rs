//! Reads samples while the window is open, and sums them up.

use super::META;
use crate::processes::{Processes, followed_note, kernel_symbols};
use crate::reading::{Meter, thread_cpu_ns};
use crate::{CollectContext, tasks};
use holdup_host::Host;
use holdup_host::perf_samples::{Record, Sampler, UserSide};
use holdup_model::{Collected, Coverage, EvidenceItem, SelfCost};
use holdup_stacks::{KernelSymbols, Registers, Sample, Symbolizer};
use std::io::{PipeReader, Read as _};
use std::sync::mpsc::Sender;
use std::time::Duration;

/// The mappings of a process are read at its first sample: one that lives shorter than this is only known from what
/// the kernel says of it.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    user: u64,
    kernel: u64,
    unwound: u64,
    truncated: u64,
}

/// The samples so far.
struct Samples {
    processes: Processes,
    symbolizer: Symbolizer,
    by_role: Vec<Counts>,
    outside: u64,
    lost: u64,
    throttled: u64,
    bits32: u64,
}
pub(super) struct Watcher {
    host: Host,
    sampler: Sampler,
    samples: Samples,
    period_ns: u64,
    cost: SelfCost,
    /// This thread's CPU time that earlier windows have, ns.
    charged_ns: u64,
    /// CPU time of reading programs before the first window, ns.
    prepared_ns: Option<u64>,
    broken: u64,
    /// Records that the rings had no room for until the last report.
    lost_before: u64,
    /// The kernel's functions, and why they have no names.
    kernel: Option<(KernelSymbols, Option<String>)>,
}

impl Watcher {
    /// Reads the programs of the subjects, so that this does not fall into the window, and begins to sample.
    pub(super) fn new(context: &CollectContext, sampler: Sampler, frequency_hz: u32) -> Result<Self, String> {
        let host = context.host.clone();
        let mut meter = Meter::default();
        let mut symbolizer = Symbolizer::new();
        let mut processes = meter.spend(&host, |reader| {
            let members = tasks::processes(reader, &context.subjects)?;
            let mut processes = Processes::new(&host, &members, &context.foreign).by_task(context.options.by_task);
            for subject in &context.subjects {
                let _known_from_now_on = processes.space(subject.pid, &mut symbolizer);
            }
            Ok::<_, String>(processes)
        })?;
        sampler.enable().map_err(|e| e.to_string())?;
        // Processes that began since the list was read; later ones are announced by the kernel.
        let members = meter.spend(&host, |reader| tasks::processes(reader, &context.subjects))?;
        processes.add(&members);
        let by_role = vec![Counts::default(); processes.roles().len()];
        let samples = Samples { processes, symbolizer, by_role, outside: 0, lost: 0, throttled: 0, bits32: 0 };
        let period_ns = 1_000_000_000 / u64::from(frequency_hz);
        let prepared_ns = Some(meter.0.cpu_ns);
        let cost = SelfCost { cpu_ns: 0, ..meter.0 };
        Ok(Watcher {
            host,
            sampler,
            samples,
            period_ns,
            cost,
            charged_ns: 0,
            prepared_ns,
            broken: 0,
            lost_before: 0,
            kernel: None,
        })
    }

    /// Reads until the pipe is closed; each byte in it asks for what there is since the last one.
    pub(super) fn run(mut self, asked: &PipeReader, answers: &Sender<Result<Collected, String>>) {
        self.charged_ns = thread_cpu_ns();
        loop {
            let (answer, is_over) = match self.until_asked(asked) {
                Ok(is_over) => (Ok(self.report()), is_over),
                Err(why) => (Err(why), true),
            };
            if answers.send(answer).is_err() || is_over {
                return;
            }
        }
    }

    /// Reads until it is asked; whether that is the end. The last report, which is made while this window lasts, is part of its
    /// cost.
    fn until_asked(&mut self, asked: &PipeReader) -> Result<bool, String> {
        loop {
            self.sampler.wait(LONGEST_WAIT, asked).map_err(|e| e.to_string())?;
            let is_asked = is_ready(asked);
            // Nothing is left to read from a pipe whose other end is closed.
            let is_over = is_asked && { asked }.read(&mut [0]).map_err(|e| e.to_string())? == 0;
            if is_over {
                self.sampler.disable().map_err(|e| e.to_string())?;
            }
            self.cost.wakeups += 1;
            let samples = &mut self.samples;
            let drained = self.sampler.drain(|_, record| samples.take(record));
            self.cost.bytes += drained.bytes;
            self.broken += drained.broken;
            if is_asked {
                let lost = self.sampler.lost().unwrap_or(0);
                let before = std::mem::replace(&mut self.lost_before, lost);
                self.samples.lost = self.samples.lost.max(lost.saturating_sub(before));
                let spent_ns = thread_cpu_ns();
                self.cost.cpu_ns += spent_ns - std::mem::replace(&mut self.charged_ns, spent_ns);
                return Ok(is_over);
            }
        }
    }

    /// Gives names to what was seen since the last report.
    fn report(&mut self) -> Collected {
        let mut cost = std::mem::take(&mut self.cost);
        cost.bytes += std::mem::take(&mut self.samples.processes.bytes);
        cost.memory_bytes = self.sampler.bytes() + self.samples.symbolizer.bytes();
        let broken = std::mem::take(&mut self.broken);
        let (kernel, nameless) = self.kernel.get_or_insert_with(|| kernel_symbols(&self.host));
        let Samples { processes, symbolizer, by_role, outside, lost, throttled, bits32 } = &mut self.samples;
        processes.add_debug_files(symbolizer);
        let mut notes: Vec<String> = nameless.iter().cloned().collect();
        let profile = symbolizer.profile(kernel, "on_cpu", "samples", self.period_ns);
        let mut items = Vec::new();
        for (role, counts) in processes.roles().iter().zip(by_role.iter()) {
            let item = |name: &str, count: u64| EvidenceItem::labelled(name, role, "samples", count as f64);
            items.push(item("samples", counts.user + counts.kernel));
            items.push(item("samples_user", counts.user));
            items.push(item("samples_kernel", counts.kernel));
            notes.push(followed_note(role, counts.unwound, counts.truncated));
        }
        if let Some(prepared_ns) = self.prepared_ns.take() {
            let prepared_ms = prepared_ns as f64 / 1e6;
            notes.push(format!(
                "reading the programs under test took {prepared_ms:.0} ms of CPU time before the window"
            ));
        }
        notes.push(format!("{outside} samples of other tasks were counted only"));
        let dropped = symbolizer.dropped();
        let mut say = |count: u64, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        say(*lost, "records found no room in the rings");
        say(broken, "records of an unknown form were left out");
        say(dropped, "samples were left out because there were too many different stacks");
        say(*throttled, "times the kernel paused a clock because samples took too long");
        say(*bits32, "samples of code of 32 bits, which is not unwound");
        notes.extend(processes.notes());
        let seen = by_role.iter().map(|counts| counts.user + counts.kernel).sum();
        let lost = *lost + broken + dropped;
        processes.clear(symbolizer);
        by_role.iter_mut().for_each(|counts| *counts = Counts::default());
        (*outside, *throttled, *bits32, self.samples.lost) = (0, 0, 0, 0);
        Collected {
            collector: META.id.to_owned(),
            items,
            coverage: Coverage { seen, lost, notes },
            cost,
            stacks: vec![profile],
            ..Collected::default()
        }
    }
}

/// True if there is a byte in the pipe, or it is closed.
fn is_ready(asked: &PipeReader) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(asked, PollFlags::IN)];
    let immediately = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&immediately)).is_ok_and(|ready| ready > 0)
}

impl Samples {
    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample { pid, tid, kernel, user } => self.sample(*pid, *tid, kernel, *user),
            Record::Lost(count) => self.lost += count,
            Record::Throttled => self.throttled += 1,
            other => self.processes.note(other),
        }
    }

    fn sample(&mut self, pid: u32, tid: u32, kernel: &[u64], user: UserSide<'_>) {
        let Some(role) = self.processes.role(pid) else {
            self.outside += 1;
            return;
        };
        let task = self.processes.task(pid, tid, &mut self.symbolizer);
        let none = (None, None, &[][..]);
        let (registers, space, stack) = match user {
            UserSide::None => none,
            UserSide::Bits32 => {
                self.bits32 += 1;
                (Some(Registers { ip: 0, sp: 0, bp: 0, lr: None }), None, &[][..])
            }
            UserSide::Bits64(at, stack) => {
                let space = self.processes.space(pid, &mut self.symbolizer);
                (Some(Registers { ip: at.ip, sp: at.sp, bp: at.bp, lr: at.lr }), space, stack)
            }
        };
        let is_complete = self.symbolizer.add_sample(&Sample { task, space, registers, stack, kernel, weight: 1 });
        let Some(counts) = self.by_role.get_mut(role) else { return };
        let side = if kernel.is_empty() { &mut counts.user } else { &mut counts.kernel };
        *side += 1;
        let followed = if is_complete { &mut counts.unwound } else { &mut counts.truncated };
        *followed += 1;
    }
}
