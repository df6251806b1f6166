#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use super::{Admission, MOST_CONNECTIONS, serve};
use crate::Cancel;
use crate::peer::*;
use holdup_host::Host;
use holdup_host::fake::MemoryFs;
use holdup_model::ends::{ServiceAccess, Token};
use holdup_model::guest::PEER_PORT;
use holdup_model::{Problem, frame, wire};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// Counts its orders, and fails at 0.
#[derive(Default)]
struct Counter(u32);

impl RemoteEnd for Counter {
    type Order = u32;
    type Answer = u32;

    fn carry_out(&mut self, _host: &Host, _address: IpAddr, order: u32) -> Result<u32, Problem> {
        self.0 += 1;
        if order == 0 { Err(Problem::trial("an order", "it is 0")) } else { Ok(self.0) }
    }
}

/// Runs `act` beside a service; returns its result and the lines that the service logged.
fn beside_service<T>(act: impl FnOnce(SocketAddr) -> T) -> (T, Vec<String>) {
    beside_service_for(&Admission::default(), act)
}

fn beside_service_for<T>(admission: &Admission, act: impl FnOnce(SocketAddr) -> T) -> (T, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, logged) = (Cancel::default(), Mutex::new(Vec::new()));
    let host = Host::real();
    let got = std::thread::scope(|scope| {
        let log = |line: &str| logged.lock().unwrap().push(line.to_owned());
        let service = scope.spawn({
            let (stop, host, listener) = (&stop, &host, &listener);
            move || serve::<Counter>(host, listener, admission, stop, &log)
        });
        // Ends the service also when `act` panics; the scope would wait for it for ever.
        struct Stop<'a>(&'a Cancel);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.cancel();
            }
        }
        let got = {
            let _stop = Stop(&stop);
            act(address)
        };
        service.join().unwrap().unwrap();
        got
    });
    (got, logged.into_inner().unwrap())
}

fn connect(address: SocketAddr) -> PeerClient {
    connect_with(address, "").unwrap()
}

fn connect_with(at: SocketAddr, token: &str) -> Result<PeerClient, Problem> {
    let access = ServiceAccess { at, number: 1, token: Token(token.to_owned()) };
    PeerClient::connect(&Host::real(), &access, PATIENCE, &Cancel::default())
}

/// What the service answers to these bytes before it closes the connection; the client sends no more after them.
fn answers_to(address: SocketAddr, bytes: &[u8], shut: bool) -> Vec<PeerAnswer<()>> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // A service that has ended the connection takes no more.
    let _gone = stream.write_all(bytes);
    if shut {
        let _gone = stream.shutdown(std::net::Shutdown::Write);
    }
    let mut decoder = frame::Decoder::new();
    let mut buffer = [0; 4096];
    // A reset is an end like any other: what was sent and not read makes the kernel send one.
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        decoder.feed(&buffer[..count]);
    }
    let mut answers = Vec::new();
    while let Some(frame::Received::Frame { payload, .. }) = decoder.next() {
        answers.push(wire::from_plain_bytes(&payload).unwrap());
    }
    answers
}

fn hello(version: &str) -> Vec<u8> {
    frame::encode(0, &hello_payload(version))
}

#[test]
fn the_server_end_says_what_it_is() {
    let ((hello, facts, clocks), logged) = beside_service(|address| {
        let mut server = connect(address);
        let (facts, clocks) = (server.facts().unwrap(), server.compare_clocks().unwrap());
        let hello = server.hello().clone();
        (hello, facts, clocks)
    });
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    assert_eq!(hello.release, release);
    let fact = facts.iter().find(|f| f.key == "kernel.release").unwrap();
    assert_eq!(fact.value.as_deref(), Some(release.as_str()));
    assert!(clocks.round_trip_ns > 0 && hello.cpus > 0);
    // It is one machine with one clock.
    assert!(clocks.monotonic.offset_ns.abs() <= clocks.monotonic.error_ns, "{clocks:?}");
    assert!(clocks.monotonic.error_ns.cast_unsigned() <= clocks.round_trip_ns.div_ceil(2), "{clocks:?}");
    assert_eq!(logged, Vec::<String>::new(), "an end in order is not worth a line");
}

