//! The folders in which sources are built: one per source, used by one build at a time, reused by the next.

use crate::files::{lock, problem, sum_below};
use crate::{Cache, Options};
use holdup_model::{Event, Observer, Problem};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A folder with a source and its objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    /// A package with its version, or `tree-` and a number for a user's tree.
    pub name: String,
    /// Its size on disk; files that are hard links into a user's tree count.
    pub bytes: u64,
}

/// A locked folder: no other build uses it until this is dropped.
pub(super) struct Held {
    pub(super) path: PathBuf,
    _lock: File,
}

impl Held {
    pub(super) fn log(&self) -> PathBuf {
        self.path.join("log")
    }
}

fn all(cache: &Cache) -> PathBuf {
    cache.root().join("build")
}

fn lock_path(cache: &Cache, name: &str) -> Result<PathBuf, Problem> {
    let folder = all(cache);
    std::fs::create_dir_all(&folder).map_err(|e| problem("cache", &folder, &e))?;
    Ok(folder.join(format!("{name}.lock")))
}

/// Waits until no other build uses the folder, and creates it if necessary.
///
/// # Errors
/// When it cannot be created, or `options.cancel` is set while it waits.
pub(super) fn hold(cache: &Cache, name: &str, options: &Options, observer: &mut dyn Observer) -> Result<Held, Problem> {
    let mut is_announced = false;
    let lock = lock(&lock_path(cache, name)?, |_| {
        if !std::mem::replace(&mut is_announced, true) {
            observer.event(Event::Step(&format!("waiting for another build in {name}")));
        }
        options.check("waiting for another build")
    })?;
    let path = all(cache).join(name);
    std::fs::create_dir_all(&path).map_err(|e| problem("folder", &path, &e))?;
    Ok(Held { path, _lock: lock })
}

/// All build folders, by name.
pub fn folders(cache: &Cache) -> Result<Vec<Folder>, Problem> {
    let all = all(cache);
    let failed = |e: std::io::Error| problem("cache", &all, &e);
    let entries = match std::fs::read_dir(&all) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(failed)?,
    };
    let mut folders = Vec::new();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let bytes = sum_below(&entry.path(), |metadata| metadata.blocks() * 512).map_err(failed)?;
            folders.push(Folder { bytes, name });
        }
    }
    folders.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(folders)
}

/// Removes a folder with its source and objects; built kernels stay in the cache. Returns whether it existed.
///
/// # Errors
/// When a build uses it, or it cannot be removed.
pub fn remove(cache: &Cache, name: &str) -> Result<bool, Problem> {
    let what = || format!("build folder {name}");
    if name.is_empty() || name.contains('/') || name == ".." || name == "." {
        return Err(Problem::usage(what(), "not the name of a build folder"));
    }
    let path = all(cache).join(name);
    if !path.is_dir() {
        return Ok(false);
    }
    let path_of_lock = lock_path(cache, name)?;
    let lock = File::options()
        .create(true)
        .append(true)
        .open(&path_of_lock)
        .map_err(|e| problem("lock", &path_of_lock, &e))?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| Problem::host(what(), "a build uses it"))?;
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
    fn one_build_at_a_time_and_a_folder_in_use_is_not_removed() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path()).unwrap();
        assert_eq!(folders(&cache).unwrap(), []);
        let held = hold(&cache, "linux", &Options::default(), &mut Silent).unwrap();
        std::fs::write(held.log(), "x").unwrap();
        let ended = Options { cancel: Some(Arc::new(AtomicBool::new(true))), ..Options::default() };
        let problem = hold(&cache, "linux", &ended, &mut Silent).err().unwrap();
        assert_eq!(problem.kind, ProblemKind::Interrupted);
        assert!(remove(&cache, "linux").unwrap_err().why.contains("a build uses it"));
        drop(held);
        let found = folders(&cache).unwrap();
        assert!(found.len() == 1 && found[0].name == "linux" && found[0].bytes > 0, "{found:?}");
        assert!(remove(&cache, "linux").unwrap());
        assert!(!remove(&cache, "linux").unwrap());
        assert!(remove(&cache, "../linux").is_err());
    }

    #[test]
    fn folders_are_listed_while_a_build_writes_in_them() {
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
            let listed: Vec<_> = (0..500).map(|_| folders(&cache).map(|all| all.len())).collect();
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            assert!(listed.iter().all(|one| matches!(one, Ok(1))), "{:?}", listed.iter().find(|one| one.is_err()));
        });
    }
}
