//! The end that receives and answers.

use crate::ping::inbox::{Inbox, Received};
use crate::ping::message::Message;
use crate::ping::order::{Arrival, Order};
use crate::ping::outbox::{Outbox, Sent};
use crate::ping::playback::Recorded;
use crate::ping::region::{CLIENT, Region, SERVER, Slot, ending};
use crate::ping::sockets::{self, End};
use holdup_load::board::phase;
use holdup_load::clock::now_ns;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How long an end waits for what should still come before it gives up, ns. What is missing then is unaccounted.
pub(crate) const GRACE_NS: u64 = 2_000_000_000;

/// Why an end gave up: one of [`ending`], and its detail.
pub(crate) type Failure = (u32, u64);

/// All that the server needs, made before it starts.
pub(crate) struct Server {
    pub(crate) region: Arc<Region>,
    pub(crate) end: Arc<End>,
    pub(crate) inbox: Inbox,
    pub(crate) outbox: Outbox,
    pub(crate) order: Order,
    pub(crate) size: usize,
    pub(crate) recorded: Option<Arc<Recorded>>,
    pub(crate) stream: bool,
    pub(crate) may_lose: bool,
    pub(crate) polls: bool,
    /// True if a message too short for flags asks for an answer.
    pub(crate) bare_answer: bool,
    pub(crate) cpus: Option<Vec<u32>>,
    /// The client's clock less this one's, ns.
    pub(crate) client_less_server_ns: i64,
    /// The next place in what was recorded.
    pub(crate) place: usize,
}

impl Server {
    /// The whole life, but for the thread or process.
    pub(crate) fn run(mut self) {
        let region = self.region.clone();
        let slot = region.slot(SERVER);
        prepare_thread(self.cpus.as_deref());
        slot.latency.touch();
        let (how, detail) = match self.work(slot) {
            Ok(()) => (ending::DONE, 0),
            Err(broken) => broken,
        };
        slot.detail.store(detail, Ordering::Relaxed);
        slot.sent_all.store(1, Ordering::Release);
        slot.ending.store(how, Ordering::Release);
    }

    fn work(&mut self, slot: &Slot) -> Result<(), Failure> {
        let region = self.region.clone();
        let stage = region.stage();
        // One that wakes only when it is to end has to read what was sent meanwhile all the same.
        let _begins = stage.wait_for_begin();
        let mut seen = phase::WARM;
        let mut idle = Idle::default();
        loop {
            let now = stage.phase();
            if now != seen {
                seen = now;
                slot.marks.saw(now, slot.received.0.load(Ordering::Relaxed));
            }
            let size = self.expected_size();
            match self.inbox.receive(size, !self.polls) {
                Received::Message => {
                    idle.over();
                    self.take(slot)?;
                }
                Received::Nothing if now == phase::STOP => {
                    if self.is_over(slot) || region.slot(CLIENT).has_broken() {
                        return Ok(());
                    }
                    if idle.lasts() {
                        let left = self.inbox.left() as u64;
                        return if left == 0 { Ok(()) } else { Err((ending::WRONG_SIZE, left)) };
                    }
                }
                Received::Nothing => {
                    if region.slot(CLIENT).has_broken() {
                        return Ok(());
                    }
                }
                Received::Closed => return Err((ending::CLOSED, 0)),
                Received::Refused(errno) => return Err((ending::REFUSED, errno.raw_os_error() as u64)),
            }
        }
    }

    /// The size of the next message of a stream.
    #[inline]
    fn expected_size(&self) -> usize {
        match &self.recorded {
            Some(recorded) => recorded.message(self.place).1,
            None => self.size,
        }
    }

