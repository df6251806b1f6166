//! The line to an agent: whole messages in both directions over the streams of one `ssh`.
//!
//! Each side sends something every second, so a line that is silent differs from a trial that is long. What the shell at the far
//! end prints before the agent begins is noise between frames.

use crate::address::Address;
use crate::client::end;
use crate::trouble;
use holdup_model::Problem;
use holdup_model::frame::{Decoder, Received, encode};
use holdup_model::wire::{self, Answer, Order};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The interval of heartbeats.
const BEAT: Duration = Duration::from_secs(1);
/// How long ssh may take to end once its streams are closed.
const END: Duration = Duration::from_secs(5);
/// The most that is kept of what ssh and the far end's programs say.
const MOST_STDERR: usize = 64 << 10;
/// Messages that were read and not yet taken. With one that is read and one that is taken they are the most that a host has here.
const MOST_MESSAGES: usize = 1;
/// How often a wait looks whether it should end.
const LOOK: Duration = Duration::from_millis(100);

/// Why a line is of no more use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost(pub String);

/// A line to an agent.
#[derive(Debug)]
pub struct Line {
    child: Child,
    address: Address,
    input: Arc<Mutex<Input>>,
    inbox: Receiver<Result<Vec<u8>, String>>,
    seen: Arc<Mutex<Seen>>,
    dead_after: Duration,
    /// What came first, until it is taken.
    first: Option<Vec<u8>>,
    _beats: Sender<()>,
}

#[derive(Debug)]
struct Input {
    /// Writing has a time limit. Gone once it was exceeded: a part of a message may have been written.
    to: Option<UnixStream>,
    sequence: u32,
}

/// What came so far.
#[derive(Debug)]
struct Seen {
    last: Instant,
    stderr: Vec<u8>,
}

/// What became of a line that was just opened.
pub(crate) enum Start {
    Line(Box<Line>),
    /// It ended before the agent said anything.
    Ended {
        code: Option<i32>,
        stderr: String,
    },
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Input {
    fn send(&mut self, payload: &[u8]) -> std::io::Result<()> {
        let frame = encode(self.sequence, payload);
        let to = self.to.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?;
        self.sequence = self.sequence.wrapping_add(1);
        to.write_all(&frame).inspect_err(|_| self.to = None)
    }
}

impl Line {
    pub(crate) fn new(
        mut child: Child,
        to: UnixStream,
        address: Address,
        dead_after: Duration,
    ) -> Result<Self, Problem> {
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(Problem::internal("ssh", "its streams are not pipes"));
        };
        let seen = Arc::new(Mutex::new(Seen { last: Instant::now(), stderr: Vec::new() }));
        let (send, inbox) = sync_channel(MOST_MESSAGES);
        let theirs = Arc::clone(&seen);
        std::thread::spawn(move || read(stdout, &send, &theirs));
        let theirs = Arc::clone(&seen);
        std::thread::spawn(move || listen(stderr, &theirs));
        let input = Arc::new(Mutex::new(Input { to: Some(to), sequence: 0 }));
        let beats = beat(Arc::clone(&input));
        Ok(Line { child, address, input, inbox, seen, dead_after, first: None, _beats: beats })
    }

