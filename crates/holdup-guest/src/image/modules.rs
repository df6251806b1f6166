//! Kernel modules for the guest: those that are wanted, those that they need, in the order of loading.
//!
//! They are put into the image as plain ELF files. The kernel could decompress them itself (MODULE_INIT_COMPRESSED_FILE
//! of finit_module(2)) where it was built for that, for one format; this way every kernel can.

use super::tree::{Kind, Tree};
use holdup_model::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where the guest finds them: `NN-name.ko`, to be loaded in the order of their names.
pub const GUEST_FOLDER: &str = "/lib/modules/holdup";

/// The largest module that is unpacked, bytes. The largest of a distribution (amdgpu) has about 30 MB.
const MODULE_BYTES_MAX: u64 = 128 << 20;

/// Which modules to take from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modules {
    /// The kernel's folder of modules: `lib/modules/RELEASE`, with its modules.dep.
    pub dir: PathBuf,
    /// Names of modules, such as `virtio_console`. `-` and `_` are the same, as for modprobe(8).
    pub wanted: Vec<String>,
}

impl Modules {
    /// Adds the modules and what they need. Those that are built into the kernel need no file.
    ///
    /// # Errors
    /// When a module is neither there nor built in, or cannot be unpacked.
    pub(crate) fn add(&self, tree: &mut Tree) -> Result<(), Problem> {
        for (number, path) in self.load_order()?.iter().enumerate() {
            let content = unpacked(&self.dir.join(path))?;
            let target = Path::new(GUEST_FOLDER).join(format!("{number:03}-{}.ko", name_of(path)));
            tree.put(&target, Kind::Text(content), 0o644, 0)?;
        }
        Ok(())
    }

    /// Files of the modules, relative to the folder, each after those that it needs.
    fn load_order(&self) -> Result<Vec<String>, Problem> {
        let read = |name: &str| {
            let path = self.dir.join(name);
            std::fs::read(&path)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .map_err(|e| Problem::host(format!("kernel modules: {}", path.display()), e.to_string()))
        };
        let dependencies = dependencies(&read("modules.dep")?);
        let built_in: BTreeSet<String> = read("modules.builtin").unwrap_or_default().lines().map(name_of).collect();
        let paths: BTreeMap<String, &String> = dependencies.keys().map(|path| (name_of(path), path)).collect();
        let mut order = Vec::new();
        for wanted in &self.wanted {
            let name = wanted.replace('-', "_");
            if built_in.contains(&name) {
                continue;
            }
            let Some(path) = paths.get(&name) else {
                return Err(Problem::host(
                    format!("kernel module {wanted}"),
                    format!("{} has no such module, and the kernel does not have it built in", self.dir.display()),
                )
                .hint("take the whole package of modules of this kernel"));
            };
            // modules.dep names everything that is needed, however far away, the nearest first.
            let needed = dependencies.get(*path).map(Vec::as_slice).unwrap_or_default();
            for path in needed.iter().rev().chain([*path]) {
                if !order.contains(path) {
                    order.push(path.clone());
                }
            }
        }
        Ok(order)
    }
}

/// Lines of modules.dep: `PATH: PATH PATH`, modules.dep(5).
fn dependencies(text: &str) -> BTreeMap<String, Vec<String>> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(path, needs)| (path.to_owned(), needs.split_whitespace().map(str::to_owned).collect())).collect()
}

/// `kernel/drivers/char/virtio_console.ko.xz` is `virtio_console`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

/// The plain ELF file of a module.
fn unpacked(path: &Path) -> Result<Vec<u8>, Problem> {
    let failed = |why: String| Problem::host(format!("kernel module {}", path.display()), why);
    let ending = path.extension().map(|e| e.to_string_lossy().into_owned()).unwrap_or_default();
    if !matches!(ending.as_str(), "ko" | "xz" | "gz" | "zst") {
        return Err(failed(format!("it is packed as `{ending}`, which is not known here")));
    }
    let packed = std::fs::File::open(path).map_err(|e| failed(e.to_string()))?;
    let mut content = Vec::new();
    holdup_kernels::decompressed(packed)
        .and_then(|plain| plain.take(MODULE_BYTES_MAX + 1).read_to_end(&mut content))
        .map_err(|e| failed(format!("it cannot be unpacked: {e}")))?;
    if content.len() as u64 > MODULE_BYTES_MAX {
        return Err(failed(format!("it has more than {MODULE_BYTES_MAX} bytes when unpacked")));
    }
    if !super::elf::is_elf(&content) {
        return Err(failed("it is not an ELF file when unpacked".to_owned()));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn folder() -> tempfile::TempDir {
        let top = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(top.path().join(name), bytes).unwrap();
        write(
            "modules.dep",
            b"kernel/a.ko:\nkernel/b.ko.gz: kernel/a.ko\nkernel/virtio-x.ko: kernel/b.ko.gz kernel/a.ko\n",
        );
        write("modules.builtin", b"kernel/drivers/char/virtio_console.ko\n");
        std::fs::create_dir(top.path().join("kernel")).unwrap();
        write("kernel/a.ko", b"\x7fELFa");
        write("kernel/virtio-x.ko", b"\x7fELFx");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(b"\x7fELFb").unwrap();
        write("kernel/b.ko.gz", &packed.finish().unwrap());
        top
    }

    #[test]
    fn modules_come_after_those_that_they_need() {
        let top = folder();
        let wanted = ["virtio_console", "virtio_x", "a"].map(str::to_owned).to_vec();
        let mut tree = Tree::default();
        Modules { dir: top.path().to_owned(), wanted }.add(&mut tree).unwrap();
        let files: Vec<(String, Vec<u8>)> = tree
            .iter()
            .filter_map(|(path, node)| match &node.kind {
                Kind::Text(text) => Some((String::from_utf8_lossy(path).into_owned(), text.clone())),
                _ => None,
            })
            .collect();
        let expected = [("000-a", b"\x7fELFa"), ("001-b", b"\x7fELFb"), ("002-virtio_x", b"\x7fELFx")]
            .map(|(name, text)| (format!("usr/lib/modules/holdup/{name}.ko"), text.to_vec()));
        assert_eq!(files, expected);
    }

    #[test]
    fn bad_modules_are_refused_by_name() {
        let top = folder();
        let refused = |wanted: &str| {
            let modules = Modules { dir: top.path().to_owned(), wanted: vec![wanted.to_owned()] };
            modules.add(&mut Tree::default()).unwrap_err().to_string()
        };
        assert!(refused("nosuch").contains("kernel module nosuch"));
        std::fs::write(top.path().join("kernel/b.ko.gz"), b"\x1f\x8bgarbage").unwrap();
        assert!(refused("b").contains("cannot be unpacked"));
        std::fs::write(top.path().join("kernel/a.ko"), b"text").unwrap();
        assert!(refused("a").contains("not an ELF file"));
        std::fs::remove_file(top.path().join("modules.dep")).unwrap();
        assert!(refused("a").contains("modules.dep"));
    }
}
