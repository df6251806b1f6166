//! A private copy of a source, for patches.
//!
//! Files are shared with the original where possible (a clone, else a hard link), so a copy is cheap. A patched file is always
//! a copy with the current time, so that make recompiles it and nothing else.

use super::patches::Patch;
use super::source::walk;
use holdup_model::Problem;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// A private tree.
pub(super) struct Tree {
    pub(super) path: PathBuf,
    /// The unchanged files: the user's tree, or for an unpacked tree the folder with the originals of patched files.
    pristine: PathBuf,
    /// True if `pristine` is the user's tree.
    shared: bool,
    /// Records the source, the patches, and their files.
    state: PathBuf,
}

impl Tree {
    pub(super) fn copy_of(original: &Path, folder: &Path) -> Tree {
        Tree {
            path: folder.join("tree"),
            pristine: original.to_owned(),
            shared: true,
            state: folder.join("tree.state"),
        }
    }

    /// A tree that was unpacked in `folder`.
    pub(super) fn unpacked_in(folder: &Path) -> Tree {
        Tree {
            path: folder.join("tree"),
            pristine: folder.join("untouched"),
            shared: false,
            state: folder.join("tree.state"),
        }
    }

    /// Brings the tree to the source state `source` with exactly these patches.
    ///
    /// # Errors
    /// When files cannot be copied, or a patch does not apply (with the message of `patch`).
    pub(super) fn bring_to(&self, source: &str, patches: &[Patch]) -> Result<(), Problem> {
        let wanted = described(source, patches);
        let state = std::fs::read_to_string(&self.state).unwrap_or_default();
        if state.lines().filter(|line| !line.starts_with("touched ")).eq(wanted.iter().map(String::as_str)) {
            return Ok(());
        }
        let failed = |e: io::Error| Problem::host(format!("source {}", self.path.display()), e.to_string());
        let touched_before = state.lines().filter_map(|line| line.strip_prefix("touched ")).map(str::to_owned);
        let mut touched: BTreeSet<String> = touched_before.collect();
        // After an interruption the next run restores all of these.
        touched.extend(patches.iter().flat_map(|patch| patch.touches.iter().cloned()));
        self.write_state(&["unfinished".to_owned()], &touched).map_err(failed)?;
        if self.shared {
            self.share(&touched).map_err(failed)?;
        }
        for file in &touched {
            self.restore(file).map_err(failed)?;
        }
        let now: BTreeSet<String> = patches.iter().flat_map(|patch| patch.touches.iter().cloned()).collect();
        for patch in patches {
            self.apply(patch)?;
        }
        self.write_state(&wanted, &now).map_err(failed)
    }

    /// Deletes the record, so that the tree is compared with its original again.
    pub(super) fn forget(&self) {
        let _was_absent = std::fs::remove_file(&self.state);
    }

    fn write_state(&self, lines: &[String], touched: &BTreeSet<String>) -> io::Result<()> {
        let touched = touched.iter().map(|file| format!("touched {file}"));
        let text: String = lines.iter().cloned().chain(touched).map(|line| line + "\n").collect();
        std::fs::write(&self.state, text)
    }

    /// Makes the tree equal to the original, except for the files in `except`.
    fn share(&self, except: &BTreeSet<String>) -> io::Result<()> {
        let excepted = |path: &Path| path.to_str().is_some_and(|path| except.contains(path));
        walk(&self.pristine, &mut |path, meta| {
            let copy = self.path.join(path);
            let same = std::fs::symlink_metadata(&copy).is_ok_and(|copy| is_same(meta, &copy));
            match same || excepted(path) {
                true => Ok(()),
                false => share_file(&self.pristine.join(path), &copy, meta),
            }
        })?;
        let mut gone = Vec::new();
        walk(&self.path, &mut |path, _| {
            if !excepted(path) && std::fs::symlink_metadata(self.pristine.join(path)).is_err() {
                gone.push(path.to_owned());
            }
            Ok(())
        })?;
        gone.iter().try_for_each(|path| std::fs::remove_file(self.path.join(path)))
    }

