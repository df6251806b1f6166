//! A worker with several connections: all of them in one epoll(7), level-triggered, one call for each event.
//!
//! One call for each event is what keeps the connections even: none continues while another one is ready.

use crate::counts::{Failure, What, Worker};
use crate::flow::{Moved, Stream};
use crate::worker::{Job, LOOK_NS, end, ended, is_drained};
use holdup_load::clock::now_ns;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::os::fd::RawFd;

/// Events taken with one call.
const EVENTS: usize = 256;

/// Memory of the loop, made before the worker starts.
#[derive(Default)]
pub(crate) struct Room {
    events: Vec<libc::epoll_event>,
    /// When the next transfers of paced connections are due, ns, with the place of the connection.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    /// When receivers of datagrams saw the last one; 0 for none since.
    quiet_since_ns: Vec<u64>,
    over: Vec<bool>,
}

impl Room {
    /// Room for that number of connections.
    pub(crate) fn new(streams: usize) -> Self {
        if streams < 2 {
            return Room::default();
        }
        Room {
            events: vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS.min(streams)],
            due: BinaryHeap::with_capacity(streams + 1),
            quiet_since_ns: vec![0; streams],
            over: vec![false; streams],
        }
    }
}

struct Epoll(RawFd);

impl Epoll {
    fn new() -> io::Result<Self> {
        // SAFETY: a plain system call.
        match unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) } {
            -1 => Err(io::Error::last_os_error()),
            epoll => Ok(Epoll(epoll)),
        }
    }

    fn control(&self, operation: i32, socket: RawFd, events: i32, place: usize) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events as u32, u64: place as u64 };
        // SAFETY: the kernel reads one event.
        match unsafe { libc::epoll_ctl(self.0, operation, socket, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits for events; to the ns where the kernel can (epoll_pwait2, since 5.11), else to the ms.
    fn wait(&self, events: &mut [libc::epoll_event], at_most_ns: u64) -> io::Result<usize> {
        let most = events.len() as i32;
        let timeout = libc::timespec {
            tv_sec: (at_most_ns / 1_000_000_000) as i64,
            tv_nsec: (at_most_ns % 1_000_000_000) as i64,
        };
        // SAFETY: the kernel writes at most `most` events and reads one timespec.
        let mut got = unsafe {
            let no_mask = std::ptr::null::<libc::sigset_t>();
            libc::syscall(libc::SYS_epoll_pwait2, self.0, events.as_mut_ptr(), most, &raw const timeout, no_mask, 0)
        };
        if got == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            let ms = at_most_ns.div_ceil(1_000_000) as i32;
            // SAFETY: the same without the timespec.
            got = i64::from(unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), most, ms) });
        }
        match usize::try_from(got) {
            Ok(n) => Ok(n),
            Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => Ok(0),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // SAFETY: it is this one's own.
        unsafe { libc::close(self.0) };
    }
}

fn cannot_wait(error: io::Error) -> Failure {
    Failure::new(What::Wait, 0, &error)
}

/// Works on all connections of the worker until they are over.
pub(crate) fn run(job: &mut Job, worker: &Worker) -> Result<(), Failure> {
    let epoll = Epoll::new().map_err(cannot_wait)?;
    let begin_ns = now_ns();
    let count = job.streams.len();
    for (place, stream) in job.streams.iter().enumerate() {
        let events = if !stream.sends {
            libc::EPOLLIN
        } else if job.interval_ns == 0 {
            libc::EPOLLOUT
        } else {
            // Spread over the first interval, so that they do not all come at the same time.
            let offset_ns = (u128::from(job.interval_ns) * place as u128 / count as u128) as u64;
            job.room.due.push(Reverse((begin_ns + offset_ns, place as u32)));
            0
        };
        epoll.control(libc::EPOLL_CTL_ADD, stream.socket, events, place).map_err(cannot_wait)?;
    }
    let mut many = Many { left: count, senders_ended: false, job, worker, epoll };
    while many.left > 0 {
        many.turn()?;
    }
    Ok(())
}

struct Many<'a> {
    job: &'a mut Job,
    worker: &'a Worker,
    epoll: Epoll,
    left: usize,
    senders_ended: bool,
}

