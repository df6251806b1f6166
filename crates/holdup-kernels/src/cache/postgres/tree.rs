//! Packages unpacked into one root, with /bin, /lib and /sbin merged into /usr as on all Debian systems.

use crate::archive::unpack_deb;
use crate::files::problem;
use holdup_model::Problem;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

/// Links to folders below /usr. Older packages still have files in them.
const MERGED: [&str; 4] = ["bin", "lib", "lib64", "sbin"];

/// True if a guest may need a file: initdb, the server and its clients never read the others.
pub(super) fn belongs(path: &str) -> bool {
    let path = path.strip_prefix("usr/").unwrap_or(path);
    if let Some(zone) = path.strip_prefix("share/zoneinfo/") {
        // initdb searches all zones for the machine's own; the guest's clock is UTC.
        return zone.starts_with("Etc/") || ["GMT", "UCT", "UTC", "Universal", "Zulu"].contains(&zone);
    }
    if let Some(own) = path.strip_prefix("share/postgresql/") {
        return !own.contains("/man/");
    }
    if let Some(library) = path.strip_prefix("lib/") {
        let compiler = library.contains("/bitcode/") || library.contains("/llvmjit");
        let others = ["/gconv/", "/engines-3/", "/pgxs/"].iter().any(|folder| library.contains(folder));
        return !compiler && !others && !library.starts_with("systemd/");
    }
    ["bin/", "lib64/", "sbin/"].iter().any(|folder| path.starts_with(folder))
}

pub(super) fn begin(root: &Path) -> Result<(), Problem> {
    let make = || -> io::Result<()> {
        fs::create_dir_all(root.join("usr"))?;
        for name in MERGED {
            fs::create_dir(root.join("usr").join(name))?;
            symlink(Path::new("usr").join(name), root.join(name))?;
        }
        Ok(())
    };
    make().map_err(|e| problem("folder", root, &e))
}

/// Unpacks a package into a root through the temporary folder `scratch`.
///
/// # Errors
/// When the package is damaged, another package has the same file, or the disk is full.
pub(super) fn add(package: &Path, root: &Path, scratch: &Path) -> Result<(), Problem> {
    fs::create_dir(scratch).map_err(|e| problem("folder", scratch, &e))?;
    let (facts, unpacked) = unpack_deb(package, scratch, &belongs)?;
    for path in &unpacked.files {
        let moved = move_in(path, scratch, root);
        moved.map_err(|e| Problem::host(format!("package {}", facts.package), format!("{}: {e}", path.display())))?;
    }
    fs::remove_dir_all(scratch).map_err(|e| problem("folder", scratch, &e))
}

fn move_in(path: &Path, from: &Path, root: &Path) -> io::Result<()> {
    let (from, to) = (from.join(path), root.join(merged(path)));
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    if fs::symlink_metadata(&to).is_ok() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "another package has the same file"));
    }
    if !fs::symlink_metadata(&from)?.is_symlink() {
        return fs::rename(&from, &to);
    }
    match relinked(path, &fs::read_link(&from)?) {
        Some(target) => symlink(target, &to),
        None => Err(io::Error::other("it is a link that leaves the package")),
    }
}

/// The path of a file in the merged root.
fn merged(path: &Path) -> PathBuf {
    let first = path.components().next().map(Component::as_os_str);
    match first.is_some_and(|first| MERGED.iter().any(|name| first == *name)) {
        true => Path::new("usr").join(path),
        false => path.to_owned(),
    }
}

