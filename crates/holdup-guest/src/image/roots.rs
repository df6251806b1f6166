//! The sources of the guest's files: folders, each of which is searched as if it were `/`.
//!
//! The guest's folders are always merged (`/lib` is a link to `/usr/lib`, and so on), also if its sources are not: unpacked
//! packages may have a file at either path.

use super::elf::Machine;
use holdup_model::Problem;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Links into /usr in the guest.
pub(crate) const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// MAXSYMLINKS of the kernel (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// A file and what identifies its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// On the host, without links.
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) mtime_ns: i128,
    /// Device and inode.
    pub(crate) inode: (u64, u64),
    pub(crate) executable: bool,
}

impl Source {
    pub(crate) fn of(path: PathBuf, meta: &Metadata) -> Self {
        Source {
            path,
            bytes: meta.len(),
            mtime_ns: i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
            inode: (meta.dev(), meta.ino()),
            executable: meta.mode() & 0o111 != 0,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Found {
    /// The requested path in the guest.
    pub(crate) named: PathBuf,
    /// The path in the guest without links.
    pub(crate) real: PathBuf,
    pub(crate) source: Source,
    pub(crate) is_folder: bool,
}

/// Folders to search, in order.
#[derive(Debug, Clone)]
pub(crate) struct Roots(Vec<PathBuf>);

impl Roots {
    pub(crate) fn host() -> Self {
        Roots(vec![PathBuf::from("/")])
    }

    /// `root` first, then the host.
    pub(crate) fn below(root: &Path) -> Self {
        Roots(vec![root.to_owned(), PathBuf::from("/")])
    }

    /// With the libraries of a cross compiler before the host's, for programs of another architecture than the host's: Debian has
    /// them below /usr/TRIPLET as if that were the root.
    pub(crate) fn for_machine(mut self, machine: Machine) -> Self {
        let foreign = crate::arch::of_elf(machine).filter(|arch| !arch.is_hosts());
        let folder = foreign.map(|arch| Path::new("/usr").join(arch.triplet)).filter(|folder| folder.is_dir());
        let host = self.0.len() - 1;
        self.0.splice(host..host, folder);
        self
    }

    pub(crate) fn each(&self) -> Vec<Roots> {
        self.0.iter().map(|root| Roots(vec![root.clone()])).collect()
    }

    pub(crate) fn describe(&self) -> String {
        let all: Vec<String> = self.0.iter().map(|root| root.display().to_string()).collect();
        all.join(", ")
    }

    /// Finds a file or folder by its path in the guest.
    ///
    /// # Errors
    /// When it exists and cannot be examined: a loop of links, no permission.
    pub(crate) fn find(&self, path: &Path) -> Result<Option<Found>, Problem> {
        for root in &self.0 {
            for spelled in spellings(path) {
                let resolved = resolve(root, &spelled)
                    .map_err(|e| Problem::host(root.join(relative(&spelled)).display().to_string(), e.to_string()))?;
                if let Some((inside, meta)) = resolved {
                    let host = root.join(relative(&inside));
                    return Ok(Some(Found {
                        named: guest_path(path),
                        real: guest_path(&inside),
                        is_folder: meta.is_dir(),
                        source: Source::of(host, &meta),
                    }));
                }
            }
        }
        Ok(None)
    }

    /// The sorted names in a folder of the first root that has it.
    ///
    /// # Errors
    /// When the folder exists and cannot be read.
    pub(crate) fn names(&self, folder: &Path) -> Result<Vec<OsString>, Problem> {
        let Some(found) = self.find(folder)? else { return Ok(Vec::new()) };
        let failed = |e: std::io::Error| Problem::host(found.source.path.display().to_string(), e.to_string());
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&found.source.path).map_err(failed)? {
            names.push(entry.map_err(failed)?.file_name());
        }
        names.sort();
        Ok(names)
    }
}

/// The guest's form of a path: absolute, without `.` and `..`, merged.
pub(crate) fn guest_path(path: &Path) -> PathBuf {
    let mut parts: Vec<&OsStr> = Vec::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                parts.pop();
            }
            Component::Normal(name) => {
                if parts.is_empty() && MERGED.iter().any(|m| OsStr::new(m) == name) {
                    parts.push(OsStr::new("usr"));
                }
                parts.push(name);
            }
            _ => {}
        }
    }
    let mut whole = PathBuf::from("/");
    whole.extend(parts);
    whole
}

