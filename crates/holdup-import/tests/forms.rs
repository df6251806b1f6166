//! Other forms of what a tool writes: streams, older versions, profiles. Where each sample came from stands beside its name.

#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{import, parse, reasons, text, values};

#[test]
fn a_stream_of_iperf3_is_read() {
    // 3.21 on loopback, `-t 3 -P 2 --json-stream`.
    let one = import("iperf3", "3.21-stream.jsonl");
    assert_eq!(values(&one, "received_bits_per_s"), [37_101_838_625.667_26]);
    let sample = &one.samples[0];
    assert_eq!((sample.labels["streams"].as_str(), sample.length_ns), ("2", Some(3_004_629_000)));
    assert_eq!(sample.begin_unix_ns, Some(1_795_931_928_000_000_000));
    assert_eq!(sample.notes, ["3 intervals, of 33337627146 to 39373811622 bit/s"]);
    assert_eq!(one.facts[1].value.as_deref(), Some("6.18.44-fc-v669"));
    // `-t 1 --json-stream --json-stream-full-output`: the document behind the events says the same again.
    assert_eq!(values(&import("iperf3", "3.21-stream-full.jsonl"), "received_bits_per_s"), [15_703_207_438.076_735]);
    // `-t 2 --bidir`, without the single streams.
    let both = import("iperf3", "3.21-stream-bidir.jsonl");
    assert_eq!(values(&both, "received_bits_per_s"), [17_502_477_600.397_28]);
    assert_eq!(values(&both, "reverse_received_bits_per_s"), [14_323_114_039.882_133]);
    assert_eq!(both.samples[0].labels["direction"], "both");
}

#[test]
fn a_stream_of_an_iperf3_server_has_a_run_for_each_client() {
    // 3.21, `-s --json-stream`, three clients (`-t 2`, `-t 2 -R`, `-u -t 1`), without the single streams. What it prints when it
    // is stopped at last is no run.
    let all = import("iperf3", "3.21-stream-server.jsonl");
    assert_eq!(all.samples.len(), 3);
    assert!(all.samples.iter().all(|sample| sample.void.is_none()));
    assert_eq!(values(&all, "received_bits_per_s"), [22_435_193_866.813_55, 1_047_605.916_920_931_2]);
    assert_eq!(values(&all, "sent_bits_per_s"), [20_486_890_195.028_587]);
    assert!(reasons(&all, "sent_bits_per_s")[0].contains("what its client counted"));
    assert_eq!(values(&all, "other_cpu_share").len(), 2, "0 of the first one is not known");
}

#[test]
fn a_stream_that_was_cut_is_void_or_refused() {
    // 3.21: a client that was interrupted says that nothing arrived; one that found no server.
    let interrupted = import("iperf3", "3.21-stream-interrupted.jsonl");
    assert!(interrupted.samples[0].void.as_deref().is_some_and(|why| why.contains("Interrupt")));
    let refused = import("iperf3", "3.21-stream-refused.jsonl");
    assert!(refused.samples[0].void.as_deref().is_some_and(|why| why.contains("Connection refused")));
    // A client that was killed.
    let whole = text("iperf3", "3.21-stream.jsonl");
    let end = whole.find("{\"event\":\"end\"").unwrap();
    let killed = parse("iperf3", &whole[..end]).unwrap();
    assert!(killed.samples[0].void.as_deref().is_some_and(|why| why.contains("was cut")));
    assert_eq!(killed.samples[0].notes.len(), 1);
    // A line that ends early, and one that is damaged: the byte is that of the file.
    let problem = parse("iperf3", &whole[..end + 100]).unwrap_err().to_string();
    assert!(
        problem.contains(&format!("it, line 5 (byte {})", end + 99)) && problem.contains("ends early"),
        "{problem}"
    );
    let at = whole.find("38550350978.196571").unwrap();
    let problem = parse("iperf3", &whole.replacen("38550350978.196571", "\"3,8\"", 1)).unwrap_err().to_string();
    assert!(problem.contains(&format!("it, line 2 (byte {at})")) && problem.contains("LC_ALL=C"), "{problem}");
}
