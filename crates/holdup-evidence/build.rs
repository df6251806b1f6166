//! Compiles the BPF programs: C by clang, one object, found by the loader at run time. A second object has the types that
//! programs and this crate share; `kernel/layout.rs` includes what is written from its BTF. bindgen would do the same with
//! twenty crates and libclang; BTF is what the kernel itself has from the same compiler.

#[path = "build/btf.rs"]
mod btf;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    for folder in ["src/kernel/bpf", "src/collectors", "build.rs", "build"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let programs = out.join("watch.bpf.o");
    compile(&[], &programs)?;
    strip(&programs)?;
    pack(&programs)?;
    let types = out.join("types.bpf.o");
    compile(&["-DSHARED_TYPES"], &types)?;
    let object = std::fs::read(&types).map_err(|e| format!("{}: {e}", types.display()))?;
    std::fs::write(out.join("types.rs"), btf::rust(&object)?).map_err(|e| format!("types.rs: {e}"))
}

/// Takes out what the loader does not read: DWARF, and relocations of BTF, which are applied already.
fn strip(object: &Path) -> Result<(), String> {
    let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", object.display());
    let bytes = std::fs::read(object).map_err(|e| failed(&e))?;
    let mut whole = object::build::elf::Builder::read(&*bytes).map_err(|e| failed(&e))?;
    for section in &mut whole.sections {
        section.delete =
            [".debug", ".rel.debug", ".rel.BTF"].iter().any(|name| section.name.starts_with(name.as_bytes()));
    }
    // The compiler keeps the names of sections and symbols in one table; two are written.
    let names = whole.sections.add();
    (names.name, names.sh_type) = (b".shstrtab"[..].into(), object::elf::SHT_STRTAB);
    names.data = object::build::elf::SectionData::SectionString;
    whole.delete_orphans();
    let mut stripped = Vec::new();
    whole.write(&mut stripped).map_err(|e| failed(&e))?;
    std::fs::write(object, stripped).map_err(|e| failed(&e))
}

/// Packs the object, which the limit of the release's size asks for.
fn pack(object: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", object.display());
    let bytes = std::fs::read(object).map_err(failed)?;
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&bytes).map_err(failed)?;
    std::fs::write(object.with_extension("o.zlib"), packed.finish().map_err(failed)?).map_err(failed)
}

fn compile(options: &[&str], object: &Path) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let source = "src/kernel/bpf/watch.bpf.c";
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-fno-addrsig", "-Wall", "-Wextra", "-Werror"])
        // BTF names its sources: without this by the folder of the build, which would make other bytes in each.
        .arg("-fdebug-compilation-dir=.")
        .args(["-Wno-unused-variable", "-Wno-unused-parameter", "-Wno-missing-field-initializers"])
        .args(["-Isrc/kernel/bpf", "-Isrc/collectors"])
        .args(options)
        .args(["-c", source, "-o"])
        .arg(object)
        .status();
    let why = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("{clang} on {source}: {status}"),
        Err(error) => format!("{clang}: {error}"),
    };
    Err(format!(
        "the BPF programs were not compiled: {why}; hint: install clang 14 or later (Debian: apt-get install clang), or \
         name it in the variable CLANG"
    ))
}
