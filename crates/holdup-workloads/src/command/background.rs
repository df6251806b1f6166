//! A program that runs beside the one that is measured: the server of a client.

use crate::command::spawn::Program;
use crate::command::supervise::{Group, Streams, Usage};
use crate::command::tail::Tail;
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::Problem;
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a wait looks again.
const LOOK: Duration = Duration::from_millis(5);
/// How often the reader of a silent program looks whether it is over.
const SILENCE: Duration = Duration::from_millis(250);
/// How long it may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(2);

/// A running program. Dropping it ends its whole group.
pub(crate) struct BackgroundProcess {
    group: Group,
    reader: Option<JoinHandle<(Tail, Tail)>>,
    over: Arc<AtomicBool>,
    name: String,
}

/// A program that has ended.
pub(crate) struct Completed {
    pub(crate) stdout: Tail,
    pub(crate) stderr: Tail,
    pub(crate) usage: Usage,
}

impl BackgroundProcess {
    /// Starts it, on some CPUs or on those of holdup. Its output is read by a thread, so that it never waits for that.
    pub(crate) fn start(
        program: &Program,
        host: &Host,
        cpus: Option<&[u32]>,
        kept: (usize, usize),
        name: &str,
    ) -> Result<Self, Problem> {
        let (group, at_gate) = Group::start(program, host, cpus, name)?;
        let streams = Streams::of(at_gate, kept, name)?;
        let over = Arc::new(AtomicBool::new(false));
        let seen = over.clone();
        let reader = std::thread::Builder::new()
            .name("reads-server".to_owned())
            .spawn(move || read(streams, &seen))
            .map_err(|e| Problem::trial(format!("command {name}"), format!("no thread can be made: {e}")))?;
        Ok(BackgroundProcess { group, reader: Some(reader), over, name: name.to_owned() })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.group.number()
    }

    /// True if its first process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.group.has_ended()
    }

    /// Waits until a condition holds; says whether it does. It does not once the program has ended, the time is over,
    /// or everything is asked to end.
    pub(crate) fn wait_until(&self, cancel: &Cancel, longest: Duration, condition: &dyn Fn() -> bool) -> bool {
        let deadline = Instant::now() + longest;
        loop {
            if condition() {
                return true;
            }
            if self.has_ended() || cancel.is_cancelled() || Instant::now() >= deadline {
                return false;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Waits for a moment until it has waited for its own children, so that their CPU time is in its account.
    pub(crate) fn wait_for_children(&self, host: &Host, cancel: &Cancel, longest: Duration) -> bool {
        self.wait_until(cancel, longest, &|| self.group.is_alone(host))
    }

    /// Asks it to end with a signal, then kills what is left of its group, and gives what it said.
    pub(crate) fn end(mut self, signal: Signal) -> Result<Completed, Problem> {
        self.group.signal(signal);
        self.wait_until(&Cancel::default(), GRACE, &|| false);
        self.group.signal(Signal::KILL);
        let (_, usage) = self.group.wait()?;
        self.over.store(true, Ordering::SeqCst);
        let said = self.reader.take().map(JoinHandle::join);
        let Some(Ok((stdout, stderr))) = said else {
            return Err(Problem::internal(
                format!("command {}", self.name),
                "the thread that reads its output has failed",
            ));
        };
        Ok(Completed { stdout, stderr, usage })
    }
}

impl Drop for BackgroundProcess {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        self.group.signal(Signal::KILL);
        if let Some(reader) = self.reader.take() {
            let _nothing_to_report = reader.join();
        }
    }
}

fn read(mut streams: Streams, over: &AtomicBool) -> (Tail, Tail) {
    while (streams.stdout.0.is_some() || streams.stderr.0.is_some()) && !over.load(Ordering::SeqCst) {
        streams.poll(None, SILENCE);
    }
    streams.last_words();
    (streams.stdout.1, streams.stderr.1)
}
