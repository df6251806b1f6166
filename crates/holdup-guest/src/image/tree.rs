//! The guest's files before they are written: every path, and the source of its content.

use super::roots::{Found, MERGED, Source, guest_path};
use cpio::newc::{Builder, ModeFileType};
use holdup_model::Problem;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The user and group that PostgreSQL runs as in the guest.
pub const POSTGRES_ID: u32 = 999;

/// The largest file of an archive: its header has eight hexadecimal digits for the size.
const SIZE_MAX: u64 = 0xffff_ffff;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    File(Source),
    Text(Vec<u8>),
    Link(PathBuf),
    CharDevice(u32, u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    /// User and group.
    pub(crate) owner: u32,
}

impl Node {
    pub(crate) fn content_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Folder | Kind::CharDevice(..) => 0,
            Kind::File(source) => source.bytes,
            Kind::Text(text) => text.len() as u64,
            Kind::Link(target) => target.as_os_str().len() as u64,
        }
    }

    /// Its header in an archive, as entry `number`. All times are zero, so that the same files give the same bytes.
    pub(crate) fn header(&self, path: &str, number: u32) -> Builder {
        let (kind, links, (major, minor)) = match &self.kind {
            Kind::Folder => (ModeFileType::Directory, 2, (0, 0)),
            Kind::File(_) | Kind::Text(_) => (ModeFileType::Regular, 1, (0, 0)),
            Kind::Link(_) => (ModeFileType::Symlink, 1, (0, 0)),
            Kind::CharDevice(major, minor) => (ModeFileType::Char, 1, (*major, *minor)),
        };
        let header = Builder::new(path).ino(number).mode(self.mode & 0o7777).set_mode_file_type(kind);
        header.uid(self.owner).gid(self.owner).nlink(links).rdev_major(major).rdev_minor(minor)
    }
}

/// All paths of the guest, sorted by their bytes, so that a folder comes before its content.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<String, Node>);

impl Tree {
    pub(crate) fn base() -> Result<Self, Problem> {
        let mut tree = Tree::default();
        for folder in ["dev", "dev/shm", "etc", "proc", "root", "run", "sys", "usr", "var", "var/lib", "var/tmp"] {
            let mode = if matches!(folder, "dev/shm" | "var/tmp") { 0o1777 } else { 0o755 };
            tree.folder(&Path::new("/").join(folder), mode, 0)?;
        }
        tree.folder(Path::new("/tmp"), 0o1777, 0)?;
        for name in MERGED {
            tree.folder(&Path::new("/usr").join(name), 0o755, 0)?;
            let link = Node { kind: Kind::Link(Path::new("usr").join(name)), mode: 0o777, owner: 0 };
            tree.0.insert(name.to_owned(), link);
        }
        tree.put(Path::new("/var/run"), Kind::Link("../run".into()), 0o777, 0)?;
        tree.put(Path::new("/dev/console"), Kind::CharDevice(5, 1), 0o600, 0)?;
        tree.put(Path::new("/dev/null"), Kind::CharDevice(1, 3), 0o666, 0)?;
        Ok(tree)
    }

    /// Adds a folder and the folders above it. An existing folder stays as it is.
    pub(crate) fn folder(&mut self, path: &Path, mode: u32, owner: u32) -> Result<(), Problem> {
        self.put(path, Kind::Folder, mode, owner)
    }

    /// Adds a node, unless the path exists: the first request for a path, which is the user's, wins.
    ///
    /// # Errors
    /// When a folder and something else have the same path, or an archive cannot have the path.
    pub(crate) fn put(&mut self, path: &Path, kind: Kind, mode: u32, owner: u32) -> Result<(), Problem> {
        let path = guest_path(path);
        let refused = |why: &str| Problem::usage(format!("path {} in the guest", path.display()), why);
        if path.parent().is_none() {
            return if kind == Kind::Folder { Ok(()) } else { Err(refused("it is the root folder")) };
        }
        let Some(key) = key(&path).filter(|key| !key.contains('\0') && key.len() < 4095) else {
            return Err(refused("an initramfs cannot have such a path"));
        };
        let above: Vec<&Path> = path.ancestors().skip(1).filter(|p| p.parent().is_some()).collect();
        for folder in above.into_iter().rev() {
            let node = Node { kind: Kind::Folder, mode: 0o755, owner: 0 };
            if self.0.entry(self::key(folder).unwrap_or_default()).or_insert(node).kind != Kind::Folder {
                return Err(refused(&format!("{} is a file there, and would have to be a folder", folder.display())));
            }
        }
        let node = Node { kind, mode, owner };
        if node.content_bytes() > SIZE_MAX {
            return Err(refused(&format!("its {} bytes are too many for an initramfs", node.content_bytes())));
        }
        let is_folder = node.kind == Kind::Folder;
        let there = self.0.entry(key).or_insert(node);
        if (there.kind == Kind::Folder) != is_folder {
            return Err(refused("it would be both a folder and a file"));
        }
        Ok(())
    }

