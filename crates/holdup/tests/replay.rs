//! `holdup run --replay`: a trace on a simulated machine, as a user meets it.

use crate::common;
use common::{Sandbox, refused};

/// A sample of `holdup-traces` (its README says where it comes from): recorded on two CPUs.
fn sample(name: &str) -> String {
    format!("{}/../holdup-traces/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn a_trace_is_replayed_and_its_bundle_says_which_one_it_was() {
    let place = Sandbox::new();
    let trace = sample("trace-7.dat");
    let base = ["run", "--replay", &trace, "--target", "sim:server-8", "--blocks", "2"];
    let run = |more: &[&str], out: &str| {
        let args: Vec<&str> = base.iter().chain(more).copied().chain(["--out", out]).collect();
        place.expect(0, &args)
    };
    let (_, said) = run(&["--set", "simulated.cpus=2"], "two.holdup");
    assert!(said.contains("trace trace-7.dat: trace.dat 7, 0.116 s, 80 tasks, 673 switches;"), "{said}");
    assert!(said.contains("waits for a CPU there: 623, mean 2227.9 us"), "{said}");
    assert!(said.contains("it has no system calls (raw_syscalls)"), "{said}");
    run(&["--set", "simulated.cpus=2"], "again.holdup");
    let bytes = |name: &str| std::fs::read(place.path(name)).expect("a bundle");
    assert!(bytes("two.holdup") == bytes("again.holdup"), "the same trace and seed give the same bundle");
    place.expect(0, &["verify", "two.holdup"]);
    let (json, _) = place.expect(0, &["report", "two.holdup", "--json"]);
    for fact in ["replay.file", "trace-7.dat", "replay.sha256", "replay.wait_mean_us", "2227.881"] {
        assert!(json.contains(fact), "`{fact}` is missing in {json}");
    }
    // Two blocks are too few for a verdict.
    let (said, _) = run(&["--vary", "simulated.cpus=4,1"], "varied.holdup");
    assert!(said.contains("run_queue_wait_mean_us"), "{said}");
    let (said, _) = place.expect(3, &["compare", "varied.holdup"]);
    assert!(said.contains("simulated on a machine"), "{said}");
    place.expect(0, &["report", "varied.holdup", "--html", "v.html"]);
}

fn a_plan_replays_as_the_option_does() {
    let place = Sandbox::new();
    let trace = sample("trace-7.dat");
    let saved = ["run", "--replay", &trace, "--target", "sim:server-8", "--blocks", "1", "--save-plan", "p.toml"];
    place.expect(0, &[&saved[..], &["--out", "a.holdup"]].concat());
    let plan = std::fs::read_to_string(place.path("p.toml")).expect("a plan");
    assert!(plan.contains("kind = \"replay\"") && plan.contains("trace = "), "{plan}");
    place.expect(0, &["run", "p.toml", "--out", "b.holdup"]);
    place.expect(
        0,
        &["run", "replay", "--trace", &trace, "--target", "sim:server-8", "--blocks", "1", "--out", "c.holdup"],
    );
}

fn what_cannot_be_replayed_is_refused() {
    let place = Sandbox::new();
    let trace = sample("trace-7.dat");
    let on = ["--target", "sim:server-8"];
    let refuse = |args: &[&str], says: &[&str]| refused(&place, 2, &[&["run"][..], args].concat(), says);
    refuse(&["--replay", &trace], &["workload replay: target local runs real tasks", "--target sim"]);
    refuse(&["--replay", &trace, "pgbench", "--target", "sim"], &["a plan, a workload or a trace"]);
    refuse(&[&["--replay", "absent.dat"][..], &on].concat(), &["absent.dat: there is no such file"]);
    refuse(&[&["--replay", "-"][..], &on].concat(), &["trace -: a trace that is replayed is read more than once"]);
    place.write("no.dat", "neither of them\n");
    refuse(&[&["--replay", "no.dat"][..], &on].concat(), &["no.dat: it is no trace"]);
    let bytes = std::fs::read(&trace).expect("the sample");
    std::fs::write(place.path("cut.dat"), &bytes[..bytes.len() / 2]).expect("a file");
    refuse(&[&["--replay", "cut.dat"][..], &on].concat(), &["cut.dat, byte "]);
    let idle = "          <idle>-0     [000] d..2. 100.000000: sched_waking: comm=a pid=5 prio=120 target_cpu=000\n";
    place.write("idle.txt", idle);
    refuse(&[&["--replay", "idle.txt"][..], &on].concat(), &["there is no switch in it", "sched_switch"]);
    let mixed = ["run", "mixed", "--foreground", "replay", "--set", "replay.trace=x", "--target", "sim:server-8"];
    refused(&place, 3, &mixed, &["member replay on target sim"]);
}

holdup_testkit::tests!(
    a_trace_is_replayed_and_its_bundle_says_which_one_it_was,
    a_plan_replays_as_the_option_does,
    what_cannot_be_replayed_is_refused
);
