//! `external`: what original tools print is read right, and real ones run where they are installed.
//!
//! Over 600 lines because each tool has its samples, its real run and its errors.

use crate::common;
use common::{Ran, is_alive, set, trial};
use holdup_host::Host;
use holdup_load::{Cancel, PostgresOptions, PrepareContext, Prepared, Workload};
use holdup_model::plan::MetricChoice;
use holdup_model::{Availability, Measured, Parameters, Problem, ProblemKind};
use holdup_testkit::{ignore, ignore_part};
use holdup_workloads::external::{Reading, ToolOutput, metrics, read, snmp::Udp};
use holdup_workloads::find;
use proptest::prelude::*;
use std::path::Path;

fn parameters(given: &[(&str, &str)]) -> Parameters {
    set(Parameters::default(), given)
}

fn sample(name: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/external").join(name)).expect(name)
}

fn number(reading: &Reading, id: &str) -> f64 {
    reading.values.iter().find(|v| v.0 == id).unwrap_or_else(|| panic!("{id} in {reading:?}")).1
}

fn close_to(reading: &Reading, expect: &[(&str, f64)]) {
    for (id, value) in expect {
        let got = number(reading, id);
        assert!((got - value).abs() <= 1e-9 * value.abs().max(1.0), "{id}: {got} instead of {value}");
    }
}

fn cyclictest_is_read_from_its_json() {
    let json = sample("cyclictest.json");
    let said = ToolOutput { stderr: &json, ..ToolOutput::default() };
    let reading = read(&parameters(&[("tool", "cyclictest")]), &said).expect("good");
    let document: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let threads: Vec<&serde_json::Value> = document["thread"].as_object().expect("threads").values().collect();
    let cycles: u64 = threads.iter().map(|t| t["cycles"].as_u64().expect("cycles")).sum();
    let max = threads.iter().map(|t| t["max"].as_u64().expect("max")).max().expect("one");
    close_to(&reading, &[("cycles", cycles as f64), ("latency_max_us", max as f64)]);
    // All latencies in order, as the other way to the median.
    let mut all: Vec<u64> = Vec::new();
    for (value, count) in threads.iter().flat_map(|t| t["histogram"].as_object().expect("counts")) {
        all.resize(all.len() + count.as_u64().expect("a count") as usize, value.parse().expect("us"));
    }
    all.sort_unstable();
    assert_eq!(reading.histograms[0].histogram.count(), all.len() as u64);
    let at = |share: f64| all[(share * cycles as f64).ceil() as usize - 1] as f64;
    close_to(&reading, &[("latency_p50_us", at(0.5)), ("latency_p99_us", at(0.99))]);
    assert!(reading.notes.iter().any(|n| n.contains("fewer than 10")), "{:?}", reading.notes);
}

fn cyclictest_quantiles_beyond_its_histogram_are_absent() {
    let json =
        r#"WARN: x {"resolution_in_ns": 0, "thread": {"0": {"histogram": {"3": 98}, "cycles": 100, "max": 700}}} rest"#;
    let text = json.replacen("WARN: x ", "", 1);
    let reading = read(&parameters(&[("tool", "cyclictest")]), &ToolOutput { stderr: &text, ..ToolOutput::default() })
        .expect("good");
    close_to(&reading, &[("latency_p50_us", 3.0), ("latency_max_us", 700.0), ("cycles", 100.0)]);
    let absent: Vec<_> = reading.absent.iter().map(|a| a.0).collect();
    assert_eq!(absent, ["latency_p99_us", "latency_p999_us"]);
    assert_eq!(reading.notes[0], "2 of 100 latencies lie beyond the end of cyclictest's histogram, which lacks them");
    let ns = text.replace("\"resolution_in_ns\": 0", "\"resolution_in_ns\": 1");
    let reading = read(&parameters(&[("tool", "cyclictest")]), &ToolOutput { stderr: &ns, ..ToolOutput::default() })
        .expect("good");
    close_to(&reading, &[("latency_p50_us", 0.003), ("latency_max_us", 0.7)]);
}

