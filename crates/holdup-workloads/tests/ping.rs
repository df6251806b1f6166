//! `ping` with real sockets on the loopback interface of this machine.

use holdup_catalogue::ping;
use holdup_induce::trial::{self, Trial};
use holdup_load::{Cancel, Prepared, TrialResult};
use holdup_model::{Measured, Parameters, Problem, ProblemKind, Value};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

type Changes<'a> = &'a [(&'a str, Value)];

fn parameters(changes: Changes<'_>) -> Parameters {
    let mut parameters = ping::Parameters::defaults(2);
    for (name, value) in changes {
        parameters.set(name, value.clone());
    }
    parameters
}

fn prepare(parameters: &Parameters) -> Result<Box<dyn Prepared>, Problem> {
    trial::prepare("ping", parameters)
}

fn run_with(
    changes: Changes<'_>,
    duration_ms: u64,
    cancel: &Cancel,
    on_open: &mut dyn FnMut(),
) -> Result<TrialResult, Problem> {
    let parameters = parameters(changes);
    let mut session = prepare(&parameters)?;
    let trial = Trial { cancel: cancel.clone(), ..Trial::new(&parameters, duration_ms) };
    trial.run_with(&mut *session, on_open)
}

/// On a machine that does much else a short window may see nothing at all, and then takes a longer one.
fn run(changes: Changes<'_>) -> TrialResult {
    for duration_ms in [40, 200, 1_000, 5_000] {
        match run_with(changes, duration_ms, &Cancel::default(), &mut || {}) {
            Ok(result) => return result,
            // It saw nothing, or was late to end.
            Err(problem) if problem.kind == ProblemKind::Trial && problem.what.starts_with("the window") => {}
            Err(problem) => panic!("{changes:?}: {problem}"),
        }
    }
    panic!("{changes:?}: nothing was delivered in 5 s");
}

/// One test at a time: two that ask their sockets again and again leave nothing of two CPUs to a third.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn measured<'a>(result: &'a TrialResult, id: &str) -> &'a Measured {
    &result.measurements.iter().find(|m| m.metric == id).expect("every metric is there").value
}

fn metric(result: &TrialResult, id: &str) -> f64 {
    let found = measured(result, id);
    found.value().unwrap_or_else(|| panic!("{id}: {found:?}"))
}

/// The children of this thread, which are those of this test.
fn children() -> Vec<Pid> {
    let text = std::fs::read_to_string("/proc/thread-self/children").expect("the kernel has CONFIG_PROC_CHILDREN");
    text.split_whitespace().map(|pid| Pid::from_raw(pid.parse().expect("a pid")).expect("not 0")).collect()
}

/// What holds for every trial.
fn conserves(result: &TrialResult) {
    let [sent, received, dropped] =
        ["messages_sent", "messages_received", "messages_dropped"].map(|id| metric(result, id));
    assert!(received > 0.0);
    assert_eq!(sent, received + dropped);
    assert_eq!(metric(result, "lost_unaccounted"), 0.0);
    assert_eq!(metric(result, "strangers"), 0.0);
    let ids: Vec<_> = result.measurements.iter().map(|m| m.metric.clone()).collect();
    let declared: Vec<_> = holdup_workloads::find("ping")
        .expect("it is in the catalogue")
        .metrics(&[])
        .into_iter()
        .map(|m| m.id)
        .collect();
    assert_eq!(ids, declared, "every metric is measured or absent with a reason");
    assert_eq!(children(), []);
}

fn playback(sizes: &[usize]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    for (index, size) in sizes.iter().enumerate() {
        writeln!(file, "{:.6}, {size}", index as f64 * 0.000_1).expect("written");
    }
    file
}

fn what_was_sent_was_received_or_dropped_in_every_mode_over_every_protocol() {
    let _alone = alone();
    let file = playback(&[8, 14, 1_000, 9, 4_000]);
    let path = Value::from(file.path().to_str().expect("text"));
    for mode in ["ping-pong", "under-load", "throughput", "playback"] {
        for protocol in ["udp", "tcp", "unix-datagram", "unix-stream"] {
            for (sharing, waiting) in [("processes", "block"), ("threads", "poll")] {
                let changes: [(&str, Value); 6] = [
                    ("mode", mode.into()),
                    ("protocol", protocol.into()),
                    ("sharing", sharing.into()),
                    ("waiting", waiting.into()),
                    ("playback_file", path.clone()),
                    ("reply_every", 3.into()),
                ];
                let result = run(&changes);
                conserves(&result);
                assert!(metric(&result, "delivered_per_s") > 0.0);
                let answered = mode != "throughput";
                let unanswered = Measured::Absent("nothing is answered in mode throughput".to_owned());
                assert_eq!(*measured(&result, "rtt_max_us") == unanswered, !answered, "{changes:?}");
                if answered && protocol != "udp" {
                    assert_eq!(metric(&result, "replies_lost"), 0.0, "{changes:?}");
                }
            }
        }
    }
}

fn messages_of_every_size_arrive_whole() {
    let _alone = alone();
    for protocol in ["udp", "tcp", "unix-datagram", "unix-stream"] {
        for size in [1, 7, 8, 13, 14, 1_472, 65_507] {
            for mode in ["ping-pong", "throughput"] {
                let changes: [(&str, Value); 3] =
                    [("mode", mode.into()), ("protocol", protocol.into()), ("size", size.into())];
                let result = run(&changes);
                conserves(&result);
                let bits = metric(&result, "bandwidth_mbit_per_s") * 1e6;
                let expected = metric(&result, "delivered_per_s") * size as f64 * 8.0;
                // The two counts are read one after the other.
                assert!((bits / expected - 1.0).abs() < 0.05, "{changes:?}: {bits} of {expected}");
                let silent = Measured::Absent(format!("a message of {size} bytes does not say when it was sent"));
                assert_eq!(*measured(&result, "one_way_p50_us") == silent, size < 8, "{changes:?}");
            }
        }
    }
    conserves(&run(&[("protocol", "tcp".into()), ("size", (16 << 20).into()), ("mode", "throughput".into())]));
}

/// The receiving queue holds a handful of datagrams, so that a fast sender overruns it.
fn what_a_full_queue_drops_is_counted_by_the_kernel() {
    let _alone = alone();
    for sharing in ["processes", "threads"] {
        for size in [1, 14, 1_000] {
            let changes: [(&str, Value); 4] = [
                ("mode", "throughput".into()),
                ("sharing", sharing.into()),
                ("size", size.into()),
                ("receive_buffer", 4096.into()),
            ];
            // Where both ends have one CPU between them, the receiver may take each datagram as soon as it comes for a while.
            let drops = |duration_ms| {
                let result = run_with(&changes, duration_ms, &Cancel::default(), &mut || {}).expect("runs");
                conserves(&result);
                metric(&result, "messages_dropped") > 0.0
            };
            assert!([40, 200, 1_000, 5_000].into_iter().any(drops), "{changes:?}");
        }
    }
}

/// A burst that the server's queue cannot hold loses messages, and their answers never come.
fn a_lost_message_does_not_hang_a_ping_pong() {
    let _alone = alone();
    let changes: [(&str, Value); 4] = [
        ("burst", 2_000.into()),
        ("size", 1_000.into()),
        ("receive_buffer", 4096.into()),
        ("placement", "same-cpu".into()),
    ];
    let result = run_with(&changes, 700, &Cancel::default(), &mut || {}).expect("runs");
    conserves(&result);
    let lost = metric(&result, "replies_lost");
    assert!(lost > 0.0 && metric(&result, "reply_timeouts") > 0.0);
    assert_eq!(lost, metric(&result, "messages_dropped") + metric(&result, "replies_dropped"));
}

/// A tiny queue between two ends that both wait for room must not stand still.
fn a_burst_that_fills_both_directions_goes_on() {
    let _alone = alone();
    for protocol in ["tcp", "unix-stream", "unix-datagram"] {
        for size in [14, 60_000] {
            let changes: [(&str, Value); 5] = [
                ("protocol", protocol.into()),
                ("burst", 300.into()),
                ("size", size.into()),
                ("send_buffer", 131_072.into()),
                ("receive_buffer", 4096.into()),
            ];
            let result = run_with(&changes, 200, &Cancel::default(), &mut || {}).expect("runs");
            conserves(&result);
            assert_eq!(metric(&result, "replies_lost"), 0.0, "{changes:?}");
        }
    }
}

/// How many round trips took 20 ms or longer.
fn long_ones(result: &TrialResult) -> u64 {
    let latency = &result.histograms.iter().find(|h| h.name == "latency").expect("it is there").histogram;
    latency.buckets().filter(|(low, _, _)| *low >= 20_000_000).map(|(_, _, count)| count).sum()
}

/// Ground truth: the server stands still for 150 ms. A closed loop sees one long round trip; an open one sees that
/// all messages that would have come meanwhile had to wait.
fn a_stall_shows_in_full_only_in_an_open_loop() {
    let _alone = alone();
    let stalled = |mode: &str, victim: usize| {
        let mut helper = None;
        let mut stall = || {
            let pid = children()[victim];
            helper = Some(std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(50));
                kill_process(pid, Signal::STOP).expect("it is ours");
                std::thread::sleep(Duration::from_millis(150));
                kill_process(pid, Signal::CONT).expect("it is ours");
            }));
        };
        // Over TCP, because a queue of datagrams does not hold all that come meanwhile.
        let changes: [(&str, Value); 4] =
            [("mode", mode.into()), ("protocol", "tcp".into()), ("rate", 4_000.into()), ("reply_every", 1.into())];
        let result = run_with(&changes, 500, &Cancel::default(), &mut stall).expect("runs");
        helper.expect("the window opened").join().expect("it was stopped and continued");
        conserves(&result);
        result
    };
    // The first child is the client, the second one the server.
    for victim in [0, 1] {
        let open = stalled("under-load", victim);
        assert!(long_ones(&open) > 400, "{} round trips of the open loop, victim {victim}", long_ones(&open));
        assert!(metric(&open, "rtt_max_us") > 149_000.0);
        if victim == 0 {
            assert!(metric(&open, "send_lag_p99_us") > 100_000.0, "the sender itself stood still");
        }
    }
    let closed = stalled("ping-pong", 1);
    // Its next message may be sent a while after the server was stopped, where the machine is busy.
    assert!(metric(&closed, "rtt_max_us") > 75_000.0);
    assert!(long_ones(&closed) < 50, "{} round trips of the closed loop", long_ones(&closed));
}

