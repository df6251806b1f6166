//! A file that is read line by line, or whole, with the place for errors.

use crate::json::{Document, parsed_bytes};
use crate::{Results, Sample};
use holdup_model::{MemoryBudget, Problem};
use std::cell::Cell;
use std::io::{BufRead, Read};

/// The longest line, bytes: beyond it is no text.
const LONGEST_LINE: u64 = 8 << 20;

/// Memory of a fact beside its text, bytes: nothing else that is kept of a line takes more.
const BESIDE_LINE: u64 = 192;

/// Longer runs have no window in a bundle, ns: 63 bits, 292 years.
const LONGEST_NS: u64 = i64::MAX as u64;

/// A file, with the line of a byte of it; `before` are the lines and bytes of the file that are not in `bytes`.
pub(crate) fn place(name: &str, before: (u64, u64), bytes: &[u8], offset: usize) -> String {
    let line = before.0 + bytes[..offset].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
    format!("{name}, line {line} (byte {})", before.1 + offset as u64)
}

/// A file of results.
pub struct Input<'a> {
    name: String,
    /// Its path in the folder that was named.
    within: Option<String>,
    source: Box<dyn BufRead + 'a>,
    budget: MemoryBudget,
    /// What was looked at and is still to be read.
    ahead: Vec<u8>,
    /// Bytes before the line that was read last.
    offset: u64,
    /// The length of that line, its end included.
    length: u64,
    /// Its number, from 1.
    line: u64,
    /// Bytes that it has of the budget until the next one is read.
    lent: Cell<u64>,
}

impl<'a> Input<'a> {
    /// The contents of a file with this name.
    pub fn new(name: impl Into<String>, source: impl BufRead + 'a) -> Self {
        Input {
            name: name.into(),
            within: None,
            source: Box::new(source),
            budget: MemoryBudget::default(),
            ahead: Vec::new(),
            offset: 0,
            length: 0,
            line: 0,
            lent: Cell::default(),
        }
    }

    /// An input of which no more is kept than this budget has.
    #[must_use]
    pub fn limited_to(self, budget: &MemoryBudget) -> Self {
        Input { budget: budget.clone(), ..self }
    }

    /// The name for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// It is at this path of a folder that was named.
    pub(crate) fn place(&mut self, within: &str) {
        self.within = Some(within.to_owned());
    }

    /// Its path in the folder that was named, if one was.
    pub(crate) fn within(&self) -> Option<&str> {
        self.within.as_deref()
    }

    /// The begin of it as text, which is still to be read.
    pub(crate) fn head(&mut self, bytes: usize) -> Result<String, Problem> {
        let missing = bytes.saturating_sub(self.ahead.len()) as u64;
        let read = self.source.by_ref().take(missing).read_to_end(&mut self.ahead);
        read.map_err(|e| self.unreadable(&e))?;
        Ok(String::from_utf8_lossy(&self.ahead).into_owned())
    }

