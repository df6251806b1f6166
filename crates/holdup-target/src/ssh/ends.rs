//! Trials with two ends: the client hosts beside the host under test.

use super::host::AtHost;
use crate::asking::{
    self, CHECK_TIMEOUT, CLOSE_TIMEOUT, Line as _, NoAnswer, OPEN_TIMEOUT, out_of_turn, trial_timeout,
};
use crate::levels::parameters_of;
use crate::session::SessionRequest;
use holdup_load::Cancel;
use holdup_load::two_ends::parts;
use holdup_model::ends::{
    CLIENT_PREFIX, CLOCK_OFFSET, CLOCK_OFFSET_ERROR, ClientAnswer, ClientOrder, ClientPlan, ENDS_PREFIX, key_of_client,
};
use holdup_model::progress::Silent;
use holdup_model::wire::{self, Answer, Order};
use holdup_model::{ClockOffset, Fact, Hosts, Observer, Plan, Problem, ProblemKind, guest::HOST};
use holdup_ssh::{Address, Ssh};
use std::net::IpAddr;
use std::time::Duration;

/// The line to a client host, with an open session there.
pub(crate) struct Client {
    at: Box<AtHost>,
    facts: Vec<Fact>,
    /// Orders of the host under test are compared with this.
    plan: ClientPlan,
    /// The address of the host under test, once this one has looked it up.
    server: Option<IpAddr>,
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
    hosts.clients.iter().try_for_each(|client| Address::parse(client).map(drop))?;
    for used in &plan.workloads {
        if !crate::local::workload_of(used)?.has_two_ends() {
            return Err(Problem::usage(
                format!("workload {}", used.name),
                format!("{} has no two ends: both of its sides are on one host", used.kind),
            )
            .hint(format!("leave [hosts] away; --target ssh:{} runs it there", hosts.server)));
        }
    }
    if crate::levels::levels(plan, HOST).next().is_some() {
        return Err(Problem::usage("factor host", "[hosts] names the host under test already").hint("leave one away"));
    }
    if request.postgres.url.is_some() {
        return Err(Problem::usage("--pg", "with [hosts] holdup starts the server, on the host under test").hint(
            format!("--target ssh:{} --pg URL has the load there and an existing server", hosts.clients.join(",")),
        ));
    }
    if request.guests.parallel > 1 {
        return Err(Problem::usage("--parallel", "a plan with [hosts] has one host under test").hint("leave it away"));
    }
    Ok(())
}

/// The name by which the client reaches the host under test.
pub(super) fn reached_as(hosts: &Hosts) -> Result<String, Problem> {
    match &hosts.address {
        Some(address) => Ok(address.clone()),
        None => Ssh::from_environment().host_name(&Address::parse(&hosts.server)?),
    }
}

/// Opens a session on each client host of a plan, which reaches the host under test by this name.
pub(super) fn open(
    request: &SessionRequest<'_>,
    hosts: &Hosts,
    reached_as: &str,
    observer: &mut dyn Observer,
) -> Result<Vec<Client>, Problem> {
    let mut all = Vec::new();
    for (at, name) in hosts.clients.iter().enumerate() {
        let opened = plan_of(request, (at, hosts.clients.len()), reached_as)
            .and_then(|plan| Client::open(request, name, plan, observer));
        match opened {
            Ok(client) => all.push(client),
            Err(problem) => {
                // Their locks are free again before the run ends.
                let _nothing_to_restore = close(all);
                return Err(problem);
            }
        }
    }
    Ok(all)
}

/// The part of a plan that one of several client hosts has, by its place among all.
fn plan_of(request: &SessionRequest<'_>, (at, of): (usize, usize), reached_as: &str) -> Result<ClientPlan, Problem> {
    let (plan, design) = (request.plan, &request.plan.design);
    let mut arms = Vec::new();
    for arm in &request.schedule.arms {
        let Some(used) = plan.workload(&arm.workload) else { continue };
        let shared = crate::local::workload_of(used)?.shared();
        let own = parts(&used.kind, shared, &parameters_of(used, arm), of)?.swap_remove(at);
        arms.push((used.kind.clone(), own));
    }
    let (reached_as, warmup_ns, duration_ns) = (reached_as.to_owned(), design.warmup_ns, design.duration_ns);
    Ok(ClientPlan { reached_as, arms, warmup_ns, duration_ns })
}

