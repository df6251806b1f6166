//! Writes the members of a package below one folder, and nowhere else.

use super::{MOST_BYTES, MOST_FILES, damaged};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Component, Path, PathBuf};

/// `PATH_MAX` of Linux.
pub(super) const MOST_NAME_BYTES: usize = 4096;

/// The result of unpacking.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// Files and links, relative to the folder, in the package's order; links last.
    pub files: Vec<PathBuf>,
    /// Wanted members that were left out, with reasons: links that leave the folder, devices.
    pub left_out: Vec<String>,
    /// The size of the files.
    pub bytes: u64,
}

pub(super) struct Member<'a> {
    pub(super) path: &'a str,
    pub(super) kind: Kind<'a>,
    pub(super) bytes: u64,
    pub(super) is_program: bool,
}

pub(super) enum Kind<'a> {
    Folder,
    File,
    /// A symbolic link to this path.
    Link(&'a str),
    /// A hard link to this member.
    HardLink(&'a str),
    Other,
}

/// Unpacks members below a folder that no other process writes to.
///
/// Links are created after all files, so no file is written through one.
pub(super) struct Unpacker<'a> {
    into: &'a Path,
    wanted: &'a dyn Fn(&str) -> bool,
    members: u64,
    links: Vec<(PathBuf, String)>,
    hard_links: Vec<(PathBuf, String)>,
    done: Unpacked,
}

impl<'a> Unpacker<'a> {
    pub(super) fn new(into: &'a Path, wanted: &'a dyn Fn(&str) -> bool) -> Self {
        Unpacker { into, wanted, members: 0, links: Vec::new(), hard_links: Vec::new(), done: Unpacked::default() }
    }

    pub(super) fn take(&mut self, member: &Member<'_>, content: &mut dyn Read) -> io::Result<()> {
        self.members += 1;
        if self.members > MOST_FILES {
            return Err(damaged(format!("it holds more than {MOST_FILES} files")));
        }
        let path = inside(member.path).map_err(damaged)?;
        let Some(text) = path.to_str().filter(|text| !text.is_empty()) else { return Ok(()) };
        if !(self.wanted)(text) {
            return Ok(());
        }
        match member.kind {
            Kind::Folder => {}
            Kind::Link(target) | Kind::HardLink(target) if target.len() > MOST_NAME_BYTES => {
                return Err(damaged(format!("{text} is a link to a name of {} bytes", target.len())));
            }
            Kind::File => self.file(path, member, content)?,
            Kind::Link(target) => self.links.push((path, target.to_owned())),
            Kind::HardLink(target) => self.hard_links.push((path, target.to_owned())),
            Kind::Other => self.done.left_out.push(format!("{text}: neither a file nor a link")),
        }
        Ok(())
    }

    fn file(&mut self, path: PathBuf, member: &Member<'_>, content: &mut dyn Read) -> io::Result<()> {
        if self.done.bytes.saturating_add(member.bytes) > MOST_BYTES {
            return Err(damaged(format!("it unpacks to more than {MOST_BYTES} bytes")));
        }
        let to = self.into.join(&path);
        self.make_folder_of(&path)?;
        let mode = if member.is_program { 0o755 } else { 0o644 };
        // New files only: a repeated path is an error or an attack.
        let mut file = File::options().write(true).create_new(true).mode(mode).open(&to).map_err(|e| at(&to, &e))?;
        let copied = io::copy(&mut content.take(member.bytes), &mut file)?;
        if copied != member.bytes {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.done.bytes += copied;
        self.done.files.push(path);
        Ok(())
    }

    /// Creates the folders above a path, none of which may be a link.
    fn make_folder_of(&self, path: &Path) -> io::Result<()> {
        let mut folder = self.into.to_owned();
        for part in path.parent().iter().flat_map(|parent| parent.components()) {
            folder.push(part);
            match fs::create_dir(&folder) {
                Ok(()) => {}
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    if !fs::symlink_metadata(&folder)?.is_dir() {
                        return Err(damaged(format!("{} is a file and a folder", folder.display())));
                    }
                }
                Err(e) => return Err(at(&folder, &e)),
            }
        }
        Ok(())
    }

    /// Creates the links.
    pub(super) fn end(mut self) -> io::Result<Unpacked> {
        let mut there: BTreeSet<PathBuf> = self.done.files.iter().cloned().collect();
        for (path, target) in std::mem::take(&mut self.hard_links) {
            let from = inside(&target).map_err(damaged)?;
            if !there.contains(&from) {
                self.done.left_out.push(format!("{}: a hard link to {target}, which does not exist", path.display()));
                continue;
            }
            self.make_folder_of(&path)?;
            fs::hard_link(self.into.join(&from), self.into.join(&path)).map_err(|e| at(&path, &e))?;
            there.insert(path.clone());
            self.done.files.push(path);
        }
        let mut links = Vec::new();
        for (path, target) in std::mem::take(&mut self.links) {
            match link_inside(&path, &target) {
                Some(target) => {
                    self.make_folder_of(&path)?;
                    links.push((path, target));
                }
                None => {
                    self.done.left_out.push(format!("{}: a link that leaves the package: {target}", path.display()));
                }
            }
        }
        // All folders exist now, so that none is created through a link.
        for (path, target) in links {
            symlink(target, self.into.join(&path)).map_err(|e| at(&path, &e))?;
            self.done.files.push(path);
        }
        Ok(self.done)
    }
}

fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display()))
}

/// The relative path without `.` and a leading `/`; an error when it leaves the folder.
fn inside(path: &str) -> Result<PathBuf, String> {
    let mut clean = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir | Component::RootDir => {}
            Component::ParentDir | Component::Prefix(_) => {
                return Err(format!("its member `{}` leaves the package", path.escape_debug()));
            }
        }
    }
    if path.contains('\0') || path.len() > MOST_NAME_BYTES {
        return Err("a member's name cannot be a path".to_owned());
    }
    Ok(clean)
}

/// The target of a link so that it stays in the folder: absolute targets become relative.
///
/// `..` is accepted only at the beginning, where it climbs through real folders; after a name it could climb from the target of
/// another link.
fn link_inside(path: &Path, target: &str) -> Option<PathBuf> {
    let depth = path.components().count().checked_sub(1)?;
    let absolute = target.starts_with('/');
    let mut clean = PathBuf::new();
    let mut up = 0;
    if absolute {
        clean.extend(std::iter::repeat_n("..", depth));
    }
    for part in Path::new(target).components() {
        match part {
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir if !absolute && up < depth && clean.components().count() == up => {
                up += 1;
                clean.push("..");
            }
            Component::Normal(name) => clean.push(name),
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    (!clean.as_os_str().is_empty() && !target.contains('\0')).then_some(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_in_the_folder() {
        let made = |path: &str, target: &str| link_inside(Path::new(path), target).map(|p| p.display().to_string());
        for (path, target, is) in [
            ("usr/lib/libpq.so.5", "libpq.so.5.17", Some("libpq.so.5.17")),
            ("usr/lib/x/a", "../y/b", Some("../y/b")),
            ("usr/lib/x/a", "../../../etc/shadow", Some("../../../etc/shadow")),
            ("usr/lib/x/a", "../../../../etc/shadow", None),
            ("usr/a", "/etc/alternatives/a", Some("../etc/alternatives/a")),
            ("a", "/etc/passwd", Some("etc/passwd")),
            ("a", "..", None),
            ("a/b", "c/../../../etc", None),
            ("a/b", "", None),
            ("a", "/", None),
        ] {
            assert_eq!(made(path, target).as_deref(), is, "{path} -> {target}");
        }
    }
}
