//! `holdup packets` on captures made from numbers.

use crate::common;
use crate::made::{Pcap, PcapNg, Tcp, layers, link};
use common::{Sandbox, is_root, refused, texts};
use holdup_packets::segment::{ACK, Address, Endpoint, Options, PSH, SYN};
use holdup_testkit::ignore;
use serde_json::Value;
use std::io::Write;
use std::process::Stdio;

const MS: i64 = 1_000_000;

/// A number without order for each segment of each connection.
fn mixed(i: u32, c: u16) -> u32 {
    let mut x = i.wrapping_mul(0x9e37_79b9) ^ u32::from(c).wrapping_mul(0x85eb_ca6b);
    x = (x ^ x >> 15).wrapping_mul(0x2c1b_3c6d);
    (x ^ x >> 12).wrapping_mul(0x297a_2d39) >> 8
}

/// Frames of some connections over two seconds, with a share of segments sent again after 300 ms.
fn frames(connections: u16, each: u32, again_every: u32) -> Vec<(i64, Vec<u8>)> {
    let mut frames = Vec::new();
    for c in 0..connections {
        let client = Endpoint { address: Address::V4(0x0a00_0001), port: 40_000 + c };
        let server = Endpoint { address: Address::V4(0x0a00_0002), port: 5201 };
        let at = |ms: i64| 1_772_000_000_000 * MS + ms * MS + i64::from(c) * 1_000;
        let mut put = |ms: i64, tcp: Tcp| frames.push((at(ms), tcp.frame()));
        let options = Options { mss: Some(1460), ..Options::default() };
        put(0, Tcp { seq: 100, flags: SYN, options, ..Tcp::new(client, server) });
        put(1, Tcp { seq: 500, ack: 101, flags: SYN | ACK, options, ..Tcp::new(server, client) });
        put(2, Tcp { seq: 101, ack: 501, flags: ACK, ..Tcp::new(client, server) });
        for i in 0..each {
            let (ms, seq) = (10 + i64::from(i) * 2000 / i64::from(each), 101 + i * 1000);
            let data = Tcp { seq, ack: 501, flags: ACK | PSH, payload_bytes: 1000, ..Tcp::new(client, server) };
            put(ms, data.clone());
            let is_lost = again_every > 0 && mixed(i, c).is_multiple_of(again_every);
            if is_lost {
                put(ms + 300, data);
            }
            let acked = if is_lost { ms + 301 } else { ms + 1 };
            put(acked, Tcp { seq: 501, ack: seq + 1000, flags: ACK, ..Tcp::new(server, client) });
        }
    }
    frames.sort_by_key(|(at, _)| *at);
    frames
}

fn pcap(frames: &[(i64, Vec<u8>)]) -> Vec<u8> {
    let mut capture = Pcap::new(link::ETHERNET).with_nanoseconds();
    frames.iter().for_each(|(at, frame)| capture.frame(*at, frame));
    capture.into_bytes()
}

/// A place with a quiet capture, a worse one, and what is none.
fn place() -> Sandbox {
    let place = Sandbox::new();
    let write = |name: &str, bytes: &[u8]| std::fs::write(place.path(name), bytes).expect("a file in a fresh folder");
    write("good.pcap", &pcap(&frames(12, 200, 100)));
    write("bad.pcap", &pcap(&frames(12, 200, 8)));
    write("text.pcap", b"this is no capture at all, and never was one");
    write("empty.pcap", b"");
    write("none.pcap", &Pcap::new(link::ETHERNET).into_bytes());
    let mut udp = Pcap::new(link::ETHERNET);
    udp.frame(
        1,
        &layers::ethernet(layers::ETHER_IPV4, &layers::Ipv4::new(1, 2, layers::UDP).around(&layers::udp(1, 2, b"x"))),
    );
    write("udp.pcap", &udp.into_bytes());
    place
}

fn what_got_worse_is_said_and_is_the_exit_code() {
    let place = place();
    let (out, _) = place.expect(1, &["packets", "good.pcap", "bad.pcap"]);
    assert!(out.starts_with("▲ Got worse the most: "), "{out}");
    assert!(out.contains("▲ retransmission "), "{out}");
    assert!(out.contains("A good.pcap, B bad.pcap"), "{out}");
    // The other way round it got better.
    let (out, _) = place.expect(0, &["packets", "bad.pcap", "good.pcap"]);
    assert!(out.starts_with("= Nothing got worse"), "{out}");
    let (out, _) = place.expect(1, &["packets", "good.pcap", "bad.pcap", "--json", "--margin", "5%"]);
    let document: Value = serde_json::from_str(&out).expect("is JSON");
    assert_eq!(
        (&document["schema"], &document["comparisons"][0]["margin"]),
        (&"holdup.packets/1".into(), &0.05.into())
    );
    assert_eq!(document["comparisons"][0]["verdict"], "supported");
    assert_eq!(document["captures"][1]["name"], "bad.pcap");
}