/// Refuses orders of the host under test that the plan does not name, before any of them is passed on.
pub(super) fn check_orders(all: &[Client], orders: &[(u32, ClientOrder)]) -> Result<(), Problem> {
    if orders.len() > all.len() {
        let why = format!("it gave {} orders to {} client hosts", orders.len(), all.len());
        return Err(Problem::host("the host under test", why));
    }
    let of = |(at, order): &(u32, ClientOrder)| {
        all.get(*at as usize).map_or(Ok(()), |client| client.plan.check(order, client.server))
    };
    orders.iter().try_for_each(of)
}

/// Has some of them do something, all at the same time; a problem says which host it is of. Each is waited for, also when
/// another one failed, so that no answer is left for later.
pub(super) fn carry_out(
    all: &mut [Client],
    orders: Vec<(u32, ClientOrder)>,
    cancel: &Cancel,
) -> Result<Vec<ClientAnswer>, Problem> {
    let mut asked = Vec::new();
    for (at, order) in orders {
        let missing = || Problem::internal("the client host", format!("there is none of number {at}"));
        let sent = all.get_mut(at as usize).ok_or_else(missing).and_then(|client| client.send(order));
        asked.push((at as usize, sent));
    }
    let answers: Vec<_> = asked.into_iter().map(|(at, sent)| sent.and_then(|()| all[at].answer(cancel))).collect();
    answers.into_iter().collect()
}

/// Ends the load and the sessions of all; what is worth saying, and the hosts that must be restored anew.
pub(super) fn close(all: Vec<Client>) -> (Vec<String>, Vec<AtHost>) {
    let closed: Vec<_> = all.into_iter().map(Client::close).collect();
    let (notes, lost): (Vec<_>, Vec<_>) = closed.into_iter().unzip();
    (notes.into_iter().flatten().collect(), lost.into_iter().flatten().collect())
}

/// CLOCK_REALTIME of each less that of the host under test; empty where one is not known.
pub(super) fn clocks(all: &[Client], server: Option<ClockOffset>) -> Vec<ClockOffset> {
    all.iter().map(|client| client.clock(server)).collect::<Option<_>>().unwrap_or_default()
}

/// The facts of all, with those of the clocks of both ends.
pub(super) fn facts(all: &[Client], server: Option<ClockOffset>) -> Vec<Fact> {
    let of = |(at, client): (usize, &Client)| client.facts((at, all.len()), server);
    all.iter().enumerate().flat_map(of).collect()
}

/// How far the clocks of the hosts are apart, for a user.
pub(super) fn clocks_in_words(all: &[Client], facts: &[Fact]) -> Vec<String> {
    let words = |(at, client): (usize, &Client)| {
        let ms = |key: &str| {
            let key = key_of_client(ENDS_PREFIX, (at, all.len()), key);
            facts.iter().find(|fact| fact.key == key)?.value.as_ref()?.parse::<f64>().ok()
        };
        let (offset, error) = ms(CLOCK_OFFSET).zip(ms(CLOCK_OFFSET_ERROR))?;
        let by = if offset < 0.0 { "behind" } else { "ahead of" };
        let whose = if all.len() == 1 { "the client's".to_owned() } else { format!("that of {}", client.at.address()) };
        Some(format!("clocks: {whose} is {:.3} ms {by} the server's, known to within {error:.3} ms", offset.abs()))
    };
    all.iter().enumerate().filter_map(words).collect()
}