    /// Restores the original of one file, as a copy; removes it if a patch created it.
    fn restore(&self, file: &str) -> io::Result<()> {
        let (copy, untouched) = (self.path.join(file), self.pristine.join(file));
        let absent = untouched.with_file_name(format!("{}.absent", name_of(file)));
        if !self.shared && !untouched.exists() && !absent.exists() {
            // The first patch of this file: save the original.
            if let Some(folder) = untouched.parent() {
                std::fs::create_dir_all(folder)?;
            }
            match copy.exists() {
                true => drop(std::fs::copy(&copy, &untouched)?),
                false => drop(File::create(&absent)?),
            }
        }
        remove_if_there(&copy)?;
        if untouched.exists() {
            if let Some(folder) = copy.parent() {
                std::fs::create_dir_all(folder)?;
            }
            std::fs::copy(&untouched, &copy)?;
        }
        Ok(())
    }

    fn apply(&self, patch: &Patch) -> Result<(), Problem> {
        let what = || format!("patch {}", patch.name);
        let failed = |e: io::Error| Problem::host(what(), format!("patch: {e}"));
        let mut child = Command::new("patch")
            .args([
                "-p1",
                "--unified",
                "--fuzz=0",
                "--forward",
                "--batch",
                "--no-backup-if-mismatch",
                "--reject-file=-",
                "-d",
            ])
            .arg(&self.path)
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let input = child.stdin.take().map(|mut stdin| {
            let bytes = patch.bytes.clone();
            // If `patch` stops reading, it reports why.
            std::thread::spawn(move || drop(io::Write::write_all(&mut stdin, &bytes)))
        });
        let output = child.wait_with_output().map_err(failed)?;
        let _written = input.map(std::thread::JoinHandle::join);
        if output.status.success() {
            return Ok(());
        }
        let messages = [output.stdout, output.stderr].concat();
        let messages = String::from_utf8_lossy(&messages);
        let failures: Vec<&str> =
            messages.lines().filter(|line| line.contains("FAILED") || line.contains("patch:")).collect();
        let messages =
            if failures.is_empty() { format!("patch ended with {}", output.status) } else { failures.join("; ") };
        Err(Problem::usage(what(), format!("it does not apply to this source: {messages}")))
    }
}

/// The record without the list of files.
fn described(source: &str, patches: &[Patch]) -> Vec<String> {
    let patches = patches.iter().map(|patch| format!("patch {}", patch.sha256));
    std::iter::once(format!("source {source}")).chain(patches).collect()
}

fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

fn is_same(original: &std::fs::Metadata, copy: &std::fs::Metadata) -> bool {
    let linked = original.ino() == copy.ino() && original.dev() == copy.dev();
    let alike = original.len() == copy.len()
        && (original.mtime(), original.mtime_nsec()) == (copy.mtime(), copy.mtime_nsec())
        && original.mode() == copy.mode();
    linked || alike
}

