//! Bundles that are changed on purpose and given matching checksums: the checks behind the checksums.

#[path = "../tests/common/mod.rs"]
mod common;

use crate::{gather, open, parts};
use holdup_model::Histogram;

/// Changes a bundle with SQL that no rule of the schema stops, seals every part again, and says what reading says.
fn resealed(sql: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.holdup");
    let data = common::sample(1);
    common::write(&path, &data).expect("is written");
    let db = open::to_write(&path, open::Keeping::EachCall).expect("is opened");
    db.execute_batch(
        "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; PRAGMA writable_schema = ON; \
         UPDATE sqlite_master SET sql = replace(replace(sql, ' NOT NULL', ''), ') STRICT, WITHOUT', ') WITHOUT'); \
         UPDATE sqlite_master SET sql = replace(sql, ') STRICT', ')'); PRAGMA writable_schema = RESET;",
    )
    .expect("the rules are off");
    db.execute_batch(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    db.execute_batch("DELETE FROM checksums").expect("the seals are off");
    let seal = |part: &parts::Part, count: usize| {
        (0..count as i64).for_each(|number| part.seal(&db, number).expect("is sealed"));
    };
    parts::AT_BEGIN.into_iter().chain([&parts::ENDING]).for_each(|part| seal(part, 1));
    seal(&parts::ENVIRONMENT, data.environment.len());
    seal(&parts::TRIAL, data.trials.len());
    seal(&parts::EVIDENCE, data.trials.len());
    seal(&parts::CAPTURES, data.trials.len());
    seal(&parts::LOG, data.log.len());
    seal(&parts::BOOT_LOG, data.boot_logs.len());
    drop(db);
    match gather::read(&path) {
        Ok(_) => "is read".to_owned(),
        Err(problem) => problem.why,
    }
}

#[test]
fn nothing_is_taken_at_its_word() {
    assert_eq!(resealed("SELECT 1"), "is read", "the changes below are what is refused");
    let mut table = String::new();
    for sql in [
        "UPDATE head SET run_id = NULL",
        "UPDATE head SET machine_cpus = -1",
        "UPDATE head SET machine_cpus = 'many'",
        "INSERT INTO head SELECT 2, run_id, holdup_version, created_unix_ns, target, emulated, 1, 1 FROM head",
        "UPDATE command SET position = 5 WHERE position = 0",
        "UPDATE command SET word = x'ff'",
        "UPDATE plan SET checked_json = '[' || replace(hex(zeroblob(50000)), '00', '[') || ']'",
        "UPDATE arms SET replica = 'twin'",
        "UPDATE levels SET arm = 7 WHERE arm = 1",
        "UPDATE levels SET value = 'eight' WHERE name = 'clients'",
        "UPDATE levels SET type = 'bool' WHERE name = 'clients'",
        "UPDATE levels SET role = 'lead'",
        "UPDATE schedule SET arm = 9",
        "UPDATE schedule SET block = 4294967296",
        "UPDATE metrics SET better = 'sideways'",
        "UPDATE collectors SET reason = NULL",
        "UPDATE environment_readings SET session = 1.5",
        "UPDATE facts SET steady = 2",
        "UPDATE trials SET arm = 9",
        "UPDATE trials SET status = 'good'",
        "UPDATE trials SET status = 'void'",
        "UPDATE trials SET window_length_ns = NULL",
        "UPDATE trials SET window_length_ns = -1",
        "UPDATE trial_environment SET moment = 'during' WHERE moment = 'moved'",
        "UPDATE measurements SET value = NULL",
        "UPDATE measurements SET value = 9e999",
        "UPDATE measurements SET value = 'fast'",
        "UPDATE measurements SET absent = 'both', value = 1.0",
        "UPDATE histograms SET count = 7",
        "UPDATE histograms SET clipped = count + 1",
        "UPDATE histograms SET hdr_v2 = NULL",
        "UPDATE histograms SET hdr_v2 = substr(hdr_v2, 1, 44)",
        "UPDATE histograms SET hdr_v2 = CAST(x'1c849313ffffffff' || substr(hdr_v2, 9) AS BLOB)",
        "UPDATE histograms SET hdr_v2 = CAST(x'1c849314' || substr(hdr_v2, 5) AS BLOB)",
        "UPDATE histograms SET hdr_v2 = CAST(substr(hdr_v2, 1, 40) || zeroblob(length(hdr_v2) - 40) AS BLOB)",
        "UPDATE collector_runs SET seen_count = -3",
        "UPDATE coverage_notes SET run = 4",
        "UPDATE evidence SET run = 4",
        "UPDATE evidence SET position = position + 10",
        "UPDATE evidence_items SET name = NULL",
        "UPDATE notes SET text = x'00'",
        "UPDATE log SET unix_ns = 'noon'",
        "UPDATE schedule SET boot = -1",
        "UPDATE environment_readings SET boot = 'first'",
        "UPDATE trials SET boot = NULL",
        "UPDATE boot_logs SET boot = -1",
        "UPDATE boot_logs SET name = NULL",
        "UPDATE boot_logs SET bytes = -1",
        "UPDATE boot_logs SET kept_bytes = 5",
        "UPDATE boot_logs SET kept_bytes = 5000000000",
        "UPDATE boot_logs SET zlib = x'00'",
        "UPDATE boot_logs SET zlib = 'text'",
        "UPDATE ending SET trials = 9",
        "UPDATE ending SET how = 'failed'",
    ] {
        table += &format!("{sql}\n  {}\n", resealed(sql));
    }
    assert!(!table.contains("is read"), "{table}");
    insta::assert_snapshot!(table);
}

#[test]
fn evidence_is_not_taken_at_its_word() {
    let mut table = String::new();
    for sql in [
        "UPDATE collector_costs SET run = run + 10",
        "UPDATE collector_costs SET bpf_runs = 1, bpf_run_ns = NULL",
        "UPDATE collector_costs SET bpf_runs = -1, bpf_run_ns = -1",
        "UPDATE collector_costs SET memory_bytes = NULL",
        "DELETE FROM collector_costs WHERE run = 1",
        "UPDATE evidence_histograms SET run = 4",
        "UPDATE evidence_histograms SET position = position + 10",
        "UPDATE evidence_histograms SET count = 7",
        "UPDATE evidence_histograms SET item = (SELECT item FROM evidence_items WHERE unit = '1')",
        "UPDATE evidence_histograms SET hdr_v2 = CAST(x'1c84931300000010' || substr(hdr_v2, 9) AS BLOB)",
        "UPDATE stack_profiles SET name = x'ff'",
        "UPDATE stack_profiles SET period_ns = -1",
        "UPDATE stack_profiles SET stacks = 3",
        "UPDATE stack_profiles SET weight = weight + 1",
        "UPDATE stack_profiles SET json_bytes = 5",
        "UPDATE stack_profiles SET json_bytes = 5000000000",
        "UPDATE stack_profiles SET json_zlib = x'00'",
        "UPDATE stack_profiles SET json_zlib = NULL",
        "UPDATE timelines SET run = 7",
        "UPDATE timelines SET begin_ns = -1",
        "UPDATE timelines SET events = 5",
        "UPDATE timelines SET json_bytes = json_bytes - 1",
        "UPDATE timelines SET json_zlib = 'text'",
        "UPDATE captures SET run = 7",
        "UPDATE captures SET flows = 5",
        "UPDATE captures SET traces = -1",
        "UPDATE captures SET flows_beyond = NULL",
        "UPDATE captures SET json_bytes = json_bytes - 1",
        "UPDATE captures SET json_bytes = 5000000000",
        "UPDATE captures SET json_zlib = x'00'",
        "UPDATE captures SET json_zlib = 'text'",
    ] {
        table += &format!("{sql}\n  {}\n", resealed(sql));
    }
    assert!(!table.contains("is read"), "{table}");
    insta::assert_snapshot!(table);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: 200, failure_persistence: None, ..Default::default()
    })]

    /// Counts, bounds and digits of any kind: read or refused, never a panic and never gigabytes.
    #[test]
    fn any_histogram_bytes_are_read_or_refused(
        keep in 8..40_usize,
        head in proptest::collection::vec(proptest::prelude::any::<u8>(), 32),
        payload in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60),
    ) {
        use rusqlite::types::Value as Cell;
        let mut bytes = Histogram::new().to_bytes();
        bytes.truncate(40);
        bytes[keep..40].copy_from_slice(&head[keep - 8..]);
        bytes[4..8].copy_from_slice(&(payload.len() as u32).to_be_bytes());
        bytes.extend(payload);
        let row = vec![Cell::Integer(0), Cell::Text("h".into()), Cell::Integer(1), Cell::Integer(0), Cell::Blob(bytes)];
        let _ = crate::decode::histogram_row(&row);
    }
}
