//! A workload whose ends are on two hosts or more: on the one under test a service for the clients, on each of those a part of
//! the load.

use crate::client_hosts::{self, Shares};
use crate::combine::Combination;
use crate::peer::{Clocks, PeerClient, RemoteEnd, Server};
use crate::service::{self, Admission};
use crate::workload::{OtherEnd, PrepareContext, Prepared, Shared, TrialContext, Workload};
use crate::{Cancel, ClientHosts};
use holdup_host::Host;
use holdup_model::ends::{CLOCK_OFFSET, CLOCK_OFFSET_ERROR, ClientSession, ENDS_PREFIX, ServiceAccess, Token};
use holdup_model::trial::TrialResult;
use holdup_model::{Fact, Measured, Measurement, Parameters, Problem, ProblemKind};
use std::cmp::Ordering;
use std::fmt;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long the client host may take to connect.
const CONNECT: Duration = Duration::from_secs(20);

/// Lines about connections that a trial keeps: any user of a client host can make some.
const MOST_LOG_LINES: usize = 100;

/// What the client does in a trial.
pub type RunClient<E> = fn(Server<E>, &Host, TrialContext<'_>) -> Result<TrialResult, Problem>;

/// What each of the client hosts has of an arm of this workload: all of it where there is one.
///
/// # Errors
/// Of kind `Usage` when it cannot be divided.
pub fn parts(
    kind: &str,
    shared: Option<&Shared>,
    parameters: &Parameters,
    hosts: usize,
) -> Result<Vec<Parameters>, Problem> {
    match shared {
        _ if hosts == 1 => Ok(vec![parameters.clone()]),
        Some(shared) => (shared.divide)(parameters, hosts),
        None => {
            let why = "its load is one connection, which one host has";
            Err(Problem::usage(format!("{kind} with {hosts} client hosts"), why).hint("one host in [hosts] client"))
        }
    }
}

/// A session of a workload on one of its hosts; `None` where both ends are on this one. `has_fixed_work` says of an arm
/// whether its window is as long as its work takes.
///
/// # Errors
/// When this host has no address that the client reaches, or the client cannot connect or take part.
pub fn prepare<E: RemoteEnd + 'static>(
    workload: &'static dyn Workload,
    context: &PrepareContext<'_>,
    has_fixed_work: fn(&Parameters) -> bool,
    run: RunClient<E>,
) -> Result<Option<Box<dyn Prepared>>, Problem> {
    let session: Box<dyn Prepared> = match context.other_end {
        None => return Ok(None),
        Some(OtherEnd::Clients(clients)) => Box::new(Served::prepare::<E>(clients, context, workload, has_fixed_work)?),
        Some(OtherEnd::Server(access)) => Box::new(Client::prepare(context, access, run)?),
    };
    Ok(Some(session))
}

/// A session on the host under test.
struct Served {
    clients: Arc<dyn ClientHosts>,
    session: u32,
    facts: Vec<Fact>,
    workload: &'static dyn Workload,
    has_fixed_work: fn(&Parameters) -> bool,
    service: Service,
}

/// Serves until it is dropped.
struct Service {
    stop: Cancel,
    thread: Option<JoinHandle<std::io::Result<()>>>,
    /// What became of connections that it ended.
    log: Arc<Mutex<Vec<String>>>,
}

