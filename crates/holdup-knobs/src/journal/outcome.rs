//! What came of undoing.

use super::record::{Entry, Server};
use crate::{KnobContext, Standing};
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::{Problem, Value};
use std::fmt;

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
    /// The factor.
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
    /// The factor.
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
    /// The factor.
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

/// Undoes an entry on the host, or on the server that `reach` finds for it.
pub(super) fn undo_anywhere<'a>(host: &Host, entry: &Entry, reach: &dyn Fn(&Server) -> Option<Reached<'a>>) -> Outcome {
    let Some(server) = &entry.server else {
        return undo(entry, &KnobContext { host, postgres: None, pids: Vec::new() });
    };
    if server.is_temporary {
        let place = server.data_directory.as_deref().unwrap_or(&server.connection);
        return Outcome::Dropped(format!("{} was set in the temporary cluster {place} and goes with it", entry.factor));
    }
    let Some(reached) = reach(server) else {
        return left(
            entry,
            None,
            format!("the server `{}` cannot be reached (no password is kept)", server.connection),
        );
    };
    let control = reached.control();
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

/// Undoes an entry where the knob of this context acts.
pub(super) fn undo(entry: &Entry, context: &KnobContext<'_>) -> Outcome {
    let Some((knob, instance)) = crate::find(&entry.factor) else {
        return left(entry, None, format!("this holdup has no knob {}", entry.knob));
    };
    let told = |problem: Problem| format!("{}: {}", problem.what, problem.why);
    match knob.standing(context, instance, &entry.past()) {
        Err(problem) => left(entry, None, told(problem)),
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
                    left(entry, Some(now), told(problem))
                }
                (Ok(Standing::Foreign(now)), Ok(())) => left(entry, Some(now), "someone else changed it"),
                (Ok(Standing::Ours(now)), Ok(())) => left(entry, Some(now), "the old value did not take"),
                (Err(_), Err(problem)) => left(entry, Some(before), told(problem)),
                (Err(problem), Ok(())) => left(entry, None, told(problem)),
            }
        }
    }
}
