//! Bad input ends in `what: why` and a hint, with the right exit code; input that is made to be large does too, or is read.

use crate::common;
use crate::hostile_input::{broken, connection, measured, need_release};
use common::{Sandbox, refused};
use holdup_model::BundleData;
use holdup_model::evidence::Collected;
use holdup_model::timeline::{Timeline, TimelineEvent, TimelineKind, TimelineTask};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;

fn what_cannot_be_is_refused_with_a_hint() {
    let place = Sandbox::new();
    place.write("text.holdup", "this is not a bundle");
    place.write("empty.holdup", "");
    place.write("broken.toml", "name = \"x\"\n[[workload]]\nkind = \"pgbnech\"\n");
    refused(&place, 2, &["run", "missing.toml"], &["missing.toml", "hint:"]);
    refused(&place, 2, &["run", "broken.toml"], &["broken.toml:3:8", "pgbnech", "hint:"]);
    refused(&place, 2, &["run"], &["hint:"]);
    refused(&place, 2, &["run", "pgbench", "--clients", "none", "--dry-run"], &["none", "hint:"]);
    refused(&place, 2, &["run", "pgbench", "--set", "colour=red", "--dry-run"], &["colour", "hint:"]);
    refused(&place, 2, &["run", "pgbench", "--vary", "autogruop=on,off", "--dry-run"], &["autogruop", "autogroup"]);
    refused(&place, 2, &["run", "pgbench", "--target", "moon", "--dry-run"], &["moon", "local"]);
    refused(&place, 2, &["list", "things"], &["things", "workloads"]);
    refused(&place, 2, &["list", "workloads", "tetris"], &["tetris", "pgbench"]);
    for file in ["text.holdup", "empty.holdup", "missing.holdup", "."] {
        for command in ["report", "verify", "export", "compare"] {
            let output = place.output(&[command, file]);
            let (_, err) = common::texts(&output);
            assert!(matches!(output.status.code(), Some(2 | 3)), "{command} {file}: {err}");
            assert!(err.contains(file) && !err.contains("panicked"), "{command} {file}: {err}");
        }
    }
}

fn a_bundle_cut_in_half_is_refused_and_verify_says_what_is_damaged() {
    let place = Sandbox::new();
    place.expect(
        0,
        &[
            "run",
            "lock-contention",
            "--threads",
            "1",
            "--duration",
            "100ms",
            "--warmup",
            "0s",
            "--blocks",
            "3",
            "--out",
            "l.holdup",
            "--quiet",
        ],
    );
    let whole = std::fs::read(place.path("l.holdup")).expect("the bundle");
    std::fs::write(place.path("half.holdup"), &whole[..whole.len() / 2]).expect("written");
    let (_, err) = place.expect(3, &["report", "half.holdup"]);
    assert!(err.contains("half.holdup") && err.contains("hint:"), "{err}");
    let output = place.output(&["verify", "half.holdup"]);
    assert!(matches!(output.status.code(), Some(1 | 3)), "{output:?}");
}

fn a_plan_of_a_hundred_thousand_arms_is_refused_at_once() {
    let place = Sandbox::new();
    let many: Vec<String> = (1..=400).map(|n| n.to_string()).collect();
    let axis = many.join(",");
    refused(
        &place,
        2,
        &["run", "lock-contention", "--threads", &axis, "--sample-every", &axis, "--dry-run"],
        &["arms", "hint:"],
    );
}

fn a_missing_postgresql_is_said_with_what_to_install() {
    let place = Sandbox::new();
    let mut command = place.holdup(&["run", "pgbench", "--pg-bin", "missing/bin", "--out", "a.holdup"]);
    let output = command.output().expect("the binary starts");
    let (_, err) = common::texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("missing/bin") && err.contains("hint:"), "{err}");
    assert!(!place.path("a.holdup").exists());
}

fn a_server_that_refuses_connections_is_said() {
    let place = Sandbox::new();
    let url = "postgres://nobody@localhost:1/none";
    let output = place.output(&["run", "pgbench", "--pg", url, "--out", "a.holdup"]);
    let (_, err) = common::texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("localhost") || err.contains("refused"), "{err}");
}

