//! A guest that runs, and a session in it.

use super::boots::Choice;
use super::prepare::Prepared;
use crate::asking::{
    self, CLOSE_TIMEOUT, Line, NoAnswer, OPEN_TIMEOUT, POLL, of_this_version, out_of_turn, trial_timeout,
};
use crate::session::{Closed, Session, SessionRequest, TrialDraft};
use holdup_guest::machine::{self, Chosen, Link, Lost, Machine, MachineRequest};
use holdup_host::network::LinkEnd;
use holdup_load::Cancel;
use holdup_load::peer;
use holdup_model::progress::Silent;
use holdup_model::wire::{self, Answer, Hello, Order, Work};
use holdup_model::{Arm, Event, Fact, Guest, Observer, Problem, ProblemKind, Trial, TrialSpec, TrialStatus};
use holdup_watch::unix_ns;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The longest that a guest may be silent, whose agent speaks each second: under emulation on a busy host the agent
/// waits for its turn twice.
const SILENCE: Duration = Duration::from_secs(60);
/// How many of the console's last lines go into a void trial.
const TAIL_LINES: usize = 30;

impl From<Lost> for NoAnswer {
    fn from(lost: Lost) -> Self {
        NoAnswer::Lost(lost.cause.to_string())
    }
}

impl Line for Running {
    fn send(&mut self, payload: &[u8]) -> Result<(), NoAnswer> {
        Ok(self.machine.send(payload)?)
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, NoAnswer> {
        Ok(self.machine.receive(wait)?)
    }

    fn look_beside(&mut self, observer: &mut dyn Observer) -> Result<(), NoAnswer> {
        self.peer.as_mut().map_or(Ok(()), |peer| peer.look(Duration::ZERO, observer))
    }
}

/// A machine with an agent in it.
pub(super) struct Running {
    machine: Machine,
    /// The machine at the other end of its link. It ends with this one.
    peer: Option<Peer>,
    label: String,
    is_emulated: bool,
    booted: Instant,
    facts: Vec<Fact>,
}

impl Running {
    pub(super) fn start(guest: &Guest, chosen: &Chosen, choice: &Choice, with: &Prepared) -> Result<Self, Problem> {
        let mut line: Vec<String> = choice.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        line.extend((!guest.append.is_empty()).then(|| guest.append.clone()));
        let booted = Instant::now();
        let (client, server) = match with.nic {
            Some(nic) => {
                let (client, server) = machine::link(chosen)?;
                (Some((Link { end: LinkEnd::Client, nic }, client)), Some((Link { end: LinkEnd::Server, nic }, server)))
            }
            None => (None, None),
        };
        let start = |guest: &Guest, link: Option<(Link, OwnedFd)>| {
            let (link, end) = link.unzip();
            let request = MachineRequest {
                kernel: &with.kernel_image,
                initramfs: &with.image.path,
                guest,
                command_line: &line.join(" "),
                arch: with.arch,
                virtio_console: with.virtio_console,
                folder: &with.folder,
                silence: SILENCE,
                link,
            };
            Machine::start_linked(&request, chosen, end)
        };
        let machine = start(guest, client)?;
        let peer = server.map(|server| start(&guest.beside(), Some(server)).map(Peer::new)).transpose()?;
        let mut facts = machine.facts();
        facts.push(Fact::read("guest.kernel_source", with.kernel.source.as_str(), "the cache of kernels"));
        facts.push(Fact::read("guest.kernel_sha256", with.kernel.sha256.as_str(), "the cache of kernels"));
        facts.push(Fact::read("guest.initramfs_sha256", with.image.sha256.as_str(), "the cache of images"));
        if let Some(nic) = with.nic {
            let asked = |key: &str, value: &str| Fact::read(key, value, "holdup's own setting");
            facts.push(asked("guest.peer", "one of the same kernel, image and machine"));
            facts.push(asked("guest.nic", &nic.device(with.arch.virtio)));
            facts.push(asked("guest.link", "a socket pair between two QEMU, without vhost"));
            facts.extend((!guest.nic_options.is_empty()).then(|| asked("guest.nic_options", &guest.nic_options)));
        }
        let is_emulated = chosen.is_emulated();
        Ok(Running { machine, peer, label: choice.label(), is_emulated, booted, facts })
    }

