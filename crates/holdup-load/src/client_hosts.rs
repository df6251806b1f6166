//! Load that other hosts make, as the workload on the host under test sees it.
//!
//! Each client host runs the same workload against this one, with its part of the connections. Their windows open when this
//! one's is open, and this one's closes when the last of them is closed, so all are the same but for the way of a message, and
//! no clocks are compared to place them.

use crate::combine::{Combination, combined};
use crate::drive::on_time;
use crate::{TrialContext, TrialResult};
use holdup_model::ends::{
    CLIENT_PREFIX, ClientAnswer, ClientMoment, ClientOrder, ClientSession, ENDS_PREFIX, key_of_client,
};
use holdup_model::{ClockOffset, Fact, Parameters, Problem, Window};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// The client hosts of a trial, by their places in the plan.
pub trait ClientHosts: Send + Sync {
    /// The name by which they reach this host.
    fn reached_as(&self) -> &str;
    /// Their names, in the order of the plan; at least one.
    fn names(&self) -> &[String];
    /// CLOCK_REALTIME of each less this host's; shorter than the names where that is not known.
    fn clocks(&self) -> &[ClockOffset];
    /// A number for one more session on each of them.
    fn next_session(&self) -> u32;
    /// Has some of them do something at the same time, and waits for all; the answers are in the order of the orders.
    ///
    /// # Errors
    /// The first problem; of kind `Host` when a host is lost, of kind `Interrupted` when asked to end.
    fn ask(&self, orders: Vec<(usize, ClientOrder)>) -> Result<Vec<ClientAnswer>, Problem>;
}

/// The arm of a trial as each client host has it, and how their results become one.
pub struct Shares<'a> {
    /// The number of the session.
    pub session: u32,
    pub parameters: Vec<Parameters>,
    /// How long the window should be; `None` where it is as long as its work takes.
    pub planned_ns: Option<u64>,
    /// What the window is of, on this host.
    pub subjects: &'a [(String, u32)],
    /// How the values of a metric become one.
    pub combine: fn(&str) -> Combination,
}

/// A number of things, such as connections, as evenly as they can be divided among hosts: the first ones have one more.
///
/// # Errors
/// Of kind `Usage` when there are fewer than hosts.
pub fn divided(what: &str, total: u64, hosts: usize) -> Result<Vec<u64>, Problem> {
    let of = hosts.max(1) as u64;
    if total < of {
        return Err(Problem::usage(
            format!("{what} = {total}"),
            format!("they are divided among {hosts} client hosts, and each needs one"),
        )
        .hint(format!("{what} = {hosts} or more, or fewer hosts in [hosts] client")));
    }
    Ok((0..of).map(|at| total / of + u64::from(at < total % of)).collect())
}

/// The parameters of each of several hosts, which have a number of them in equal parts.
///
/// # Errors
/// Of kind `Usage` when there are fewer than hosts.
pub fn divide(parameters: &Parameters, name: &str, hosts: usize) -> Result<Vec<Parameters>, Problem> {
    let total = parameters.integer(name)?.ok_or_else(|| Problem::internal(name, "the plan does not set it"))?;
    let part = |part: u64| {
        let mut own = parameters.clone();
        own.set(name, part.cast_signed());
        own
    };
    Ok(divided(name, u64::try_from(total).unwrap_or(0), hosts)?.into_iter().map(part).collect())
}

/// An answer that does not belong to the order.
pub fn out_of_turn(answer: &ClientAnswer) -> Problem {
    let kind: String = format!("{answer:?}").chars().take(40).collect();
    Problem::internal("the client host", format!("an answer came out of turn: {kind}"))
}

/// Gives all of them orders, and reads the answers.
fn ask_all<T>(
    clients: &dyn ClientHosts,
    mut order: impl FnMut(usize) -> ClientOrder,
    mut read: impl FnMut(usize, ClientAnswer) -> Result<T, ClientAnswer>,
) -> Result<Vec<T>, Problem> {
    let orders = (0..clients.names().len()).map(|at| (at, order(at))).collect();
    let answers = clients.ask(orders)?.into_iter().enumerate();
    answers.map(|(at, answer)| read(at, answer).map_err(|other| out_of_turn(&other))).collect()
}

/// Has all of them do something.
fn done(clients: &dyn ClientHosts, order: impl FnMut(usize) -> ClientOrder) -> Result<(), Problem> {
    let read = |_, answer| if answer == ClientAnswer::Done { Ok(()) } else { Err(answer) };
    ask_all(clients, order, read).map(drop)
}

