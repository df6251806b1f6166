//! The bundle: one SQLite file that holds a run, `NAME.holdup`.
//!
//! Its tables are documented in `docs/bundle.md` and, as comments, in the file
//! itself. What a bundle promises:
//!
//! - A trial whose [`Writer::add_trial`] returned is in the file, whole, even after a crash: each call is one
//!   transaction under a rollback journal (`journal_mode = DELETE`) with `synchronous = EXTRA`, so the journal's
//!   removal, which is the commit, is on disk too before the call returns.
//! - Between two calls and after [`Writer::finish`] there is one file. (A write-ahead log leaves
//!   three files behind after a crash, and what was acknowledged sits in the second one.)
//! - A crash inside a call leaves the journal beside the file. The next reader rolls back; where it may not write
//!   there, it does so on a private copy.
//! - Nothing is read unnoticed that was not written so: every part carries a checksum over its values.

// The sample bundle of the tests speaks of the crate by its name, in the tests beside the code too.
#[cfg(test)]
extern crate self as holdup_bundle;

mod boot_logs;
mod captures;
mod decode;
mod deflated;
mod docs;
mod evidence;
mod gather;
mod open;
mod parts;
mod reader;
mod rows;
mod stacks;
#[cfg(test)]
mod tampered;
mod timelines;
mod trouble;
mod verify;
mod write;

pub use docs::{Column, Table, tables};
pub use gather::{read, read_numbers, read_salvage, read_without_events};
pub use open::has_journal;
pub use reader::Reader;
pub use rows::Rows;
pub use trouble::taken;
pub use verify::{Wholeness, verify};
pub use write::Writer;

/// The version of the schema that this holdup writes (`PRAGMA user_version`).
pub const SCHEMA_VERSION: u32 = SCHEMA.len() as u32;

/// What each schema version added to the one before it.
const SCHEMA: [&str; 3] = [include_str!("schema.sql"), include_str!("schema-2.sql"), include_str!("schema-3.sql")];

/// `PRAGMA application_id` of a bundle: ASCII `hldp`.
pub const APPLICATION_ID: i32 = i32::from_be_bytes(*b"hldp");

/// The SQL that makes the tables of a bundle, with its comments.
pub fn schema_sql() -> String {
    SCHEMA.concat()
}
