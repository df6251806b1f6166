//! The folders in which sources are built: one per source, held by one build at a time, kept for the next.

use crate::{Cache, Options};
use holdup_model::{Event, Observer, Problem};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A folder with a source and its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// Its name: a package with its version, or `tree-` and a number for a user's tree.
    pub name: String,
    /// What it takes on disk; a file that is shared with a user's tree by a hard link counts.
    pub bytes: u64,
}

/// A folder that is held; nobody else builds in it until this is dropped.
pub(super) struct Held {
    pub(super) path: PathBuf,
    _lock: File,
}

impl Held {
    /// The log of the newest build.
    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }
}

fn all(cache: &Cache) -> PathBuf {
    cache.root().join("build")
}

fn lock_file(cache: &Cache, name: &str) -> Result<File, Problem> {
    let folder = all(cache);
    let failed = |e: std::io::Error| Problem::host(format!("cache {}", folder.display()), e.to_string());
    std::fs::create_dir_all(&folder).map_err(failed)?;
    let path = folder.join(format!("{name}.lock"));
    File::options().create(true).append(true).open(path).map_err(failed)
}

/// Waits until the folder is free, and makes it where there is none.
///
/// # Errors
/// When it cannot be made, or `options.cancel` is set while it waits.
pub(super) fn hold(cache: &Cache, name: &str, options: &Options, observer: &mut dyn Observer) -> Result<Held, Problem> {
    let lock = lock_file(cache, name)?;
    let mut told = false;
    while let Err(e) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if e != rustix::io::Errno::WOULDBLOCK && e != rustix::io::Errno::INTR {
            return Err(Problem::host(format!("lock of {name}"), e.to_string()));
        }
        if !told {
            observer.event(Event::Step(&format!("waiting for another build in {name}")));
            told = true;
        }
        options.check("waiting for another build")?;
        std::thread::sleep(Duration::from_millis(100));
    }
    let path = all(cache).join(name);
    std::fs::create_dir_all(&path).map_err(|e| Problem::host(format!("folder {}", path.display()), e.to_string()))?;
    Ok(Held { path, _lock: lock })
}

/// The folders in which kernels were built, by name.
///
/// # Errors
/// When they cannot be read.
pub fn folders(cache: &Cache) -> Result<Vec<Folder>, Problem> {
    let all = all(cache);
    let failed = |e: std::io::Error| Problem::host(format!("cache {}", all.display()), e.to_string());
    let entries = match std::fs::read_dir(&all) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            folders.push(Folder { bytes: size(&entry.path()).map_err(failed)?, name });
        }
    }
    folders.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(folders)
}

/// What a folder takes on disk, bytes; a build may be under way in it.
fn size(folder: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    crate::files::sum_below(folder, |metadata| metadata.blocks() * 512)
}

/// Removes a folder with its source and its objects; kernels that were built stay in the cache. Whether there was one.
///
/// # Errors
/// When a build is under way in it, or it cannot be removed.
pub fn remove(cache: &Cache, name: &str) -> Result<bool, Problem> {
    let what = || format!("build folder {name}");
    if name.is_empty() || name.contains('/') || name == ".." || name == "." {
        return Err(Problem::usage(what(), "it is no name of a build folder"));
    }
    let path = all(cache).join(name);
    if !path.is_dir() {
        return Ok(false);
    }
    let lock = lock_file(cache, name)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive)
        .map_err(|_| Problem::host(what(), "a build is under way in it"))?;
    std::fs::remove_dir_all(&path).map_err(|e| Problem::host(what(), e.to_string()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::ProblemKind;
    use holdup_model::progress::Silent;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn one_build_at_a_time_and_what_is_held_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        assert_eq!(folders(&cache).unwrap(), []);
        let held = hold(&cache, "linux", &Options::default(), &mut Silent).unwrap();
        std::fs::write(held.log(), "x").unwrap();
        let ended = Options { cancel: Some(Arc::new(AtomicBool::new(true))), ..Options::default() };
        let problem = hold(&cache, "linux", &ended, &mut Silent).err().unwrap();
        assert_eq!(problem.kind, ProblemKind::Interrupted);
        assert!(remove(&cache, "linux").unwrap_err().why.contains("under way"));
        drop(held);
        let found = folders(&cache).unwrap();
        assert!(found.len() == 1 && found[0].name == "linux" && found[0].bytes > 0, "{found:?}");
        assert!(remove(&cache, "linux").unwrap());
        assert!(!remove(&cache, "linux").unwrap());
        assert!(remove(&cache, "../linux").is_err());
    }
    #[test]
    fn folders_are_told_while_files_come_and_go_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        let held = hold(&cache, "linux", &Options::default(), &mut Silent).unwrap();
        std::fs::write(held.log(), "x").unwrap();
        let (busy, over) = (held.log().with_file_name("objects"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(std::sync::atomic::Ordering::Relaxed) {
                    for name in ["a", "b/c", "d"] {
                        std::fs::create_dir_all(busy.join(name)).unwrap();
                        std::fs::write(busy.join(name).join("x.o"), "x").unwrap();
                    }
                    std::fs::remove_dir_all(&busy).unwrap();
                }
            });
            let told: Vec<_> = (0..500).map(|_| folders(&cache).map(|all| all.len())).collect();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(told.iter().all(|one| matches!(one, Ok(1))), "{:?}", told.iter().find(|one| one.is_err()));
        });
    }
}
