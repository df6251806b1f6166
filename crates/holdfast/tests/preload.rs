//! `libholdfast-pthread.so`: programs that use pthread's locks print the same without it and with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A folder of one test, empty.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("preload").join(name);
    let _may_be_new = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the folder of the tests can be written");
    folder
}

fn cc(arguments: &[&str], sources: &[PathBuf], out: &Path) {
    let output = Command::new("cc")
        .args(["-std=gnu11", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-D_GNU_SOURCE"])
        .args(sources)
        .args(arguments)
        .arg("-o")
        .arg(out)
        .output()
        .expect("cc is here: other tests need it too");
    assert!(output.status.success(), "{sources:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// As `crates/holdup-workloads/build.rs` builds it.
fn library(folder: &Path) -> PathBuf {
    let sources = std::fs::read_dir(Path::new(ROOT).join("preload")).expect("the sources are there");
    let mut sources: Vec<PathBuf> = sources.map(|entry| entry.expect("a file").path()).collect();
    sources.retain(|path| path.extension().is_some_and(|e| e == "c"));
    let out = folder.join("libholdfast-pthread.so");
    let flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-nostdlib", "-fno-stack-protector"];
    let more = ["-U_FORTIFY_SOURCE", "-Wl,-Bsymbolic", "-Wl,-s"];
    let aarch64: &[&str] = if cfg!(target_arch = "aarch64") { &["-mno-outline-atomics"] } else { &[] };
    cc(&[&flags[..], &more, aarch64].concat(), &sources, &out);
    out
}

fn program(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let out = folder.join(name);
    let source = Path::new(ROOT).join(format!("tests/c/pthread_{name}.c"));
    cc(&[&["-O1", "-pthread"], flags].concat(), &[source], &out);
    out
}

fn run(program: &mut Command) -> String {
    let Output { status, stdout, stderr } = program.output().expect("it was compiled");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{program:?}: {status}; {stderr}; its output ends with {:?}", stdout.lines().last());
    stdout.into_owned()
}

/// The counts of a report, without those of zero; and its first lines.
fn report(text: &str) -> BTreeMap<&str, &str> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    pairs.map(|(name, value)| (name, if value.len() == 12 { value.trim_start_matches('0') } else { value })).collect()
}

fn reports(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).expect("it was made");
    files.map(|file| std::fs::read_to_string(file.expect("a file").path()).expect("text")).collect()
}

/// Runs a program without the library and with it. Gives the reports.
fn same_result(name: &str, flags: &[&str], arguments: &[&str]) -> Vec<String> {
    let folder = folder(name);
    let library = library(&folder);
    let program = program(&folder, name, flags);
    let reports_in = folder.join("reports");
    std::fs::create_dir_all(&reports_in).expect("it can be made");
    let without = run(Command::new(&program).args(arguments));
    let mut preloaded = Command::new(&program);
    preloaded.args(arguments).env("LD_PRELOAD", &library).env("HOLDFAST_REPORT", &reports_in);
    let with = run(&mut preloaded);
    assert_eq!(without, with, "{name}: the output differs with the library");
    assert!(with.ends_with("ok\n"), "{with}");
    let reports = reports(&reports_in);
    assert!(!reports.is_empty(), "{name} did not load the library");
    reports
}

#[test]
fn mutexes_of_each_kind_have_the_errors_of_the_c_library() {
    let reports = same_result("mutex", &[], &[]);
    // Four static ones, five of the kinds, two that are made anew after their end, and two of C11.
    assert_eq!(report(&reports[0])["served_mutexes"], "13", "{}", reports[0]);
    assert_eq!(report(&reports[0])["served_conditions"], "1", "{}", reports[0]);
}

#[test]
fn conditions_wait_are_cancelled_and_are_destroyed_as_those_of_the_c_library() {
    let reports = same_result("cond", &[], &[]);
    let counts = report(&reports[0]);
    for (left, expect) in [
        ("left_mutex_priority_inheritance", "1"),
        ("left_mutex_robust", "1"),
        ("left_mutex_process_shared", "1"),
        ("left_condition_process_shared", "1"),
        ("served_conditions", "304"),
    ] {
        assert_eq!(counts[left], expect, "{left}: {}", reports[0]);
    }
}

#[test]
fn read_write_locks_and_spin_locks_let_in_whom_those_of_the_c_library_let_in() {
    let reports = same_result("rwlock", &[], &[]);
    let counts = report(&reports[0]);
    for (name, expect) in [
        ("served_rwlocks", "2"),
        ("served_spinlocks", "2"),
        ("left_rwlock_prefers_readers", "3"),
        ("left_rwlock_process_shared", "3"),
    ] {
        assert_eq!(counts[name], expect, "{name}: {}", reports[0]);
    }
}

#[test]
fn processes_fork_share_die_and_execute_and_each_has_its_report() {
    let reports = same_result("process", &[], &[]);
    // The first, 100 + 4 forked children, and the one that is executed.
    assert_eq!(reports.len(), 106);
    let by_robust = reports.iter().filter(|text| report(text)["left_mutex_robust"] == "1").count();
    assert_eq!(by_robust, 1, "only the process that made it counts it");
    // The executed one is killed by a signal that no program can handle; what it did is known.
    let killed = reports.iter().filter(|text| report(text)["served_mutexes"] == "1").count();
    assert!(killed >= 1, "the executed child's lock is missing");
    let pids: std::collections::BTreeSet<&str> = reports.iter().map(|text| report(text)["pid"]).collect();
    // The executed program has the pid of the child that executed it.
    assert_eq!(pids.len(), 105);
}

#[test]
fn producers_and_consumers_lose_no_wake_up() {
    let reports = same_result("stress", &[], &[]);
    assert_eq!(report(&reports[0])["served_conditions"], "2");
}

/// Its waits would be those of the C library without the library, and would not end.
#[test]
fn a_wait_on_either_clock_leaves_the_deadline_to_the_kernel_and_reads_no_time() {
    let folder = folder("clock");
    let (library, program) = (library(&folder), folder.join("clock"));
    let root = Path::new(ROOT);
    let include = format!("-I{}", root.join("include").display());
    let flags = ["-O1", "-pthread", "-rdynamic", "-DPTHREAD", &include];
    cc(&flags, &[root.join("tests/c/clock.c")], &program);
    assert_eq!(run(Command::new(&program).env("LD_PRELOAD", &library)), "ok\n");
}

#[test]
fn libraries_that_lock_in_their_constructors_and_are_loaded_again_find_working_locks() {
    let build = folder("early_library");
    let source = Path::new(ROOT).join("tests/c/pthread_early.c");
    let (library, again) = (build.join("libearly.so"), build.join("libagain.so"));
    cc(&["-O1", "-pthread", "-shared", "-fPIC", "-DEARLY_LIBRARY"], &[source], &library);
    std::fs::copy(&library, &again).expect("it was built");
    let (path, run_path) = (format!("-L{}", build.display()), format!("-Wl,-rpath,{}", build.display()));
    let again = again.to_string_lossy().into_owned();
    let reports = same_result("early", &[&path, "-learly", &run_path], &[&again]);
    let counts = report(&reports[0]);
    // Locks that were used before the report was begun are not in it: at least those of the second loading are.
    assert!(
        !counts["served_mutexes"].is_empty() && !counts["left_mutex_priority_inheritance"].is_empty(),
        "{counts:?}"
    );
}

#[test]
fn a_report_is_no_condition_for_running() {
    let folder = folder("no_report");
    let (library, program) = (library(&folder), program(&folder, "stress", &[]));
    for report in [Path::new("/nowhere/at/all"), Path::new("/dev/null"), Path::new("")] {
        let said = run(Command::new(&program).env("LD_PRELOAD", &library).env("HOLDFAST_REPORT", report));
        assert!(said.ends_with("ok\n"), "{report:?}: {said}");
    }
}

#[test]
fn the_library_needs_no_version_of_a_symbol_and_is_small() {
    let folder = folder("symbols");
    let library = library(&folder);
    let bytes = std::fs::read(&library).expect("it was built");
    assert!(bytes.len() < 40_000, "{} bytes", bytes.len());
    // A needed version would have its own section, and a needed library its name in the strings of the dynamic section. Names of
    // versions that are looked for at run time are not needed.
    for needle in [&b".gnu.version_r"[..], b"libc.so.6", b"libpthread", b"libgcc", b"__aarch64_"] {
        let has = bytes.windows(needle.len()).any(|window| window == needle);
        assert!(!has, "the library asks for {}", String::from_utf8_lossy(needle));
    }
}