fn cyclictest_threads_from_ten_on_are_not_lost() {
    let text = sample("cyclictest-summary.txt");
    assert!(text.contains("T:10 ("));
    let reading = read(&parameters(&[("tool", "cyclictest")]), &ToolOutput { stdout: &text, ..ToolOutput::default() })
        .expect("good");
    let of = |name: &str| -> Vec<f64> {
        let words = text.split_whitespace().collect::<Vec<_>>();
        words.windows(2).filter(|w| w[0] == name).map(|w| w[1].parse().expect("a number")).collect()
    };
    assert_eq!(of("C:").len(), 12);
    close_to(
        &reading,
        &[("cycles", of("C:").iter().sum()), ("latency_max_us", of("Max:").into_iter().fold(0.0, f64::max))],
    );
    assert_eq!(reading.absent.len(), 3);
}

fn hackbench_and_perf_bench_count_messages() {
    let text = "Running in process mode with 2 groups using 10 file descriptors each (== 20 tasks)\n\
                Each sender will pass 200 messages of 100 bytes\nTime: 0.050\n";
    let reading = read(&parameters(&[("tool", "hackbench")]), &ToolOutput { stdout: text, ..ToolOutput::default() })
        .expect("good");
    close_to(&reading, &[("total_time_s", 0.05), ("messages_per_s", 2.0 * 5.0 * 5.0 * 200.0 / 0.05)]);
    let zero = text.replace("0.050", "0.000");
    let reading = read(&parameters(&[("tool", "hackbench")]), &ToolOutput { stdout: &zero, ..ToolOutput::default() })
        .expect("good");
    assert_eq!(reading.absent[0].0, "messages_per_s");
    let real = sample("hackbench.txt");
    let reading = read(&parameters(&[("tool", "hackbench")]), &ToolOutput { stdout: &real, ..ToolOutput::default() })
        .expect("good");
    assert!((number(&reading, "messages_per_s") * number(&reading, "total_time_s") - 10_000.0).abs() < 1e-6);

    let real = sample("perf-messaging.txt");
    let reading = read(
        &parameters(&[("tool", "perf-bench"), ("loops", "100")]),
        &ToolOutput { stdout: &real, ..ToolOutput::default() },
    );
    let reading = reading.expect("good");
    assert!((number(&reading, "messages_per_s") * number(&reading, "total_time_s") - 80_000.0).abs() < 1e-6);
    let text = "# Executed 1000 pipe operations between two processes\n\n     Total time: 0.084 [sec]\n\n      84.372000 \
                usecs/op\n          11852 ops/sec\n";
    let reading = read(
        &parameters(&[("tool", "perf-bench"), ("mode", "pipe")]),
        &ToolOutput { stdout: text, ..ToolOutput::default() },
    );
    let expect = [("total_time_s", 0.084), ("rtt_mean_us", 84.372), ("messages_per_s", 2e6 / 84.372)];
    close_to(&reading.expect("good"), &expect);
    let real = sample("perf-pipe.txt");
    read(
        &parameters(&[("tool", "perf-bench"), ("mode", "pipe")]),
        &ToolOutput { stdout: &real, ..ToolOutput::default() },
    )
    .expect("good");
}

/// The number that stands after a text, by another way than the reader's.
fn after(text: &str, name: &str) -> f64 {
    let rest = &text[text.find(name).unwrap_or_else(|| panic!("{name} in {text}")) + name.len()..];
    rest.trim_start()
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next()
        .expect("a word")
        .parse()
        .expect("a number")
}

fn line<'a>(text: &'a str, with: &str) -> &'a str {
    text.lines().find(|l| l.contains(with)).unwrap_or_else(|| panic!("{with} in {text}"))
}

