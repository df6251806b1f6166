//! The agent: the same program at the other end of a connection, in a guest or on another host.
//!
//! It takes [orders](holdup_model::wire::Order) one at a time and carries them out with the sessions of the target
//! `local`, so what happens in a trial is the same wherever it runs. One thread reads, so that a host that sends `Off`
//! or goes away ends a trial that is under way; one sends a heartbeat each second.

mod client;
mod connection;
mod hosted;
mod peer;

pub use hosted::Hosted;
pub use peer::serve_peer;

use crate::local::{self, LocalSession};
use crate::qemu::BootCache;
use crate::session::{GuestOptions, Session, SessionRequest};
use crate::sim::{self, Calibration};
use client::Way;
use connection::Connection;
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions};
use holdup_model::wire::{Answer, Checked, Hello, MOST_BYTES, Order, Ran, Work};
use holdup_model::{Event, Observer, Problem};
use holdup_ssh::SshOptions;
use hosted::Hold;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};

/// What an agent needs to know.
pub struct AgentRequest<'a> {
    /// The host that it works on.
    pub host: &'a Host,
    /// Where large temporary files go.
    pub workdir: PathBuf,
    /// What did not work while the guest was set up.
    pub notes: Vec<String>,
    /// On a host that stays when the agent ends; `None` in a guest.
    pub hosted: Option<Hosted>,
}

