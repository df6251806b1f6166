//! The end that sends.
//!
//! One thread does both, sending and reading the answers: two clocks less to agree, and no lock between them.

use crate::ping::inbox::{Inbox, Received};
use crate::ping::message::{COMPACT, Message};
use crate::ping::order::{Arrival, Order};
use crate::ping::outbox::{Outbox, Sent};
use crate::ping::region::{CLIENT, Region, SERVER, Slot, ending};
use crate::ping::schedule::{Schedule, Turn};
use crate::ping::server::{Failure, Idle, prepare_thread};
use crate::ping::sockets::{self, End, PATIENCE};
use holdup_load::board::{Stage, phase};
use holdup_load::clock::now_ns;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How long an answer may take before the next burst is sent, where messages may be lost, ns. A later answer still
/// counts, with all of its time.
pub(crate) const ANSWER_NS: u64 = 200_000_000;

/// All that the client needs, made before it starts.
pub(crate) struct Client {
    pub(crate) region: Arc<Region>,
    pub(crate) end: Arc<End>,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    /// The answers.
    pub(crate) order: Order,
    pub(crate) schedule: Schedule,
    /// The message that is being sent; as long as the longest one.
    pub(crate) message: Vec<u8>,
    pub(crate) size: usize,
    pub(crate) burst: u64,
    pub(crate) reply_every: u64,
    pub(crate) may_lose: bool,
    pub(crate) polls: bool,
    pub(crate) closed_loop: bool,
    /// True if latency counts from when a message was due.
    pub(crate) open_loop: bool,
    /// True if the server counts on another board.
    pub(crate) is_apart: bool,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) state: State,
}

/// What changes while it works.
#[derive(Default)]
pub(crate) struct State {
    /// The next message's number.
    number: u64,
    /// How many messages asked for an answer.
    asked: u64,
    /// How many of those were answered or followed by an answer to a later one.
    answered: u64,
    /// How many answers came to messages from `first` on.
    answers: u64,
    /// The first message of the burst.
    first: u64,
    /// When the only message out was sent, for those too short to say so.
    sent_ns: u64,
    /// True if it was sent inside the window.
    counts: bool,
    seen: u32,
}

/// Whether the trial continues.
#[derive(PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

impl Client {
    /// The whole life, but for the thread or process.
    pub(crate) fn run(mut self) {
        let region = self.region.clone();
        let slot = region.slot(CLIENT);
        prepare_thread(self.cpus.as_deref());
        slot.latency.touch();
        slot.lag.touch();
        let (how, detail) = match self.work(&region, slot) {
            Ok(()) => (ending::DONE, 0),
            Err(broken) => broken,
        };
        slot.detail.store(detail, Ordering::Relaxed);
        slot.sent_all.store(1, Ordering::Release);
        slot.ending.store(how, Ordering::Release);
    }

    fn work(&mut self, region: &Region, slot: &Slot) -> Result<(), Failure> {
        if !region.stage().wait_for_begin() {
            return Ok(());
        }
        self.state.seen = phase::WARM;
        self.schedule.begin(now_ns());
        if self.closed_loop {
            self.ping_pong(region.stage(), slot)?;
        } else {
            self.one_after_the_other(region.stage(), slot)?;
        }
        slot.sent_all.store(1, Ordering::Release);
        self.last_answers(region, slot)
    }

    /// Looks at the phase.
    #[inline]
    fn look_up(&mut self, stage: &Stage, slot: &Slot) -> Go {
        let now = stage.phase();
        if now != self.state.seen {
            self.state.seen = now;
            // What was delivered is not known here while the server is on another host.
            let done = if self.is_apart { &slot.sent.0 } else { &self.region.slot(SERVER).received.0 };
            slot.marks.saw(now, done.load(Ordering::Relaxed));
        }
        if now == phase::STOP { Go::Stop } else { Go::On }
    }

