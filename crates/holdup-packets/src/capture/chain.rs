//! Files one after another as one capture.

use super::{Cut, Frame, Frames, Reader};
use holdup_model::Problem;

/// Reads captures one after another, as a capture that was written into files in turn: numbers of frames and interfaces go
/// on. Their order is the caller's, and each is opened when the one before it has ended.
pub struct Chain<'a, I> {
    files: I,
    reader: Option<Reader<'a>>,
    /// How many files were begun.
    begun: usize,
    frames: u32,
    interfaces: u32,
    cuts: Vec<(usize, Cut)>,
}

impl<'a, I: Iterator<Item = Result<Reader<'a>, Problem>>> Chain<'a, I> {
    /// Reads what an iterator opens.
    pub fn new(files: I) -> Self {
        Chain { files, reader: None, begun: 0, frames: 0, interfaces: 0, cuts: Vec::new() }
    }

    /// The files, by their place from 0, that are cut; of those that were read to the end.
    pub fn cuts(&self) -> &[(usize, Cut)] {
        &self.cuts
    }

    /// Opens the next file; `false` when there is none.
    fn open(&mut self) -> Result<bool, Problem> {
        if let Some(reader) = self.reader.take() {
            self.cuts.extend(reader.cut().map(|cut| (self.begun - 1, cut)));
            (self.frames, self.interfaces) = (reader.frames, reader.interfaces());
        }
        let Some(next) = self.files.next() else { return Ok(false) };
        self.begun += 1;
        self.reader = Some(next?.after(self.frames, self.interfaces));
        Ok(true)
    }
}

impl<'a, I: Iterator<Item = Result<Reader<'a>, Problem>>> Frames for Chain<'a, I> {
    #[inline]
    fn next(&mut self) -> Result<Option<Frame<'_>>, Problem> {
        let found = loop {
            if let Some(reader) = &mut self.reader
                && let Some(found) = reader.advance()?
            {
                break found;
            }
            if !self.open()? {
                return Ok(None);
            }
        };
        Ok(self.reader.as_ref().map(|reader| reader.found(found)))
    }
}
