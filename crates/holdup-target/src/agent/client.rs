//! Both sides of client hosts: the agent of one, which makes load, and the way to all from the agent of the host under test.

use super::connection::Connection;
use super::hosted::Hold;
use super::{AgentRequest, Relay};
use holdup_host::Host;
use holdup_load::{
    Cancel, ClientHosts, OtherEnd, PostgresOptions, PrepareContext, Prepared, TrialContext, TrialResult, WindowHooks,
    Workload,
};
use holdup_model::ends::{ClientAnswer, ClientHostsView, ClientMoment, ClientOrder, ClientPlan, ClientSession};
use holdup_model::plan::DEFAULT_MAX_STEAL_SHARE;
use holdup_model::wire::{Answer, Order};
use holdup_model::{Availability, ClockOffset, Event, Observer, Parameters, Problem, Window};
use holdup_watch::window::CollectorHooks;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often a wait looks whether it should end.
const LOOK: Duration = Duration::from_millis(20);
/// How long [`ClientOrder::Next`] waits.
const NEXT: Duration = Duration::from_secs(1);
/// How long a connection to the host under test may take.
const CONNECT: Duration = Duration::from_secs(10);

/// What came of orders to client hosts.
pub(super) type OfClients = Result<Vec<ClientAnswer>, Problem>;

/// The way to the client hosts, over the line of this agent.
pub(super) struct Way {
    pub(super) connection: Connection,
    pub(super) answers: Arc<Mutex<Receiver<OfClients>>>,
    pub(super) cancel: Cancel,
}

impl Way {
    pub(super) fn clients(&self, names: Vec<String>, view: ClientHostsView) -> Arc<dyn ClientHosts> {
        let (connection, answers) = (self.connection.clone(), Arc::clone(&self.answers));
        let way = Way { connection, answers, cancel: self.cancel.clone() };
        Arc::new(Asked { way, names, view, sessions: AtomicU32::new(0) })
    }
}

struct Asked {
    way: Way,
    names: Vec<String>,
    view: ClientHostsView,
    /// How many there were.
    sessions: AtomicU32,
}

impl ClientHosts for Asked {
    fn reached_as(&self) -> &str {
        &self.view.reached_as
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn clocks(&self) -> &[ClockOffset] {
        &self.view.clocks
    }

    fn next_session(&self) -> u32 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }

    fn ask(&self, orders: Vec<(usize, ClientOrder)>) -> OfClients {
        let Way { connection, answers, cancel } = &self.way;
        let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        let count = orders.len();
        connection.send(&Answer::Clients(orders.into_iter().map(|(at, order)| (at as u32, order)).collect()))?;
        match receive(&answers, cancel) {
            Ok(Ok(all)) if all.len() != count => {
                Err(Problem::internal("client hosts", format!("{} answers came to {count} orders", all.len())))
            }
            Ok(all) => all,
            Err(RecvTimeoutError::Timeout) => Err(Problem::interrupted("the client hosts")),
            Err(RecvTimeoutError::Disconnected) => Err(Problem::host("the connection to holdup", "it ended")),
        }
    }
}

/// Waits for a message; `Timeout` when it is cancelled before one comes.
fn receive<T>(from: &Receiver<T>, cancel: &Cancel) -> Result<T, RecvTimeoutError> {
    loop {
        match from.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if !cancel.is_cancelled() => {}
            received => return received,
        }
    }
}

/// What a client host was asked to be.
pub(super) struct Attending<'a> {
    pub(super) agent: &'a AgentRequest<'a>,
    pub(super) postgres_bin: Option<String>,
    /// Orders of the host under test are compared with this.
    pub(super) plan: ClientPlan,
    pub(super) cancel: &'a Cancel,
}

/// One session as the client host of another one, until it is closed or the connection ends. Whether there may be another.
pub(super) fn attend(with: Attending<'_>, inbox: &Receiver<Order>, connection: &Connection) -> Result<bool, Problem> {
    let host = with.agent.host;
    let hold = with.agent.hosted.as_ref().map(|hosted| Hold::take(host, hosted, with.cancel)).transpose();
    let hold = match hold.and_then(|hold| with.usable().map(|()| hold)) {
        Ok(hold) => hold,
        Err(problem) => return connection.send(&Answer::Opened(Err(problem))).map(|()| true),
    };
    for note in hold.iter().flat_map(|hold| &hold.notes) {
        Relay { connection }.event(Event::Note(note));
    }
    let answered = with.serve(inbox, connection);
    if let Some(hold) = hold {
        hold.ended(None);
    }
    answered
}

