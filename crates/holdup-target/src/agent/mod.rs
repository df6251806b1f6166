//! The agent: the same program at the other end of a line, in a guest or on another host.
//!
//! It takes [orders](holdup_model::wire::Order) one at a time and carries them out with the sessions of the target
//! `local`, so what happens in a trial is the same wherever it runs. One thread reads, so that a host that says `Off`
//! or goes away ends a trial that is under way; one tells each second that the agent lives.

mod far;
mod line;

pub use far::serve_far;

use crate::local::{self, LocalSession};
use crate::qemu::Kept;
use crate::session::{GuestOptions, Session, SessionRequest};
use crate::sim::{self, Calibration};
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions};
use holdup_model::wire::{Answer, Checked, Hello, MOST_BYTES, Order, Ran, Work};
use holdup_model::{Event, Observer, Problem};
use line::Line;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

/// What an agent needs to know.
pub struct AgentRequest<'a> {
    /// The host that it works on.
    pub host: &'a Host,
    /// Where large temporary files go.
    pub workdir: PathBuf,
    /// What did not work while the guest was set up.
    pub notes: Vec<String>,
}

/// Serves a line until the other side says `Off` or goes away.
///
/// # Errors
/// When the line cannot be written any more. What was open is put back then too.
pub fn serve(
    request: &AgentRequest<'_>,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), Problem> {
    let line = Line::new(output);
    let cancel = Cancel::default();
    let (orders, inbox) = channel();
    line::read_in_background(input, orders, cancel.clone(), line.clone());
    let _beats = line.clone().beat_in_background();
    line.say(&Answer::Hello(Box::new(hello(request))))?;
    loop {
        match inbox.recv() {
            Ok(Order::Check(work)) => {
                let checked = with_session_request(request, *work, &cancel, |sessions| {
                    far::reach(request.host, sessions.plan, &cancel)?;
                    local::ready(sessions).map(|ready| {
                        Box::new(Checked {
                            metrics: ready.metrics,
                            collectors: ready.collectors,
                            touches: ready.touches,
                            notes: ready.notes,
                            preempt: request.host.read_value("/sys/kernel/debug/sched/preempt").ok(),
                        })
                    })
                });
                line.say(&Answer::Checked(checked))?;
            }
            Ok(Order::Open(work)) => {
                if !with_session_request(request, *work, &cancel, |sessions| session(sessions, &inbox, &line))? {
                    return Ok(());
                }
            }
            Ok(Order::Calibrate { hz }) => {
                let with =
                    Calibration { host: request.host, workdir: &request.workdir, pg_bin: None, hz, cancel: &cancel };
                let mut step = |name: &str| Relay { line: &line }.event(Event::Step(&format!("measuring {name}")));
                let result = sim::calibrated(with, &mut step);
                line.say(&Answer::Calibrated(result.map(|described| described.to_toml())))?;
            }
            Ok(Order::Trial { .. } | Order::Close) => {
                line.say(&Answer::Refused("an order for a session came, and none is open".to_owned()))?;
            }
            Ok(Order::Off) | Err(_) => return Ok(()),
        }
    }
}

fn hello(request: &AgentRequest<'_>) -> Hello {
    let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let uptime_ns = u64::try_from(uptime.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
        + u64::try_from(uptime.tv_nsec).unwrap_or(0);
    Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        machine: holdup_host::machine(request.host),
        uptime_ns,
        notes: request.notes.clone(),
    }
}

/// Hands on what sessions of the target `local` want to know.
fn with_session_request<T>(
    request: &AgentRequest<'_>,
    work: Work,
    cancel: &Cancel,
    act: impl FnOnce(&SessionRequest<'_>) -> T,
) -> T {
    let postgres = PostgresOptions { bin: work.postgres_bin.map(PathBuf::from), url: None };
    act(&SessionRequest {
        host: request.host,
        plan: &work.plan,
        schedule: &work.schedule,
        postgres: &postgres,
        workdir: request.workdir.clone(),
        guests: &GuestOptions::default(),
        kept: Kept::default(),
        cancel: cancel.clone(),
    })
}

/// One session, until it is closed or the line ends. Says whether there may be another.
fn session(request: &SessionRequest<'_>, inbox: &Receiver<Order>, line: &Line) -> Result<bool, Problem> {
    let of_peer = match far::facts(request.host, request.plan, &request.cancel) {
        Ok(facts) => facts,
        Err(problem) => return line.say(&Answer::Opened(Err(problem))).map(|()| true),
    };
    let mut session: Box<dyn Session + '_> = match LocalSession::open(request, &mut Relay { line }) {
        Ok(session) => Box::new(session),
        Err(problem) => return line.say(&Answer::Opened(Err(problem))).map(|()| true),
    };
    let environment = session.environment().into_iter().chain(of_peer).collect();
    line.say(&Answer::Opened(Ok(environment)))?;
    loop {
        match inbox.recv() {
            Ok(Order::Trial { arm, spec, seed }) => {
                let draft = session.trial(&arm, &spec, seed);
                let mut ran = Box::new(Ran { trial: draft.trial, problem: draft.problem });
                // A little less than what is refused, for the answer around it.
                ran.fit(MOST_BYTES - 1024);
                line.say(&Answer::Ran(ran))?;
            }
            Ok(Order::Check(_) | Order::Open(_) | Order::Calibrate { .. }) => {
                line.say(&Answer::Refused("an order came that is none for an open session".to_owned()))?;
            }
            Ok(Order::Close) => {
                let closed = session.close();
                let result = closed.left.map_or(Ok(closed.notes), Err);
                let kernel_log = request.host.kernel_log().map_err(|e| e.to_string());
                return line.say(&Answer::Closed { result, kernel_log }).map(|()| true);
            }
            Ok(Order::Off) | Err(_) => {
                // The host has gone or wants no more: what could not be put back ends with the guest, or stays in the
                // undo journal.
                let _nobody_to_tell = session.close();
                return Ok(false);
            }
        }
    }
}

/// Hands what an engine tells to the other side.
struct Relay<'a> {
    line: &'a Line,
}

impl Observer for Relay<'_> {
    fn event(&mut self, event: Event<'_>) {
        let answer = match event {
            Event::Step(text) => Answer::Step(text.to_owned()),
            Event::Note(text) => Answer::Note(text.to_owned()),
            _ => return,
        };
        // A line that is broken shows at the next answer.
        let _broken = self.line.say(&answer);
    }
}
