//! Lines of a text.

use crate::bytes::File;
use holdup_model::Problem;

/// A longer line is cut.
const LONGEST: usize = 1 << 16;
const PIECE: usize = 1 << 18;

pub(crate) struct Lines<'a> {
    pub(crate) file: File<'a>,
    piece: Vec<u8>,
    /// What of the piece was handed on, and the place of its first byte in the file.
    done: usize,
    begin: u64,
    is_whole: bool,
    /// The place of the line that was handed on last.
    pub(crate) at: u64,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(file: File<'a>) -> Self {
        Lines { file, piece: Vec::new(), done: 0, begin: 0, is_whole: false, at: 0 }
    }

    /// The next line without its end; `None` behind the last.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, Problem> {
        let mut looked = self.done;
        let end = loop {
            if let Some(end) = self.piece[looked..].iter().position(|byte| *byte == b'\n') {
                break looked + end;
            }
            if self.is_whole || self.piece.len() - self.done > LONGEST {
                break self.piece.len();
            }
            self.piece.drain(..self.done);
            self.begin += self.done as u64;
            looked = self.piece.len();
            self.done = 0;
            self.piece.resize(looked + PIECE, 0);
            let read = self.file.fill(self.begin + looked as u64, &mut self.piece[looked..])?;
            self.piece.truncate(looked + read);
            self.is_whole = read < PIECE;
        };
        if end == self.piece.len() && self.done == end {
            return Ok(None);
        }
        self.at = self.begin + self.done as u64;
        let begin = std::mem::replace(&mut self.done, (end + 1).min(self.piece.len()));
        let line = &self.piece[begin..end];
        Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}