/// The address of this host for its clients, and those of the clients for this host.
///
/// # Errors
/// When one finds no way here, or they reach different addresses of this host.
pub fn route(clients: &dyn ClientHosts) -> Result<(IpAddr, Vec<IpAddr>), Problem> {
    let order = |_| ClientOrder::Route { server: clients.reached_as().to_owned() };
    let all = ask_all(clients, order, |_, answer| match answer {
        ClientAnswer::Route { server, client } => Ok((server, client)),
        other => Err(other),
    })?;
    let (servers, own): (Vec<IpAddr>, Vec<IpAddr>) = all.into_iter().unzip();
    let first = servers.first().copied().ok_or_else(|| Problem::internal("client hosts", "there are none"))?;
    if let Some((name, other)) = clients.names().iter().zip(&servers).find(|(_, server)| **server != first) {
        let why = format!("it is {first} for {}, and {other} for {name}", clients.names()[0]);
        return Err(Problem::host(format!("the server as `{}`", clients.reached_as()), why)
            .hint("address in [hosts] is one address by which all clients reach the server"));
    }
    Ok((first, own))
}

/// A free port of an address of this host.
///
/// # Errors
/// When it is no address of this host; `what` is what was to listen there.
pub fn listen(what: &str, address: IpAddr) -> Result<TcpListener, Problem> {
    TcpListener::bind((address, 0)).map_err(|e| {
        Problem::host(format!("{what} at {address}"), e.to_string()).hint(
            "address in [hosts] is the name or address by which the client reaches the server; it must be one of the \
             server's own",
        )
    })
}

/// Has all client hosts try a port of this host.
///
/// # Errors
/// When one cannot connect.
pub fn connect(clients: &dyn ClientHosts, at: SocketAddr) -> Result<(), Problem> {
    done(clients, |_| ClientOrder::Connect(at))
}

/// Has each client host make its session ready, all at the same time; their facts, with the prefix of their host.
///
/// # Errors
/// When one cannot.
pub fn prepare(clients: &dyn ClientHosts, sessions: &[ClientSession]) -> Result<Vec<Fact>, Problem> {
    let of = clients.names().len();
    let facts = ask_all(
        clients,
        |at| ClientOrder::Prepare(Box::new(sessions[at].clone())),
        |at, answer| match answer {
            ClientAnswer::Facts(facts) => Ok(facts.into_iter().map(move |fact| of_client(fact, (at, of)))),
            other => Err(other),
        },
    )?;
    Ok(facts.into_iter().flatten().collect())
}

/// A fact with its host in its key.
fn of_client(fact: Fact, place: (usize, usize)) -> Fact {
    let (prefix, key) = match fact.key.strip_prefix(ENDS_PREFIX) {
        Some(rest) => (ENDS_PREFIX, rest),
        None => (CLIENT_PREFIX, fact.key.as_str()),
    };
    Fact { key: key_of_client(prefix, place, key), ..fact }
}

/// Runs a trial whose load sessions of the client hosts make.
///
/// # Errors
/// As [`Prepared::run`](crate::Prepared::run).
pub fn run(
    clients: &dyn ClientHosts,
    shares: &Shares<'_>,
    trial: &mut TrialContext<'_>,
) -> Result<TrialResult, Problem> {
    let (warmup_ns, duration_ns, seed) = (trial.warmup_ns, trial.duration_ns, trial.seed);
    let result = done(clients, |at| ClientOrder::Trial {
        session: shares.session,
        parameters: shares.parameters[at].clone(),
        warmup_ns,
        duration_ns,
        // Two hosts with one seed would touch the same rows at the same time.
        seed: seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    })
    .and_then(|()| follow(clients, shares, trial));
    if result.is_err() {
        // What made the trial fail is said; a client that is lost ends by itself.
        let _stopped = done(clients, |_| ClientOrder::Stop);
    }
    result
}

fn follow(
    clients: &dyn ClientHosts,
    shares: &Shares<'_>,
    trial: &mut TrialContext<'_>,
) -> Result<TrialResult, Problem> {
    all_at(clients, |moment| matches!(moment, ClientMoment::Opening).then_some(()))?;
    trial.window.open(shares.subjects)?;
    let open = Instant::now();
    done(clients, |_| ClientOrder::Go)?;
    let later = open.elapsed();
    let windows = all_at(clients, |moment| match moment {
        ClientMoment::Closing(window) => Some(window),
        _ => None,
    })?;
    let ours = trial.window.close()?;
    done(clients, |_| ClientOrder::Go)?;
    for (name, theirs) in clients.names().iter().zip(&windows) {
        alike(shares.planned_ns, &ours, theirs).map_err(|problem| on_host(problem, clients, name))?;
    }
    let results = all_at(clients, |moment| match moment {
        ClientMoment::Over(Ok(result)) => Some(result),
        _ => None,
    })?;
    let mut result = combined(clients.names(), results, shares.combine);
    result.notes.push(began(clients, &windows, later));
    Ok(result)
}

/// Waits until each of them has come to a moment; what that brought. None waits for another but here.
fn all_at<T>(clients: &dyn ClientHosts, take: impl Fn(ClientMoment) -> Option<T>) -> Result<Vec<T>, Problem> {
    let mut all: Vec<Option<T>> = clients.names().iter().map(|_| None).collect();
    loop {
        let due: Vec<usize> = (0..all.len()).filter(|at| all[*at].is_none()).collect();
        if due.is_empty() {
            return Ok(all.into_iter().flatten().collect());
        }
        let answers = clients.ask(due.iter().map(|at| (*at, ClientOrder::Next)).collect())?;
        for (at, answer) in due.into_iter().zip(answers) {
            let ClientAnswer::Moment(moment) = answer else { return Err(out_of_turn(&answer)) };
            match *moment {
                ClientMoment::Waiting => {}
                ClientMoment::Over(Err(problem)) => return Err(on_host(problem, clients, &clients.names()[at])),
                moment => {
                    let word = format!("{moment:.40?}");
                    let missing = || Problem::internal("the client host", format!("{word} came out of turn"));
                    all[at] = Some(take(moment).ok_or_else(missing)?);
                }
            }
        }
    }
}