#[test]
fn bytes_that_are_no_message_end_their_connection_and_not_the_service() {
    let version = env!("CARGO_PKG_VERSION");
    let stuffed = frame::encode(0, &[0xff; 40]);
    let mut huge = frame::encode(0, b"x");
    // A header that claims the most bytes that a frame may have, with a sum that is right, then as many as are taken.
    huge[9..13].copy_from_slice(&(frame::MOST_BODY_BYTES as u32).to_le_bytes());
    let sum = crc32fast::hash(&huge[..17]);
    huge[17..21].copy_from_slice(&sum.to_le_bytes());
    huge.resize(2 * MOST_MESSAGE_BYTES + (1 << 20), b'x');
    let two_hellos = [hello(version), frame::encode(1, &hello_payload(version))].concat();
    let out_of_turn = frame::encode(0, &wire::to_plain_bytes(&PeerOrder::<()>::Facts));
    let gap = frame::encode(3, &hello_payload(version));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("garbage", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), "no message of holdup"),
        ("no CBOR", stuffed, "a message that cannot be"),
        ("huge", huge, "a message above"),
        ("cut", hello(version)[..20].to_vec(), "within a message, after 20 bytes"),
        ("another version", hello("0.0.0-other"), "holdup 0.0.0-other asks"),
        ("an order first", out_of_turn, "an order came before the hello"),
        ("a gap", gap, "message 3 came where 0 was due"),
        ("two hellos", two_hellos, "a second hello"),
    ];
    let ((), logged) = beside_service(|address| {
        for (name, bytes, _) in &cases {
            let answers = answers_to(address, bytes, true);
            // The reset after too many bytes may overtake the reason.
            if *name != "huge" {
                assert!(matches!(answers.last(), Some(PeerAnswer::Refused(_))), "{name}: {answers:?}");
            }
            connect(address);
        }
        // A look whether the port is open is no fault.
        assert_eq!(answers_to(address, &[], true), []);
    });
    for (name, _, reason) in &cases {
        assert!(logged.iter().any(|line| line.contains(reason)), "{name}: {logged:#?}");
    }
    assert_eq!(logged.len(), cases.len(), "{logged:#?}");
}

fn hello_payload(version: &str) -> Vec<u8> {
    let hello = PeerHello { version: version.to_owned(), nonce: 7, release: "x".to_owned(), cpus: 1 };
    wire::to_plain_bytes(&PeerOrder::<()>::Hello(hello, Token::default()))
}

#[test]
fn connections_without_a_token_make_room_and_those_with_one_stay() {
    let ((), logged) = beside_service(|address| {
        let mut first = connect(address);
        let mut silent: Vec<TcpStream> =
            (0..2 * MOST_CONNECTIONS).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut last = connect(address);
        // The oldest were ended, with the reason.
        let (mut decoder, mut buffer) = (frame::Decoder::new(), [0; 4096]);
        silent[0].set_read_timeout(Some(PATIENCE)).unwrap();
        while let Ok(count @ 1..) = silent[0].read(&mut buffer) {
            decoder.feed(&buffer[..count]);
        }
        let Some(frame::Received::Frame { payload, .. }) = decoder.next() else { panic!("it was not said") };
        assert_eq!(wire::from_plain_bytes(&payload), Ok(PeerAnswer::<()>::Crowded));
        drop(silent);
        for server in [&mut first, &mut last] {
            let _still = server.compare_clocks().unwrap();
        }
    });
    assert!(logged.iter().any(|line| line.contains("too many connections have shown no token")), "{logged:#?}");
}

#[test]
fn who_is_ended_for_others_connects_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut crowded, _) = listener.accept().unwrap();
            crowded.write_all(&frame::encode(0, &wire::to_plain_bytes(&PeerAnswer::<()>::Crowded))).unwrap();
            drop(crowded);
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let _asked = stream.read(&mut buffer).unwrap();
            let refused = PeerAnswer::<()>::Refused("the second time".to_owned());
            stream.write_all(&frame::encode(0, &wire::to_plain_bytes(&refused))).unwrap();
        });
        assert_eq!(connect_with(address, "").unwrap_err().why, "it refuses: the second time");
    });
}