fn sockperf_round_trips_are_those_of_its_log() {
    for (mode, protocol) in [("ping-pong", "tcp"), ("under-load", "udp")] {
        let (stdout, log) = (sample(&format!("sockperf-{mode}.txt")), sample(&format!("sockperf-{mode}.log")));
        let server = sample(&format!("sockperf-server-{mode}.txt"));
        let udp = Udp { received: 10_105, sent: 10_105, queue_full: 0, errors: 0 };
        let said =
            ToolOutput { stdout: &stdout, stderr: &log, server: &server, udp: (protocol == "udp").then_some(Ok(udp)) };
        let given = parameters(&[("tool", "sockperf"), ("mode", mode), ("protocol", protocol)]);
        let reading = read(&given, &said).expect("good");
        let histogram = &reading.histograms[0].histogram;
        assert_eq!(histogram.count() as f64, after(line(&stdout, " observations"), "Total "));
        for (id, quantile) in [("rtt_p50_us", 0.5), ("rtt_max_us", 1.0)] {
            let ours = histogram.quantile_ns(quantile).expect("not empty") as f64 / 1000.0;
            assert!((ours / number(&reading, id) - 1.0).abs() < 0.02, "{mode} {id}: {ours} and {reading:?}");
        }
        let sent = after(&stdout, "SentMessages=");
        assert_eq!(number(&reading, "messages_sent"), sent);
        assert_eq!(number(&reading, "messages_received"), after(line(&server, "handled"), "Total "));
        assert_eq!(number(&reading, "messages_dropped"), 0.0);
    }
}

fn sockperf_throughput_sets_delivered_beside_sent() {
    let (stdout, server) = (sample("sockperf-throughput.txt"), sample("sockperf-server-throughput.txt"));
    let (sent, received) = (after(&stdout, "Total of "), after(&server, "Total "));
    let dropped = (sent - received) as u64;
    let udp = Udp { received: received as u64, sent: sent as u64, queue_full: dropped, errors: dropped };
    let parameters = parameters(&[("tool", "sockperf"), ("mode", "throughput")]);
    let with =
        |server: &str, udp| read(&parameters, &ToolOutput { stdout: &stdout, stderr: "", server, udp }).expect("good");
    let reading = with(&server, Some(Ok(udp)));
    let seconds = after(&stdout, "sent in ");
    close_to(
        &reading,
        &[
            ("messages_sent", sent),
            ("messages_received", received),
            ("messages_dropped", dropped as f64),
            ("sent_per_s", sent / seconds),
            ("delivered_per_s", received / seconds),
        ],
    );
    assert!(reading.notes.iter().any(|n| n.starts_with("sockperf counts what was sent")));
    // Without the server's count the kernel's is taken, and without both there is none.
    assert_eq!(number(&with("", Some(Ok(udp))), "messages_received"), received);
    let absent = with("", Some(Err("not readable"))).absent;
    let ids: Vec<_> = absent.iter().map(|a| a.0).collect();
    assert_eq!(ids, ["messages_received", "delivered_per_s", "messages_dropped"]);
}

fn iperf3_counts_what_arrived() {
    let text = sample("iperf3-tcp.json");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let at = |pointer: &str| document.pointer(pointer).and_then(serde_json::Value::as_f64).expect(pointer);
    let reading =
        read(&parameters(&[("tool", "iperf3")]), &ToolOutput { stdout: &text, ..ToolOutput::default() }).expect("good");
    assert!(
        (number(&reading, "throughput_gbit_per_s") / at("/end/sum_received/bits_per_second") * 1e9 - 1.0).abs() < 1e-6
    );
    assert_eq!(number(&reading, "retransmissions"), at("/end/sum_sent/retransmits"));
    assert_eq!(reading.bytes, Some(at("/end/sum_received/bytes")));

    let text = sample("iperf3-udp.json");
    let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let at = |pointer: &str| document.pointer(pointer).and_then(serde_json::Value::as_f64).expect(pointer);
    let udp = parameters(&[("tool", "iperf3"), ("protocol", "udp")]);
    let reading = read(&udp, &ToolOutput { stdout: &text, ..ToolOutput::default() }).expect("good");
    let lost = at("/end/sum_received/lost_packets");
    let received = at("/end/sum_received/packets") - lost;
    close_to(&reading, &[("messages_received", received), ("messages_dropped", lost)]);
    assert!(number(&reading, "messages_sent") >= received + lost);

    let text = sample("iperf3-refused.json");
    let problem = read(&udp, &ToolOutput { stdout: &text, ..ToolOutput::default() }).expect_err("no server listens");
    assert_eq!(problem.kind, ProblemKind::Trial);
    assert!(problem.why.starts_with("iperf3 says: unable to connect to server"), "{problem}");
}

