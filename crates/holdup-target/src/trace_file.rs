//! Traces of the scheduler as files that a user names.

use holdup_files::open_input;
use holdup_model::{MemoryBudget, MemoryLease, Problem};
use holdup_traces::Bytes;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A file, of which pieces are read as they are asked for.
struct Opened {
    file: File,
    length: u64,
}

impl Bytes for Opened {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> io::Result<usize> {
        FileExt::read_at(&self.file, into, at)
    }
}

/// A stream, all of it.
struct InMemory {
    bytes: Vec<u8>,
    _taken: MemoryLease,
}

impl AsRef<[u8]> for InMemory {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Opens a trace, which may be compressed; `-` is standard input. Both are in memory, because a trace is read at many places.
///
/// # Errors
/// When it cannot be read, or takes more memory than there is.
pub fn open_trace(path: &Path, budget: &MemoryBudget) -> Result<Box<dyn Bytes>, Problem> {
    open(path, budget).map_err(|e| match e.kind() {
        io::ErrorKind::OutOfMemory => {
            let how = if path == Path::new("-") { "write" } else { "decompress" };
            Problem::usage(path.display().to_string(), e.to_string())
                .hint(format!("{how} it into a file, of which pieces are read"))
        }
        io::ErrorKind::NotFound => Problem::usage(path.display().to_string(), "there is no such file")
            .hint("check the name, and the folder that it is in"),
        _ => Problem::usage(path.display().to_string(), e.to_string()).hint("is the file whole?"),
    })
}

fn open(path: &Path, budget: &MemoryBudget) -> io::Result<Box<dyn Bytes>> {
    if path == Path::new("-") {
        return Ok(Box::new(in_memory(io::stdin(), budget)?));
    }
    let file = open_input(path)?;
    let mut head = [0; 6];
    let length = FileExt::read_at(&file, &mut head, 0)?;
    match holdup_kernels::is_compressed(&head[..length]) {
        true => Ok(Box::new(in_memory(holdup_kernels::decompressed(file)?, budget)?)),
        false => Ok(Box::new(Opened { length: file.metadata()?.len(), file })),
    }
}

fn in_memory(from: impl io::Read, budget: &MemoryBudget) -> io::Result<InMemory> {
    let mut bytes = Vec::new();
    from.take(budget.left().saturating_add(1)).read_to_end(&mut bytes)?;
    let taken = budget.lease(bytes.len() as u64);
    let taken = taken.map_err(|refused| io::Error::new(io::ErrorKind::OutOfMemory, refused.to_string()))?;
    bytes.shrink_to_fit();
    Ok(InMemory { bytes, _taken: taken })
}
