//! `messenger` with real threads and real processes on this machine.

use holdup_catalogue::messenger;
use holdup_induce::trial::{self, Trial};
use holdup_load::{Cancel, Prepared, TrialResult};
use holdup_model::{Measured, Parameters, Problem, ProblemKind, Value};
use rustix::process::{Pid, Signal, kill_process};

fn parameters(changes: &[(&str, Value)]) -> Parameters {
    let mut parameters = messenger::Parameters::defaults(2);
    for (name, value) in [("groups", 2), ("senders", 3), ("receivers", 4), ("messages", 100)] {
        parameters.set(name, value);
    }
    for (name, value) in changes {
        parameters.set(name, value.clone());
    }
    parameters
}

fn prepare(parameters: &Parameters) -> Result<Box<dyn Prepared>, Problem> {
    trial::prepare("messenger", parameters)
}

fn run_with(
    parameters: &Parameters,
    duration_ms: u64,
    cancel: &Cancel,
    enough: &Cancel,
    on_open: &mut dyn FnMut(),
) -> Result<TrialResult, Problem> {
    let trial = Trial { cancel: cancel.clone(), enough: enough.clone(), ..Trial::new(parameters, duration_ms) };
    trial.run_with(&mut *prepare(parameters).expect("it can be prepared"), on_open)
}

fn run(changes: &[(&str, Value)]) -> TrialResult {
    // Long enough for every task to run on a machine that does much else meanwhile; fixed work takes its own time.
    run_with(&parameters(changes), 400, &Cancel::default(), &Cancel::default(), &mut || {})
        .unwrap_or_else(|p| panic!("{changes:?}: {p}"))
}

fn measured<'a>(result: &'a TrialResult, id: &str) -> &'a Measured {
    &result.measurements.iter().find(|m| m.metric == id).expect("every metric is there").value
}

fn metric(result: &TrialResult, id: &str) -> f64 {
    measured(result, id).value().unwrap_or_else(|| panic!("{id}: {:?}", measured(result, id)))
}

/// The children of this thread, which are those of this test.
fn children() -> Vec<Pid> {
    let text = std::fs::read_to_string("/proc/thread-self/children").expect("the kernel has CONFIG_PROC_CHILDREN");
    text.split_whitespace().map(|pid| Pid::from_raw(pid.parse().expect("a pid")).expect("not 0")).collect()
}

const SHARINGS: [&str; 2] = ["threads", "processes"];
const TRANSPORTS: [&str; 3] = ["socketpair", "pipe", "tcp"];

fn each_way(mut check: impl FnMut(&str, &str)) {
    for sharing in SHARINGS {
        for transport in TRANSPORTS {
            check(sharing, transport);
        }
    }
    assert_eq!(children(), []);
}

fn fixed_work_is_done_to_the_last_message() {
    each_way(|sharing, transport| {
        for timing in [false, true] {
            let result = run(&[
                ("sharing", sharing.into()),
                ("transport", transport.into()),
                ("messages", 50.into()),
                ("timing", timing.into()),
                ("sample_every", 1.into()),
            ]);
            let all = f64::from(2 * 3 * 4 * 50);
            assert_eq!(metric(&result, "messages_sent"), all, "{sharing} {transport}");
            assert_eq!(metric(&result, "messages_received"), all, "{sharing} {transport}");
            let rate = all / metric(&result, "total_time_s");
            assert!((metric(&result, "messages_per_s") / rate - 1.0).abs() < 1e-9, "{sharing} {transport}");
            let ids: Vec<_> = result.measurements.iter().map(|m| m.metric.clone()).collect();
            let declared: Vec<_> =
                holdup_workloads::find("messenger").unwrap().metrics(&[]).into_iter().map(|m| m.id).collect();
            assert_eq!(ids, declared, "every metric is measured or absent with a reason");
            if timing {
                // Where the kernel cut a message over tcp a note says so.
                let torn: u64 = result.notes.iter().filter(|n| n.contains("were mixed")).map(|n| leading(n)).sum();
                assert_eq!(result.histograms[0].histogram.count() + torn, 1200, "{sharing} {transport}");
                assert!(metric(&result, "latency_p50_us") <= metric(&result, "latency_max_us") * 1.002);
            } else {
                assert!(result.histograms.is_empty());
            }
        }
    });
}

fn leading(text: &str) -> u64 {
    text.split(' ').next().and_then(|n| n.parse().ok()).expect("a number")
}

fn endless_messages_are_all_received_too() {
    each_way(|sharing, transport| {
        let result = run(&[("sharing", sharing.into()), ("transport", transport.into()), ("messages", 0.into())]);
        assert_eq!(metric(&result, "messages_sent"), metric(&result, "messages_received"), "{sharing} {transport}");
        assert!(metric(&result, "messages_per_s") > 0.0);
        assert!(result.histograms[0].histogram.count() > 0);
        let Measured::Absent(why) = measured(&result, "total_time_s") else { panic!("nothing had a total time") };
        assert!(why.contains("until the window ends"), "{why}");
    });
}

/// Larger than what a pipe or socket holds, so that every message is written and read in pieces.
fn messages_in_many_pieces_are_conserved() {
    each_way(|sharing, transport| {
        let result = run(&[
            ("sharing", sharing.into()),
            ("transport", transport.into()),
            ("size", (1 << 20).into()),
            ("senders", 2.into()),
            ("receivers", 2.into()),
            ("messages", 3.into()),
            ("timing", false.into()),
        ]);
        assert_eq!(metric(&result, "messages_received"), f64::from(2 * 2 * 2 * 3), "{sharing} {transport}");
    });
}