impl Served {
    /// Serves the clients at the one address by which they reach this host, and has each make its part ready.
    fn prepare<E: RemoteEnd + 'static>(
        clients: &Arc<dyn ClientHosts>,
        context: &PrepareContext<'_>,
        workload: &'static dyn Workload,
        has_fixed_work: fn(&Parameters) -> bool,
    ) -> Result<Self, Problem> {
        let kind = workload.meta().id;
        let (address, from) = client_hosts::route(&**clients)?;
        let listener = client_hosts::listen(&format!("the service of {kind}"), address)?;
        let at = listener.local_addr().map_err(|e| Problem::host(format!("the service of {kind}"), e.to_string()))?;
        let admitted = from.into_iter().map(|from| Ok((from, token()?))).collect::<Result<Vec<_>, Problem>>()?;
        let service = Service::start::<E>(context.host, listener, Admission::Only(admitted.clone()))?;
        client_hosts::connect(&**clients, at)?;
        let session = clients.next_session();
        let mut sessions: Vec<ClientSession> = admitted
            .into_iter()
            .zip(1..)
            .map(|((_, token), number)| ClientSession {
                session,
                kind: kind.to_owned(),
                combinations: Vec::new(),
                service: ServiceAccess { at, number, token },
            })
            .collect();
        for parameters in context.combinations {
            let parts = parts(kind, workload.shared(), parameters, sessions.len())?;
            sessions.iter_mut().zip(parts).for_each(|(session, part)| session.combinations.push(part));
        }
        let facts = client_hosts::prepare(&**clients, &sessions)?;
        Ok(Served { clients: Arc::clone(clients), session, facts, workload, has_fixed_work, service })
    }
}

/// A new one, of 256 random bits.
fn token() -> Result<Token, Problem> {
    let bits = crate::peer::random::<32>().map_err(|e| Problem::host("a token", e.to_string()))?;
    Ok(Token(bits.iter().map(|byte| format!("{byte:02x}")).collect()))
}

impl Prepared for Served {
    fn facts(&mut self) -> Vec<Fact> {
        self.facts.clone()
    }

    fn run(&mut self, mut trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let (kind, shared) = (self.workload.meta().id, self.workload.shared());
        let shares = Shares {
            session: self.session,
            parameters: parts(kind, shared, trial.parameters, self.clients.names().len())?,
            planned_ns: (!(self.has_fixed_work)(trial.parameters)).then_some(trial.duration_ns),
            subjects: &[("load".to_owned(), std::process::id())],
            combine: shared.map_or(|_| Combination::Sum, |shared| shared.combine),
        };
        let result = client_hosts::run(&*self.clients, &shares, &mut trial);
        let log = std::mem::take(&mut *self.service.log.lock().unwrap_or_else(PoisonError::into_inner));
        result.map(|mut result| {
            result.notes.extend(log);
            result
        })
    }
}

impl Service {
    fn start<E: RemoteEnd + 'static>(
        host: &Host,
        listener: TcpListener,
        admission: Admission,
    ) -> Result<Self, Problem> {
        let (stop, log) = (Cancel::default(), Arc::new(Mutex::new(Vec::new())));
        let (stopped, logged, host) = (stop.clone(), Arc::clone(&log), host.clone());
        let work = move || {
            let note = |line: &str| {
                let mut log = logged.lock().unwrap_or_else(PoisonError::into_inner);
                match log.len().cmp(&MOST_LOG_LINES) {
                    Ordering::Less => log.push(format!("the service: {line}")),
                    Ordering::Equal => log.push("the service: it ended more connections".to_owned()),
                    Ordering::Greater => {}
                }
            };
            service::serve::<E>(&host, &listener, &admission, &stopped, &note)
        };
        let thread = std::thread::Builder::new().name("holdup-service".to_owned()).spawn(work);
        let thread = thread.map_err(|e| Problem::host("the service", format!("no thread for it: {e}")))?;
        Ok(Service { stop, thread: Some(thread), log })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.cancel();
        // It ends within some milliseconds, with all that its connections do.
        let _ended = self.thread.take().map(JoinHandle::join);
    }
}

/// A session on the host that makes the load.
struct Client<E> {
    host: Host,
    access: ServiceAccess,
    facts: Vec<Fact>,
    run: RunClient<E>,
}

impl<E: RemoteEnd> Client<E> {
    fn prepare(context: &PrepareContext<'_>, access: &ServiceAccess, run: RunClient<E>) -> Result<Self, Problem> {
        let mut server = reach(context.host, access, &context.cancel)?;
        let facts = facts_of_clocks(&server.compare_clocks()?);
        Ok(Client { host: context.host.clone(), access: access.clone(), facts, run })
    }
}

