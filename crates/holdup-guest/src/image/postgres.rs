//! PostgreSQL's files in the guest: programs, libraries, and its own folders.
//!
//! The folders are found as the programs do. PostgreSQL is built with absolute paths and relocates them with the program
//! (`make_relative_path`, src/port/path.c, 15 to 18). The built-in paths are strings in the program `postgres`; their content
//! shows which is which.

use super::closure::Closure;
use super::roots::{Roots, Source, guest_path};
use super::tree::Tree;
use holdup_model::Problem;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Required programs.
const PROGRAMS: [&str; 3] = ["initdb", "pgbench", "postgres"];

/// Optional programs.
const MORE_PROGRAMS: [&str; 4] = ["pg_controldata", "pg_ctl", "pg_isready", "psql"];

/// Optional extensions for measurements. Others may have any dependency (procedural languages, PostGIS).
const EXTENSIONS: [&str; 8] = [
    "auto_explain",
    "pageinspect",
    "pg_buffercache",
    "pg_prewarm",
    "pg_stat_statements",
    "pg_visibility",
    "pgstattuple",
    "plpgsql",
];

/// The server's own loadable libraries, beside the encoding conversions.
const OWN_LIBRARIES: [&str; 4] = ["dict_snowball", "euc2004_sjis2004", "libpqwalreceiver", "pgoutput"];

/// Shared files that nothing reads at run time.
const NOT_SHARED: [&str; 5] = ["contrib", "doc", "extension", "locale", "man"];

/// The guest's clock is UTC; the server reads other zones only by name.
const TIME_ZONES: [&str; 8] = ["Etc/GMT", "Etc/UCT", "Etc/UTC", "GMT", "UCT", "UTC", "Universal", "posixrules"];

const SYSTEM_ZONES: &str = "/usr/share/zoneinfo";

const DEPTH_MAX: usize = 16;

/// PostgreSQL's folders in the guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Folders {
    pub(crate) bin: PathBuf,
    /// Loadable libraries.
    pub(crate) lib: PathBuf,
    /// Files for the server and initdb.
    pub(crate) share: PathBuf,
}

impl Folders {
    ///
    /// # Errors
    /// When a program or a folder is missing, with the searched folders.
    pub(crate) fn find(roots: &Roots, bin: &Path) -> Result<Self, Problem> {
        let what = || format!("PostgreSQL in {}", bin.display());
        for program in PROGRAMS {
            if roots.find(&bin.join(program))?.is_none_or(|found| found.is_folder) {
                return Err(Problem::host(what(), format!("there is no program `{program}`"))
                    .hint("give the folder that holds postgres, initdb and pgbench"));
            }
        }
        // Links are followed, as find_my_exec of PostgreSQL does.
        let postgres = roots.find(&bin.join("postgres"))?;
        let Some(postgres) = postgres else { return Err(Problem::host(what(), "there is no program `postgres`")) };
        let exec = postgres.real.parent().unwrap_or(Path::new("/")).to_owned();
        let bytes = holdup_files::read_input(&postgres.source.path, super::MOST_BYTES)
            .map_err(|e| Problem::host(postgres.source.path.display().to_string(), e.to_string()))?;
        let built_in = absolute_paths(&bytes);
        let share = place(roots, &exec, &built_in, &["share/postgresql", "share"], &["postgres.bki"])?;
        let markers = ["plpgsql.so", "dict_snowball.so"];
        let lib = place(roots, &exec, &built_in, &["lib/postgresql", "lib", "lib64/postgresql", "lib64"], &markers)?;
        let missing = |folder: &str, marker: &str| {
            let all: Vec<String> = built_in.iter().map(|p| p.display().to_string()).collect();
            Problem::host(
                what(),
                format!(
                    "its folder of {folder} is not found: no folder that `postgres` names has {marker}; it names {}",
                    all.join(", ")
                ),
            )
            .hint("is the installation complete? Packages of the server have these files beside the programs")
        };
        Ok(Folders {
            bin: exec,
            share: share.ok_or_else(|| missing("shared files", "postgres.bki"))?,
            lib: lib.ok_or_else(|| missing("libraries", "plpgsql.so"))?,
        })
    }