impl Client {
    fn open(
        request: &SessionRequest<'_>,
        name: &str,
        plan: ClientPlan,
        observer: &mut dyn Observer,
    ) -> Result<Self, Problem> {
        let mut at = AtHost::connect(request, &Address::parse(name)?, observer)?;
        let lost = |at: &AtHost, no: &NoAnswer| {
            at.problem(no, "while its session as client host was opened").of_kind(ProblemKind::Trial)
        };
        at.compare_clocks(&request.cancel, observer).map_err(|no| lost(&at, &no))?;
        let postgres_bin = request.postgres.bin.as_ref().map(|bin| bin.display().to_string());
        let order = Order::Attend { postgres_bin, plan: Box::new(plan.clone()) };
        let facts = match at.ask(&order, CHECK_TIMEOUT + request.ssh.wait, &request.cancel, observer) {
            Ok(Answer::Opened(opened)) => opened.map_err(|problem| at.inside(problem))?,
            Ok(other) => return Err(at.inside(out_of_turn(&other))),
            Err(no) => return Err(lost(&at, &no)),
        };
        let of_trials = request.schedule.arms.iter().map(|arm| trial_timeout(request.plan, arm, false));
        let limit = of_trials.fold(OPEN_TIMEOUT, Duration::max);
        Ok(Client { at: Box::new(at), facts, plan, server: None, limit, state: State::Open })
    }

    /// Its clock less that of the host under test.
    fn clock(&self, server: Option<ClockOffset>) -> Option<ClockOffset> {
        Some(self.at.clock()?.less(server?))
    }

    /// Its facts, with those of the clocks of both ends.
    fn facts(&self, place: (usize, usize), server: Option<ClockOffset>) -> Vec<Fact> {
        let of_client =
            |fact: &Fact| Fact { key: key_of_client(CLIENT_PREFIX, place, &fact.key), steady: false, ..fact.clone() };
        let mut all: Vec<Fact> = self.facts.iter().chain(&self.at.facts()).map(of_client).collect();
        if let Some(between) = self.clock(server) {
            let ms = |ns: i64| format!("{:.3}", ns as f64 / 1e6);
            let key = |key: &str| key_of_client(ENDS_PREFIX, place, key);
            let source = "the client's clock less the server's, both against this machine's";
            all.push(Fact::read(key(CLOCK_OFFSET), ms(between.offset_ns), source));
            all.push(Fact::read(key(CLOCK_OFFSET_ERROR), ms(between.error_ns), "the sum of both errors"));
        }
        all
    }

    fn what(&self) -> String {
        format!("client host {}", self.at.address())
    }

    /// Gives it an order, whose answer is to be waited for.
    fn send(&mut self, order: ClientOrder) -> Result<(), Problem> {
        match self.state {
            State::Open => {}
            State::GivenUp => return Err(Problem::interrupted(self.what())),
            State::Lost => return Err(Problem::host(self.what(), "its line is lost")),
        }
        let sent = self.at.send(&wire::to_bytes(&Order::Client(order)));
        sent.map_err(|no| self.without(&no))
    }

    /// Waits for what came of the order. A problem says which host it is of.
    fn answer(&mut self, cancel: &Cancel) -> Result<ClientAnswer, Problem> {
        match asking::answer(&mut *self.at, self.limit, cancel, &mut Silent) {
            Ok(Answer::OfClient(answer)) => {
                if let Ok(ClientAnswer::Route { server, .. }) = &answer {
                    self.server = Some(*server);
                }
                answer.map_err(|problem| self.at.inside(problem))
            }
            Ok(other) => Err(self.at.inside(out_of_turn(&other))),
            Err(no) => Err(self.without(&no)),
        }
    }

    fn without(&mut self, no: &NoAnswer) -> Problem {
        if matches!(no, NoAnswer::Cancelled) {
            self.state = State::GivenUp;
            return Problem::interrupted(self.what());
        }
        self.state = State::Lost;
        Problem::host(self.what(), format!("in a trial: {}", no.why()))
    }

    /// Ends its load and its session; what is worth saying, and the host when it must be restored anew.
    fn close(mut self) -> (Vec<String>, Option<AtHost>) {
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