fn uperf_is_read_from_its_data_transaction_and_not_from_total() {
    let text = sample("uperf-tcp.txt");
    let reading =
        read(&parameters(&[("tool", "uperf")]), &ToolOutput { stdout: &text, ..ToolOutput::default() }).expect("good");
    let seconds = 115_767.0 * 51.87e-6 / 3.0;
    let gbit = 7_586_709_504.0 * 8.0 / seconds / 1e9;
    close_to(&reading, &[("throughput_gbit_per_s", gbit), ("transfers_per_s", 115_764.0 / seconds)]);
    // Its Total says 14.42 Gb/s.
    assert!(gbit > 30.0, "{gbit}");

    let udp = parameters(&[("tool", "uperf"), ("protocol", "udp")]);
    let text = sample("uperf-udp.txt");
    let counted = Udp { received: 200_000, sent: 404_989, queue_full: 204_989, errors: 204_989 };
    let reading =
        read(&udp, &ToolOutput { stdout: &text, udp: Some(Ok(counted)), ..ToolOutput::default() }).expect("good");
    let expect = [("messages_sent", 404_989.0), ("messages_received", 200_000.0), ("messages_dropped", 204_989.0)];
    close_to(&reading, &expect);
    let reading = read(&udp, &ToolOutput { stdout: &text, ..ToolOutput::default() }).expect("good");
    let absent: Vec<_> = reading.absent.iter().map(|a| a.0).collect();
    assert_eq!(absent, ["messages_received", "messages_dropped", "delivered_per_s", "throughput_gbit_per_s"]);

    let text = sample("uperf-error.txt");
    let problem =
        read(&udp, &ToolOutput { stdout: &text, ..ToolOutput::default() }).expect_err("a datagram is not so long");
    assert_eq!(problem.why, "uperf counted errors: ** Error for flowop write  Message too long");
}

fn schbench_and_sysbench_are_read_from_their_text() {
    let text = sample("schbench.txt");
    let reading = read(&parameters(&[("tool", "schbench")]), &ToolOutput { stderr: &text, ..ToolOutput::default() })
        .expect("good");
    let requests = &text[text.rfind("Request Latencies").expect("a block")..];
    let wakeups = &text[text.rfind("Wakeup Latencies").expect("a block")..];
    close_to(
        &reading,
        &[
            ("wakeup_p50_us", after(wakeups, "50.0th:")),
            ("wakeup_p99_us", after(wakeups, "* 99.0th:")),
            ("wakeup_p999_us", after(wakeups, "99.9th:")),
            ("request_p99_us", after(requests, "* 99.0th:")),
            ("requests_per_s", after(&text, "average rps:")),
        ],
    );

    let text = sample("sysbench-threads.txt");
    let reading = read(&parameters(&[("tool", "sysbench")]), &ToolOutput { stdout: &text, ..ToolOutput::default() })
        .expect("good");
    close_to(&reading, &[("events_per_s", 958.0 / 1.0035), ("latency_max_us", 6210.0)]);
    assert_eq!(reading.histograms[0].histogram.count(), 958);
    assert!((number(&reading, "latency_p50_us") / 4252.0 - 1.0).abs() < 0.002);
    let text = sample("sysbench-mutex.txt");
    let mutex = parameters(&[("tool", "sysbench"), ("mode", "mutex")]);
    close_to(
        &read(&mutex, &ToolOutput { stdout: &text, ..ToolOutput::default() }).expect("good"),
        &[("total_time_s", 0.0091)],
    );
}

