//! The two sides of a peer: the agent of the guest that is one, and what the agent beside it asks it.

use super::line::{self, Line};
use super::{AgentRequest, hello};
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::guest::FAR_PORT;
use holdup_model::wire::{Answer, Order};
use holdup_model::{Fact, Guest, Plan, Problem};
use holdup_stream::far::{self, Far};
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Of so many round trips the shortest is told: the first ones wake CPUs and fill caches.
const ROUND_TRIPS: u32 = 50;

/// Serves the far ends of loads at an address, and says so on a line, until the other side says `Off` or goes away.
///
/// # Errors
/// When nothing can listen at the address, or the line cannot be written any more.
pub fn serve_far(
    request: &AgentRequest<'_>,
    address: IpAddr,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
) -> Result<(), Problem> {
    let failed = |e: std::io::Error| Problem::host(format!("the far end at {address}:{FAR_PORT}"), e.to_string());
    let listener = TcpListener::bind((address, FAR_PORT)).map_err(failed)?;
    let line = Line::new(output);
    let stop = Cancel::default();
    let (orders, inbox) = channel();
    line::read_in_background(input, orders, stop.clone(), line.clone());
    let _beats = line.clone().beat_in_background();
    line.say(&Answer::Hello(Box::new(hello(request))))?;
    std::thread::scope(|scope| {
        // A line that is broken shows at the next answer.
        let tell = |text: &str| drop(line.say(&Answer::Note(format!("the far end: {text}"))));
        let service = scope.spawn({
            let (listener, stop) = (&listener, &stop);
            move || {
                let served = far::serve(request.host, listener, stop, &tell);
                if let Err(e) = &served {
                    tell(&format!("it serves no more: {e}"));
                }
                served
            }
        });
        let mut said = Ok(());
        while let Ok(order) = inbox.recv() {
            if order == Order::Off || said.is_err() {
                break;
            }
            said = line.say(&Answer::Refused("this guest is a peer: it takes its orders over the link".to_owned()));
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
    if let Some(address) = far::of_this_host(host) {
        Far::connect(host, address, limit(plan), cancel)?.bye();
    }
    Ok(())
}

/// What the peer of this host says of itself; nothing where there is none.
pub(super) fn facts(host: &Host, plan: &Plan, cancel: &Cancel) -> Result<Vec<Fact>, Problem> {
    let Some(address) = far::of_this_host(host) else { return Ok(Vec::new()) };
    let mut far = Far::connect(host, address, limit(plan), cancel)?;
    // It is asked once, so nobody could say that it stayed as it was.
    let of_peer = |fact: Fact| Fact { key: format!("peer.{}", fact.key), steady: false, ..fact };
    // What its kernel does not tell, this one does not tell either, and says why.
    let mut all: Vec<Fact> = far.facts()?.into_iter().filter(|fact| fact.value.is_some()).map(of_peer).collect();
    let trip = far.round_trip_ns(ROUND_TRIPS)?.to_string();
    let source = format!("the shortest of {ROUND_TRIPS} orders and answers over the link");
    all.push(Fact::read("peer.address", address.ip().to_string(), "/proc/cmdline"));
    all.push(Fact::read("peer.cpus", far.hello().cpus.to_string(), "its hello"));
    all.push(Fact::read("peer.round_trip_ns", trip, source));
    far.bye();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;
    use holdup_model::frame::{Decoder, Received, encode};
    use holdup_model::wire;
    use std::net::Ipv4Addr;
    use std::os::unix::net::UnixStream;
    use std::path::PathBuf;

    /// The next message of an agent that is worth telling.
    fn answer(line: &mut UnixStream, decoder: &mut Decoder) -> Answer {
        let mut bytes = [0; 4096];
        loop {
            while let Some(received) = decoder.next() {
                let Received::Frame { payload, .. } = received else { panic!("{received:?}") };
                match wire::from_bytes(&payload).expect("an answer") {
                    Answer::Alive => {}
                    answer => return answer,
                }
            }
            let count = line.read(&mut bytes).expect("is read");
            assert_ne!(count, 0, "the agent ended");
            decoder.feed(&bytes[..count]);
        }
    }

    #[test]
    fn a_peer_says_hello_serves_and_ends_when_it_is_told_to() {
        // An address of this test alone, so that the port is free whatever else runs.
        let address = Ipv4Addr::new(127, 77, (std::process::id() >> 8) as u8, std::process::id() as u8 | 1);
        let (mut ours, theirs) = UnixStream::pair().expect("a pair");
        let work = small_plan();
        let near = MemoryFs::of(&[("/proc/cmdline", format!("quiet holdup.peer={address}").as_str())]).host();
        let alone = MemoryFs::of(&[("/proc/cmdline", "quiet")]).host();
        std::thread::scope(|scope| {
            let far = scope.spawn(move || {
                let host = Host::real();
                let request = AgentRequest { host: &host, workdir: PathBuf::from("/tmp"), notes: Vec::new() };
                let input = theirs.try_clone().expect("is cloned");
                serve_far(&request, address.into(), input, theirs)
            });
            let mut decoder = Decoder::new();
            assert!(matches!(answer(&mut ours, &mut decoder), Answer::Hello(_)));
            let order = |number, order: &Order| encode(number, &wire::to_bytes(order));
            ours.write_all(&order(0, &Order::Close)).expect("is written");
            assert!(matches!(answer(&mut ours, &mut decoder), Answer::Refused(why) if why.contains("a peer")));

            reach(&near, &work, &Cancel::default()).expect("it is there");
            let facts = facts(&near, &work, &Cancel::default()).expect("it answers");
            let value = |key: &str| facts.iter().find(|f| f.key == key).and_then(|f| f.value.clone());
            assert_eq!(value("peer.address"), Some(address.to_string()));
            assert!(value("peer.kernel.release").is_some() && value("peer.round_trip_ns").is_some());
            assert!(facts.iter().all(|f| f.key.starts_with("peer.") && f.value.is_some() && !f.steady));
            assert_eq!(super::facts(&alone, &work, &Cancel::default()), Ok(Vec::new()));

            std::net::TcpStream::connect((address, FAR_PORT)).expect("connects").write_all(b"x").expect("is written");
            assert!(matches!(answer(&mut ours, &mut decoder), Answer::Note(text) if text.starts_with("the far end: ")));
            ours.write_all(&order(1, &Order::Off)).expect("is written");
            assert_eq!(far.join().expect("no panic"), Ok(()));
        });
        let gone = Plan { guest: Some(Guest { boot_timeout_ns: 50_000_000, ..Guest::default() }), ..work };
        let problem = reach(&near, &gone, &Cancel::default()).expect_err("nobody is there");
        assert!(problem.what.starts_with(far::WHAT) && problem.why.contains("does not answer"), "{problem}");
    }

    fn small_plan() -> Plan {
        let inputs = holdup_plan::Inputs {
            machine: holdup_model::Machine { cpus: 2, memory_bytes: 8 << 30 },
            vocabulary: &crate::vocabulary(),
            environment: &|_| None,
            read_include: &|path| Err(format!("{path} is not read")),
            machine_of: &|_| Ok(None),
            overrides: &holdup_plan::Overrides::default(),
        };
        let text = "[[workload]]\nkind = \"lock-contention\"\n";
        holdup_plan::check("test.toml", text, &inputs).expect("a plan")
    }
}
