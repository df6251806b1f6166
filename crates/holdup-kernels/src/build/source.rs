//! A user's source tree, its version and its state.

use super::key::hex_digest;
use crate::files::MOST_BYTES;
use holdup_files::read_input;
use holdup_model::Problem;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The version of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
    /// `7.2.12`, `7.3.0-rc4`.
    pub(super) text: String,
}

impl Version {
    /// Parses `7.2.12` or `7.2`.
    pub(super) fn parse(text: &str) -> Option<Version> {
        let (major, rest) = text.split_once('.')?;
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        Some(Version { major: major.parse().ok()?, minor: minor.parse().ok()?, text: text.to_owned() })
    }

    /// Parses `VERSION`, `PATCHLEVEL`, `SUBLEVEL` and `EXTRAVERSION` of a kernel's Makefile.
    fn of_makefile(text: &str) -> Option<Version> {
        let line = |name: &str| {
            let values =
                text.lines().take(40).filter_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix('='));
            values.map(str::trim).next()
        };
        let number = |name: &str| line(name)?.parse::<u32>().ok();
        let (major, minor) = (number("VERSION")?, number("PATCHLEVEL")?);
        let extra = line("EXTRAVERSION").unwrap_or_default();
        let text = format!("{major}.{minor}.{}{extra}", number("SUBLEVEL")?);
        Some(Version { major, minor, text })
    }

    /// The version of a source tree.
    pub(super) fn of_tree(tree: &Path) -> Result<Version, Problem> {
        let wrong = |why: String| Problem::usage(format!("kernel source {}", tree.display()), why);
        let makefile =
            read_input(&tree.join("Makefile"), MOST_BYTES).map_err(|e| wrong(format!("its Makefile: {e}")))?;
        let version = Version::of_makefile(&String::from_utf8_lossy(&makefile));
        let is_kernel = ["Kbuild", "Kconfig", "arch/x86/Kconfig"].iter().all(|file| tree.join(file).is_file());
        version.filter(|_| is_kernel).ok_or_else(|| wrong("not a Linux kernel source tree".to_owned()))
    }
}

/// The absolute path of a source tree.
///
/// # Errors
/// When it is not a source tree, or has build results: make then refuses to build elsewhere.
pub(super) fn tree(path: &str) -> Result<PathBuf, Problem> {
    let what = || format!("kernel source {path}");
    let tree = std::fs::canonicalize(path).map_err(|e| {
        Problem::usage(what(), e.to_string()).hint("a source is the path of a source tree, or debian:VERSION")
    })?;
    Version::of_tree(&tree)?;
    if let Some(left) =
        [".config", "include/config", "arch/x86/include/generated"].iter().find(|left| tree.join(left).exists())
    {
        return Err(Problem::usage(what(), format!("a kernel was configured or built in it ({left} is there)"))
            .hint(format!("make -C {} mrproper; keep its .config elsewhere first", tree.display())));
    }
    Ok(tree)
}

/// The state of a tree: the commit and a hash of the changes, else a hash of all names, sizes and times.
pub(super) fn state(tree: &Path) -> Result<String, Problem> {
    match git_state(tree) {
        Some(state) => Ok(state),
        None => listing(tree),
    }
}

/// `None` without a git work tree or git.
fn git_state(tree: &Path) -> Option<String> {
    if !tree.join(".git").exists() {
        return None;
    }
    let git = |args: &[&str]| {
        let output = Command::new("git").arg("-C").arg(tree).args(args).output().ok()?;
        output.status.success().then_some(output.stdout)
    };
    let commit = String::from_utf8(git(&["rev-parse", "HEAD"])?).ok()?;
    // The user's diff settings must not affect the result.
    let differs = git(&["diff", "HEAD", "--binary", "--no-ext-diff", "--no-textconv"])?;
    let mut changes = Vec::new();
    // With lengths, so that different lists hash different bytes.
    let mut part = |bytes: &[u8]| {
        changes.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        changes.extend_from_slice(bytes);
    };
    if !differs.is_empty() {
        part(&differs);
    }
    // `git diff` omits new files.
    for name in git(&["ls-files", "--others", "--exclude-standard", "-z"])?.split(|byte| *byte == 0) {
        if !name.is_empty() {
            part(name);
            part(&read_input(&tree.join(OsStr::from_bytes(name)), MOST_BYTES).unwrap_or_default());
        }
    }
    let changed = if changes.is_empty() { String::new() } else { format!(" changed {}", &hex_digest(&changes)[..16]) };
    Some(format!("git {}{changed}", commit.trim()))
}

