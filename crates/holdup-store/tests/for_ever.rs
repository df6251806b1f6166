//! The bundles of every schema version open for ever, and the page of the schema says what the schema is.

mod common;

use common::sample;
use rusqlite::{Connection, OpenFlags};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema-1.holdup")
}

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bundle.md")
}

/// Makes the fixture of the present schema: `cargo test -p holdup-store --test for_ever -- --ignored`.
/// It stays as it is once a version is released.
#[test]
#[ignore = "writes a file that is kept for ever; run it by hand for a new schema version"]
fn make_the_fixture() {
    std::fs::remove_file(fixture()).ok();
    common::write(&fixture(), &sample(2)).expect("is written");
}

#[test]
fn schema_1_opens_for_ever() {
    // On a copy, because a fixture in a read-only checkout must do as well, and nothing may change it.
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("schema-1.holdup");
    std::fs::copy(fixture(), &path).expect("is copied");
    assert_eq!(holdup_store::read(&path).expect("is read"), sample(2));
    let found = holdup_store::verify(&path).expect("is verified");
    assert!(found.whole, "{found:#?}");
}

#[test]
fn the_present_schema_has_a_fixture() {
    assert_eq!(holdup_store::SCHEMA_VERSION, 1, "keep a fixture of the new version, and a test that opens it");
    let db = Connection::open_with_flags(fixture(), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("is opened");
    let mut statement = db
        .prepare("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rootpage = 0, rootpage, rowid")
        .expect("is prepared");
    let stored: Vec<String> =
        statement.query_map([], |row| row.get(0)).expect("is read").collect::<Result<_, _>>().expect("is text");
    let written: Vec<&str> =
        holdup_store::schema_sql().split(";\n").map(str::trim).filter(|sql| !sql.is_empty()).collect();
    assert_eq!(stored, written, "the schema changed without a new version");
}

#[test]
fn every_column_says_what_it_holds() {
    let tables = holdup_store::tables();
    assert!(tables.len() > 15);
    let db = Connection::open_with_flags(fixture(), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("is opened");
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

const MARK: &str = "<!-- From here on made from the schema: HOLDUP_UPDATE_DOCS=1 cargo test -p holdup-store -->\n";

/// The part of the page that is made from the schema.
fn reference() -> String {
    let mut text = String::new();
    for table in holdup_store::tables() {
        let _ = write!(text, "\n### {}\n\n{}\n\n| column | type | |\n|---|---|---|\n", table.name, table.text);
        for column in table.columns {
            let null = if column.nullable { " or NULL" } else { "" };
            let _ = writeln!(text, "| `{}` | {}{null} | {} |", column.name, column.kind, column.text);
        }
    }
    text
}

#[test]
fn the_page_of_the_schema_is_current() {
    let page = page();
    let text = std::fs::read_to_string(&page).expect("docs/bundle.md is there");
    let (written, _) = text.split_once(MARK).expect("the page has its mark");
    let wanted = format!("{written}{MARK}{}", reference());
    if std::env::var_os("HOLDUP_UPDATE_DOCS").is_some() {
        std::fs::write(&page, wanted).expect("is written");
    } else {
        assert!(text == wanted, "docs/bundle.md is stale: HOLDUP_UPDATE_DOCS=1 cargo test -p holdup-store");
    }
}

#[test]
fn the_queries_of_the_page_run() {
    let text = std::fs::read_to_string(page()).expect("docs/bundle.md is there");
    let db = Connection::open_with_flags(fixture(), OpenFlags::SQLITE_OPEN_READ_ONLY).expect("is opened");
    let queries: Vec<&str> =
        text.split("```sql\n").skip(1).filter_map(|rest| rest.split_once("\n```").map(|(sql, _)| sql)).collect();
    assert!(queries.len() >= 4);
    for sql in queries {
        let rows = db
            .prepare(sql)
            .and_then(|mut s| s.query_map([], |_| Ok(()))?.collect::<rusqlite::Result<Vec<()>>>())
            .unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert!(!rows.is_empty(), "no rows: {sql}");
    }
}
