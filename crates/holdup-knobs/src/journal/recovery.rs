//! What a run that was killed has left changed.

use super::outcome::{self, Outcome, Pending, Reached, Restored, Silent};
use super::record::{self, Book, Entry, Server};
use super::without;
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::Problem;

/// Puts back what the journal at `path` lists, the last change first.
///
/// `reach` makes a connection to a server from the string that the journal keeps, which has no password in it.
/// The changes of a process that still runs are not touched. After a boot, what the kernel forgot is struck out.
/// What is left stays in the journal. When the file cannot be brought up to date, a note says so.
///
/// # Errors
/// When the file cannot be read or understood.
pub fn recover(host: &Host, path: &str, reach: &Reach<'_>) -> Result<Restored, Problem> {
    put_back(host, path, reach, true)
}

/// Puts back what the journal of profiles at `path` lists, the last change first; otherwise as [`recover`]. Its
/// changes belong to no process, and no profile counts as applied afterwards, also when something is left.
///
/// # Errors
/// As those of [`recover`].
pub fn restore_profiles(host: &Host, path: &str, reach: &Reach<'_>) -> Result<Restored, Problem> {
    put_back(host, path, reach, false)
}

/// Makes a connection to a server from a string without a password.
pub type Reach<'a> = dyn Fn(&str) -> Option<Box<dyn PostgresControl>> + 'a;

fn put_back(host: &Host, path: &str, reach: &Reach<'_>, has_owners: bool) -> Result<Restored, Problem> {
    let Book { entries, applied } = record::load(host, path)?;
    let keep =
        |undone: &[usize]| record::store(host, path, Book { entries: without(&entries, undone), applied: Vec::new() });
    // A disk that is full or read-only is no reason to leave the host as it is: an entry too many is harmless, because
    // what it speaks of is found to be as it was.
    let mut behind = if applied.is_empty() { None } else { keep(&[]).err() };
    let boot_id = record::boot_id(host);
    let (mut restored, mut silent) = (Restored::default(), Silent::default());
    let mut undone = Vec::new();
    for index in outcome::order(&entries) {
        let entry = &entries[index];
        let is_of_this_boot = entry.is_of_boot(boot_id.as_deref());
        if has_owners && is_of_this_boot && entry.owner.runs(host) {
            let (factor, pid) = (&entry.factor, entry.owner.pid);
            restored.notes.push(format!("{factor} is not touched: pid {pid}, which changed it, still runs"));
            continue;
        }
        let outcome = if entry.went_with_boot(boot_id.as_deref()) {
            Outcome::Dropped(format!("{} went back by itself: the host was booted since", entry.factor))
        } else {
            let reached = |server: &Server| reach(&server.connection).map(Reached::Owned);
            outcome::undo_anywhere(host, entry, &mut silent, &reached)
        };
        match &outcome {
            Outcome::Restored => restored.notes.push(format!("{} is {} again", entry.factor, entry.old)),
            Outcome::Dropped(why) => restored.notes.push(why.clone()),
            Outcome::Left(_) => {}
        }
        if restored.take(entry, outcome) {
            undone.push(index);
            behind = keep(&undone).err();
        }
    }
    if behind.is_some()
        && let Err(problem) = keep(&undone)
    {
        restored.notes.push(format!(
            "the undo journal still lists what was put back, so run `holdup restore` again when it can be written: \
             {}: {}",
            problem.what, problem.why
        ));
    }
    Ok(restored)
}

/// Strikes out all that the journal lists without putting it back, but what a running process owns.
/// Gives what was struck out, with the command that would put it back.
///
/// # Errors
/// When the file cannot be removed or brought up to date.
pub fn forget(host: &Host, path: &str) -> Result<Vec<String>, Problem> {
    strike_out(host, path, true)
}

/// The same for the journal of profiles, whose changes no process owns. No profile counts as applied afterwards.
///
/// # Errors
/// As those of [`forget`].
pub fn forget_profiles(host: &Host, path: &str) -> Result<Vec<String>, Problem> {
    strike_out(host, path, false)
}

fn strike_out(host: &Host, path: &str, has_owners: bool) -> Result<Vec<String>, Problem> {
    let Ok(Book { entries, .. }) = record::load(host, path) else {
        host.remove_synced(path)?;
        return Ok(vec![format!("the undo journal {path}, which cannot be understood")]);
    };
    let boot_id = record::boot_id(host);
    let (kept, gone): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|e| has_owners && e.is_of_boot(boot_id.as_deref()) && e.owner.runs(host));
    record::store(host, path, Book { entries: kept, applied: Vec::new() })?;
    Ok(gone.iter().map(|entry| Pending::from(entry).to_string()).collect())
}

/// What the journal at `path` lists, oldest first.
///
/// # Errors
/// When the file cannot be read or understood.
pub fn pending(host: &Host, path: &str) -> Result<Vec<Pending>, Problem> {
    Ok(record::load(host, path)?.entries.iter().map(Pending::from).collect())
}
