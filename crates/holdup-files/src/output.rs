//! Files that are written where the user named them.

use crate::{Folder, refused};
use rustix::fs::FileType;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// A file that appears under its name when it is whole. A file of that name is replaced; a link, a device or a FIFO is
/// refused, so that a user who can write in the folder cannot choose where root writes.
#[derive(Debug)]
pub struct Output {
    folder: Folder,
    name: String,
    fresh: String,
    file: File,
    is_whole: bool,
}

impl Output {
    /// Begins a file.
    ///
    /// # Errors
    /// When its folder cannot be opened, something that is no regular file has its name, or no file can be made.
    pub fn create(path: &Path) -> io::Result<Self> {
        // What has no last name but is not empty is `.`, `/` or ends in `..`.
        let is_empty = path == Path::new("");
        let name =
            path.file_name().ok_or_else(|| refused(if is_empty { "it has no name" } else { "it is a folder" }))?;
        let name = name.to_str().ok_or_else(|| refused("its name is not UTF-8"))?.to_owned();
        let folder = match path.parent() {
            Some(above) if above != Path::new("") => Folder::open_to_fill(above)?,
            _ => Folder::open(Path::new("."))?,
        };
        match folder.stat(&name).map(|found| FileType::from_raw_mode(found.st_mode)) {
            Ok(FileType::RegularFile) => {}
            Ok(FileType::Directory) => return Err(refused("it is a folder")),
            Ok(FileType::Symlink) => return Err(refused("it is a symbolic link, which is not followed for writing")),
            Ok(_) => return Err(refused("it is not a regular file")),
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        folder.sweep(|left| left == name);
        let (fresh, file) = folder.create_fresh(&name, None)?;
        Ok(Output { folder, name, fresh, file, is_whole: false })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// When what was written does not reach the disk, or it cannot be renamed.
    pub fn finish(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        self.folder.rename(&self.fresh, &self.name)?;
        self.is_whole = true;
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if !self.is_whole {
            // It is of no use, and there is no one to report to.
            let _gone = self.folder.remove(&self.fresh);
        }
    }
}

/// Writes a whole file where the user named it.
///
/// # Errors
/// As for [`Output::create`], and when the disk is full; then no part of it is left.
pub fn write_output(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut output = Output::create(path)?;
    output.write_all(bytes)?;
    output.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};
    use std::path::PathBuf;

    /// Finding M8 of the attacks.
    #[test]
    #[ignore = "takes root, which alone can give a link away"]
    fn root_follows_no_link_of_another_user_on_the_way() {
        let top = tempfile::tempdir().unwrap();
        let (secret, link) = (top.path().join("secret"), top.path().join("link"));
        std::fs::create_dir(&secret).unwrap();
        symlink(&secret, &link).unwrap();
        write_output(&link.join("ours"), b"1").unwrap();
        write_output(&link.join("../secret/./again"), b"1").unwrap();
        let up: PathBuf = std::env::current_dir().unwrap().components().skip(1).map(|_| "..").collect();
        write_output(&up.join(secret.strip_prefix("/").unwrap()).join("up"), b"1").unwrap();
        lchown(&link, Some(54_321), None).unwrap();
        let refused = write_output(&link.join("theirs"), b"1").unwrap_err().to_string();
        assert!(refused.contains("link is a link of the user with id 54321"), "{refused}");
        assert!(refused.contains(&format!("name {}", secret.display())), "{refused}");
        let names = Folder::open(&secret).unwrap().list(9).unwrap().into_iter().map(|entry| entry.name);
        assert_eq!(names.collect::<Vec<_>>(), ["again", "ours", "up"]);
    }

    #[test]
    fn a_file_is_replaced_and_a_link_refused() {
        let top = tempfile::tempdir().unwrap();
        let (file, link) = (top.path().join("out.html"), top.path().join("link.html"));
        write_output(&file, b"1").unwrap();
        // A process that was killed left it.
        std::fs::write(top.path().join(".out.html.abcdefghabcdefgh"), "").unwrap();
        write_output(&file, b"22").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"22");
        symlink(&file, &link).unwrap();
        let refused = write_output(&link, b"3").unwrap_err().to_string();
        assert!(refused.contains("symbolic link"), "{refused}");
        write_output(top.path(), b"3").unwrap_err();
        drop(Output::create(&file).unwrap());
        assert_eq!(std::fs::read(&file).unwrap(), b"22", "what was not finished leaves the old file");
        assert_eq!(std::fs::read_dir(top.path()).unwrap().count(), 2);
    }
}
