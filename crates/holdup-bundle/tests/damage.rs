//! Damaged bundles and files that are none: a clear problem each, and never fewer trials in silence.

use crate::common;
use common::{sample, write};
use holdup_model::{BundleData, MemoryBudget, Problem, Trial};
use proptest::prelude::*;
use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A sound bundle: what is in it, and its bytes.
static SOUND: LazyLock<(BundleData, Vec<u8>)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = sample(2);
    write(&path, &data).expect("is written");
    (data, std::fs::read(&path).expect("is there"))
});

fn with_bytes(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a folder");
    let path = folder.path().join("a.holdup");
    std::fs::write(&path, bytes).expect("is written");
    (folder, path)
}

/// What a user sees, without the path of the test's folder.
fn said(problem: &Problem, path: &Path) -> String {
    let folder = path.parent().expect("a folder").display().to_string();
    problem.to_string().replace(&folder, "…")
}

fn files_that_are_no_bundles() {
    let mut table = String::new();
    let mut check = |name: &str, path: &Path| {
        let problem = holdup_bundle::read(path).expect_err(name);
        assert_eq!(holdup_bundle::read_salvage(path).expect_err(name).why, problem.why, "{name}: salvage");
        let verified = holdup_bundle::verify(path, &MemoryBudget::default()).expect_err(name);
        assert_eq!(verified.why, problem.why, "{name}: verify");
        assert!(!verified.to_string().contains("holdup verify"), "{name}: verify sends the user to itself");
        assert!(problem.hint.is_some(), "{name}: {problem}");
        table += &format!("-- {name}\n{}\n", said(&problem, path));
    };
    let other = {
        let (_folder, path) = with_bytes(b"");
        let db = Connection::open(&path).expect("is opened");
        db.execute_batch("CREATE TABLE trials (trial INTEGER PRIMARY KEY)").expect("is made");
        drop(db);
        std::fs::read(&path).expect("is there")
    };
    let mut newer = SOUND.1.clone();
    newer[60..64].copy_from_slice(&(holdup_bundle::SCHEMA_VERSION as i32 + 1).to_be_bytes());
    let mut none = SOUND.1.clone();
    none[60..64].copy_from_slice(&0_i32.to_be_bytes());
    let mut headless = SOUND.1.clone();
    headless[..16].fill(0);
    let all: [(&str, &[u8]); 8] = [
        ("text", b"[plan]\nname = \"demo\"\n"),
        ("empty", b""),
        ("one byte", b"S"),
        ("another SQLite database", &other),
        ("newer schema", &newer),
        ("schema 0", &none),
        ("first bytes lost", &headless),
        ("cut in its head", &SOUND.1[..80]),
    ];
    for (name, bytes) in all {
        let (_folder, path) = with_bytes(bytes);
        check(name, &path);
    }
    let (folder, _) = with_bytes(b"");
    check("missing", &folder.path().join("b.holdup"));
    check("a file as a folder", &folder.path().join("a.holdup/b.holdup"));
    let sub = folder.path().join("c.holdup");
    std::fs::create_dir(&sub).expect("is made");
    check("a folder", &sub);
    check("a device", Path::new("/dev/null"));
    insta::assert_snapshot!(table);
}

/// True if a salvaged trial is as it was written, or without the evidence that a line says is damaged.
fn is_whole_or_named(trial: &Trial, sound: &BundleData, lines: &[String]) -> bool {
    let Some(written) = sound.trials.get(trial.seq as usize) else { return false };
    let is_named = |part: &str| lines.iter().any(|l| l.starts_with(&format!("{part} {}:", trial.seq)));
    let mut stripped = written.clone();
    if is_named("evidence") {
        common::strip(&mut stripped);
    }
    for (stripped, written) in stripped.evidence.iter_mut().zip(&written.evidence) {
        stripped.capture = if is_named("captures") { None } else { written.capture.clone() };
    }
    *trial == stripped
}