/// Every mode of every tool, with a sample where it has one.
fn all_modes() -> Vec<(Parameters, &'static str)> {
    [
        (&[("tool", "cyclictest")][..], "cyclictest.json"),
        (&[("tool", "cyclictest")], "cyclictest-summary.txt"),
        (&[("tool", "hackbench")], "hackbench.txt"),
        (&[("tool", "perf-bench")], "perf-messaging.txt"),
        (&[("tool", "perf-bench"), ("mode", "pipe")], "perf-pipe.txt"),
        (&[("tool", "sockperf")], "sockperf-ping-pong.txt"),
        (&[("tool", "sockperf"), ("mode", "under-load")], "sockperf-under-load.log"),
        (&[("tool", "sockperf"), ("mode", "throughput")], "sockperf-throughput.txt"),
        (&[("tool", "uperf")], "uperf-tcp.txt"),
        (&[("tool", "uperf"), ("protocol", "udp")], "uperf-udp.txt"),
        (&[("tool", "schbench")], "schbench.txt"),
        (&[("tool", "iperf3")], "iperf3-tcp.json"),
        (&[("tool", "iperf3"), ("protocol", "udp")], "iperf3-udp.json"),
        (&[("tool", "sysbench")], "sysbench-threads.txt"),
        (&[("tool", "sysbench"), ("mode", "mutex")], "sysbench-mutex.txt"),
    ]
    .into_iter()
    .map(|(given, name)| (parameters(given), name))
    .collect()
}

/// A text goes to every stream; only ids of the list come out, and every number is finite.
fn read_anywhere(parameters: &Parameters, text: &str) -> Result<Reading, Problem> {
    let udp = Some(Ok(Udp { received: 1, sent: u64::MAX, queue_full: 2, errors: 3 }));
    let reading = read(parameters, &ToolOutput { stdout: text, stderr: text, server: text, udp })?;
    for id in reading.values.iter().map(|v| v.0).chain(reading.absent.iter().map(|a| a.0)) {
        assert!(metrics::ALL.iter().any(|row| row.0 == id), "{id}");
    }
    Ok(reading)
}

