//! What is wrong with a plan, with its place; all of it, not only the first thing.

use crate::source::{Location, Source};
use holdup_model::{Problem, ProblemKind};
use std::fmt;

/// Errors shown of one plan; more are counted and not shown.
pub const MOST_ERRORS: usize = 20;

/// One thing that is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanError {
    /// The file, as it was named; for a command line the option with its value (`--set clients=x`).
    pub file: String,
    /// The line, from 1; 0 when it does not stand in a file.
    pub line: u32,
    /// The column in characters, from 1; 0 when it does not stand in a file.
    pub column: u32,
    /// The thing, with the wrong value.
    pub what: String,
    /// Why it does not work.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// [`ProblemKind::Usage`], or `Host` where the plan may be right and a host that it names cannot be asked.
    pub kind: ProblemKind,
}

impl PlanError {
    /// `FILE:LINE:COL`, or only what stands for a file where there is none.
    fn place(&self) -> String {
        if self.line == 0 { self.file.clone() } else { format!("{}:{}:{}", self.file, self.line, self.column) }
    }
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.place(), self.what, self.why)?;
        match &self.hint {
            Some(hint) => write!(f, "\nhint: {hint}"),
            None => Ok(()),
        }
    }
}

/// All that is wrong with a plan: at least one error, in the order of files, lines and columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanErrors {
    /// The errors, at most [`MOST_ERRORS`].
    pub errors: Vec<PlanError>,
    /// How many more there are.
    pub omitted: usize,
}

impl fmt::Display for PlanErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.errors.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{error}")?;
        }
        match self.omitted {
            0 => Ok(()),
            n => write!(f, "\nand {n} more"),
        }
    }
}

impl std::error::Error for PlanErrors {}

impl From<PlanErrors> for Problem {
    fn from(errors: PlanErrors) -> Self {
        let is_right = errors.errors.iter().all(|e| e.kind == ProblemKind::Host);
        let kind = if is_right { ProblemKind::Host } else { ProblemKind::Usage };
        if let ([error], 0) = (errors.errors.as_slice(), errors.omitted) {
            return Problem {
                kind,
                what: format!("{}: {}", error.place(), error.what),
                why: error.why.clone(),
                hint: error.hint.clone(),
            };
        }
        let count = errors.errors.len() + errors.omitted;
        let file = errors.errors.first().map_or_else(String::new, |e| e.file.clone());
        let what = if errors.errors.iter().all(|e| e.file == file) { file } else { "the plan".to_owned() };
        Problem { kind, ..Problem::usage(what, format!("{count} errors\n{errors}")) }
    }
}

/// An error without its place yet.
pub(crate) use holdup_model::units::Wrong;

/// Gathers errors while a plan is checked; the checking continues after each.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    sources: Vec<Source>,
    found: Vec<(SortKey, PlanError)>,
    omitted: usize,
}

/// File, offset, order of finding.
type SortKey = (usize, usize, usize);

impl Complaints {
    /// Takes in a file; places name it by the number that is given back.
    pub(crate) fn add_source(&mut self, name: &str, text: &str) -> usize {
        self.sources.push(Source { name: name.to_owned(), text: text.to_owned() });
        self.sources.len() - 1
    }

    pub(crate) fn source_name(&self, file: usize) -> &str {
        self.sources.get(file).map_or("", |s| s.name.as_str())
    }

    pub(crate) fn add(&mut self, place: &Location, what: impl Into<String>, wrong: Wrong) {
        self.add_of_kind(ProblemKind::Usage, place, what, wrong);
    }

    pub(crate) fn add_of_kind(&mut self, kind: ProblemKind, place: &Location, what: impl Into<String>, wrong: Wrong) {
        if self.found.len() >= MOST_ERRORS {
            self.omitted += 1;
            return;
        }
        let (key, file, line, column) = match place {
            Location::In { file, at } => {
                let (line, column) = self.sources.get(*file).map_or((0, 0), |s| s.line_and_column(*at));
                ((*file, *at, self.found.len()), self.source_name(*file).to_owned(), line, column)
            }
            Location::Flag(flag) => ((usize::MAX, 0, self.found.len()), flag.to_string(), 0, 0),
        };
        let error = PlanError { file, line, column, what: what.into(), why: wrong.why, hint: wrong.hint, kind };
        if !self.found.iter().any(|(_, e)| *e == error) {
            self.found.push((key, error));
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.found.len() + self.omitted
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// All errors in order.
    pub(crate) fn into_errors(self) -> PlanErrors {
        let mut found = self.found;
        found.sort_by_key(|(key, _)| *key);
        PlanErrors { errors: found.into_iter().map(|(_, e)| e).collect(), omitted: self.omitted }
    }
}
