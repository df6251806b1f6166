//! A worker of one end: from its begin until everything it sends is sent and everything it receives is received.
//!
//! One with a single connection waits in send(2) and recv(2), one with several in epoll_wait(2).

use crate::counts::{Failure, Flow, Flows, What, Worker, Workers};
use crate::flow::{Moved, Stream};
use crate::many::{self, Room};
use crate::sockets;
use holdup_load::clock::now_ns;
use holdup_load::placement::stay_on;
use holdup_load::record::Record;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How long a wait lasts at most until the worker looks whether it is to end, ns.
pub(crate) const LOOK_NS: u64 = 20_000_000;
/// How long nothing more must come before datagrams that neither arrived nor were dropped here are given up, ns. They
/// may wait in the backlog of a CPU whose ksoftirqd has no turn on a busy machine.
const QUIET_NS: u64 = 2_000_000_000;

/// All that one worker needs; made before it starts, because a forked one must not allocate.
pub(crate) struct Job {
    pub(crate) workers: Arc<Workers>,
    pub(crate) flows: Arc<Flows>,
    /// Its slot on the board.
    pub(crate) index: usize,
    pub(crate) streams: Vec<Stream>,
    pub(crate) buffer: Vec<u8>,
    /// Time from one transfer of a connection to the next, ns; 0 for none.
    pub(crate) interval_ns: u64,
    /// True if the other end counts on another board, where this worker cannot look.
    pub(crate) is_apart: bool,
    pub(crate) cpus: Option<Vec<u32>>,
    pub(crate) room: Room,
}

impl Job {
    /// A worker's whole life.
    pub(crate) fn run(mut self) {
        let workers = self.workers.clone();
        let worker = workers.slot(self.index);
        worker.tid.store(rustix::thread::gettid().as_raw_nonzero().get(), Ordering::Release);
        if let Err(failure) = self.work(worker) {
            worker.give_up(failure);
            // Who waits at the other ends is not left waiting for ever.
            self.streams.iter().for_each(|stream| sockets::hang_up(stream.socket));
        }
    }

    fn work(&mut self, worker: &Worker) -> Result<(), Failure> {
        let placed = self.cpus.as_deref().map_or(Ok(()), stay_on);
        placed.map_err(|e| Failure::new(What::Placement, 0, &e))?;
        worker.latency.touch();
        self.buffer.fill(0x5a);
        let workers = self.workers.clone();
        if !workers.stage().wait_for_begin() {
            return Ok(());
        }
        match self.streams.as_slice() {
            [] => Ok(()),
            [stream] => match stream.sends {
                true => self.send_one(),
                false => self.receive_one(&worker.latency),
            },
            _ => many::run(self, worker),
        }
    }

    fn send_one(&mut self) -> Result<(), Failure> {
        let (flow, stage) = (self.flows.slot(self.streams[0].connection), self.workers.stage());
        let stream = &mut self.streams[0];
        let mut next_ns = now_ns();
        while !stage.stopped() {
            if !stream.is_under_way() {
                if self.interval_ns == 0 {
                    stream.due(now_ns());
                } else {
                    if !sleep_until(next_ns, || stage.stopped()) {
                        break;
                    }
                    stream.due(next_ns);
                    next_ns += self.interval_ns;
                }
            }
            stream.send(&mut self.buffer, flow, 0).map_err(|e| Failure::new(What::Send, stream.connection, &e))?;
        }
        end(stream, flow)
    }

    fn receive_one(&mut self, latency: &Record) -> Result<(), Failure> {
        let (flow, stage) = (self.flows.slot(self.streams[0].connection), self.workers.stage());
        let stream = &mut self.streams[0];
        let flags = if stream.is_udp { 0 } else { libc::MSG_WAITALL };
        let mut last_ns = 0;
        loop {
            let latency = stage.is_open().then_some(latency);
            match stream.receive(&mut self.buffer, flow, flags, latency) {
                Ok(Moved::Some | Moved::Whole) => last_ns = 0,
                Ok(Moved::End) => return ended(stream, flow, self.is_apart),
                Ok(Moved::Wait) => {
                    if stream.is_udp && stage.stopped() && is_drained(stream, flow, &mut last_ns) {
                        return Ok(());
                    }
                }
                Err(e) => return Err(Failure::new(What::Receive, stream.connection, &e)),
            }
        }
    }
}

/// Says to the other end that nothing more comes.
pub(crate) fn end(stream: &Stream, flow: &Flow) -> Result<(), Failure> {
    flow.sent.0.done.store(1, Ordering::Release);
    if stream.is_udp {
        return Ok(());
    }
    sockets::end_sending(stream.socket).map_err(|e| Failure::new(What::Send, stream.connection, &e))
}

