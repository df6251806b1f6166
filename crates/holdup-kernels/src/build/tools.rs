//! The programs and headers for building a kernel, checked before it starts.
//!
//! Source: `Documentation/process/changes.rst` (v7.2) and make's calls for a guest's configuration on x86.

use super::config::Fragment;
use holdup_model::Problem;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Programs and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("make", "make"),
    ("gcc", "gcc"),
    ("ld", "binutils"),
    ("flex", "flex"),
    ("bison", "bison"),
    ("bc", "bc"),
    ("gzip", "gzip"),
    ("awk", "mawk"),
    ("sed", "sed"),
    ("find", "findutils"),
];

/// The versions of the tools: part of a build's key, because another compiler makes another kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tools {
    /// The first lines of `gcc --version` and `ld --version`.
    pub(super) versions: String,
}

impl Tools {
    ///
    /// # Errors
    /// When one is missing: even a cached kernel is identified by its compiler.
    pub(super) fn versions() -> Result<Tools, Problem> {
        Ok(Tools { versions: format!("{}; {}", version("gcc", "gcc")?, version("ld", "binutils")?) })
    }

    ///
    /// # Errors
    /// Lists what is missing and how to install it.
    pub(super) fn check(fragment: &Fragment, patches: bool) -> Result<(), Problem> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut missing: Vec<(&str, &str)> =
            PROGRAMS.iter().filter(|(name, _)| !is_there(&path, name)).copied().collect();
        if patches && !is_there(&path, "patch") {
            missing.push(("patch", "patch"));
        }
        if fragment.is_set("DEBUG_INFO_BTF") && !is_there(&path, "pahole") {
            missing.push(("pahole (for DEBUG_INFO_BTF)", "dwarves"));
        }
        if fragment.is_set("KERNEL_ZSTD") && !is_there(&path, "zstd") {
            missing.push(("zstd (for KERNEL_ZSTD)", "zstd"));
        }
        // x86 builds the tree's objtool, which needs libelf.
        if !missing.iter().any(|(name, _)| *name == "gcc") {
            for (header, package) in [("stdio.h", "libc6-dev"), ("gelf.h", "libelf-dev")] {
                if !has_header(header) {
                    missing.push((header, package));
                }
            }
        }
        refuse("building a kernel", &missing)
    }
}

/// Fails when one of these programs is missing, each with its package.
pub(super) fn require(what: &str, programs: &[(&str, &str)]) -> Result<(), Problem> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut missing: Vec<(&str, &str)> = programs.iter().filter(|(name, _)| !is_there(&path, name)).copied().collect();
    if missing.is_empty() && !has_header("stdio.h") {
        missing.push(("stdio.h", "libc6-dev"));
    }
    refuse(what, &missing)
}

fn refuse(what: &str, missing: &[(&str, &str)]) -> Result<(), Problem> {
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|(name, _)| *name).collect();
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    Err(Problem::host(what, format!("not found: {}", names.join(", ")))
        .hint(format!("apt-get install {}", packages.join(" "))))
}

/// True if pkg-config(1) knows a library.
pub(super) fn has_library(name: &str) -> bool {
    let mut command = Command::new("pkg-config");
    command.args(["--exists", name]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn is_there(path: &OsStr, name: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let executable = |file: PathBuf| {
        std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).any(|folder| executable(folder.join(name)))
}

pub(super) fn has_header(name: &str) -> bool {
    use std::io::Write;
    let child = Command::new("gcc")
        .args(["-E", "-x", "c", "-o", "/dev/null", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A compiler that does not read it fails below.
        let _unread = writeln!(stdin, "#include <{name}>");
    }
    child.wait().is_ok_and(|status| status.success())
}

fn version(program: &str, package: &str) -> Result<String, Problem> {
    let output = Command::new(program).arg("--version").env("LC_ALL", "C").output();
    let output = output.map_err(|e| {
        Problem::host("building a kernel", format!("{program}: {e}")).hint(format!("apt-get install {package}"))
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(line) if output.status.success() && !line.trim().is_empty() => Ok(line.trim().to_owned()),
        _ => Err(Problem::host(
            format!("{program} --version"),
            format!("it ended with {} and no version", output.status),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_an_executable_file_in_a_folder_of_the_path() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("flex"), "").unwrap();
        assert!(!is_there(folder.path().as_os_str(), "flex"));
        std::fs::set_permissions(folder.path().join("flex"), std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(is_there(folder.path().as_os_str(), "flex"));
        std::fs::create_dir(folder.path().join("bison")).unwrap();
        assert!(!is_there(folder.path().as_os_str(), "bison"));
    }
}