/// The target of a relative link in the merged root; `None` when it leaves the root.
fn relinked(path: &Path, target: &Path) -> Option<PathBuf> {
    let mut whole = path.parent()?.to_owned();
    for part in target.components() {
        match part {
            Component::Normal(name) => whole.push(name),
            Component::CurDir => {}
            Component::ParentDir if whole.pop() => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    let (from, to) = (merged(path), merged(&whole));
    let folder: Vec<Component<'_>> = from.parent()?.components().collect();
    let target: Vec<Component<'_>> = to.components().collect();
    let common = folder.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n(Component::ParentDir, folder.len() - common);
    let relative: PathBuf = up.chain(target.into_iter().skip(common)).collect();
    (!relative.as_os_str().is_empty()).then_some(relative)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_a_guest_may_need_are_unpacked() {
        for path in [
            "usr/lib/postgresql/17/bin/postgres",
            "usr/lib/postgresql/17/lib/plpgsql.so",
            "usr/share/postgresql/17/postgres.bki",
            "usr/share/postgresql/17/extension/plpgsql.control",
            "usr/lib/x86_64-linux-gnu/libc.so.6",
            "lib/x86_64-linux-gnu/libc.so.6",
            "lib64/ld-linux-x86-64.so.2",
            "usr/lib/ld-linux-aarch64.so.1",
            "bin/sh",
            "usr/share/zoneinfo/UTC",
            "usr/share/zoneinfo/Etc/UTC",
        ] {
            assert!(belongs(path), "{path}");
        }
        for path in [
            "usr/share/doc/libc6/copyright",
            "usr/share/zoneinfo/Europe/Berlin",
            "usr/share/zoneinfo/tzdata.zi",
            "usr/share/zoneinfo/localtime",
            "usr/share/zoneinfo/Cuba",
            "usr/share/postgresql/17/man/man1/psql.1.gz",
            "usr/share/locale/de/LC_MESSAGES/postgres-17.mo",
            "usr/lib/postgresql/17/lib/llvmjit.so",
            "usr/lib/postgresql/17/lib/bitcode/postgres/access/nbtree.bc",
            "usr/lib/x86_64-linux-gnu/gconv/UTF-16.so",
            "etc/default/locale",
            "var/lib/x",
        ] {
            assert!(!belongs(path), "{path}");
        }
    }

    #[test]
    fn links_lead_to_the_same_file_in_merged_folders() {
        let link = |path: &str, target: &str| {
            relinked(Path::new(path), Path::new(target)).map(|target| target.display().to_string())
        };
        for (path, target, is) in [
            ("usr/lib/x/libpq.so.5", "libpq.so.5.17", Some("libpq.so.5.17")),
            ("lib64/ld-linux-x86-64.so.2", "../lib/x/ld-linux-x86-64.so.2", Some("../lib/x/ld-linux-x86-64.so.2")),
            ("usr/lib/x/libz.so", "../../../lib/x/libz.so.1", Some("libz.so.1")),
            ("lib/x/libz.so", "../../usr/lib/x/libz.so.1", Some("libz.so.1")),
            ("usr/bin/sh", "../../bin/dash", Some("dash")),
            ("usr/share/a/b", "../../../etc/b", Some("../../../etc/b")),
            ("usr/a", "../../etc/b", None),
            ("usr/a", "/etc/b", None),
        ] {
            assert_eq!(link(path, target).as_deref(), is, "{path} -> {target}");
        }
    }

    #[test]
    fn files_come_together_in_one_root() {
        let top = tempfile::tempdir().unwrap();
        let (root, from) = (top.path().join("root"), top.path().join("from"));
        begin(&root).unwrap();
        fs::create_dir_all(from.join("lib/x")).unwrap();
        fs::write(from.join("lib/x/libz.so.1.3"), "z").unwrap();
        symlink("libz.so.1.3", from.join("lib/x/libz.so.1")).unwrap();
        for path in ["lib/x/libz.so.1.3", "lib/x/libz.so.1"] {
            move_in(Path::new(path), &from, &root).unwrap();
        }
        assert_eq!(fs::read_to_string(root.join("usr/lib/x/libz.so.1")).unwrap(), "z");
        assert_eq!(fs::read_to_string(root.join("lib/x/libz.so.1")).unwrap(), "z");
        fs::create_dir_all(from.join("usr/lib/x")).unwrap();
        fs::write(from.join("usr/lib/x/libz.so.1"), "y").unwrap();
        let twice = move_in(Path::new("usr/lib/x/libz.so.1"), &from, &root).unwrap_err();
        assert!(twice.to_string().contains("another package"), "{twice}");
    }
}
