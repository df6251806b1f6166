//! HTTP by hand, and clients that mean no good.

use crate::common::{Sandbox, is_root, refused, wait_for};
use crate::exporter::server::{Exporter, Server};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::process::Command;
use std::time::{Duration, Instant};

/// GET with these header lines: the status and the body.
pub(crate) fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"))
}

/// Sends a request as it is, and reads all of the answer.
pub(crate) fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
    (status, answer.split_once("\r\n\r\n").map_or(String::new(), |(_, body)| body.to_owned()))
}

/// How many clients connect and say nothing.
const SILENT: usize = 2_000;

pub(crate) fn slow_and_hostile_clients_disturb_no_scrape() {
    let (place, server) = (Sandbox::new(), Server::start());
    let exporter = Exporter::start(&place, &server.url(), &[]);
    let address = exporter.address;
    let descriptors = || exporter.sum("process_open_fds", &[]);
    wait_for("a window", || exporter.sum("holdup_watched_seconds_total", &[]) >= 1.0);
    let mut silent = Vec::new();
    for n in 0..SILENT {
        // The kernel's queue of connections is short: it answers again when some were accepted.
        let Ok(mut stream) = TcpStream::connect_timeout(&address, Duration::from_secs(5)) else { continue };
        if n % 2 == 0 {
            // It may have been closed already, which is the point.
            let _closed = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
        }
        silent.push(stream);
        if n % 500 == 499 {
            let begun = Instant::now();
            assert_eq!(get(address, "/metrics", "").0, 200, "after {n}");
            assert!(begun.elapsed() < Duration::from_secs(5), "a scrape took {:?}", begun.elapsed());
        }
    }
    assert!(silent.len() > SILENT / 2, "only {} connections", silent.len());
    let open = descriptors();
    assert!(open < 200.0, "{open} descriptors are open");
    drop(silent);
    // Heads that do not end, and what is no HTTP.
    let huge = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n", "a".repeat(1 << 20));
    let mut stream = TcpStream::connect(address).unwrap();
    let _refused = stream.write_all(huge.as_bytes());
    let mut answer = Vec::new();
    let _closed = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    let many: String = (0..1_000).map(|n| format!("X-{n}: 1\r\n")).collect();
    let mut stream = TcpStream::connect(address).unwrap();
    let _refused = stream.write_all(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes());
    let mut answer = Vec::new();
    let _closed = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    for nonsense in ["\x16\x03\x01\x02\x00\x01", "GET", "\r\n\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let mut stream = TcpStream::connect(address).unwrap();
        let _closed = stream.write_all(nonsense.as_bytes());
    }
    for (request, status) in [
        ("GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        ("POST /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", 405),
        ("GET /-/flight HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405),
        ("POST /-/flight HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", 409),
        ("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
        ("GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
    ] {
        assert_eq!(ask(address, request).0, status, "{request}");
    }
    assert!(exporter.sum("holdup_watched_seconds_total", &[]) > 1.0);
    exporter.end();
    server.cluster.discard().unwrap();
}

/// Asks for a flight.
const POST: &str = "POST /-/flight HTTP/1.1\r\nHost: localhost";

/// Finding L8 of the attacks.
pub(crate) fn a_page_and_another_user_get_nothing_that_is_not_theirs() {
    let place = Sandbox::new();
    let me = std::process::id().to_string();
    let start = |address: &str, more: &[&str]| {
        let args = [&["exporter", "--pid", &me, "--window", "1s", "--listen", address], more].concat();
        Exporter::of(place.holdup(&args))
    };
    let folder = place.path("flights");
    std::fs::DirBuilder::new().mode(0o755).create(&folder).unwrap();
    let exporter = start("127.0.0.1:0", &["--flights", "flights"]);
    let address = exporter.address;
    let status = |head: &str| ask(address, &format!("{head}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")).0;
    for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9918", "[::1]:9918"] {
        assert_eq!(status(&format!("GET /metrics HTTP/1.1\r\nHost: {host}")), 200, "{host}");
    }
    for host in ["evil.example:9918", "127.0.0.1.evil.example", "localhost.evil.example", "", "a b"] {
        let status = status(&format!("GET /metrics HTTP/1.1\r\nHost: {host}"));
        assert!(matches!(status, 400 | 403), "{host}: {status}");
    }
    assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost"), 403);
    wait_for("a window", || exporter.sum("holdup_watched_seconds_total", &[]) >= 1.0);
    assert_eq!(status(&format!("{POST}\r\nOrigin: http://evil.example")), 403);
    if is_root() {
        let asked = format!("{POST}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
        let stranger = std::thread::spawn(move || {
            let uid = rustix::process::Uid::from_raw(54_321);
            // Of this thread alone.
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            ask(address, &asked).0
        });
        assert_eq!(stranger.join().unwrap(), 403);
    } else {
        holdup_testkit::ignore_part("only root can ask as another user");
    }
    assert_eq!(status(POST), 202);
    exporter.end();
    let flights: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap()).collect();
    let modes = flights.iter().map(|flight| flight.metadata().unwrap().permissions().mode() & 0o777);
    assert_eq!(modes.collect::<Vec<_>>(), [0o600], "one flight, and of this user alone");
    // Other hosts may know this one by any name.
    let open = start("0.0.0.0:0", &[]);
    assert_eq!(ask(open.address, "GET / HTTP/1.1\r\nHost: db1.example\r\nConnection: close\r\n\r\n").0, 200);
    wait_for("the warning", || open.said().iter().any(|line| line.starts_with("warning: who can reach this port")));
    open.end();
    place.write("token", "correct horse\n");
    let clear = start("0.0.0.0:0", &["--token-file", "token"]);
    wait_for("the warning", || clear.said().iter().any(|line| line.starts_with("warning: the token goes")));
    clear.end();
}

pub(crate) fn a_token_and_tls_are_asked_for() {
    let (place, server) = (Sandbox::new(), Server::start());
    place.write("token", "correct horse\n");
    let exporter = Exporter::start(&place, &server.url(), &["--token-file", "token"]);
    let status = |headers: &str| get(exporter.address, "/metrics", headers).0;
    assert_eq!(status(""), 401);
    assert_eq!(status("Authorization: Bearer correct horsf\r\n"), 401);
    assert_eq!(status("Authorization: Basic correct horse\r\n"), 401);
    assert_eq!(status("Authorization: Bearer correct horse\r\n"), 200);
    exporter.end();
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"])
        .arg("-keyout")
        .arg(place.path("key.pem"))
        .arg("-out")
        .arg(place.path("cert.pem"))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let exporter = Exporter::start(&place, &server.url(), &["--tls-cert", "cert.pem", "--tls-key", "key.pem"]);
    let asked = format!(
        "printf 'GET /-/healthy HTTP/1.0\\r\\n\\r\\n' | openssl s_client -quiet -verify_return_error -CAfile cert.pem -connect {}",
        exporter.address
    );
    let output = Command::new("sh").args(["-c", &asked]).current_dir(place.path(".")).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("is healthy"), "{output:?}");
    // Without TLS it is no request.
    assert_ne!(get(exporter.address, "/metrics", "").0, 200);
    exporter.end();
    refused(
        &place,
        2,
        &["exporter", "--pg", "auto", "--tls-cert", "key.pem", "--tls-key", "key.pem"],
        &["key.pem", "certificate"],
    );
    server.cluster.discard().unwrap();
}

pub(crate) fn what_is_wrong_is_said_before_anything_is_watched() {
    let place = Sandbox::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    place.write("empty", "\n");
    let cases: [(i32, &[&str], &[&str]); 7] = [
        (2, &[], &["nothing is named", "--pg auto"]),
        (3, &["--pg", "auto", "--listen", &address], &["in use", "hint: another program has the port"]),
        (2, &["--pg", "auto", "--token-file", "empty"], &["empty", "no token"]),
        (
            2,
            &["--pg", "auto", "--flights", "f", "--trigger", "share(gremlins) > 1%"],
            &["no such cause", "hint: causes:"],
        ),
        (2, &["--pg", "auto", "--window", "10ms"], &["100 ms at least"]),
        (2, &["--pid", "1", "--pid", "1"], &["named twice"]),
        (2, &["--pid", "1", "--collect", "no-such"], &["no such collector"]),
    ];
    for (code, args, says) in cases {
        refused(&place, code, &[&["exporter"], args].concat(), says);
    }
}