fn an_output_that_is_cut_or_empty_is_a_reason_or_a_part() {
    for (parameters, name) in all_modes() {
        let text = sample(name);
        for end in (0..text.len()).step_by((text.len() / 400).max(1)).filter(|end| text.is_char_boundary(*end)) {
            if let Err(problem) = read_anywhere(&parameters, &text[..end]) {
                assert!(problem.kind == ProblemKind::Trial && !problem.why.is_empty(), "{name}: {problem}");
            }
        }
        read_anywhere(&parameters, "").expect_err(name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    fn no_output_makes_a_reader_panic(
        which in 0usize..15, cuts in prop::collection::vec((any::<prop::sample::Index>(), "[ -~\\n]{0,6}|[0-9]{15,25}|\\PC{0,3}"), 0..8)
    ) {
        let (parameters, name) = all_modes().swap_remove(which);
        let mut text = sample(name);
        for (at, put) in cuts {
            let mut at = at.index(text.len() + 1);
            while !text.is_char_boundary(at) { at -= 1; }
            let end = (at + put.len()).min(text.len());
            if text.is_char_boundary(end) { text.replace_range(at..end, &put); }
        }
        let _reason_or_numbers = read_anywhere(&parameters, &text);
    }

    fn nor_does_noise(which in 0usize..15, text in "\\PC{0,200}|[ -~\\n\\x1b]{0,300}") {
        let (parameters, _) = all_modes().swap_remove(which);
        let _reason_or_numbers = read_anywhere(&parameters, &text);
    }
}

fn external() -> &'static dyn Workload {
    find("external").expect("it is in the catalogue")
}

fn choice(id: &str) -> MetricChoice {
    MetricChoice { id: id.into(), workload: None, primary: true, better: None, unit: None, margin: 0.02, from: None }
}

fn session(parameters: &Parameters, primary: &str) -> Result<Box<dyn Prepared>, Problem> {
    external().prepare(PrepareContext {
        other_end: None,
        host: &Host::real(),
        parameters,
        combinations: std::slice::from_ref(parameters),
        metrics: &[choice(primary)],
        postgres: &PostgresOptions::default(),
        workdir: std::env::temp_dir(),
        cancel: Cancel::default(),
        step: &mut |_| {},
    })
}

/// Runs a tool for a second, or says why it cannot.
fn run(given: &[(&str, &str)], primary: &str) -> Option<Ran> {
    let parameters = parameters(given);
    let mut prepared = match session(&parameters, primary) {
        Ok(prepared) => prepared,
        Err(problem) if problem.kind == ProblemKind::Host => {
            ignore_part(problem);
            return None;
        }
        Err(problem) => panic!("{given:?}: {problem}"),
    };
    let facts = prepared.facts();
    assert!(facts.len() == 2 && facts.iter().all(|f| f.steady), "{facts:?}");
    assert!(facts.iter().any(|f| f.value.is_some()), "{facts:?}");
    let ran = trial(prepared.as_mut(), &parameters, (0, 1000), &mut |_| {});
    let result = ran.result.as_ref().unwrap_or_else(|problem| panic!("{given:?}: {problem}"));
    let measured: Vec<_> = result.measurements.iter().map(|m| m.metric.clone()).collect();
    let declared: Vec<_> = external().metrics(&[]).into_iter().map(|m| m.id).collect();
    assert_eq!(measured, declared, "every metric is measured or absent with a reason");
    assert!(ran.window.is_some() && ran.subjects.iter().all(|(_, pid)| !is_alive(*pid)), "{:?}", ran.subjects);
    println!("{given:?}: {:?}", result.notes);
    for m in &result.measurements {
        if let Measured::Value(value) = m.value {
            println!("  {} = {value}", m.metric);
        }
    }
    Some(ran)
}

fn real_cyclictest() {
    for (given, primary) in [
        (&[("tool", "cyclictest"), ("threads", "2"), ("interval", "1000000")][..], "latency_p99_us"),
        (&[("tool", "cyclictest"), ("loops", "200"), ("placement", "same-cpu")], "cycles"),
    ] {
        let Some(ran) = run(given, primary) else { continue };
        assert!(ran.metric("cycles") >= 100.0);
        assert!(ran.metric("latency_p50_us") <= ran.metric("latency_max_us"));
        assert!(ran.count("latency") as f64 <= ran.metric("cycles"));
    }
}

fn real_hackbench_and_perf_bench() {
    for given in [
        &[("tool", "hackbench"), ("groups", "1"), ("senders", "3"), ("loops", "50"), ("sharing", "threads")][..],
        &[("tool", "hackbench"), ("groups", "1"), ("senders", "3"), ("loops", "50"), ("protocol", "tcp")],
        &[("tool", "perf-bench"), ("groups", "1"), ("loops", "5"), ("protocol", "pipe")],
        &[("tool", "perf-bench"), ("mode", "pipe"), ("loops", "500"), ("placement", "same-cpu")],
    ] {
        let Some(ran) = run(given, "total_time_s") else { continue };
        assert!(ran.metric("total_time_s") <= ran.metric("duration_s"));
    }
}

fn real_sockperf() {
    for mode in ["ping-pong", "under-load", "throughput"] {
        for protocol in ["udp", "tcp"] {
            let given = [("tool", "sockperf"), ("mode", mode), ("protocol", protocol), ("placement", "same-cpu")];
            let Some(ran) = run(&given, "delivered_per_s") else { return };
            assert_eq!(ran.subjects.len(), 2, "client and server");
            let (sent, received) = (ran.metric("messages_sent"), ran.metric("messages_received"));
            assert!(received > 0.0 && received <= sent + 1.0, "{received} of {sent}");
            if mode != "throughput" {
                assert!(ran.count("latency") > 0);
            }
        }
    }
}

fn real_streams() {
    for tool in ["iperf3", "uperf"] {
        for (mode, protocol) in [("read", "tcp"), ("write", "tcp"), ("write", "udp")] {
            let given =
                [("tool", tool), ("mode", mode), ("protocol", protocol), ("connections", "2"), ("size", "8192")];
            let Some(ran) = run(&given, "throughput_gbit_per_s") else { break };
            assert!(ran.metric("cpu_s_per_gb") > 0.0);
        }
    }
}

fn real_schbench_and_sysbench() {
    if let Some(ran) = run(&[("tool", "schbench"), ("threads", "2")], "wakeup_p99_us") {
        assert!(ran.metric("requests_per_s") > 0.0);
    }
    for mode in ["threads", "cpu"] {
        if let Some(ran) = run(&[("tool", "sysbench"), ("mode", mode), ("threads", "2")], "events_per_s") {
            assert!(ran.count("latency") > 0);
        }
    }
}

fn what_cannot_be_is_said_before_any_trial() {
    let check = |given: &[(&str, &str)], primary: &str, expect: &str| {
        let problem = session(&parameters(given), primary).err().expect("wrong");
        assert_eq!((problem.kind, problem.to_string().as_str()), (ProblemKind::Usage, expect));
    };
    check(
        &[("tool", "hackbench"), ("connections", "3")],
        "total_time_s",
        "connections = 3 for tool hackbench: the tool has no such parameter\nhint: it has groups, senders, loops, size, \
         sharing, protocol; anything else goes to `arguments` as the tool itself has it",
    );
    check(
        &[("tool", "hackbench")],
        "latency_p99_us",
        "primary metric latency_p99_us: hackbench does not measure it\nhint: name one of its metrics as the primary \
         one: total_time_s, messages_per_s",
    );
    check(
        &[("tool", "schbench")],
        "duration_s",
        "primary metric duration_s: schbench runs as long as it is asked to\nhint: name one of its metrics as the primary \
         one: wakeup_p50_us, wakeup_p99_us, wakeup_p999_us, request_p50_us, request_p99_us, requests_per_s",
    );
    check(
        &[("tool", "iperf3"), ("rate", "100")],
        "throughput_gbit_per_s",
        "rate of tool iperf3: iperf3 takes bits per second, so messages need a `size`",
    );
}

fn a_tool_that_ends_badly_voids_the_trial() {
    let parameters = parameters(&[("tool", "hackbench"), ("arguments", "[\"--no-such-option\"]")]);
    let Ok(mut prepared) = session(&parameters, "total_time_s") else {
        ignore("hackbench is not installed");
    };
    let problem = trial(prepared.as_mut(), &parameters, (0, 1000), &mut |_| {}).result.expect_err("it knows none");
    assert_eq!(problem.kind, ProblemKind::Trial);
}

fn the_probe_names_what_is_there() {
    match external().probe(&Host::real(), &PostgresOptions::default()) {
        Availability::Ready => {}
        Availability::Degraded { reason } => assert!(reason.starts_with("not on the PATH: "), "{reason}"),
        Availability::Unavailable { reason, remedy } => {
            assert_eq!(reason, "none of the tools is on the PATH");
            assert!(remedy.is_some_and(|r| r.contains("apt install rt-tests")));
        }
    }
    assert_eq!(holdup_catalogue::external::Tool::WORDS.len(), 8);
}

const INNER: &str = "HOLDUP_TEST_OF_EXTERNAL_DEATH";

/// Only for the test below, which runs this test alone in another process and kills that.
fn inner_process_that_is_killed() {
    let Ok(what) = std::env::var(INNER) else { return };
    let (given, primary): (&[(&str, &str)], &str) = match what.as_str() {
        "hackbench" => (&[("tool", "hackbench"), ("groups", "1"), ("loops", "100000000")], "total_time_s"),
        "iperf3" => (&[("tool", "iperf3")], "throughput_gbit_per_s"),
        other => panic!("{other}"),
    };
    let parameters = parameters(given);
    let mut prepared = session(&parameters, primary).expect("prepares");
    let ran = trial(prepared.as_mut(), &parameters, (0, 1_000_000), &mut |_| {});
    panic!("it should have been killed: {:?}", ran.result);
}

/// The processes of all groups that a process made: of its children, which are the first of them.
fn in_groups_of(pid: u32) -> Vec<u32> {
    let stats = || {
        let names = std::fs::read_dir("/proc").expect("there").filter_map(|e| e.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.parse::<u32>().ok()).filter_map(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let fields: Vec<u32> =
                stat.rsplit_once(')')?.1.split_whitespace().skip(1).take(2).filter_map(|f| f.parse().ok()).collect();
            Some((pid, *fields.first()?, *fields.get(1)?))
        })
    };
    let groups: Vec<u32> = stats().filter(|s| s.1 == pid && s.2 != pid).map(|s| s.2).collect();
    stats().filter(|s| groups.contains(&s.2)).map(|s| s.0).collect()
}

