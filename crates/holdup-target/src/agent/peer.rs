//! Both sides of a peer: the agent of the guest that is one, and the orders of the agent beside it.

use super::connection::{self, Connection};
use super::{AgentRequest, hello};
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_load::peer::{self, Clocks, PeerClient};
use holdup_load::service::{self, Admission};
use holdup_model::guest::PEER_PORT;
use holdup_model::wire::{Answer, Order};
use holdup_model::{Fact, Guest, Plan, Problem};
use holdup_stream::apart::ServerSide;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Serves the remote side of loads at an address, and announces that over a connection, until the other side sends `Off`
/// or closes it.
///
/// # Errors
/// When nothing can listen at the address, or the connection breaks.
pub fn serve_peer(
    request: &AgentRequest<'_>,
    address: IpAddr,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), Problem> {
    let failed = |e: std::io::Error| Problem::host(format!("the peer at {address}:{PEER_PORT}"), e.to_string());
    let listener = TcpListener::bind((address, PEER_PORT)).map_err(failed)?;
    let connection = Connection::new(output);
    let stop = Cancel::default();
    let (orders, inbox) = channel();
    connection::read_in_background(input, (orders, channel().0), stop.clone(), connection.clone());
    let _beats = connection.clone().beat_in_background();
    connection.send(&Answer::Hello(Box::new(hello(request))))?;
    std::thread::scope(|scope| {
        // A broken connection shows at the next answer.
        let note = |text: &str| drop(connection.send(&Answer::Note(format!("the peer: {text}"))));
        let service = scope.spawn({
            let (listener, stop) = (&listener, &stop);
            move || {
                let served = service::serve::<ServerSide>(request.host, listener, &Admission::default(), stop, &note);
                if let Err(e) = &served {
                    note(&format!("it serves no more: {e}"));
                }
                served
            }
        });
        let mut said = Ok(());
        while let Ok(order) = inbox.recv() {
            if order == Order::Off || said.is_err() {
                break;
            }
            said =
                connection.send(&Answer::Refused("this guest is a peer: it takes its orders over the link".to_owned()));
        }
        // The service ends only when it is asked to, so nothing may return before this.
        stop.cancel();
        let served = service.join().unwrap_or(Ok(())).map_err(failed);
        said.and(served)
    })
}

/// The longest that a peer may take to answer: that of a boot.
fn limit(plan: &Plan) -> Duration {
    Duration::from_nanos(plan.guest.as_ref().map_or(Guest::default().boot_timeout_ns, |g| g.boot_timeout_ns))
}

/// Asks the peer of this host, if it has one, whether it is there.
pub(super) fn reach(host: &Host, plan: &Plan, cancel: &Cancel) -> Result<(), Problem> {
    if let Some(access) = peer::of_this_host(host) {
        let _reached = PeerClient::connect(host, &access, limit(plan), cancel)?;
    }
    Ok(())
}

/// The facts of the peer of this host; none where there is no peer.
pub(super) fn facts(host: &Host, plan: &Plan, cancel: &Cancel) -> Result<Vec<Fact>, Problem> {
    let Some(access) = peer::of_this_host(host) else { return Ok(Vec::new()) };
    let mut server = PeerClient::connect(host, &access, limit(plan), cancel)?;
    // It is asked once, so whether it stayed the same is not known.
    let of_peer = |fact: Fact| Fact { key: format!("peer.{}", fact.key), steady: false, ..fact };
    // What its kernel does not report, this one does not report either, with the reason.
    let mut all: Vec<Fact> = server.facts()?.into_iter().filter(|fact| fact.value.is_some()).map(of_peer).collect();
    let trip = server.compare_clocks()?.round_trip_ns.to_string();
    all.push(Fact::read("peer.address", access.at.ip().to_string(), "/proc/cmdline"));
    all.push(Fact::read("peer.cpus", server.hello().cpus.to_string(), "its hello"));
    all.push(Fact::read("peer.round_trip_ns", trip, Clocks::source()));
    Ok(all)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;
    use holdup_model::frame::{Decoder, Received, encode};
    use holdup_model::wire;
    use std::net::Ipv4Addr;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;

    /// The next message of an agent but for its heartbeats.
    pub(in crate::agent) fn answer(connection: &mut UnixStream, decoder: &mut Decoder) -> Answer {
        let mut bytes = [0; 4096];
        loop {
            while let Some(received) = decoder.next() {
                let Received::Frame { payload, .. } = received else { panic!("{received:?}") };
                match wire::from_bytes(&payload).expect("an answer") {
                    Answer::Alive => {}
                    answer => return answer,
                }
            }
            let count = connection.read(&mut bytes).expect("is read");
            assert_ne!(count, 0, "the agent ended");
            decoder.feed(&bytes[..count]);
        }
    }

    #[test]
    fn a_peer_says_hello_serves_and_ends_when_ordered() {
        // An address of this test alone, so that the port is free beside other tests.
        let address = Ipv4Addr::new(127, 77, (std::process::id() >> 8) as u8, std::process::id() as u8 | 1);
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let work = small_plan();
        let client = MemoryFs::of(&[("/proc/cmdline", format!("quiet holdup.peer={address}").as_str())]).host();
        let alone = MemoryFs::of(&[("/proc/cmdline", "quiet")]).host();
        std::thread::scope(|scope| {
            let server = scope.spawn(move || {
                let host = Host::real();
                let request =
                    AgentRequest { host: &host, workdir: PathBuf::from("/tmp"), notes: Vec::new(), hosted: None };
                let input = theirs.try_clone().expect("is cloned");
                serve_peer(&request, address.into(), input, theirs)
            });
            let mut decoder = Decoder::new();
            assert!(matches!(answer(&mut ours, &mut decoder), Answer::Hello(_)));
            let order = |number, order: &Order| encode(number, &wire::to_bytes(order));
            ours.write_all(&order(0, &Order::Close)).expect("is written");
            assert!(matches!(answer(&mut ours, &mut decoder), Answer::Refused(why) if why.contains("a peer")));

            reach(&client, &work, &Cancel::default()).expect("it is there");
            let facts = facts(&client, &work, &Cancel::default()).expect("it answers");
            let value = |key: &str| facts.iter().find(|f| f.key == key).and_then(|f| f.value.clone());
            assert_eq!(value("peer.address"), Some(address.to_string()));
            assert!(value("peer.kernel.release").is_some() && value("peer.round_trip_ns").is_some());
            assert!(facts.iter().all(|f| f.key.starts_with("peer.") && f.value.is_some() && !f.steady));
            assert_eq!(super::facts(&alone, &work, &Cancel::default()), Ok(Vec::new()));

            std::net::TcpStream::connect((address, PEER_PORT)).expect("connects").write_all(b"x").expect("is written");
            assert!(matches!(answer(&mut ours, &mut decoder), Answer::Note(text) if text.starts_with("the peer: ")));
            ours.write_all(&order(1, &Order::Off)).expect("is written");
            assert_eq!(server.join().expect("no panic"), Ok(()));
        });
        let gone = Plan { guest: Some(Guest { boot_timeout_ns: 50_000_000, ..Guest::default() }), ..work };
        let problem = reach(&client, &gone, &Cancel::default()).expect_err("there is no peer");
        assert!(problem.what.starts_with(peer::WHAT) && problem.why.contains("does not answer"), "{problem}");
    }

    fn small_plan() -> Plan {
        let machine = holdup_model::Machine { cpus: 2, memory_bytes: 8 << 30 };
        crate::checked("[[workload]]\nkind = \"lock-contention\"\n", machine).0
    }
}