/// The paths at which a root may have the guest's `path`.
fn spellings(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    let merged = guest_path(path);
    let unmerged = merged.strip_prefix("/usr").ok().filter(|rest| {
        rest.components().next().is_some_and(|first| MERGED.iter().any(|m| OsStr::new(m) == first.as_os_str()))
    });
    let unmerged = unmerged.map(|rest| Path::new("/").join(rest));
    for other in unmerged.into_iter().chain([merged]) {
        if !all.contains(&other) {
            all.push(other);
        }
    }
    all
}

fn relative(path: &Path) -> &Path {
    path.strip_prefix("/").unwrap_or(path)
}

/// Follows a path inside a root; absolute links begin at the root.
fn resolve(root: &Path, path: &Path) -> std::io::Result<Option<(PathBuf, Metadata)>> {
    let mut left: VecDeque<OsString> = parts(path);
    let mut done = PathBuf::from("/");
    let mut links = 0;
    let mut last = None;
    while let Some(part) = left.pop_front() {
        if part == ".." {
            done.pop();
            last = None;
            continue;
        }
        done.push(&part);
        let meta = match std::fs::symlink_metadata(root.join(relative(&done))) {
            Ok(meta) => meta,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
            Err(e) => return Err(e),
        };
        if meta.is_symlink() {
            links += 1;
            if links > LINKS_MAX {
                return Err(std::io::Error::other("its links form a loop"));
            }
            let target = std::fs::read_link(root.join(relative(&done)))?;
            done.pop();
            if target.is_absolute() {
                done = PathBuf::from("/");
            }
            for part in parts(&target).into_iter().rev() {
                left.push_front(part);
            }
            last = None;
        } else {
            last = Some(meta);
        }
    }
    let meta = match last {
        Some(meta) => meta,
        None => std::fs::symlink_metadata(root.join(relative(&done)))?,
    };
    Ok(Some((done, meta)))
}

fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|c| match c {
            Component::ParentDir => Some(OsString::from("..")),
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_stay_inside_their_root() {
        let top = tempfile::tempdir().unwrap();
        let at = |p: &str| top.path().join(p);
        std::fs::create_dir_all(at("usr/lib/x")).unwrap();
        std::fs::write(at("usr/lib/x/real.so"), "r").unwrap();
        symlink("/usr/lib/x/real.so", at("usr/lib/absolute.so")).unwrap();
        symlink("../../usr/../usr/lib/x", at("usr/lib/folder")).unwrap();
        symlink("b", at("usr/lib/a")).unwrap();
        symlink("a", at("usr/lib/b")).unwrap();
        let roots = Roots::below(top.path()).each().remove(0);
        let real = |p: &str| roots.find(Path::new(p)).unwrap().map(|f| (f.named, f.real, f.source.path));
        let expected = |named: &str| Some((named.into(), "/usr/lib/x/real.so".into(), at("usr/lib/x/real.so")));
        assert_eq!(real("/usr/lib/absolute.so"), expected("/usr/lib/absolute.so"));
        assert_eq!(real("/lib/absolute.so"), expected("/usr/lib/absolute.so"), "the root is not merged, the guest is");
        assert_eq!(real("/usr/lib/folder/real.so"), expected("/usr/lib/folder/real.so"));
        // The path is first spelled as the guest does, so a folder that `..` leaves again need not exist.
        assert!(real("/usr/bin/../lib/x/./real.so").is_some());
        assert_eq!(real("/usr/lib/x/real.so/more"), None);
        let circle = roots.find(Path::new("/usr/lib/a")).unwrap_err();
        assert!(circle.to_string().contains("loop"), "{circle}");
    }

    #[test]
    fn paths_of_the_guest_are_merged() {
        for (path, expected) in [
            ("/lib64/ld-linux-x86-64.so.2", "/usr/lib64/ld-linux-x86-64.so.2"),
            ("/lib/../bin/sh", "/usr/bin/sh"),
            ("/usr/lib/x", "/usr/lib/x"),
            ("/../opt//x/.", "/opt/x"),
            ("/opt/lib/x", "/opt/lib/x"),
        ] {
            assert_eq!(guest_path(Path::new(path)), Path::new(expected), "{path}");
        }
    }
}
