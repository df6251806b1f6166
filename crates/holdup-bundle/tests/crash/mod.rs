//! A crash at any write leaves a readable bundle: proved by failing at operation 1, 2, 3 and so on.

use crate::common;
mod faulty_vfs;

use common::{create, names, sample};
use faulty_vfs::{Fault, arm, disarm, install};
use holdup_model::{BundleData, MemoryBudget, Problem, ProblemKind};
use holdup_testkit::ignore;
use std::path::Path;

/// A folder in memory where there is one: thousands of files are made and removed here.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder")
}

/// How far a writer got.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Acknowledged {
    created: bool,
    environment: usize,
    trials: usize,
    log: usize,
    boot_logs: usize,
    finished: bool,
}

/// The whole life of a bundle, up to the first problem; the writer is gone afterwards.
fn live(path: &Path, data: &BundleData) -> (Acknowledged, Result<(), Problem>) {
    let mut got = Acknowledged::default();
    let mut all = || -> Result<(), Problem> {
        let mut writer = create(path, data)?;
        got.created = true;
        for reading in &data.environment {
            writer.add_environment(reading.session, reading.boot, &reading.facts)?;
            got.environment += 1;
        }
        for (i, trial) in data.trials.iter().enumerate() {
            writer.add_trial(trial)?;
            got.trials += 1;
            if let Some((unix_ns, text)) = data.log.get(i) {
                writer.log(*unix_ns, text)?;
                got.log += 1;
            }
        }
        for log in &data.boot_logs {
            writer.add_boot_log(log.boot, &log.name, log.text.as_bytes())?;
            got.boot_logs += 1;
        }
        writer.finish(data.ending.as_ref().expect("the sample ends"))?;
        got.finished = true;
        Ok(())
    };
    let outcome = all();
    (got, outcome)
}

/// Checks that a file holds all that was acknowledged, nothing half, and at most the one thing that was under way.
fn holds(path: &Path, whole: &BundleData, got: Acknowledged, context: &str) {
    let read = match holdup_bundle::read(path) {
        Ok(read) => read,
        Err(problem) => {
            assert!(!got.created, "{context}: a begun bundle is lost: {problem}");
            let said = problem.why.contains("holds nothing") || problem.why.contains("no such file");
            assert!(said, "{context}: {problem}");
            assert_eq!(problem.kind, ProblemKind::Usage, "{context}");
            return;
        }
    };
    let prefix = |read: usize, acknowledged: usize, what: &str| {
        let fits = (acknowledged..=acknowledged + 1).contains(&read);
        assert!(fits, "{context}: {read} of {what}, {acknowledged} were acknowledged");
    };
    prefix(read.trials.len(), got.trials, "trials");
    prefix(read.environment.len(), got.environment, "environment");
    prefix(read.log.len(), got.log, "log");
    prefix(read.boot_logs.len(), got.boot_logs, "logs of boots");
    assert!(read.ending == whole.ending || (read.ending.is_none() && !got.finished), "{context}: {:?}", read.ending);
    let same = read.head == whole.head
        && (&read.plan, &read.plan_source) == (&whole.plan, &whole.plan_source)
        && read.schedule == whole.schedule
        && (&read.metrics, &read.collectors) == (&whole.metrics, &whole.collectors)
        && read.trials == whole.trials[..read.trials.len()]
        && read.environment == whole.environment[..read.environment.len()]
        && read.log == whole.log[..read.log.len()]
        && read.boot_logs == whole.boot_logs[..read.boot_logs.len()];
    assert!(same, "{context}: what is read is not what was written");
}

/// Checks that nothing is wrong with a file beside its missing ending.
fn is_whole_but_for_the_ending(path: &Path, got: Acknowledged, context: &str) {
    if got.created {
        let found = holdup_bundle::verify(path, &MemoryBudget::default()).expect("is verified");
        let ended = found.lines.iter().any(|line| line == "ending: complete");
        assert!(found.whole == ended && (ended || !got.finished), "{context}: {found:#?}");
    }
}

