//! What a trace says, whichever tool wrote it.

/// The name of a task, as the kernel keeps it: at most 15 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Name([u8; 16]);

impl Name {
    /// From bytes up to a zero.
    pub fn of(bytes: &[u8]) -> Self {
        let mut name = [0; 16];
        let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()).min(15);
        name[..length].copy_from_slice(&bytes[..length]);
        Name(name)
    }

    pub fn bytes(&self) -> &[u8] {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        &self.0[..length]
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// The CPU that a thread of the kernel is bound to, by its name: `kworker/3:1`, `ksoftirqd/0`; `kworker/u8:2` is not.
    pub(crate) fn bound_cpu(&self) -> Option<u32> {
        let of = ["kworker/", "ksoftirqd/", "migration/", "cpuhp/", "rcuc/", "idle_inject/", "irq_work/"];
        let name = std::str::from_utf8(self.bytes()).ok()?;
        let rest = of.iter().find_map(|of| name.strip_prefix(of))?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }

    /// True if it is that of a thread of the kernel.
    pub(crate) fn is_of_kernel(&self) -> bool {
        let of = [&b"kworker/"[..], b"kswapd", b"rcu_", b"kcompactd", b"jbd2/", b"irq/", b"khugepaged", b"ktimers/"];
        self.bound_cpu().is_some() || of.iter().any(|of| self.bytes().starts_with(of))
    }
}

/// A task in an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskId {
    /// Its thread id; 0 is the idle task.
    pub tid: u32,
    /// Its priority in the kernel: below 100 is a real-time, deadline or stop task; 120 is the middle of others.
    pub priority: i32,
    pub name: Name,
}

/// Flags of an event in an interrupt (TRACE_FLAG_HARDIRQ, TRACE_FLAG_SOFTIRQ of include/linux/trace_events.h).
pub(crate) const IN_INTERRUPT: u64 = 0x08 | 0x10;

/// Who wakes: the task that the event came in, but for the idle one and in an interrupt.
pub(crate) fn waker(tid: u32, is_interrupt: bool) -> Option<u32> {
    (tid != 0 && !is_interrupt).then_some(tid)
}

/// Where a task was that left a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// It sleeps, and a signal can end that.
    Sleeping,
    /// It sleeps, and no signal can end that.
    Blocked,
    /// It could go on, and was in user mode or on the way to it.
    UserBoundary,
    /// It could go on, and was inside the kernel.
    InKernel,
    /// It ended.
    Exited,
}

impl Left {
    /// By the letters of `sched_switch`: `S`, `R+`, `D|W`.
    pub(crate) fn of_letters(letters: &str) -> Option<Left> {
        Some(match letters.trim_end_matches('+').chars().next()? {
            'R' if letters.ends_with('+') => Left::InKernel,
            'R' => Left::UserBoundary,
            'D' => Left::Blocked,
            'X' | 'Z' | 'x' => Left::Exited,
            // Stopped, traced, parked, idle: it waits for others to let it go on.
            'S' | 'T' | 't' | 'P' | 'I' | 'K' | 'W' | 'N' => Left::Sleeping,
            _ => return None,
        })
    }

    /// True if the task could go on.
    pub(crate) fn is_runnable(self) -> bool {
        matches!(self, Left::UserBoundary | Left::InKernel)
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A CPU went from one task to another.
    Switch {
        /// Who left.
        from: TaskId,
        left: Left,
        /// Who came.
        to: TaskId,
    },
    /// A wake-up begins (`sched_waking`).
    Waking {
        /// Who is woken.
        task: TaskId,
        /// The CPU that it is to run on.
        cpu: u32,
        /// Who wakes it; `None` for an interrupt.
        by: Option<u32>,
    },
    /// A task is runnable again, or for the first time (`sched_wakeup`, `sched_wakeup_new`).
    Wakeup {
        task: TaskId,
        /// The CPU that it is to run on.
        cpu: u32,
        /// Who woke it; `None` for an interrupt.
        by: Option<u32>,
        /// True if it just began.
        is_new: bool,
    },
    /// A task moves to the queue of another CPU.
    Migrate { tid: u32, to_cpu: u32 },
    /// A task entered a system call (`raw_syscalls:sys_enter`).
    SystemCall { tid: u32, number: u32 },
    /// A task left its system call.
    SystemCallEnd { tid: u32 },
    /// A sample of a task on a CPU, with its stack where the file has one.
    Sample {
        tid: u32,
        /// Its name, where the file says it beside the sample.
        name: Option<Name>,
        /// Numbers of frames ([`crate::Frames`]), outermost first.
        stack: Vec<u32>,
    },
    /// A thread belongs to a process. Its time has no meaning.
    Process {
        /// The thread.
        tid: u32,
        /// The process.
        pid: u32,
    },
    /// Events of this CPU were lost before this moment; 0 where it is not known how many.
    Lost {
        /// How many.
        count: u64,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// When, ns, by the clock of the trace.
    pub at_ns: u64,
    pub cpu: u32,
    pub what: What,
}
