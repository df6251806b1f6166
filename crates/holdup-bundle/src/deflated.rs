//! Bodies in zlib form: made, and read without believing what they claim.

use flate2::Compression;
use flate2::read::{ZlibDecoder, ZlibEncoder};
use std::io::Read;

/// The bytes in zlib form.
pub(crate) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut zlib = Vec::new();
    ZlibEncoder::new(bytes, Compression::default()).read_to_end(&mut zlib).expect("reading from memory cannot fail");
    zlib
}

/// Inflates what was `bytes` long, which may be `most` at most; more is never made. The error follows the name of what
/// is inflated.
pub(crate) fn inflate(zlib: &[u8], bytes: u64, most: usize) -> Result<Vec<u8>, String> {
    if bytes > most as u64 {
        return Err(format!("is said to be {bytes} bytes, more than are ever kept"));
    }
    let mut whole = Vec::new();
    ZlibDecoder::new(zlib).take(bytes + 1).read_to_end(&mut whole).map_err(|e| format!("cannot be inflated ({e})"))?;
    if whole.len() as u64 != bytes {
        let more = if whole.len() as u64 > bytes { "more than " } else { "" };
        return Err(format!("inflates to {more}{} bytes, {bytes} were kept", (whole.len() as u64).min(bytes)));
    }
    Ok(whole)
}
