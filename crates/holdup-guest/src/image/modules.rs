//! Kernel modules for the guest, with their dependencies, in the order of loading.
//!
//! They are uncompressed in the image: a kernel can decompress modules (MODULE_INIT_COMPRESSED_FILE of finit_module(2)) only if
//! it was built for their format.

use super::tree::{Kind, Tree};
use holdup_model::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Their folder in the guest: `NN-name.ko`, to be loaded in order.
pub const GUEST_FOLDER: &str = "/lib/modules/holdup";

/// The largest module of a distribution (amdgpu) has about 30 MB.
const MODULE_BYTES_MAX: u64 = 128 << 20;

/// A selection of kernel modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modules {
    /// The folder `lib/modules/RELEASE`. Without modules.dep, which depmod(8) writes after installation, the modules' own
    /// `depends=` counts.
    pub dir: PathBuf,
    /// Module names such as `virtio_console`; `-` and `_` are the same, as for modprobe(8).
    pub wanted: Vec<String>,
}

impl Modules {
    /// Adds the modules and their dependencies, except built-in ones.
    ///
    /// # Errors
    /// When a module neither exists nor is built in, or cannot be decompressed.
    pub(crate) fn add(&self, tree: &mut Tree) -> Result<(), Problem> {
        for (number, path) in self.load_order()?.iter().enumerate() {
            let content = unpacked(&self.dir.join(path))?;
            let target = Path::new(GUEST_FOLDER).join(format!("{number:03}-{}.ko", name_of(path)));
            tree.put(&target, Kind::Text(content), 0o644, 0)?;
        }
        Ok(())
    }

    /// Relative paths of the modules, dependencies first.
    fn load_order(&self) -> Result<Vec<String>, Problem> {
        let read = |name: &str| {
            let path = self.dir.join(name);
            holdup_files::read_input(&path, super::MOST_BYTES)
                .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
                .map_err(|e| Problem::host(format!("kernel modules: {}", path.display()), e.to_string()))
        };
        if !self.dir.join("modules.dep").exists() {
            return self.load_order_of_files();
        }
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
                return Err(self.missing(wanted));
            };
            // modules.dep lists transitive dependencies, the nearest first.
            let needed = dependencies.get(*path).map(Vec::as_slice).unwrap_or_default();
            for path in needed.iter().rev().chain([*path]) {
                if !order.contains(path) {
                    order.push(path.clone());
                }
            }
        }
        Ok(order)
    }

    fn missing(&self, wanted: &str) -> Problem {
        let why = format!("{} has no such module, and the kernel does not have it built in", self.dir.display());
        Problem::host(format!("kernel module {wanted}"), why).hint("take the whole package of modules of this kernel")
    }

    /// The same by `depends=` in each module's section `.modinfo`.
    fn load_order_of_files(&self) -> Result<Vec<String>, Problem> {
        let files = self.files()?;
        let mut order = Vec::new();
        // With whether its dependencies are already in `order`.
        let mut left: Vec<(String, bool)> = self.wanted.iter().rev().map(|w| (w.replace('-', "_"), false)).collect();
        let mut begun = BTreeSet::new();
        while let Some((name, ready)) = left.pop() {
            let path = files.get(&name).ok_or_else(|| self.missing(&name))?;
            if ready {
                order.push(path.clone());
            } else if begun.insert(name.clone()) {
                let whole = self.dir.join(path);
                let needs = super::elf::modules_needed(&unpacked(&whole)?)
                    .map_err(|why| Problem::host(format!("kernel module {}", whole.display()), why))?;
                left.push((name, true));
                left.extend(needs.iter().rev().map(|needed| (needed.replace('-', "_"), false)));
            }
        }
        Ok(order)
    }

    /// Every module: its name and relative path.
    fn files(&self) -> Result<BTreeMap<String, String>, Problem> {
        let failed = |path: &Path, e: std::io::Error| {
            Problem::host(format!("kernel modules: {}", path.display()), e.to_string())
        };
        let mut files = BTreeMap::new();
        let mut folders = vec![self.dir.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).map_err(|e| failed(&folder, e))? {
                let entry = entry.map_err(|e| failed(&folder, e))?;
                let path = entry.path();
                // Links such as `build` lead out of the folder.
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if let Some(relative) = path.strip_prefix(&self.dir).ok().and_then(Path::to_str)
                    && relative.contains(".ko")
                {
                    files.insert(name_of(relative), relative.to_owned());
                }
            }
        }
        Ok(files)
    }
}

/// modules.dep(5): `PATH: PATH PATH`.
fn dependencies(text: &str) -> BTreeMap<String, Vec<String>> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(path, needs)| (path.to_owned(), needs.split_whitespace().map(str::to_owned).collect())).collect()
}

