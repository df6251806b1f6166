//! Trials with two ends: the client host beside the host under test.

use super::host::AtHost;
use crate::asking::{self, CHECK_TIMEOUT, CLOSE_TIMEOUT, NoAnswer, OPEN_TIMEOUT, out_of_turn, trial_timeout};
use crate::session::SessionRequest;
use holdup_load::Cancel;
use holdup_model::ends::{CLIENT_PREFIX, CLOCK_OFFSET, CLOCK_OFFSET_ERROR, ClientAnswer, ClientOrder};
use holdup_model::progress::Silent;
use holdup_model::wire::{Answer, Order};
use holdup_model::{ClockOffset, Fact, Hosts, Observer, Plan, Problem, ProblemKind, guest::HOST};
use holdup_ssh::{Address, Ssh};
use std::time::Duration;

/// The line to the client host, with an open session there.
pub(crate) struct Client {
    at: Box<AtHost>,
    facts: Vec<Fact>,
    /// The longest that it may take for an order.
    limit: Duration,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// An order was given up, so its answer is still to come.
    GivenUp,
    Lost,
}

/// Refuses what cannot have two ends.
pub(super) fn check(plan: &Plan, request: &SessionRequest<'_>) -> Result<(), Problem> {
    let Some(hosts) = &plan.hosts else { return Ok(()) };
    Address::parse(&hosts.server)?;
    Address::parse(&hosts.client)?;
    for used in &plan.workloads {
        if !crate::local::workload_of(used)?.has_two_ends() {
            return Err(Problem::usage(
                format!("workload {}", used.name),
                format!("{} has no two ends: both of its sides are on one host", used.kind),
            )
            .hint(format!("leave [hosts] away; --target ssh:{} runs it there", hosts.server)));
        }
    }
    if crate::local::levels(plan, HOST).next().is_some() {
        return Err(Problem::usage("factor host", "[hosts] names the host under test already").hint("leave one away"));
    }
    if request.postgres.url.is_some() {
        return Err(Problem::usage("--pg", "with [hosts] holdup starts the server, on the host under test")
            .hint(format!("--target ssh:{} --pg URL has the load there and an existing server", hosts.client)));
    }
    if request.guests.parallel > 1 {
        return Err(Problem::usage("--parallel", "a plan with [hosts] has one pair of hosts").hint("leave it away"));
    }
    Ok(())
}

/// The name by which the client reaches the host under test.
pub(super) fn reached_as(hosts: &Hosts, server: &Address) -> Result<String, Problem> {
    match &hosts.address {
        Some(address) => Ok(address.clone()),
        None => Ssh::from_environment().host_name(server),
    }
}

/// How far the clocks of both hosts are apart, for a user.
pub(super) fn clocks_in_words(facts: &[Fact]) -> Option<String> {
    let ms = |key: &str| facts.iter().find(|fact| fact.key == key)?.value.as_ref()?.parse::<f64>().ok();
    let (offset, error) = ms(CLOCK_OFFSET).zip(ms(CLOCK_OFFSET_ERROR))?;
    let by = if offset < 0.0 { "behind" } else { "ahead of" };
    Some(format!("clocks: the client's is {:.3} ms {by} the server's, known to within {error:.3} ms", offset.abs()))
}

impl Client {
    /// Opens a session on the client host of a plan.
    pub(super) fn open(
        request: &SessionRequest<'_>,
        hosts: &Hosts,
        observer: &mut dyn Observer,
    ) -> Result<Self, Problem> {
        let mut at = AtHost::connect(request, &Address::parse(&hosts.client)?, observer)?;
        let lost = |at: &AtHost, no: &NoAnswer| {
            at.problem(no, "while its session as client host was opened").of_kind(ProblemKind::Trial)
        };
        at.compare_clocks(&request.cancel, observer).map_err(|no| lost(&at, &no))?;
        let mut kinds: Vec<String> = request.plan.workloads.iter().map(|used| used.kind.clone()).collect();
        kinds.dedup();
        let postgres_bin = request.postgres.bin.as_ref().map(|bin| bin.display().to_string());
        let order = Order::Attend { postgres_bin, kinds };
        let facts = match at.ask(&order, CHECK_TIMEOUT + request.ssh.wait, &request.cancel, observer) {
            Ok(Answer::Opened(opened)) => opened.map_err(|problem| at.inside(problem))?,
            Ok(other) => return Err(out_of_turn(&other)),
            Err(no) => return Err(lost(&at, &no)),
        };
        let limit = OPEN_TIMEOUT.max(trial_timeout(request));
        Ok(Client { at: Box::new(at), facts, limit, state: State::Open })
    }

    /// Its facts, with those of the clocks of both ends.
    pub(super) fn facts(&self, server: Option<ClockOffset>) -> Vec<Fact> {
        let of_client =
            |fact: &Fact| Fact { key: format!("{CLIENT_PREFIX}{}", fact.key), steady: false, ..fact.clone() };
        let mut all: Vec<Fact> = self.facts.iter().chain(&self.at.facts()).map(of_client).collect();
        if let Some((server, client)) = server.zip(self.at.clock()) {
            let between = client.less(server);
            let ms = |ns: i64| format!("{:.3}", ns as f64 / 1e6);
            let source = "the client's clock less the server's, both against this machine's";
            all.push(Fact::read(CLOCK_OFFSET, ms(between.offset_ns), source));
            all.push(Fact::read(CLOCK_OFFSET_ERROR, ms(between.error_ns), "the sum of both errors"));
        }
        all
    }

    /// Has it do something. A problem says which host it is of.
    pub(super) fn carry_out(&mut self, order: ClientOrder, cancel: &Cancel) -> Result<ClientAnswer, Problem> {
        let what = format!("client host {}", self.at.address());
        match self.state {
            State::Open => {}
            State::GivenUp => return Err(Problem::interrupted(what)),
            State::Lost => return Err(Problem::host(what, "its line is lost")),
        }
        match self.at.ask(&Order::Client(order), self.limit, cancel, &mut Silent) {
            Ok(Answer::OfClient(answer)) => answer.map_err(|problem| self.at.inside(problem)),
            Ok(other) => Err(out_of_turn(&other)),
            Err(NoAnswer::Cancelled) => {
                self.state = State::GivenUp;
                Err(Problem::interrupted(what))
            }
            Err(no) => {
                self.state = State::Lost;
                Err(Problem::host(what, format!("in a trial: {}", no.why())))
            }
        }
    }

    /// Ends its load and its session; what is worth saying, and the host when it must be restored anew.
    pub(super) fn close(mut self) -> (Vec<String>, Option<AtHost>) {
        if self.state == State::Lost {
            return (Vec::new(), Some(*self.at));
        }
        let (cancel, mut silent) = (Cancel::default(), Silent);
        let mut answer = self.at.ask(&Order::Close, CLOSE_TIMEOUT, &cancel, &mut silent);
        if matches!(answer, Ok(Answer::OfClient(_))) {
            answer = asking::answer(&mut *self.at, CLOSE_TIMEOUT, &cancel, &mut silent);
        }
        match answer {
            Ok(Answer::Closed { .. }) => {
                self.at.end();
                (Vec::new(), None)
            }
            Ok(other) => (vec![out_of_turn(&other).to_string()], None),
            Err(no) => (vec![self.at.problem(&no, "while its session was closed").to_string()], Some(*self.at)),
        }
    }
}
