//! The two measured loops: one system call for each message on each side, as hackbench has it.

use crate::messenger::message::{Message, Stamp};
use holdup_load::account::Marks;
use holdup_load::board::{Board, CachePadded, Shareable, Stage, phase};
use holdup_load::clock::now_ns;
use holdup_load::placement;
use holdup_load::record::Record;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// What all tasks share.
#[repr(C)]
pub(crate) struct Head {
    /// Receivers that have not yet got all that they are to get; the one that takes it to 0 wakes the coordinator. Where
    /// the receivers are on another host, senders that have not ended.
    left: CachePadded<AtomicU32>,
    /// Set once a task has given up, so that the coordinator need not look at each.
    troubled: CachePadded<AtomicU32>,
}

/// A task's part of the board.
#[repr(C, align(128))]
pub(crate) struct Slot {
    /// Messages sent or received, written after each.
    pub(crate) messages: CachePadded<AtomicU64>,
    /// When the last message was received that was to be, CLOCK_MONOTONIC; 0 before.
    pub(crate) all_received_ns: AtomicU64,
    /// Timed messages whose time could not be read.
    pub(crate) torn: AtomicU64,
    /// Why a system call failed; 0 when none did.
    pub(crate) errno: AtomicU32,
    /// The kernel's account of the task.
    pub(crate) marks: Marks,
    /// From before the write to after the read, ns.
    pub(crate) latencies: Record,
}

// SAFETY: atomics only.
unsafe impl Shareable for Head {}
// SAFETY: atomics only.
unsafe impl Shareable for Slot {}

/// The memory of one trial.
pub(crate) type Region = Board<Head, Slot>;

impl Head {
    /// Says how many there are; before they start.
    pub(crate) fn expect(&self, tasks: u32) {
        self.left.0.store(tasks, Ordering::SeqCst);
    }

    /// True if a task has given up.
    pub(crate) fn is_troubled(&self) -> bool {
        self.troubled.0.load(Ordering::Acquire) != 0
    }

    fn one_has_all(&self) {
        if self.left.0.fetch_sub(1, Ordering::SeqCst) == 1 {
            let _woken = rustix::thread::futex::wake(&self.left.0, rustix::thread::futex::Flags::empty(), 1);
        }
    }

    /// Sleeps until none is left, at most for so long; returns whether none is.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        let most =
            rustix::thread::futex::Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        let left = self.left.0.load(Ordering::SeqCst);
        if left > 0 {
            let flags = rustix::thread::futex::Flags::empty();
            // Whether it was woken or not, what counts is the number.
            let _again = rustix::thread::futex::wait(&self.left.0, flags, left, Some(&most));
        }
        self.left.0.load(Ordering::SeqCst) == 0
    }
}

/// What a task is made of, made before it starts.
pub(crate) struct Task {
    pub(crate) region: Arc<Region>,
    /// Its place among the slots.
    pub(crate) index: usize,
    pub(crate) message: Message,
    /// Where it runs; `None` for anywhere.
    pub(crate) cpus: Option<Arc<Vec<u32>>>,
    /// One of n messages is timed; `None` for none.
    pub(crate) sample_every: Option<u64>,
    /// The senders' clock less this one's, ns.
    pub(crate) sender_less_own_ns: i64,
    /// True if the other side is on another host.
    pub(crate) is_apart: bool,
}

impl Task {
    fn stage(&self) -> &Stage {
        self.region.stage()
    }

    fn slot(&self) -> &Slot {
        self.region.slot(self.index)
    }

    fn prepare_thread(&mut self) {
        if let Some(cpus) = &self.cpus {
            // The CPUs were allowed a moment ago; where one went offline since, the environment's facts show it.
            let _stays = placement::stay_on(cpus);
        }
        // A process has its pages from its parent and would copy them when it first writes.
        self.message.touch();
    }

    fn failed(&self, errno: Errno) {
        self.slot().errno.store(errno.raw_os_error().unsigned_abs(), Ordering::Release);
        self.region.head().troubled.0.store(1, Ordering::Release);
    }
}

