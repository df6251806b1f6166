//! The servers that were built for a plan, where the user that a server runs as can start them.

use crate::{PrivateDir, RunAs, private_dir};
use holdup_catalogue::pgbench::BUILD;
use holdup_host::Host;
use holdup_load::PostgresOptions;
use holdup_model::plan::Level;
use holdup_model::{Problem, Value};
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// How the folders of copies are called.
const COPIES: &str = "holdup-servers";

/// Builds of one version, each with the folder of its programs; in the copy of a build PostgreSQL finds its other folders from
/// its program.
#[derive(Debug)]
pub(crate) struct Builds {
    folders: BTreeMap<String, PathBuf>,
    /// Removed at the end.
    copies: Option<PrivateDir>,
}

impl Builds {
    /// Copies those that the server's user may not enter, such as in root's home.
    ///
    /// # Errors
    /// When a copy cannot be made; nothing is left behind.
    pub(crate) fn reachable(host: &Host, workdir: &Path, built: &BTreeMap<String, PathBuf>) -> Result<Self, Problem> {
        private_dir::sweep(host, workdir, COPIES, &|_| true);
        let mut builds = Builds { folders: BTreeMap::new(), copies: None };
        // A server that is there already needs no user of ours.
        let user = if built.is_empty() { None } else { RunAs::for_this_process(host)? };
        for (number, (level, bin)) in built.iter().enumerate() {
            let is_closed = user.as_ref().is_some_and(|user| user.may_enter(bin).is_err());
            let folder = match is_closed {
                false => bin.clone(),
                true => builds.copy(host, workdir, user.as_ref(), (number, bin))?,
            };
            builds.folders.insert(level.clone(), folder);
        }
        Ok(builds)
    }

    fn copy(
        &mut self,
        host: &Host,
        workdir: &Path,
        user: Option<&RunAs>,
        (number, bin): (usize, &Path),
    ) -> Result<PathBuf, Problem> {
        if self.copies.is_none() {
            self.copies = Some(PrivateDir::create(host, workdir, COPIES, user)?);
        }
        let top = self.copies.as_ref().map_or(workdir, PrivateDir::path).join(number.to_string());
        let (root, name) = (bin.parent().unwrap_or(bin), bin.file_name().unwrap_or_default());
        copy_below(root, &top)
            .map_err(|e| Problem::host(format!("copy of PostgreSQL in {}", root.display()), e.to_string()))?;
        Ok(top.join(name))
    }

    /// The programs that make the cluster and are its clients: the same in all arms.
    pub(crate) fn first(&self) -> Option<&Path> {
        PostgresOptions::client(&self.folders).map(PathBuf::as_path)
    }

    /// The programs of an arm's server, if the plan has builds.
    ///
    /// # Errors
    /// When the arm's build was not made.
    pub(crate) fn of<'a>(
        &'a self,
        factors: &'a BTreeMap<String, Level>,
    ) -> Result<Option<(&'a str, &'a Path)>, Problem> {
        match factors.get(BUILD).map(|level| &level.value) {
            None => Ok(None),
            Some(Value::Text(text)) if self.folders.contains_key(text) => {
                Ok(self.folders.get(text).map(|folder| (text.as_str(), folder.as_path())))
            }
            Some(other) => Err(Problem::internal(format!("{BUILD} = {other}"), "it was not built before the run")),
        }
    }

    pub(crate) fn remove(self) -> Result<(), Problem> {
        self.copies.map_or(Ok(()), PrivateDir::remove)
    }
}

/// Copies files with their modes, and links as links.
fn copy_below(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir(to)?;
    std::fs::set_permissions(to, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_below(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            symlink(std::fs::read_link(entry.path())?, target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_build_is_copied_only_where_its_user_cannot_enter_and_the_copy_goes() {
        let (top, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let all = [top.path(), work.path()];
        all.iter().for_each(|p| std::fs::set_permissions(p, std::fs::Permissions::from_mode(0o755)).unwrap());
        let host = Host::real();
        let mut built = BTreeMap::new();
        for (name, mode) in [("stock", 0o700), ("patches/a", 0o755)] {
            let root = top.path().join(name.replace('/', "-"));
            std::fs::create_dir_all(root.join("bin")).unwrap();
            std::fs::write(root.join("bin/postgres"), name).unwrap();
            symlink("postgres", root.join("bin/postmaster")).unwrap();
            std::fs::set_permissions(&root, std::fs::Permissions::from_mode(mode)).unwrap();
            built.insert(name.to_owned(), root.join("bin"));
        }
        let reachable = Builds::reachable(&host, work.path(), &built);
        if holdup_testkit::is_bare_root() {
            return assert!(reachable.err().unwrap().why.contains("may not become another user"));
        }
        let builds = reachable.unwrap();
        assert_eq!(builds.folders["patches/a"], built["patches/a"]);
        let is_root = rustix::process::geteuid().is_root();
        assert_eq!(builds.folders["stock"] != built["stock"], is_root);
        let arm = |build: &str| BTreeMap::from([(BUILD.to_owned(), Level::plain(build))]);
        let stock = arm("stock");
        let (level, folder) = builds.of(&stock).unwrap().unwrap();
        assert_eq!((level, std::fs::read(folder.join("postmaster")).unwrap()), ("stock", b"stock".to_vec()));
        assert_eq!(builds.first(), Some(folder));
        assert!(builds.of(&arm("patches/b")).is_err());
        assert!(builds.of(&BTreeMap::new()).unwrap().is_none());
        builds.remove().unwrap();
        assert_eq!(std::fs::read_dir(work.path()).unwrap().count(), 0);
    }
}
