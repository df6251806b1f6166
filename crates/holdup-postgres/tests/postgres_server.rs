//! The server under test: settings, existing servers, crashes.

use crate::common;
use common::{binaries, cluster, is_alive, names, parameters, pool, prepare, trial, workdir};
use holdup_host::Host;
use holdup_host::postgres::{PostgresControl, SettingContext};
use holdup_load::{Cancel, Prepared};
use holdup_model::ProblemKind;
use holdup_postgres::{Cluster, ClusterOptions, External, RunAs, sweep_stale};
use holdup_testkit::ignore;
use std::io::BufRead;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

fn settings_are_put_in_force_and_put_back() {
    let bin = binaries();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    let shown = |name: &str| cluster.setting(name).unwrap().shown;
    let started = cluster.generation();
    cluster.alter("work_mem", Some("7MB")).unwrap();
    assert_eq!((shown("work_mem").as_str(), cluster.generation()), ("7MB", started), "a reload is enough");
    let setting = cluster.setting("WORK_MEM").unwrap();
    assert_eq!((setting.altered.as_deref(), setting.context), (Some("7MB"), SettingContext::Reload));
    cluster.alter("work_mem", None).unwrap();
    assert_eq!((shown("work_mem").as_str(), cluster.setting("work_mem").unwrap().altered), ("4MB", None));
    cluster.alter("max_connections", Some("77")).unwrap();
    assert_eq!((shown("max_connections").as_str(), cluster.generation()), ("77", started + 1));
    cluster.alter("max_connections", Some("77")).unwrap();
    assert_eq!(cluster.generation(), started + 1, "it is in force already");
    cluster.alter("max_connections", None).unwrap();
    assert_eq!(shown("max_connections"), "100");
    cluster.alter("shared_preload_libraries", Some("pg_prewarm,auto_explain")).unwrap();
    assert_eq!(shown("shared_preload_libraries"), "pg_prewarm, auto_explain");
    // Where a backslash is an escape in plain literals too.
    let _refused_since_19 = cluster.alter("standard_conforming_strings", Some("off"));
    cluster.alter("log_line_prefix", Some(r"a\'; SELECT 1; --")).unwrap();
    assert_eq!(shown("log_line_prefix"), r"a\'; SELECT 1; --");
    cluster.alter("log_line_prefix", None).unwrap();

    let refused = |name: &str, value: &str, says: &str| {
        let problem = cluster.alter(name, Some(value)).unwrap_err();
        assert!(problem.to_string().contains(says), "{problem}");
        cluster.ping().unwrap();
    };
    refused("work_mem", "lots", "invalid value for parameter \"work_mem\": \"lots\"");
    refused("no_such_setting", "1", "the server has no such setting");
    refused("work_mem; DROP DATABASE postgres", "1", "not the name of a setting");
    refused("block_size", "1", "fixed when the server is built");
    refused("listen_addresses", "*", "overridden by the command line");
    // Only when the server starts does it see that there is no such library.
    refused("shared_preload_libraries", "no_such_library", "no_such_library");
    assert_eq!(shown("shared_preload_libraries"), "pg_prewarm, auto_explain");
    cluster.discard().unwrap();
    assert_eq!(names(folder.path()), [""; 0]);
}

fn huge_pages_that_are_not_there_are_refused_and_the_server_works_on() {
    let bin = binaries();
    let memory = Host::real().read_text("/proc/meminfo").unwrap();
    let free = memory.lines().find_map(|line| line.strip_prefix("HugePages_Free:")?.trim().parse::<u64>().ok());
    // The server asks for 128 MB and more.
    if free.is_some_and(|pages| pages >= 64) {
        ignore("this host has free huge pages");
    }
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    let problem = cluster.alter("huge_pages", Some("on")).unwrap_err();
    assert_eq!(problem.kind, ProblemKind::Host);
    assert!(problem.what.contains("`huge_pages` to `on`"), "{problem}");
    assert!(problem.why.contains("could not map anonymous shared memory"), "{problem}");
    let setting = cluster.setting("huge_pages").unwrap();
    assert_eq!((setting.shown.as_str(), setting.altered), ("try", None));
    cluster.discard().unwrap();
}

