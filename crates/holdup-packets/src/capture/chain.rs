//! Several files as one capture.

use super::{Block, Cut, Frame, Frames, Reader};
use holdup_model::Problem;

/// Reads files one after another as one capture: frame and interface numbers continue. A file is opened when the one before it
/// has ended.
pub struct Chain<'a> {
    files: Files<'a>,
    reader: Option<Reader<'a>>,
    begun: usize,
    frames: u32,
    interfaces: u32,
    cuts: Vec<(usize, Cut)>,
}

/// A trait object, so that the loops over frames are compiled in this crate.
type Files<'a> = Box<dyn Iterator<Item = Result<Reader<'a>, Problem>> + Send + 'a>;

impl<'a> Chain<'a> {
    /// Reads the files that an iterator opens.
    pub fn new(files: impl Iterator<Item = Result<Reader<'a>, Problem>> + Send + 'a) -> Self {
        Chain { files: Box::new(files), reader: None, begun: 0, frames: 0, interfaces: 0, cuts: Vec::new() }
    }

    /// Reads one file.
    pub fn one(reader: Reader<'a>) -> Self {
        Chain::new(std::iter::once(Ok(reader)))
    }

    /// The truncated files among those read to the end, by index.
    pub fn cuts(&self) -> &[(usize, Cut)] {
        &self.cuts
    }

    /// Fills a block with the next frames of one file, in the block's own buffer; `false` after the last.
    pub fn block(&mut self, block: &mut Block) -> Result<bool, Problem> {
        loop {
            if let Some(reader) = &mut self.reader
                && reader.block(block)?
            {
                return Ok(true);
            }
            if !self.open()? {
                return Ok(false);
            }
        }
    }

    #[cold]
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

impl Frames for Chain<'_> {
    #[inline(always)]
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
