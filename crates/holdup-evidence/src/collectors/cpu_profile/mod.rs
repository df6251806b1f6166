//! Which functions the CPU time of the processes under test goes to.

mod watch;

use crate::arch;
use crate::reading::{Produces, all_absent};
use crate::{About, CollectContext, Collecting, Collector, Continuous};
use holdup_host::online_cpus;
use holdup_host::perf_samples::{Sampler, Sampling};
use holdup_model::{Availability, Collected, Meta, Problem, SelfCost};
use std::io::{PipeWriter, Write as _};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

pub(crate) struct CpuProfile;

static META: Meta = Meta {
    id: "cpu-profile",
    summary: "call stacks on CPU, sampled by a clock, kernel included",
    docs: "Which functions CPU time goes to, with the way that leads there: 99 times a second a clock of perf on each CPU \
           (cpu-clock, no counter of hardware) notes which task runs, its call chain in the kernel, its registers and \
           the top 16 KB of its stack. Stacks are followed by the unwind information of programs and libraries \
           (`.eh_frame`), so that neither frame pointers nor debug information are needed. Functions are named by \
           `.symtab`, else `.dynsym`; one without a symbol is named by its file and the address of its begin \
           (`[postgres+0x1234]`). Where debug information is there, in the file or below /usr/lib/debug/.build-id, \
           functions that were put inline are shown too.\n\n\
           Tasks outside of the processes under test are counted, nothing else. A stack ends in `[unknown]` and counts as \
           truncated where it is deeper than the copy, or goes through code that is in no file because it was \
           made at run time, or through a file that cannot be read. Code that runs with interrupts off is seen where \
           it switches them on again. Only code of 64 bits is followed, for x86-64 and arm64; there a \
           stack ends at a signal handler.\n\n\
           Needs root, or CAP_PERFMON with access to /proc of the processes under test.",
    references: &[
        "kernel/events/core.c:perf_swevent_hrtimer, perf_output_sample_ustack (v6.18)",
        "System V psABI AMD64, 4.2.4 and DWARF 5, 6.4: call frame information; DWARF for the Arm 64-bit Architecture, 4.1",
    ],
};

const PRODUCES: Produces = &[
    ("samples", "samples", "samples of running tasks, by role"),
    ("samples_user", "samples", "those of them in user mode, by role"),
    ("samples_kernel", "samples", "those of them in the kernel, by role"),
];

/// Enough for nearly all stacks of PostgreSQL.
const STACK_BYTES: u32 = 16 << 10;
/// The rings of all CPUs together, bytes.
const ALL_RINGS_BYTES: usize = 32 << 20;
/// One CPU's ring, bytes: two seconds of samples at 99 Hz, and at least a few.
const RING_BYTES: std::ops::RangeInclusive<usize> = (256 << 10)..=(16 << 20);

/// The sampler of this host, switched off.
fn sampler(context: &CollectContext, frequency_hz: u32) -> Result<Sampler, (String, Option<&'static str>)> {
    let cpus = online_cpus(&context.host).filter(|cpus| !cpus.is_empty());
    let cpus = cpus.ok_or_else(|| ("the CPUs that are online cannot be read".to_owned(), None))?;
    let wanted = (frequency_hz as usize).saturating_mul(2 * STACK_BYTES as usize).next_power_of_two();
    // The greatest power of two that is not above each CPU's share.
    let share = 1 << (ALL_RINGS_BYTES / cpus.len()).max(1).ilog2();
    let ring_bytes = wanted.min(share).clamp(*RING_BYTES.start(), *RING_BYTES.end());
    let sampling = Sampling { frequency_hz, stack_bytes: STACK_BYTES, ring_bytes };
    let made = context.host.sampler(&cpus, sampling);
    made.map_err(|e| (e.to_string(), Some("run holdup as root, or with CAP_PERFMON")))
}

struct Running {
    /// A byte asks for what there is since the last one, the end of the pipe for the rest.
    ask: PipeWriter,
    answers: Receiver<Result<Collected, String>>,
    thread: JoinHandle<()>,
}

impl Continuous for Running {
    fn cut(&mut self) -> Collected {
        // A thread that has ended does not answer, which says why.
        let _ended = self.ask.write_all(&[1]);
        answer(&self.answers)
    }
}

impl Collecting for Running {
    fn continuous(&mut self) -> Option<&mut dyn Continuous> {
        Some(self)
    }

    fn stop(self: Box<Self>) -> Collected {
        let Running { ask, answers, thread } = *self;
        drop(ask);
        let collected = answer(&answers);
        // One that broke down has not answered.
        let _broken = thread.join();
        collected
    }
}

fn answer(answers: &Receiver<Result<Collected, String>>) -> Collected {
    let answer = answers.recv().unwrap_or_else(|_| Err("the thread that reads the samples broke down".to_owned()));
    answer.unwrap_or_else(|why| all_absent(META.id, PRODUCES, &why, SelfCost::default()))
}

/// Low enough not to be felt, and no multiple of what timers commonly run at.
const FREQUENCY_HZ: u32 = 99;

fn frequency_hz(context: &CollectContext) -> u32 {
    context.options.frequency_hz.unwrap_or(FREQUENCY_HZ).max(1)
}

impl Collector for CpuProfile {
    fn about(&self) -> About {
        About::of(&META, PRODUCES)
    }

    fn probe(&self, context: &CollectContext) -> Availability {
        if arch::PROGRAMS.is_none() {
            return Availability::unavailable("stacks are followed on x86-64 and arm64 only");
        }
        // Removed again immediately; it was never switched on.
        match sampler(context, frequency_hz(context)) {
            Ok(_) => Availability::Ready,
            Err((why, None)) => Availability::unavailable(why),
            Err((why, Some(remedy))) => Availability::unavailable_but(why, remedy),
        }
    }

    fn start(&self, context: &CollectContext) -> Result<Box<dyn Collecting>, Problem> {
        let failed = |why: String| Problem::host("collector cpu-profile", why);
        let frequency_hz = frequency_hz(context);
        let sampler = sampler(context, frequency_hz).map_err(|(why, remedy)| match remedy {
            Some(remedy) => failed(why).hint(remedy),
            None => failed(why),
        })?;
        let (asked, ask) = std::io::pipe().map_err(|e| failed(e.to_string()))?;
        let watcher = watch::Watcher::new(context, sampler, frequency_hz).map_err(failed)?;
        let (send, answers) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("holdup-{}", META.id))
            .spawn(move || watcher.run(&asked, &send))
            .map_err(|e| failed(e.to_string()))?;
        Ok(Box::new(Running { ask, answers, thread }))
    }
}