/// `virtio_console` of `kernel/drivers/char/virtio_console.ko.xz`.
fn name_of(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

/// The decompressed module.
fn unpacked(path: &Path) -> Result<Vec<u8>, Problem> {
    let failed = |why: String| Problem::host(format!("kernel module {}", path.display()), why);
    let ending = path.extension().map(|e| e.to_string_lossy().into_owned()).unwrap_or_default();
    if !matches!(ending.as_str(), "ko" | "xz" | "gz" | "zst") {
        return Err(failed(format!("unknown compression `{ending}`")));
    }
    let packed = holdup_files::open_input(path).map_err(|e| failed(e.to_string()))?;
    let mut content = Vec::new();
    holdup_kernels::decompressed(packed)
        .and_then(|plain| plain.take(MODULE_BYTES_MAX + 1).read_to_end(&mut content))
        .map_err(|e| failed(format!("it cannot be decompressed: {e}")))?;
    if content.len() as u64 > MODULE_BYTES_MAX {
        return Err(failed(format!("it has more than {MODULE_BYTES_MAX} bytes when decompressed")));
    }
    if !super::elf::is_elf(&content) {
        return Err(failed("it is not an ELF file when decompressed".to_owned()));
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
    fn dependencies_are_loaded_first() {
        let top = folder();
        let wanted = ["virtio_console", "virtio_x", "a"].map(str::to_owned).to_vec();
        let mut tree = Tree::default();
        Modules { dir: top.path().to_owned(), wanted }.add(&mut tree).unwrap();
        let files: Vec<(String, Vec<u8>)> = tree
            .iter()
            .filter_map(|(path, node)| match &node.kind {
                Kind::Text(text) => Some((path.to_owned(), text.clone())),
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
        assert!(refused("b").contains("cannot be decompressed"));
        std::fs::write(top.path().join("kernel/a.ko"), b"text").unwrap();
        assert!(refused("a").contains("not an ELF file"));
        std::fs::remove_file(top.path().join("modules.dep")).unwrap();
        std::fs::write(top.path().join("kernel/a.ko"), b"\x7fELFa").unwrap();
        assert!(refused("a").contains("kernel/a.ko"), "{}", refused("a"));
        assert!(refused("nosuch").contains("kernel module nosuch"));
    }

    /// A module with only a header and `.modinfo`.
    fn module(depends: &str) -> Vec<u8> {
        let info = format!("license=GPL\0depends={depends}\0name=x\0").into_bytes();
        let names = b"\0.modinfo\0.shstrtab\0";
        let (info_at, names_at) = (64_u64, 64 + info.len() as u64);
        let sections_at = (names_at + names.len() as u64).next_multiple_of(8);
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        for short in [1_u16, 62] {
            file.extend(short.to_le_bytes());
        }
        file.extend(1_u32.to_le_bytes());
        for long in [0, 0, sections_at] {
            file.extend(long.to_le_bytes());
        }
        file.extend(0_u32.to_le_bytes());
        for short in [64_u16, 0, 0, 64, 3, 2] {
            file.extend(short.to_le_bytes());
        }
        file.extend(&info);
        file.extend(names);
        file.resize(sections_at as usize + 64, 0);
        for (name, kind, at, size) in [(1_u32, 1_u32, info_at, info.len()), (10, 3, names_at, names.len())] {
            file.extend(name.to_le_bytes());
            file.extend(kind.to_le_bytes());
            for long in [0, 0, at, size as u64] {
                file.extend(long.to_le_bytes());
            }
            file.extend([0; 24]);
        }
        file
    }

    #[test]
    fn without_modules_dep_the_modules_own_dependencies_count() {
        let top = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(top.path().join(name), bytes).unwrap();
        std::fs::create_dir_all(top.path().join("kernel/net")).unwrap();
        write("kernel/net/failover.ko", &module(""));
        write("kernel/net-failover.ko", &module("failover"));
        write("kernel/virtio_net.ko", &module("net_failover,failover"));
        write("kernel/ring-a.ko", &module("ring_b"));
        write("kernel/ring-b.ko", &module("ring_a"));
        write("kernel/needy.ko", &module("nosuch"));
        let order = |wanted: &str| Modules { dir: top.path().to_owned(), wanted: vec![wanted.to_owned()] }.load_order();
        let expected = ["kernel/net/failover.ko", "kernel/net-failover.ko", "kernel/virtio_net.ko"];
        assert_eq!(order("virtio-net").unwrap(), expected);
        assert_eq!(order("ring_a").unwrap().len(), 2, "modules that need each other end");
        assert!(order("needy").unwrap_err().to_string().contains("kernel module nosuch"));
        write("kernel/needy.ko", &module("x")[..200]);
        assert!(order("needy").is_err(), "one that is cut short");
    }
}
