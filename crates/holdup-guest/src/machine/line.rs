//! Reads from a guest: one thread drains its console, its frames and QEMU's standard error, so that the guest never blocks.

use super::console::Console;
use holdup_model::frame::{Damage, Decoder, Received};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

const STDERR_BYTES: usize = 64 << 10;

/// Everything received so far.
#[derive(Debug)]
pub(super) struct State {
    pub(super) console: Console,
    decoder: Decoder,
    /// Messages, or the reason why one was lost.
    pub(super) inbox: VecDeque<Result<Vec<u8>, String>>,
    pub(super) stderr: Vec<u8>,
    /// Bytes that belong to no frame.
    pub(super) noise_bytes: u64,
    pub(super) last_sign: Instant,
    pub(super) first_message: Option<Instant>,
    /// When the console showed the end of the guest.
    pub(super) verdict: Option<Instant>,
    /// QEMU has closed all sockets: it has ended.
    pub(super) gone: bool,
}

#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) changed: Condvar,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // The state is consistent even if the reader panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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

/// Starts the thread, which ends when QEMU has closed its sockets.
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
            // A message truncated by the guest's end must not hide the cause of that end.
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
            let why = format!("message {expected} was expected and {found} received");
            state.inbox.push_back(Err(why));
        }
        Received::Noise(bytes) => state.noise_bytes += bytes.len() as u64,
        Received::Damaged { why, bytes } => {
            state.noise_bytes += bytes.len() as u64;
            state.inbox.push_back(Err(format!("a damaged message: {why}")));
        }
    }
}