impl Many<'_> {
    fn turn(&mut self) -> Result<(), Failure> {
        let stopped = self.job.workers.stage().stopped();
        if stopped && !self.senders_ended {
            self.end_senders()?;
        }
        let wait_ns = if self.job.interval_ns == 0 || stopped { LOOK_NS } else { self.send_due()? };
        let mut events = std::mem::take(&mut self.job.room.events);
        let got = self.epoll.wait(&mut events, wait_ns).map_err(cannot_wait);
        let mut done = got.as_ref().map(|_| ()).map_err(|e| *e);
        for event in &events[..got.unwrap_or(0)] {
            done = self.one(event.u64 as usize);
            if done.is_err() {
                break;
            }
        }
        self.job.room.events = events;
        done?;
        if stopped {
            self.end_of_datagrams();
        }
        Ok(())
    }

    /// Begins the transfers that are due. Returns how long it is until the next one is.
    fn send_due(&mut self) -> Result<u64, Failure> {
        loop {
            let now = now_ns();
            match self.job.room.due.peek() {
                Some(Reverse((at_ns, _))) if *at_ns > now => return Ok((at_ns - now).min(LOOK_NS)),
                None => return Ok(LOOK_NS),
                Some(_) => {}
            }
            let Some(Reverse((at_ns, place))) = self.job.room.due.pop() else { return Ok(LOOK_NS) };
            let stream = &mut self.job.streams[place as usize];
            stream.due(at_ns);
            self.job.room.quiet_since_ns[place as usize] = at_ns;
            if !self.send_paced(place as usize)? {
                self.interest(place as usize, libc::EPOLLOUT)?;
            }
        }
    }

    /// One call for a paced connection; whether its transfer is over, and the next one so has its moment.
    fn send_paced(&mut self, place: usize) -> Result<bool, Failure> {
        let stream = &mut self.job.streams[place];
        let flow = self.job.flows.slot(stream.connection);
        let moved = stream.send(&mut self.job.buffer, flow, libc::MSG_DONTWAIT);
        let moved = moved.map_err(|e| Failure::new(What::Send, stream.connection, &e))?;
        if moved == Moved::Whole {
            // A moment that is over by now is kept: the load does not wait for slow connections.
            let next_ns = self.job.room.quiet_since_ns[place] + self.job.interval_ns;
            self.job.room.due.push(Reverse((next_ns, place as u32)));
        }
        Ok(moved == Moved::Whole)
    }

    fn interest(&self, place: usize, events: i32) -> Result<(), Failure> {
        let socket = self.job.streams[place].socket;
        self.epoll.control(libc::EPOLL_CTL_MOD, socket, events, place).map_err(cannot_wait)
    }

    /// What one event asks for.
    fn one(&mut self, place: usize) -> Result<(), Failure> {
        if self.job.room.over[place] {
            return Ok(());
        }
        let stream = &mut self.job.streams[place];
        let flow = self.job.flows.slot(stream.connection);
        if stream.sends && self.job.interval_ns > 0 {
            return if self.send_paced(place)? { self.interest(place, 0) } else { Ok(()) };
        }
        if stream.sends {
            if !stream.is_under_way() {
                stream.due(now_ns());
            }
            let sent = stream.send(&mut self.job.buffer, flow, libc::MSG_DONTWAIT);
            return sent.map(|_| ()).map_err(|e| Failure::new(What::Send, stream.connection, &e));
        }
        let latency = self.job.workers.stage().is_open().then_some(&self.worker.latency);
        let moved = stream.receive(&mut self.job.buffer, flow, libc::MSG_DONTWAIT, latency);
        match moved.map_err(|e| Failure::new(What::Receive, stream.connection, &e))? {
            Moved::End => {
                ended(stream, flow, self.job.is_apart)?;
                self.over(place)
            }
            Moved::Some | Moved::Whole => {
                self.job.room.quiet_since_ns[place] = 0;
                Ok(())
            }
            Moved::Wait => Ok(()),
        }
    }

    fn over(&mut self, place: usize) -> Result<(), Failure> {
        self.job.room.over[place] = true;
        self.left -= 1;
        let socket = self.job.streams[place].socket;
        self.epoll.control(libc::EPOLL_CTL_DEL, socket, 0, place).map_err(cannot_wait)
    }

    fn end_senders(&mut self) -> Result<(), Failure> {
        self.senders_ended = true;
        for place in 0..self.job.streams.len() {
            let stream = &self.job.streams[place];
            if stream.sends {
                end(stream, self.job.flows.slot(stream.connection))?;
                self.over(place)?;
            }
        }
        Ok(())
    }

    /// Receivers of datagrams see no end of their connection.
    fn end_of_datagrams(&mut self) {
        for place in 0..self.job.streams.len() {
            let stream: &Stream = &self.job.streams[place];
            if stream.is_udp && !stream.sends && !self.job.room.over[place] {
                let flow = self.job.flows.slot(stream.connection);
                if is_drained(stream, flow, &mut self.job.room.quiet_since_ns[place]) {
                    self.job.room.over[place] = true;
                    self.left -= 1;
                }
            }
        }
    }
}
