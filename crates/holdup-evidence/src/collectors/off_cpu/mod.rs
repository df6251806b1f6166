//! Where tasks were while they were off the CPU, and which tasks woke them.

mod kernel_side;
mod watch;

use crate::background::Background;
use crate::kernel::{At, HAS_SCHED_EXIT, Part, Program, Windows, probe};
use crate::reading::{Produces, all_absent};
use crate::{About, CollectContext, Collecting, Collector, Continuous};
use holdup_model::{Availability, Collected, Meta, Problem, SelfCost};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) struct OffCpu;

static META: Meta = Meta {
    id: "off-cpu",
    summary: "where tasks were while off the CPU, with call stacks and wakers",
    docs: "When a task under test comes back to a CPU, its time off the CPU is known. Each 10 ms of such time give one \
           sample: a time of 25 ms gives two or three, one of 0.1 ms gives one in one of a hundred cases, so the \
           samples of all times, long or short, are in proportion to their sum. A \
           sample has the kernel's call chain, the registers and the top 16 KB of the stack; it is followed by the \
           unwind information of programs and libraries, as that of cpu-profile is. A task that wakes a sleeping one is \
           sampled in the same way, by the time that it slept: with its own stack when it is under test, else with its \
           name and the kernel's call chain. Wake-ups by interrupts count for `[interrupt]`, and the task that was \
           interrupted is left out.\n\n\
           The sums by role and place are exact. With PostgreSQL (14 and later) each sample says what its backend \
           waited for: the wait event is read from the backend's memory at the same moment. It has its name where the \
           server's version is known (15 to 19), else its number, as those of extensions have. Their stacks begin with it, as a frame of \
           the module [wait event].\n\n\
           Linux before 6.16 lacks sched_exit_tp, which runs when a task is back. There a switch-out is sampled, the more \
           likely the longer the task's last one is ago, and its time counts by that probability: right on average, but \
           single samples may have a large weight.\n\n\
           Times that began before watching, or have not ended with the window, are left out; in a watch of many windows a time counts in \
           the one that it ends in. Needs root (or CAP_BPF and \
           CAP_PERFMON) and a kernel with BTF, 5.15 or later.",
    references: &[
        "kernel/sched/core.c:__schedule, trace_sched_exit_tp; try_to_wake_up, trace_sched_waking (v6.18)",
        "src/backend/utils/activity/wait_event.c:my_wait_event_info (15.18)",
    ],
};

const PRODUCES: Produces = &[
    ("off_cpu_s", "s", "time off the CPU, by role and place"),
    ("off_cpu_samples", "samples", "samples of that time, by role"),
    ("slept_by_waker_s", "s", "time asleep by waker, as WAKEE < WAKER (task names), sampled"),
    ("off_cpu_by_wait_event_s", "s", "time off the CPU of PostgreSQL's processes by wait event, sampled"),
];

/// The ring holds some 480 samples, which is more than come between two readings of it.
static PART: Part = Part {
    switches: &["want_stacks"],
    programs: &[
        Program { name: "is_waking", at: At::Tracepoint("sched_waking") },
        Program { name: "task_is_back", at: At::TracepointIfAny("sched_exit_tp", HAS_SCHED_EXIT) },
    ],
    rings: &[("stack_samples", 8 << 20)],
};

struct Running {
    watcher: Arc<Mutex<watch::Watcher>>,
    thread: Background<()>,
    windows: Windows,
}

impl Continuous for Running {
    fn edge(&mut self) {
        self.windows.edge();
    }

    fn cut(&mut self) -> Collected {
        match self.windows.next() {
            Ok(counts) => self.watcher.lock().unwrap_or_else(PoisonError::into_inner).report(&counts),
            Err(why) => all_absent(META.id, PRODUCES, &why, SelfCost::default()),
        }
    }
}

impl Collecting for Running {
    fn continuous(&mut self) -> Option<&mut dyn Continuous> {
        Some(self)
    }

    fn stop(mut self: Box<Self>) -> Collected {
        let collected = self.cut();
        match self.thread.end() {
            Ok(()) => collected,
            Err(why) => all_absent(META.id, PRODUCES, &why, SelfCost::default()),
        }
    }
}

impl Collector for OffCpu {
    fn about(&self) -> About {
        About { part: Some(&PART), ..About::of(&META, PRODUCES) }
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        probe(&context.host)
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        let failed = |why: String| Problem::host("collector off-cpu", why);
        let programs = watch::Programs::read(context).map_err(failed)?;
        let watch = context.watch(self)?;
        let (how, ring) = watch.stacks().map_err(failed)?;
        let watcher = Arc::new(Mutex::new(watch::Watcher::new(context, programs, how, ring)));
        let of_thread = watcher.clone();
        let thread = Background::begin("off-cpu", move |end| watch::Watcher::run(&of_thread, end)).map_err(failed)?;
        Ok(Box::new(Running { watcher, thread, windows: Windows::of(watch) }))
    }
}
