//! The bundles of every schema version open for ever, and the page of the schema says what the schema is.

use crate::common;
use common::sample;
use holdup_model::{BundleData, MemoryBudget};
use rusqlite::{Connection, OpenFlags};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/schema-{version}.holdup"))
}

fn fixture_db(version: u32) -> Connection {
    open(&fixture(version))
}

fn open(path: &Path) -> Connection {
    Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).expect("is opened")
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bundle.md")
}

/// Makes the fixture of the present schema: `cargo test -p holdup-bundle --test it -- for_ever:: --ignored`.
/// It stays as it is once a version is released.
fn make_the_fixture() {
    let path = fixture(holdup_bundle::SCHEMA_VERSION);
    std::fs::remove_file(&path).ok();
    common::write(&path, &sample(2)).expect("is written");
}

/// Reads the fixture of a version, whole.
fn opened(version: u32) -> BundleData {
    // On a copy, because a fixture in a read-only checkout must do as well, and nothing may change it.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("old.holdup");
    std::fs::copy(fixture(version), &path).expect("is copied");
    let found = holdup_bundle::verify(&path, &MemoryBudget::default()).expect("is verified");
    assert!(found.whole, "{found:#?}");
    assert_eq!(found.lines[0], format!("schema: version {version}, every table is there"));
    holdup_bundle::read(&path).expect("is read")
}

fn schema_1_opens_for_ever() {
    assert_eq!(opened(1), common::without_rich_evidence(sample(2)));
}

fn schema_2_opens_for_ever() {
    assert_eq!(opened(2), common::without_captures(sample(2)));
}

fn schema_3_opens_for_ever() {
    assert_eq!(opened(3), sample(2));
}

fn the_present_schema_has_a_fixture() {
    assert_eq!(holdup_bundle::SCHEMA_VERSION, 3, "keep a fixture of the new version, and a test that opens it");
    let db = fixture_db(holdup_bundle::SCHEMA_VERSION);
    let mut statement =
        db.prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY sql").expect("is prepared");
    let stored: Vec<String> =
        statement.query_map([], |row| row.get(0)).expect("is read").collect::<Result<_, _>>().expect("is text");
    let schema = holdup_bundle::schema_sql();
    let mut written: Vec<&str> = schema.split(";\n").map(str::trim).filter(|sql| !sql.is_empty()).collect();
    written.sort_unstable();
    assert_eq!(stored, written, "the schema changed without a new version");
}

/// A version only adds: what the tables of an older one hold is where it ever was.
fn no_version_takes_a_column_from_an_older_one() {
    for version in 1..=holdup_bundle::SCHEMA_VERSION {
        let db = fixture_db(version);
        let there = |sql: &str, of: &str| -> Vec<String> {
            let mut statement = db.prepare(sql).expect("is prepared");
            statement.query_map([of], |r| r.get(0)).expect("is read").collect::<Result<_, _>>().expect("text")
        };
        let known: Vec<_> = holdup_bundle::tables().into_iter().filter(|t| t.since <= version).collect();
        let names: Vec<&str> = known.iter().map(|t| t.name.as_str()).collect();
        let mut stored = there("SELECT name FROM sqlite_master WHERE type = ?1 ORDER BY rootpage", "table");
        stored.sort_by_key(|name| names.iter().position(|n| n == name));
        assert_eq!(stored, names, "the tables of version {version}");
        for table in known {
            let columns: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
            let stored = there("SELECT name FROM pragma_table_info(?1)", &table.name);
            assert_eq!(stored, columns, "{} of version {version}", table.name);
        }
    }
}

