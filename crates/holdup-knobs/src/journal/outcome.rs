//! What came of undoing.

use super::record::{Entry, Server};
use crate::{KnobContext, Standing};
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::{Problem, Value};
use std::fmt;
use std::sync::mpsc;
use std::time::Duration;

/// What [`super::Journal::apply`] did.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    /// The value was in force already.
    Unchanged {
        /// The value as the host gives it.
        value: Value,
    },
    /// It is in force now.
    Changed {
        /// What was in force before.
        from: Value,
        /// What is in force now, as the host gives it.
        to: Value,
    },
}

/// A factor that is as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Done {
    pub factor: String,
    /// The value that is in force again.
    pub value: Value,
}

impl fmt::Display for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {} again", self.factor, self.value)
    }
}

/// A factor that is not as it was.
#[derive(Debug, Clone, PartialEq)]
pub struct Left {
    pub factor: String,
    /// The value that was in force before the run.
    pub wanted: Value,
    /// The value that is in force now, if it can be read.
    pub found: Option<Value>,
    /// Why it was not put back.
    pub why: String,
    /// A command of the shell, or SQL, that puts it back.
    pub command: String,
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            Some(found) => write!(f, "{} is {found} and was {}", self.factor, self.wanted)?,
            None => write!(f, "{} was {}, what it is now is not known", self.factor, self.wanted)?,
        }
        write!(f, ": {}; to put it back: {}", self.why, self.command)
    }
}

/// What came of putting everything back.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Restored {
    /// What is as it was.
    pub restored: Vec<Done>,
    /// What is not; it stays in the journal.
    pub left: Vec<Left>,
    /// What needed nothing any more and why, and what else is worth saying.
    pub notes: Vec<String>,
    /// Factors whose servers or processes are gone, or go as a whole.
    pub dropped: Vec<String>,
}

impl Restored {
    /// The problem, when something is left (exit code 5).
    ///
    /// # Errors
    /// When something is left.
    pub fn check(&self) -> Result<(), Problem> {
        if self.left.is_empty() {
            return Ok(());
        }
        let left: Vec<String> = self.left.iter().map(ToString::to_string).collect();
        Err(Problem::new(holdup_model::ProblemKind::NotRestored, "the host was not fully restored", left.join("; ")))
    }

    /// Takes an outcome in; whether the entry is done with.
    pub(super) fn take(&mut self, entry: &Entry, outcome: Outcome) -> bool {
        match outcome {
            Outcome::Restored => {
                self.restored.push(Done { factor: entry.factor.clone(), value: entry.old.clone() });
                true
            }
            Outcome::Dropped(_) => {
                self.dropped.push(entry.factor.clone());
                true
            }
            Outcome::Left(left) => {
                self.left.push(*left);
                false
            }
        }
    }
}

/// A change that is not yet put back.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    pub factor: String,
    /// The value that was in force before.
    pub old: Value,
    /// The value that holdup wrote last.
    pub written: Option<Value>,
    /// The process that wrote it.
    pub pid: u32,
    /// When its journal was opened, ns since 1970.
    pub opened_unix_ns: i64,
    /// A command of the shell, or SQL, that puts it back.
    pub command: String,
}

impl From<&Entry> for Pending {
    fn from(entry: &Entry) -> Self {
        Pending {
            factor: entry.factor.clone(),
            old: entry.old.clone(),
            written: entry.written.last().cloned(),
            pid: entry.owner.pid,
            opened_unix_ns: entry.opened_unix_ns,
            command: by_hand(entry),
        }
    }
}

impl fmt::Display for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} was {}", self.factor, self.old)?;
        if let Some(written) = &self.written {
            write!(f, ", pid {} set {written}", self.pid)?;
        }
        write!(f, "; to put it back: {}", self.command)
    }
}

/// What came of one entry.
pub(super) enum Outcome {
    Restored,
    Dropped(String),
    Left(Box<Left>),
}

/// A server that was reached for an entry.
pub(super) enum Reached<'a> {
    Borrowed(&'a dyn PostgresControl),
    Owned(Box<dyn PostgresControl>),
}

impl Reached<'_> {
    fn control(&self) -> &dyn PostgresControl {
        match self {
            Reached::Borrowed(server) => *server,
            Reached::Owned(server) => server.as_ref(),
        }
    }
}

fn by_hand(entry: &Entry) -> String {
    match crate::find(&entry.factor) {
        Some((knob, instance)) => knob.by_hand(instance, &entry.saved),
        None => format!("set {} to {} again", entry.factor, entry.old),
    }
}

fn left(entry: &Entry, found: Option<Value>, why: impl Into<String>) -> Outcome {
    let (factor, wanted) = (entry.factor.clone(), entry.old.clone());
    Outcome::Left(Box::new(Left { factor, wanted, found, why: why.into(), command: by_hand(entry) }))
}

/// How long the host may take to put one thing back: huge pages of a large host are freed one by one.
const LONGEST: Duration = Duration::from_secs(120);

