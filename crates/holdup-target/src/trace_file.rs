//! Traces of the scheduler as files that a user names.

use holdup_files::open_input;
use holdup_model::Problem;
use holdup_traces::Bytes;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// A compressed trace, or one of standard input, may have this many bytes: they are read at many places.
const MOST_IN_MEMORY: u64 = 256 << 20;

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

/// Opens a trace, which may be compressed; `-` is standard input.
///
/// # Errors
/// When it cannot be read.
pub fn open_trace(path: &Path) -> Result<Box<dyn Bytes>, Problem> {
    open(path).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => Problem::usage(path.display().to_string(), "there is no such file"),
        _ => Problem::usage(path.display().to_string(), e.to_string()),
    })
}

fn open(path: &Path) -> io::Result<Box<dyn Bytes>> {
    if path == Path::new("-") {
        return Ok(Box::new(in_memory(io::stdin())?));
    }
    let file = open_input(path)?;
    let mut head = [0; 6];
    let length = FileExt::read_at(&file, &mut head, 0)?;
    match holdup_kernels::is_compressed(&head[..length]) {
        true => Ok(Box::new(in_memory(holdup_kernels::decompressed(file)?)?)),
        false => Ok(Box::new(Opened { length: file.metadata()?.len(), file })),
    }
}

fn in_memory(from: impl io::Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(MOST_IN_MEMORY + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MOST_IN_MEMORY {
        true => Err(io::Error::other("more than 256 MB cannot be read as a stream: decompress it into a file")),
        false => Ok(bytes),
    }
}
