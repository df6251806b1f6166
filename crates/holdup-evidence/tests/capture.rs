//! What the collector `capture` sees of connections of this process.
#![expect(clippy::print_stderr, reason = "a test that cannot run here says why")]

use holdup_evidence::{CollectContext, Subject, find};
use holdup_host::Host;
use holdup_model::metric::Measured;
use holdup_model::{Availability, Collected};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Watches this process while something is done; `None` where nothing can be captured here.
fn watched(load: impl FnOnce()) -> Option<Collected> {
    let subjects = vec![Subject { role: "command".to_owned(), pid: std::process::id() }];
    let context = CollectContext { host: Host::real(), subjects, ..CollectContext::default() };
    let capture = find("capture").expect("it is in the catalogue");
    if let Availability::Unavailable { reason, .. } = capture.probe(&context) {
        eprintln!("ignored: {reason}");
        return None;
    }
    let collecting = capture.start(&context).expect("it starts");
    load();
    Some(collecting.stop())
}

fn value(collected: &Collected, name: &str, label: Option<&str>) -> f64 {
    let item = collected.items.iter().find(|item| item.name == name && item.label.as_deref() == label);
    match item.map(|item| &item.value) {
        Some(Measured::Value(value)) => *value,
        _ => 0.0,
    }
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
    (near, listener.accept().expect("its other end").0)
}

#[test]
fn a_transfer_is_counted_once_and_without_trouble() {
    let bytes = 3_000_000;
    let transfer = || {
        let (mut near, mut far) = pair();
        let sender = std::thread::spawn(move || near.write_all(&vec![1; bytes]).expect("sent"));
        assert_eq!(far.read_to_end(&mut Vec::new()).expect("received"), bytes);
        sender.join().expect("it sends");
    };
    let Some(collected) = watched(transfer) else { return };
    let payload_bytes = value(&collected, "tcp_payload_bytes", None);
    // Others use this link as well, but nobody else sends so much.
    assert!((bytes as f64..bytes as f64 * 1.5).contains(&payload_bytes), "{payload_bytes}");
    assert!(value(&collected, "tcp_segments", None) > 20.0);
    assert!(value(&collected, "tcp_marks", Some("tcp.connection.syn")) >= 1.0);
    assert!(value(&collected, "tcp_kernel", Some("Tcp OutSegs")) >= 20.0, "{:?}", collected.items);
    assert_eq!(collected.coverage.lost, 0);
    assert!(collected.cost.cpu_ns > 0 && collected.cost.bytes > 1_000);
    assert!(collected.histograms.iter().any(|h| h.name == "tcp_ack_rtt_ns"));
}

#[test]
fn a_receiver_that_does_not_read_is_named_and_its_kernel_tells_the_same() {
    let stall = || {
        let (mut near, mut far) = pair();
        near.set_write_timeout(Some(Duration::from_millis(400))).expect("a timeout");
        let piece = vec![1; 1 << 20];
        let mut sent = 0;
        // The last write tells how much it could not send by failing.
        while let Ok(n) = near.write(&piece) {
            sent += n;
            assert!(sent < 1 << 30, "the window never closes");
        }
        drop(near);
        assert!(far.read_to_end(&mut Vec::new()).expect("received") >= sent);
    };
    let Some(collected) = watched(stall) else { return };
    assert!(value(&collected, "tcp_marks", Some("tcp.analysis.zero_window")) >= 1.0, "{:?}", collected.items);
    assert!(value(&collected, "tcp_marks", Some("tcp.analysis.window_full")) >= 1.0, "{:?}", collected.items);
    assert!(value(&collected, "tcp_kernel", Some("TcpExt TCPToZeroWindowAdv")) >= 1.0, "{:?}", collected.items);
}