/// For any bytes: what is read is what was written, what is salvaged is part of it, and damage is reported.
fn judge(bytes: &[u8], verify_sees_it: bool) -> Result<(), TestCaseError> {
    let sound = &SOUND.0;
    let (_folder, path) = with_bytes(bytes);
    match holdup_bundle::read(&path) {
        Ok(read) => prop_assert!(read == *sound, "it reads as something else"),
        Err(problem) => prop_assert!(problem.hint.is_some() && !problem.why.is_empty(), "{problem}"),
    }
    if let Ok((part, lines)) = holdup_bundle::read_salvage(&path) {
        for trial in &part.trials {
            prop_assert!(is_whole_or_named(trial, sound, &lines), "trial {}: {lines:#?}", trial.seq);
        }
        prop_assert!(part == *sound || !lines.is_empty(), "something is lost in silence");
    }
    if let Ok(found) = holdup_bundle::verify(&path, &MemoryBudget::default()) {
        prop_assert!(!verify_sees_it || !found.whole, "{found:#?}");
    }
    Ok(())
}

fn a_bundle_cut_anywhere_is_refused_and_says_so() {
    let bytes = &SOUND.1;
    let pages = (0..bytes.len()).step_by(4096);
    for cut in pages.chain([bytes.len() / 2 + 1, bytes.len() - 1, 99, 100, 4097]) {
        judge(&bytes[..cut], true).unwrap_or_else(|e| panic!("cut at {cut}: {e}"));
        let (_folder, path) = with_bytes(&bytes[..cut]);
        assert!(holdup_bundle::read(&path).is_err(), "cut at {cut}");
    }
}

fn salvage_gives_the_trials_that_are_whole_and_names_the_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let sound = sample(20);
    write(&path, &sound).expect("is written");
    let bytes = std::fs::read(&path).expect("is there");
    let mut counts = std::collections::BTreeSet::new();
    for cut in (bytes.len() / 3..bytes.len()).step_by(4096) {
        std::fs::write(&path, &bytes[..cut]).expect("is written");
        let Ok((part, lines)) = holdup_bundle::read_salvage(&path) else { continue };
        counts.insert(part.trials.len());
        for trial in &sound.trials {
            let given = part.trials.iter().any(|t| t.seq == trial.seq && is_whole_or_named(t, &sound, &lines));
            let named = lines.iter().any(|l| l.starts_with(&format!("trial {}:", trial.seq)) || l.contains("missing"));
            assert!(given || named, "cut at {cut}: trial {} is neither given nor named: {lines:#?}", trial.seq);
        }
    }
    assert!(counts.iter().any(|n| (1..sound.trials.len()).contains(n)), "salvage never gave some of the trials");
}