fn a_reader_that_goes_away_is_no_error() {
    use std::process::Stdio;
    let place = Sandbox::new();
    let mut child = place.holdup(&["list", "workloads", "pgbench"]).stdout(Stdio::piped()).spawn().expect("starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("ends").code(), Some(0));
}

/// A file of many lines.
fn lines(path: &Path, count: u32, line: impl Fn(u32) -> String) {
    let mut file = BufWriter::new(File::create(path).expect("a file"));
    (0..count).try_for_each(|n| file.write_all(line(n).as_bytes())).and_then(|()| file.flush()).expect("is written");
}

/// 14 trials with the largest timeline that a bundle may have: some hundred KB of a file, each some hundred MB in memory.
fn timelines(place: &Sandbox) {
    let run = "run lock-contention --target sim:server-8 --threads 2 --vary preempt=none,full --duration 2ms --warmup 0s --blocks 7 --quiet --out small.holdup";
    place.expect(0, &run.split(' ').collect::<Vec<_>>());
    let mut bundle = holdup_bundle::read(&place.path("small.holdup")).expect("a bundle");
    let task = TimelineTask { tid: 1, pid: 1, name: "postgres".to_owned() };
    let event = |n| TimelineEvent { at_ns: n, cpu: 0, kind: TimelineKind::Wakeup { task: 0, by: None } };
    let timeline = Timeline { tasks: vec![task], events: (0..1_500_000).map(event).collect(), ..Timeline::default() };
    let evidence =
        vec![Collected { collector: "timeline".to_owned(), timeline: Some(timeline), ..Collected::default() }];
    let BundleData { head, plan, plan_source, schedule, metrics, collectors, .. } = &bundle;
    let created = holdup_bundle::Writer::create_copy(
        &place.path("m1.holdup"),
        head,
        plan,
        plan_source,
        schedule,
        metrics,
        collectors,
    );
    let mut writer = created.expect("is begun");
    for trial in &mut bundle.trials {
        trial.evidence.clone_from(&evidence);
        writer.add_trial(trial).expect("is written");
        trial.evidence.clear();
    }
    writer.end(bundle.ending.as_ref(), false).expect("is written");
}

/// Findings M1, M2, M3, L9 and H1 (d) of the attacks: small files, or valid ones, of which readers once took gigabytes or minutes.
fn bombs_take_no_more_than_other_files() {
    need_release();
    let place = Sandbox::new();
    let at = |name: &str| place.path(name);
    timelines(&place);
    let fork = "[[[1,1]]],".repeat(2_000_000);
    place.write("jmh.json", &format!(
        r#"[{{"jmhVersion":"1.37","benchmark":"b","mode":"sample","threads":1,"primaryMetric":{{"scoreUnit":"us/op","rawDataHistogram":[{fork}[[[1,1]]]]}}}}]"#
    ));
    place.write(
        "times.json",
        &format!(r#"{{"results":[{{"command":"a","stddev":1,"times":[{}1]}}]}}"#, "1,".repeat(10_000_000)),
    );
    lines(&at("names.txt"), 2_000_000, |n| format!("BenchmarkX{n}-8 1 100 ns/op\n"));
    lines(&at("numbers.txt"), 3_000_000, |_| "0.128\n".to_owned());
    lines(&at("kernel.csv"), 700_000, |n| format!("6.{n} 30 read-only 1 16 {n}.5\n"));
    lines(&at("lkp.yaml"), 1_000_000, |n| format!("a{n}.throughput: 5\n"));
    let histogram = std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../holdup-import/tests/samples/sysbench/1.0-histogram.txt"),
    );
    place.write_bytes("sysbench.txt", &histogram.expect("a sample").repeat(6_000));
    // A megabyte that is a gigabyte of valid lines.
    let packed = "yes 'BenchmarkX-8 1 100 ns/op' | head -c 1G | gzip -9 >lines.gz";
    assert!(Command::new("sh").args(["-c", packed]).current_dir(at("")).status().is_ok_and(|status| status.success()));
    let when = |n: u32| format!("{}.{:06}", 100 + n / 100_000, n % 100_000 * 10);
    lines(&at("tasks.txt"), 1_000_000, |n| {
        format!(
            "   t{n} {} [000] {}: sched:sched_switch: t{n}:{} [120] S ==> t:{} [120]\n",
            n + 10,
            when(n),
            n + 10,
            n + 11
        )
    });
    lines(&at("woken.txt"), 2_000_000, |n| match n {
        0..10 => format!("   t 11 [000] {}: sched:sched_switch: t:11 [120] S ==> u:12 [120]\n", when(n)),
        _ => {
            format!("   w 5 [001] {}: sched:sched_waking: comm=q{n} pid={} prio=120 target_cpu=000\n", when(n), n + 10)
        }
    });
    place.write_bytes("random.pcap", &connection(1_000_000, true));
    // A bundle of 6 GB that has a few pages, with a journal of its owner beside it, in a folder of others.
    std::fs::copy(at("small.holdup"), at("sparse.holdup"))
        .and_then(|_| File::options().write(true).open(at("sparse.holdup"))?.set_len(6 << 30))
        .expect("a hole");
    place.write_bytes("sparse.holdup-journal", &[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    for name in ["sparse.holdup", "sparse.holdup-journal"] {
        std::fs::set_permissions(at(name), std::os::unix::fs::PermissionsExt::from_mode(0o666)).expect("is ours");
    }
    let commands = "verify m1.holdup; list trials m1.holdup; explain m1.holdup; report m1.holdup; compare m1.holdup; \
        report m1.holdup --html NEW; export m1.holdup -f csv; export m1.holdup -f perfetto -o NEW; store push --store kept m1.holdup; \
        import jmh jmh.json; import hyperfine times.json; import go-bench names.txt; import go-bench lines.gz; \
        import perf-bench numbers.txt; import kernel-bench kernel.csv; import lkp-tests lkp.yaml; import sysbench sysbench.txt; \
        import trace tasks.txt; import trace woken.txt; packets -q random.pcap; packets -q random.pcap --engine rfc; \
        packets -q random.pcap --html NEW; import pcap random.pcap; verify sparse.holdup; report sparse.holdup";
    let mut wrong = String::new();
    for command in commands.split(';').map(str::trim) {
        let mut args: Vec<&str> = command.split(' ').map(|word| if word == "NEW" { "new" } else { word }).collect();
        if args[0] == "import" {
            args.extend(["--out", "new"]);
        }
        let (output, taken) = measured(place.holdup(&args));
        println!("{command}: {}, {} MB, {} s", output.status, taken.bytes >> 20, taken.cpu_s);
        if let Some(broken) = broken(&output, taken, args[0] != "export") {
            writeln!(wrong, "{command}: {broken}").expect("is text");
        }
        let _none = std::fs::remove_file(at("new"));
    }
    assert!(wrong.is_empty(), "{wrong}");
}

holdup_testkit::tests!(
    what_cannot_be_is_refused_with_a_hint,
    a_bundle_cut_in_half_is_refused_and_verify_says_what_is_damaged,
    a_plan_of_a_hundred_thousand_arms_is_refused_at_once,
    a_missing_postgresql_is_said_with_what_to_install,
    a_server_that_refuses_connections_is_said,
    a_reader_that_goes_away_is_no_error;
    long:
    bombs_take_no_more_than_other_files
);