    /// Waits until the agent has said something.
    pub(crate) fn first_word(mut self, limit: Duration, cancelled: &dyn Fn() -> bool) -> Result<Start, Problem> {
        let until = Instant::now() + limit;
        loop {
            match self.inbox.recv_timeout(LOOK) {
                Ok(first) => {
                    self.first = first.ok();
                    return Ok(Start::Line(Box::new(self)));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let code = self.exit_code();
                    return Ok(Start::Ended { code, stderr: self.stderr() });
                }
                Err(RecvTimeoutError::Timeout) if cancelled() => {
                    return Err(Problem::interrupted(format!("host {}", self.address)));
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() > until => {
                    let said = trouble::last_line(&self.stderr());
                    let said = if said.is_empty() { String::new() } else { format!("; it said: {said}") };
                    let why = format!("its agent said nothing within {} s{said}", limit.as_secs());
                    return Err(Problem::host(format!("host {}", self.address), why)
                        .hint(format!("does `ssh {} true` end?", self.address)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Sends a message.
    ///
    /// # Errors
    /// When the line has ended.
    pub fn send(&mut self, payload: &[u8]) -> Result<(), Lost> {
        let sent = lock(&self.input).send(payload);
        sent.map_err(|e| match e.kind() {
            ErrorKind::WouldBlock => Lost(format!("it read nothing for {} s", self.dead_after.as_secs_f64())),
            _ => self.ended(),
        })
    }

    /// The next message; `None` when none came in this time.
    ///
    /// # Errors
    /// When the line has ended, was silent for too long, or lost a message.
    pub fn receive(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, Lost> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        match self.inbox.recv_timeout(wait) {
            Ok(Ok(payload)) => Ok(Some(payload)),
            Ok(Err(why)) => Err(Lost(why)),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
            Err(RecvTimeoutError::Timeout) if lock(&self.seen).last.elapsed() > self.dead_after => {
                Err(Lost(format!("the line was silent for {} s", self.dead_after.as_secs_f64())))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
        }
    }

    /// Ends the agent and the connection.
    pub fn end(mut self) {
        // An agent that has gone, or a line that broke, changes nothing.
        let _broken = self.send(&wire::to_bytes(&Order::Off));
        lock(&self.input).to = None;
        let _code = self.exit_code();
    }

    /// Why it ended.
    fn ended(&mut self) -> Lost {
        let _code = self.exit_code();
        let said = trouble::last_line(&self.stderr());
        Lost(if said.is_empty() { "the connection ended".to_owned() } else { format!("the connection ended: {said}") })
    }

    /// Waits for ssh to end, and ends it when it does not.
    fn exit_code(&mut self) -> Option<i32> {
        let until = Instant::now() + END;
        while Instant::now() < until {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code(),
                Ok(None) => std::thread::sleep(Duration::from_millis(10)),
                Err(_) => return None,
            }
        }
        end(&mut self.child);
        None
    }

    fn stderr(&self) -> String {
        // What was written last may still be on its way.
        std::thread::sleep(Duration::from_millis(50));
        String::from_utf8_lossy(&lock(&self.seen).stderr).into_owned()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Sends a heartbeat each second, until the returned value is dropped.
fn beat(input: Arc<Mutex<Input>>) -> Sender<()> {
    let (stop, stopped) = channel::<()>();
    std::thread::spawn(move || {
        let payload = wire::to_bytes(&Order::Alive);
        while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            if lock(&input).send(&payload).is_err() {
                return;
            }
        }
    });
    stop
}

/// Takes messages out of what comes; its end is that of the channel. While the channel is full nothing is read. Heartbeats need no
/// room in it: they come also between two orders.
fn read(mut from: impl Read, messages: &SyncSender<Result<Vec<u8>, String>>, seen: &Mutex<Seen>) {
    let alive = wire::to_bytes(&Answer::Alive);
    let mut decoder = Decoder::new();
    let mut bytes = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        lock(seen).last = Instant::now();
        decoder.feed(&bytes[..n]);
        while let Some(received) = decoder.next() {
            let message = match received {
                Received::Frame { payload, .. } if payload == alive => continue,
                Received::Frame { payload, .. } => Ok(payload),
                Received::Noise(_) => continue,
                Received::Gap { expected, found } => {
                    Err(format!("message {expected} was expected and {found} received"))
                }
                Received::Damaged { why, .. } => Err(format!("a damaged message: {why}")),
            };
            if messages.send(message).is_err() {
                return;
            }
            // While a message waited for room, nothing was read.
            lock(seen).last = Instant::now();
        }
    }
}

fn listen(mut from: impl Read, seen: &Mutex<Seen>) {
    let mut bytes = vec![0; 4 << 10];
    while let Ok(n @ 1..) = from.read(&mut bytes) {
        let mut seen = lock(seen);
        seen.stderr.extend_from_slice(&bytes[..n]);
        let surplus = seen.stderr.len().saturating_sub(MOST_STDERR);
        seen.stderr.drain(..surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Messages without end, with a heartbeat before each, and their number.
    struct EndlessMessages(Arc<AtomicUsize>);

    impl Read for EndlessMessages {
        fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
            let n = self.0.fetch_add(1, Ordering::SeqCst) as u32;
            let frames = [encode(2 * n, &wire::to_bytes(&Answer::Alive)), encode(2 * n + 1, b"message")].concat();
            bytes[..frames.len()].copy_from_slice(&frames);
            Ok(frames.len())
        }
    }

    #[test]
    fn a_line_is_not_silent_while_its_messages_wait_here() {
        let (send, inbox) = sync_channel(MOST_MESSAGES);
        let seen = Arc::new(Mutex::new(Seen { last: Instant::now(), stderr: Vec::new() }));
        let theirs = Arc::clone(&seen);
        let bytes = (0..3).flat_map(|n| encode(n, b"message")).collect::<Vec<u8>>();
        let reader = std::thread::spawn(move || read(&bytes[..], &send, &theirs));
        // All are read immediately: the second waits in the channel, the third for room.
        inbox.recv().expect("a message").expect("whole");
        let taken = Instant::now();
        assert_eq!(inbox.iter().count(), 2);
        reader.join().expect("it ends");
        assert!(lock(&seen).last >= taken);
    }

    #[test]
    fn a_flood_of_messages_waits_at_the_host() {
        let read_so_far = Arc::new(AtomicUsize::new(0));
        let (send, inbox) = sync_channel(MOST_MESSAGES);
        let flood = EndlessMessages(Arc::clone(&read_so_far));
        let reader = std::thread::spawn(move || {
            read(flood, &send, &Mutex::new(Seen { last: Instant::now(), stderr: Vec::new() }));
        });
        for _ in 0..10 {
            assert_eq!(inbox.recv(), Ok(Ok(b"message".to_vec())));
        }
        std::thread::sleep(Duration::from_millis(100));
        // Ten are taken, one waits, and one is about to.
        assert!(read_so_far.load(Ordering::SeqCst) <= 12, "{read_so_far:?}");
        drop(inbox);
        reader.join().expect("it ends with who takes the messages");
    }
}
