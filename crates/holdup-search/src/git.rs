//! Commits as candidates: their order, their trees, their builds.
//!
//! A range is searched along first parents, as `git bisect --first-parent` does: a merge is one candidate, with all that it
//! brought. Each commit is checked out into a tree of its own (git-worktree(1)), so the user's work tree is never touched.

use holdup_kernels::Options;
use holdup_kernels::build::{Call, run_builder};
use holdup_model::search::{Candidate, short};
use holdup_model::{Observer, Problem, ProblemKind};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

/// More trees than a search has.
const MOST_TREES: usize = 100_000;

/// A repository, and where its trees go.
#[derive(Debug, Clone)]
pub struct Repository {
    dir: PathBuf,
    /// The folder of the search.
    folder: PathBuf,
    /// Options that replace the commands of the repository's configuration.
    quiet: Vec<OsString>,
}

/// Keys of filters and merge drivers, which git runs where the attributes of a file name them (gitattributes(5)).
const COMMANDS: &str = r"^(filter\..*\.(clean|smudge|process)|merge\..*\.driver)$";

/// A command that fails, for a filter that a file needs and for a driver: without them, trees would be others than they seem.
const FAILS: &str = "HOLDUP_FAILS";

/// The hint where a tree cannot be had.
const NOT_RUN: &str = "no filter, merge driver or fetch of the repository's own configuration runs: \
                       set filters with git config --global, make a partial clone whole with git fetch --refetch --no-filter";

impl Repository {
    /// The repository at or above a folder.
    ///
    /// # Errors
    /// When git is missing or there is none.
    pub fn open(dir: &Path, folder: &Path) -> Result<Repository, Problem> {
        let mut repository = Repository { dir: dir.to_owned(), folder: absolute(folder), quiet: Vec::new() };
        repository.ask(["rev-parse", "--git-dir"]).map_err(|p| p.hint("--git DIR names the repository"))?;
        repository.quiet = repository.own_commands()?;
        Ok(repository)
    }

    /// Options that put away the commands of the repository's own configuration, which may have come with it. Those of the user,
    /// as of git-lfs(1), stay.
    fn own_commands(&self) -> Result<Vec<OsString>, Problem> {
        let listed = self.git(["config", "--null", "--show-scope", "--name-only", "--get-regexp", COMMANDS])?;
        // 1 is none of these keys (git-config(1)).
        if !matches!(listed.status.code(), Some(0 | 1)) {
            let why = String::from_utf8_lossy(&listed.stderr).lines().next().unwrap_or_default().to_owned();
            return Err(Problem::host("git config --show-scope", why).hint("install git 2.26 or newer"));
        }
        let words: Vec<&[u8]> = listed.stdout.split(|byte| *byte == 0).collect();
        let own = words.chunks_exact(2).filter(|pair| matches!(pair[0], b"local" | b"worktree"));
        // Names may have `=`, before the last of which all is the key (git(1), `--config-env`).
        let option = |pair: &[&[u8]]| [&b"--config-env="[..], pair[1], b"=", FAILS.as_bytes()].concat();
        Ok(own.map(|pair| OsString::from_vec(option(pair))).collect())
    }