fn sweep(fault: Fault) {
    install();
    let whole = sample(1);
    let mut began = 0;
    for operation in 0.. {
        let folder = folder();
        let (path, site) = (folder.path().join("a.holdup"), folder.path().join("site").join("a.holdup"));
        std::fs::create_dir(folder.path().join("site")).expect("a folder");
        arm(fault, operation, &path, Some(&site));
        let (got, outcome) = live(&path, &whole);
        let blown = disarm();
        let context = format!("{fault:?} at operation {operation}");
        match outcome {
            Ok(()) => {
                assert!(!blown, "{context}: the failure went unnoticed");
                holds(&path, &whole, got, &context);
                is_whole_but_for_the_ending(&path, got, &context);
                assert!(operation > 60, "only {operation} operations: the sweep is not over a whole life");
                assert!(began > 40, "only {began} of them after the first commit");
                return;
            }
            Err(problem) => {
                assert!(blown, "{context}: {problem}");
                let full = problem.why.contains("no space left") && problem.hint.is_some();
                assert_eq!(full, fault == Fault::Full, "{context}: {problem}");
                assert!(problem.kind != ProblemKind::Internal, "{context}: {problem}");
            }
        }
        began += usize::from(got.created);
        // What a process leaves that ends right there, and what is left after the writer had its turn to clean up.
        holds(&site, &whole, got, &format!("{context}, at the site"));
        if operation % 4 == 0 {
            is_whole_but_for_the_ending(&site, got, &context);
        }
        holds(&path, &whole, got, &context);
        // Once read, the file is all there is to keep: a journal that is still there holds nothing of it.
        let has_journal = |path: &&&Path| path.with_extension("holdup-journal").exists();
        for path in [&*site, &*path].iter().filter(has_journal) {
            let alone = folder.path().join("alone.holdup");
            std::fs::copy(path, &alone).expect("is copied");
            holds(&alone, &whole, got, &format!("{context}, without its journal"));
        }
    }
}

fn a_crash_with_an_input_or_output_error_at_any_operation_loses_no_trial() {
    sweep(Fault::Io);
}

fn a_crash_on_a_full_disk_at_any_operation_loses_no_trial() {
    sweep(Fault::Full);
}

fn a_crash_in_the_middle_of_any_write_loses_no_trial() {
    sweep(Fault::Torn);
}

fn a_full_disk_is_said_and_writing_goes_on_when_there_is_space_again() {
    install();
    let whole = sample(3);
    for bytes in (0..400_000).step_by(30_000) {
        let folder = folder();
        let path = folder.path().join("a.holdup");
        arm(Fault::Growth, bytes, &path, None);
        let created = create(&path, &whole);
        let Ok(mut writer) = created else {
            assert!(disarm());
            assert!(created.err().is_some_and(|p| p.why.contains("no space left")));
            assert!(names(folder.path()).is_empty(), "a file that holds nothing is left behind");
            continue;
        };
        let mut refused = 0;
        for (i, trial) in whole.trials.iter().enumerate() {
            let Err(problem) = writer.add_trial(trial) else { continue };
            refused += 1;
            assert_eq!(problem.kind, ProblemKind::Host);
            assert!(problem.why.contains(&format!("no space left while writing trial {i}")), "{problem}");
            // While the disk is still full and the writer still open, what was measured can be read.
            assert_eq!(holdup_bundle::read(&path).expect("is read").trials, whole.trials[..i]);
            assert!(disarm());
            writer.add_trial(trial).expect("there is space again");
        }
        disarm();
        assert!(refused <= 1);
        writer.finish(&holdup_model::bundle::Ending::Complete).expect("is finished");
        assert_eq!(holdup_bundle::read(&path).expect("is read").trials, whole.trials);
        assert_eq!(names(folder.path()), ["a.holdup"]);
    }
}