impl<E: RemoteEnd> Prepared for Client<E> {
    fn facts(&mut self) -> Vec<Fact> {
        self.facts.clone()
    }

    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        // Another trial may reach it.
        let server = reach(&self.host, &self.access, &trial.cancel).map_err(|problem| match problem.kind {
            ProblemKind::Interrupted => problem,
            _ => problem.of_kind(ProblemKind::Trial),
        })?;
        (self.run)(Server::new(server), &self.host, trial)
    }
}

/// How far a time from a moment on one host to a moment on the other may be off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockError {
    pub ns: i64,
}

impl ClockError {
    /// Where the offset of `before` was applied until `after`. Rates of clocks are taken to be even meanwhile.
    pub fn of(before: &Clocks, after: &Clocks) -> Self {
        let applied_ns = before.monotonic.offset_ns;
        ClockError { ns: before.monotonic.error_of(applied_ns).max(after.monotonic.error_of(applied_ns)) }
    }

    /// A time from one host to the other, in units of `unit_ns`: absent unless it exceeds the error.
    #[must_use]
    pub fn decide(self, time: Measurement, unit_ns: f64) -> Measurement {
        match time.value {
            Measured::Value(value) if value * unit_ns <= self.ns as f64 => {
                let why = format!("not decidable: the clocks of the hosts are known to within {self} only");
                Measurement::absent(&time.metric, why)
            }
            _ => time,
        }
    }
}

impl fmt::Display for ClockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} us", self.ns as f64 / 1e3)
    }
}

/// A connection to the service of the other machine.
///
/// # Errors
/// When it cannot be had.
pub fn reach(host: &Host, access: &ServiceAccess, cancel: &Cancel) -> Result<PeerClient, Problem> {
    PeerClient::connect(host, access, CONNECT, cancel)
}

/// Facts of a comparison of the clocks of client and server, made by the client.
fn facts_of_clocks(clocks: &Clocks) -> Vec<Fact> {
    let source = format!("the client's clock less the server's, {}", Clocks::source());
    let ms = |ns: i64| format!("{:.6}", ns as f64 / 1e6);
    let key = |rest: &str| format!("{ENDS_PREFIX}{rest}");
    // Which side asks turns the sign.
    vec![
        Fact::read(key(CLOCK_OFFSET), ms(clocks.wall.offset_ns.saturating_neg()), &source),
        Fact::read(key(CLOCK_OFFSET_ERROR), ms(clocks.wall.error_ns), &source),
        Fact::read(key("monotonic_offset_ms"), ms(clocks.monotonic.offset_ns.saturating_neg()), &source),
        Fact::read(key("round_trip_us"), format!("{:.3}", clocks.round_trip_ns as f64 / 1e3), Clocks::source()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::ClockOffset;

    #[test]
    fn a_time_is_given_only_where_it_exceeds_what_the_clocks_may_be_off() {
        let clocks = |offset_ns, error_ns| Clocks {
            monotonic: ClockOffset { offset_ns, error_ns },
            wall: ClockOffset { offset_ns: 0, error_ns },
            round_trip_ns: 100,
        };
        // The clocks drifted by 5 us meanwhile, whose comparisons were off by 10 us and 20 us.
        let error = ClockError::of(&clocks(7_000_000, 10_000), &clocks(7_005_000, 20_000));
        assert_eq!((error.ns, error.to_string().as_str()), (25_000, "25.0 us"));
        assert_eq!(ClockError::of(&clocks(0, 30_000), &clocks(0, 20_000)).ns, 30_000);
        let of = |us: f64| error.decide(Measurement::new("one_way_p50_us", us), 1e3).value;
        assert_eq!(of(25.1), Measured::Value(25.1));
        for us in [0.0, 12.0, 25.0] {
            assert!(
                matches!(of(us), Measured::Absent(why) if why.contains("not decidable") && why.contains("25.0 us"))
            );
        }
        let absent = Measurement::absent("one_way_p50_us", "too short");
        assert_eq!(error.decide(absent.clone(), 1e3), absent);
    }
}