    /// Counts the message that came, and answers it when it asks for it.
    #[inline]
    fn take(&mut self, slot: &Slot) -> Result<(), Failure> {
        // By the clock that the message was stamped with.
        let arrived_ns = self.inbox.arrived_ns().wrapping_add_signed(self.client_less_server_ns);
        let bytes = self.inbox.message();
        let length = bytes.len();
        if length != self.size && (self.recorded.is_none() || length > self.size) {
            return Err((ending::WRONG_SIZE, length as u64));
        }
        let message = Message::read(bytes, self.order.expected(), arrived_ns, self.bare_answer);
        if self.stream && message.number != self.order.expected() {
            return Err((ending::GARBLED, message.number));
        }
        match self.order.note(message.number) {
            Arrival::InOrder => (),
            Arrival::Late => Slot::add(&slot.late, 1),
            Arrival::Again => {
                Slot::add(&slot.again, 1);
                return Ok(());
            }
        }
        if message.counts
            && let Some(sent_ns) = message.sent_ns
        {
            slot.latency.count(arrived_ns.saturating_sub(sent_ns));
        }
        Slot::add(&slot.received_bytes, length as u64);
        Slot::add(&slot.received.0, 1);
        if let Some(recorded) = &self.recorded {
            self.place = (self.place + 1) % recorded.len();
        }
        if message.answer { self.answer(slot) } else { Ok(()) }
    }

    /// Sends the message back as it is.
    #[inline]
    fn answer(&mut self, slot: &Slot) -> Result<(), Failure> {
        let mut rest = self.inbox.message();
        let mut idle = Idle::default();
        loop {
            match self.outbox.send(rest, true) {
                Sent::All => {
                    Slot::add(&slot.sent.0, 1);
                    return Ok(());
                }
                Sent::Part(length) => {
                    rest = &rest[length..];
                    idle.over();
                }
                Sent::NoRoom if self.may_lose => {
                    Slot::add(&slot.not_sent, 1);
                    return Ok(());
                }
                // The client reads for as long as it lives, so it is stopped or gone; then no process waits for the rest.
                Sent::NoRoom => {
                    if self.region.slot(CLIENT).has_ended() || self.region.stage().stopped() && idle.lasts() {
                        return Ok(());
                    }
                }
                Sent::Closed => return Err((ending::CLOSED, 0)),
                Sent::Refused(errno) => return Err((ending::REFUSED, errno.raw_os_error() as u64)),
            }
        }
    }

    /// True if all that was sent has come or was dropped.
    fn is_over(&self, slot: &Slot) -> bool {
        let client = self.region.slot(CLIENT);
        if !client.has_sent_all() || self.inbox.left() > 0 {
            return false;
        }
        let dropped = if self.may_lose { sockets::drops(&*self.end).unwrap_or(0) } else { 0 };
        let missing = client.sent.0.load(Ordering::Acquire).wrapping_sub(slot.received.0.load(Ordering::Relaxed));
        missing as u32 == dropped
    }
}

/// For how long nothing has come.
#[derive(Default)]
pub(crate) struct Idle {
    since_ns: u64,
}

impl Idle {
    /// Something has come.
    #[inline]
    pub(crate) fn over(&mut self) {
        self.since_ns = 0;
    }

    /// Nothing has come again; whether that lasts too long.
    pub(crate) fn lasts(&mut self) -> bool {
        self.lasts_longer_than(GRACE_NS)
    }

    /// The same for an end that waits for one that may wait that long itself.
    pub(crate) fn lasts_twice(&mut self) -> bool {
        self.lasts_longer_than(2 * GRACE_NS)
    }

    fn lasts_longer_than(&mut self, ns: u64) -> bool {
        let now = now_ns();
        if self.since_ns == 0 {
            self.since_ns = now;
        }
        now - self.since_ns > ns
    }
}

/// Puts the calling thread where it belongs, and lets it wake as exactly as the kernel can.
pub(crate) fn prepare_thread(cpus: Option<&[u32]>) {
    if let Some(cpus) = cpus {
        // The CPUs were allowed a moment ago; when they went offline since, the environment's facts show it.
        let _pinned = holdup_load::placement::stay_on(cpus);
    }
    // SAFETY: a plain system call: prctl(2) PR_SET_TIMERSLACK, of this thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}