/// Creates a clone, else a hard link, else a copy, with the same time and mode.
fn share_file(original: &Path, copy: &Path, meta: &std::fs::Metadata) -> io::Result<()> {
    if let Some(folder) = copy.parent() {
        std::fs::create_dir_all(folder)?;
    }
    remove_if_there(copy)?;
    if meta.is_symlink() {
        return std::os::unix::fs::symlink(std::fs::read_link(original)?, copy);
    }
    if !meta.is_file() {
        return Ok(());
    }
    let cloned = holdup_files::open_input(original).and_then(|from| {
        let to = File::create(copy)?;
        Ok((rustix::fs::ioctl_ficlone(&to, &from), to))
    });
    let (cloned, to) = cloned?;
    if cloned.is_err() {
        drop(to);
        std::fs::remove_file(copy)?;
        if std::fs::hard_link(original, copy).is_ok() {
            return Ok(());
        }
        std::fs::copy(original, copy)?;
    }
    let time: SystemTime = meta.modified()?;
    File::options().write(true).open(copy).and_then(|file| file.set_modified(time))?;
    std::fs::set_permissions(copy, meta.permissions())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::patches::tests::patch;
    use super::super::source::tests::small_tree;
    use super::*;

    const CHANGE: &str = "--- a/kernel/a.c\n+++ b/kernel/a.c\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n";
    const ADD: &str = "--- /dev/null\n+++ b/kernel/new.c\n@@ -0,0 +1 @@\n+new\n";

    fn read(tree: &Tree, file: &str) -> Option<String> {
        std::fs::read_to_string(tree.path.join(file)).ok()
    }

    fn modified(tree: &Tree, file: &str) -> SystemTime {
        std::fs::metadata(tree.path.join(file)).unwrap().modified().unwrap()
    }

    #[test]
    fn a_patched_copy_leaves_the_original_alone_and_goes_back() {
        let (original, folder) = (small_tree(), tempfile::tempdir().unwrap());
        let before = super::super::source::state(original.path()).unwrap();
        let tree = Tree::copy_of(original.path(), folder.path());
        tree.bring_to("1", &[patch(CHANGE), patch(ADD)]).unwrap();
        assert_eq!(read(&tree, "kernel/a.c").unwrap(), "one\nTWO\nthree\n");
        assert_eq!(read(&tree, "kernel/new.c").unwrap(), "new\n");
        assert_eq!(super::super::source::state(original.path()).unwrap(), before);
        // Nothing changes, so make compiles nothing.
        let time = modified(&tree, "kernel/a.c");
        tree.bring_to("1", &[patch(CHANGE), patch(ADD)]).unwrap();
        assert_eq!(modified(&tree, "kernel/a.c"), time);
        tree.bring_to("1", &[]).unwrap();
        assert_eq!(read(&tree, "kernel/a.c").unwrap(), "one\ntwo\nthree\n");
        assert_eq!(read(&tree, "kernel/new.c"), None);
        assert!(modified(&tree, "kernel/a.c") > time, "make has to compile it again");
    }

    #[test]
    fn a_copy_follows_its_original() {
        let (original, folder) = (small_tree(), tempfile::tempdir().unwrap());
        let tree = Tree::copy_of(original.path(), folder.path());
        tree.bring_to("1", &[patch(CHANGE)]).unwrap();
        let time = modified(&tree, "Makefile");
        std::fs::write(original.path().join("kernel/b.c"), "b\n").unwrap();
        std::fs::write(original.path().join("kernel/a.c"), "one\ntwo\nthree\nfour\n").unwrap();
        std::fs::remove_file(original.path().join("Kbuild")).unwrap();
        tree.bring_to("2", &[patch(CHANGE)]).unwrap();
        assert_eq!(read(&tree, "kernel/a.c").unwrap(), "one\nTWO\nthree\nfour\n");
        assert_eq!(read(&tree, "kernel/b.c").unwrap(), "b\n");
        assert_eq!(read(&tree, "Kbuild"), None);
        assert_eq!(modified(&tree, "Makefile"), time);
    }

    #[test]
    fn a_tree_unpacked_in_is_patched_and_restore() {
        let folder = tempfile::tempdir().unwrap();
        let tree = Tree::unpacked_in(folder.path());
        std::fs::create_dir_all(tree.path.join("kernel")).unwrap();
        std::fs::write(tree.path.join("kernel/a.c"), "one\ntwo\nthree\n").unwrap();
        for _ in 0..2 {
            tree.bring_to("1", &[patch(CHANGE), patch(ADD)]).unwrap();
            assert_eq!(read(&tree, "kernel/a.c").unwrap(), "one\nTWO\nthree\n");
            assert_eq!(read(&tree, "kernel/new.c").unwrap(), "new\n");
            tree.bring_to("1", &[]).unwrap();
            assert_eq!(read(&tree, "kernel/a.c").unwrap(), "one\ntwo\nthree\n");
            assert_eq!(read(&tree, "kernel/new.c"), None);
        }
    }

    #[test]
    fn a_patch_that_does_not_apply_is_refused_and_leaves_nothing_behind() {
        let (original, folder) = (small_tree(), tempfile::tempdir().unwrap());
        let tree = Tree::copy_of(original.path(), folder.path());
        let wrong = patch(&CHANGE.replace("-two", "-zwei"));
        let problem = tree.bring_to("1", &[patch(ADD), wrong]).unwrap_err();
        assert!(problem.why.contains("does not apply to this source: ") && problem.why.contains("FAILED"), "{problem}");
        tree.bring_to("1", &[]).unwrap();
        assert_eq!(read(&tree, "kernel/a.c").unwrap(), "one\ntwo\nthree\n");
        assert_eq!(read(&tree, "kernel/new.c"), None);
    }
}
