//! Compiles the BPF programs: C by clang, one object, found by the loader at run time. A second object has the types that
//! programs and this crate share; `kernel/layout.rs` includes what is written from its BTF. bindgen would do the same with
//! twenty crates and libclang; BTF is what the kernel itself has from the same compiler.

#[path = "build/btf.rs"]
mod btf;

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    for folder in ["src/kernel/bpf", "src/collectors", "build.rs", "build"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    compile(&[], &out.join("watch.bpf.o"))?;
    let types = out.join("types.bpf.o");
    compile(&["-DSHARED_TYPES"], &types)?;
    let object = std::fs::read(&types).map_err(|e| format!("{}: {e}", types.display()))?;
    std::fs::write(out.join("types.rs"), btf::rust(&object)?).map_err(|e| format!("types.rs: {e}"))
}

fn compile(options: &[&str], object: &Path) -> Result<(), String> {
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let source = "src/kernel/bpf/watch.bpf.c";
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
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