impl Attending<'_> {
    /// Only the programs of the client side are looked for where there is the address of a server.
    fn postgres(&self, workload: &dyn Workload) -> PostgresOptions {
        let url = workload.has_postgres().then(String::new);
        PostgresOptions { bin: self.postgres_bin.as_ref().map(PathBuf::from), url, builds: BTreeMap::new() }
    }

    /// Refuses workloads whose programs are not here.
    fn usable(&self) -> Result<(), Problem> {
        let kinds: BTreeSet<&String> = self.plan.arms.iter().map(|(kind, _)| kind).collect();
        for kind in kinds {
            let workload = workload(kind)?;
            let postgres = self.postgres(workload);
            if let Availability::Unavailable { reason, remedy } = workload.probe(self.agent.host, &postgres) {
                let problem = Problem::host(format!("workload {kind}"), reason);
                return Err(Problem { hint: remedy, ..problem });
            }
        }
        Ok(())
    }

    /// True if there may be another session.
    fn serve(&self, inbox: &Receiver<Order>, connection: &Connection) -> Result<bool, Problem> {
        let mut sessions = Sessions { all: BTreeMap::new(), running: None, server: None };
        connection.send(&Answer::Opened(Ok(holdup_host::facts(self.agent.host))))?;
        loop {
            match inbox.recv() {
                Ok(Order::Client(order)) => {
                    connection.send(&Answer::OfClient(self.carry_out(order, &mut sessions, connection)))?;
                }
                Ok(Order::Close) => {
                    drop(sessions);
                    let closed = Answer::Closed { result: Ok(Vec::new()), kernel_log: Ok(String::new()) };
                    return connection.send(&closed).map(|()| true);
                }
                Ok(Order::Off) | Err(_) => return Ok(false),
                Ok(Order::Alive | Order::Cancel | Order::Clock | Order::OfClients(_)) => {}
                Ok(_) => {
                    connection.send(&Answer::Refused("an order came that is none for a client host".to_owned()))?;
                }
            }
        }
    }

    fn carry_out(
        &self,
        order: ClientOrder,
        sessions: &mut Sessions,
        connection: &Connection,
    ) -> Result<ClientAnswer, Problem> {
        self.plan.check(&order, sessions.server)?;
        match order {
            ClientOrder::Route { server } => {
                let (server, client) = route(&server)?;
                sessions.server = Some(server);
                Ok(ClientAnswer::Route { server, client })
            }
            ClientOrder::Connect(to) => reach(to),
            ClientOrder::Prepare(session) => {
                let number = session.session;
                sessions.all.remove(&number);
                let mut prepared = self.prepare(*session, connection)?;
                let facts = prepared.facts();
                sessions.all.insert(number, prepared);
                Ok(ClientAnswer::Facts(facts))
            }
            ClientOrder::Trial { session, parameters, warmup_ns, duration_ns, seed } => {
                sessions.end();
                let missing = || Problem::internal("the client host", format!("it has no session {session}"));
                let prepared = sessions.all.remove(&session).ok_or_else(missing)?;
                let times = Times { warmup_ns, duration_ns, seed };
                sessions.running = Some(Running::start(self.agent.host, session, prepared, parameters, times));
                Ok(ClientAnswer::Done)
            }
            ClientOrder::Next => sessions.next().map(|moment| ClientAnswer::Moment(Box::new(moment))),
            ClientOrder::Go => {
                // A trial that has failed meanwhile says so by its next moment.
                let _over = sessions.running.as_ref().map(|running| running.go.send(()));
                Ok(ClientAnswer::Done)
            }
            ClientOrder::Stop => {
                sessions.end();
                Ok(ClientAnswer::Done)
            }
        }
    }

    fn prepare(&self, session: ClientSession, connection: &Connection) -> Result<Box<dyn Prepared>, Problem> {
        let workload = workload(&session.kind)?;
        let none = Parameters::default();
        let mut step = |text: &str| Relay { connection }.event(Event::Step(text));
        workload.prepare(PrepareContext {
            host: self.agent.host,
            parameters: session.combinations.first().unwrap_or(&none),
            combinations: &session.combinations,
            metrics: &[],
            postgres: &self.postgres(workload),
            other_end: Some(OtherEnd::Server(&session.service)),
            workdir: self.agent.workdir.clone(),
            cancel: self.cancel.clone(),
            step: &mut step,
        })
    }
}

fn workload(kind: &str) -> Result<&'static dyn Workload, Problem> {
    holdup_workloads::find(kind)
        .filter(|workload| workload.has_two_ends())
        .ok_or_else(|| Problem::internal(format!("workload {kind}"), "it has no client host"))
}

