//! A data folder that was made in advance, in guests: initdb is slow under emulation.
//!
//! The image of a guest may hold one (`holdup_guest::image::template`). It is taken when it was made by an initdb of
//! exactly the version of the programs here; else initdb makes a new one.

use super::find::Binaries;
use super::user::RunAs;
use holdup_files::Folder;
use holdup_model::Problem;
use rustix::fs::FileType;
use std::io;
use std::os::unix::fs::fchown;
use std::path::Path;

/// The folder with `template-MAJOR` and `template-MAJOR.version`: where images of guests have it.
pub(super) const FOLDER: &str = "/var/lib/holdup";

/// The most files in one folder of a data folder that initdb has just made.
const MOST_ENTRIES: usize = 10_000;

/// Copies the template that fits these programs to a folder that is empty and still ours; `user` has it then. Returns
/// whether there is one.
pub(super) fn copy_fitting(folder: &Path, bin: &Binaries, to: &Folder, user: Option<&RunAs>) -> Result<bool, Problem> {
    let template = format!("template-{}", bin.pgbench_major);
    // The postgresql.conf in it may name programs.
    let Ok(all) = Folder::open_own(folder) else { return Ok(false) };
    let version = all.read_own(format!("{template}.version"), 1024).unwrap_or_default();
    if String::from_utf8_lossy(&version).trim() != bin.pgbench_version {
        return Ok(false);
    }
    let Ok(from) = all.folder(&template) else { return Ok(false) };
    copy(&from, to, user)
        .map_err(|e| Problem::host(format!("data folder made in advance {}", from.path().display()), e.to_string()))?;
    Ok(true)
}

/// Everything below a folder. A folder is the user's only once all is in it.
fn copy(from: &Folder, to: &Folder, user: Option<&RunAs>) -> io::Result<()> {
    for entry in from.list(MOST_ENTRIES)? {
        let name = entry.name.to_str().ok_or_else(|| io::Error::other("a name is not UTF-8"))?;
        if entry.kind == FileType::Directory {
            copy(&from.folder(name)?, &to.create_folder(name, 0o700)?, user)?;
        } else {
            let mut target = to.create_file(name, 0o600)?;
            io::copy(&mut from.open_file(name)?, &mut target)?;
            user.map_or(Ok(()), |user| fchown(&target, Some(user.uid), Some(user.gid)))?;
        }
    }
    user.map_or(Ok(()), |user| to.give_to(user.uid, user.gid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_template_of_another_version_is_not_taken() {
        let top = tempfile::tempdir().unwrap();
        let template = top.path().join("template-15");
        std::fs::create_dir_all(template.join("base/1")).unwrap();
        std::fs::write(template.join("base/1/PG_VERSION"), "15\n").unwrap();
        let bin = Binaries { bin: "/nowhere".into(), pgbench_version: "15.18 (Debian)".to_owned(), pgbench_major: 15 };
        let place = top.path().join("data");
        std::fs::create_dir(&place).unwrap();
        let to = Folder::open(&place).unwrap();
        let copy = || copy_fitting(top.path(), &bin, &to, None);
        assert!(!copy().unwrap(), "nothing says its version");
        std::fs::write(top.path().join("template-15.version"), "15.17 (Debian)\n").unwrap();
        assert!(!copy().unwrap());
        assert_eq!(to.list(10).unwrap(), []);
        std::fs::write(top.path().join("template-15.version"), "15.18 (Debian)\n").unwrap();
        let others_may = |mode| std::fs::set_permissions(top.path(), PermissionsExt::from_mode(mode)).unwrap();
        others_may(0o777);
        assert!(!copy().unwrap(), "anybody may have made it");
        others_may(0o700);
        assert!(copy().unwrap());
        assert_eq!(std::fs::read_to_string(place.join("base/1/PG_VERSION")).unwrap(), "15\n");
        let twice = copy().unwrap_err();
        assert!(twice.to_string().contains("template-15"), "{twice}");
    }
}
