//! Kernels that are used in place: `file:` and `host`.

use crate::files::{problem, sha256};
use crate::image::{check_arch, read_image};
use crate::{Kernel, Options, Spec};
use holdup_model::Problem;
use std::io;
use std::path::{Path, PathBuf};

/// The kernel at a path, with the configuration beside it, if it has one of the usual names.
pub(super) fn file(spec: &Spec, path: &Path, options: &Options) -> Result<Kernel, Problem> {
    let path = path.canonicalize().map_err(|e| problem("kernel", path, &e))?;
    let facts = read_image(&path)?;
    check_arch(&path, &facts, &options.arch)?;
    let sha256 = sha256(&path).map_err(|e| problem("kernel", &path, &e))?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    let names = [format!("config-{}", facts.release), "config".to_owned()];
    let config = names.iter().map(|name| folder.join(name)).find(|config| config.is_file());
    Ok(Kernel {
        spec: spec.to_string(),
        source: format!("the file {}", path.display()),
        image: path,
        release: facts.release,
        version_line: facts.version_line,
        arch: facts.arch.to_owned(),
        sha256,
        config,
        modules: None,
    })
}

/// The running kernel, found at the usual paths below `root`.
pub(super) fn host(root: &Path, spec: &Spec, options: &Options) -> Result<Kernel, Problem> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let modules = [root.join("usr/lib/modules").join(&release), root.join("lib/modules").join(&release)];
    let mut paths = vec![root.join(format!("boot/vmlinuz-{release}"))];
    paths.extend(modules.iter().map(|folder| folder.join("vmlinuz")));
    let Some(image) = paths.iter().find(|path| is_there(path)) else {
        let looked: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
        let why = format!("its image is at none of {}", looked.join(", "));
        return Err(Problem::host(format!("kernel `host` ({release})"), why)
            .hint("a machine that boots from outside, or a container, has no image; use file:PATH or debian:VERSION"));
    };
    if let Err(e) = holdup_files::open_input(image) {
        return Err(problem("kernel `host`:", image, &e)
            .hint("some distributions let only root read it: copy it as root and use file:COPY"));
    }
    let mut kernel = file(spec, image, options)?;
    if kernel.release != release {
        let why = format!("{} holds {}, and {release} runs", image.display(), kernel.release);
        return Err(Problem::host("kernel `host`", why));
    }
    kernel.source = format!("the running kernel, {}", kernel.image.display());
    kernel.modules = modules_folder(options, &modules);
    Ok(kernel)
}

fn is_there(path: &Path) -> bool {
    // A folder without permission is reported when the file is opened.
    !matches!(path.metadata(), Err(e) if e.kind() == io::ErrorKind::NotFound)
}

fn modules_folder(options: &Options, folders: &[PathBuf]) -> Option<PathBuf> {
    folders.iter().find(|folder| options.modules && folder.join("kernel").is_dir()).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::bz_image;
    use std::fs;

    #[test]
    fn the_running_kernel_is_found_or_its_absence_explained() {
        let root = tempfile::tempdir().unwrap();
        let options = Options { arch: "x86_64".into(), modules: true, ..Options::default() };
        let error = host(root.path(), &Spec::Host, &options).unwrap_err();
        assert!(error.hint.unwrap().contains("boots from outside"));
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        let modules = root.path().join("usr/lib/modules").join(&release);
        fs::create_dir_all(modules.join("kernel")).unwrap();
        fs::write(modules.join("vmlinuz"), bz_image(&release)).unwrap();
        fs::write(modules.join("config"), "").unwrap();
        let kernel = host(root.path(), &Spec::Host, &options).unwrap();
        assert_eq!((kernel.release.as_str(), kernel.modules.is_some()), (release.as_str(), true));
        assert!(kernel.config.unwrap().ends_with("config"));
        fs::create_dir_all(root.path().join("boot")).unwrap();
        fs::write(root.path().join(format!("boot/vmlinuz-{release}")), bz_image("7.9.9-other")).unwrap();
        assert!(host(root.path(), &Spec::Host, &options).unwrap_err().why.contains("holds 7.9.9-other"));
    }
}
