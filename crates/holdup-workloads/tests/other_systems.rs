//! holdfast's header and its library for `LD_PRELOAD` with musl, and on aarch64, which QEMU's user mode runs here.

use holdup_testkit::ignore;
use std::path::{Path, PathBuf};
use std::process::Command;

const HOLDFAST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../holdfast");

/// Ends the test where a program is missing.
fn needs(program: &str, package: &str) {
    if Command::new(program).arg("--version").output().is_err() {
        ignore(format!("there is no {program} on the PATH (Debian: apt-get install {package})"));
    }
}

/// What a program of the C library's own locks prints, or the worker of the header does.
fn passes(command: &mut Command) -> String {
    let output = command.output().expect("it was compiled");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn compile(compiler: &str, flags: &[&str], source: &str, folder: &Path) -> PathBuf {
    let out = folder.join(source.replace('/', "-"));
    let source = Path::new(HOLDFAST).join(source);
    let sources = if source.is_dir() {
        let files =
            std::fs::read_dir(source).expect("the sources are there").map(|entry| entry.expect("a file").path());
        files.filter(|file| file.extension().is_some_and(|extension| extension == "c")).collect()
    } else {
        vec![source]
    };
    let mut compiler = Command::new(compiler);
    compiler.args(["-std=gnu11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread", "-I"]);
    compiler.arg(Path::new(HOLDFAST).join("include")).args(sources).args(flags).arg("-o").arg(&out);
    passes(&mut compiler);
    out
}

/// As build.rs has it.
const LIBRARY: [&str; 7] = [
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-nostdlib",
    "-fno-stack-protector",
    "-U_FORTIFY_SOURCE",
    "-Wl,-Bsymbolic",
];

fn the_header_works_with_musl_and_the_library_leaves_its_programs_alone() {
    needs("musl-gcc", "musl-tools");
    let folder = tempfile::tempdir().expect("a folder");
    let worker = compile("musl-gcc", &[], "tests/c/worker.c", folder.path());
    passes(Command::new(&worker).arg("threads"));
    let library = compile("cc", &LIBRARY, "preload", folder.path());
    let reports = folder.path().join("reports");
    std::fs::create_dir(&reports).expect("it can be made");
    passes(Command::new(&worker).arg("threads").env("LD_PRELOAD", library).env("HOLDFAST_REPORT", &reports));
    for report in std::fs::read_dir(reports).expect("it was made") {
        let text = std::fs::read_to_string(report.expect("a file").path()).expect("text");
        assert!(text.contains("\nc_library unknown\n"), "{text}");
    }
}

/// No process is forked: QEMU 7.2 ends with an assertion of its own when a process with threads does that.
fn the_header_and_the_library_work_on_aarch64() {
    const COMPILER: &str = "aarch64-linux-gnu-gcc";
    needs(COMPILER, "gcc-aarch64-linux-gnu libc6-dev-arm64-cross");
    needs("qemu-aarch64", "qemu-user");
    let folder = tempfile::tempdir().expect("a folder");
    let runs = |program: &Path, preloaded: &str| {
        let mut command = Command::new("qemu-aarch64");
        passes(command.args(["-L", "/usr/aarch64-linux-gnu", "-E", preloaded]).arg(program).arg("threads"))
    };
    runs(&compile(COMPILER, &[], "tests/c/worker.c", folder.path()), "LD_PRELOAD=");
    let library = compile(COMPILER, &[&LIBRARY[..], &["-mno-outline-atomics"]].concat(), "preload", folder.path());
    for name in ["mutex", "cond", "rwlock", "stress"] {
        let program = compile(COMPILER, &[], &format!("tests/c/pthread_{name}.c"), folder.path());
        let with = runs(&program, &format!("LD_PRELOAD={}", library.display()));
        assert_eq!(with, runs(&program, "LD_PRELOAD="), "{name}: the output differs with the library");
    }
}

holdup_testkit::tests!(
    the_header_works_with_musl_and_the_library_leaves_its_programs_alone,
    the_header_and_the_library_work_on_aarch64,
);
