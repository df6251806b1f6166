//! Profiles of uperf, run by holdup.

use crate::common::{absent, holds, metric, need_root, run};
use holdup_load::TrialResult;
use holdup_model::{Problem, Value};
use std::path::{Path, PathBuf};

fn shipped() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plans/uperf");
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("is there").map(|e| e.expect("reads").path()).collect();
    found.retain(|path| path.extension().is_some_and(|ext| ext == "xml"));
    found.sort();
    found
}

fn run_file(path: &Path, changes: &[(&str, Value)]) -> Result<TrialResult, Problem> {
    let mut all = vec![("profile", Value::from(path.display().to_string().as_str()))];
    all.extend_from_slice(changes);
    run(&all, 200)
}

fn run_text(text: &str, changes: &[(&str, Value)]) -> Result<TrialResult, Problem> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("profile.xml");
    let text = text.replace("DIR", &folder.path().join("files").display().to_string());
    std::fs::write(&path, text).expect("writes");
    std::fs::create_dir(folder.path().join("files")).expect("makes");
    std::fs::write(folder.path().join("files/a"), vec![b'a'; 100_000]).expect("writes");
    std::fs::write(folder.path().join("files/b"), vec![b'b'; 3]).expect("writes");
    run_file(&path, changes)
}

fn good(text: &str, changes: &[(&str, Value)]) -> TrialResult {
    let result = run_text(text, changes).unwrap_or_else(|e| panic!("{text}: {}: {}", e.what, e.why));
    holds(&result, text);
    result
}

/// Sets what the shipped profiles take from the environment and is no parameter.
fn with_iterations() {
    // SAFETY: all tests of this file set it to the same, and nothing else reads it.
    unsafe { std::env::set_var("iterations", "200") };
}

pub(crate) fn all_shipped_profiles_run() {
    with_iterations();
    let profiles = shipped();
    assert!(profiles.len() >= 4);
    for path in profiles {
        let result = run_file(&path, &[("connections", 3.into())])
            .unwrap_or_else(|e| panic!("{}: {}: {}", path.display(), e.what, e.why));
        assert!(result.notes.iter().any(|note| note.starts_with("transaction 1 (line ")), "{:?}", result.notes);
        assert_eq!(metric(&result, "bytes_sent"), metric(&result, "bytes_received"), "{}", path.display());
        if path.ends_with("connect-disconnect.xml") {
            assert!(absent(&result, "throughput_gbit_per_s").contains("no transaction"));
        } else {
            assert!(metric(&result, "throughput_gbit_per_s") > 0.0, "{}: {:?}", path.display(), result.notes);
            assert!(metric(&result, "client_cpu_s_per_gb") > 0.0);
            assert_eq!(metric(&result, "connections_held"), 3.0);
        }
        if path.ends_with("request-response.xml") {
            // 3 strands of 200 turns, each with a transfer of 64 bytes in both directions.
            assert_eq!(metric(&result, "bytes_received"), 3.0 * 200.0 * 128.0);
            assert_eq!(result.histograms[0].histogram.count(), 3 * 200 * 2);
            assert!(result.notes.iter().any(|note| note.contains(": 600 turns in ")), "{:?}", result.notes);
        }
    }
}

pub(crate) fn shipped_profiles_run_through_a_network() {
    with_iterations();
    need_root();
    for path in shipped() {
        let changes: [(&str, Value); 2] = [("connections", 2.into()), ("network", "veth".into())];
        run_file(&path, &changes).unwrap_or_else(|e| panic!("{}: {}: {}", path.display(), e.what, e.why));
    }
}

fn group(head: &str, connect: &str, data: &str) -> String {
    format!(
        r#"<profile name="p"><group {head}>
            <transaction iterations="1">{connect}</transaction>
            <transaction {data}</transaction>
            <transaction iterations="1"><flowop type="disconnect"/></transaction>
        </group></profile>"#
    )
}

const CONNECT: &str = r#"<flowop type="connect" options="remotehost=$h protocol=tcp wndsz=50k tcp_nodelay"/>"#;

