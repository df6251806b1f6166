//! The undo journal: the old value is on disk, synced, before the new one is written.
//!
//! One JSON file, replaced as a whole for each change. Every entry names the process that made the change
//! (with its start time), the boot, and what the knob needs to put things back, so that a new process can
//! do it after a kill -9. What someone else changed meanwhile is left alone and reported.

mod outcome;
mod profile;
mod record;
mod recovery;

pub use outcome::{Applied, Done, Left, Pending, Restored};
pub use profile::{ProfileJournal, refusal, survey, verify};
pub use record::AppliedProfile;
pub use recovery::{Reach, forget, forget_profiles, pending, recover, restore_profiles};

use crate::{Knob, KnobContext, Standing};
use holdup_host::Host;
use holdup_model::{Problem, Value};
use outcome::{Outcome, Silent};
use record::{Book, Entry, Owner, Server};

/// The journal of one run.
pub struct Journal {
    host: Host,
    path: String,
    owner: Owner,
    boot_id: Option<String>,
    opened_unix_ns: i64,
    /// What other processes left in the file; carried along untouched.
    others: Vec<Entry>,
    /// What this process changed, oldest first.
    entries: Vec<Entry>,
    /// The profiles that `entries` come from; none for a run.
    applied: Vec<AppliedProfile>,
    /// True if the file may differ from what is held here.
    is_behind: bool,
}

impl Journal {
    /// Opens the journal at `path` for this process; `now_unix_ns` stands in its entries. Writes nothing.
    ///
    /// What this process has left there before is taken up again, what others left is carried along.
    ///
    /// # Errors
    /// When there is a file that cannot be read or understood: what it holds must not be lost.
    pub fn open(host: Host, path: &str, now_unix_ns: i64) -> Result<Self, Problem> {
        let owner = Owner::this_process(&host);
        let boot_id = record::boot_id(&host);
        let loaded = record::load(&host, path)?;
        let (entries, others) = loaded.entries.into_iter().partition(|e| e.owner == owner && e.boot_id == boot_id);
        let path = path.to_owned();
        let (opened_unix_ns, applied) = (now_unix_ns, Vec::new());
        Ok(Journal { host, path, owner, boot_id, opened_unix_ns, others, entries, applied, is_behind: false })
    }

    /// Shows that a change can be noted, before time is spent on trials that would all be void.
    ///
    /// # Errors
    /// When the disk is full, or may not be written.
    pub fn must_be_writable(&mut self) -> Result<(), Problem> {
        let entries = self.others.iter().chain(&self.entries).cloned().collect();
        record::replace(&self.host, &self.path, Book { entries, applied: self.applied.clone() })?;
        self.sync()
    }

    /// What this run has changed and not yet put back, oldest first.
    pub fn pending(&self) -> Vec<Pending> {
        self.entries.iter().map(Pending::from).collect()
    }

    /// Puts a factor's value in force: the old state goes to disk first, the new one is read back and compared.
    ///
    /// # Errors
    /// When the value is no value of this knob, the host refuses it or takes another one, the journal cannot be
    /// written, or someone else changed the factor since holdup set it. After any error the factor is
    /// as it was before the run, or the error says that it is not, and the journal still knows.
    pub fn apply(&mut self, context: &KnobContext<'_>, factor: &str, value: &Value) -> Result<Applied, Problem> {
        match self.change(context, factor, value) {
            Ok(change) => Ok(change.applied),
            Err(Failed::Untouched(problem)) => Err(problem),
            Err(Failed::Written { changed, problem }) => Err(self.put_back(&changed, context, problem)),
        }
    }

    /// Does what [`Journal::apply`] does, but puts nothing back when the write fails.
    fn change(&mut self, context: &KnobContext<'_>, factor: &str, value: &Value) -> Result<Change, Failed> {
        let (knob, instance) = crate::find(factor)
            .ok_or_else(|| Problem::usage(format!("factor {factor}"), "there is no knob of that name"))?;
        knob.check_here(context, instance, value)?;
        let found = knob.read(context, instance)?;
        if knob.same_here(context, instance, value, &found) {
            return Ok(Change { applied: Applied::Unchanged { value: found }, changed: Vec::new() });
        }
        let server = if knob.is_of_server() { Server::of(context, false) } else { None };
        self.refuse_what_others_left(factor, server.as_ref())?;
        let touched = self.touched(knob, factor, instance, context, server.as_ref())?;
        let already: Vec<&Value> =
            self.entries.iter().filter(|e| e.is_about(factor, server.as_ref())).map(|e| &e.saved).collect();
        let saved = knob.save(context, instance, &already)?;
        let changed =
            self.note(touched, value, saved.map(|saved| self.entry(knob, factor, instance, context, &found, saved)))?;
        let done =
            knob.write(context, instance, value).and_then(|()| read_back(knob, context, instance, factor, value));
        match done {
            Ok(now) => {
                // A later look has to find what is in force, in the host's own words.
                for index in &changed {
                    let Entry { written, ever, .. } = &mut self.entries[*index];
                    *written = vec![now.clone(), value.clone()];
                    written.dedup();
                    if !ever.contains(&now) {
                        ever.push(now.clone());
                    }
                }
                Ok(Change { applied: Applied::Changed { from: found, to: now }, changed })
            }
            Err(problem) => Err(Failed::Written { changed, problem }),
        }
    }

