//! What is wrong with a profile, with its line; all of it, not only the first thing.

use holdup_model::{Problem, ProblemKind};
use std::fmt;

/// Faults shown of one profile; more are counted and not shown.
pub const MOST_FAULTS: usize = 20;

/// Faults after which the rest of a file is not read: it is something else.
const ENOUGH_FAULTS: usize = 1000;

/// One thing that is wrong with a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1; 0 when it is about the whole file.
    pub line: u32,
    /// The thing, with the wrong value; empty when it is the file.
    pub what: String,
    /// Why it does not work.
    pub why: String,
    /// What to do about it.
    pub hint: Option<String>,
}

/// All that is wrong with a profile: at least one fault, in the order of lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileErrors {
    /// The file, as it was named.
    pub file: String,
    /// The faults, at most [`MOST_FAULTS`].
    pub faults: Vec<Fault>,
    /// How many more were found; the reading ends after a thousand.
    pub omitted: usize,
}

impl ProfileErrors {
    /// `FILE:LINE: THING`, as far as there are a line and a thing.
    fn subject(&self, fault: &Fault) -> String {
        let mut subject = self.file.clone();
        if fault.line > 0 {
            subject.push_str(&format!(":{}", fault.line));
        }
        if !fault.what.is_empty() {
            subject.push_str(&format!(": {}", fault.what));
        }
        subject
    }
}

impl fmt::Display for ProfileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, fault) in self.faults.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{}: {}", self.subject(fault), fault.why)?;
            if let Some(hint) = &fault.hint {
                write!(f, "\nhint: {hint}")?;
            }
        }
        match self.omitted {
            0 => Ok(()),
            n => write!(f, "\nand {n} more"),
        }
    }
}

impl std::error::Error for ProfileErrors {}

impl From<ProfileErrors> for Problem {
    fn from(errors: ProfileErrors) -> Self {
        if let ([fault], 0) = (errors.faults.as_slice(), errors.omitted) {
            let what = errors.subject(fault);
            return Problem { kind: ProblemKind::Usage, what, why: fault.why.clone(), hint: fault.hint.clone() };
        }
        let count = errors.faults.len() + errors.omitted;
        Problem::usage(errors.file.clone(), format!("{count} errors\n{errors}"))
    }
}

/// A fault without its place yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) why: String,
    pub(super) hint: Option<String>,
}

impl Wrong {
    pub(super) fn new(why: impl Into<String>) -> Self {
        Wrong { why: why.into(), hint: None }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Gathers faults while a profile is read; reading continues after each.
#[derive(Debug, Default)]
pub(super) struct Faults {
    found: Vec<Fault>,
    omitted: usize,
}

impl Faults {
    pub(super) fn add(&mut self, line: u32, what: impl Into<String>, wrong: Wrong) {
        if self.found.len() >= MOST_FAULTS {
            self.omitted += 1;
            return;
        }
        self.found.push(Fault { line, what: what.into(), why: wrong.why, hint: wrong.hint });
    }

    /// How many there are so far.
    pub(super) fn count(&self) -> usize {
        self.found.len() + self.omitted
    }

    /// True if there is no use in continuing.
    pub(super) fn are_enough(&self) -> bool {
        self.count() >= ENOUGH_FAULTS
    }

    /// The faults, when there are any.
    pub(super) fn into_errors(mut self, file: &str) -> Option<ProfileErrors> {
        if self.found.is_empty() {
            return None;
        }
        self.found.sort_by_key(|fault| fault.line);
        Some(ProfileErrors { file: file.to_owned(), faults: self.found, omitted: self.omitted })
    }
}

/// A hint for a name that is not known: the nearest one that is, and the list.
pub(super) fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    let list = format!("known here: {}", known.join(", "));
    // A longer word is no slip of the pen, and comparing it would take long.
    if word.len() > 64 {
        return list;
    }
    let client = known.iter().map(|name| (strsim::damerau_levenshtein(word, name), *name)).min();
    match client {
        Some((distance, name)) if distance <= word.chars().count().max(3) / 3 => {
            format!("did you mean `{name}`? {list}")
        }
        _ => list,
    }
}

/// A text as it may stand in a message, in quotes.
pub(super) fn shown(text: &str) -> String {
    format!("\"{}\"", one_line(text))
}

/// A text as it may stand in a message: on one line and not endless.
pub(super) fn one_line(text: &str) -> String {
    const MOST: usize = 60;
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == MOST {
            out.push('…');
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}