/// A bundle whose writer crashed with a journal that must be rolled back.
fn crashed(at: &Path, whole: &BundleData) -> Acknowledged {
    install();
    let site = at.join("a.holdup");
    for operation in (0..).step_by(3) {
        let aside = folder();
        let path = aside.path().join("a.holdup");
        arm(Fault::Torn, operation, &path, Some(&site));
        let (got, _) = live(&path, whole);
        assert!(disarm(), "no such crash was found");
        // A journal of some pages, and a file of which pages are overwritten already.
        let journal = std::fs::metadata(at.join("a.holdup-journal")).map_or(0, |m| m.len());
        if got.trials >= 2 && journal > 4096 && holds_pages_of_an_open_transaction(&site) {
            return got;
        }
        for name in names(at) {
            std::fs::remove_file(at.join(name)).expect("is removed");
        }
    }
    unreachable!("the loop returns or panics")
}

/// True if the file without its journal is not what was committed.
fn holds_pages_of_an_open_transaction(site: &Path) -> bool {
    let aside = folder();
    let alone = aside.path().join("a.holdup");
    std::fs::copy(site, &alone).expect("is copied");
    holdup_bundle::read(&alone).is_err()
}

fn a_crashed_bundle_in_a_read_only_place_is_recovered_on_a_copy() {
    let folder = folder();
    let whole = sample(2);
    let got = crashed(folder.path(), &whole);
    let path = folder.path().join("a.holdup");
    let before = [path.clone(), folder.path().join("a.holdup-journal")].map(|p| std::fs::read(p).expect("is there"));

    arm(Fault::ReadOnly, 0, &path, None);
    holds(&path, &whole, got, "in a read-only place");
    disarm();
    let after = [path.clone(), folder.path().join("a.holdup-journal")].map(|p| std::fs::read(p).expect("is there"));
    assert!(before == after, "a read-only place was written to");

    holds(&path, &whole, got, "in place");
    assert_eq!(names(folder.path()), ["a.holdup"]);
}

fn a_crashed_bundle_of_another_user_is_recovered_on_a_copy() {
    use std::os::unix::fs::chown;
    if !holdup_testkit::is_root() {
        ignore("only root can give files away");
    }
    let folder = folder();
    let whole = sample(2);
    let got = crashed(folder.path(), &whole);
    let both = [folder.path().join("a.holdup"), folder.path().join("a.holdup-journal")];
    both.iter().for_each(|path| chown(path, Some(54_321), None).expect("is given"));
    let bytes = || both.clone().map(|path| std::fs::read(path).expect("is there"));
    let before = bytes();
    holds(&both[0], &whole, got, "of another user");
    assert!(before == bytes(), "a file of another user was written to");
}

fn a_crashed_bundle_in_a_folder_without_write_permission_is_recovered_on_a_copy() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    if std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0) {
        ignore("root may write everywhere; the test with the faulty VFS covers root");
    }
    let folder = folder();
    let whole = sample(2);
    let got = crashed(folder.path(), &whole);
    let path = folder.path().join("a.holdup");
    let allow = |mode| {
        for name in names(folder.path()) {
            let mode = std::fs::Permissions::from_mode(mode & 0o666);
            std::fs::set_permissions(folder.path().join(name), mode).expect("is set");
        }
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).expect("is set");
    };
    allow(0o555);
    holds(&path, &whole, got, "in a folder without write permission");
    allow(0o755);
    assert_eq!(names(folder.path()), ["a.holdup", "a.holdup-journal"]);
}

holdup_testkit::tests!(
    a_crash_with_an_input_or_output_error_at_any_operation_loses_no_trial,
    a_crash_on_a_full_disk_at_any_operation_loses_no_trial,
    a_crash_in_the_middle_of_any_write_loses_no_trial,
    a_full_disk_is_said_and_writing_goes_on_when_there_is_space_again,
    a_crashed_bundle_in_a_read_only_place_is_recovered_on_a_copy,
    a_crashed_bundle_of_another_user_is_recovered_on_a_copy,
    a_crashed_bundle_in_a_folder_without_write_permission_is_recovered_on_a_copy
);