/// True if a process is there, zombies aside.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn nothing_outlives_a_holdup_that_is_killed() {
    // hackbench makes 40 tasks; iperf3 is a client and a server. Each group has a guard.
    for (tool, processes) in [("hackbench", 42), ("iperf3", 4)] {
        if let Err(problem) = session(&parameters(&[("tool", tool)]), "cpu_s") {
            ignore_part(problem);
            continue;
        }
        let mut inner = std::process::Command::new(std::env::current_exe().expect("this test"))
            .args(["--include-ignored", "--exact", "external::inner_process_that_is_killed", "--nocapture"])
            .env(INNER, tool)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("starts");
        let pid = inner.id();
        while in_groups_of(pid).len() < processes {
            assert!(inner.try_wait().expect("ours").is_none(), "{tool}: it has ended");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let orphans = in_groups_of(pid);
        inner.kill().expect("it is ours");
        inner.wait().expect("ours");
        let gone = |pid: &u32| {
            (0..500).any(|_| {
                !runs(*pid) || {
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    false
                }
            })
        };
        assert!(orphans.iter().all(gone), "{tool}: {orphans:?}");
    }
}

holdup_testkit::tests!(
    cyclictest_is_read_from_its_json,
    cyclictest_quantiles_beyond_its_histogram_are_absent,
    cyclictest_threads_from_ten_on_are_not_lost,
    hackbench_and_perf_bench_count_messages,
    sockperf_round_trips_are_those_of_its_log,
    sockperf_throughput_sets_delivered_beside_sent,
    iperf3_counts_what_arrived,
    uperf_is_read_from_its_data_transaction_and_not_from_total,
    schbench_and_sysbench_are_read_from_their_text,
    an_output_that_is_cut_or_empty_is_a_reason_or_a_part,
    no_output_makes_a_reader_panic,
    nor_does_noise,
    what_cannot_be_is_said_before_any_trial,
    a_tool_that_ends_badly_voids_the_trial,
    the_probe_names_what_is_there,
    nothing_outlives_a_holdup_that_is_killed;
    truth:
    real_cyclictest,
    real_hackbench_and_perf_bench,
    real_sockperf,
    real_streams,
    real_schbench_and_sysbench;
    by_hand:
    inner_process_that_is_killed
);