/// The first address of a name to which this host has a route, and its own address on that.
fn route(name: &str) -> Result<(IpAddr, IpAddr), Problem> {
    let wrong = |why: String| {
        Problem::host(format!("the server as `{name}`"), why)
            .hint("address in [hosts] is the name or address by which the client reaches the server")
    };
    let all = (name, 9).to_socket_addrs().map_err(|e| wrong(e.to_string()))?;
    let mut last = "it has no address".to_owned();
    for server in all.map(|at| at.ip()) {
        let any: IpAddr = if server.is_ipv4() { [0; 4].into() } else { [0_u16; 8].into() };
        // Connecting a datagram socket sends nothing: it asks for the route.
        let own = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect((server, 9))?;
            socket.local_addr()
        });
        match own {
            Ok(own) => return Ok((server, own.ip())),
            Err(e) => last = format!("{server}: {e}"),
        }
    }
    Err(wrong(last))
}

fn reach(to: SocketAddr) -> Result<ClientAnswer, Problem> {
    TcpStream::connect_timeout(&to, CONNECT).map(|_| ClientAnswer::Done).map_err(|e| {
        Problem::host(format!("the server at {to}"), format!("the client host cannot connect to it: {e}")).hint(
            "holdup takes a free port above 1024 at this address for the run: let the client host through the server's \
             firewall, or name another address in [hosts]",
        )
    })
}

/// Workloads that are ready, and the trial under way.
struct Sessions {
    all: BTreeMap<u32, Box<dyn Prepared>>,
    running: Option<Running>,
    /// The address of the host under test, once it was looked up here.
    server: Option<IpAddr>,
}

impl Sessions {
    fn next(&mut self) -> Result<ClientMoment, Problem> {
        let running = self.running.as_ref().ok_or_else(|| Problem::internal("the client host", "no trial runs"))?;
        match running.moments.recv_timeout(NEXT) {
            Ok(moment @ ClientMoment::Over(_)) => {
                self.end();
                Ok(moment)
            }
            Ok(moment) => Ok(moment),
            Err(RecvTimeoutError::Timeout) => Ok(ClientMoment::Waiting),
            Err(RecvTimeoutError::Disconnected) => {
                self.end();
                Err(Problem::internal("the client host", "the trial ended without a result"))
            }
        }
    }

    /// Ends the trial under way, if there is one.
    fn end(&mut self) {
        if let Some((number, prepared)) = self.running.take().and_then(Running::end) {
            self.all.insert(number, prepared);
        }
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.end();
    }
}

/// The times and the seed of a trial.
struct Times {
    warmup_ns: u64,
    duration_ns: u64,
    seed: u64,
}

/// A trial under way.
struct Running {
    session: u32,
    cancel: Cancel,
    moments: Receiver<ClientMoment>,
    go: Sender<()>,
    thread: JoinHandle<Box<dyn Prepared>>,
}

impl Running {
    fn start(host: &Host, session: u32, mut prepared: Box<dyn Prepared>, parameters: Parameters, times: Times) -> Self {
        let (cancel, host) = (Cancel::default(), host.clone());
        let ((send, moments), (go, gone)) = (channel(), channel());
        let asked = cancel.clone();
        let thread = std::thread::spawn(move || {
            let over = trial(&host, &mut *prepared, &parameters, &times, (&send, &gone), &asked);
            // The other side may have gone.
            let _unheard = send.send(ClientMoment::Over(over));
            prepared
        });
        Running { session, cancel, moments, go, thread }
    }

    fn end(self) -> Option<(u32, Box<dyn Prepared>)> {
        self.cancel.cancel();
        // A session whose trial panicked is gone; the next trial says so.
        self.thread.join().ok().map(|prepared| (self.session, prepared))
    }
}

fn trial(
    host: &Host,
    prepared: &mut dyn Prepared,
    parameters: &Parameters,
    times: &Times,
    (moments, go): (&Sender<ClientMoment>, &Receiver<()>),
    cancel: &Cancel,
) -> Result<TrialResult, Problem> {
    let mut window = Relayed { hooks: CollectorHooks::new(host, &[], None), moments, go, cancel };
    let result = prepared.run(TrialContext {
        parameters,
        warmup_ns: times.warmup_ns,
        duration_ns: times.duration_ns,
        seed: times.seed,
        cancel: cancel.clone(),
        enough: Cancel::default(),
        window: &mut window,
    });
    let watched = window.hooks.finish();
    let result = result?;
    let on_client = |problem: Problem| Problem { what: format!("{} on the client host", problem.what), ..problem };
    watched.steady(DEFAULT_MAX_STEAL_SHARE).map_err(on_client)?;
    Ok(result)
}