fn each_page_lost_is_seen() {
    for page in 0..SOUND.1.len() / 4096 {
        let mut bytes = SOUND.1.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0);
        judge(&bytes, true).unwrap_or_else(|e| panic!("page {page} lost: {e}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    fn flipped_bytes_never_read_as_something_else(
        flips in proptest::collection::vec((0..SOUND.1.len(), 1_u8..), 1..4),
    ) {
        let mut bytes = SOUND.1.clone();
        for (at, bits) in flips {
            bytes[at] ^= bits;
        }
        judge(&bytes, false)?;
    }

    fn flipped_bytes_in_the_tree_of_pages_never_panic(
        flips in proptest::collection::vec((0..SOUND.1.len() / 4096, 0..64_usize, any::<u8>()), 1..6),
    ) {
        let mut bytes = SOUND.1.clone();
        for (page, at, byte) in flips {
            // The first 100 bytes are the head of the file, where most flips end the reading immediately.
            bytes[page * 4096 + at + if page == 0 { 100 } else { 0 }] = byte;
        }
        judge(&bytes, false)?;
    }
}

/// Changes a sound bundle with SQL and returns what reading says.
fn tampered(sql: &str) -> (Result<BundleData, String>, Vec<String>) {
    let (_folder, path) = with_bytes(&SOUND.1);
    let db = Connection::open(&path).expect("is opened");
    db.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON;").expect("is set");
    db.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    drop(db);
    let read = holdup_bundle::read(&path).map_err(|p| said(&p, &path));
    let lines = match holdup_bundle::verify(&path, &MemoryBudget::default()) {
        Ok(found) => {
            assert!(read.is_ok() || !found.whole, "{sql}: {found:#?}");
            found.lines
        }
        Err(problem) => vec![said(&problem, &path)],
    };
    (read, lines)
}

fn each_missing_table_is_named() {
    for table in holdup_bundle::tables() {
        let name = table.name;
        let (read, _) = tampered(&format!("DROP TABLE {name}"));
        assert!(read.expect_err(&name).contains(&format!("is damaged: the table {name} is missing")));
        let (read, _) = tampered(&format!(
            "DROP TABLE {name}; CREATE VIEW {name} AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n) \
             SELECT i FROM n"
        ));
        assert!(read.expect_err(&name).contains(&format!("the table {name} is missing")));
        let (read, _) = tampered(&format!("DROP TABLE {name}; CREATE TABLE {name} (x)"));
        assert!(read.expect_err(&name).contains(&format!("the table {name} has no column")));
    }
}

fn changed_rows_are_seen_and_named() {
    let mut table = String::new();
    for sql in [
        "DELETE FROM trials WHERE trial = 4",
        "DELETE FROM trials WHERE trial = 2; DELETE FROM checksums WHERE part = 'trial' AND number = 2",
        "DELETE FROM trials WHERE trial >= 3; DELETE FROM checksums WHERE part = 'trial' AND number >= 3",
        "DELETE FROM checksums",
        "UPDATE measurements SET value = value + 1 WHERE trial = 0 AND position = 0",
        "UPDATE measurements SET value = NULL WHERE trial = 0 AND position = 0",
        "UPDATE measurements SET absent = 'both' WHERE trial = 0 AND position = 0",
        "UPDATE trials SET arm = 99 WHERE trial = 3",
        "UPDATE trials SET status = 'void', void_reason = 'slow' WHERE trial = 3",
        "UPDATE trials SET trial = 9223372036854775807 WHERE trial = 4",
        "UPDATE trials SET trial = -9223372036854775808 WHERE trial = 0",
        "UPDATE evidence SET item = 1",
        "UPDATE evidence_items SET unit = 'ms'",
        "UPDATE facts SET value = '7.0' WHERE key = 'kernel.release'",
        "UPDATE histograms SET hdr_v2 = x'00'",
        "UPDATE histograms SET hdr_v2 = zeroblob(9000000)",
        "UPDATE evidence_histograms SET hdr_v2 = x'00' WHERE trial = 2",
        "UPDATE stack_profiles SET json_zlib = x'00' WHERE trial = 2 AND position = 0",
        "UPDATE captures SET json_zlib = x'00' WHERE trial = 2",
        "DELETE FROM captures WHERE trial = 2",
        "UPDATE timelines SET events = 1 WHERE trial = 2",
        "UPDATE collector_costs SET memory_bytes = 0 WHERE trial = 2",
        "DELETE FROM collector_costs WHERE trial = 2; DELETE FROM checksums WHERE part = 'evidence' AND number = 2",
        "UPDATE arms SET label = 'B' WHERE arm = 1",
        "UPDATE schedule SET arm = 7",
        "UPDATE plan SET checked_json = '{}'",
        "DELETE FROM head",
        "UPDATE log SET text = 'all is well'",
        "UPDATE boot_logs SET zlib = x'00' WHERE entry = 1",
        "DELETE FROM boot_logs WHERE entry = 0",
        "UPDATE ending SET how = 'happy'",
        "DELETE FROM ending",
    ] {
        let (read, lines) = tampered(sql);
        let good = ["schema:", "size:", "checksums:", "references: every", "integrity: SQLite"];
        let found: Vec<String> = lines.into_iter().filter(|l| !good.iter().any(|g| l.starts_with(g))).collect();
        let read = read.map(|_| ()).expect_err(sql);
        table += &format!("-- {sql}\n{read}\n  {}\n", found.join("\n  "));
    }
    insta::assert_snapshot!(table);
}

fn what_others_add_to_the_file_does_no_harm() {
    let (read, lines) = tampered(
        "CREATE TABLE my_notes (text); INSERT INTO my_notes VALUES ('slow day'); CREATE INDEX mine ON trials (arm); \
         ANALYZE; VACUUM; PRAGMA journal_mode = WAL;",
    );
    assert_eq!(read.as_ref(), Ok(&SOUND.0), "{lines:?}");
}

holdup_testkit::tests!(
    files_that_are_no_bundles,
    a_bundle_cut_anywhere_is_refused_and_says_so,
    salvage_gives_the_trials_that_are_whole_and_names_the_others,
    each_page_lost_is_seen,
    flipped_bytes_never_read_as_something_else,
    flipped_bytes_in_the_tree_of_pages_never_panic,
    each_missing_table_is_named,
    changed_rows_are_seen_and_named,
    what_others_add_to_the_file_does_no_harm
);