/// A sender's life: `rounds` messages into each wire, one after the other, or until the trial stops.
pub(crate) fn sender(mut task: Task, into: &[OwnedFd], rounds: Option<u64>, seed: u64) {
    task.prepare_thread();
    if task.stage().wait_for_begin() {
        if let Err(errno) = send(&mut task, into, rounds.unwrap_or(u64::MAX), seed) {
            task.failed(errno);
            return;
        }
        task.stage().wait_for_stop();
    }
    // Its connections are needed no more.
    if task.is_apart {
        task.region.head().one_has_all();
    }
}

fn send(task: &mut Task, into: &[OwnedFd], rounds: u64, seed: u64) -> Result<(), Errno> {
    let Task { region, index, message, sample_every, .. } = task;
    let (stage, slot) = (region.stage(), region.slot(*index));
    let mut gaps = Gaps::new(*sample_every, seed);
    let mut until_timed = gaps.next();
    let (mut sent, mut seen) = (0, phase::IDLE);
    'all: for _ in 0..rounds {
        for wire in into {
            let now = stage.phase();
            if now != seen {
                seen = now;
                slot.marks.saw(now, sent);
                if now == phase::STOP {
                    break 'all;
                }
            }
            until_timed -= 1;
            if until_timed == 0 {
                until_timed = gaps.next();
                message.stamp();
                write_whole(wire, message.bytes())?;
                message.clear();
            } else {
                write_whole(wire, message.bytes())?;
            }
            sent += 1;
            slot.messages.0.store(sent, Ordering::Relaxed);
        }
    }
    slot.marks.saw(phase::CLOSED, sent);
    Ok(())
}

/// A receiver's life: `expected` messages, or until all senders have ended.
pub(crate) fn receiver(mut task: Task, out: &OwnedFd, expected: Option<u64>) {
    task.prepare_thread();
    if task.sample_every.is_some() {
        task.slot().latencies.touch();
    }
    // A receiver that is woken after the end of the trial still reads what was sent to it.
    let _begun = task.stage().wait_for_begin();
    match receive(&mut task, out, expected.unwrap_or(u64::MAX)) {
        Err(errno) => task.failed(errno),
        Ok(false) => {}
        Ok(true) => {
            task.slot().all_received_ns.store(now_ns(), Ordering::Release);
            task.region.head().one_has_all();
            task.slot().marks.saw(phase::CLOSED, expected.unwrap_or(0));
            task.stage().wait_for_stop();
        }
    }
}

/// Returns whether all that was expected came.
fn receive(task: &mut Task, out: &OwnedFd, expected: u64) -> Result<bool, Errno> {
    let Task { region, index, message, sample_every, sender_less_own_ns, .. } = task;
    let (stage, slot) = (region.stage(), region.slot(*index));
    let timed = sample_every.is_some();
    let (mut received, mut seen) = (0, phase::IDLE);
    while received < expected {
        if !read_whole(out, message.bytes_mut())? {
            slot.marks.saw(phase::CLOSED, received);
            return Ok(false);
        }
        let now = stage.phase();
        if timed {
            match message.read_stamp() {
                Stamp::None => {}
                Stamp::At(sent_ns) if now == phase::OPEN => {
                    let here_ns = now_ns().wrapping_add_signed(*sender_less_own_ns);
                    slot.latencies.count(here_ns.saturating_sub(sent_ns));
                }
                Stamp::At(_) => {}
                Stamp::Torn => drop(slot.torn.fetch_add(1, Ordering::Relaxed)),
            }
        }
        if now != seen {
            seen = now;
            slot.marks.saw(now, received);
        }
        received += 1;
        slot.messages.0.store(received, Ordering::Relaxed);
    }
    Ok(true)
}

#[inline(always)]
fn write_whole(wire: &OwnedFd, message: &[u8]) -> Result<(), Errno> {
    match rustix::io::write(wire, message) {
        Ok(n) if n == message.len() => Ok(()),
        begun => write_rest(wire, message, begun),
    }
}