/// Serves a connection until the other side sends `Off` or closes it.
///
/// # Errors
/// When the connection breaks. An open session is closed then too.
pub fn serve(
    request: &AgentRequest<'_>,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), Problem> {
    let connection = Connection::new(output);
    let cancel = Cancel::default();
    let (orders, inbox) = channel();
    let (of_clients, answers) = channel();
    connection::read_in_background(input, (orders, of_clients), cancel.clone(), connection.clone());
    let way = Way { connection: connection.clone(), answers: Arc::new(Mutex::new(answers)), cancel: cancel.clone() };
    let _beats = connection.clone().beat_in_background();
    connection.send(&Answer::Hello(Box::new(hello(request))))?;
    let mut has_work = false;
    loop {
        let order = inbox.recv();
        // An order shows that the answer before it was read, and with it what an agent did; an order without work prints
        // no answer.
        has_work |= matches!(order, Ok(Order::Check(_) | Order::Open(_) | Order::Attend { .. } | Order::Close));
        if request.hosted.is_some() && has_work && order.is_ok() {
            hosted::forget(request.host);
        }
        match order {
            Ok(Order::Check(work)) => {
                let checked = with_session_request(request, *work, &way, |sessions| {
                    peer::reach(request.host, sessions.plan, &cancel)?;
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
                connection.send(&Answer::Checked(checked))?;
            }
            Ok(Order::Open(work)) => {
                if !with_session_request(request, *work, &way, |sessions| {
                    session(request, sessions, &inbox, &connection)
                })? {
                    return Ok(());
                }
            }
            Ok(Order::Attend { postgres_bin, plan }) => {
                let with = client::Attending { agent: request, postgres_bin, plan: *plan, cancel: &cancel };
                if !client::attend(with, &inbox, &connection)? {
                    return Ok(());
                }
            }
            Ok(Order::Calibrate { hz }) => {
                let with =
                    Calibration { host: request.host, workdir: &request.workdir, pg_bin: None, hz, cancel: &cancel };
                let mut step =
                    |name: &str| Relay { connection: &connection }.event(Event::Step(&format!("measuring {name}")));
                let result = sim::calibrated(with, &mut step);
                connection.send(&Answer::Calibrated(result.map(|described| described.to_toml())))?;
            }
            Ok(Order::Close) if request.hosted.is_some() => {
                let result = put_back(request, &cancel);
                connection.send(&Answer::Closed { result, kernel_log: Ok(String::new()) })?;
            }
            Ok(Order::Trial { .. } | Order::Client(_) | Order::Close) => {
                connection.send(&Answer::Refused("an order for a session came, and none is open".to_owned()))?;
            }
            // The reader has answered these.
            Ok(Order::Alive | Order::Cancel | Order::Clock | Order::OfClients(_)) => {}
            Ok(Order::Off) | Err(_) => return Ok(()),
        }
    }
}

/// Puts back what an agent before this one left changed, where no session is open.
fn put_back(request: &AgentRequest<'_>, cancel: &Cancel) -> Result<Vec<String>, Problem> {
    let taken = request.hosted.as_ref().map(|hosted| Hold::take(request.host, hosted, cancel)).transpose()?;
    Ok(taken.map(Hold::done).unwrap_or_default())
}

fn hello(request: &AgentRequest<'_>) -> Hello {
    let uptime = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let uptime_ns = u64::try_from(uptime.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
        + u64::try_from(uptime.tv_nsec).unwrap_or(0);
    let of_last = request.hosted.is_some().then(|| hosted::last(request.host)).flatten();
    Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        release: rustix::system::uname().release().to_string_lossy().into_owned(),
        machine: holdup_host::machine(request.host),
        uptime_ns,
        boot_id: hosted::boot_id(request.host),
        is_root: rustix::process::geteuid().is_root(),
        notes: request.notes.iter().cloned().chain(of_last).collect(),
    }
}

/// Hands on what sessions of the target `local` want to know.
fn with_session_request<T>(
    request: &AgentRequest<'_>,
    work: Work,
    way: &Way,
    act: impl FnOnce(&SessionRequest<'_>) -> T,
) -> T {
    let builds = work.postgres_builds.into_iter().map(|(level, bin)| (level, PathBuf::from(bin))).collect();
    let postgres = PostgresOptions { bin: work.postgres_bin.map(PathBuf::from), url: work.postgres_url, builds };
    let names = work.plan.hosts.as_ref().map(|hosts| hosts.clients.clone()).unwrap_or_default();
    act(&SessionRequest {
        clients: work.clients.map(|view| way.clients(names, view)),
        host: request.host,
        plan: &work.plan,
        schedule: &work.schedule,
        postgres: &postgres,
        workdir: request.workdir.clone(),
        guests: &GuestOptions::default(),
        boot_cache: BootCache::default(),
        threads: None,
        ssh: &SshOptions::default(),
        cancel: way.cancel.clone(),
    })
}

/// One session, until it is closed or the connection ends. Whether there may be another.
fn session(
    agent: &AgentRequest<'_>,
    request: &SessionRequest<'_>,
    inbox: &Receiver<Order>,
    connection: &Connection,
) -> Result<bool, Problem> {
    let hold = match agent.hosted.as_ref().map(|hosted| Hold::take(request.host, hosted, &request.cancel)).transpose() {
        Ok(hold) => hold,
        Err(problem) => return connection.send(&Answer::Opened(Err(problem))).map(|()| true),
    };
    for note in hold.iter().flat_map(|hold| &hold.notes) {
        // A broken connection shows at the next answer.
        let _broken = connection.send(&Answer::Note(note.clone()));
    }
    let opened = open_session(request, hold.is_none(), inbox, connection);
    let (answered, left) = match opened {
        Ok(Ended::Closed(left)) => (Ok(true), left),
        Ok(Ended::Lost(left)) => (Ok(false), left),
        // The session was closed when it was dropped.
        Err(problem) => (Err(problem), None),
    };
    if let Some(hold) = hold {
        hold.ended(left.as_ref());
    }
    answered
}

/// How a session ended.
enum Ended {
    /// As it was ordered, with what could not be put back.
    Closed(Option<Problem>),
    /// Without the other side, with what could not be put back.
    Lost(Option<Problem>),
}

fn open_session(
    request: &SessionRequest<'_>,
    is_guest: bool,
    inbox: &Receiver<Order>,
    connection: &Connection,
) -> Result<Ended, Problem> {
    let of_peer = match peer::facts(request.host, request.plan, &request.cancel) {
        Ok(facts) => facts,
        Err(problem) => return connection.send(&Answer::Opened(Err(problem))).map(|()| Ended::Closed(None)),
    };
    let mut session: Box<dyn Session + '_> = match LocalSession::open(request, &mut Relay { connection }) {
        // A broken connection shows at the next answer.
        Ok(session) => Box::new(session.saying(|text| drop(connection.send(&Answer::Step(text.to_owned()))))),
        Err(problem) => return connection.send(&Answer::Opened(Err(problem))).map(|()| Ended::Closed(None)),
    };
    let environment = session.environment().into_iter().chain(of_peer).collect();
    if connection.send(&Answer::Opened(Ok(environment))).is_err() {
        return Ok(Ended::Lost(session.close().left));
    }
    loop {
        match inbox.recv() {
            Ok(Order::Trial { arm, spec, seed }) => {
                let draft = session.trial(&arm, &spec, seed);
                let mut ran = Box::new(Ran { trial: draft.trial, problem: draft.problem });
                // A little less than what is refused, for the answer around it.
                ran.fit(MOST_BYTES - 1024);
                if connection.send(&Answer::Ran(ran)).is_err() {
                    return Ok(Ended::Lost(session.close().left));
                }
            }
            Ok(Order::Alive | Order::Cancel | Order::Clock | Order::OfClients(_)) => {}
            Ok(
                Order::Check(_) | Order::Open(_) | Order::Attend { .. } | Order::Client(_) | Order::Calibrate { .. },
            ) => {
                connection.send(&Answer::Refused("an order came that is none for an open session".to_owned()))?;
            }
            Ok(Order::Close) => {
                let closed = session.close();
                let left = closed.left.clone();
                let result = closed.left.map_or(Ok(closed.notes), Err);
                // Of a host that stays it holds more than the run.
                let kernel_log = match is_guest {
                    true => request.host.kernel_log().map_err(|e| e.to_string()),
                    false => Ok(String::new()),
                };
                let sent = connection.send(&Answer::Closed { result, kernel_log });
                return Ok(if sent.is_ok() { Ended::Closed(left) } else { Ended::Lost(left) });
            }
            Ok(Order::Off) | Err(_) => {
                // The other side has gone or wants no more: what could not be put back ends with the guest, or stays in
                // the undo journal.
                return Ok(Ended::Lost(session.close().left));
            }
        }
    }
}

/// Forwards steps and notes to the other side.
struct Relay<'a> {
    connection: &'a Connection,
}

impl Observer for Relay<'_> {
    fn event(&mut self, event: Event<'_>) {
        let answer = match event {
            Event::Step(text) => Answer::Step(text.to_owned()),
            Event::Note(text) => Answer::Note(text.to_owned()),
            _ => return,
        };
        // A broken connection shows at the next answer.
        let _broken = self.connection.send(&answer);
    }
}