    fn ping_pong(&mut self, stage: &Stage, slot: &Slot) -> Result<(), Failure> {
        while self.look_up(stage, slot) == Go::On {
            let turn = self.schedule.turn();
            if self.wait_until_due(turn, stage, slot)? == Go::Stop {
                return Ok(());
            }
            (self.state.first, self.state.answers) = (self.state.number, 0);
            for _ in 0..self.burst {
                self.send(turn, stage, slot)?;
                self.schedule.advance();
            }
            if self.answers(stage, slot)? == Go::Stop {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Waits for the answers to the burst.
    #[inline]
    fn answers(&mut self, stage: &Stage, slot: &Slot) -> Result<Go, Failure> {
        let wanted = self.state.number - self.state.first;
        while self.state.answers < wanted {
            if self.read_answer(slot, !self.polls)? {
                continue;
            }
            if self.look_up(stage, slot) == Go::Stop {
                return Ok(Go::Stop);
            }
            if self.may_lose && now_ns().saturating_sub(self.state.sent_ns) > ANSWER_NS {
                Slot::add(&slot.timeouts, wanted - self.state.answers);
                return Ok(Go::On);
            }
        }
        Ok(Go::On)
    }

    fn one_after_the_other(&mut self, stage: &Stage, slot: &Slot) -> Result<(), Failure> {
        while self.look_up(stage, slot) == Go::On {
            let turn = self.schedule.turn();
            if self.wait_until_due(turn, stage, slot)? == Go::Stop {
                return Ok(());
            }
            self.send(turn, stage, slot)?;
            self.schedule.advance();
            if self.state.asked > self.state.answered {
                self.read_answer(slot, false)?;
            }
        }
        Ok(())
    }

    /// Waits, and reads the answers that come meanwhile.
    #[inline]
    fn wait_until_due(&mut self, turn: Turn, stage: &Stage, slot: &Slot) -> Result<Go, Failure> {
        let Some(due_ns) = turn.due_ns else { return Ok(Go::On) };
        loop {
            let left_ns = due_ns.saturating_sub(now_ns());
            if left_ns == 0 {
                return Ok(Go::On);
            }
            if self.look_up(stage, slot) == Go::Stop {
                return Ok(Go::Stop);
            }
            let expects = self.state.asked > self.state.answered;
            if expects && self.read_answer(slot, false)? {
                continue;
            }
            if self.polls {
                std::hint::spin_loop();
                continue;
            }
            let events = if expects { PollFlags::IN } else { PollFlags::empty() };
            self.sleep(events, left_ns.min(PATIENCE.as_nanos() as u64));
        }
    }

    /// Sleeps until the socket can do one of these things, and no longer than so.
    fn sleep(&self, events: PollFlags, ns: u64) {
        let time = Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 };
        // SAFETY: the region's job holds the file open.
        let fd = unsafe { BorrowedFd::borrow_raw(self.outbox.0) };
        // A sleep that ends without reason just looks again.
        let _woken = if events.is_empty() {
            poll(&mut [], Some(&time))
        } else {
            poll(&mut [PollFd::from_borrowed_fd(fd, events)], Some(&time))
        };
    }

    /// Sends the next message.
    #[inline]
    fn send(&mut self, turn: Turn, stage: &Stage, slot: &Slot) -> Result<(), Failure> {
        let answer = self.reply_every > 0 && self.state.number.is_multiple_of(self.reply_every);
        let counts = stage.is_open();
        let now = now_ns();
        let sent_ns = match turn.due_ns {
            Some(due_ns) if self.open_loop => {
                if counts {
                    slot.lag.count(now.saturating_sub(due_ns));
                }
                due_ns
            }
            _ => now,
        };
        let message = Message { number: self.state.number, sent_ns: Some(sent_ns), answer, counts };
        message.write(&mut self.message[..turn.size]);
        if !self.post(turn.size, slot)? {
            Slot::add(&slot.not_sent, 1);
            return Ok(());
        }
        (self.state.sent_ns, self.state.counts) = (sent_ns, counts);
        self.state.number += 1;
        slot.sent.0.store(self.state.number, Ordering::Relaxed);
        if answer {
            self.state.asked += 1;
            slot.asked.store(self.state.asked, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Gives the message to the kernel; whether that took it. Where nothing may be lost it waits for room, and reads
    /// the answers meanwhile, because the server may wait for room for those.
    #[inline]
    fn post(&mut self, size: usize, slot: &Slot) -> Result<bool, Failure> {
        // Where nothing is answered there is nothing to read meanwhile, and the kernel can do the waiting.
        let wait = self.reply_every == 0 && !self.polls;
        let mut from = 0;
        let mut idle = Idle::default();
        loop {
            match self.outbox.send(&self.message[from..size], wait) {
                Sent::All => return Ok(true),
                Sent::Part(length) => {
                    from += length;
                    idle.over();
                }
                Sent::NoRoom if self.may_lose => return Ok(false),
                Sent::NoRoom => {
                    let (stage, server) = (self.region.stage(), self.region.slot(SERVER));
                    if server.has_ended() || stage.stopped() && from == 0 {
                        return Ok(false);
                    }
                    if stage.stopped() && idle.lasts() {
                        return Err((ending::STUCK, from as u64));
                    }
                    let _go = self.look_up(self.region.clone().stage(), slot);
                    let read = self.reply_every > 0 && self.read_answer(slot, false)?;
                    if !read && !self.polls && !wait {
                        let events = PollFlags::IN | PollFlags::OUT;
                        self.sleep(events, PATIENCE.as_nanos() as u64);
                    }
                }
                Sent::Closed => return Err((ending::CLOSED, 0)),
                Sent::Refused(errno) => return Err((ending::REFUSED, errno.raw_os_error() as u64)),
            }
        }
    }

    /// Reads one answer; whether there was one.
    #[inline]
    fn read_answer(&mut self, slot: &Slot, wait: bool) -> Result<bool, Failure> {
        let size = self.answer_size();
        match self.inbox.receive(size, wait) {
            Received::Message => self.take(slot).map(|()| true),
            Received::Nothing => Ok(false),
            Received::Closed => Err((ending::CLOSED, 0)),
            Received::Refused(errno) => Err((ending::REFUSED, errno.raw_os_error() as u64)),
        }
    }

    /// The size of the next answer of a stream.
    #[inline]
    fn answer_size(&self) -> usize {
        match &self.schedule {
            Schedule::Recorded { recorded, .. } => {
                recorded.message((self.state.answered * self.reply_every) as usize % recorded.len()).1
            }
            _ => self.size,
        }
    }

    #[inline]
    fn take(&mut self, slot: &Slot) -> Result<(), Failure> {
        let arrived_ns = self.inbox.arrived_ns();
        let bytes = self.inbox.message();
        let length = bytes.len();
        if length > self.size {
            return Err((ending::WRONG_SIZE, length as u64));
        }
        // Answers skip the numbers that are not answered, so the expected one is the oldest that is still out; a
        // number that is cut short can only be that of the latest ones.
        let short = length < COMPACT;
        let expected = if short { self.state.number.saturating_sub(1) } else { self.state.answered * self.reply_every };
        let message = Message::read(bytes, expected, arrived_ns, false);
        if message.number >= self.state.number {
            return Err((ending::GARBLED, message.number));
        }
        let place = message.number / self.reply_every.max(1);
        match self.order.note(place) {
            Arrival::InOrder => self.state.answered = place + 1,
            Arrival::Late => Slot::add(&slot.late, 1),
            Arrival::Again => {
                Slot::add(&slot.again, 1);
                return Ok(());
            }
        }
        Slot::add(&slot.received_bytes, length as u64);
        Slot::add(&slot.received.0, 1);
        if message.number >= self.state.first {
            self.state.answers += 1;
        }
        match message.sent_ns {
            Some(sent_ns) if message.counts => slot.latency.count(arrived_ns.saturating_sub(sent_ns)),
            // Too short to say; its time is known when no other is out.
            None if self.state.counts && self.burst == 1 && message.number + 1 == self.state.number => {
                slot.latency.count(arrived_ns.saturating_sub(self.state.sent_ns));
            }
            _ => (),
        }
        Ok(())
    }

    /// After the last message: reads the answers until the server has said all and everything is accounted.
    fn last_answers(&mut self, region: &Region, slot: &Slot) -> Result<(), Failure> {
        let server = region.slot(SERVER);
        let mut idle = Idle::default();
        loop {
            let over = server.has_sent_all();
            let _go = self.look_up(region.stage(), slot);
            if self.read_answer(slot, !self.polls)? {
                idle.over();
                continue;
            }
            if over && (self.is_over(server, slot) || server.has_broken()) || idle.lasts_twice() {
                return Ok(());
            }
        }
    }

    /// True if all answers have come or were dropped.
    fn is_over(&self, server: &Slot, slot: &Slot) -> bool {
        let dropped = if self.may_lose { sockets::drops(&*self.end).unwrap_or(0) } else { 0 };
        let missing = server.sent.0.load(Ordering::Acquire).wrapping_sub(slot.received.0.load(Ordering::Relaxed));
        missing as u32 == dropped
    }
}
