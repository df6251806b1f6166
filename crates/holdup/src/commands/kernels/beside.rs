//! What the cache keeps beside kernels: PostgreSQL, folders of builds, packages and images.

use holdup_kernels::build::{self, Folder};
use holdup_kernels::{Cache, Options, Part, PartSize, PostgresEntry, Spec, postgres_kept, postgres_remove};
use holdup_model::{Observer, Problem};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The word for all folders in which kernels were built.
const BUILD_FOLDERS: &str = "build-folders";

pub(super) struct Beside {
    postgres: Vec<PostgresEntry>,
    folders: Vec<Folder>,
    parts: Vec<(Part, PartSize)>,
}

impl Beside {
    pub(super) fn of(cache: &Cache) -> Result<Beside, Problem> {
        let parts = Part::ALL.into_iter().map(|part| cache.part_size(part).map(|size| (part, size)));
        Ok(Beside {
            postgres: postgres_kept(cache)?,
            folders: build::folders(cache)?,
            parts: parts.collect::<Result<_, Problem>>()?,
        })
    }

    /// A line for each, which begins with the word that removes it.
    pub(super) fn lines(&self) -> String {
        let mut text = String::new();
        let mut line = |word: &str, arch: &str, bytes: u64, what: &str| {
            let _infallible = writeln!(text, "{word:32} {arch:8} {:7.1} MB  {what}", bytes as f64 / 1e6);
        };
        for entry in &self.postgres {
            line(&word(entry), &entry.arch, entry.bytes, &entry.root.source);
        }
        for folder in &self.folders {
            line(BUILD_FOLDERS, "", folder.bytes, &folder.name);
        }
        for (part, size) in self.parts.iter().filter(|(_, size)| size.count > 0) {
            line(part.name(), "", size.bytes, &format!("{} there", size.count));
        }
        text
    }

    /// Puts it into the document of `list --json`.
    pub(super) fn add_to(&self, document: &mut Value) {
        let postgres = self.postgres.iter().map(|entry| {
            json!({
                "spec": entry.spec, "version": entry.root.version, "arch": entry.arch, "root": entry.root.root,
                "source": entry.root.source, "size_bytes": entry.bytes, "fetched_unix_ns": entry.fetched_unix_ns,
            })
        });
        let folders = self.folders.iter().map(|folder| json!({"name": folder.name, "size_bytes": folder.bytes}));
        document["postgres"] = postgres.collect();
        document["build_folders"] = folders.collect();
        for (part, size) in &self.parts {
            document[part.name()] = json!({"count": size.count, "size_bytes": size.bytes});
        }
    }
}

/// The word that removes a PostgreSQL.
fn word(entry: &PostgresEntry) -> String {
    format!("postgres:{}", entry.spec.strip_prefix("deb:").unwrap_or(&entry.spec))
}

/// What `holdup kernels rm` is to remove.
pub(super) enum Removal {
    Kernel(Spec),
    Postgres(String),
    BuildFolders,
    Part(Part),
}

impl Removal {
    pub(super) fn parse(text: &str) -> Result<Removal, Problem> {
        if let Some(version) = text.strip_prefix("postgres:") {
            return Ok(Removal::Postgres(version.to_owned()));
        }
        if text == BUILD_FOLDERS {
            return Ok(Removal::BuildFolders);
        }
        match Part::ALL.into_iter().find(|part| part.name() == text) {
            Some(part) => Ok(Removal::Part(part)),
            None => Spec::parse(text).map(Removal::Kernel),
        }
    }

    /// Removes it; gives what was removed, each with its size in bytes.
    ///
    /// # Errors
    /// When it is not there, is in use, or cannot be removed.
    pub(super) fn run(
        &self,
        cache: &Cache,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Vec<(String, u64)>, Problem> {
        let missing = |what: String| {
            Problem::usage(what, format!("the cache {} does not have it", cache.root().display()))
                .hint("holdup kernels list")
        };
        match self {
            Removal::Kernel(spec) => {
                let entry = cache.remove(spec, options, observer)?;
                let entry = entry.ok_or_else(|| missing(format!("kernel `{spec}`")))?;
                Ok(vec![(entry.kernel.release, entry.bytes)])
            }
            Removal::Postgres(version) => {
                let entries = postgres_remove(version, cache, options, observer)?;
                match entries.is_empty() {
                    true => Err(missing(format!("PostgreSQL `{version}` for {}", options.arch))),
                    false => Ok(entries.iter().map(|entry| (word(entry), entry.bytes)).collect()),
                }
            }
            Removal::BuildFolders => {
                let mut removed = Vec::new();
                for folder in build::folders(cache)? {
                    options.check("removing build folders")?;
                    if build::remove(cache, &folder.name)? {
                        removed.push((format!("build folder {}", folder.name), folder.bytes));
                    }
                }
                Ok(removed)
            }
            Removal::Part(part) => {
                let size = cache.part_remove(*part, options, observer)?;
                Ok(vec![(format!("{} {}", size.count, part.name()), size.bytes)])
            }
        }
    }
}
