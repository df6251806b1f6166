//! Bodies in zlib form: made, and read without believing what they claim.

use flate2::Compression;
use flate2::read::{ZlibDecoder, ZlibEncoder};
use holdup_model::{MemoryBudget, MemoryLease};
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

/// The body of a JSON document of columns, with its share of the budget for as long as it is in memory. The error follows the name of
/// the document.
pub(crate) fn parsed<'a, T: serde::Deserialize<'a>>(
    json: &'a [u8],
    budget: &MemoryBudget,
) -> Result<(T, MemoryLease), String> {
    // A number takes 8 bytes, a text those of its string and of the allocator.
    let beside = |byte: &u8| match byte {
        b',' => 9,
        b'"' => 28,
        _ => 0,
    };
    let taken = budget.lease(json.len() as u64 + json.iter().map(beside).sum::<u64>()).map_err(|e| e.to_string())?;
    let body = serde_json::from_slice(json).map_err(|e| format!("is not the JSON of one ({e})"))?;
    Ok((body, taken))
}
