//! `holdup check` and a profile on a real PostgreSQL, through the command line.

use crate::common;
use common::{Sandbox, texts, wait_for};
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_load::Cancel;
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::{Binaries, Cluster, ClusterOptions};
use holdup_testkit::ignore;
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

/// A private cluster on a Unix socket; says at run time where there are no programs for one.
fn cluster(workdir: &tempfile::TempDir) -> Cluster {
    let found = Binaries::find(&SearchPath::of_this_host(None), Need::Server);
    let bin = found.unwrap_or_else(|problem| ignore(problem));
    holdup_testkit::needs_a_user_for_postgres();
    let options = ClusterOptions {
        bin,
        workdir: workdir.path().to_owned(),
        max_clients: 8,
        network: None,
        cancel: Cancel::default(),
    };
    Cluster::create(&Host::real(), &options).unwrap()
}

fn workdir() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("hl-").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    folder
}

/// The server of this process id in what `holdup check` found.
fn server(document: &Value, pid: u32) -> Value {
    let all = document["survey"]["servers"]["value"].as_array().unwrap();
    all.iter().find(|s| s["pid"]["value"] == pid).unwrap_or_else(|| panic!("no server {pid}: {document:#}")).clone()
}

fn a_running_server_is_found_and_judged_by_its_process_its_folder_and_a_connection() {
    let workdir = workdir();
    let cluster = cluster(&workdir);
    let place = Sandbox::new();
    let pid = cluster.pid().unwrap();
    let data = cluster.data().display().to_string();
    let url = cluster.connection_string();
    for named in [&pid.to_string(), &data, &url] {
        let output = place.output(&["check", "--json", "--pg", named]);
        let (out, err) = texts(&output);
        let document: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{named}: {e}: {out}{err}"));
        let server = server(&document, pid);
        assert_eq!(server["huge_pages_in_effect"]["value"], false, "{named}: {server:#}");
        assert!(server["page_tables_bytes"]["value"].as_u64().unwrap() > 0, "{named}: {server:#}");
        let judged = document["findings"].as_array().unwrap().iter().filter(|f| !f["server"].is_null()).count();
        assert!(judged >= 3, "{named}: every case of servers is judged: {document:#}");
    }
    // Settings that only a connection shows are there with one; without, the output says that they are missing.
    let of = |args: &[&str]| serde_json::from_str::<Value>(&texts(&place.output(args)).0).unwrap();
    let with = server(&of(&["check", "--json", "--pg", &url]), pid);
    let without = server(&of(&["check", "--json"]), pid);
    assert!(with["version"]["value"].is_string() && without["version"]["value"].is_null(), "{with:#} {without:#}");
    assert!(without["version"]["remedy"].as_str().unwrap().contains("--pg"), "{without:#}");
    let bad = texts(&place.output(&["check", "--pg", "host=/nowhere port=1"]));
    assert!(bad.1.contains("hint: "), "{bad:?}");
    cluster.discard().unwrap();
}

fn a_running_server_is_watched_by_its_process_and_by_a_connection() {
    let workdir = workdir();
    let cluster = cluster(&workdir);
    let place = Sandbox::new();
    let pid = cluster.pid().unwrap().to_string();
    let url = cluster.connection_string();
    let watch = |named: &str, out: &str| {
        let args = ["record", "--pg", named, "-d", "1s", "--json", "--out", out];
        let (output, err) = place.expect(0, &args);
        assert!(err.contains(&format!("postmaster {pid}")), "{err}");
        serde_json::from_str::<Value>(&output).unwrap()
    };
    let metrics = |bundle: &str| {
        let (trials, _) = place.expect(0, &["list", "trials", bundle, "--json"]);
        let trials: Value = serde_json::from_str(&trials).unwrap();
        trials["members"][0]["measurements"].to_string()
    };
    let output = watch(&url, "url.holdup");
    assert_eq!(output["schema"], "holdup.explain/1");
    assert!(metrics("url.holdup").contains("tps"), "{}", metrics("url.holdup"));
    watch(&pid, "pid.holdup");
    assert!(!metrics("pid.holdup").contains("tps"), "without a connection nothing counts transactions");
    cluster.discard().unwrap();
}

fn a_profile_sets_a_setting_of_a_server_and_restore_takes_it_back() {
    let workdir = workdir();
    let cluster = cluster(&workdir);
    let place = Sandbox::new();
    let url = cluster.connection_string();
    place.write("p.toml", "[knobs.postgres]\nwork_mem = \"64MB\"\n");
    place.write("bad.toml", "[knobs.postgres]\nwork_mem = \"a lot\"\n");
    let shown = || cluster.setting("work_mem").unwrap();
    let before = shown();
    // Another test of this machine may hold the host's lock for a moment.
    let expect = |code: i32, args: &[&str]| {
        wait_for("the lock of the host", || {
            let output = place.output(args);
            let is_busy = texts(&output).1.contains("another holdup run is under way");
            assert!(is_busy || output.status.code() == Some(code), "{args:?}: {:?}", texts(&output));
            !is_busy
        });
    };
    expect(3, &["apply", "p.toml"]);
    expect(3, &["apply", "bad.toml", "--pg", &url]);
    assert_eq!(shown(), before, "nothing is left of what the server refused");
    expect(0, &["apply", "p.toml", "--pg", &url]);
    assert_eq!((shown().shown.as_str(), shown().altered.as_deref()), ("64MB", Some("64MB")));
    expect(0, &["verify", "--pg", &url]);
    expect(0, &["restore", "--pg", &url]);
    assert_eq!(shown(), before);
    cluster.discard().unwrap();
}

holdup_testkit::tests!(
    alone:
    a_running_server_is_found_and_judged_by_its_process_its_folder_and_a_connection,
    a_running_server_is_watched_by_its_process_and_by_a_connection,
    a_profile_sets_a_setting_of_a_server_and_restore_takes_it_back
);