#[cold]
fn write_rest(wire: &OwnedFd, message: &[u8], begun: Result<usize, Errno>) -> Result<(), Errno> {
    let mut done = 0;
    let mut step = begun;
    loop {
        match step {
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if done >= message.len() {
            return Ok(());
        }
        step = rustix::io::write(wire, &message[done..]);
    }
}

/// Fills the message; returns `false` when all senders have ended.
#[inline(always)]
fn read_whole(out: &OwnedFd, message: &mut [u8]) -> Result<bool, Errno> {
    match rustix::io::read(out, &mut *message) {
        Ok(n) if n == message.len() => Ok(true),
        begun => read_rest(out, message, begun),
    }
}

#[cold]
fn read_rest(out: &OwnedFd, message: &mut [u8], begun: Result<usize, Errno>) -> Result<bool, Errno> {
    let mut done = 0;
    let mut step = begun;
    loop {
        match step {
            Ok(0) if done == 0 => return Ok(false),
            // The rest of a message does not come any more.
            Ok(0) => return Err(Errno::CONNRESET),
            Ok(n) => done += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if done >= message.len() {
            return Ok(true);
        }
        step = rustix::io::read(out, &mut message[done..]);
    }
}

/// Distances between timed messages: random, so that they fall on any number of receivers alike.
struct Gaps {
    every: u64,
    state: u64,
}

impl Gaps {
    fn new(sample_every: Option<u64>, seed: u64) -> Self {
        Gaps { every: sample_every.unwrap_or(u64::MAX), state: seed | 1 }
    }

    /// From 1 to 2 × `every` - 1, `every` on average; never where nothing is timed.
    fn next(&mut self) -> u64 {
        if self.every == u64::MAX {
            return u64::MAX;
        }
        // Xorshift64 (G. Marsaglia, Xorshift RNGs, 2003).
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        1 + self.state % (2 * self.every - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_messages_are_so_far_apart_on_average() {
        for every in [1, 2, 8, 1_000] {
            let mut gaps = Gaps::new(Some(every), 7);
            let drawn: Vec<u64> = (0..20_000).map(|_| gaps.next()).collect();
            assert!(drawn.iter().all(|gap| (1..2 * every).contains(gap)), "{every}");
            let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
            assert!((mean / every as f64 - 1.0).abs() < 0.02, "{mean} for {every}");
        }
        assert_eq!(Gaps::new(None, 7).next(), u64::MAX);
    }

    #[test]
    fn a_message_in_pieces_is_put_together_and_half_a_one_is_an_error() {
        let (read, write) = std::io::pipe().map(|(r, w)| (OwnedFd::from(r), OwnedFd::from(w))).expect("a pipe");
        let writer = std::thread::spawn(move || {
            for piece in [&b"abc"[..], b"de", b"fghij", b"kl"] {
                rustix::io::write(&write, piece).expect("written");
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let mut message = [0; 5];
        for expect in [b"abcde", b"fghij"] {
            assert_eq!(read_whole(&read, &mut message), Ok(true));
            assert_eq!(&message, expect);
        }
        assert_eq!(read_whole(&read, &mut message), Err(Errno::CONNRESET));
        assert_eq!(read_whole(&read, &mut message), Ok(false));
        writer.join().expect("it ends");
    }

    #[test]
    fn a_receiver_that_begins_too_late_reads_what_was_sent() {
        let region = Arc::new(Region::new(1).expect("maps"));
        region.stage().enter(phase::STOP);
        let (read, write) = std::io::pipe().map(|(r, w)| (OwnedFd::from(r), OwnedFd::from(w))).expect("a pipe");
        rustix::io::write(&write, &[b'h'; 60]).expect("written");
        drop(write);
        let message = Message::new(20);
        let task = Task {
            region: region.clone(),
            index: 0,
            message,
            cpus: None,
            sample_every: None,
            sender_less_own_ns: 0,
            is_apart: false,
        };
        receiver(task, &read, None);
        let slot = region.slot(0);
        assert_eq!((slot.messages.0.load(Ordering::Relaxed), slot.errno.load(Ordering::Relaxed)), (3, 0));
    }
}
