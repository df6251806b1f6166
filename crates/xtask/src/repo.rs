//! The repository as files in memory.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All files of the repository that are neither built nor fetched.
#[derive(Debug, Default)]
pub struct Repo {
    /// Contents by path relative to the root, with `/`.
    pub files: BTreeMap<String, Vec<u8>>,
}

impl Repo {
    /// Reads the repository that this crate lies in.
    pub fn here() -> Result<Repo> {
        Self::read(&root())
    }

    /// Reads the repository under a folder.
    pub fn read(root: &Path) -> Result<Repo> {
        let mut repo = Repo::default();
        repo.walk(root, "")?;
        Ok(repo)
    }

    /// A repository of these files, for tests.
    pub fn of(files: &[(&str, &str)]) -> Repo {
        Repo { files: files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect() }
    }

    fn walk(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let foreign = name == ".git" || name == "node_modules" || name.starts_with("target");
                // `target` inside a crate would be a folder of sources.
                if !(foreign && (!name.starts_with("target") || prefix.is_empty() || prefix == "fuzz/")) {
                    self.walk(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() && name != ".git" {
                match std::fs::read(entry.path()) {
                    Ok(bytes) => self.files.insert(path, bytes),
                    // Another program's passing file.
                    Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                    Err(e) => return Err(e).with_context(|| path),
                };
            }
        }
        Ok(())
    }

    /// The text of a file, if it is there and is text.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// All files that are text, by path.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|(path, bytes)| Some((path.as_str(), std::str::from_utf8(bytes).ok()?)))
    }

    /// The text files under a folder, by path relative to it.
    pub fn under<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter_map(move |(path, text)| Some((path.strip_prefix(folder)?.strip_prefix('/')?, text)))
    }
}

/// The root of the repository that this crate lies in.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What a program prints that is run at the root.
///
/// # Errors
/// When it cannot be run, fails (with what it said), or prints no UTF-8.
pub fn printed(program: impl AsRef<OsStr>, arguments: &[&str]) -> Result<String> {
    let program = program.as_ref();
    let name = program.to_string_lossy();
    let output = Command::new(program).args(arguments).current_dir(root()).output();
    let output = output.with_context(|| name.clone().into_owned())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{name} {}: {}\n{said}", arguments.join(" "), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// What cargo prints.
///
/// # Errors
/// As of [`printed`].
pub fn cargo(arguments: &[&str]) -> Result<String> {
    printed(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}
