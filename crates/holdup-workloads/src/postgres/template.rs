//! A data folder that was made in advance, in guests: initdb is slow under emulation.
//!
//! The image of a guest may hold one (`holdup_guest::image::template`). It is taken when it was made by an initdb of
//! exactly the version of the programs here; else initdb makes a new one.

use super::server::Place;
use super::user::RunAs;
use holdup_model::Problem;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, fchown, lchown};
use std::path::Path;

/// The folder with `template-MAJOR` and `template-MAJOR.version`: where images of guests have it.
pub(super) const FOLDER: &str = "/var/lib/holdup";

/// Copies the template that fits the programs of `place` to its data folder. Returns whether there is one.
///
/// # Errors
/// When the copy fails half way.
pub(super) fn copy_fitting(folder: &Path, place: &Place) -> Result<bool, Problem> {
    let template = folder.join(format!("template-{}", place.bin.pgbench_major));
    let version = std::fs::read_to_string(template.with_extension("version")).unwrap_or_default();
    if version.trim() != place.bin.pgbench_version || std::fs::read_dir(&template).is_err() {
        return Ok(false);
    }
    let mut left = vec![(template.clone(), place.data())];
    let mut made = Vec::new();
    while let Some((from, to)) = left.pop() {
        let failed =
            |e: io::Error| Problem::host(format!("data folder made in advance {}", from.display()), e.to_string());
        let meta = std::fs::symlink_metadata(&from).map_err(failed)?;
        if meta.is_dir() {
            DirBuilder::new().mode(0o700).create(&to).map_err(failed)?;
            for entry in std::fs::read_dir(&from).map_err(failed)? {
                let name = entry.map_err(failed)?.file_name();
                left.push((from.join(&name), to.join(&name)));
            }
            made.push(to);
        } else {
            copy_file(&from, &to, place.user.as_ref()).map_err(failed)?;
        }
    }
    // A folder is the user's only once all is in it, so that the user cannot put a link where root still writes.
    if let Some(user) = &place.user {
        for folder in made.iter().rev() {
            lchown(folder, Some(user.uid), Some(user.gid))
                .map_err(|e| Problem::host(format!("data folder {}", folder.display()), e.to_string()))?;
        }
    }
    Ok(true)
}

/// As root in a folder of another user: never through a link that somebody put there.
fn copy_file(from: &Path, to: &Path, user: Option<&RunAs>) -> io::Result<()> {
    let mut target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut File::open(from)?, &mut target)?;
    user.map_or(Ok(()), |user| fchown(&target, Some(user.uid), Some(user.gid)))
}

#[cfg(test)]
mod tests {
    use super::super::find::Binaries;
    use super::*;

    #[test]
    fn a_template_of_another_version_is_not_taken() {
        let top = tempfile::tempdir().unwrap();
        let template = top.path().join("template-15");
        std::fs::create_dir_all(template.join("base/1")).unwrap();
        std::fs::write(template.join("base/1/PG_VERSION"), "15\n").unwrap();
        let bin = Binaries { bin: "/nowhere".into(), pgbench_version: "15.18 (Debian)".to_owned(), pgbench_major: 15 };
        let folder = top.path().join("private");
        std::fs::create_dir(&folder).unwrap();
        let place = Place { bin, folder, user: None };
        assert!(!copy_fitting(top.path(), &place).unwrap(), "nothing says its version");
        std::fs::write(top.path().join("template-15.version"), "15.17 (Debian)\n").unwrap();
        assert!(!copy_fitting(top.path(), &place).unwrap());
        assert!(!place.data().exists());
        std::fs::write(top.path().join("template-15.version"), "15.18 (Debian)\n").unwrap();
        assert!(copy_fitting(top.path(), &place).unwrap());
        assert_eq!(std::fs::read_to_string(place.data().join("base/1/PG_VERSION")).unwrap(), "15\n");
        let twice = copy_fitting(top.path(), &place).unwrap_err();
        assert!(twice.to_string().contains("template-15"), "{twice}");
    }
}
