//! Paths inside a root that is not that of this process: links lead to what they would lead to there.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// The kernel's own limit (include/linux/namei.h, MAXSYMLINKS).
const MOST_LINKS: u32 = 40;

/// Opens a path as if `root` were `/`: by openat2(2), which Linux has from 5.6 on, else component by component.
pub(crate) fn open_within(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    match rustix::fs::openat2(root, path, flags, Mode::empty(), ResolveFlags::IN_ROOT) {
        Err(Errno::NOSYS) => walk(root, path, flags),
        done => Ok(done?),
    }
}

/// The same without openat2(2). A change of the tree meanwhile can make it fail, not leave the root: no component is followed by the
/// kernel.
fn walk(root: &OwnedFd, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let mut to_go: VecDeque<OsString> = parts(path);
    // The folders from the root, which is not in it, to where the walk is.
    let mut stack: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(part) = to_go.pop_front() {
        if part == OsStr::new("..") {
            stack.pop();
            continue;
        }
        let at = stack.last().map_or(root.as_fd(), AsFd::as_fd);
        let next = open(at, &part, OFlags::PATH | OFlags::NOFOLLOW)?;
        if !is_link(&next)? {
            stack.push(next);
            continue;
        }
        if to_go.is_empty() && flags.contains(OFlags::NOFOLLOW) {
            let wants_itself = flags.contains(OFlags::PATH) && !flags.contains(OFlags::DIRECTORY);
            let other = if flags.contains(OFlags::DIRECTORY) { Errno::NOTDIR } else { Errno::LOOP };
            return if wants_itself { Ok(next) } else { Err(other.into()) };
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        let target = rustix::fs::readlinkat(&next, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            stack.clear();
        }
        to_go = parts(&target).into_iter().chain(to_go).collect();
    }
    let found = stack.last().map_or(root.as_fd(), AsFd::as_fd);
    if flags.contains(OFlags::DIRECTORY) {
        return Ok(open(found, OsStr::new("."), flags)?);
    }
    let itself = format!("/proc/self/fd/{}", found.as_raw_fd());
    if flags.contains(OFlags::PATH) {
        Ok(found.try_clone_to_owned()?)
    } else {
        Ok(rustix::fs::open(itself, flags - OFlags::NOFOLLOW, Mode::empty())?)
    }
}

fn open(at: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(at, name, flags | OFlags::CLOEXEC, Mode::empty())
}

fn is_link(file: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(file)?.st_mode).is_symlink())
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let is_step = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_step).map(|part| part.as_os_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn without_openat2_the_same_files_are_found() {
        let place = tempfile::tempdir().expect("a folder");
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).expect("folders");
        std::fs::create_dir_all(root.join("etc")).expect("a folder");
        std::fs::write(root.join("etc/passwd"), "within").expect("a file");
        std::fs::write(place.path().join("passwd"), "beyond").expect("a file");
        let links = [
            ("a/up", "../../../../etc/passwd"),
            ("a/whole", "/etc/passwd"),
            ("a/chain", "up"),
            ("a/loop", "loop"),
            ("a/folder", "/etc"),
            ("a/none", "/nowhere"),
            ("a/back", ".."),
        ];
        for (name, target) in links {
            symlink(target, root.join(name)).expect("a link");
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&root, flags, Mode::empty()).expect("the root");
        let of = |found: io::Result<OwnedFd>| {
            let stat = found.and_then(|found| Ok(rustix::fs::fstat(found)?));
            stat.map(|stat| (stat.st_dev, stat.st_ino)).map_err(|e| e.raw_os_error())
        };
        let paths = [
            ".",
            "..",
            "../..",
            "a",
            "a/b/../..",
            "etc/passwd",
            "etc/passwd/x",
            "missing",
            "a/b/missing",
            "a/folder/passwd",
            "a/folder/../etc",
            "a/back/etc/passwd",
            "../passwd",
            "../../passwd",
        ];
        for path in paths.into_iter().chain(links.map(|(name, _)| name)) {
            for flags in [
                OFlags::PATH,
                OFlags::PATH | OFlags::NOFOLLOW,
                OFlags::RDONLY,
                OFlags::RDONLY | OFlags::NOFOLLOW,
                OFlags::RDONLY | OFlags::DIRECTORY,
                OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW,
                OFlags::WRONLY | OFlags::NONBLOCK,
            ] {
                let flags = flags | OFlags::CLOEXEC;
                let path = Path::new(path);
                let kernel = rustix::fs::openat2(&fd, path, flags, Mode::empty(), ResolveFlags::IN_ROOT);
                assert_eq!(of(walk(&fd, path, flags)), of(kernel.map_err(Into::into)), "{} {flags:?}", path.display());
            }
        }
    }
}
