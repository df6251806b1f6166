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

/// Something that a task does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Computes in user mode.
    Compute(Span),
    /// A system call that takes so long in the kernel, beside what entering it takes.
    System {
        /// Time in the kernel.
        work: Span,
        /// How it can be left there.
        inside: Inside,
    },
    /// Takes a lock.
    Lock(LockId),
    /// Takes a lock shared, where its algorithm knows that; any other takes it exclusively.
    LockShared(LockId),
    /// Reads and writes cache lines that a lock protects.
    Data {
        /// The lock.
        lock: LockId,
        /// How many lines.
        lines: u32,
    },
    /// Gives a lock back.
    Unlock(LockId),
    /// Writes to so many pages of a region, one after the other; each that the page tables do not hold faults.
    Touch {
        /// The region.
        region: RegionId,
        /// How many pages.
        pages: u32,
    },
    /// Drops the page table entries of a region (MADV_DONTNEED).
    Forget(RegionId),
    /// Sleeps.
    Sleep(Span),
    /// Sleeps until the next moment of a timer with an interval (clock_nanosleep() with TIMER_ABSTIME). How late the task
    /// came for the moment before is the length of a mark; moments that were over by then are left out and counted.
    NextMoment {
        /// From one moment to the next, ns.
        interval_ns: u64,
        /// The mark whose lengths are how late it came.
        late: MarkId,
        /// The mark that counts the moments that were left out.
        missed: MarkId,
    },
    /// Gives way: sched_yield().
    Yield,
    /// Asks a device and waits for it.
    Io {
        /// The device.
        device: DeviceId,
        /// How long the device works on it, without waiting for its turn.
        work: Span,
    },
    /// Puts a message into a channel; waits where it is full.
    Send {
        /// The channel.
        to: Channel,
        /// What the receiver can tell messages apart by.
        tag: u8,
    },
    /// Takes a message out of a channel; waits where it is empty.
    Receive(Channel),
    /// A call that sends through a network: it works in the kernel, then the softirq that delivers runs in its name with
    /// preemption off, and the message is in the channel. Where that is full, the call waits, or the message is lost.
    Transmit {
        /// The channel.
        to: Channel,
        /// What the receiver can tell messages apart by.
        tag: u8,
        /// Time in the kernel before the softirq, beside what entering it takes, ns.
        work_ns: u32,
        /// What the softirq takes, ns.
        softirq_ns: u32,
        /// Whether it waits for room.
        waits: bool,
        /// Whether it hands on the message that the task received last: who sent that and its tag stay what they are.
        onward: bool,
    },
    /// Goes on at an operation when the last message that the task transmitted was lost, else with the next one.
    IfLost(u32),
    /// Takes a message out of a channel, and works so long in the kernel with what it got; waits where it is empty.
    Take {
        /// The channel.
        from: Channel,
        /// Time in the kernel with the message, ns.
        work_ns: u32,
    },
    /// Goes on at an operation when the last message that the task received has this tag, else with the next one.
    IfTag {
        /// The tag.
        tag: u8,
        /// Where to.
        to: u32,
    },
    /// Writes a record to a log in memory: what the task waits for at its next [`Op::Flush`].
    Append(LogId),
    /// Waits until the task's last record is on the log's device. One task at a time writes, for all whose records are
    /// there by then (group commit).
    Flush(LogId),
    /// Goes on at an operation.
    Jump(u32),
    /// Goes on at an operation so many times, then with the next one.
    Repeat {
        /// Where the loop begins.
        to: u32,
        /// Which of the task's loop counters counts.
        counter: u8,
        /// How often the loop's body runs.
        times: u32,
    },
    /// Goes on at an operation with this chance in 2^32, else with the next one.
    Chance {
        /// The chance.
        of: u32,
        /// Where to.
        to: u32,
    },
    /// Goes on at an operation when a region that all walk through together is used up, else with the next one.
    UsedUp {
        /// The region.
        region: RegionId,
        /// Where to.
        to: u32,
    },
    /// Goes on at an operation when one of `of` things, each as likely, is among those that were taken from a region that
    /// all walk through together; else with the next one.
    Found {
        /// The region.
        region: RegionId,
        /// How many things there are.
        of: u32,
        /// Where to.
        to: u32,
    },
    /// Asks for a slice extension from now on (rseq); nothing where the kernel has none.
    ExtendBegin,
    /// Asks for it no longer; a task that has one gives it back with rseq_slice_yield().
    ExtendEnd,
    /// Something that is timed begins.
    Begin(MarkId),
    /// Something that is counted is done; when it was begun, its time is kept.
    Done(MarkId),
    /// Something that is timed begins for who sent the last message.
    BeginFor(MarkId),
    /// Something that is counted is done for who sent the last message; when it was begun, its time is kept.
    DoneFor(MarkId),
    /// Makes a task that runs a program, in a process of its own, where fewer than the machine's most tasks are alive.
    Fork(u32),
    /// Waits until every task that this one made has ended.
    Join,
    /// Ends.
    Exit,
}

/// A channel as an operation names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// This one.
    Of(ChannelId),
    /// The task's own.
    Mine,
    /// That of the CPU that the task is on: the first one has this number, those of the others follow.
    OfCpu(ChannelId),
    /// That of the task's peer.
    Peer,
    /// That of who sent the last message.
    Sender,
    /// That of the peer of who sent the last message: where a switch hands it on to.
    SenderPeer,
}

/// How a stretch of kernel code can be left by a task that should make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Inside {
    /// Preemption is off throughout: under a spin lock of the kernel.
    Off,
    /// Wherever the model allows it; there is no `cond_resched()` on the way.
    #[default]
    On,
    /// The same, and `cond_resched()` is called every so many ns.
    Points(u32),
    /// As [`Inside::On`], and `might_sleep()` is called half-way.
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