/// No message is sent before it is due, however server behind the sender was before.
fn a_rate_is_never_exceeded() {
    let _alone = alone();
    let changes: [(&str, Value); 3] = [("mode", "throughput".into()), ("rate", 2_000.into()), ("burst", 4.into())];
    let begin = Instant::now();
    let result = run_with(&changes, 500, &Cancel::default(), &mut || {}).expect("runs");
    let due = begin.elapsed().as_secs_f64() * 2_000.0 + 4.0;
    conserves(&result);
    let sent = metric(&result, "messages_sent");
    assert!(sent <= due, "{sent} messages, of which {due:.0} were due");
}

fn a_killed_end_voids_the_trial_and_leaves_no_process() {
    let _alone = alone();
    for (index, name) in [(0, "the client"), (1, "the server")] {
        for (mode, protocol) in [("ping-pong", "tcp"), ("throughput", "udp"), ("under-load", "unix-stream")] {
            let changes: [(&str, Value); 2] = [("mode", mode.into()), ("protocol", protocol.into())];
            let mut kill = || kill_process(children()[index], Signal::KILL).expect("it is ours");
            let problem =
                run_with(&changes, 30_000, &Cancel::default(), &mut kill).map(|_| ()).expect_err("one was killed");
            assert_eq!((problem.kind, problem.what.as_str()), (ProblemKind::Trial, "a worker is gone"));
            assert!(problem.why.starts_with(name) && problem.why.ends_with("was killed by signal 9"), "{problem}");
            assert_eq!(children(), []);
        }
    }
}

