//! A host with an agent that has said hello.

use super::ends::{self, Client};
use crate::asking::{self, Line, NoAnswer, POLL, of_this_version, out_of_turn};
use crate::session::SessionRequest;
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::ends::ClientOrder;
use holdup_model::progress::Silent;
use holdup_model::wire::{self, Answer, Hello, Order};
use holdup_model::{ClockOffset, Event, Fact, Observer, Problem, ProblemKind};
use holdup_ssh::{Address, Lost, Remote, Ssh, SshOptions};
use holdup_watch::unix_ns;
use std::time::{Duration, Instant};

/// How many times its clock is read; the reading with the shortest round trip counts.
const CLOCK_READINGS: u32 = 4;
/// The longest that an answer to that may take.
const CLOCK_TIMEOUT: Duration = Duration::from_secs(30);
/// From here on a difference of clocks is said before a run.
const CLOCKS_DIFFER_NS: i64 = 1_000_000_000;

/// A host with an agent.
pub(crate) struct AtHost {
    line: holdup_ssh::Line,
    address: Address,
    dead_after: Duration,
    hello: Hello,
    /// Compared when a session opens.
    clock: Option<ClockOffset>,
    /// The hosts that make the load of this one, in the order of the plan.
    pub(super) clients: Vec<Client>,
}

impl From<Lost> for NoAnswer {
    fn from(Lost(cause): Lost) -> Self {
        NoAnswer::Lost(cause)
    }
}

impl Line for AtHost {
    fn mark(&self) -> String {
        format!("{}: ", self.address)
    }

    fn send(&mut self, payload: &[u8]) -> Result<(), NoAnswer> {
        Ok(self.line.send(payload)?)
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, NoAnswer> {
        Ok(self.line.receive(wait)?)
    }

    fn for_clients(&mut self, orders: Vec<(u32, ClientOrder)>, cancel: &Cancel) -> Result<(), NoAnswer> {
        ends::check_orders(&self.clients, &orders).map_err(|problem| {
            let hint = problem.hint.map(|hint| format!(" ({hint})"));
            NoAnswer::Unreadable(problem.why + &hint.unwrap_or_default())
        })?;
        let answers = ends::carry_out(&mut self.clients, orders, cancel);
        self.send(&wire::to_bytes(&Order::OfClients(answers)))
    }
}

/// A line whose agent has not said hello yet.
struct Bare<'a>(&'a mut holdup_ssh::Line);

impl Line for Bare<'_> {
    fn send(&mut self, payload: &[u8]) -> Result<(), NoAnswer> {
        Ok(self.0.send(payload)?)
    }

    fn receive(&mut self, wait: Duration) -> Result<Option<Vec<u8>>, NoAnswer> {
        Ok(self.0.receive(wait)?)
    }
}

impl AtHost {
    /// Connects for a run.
    pub(crate) fn connect(
        request: &SessionRequest<'_>,
        address: &Address,
        observer: &mut dyn Observer,
    ) -> Result<Self, Problem> {
        let host = Self::over(request.host, request.ssh, address, &request.cancel, observer)?;
        host.said().for_each(|note| observer.event(Event::Note(&note)));
        Ok(host)
    }

