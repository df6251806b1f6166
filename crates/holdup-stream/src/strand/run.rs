//! A strand of a profile: it runs the steps of its program one after another.

use crate::counts::add;
use crate::profile::program::{Action, Connections, Phase, Program, Step, Transfer};
use crate::profile::{Protocol, Repeat};
use crate::sockets;
use crate::strand::counts::{Part, Slot, Strands};
use crate::strand::link::{LOOK, Link, Target, Token};
use holdup_host::network::Endpoint;
use holdup_load::clock::now_ns;
use holdup_load::placement::stay_on;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a step may wait without anything moving, ns, unless the profile says how long.
const PATIENCE_NS: u64 = 30_000_000_000;
/// How long nothing more must come before a connection is closed whose other end is not, ns.
const QUIET_NS: u64 = 1_000_000_000;
/// uperf's client runs the turns of a rate in one go each half second.
const BURST_NS: u64 = 500_000_000;

/// What an opening step needs.
#[derive(Debug, Clone)]
pub(crate) enum Way {
    /// It waits here.
    Waits(Arc<OwnedFd>),
    /// It calls there.
    Calls(Target),
}

/// A file that is sent.
#[derive(Debug)]
pub(crate) struct Sendable {
    pub(crate) file: OwnedFd,
    pub(crate) bytes: u64,
}

/// All that one strand needs; made before it starts, because a forked one must not allocate.
pub(crate) struct Strand {
    pub(crate) strands: Arc<Strands>,
    pub(crate) index: usize,
    /// The slot of the strand at the other end.
    pub(crate) peer: usize,
    pub(crate) is_client: bool,
    pub(crate) program: Arc<Program>,
    /// For each step of all phases in their order.
    pub(crate) ways: Vec<Option<Way>>,
    /// For each entry of [`Program::files`].
    pub(crate) files: Arc<Vec<Vec<Sendable>>>,
    pub(crate) place: Endpoint,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) token: Token,
    pub(crate) buffer: Vec<u8>,
    pub(crate) connections: Connections<Link>,
    /// Whether something is received in a slot, so that closing waits for its end.
    pub(crate) receives: Vec<bool>,
    pub(crate) random: u64,
}

/// Why a step did not end well.
enum Broken {
    /// The time of the transaction is over.
    Over,
    /// The other end is through with the transaction, and since this moment, ns, nothing has come.
    PeerIsThrough(u64),
    Failed(io::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Broken::Failed(error)
    }
}

/// What holds for the turn of a transaction under way.
#[derive(Clone, Copy)]
struct Turn<'a> {
    slot: &'a Slot,
    part: &'a Part,
    /// The other end's.
    peer: &'a Part,
    deadline_ns: u64,
}