fn listing(tree: &Path) -> Result<String, Problem> {
    let mut lines = Vec::new();
    walk(tree, &mut |path, meta| {
        lines.push(format!("{}\t{}\t{}.{}\n", path.display(), meta.len(), meta.mtime(), meta.mtime_nsec()));
        Ok(())
    })
    .map_err(|e| Problem::host(format!("kernel source {}", tree.display()), e.to_string()))?;
    lines.sort();
    Ok(format!("files {}", hex_digest(lines.concat().as_bytes())))
}

/// Calls `each` for every file and symbolic link with its relative path; skips `.git`.
pub(super) fn walk(
    root: &Path,
    each: &mut dyn FnMut(&Path, &std::fs::Metadata) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            if path == Path::new(".git") {
                continue;
            }
            let meta = entry.metadata()?;
            match meta.is_dir() {
                true => folders.push(path),
                false => each(&path, &meta)?,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A minimal kernel source.
    pub(crate) fn small_tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("Makefile", "# x\nVERSION = 7\nPATCHLEVEL = 2\nSUBLEVEL = 12\nEXTRAVERSION =\nNAME = N\n");
        write("Kbuild", "");
        write("Kconfig", "");
        write("arch/x86/Kconfig", "");
        write("kernel/a.c", "one\ntwo\nthree\n");
        folder
    }

    #[test]
    fn the_version_is_that_of_the_makefile() {
        let folder = small_tree();
        let version = Version::of_tree(folder.path()).unwrap();
        assert_eq!((version.major, version.minor, version.text.as_str()), (7, 2, "7.2.12"));
        let text = "VERSION = 7\nPATCHLEVEL = 3\nSUBLEVEL = 0\nEXTRAVERSION = -rc4\n";
        assert_eq!(Version::of_makefile(text).unwrap().text, "7.3.0-rc4");
        assert_eq!(Version::of_makefile("VERSION = x\n"), None);
        for text in ["", "7", "7.", ".2", "x.y"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn folders_without_kernel_source_are_refused() {
        let folder = small_tree();
        let path = folder.path().to_str().unwrap();
        assert!(tree(path).is_ok());
        std::fs::write(folder.path().join(".config"), "").unwrap();
        assert!(tree(path).unwrap_err().hint.unwrap().contains("mrproper"));
        std::fs::remove_file(folder.path().join("Kbuild")).unwrap();
        assert!(tree(path).unwrap_err().why.contains("source tree"));
        assert!(tree("/no/such/folder").is_err());
    }

    #[test]
    fn a_changed_file_is_another_state() {
        let folder = small_tree();
        let before = state(folder.path()).unwrap();
        assert_eq!(state(folder.path()).unwrap(), before);
        std::fs::write(folder.path().join("kernel/a.c"), "one\n").unwrap();
        assert_ne!(state(folder.path()).unwrap(), before);
    }

    #[test]
    fn the_state_of_a_git_work_tree_is_its_commit_and_changes() {
        let folder = small_tree();
        let git = |args: &[&str]| {
            let named = ["-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false"];
            let output = Command::new("git").arg("-C").arg(folder.path()).args(named).args(args).output();
            output.is_ok_and(|output| output.status.success())
        };
        assert!(git(&["init", "-q"]) && git(&["add", "."]) && git(&["commit", "-qm", "m"]), "this test needs git");
        let clean = state(folder.path()).unwrap();
        assert!(clean.starts_with("git ") && !clean.contains("changed"), "{clean}");
        std::fs::write(folder.path().join("new.c"), "x").unwrap();
        let added = state(folder.path()).unwrap();
        std::fs::write(folder.path().join("new.c"), "y").unwrap();
        let changed = state(folder.path()).unwrap();
        assert!(added.contains("changed") && added != changed, "{added} {changed}");
        // The same bytes, divided differently between name and contents.
        std::fs::remove_file(folder.path().join("new.c")).unwrap();
        std::fs::write(folder.path().join("new.cy"), "").unwrap();
        assert_ne!(state(folder.path()).unwrap(), changed);
        std::fs::remove_file(folder.path().join("new.cy")).unwrap();
        assert!(git(&["tag", "v1"]));
        assert_eq!(state(folder.path()).unwrap(), clean, "a tag is no other source");
        // A program of the user's that shows no difference hides none.
        std::fs::write(folder.path().join("kernel/a.c"), "one\n").unwrap();
        assert!(git(&["config", "diff.external", "true"]));
        assert!(state(folder.path()).unwrap().contains("changed"));
    }
}