pub(crate) fn every_flowop_moves_what_it_says() {
    let bytes = |result: &TrialResult| metric(result, "bytes_received");
    let tcp = |data: &str| good(&group(r#"nthreads="2""#, CONNECT, data), &[]);
    assert_eq!(bytes(&tcp(r#"iterations="10"><flowop type="write" options="size=1000 count=3"/>"#)), 60_000.0);
    assert_eq!(bytes(&tcp(r#"iterations="10"><flowop type="read" options="size=1m"/>"#)), 20.0 * 1_048_576.0);
    assert_eq!(
        bytes(&tcp(r#"iterations="5"><flowop type="send" options="size=10"/><flowop type="recv" options="size=20"/>"#)),
        300.0
    );
    assert_eq!(
        bytes(&tcp(
            r#"iterations="5"><flowop type="sendmsg" options="size=10"/><flowop type="recvmsg" options="size=20"/>"#
        )),
        300.0
    );
    assert_eq!(
        bytes(&tcp(
            r#"iterations="5"><flowop type="think" options="duration=1ms"/><flowop type="think" options="duration=1ms busy"/><flowop type="nop"/><flowop type="sendto" options="size=7"/>"#
        )),
        70.0
    );
    let drawn = bytes(&tcp(r#"iterations="50"><flowop type="write" options="size=rand(1,100)"/>"#));
    assert!((100.0..=10_000.0).contains(&drawn), "{drawn}");
    let processes =
        good(&group(r#"nprocs="2""#, CONNECT, r#"iterations="10"><flowop type="write" options="size=1000"/>"#), &[]);
    assert_eq!(bytes(&processes), 20_000.0);
}

pub(crate) fn files_are_sent_whole_and_in_pieces() {
    for flowop in [r#"type="sendfile" options="dir=DIR""#, r#"type="sendfilev" options="dir=DIR nfiles=3 size=1k""#] {
        // The server asks for more than comes, until the time is over.
        let text = group(r#"nthreads="1""#, CONNECT, &format!(r#"duration="200ms"><flowop {flowop}/>"#));
        good(&text, &[]);
    }
}

pub(crate) fn either_end_calls_and_every_protocol_speaks() {
    let accept = r#"<flowop type="accept" options="remotehost=$h protocol=tcp"/>"#;
    let data = r#"duration="100ms"><flowop type="write" options="size=8k"/><flowop type="read" options="size=8k"/>"#;
    good(&group(r#"nthreads="2""#, accept, data), &[]);
    for protocol in ["unix", "udp"] {
        let connect = CONNECT.replace("tcp wndsz=50k tcp_nodelay", protocol);
        let data =
            r#"iterations="100"><flowop type="write" options="size=100"/><flowop type="read" options="size=100"/>"#;
        let result = good(&group(r#"nthreads="2""#, &connect, data), &[]);
        assert_eq!(metric(&result, "bytes_received"), 2.0 * 100.0 * 200.0);
        let flood = r#"duration="100ms"><flowop type="write" options="size=1k"/>"#;
        good(&group(r#"nthreads="2""#, &connect, flood), &[]);
    }
}

pub(crate) fn connections_that_are_opened_over_and_over_lose_nothing() {
    let text = r#"<profile name="p"><group nthreads="2"><transaction duration="300ms">
        <flowop type="connect" options="remotehost=$h protocol=tcp"/>
        <flowop type="write" options="size=5k"/><flowop type="read" options="size=3k"/>
        <flowop type="disconnect"/></transaction></group></profile>"#;
    let result = good(text, &[]);
    assert!(metric(&result, "throughput_gbit_per_s") > 0.0);
}

pub(crate) fn a_rate_is_a_rate_of_turns() {
    let data = r#"duration="1s" rate="100"><flowop type="write" options="size=100"/>"#;
    let result = good(&group(r#"nthreads="2""#, CONNECT, data), &[]);
    // Half of the turns in one go each half second: two goes begin in one second.
    assert_eq!(metric(&result, "bytes_received"), 2.0 * 100.0 * 100.0);
}

pub(crate) fn what_may_fail_is_counted_and_what_may_not_makes_the_pass_void() {
    let refused = |flags: &str| {
        format!(
            r#"<profile name="p"><group nthreads="1"><transaction iterations="3">
            <flowop type="write" options="size=10 conn=1 {flags}"/></transaction></group></profile>"#
        )
    };
    match run_text(&refused("canfail"), &[]) {
        Ok(result) => {
            assert!(result.notes.iter().any(|note| note.contains("steps failed that may")), "{:?}", result.notes);
        }
        // A reader of profiles may see that there is no connection.
        Err(problem) => assert!(problem.why.contains("conn"), "{}: {}", problem.what, problem.why),
    }
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("binds");
    let port = taken.local_addr().expect("is bound").port();
    let connect = format!(r#"<flowop type="connect" options="remotehost=$h protocol=tcp port={port}"/>"#);
    let text = group(r#"nthreads="1""#, &connect, r#"iterations="1"><flowop type="write" options="size=1"/>"#);
    let problem = run_text(&text, &[]).expect_err("the port is taken");
    assert_eq!(problem.what, format!("port {port} of tcp"));
    assert!(problem.why.contains("in use"), "{}", problem.why);
}

pub(crate) fn what_cannot_be_read_is_said_before_anything_runs() {
    let problem = run_file(Path::new("/nowhere/at/all.xml"), &[]).expect_err("there is none");
    assert_eq!(problem.what, "profile /nowhere/at/all.xml");
    let text = group(r#"nthreads="$unset_variable""#, CONNECT, r#"iterations="1"><flowop type="nop"/>"#);
    let problem = run_text(&text, &[]).expect_err("a variable is missing");
    let all = format!("{} {} {:?}", problem.what, problem.why, problem.hint);
    assert!(all.contains("unset_variable"), "{all}");
}