    fn git<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Result<Output, Problem> {
        // Hooks and aliases of the user must not run, nor what the repository names for itself, and nothing may wait for an editor.
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.dir).args(["-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false"]);
        command
            .args(["-c", "core.fsmonitor=false", "-c", "log.showSignature=false"])
            .args(&self.quiet)
            .env(FAILS, "false");
        // Objects that a partial clone lacks would be fetched by programs that its configuration names.
        command.env("GIT_ALLOW_PROTOCOL", "").env("GIT_NO_LAZY_FETCH", "1");
        command.args(args).env("LC_ALL", "C").env("GIT_EDITOR", "true").stdin(std::process::Stdio::null());
        command.output().map_err(|e| Problem::host("git", e.to_string()).hint("install git"))
    }

    /// The output of a call that must succeed.
    fn ask<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, args: I) -> Result<String, Problem> {
        let output = self.git(args)?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned());
        }
        let why = String::from_utf8_lossy(&output.stderr);
        Err(Problem::usage(format!("repository {}", self.dir.display()), why.trim().replace('\n', "; ")))
    }

    /// The hash of a commit.
    ///
    /// # Errors
    /// When there is no such commit.
    pub fn commit(&self, name: &str) -> Result<String, Problem> {
        let full = format!("{name}^{{commit}}");
        self.ask(["rev-parse", "--verify", "--quiet", "--end-of-options", &full]).map_err(|_| {
            Problem::usage(format!("commit {name}"), format!("{} has none of this name", self.dir.display()))
        })
    }

    fn is_ancestor(&self, old: &str, new: &str) -> Result<bool, Problem> {
        Ok(self.git(["merge-base", "--is-ancestor", old, new])?.status.success())
    }

    /// The candidates of a range `GOOD..BAD`: the good commit, then all along first parents up to the bad one.
    ///
    /// # Errors
    /// When it is no range, a commit is missing, or the good one is no ancestor of the bad one.
    pub fn range(&self, range: &str) -> Result<Vec<Candidate>, Problem> {
        let what = || format!("--range {range}");
        let (good, bad) = range
            .split_once("..")
            .filter(|(good, bad)| !good.is_empty() && !bad.is_empty() && !bad.starts_with('.'))
            .ok_or_else(|| Problem::usage(what(), "it is not GOOD..BAD").hint("for example --range v1.0..HEAD"))?;
        let (good, bad) = (self.commit(good)?, self.commit(bad)?);
        if good == bad {
            return Err(Problem::usage(what(), "both ends are the same commit"));
        }
        if !self.is_ancestor(&good, &bad)? {
            let problem = Problem::usage(what(), "the good commit is no ancestor of the bad one");
            return Err(if self.is_ancestor(&bad, &good)? {
                problem.hint(
                    "the older commit stands first: turn the range round; --look-for better searches an improvement",
                )
            } else {
                problem.hint("the commit where both branches part is `git merge-base GOOD BAD`")
            });
        }
        let format = "--format=%H%x00%aI%x00%s";
        let first = self.ask(["log", "-1", format, &good])?;
        let others = self.ask(["log", "--first-parent", "--reverse", format, &format!("{good}..{bad}")])?;
        let candidate = |line: &str| {
            let mut parts = line.splitn(3, '\0').map(str::to_owned);
            let mut next = || parts.next().unwrap_or_default();
            Candidate { name: next(), date: next(), about: next() }
        };
        Ok(first.lines().chain(others.lines()).map(candidate).collect())
    }

    /// The good and the bad commit that `git bisect start` was given.
    ///
    /// # Errors
    /// When git does not bisect here, or lacks one of them.
    pub fn bisected(&self) -> Result<(String, String), Problem> {
        let path = self.dir.join(self.ask(["rev-parse", "--git-path", "BISECT_LOG"])?);
        let none = |why: &str| Problem::usage("git bisect", why).hint("`git bisect start BAD GOOD` comes first");
        let log = holdup_files::read_text_input(&path).map_err(|_| none("it is not under way here"))?;
        let first = |word: &str| {
            let mut lines =
                log.lines().filter_map(|line| line.strip_prefix("# ")?.strip_prefix(word)?.split(['[', ']']).nth(1));
            lines.next().map(str::to_owned).ok_or_else(|| none(&format!("it has no {word} commit")))
        };
        Ok((first("good")?, first("bad")?))
    }

    /// A folder beneath git's own.
    ///
    /// # Errors
    /// When git fails.
    pub fn private(&self, name: &str) -> Result<PathBuf, Problem> {
        Ok(absolute(&self.dir.join(self.ask(["rev-parse", "--git-path", name])?)))
    }

    /// The range of what a merge brought; `None` for a commit with one parent.
    ///
    /// # Errors
    /// When git fails.
    pub fn merged(&self, hash: &str) -> Result<Option<String>, Problem> {
        let parents = self.ask(["log", "-1", "--format=%P", hash])?;
        let mut parents = parents.split_ascii_whitespace();
        let (Some(first), Some(second)) = (parents.next(), parents.next()) else { return Ok(None) };
        let base = self.ask(["merge-base", first, second])?;
        Ok(Some(format!("{}..{}", short(&base), short(second))))
    }

    /// Refuses a disk on which this number of trees and their builds do not fit.
    ///
    /// # Errors
    /// When they do not, with both sizes.
    pub fn check_room(&self, hash: &str, trees: u64) -> Result<(), Problem> {
        let sizes = self.ask(["ls-tree", "-r", "--format=%(objectsize)", hash]).map_err(|p| p.hint(NOT_RUN))?;
        // A build is taken to be no larger than its sources.
        let needed = 2 * trees * sizes.lines().filter_map(|size| size.trim().parse::<u64>().ok()).sum::<u64>();
        let above = self.folder.parent().unwrap_or(Path::new("/"));
        let Ok(stat) = rustix::fs::statvfs(above) else { return Ok(()) };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free >= needed {
            return Ok(());
        }
        let what = if trees == 1 { "a tree and its build need" } else { "two trees and their builds need" };
        let why = format!("{what} about {} MB, and {} MB are free", needed >> 20, free >> 20);
        Err(Problem::host(format!("folder {}", above.display()), why).hint("--state DIR names a place with more room"))
    }

    /// The folder of a commit's tree.
    pub fn tree(&self, name: &str) -> PathBuf {
        self.folder.join("trees").join(short(name))
    }

    /// Checks a commit out and builds it, unless that was done before; seconds that it took.
    ///
    /// # Errors
    /// When it cannot be checked out, or the build fails (with its error lines and its log).
    pub fn build(
        &self,
        hash: &str,
        build: Option<&str>,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Option<f64>, Problem> {
        let tree = self.tree(hash);
        if self.is_built(&tree) {
            return Ok(None);
        }
        self.check_room(hash, 1)?;
        let begun = Instant::now();
        self.remove(&tree)?;
        self.check_out(&tree, hash)?;
        self.make(&tree, hash, build, options, observer)?;
        Ok(Some(begun.elapsed().as_secs_f64()))
    }

    /// The tip without one commit, built; `None` where the commit does not revert cleanly.
    ///
    /// # Errors
    /// As [`Repository::build`].
    pub fn build_reverted(
        &self,
        tip: &str,
        hash: &str,
        build: Option<&str>,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Option<PathBuf>, Problem> {
        let tree = self.tree("reverted");
        if self.is_built(&tree) {
            return Ok(Some(tree));
        }
        self.remove(&tree)?;
        self.check_out(&tree, tip)?;
        let inside = Repository { dir: tree.clone(), ..self.clone() };
        let mainline: &[&str] = if self.merged(hash)?.is_some() { &["-m", "1"] } else { &[] };
        let args = ["revert", "--no-commit"].iter().chain(mainline).copied().chain([hash]);
        if !inside.git(args)?.status.success() {
            self.remove(&tree)?;
            return Ok(None);
        }
        self.make(&tree, &format!("{} without {}", short(tip), short(hash)), build, options, observer)?;
        Ok(Some(tree))
    }

    /// Built means: its log ends well. A tree that a killed search left half made has no such mark.
    fn is_built(&self, tree: &Path) -> bool {
        tree.is_dir() && mark(tree).is_file()
    }

    fn check_out(&self, tree: &Path, hash: &str) -> Result<(), Problem> {
        let args = ["worktree", "add", "--force", "--detach", "--quiet"].map(OsStr::new);
        let added = self.ask(args.into_iter().chain([tree.as_os_str(), OsStr::new(hash)]));
        added.map(drop).map_err(|p| p.hint(NOT_RUN))
    }

    fn make(
        &self,
        tree: &Path,
        what: &str,
        build: Option<&str>,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<(), Problem> {
        if let Some(build) = build {
            let mut command = Command::new("sh");
            command.args(["-c", &build.replace("{dir}", &tree.display().to_string())]).current_dir(tree);
            let log = tree.with_extension("log");
            let what = format!("building {}", short(what));
            run_builder(command, &Call { what: &what, log: &log, options }, observer).map_err(|problem| {
                // What does not build is skipped.
                let kind = if problem.kind == ProblemKind::Host { ProblemKind::Trial } else { problem.kind };
                problem.of_kind(kind)
            })?;
        }
        holdup_files::write_output(&mark(tree), b"")
            .map_err(|e| Problem::host(format!("tree {}", tree.display()), e.to_string()))
    }

    fn remove(&self, tree: &Path) -> Result<(), Problem> {
        let failed = |e: std::io::Error| Problem::host(format!("tree {}", tree.display()), e.to_string());
        let above = tree.parent().unwrap_or(Path::new("/"));
        if !above.is_dir() {
            holdup_files::Folder::open(&self.folder)
                .and_then(|folder| folder.create_folder("trees", 0o755))
                .map_err(failed)?;
        }
        let folder = holdup_files::Folder::open(above).map_err(failed)?;
        if mark(tree).exists() {
            folder.remove(mark(tree).file_name().unwrap_or_default()).map_err(failed)?;
        }
        if tree.exists() {
            patiently(|| folder.remove_tree(tree.file_name().unwrap_or_default())).map_err(failed)?;
        }
        self.ask(["worktree", "prune"]).map(drop)
    }

    /// Removes the trees of all commits but these.
    ///
    /// # Errors
    /// When one cannot be removed.
    pub fn clear_but(&self, kept: &[&str]) -> Result<(), Problem> {
        let trees = holdup_files::Folder::open(&self.folder.join("trees")).and_then(|trees| trees.list(MOST_TREES));
        for entry in trees.unwrap_or_default() {
            let name = entry.name.to_string_lossy().into_owned();
            let is_kept = kept.iter().any(|hash| name.starts_with(short(hash)));
            if !is_kept && !name.contains('.') {
                self.remove(&self.tree(&name))?;
            }
        }
        Ok(())
    }

    /// Removes all trees and what git knows of them.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn clear(&self) -> Result<(), Problem> {
        let failed = |e: std::io::Error| Problem::host(format!("trees of {}", self.folder.display()), e.to_string());
        if self.folder.join("trees").is_dir() {
            holdup_files::Folder::open(&self.folder)
                .and_then(|folder| patiently(|| folder.remove_tree("trees")))
                .map_err(failed)?;
        }
        self.ask(["worktree", "prune"]).map(drop)
    }
}

/// Removes a tree. The git or the build of a search that was killed may still write there for a while.
fn patiently(remove: impl Fn() -> std::io::Result<()>) -> std::io::Result<()> {
    const TRIES: u32 = 50;
    for _ in 1..TRIES {
        match remove() {
            Err(e) if e.kind() == std::io::ErrorKind::DirectoryNotEmpty => {
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            removed => return removed,
        }
    }
    remove()
}

fn mark(tree: &Path) -> PathBuf {
    tree.with_extension("built")
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::progress::Silent;

    /// Finding L14 of the attacks.
    #[test]
    fn what_a_repository_names_to_be_run_is_not_run() {
        let place = tempfile::tempdir().unwrap();
        let (dir, ran) = (place.path().join("r"), place.path().join("ran"));
        let git = |args: &[&str]| {
            let status = Command::new("git").arg("-C").arg(&dir).args(args).output().unwrap().status;
            assert!(status.success(), "{args:?}");
        };
        std::fs::create_dir(&dir).unwrap();
        git(&["init", "-q"]);
        std::fs::write(dir.join("a"), "1").unwrap();
        std::fs::write(dir.join(".gitattributes"), "a filter=x.y=z\n").unwrap();
        git(&["add", "."]);
        git(&["-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-q", "-m", "one"]);
        let evil = format!("echo >>{}; cat", ran.display());
        git(&["config", "core.fsmonitor", &evil]);
        git(&["config", "filter.x.y=z.smudge", &evil]);
        let built = || {
            let repository = Repository::open(&dir, &place.path().join("search")).unwrap();
            let hash = repository.commit("HEAD").unwrap();
            let built = repository.build(&hash, None, &Options::default(), &mut Silent);
            (built, repository.tree(&hash))
        };
        std::fs::create_dir(place.path().join("search")).unwrap();
        let (made, tree) = built();
        made.unwrap();
        assert_eq!(std::fs::read_to_string(tree.join("a")).unwrap(), "1");
        assert!(!ran.exists());
        // A file that must go through it is not checked out without.
        git(&["config", "filter.x.y=z.required", "true"]);
        std::fs::remove_file(mark(&tree)).unwrap();
        let refused = built().0.unwrap_err();
        assert!(refused.why.contains("filter") && refused.hint.is_some(), "{refused}");
        assert!(!ran.exists());
        // Nothing is fetched for a partial clone.
        git(&["config", "core.repositoryFormatVersion", "1"]);
        git(&["config", "extensions.partialClone", "origin"]);
        git(&["config", "remote.origin.url", &dir.display().to_string()]);
        git(&["config", "remote.origin.promisor", "true"]);
        git(&["config", "remote.origin.uploadpack", &evil]);
        // The blob of `1`.
        std::fs::remove_file(dir.join(".git/objects/56/a6051ca2b02b04ef92d5150c9ef600403cb1de")).unwrap();
        let refused = built().0.unwrap_err();
        assert!(refused.why.contains("object") && refused.hint.is_some(), "{refused}");
        assert!(!ran.exists());
    }
}
