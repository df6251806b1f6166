//! A file that is read line by line, or whole, with the place for errors.

use crate::json::Document;
use holdup_model::Problem;
use std::io::{BufRead, Read};

/// The longest line, bytes: beyond it is no text.
const LONGEST_LINE: u64 = 8 << 20;

/// The largest document (JSON, XML, YAML), bytes.
const LARGEST_DOCUMENT: u64 = 512 << 20;

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
    /// What was looked at and is still to be read.
    ahead: Vec<u8>,
    /// Bytes before the line that was read last.
    offset: u64,
    /// The length of that line, its end included.
    length: u64,
    /// Its number, from 1.
    line: u64,
}

impl<'a> Input<'a> {
    /// The contents of a file with this name.
    pub fn new(name: impl Into<String>, source: impl BufRead + 'a) -> Self {
        Input {
            name: name.into(),
            within: None,
            source: Box::new(source),
            ahead: Vec::new(),
            offset: 0,
            length: 0,
            line: 0,
        }
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

    /// The next line without its end. Bytes that are no UTF-8 become U+FFFD.
    pub(crate) fn line(&mut self) -> Result<Option<String>, Problem> {
        let mut bytes = Vec::new();
        let read = self.ahead.as_slice().chain(&mut self.source).take(LONGEST_LINE).read_until(b'\n', &mut bytes);
        read.map_err(|e| self.unreadable(&e))?;
        self.ahead.drain(..bytes.len().min(self.ahead.len()));
        (self.offset, self.length) = (self.offset + self.length, bytes.len() as u64);
        if bytes.is_empty() {
            return Ok(None);
        }
        self.line += 1;
        if self.length == LONGEST_LINE {
            return Err(self.problem("a line of more than 8 MB: it is no text"));
        }
        while bytes.last().is_some_and(|last| b"\r\n".contains(last)) {
            bytes.pop();
        }
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> Result<Vec<u8>, Problem> {
        let mut bytes = std::mem::take(&mut self.ahead);
        let read = self.source.by_ref().take(LARGEST_DOCUMENT).read_to_end(&mut bytes);
        read.map_err(|e| self.unreadable(&e))?;
        if bytes.len() as u64 >= LARGEST_DOCUMENT {
            return Err(Problem::usage(&self.name, "a document of more than 512 MB"));
        }
        Ok(bytes)
    }

    /// All that is left, as one JSON document. Lines before the first one that begins with a brace or bracket (warnings of the
    /// tool) are left out.
    pub(crate) fn json(&mut self) -> Result<Document, Problem> {
        let mut bytes = self.rest()?;
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
        self.document(bytes, (0, 0))
    }

    /// The line that was read last, as one JSON document.
    pub(crate) fn json_line(&self, line: &str) -> Result<Document, Problem> {
        self.document(line.as_bytes().to_vec(), (self.line.saturating_sub(1), self.offset))
    }

    fn document(&self, bytes: Vec<u8>, before: (u64, u64)) -> Result<Document, Problem> {
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
        Ok(Document { name: self.name.clone(), before, bytes, value })
    }

    /// What is wrong with the line that was read last.
    pub(crate) fn problem(&self, why: impl Into<String>) -> Problem {
        Problem::usage(format!("{}, line {} (byte {})", self.name, self.line, self.offset), why)
    }

    fn unreadable(&self, error: &std::io::Error) -> Problem {
        let at = self.offset + self.length;
        Problem::usage(&self.name, format!("after byte {at}: {error}")).hint("is the file whole?")
    }
}