    /// Connects, and puts holdup there if need be.
    pub(crate) fn over(
        here: &Host,
        options: &SshOptions,
        address: &Address,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Self, Problem> {
        let ssh = Ssh::from_environment();
        let remote = Remote { host: here, address, ssh: &ssh, options };
        let mut step = |text: &str| observer.event(Event::Step(text));
        let mut line = remote.agent(&mut step, &|| cancel.is_cancelled())?;
        let failed = |no: NoAnswer| match no {
            NoAnswer::Cancelled => Problem::interrupted(format!("host {address}")),
            no => Problem::host(format!("host {address}"), format!("its agent did not answer: {}", no.why())),
        };
        let first = asking::answer(&mut Bare(&mut line), CLOCK_TIMEOUT, cancel, &mut Silent).map_err(failed)?;
        let hello = match first {
            Answer::Hello(hello) => of_this_version(*hello, &format!("the agent of {address}")).map_err(failed)?,
            other => return Err(failed(NoAnswer::Unreadable(out_of_turn(&other).why))),
        };
        Ok(AtHost {
            line,
            address: address.clone(),
            dead_after: options.dead_after,
            hello,
            clock: None,
            clients: Vec::new(),
        })
    }

    pub(crate) fn hello(&self) -> &Hello {
        &self.hello
    }

    /// How far its clock is off, once it was compared.
    pub(crate) fn clock(&self) -> Option<ClockOffset> {
        self.clock
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Compares its clock with this machine's, and says a large difference.
    pub(crate) fn compare_clocks(&mut self, cancel: &Cancel, observer: &mut dyn Observer) -> Result<(), NoAnswer> {
        let clock = compared(&mut Bare(&mut self.line), cancel)?;
        let ClockOffset { offset_ns, error_ns } = clock;
        self.clock = Some(clock);
        if offset_ns.abs() > CLOCKS_DIFFER_NS.saturating_add(error_ns) {
            let by = if offset_ns > 0 { "ahead of" } else { "behind" };
            let s = offset_ns.unsigned_abs() as f64 / 1e9;
            let note = format!(
                "{}: its clock is {s:.1} s {by} this machine's; times in the bundle are this machine's",
                self.address
            );
            observer.event(Event::Note(&note));
        }
        Ok(())
    }

    /// What the bundle keeps of it.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let of_ssh = |key: &str, value: String, source: &str| Fact::read(key, value, source);
        let ms = |ns: i64| format!("{:.3}", ns as f64 / 1e6);
        let source = "round trips over ssh, the shortest counts";
        let mut facts = vec![
            of_ssh("ssh.host", self.address.to_string(), "the plan"),
            of_ssh("ssh.is_root", self.hello.is_root.to_string(), "geteuid(2) there"),
        ];
        if let Some(clock) = self.clock {
            facts.push(of_ssh("ssh.clock_offset_ms", ms(clock.offset_ns), source));
            facts.push(of_ssh("ssh.clock_offset_error_ms", ms(clock.error_ns), source));
        }
        facts
    }

    /// Gives an order and waits for its answer.
    pub(crate) fn ask(
        &mut self,
        order: &Order,
        timeout: Duration,
        cancel: &Cancel,
        observer: &mut dyn Observer,
    ) -> Result<Answer, NoAnswer> {
        asking::ask(self, order, timeout, cancel, observer)
    }

    /// Asks the agent to end what it does, and waits for that answer.
    pub(crate) fn stop(&mut self, timeout: Duration) -> Result<Answer, NoAnswer> {
        asking::ask(self, &Order::Cancel, timeout, &Cancel::default(), &mut Silent)
    }

    /// A problem that the host has, with its name.
    pub(crate) fn inside(&self, problem: Problem) -> Problem {
        let hint = match problem.hint {
            None if !self.hello.is_root && needs_root(&problem.why) => {
                Some("--sudo runs holdup there by `sudo -n`, or log in as root".to_owned())
            }
            hint => hint,
        };
        Problem { what: format!("{} on {}", problem.what, self.address), hint, ..problem }
    }

    /// What went wrong with the line.
    pub(crate) fn problem(&self, no: &NoAnswer, when: &str) -> Problem {
        let what = format!("host {}", self.address);
        match no {
            NoAnswer::Cancelled => Problem::interrupted(what),
            no => Problem::host(what, format!("{when}: {}", no.why())),
        }
    }

    /// What its agent said first.
    pub(crate) fn said(&self) -> impl Iterator<Item = String> {
        self.hello.notes.iter().map(|note| format!("{}: {note}", self.address))
    }

    /// A host whose line was lost in a session, and that cannot be asked what became of it.
    pub(crate) fn not_known(&self, why: &Problem) -> Problem {
        let why = format!("whether it was restored is not known: {}", why.why);
        Problem::new(ProblemKind::NotRestored, format!("host {}", self.address), why).hint(format!(
            "its agent restores it within {} s; the next run there reports that, and restores it if the agent was killed",
            self.dead_after.as_secs_f64()
        ))
    }

    /// Ends the agent and the connection.
    pub(crate) fn end(self) {
        self.line.end();
    }
}

fn needs_root(why: &str) -> bool {
    ["root", "Permission denied", "Operation not permitted"].iter().any(|word| why.contains(word))
}

fn compared(line: &mut dyn Line, cancel: &Cancel) -> Result<ClockOffset, NoAnswer> {
    let mut best: Option<ClockOffset> = None;
    for _ in 0..CLOCK_READINGS {
        let (before_ns, begun) = (unix_ns(), Instant::now());
        match asking::ask(line, &Order::Clock, CLOCK_TIMEOUT, cancel, &mut Silent)? {
            Answer::Clock(there_ns) => {
                // The wall clock here may be set meanwhile; the monotonic one is not.
                let took_ns = i64::try_from(begun.elapsed().as_nanos()).unwrap_or(i64::MAX);
                let read = ClockOffset::of(before_ns, there_ns, there_ns, before_ns.saturating_add(took_ns));
                best = Some(read.better(best));
            }
            other => return Err(NoAnswer::Unreadable(out_of_turn(&other).why)),
        }
    }
    best.ok_or(NoAnswer::TooLong(POLL, None))
}