/// A window that opens when that of the host under test is open, and that that one closes after.
struct Relayed<'a> {
    hooks: CollectorHooks<'a>,
    moments: &'a Sender<ClientMoment>,
    go: &'a Receiver<()>,
    cancel: &'a Cancel,
}

impl Relayed<'_> {
    fn meet(&self, moment: ClientMoment) -> Result<(), Problem> {
        let gone = || Problem::interrupted("the trial");
        self.moments.send(moment).map_err(|_| gone())?;
        receive(self.go, self.cancel).map_err(|_| gone())
    }
}

impl WindowHooks for Relayed<'_> {
    fn open(&mut self, subjects: &[(String, u32)]) -> Result<(), Problem> {
        self.meet(ClientMoment::Opening)?;
        self.hooks.open(subjects)
    }

    fn close(&mut self) -> Result<Window, Problem> {
        let window = self.hooks.close()?;
        self.meet(ClientMoment::Closing(window))?;
        Ok(window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::{peer::tests::answer, serve};
    use holdup_catalogue::stream;
    use holdup_model::ends::{ServiceAccess, Token};
    use holdup_model::frame::{Decoder, encode};
    use holdup_model::wire;
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    fn prepare(at: SocketAddr, parameters: &Parameters) -> ClientOrder {
        ClientOrder::Prepare(Box::new(ClientSession {
            session: 0,
            kind: "stream".to_owned(),
            combinations: vec![parameters.clone()],
            service: ServiceAccess { at, number: 1, token: Token::default() },
        }))
    }

    #[test]
    fn a_client_host_does_only_what_the_plan_names() {
        let listener = |address: &str| TcpListener::bind((address, 0)).expect("it listens");
        let (server, other) = (listener("127.0.0.1"), listener("127.0.0.2"));
        let at = |listener: &TcpListener| listener.local_addr().expect("it is bound");
        let planned = stream::Parameters::defaults(1);
        let mut with_file = planned.clone();
        with_file.set("profile", "/etc/hostname");
        let name = |name: &str| ClientOrder::Route { server: name.to_owned() };
        let arms = vec![("stream".to_owned(), planned.clone())];
        let plan = ClientPlan { reached_as: "127.0.0.1".to_owned(), arms, warmup_ns: 0, duration_ns: 1 };
        let orders = [
            (ClientOrder::Connect(at(&server)), false),
            (name("localhost"), false),
            (name("127.0.0.1"), true),
            (ClientOrder::Connect(at(&other)), false),
            (ClientOrder::Connect(at(&server)), true),
            (prepare(at(&other), &planned), false),
            (prepare(at(&server), &with_file), false),
            (ClientOrder::Stop, true),
        ];
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        std::thread::scope(|scope| {
            let agent = scope.spawn(move || {
                let (host, workdir) = (Host::real(), PathBuf::from("/tmp"));
                let request = AgentRequest { host: &host, workdir, notes: Vec::new(), hosted: None };
                serve(&request, theirs.try_clone().expect("is cloned"), theirs)
            });
            let mut decoder = Decoder::new();
            assert!(matches!(answer(&mut ours, &mut decoder), Answer::Hello(_)));
            let attend = Order::Attend { postgres_bin: None, plan: Box::new(plan) };
            ours.write_all(&encode(0, &wire::to_bytes(&attend))).expect("is written");
            assert!(matches!(answer(&mut ours, &mut decoder), Answer::Opened(Ok(_))));
            for (number, (order, is_named)) in (1..).zip(orders) {
                let what = format!("{number}: {order:?}");
                ours.write_all(&encode(number, &wire::to_bytes(&Order::Client(order)))).expect("is written");
                match answer(&mut ours, &mut decoder) {
                    Answer::OfClient(Ok(_)) => assert!(is_named, "{what}"),
                    Answer::OfClient(Err(problem)) => {
                        assert!(!is_named && problem.why.contains("the plan does not name"), "{what}: {problem}");
                    }
                    other => panic!("{what}: {other:?}"),
                }
            }
            ours.write_all(&encode(99, &wire::to_bytes(&Order::Off))).expect("is written");
            assert_eq!(agent.join().expect("no panic"), Ok(()));
        });
        other.set_nonblocking(true).expect("a socket");
        assert!(other.accept().is_err(), "another address was connected to");
    }
}