impl Strand {
    /// A strand's whole life.
    pub(crate) fn run(mut self) {
        let strands = self.strands.clone();
        let slot = strands.slot(self.index);
        slot.tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
        let placed = self.place.enter().and_then(|()| self.cpus.as_deref().map_or(Ok(()), stay_on));
        if let Err(e) = placed {
            return slot.give_up(0, &e);
        }
        slot.latency.touch();
        self.buffer.fill(0x5a);
        if !strands.stage().wait_for_begin() {
            return;
        }
        let program = self.program.clone();
        let mut first = 0;
        for (number, phase) in program.phases.iter().enumerate() {
            let Some(begun_ns) = strands.head().pass(number, strands.stage()) else { break };
            let part = &slot.parts[number];
            let turn = Turn { slot, part, peer: &strands.slot(self.peer).parts[number], deadline_ns: u64::MAX };
            match self.transaction(phase, turn, begun_ns, first) {
                Ok(ended_ns) => part.ended_ns.store(ended_ns, Ordering::Release),
                Err((line, error)) => {
                    slot.give_up(line, &error);
                    break;
                }
            }
            // The next transaction is not called before this strand is at its gate.
            if matches!(phase.repeat, Repeat::Duration(_)) {
                self.take_late_callers(slot);
            }
            first += phase.steps.len();
        }
        if slot.failure().is_none() {
            let _end = strands.head().pass(program.phases.len(), strands.stage());
            while !strands.stage().stopped() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        self.take_late_callers(slot);
        self.close_all(slot);
    }

    /// Runs one transaction whose first step is the `first` of all. Returns when it was over, ns.
    fn transaction(
        &mut self,
        phase: &Phase,
        turn: Turn<'_>,
        begun_ns: u64,
        first: usize,
    ) -> Result<u64, (u32, io::Error)> {
        let (turns, deadline_ns) = match phase.repeat {
            Repeat::Iterations(turns) => (turns, u64::MAX),
            Repeat::Duration(ns) => (u64::MAX, begun_ns.saturating_add(ns)),
        };
        let turn = Turn { deadline_ns, ..turn };
        for number in 0..turns {
            if self.is_over(deadline_ns) || !self.pace(phase, number, begun_ns, deadline_ns) {
                return Ok(now_ns());
            }
            for (place, step) in phase.steps.iter().enumerate() {
                for _ in 0..step.count {
                    match self.step(step, first + place, turn) {
                        Ok(()) => {}
                        Err(Broken::Over) => return Ok(now_ns()),
                        Err(Broken::PeerIsThrough(since_ns)) => return Ok(since_ns.max(begun_ns)),
                        // The other end has broken off first, by the same clock.
                        Err(Broken::Failed(_)) if self.is_over(deadline_ns) => return Ok(now_ns()),
                        Err(Broken::Failed(_)) if step.can_fail => add(&turn.part.failed, 1),
                        Err(Broken::Failed(error)) => return Err((step.line, error)),
                    }
                }
            }
            add(&turn.part.turns, 1);
        }
        Ok(now_ns())
    }

    /// Waits until a turn of a transaction with a rate is due; `false` when its time is over.
    fn pace(&self, phase: &Phase, number: u64, begun_ns: u64, deadline_ns: u64) -> bool {
        let Some(rate) = phase.rate_per_s.filter(|rate| *rate > 0) else { return true };
        let after_ns = if self.is_client {
            number / u64::from(rate / 2).max(1) * BURST_NS
        } else if phase.steps.iter().any(|step| matches!(step.action, Action::Receive(_))) {
            // The receiver is paced by the sender.
            return true;
        } else {
            (u128::from(number) * 1_000_000_000 / u128::from(rate)) as u64
        };
        self.sleep_until(begun_ns.saturating_add(after_ns), deadline_ns)
    }

    fn is_over(&self, deadline_ns: u64) -> bool {
        self.strands.stage().stopped() || (deadline_ns != u64::MAX && now_ns() >= deadline_ns)
    }

    fn sleep_until(&self, at_ns: u64, deadline_ns: u64) -> bool {
        loop {
            if self.is_over(deadline_ns) {
                return false;
            }
            let now = now_ns();
            if now >= at_ns {
                return true;
            }
            let ns = (at_ns.min(deadline_ns) - now).min(LOOK.as_nanos() as u64);
            std::thread::sleep(Duration::from_nanos(ns));
        }
    }

    fn step(&mut self, step: &Step, number: usize, turn: Turn<'_>) -> Result<(), Broken> {
        if self.is_over(turn.deadline_ns) {
            return Err(Broken::Over);
        }
        match step.action {
            Action::Open { slot, endpoint, .. } => self.open(slot, endpoint, number, turn),
            Action::Close { slot } => {
                let link = self.connections.remove(slot).ok_or_else(not_connected)?;
                self.close(&link, self.receives[usize::from(slot)], turn.slot);
                Ok(())
            }
            Action::Send(transfer) => self.timed(turn, |strand| strand.send(&transfer, turn)),
            Action::Receive(transfer) => self.timed(turn, |strand| strand.receive(&transfer, turn)),
            Action::SendFiles { slot, files } => self.timed(turn, |strand| strand.send_files(slot, files, turn)),
            Action::Sleep(ns) => match self.sleep_until(now_ns().saturating_add(ns), turn.deadline_ns) {
                true => Ok(()),
                false => Err(Broken::Over),
            },
            Action::Compute(ns) => {
                let end_ns = now_ns().saturating_add(ns);
                while now_ns() < end_ns {
                    if self.is_over(turn.deadline_ns) {
                        return Err(Broken::Over);
                    }
                    std::hint::spin_loop();
                }
                Ok(())
            }
            Action::Nothing => Ok(()),
        }
    }

    /// Counts how long something takes that moves data, at the client, where it is whole.
    fn timed(&mut self, turn: Turn<'_>, run: impl FnOnce(&mut Self) -> Result<(), Broken>) -> Result<(), Broken> {
        let begin_ns = now_ns();
        run(self)?;
        if self.is_client {
            turn.slot.latency.count(now_ns().saturating_sub(begin_ns));
        }
        Ok(())
    }

    fn open(&mut self, slot: u16, endpoint: u16, number: usize, turn: Turn<'_>) -> Result<(), Broken> {
        let endpoint = &self.program.endpoints[usize::from(endpoint)];
        let begin_ns = now_ns();
        let is_late = || now_ns() - begin_ns > PATIENCE_NS;
        let link = match self.ways.get(number).and_then(Option::as_ref) {
            None => return Err(Broken::Failed(not_connected())),
            Some(Way::Calls(target)) => {
                let goes_on = || !self.is_over(turn.deadline_ns) && !is_late();
                match Link::call(endpoint, target, &self.token, goes_on) {
                    Err(_) if self.is_over(turn.deadline_ns) => return Err(Broken::Over),
                    called => called?,
                }
            }
            Some(Way::Waits(listener)) => loop {
                let stranger = || add(&turn.slot.strangers, 1);
                match Link::accept(listener.as_fd(), endpoint.protocol, &self.token, stranger) {
                    Err(e) if sockets::is_wait(&e) && self.is_over(turn.deadline_ns) => return Err(Broken::Over),
                    Err(e) if sockets::is_wait(&e) && !is_late() => {}
                    accepted => break accepted?,
                }
            },
        };
        self.connections.add(slot, link);
        turn.slot.holds(self.connections.open());
        Ok(())
    }

    fn send(&mut self, transfer: &Transfer, turn: Turn<'_>) -> Result<(), Broken> {
        for _ in 0..transfer.datagrams {
            let size = if transfer.least == transfer.most { transfer.most as usize } else { self.draw(transfer) };
            let mut at = 0;
            let mut waits = Waits::new(transfer);
            loop {
                let over = self.is_over_in(turn);
                let Some(link) = self.connections.current(transfer.slot) else { return Err(not_connected().into()) };
                waits.before(link, true)?;
                let piece = (size - at).min(self.buffer.len());
                match link.send(&self.buffer[..piece], transfer.call, waits.flags()) {
                    Ok(sent) => {
                        at += sent;
                        add(&turn.part.sent, sent as u64);
                        add(&turn.slot.datagrams_sent, u64::from(link.is_udp));
                        waits.moved();
                    }
                    Err(e) if is_wait(&e) => waits.after(over)?,
                    Err(e) => return Err(e.into()),
                }
                if at >= size || transfer.once && at > 0 {
                    break;
                }
                if over {
                    return Err(Broken::Over);
                }
            }
            add(&turn.part.sends, 1);
        }
        Ok(())
    }

    fn receive(&mut self, transfer: &Transfer, turn: Turn<'_>) -> Result<(), Broken> {
        let size = transfer.most as usize;
        for _ in 0..transfer.datagrams {
            let mut at = 0;
            let mut waits = Waits::new(transfer);
            loop {
                let over = self.is_over_in(turn);
                // Asked before the call: what it sent until then is there, and nothing more comes.
                let is_alone = turn.peer.ended_ns.load(Ordering::Acquire) != 0;
                let Some(link) = self.connections.current(transfer.slot) else { return Err(not_connected().into()) };
                waits.before(link, false)?;
                let piece = (size - at).min(self.buffer.len());
                let all = if link.is_udp || transfer.once { 0 } else { libc::MSG_WAITALL };
                match link.receive(&mut self.buffer[..piece], transfer.call, waits.flags() | all) {
                    Ok(0) if !link.is_udp => return Err(Broken::Failed(rustix::io::Errno::CONNRESET.into())),
                    Ok(got) => {
                        at += got;
                        add(&turn.part.received, got as u64);
                        add(&turn.slot.datagrams_received, u64::from(link.is_udp));
                        waits.moved();
                    }
                    Err(e) if is_wait(&e) => {
                        waits.after(over)?;
                        if is_alone {
                            return Err(Broken::PeerIsThrough(waits.since_ns - LOOK.as_nanos() as u64));
                        }
                    }
                    Err(e) => return Err(e.into()),
                }
                if at >= size || transfer.once && at > 0 {
                    break;
                }
                if over {
                    return Err(Broken::Over);
                }
            }
            add(&turn.part.receives, 1);
        }
        Ok(())
    }

    /// True if a transfer is to be broken off; asked once for each call of it.
    #[inline(always)]
    fn is_over_in(&self, turn: Turn<'_>) -> bool {
        self.is_over(turn.deadline_ns)
    }

    fn send_files(&mut self, slot: u16, files: u16, turn: Turn<'_>) -> Result<(), Broken> {
        let of = &self.program.files[usize::from(files)];
        let wanted = (of.files, of.piece_bytes);
        let all = self.files.clone();
        let all = &all[usize::from(files)];
        for _ in 0..wanted.0 {
            let chosen = ((u128::from(self.next_random()) * all.len() as u128) >> 64) as usize;
            let Some(chosen) = all.get(chosen) else { return Err(Broken::Failed(not_found())) };
            let (mut offset, mut waits) = (0i64, Waits::plain());
            while (offset as u64) < chosen.bytes {
                let over = self.is_over_in(turn);
                let Some(link) = self.connections.current(slot) else { return Err(not_connected().into()) };
                let left = chosen.bytes - offset as u64;
                let piece = usize::try_from(wanted.1.unwrap_or(left).min(left)).unwrap_or(usize::MAX);
                match link.send_file(chosen.file.as_raw_fd(), &mut offset, piece) {
                    // The file has become shorter.
                    Ok(0) => break,
                    Ok(sent) => {
                        add(&turn.part.sent, sent as u64);
                        waits.moved();
                    }
                    Err(e) if is_wait(&e) => waits.after(over)?,
                    Err(e) => return Err(e.into()),
                }
                if over {
                    return Err(Broken::Over);
                }
            }
            add(&turn.part.sends, 1);
        }
        Ok(())
    }

    fn draw(&mut self, transfer: &Transfer) -> usize {
        transfer.draw(self.next_random())
    }

    /// xorshift64*, which needs no more than to be uneven.
    fn next_random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Receives and counts what is still on its way, and closes.
    fn close(&mut self, link: &Link, receives: bool, slot: &Slot) {
        if link.is_udp {
            while let Some(got) = link.take_left(&mut self.buffer) {
                add(&slot.drained, got as u64);
                add(&slot.datagrams_received, 1);
            }
            return add(&slot.datagrams_dropped, link.dropped());
        }
        // Where nothing is received here, closing immediately notifies the other end.
        if receives && sockets::end_sending(link.socket).is_ok() {
            let mut quiet_ns = 0;
            loop {
                match sockets::receive(link.socket, &mut self.buffer, 0) {
                    Ok(0) => break,
                    Ok(got) => {
                        add(&slot.drained, got as u64);
                        quiet_ns = 0;
                    }
                    Err(e) if sockets::is_wait(&e) && quiet_ns < QUIET_NS => quiet_ns += LOOK.as_nanos() as u64,
                    Err(_) => break,
                }
            }
        }
    }

    /// What was called in the last moment of a transaction that is over, is received and closed.
    fn take_late_callers(&mut self, slot: &Slot) {
        let waits = |way: &Option<Way>| match way {
            Some(Way::Waits(listener)) => Some(listener.clone()),
            _ => None,
        };
        for number in 0..self.ways.len() {
            let Some(listener) = waits(&self.ways[number]) else { continue };
            let is_there = |listener: &OwnedFd| {
                let mut poll = [rustix::event::PollFd::new(listener, rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut poll, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })) == Ok(1)
            };
            let Some(protocol) = self.protocol_of(number).filter(|protocol| *protocol != Protocol::Udp) else {
                continue;
            };
            while is_there(&listener) {
                match Link::accept(listener.as_fd(), protocol, &self.token, || add(&slot.strangers, 1)) {
                    Ok(link) => self.close(&link, true, slot),
                    Err(_) => break,
                }
            }
        }
    }