    ///
    /// # Errors
    /// When a program or one of its libraries is missing or unsuitable.
    pub(crate) fn add(&self, tree: &mut Tree, closure: &mut Closure) -> Result<(), Problem> {
        for program in PROGRAMS {
            closure.program(tree, &self.bin.join(program))?;
        }
        for program in MORE_PROGRAMS {
            let path = self.bin.join(program);
            if closure.roots().find(&path)?.is_some_and(|found| !found.is_folder) {
                closure.program(tree, &path)?;
            }
        }
        // initdb and pg_ctl use popen(3) and system(3).
        closure.program(tree, Path::new("/bin/sh"))?;
        self.add_libraries(tree, closure)?;
        self.add_shared(tree, closure.roots())?;
        let roots = closure.roots().clone();
        for folder in [Path::new(SYSTEM_ZONES).to_owned(), self.share.join("timezone")] {
            for zone in TIME_ZONES {
                if let Some(found) = roots.find(&folder.join(zone))?.filter(|found| !found.is_folder) {
                    tree.found(&found)?;
                }
            }
        }
        for folder in ["/run/postgresql", "/var/lib/postgresql"] {
            tree.folder(Path::new(folder), 0o755, super::tree::POSTGRES_ID)?;
        }
        Ok(())
    }

    fn add_libraries(&self, tree: &mut Tree, closure: &mut Closure) -> Result<(), Problem> {
        let postgres = self.bin.join("postgres");
        let mut jit = false;
        for name in closure.roots().names(&self.lib)? {
            let name = name.to_string_lossy().into_owned();
            let Some(module) = name.strip_suffix(".so") else { continue };
            jit |= module == "llvmjit";
            let wanted = OWN_LIBRARIES.contains(&module)
                || EXTENSIONS.contains(&module)
                // Encoding conversions.
                || module.contains("_and_");
            if wanted {
                closure.plugin(tree, &self.lib.join(&name), &postgres)?;
            }
        }
        if jit {
            closure.notes.push(
                "the guest's PostgreSQL compiles no queries (llvmjit is left out: LLVM would double the image); \
                 `jit` has no effect in it"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn add_shared(&self, tree: &mut Tree, roots: &Roots) -> Result<(), Problem> {
        // In private builds this may be the folder of all libraries; PostgreSQL's own files cannot be distinguished then, and
        // all are taken.
        for name in roots.names(&self.share)? {
            let path = self.share.join(&name);
            let name = name.to_string_lossy();
            let is_ours = roots.find(&path)?.is_some_and(|found| !found.is_folder || is_own_folder(&name));
            if is_ours && !NOT_SHARED.contains(&&*name) && name != "timezone" {
                add_all(tree, roots, &path)?;
            }
        }
        let extension = self.share.join("extension");
        for name in roots.names(&extension)? {
            let text = name.to_string_lossy();
            if EXTENSIONS.iter().any(|e| text.strip_prefix(e).is_some_and(|rest| rest.starts_with(['.', '-']))) {
                add_all(tree, roots, &extension.join(&name))?;
            }
        }
        Ok(())
    }

    /// The files that initdb makes a cluster from; they identify a template.
    pub(crate) fn cluster_inputs(&self, roots: &Roots) -> Result<Vec<Source>, Problem> {
        let mut all = Vec::new();
        let programs = ["initdb", "postgres"].map(|program| self.bin.join(program));
        let shared = roots.names(&self.share)?.into_iter().map(|name| self.share.join(name));
        let libraries = ["dict_snowball.so", "plpgsql.so"].map(|library| self.lib.join(library));
        for path in programs.into_iter().chain(libraries).chain(shared) {
            all.extend(roots.find(&path)?.filter(|found| !found.is_folder).map(|found| found.source));
        }
        Ok(all)
    }
}

/// PostgreSQL's own subfolders; a private build may share the folder with other packages.
fn is_own_folder(name: &str) -> bool {
    ["timezonesets", "tsearch_data"].contains(&name)
}

/// Adds a file, or a folder with its content. Links are resolved; a folder is entered once.
pub(crate) fn add_all(tree: &mut Tree, roots: &Roots, path: &Path) -> Result<(), Problem> {
    let mut seen = BTreeSet::new();
    let mut left = vec![(path.to_owned(), 0)];
    while let Some((path, depth)) = left.pop() {
        // Dangling links are ignored: Debian has some to dictionaries that are not installed.
        let Some(found) = roots.find(&path)? else { continue };
        if !found.is_folder {
            tree.found(&found)?;
        } else if depth < DEPTH_MAX && seen.insert(found.real.clone()) {
            tree.folder(&path, 0o755, 0)?;
            left.extend(roots.names(&path)?.into_iter().map(|name| (path.join(name), depth + 1)));
        }
    }
    Ok(())
}

/// The distinct absolute paths among the strings of a program.
fn absolute_paths(bytes: &[u8]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = Vec::new();
    for start in memchr::memmem::find_iter(bytes, b"\0/") {
        let text = &bytes[start + 1..];
        let Some(end) = memchr::memchr(0, &text[..text.len().min(1024)]) else { continue };
        let Ok(text) = std::str::from_utf8(&text[..end]) else { continue };
        let plain = |c: char| c.is_ascii_graphic() && !"%*?;<>|".contains(c);
        if text.len() > 2 && text.chars().all(plain) {
            let path = PathBuf::from(text);
            if !all.contains(&path) {
                all.push(path);
            }
        }
    }
    all
}

/// The folder with one of `markers`: a built-in path relocated with the program, a built-in path as it is, or a folder beside
/// the program's.
fn place(
    roots: &Roots,
    exec: &Path,
    built_in: &[PathBuf],
    guesses: &[&str],
    markers: &[&str],
) -> Result<Option<PathBuf>, Problem> {
    let bins = || built_in.iter().filter(|path| path.file_name() == exec.file_name());
    let moved = bins().flat_map(|bin| built_in.iter().filter_map(|target| moved_along(target, bin, exec)));
    let above = exec.parent().unwrap_or(Path::new("/"));
    let guesses = guesses.iter().map(|folder| above.join(folder));
    let mut tried = BTreeSet::new();
    for folder in moved.chain(built_in.iter().cloned()).chain(guesses) {
        if !tried.insert(folder.clone()) {
            continue;
        }
        for marker in markers {
            if let Ok(Some(found)) = roots.find(&folder.join(marker))
                && !found.is_folder
            {
                return Ok(Some(guest_path(&folder)));
            }
        }
    }
    Ok(None)
}

/// The result of `make_relative_path` for a program built for `bin` in `exec`; `None` if it is `target` itself.
fn moved_along(target: &Path, bin: &Path, exec: &Path) -> Option<PathBuf> {
    let common = target.components().zip(bin.components()).take_while(|(a, b)| a == b).count();
    let tail: PathBuf = bin.components().skip(common).collect();
    let rest: PathBuf = target.components().skip(common).collect();
    if tail.as_os_str().is_empty() || !exec.ends_with(&tail) {
        return None;
    }
    let prefix: PathBuf = exec.components().take(exec.components().count() - tail.components().count()).collect();
    Some(prefix.join(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_move_along_with_the_program() {
        let moved = |target: &str, bin: &str, exec: &str| {
            moved_along(Path::new(target), Path::new(bin), Path::new(exec)).map(|p| p.display().to_string())
        };
        let debian = "/usr/lib/postgresql/15/bin";
        assert_eq!(moved("/usr/share/postgresql/15", debian, debian).unwrap(), "/usr/share/postgresql/15");
        assert_eq!(
            moved("/usr/share/postgresql/15", debian, "/srv/x/lib/postgresql/15/bin").unwrap(),
            "/srv/x/share/postgresql/15"
        );
        assert_eq!(moved("/usr/share/postgresql/15", debian, "/srv/x/bin"), None);
        assert_eq!(moved("/opt/pg/share", "/opt/pg/bin", "/home/me/pg/bin").unwrap(), "/home/me/pg/share");
        assert_eq!(moved("/opt/pg/bin", "/opt/pg/bin", "/opt/pg/bin"), None);
    }

    #[test]
    fn absolute_paths_among_strings_are_found() {
        let bytes = b"\x7fELF\0/usr/share/x\0not/this\0/%s/base\0/usr/share/x\0/\0/unterminated";
        assert_eq!(absolute_paths(bytes), [PathBuf::from("/usr/share/x")]);
    }

    #[test]
    fn a_private_build_is_found_and_an_incomplete_one_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let at = |p: &str| top.path().join(p);
        for folder in ["pg/bin", "pg/share", "pg/lib"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        for program in PROGRAMS {
            std::fs::write(at("pg/bin").join(program), b"\0/opt/old/bin\0/opt/old/share\0/opt/old/lib\0").unwrap();
        }
        let roots = Roots::below(top.path()).each().remove(0);
        let incomplete = Folders::find(&roots, Path::new("/pg/bin")).unwrap_err().to_string();
        assert!(incomplete.contains("shared files") && incomplete.contains("/opt/old/share"), "{incomplete}");
        std::fs::write(at("pg/share/postgres.bki"), "").unwrap();
        std::fs::write(at("pg/lib/plpgsql.so"), "").unwrap();
        let found = Folders::find(&roots, Path::new("/pg/bin")).unwrap();
        let expected = Folders { bin: "/pg/bin".into(), lib: "/pg/lib".into(), share: "/pg/share".into() };
        assert_eq!(found, expected);
        std::fs::remove_file(at("pg/bin/initdb")).unwrap();
        let without = Folders::find(&roots, Path::new("/pg/bin")).unwrap_err();
        assert!(without.to_string().contains("no program `initdb`"), "{without}");
    }
}