/// The end of a connection: all must have come that was sent, and no more. Where the other end counts on another board,
/// that is reckoned at the end of the trial.
pub(crate) fn ended(stream: &Stream, flow: &Flow, is_apart: bool) -> Result<(), Failure> {
    if is_apart {
        flow.received.0.done.store(1, Ordering::Release);
        return Ok(());
    }
    let failure = |what| Failure { what, connection: stream.connection as u32, errno: 0 };
    if flow.sent.0.done.load(Ordering::Acquire) == 0 {
        return Err(failure(What::Early));
    }
    let (sent, received) = (&flow.sent.0.bytes, &flow.received.0.bytes);
    match received.load(Ordering::Relaxed).cmp(&sent.load(Ordering::Relaxed)) {
        std::cmp::Ordering::Equal => {
            flow.received.0.done.store(1, Ordering::Release);
            Ok(())
        }
        std::cmp::Ordering::Less => Err(failure(What::Early)),
        std::cmp::Ordering::Greater => Err(failure(What::Stranger)),
    }
}

/// True if no datagram comes any more: the sender is done and all have come or were dropped at this socket, or nothing
/// has come for a while. `quiet_since_ns` is 0 when one has just come.
pub(crate) fn is_drained(stream: &Stream, flow: &Flow, quiet_since_ns: &mut u64) -> bool {
    if flow.sent.0.done.load(Ordering::Acquire) == 0 {
        return false;
    }
    let now = now_ns();
    if *quiet_since_ns == 0 {
        *quiet_since_ns = now;
    }
    let arrived = flow.received.0.transfers.load(Ordering::Relaxed);
    let dropped = sockets::drops(stream.socket).unwrap_or(0);
    let all = arrived + dropped >= flow.sent.0.transfers.load(Ordering::Relaxed);
    let drained = all || now - *quiet_since_ns > QUIET_NS;
    if drained {
        flow.received.0.done.store(1, Ordering::Release);
    }
    drained
}

/// Sleeps until a moment of CLOCK_MONOTONIC; `false` when it is to end before that.
fn sleep_until(at_ns: u64, stopped: impl Fn() -> bool) -> bool {
    loop {
        let now = now_ns();
        if now >= at_ns {
            return true;
        }
        if stopped() {
            return false;
        }
        let until = at_ns.min(now + LOOK_NS);
        let at = libc::timespec { tv_sec: (until / 1_000_000_000) as i64, tv_nsec: (until % 1_000_000_000) as i64 };
        // SAFETY: the kernel reads one timespec; a sleep that a signal ends is begun again.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::add;
    use holdup_load::board::phase;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    /// What a receiver says of a connection on which somebody sends `bytes` bytes and ends, where the one who should
    /// send says that it has sent `said`, or is not done.
    fn receiver_of(bytes: &[u8], said: Option<u64>) -> Option<String> {
        let (mut peer, own) = UnixStream::pair().expect("a pair");
        let flows = Arc::new(Flows::new(1).expect("maps"));
        let workers = Arc::new(Workers::new(1).expect("maps"));
        std::io::Write::write_all(&mut peer, bytes).expect("has room");
        peer.shutdown(std::net::Shutdown::Write).expect("half of it ends");
        if let Some(said) = said {
            add(&flows.slot(0).sent.0.bytes, said);
            flows.slot(0).sent.0.done.store(1, Ordering::Release);
        }
        workers.stage().enter(phase::WARM);
        let job = Job {
            workers: workers.clone(),
            flows,
            index: 0,
            streams: vec![Stream::new(own.as_raw_fd(), 0, false, false, 10)],
            buffer: vec![0; 10],
            is_apart: false,
            interval_ns: 0,
            cpus: None,
            room: Room::new(1),
        };
        job.run();
        let why = workers.slot(0).failure();
        if why.is_some() {
            let left = std::io::Write::write(&mut peer, b"x");
            assert!(left.is_err(), "the other end is notified as well");
        }
        why
    }

    #[test]
    fn a_connection_that_ends_too_early_or_carries_too_much_is_reported() {
        assert_eq!(receiver_of(b"twenty bytes of data", Some(20)), None);
        assert_eq!(
            receiver_of(b"half-closed", None).as_deref(),
            Some("saw connection 0 end before its sender was done")
        );
        assert_eq!(receiver_of(b"short", Some(20)).as_deref(), Some("saw connection 0 end before its sender was done"));
        assert_eq!(
            receiver_of(b"more than was sent", Some(4)).as_deref(),
            Some("got more over connection 0 than was sent")
        );
    }
}
