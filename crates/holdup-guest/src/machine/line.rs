//! What comes from a guest: one thread reads its console, its frames and QEMU's standard error as they arrive, so that
//! the guest never waits for its reader.

use super::console::Console;
use holdup_model::frame::{Damage, Decoder, Received};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes of QEMU's standard error that are kept.
const STDERR_BYTES: usize = 64 << 10;

/// What came so far.
#[derive(Debug)]
pub(super) struct State {
    pub(super) console: Console,
    decoder: Decoder,
    /// Messages, and in their place what is wrong with those that were lost.
    pub(super) inbox: VecDeque<Result<Vec<u8>, String>>,
    pub(super) stderr: Vec<u8>,
    /// Bytes between frames: nobody but the agent should write there.
    pub(super) noise_bytes: u64,
    /// When the last byte of any kind came from the guest.
    pub(super) last_sign: Instant,
    /// When the first whole message came.
    pub(super) first_message: Option<Instant>,
    /// When the console said what ended the guest.
    pub(super) verdict: Option<Instant>,
    /// QEMU closed all of its ends: it has ended.
    pub(super) gone: bool,
}

/// The state, shared with the thread that reads.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) changed: Condvar,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // A reader that panicked has left whole messages; there is nothing to be half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ends that are read.
pub(super) struct Ends {
    pub(super) console: OwnedFd,
    pub(super) channel: OwnedFd,
    pub(super) stderr: Option<OwnedFd>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Console,
    Channel,
    Stderr,
}

/// Starts the thread; it ends when QEMU has closed its ends.
pub(super) fn read(ends: Ends) -> std::io::Result<Arc<Shared>> {
    let state = State {
        console: Console::default(),
        decoder: Decoder::new(),
        inbox: VecDeque::new(),
        stderr: Vec::new(),
        noise_bytes: 0,
        last_sign: Instant::now(),
        first_message: None,
        verdict: None,
        gone: false,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    let theirs = Arc::clone(&shared);
    std::thread::Builder::new().name("holdup-guest".to_owned()).spawn(move || follow(ends, &theirs))?;
    Ok(shared)
}

fn follow(ends: Ends, shared: &Shared) {
    let mut open = vec![(Source::Console, ends.console), (Source::Channel, ends.channel)];
    open.extend(ends.stderr.map(|fd| (Source::Stderr, fd)));
    let mut buffer = vec![0; 64 << 10];
    while !open.is_empty() {
        let mut polled: Vec<PollFd<'_>> = open.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::IN)).collect();
        if rustix::event::poll(&mut polled, None).is_err_and(|e| e != rustix::io::Errno::INTR) {
            break;
        }
        let ready: Vec<bool> = polled.iter().map(|p| !p.revents().is_empty()).collect();
        let mut at = 0;
        open.retain(|(source, fd)| {
            at += 1;
            if !ready[at - 1] {
                return true;
            }
            match rustix::io::read(fd, &mut buffer) {
                Ok(0) => false,
                Ok(count) => {
                    take(&mut shared.lock(), *source, &buffer[..count]);
                    shared.changed.notify_all();
                    true
                }
                Err(e) => matches!(e, rustix::io::Errno::INTR | rustix::io::Errno::AGAIN),
            }
        });
    }
    let mut state = shared.lock();
    state.console.end_line();
    note_verdict(&mut state);
    while let Some(received) = state.decoder.end() {
        match received {
            // A message that the guest's end cut off is a consequence of that end, and must not hide its cause.
            Received::Damaged { why: Damage::Ended, bytes } => state.noise_bytes += bytes.len() as u64,
            other => sort(&mut state, other),
        }
    }
    state.gone = true;
    drop(state);
    shared.changed.notify_all();
}

fn take(state: &mut State, source: Source, bytes: &[u8]) {
    match source {
        Source::Console => {
            state.last_sign = Instant::now();
            state.console.feed(bytes);
            note_verdict(state);
        }
        Source::Channel => {
            state.last_sign = Instant::now();
            state.decoder.feed(bytes);
            while let Some(received) = state.decoder.next() {
                sort(state, received);
            }
        }
        Source::Stderr => {
            state.stderr.extend_from_slice(bytes);
            let surplus = state.stderr.len().saturating_sub(STDERR_BYTES);
            state.stderr.drain(..surplus);
        }
    }
}

fn note_verdict(state: &mut State) {
    if state.console.verdict().is_some() {
        state.verdict.get_or_insert_with(Instant::now);
    }
}

fn sort(state: &mut State, received: Received) {
    match received {
        Received::Frame { payload, .. } => {
            state.first_message.get_or_insert_with(Instant::now);
            state.inbox.push_back(Ok(payload));
        }
        Received::Gap { expected, found } => {
            let why = format!("message {expected} was due and {found} came");
            state.inbox.push_back(Err(why));
        }
        Received::Noise(bytes) => state.noise_bytes += bytes.len() as u64,
        Received::Damaged { why, bytes } => {
            state.noise_bytes += bytes.len() as u64;
            state.inbox.push_back(Err(format!("something that began like a message: {why}")));
        }
    }
}
