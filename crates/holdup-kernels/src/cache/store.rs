//! Adding kernels to the cache.

use super::lock::Held;
use super::manifest::{Manifest, Package};
use super::stored::ManifestFile;
use super::{Cache, Found};
use crate::files::{below, bytes_below, check_room, now_unix_ns, problem, sha256};
use crate::image::{check_arch, read_image};
use crate::{Kernel, Options, Spec};
use holdup_model::{Observer, Problem};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A kernel to add.
#[derive(Debug, Clone)]
pub struct Addition<'a> {
    pub spec: &'a Spec,
    /// Identifies everything that it was built from; [`Cache::made`] finds it by this.
    pub key: Option<String>,
    pub image: &'a Path,
    pub config: Option<&'a Path>,
    /// Its folder `…/modules/RELEASE`.
    pub modules: Option<&'a Path>,
    /// See [`Kernel::source`].
    pub source: String,
}

impl Cache {
    /// Copies a kernel into the cache. It replaces one with the same image that did not come from a package file, and answers
    /// its specs.
    ///
    /// # Errors
    /// When the image is not a kernel or is for another machine than `options` say, or the cache cannot be written.
    pub fn add(
        &self,
        addition: &Addition<'_>,
        options: &Options,
        observer: &mut dyn Observer,
    ) -> Result<Kernel, Problem> {
        let held = Held::take(&self.root, &format!("adding {}", addition.spec), options, observer)?;
        self.store(&held, addition, None, options)
    }

    pub(super) fn store(
        &self,
        held: &Held,
        addition: &Addition<'_>,
        package: Option<Package>,
        options: &Options,
    ) -> Result<Kernel, Problem> {
        let facts = read_image(addition.image)?;
        check_arch(addition.image, &facts, &options.arch)?;
        let sum = sha256(addition.image).map_err(|e| problem("kernel", addition.image, &e))?;
        let needed = addition.image.metadata().map_or(0, |metadata| metadata.len())
            + addition.config.and_then(|config| config.metadata().ok()).map_or(0, |metadata| metadata.len())
            + addition.modules.map_or(0, bytes_below);
        check_room(&self.root, needed + (1 << 20), &format!("{}", addition.spec))?;
        let scratch = held.scratch()?;
        let entry = scratch.path().join("entry");
        let kernel = Kernel {
            spec: addition.spec.to_string(),
            image: PathBuf::from("vmlinuz"),
            config: addition.config.map(|_| PathBuf::from("config")),
            modules: addition.modules.map(|_| Path::new("modules").join(&facts.release)),
            release: facts.release,
            version_line: facts.version_line,
            arch: facts.arch.to_owned(),
            sha256: sum,
            source: addition.source.clone(),
        };
        let mut manifest = Manifest::new(kernel);
        fill(&entry, addition, &manifest.kernel).map_err(|e| problem("cache", &self.root, &e))?;
        manifest.modules_asked = options.modules || addition.modules.is_some();
        manifest.package = package;
        manifest.key.clone_from(&addition.key);
        manifest.sum(&entry).map_err(|e| problem("cache", &self.root, &e))?;
        let mut name = format!("{}-{}", manifest.kernel.release, begin(&manifest.kernel.sha256));
        // A package file may contain the image of a verified entry and must not replace it.
        if let Some(Package::File { sha256 }) = &manifest.package {
            name = format!("{name}-{}", begin(sha256));
        }
        let to = self.root.join("kernels").join(name);
        if let Ok(old) = Manifest::read(&to) {
            manifest.asked_unix_ns = old.asked_unix_ns;
        }
        manifest.asked_unix_ns.insert(addition.spec.to_string(), now_unix_ns());
        manifest.write(&entry)?;
        self.put(&entry, &to)?;
        Ok(manifest.kernel(&to, addition.spec.to_string()))
    }

    /// Records that an entry answered a spec now.
    pub(super) fn touch(&self, mut found: Found, spec: &Spec) -> Result<Found, Problem> {
        found.manifest.asked_unix_ns.insert(spec.to_string(), now_unix_ns());
        found.manifest.write(&found.folder)?;
        Ok(found)
    }
}

fn begin(sha256: &str) -> &str {
    sha256.get(..16).unwrap_or_default()
}

fn fill(entry: &Path, addition: &Addition<'_>, kernel: &Kernel) -> io::Result<()> {
    fs::create_dir_all(entry)?;
    fs::copy(addition.image, entry.join(&kernel.image))?;
    if let (Some(from), Some(to)) = (addition.config, &kernel.config) {
        fs::copy(from, entry.join(to))?;
    }
    if let (Some(from), Some(to)) = (addition.modules, &kernel.modules) {
        for path in below(from)? {
            let (from, to) = (from.join(&path), entry.join(to).join(&path));
            // Its links lead to the sources, which are not here.
            if fs::symlink_metadata(&from)?.is_file() {
                fs::create_dir_all(to.parent().unwrap_or(entry))?;
                fs::copy(from, to)?;
            }
        }
    }
    Ok(())
}
