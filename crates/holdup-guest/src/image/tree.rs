//! The files of the guest before they are written: what is where, and what its content comes from.

use super::cpio::{Entry, EntryKind, SIZE_MAX, entry_bytes};
use super::roots::{Found, MERGED, Source, guest_path};
use holdup_model::Problem;
use std::collections::BTreeMap;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The user and group that PostgreSQL runs as in the guest.
pub const POSTGRES_ID: u32 = 999;

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Folder,
    File(Source),
    Text(Vec<u8>),
    Link(PathBuf),
    CharDevice(u32, u32),
}

/// One path of the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) mode: u32,
    /// Owner and group, the same number.
    pub(crate) owner: u32,
}

impl Node {
    /// How many bytes its content has.
    pub(crate) fn content_bytes(&self) -> u64 {
        match &self.kind {
            Kind::Folder | Kind::CharDevice(..) => 0,
            Kind::File(source) => source.bytes,
            Kind::Text(text) => text.len() as u64,
            Kind::Link(target) => target.as_os_str().len() as u64,
        }
    }

    /// Its head in an archive.
    pub(crate) fn entry<'a>(&self, path: &'a [u8]) -> Entry<'a> {
        let kind = match &self.kind {
            Kind::Folder => EntryKind::Folder,
            Kind::File(_) | Kind::Text(_) => EntryKind::File(self.content_bytes()),
            Kind::Link(_) => EntryKind::Link(self.content_bytes()),
            Kind::CharDevice(major, minor) => EntryKind::CharDevice(*major, *minor),
        };
        Entry { path, kind, mode: self.mode, uid: self.owner, gid: self.owner }
    }
}

/// All paths of the guest. Sorted by their bytes, so that a folder comes before what is in it.
#[derive(Debug, Default)]
pub(crate) struct Tree(BTreeMap<Vec<u8>, Node>);

impl Tree {
    /// The folders and devices that every guest has.
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
            tree.0.insert(name.as_bytes().to_vec(), link);
        }
        tree.put(Path::new("/var/run"), Kind::Link("../run".into()), 0o777, 0)?;
        tree.put(Path::new("/dev/console"), Kind::CharDevice(5, 1), 0o600, 0)?;
        tree.put(Path::new("/dev/null"), Kind::CharDevice(1, 3), 0o666, 0)?;
        Ok(tree)
    }

    /// Adds a folder and the folders above it. A folder that is there already stays as it is.
    pub(crate) fn folder(&mut self, path: &Path, mode: u32, owner: u32) -> Result<(), Problem> {
        self.put(path, Kind::Folder, mode, owner)
    }

    /// Adds something. What is there already stays: what a user asked for comes first.
    ///
    /// # Errors
    /// When a folder and something else want to be at one path, or the path is none.
    pub(crate) fn put(&mut self, path: &Path, kind: Kind, mode: u32, owner: u32) -> Result<(), Problem> {
        let path = guest_path(path);
        let refused = |why: &str| Problem::usage(format!("path {} in the guest", path.display()), why);
        if path.parent().is_none() {
            return if kind == Kind::Folder { Ok(()) } else { Err(refused("it is the root of all folders")) };
        }
        if path.as_os_str().as_bytes().contains(&0) || path.as_os_str().len() >= 4096 {
            return Err(refused("the kernel takes no such path"));
        }
        let above: Vec<&Path> = path.ancestors().skip(1).filter(|p| p.parent().is_some()).collect();
        for folder in above.into_iter().rev() {
            let node = Node { kind: Kind::Folder, mode: 0o755, owner: 0 };
            if self.0.entry(key(folder)).or_insert(node).kind != Kind::Folder {
                return Err(refused(&format!("{} is a file there, and would have to be a folder", folder.display())));
            }
        }
        let node = Node { kind, mode, owner };
        if node.content_bytes() > SIZE_MAX {
            return Err(refused(&format!("its {} bytes are too many for an initramfs", node.content_bytes())));
        }
        let is_folder = node.kind == Kind::Folder;
        let there = self.0.entry(key(&path)).or_insert(node);
        if (there.kind == Kind::Folder) != is_folder {
            return Err(refused("a folder and a file want to be there"));
        }
        Ok(())
    }

    /// Adds a file of the host at the path that it was asked for by, with a link where it is elsewhere in truth.
    pub(crate) fn found(&mut self, found: &Found) -> Result<(), Problem> {
        let mode = if found.source.executable { 0o755 } else { 0o644 };
        if found.is_folder {
            return self.folder(&found.real, 0o755, 0);
        }
        self.put(&found.real, Kind::File(found.source.clone()), mode, 0)?;
        if found.named == found.real { Ok(()) } else { self.link(&found.named, &found.real) }
    }

    /// Adds a link, unless something is there.
    pub(crate) fn link(&mut self, path: &Path, target: &Path) -> Result<(), Problem> {
        self.put(path, Kind::Link(target.to_owned()), 0o777, 0)
    }

    /// Adds a small text.
    pub(crate) fn text(&mut self, path: &Path, text: &str) -> Result<(), Problem> {
        self.put(path, Kind::Text(text.as_bytes().to_vec()), 0o644, 0)
    }

    /// All entries in order, with their paths as an archive has them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &Node)> {
        self.0.iter().map(|(path, node)| (path.as_slice(), node))
    }

    /// How many files with content it has.
    pub(crate) fn files(&self) -> usize {
        self.0.values().filter(|n| matches!(n.kind, Kind::File(_) | Kind::Text(_))).count()
    }

    /// How large its archive will be.
    pub(crate) fn archive_bytes(&self) -> u64 {
        self.iter().map(|(path, node)| entry_bytes(path, node.content_bytes())).sum::<u64>() + 124
    }
}

fn key(path: &Path) -> Vec<u8> {
    path.strip_prefix("/").unwrap_or(path).to_owned().into_os_string().into_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_first_and_conflicts_are_told() {
        let mut tree = Tree::default();
        tree.text(Path::new("/a/b/c"), "x").unwrap();
        tree.text(Path::new("/a-b"), "y").unwrap();
        tree.text(Path::new("/a/b/c"), "second").unwrap();
        let paths: Vec<&[u8]> = tree.iter().map(|(p, _)| p).collect();
        assert_eq!(paths, [&b"a"[..], b"a-b", b"a/b", b"a/b/c"]);
        assert_eq!(tree.iter().last().unwrap().1.kind, Kind::Text(b"x".to_vec()));
        let under_a_file = tree.text(Path::new("/a/b/c/d"), "").unwrap_err();
        assert!(under_a_file.to_string().contains("/a/b/c is a file there"), "{under_a_file}");
        assert!(tree.text(Path::new("/a/b"), "").is_err());
        assert!(tree.folder(Path::new("/a-b"), 0o755, 0).is_err());
        assert!(tree.text(Path::new("/.."), "").is_err());
    }

    #[test]
    fn every_guest_has_a_console_before_its_agent_opens_one() {
        let tree = Tree::base().unwrap();
        let at = |p: &[u8]| tree.iter().find(|(path, _)| *path == p).map(|(_, node)| node.clone());
        assert_eq!(at(b"dev/console").unwrap().kind, Kind::CharDevice(5, 1));
        assert_eq!(at(b"tmp").unwrap().mode, 0o1777);
        assert_eq!(at(b"lib").unwrap().kind, Kind::Link("usr/lib".into()));
    }
}
