//! The version of the analyser: a sum of its sources, so that maps of other sources are recognised.

use std::path::{Path, PathBuf};

fn main() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=src");
    let mut files = Vec::new();
    below(Path::new("src"), &mut files)?;
    files.sort();
    // FNV-1a of 64 bits: against accidents, not against attacks.
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        for byte in std::fs::read(file)? {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!("cargo:rustc-env=HOLDUP_ANALYSER={}-{sum:016x}", std::env::var("CARGO_PKG_VERSION").unwrap_or_default());
    Ok(())
}

fn below(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            below(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
