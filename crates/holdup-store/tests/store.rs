//! Both kinds of store, on real files and a real server: the same answers, and what they do when something breaks.

use crate::common;
use common::{DAY, bundles, cluster, create, incoming, place, run, unfinished, write};
use holdup_host::postgres::PostgresControl;
use holdup_model::kept::KeptFilter;
use holdup_postgres::Cluster;
use holdup_store::{Incoming, Place, Pushed, Store, open};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn folder(path: &Path) -> Box<dyn Store> {
    open(&Place::Folder(path.join("store"))).unwrap()
}

fn server(cluster: &Cluster, database: &str, user: &str) -> Box<dyn Store> {
    open(&place(cluster, database, user)).unwrap()
}

/// The text of an error.
fn refused<T>(result: Result<T, holdup_model::Problem>) -> String {
    result.err().expect("refused").to_string()
}

fn ids(store: &mut dyn Store, filter: &KeptFilter) -> Vec<String> {
    store.list(filter).unwrap().into_iter().map(|run| run.run_id).collect()
}

fn the_folder_and_the_server_give_the_same_answers() {
    let (work, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = cluster(work.path());
    let all = incoming(&bundles(made.path()));
    let (mut a, mut b) = (folder(made.path()), server(&cluster, "postgres", "holdup"));
    b.init().unwrap();
    for store in [&mut a, &mut b] {
        // In another order than that of their dates.
        for bundle in all.iter().rev() {
            assert_eq!(store.push(bundle).unwrap(), Pushed::New);
        }
        for bundle in &all {
            assert_eq!(store.push(bundle).unwrap(), Pushed::There);
            assert!(store.pull(&bundle.kept.run.run_id).unwrap() == bundle.bytes, "all bytes come back");
        }
        let (half, whole) = unfinished(&tempfile::tempdir_in(made.path()).unwrap().keep());
        assert_eq!(store.push(&half).unwrap(), Pushed::New);
        assert_eq!(store.push(&whole).unwrap(), Pushed::Replaced);
        assert_eq!(store.push(&half).unwrap(), Pushed::There, "fewer trials take no place");
        assert!(store.pull(&whole.kept.run.run_id).unwrap() == whole.bytes);
    }
    let first = all[0].kept.run.created_unix_ns;
    let filters = [
        KeptFilter::default(),
        KeptFilter { host: Some("db2".into()), ..KeptFilter::default() },
        KeptFilter { plan: Some("sample".into()), last: Some(5), ..KeptFilter::default() },
        KeptFilter { plan: Some("none".into()), ..KeptFilter::default() },
        KeptFilter { run: Some("0000000a".into()), ..KeptFilter::default() },
        KeptFilter {
            since_unix_ns: Some(first + 3 * DAY),
            before_unix_ns: Some(first + 9 * DAY),
            ..KeptFilter::default()
        },
    ];
    for filter in &filters {
        let runs = a.list(filter).unwrap();
        assert_eq!(runs, b.list(filter).unwrap(), "{filter:?}");
        for metric in [None, Some("throughput_tps"), Some("latency_p99_us")] {
            assert_eq!(a.series(filter, metric).unwrap(), b.series(filter, metric).unwrap(), "{filter:?} {metric:?}");
        }
        let ids: Vec<String> = runs.into_iter().map(|run| run.run_id).collect();
        assert_eq!(a.facts(&ids).unwrap(), b.facts(&ids).unwrap());
    }
    let [of_a, of_b] = [&mut a, &mut b]
        .map(|store| holdup_history::history(&store.series(&filters[0], None).unwrap(), Default::default()));
    assert_eq!(of_a, of_b);
    assert_eq!(of_a.series.iter().map(|s| s.changes.len()).sum::<usize>(), 1, "{:?}", of_a.findings);
    let missing = refused(a.pull("none"));
    assert_eq!(missing, refused(b.pull("none")));
    let before = first + 4 * DAY;
    let (old_a, old_b) = (a.prune(before, true).unwrap(), b.prune(before, true).unwrap());
    assert_eq!((old_a.len(), a.list(&filters[0]).unwrap().len()), (7, 20), "a dry run removes nothing");
    assert_eq!(old_a, old_b);
    assert_eq!(a.prune(before, false).unwrap(), b.prune(before, false).unwrap());
    assert_eq!((ids(a.as_mut(), &filters[0]).len(), ids(b.as_mut(), &filters[0]).len()), (13, 13));
    let left = "SELECT (SELECT count(*) FROM holdup.trial) / 7, (SELECT count(*) FROM holdup.bundle_part)";
    assert_eq!(cluster.query(left).unwrap()[0], [Some("13".to_owned()), Some("13".to_owned())]);
    cluster.discard().unwrap();
}

fn a_crashed_bundle_of_another_user_is_not_kept_half_written() {
    use std::os::unix::fs::chown;
    let made = tempfile::tempdir().unwrap();
    let path = write(made.path(), &run(0, "db1", 1_000.0));
    if !holdup_testkit::is_root() {
        holdup_testkit::ignore("only root can give files away");
    }
    chown(&path, Some(1_000), None).unwrap();
    let journal = made.path().join(format!("{}-journal", path.file_name().unwrap().display()));
    std::fs::write(&journal, [1; 512]).unwrap();
    chown(&journal, Some(1_000), None).unwrap();
    let half = refused(Incoming::read(&path, None));
    assert!(half.contains("half written") && half.contains("hint:"), "{half}");
    // An entry of a stranger is none.
    chown(&journal, Some(1_001), None).unwrap();
    Incoming::read(&path, None).unwrap();
}

fn fifty_pushes_at_the_same_time_keep_each_run_exactly_one_time() {
    let (work, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = cluster(work.path());
    let all = incoming(&bundles(made.path()));
    server(&cluster, "postgres", "holdup").init().unwrap();
    let places = [place(&cluster, "postgres", "holdup"), Place::Folder(made.path().join("store"))];
    for place in &places {
        let new: usize = std::thread::scope(|scope| {
            let pushers: Vec<_> = (0..50)
                .map(|i| {
                    let all = &all;
                    scope.spawn(move || {
                        let mut store = open(place).unwrap();
                        let order = (0..all.len()).map(|n| &all[(n * 7 + i) % all.len()]);
                        order.filter(|bundle| store.push(bundle).unwrap() == Pushed::New).count()
                    })
                })
                .collect();
            pushers.into_iter().map(|pusher| pusher.join().unwrap()).sum()
        });
        assert_eq!(new, all.len(), "{place:?}");
        let mut store = open(place).unwrap();
        assert_eq!(store.list(&KeptFilter::default()).unwrap().len(), all.len());
        all.iter().for_each(|bundle| assert!(store.pull(&bundle.kept.run.run_id).unwrap() == bundle.bytes));
    }
    let counts = cluster.query("SELECT count(*), (SELECT count(*) FROM holdup.trial) FROM holdup.run").unwrap();
    let trials: usize = all.iter().map(|b| b.trials.len()).sum();
    assert_eq!(counts[0], [Some(all.len().to_string()), Some(trials.to_string())]);
    cluster.discard().unwrap();
}

/// Pushes a folder of bundles into the store that the environment names: in another process, which is killed.
fn a_push_to_be_killed() {
    let named = std::env::var("HOLDUP_TEST_STORE").unwrap();
    let place = if named.starts_with('/') { Place::Folder(named.into()) } else { Place::of(&named).unwrap() };
    let mut store = open(&place).unwrap();
    for entry in std::fs::read_dir(std::env::var("HOLDUP_TEST_BUNDLES").unwrap()).unwrap() {
        store.push(&Incoming::read(&entry.unwrap().path(), None).unwrap()).unwrap();
    }
}

fn a_push_that_is_killed_leaves_nothing_half() {
    let (work, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = cluster(work.path());
    let paths: Vec<_> = (0..60).map(|day| write(made.path(), &run(day, "db1", 1_000.0))).collect();
    let all = incoming(&paths);
    server(&cluster, "postgres", "holdup").init().unwrap();
    let at = tempfile::tempdir().unwrap();
    let text = format!("{} sslmode=disable port=5432", cluster.connection_string_for("postgres"));
    let stores = [text.clone(), at.path().join("store").display().to_string()];
    for named in &stores {
        let place = if named.starts_with('/') { Place::Folder(named.into()) } else { Place::of(named).unwrap() };
        let mut seen = BTreeSet::new();
        for wait_ms in [30, 60, 90, 120, 180, 250] {
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--ignored", "--exact", "store::a_push_to_be_killed"])
                .env("HOLDUP_TEST_STORE", named)
                .env("HOLDUP_TEST_BUNDLES", made.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(wait_ms));
            // SIGKILL.
            child.kill().unwrap();
            child.wait().unwrap();
            let mut store = open(&place).unwrap();
            let kept = store.list(&KeptFilter::default()).unwrap();
            seen.insert(kept.len());
            for run in kept {
                let bundle = all.iter().find(|b| b.kept.run.run_id == run.run_id).unwrap();
                assert_eq!(run, bundle.kept.run);
                assert!(store.pull(&run.run_id).unwrap() == bundle.bytes);
            }
        }
        let mut store = open(&place).unwrap();
        for bundle in &all {
            store.push(bundle).unwrap();
        }
        assert_eq!(store.list(&KeptFilter::default()).unwrap().len(), all.len(), "after kills at {seen:?} runs");
    }
    let names = std::fs::read_dir(at.path().join("store")).unwrap().map(|entry| entry.unwrap().file_name());
    let mut hidden: Vec<_> = names.filter(|name| name.as_encoded_bytes().starts_with(b".")).collect();
    hidden.sort();
    assert_eq!(hidden, [".index", ".lock"], "what was half written is gone");
    let halves = "SELECT count(*) FROM holdup.run r WHERE trials_done + trials_void <> \
                  (SELECT count(*) FROM holdup.trial t WHERE t.run = r.run)";
    assert_eq!(cluster.query(halves).unwrap()[0], [Some("0".to_owned())]);
    cluster.discard().unwrap();
}

fn a_session_that_the_server_ended_is_opened_again() {
    let (work, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = cluster(work.path());
    server(&cluster, "postgres", "holdup").init().unwrap();
    let mut pusher = server(&cluster, "postgres", "holdup");
    let end_others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                      WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    for day in 0..3 {
        cluster.query(end_others).unwrap();
        let bundle = Incoming::read(&write(made.path(), &run(day, "db1", 1_000.0)), None).unwrap();
        pusher.push(&bundle).unwrap();
    }
    assert_eq!(pusher.list(&KeptFilter::default()).unwrap().len(), 3);
    cluster.discard().unwrap();
}

fn a_server_that_restarts_during_pushes_loses_nothing() {
    let (work, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = cluster(work.path());
    let all: Vec<Incoming> =
        (0..120).map(|day| Incoming::read(&write(made.path(), &run(day, "db1", 1_000.0)), None).unwrap()).collect();
    let mut store = server(&cluster, "postgres", "holdup");
    store.init().unwrap();
    std::thread::scope(|scope| {
        let pusher = scope.spawn(|| {
            let mut store = server(&cluster, "postgres", "holdup");
            for bundle in &all {
                store.push(bundle).unwrap();
            }
        });
        for _ in 0..3 {
            std::thread::sleep(Duration::from_millis(150));
            cluster.restart().unwrap();
        }
        pusher.join().unwrap();
    });
    let mut store = server(&cluster, "postgres", "holdup");
    assert_eq!(store.list(&KeptFilter::default()).unwrap().len(), all.len());
    all.iter().for_each(|bundle| assert!(store.pull(&bundle.kept.run.run_id).unwrap() == bundle.bytes));
    cluster.discard().unwrap();
}

fn an_older_schema_is_brought_up_to_date_and_a_newer_one_is_refused() {
    let (work, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = cluster(work.path());
    let all = incoming(&bundles(made.path()));
    let none = refused(server(&cluster, "postgres", "holdup").push(&all[0]));
    assert!(none.contains("has no store") && none.contains("hint: holdup store init"), "{none}");
    server(&cluster, "postgres", "holdup").init().unwrap();
    server(&cluster, "postgres", "holdup").push(&all[0]).unwrap();
    cluster.query("CREATE ROLE writer LOGIN IN ROLE holdup_writer").unwrap();
    let older = "DROP VIEW holdup.runs, holdup.arms, holdup.trials, holdup.series, holdup.facts; \
                 DELETE FROM holdup.schema_version WHERE version = 2";
    cluster.query(older).unwrap();
    let by_writer = refused(server(&cluster, "postgres", "writer").push(&all[1]));
    assert!(by_writer.contains("version 1") && by_writer.contains("holdup store init"), "{by_writer}");
    let by_reader = refused(server(&cluster, "postgres", "holdup").list(&KeptFilter::default()));
    assert!(by_reader.contains("version 1"), "{by_reader}");
    let mut owner = server(&cluster, "postgres", "holdup");
    assert_eq!(owner.push(&all[1]).unwrap(), Pushed::New, "the owner's push brings it up to date");
    assert_eq!(owner.list(&KeptFilter::default()).unwrap().len(), 2, "what was kept stays");
    cluster.query(older).unwrap();
    let said = server(&cluster, "postgres", "holdup").init().unwrap();
    assert!(said[0].contains("from schema version 1 to 2"), "{said:?}");
    let again = server(&cluster, "postgres", "holdup").init().unwrap();
    assert!(again[0].contains("is up to date"), "{again:?}");
    cluster.query("INSERT INTO holdup.schema_version VALUES (99, now(), '9.9')").unwrap();
    let mut store = server(&cluster, "postgres", "holdup");
    for newer in [refused(store.push(&all[2])), refused(store.init()), refused(store.list(&KeptFilter::default()))] {
        assert!(newer.contains("version 99") && newer.contains("newer holdup"), "{newer}");
    }
    cluster.discard().unwrap();
}

fn roles_may_what_they_are_for_and_a_store_without_rights_says_what_is_missing() {
    let (work, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = cluster(work.path());
    let all = incoming(&bundles(made.path()));
    cluster.query("CREATE ROLE plain LOGIN; CREATE DATABASE results OWNER plain").unwrap_or_else(|_| {
        cluster.query("CREATE ROLE plain LOGIN").unwrap();
        cluster.query("CREATE DATABASE results OWNER plain").unwrap()
    });
    // The owner of a database who may not create roles.
    let said = server(&cluster, "results", "plain").init().unwrap();
    assert!(said[1].contains("CREATE ROLE holdup_writer") && said[1].contains("GRANT INSERT"), "{said:?}");
    assert_eq!(server(&cluster, "results", "plain").push(&all[0]).unwrap(), Pushed::New);
    server(&cluster, "results", "holdup").init().unwrap();
    cluster.query("CREATE ROLE writer LOGIN IN ROLE holdup_writer").unwrap();
    cluster.query("CREATE ROLE reader LOGIN IN ROLE holdup_reader").unwrap();
    cluster.query("CREATE ROLE stranger LOGIN").unwrap();
    let mut writer = server(&cluster, "results", "writer");
    assert_eq!(writer.push(&all[1]).unwrap(), Pushed::New);
    assert_eq!(writer.prune(all[1].kept.run.created_unix_ns, false).unwrap().len(), 1);
    let mut reader = server(&cluster, "results", "reader");
    assert_eq!(reader.list(&KeptFilter::default()).unwrap().len(), 1);
    assert!(reader.pull(&all[1].kept.run.run_id).unwrap() == all[1].bytes);
    let no = refused(reader.push(&all[2]));
    assert!(no.contains("permission denied") && no.contains("GRANT holdup_writer TO \"reader\""), "{no}");
    let no = refused(reader.prune(i64::MAX, false));
    assert!(no.contains("permission denied"), "{no}");
    let no = refused(server(&cluster, "results", "stranger").list(&KeptFilter::default()));
    assert!(no.contains("permission denied") || no.contains("that this user can see"), "{no}");
    let no = refused(server(&cluster, "postgres", "stranger").init());
    assert!(no.contains("permission denied") && no.contains("GRANT CREATE ON DATABASE"), "{no}");
    let no = refused(open(&place(&cluster, "nowhere", "holdup")).map(drop));
    assert!(no.contains("does not exist") && no.contains("CREATE DATABASE"), "{no}");
    cluster.discard().unwrap();
}

/// In another namespace of mounts, where a small file system is mounted.
fn the_queries_of_the_documentation_give_what_they_say() {
    let (work, made) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let cluster = cluster(work.path());
    let mut store = server(&cluster, "postgres", "holdup");
    store.init().unwrap();
    let all = incoming(&bundles(made.path()));
    for bundle in &all {
        assert_eq!(store.push(bundle).unwrap(), Pushed::New);
    }
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/store.md")).unwrap();
    let blocks = page.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next());
    let answers = blocks.filter(|block| block.contains("holdup.")).map(|block| {
        // Grafana writes its macro of a time range as this.
        let sql = block.trim_end().trim_end_matches(';').replace("'demo'", "'sample'");
        let sql = sql.replace("$__timeFilter(time)", "time BETWEEN '2000-01-01T00:00:00Z' AND '2100-01-01T00:00:00Z'");
        let columns =
            cluster.query(&format!("SELECT to_json(q)::text FROM ({}) q", sql.replace("'tps'", "'throughput_tps'")));
        columns.unwrap().into_iter().map(|row| row[0].clone().unwrap()).collect::<Vec<_>>()
    });
    let [by_kernel, panel, annotations] = answers.collect::<Vec<_>>().try_into().expect("three queries");
    let arms =
        panel.iter().filter_map(|row| row.split("\"metric\":").nth(1)?.split(',').next()).collect::<BTreeSet<_>>();
    assert_eq!(by_kernel.len(), arms.len(), "an arm under two kernels, {by_kernel:?}");
    assert!(panel.len() >= all.len() && panel[0].starts_with("{\"time\":\""), "{panel:?}");
    assert!(annotations.len() == 1 && annotations[0].contains("6.19.1"), "{annotations:?}");
    cluster.discard().unwrap();
}

fn a_full_disk_is_a_clear_error_and_nothing_is_half() {
    if !holdup_testkit::is_root() {
        holdup_testkit::ignore("takes root, which mounts a small file system");
    }
    let work = tempfile::tempdir().unwrap();
    let small = work.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let inside = |command: &str| {
        let script = format!("mount -t tmpfs -o size=24m tmpfs '{}' && {command}", small.display());
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        unshare.env("HOLDUP_TEST_WORK", work.path()).output()
    };
    match inside("true") {
        Ok(output) if output.status.success() => {}
        Ok(output) => holdup_testkit::ignore(String::from_utf8_lossy(&output.stderr)),
        Err(e) => holdup_testkit::ignore(format!("unshare cannot be started: {e}")),
    }
    let test = std::env::current_exe().unwrap();
    let output = inside(&format!("'{}' --ignored --exact store::a_disk_becomes_full", test.display())).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

fn a_disk_becomes_full() {
    use std::os::unix::fs::chown;
    let work = std::path::PathBuf::from(std::env::var("HOLDUP_TEST_WORK").unwrap());
    let (small, made) = (work.join("small"), tempfile::tempdir().unwrap());
    let cluster = cluster(&work);
    let (space, at) = (small.join("space"), small.join("folder"));
    std::fs::create_dir(&space).unwrap();
    if let Some(user) = cluster.user() {
        chown(&space, Some(user.uid), Some(user.gid)).unwrap();
    }
    cluster.query(&format!("CREATE TABLESPACE small LOCATION '{}'", space.display())).unwrap();
    cluster.query("CREATE DATABASE results TABLESPACE small").unwrap();
    let mut database = server(&cluster, "results", "holdup");
    database.init().unwrap();
    let mut folder = open(&Place::Folder(at)).unwrap();
    // All but two megabytes are taken, for each of them anew.
    let filler = std::fs::File::create(small.join("filler")).unwrap();
    let one = Incoming::read(&write(made.path(), &run(0, "db1", 1_000.0)), None).unwrap();
    for store in [&mut database, &mut folder] {
        filler.set_len(0).unwrap();
        let free = rustix::fs::statvfs(&small).unwrap();
        let taken = (free.f_bavail * free.f_frsize).saturating_sub(2 << 20);
        rustix::fs::fallocate(&filler, rustix::fs::FallocateFlags::empty(), 0, taken).unwrap();
        let mut kept = Vec::new();
        let no = (0..4_000)
            .find_map(|day: i64| {
                let mut bundle = one.clone();
                bundle.kept.run.run_id = format!("{day:08x}");
                bundle.kept.run.created_unix_ns += day * DAY;
                match store.push(&bundle) {
                    Ok(_) => {
                        kept.push(bundle);
                        None
                    }
                    Err(problem) => Some((bundle, problem.to_string())),
                }
            })
            .expect("two megabytes are full at some time");
        assert!(no.1.contains("No space left") && no.1.contains("hint: make room"), "{}", no.1);
        assert_eq!(store.list(&KeptFilter::default()).unwrap().len(), kept.len());
        assert!(kept.iter().all(|bundle| store.pull(&bundle.kept.run.run_id).unwrap() == bundle.bytes));
        filler.set_len(0).unwrap();
        assert_eq!(store.push(&no.0).unwrap(), Pushed::New);
    }
    cluster.discard().unwrap();
}

fn what_is_no_bundle_is_refused_by_both() {
    let made = tempfile::tempdir().unwrap();
    let path = write(made.path(), &run(1, "db1", 1_000.0));
    let mut bytes = std::fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 4_096].fill(0xff);
    let broken = made.path().join("broken.holdup");
    std::fs::write(&broken, &bytes).unwrap();
    assert!(
        refused(Incoming::read(&broken, None)).contains("damaged")
            || refused(Incoming::read(&broken, None)).contains("malformed")
    );
    let no = refused(open(&Place::of("postgresql://u:geheim@127.0.0.1:1/d").unwrap()).map(drop));
    assert!(no.contains("127.0.0.1 port 1") && !no.contains("geheim"), "{no}");
    let named = Incoming::read(&path, Some("lab7")).unwrap();
    let mut store = folder(made.path());
    store.push(&named).unwrap();
    let runs = store.list(&KeptFilter { host: Some("lab7".into()), ..KeptFilter::default() }).unwrap();
    assert_eq!(runs.len(), 1, "the host that was given at the push");
    // One that is damaged in the folder itself takes no other away, and is named; so is one whose run has not ended.
    std::fs::copy(&broken, made.path().join("store").join("broken.holdup")).unwrap();
    assert_eq!(store.list(&KeptFilter::default()).unwrap().len(), 1);
    assert_eq!(store.series(&KeptFilter::default(), None).unwrap().runs.len(), 1);
    std::os::unix::fs::symlink(".holdup-draft-a/run.holdup", made.path().join("store/run.holdup")).unwrap();
    assert_eq!(store.list(&KeptFilter::default()).unwrap().len(), 1);
    let left_out = store.left_out();
    assert!(left_out.len() == 2 && left_out[0].starts_with("broken.holdup is left out: "), "{left_out:?}");
    assert!(left_out[1].starts_with("run.holdup is left out: its run has not ended, or was killed"), "{left_out:?}");
}

fn a_bundle_that_is_being_written_is_refused_and_one_behind_a_link_is_none() {
    let made = tempfile::tempdir().unwrap();
    let path = |name: &str| made.path().join(name);
    let written = create(&path("written.holdup"), &run(98, "db1", 1_000.0)).unwrap();
    assert!(refused(Incoming::read(&path("written.holdup"), None)).contains("it is being written"));
    drop(written);
    let (crashed, _) = unfinished(made.path());
    let file = path("half").join(format!("{}.holdup", crashed.kept.run.run_id));
    std::os::unix::fs::symlink(file, path("link.holdup")).unwrap();
    assert_eq!(Incoming::read(&path("link.holdup"), None).unwrap().sha256, crashed.sha256);
}

/// Finding L4 of the attacks: in a folder that several write, `.index` may be a stranger's.
fn an_index_that_another_user_may_have_written_is_not_believed() {
    use std::os::unix::fs::{PermissionsExt, chown};
    let made = tempfile::tempdir().unwrap();
    let bundle = Incoming::read(&write(made.path(), &run(1, "db1", 1_000.0)), None).unwrap();
    let mut store = folder(made.path());
    store.push(&bundle).unwrap();
    let entry = made.path().join(format!("store/.index/{}.holdup.json", bundle.kept.run.run_id));
    let mut plan = || store.list(&KeptFilter::default()).unwrap().remove(0).plan;
    let forge = || {
        let text = std::fs::read_to_string(&entry).unwrap();
        std::fs::write(&entry, text.replace("\"plan\":\"sample\"", "\"plan\":\"forged\"")).unwrap();
    };
    forge();
    assert_eq!(plan(), "forged", "our own is believed");
    std::fs::set_permissions(&entry, PermissionsExt::from_mode(0o666)).unwrap();
    assert_eq!(plan(), "sample", "others may write it");
    if !holdup_testkit::is_root() {
        return holdup_testkit::ignore_part("only root can give files away");
    }
    forge();
    chown(&entry, Some(54_321), None).unwrap();
    assert_eq!(plan(), "sample", "another user's");
    // The owner of the bundle may also say what is in it.
    forge();
    chown(&entry, Some(54_321), None).unwrap();
    chown(made.path().join(format!("store/{}.holdup", bundle.kept.run.run_id)), Some(54_321), None).unwrap();
    assert_eq!(plan(), "forged");
}

holdup_testkit::tests!(
    the_folder_and_the_server_give_the_same_answers,
    fifty_pushes_at_the_same_time_keep_each_run_exactly_one_time,
    a_push_that_is_killed_leaves_nothing_half,
    a_session_that_the_server_ended_is_opened_again,
    a_server_that_restarts_during_pushes_loses_nothing,
    an_older_schema_is_brought_up_to_date_and_a_newer_one_is_refused,
    roles_may_what_they_are_for_and_a_store_without_rights_says_what_is_missing,
    the_queries_of_the_documentation_give_what_they_say,
    a_full_disk_is_a_clear_error_and_nothing_is_half,
    what_is_no_bundle_is_refused_by_both,
    a_bundle_that_is_being_written_is_refused_and_one_behind_a_link_is_none,
    a_crashed_bundle_of_another_user_is_not_kept_half_written,
    an_index_that_another_user_may_have_written_is_not_believed;
    by_hand: a_push_to_be_killed, a_disk_becomes_full
);
