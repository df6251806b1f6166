//! The other contents of the cache: they are removed as a whole and recreated on demand.

use super::Cache;
use super::lock::Held;
use crate::Options;
use crate::files::{bytes_below, problem};
use holdup_model::{Observer, Problem};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::PathBuf;

/// A part of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Debian packages, such as sources.
    Packages,
    /// Initramfs images.
    Images,
    /// Data folders that initdb made in advance.
    Templates,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartSize {
    /// The number of packages, images or data folders.
    pub count: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

impl Part {
    pub const ALL: [Part; 3] = [Part::Packages, Part::Images, Part::Templates];

    /// Its name and folder: `packages`, `images` or `templates`.
    pub fn name(self) -> &'static str {
        match self {
            Part::Packages => "packages",
            Part::Images => "images",
            Part::Templates => "templates",
        }
    }

    /// True if a file or folder is an item; the others belong to items.
    fn counts(self, name: &str) -> bool {
        match self {
            Part::Packages => name.ends_with(".deb") || name.ends_with(".dsc"),
            Part::Images => name.ends_with(".cpio") || name.ends_with(".image"),
            Part::Templates => name.starts_with("template-"),
        }
    }
}

/// Locks images and data folders. It is never removed, because other processes may wait for it.
const LOCK: &str = "lock";

impl Cache {
    fn part(&self, part: Part) -> PathBuf {
        self.root().join(part.name())
    }

    /// The size of a part; zero if it does not exist.
    pub fn part_size(&self, part: Part) -> Result<PartSize, Problem> {
        let (mut count, mut folders) = (0, vec![self.part(part)]);
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(&folder) {
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                entries => entries.map_err(|e| problem("cache", &folder, &e))?,
            };
            for entry in entries {
                let entry = entry.map_err(|e| problem("cache", &folder, &e))?;
                if part.counts(&entry.file_name().to_string_lossy()) {
                    count += 1;
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(entry.path());
                }
            }
        }
        Ok(PartSize { count, bytes: bytes_below(&self.part(part)) })
    }

    /// Empties a part and returns its former size. Running guests have read their image already.
    ///
    /// # Errors
    /// When another run writes there, or it cannot be removed.
    pub fn part_remove(&self, part: Part, options: &Options, observer: &mut dyn Observer) -> Result<PartSize, Problem> {
        let _held = Held::take(self.root(), &format!("removing {}", part.name()), options, observer)?;
        let folder = self.part(part);
        let size = self.part_size(part)?;
        let failed = |e: &std::io::Error| problem("cache", &folder, e);
        let entries = match fs::read_dir(&folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(size),
            entries => entries.map_err(|e| failed(&e))?,
        };
        // A run that makes an image holds this lock, not that of the cache.
        let lock = match File::options().append(true).open(folder.join(LOCK)) {
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            lock => Some(lock.map_err(|e| failed(&e))?),
        };
        if let Some(lock) = &lock {
            flock(lock, FlockOperation::NonBlockingLockExclusive)
                .map_err(|_| Problem::host(format!("cache {}", folder.display()), "another run writes there"))?;
        }
        for entry in entries {
            let path = entry.map_err(|e| failed(&e))?.path();
            if path.file_name().is_some_and(|name| name != LOCK) {
                self.discard(&path)?;
            }
        }
        Ok(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::progress::Silent;

    #[test]
    fn a_part_is_counted_and_removed_unless_another_run_writes_there() {
        let top = tempfile::tempdir().unwrap();
        let cache = Cache::open(top.path()).unwrap();
        let (options, none) = (Options::default(), PartSize { count: 0, bytes: 0 });
        for part in Part::ALL {
            assert_eq!(cache.part_size(part).unwrap(), none);
            assert_eq!(cache.part_remove(part, &options, &mut Silent).unwrap(), none);
        }
        let write = |path: &str, text: &str| {
            let path = top.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for path in ["packages/sid/a_1_amd64.deb", "packages/trixie/b_1_amd64.deb", "packages/sid/a_1_amd64.sha256"] {
            write(path, "12");
        }
        for path in ["images/k.cpio", "images/k.json", "images/lock", "templates/template-k/base/1/x"] {
            write(path, "123");
        }
        let size = |part| cache.part_size(part).unwrap();
        assert_eq!(size(Part::Packages), PartSize { count: 2, bytes: 6 });
        assert_eq!(size(Part::Images), PartSize { count: 1, bytes: 9 });
        assert_eq!(size(Part::Templates), PartSize { count: 1, bytes: 3 });
        let writer = File::options().append(true).open(top.path().join("images/lock")).unwrap();
        flock(&writer, FlockOperation::NonBlockingLockExclusive).unwrap();
        let problem = cache.part_remove(Part::Images, &options, &mut Silent).unwrap_err();
        assert!(problem.why.contains("writes there") && size(Part::Images).count == 1, "{problem}");
        drop(writer);
        for part in Part::ALL {
            let before = size(part);
            assert_eq!(cache.part_remove(part, &options, &mut Silent).unwrap(), before);
            assert_eq!(size(part).count, 0);
        }
        assert!(top.path().join("images/lock").exists());
    }
}