/// The order in which entries are undone: the last change first, but what is the whole host's before what single
/// processes have, and settings of servers, which may not answer, at the end. The kernel fills in a task's slice from
/// the host's default when the task is put back, and a task that sleeps keeps showing that one
/// (kernel/sched/syscalls.c:get_params, kernel/sched/fair.c:place_entity, v6.18).
pub(super) fn order(entries: &[Entry]) -> Vec<usize> {
    let rank = |entry: &Entry| match crate::find(&entry.factor) {
        _ if entry.server.is_some() => 2,
        Some((knob, _)) if knob.is_of_processes() => 1,
        _ => 0,
    };
    let mut order: Vec<usize> = (0..entries.len()).rev().collect();
    order.sort_by_key(|index| rank(&entries[*index]));
    order
}

/// Servers that did not answer while things were put back: they are not asked again for each of their settings.
#[derive(Default)]
pub(super) struct Silent(Vec<String>);

/// Undoes an entry on the host, or on the server that `reach` finds for it.
pub(super) fn undo_anywhere<'a>(
    host: &Host,
    entry: &Entry,
    silent: &mut Silent,
    reach: &dyn Fn(&Server) -> Option<Reached<'a>>,
) -> Outcome {
    let Some(server) = &entry.server else { return undo_in_time(host, entry, LONGEST) };
    if server.is_temporary {
        let place = server.data_directory.as_deref().unwrap_or(&server.connection);
        return Outcome::Dropped(format!("{} was set in the temporary cluster {place} and goes with it", entry.factor));
    }
    let unreached = |why: &str| left(entry, None, format!("the server `{}` {why}", server.connection));
    if silent.0.contains(&server.connection) {
        return unreached("did not answer");
    }
    let Some(reached) = reach(server) else {
        silent.0.push(server.connection.clone());
        return unreached("cannot be reached (no password is kept)");
    };
    let control = reached.control();
    if let Err(problem) = control.query("SELECT 1") {
        silent.0.push(server.connection.clone());
        return unreached(&format!("does not answer: {}", problem.why));
    }
    let there = super::record::data_directory(control);
    if let (Some(then), Some(now)) = (&server.data_directory, &there)
        && then != now
    {
        return left(
            entry,
            None,
            format!("the server `{}` is another one now: its data is in {now}, not in {then}", server.connection),
        );
    }
    undo(entry, &KnobContext { host, postgres: Some(control), pids: Vec::new() })
}

/// Undoes an entry on the host. A file of the kernel that takes no value must not keep the rest from being put back, so
/// it is done by a thread that is given up after `limit`.
fn undo_in_time(host: &Host, entry: &Entry, limit: Duration) -> Outcome {
    let (answer, answered) = mpsc::channel();
    let (for_thread, of_thread) = (host.clone(), entry.clone());
    let work = move || {
        let outcome = undo(&of_thread, &KnobContext { host: &for_thread, postgres: None, pids: Vec::new() });
        // Given up; then it is reported as not put back.
        let _too_late = answer.send(outcome);
    };
    if std::thread::Builder::new().name("holdup-restore".to_owned()).spawn(work).is_err() {
        return undo(entry, &KnobContext { host, postgres: None, pids: Vec::new() });
    }
    match answered.recv_timeout(limit) {
        Ok(outcome) => outcome,
        Err(_) => left(entry, None, format!("the host has not taken the old value within {} s", limit.as_secs_f64())),
    }
}

/// Undoes an entry where the knob of this context acts.
pub(super) fn undo(entry: &Entry, context: &KnobContext<'_>) -> Outcome {
    let Some((knob, instance)) = crate::find(&entry.factor) else {
        return left(entry, None, format!("this holdup has no knob {}", entry.knob));
    };
    let words = |problem: Problem| format!("{}: {}", problem.what, problem.why);
    match knob.standing(context, instance, &entry.past()) {
        Err(problem) => left(entry, None, words(problem)),
        Ok(Standing::Restored) => Outcome::Restored,
        Ok(Standing::Gone(why)) => Outcome::Dropped(format!("{}: {why}", entry.factor)),
        Ok(Standing::Foreign(found)) => {
            let wrote = entry.written.last().map_or_else(String::new, |w| format!(" after holdup had set {w}"));
            left(entry, Some(found), format!("someone else changed it{wrote}"))
        }
        Ok(Standing::Ours(before) | Standing::Alike(before)) => {
            let tried = knob.restore(context, instance, &entry.past());
            match (knob.standing(context, instance, &entry.past()), tried) {
                (Ok(Standing::Restored), _) | (Ok(Standing::Alike(_)), Ok(())) => Outcome::Restored,
                (Ok(Standing::Gone(why)), _) => Outcome::Dropped(format!("{}: {why}", entry.factor)),
                (Ok(Standing::Alike(now) | Standing::Ours(now) | Standing::Foreign(now)), Err(problem)) => {
                    left(entry, Some(now), words(problem))
                }
                (Ok(Standing::Foreign(now)), Ok(())) => left(entry, Some(now), "someone else changed it"),
                (Ok(Standing::Ours(now)), Ok(())) => left(entry, Some(now), "the old value did not take"),
                (Err(_), Err(problem)) => left(entry, Some(before), words(problem)),
                (Err(problem), Ok(())) => left(entry, None, words(problem)),
            }
        }
    }
}