fn a_cancelled_trial_ends_immediately_and_leaves_nothing() {
    let _alone = alone();
    for sharing in ["threads", "processes"] {
        for mode in ["ping-pong", "under-load", "throughput"] {
            for protocol in ["udp", "tcp", "unix-datagram", "unix-stream"] {
                let changes: [(&str, Value); 3] =
                    [("mode", mode.into()), ("protocol", protocol.into()), ("sharing", sharing.into())];
                let cancel = Cancel::default();
                let problem =
                    run_with(&changes, 3_600_000, &cancel, &mut || cancel.cancel()).map(|_| ()).expect_err("cancelled");
                assert_eq!(problem.kind, ProblemKind::Interrupted);
                assert_eq!(children(), []);
            }
        }
    }
}

fn bad_input_is_reported_before_anything_is_started() {
    let _alone = alone();
    let check = |changes: Changes<'_>, expect: &str| {
        let problem = prepare(&parameters(changes)).map(|_| ()).expect_err("it cannot work");
        assert_eq!(format!("{}: {}", problem.what, problem.why), expect);
    };
    check(&[("size", 0.into())], "size 0: a message over udp in mode ping-pong has 1 to 65507 bytes");
    check(
        &[("size", (1 << 30).into()), ("protocol", "tcp".into())],
        "size 1073741824: a message over tcp in mode ping-pong has 1 to 16777216 bytes",
    );
    check(&[("mode", "playback".into())], "mode playback: there is nothing to play back");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"0.0,14\n0.1,70000\n").expect("written");
    let path = file.path().to_str().expect("text").to_owned();
    check(
        &[("mode", "playback".into()), ("playback_file", path.as_str().into())],
        &format!("playback_file {path}: line 2: 70000 bytes are not between 8 and 65507"),
    );
    check(
        &[("placement", "moon".into())],
        "placement moon: it must be one of none, same-cpu, two-cpus, smt-siblings, llc, node",
    );
}

holdup_testkit::tests!(
    what_was_sent_was_received_or_dropped_in_every_mode_over_every_protocol,
    messages_of_every_size_arrive_whole,
    what_a_full_queue_drops_is_counted_by_the_kernel,
    a_lost_message_does_not_hang_a_ping_pong,
    a_burst_that_fills_both_directions_goes_on,
    a_rate_is_never_exceeded,
    a_killed_end_voids_the_trial_and_leaves_no_process,
    a_cancelled_trial_ends_immediately_and_leaves_nothing,
    bad_input_is_reported_before_anything_is_started;
    truth:
    a_stall_shows_in_full_only_in_an_open_loop
);
