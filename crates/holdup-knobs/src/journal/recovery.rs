//! What a run that was killed has left changed.

use super::outcome::{self, Outcome, Pending, Reached, Restored};
use super::record::{self, Entry, Server};
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::Problem;

/// Puts back what the journal at `path` lists, the last change first.
///
/// `reach` makes a connection to a server from the string that the journal keeps, which has no password in it.
/// The changes of a process that still runs are not touched. After a boot, what the kernel forgot is struck out.
/// What is left stays in the journal.
///
/// # Errors
/// When the file cannot be read or understood, or cannot be brought up to date.
pub fn recover(
    host: &Host,
    path: &str,
    reach: &dyn Fn(&str) -> Option<Box<dyn PostgresControl>>,
) -> Result<Restored, Problem> {
    let mut entries = record::load(host, path)?;
    let boot_id = record::boot_id(host);
    let mut restored = Restored::default();
    for index in (0..entries.len()).rev() {
        let entry = &entries[index];
        let is_of_this_boot = is_same_boot(entry, boot_id.as_deref());
        if is_of_this_boot && entry.owner.runs(host) {
            let (factor, pid) = (&entry.factor, entry.owner.pid);
            restored.notes.push(format!("{factor} is not touched: pid {pid}, which changed it, still runs"));
            continue;
        }
        let outcome = if is_of_this_boot || outlives_boot(entry) {
            let reached = |server: &Server| reach(&server.connection).map(Reached::Owned);
            outcome::undo_anywhere(host, entry, &reached)
        } else {
            Outcome::Dropped(format!("{} went back by itself: the host was booted since", entry.factor))
        };
        match &outcome {
            Outcome::Restored => restored.notes.push(format!("{} is {} again", entry.factor, entry.old)),
            Outcome::Dropped(why) => restored.notes.push(why.clone()),
            Outcome::Left(_) => {}
        }
        if restored.take(entry, outcome) {
            entries.remove(index);
            record::store(host, path, entries.clone())?;
        }
    }
    Ok(restored)
}

/// Strikes out all that the journal lists without putting it back, but what a running process owns.
/// Gives what was struck out, with the command that would put it back.
///
/// # Errors
/// When the file cannot be removed or brought up to date.
pub fn forget(host: &Host, path: &str) -> Result<Vec<String>, Problem> {
    let Ok(entries) = record::load(host, path) else {
        host.remove_synced(path)?;
        return Ok(vec![format!("the undo journal {path}, which cannot be understood")]);
    };
    let boot_id = record::boot_id(host);
    let (kept, gone): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|e| is_same_boot(e, boot_id.as_deref()) && e.owner.runs(host));
    record::store(host, path, kept)?;
    Ok(gone.iter().map(|entry| Pending::from(entry).to_string()).collect())
}

/// What the journal at `path` lists, oldest first.
///
/// # Errors
/// When the file cannot be read or understood.
pub fn pending(host: &Host, path: &str) -> Result<Vec<Pending>, Problem> {
    Ok(record::load(host, path)?.iter().map(Pending::from).collect())
}

/// Where a boot id is not known the boot counts as the same: looking at what is in force then decides.
fn is_same_boot(entry: &Entry, boot_id: Option<&str>) -> bool {
    match (entry.boot_id.as_deref(), boot_id) {
        (Some(then), Some(now)) => then == now,
        _ => true,
    }
}

fn outlives_boot(entry: &Entry) -> bool {
    crate::find(&entry.factor).is_none_or(|(knob, _)| knob.outlives_boot())
}