    /// Adds a file of the host, and a link to it if it was requested by another path.
    pub(crate) fn found(&mut self, found: &Found) -> Result<(), Problem> {
        let mode = if found.source.executable { 0o755 } else { 0o644 };
        if found.is_folder {
            return self.folder(&found.real, 0o755, 0);
        }
        self.put(&found.real, Kind::File(found.source.clone()), mode, 0)?;
        if found.named == found.real { Ok(()) } else { self.link(&found.named, &found.real) }
    }

    pub(crate) fn link(&mut self, path: &Path, target: &Path) -> Result<(), Problem> {
        self.put(path, Kind::Link(target.to_owned()), 0o777, 0)
    }

    pub(crate) fn text(&mut self, path: &Path, text: &str) -> Result<(), Problem> {
        self.put(path, Kind::Text(text.as_bytes().to_vec()), 0o644, 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.0.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// The number of files with content.
    pub(crate) fn files(&self) -> usize {
        self.0.values().filter(|n| matches!(n.kind, Kind::File(_) | Kind::Text(_))).count()
    }

    pub(crate) fn archive_bytes(&self) -> u64 {
        let entry =
            |path: &str, content: u64| (111 + path.len() as u64).next_multiple_of(4) + content.next_multiple_of(4);
        self.iter().map(|(path, node)| entry(path, node.content_bytes())).sum::<u64>() + entry("TRAILER!!!", 0)
    }
}

/// A path as an archive has it; `None` when it is not UTF-8.
fn key(path: &Path) -> Option<String> {
    path.strip_prefix("/").unwrap_or(path).to_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_first_and_conflicts_are_reported() {
        let mut tree = Tree::default();
        tree.text(Path::new("/a/b/c"), "x").unwrap();
        tree.text(Path::new("/a-b"), "y").unwrap();
        tree.text(Path::new("/a/b/c"), "second").unwrap();
        let paths: Vec<&str> = tree.iter().map(|(p, _)| p).collect();
        assert_eq!(paths, ["a", "a-b", "a/b", "a/b/c"]);
        assert_eq!(tree.iter().last().unwrap().1.kind, Kind::Text(b"x".to_vec()));
        let under_a_file = tree.text(Path::new("/a/b/c/d"), "").unwrap_err();
        assert!(under_a_file.to_string().contains("/a/b/c is a file there"), "{under_a_file}");
        assert!(tree.text(Path::new("/a/b"), "").is_err());
        assert!(tree.folder(Path::new("/a-b"), 0o755, 0).is_err());
        assert!(tree.text(Path::new("/.."), "").is_err());
        let source = Source { path: "x".into(), bytes: 1 << 32, mtime_ns: 0, inode: (0, 0), executable: false };
        assert!(tree.put(Path::new("/x"), Kind::File(source), 0o644, 0).is_err(), "too large for an archive");
        let name = std::os::unix::ffi::OsStrExt::from_bytes(b"/\xff");
        assert!(tree.text(Path::new::<std::ffi::OsStr>(name), "").is_err(), "not UTF-8");
    }

    #[test]
    fn every_guest_has_a_console_before_its_agent_opens_one() {
        let tree = Tree::base().unwrap();
        let at = |p: &str| tree.iter().find(|(path, _)| *path == p).map(|(_, node)| node.clone());
        assert_eq!(at("dev/console").unwrap().kind, Kind::CharDevice(5, 1));
        assert_eq!(at("tmp").unwrap().mode, 0o1777);
        assert_eq!(at("lib").unwrap().kind, Kind::Link("usr/lib".into()));
    }
}