    /// Waits for the agent's first message, and for that of the peer.
    pub(super) fn hello(&mut self, timeout: Duration, cancel: &Cancel) -> Result<Hello, NoAnswer> {
        let mut hello = match asking::answer(self, timeout, cancel, &mut Silent)? {
            Answer::Hello(hello) => of_this_version(*hello, "the agent")?,
            other => return Err(NoAnswer::Unreadable(out_of_turn(&other).why)),
        };
        self.facts.push(boot_fact("guest.boot_s", self.booted));
        while let Some(peer) = &mut self.peer {
            if let Some(of_peer) = peer.hello.take() {
                let of_peer = of_this_version(of_peer, "the peer's agent")?;
                hello.notes.extend(of_peer.notes.iter().map(|note| format!("its peer: {note}")));
                self.facts.push(boot_fact("guest.peer_boot_s", self.booted));
                break;
            }
            if cancel.is_cancelled() {
                return Err(NoAnswer::Cancelled);
            }
            // A peer that never speaks is lost when the time for its boot is over.
            peer.look(POLL, &mut Silent)?;
        }
        Ok(hello)
    }

    /// Gives an order and waits for its answer.
    pub(super) fn ask(
        &mut self,
        order: &Order,
        timeout: Duration,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Answer, NoAnswer> {
        asking::ask(self, order, timeout, cancel, observer)
    }

    /// What went wrong, for a user. The guest is over then, so the session cannot go on.
    pub(super) fn problem(&mut self, no: NoAnswer, when: &str) -> Problem {
        let mut what = format!("the guest with {}", self.label);
        let mut machine = &self.machine;
        let mut why = format!("{when}: {}", no.why());
        match no {
            NoAnswer::Cancelled => return Problem::interrupted(what),
            NoAnswer::PeerLost(_) => {
                what = format!("the peer of {what}");
                machine = self.peer.as_ref().map_or(machine, |peer| &peer.machine);
            }
            NoAnswer::TooLong(..) if self.is_emulated => {
                why.push_str(" (its CPUs are emulated; fewer collectors, which --collect names, start sooner)");
            }
            NoAnswer::Lost(_) | NoAnswer::TooLong(..) | NoAnswer::Unreadable(_) => {}
        }
        let tail = machine.console_tail(3).join(" | ");
        let problem = Problem::host(what, why);
        if tail.is_empty() { problem } else { problem.hint(format!("its console ends: {tail}")) }
    }

    /// The last lines of the console, for a trial that was lost with the guest.
    fn tail(&self) -> Vec<String> {
        let of = |machine: &Machine, name: &str| -> Vec<String> {
            machine.console_tail(TAIL_LINES).into_iter().map(|line| format!("{name}: {line}")).collect()
        };
        let mut tail = of(&self.machine, "console");
        tail.extend(self.peer.iter().flat_map(|peer| of(&peer.machine, "peer's console")));
        tail
    }

    /// A problem that the agent has with its peer, with the end of the peer's console.
    pub(super) fn with_peer(&self, problem: Problem) -> Problem {
        match &self.peer {
            Some(peer) if problem.hint.is_none() && problem.what.starts_with(peer::WHAT) => {
                let tail = peer.machine.console_tail(3).join(" | ");
                let tail = if tail.is_empty() { "its console is empty".to_owned() } else { tail };
                problem.hint(format!("the peer's console ends: {tail}"))
            }
            _ => problem,
        }
    }

    /// Ends the machine, and its peer.
    pub(super) fn end(mut self) {
        for mut machine in self.peer.take().map(|peer| peer.machine).into_iter().chain([self.machine]) {
            // An agent that has gone, or a broken connection, changes nothing: QEMU is ended.
            let _broken = machine.send(&wire::to_bytes(&Order::Off));
            let _ended = machine.end();
        }
    }
}

/// The machine at the other end of a guest's link.
struct Peer {
    machine: Machine,
    /// What its agent said first, until it is taken.
    hello: Option<Hello>,
}

impl Peer {
    fn new(machine: Machine) -> Self {
        Peer { machine, hello: None }
    }