fn one_capture_is_read_from_a_file_and_from_standard_input() {
    let place = place();
    let (out, _) = place.expect(0, &["packets", "bad.pcap"]);
    assert!(out.contains("in 12 connections; most frequent marks of trouble"), "{out}");
    assert!(out.contains("10.0.0.2:5201"), "{out}");
    let (of_file, _) = place.expect(0, &["packets", "bad.pcap", "--json"]);
    let mut command = place.holdup(&["packets", "-", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary starts");
    let bytes = std::fs::read(place.path("bad.pcap")).expect("it is there");
    child.stdin.take().expect("a pipe").write_all(&bytes).expect("it is read");
    let (of_pipe, _) = texts(&child.wait_with_output().expect("it ends"));
    assert_eq!(of_pipe.replace("standard input", "bad.pcap"), of_file);
    for by in ["host", "time"] {
        let (out, _) = place.expect(0, &["packets", "bad.pcap", "--by", by]);
        assert!(out.contains(if by == "host" { "Hosts that sent" } else { "Spans of time" }), "{out}");
    }
    place.expect(0, &["packets", "bad.pcap", "--flows", "flows.jsonl"]);
    let lines = std::fs::read_to_string(place.path("flows.jsonl")).expect("it is written");
    let flows: Vec<Value> = lines.lines().map(|l| serde_json::from_str(l).expect("is JSON")).collect();
    assert_eq!(flows.len(), 12);
    let data: u64 = flows.iter().filter_map(|f| f["flow"]["directions"][0]["traffic"]["data_segments"].as_u64()).sum();
    let document: Value = serde_json::from_str(&of_file).expect("is JSON");
    assert_eq!(document["captures"][0]["traffic"]["data_segments"], data);
}

fn our_own_judgement_stands_beside_the_marks_when_asked_for() {
    let place = place();
    let (out, _) = place.expect(0, &["packets", "bad.pcap", "--engine", "rfc"]);
    assert!(out.contains("Our own judgement") && out.contains("sent again needlessly"), "{out}");
    let (out, _) = place.expect(0, &["packets", "bad.pcap", "--engine", "rfc", "--json", "--threads", "1"]);
    let document: Value = serde_json::from_str(&out).expect("is JSON");
    let judged = document["captures"][0]["judgement"].as_array().expect("a judgement");
    assert!(judged.iter().any(|j| j["id"] == "needless" && j["count"].as_u64() > Some(100)), "{judged:?}");
    let (out, _) = place.expect(0, &["packets", "bad.pcap", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("is JSON");
    assert!(document["captures"][0]["judgement"].is_null());
}

fn a_page_shows_the_worst_connections_over_time() {
    let place = place();
    place.expect(1, &["packets", "good.pcap", "bad.pcap", "--html", "page.html"]);
    let page = std::fs::read_to_string(place.path("page.html")).expect("it is written");
    assert!(page.contains("bad.pcap against good.pcap") && !page.contains("<script"), "{page}");
    assert_eq!(page.matches("<svg").count(), 6);
    assert!(page.contains("class=\"again\"") && page.contains("class=\"ack\" d=\"M"), "{page}");
    refused(&place, 2, &["packets", "-", "--html", "page.html"], &["standard input can be read once"]);
}

fn a_folder_of_rotated_files_is_one_capture_in_the_order_of_time() {
    let place = place();
    let all = frames(12, 200, 8);
    std::fs::create_dir(place.path("ring")).expect("a folder");
    // A ring that has gone round: the file with the first name is the newest.
    let parts: Vec<&[(i64, Vec<u8>)]> = all.chunks(all.len() / 3 + 1).collect();
    for (name, part) in [("ring2", parts[0]), ("ring3", parts[1]), ("ring1", parts[2])] {
        std::fs::write(place.path(&format!("ring/{name}")), pcap(part)).expect("a file");
    }
    std::fs::write(place.path("ring/README"), "no capture, but it lies here").expect("a file");
    let (out, err) = place.expect(0, &["packets", "-r", "ring", "--json"]);
    assert!(err.contains("warning: ring: README: left out"), "{err}");
    let (whole, _) = place.expect(0, &["packets", "bad.pcap", "--json"]);
    assert_eq!(out.replace("\"ring\"", "\"bad.pcap\""), whole);
    refused(&place, 2, &["packets", "ring"], &["it is a folder", "with -r"]);
}

fn a_capture_that_is_cut_is_read_as_far_as_it_goes() {
    let place = place();
    let mut capture = PcapNg::new();
    let interface = capture.interface(link::ETHERNET);
    frames(12, 50, 8).iter().for_each(|(at, frame)| capture.frame(interface, *at, frame));
    let bytes = capture.into_bytes();
    std::fs::write(place.path("cut.pcapng"), &bytes[..bytes.len() - 9]).expect("a file");
    let (out, err) = place.expect(0, &["packets", "cut.pcapng"]);
    assert!(out.contains("in 12 connections"), "{out}");
    assert!(err.contains("warning: cut.pcapng: the capture is truncated"), "{err}");
}

fn what_is_no_capture_is_refused_with_what_it_is() {
    let place = place();
    for (args, code, says) in [
        (&["text.pcap"][..], 2, &["text.pcap", "hint:"][..]),
        (&["empty.pcap"], 2, &["empty.pcap", "empty"]),
        (&["none.pcap"], 2, &["none.pcap", "it has no frames"]),
        (&["udp.pcap"], 2, &["udp.pcap", "there is no TCP in its 1 frame: 1 of other protocols"]),
        (&["missing.pcap"], 2, &["missing.pcap", "there is no such file"]),
        (&["good.pcap", "./good.pcap"], 2, &["good.pcap", "it was named twice"]),
        (&["-", "-"], 2, &["it was named twice"]),
        (&["good.pcap", "--by", "port"], 2, &["flow", "host", "time"]),
        (&["good.pcap", "bad.pcap", "--margin", "much"], 2, &["--margin", "much"]),
        (&["good.pcap", "bad.pcap", "--traffic", "1"], 2, &["--traffic", "captures have totals"]),
        (&["-r", "."], 0, &[]),
    ] {
        let all: Vec<&str> = ["packets"].iter().chain(args).copied().collect();
        if code == 0 {
            place.expect(0, &all);
        } else {
            refused(&place, code, &all, says);
        }
    }
}

fn counts_of_tshark_are_compared_as_far_as_they_go() {
    let place = Sandbox::new();
    place.write("full.txt", include_str!("../../holdup-packets/tests/fixtures/uperf-lazy-2026/full.txt"));
    place.write("lazy.txt", include_str!("../../holdup-packets/tests/fixtures/uperf-lazy-2026/lazy.txt"));
    let (out, _) = place.expect(3, &["packets", "full.txt", "lazy.txt"]);
    assert!(out.starts_with("~ Undecided: these are counts"), "{out}");
    let (out, _) = place.expect(1, &["packets", "full.txt", "lazy.txt", "--traffic", "0.25..1"]);
    assert!(
        out.contains("lazy.txt got worse the most") && out.contains("fast retransmission (×30.0 to ×120)"),
        "{out}"
    );
    let (out, _) = place.expect(1, &["packets", "full.txt", "lazy.txt", "--traffic", "0.25..1", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("is JSON");
    assert_eq!(document["counts"]["rows"].as_array().map(Vec::len), Some(10));
    refused(&place, 2, &["packets", "full.txt"], &["1 list of counts", "hint: give two"]);
    refused(&place, 2, &["packets", "full.txt", "lazy.txt", "--traffic", "lots"], &["--traffic", "lots", "0.25..1"]);
    refused(&place, 2, &["packets", "full.txt", "lazy.txt", "--by", "host"], &["--by", "no connections"]);
    std::fs::write(place.path("a.pcap"), pcap(&frames(1, 10, 0))).expect("a file");
    refused(&place, 2, &["packets", "full.txt", "a.pcap"], &["a.pcap", "it is no list of counts"]);
}

/// The lines of a report of captures that say what was found: from the heads of its tables on.
fn tables(text: &str) -> String {
    let from = text.find("A good.pcap, B bad.pcap").expect("the comparison");
    let to = text.find("\ngood.pcap\n").unwrap_or(text.len());
    text[from..to].trim_end().to_owned()
}

fn an_imported_bundle_says_what_the_captures_said() {
    let place = place();
    let (_, output) = place.expect(0, &["import", "pcap", "good.pcap", "bad.pcap", "--out", "x.holdup"]);
    assert!(output.contains("bundle: x.holdup (2 captures)"), "{output}");
    let (packets, _) = place.expect(1, &["packets", "good.pcap", "bad.pcap", "--details"]);
    let (report, _) = place.expect(0, &["report", "x.holdup", "--details"]);
    assert_eq!(tables(&report), tables(&packets));
    let answer: String = packets.trim_start_matches("▲ ").lines().take(1).collect();
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat(&report).contains(&flat(&answer)), "{report}");
    assert!(report.contains("Imported from 2 captures"), "{report}");
    assert!(flat(&report).contains("The first begins 2026-02-25"), "its date is that of the capture: {report}");
    // The same exit code, the same verdict.
    place.expect(1, &["compare", "x.holdup"]);
    let (of_bundle, _) = place.expect(0, &["report", "x.holdup", "--json"]);
    let (of_packets, _) = place.expect(1, &["packets", "good.pcap", "bad.pcap", "--json"]);
    let [bundle, direct] = [of_bundle, of_packets].map(|t| serde_json::from_str::<Value>(&t).expect("is JSON"));
    let kept = |trial: usize| &bundle["trials"][trial]["evidence"][0]["capture"];
    assert_eq!(kept(1)["comparison"], direct["comparisons"][0]);
    assert_eq!((&kept(0)["capture"], &kept(1)["capture"]), (&direct["captures"][0], &direct["captures"][1]));
    assert_eq!((&bundle["environment"], &bundle["head"]["machine"]["cpus"]), (&Value::Array(Vec::new()), &0.into()));

    place.expect(1, &["packets", "good.pcap", "bad.pcap", "--flows", "direct.jsonl"]);
    let (lines, _) = place.expect(0, &["export", "x.holdup", "--format", "flows"]);
    assert_eq!(lines, std::fs::read_to_string(place.path("direct.jsonl")).expect("it is written"));

    place.expect(0, &["report", "x.holdup", "--html", "x.html"]);
    let page = std::fs::read_to_string(place.path("x.html")).expect("it is written");
    assert_eq!(page.matches("<svg").count(), 6, "three connections of each capture");
    let (whole, _) = place.expect(0, &["verify", "x.holdup"]);
    assert!(whole.contains("captures: 24 connections readable, 6 of them over time"), "{whole}");
    // The same captures give the same bundle, byte for byte.
    place.expect(0, &["import", "pcap", "good.pcap", "bad.pcap", "--out=y.holdup"]);
    let [x, y] = ["x.holdup", "y.holdup"].map(|name| std::fs::read(place.path(name)).expect("it is there"));
    assert!(x == y, "{} and {} bytes", x.len(), y.len());
}

fn one_capture_rotated_captures_and_standard_input_are_imported() {
    let place = place();
    place.expect(0, &["import", "pcap", "bad.pcap", "-o", "one.holdup"]);
    let (report, _) = place.expect(0, &["report", "one.holdup", "--details"]);
    let (packets, _) = place.expect(0, &["packets", "bad.pcap", "--details"]);
    assert!(report.contains(&packets), "{report}");
    let mut command = place.holdup(&["import", "pcap", "-", "--out", "pipe.holdup"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    let bytes = std::fs::read(place.path("bad.pcap")).expect("it is there");
    child.stdin.take().expect("a pipe").write_all(&bytes).expect("it is read");
    assert!(child.wait_with_output().expect("it ends").status.success());
    let (report, _) = place.expect(0, &["report", "pipe.holdup", "--json"]);
    assert!(report.contains("standard input can be read once"), "{report}");
    std::fs::create_dir(place.path("ring")).expect("a folder");
    let all = frames(12, 200, 8);
    for (i, part) in all.chunks(all.len() / 3 + 1).enumerate() {
        std::fs::write(place.path(&format!("ring/{i}.pcap")), pcap(part)).expect("it is written");
    }
    place.expect(0, &["import", "pcap", "-r", "ring", "-o", "ring.holdup"]);
    let flows =
        |bundle: &str, name: &str| place.expect(0, &["export", bundle, "--format", "flows"]).0.replace(name, "NAME");
    assert_eq!(flows("ring.holdup", "\"ring\""), flows("one.holdup", "\"bad.pcap\""));
    // Without a name the first one that is free is taken.
    let (_, output) = place.expect(0, &["import", "pcap", "good.pcap"]);
    assert!(output.contains("bundle: import-1.holdup (1 capture)"), "{output}");
}

fn what_cannot_be_imported_is_refused_before_anything_is_written() {
    let place = place();
    let refuse = |args: &[&str], what: &str| {
        let all: Vec<&str> = ["import", "pcap"].iter().chain(args).copied().collect();
        refused(&place, 2, &all, &[what]);
    };
    refuse(&["text.pcap", "-o", "n.holdup"], "text.pcap");
    refuse(&["udp.pcap", "-o", "n.holdup"], "udp.pcap: there is no TCP");
    refuse(&["absent.pcap", "-o", "n.holdup"], "absent.pcap: there is no such file");
    refuse(&["good.pcap", "good.pcap", "-o", "n.holdup"], "good.pcap: it was named twice");
    refuse(&["good.pcap", "--out", "-"], "--out -: a bundle is a file");
    refuse(&["good.pcap", "-o", "absent/n.holdup"], "its folder does not exist");
    assert!(!place.path("n.holdup").exists());
    std::fs::write(place.path("mine.holdup"), b"my thesis").expect("it is written");
    refuse(&["good.pcap", "--out", "mine.holdup"], "exists already, and a bundle is never overwritten");
    assert_eq!(std::fs::read(place.path("mine.holdup")).expect("it is there"), b"my thesis");
}

/// Both ends are in namespaces of their own, and both are captured: each connection is counted on one side. They are open
/// before the window begins.
fn a_run_with_the_collector_keeps_each_connection_once_and_draws_the_worst() {
    if !is_root() {
        ignore("making network namespaces takes root");
    }
    let place = Sandbox::new();
    let run = "run stream --connections 3 --network veth --receive-buffer 4KB --blocks 1 --warmup 100ms --duration 400ms \
               --collect capture --out s.holdup -q";
    place.expect(0, &run.split_whitespace().collect::<Vec<_>>());
    let (lines, _) = place.expect(0, &["export", "s.holdup", "--format", "flows"]);
    let mut of_trial = std::collections::BTreeMap::new();
    for line in lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("is JSON")) {
        let bytes = |way: usize| line["flow"]["directions"][way]["traffic"]["payload_bytes"].as_u64().expect("bytes");
        // The control connection that starts and stops both sides counts, too.
        if bytes(0) + bytes(1) > 100_000 {
            *of_trial.entry(line["trial"].as_u64().expect("a trial")).or_insert(0) += 1;
        }
    }
    assert!(!of_trial.is_empty() && of_trial.values().all(|n| *n == 3), "{of_trial:?}");
    let (report, _) = place.expect(0, &["report", "s.holdup", "--json"]);
    let document: Value = serde_json::from_str(&report).expect("is JSON");
    let evidence = &document["trials"][0]["evidence"][0];
    assert!(
        evidence["items"].as_array().expect("items").iter().any(|item| item["name"] == "tcp_sockets"),
        "{evidence}"
    );
    // A trial that a busy machine makes void has its connections too, and is in no arm.
    let counts = document["trials"].as_array().expect("trials").iter().filter(|trial| trial["void"].is_null());
    let drawn: usize =
        counts.filter_map(|trial| trial["evidence"][0]["capture"]["traces"].as_array().map(Vec::len)).sum();
    place.expect(0, &["report", "s.holdup", "--html", "s.html"]);
    let page = std::fs::read_to_string(place.path("s.html")).expect("it is written");
    assert_eq!(
        page.matches("class=\"trace\"").count(),
        drawn,
        "at most three of each arm, each of which has one trial"
    );
}

holdup_testkit::tests!(
    what_got_worse_is_said_and_is_the_exit_code,
    one_capture_is_read_from_a_file_and_from_standard_input,
    our_own_judgement_stands_beside_the_marks_when_asked_for,
    a_page_shows_the_worst_connections_over_time,
    a_folder_of_rotated_files_is_one_capture_in_the_order_of_time,
    a_capture_that_is_cut_is_read_as_far_as_it_goes,
    what_is_no_capture_is_refused_with_what_it_is,
    counts_of_tshark_are_compared_as_far_as_they_go,
    an_imported_bundle_says_what_the_captures_said,
    one_capture_rotated_captures_and_standard_input_are_imported,
    what_cannot_be_imported_is_refused_before_anything_is_written,
    a_run_with_the_collector_keeps_each_connection_once_and_draws_the_worst
);
