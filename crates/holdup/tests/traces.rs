//! `holdup import trace`: a bundle that the other commands read as a record.

use crate::common;
use common::{Sandbox, refused};

/// A sample of `holdup-traces` (its README says where it comes from).
fn sample(name: &str) -> String {
    format!("{}/../holdup-traces/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn traces_become_a_record_that_is_explained_compared_and_exported() {
    let place = Sandbox::new();
    let (script, perf, ring) = (sample("script.txt.zst"), sample("perf.data.zst"), sample("trace-7.dat"));
    let (_, said) = place.expect(0, &["import", "trace", &perf, "--out", "a.holdup"]);
    assert!(said.contains("(1 trace, ") && said.contains("a wait begins at sched_waking"), "{said}");
    let (said, _) = place.expect(1, &["explain", "a.holdup"]);
    assert!(said.starts_with("CPU-bound: the watched tasks spend "), "{said}");
    assert!(said.contains("What tracing cost is not known.") && said.lines().count() <= 24, "{said}");
    let (said, _) = place.expect(1, &["explain", "a.holdup", "--details"]);
    for undecided in
        ["Lock-holder preemption cannot be judged", "CPU steal cannot be judged", "Mutexes cannot be judged"]
    {
        assert!(said.contains(undecided), "{said}");
    }
    // The text of the same recording is in the same states.
    place.expect(0, &["import", "trace", &format!("file={perf}"), &format!("text={script}"), "--out", "b.holdup"]);
    let (said, _) = place.expect(3, &["compare", "b.holdup", "--details"]);
    assert!(said.contains("where time goes is the same as in file"), "{said}");
    place.expect(0, &["import", "trace", &ring, "--comm", "sched-messaging", "--out", "c.holdup"]);
    let (said, _) = place.expect(0, &["report", "c.holdup"]);
    assert!(said.contains("What holds up tasks named sched-messaging in trace-7.dat?"), "{said}");
    place.expect(0, &["export", "c.holdup", "--format", "perfetto", "--out", "c.json"]);
    place.expect(0, &["report", "c.holdup", "--html", "c.html"]);
    place.expect(0, &["verify", "c.holdup"]);
}

fn what_is_no_trace_is_refused() {
    let place = Sandbox::new();
    place.write("no.data", "neither of them\n");
    refused(&place, 2, &["import", "trace", "no.data"], &["no.data: it is no trace", "perf.data, trace.dat"]);
    refused(&place, 2, &["import", "trace", "absent"], &["absent: there is no such file"]);
    let perf = std::fs::read(sample("trace-7.dat")).unwrap();
    std::fs::write(place.path("cut.dat"), &perf[..perf.len() / 2]).unwrap();
    refused(&place, 2, &["import", "trace", "cut.dat"], &["cut.dat, byte ", "it ends inside"]);
}

holdup_testkit::tests!(traces_become_a_record_that_is_explained_compared_and_exported, what_is_no_trace_is_refused);