fn one_byte_and_one_of_each_is_enough() {
    each_way(|sharing, transport| {
        let mut changes: Vec<(&str, Value)> =
            ["groups", "senders", "receivers", "messages", "size"].map(|name| (name, 1.into())).to_vec();
        changes.extend([("sharing", sharing.into()), ("transport", transport.into()), ("timing", false.into())]);
        assert_eq!(metric(&run(&changes), "messages_received"), 1.0);
    });
}

fn timing_can_be_thinned() {
    let result = run(&[("sample_every", 10.into()), ("messages", 500.into())]);
    // 12000 messages at random distances of 1 to 19: 1200 on average, and never beyond ten standard errors.
    let timed = result.histograms[0].histogram.count();
    assert!((1_000..1_400).contains(&timed), "{timed}");
    assert!(result.notes.iter().any(|n| n == "one of 10 messages was timed"), "{:?}", result.notes);
}

fn switches_and_cpu_time_are_counted() {
    for sharing in SHARINGS {
        let result = run(&[("sharing", sharing.into()), ("messages", 500.into()), ("placement", "same-cpu".into())]);
        // On one CPU no task can send while another receives: one of them has to leave the CPU.
        assert!(
            metric(&result, "voluntary_switches_per_message") + metric(&result, "involuntary_switches_per_message")
                > 0.0
        );
        assert!(metric(&result, "cpu_us_per_message") > 0.0);
        assert!(result.notes.iter().any(|n| n.contains("both sides ran on CPU")), "{:?}", result.notes);
    }
}

fn a_killed_task_voids_the_trial_and_leaves_no_process() {
    for messages in [0, 1_000_000_000] {
        let parameters = parameters(&[("messages", messages.into())]);
        // The first is a receiver, the last a sender.
        for victim in [0, 13] {
            let mut kill = || kill_process(children()[victim], Signal::KILL).expect("it is ours");
            let problem = run_with(&parameters, 30_000, &Cancel::default(), &Cancel::default(), &mut kill)
                .map(|_| ())
                .expect_err("one was killed");
            assert_eq!((problem.kind, problem.what.as_str()), (ProblemKind::Trial, "a worker is gone"));
            assert!(problem.why.contains("killed by signal 9") || problem.why.contains("Broken pipe"), "{problem}");
            assert_eq!(children(), []);
        }
    }
}

fn a_cancelled_trial_leaves_nothing() {
    each_way(|sharing, transport| {
        for messages in [0, 1_000_000_000] {
            let parameters = parameters(&[
                ("sharing", sharing.into()),
                ("transport", transport.into()),
                ("messages", messages.into()),
            ]);
            let cancel = Cancel::default();
            let problem = run_with(&parameters, 3_600_000, &cancel, &Cancel::default(), &mut || cancel.cancel())
                .map(|_| ())
                .expect_err("cancelled");
            assert_eq!(problem.kind, ProblemKind::Interrupted);
        }
    });
}

fn a_background_ends_with_its_foreground() {
    for messages in [0, 1_000_000_000] {
        let enough = Cancel::default();
        let parameters = parameters(&[("messages", messages.into())]);
        let helper = std::sync::Mutex::new(None);
        let result = run_with(&parameters, 3_600_000, &Cancel::default(), &enough, &mut || {
            let enough = enough.clone();
            *helper.lock().unwrap() = Some(std::thread::spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(50));
                enough.cancel();
            }));
        })
        .expect("what was measured counts");
        helper.into_inner().unwrap().expect("it opened").join().expect("it ends");
        assert_eq!(metric(&result, "messages_sent"), metric(&result, "messages_received"));
        assert!(metric(&result, "messages_per_s") > 0.0);
        assert!(measured(&result, "total_time_s").value().is_none());
    }
    assert_eq!(children(), []);
}

fn what_cannot_fit_is_refused_before_anything_starts() {
    for (changes, kind, expect) in [
        (vec![("size", 0)], ProblemKind::Usage, "size 0: it must be from 1B to 1MB"),
        (vec![("size", 1 << 30)], ProblemKind::Usage, "it must be from 1B to 1MB"),
        (vec![("groups", 8192), ("senders", 8192)], ProblemKind::Usage, "tasks are more than 16384"),
    ] {
        let changes: Vec<(&str, Value)> = changes.into_iter().map(|(name, value)| (name, value.into())).collect();
        let problem = prepare(&parameters(&changes)).map(|_| ()).expect_err("it cannot fit");
        assert_eq!(problem.kind, kind);
        assert!(problem.to_string().contains(expect), "{problem}");
    }
}

/// 16380 receivers need 32761 files, which few machines allow; where they do, nothing is to be refused.
fn too_many_files_for_the_limit_is_a_clear_error() {
    let many = parameters(&[("groups", 4.into()), ("senders", 1.into()), ("receivers", 4095.into())]);
    let hard = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum;
    match hard {
        Some(hard) if hard < 32_761 => {
            let problem = prepare(&many).map(|_| ()).expect_err("there is no room");
            assert_eq!(problem.kind, ProblemKind::Host);
            let text = problem.to_string();
            assert!(text.starts_with("32761 open files: a process may have ") && text.contains("ulimit"), "{text}");
        }
        _ => drop(prepare(&many).expect("there is room")),
    }
}

holdup_testkit::tests!(
    fixed_work_is_done_to_the_last_message,
    endless_messages_are_all_received_too,
    messages_in_many_pieces_are_conserved,
    one_byte_and_one_of_each_is_enough,
    timing_can_be_thinned,
    switches_and_cpu_time_are_counted,
    a_killed_task_voids_the_trial_and_leaves_no_process,
    a_cancelled_trial_leaves_nothing,
    a_background_ends_with_its_foreground,
    what_cannot_fit_is_refused_before_anything_starts,
    too_many_files_for_the_limit_is_a_clear_error
);