#[test]
fn connections_with_a_token_are_served_up_to_their_number() {
    let (refused, logged) = beside_service(|address| {
        let served: Vec<PeerClient> = (0..MOST_CONNECTIONS).map(|_| connect(address)).collect();
        let refused = connect_with(address, "").unwrap_err().why;
        drop(served);
        refused
    });
    assert!(refused.contains("connections are open"), "{refused}");
    assert_eq!(logged.len(), 1, "{logged:#?}");
}

/// A server of another kind, which answers each connection with these bytes.
fn why_refused(answer: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = [0; 4096];
            let _asked = stream.read(&mut buffer).unwrap();
            stream.write_all(answer).unwrap();
        });
        connect_with(address, "").unwrap_err().why
    })
}

#[test]
fn a_peer_that_is_no_service_is_named_by_its_behaviour() {
    assert!(why_refused(b"SSH-2.0-x\r\n").contains("no message of holdup"));
    assert_eq!(why_refused(b""), "the other side closed the connection");
    let other = PeerHello { version: env!("CARGO_PKG_VERSION").to_owned(), nonce: 0, release: String::new(), cpus: 0 };
    let stale = frame::encode(0, &wire::to_plain_bytes(&PeerAnswer::<()>::Hello(other)));
    assert_eq!(why_refused(Box::leak(stale.into_boxed_slice())), "its hello answers another one's question");
}

#[test]
fn a_missing_service_is_waited_for_and_then_reported() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let limit = Duration::from_millis(60);
    let access = ServiceAccess { at: address, number: 1, token: Token::default() };
    let problem = PeerClient::connect(&Host::real(), &access, limit, &Cancel::default()).unwrap_err();
    assert!(problem.what.contains(&address.to_string()) && problem.why.contains("within 0.1 s"), "{problem}");
    let cancel = Cancel::default();
    cancel.cancel();
    let problem = PeerClient::connect(&Host::real(), &access, PATIENCE, &cancel).unwrap_err();
    assert_eq!(problem.kind, holdup_model::ProblemKind::Interrupted);
}

#[test]
fn the_command_line_names_the_peer() {
    let of = |line: &str| of_this_host(&MemoryFs::of(&[("/proc/cmdline", line)]).host()).map(|access| access.at);
    let expected = Some(SocketAddr::from(([10, 77, 0, 2], PEER_PORT)));
    assert_eq!(of("quiet holdup.address=10.77.0.1/24 holdup.peer=10.77.0.2\n"), expected);
    assert_eq!(of("quiet holdup.address=10.77.0.1/24\n"), None);
    assert_eq!(of("holdup.peer=nowhere"), None);
}

#[test]
fn only_the_addresses_with_their_tokens_are_served() {
    let of = |from: &str, token: &str| (from.parse::<IpAddr>().unwrap(), Token(token.to_owned()));
    let admitted = |from: &str| Admission::Only(vec![of(from, "secret"), of("127.0.0.3", "other's")]);
    let ((), logged) = beside_service_for(&admitted("127.0.0.1"), |address| {
        for token in ["", "secreT", "secret2", "other's"] {
            let refused = connect_with(address, token).unwrap_err().why;
            assert!(refused.contains("its token is not the one of this run"), "{token}: {refused}");
        }
        // Without a hello nothing is done, and of one that has not said it an order is not even read.
        let order = frame::encode(0, &wire::to_plain_bytes(&PeerOrder::Work(7_u32)));
        assert!(matches!(answers_to(address, &order, true).as_slice(), [PeerAnswer::Refused(_)]));
        let server = Server::<Counter>::new(connect_with(address, "secret").unwrap());
        assert_eq!((server.ask(1), server.ask(1)), (Ok(1), Ok(2)));
        let failed = server.ask(0).unwrap_err();
        assert_eq!((failed.kind, failed.why.as_str()), (holdup_model::ProblemKind::Trial, "an order: it is 0"));
    });
    assert_eq!(logged.len(), 5, "{logged:#?}");
    let (refused, logged) = beside_service_for(&admitted("127.0.0.2"), |address| connect_with(address, "secret"));
    assert!(refused.is_err());
    assert!(logged.iter().all(|line| line.contains("it is another host")) && !logged.is_empty(), "{logged:#?}");
}