    /// What the n-th of all steps speaks, where it opens a connection.
    fn protocol_of(&self, number: usize) -> Option<Protocol> {
        let step = self.program.phases.iter().flat_map(|phase| &phase.steps).nth(number)?;
        match step.action {
            Action::Open { endpoint, .. } => Some(self.program.endpoints.get(usize::from(endpoint))?.protocol),
            _ => None,
        }
    }

    fn close_all(&mut self, slot: &Slot) {
        // Both ends say first that they are done, so that neither waits for the other.
        for number in 0..self.program.slots {
            while let Some(link) = self.connections.remove(number) {
                self.close(&link, self.receives[usize::from(number)], slot);
            }
        }
    }
}

fn not_connected() -> io::Error {
    rustix::io::Errno::NOTCONN.into()
}

fn not_found() -> io::Error {
    rustix::io::Errno::NOENT.into()
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Over | Broken::PeerIsThrough(_) => rustix::io::Errno::INTR.into(),
            Broken::Failed(error) => error,
        }
    }
}

fn is_wait(error: &io::Error) -> bool {
    sockets::is_wait(error) || error.raw_os_error() == Some(libc::ENOBUFS)
}

/// How a transfer waits.
struct Waits {
    timeout: Option<Duration>,
    /// True if the call is tried before it waits.
    tries: bool,
    since_ns: u64,
}