/// A problem of one client host says which, where there are several.
fn on_host(problem: Problem, clients: &dyn ClientHosts, name: &str) -> Problem {
    match clients.names() {
        [_] => problem,
        _ => Problem { what: format!("{} on client host {name}", problem.what), ..problem },
    }
}

/// When the windows of the client hosts began. `later` holds for each of them, also where no clock is right.
fn began(clients: &dyn ClientHosts, windows: &[Window], later: Duration) -> String {
    let (later_ms, of) = (later.as_secs_f64() * 1e3, windows.len());
    if of == 1 {
        return format!("the window of the client host began at most {later_ms:.1} ms after the server's");
    }
    let by_clocks = match apart(windows, clients.clocks()) {
        Some((apart_ns, error_ns)) => {
            let ms = |ns: i64| ns as f64 / 1e6;
            format!("by their clocks {:.3} ms apart, known to within {:.3} ms", ms(apart_ns), ms(error_ns))
        }
        None => "their clocks were not compared".to_owned(),
    };
    format!("the windows of the {of} client hosts began at most {later_ms:.1} ms after the server's; {by_clocks}")
}

/// How far the first window and the last one began apart, by the clock of this host, and how far that may be off.
fn apart(windows: &[Window], clocks: &[ClockOffset]) -> Option<(i64, i64)> {
    if clocks.len() != windows.len() {
        return None;
    }
    let begin = |(window, clock): (&Window, &ClockOffset)| {
        (window.begin_unix_ns.saturating_sub(clock.offset_ns), clock.error_ns)
    };
    let all = || windows.iter().zip(clocks).map(begin);
    let (first, last) = (all().map(|(ns, _)| ns).min()?, all().map(|(ns, _)| ns).max()?);
    let mut errors: Vec<i64> = all().map(|(_, error_ns)| error_ns).collect();
    errors.sort_unstable();
    Some((last.saturating_sub(first), errors.iter().rev().take(2).sum()))
}

/// Evidence of one window explains another one only when they are nearly the same.
fn alike(planned_ns: Option<u64>, ours: &Window, theirs: &Window) -> Result<(), Problem> {
    let (server, client) = (Duration::from_nanos(ours.length_ns), Duration::from_nanos(theirs.length_ns));
    planned_ns.map_or(Ok(()), |planned_ns| on_time(planned_ns, server))?;
    if server.abs_diff(client) <= client / 20 + Duration::from_millis(250) {
        return Ok(());
    }
    let why = format!("{:.2} s on the server, {:.2} s on the client host", server.as_secs_f64(), client.as_secs_f64());
    Err(Problem::trial("the windows of both ends differ", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(begin_unix_ns: i64, ms: u64) -> Window {
        Window { begin_unix_ns, end_unix_ns: 0, length_ns: ms * 1_000_000 }
    }

    #[test]
    fn windows_that_differ_by_more_than_messages_take_do_not_count() {
        let of = |server, client| alike(Some(1_000_000_000), &window(0, server), &window(0, client));
        assert_eq!(of(1_020, 1_000), Ok(()));
        assert!(of(1_320, 1_000).is_err());
        assert!(of(1_600, 1_600).is_err(), "neither is as long as planned");
        assert_eq!(alike(None, &window(0, 1_600), &window(0, 1_600)), Ok(()), "no length was planned");
    }

    #[test]
    fn connections_are_divided_evenly_and_the_first_hosts_have_the_rest() {
        for (total, hosts, expect) in [(2, 2, vec![1, 1]), (5, 3, vec![2, 2, 1]), (7, 2, vec![4, 3]), (4, 1, vec![4])] {
            assert_eq!(divided("clients", total, hosts), Ok(expect));
        }
        let refused = divided("clients", 2, 3).expect_err("one host has none");
        assert_eq!(refused.what, "clients = 2");
        assert_eq!(refused.why, "they are divided among 3 client hosts, and each needs one");
        assert!(refused.hint.is_some_and(|hint| hint.starts_with("clients = 3 or more")));
    }

    #[test]
    fn begins_are_compared_by_one_clock_and_the_errors_of_two_add_up() {
        let clock = |offset_ns, error_ns| ClockOffset { offset_ns, error_ns };
        let windows = [window(1_000, 1), window(5_300, 1), window(900, 1)];
        let clocks = [clock(0, 10), clock(4_000, 30), clock(-200, 20)];
        assert_eq!(apart(&windows, &clocks), Some((300, 50)));
        assert_eq!(apart(&windows, &clocks[..2]), None);
    }
}