fn a_cancelled_cluster_leaves_nothing() {
    let bin = binaries();
    let folder = workdir();
    let cancel = Cancel::default();
    cancel.cancel();
    let options = ClusterOptions { bin, workdir: folder.path().to_owned(), max_clients: 8, network: None, cancel };
    assert_eq!(Cluster::create(&Host::real(), &options).unwrap_err().kind, ProblemKind::Interrupted);
    assert_eq!(names(folder.path()), [""; 0]);
}

fn folders_that_cannot_be_used_are_refused() {
    let bin = binaries();
    let host = Host::real();
    let folder = workdir();
    let create = |workdir: std::path::PathBuf| {
        let options =
            ClusterOptions { bin: bin.clone(), workdir, max_clients: 8, network: None, cancel: Cancel::default() };
        Cluster::create(&host, &options).unwrap_err().to_string()
    };
    let long = folder.path().join("x".repeat(90));
    std::fs::create_dir(&long).unwrap();
    let refused = create(long.clone());
    assert!(refused.contains("the kernel allows 107"), "{refused}");
    assert_eq!(names(&long), [""; 0]);
    assert!(create(folder.path().join("nowhere")).contains("nowhere: No such file"));
    match RunAs::for_this_process(&host).unwrap() {
        Some(_) => {
            std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
            let refused = create(folder.path().to_owned());
            assert!(refused.contains("may not enter") && refused.contains("(mode 0700)"), "{refused}");
        }
        None => ignore("only root gives the server another user"),
    }
}

fn external(workdir: &tempfile::TempDir, url: &str, scale: &str) -> Result<Box<dyn Prepared>, holdup_model::Problem> {
    prepare(workdir, &[existing_parameters(scale)], Some(url.to_owned()))
}

fn existing_parameters(scale: &str) -> holdup_model::Parameters {
    parameters(&[("script", "simple-update"), ("scale", scale), ("clients", "2")])
}

fn an_existing_server_is_used_and_left_as_it_was() {
    let bin = binaries();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    let url = cluster.connection_string();
    let tables = "SELECT relname FROM pg_class WHERE relname LIKE 'pgbench%' AND relkind = 'r' ORDER BY 1";
    let rows = |sql: &str| cluster.query(sql).unwrap();

    // None there: made, used, removed.
    let mut prepared = external(&folder, &url, "1").unwrap();
    assert_eq!(rows(tables).len(), 4);
    assert_eq!(prepared.postgres().unwrap().postmaster_pid(), cluster.pid());
    assert!(trial(prepared.as_mut(), &existing_parameters("1"), (50, 200), &mut |_| {}).completed() > 0);
    prepared.set(&pool("warm")).unwrap();
    let refused = prepared.set(&pool("cold")).unwrap_err();
    assert!(refused.to_string().contains("never restarts"), "{refused}");
    prepared.close().unwrap();
    assert_eq!(rows(tables).len(), 0);

    // Left by a killed run: known as ours, and replaced at another scale.
    std::mem::forget(external(&folder, &url, "1").unwrap());
    let prepared = external(&folder, &url, "2").unwrap();
    assert_eq!(rows("SELECT count(*) FROM pgbench_branches")[0][0].as_deref(), Some("2"));
    drop(prepared);
    assert_eq!(rows(tables).len(), 0);

    // The user's own: used at their scale, never removed, never emptied.
    std::mem::forget(external(&folder, &url, "1").unwrap());
    rows("COMMENT ON TABLE pgbench_accounts IS NULL");
    rows("INSERT INTO pgbench_history (tid) VALUES (-1)");
    let mut prepared = external(&folder, &url, "1").unwrap();
    prepared.set(&std::collections::BTreeMap::new()).unwrap();
    prepared.close().unwrap();
    assert_eq!(rows("SELECT count(*) FROM pgbench_history WHERE tid = -1")[0][0].as_deref(), Some("1"));
    let refused = external(&folder, &url, "3").err().unwrap().to_string();
    assert!(refused.contains("scale 1 and fill factor 100") && refused.contains("set scale=1"), "{refused}");
    rows("DROP TABLE pgbench_tellers");
    let refused = external(&folder, &url, "1").err().unwrap().to_string();
    assert!(refused.contains("has only pgbench_accounts, pgbench_branches, pgbench_history"), "{refused}");

    // Settings: what a reload can do, and nothing more.
    let server = External::connect(&Host::real(), &url).unwrap();
    assert!(!server.can_restart());
    server.alter("work_mem", Some("9MB")).unwrap();
    assert_eq!(server.setting("work_mem").unwrap().shown, "9MB");
    server.alter("work_mem", None).unwrap();
    let refused = server.alter("shared_buffers", Some("256MB")).unwrap_err().to_string();
    assert!(refused.contains("needs a restart"), "{refused}");
    assert_eq!(cluster.setting("shared_buffers").unwrap().altered, None);
    cluster.discard().unwrap();
    // Only the folders of logs of the two sessions that were forgotten on purpose.
    for name in common::log_folders() {
        std::fs::remove_dir_all(std::path::Path::new("/dev/shm").join(name)).unwrap();
    }
}

