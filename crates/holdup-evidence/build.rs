//! Compiles the BPF programs: C by clang, one object, found by the loader at run time.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    for folder in ["src/kernel/bpf", "src/collectors"] {
        println!("cargo:rerun-if-changed={folder}");
    }
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    compile(&clang, Path::new("src/kernel/bpf/watch.bpf.c"), &out.join("watch.bpf.o"))
}

fn compile(clang: &str, source: &Path, object: &Path) -> Result<(), String> {
    let status = Command::new(clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-Wno-unused-variable", "-Wno-unused-parameter", "-Wno-missing-field-initializers"])
        .args(["-Isrc/kernel/bpf", "-Isrc/collectors", "-c"])
        .arg(source)
        .arg("-o")
        .arg(object)
        .status();
    let why = match status {
        Ok(status) if status.success() => return Ok(()),
        Ok(status) => format!("{clang} on {}: {status}", source.display()),
        Err(error) => format!("{clang}: {error}"),
    };
    Err(format!(
        "the BPF programs were not compiled: {why}; hint: install clang 14 or later (Debian: apt-get install clang), or \
         name it in the variable CLANG"
    ))
}