    /// Takes what its agent says.
    fn look(&mut self, wait: Duration, observer: &mut dyn Observer) -> Result<(), NoAnswer> {
        let mut wait = wait;
        while let Some(payload) =
            self.machine.receive(wait).map_err(|lost| NoAnswer::PeerLost(lost.cause.to_string()))?
        {
            wait = Duration::ZERO;
            match wire::from_bytes::<Answer>(&payload).map_err(NoAnswer::Unreadable)? {
                Answer::Alive => {}
                Answer::Hello(hello) => self.hello = Some(*hello),
                Answer::Step(text) | Answer::Note(text) => observer.event(Event::Note(&format!("the peer: {text}"))),
                other => return Err(NoAnswer::Unreadable(out_of_turn(&other).why)),
            }
        }
        Ok(())
    }
}

fn boot_fact(key: &str, since: Instant) -> Fact {
    let seconds = format!("{:.2}", since.elapsed().as_secs_f64());
    Fact::read(key, seconds, "QEMU's start to the agent's first message")
}

/// An open session in a guest. Dropping it ends the machine.
pub(crate) struct QemuSession<'a> {
    request: &'a SessionRequest<'a>,
    running: Running,
    environment: Vec<Fact>,
    /// The guest is gone, so the session cannot be closed.
    lost: bool,
}

impl<'a> QemuSession<'a> {
    pub(super) fn open(
        request: &'a SessionRequest<'a>,
        mut running: Running,
        work: Work,
        observer: &mut dyn Observer,
    ) -> Result<Self, Problem> {
        let order = Order::Open(Box::new(work));
        let environment = match running.ask(&order, OPEN_TIMEOUT, &request.cancel, observer) {
            Ok(Answer::Opened(opened)) => opened
                .map_err(|p| running.with_peer(p))
                .map_err(|p| Problem { what: format!("{} in the guest with {}", p.what, running.label), ..p })?,
            Ok(other) => return Err(out_of_turn(&other)),
            // Of the kind of a trial that failed: another boot may do better.
            Err(no @ (NoAnswer::Lost(_) | NoAnswer::PeerLost(_) | NoAnswer::Unreadable(_))) => {
                return Err(running.problem(no, "while the session was opened").of_kind(ProblemKind::Trial));
            }
            Err(no) => return Err(running.problem(no, "while the session was opened")),
        };
        let environment = environment.into_iter().chain(running.facts.clone()).collect();
        Ok(QemuSession { request, running, environment, lost: false })
    }
}

impl Session for QemuSession<'_> {
    fn environment(&mut self) -> Vec<Fact> {
        self.environment.clone()
    }

    fn trial(&mut self, arm: &Arm, spec: &TrialSpec, seed: u64) -> TrialDraft {
        let started_unix_ns = unix_ns();
        let order = Order::Trial { arm: Box::new(arm.clone()), spec: *spec, seed };
        let timeout = trial_timeout(self.request.plan, arm, self.running.is_emulated);
        let problem = match self.running.ask(&order, timeout, &self.request.cancel, &mut Silent) {
            Ok(Answer::Ran(ran)) => {
                let mut trial = ran.trial;
                // What happened is placed by the clock of the host; the guest's own may be off.
                (trial.started_unix_ns, trial.ended_unix_ns) = (started_unix_ns, unix_ns());
                return TrialDraft { trial, problem: ran.problem };
            }
            Ok(other) => out_of_turn(&other),
            Err(no) => self.running.problem(no, "in a trial"),
        };
        self.lost = true;
        let mut trial = Trial::begun(started_unix_ns);
        trial.status = TrialStatus::Void { reason: format!("{}: {}", problem.what, problem.why) };
        trial.ended_unix_ns = unix_ns();
        trial.notes = self.running.tail();
        TrialDraft { trial, problem: Some(problem) }
    }

    fn close(mut self: Box<Self>) -> Closed {
        let mut closed = Closed::default();
        let mut kernel_log = None;
        if !self.lost {
            // A user who asked to end has waited enough: nothing of a guest has to be put back.
            match self.running.ask(&Order::Close, CLOSE_TIMEOUT, &self.request.cancel, &mut Silent) {
                Ok(Answer::Closed { result, kernel_log: log }) => {
                    match result {
                        Ok(notes) => closed.notes.extend(notes),
                        Err(problem) => closed.notes.push(format!("in the guest, which is gone now: {problem}")),
                    }
                    match log {
                        Ok(log) => kernel_log = Some(log),
                        Err(why) => closed.notes.push(format!("the guest's kernel log: {why}")),
                    }
                }
                Ok(other) => closed.notes.push(out_of_turn(&other).to_string()),
                Err(NoAnswer::Cancelled) => {}
                Err(no) => closed.notes.push(self.running.problem(no, "while the session was closed").to_string()),
            }
        }
        keep_console(&mut closed, &self.running.machine, "guest", "console");
        closed.logs.extend(kernel_log.map(|log| ("kernel".to_owned(), log.into_bytes())));
        if let Some(peer) = &self.running.peer {
            keep_console(&mut closed, &peer.machine, "peer", "peer-console");
        }
        self.running.end();
        closed
    }
}

fn keep_console(closed: &mut Closed, machine: &Machine, whose: &str, name: &str) {
    let console = machine.console();
    closed.notes.extend(console.notes().iter().map(|line| format!("the {whose}'s console: {line}")));
    closed.logs.push((name.to_owned(), console.bytes()));
}
