//! What a task does, as a small program.

use crate::random::Span;

/// One of the machine's locks.
pub type LockId = u32;
/// One of the machine's regions of memory.
pub type RegionId = u32;
/// One of the machine's channels.
pub type ChannelId = u32;
/// One of the machine's devices.
pub type DeviceId = u32;
/// One of the machine's logs.
pub type LogId = u32;
/// One of the counters and histograms that tasks write to.
pub type MarkId = u8;

/// Something that a task does. A field `to` that is a number is the operation with which the program continues when the
/// condition holds; otherwise it continues with the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Computes in user mode.
    Compute(Span),
    /// A system call that works this long in the kernel, beside the cost of entering it.
    System { work: Span, preemption: Preemption },
    /// Takes a lock.
    Lock(LockId),
    /// Takes a lock shared, where its algorithm has that mode; any other is taken exclusively.
    LockShared(LockId),
    /// Reads and writes this number of cache lines that a lock protects.
    Data { lock: LockId, lines: u32 },
    /// Releases a lock.
    Unlock(LockId),
    /// Writes to pages of a region one after the other; each that is not in the page tables faults.
    Touch { region: RegionId, pages: u32 },
    /// Drops the page table entries of a region (MADV_DONTNEED).
    Forget(RegionId),
    /// Sleeps.
    Sleep(Span),
    /// Sleeps until the next expiry of a periodic timer (clock_nanosleep() with TIMER_ABSTIME). How late the task was for
    /// the expiry before is the length of the mark `late`; expiries that had passed by then are skipped and counted by
    /// `missed`.
    NextMoment { interval_ns: u64, late: MarkId, missed: MarkId },
    /// sched_yield().
    Yield,
    /// Sends a request to a device and waits for it; `work` is the service time without the queue.
    Io { device: DeviceId, work: Span },
    /// Puts a message into a channel; waits while it is full. Receivers distinguish messages by their tags.
    Send { to: Channel, tag: u8 },
    /// Takes a message out of a channel; waits while it is empty.
    Receive(Channel),
    /// A call that sends through a network: `work_ns` in the kernel, then the softirq that delivers runs in its context with
    /// preemption off for `softirq_ns`, and the message is in the channel. Where that is full, the call waits, or the
    /// message is lost. `onward` forwards the message that the task received last, with its sender and tag.
    Transmit { to: Channel, tag: u8, work_ns: u32, softirq_ns: u32, waits: bool, onward: bool },
    /// When the last message that the task transmitted was lost.
    IfLost(u32),
    /// Takes a message out of a channel, and works this long in the kernel with it; waits while it is empty.
    Take { from: Channel, work_ns: u32 },
    /// When the last message that the task received has this tag.
    IfTag { tag: u8, to: u32 },
    /// Writes a record to a log in memory: what the task waits for at its next [`Op::Flush`].
    Append(LogId),
    /// Waits until the task's last record is on the log's device. One task at a time writes, for all whose records are
    /// there by then (group commit).
    Flush(LogId),
    /// Always.
    Jump(u32),
    /// The body of a loop runs `times`; the task's loop counter `counter` counts.
    Repeat { to: u32, counter: u8, times: u32 },
    /// With this chance in 2^32.
    Chance { of: u32, to: u32 },
    /// When a region that all tasks walk through together is used up.
    UsedUp { region: RegionId, to: u32 },
    /// When one of `of` equally likely things is among those already taken from a region that all walk through together.
    Found { region: RegionId, of: u32, to: u32 },
    /// Asks for a slice extension from now on (rseq); nothing where the kernel has none.
    ExtendBegin,
    /// Withdraws the request; a task that has an extension returns it with rseq_slice_yield().
    ExtendEnd,
    /// Begins a mark.
    Begin(MarkId),
    /// Counts a mark; when it was begun, its length is recorded.
    Done(MarkId),
    /// Begins a mark of the task that sent the last message.
    BeginFor(MarkId),
    /// [`Op::Done`] of the task that sent the last message.
    DoneFor(MarkId),
    /// Creates a task that runs a program, in its own process, while fewer than the machine's most tasks are alive.
    Fork(u32),
    /// Waits until every child has ended.
    Join,
    /// Follows the steps of the task in the load's trace, and ends.
    Follow,
    /// Ends.
    Exit,
}

