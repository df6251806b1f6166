//! Compresses the patches for PostgreSQL that go into the program.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("cargo sets no OUT_DIR"))?;
    let patches = Path::new("../../patches");
    println!("cargo::rerun-if-changed={}", patches.display());
    for folder in fs::read_dir(patches)? {
        let folder = folder?.path();
        let Some(version) = folder.file_name().and_then(|name| name.to_str()).filter(|_| folder.is_dir()) else {
            continue;
        };
        for patch in fs::read_dir(&folder)? {
            let patch = patch?.path();
            let Some(name) = patch.file_stem().and_then(|name| name.to_str()) else { continue };
            if patch.extension().is_some_and(|end| end == "patch") {
                let file = fs::File::create(Path::new(&out).join(format!("{version}-{name}.gz")))?;
                let mut encoder = GzEncoder::new(file, Compression::best());
                encoder.write_all(&fs::read(&patch)?)?;
                encoder.finish()?;
            }
        }
    }
    Ok(())
}