impl Waits {
    fn new(transfer: &Transfer) -> Self {
        let timeout = transfer.timeout_ms.map(|ms| Duration::from_millis(u64::from(ms)));
        Waits { timeout, tries: transfer.non_blocking, since_ns: 0 }
    }

    fn plain() -> Self {
        Waits { timeout: None, tries: false, since_ns: 0 }
    }

    fn flags(&self) -> i32 {
        if self.tries { libc::MSG_DONTWAIT } else { 0 }
    }

    fn before(&self, link: &Link, to_send: bool) -> Result<(), Broken> {
        match self.timeout {
            Some(timeout) if !self.tries && !link.ready(to_send, timeout)? => {
                Err(Broken::Failed(rustix::io::Errno::TIMEDOUT.into()))
            }
            _ => Ok(()),
        }
    }

    fn moved(&mut self) {
        self.since_ns = 0;
    }

    /// After a call that would have to wait.
    fn after(&mut self, over: bool) -> Result<(), Broken> {
        if over {
            return Err(Broken::Over);
        }
        // A call that was only tried is made again, waiting.
        self.tries = false;
        let now = now_ns();
        if self.since_ns == 0 {
            self.since_ns = now;
        }
        if now - self.since_ns > PATIENCE_NS {
            return Err(Broken::Failed(rustix::io::Errno::TIMEDOUT.into()));
        }
        Ok(())
    }
}

/// What a strand that is a process keeps open.
pub(crate) fn keeps(strand: &Strand) -> Vec<RawFd> {
    let mut keeps: Vec<RawFd> = strand.place.namespace().iter().map(std::os::fd::AsRawFd::as_raw_fd).collect();
    keeps.extend(strand.ways.iter().filter_map(|way| match way {
        Some(Way::Waits(listener)) => Some(listener.as_raw_fd()),
        _ => None,
    }));
    keeps.extend(strand.files.iter().flatten().map(|sendable| sendable.file.as_raw_fd()));
    keeps
}
