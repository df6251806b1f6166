//! Captured trees as folders and back, for the scripts that make them.
//!
//!     cargo run -p holdup-host --example tree -- unpack FILE.tree FOLDER
//!     cargo run -p holdup-host --example tree -- pack FOLDER FILE.tree [BASE.tree]
//!
//! In a folder, what could not be read is a line of the file `unreadable`: path, tab, the system's words.

use holdup_host::{TreeEntry, TreeFile};
use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = std::env::args_os().skip(1).collect();
    let words: Vec<&OsStr> = words.iter().map(AsRef::as_ref).collect();
    match words[..] {
        [verb, file, folder] if verb == "unpack" => unpack(&TreeFile::read(file.as_ref())?, folder.as_ref()),
        [verb, folder, file] if verb == "pack" => Ok(fs::write(file, pack(folder.as_ref())?.text())?),
        [verb, folder, file, base] if verb == "pack" => {
            let name = Path::new(base).file_name().and_then(OsStr::to_str).ok_or("the base has no name")?;
            let whole = pack(folder.as_ref())?;
            fs::write(file, whole.relative_to(name, &TreeFile::read(base.as_ref())?).text())?;
            if TreeFile::read(file.as_ref())? == whole {
                Ok(())
            } else {
                Err("the base has a file for a folder".into())
            }
        }
        _ => Err("unpack FILE.tree FOLDER, or pack FOLDER FILE.tree [BASE.tree]".into()),
    }
}

fn unpack(tree: &TreeFile, folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let mut unreadable = String::new();
    for (path, entry) in &tree.entries {
        let place = folder.join(path);
        if let Some(above) = place.parent() {
            fs::create_dir_all(above)?;
        }
        match entry {
            TreeEntry::File(content) => fs::write(place, content)?,
            TreeEntry::Link(target) => symlink(target, place)?,
            TreeEntry::Unreadable(words) => unreadable.push_str(&format!("/{path}\t{words}\n")),
            TreeEntry::Folder => fs::create_dir_all(place)?,
        }
    }
    if !unreadable.is_empty() {
        fs::write(folder.join("unreadable"), unreadable)?;
    }
    Ok(())
}

fn pack(folder: &Path) -> Result<TreeFile, Box<dyn Error>> {
    let mut tree = TreeFile::default();
    add(folder, "", &mut tree)?;
    if let Some(TreeEntry::File(list)) = tree.entries.remove("unreadable") {
        for line in String::from_utf8(list)?.lines() {
            let (path, words) = line.split_once('\t').ok_or("a line of unreadable has no tab")?;
            let path = path.trim_start_matches('/').to_owned();
            tree.entries.insert(path, TreeEntry::Unreadable(words.to_owned()));
        }
    }
    Ok(tree)
}

fn add(folder: &Path, path: &str, tree: &mut TreeFile) -> Result<(), Box<dyn Error>> {
    let count = tree.entries.len();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| format!("{} is not UTF-8", name.display()))?;
        let path = if path.is_empty() { name } else { format!("{path}/{name}") };
        let kind = entry.file_type()?;
        if kind.is_dir() {
            add(&entry.path(), &path, tree)?;
            continue;
        }
        let entry = if kind.is_symlink() {
            TreeEntry::Link(
                fs::read_link(entry.path())?.into_os_string().into_string().map_err(|_| "a target is not UTF-8")?,
            )
        } else {
            TreeEntry::File(fs::read(entry.path())?)
        };
        tree.entries.insert(path, entry);
    }
    if tree.entries.len() == count && !path.is_empty() {
        tree.entries.insert(path.to_owned(), TreeEntry::Folder);
    }
    Ok(())
}