    /// Puts one factor back to what it was before this run. Nothing is done where this run did not change it.
    ///
    /// # Errors
    /// When it cannot be put back, or someone else changed it meanwhile; the journal still knows then.
    pub fn put_back_factor(&mut self, context: &KnobContext<'_>, factor: &str) -> Result<(), Problem> {
        let server = if crate::find(factor).is_some_and(|(knob, _)| knob.is_of_server()) {
            Server::of(context, false)
        } else {
            None
        };
        let (mut undone, mut left) = (Vec::new(), Vec::new());
        for index in outcome::order(&self.entries) {
            if !self.entries[index].is_about(factor, server.as_ref()) {
                continue;
            }
            match outcome::undo(&self.entries[index], context) {
                Outcome::Left(what) => left.push(what.to_string()),
                Outcome::Restored | Outcome::Dropped(_) => undone.push(index),
            }
        }
        if !undone.is_empty() {
            self.entries = without(&self.entries, &undone);
            self.sync()?;
        }
        if left.is_empty() { Ok(()) } else { Err(Problem::host(format!("factor {factor}"), left.join("; "))) }
    }

    /// Puts everything back that this run changed, the last change first. What cannot be put back stays in the
    /// journal and is reported; what someone else changed meanwhile is left alone and reported.
    ///
    /// The settings of a temporary server go with it and are only struck out.
    pub fn restore_all(&mut self, context: &KnobContext<'_>) -> Restored {
        let servers: Vec<_> = context.postgres.into_iter().collect();
        self.restore_with(&servers)
    }

    /// The same where settings of several servers were changed.
    pub fn restore_with(&mut self, servers: &[&dyn holdup_host::postgres::PostgresControl]) -> Restored {
        let (mut restored, mut silent) = (Restored::default(), Silent::default());
        let mut undone = Vec::new();
        for index in outcome::order(&self.entries) {
            let outcome = {
                let entry = &self.entries[index];
                let reach = |wanted: &Server| {
                    let is_it = |s: &&&dyn holdup_host::postgres::PostgresControl| {
                        crate::connection::without_password(&s.connection_string()) == wanted.connection
                    };
                    servers.iter().find(is_it).map(|s| outcome::Reached::Borrowed(*s))
                };
                outcome::undo_anywhere(&self.host, entry, &mut silent, &reach)
            };
            if restored.take(&self.entries[index], outcome) {
                undone.push(index);
                self.sync_without(&undone);
            }
        }
        self.entries = without(&self.entries, &undone);
        if self.is_behind
            && let Err(problem) = self.sync()
        {
            restored
                .notes
                .push(format!("the undo journal still lists what was put back: {}: {}", problem.what, problem.why));
        }
        restored
    }

    /// What an earlier run left must not become the "old value" of this one.
    fn refuse_what_others_left(&self, factor: &str, server: Option<&Server>) -> Result<(), Problem> {
        match self.others.iter().find(|e| e.is_about(factor, server)) {
            None => Ok(()),
            Some(entry) => Err(Problem::host(
                format!("factor {factor}"),
                format!("a run of pid {} changed it and has not put back {}", entry.owner.pid, entry.old),
            )
            .hint("run `holdup restore` first")),
        }
    }

    /// The entries that a write here changes as well; an error when someone else has changed one of them.
    fn touched(
        &self,
        knob: &dyn Knob,
        factor: &str,
        instance: &str,
        context: &KnobContext<'_>,
        server: Option<&Server>,
    ) -> Result<Vec<usize>, Problem> {
        let mut touched = Vec::new();
        for (index, entry) in self.entries.iter().enumerate() {
            if !entry.is_about(factor, server) || !knob.overlaps(context, &entry.saved)? {
                continue;
            }
            if let Standing::Foreign(found) = knob.standing(context, instance, &entry.past())? {
                let wrote = entry.written.last().map_or_else(String::new, |w| format!(" after holdup had set {w}"));
                return Err(Problem::host(
                    format!("factor {}", entry.factor),
                    format!("someone else changed it{wrote}: {found} is in force"),
                )
                .hint(if self.applied.is_empty() {
                    "two that set the same knob cannot both measure; end the other one"
                } else {
                    "`holdup restore` puts the rest back and reports what is left; `holdup restore --forget` then lets go of it"
                }));
            }
            touched.push(index);
        }
        Ok(touched)
    }