    /// The next line without its end. Bytes that are no UTF-8 become U+FFFD. It takes of the budget what may be kept of it, and gives
    /// back what the line before took unless [`Input::keep_line`] was called: logs may have any number of lines that are counted or
    /// passed over.
    pub(crate) fn line(&mut self) -> Result<Option<String>, Problem> {
        let mut bytes = Vec::new();
        let read = self.ahead.as_slice().chain(&mut self.source).take(LONGEST_LINE).read_until(b'\n', &mut bytes);
        read.map_err(|e| self.unreadable(&e))?;
        self.ahead.drain(..bytes.len().min(self.ahead.len()));
        (self.offset, self.length) = (self.offset + self.length, bytes.len() as u64);
        self.budget.give(self.lent.take());
        if bytes.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        if self.length == LONGEST_LINE {
            return Err(self.problem("a line of more than 8 MB: it is no text"));
        }
        let bytes_kept = BESIDE_LINE + 2 * self.length;
        self.take(bytes_kept)?;
        self.lent.set(bytes_kept);
        while bytes.last().is_some_and(|last| b"\r\n".contains(last)) {
            bytes.pop();
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Keeps what the line that was read last has of the budget: a part of it is kept beside the runs, or beside one fact for each label,
    /// metric and run.
    pub(crate) fn keep_line(&self) {
        self.lent.set(0);
    }

    pub(crate) fn take(&self, bytes: u64) -> Result<(), Problem> {
        self.budget.take(bytes).map_err(|refused| refused.of(self.here()))
    }

    /// Adds runs to the results of the input.
    ///
    /// # Errors
    /// When they take more memory than there is for them, or are longer than a bundle can hold.
    pub(crate) fn keep(&self, results: &mut Results, samples: impl IntoIterator<Item = Sample>) -> Result<(), Problem> {
        for mut sample in samples {
            if let Some(ns) = sample.length_ns.filter(|ns| *ns > LONGEST_NS) {
                return Err(self.problem(format!("{ns} ns: no run is as long")));
            }
            sample.histograms.iter_mut().for_each(|named| named.histogram.shrink_to_fit());
            self.take(sample.memory_bytes())?;
            results.samples.push(sample);
        }
        Ok(())
    }

    /// All that is left; `times` its size is taken of the budget for it and what is made of it.
    pub(crate) fn rest(&mut self, times: u64) -> Result<Vec<u8>, Problem> {
        let mut bytes = std::mem::take(&mut self.ahead);
        let most = self.budget.left() / times + 1;
        let read = self.source.by_ref().take(most).read_to_end(&mut bytes);
        read.map_err(|e| self.unreadable(&e))?;
        self.take(times * bytes.len() as u64)?;
        Ok(bytes)
    }

    /// All that is left, as one JSON document. Lines before the first one that begins with a brace or bracket (warnings of the
    /// tool) are left out.
    pub(crate) fn json(&mut self) -> Result<Document, Problem> {
        let mut bytes = self.rest(1)?;
        let mut line = 0;
        let begin = bytes.split_inclusive(|byte| *byte == b'\n').find_map(|text| {
            let begin = text.iter().position(|byte| !byte.is_ascii_whitespace());
            let at = line + begin.unwrap_or(0);
            line += text.len();
            begin.is_some_and(|begin| b"{[".contains(&text[begin])).then_some(at)
        });
        let begin = begin.unwrap_or(0);
        // Spaces keep the place of what follows.
        bytes[..begin].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        let taken = bytes.len() as u64;
        self.document(bytes, (0, 0), taken)
    }

    /// The line that was read last, as one JSON document.
    pub(crate) fn json_line(&self, line: &str) -> Result<Document, Problem> {
        self.document(line.as_bytes().to_vec(), (self.line.saturating_sub(1), self.offset), 0)
    }

    /// `taken` is what the bytes have of the budget already.
    fn document(&self, bytes: Vec<u8>, before: (u64, u64), taken: u64) -> Result<Document, Problem> {
        let parsed = parsed_bytes(&bytes);
        self.take(parsed)?;
        let value = serde_json::from_slice(&bytes).map_err(|e| {
            let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(e.line().saturating_sub(1));
            let offset = lines.map(<[u8]>::len).sum::<usize>() + e.column().saturating_sub(1);
            let what = place(&self.name, before, &bytes, offset.min(bytes.len()));
            let why = e.to_string();
            let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why);
            match e.is_eof() {
                true => Problem::usage(what, format!("it ends early: {why}")).hint("the run was cut, or the copy"),
                false => Problem::usage(what, why),
            }
        })?;
        Ok(Document {
            name: self.name.clone(),
            before,
            bytes,
            value,
            budget: self.budget.clone(),
            taken: taken + parsed,
        })
    }

    /// What is wrong with the line that was read last.
    pub(crate) fn problem(&self, why: impl Into<String>) -> Problem {
        Problem::usage(self.here(), why)
    }

    /// The line that was read last, or the file where none was.
    fn here(&self) -> String {
        match self.line {
            0 => self.name.clone(),
            line => format!("{}, line {line} (byte {})", self.name, self.offset),
        }
    }

    fn unreadable(&self, error: &std::io::Error) -> Problem {
        let at = self.offset + self.length;
        Problem::usage(&self.name, format!("after byte {at}: {error}")).hint("is the file whole?")
    }
}
