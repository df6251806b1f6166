//! Compiles holdfast's library for `LD_PRELOAD` (crates/holdfast/preload), which the workload `command` writes out. It is C for a glibc on
//! any target of this build: the programs that holdup starts have their own C library.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The limit of the release's size asks for it: packed, because the file of an architecture with pages of 64 KiB is mostly gaps.
const MOST_PACKED_BYTES: usize = 20_000;

fn main() -> Result<(), String> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    let holdfast = Path::new("../holdfast");
    for watched in ["preload", "include/holdfast.h"] {
        println!("cargo:rerun-if-changed={}", holdfast.join(watched).display());
    }
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=HOLDFAST_CC");
    let library = out.join("libholdfast-pthread.so");
    let compiler = std::env::var("HOLDFAST_CC").unwrap_or_else(|_| "cc".to_owned());
    compile(&compiler, &holdfast.join("preload"), &library).and_then(|()| pack(&library)).map_err(|why| {
        format!(
            "holdfast's library for LD_PRELOAD was not compiled: {why}; hint: install a C compiler and the headers of glibc \
             (Debian: apt-get install gcc libc6-dev), or name a compiler for this architecture in the variable HOLDFAST_CC"
        )
    })
}

fn compile(compiler: &str, sources: &Path, library: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(sources).map_err(|e| format!("{}: {e}", sources.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "c"));
    files.sort();
    let output = Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE"])
        // No symbol asks for a version, and no library is needed (preload.h).
        .args(["-nostdlib", "-fno-stack-protector", "-U_FORTIFY_SOURCE", "-fasynchronous-unwind-tables"])
        .args(["-Wl,-Bsymbolic", "-Wl,-s", "-Wl,-z,noexecstack", "-Wl,-z,noseparate-code"])
        // Else gcc calls functions of libgcc there, which is not linked, and no program would start with the library.
        .args((architecture() == "aarch64").then_some("-mno-outline-atomics"))
        .args(files)
        .arg("-o")
        .arg(library)
        .output()
        .map_err(|e| format!("{compiler}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{compiler}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

fn architecture() -> String {
    std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default()
}

/// Looks whether it is what programs of the target load, and packs it.
fn pack(library: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", library.display());
    let bytes = std::fs::read(library).map_err(failed)?;
    let target = architecture();
    // elf.h: EM_X86_64, EM_AARCH64, EM_RISCV, EM_S390 in the order of its bytes.
    let machine: [u8; 2] = match target.as_str() {
        "x86_64" => [62, 0],
        "aarch64" => [183, 0],
        "riscv64" => [243, 0],
        "s390x" => [0, 22],
        other => return Err(format!("{other} is not supported")),
    };
    if bytes.get(4) != Some(&2) || bytes.get(18..20) != Some(&machine[..]) {
        return Err(format!("the compiler is not one for {target} of 64 bits"));
    }
    let mut packed = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    packed.write_all(&bytes).map_err(failed)?;
    let packed = packed.finish().map_err(failed)?;
    if packed.len() > MOST_PACKED_BYTES {
        return Err(format!("it has {} bytes packed, more than {MOST_PACKED_BYTES}", packed.len()));
    }
    std::fs::write(library.with_extension("so.zlib"), packed).map_err(failed)
}
