//! The major version of a running server, without a connection.
//!
//! Every build has what `postgres --version` prints in its read-only data (PG_BACKEND_VERSIONSTR, common/config.h), a
//! stripped one too. It is read where the program is mapped, so it is right in a container, and after an update replaced
//! the file. PG_VERSION of the data directory would have to be read as the server's user (docs/security.md).

use super::wait_events::{is_known, wait_event_label};
use crate::CollectContext;
use crate::kernel::analysed::{ProgramCache, look_in_program};
use crate::processes::Area;
use memchr::memmem;
use object::{Object as _, ObjectSegment as _, SegmentFlags};

/// What `postgres --version` prints before the number.
const BEFORE: &[u8] = b"postgres (PostgreSQL) ";

/// The major version of the server that a process belongs to.
///
/// # Errors
/// Why it is not known. Betas number wait events as they like: a version that is not released is not known.
fn server_version(context: &CollectContext, pid: u32, known: &mut ProgramCache<u32>) -> Result<u32, String> {
    let look = |file: &Area, bytes: &[u8]| of_program(bytes).map_err(|why| format!("{}: {why}", file.name()));
    look_in_program(context, pid, known, look).map(|(_, version)| version)
}

fn of_program(bytes: &[u8]) -> Result<u32, String> {
    let elf = object::File::parse(bytes).map_err(|e| e.to_string())?;
    let is_constant =
        |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_W.0 == 0);
    let constants = elf.segments().filter(|segment| is_constant(segment.flags())).filter_map(|s| s.data().ok());
    let found = constants.filter_map(|data| data.get(memmem::find(data, BEFORE)? + BEFORE.len()..)).next();
    let word = |rest: &[u8]| -> String {
        let is_of_it = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'.';
        rest.iter().take(16).take_while(is_of_it).map(|byte| char::from(*byte)).collect()
    };
    let word = word(found.ok_or("it has no version of PostgreSQL")?);
    released(&word).ok_or_else(|| format!("PostgreSQL `{word}` is no released version"))
}

/// The major version of `18.6` or `19rc1`.
fn released(version: &str) -> Option<u32> {
    let major = version.split_once('.').or_else(|| version.split_once("rc")).map_or(version, |(major, _)| major);
    major.parse().ok()
}

/// The versions of the servers under test, by role.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    by_role: Vec<Option<u32>>,
    /// What has no names, and why.
    pub(crate) notes: Vec<String>,
}

impl Versions {
    /// Of those roles whose programs are servers.
    pub(crate) fn read(context: &CollectContext, roles: &[String], is_server: impl Fn(usize) -> bool) -> Self {
        let (mut versions, mut known) = (Versions { by_role: Vec::new(), notes: Vec::new() }, ProgramCache::new());
        for (number, role) in roles.iter().enumerate() {
            let version = if is_server(number) { versions.of_role(context, role, &mut known) } else { None };
            versions.by_role.push(version);
        }
        versions
    }

    fn of_role(&mut self, context: &CollectContext, role: &str, known: &mut ProgramCache<u32>) -> Option<u32> {
        let of_role = context.subjects.iter().filter(|subject| subject.role == role);
        let mut found: Vec<_> = of_role.map(|subject| server_version(context, subject.pid, known)).collect();
        // What runs beside a server, such as its load, is none.
        if found.iter().any(Result::is_ok) {
            found.retain(Result::is_ok);
        }
        found.dedup();
        let why = match found.as_slice() {
            [Ok(major)] if is_known(*major) => return Some(*major),
            [Ok(major)] => format!("PostgreSQL {major} is not known"),
            [Err(why)] => why.clone(),
            _ => format!("{role} has servers of several versions"),
        };
        self.notes.push(format!("{why}: wait events have numbers instead of names"));
        None
    }

    /// The major version of a role's server.
    pub(crate) fn of(&self, role: u32) -> Option<u32> {
        self.by_role.get(role as usize).copied().flatten()
    }

    /// What a task of a role waits for.
    pub(crate) fn wait_event(&self, role: u32, number: u32) -> String {
        wait_event_label(self.of(role), number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_released_versions_are_versions() {
        let found = ["15.18", "18", "19rc1", "20.0", "19beta2", "20devel", "", "15.x", "9.6.24"].map(released);
        let beta = None;
        assert_eq!(found, [Some(15), Some(18), Some(19), Some(20), beta, None, None, Some(15), Some(9)]);
    }

    #[test]
    fn a_program_that_is_no_server_has_no_version() {
        let me = server_version(&CollectContext::default(), std::process::id(), &mut ProgramCache::new());
        // This test has the words in its own constants, and no number behind them.
        let why = me.expect_err("it is none");
        assert!(why.ends_with("is no released version") || why.ends_with("it has no version of PostgreSQL"), "{why}");
        assert_eq!(of_program(b"text").ok(), None);
    }

    #[test]
    fn a_version_that_is_not_known_is_said() {
        let versions = Versions { by_role: vec![None, Some(15)], notes: Vec::new() };
        let events = [0, 1, 2].map(|role| versions.wait_event(role, 0x0300_0005));
        assert_eq!(events, ["Lock number 5", "Lock:transactionid", "Lock number 5"]);
    }
}
