//! Entry points of the fuzz targets in fuzz/.

use std::path::Path;

/// Unpacks bytes as a .deb; returns the number of files.
pub fn deb(mut bytes: &[u8], into: &Path) -> Result<usize, String> {
    let read = crate::archive::deb_from(&mut bytes, Some((into, &|_| true)));
    read.map(|(_, unpacked)| unpacked.files.len()).map_err(|e| e.to_string())
}

/// Unpacks bytes as an .rpm; returns the number of files.
pub fn rpm(mut bytes: &[u8], into: &Path) -> Result<usize, String> {
    let read = crate::archive::rpm_from(&mut bytes, into, &|_| true);
    read.map(|(_, unpacked)| unpacked.files.len()).map_err(|e| e.to_string())
}