/// An operand of an operation that names something of the load.
pub(crate) enum Operand<'a> {
    Lock(&'a mut LockId),
    Region(&'a mut RegionId),
    Device(&'a mut DeviceId),
    Log(&'a mut LogId),
    Mark(&'a mut MarkId),
    Program(&'a mut u32),
    Channel(&'a mut Channel),
    /// An operation of the same program.
    Target(&'a mut u32),
}

impl Op {
    /// Visits every operand that is a number of something.
    pub(crate) fn operands(&mut self, visit: &mut dyn FnMut(Operand<'_>)) {
        match self {
            Op::Lock(lock) | Op::LockShared(lock) | Op::Unlock(lock) | Op::Data { lock, .. } => {
                visit(Operand::Lock(lock));
            }
            Op::Touch { region, .. } | Op::Forget(region) => visit(Operand::Region(region)),
            Op::Io { device, .. } => visit(Operand::Device(device)),
            Op::Send { to, .. } | Op::Transmit { to, .. } | Op::Receive(to) | Op::Take { from: to, .. } => {
                visit(Operand::Channel(to));
            }
            Op::Append(log) | Op::Flush(log) => visit(Operand::Log(log)),
            Op::Begin(mark) | Op::Done(mark) | Op::BeginFor(mark) | Op::DoneFor(mark) => visit(Operand::Mark(mark)),
            Op::NextMoment { late, missed, .. } => {
                [late, missed].into_iter().for_each(|mark| visit(Operand::Mark(mark)));
            }
            Op::Fork(program) => visit(Operand::Program(program)),
            Op::Jump(to) | Op::IfLost(to) => visit(Operand::Target(to)),
            Op::Repeat { to, .. } | Op::Chance { to, .. } | Op::IfTag { to, .. } => visit(Operand::Target(to)),
            Op::UsedUp { region, to } | Op::Found { region, to, .. } => {
                visit(Operand::Region(region));
                visit(Operand::Target(to));
            }
            Op::Compute(_) | Op::System { .. } | Op::Sleep(_) | Op::Yield => {}
            Op::ExtendBegin | Op::ExtendEnd | Op::Join | Op::Follow | Op::Exit => {}
        }
    }

    /// The operation to which it may jump.
    pub fn target(mut self) -> Option<u32> {
        let mut target = None;
        self.operands(&mut |operand| {
            if let Operand::Target(to) = operand {
                target = Some(*to);
            }
        });
        target
    }

    /// The same with another operation to jump to.
    #[must_use]
    pub fn with_target(mut self, target: u32) -> Op {
        self.operands(&mut |operand| {
            if let Operand::Target(to) = operand {
                *to = target;
            }
        });
        self
    }
}

/// A channel as an operation names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// The one with this number.
    Of(ChannelId),
    /// The task's own.
    Mine,
    /// That of the CPU that the task runs on: CPU 0 has this number, the others follow.
    OfCpu(ChannelId),
    /// That of the task's peer.
    Peer,
    /// That of the task that sent the last message.
    Sender,
    /// That of the peer of the task that sent the last message: where a switch forwards to.
    SenderPeer,
}

/// Where a stretch of kernel code can be preempted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Preemption {
    /// Nowhere: under a spin lock of the kernel.
    Off,
    /// Wherever the model allows it; there is no `cond_resched()` on the way.
    #[default]
    On,
    /// As [`Preemption::On`], and `cond_resched()` is called at this interval, ns.
    CondResched(u32),
    /// As [`Preemption::On`], and `might_sleep()` is called half-way.
    MightSleep,
}

/// The most loop counters of a task.
pub const COUNTERS: usize = 4;

/// A program with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// What its tasks are called: `worker`, `backend`.
    pub name: String,
    /// What they are in the run: `load`, `server`.
    pub role: String,
    /// What they do. The end of the list is [`Op::Exit`].
    pub ops: Vec<Op>,
}

impl Program {
    /// A program of the load.
    pub fn new(name: &str, ops: Vec<Op>) -> Self {
        Program { name: name.to_owned(), role: "load".to_owned(), ops }
    }
}
