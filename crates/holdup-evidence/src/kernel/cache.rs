//! A cache of analyses on disk, with a file for each build and question.
//!
//! A folder or file that is not this user's own, or that others may write, is not used: a map that others can write can name
//! any code. A file that cannot be used is removed and made anew. What cannot be written is analysed again.

use holdup_files::{Folder, private_folder};
use holdup_sections::cached::{CachedAnalysis, MOST_BYTES};
use rustix::fs::FileType;
use std::path::Path;

/// The oldest files beyond this number are removed.
const MOST_FILES: usize = 64;
/// And beyond this size of all of them, bytes.
const MOST_BYTES_OF_ALL: u64 = 32 << 20;
pub(crate) struct MapCache<'a>(pub(crate) &'a Path);

impl MapCache<'_> {
    /// The analysis of a build for a question; `None` where there is none that can be used.
    pub(crate) fn get(&self, build_id: &str, is_program: bool, functions: &[String]) -> Option<CachedAnalysis> {
        let name = file_name(build_id, is_program, functions)?;
        let folder = Folder::open_own(self.0).ok()?;
        match CachedAnalysis::decode(&folder.read_own(&name, MOST_BYTES as u64).ok()?) {
            Ok(kept) if (&*kept.build_id, kept.is_program, &*kept.functions) == (build_id, is_program, functions) => {
                Some(kept)
            }
            // The sum of another question's names is the same, or the file is damaged or of another analyser.
            _ => folder.remove(&name).ok().and(None),
        }
    }

    /// Writes an analysis, all or nothing.
    pub(crate) fn put(&self, kept: &CachedAnalysis) {
        let Some(name) = file_name(&kept.build_id, kept.is_program, &kept.functions) else { return };
        let Some(bytes) = kept.encode() else { return };
        let Ok(folder) = private_folder(self.0) else { return };
        if folder.replace_synced(&name, &bytes, 0o600).is_ok() {
            tidy(&folder);
        }
    }
}

/// `None` for a build id that is none: it becomes a part of the name.
pub(crate) fn file_name(build_id: &str, is_program: bool, functions: &[String]) -> Option<String> {
    let is_id = (8..=128).contains(&build_id.len()) && build_id.bytes().all(|b| b.is_ascii_hexdigit());
    // FNV-1a of 64 bits; the file has the question too.
    let bytes = functions.iter().flat_map(|name| name.bytes().chain([0]));
    let sum = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, b| (sum ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    let kind = if is_program { "program" } else { "library" };
    is_id.then(|| format!("{build_id}-{kind}-{sum:016x}.map"))
}

/// Removes files beyond the bounds, the oldest first.
fn tidy(folder: &Folder) {
    const MOST_ENTRIES: usize = 100_000;
    let files =
        folder.list(MOST_ENTRIES).unwrap_or_default().into_iter().filter(|entry| entry.kind == FileType::RegularFile);
    let mut files: Vec<_> = files
        .filter_map(|entry| {
            let found = folder.stat(&entry.name).ok()?;
            Some(((found.st_mtime, found.st_mtime_nsec), found.st_size.cast_unsigned(), entry.name))
        })
        .collect();
    files.sort();
    let (mut count, mut bytes) = (files.len(), files.iter().map(|f| f.1).sum::<u64>());
    for (_, size, name) in files {
        if count <= MOST_FILES && bytes <= MOST_BYTES_OF_ALL {
            return;
        }
        // Another run may have removed it since.
        let _ = folder.remove(name);
        (count, bytes) = (count - 1, bytes - size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::SectionMap;
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;
    use std::time::SystemTime;

    const ID: &str = "0123456789abcdef";

    fn analysis(build_id: &str) -> CachedAnalysis {
        let map = SectionMap { build_id: build_id.to_owned(), notes: vec!["a".to_owned()], ..SectionMap::default() };
        CachedAnalysis { build_id: build_id.to_owned(), is_program: true, map, ..CachedAnalysis::default() }
    }

    fn only_file(folder: &Path) -> PathBuf {
        let mut files = fs::read_dir(folder).expect("a folder").map(|f| f.expect("an entry").path());
        let file = files.next().expect("a file");
        assert!(files.next().is_none(), "nothing else is left");
        file
    }

    #[test]
    fn what_was_put_is_got_for_the_same_question_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, f) = (folder.path().join("maps"), ["f".to_owned()]);
        let maps = MapCache(&path);
        assert_eq!(maps.get(ID, true, &[]), None);
        maps.put(&analysis(ID));
        assert_eq!(maps.get(ID, true, &[]), Some(analysis(ID)));
        assert_eq!((maps.get(ID, true, &f), maps.get(ID, false, &[])), (None, None));
        maps.put(&analysis("../../etc/passwd"));
        assert_eq!(maps.get("../../etc/passwd", true, &[]), None);
        only_file(&path);
    }

    #[test]
    fn a_damaged_file_or_one_of_another_build_is_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("maps");
        let maps = MapCache(&path);
        maps.put(&analysis(ID));
        let file = only_file(&path);
        let other = analysis("00000000ffffffff").encode().expect("it is small");
        let mut bytes = fs::read(&file).expect("readable");
        bytes[20] ^= 1;
        for bytes in [bytes, other, Vec::new()] {
            fs::write(&file, bytes).expect("writable");
            assert_eq!(maps.get(ID, true, &[]), None);
            assert!(!file.exists());
            maps.put(&analysis(ID));
            assert_eq!(maps.get(ID, true, &[]), Some(analysis(ID)));
        }
    }

    #[test]
    fn what_others_may_write_or_own_is_not_trusted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("maps");
        let maps = MapCache(&path);
        maps.put(&analysis(ID));
        let file = only_file(&path);
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
        mode(&file, 0o620);
        assert_eq!(maps.get(ID, true, &[]), None);
        mode(&file, 0o600);
        mode(&path, 0o777);
        assert_eq!(maps.get(ID, true, &[]), None);
        maps.put(&analysis(ID));
        assert_eq!(fs::metadata(&path).expect("ours").permissions().mode() & 0o7777, 0o700, "the mode is put right");
        assert_eq!(maps.get(ID, true, &[]), Some(analysis(ID)));
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&file, &elsewhere).expect("ours");
        std::os::unix::fs::symlink(&elsewhere, &file).expect("ours");
        assert_eq!(maps.get(ID, true, &[]), None, "a link is not followed");
        fs::remove_file(&file).expect("ours");
        fs::rename(&elsewhere, &file).expect("ours");
        // Only root can give files away.
        if std::os::unix::fs::chown(&file, Some(65534), None).is_ok() {
            assert_eq!(maps.get(ID, true, &[]), None, "another user's");
        }
    }

    #[test]
    fn the_oldest_go_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let maps = MapCache(folder.path());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).expect("ours");
        for n in 0..MOST_FILES + 5 {
            let build_id = format!("{n:016x}");
            maps.put(&analysis(&build_id));
            let file = folder.path().join(file_name(&build_id, true, &[]).expect("an id"));
            let age = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(n as u64 + 1);
            if let Ok(file) = File::options().write(true).open(file) {
                file.set_modified(age).expect("ours");
            }
        }
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), MOST_FILES);
        assert_eq!(maps.get(&format!("{:016x}", 0), true, &[]), None);
        assert!(maps.get(&format!("{:016x}", MOST_FILES + 4), true, &[]).is_some());
    }
}
