//! What the fuzzers call: readers of any bytes, which write below a folder of theirs.

use std::path::Path;

/// Reads bytes as a .deb and unpacks all of it; the number of files, or why it cannot be.
///
/// # Errors
/// Why the bytes are no whole package.
pub fn deb(mut bytes: &[u8], into: &Path) -> Result<usize, String> {
    let read = crate::archive::deb_from(&mut bytes, Some((into, &|_| true)));
    read.map(|(_, unpacked)| unpacked.files.len()).map_err(|e| e.to_string())
}

/// Reads bytes as an .rpm and unpacks all of it; the number of files, or why it cannot be.
///
/// # Errors
/// Why the bytes are no whole package.
pub fn rpm(mut bytes: &[u8], into: &Path) -> Result<usize, String> {
    let read = crate::archive::rpm_from(&mut bytes, into, &|_| true);
    read.map(|(_, unpacked)| unpacked.files.len()).map_err(|e| e.to_string())
}