fn every_column_says_what_it_holds() {
    let tables = holdup_bundle::tables();
    assert!(tables.len() > 15);
    let db = fixture_db(holdup_bundle::SCHEMA_VERSION);
    for table in tables {
        assert!(!table.text.is_empty(), "{}", table.name);
        let mut statement = db.prepare("SELECT name FROM pragma_table_info(?1)").expect("is prepared");
        let names: Vec<String> =
            statement.query_map([&table.name], |r| r.get(0)).expect("is read").collect::<Result<_, _>>().expect("text");
        let documented: Vec<&str> = table.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(documented, names, "{}: a column without a comment", table.name);
        assert!(table.columns.iter().all(|c| c.text.len() > 4), "{}", table.name);
    }
}

const MARK: &str = "<!-- From here on made from the schema: HOLDUP_UPDATE_DOCS=1 cargo test -p holdup-bundle -->\n";

/// The part of the page that is made from the schema.
fn reference() -> String {
    let mut text = String::new();
    for table in holdup_bundle::tables() {
        let since = if table.since > 1 { format!(" Since schema version {}.", table.since) } else { String::new() };
        let _ = write!(text, "\n### {}\n\n{}{since}\n\n| column | type | |\n|---|---|---|\n", table.name, table.text);
        for column in table.columns {
            let null = if column.nullable { " or NULL" } else { "" };
            let _ = writeln!(text, "| `{}` | {}{null} | {} |", column.name, column.kind, column.text);
        }
    }
    text
}

fn the_page_of_the_schema_is_current() {
    let page = page();
    let text = std::fs::read_to_string(&page).expect("docs/bundle.md is there");
    let (written, _) = text.split_once(MARK).expect("the page has its mark");
    let wanted = format!("{written}{MARK}{}", reference());
    if std::env::var_os("HOLDUP_UPDATE_DOCS").is_some() {
        std::fs::write(&page, wanted).expect("is written");
    } else {
        assert!(text == wanted, "docs/bundle.md is stale: HOLDUP_UPDATE_DOCS=1 cargo test -p holdup-bundle");
    }
}

/// Queries of the page for what no recorded bundle has; they are tried on the fixture, whose names are made up.
const OF_THE_FIXTURE: [&str; 2] = ["moment = 'moved'", "FROM captures"];

fn the_queries_of_the_page_find_rows_in_recorded_bundles() {
    let text = std::fs::read_to_string(page()).expect("docs/bundle.md is there");
    let (folder, archive) = (tempfile::tempdir().expect("a folder"), crate::recorded::archive());
    let recorded = ["who_holds_a_row", "a_rust_program_with_one_consumer"].map(|name| {
        let path = folder.path().join(name);
        crate::recorded::unpack(&archive[&format!("{name}.holdup.xz")], &path);
        open(&path)
    });
    let released = open(&fixture(1).with_file_name("release-0.1.0.holdup"));
    let recorded: Vec<Connection> = recorded.into_iter().chain([released]).collect();
    let fixture = [fixture_db(holdup_bundle::SCHEMA_VERSION)];
    let queries: Vec<&str> =
        text.split("```sql\n").skip(1).filter_map(|rest| rest.split_once("\n```").map(|(sql, _)| sql)).collect();
    assert!(queries.len() >= 4);
    for sql in queries {
        let rows = |db: &Connection| {
            let rows =
                db.prepare(sql).and_then(|mut s| s.query_map([], |_| Ok(()))?.collect::<rusqlite::Result<Vec<()>>>());
            rows.unwrap_or_else(|e| panic!("{sql}: {e}")).len()
        };
        let is_of_fixture = OF_THE_FIXTURE.iter().any(|part| sql.contains(part));
        let bundles = if is_of_fixture { &fixture[..] } else { &recorded };
        assert!(bundles.iter().any(|db| rows(db) > 0), "no rows: {sql}");
    }
}

holdup_testkit::tests!(schema_1_opens_for_ever, schema_2_opens_for_ever, schema_3_opens_for_ever, the_present_schema_has_a_fixture, no_version_takes_a_column_from_an_older_one, every_column_says_what_it_holds, the_page_of_the_schema_is_current, the_queries_of_the_page_find_rows_in_recorded_bundles; by_hand: make_the_fixture);
