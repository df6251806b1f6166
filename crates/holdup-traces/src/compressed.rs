//! Pieces that a tool has compressed inside of its file.

use std::io::Read as _;

/// How.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    Zlib,
    Zstd,
}

/// The most that a piece may become, bytes.
const LARGEST: usize = 64 << 20;

/// The bytes of a piece that says how many it has.
pub(crate) fn decompress(how: Compression, piece: &[u8], length: u32) -> Result<Vec<u8>, String> {
    let length = length as usize;
    if length > LARGEST {
        return Err(format!("a compressed piece says that it has {length} bytes"));
    }
    let mut bytes = Vec::with_capacity(length.min(1 << 20));
    let read = match how {
        Compression::Zlib => flate2::read::ZlibDecoder::new(piece).take(length as u64 + 1).read_to_end(&mut bytes),
        Compression::Zstd => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(piece).map_err(|e| format!("zstd: {e}"))?;
            decoder.take(length as u64 + 1).read_to_end(&mut bytes)
        }
    };
    read.map_err(|e| format!("a compressed piece is damaged: {e}"))?;
    match bytes.len() == length {
        true => Ok(bytes),
        false => Err(format!("a compressed piece has not the {length} bytes that it says")),
    }
}