    fn entry(
        &self,
        knob: &dyn Knob,
        factor: &str,
        instance: &str,
        context: &KnobContext<'_>,
        old: &Value,
        saved: Value,
    ) -> Entry {
        Entry {
            owner: self.owner,
            boot_id: self.boot_id.clone(),
            opened_unix_ns: self.opened_unix_ns,
            factor: factor.to_owned(),
            knob: knob.meta().id.to_owned(),
            instance: instance.to_owned(),
            server: if knob.is_of_server() { Server::of(context, true) } else { None },
            old: old.clone(),
            saved,
            written: Vec::new(),
            ever: Vec::new(),
        }
    }

    /// Puts on disk that `value` is about to be written; gives the entries that this write is about.
    fn note(&mut self, touched: Vec<usize>, value: &Value, fresh: Option<Entry>) -> Result<Vec<usize>, Problem> {
        let before = self.entries.clone();
        let mut changed = touched;
        if let Some(entry) = fresh {
            changed.push(self.entries.len());
            self.entries.push(entry);
        }
        for index in &changed {
            // After a crash it is not known whether this write took effect, so the value until now counts as ours too.
            let Entry { written, ever, .. } = &mut self.entries[*index];
            written.drain(..written.len().saturating_sub(1));
            written.push(value.clone());
            if !ever.contains(value) {
                ever.push(value.clone());
            }
        }
        if let Err(problem) = self.sync() {
            self.entries = before;
            // The new list may be on disk although the answer was an error; what was not done must not stay in it.
            self.sync_later();
            return Err(problem);
        }
        Ok(changed)
    }

    /// Undoes a write that failed; gives the problem, with what else went wrong.
    fn put_back(&mut self, changed: &[usize], context: &KnobContext<'_>, problem: Problem) -> Problem {
        let mut left = Vec::new();
        for index in changed.iter().rev() {
            match outcome::undo(&self.entries[*index], context) {
                Outcome::Left(what) => left.push(what.to_string()),
                Outcome::Restored | Outcome::Dropped(_) => {
                    self.entries.remove(*index);
                    self.is_behind = true;
                }
            }
        }
        self.sync_later();
        if left.is_empty() {
            return problem;
        }
        Problem { why: format!("{}; and the old value is not back: {}", problem.why, left.join("; ")), ..problem }
    }

    /// Brings the disk up to date; a failure is made good by the next sync or by `restore_all`: an entry too many
    /// is harmless, because what it speaks of is found to be as it was.
    fn sync_later(&mut self) {
        let _retried = self.sync();
    }

    fn sync(&mut self) -> Result<(), Problem> {
        self.store(&[])
    }

    /// As [`Journal::sync_later`], but without the entries that are undone and still held here.
    fn sync_without(&mut self, undone: &[usize]) {
        let _retried = self.store(undone);
    }

    fn store(&mut self, undone: &[usize]) -> Result<(), Problem> {
        self.is_behind = true;
        let entries = self.others.iter().cloned().chain(without(&self.entries, undone)).collect();
        record::store(&self.host, &self.path, Book { entries, applied: self.applied.clone() })?;
        self.is_behind = false;
        Ok(())
    }
}

/// The entries at all other places than these.
fn without(entries: &[Entry], undone: &[usize]) -> Vec<Entry> {
    let kept = entries.iter().enumerate().filter(|(index, _)| !undone.contains(index));
    kept.map(|(_, entry)| entry.clone()).collect()
}

/// A change that was made.
struct Change {
    applied: Applied,
    /// The entries that it is about.
    changed: Vec<usize>,
}

/// A change that was not made, or not wholly.
enum Failed {
    /// Nothing was written.
    Untouched(Problem),
    /// The host may be as the value says, wholly or in part.
    Written {
        /// The entries that it is about.
        changed: Vec<usize>,
        problem: Problem,
    },
}

impl From<Problem> for Failed {
    fn from(problem: Problem) -> Self {
        Failed::Untouched(problem)
    }
}

/// Reads back what was written; the value as it is now.
fn read_back(
    knob: &dyn Knob,
    context: &KnobContext<'_>,
    instance: &str,
    factor: &str,
    wanted: &Value,
) -> Result<Value, Problem> {
    let now = knob.read(context, instance)?;
    if knob.same_here(context, instance, wanted, &now) {
        return Ok(now);
    }
    Err(Problem::host(format!("factor {factor}"), format!("{wanted} was written and {now} is in force")))
}