fn a_server_that_is_not_there_is_a_clear_error() {
    binaries();
    let folder = workdir();
    for url in [
        format!("host={} user=u password=geheim dbname=d", folder.path().display()),
        "postgresql://u:geheim@127.0.0.1:1/d".to_owned(),
    ] {
        let refused = external(&folder, &url, "1").err().unwrap();
        assert_eq!(refused.kind, ProblemKind::Host);
        let refused = refused.to_string();
        assert!(refused.contains("error connecting to server") && !refused.contains("geheim"), "{refused}");
    }
}

/// Not a test by itself: the process that the next one kills.
fn holds_a_cluster_until_it_is_killed() {
    let Some(folder) = std::env::var_os("HOLDUP_TEST_HOLD") else { return };
    let bin = binaries();
    let options =
        ClusterOptions { bin, workdir: folder.into(), max_clients: 8, network: None, cancel: Cancel::default() };
    // Made by a thread that ends: the server must not end with it.
    let cluster = std::thread::spawn(move || Cluster::create(&Host::real(), &options).unwrap()).join().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    cluster.ping().unwrap();
    println!("\nholds {} {}", cluster.pid().unwrap(), cluster.folder().display());
    loop {
        std::thread::park();
    }
}

fn a_server_ends_with_holdup_and_the_next_start_removes_its_folder() {
    binaries();
    let folder = workdir();
    let mut holder = std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--include-ignored",
            "--exact",
            "postgres_server::holds_a_cluster_until_it_is_killed",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("HOLDUP_TEST_HOLD", folder.path())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = std::io::BufReader::new(holder.stdout.take().unwrap()).lines();
    let line = lines.map_while(Result::ok).find(|l| l.starts_with("holds ")).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    let (postmaster, left) = (words[1].parse::<u32>().unwrap(), std::path::PathBuf::from(words[2]));
    let host = Host::real();
    assert!(is_alive(postmaster));
    assert!(sweep_stale(&host, folder.path()).is_empty(), "its owner lives");
    holder.kill().unwrap();
    holder.wait().unwrap();
    let begun = Instant::now();
    while is_alive(postmaster) {
        assert!(begun.elapsed() < Duration::from_secs(20), "the server outlived its owner");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(left.join("data/PG_VERSION").exists());
    assert_eq!(sweep_stale(&host, folder.path()), [left]);
    assert_eq!(names(folder.path()), [""; 0]);
}

holdup_testkit::tests!(
    alone:
    settings_are_put_in_force_and_put_back,
    huge_pages_that_are_not_there_are_refused_and_the_server_works_on,
    a_cancelled_cluster_leaves_nothing,
    folders_that_cannot_be_used_are_refused,
    an_existing_server_is_used_and_left_as_it_was,
    a_server_that_is_not_there_is_a_clear_error,
    a_server_ends_with_holdup_and_the_next_start_removes_its_folder;
    by_hand:
    holds_a_cluster_until_it_is_killed
);
