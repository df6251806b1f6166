//! Other Debian packages, such as kernel sources.

use super::Cache;
use super::lock::Held;
use crate::Options;
use crate::debian::version::compare;
use crate::debian::{self, Apt};
use crate::files::{problem, sha256};
use holdup_model::{Observer, Problem};
use std::fs;
use std::path::{Path, PathBuf};

impl Cache {
    /// The file of a Debian package, the newest in a suite or in all searched suites. apt verifies it; dependencies are not
    /// fetched. [`unpack_deb`](crate::unpack_deb) unpacks it.
    ///
    /// # Errors
    /// When the name is invalid, the suite has no such package, or it cannot be fetched; offline, when it is not cached.
    pub fn package(
        &self,
        name: &str,
        suite: Option<&str>,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<PathBuf, Problem> {
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.+".contains(c);
        let is_word = |text: &str| text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(fits);
        if !is_word(name) || !suite.is_none_or(is_word) {
            let suite = suite.unwrap_or_default();
            return Err(Problem::usage(
                format!("package `{name}` {suite}").escape_debug().to_string(),
                "not a package name",
            ));
        }
        let architecture = debian::architecture(&options.arch).unwrap_or_default();
        if options.offline {
            return self.kept(name, suite, architecture)?.ok_or_else(|| {
                Problem::host(format!("package {name}"), "it is not in the cache, and --offline was given")
                    .hint("without --offline it is fetched")
            });
        }
        let held = Held::take(&self.root, &format!("fetching {name}"), options, observer)?;
        let scratch = held.scratch()?;
        let apt = Apt::prepare(&self.root, options, scratch.path(), suite)?;
        apt.update(suite, false, observer)?;
        let all = apt.versions(&[name.to_owned()], observer)?;
        let of_suite = all.iter().filter(|found| suite.is_none_or(|suite| found.suite == suite));
        let newest = of_suite.max_by(|a, b| compare(&a.version, &b.version)).ok_or_else(|| {
            let elsewhere: Vec<String> = all.iter().map(|found| format!("{} {}", found.suite, found.version)).collect();
            let place = suite.map_or("the archive".to_owned(), |suite| format!("the suite {suite}"));
            let missing =
                Problem::host(format!("package {name}"), format!("{place} does not have it for {architecture}"));
            if elsewhere.is_empty() { missing } else { missing.hint(format!("versions: {}", elsewhere.join(", "))) }
        })?;
        let folder = self.root.join("packages").join(&newest.suite);
        let to = folder.join(format!("{name}_{}_{architecture}.deb", newest.version));
        if is_whole(&to) {
            return Ok(to);
        }
        let file = apt.download(newest, observer)?;
        let sum = sha256(&file).map_err(|e| problem("package", &file, &e))?;
        let kept = fs::create_dir_all(&folder)
            .and_then(|()| fs::write(sum_file(&to), sum))
            .and_then(|()| fs::rename(&file, &to));
        kept.map_err(|e| problem("package", &to, &e))?;
        Ok(to)
    }

    /// The newest cached version.
    fn kept(&self, name: &str, suite: Option<&str>, architecture: &str) -> Result<Option<PathBuf>, Problem> {
        let folder = self.root.join("packages");
        let suites: Vec<PathBuf> = match suite {
            Some(suite) => vec![folder.join(suite)],
            None => fs::read_dir(&folder).map(|all| all.flatten().map(|e| e.path()).collect()).unwrap_or_default(),
        };
        let mut newest: Option<(String, PathBuf)> = None;
        for entry in suites.iter().filter_map(|suite| fs::read_dir(suite).ok()).flatten().flatten() {
            let file = entry.file_name().to_string_lossy().into_owned();
            let rest = file.strip_prefix(name).and_then(|rest| rest.strip_prefix('_'));
            let version = rest.and_then(|rest| rest.strip_suffix(&format!("_{architecture}.deb")));
            let Some(version) = version else { continue };
            if newest.as_ref().is_none_or(|(newest, _)| compare(version, newest).is_gt()) {
                newest = Some((version.to_owned(), entry.path()));
            }
        }
        let Some((_, path)) = newest else { return Ok(None) };
        if is_whole(&path) {
            return Ok(Some(path));
        }
        let removed = fs::remove_file(&path);
        removed.map_err(|e| problem("package", &path, &e))?;
        Err(Problem::host(format!("package {}", path.display()), "it is damaged and was removed"))
    }
}

fn sum_file(package: &Path) -> PathBuf {
    package.with_extension("sha256")
}

fn is_whole(package: &Path) -> bool {
    let said = fs::read_to_string(sum_file(package)).ok();
    said.is_some() && sha256(package).ok() == said
}
