//! Load that another host makes, as the workload on the host under test sees it.
//!
//! The client host runs the same workload against this one. Its window opens when this one's is open, and this one's
//! closes when that one is closed, so both are the same but for the way of a message, and no clocks are compared.

use crate::drive::on_time;
use crate::{TrialContext, TrialResult};
use holdup_model::ends::{
    CLIENT_PREFIX, ClientAnswer, ClientMoment, ClientOrder, ClientResult, ClientSession, ENDS_PREFIX,
};
use holdup_model::{Fact, Problem, Window};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::time::{Duration, Instant};

/// The other host.
pub trait ClientHost: Send + Sync {
    /// The name by which it reaches this host.
    fn reached_as(&self) -> &str;
    /// A number for one more session there.
    fn next_session(&self) -> u32;
    /// Has it do something, and waits for that.
    ///
    /// # Errors
    /// Its own problem; of kind `Host` when it is lost, of kind `Interrupted` when asked to end.
    fn ask(&self, order: ClientOrder) -> Result<ClientAnswer, Problem>;
}

/// An answer that does not belong to the order.
pub fn out_of_turn(answer: &ClientAnswer) -> Problem {
    let kind: String = format!("{answer:?}").chars().take(40).collect();
    Problem::internal("the client host", format!("an answer came out of turn: {kind}"))
}

/// The address of this host for its client, and that of the client for this host.
///
/// # Errors
/// When the client finds no way here.
pub fn route(client: &dyn ClientHost) -> Result<(IpAddr, IpAddr), Problem> {
    match client.ask(ClientOrder::Route { server: client.reached_as().to_owned() })? {
        ClientAnswer::Route { server, client } => Ok((server, client)),
        other => Err(out_of_turn(&other)),
    }
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

/// Has the client host try a port of this host.
///
/// # Errors
/// When it cannot connect.
pub fn connect(client: &dyn ClientHost, at: SocketAddr) -> Result<(), Problem> {
    done(client, ClientOrder::Connect(at))
}

/// Has the client host make a session ready; its facts, with their prefix where they are of the client alone.
///
/// # Errors
/// When it cannot.
pub fn prepare(client: &dyn ClientHost, session: ClientSession) -> Result<Vec<Fact>, Problem> {
    let of_client = |fact: Fact| match fact.key.starts_with(ENDS_PREFIX) {
        true => fact,
        false => Fact { key: format!("{CLIENT_PREFIX}{}", fact.key), ..fact },
    };
    match client.ask(ClientOrder::Prepare(Box::new(session)))? {
        ClientAnswer::Facts(facts) => Ok(facts.into_iter().map(of_client).collect()),
        other => Err(out_of_turn(&other)),
    }
}

fn done(client: &dyn ClientHost, order: ClientOrder) -> Result<(), Problem> {
    match client.ask(order)? {
        ClientAnswer::Done => Ok(()),
        other => Err(out_of_turn(&other)),
    }
}

/// Runs a trial whose load a session of the client host makes. `planned_ns` is how long its window should be; `None` where
/// it is as long as its work takes.
///
/// # Errors
/// As [`Prepared::run`](crate::Prepared::run).
pub fn run(
    client: &dyn ClientHost,
    session: u32,
    trial: &mut TrialContext<'_>,
    planned_ns: Option<u64>,
    subjects: &[(String, u32)],
) -> Result<TrialResult, Problem> {
    let parameters = trial.parameters.clone();
    let (warmup_ns, duration_ns, seed) = (trial.warmup_ns, trial.duration_ns, trial.seed);
    done(client, ClientOrder::Trial { session, parameters, warmup_ns, duration_ns, seed })?;
    let result = follow(client, trial, planned_ns, subjects);
    if result.is_err() {
        // What made the trial fail is said; a client that is lost ends by itself.
        let _stopped = client.ask(ClientOrder::Stop);
    }
    result
}

fn follow(
    client: &dyn ClientHost,
    trial: &mut TrialContext<'_>,
    planned_ns: Option<u64>,
    subjects: &[(String, u32)],
) -> Result<TrialResult, Problem> {
    let mut later = Duration::ZERO;
    loop {
        let moment = match client.ask(ClientOrder::Next)? {
            ClientAnswer::Moment(moment) => *moment,
            other => return Err(out_of_turn(&other)),
        };
        match moment {
            ClientMoment::Waiting => {}
            ClientMoment::Opening => {
                trial.window.open(subjects)?;
                let open = Instant::now();
                done(client, ClientOrder::Go)?;
                later = open.elapsed();
            }
            ClientMoment::Closing(theirs) => {
                let ours = trial.window.close()?;
                done(client, ClientOrder::Go)?;
                alike(planned_ns, &ours, &theirs)?;
            }
            ClientMoment::Over(result) => {
                let ClientResult { measurements, histograms, mut notes } = result?;
                let ms = later.as_secs_f64() * 1e3;
                notes.push(format!("the window of the client host began at most {ms:.1} ms after the server's"));
                return Ok(TrialResult { measurements, histograms, notes });
            }
        }
    }
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

    #[test]
    fn windows_that_differ_by_more_than_messages_take_do_not_count() {
        let window = |ms: u64| Window { begin_unix_ns: 0, end_unix_ns: 0, length_ns: ms * 1_000_000 };
        let of = |server, client| alike(Some(1_000_000_000), &window(server), &window(client));
        assert_eq!(of(1_020, 1_000), Ok(()));
        assert!(of(1_320, 1_000).is_err());
        assert!(of(1_600, 1_600).is_err(), "neither is as long as planned");
        assert_eq!(alike(None, &window(1_600), &window(1_600)), Ok(()), "no length was planned");
    }
}
