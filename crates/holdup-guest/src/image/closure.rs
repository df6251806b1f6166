//! A program's interpreter and libraries, found as ld.so would find them in the guest.
//!
//! Search order of ld.so(8): DT_RPATH of the file and of those that loaded it (only without DT_RUNPATH), DT_RUNPATH of the
//! file, then the system's folders: /etc/ld.so.conf of the root, and the built-in ones, which is also what the cache of
//! ldconfig has. Variants for newer CPUs (`glibc-hwcaps`) are left out, so that the image does not depend on the host's CPU.

use super::elf::{self, Elf, Machine, is_elf};
use super::roots::{Found, Roots, guest_path};
use super::tree::Tree;
use holdup_model::Problem;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Above any real program; ends a search through crafted files.
const LIBRARIES_MAX: usize = 4096;

/// BINPRM_BUF_SIZE of the kernel (fs/binfmt_script.c).
const SCRIPT_LINE_MAX: usize = 256;

/// The guest's PATH, also for `#!/usr/bin/env` lines.
pub const PROGRAM_FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// A loaded file.
#[derive(Debug)]
struct Object {
    found: Found,
    elf: Rc<Elf>,
    /// Of the file and of those that loaded it.
    rpaths: Vec<PathBuf>,
}

/// Adds programs to a tree with their dependencies.
#[derive(Debug)]
pub(crate) struct Closure {
    roots: Roots,
    machine: Machine,
    system: Vec<PathBuf>,
    parsed: BTreeMap<PathBuf, Rc<Elf>>,
    /// Libraries that ld.so finds only by its configuration, and their paths.
    by_configuration: BTreeMap<String, PathBuf>,
    libc_folder: Option<PathBuf>,
    /// Notes for the user.
    pub(crate) notes: Vec<String>,
}

impl Closure {
    pub(crate) fn new(roots: Roots, machine: Machine) -> Result<Self, Problem> {
        let system = system_folders(&roots, machine)?;
        Ok(Closure {
            roots,
            machine,
            system,
            parsed: BTreeMap::new(),
            by_configuration: BTreeMap::new(),
            libc_folder: None,
            notes: Vec::new(),
        })
    }

    pub(crate) fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Adds a program: an ELF file, or a script with its interpreter.
    ///
    /// # Errors
    /// Names the program, and the missing or unsuitable library or interpreter.
    pub(crate) fn program(&mut self, tree: &mut Tree, path: &Path) -> Result<(), Problem> {
        self.program_below(tree, path, 0)
    }

    fn program_below(&mut self, tree: &mut Tree, path: &Path, depth: usize) -> Result<(), Problem> {
        let what = || format!("program {}", path.display());
        if !path.is_absolute() {
            return Err(Problem::usage(what(), "its path does not begin with a slash"));
        }
        let found = self.roots.find(path)?.filter(|found| !found.is_folder);
        let Some(found) = found else {
            return Err(Problem::host(what(), format!("there is no such file in {}", self.roots.describe()))
                .hint("install the program on this host, or name another one"));
        };
        let head = head_of(&found).map_err(|e| Problem::host(what(), e))?;
        if let Some(line) = head.strip_prefix(b"#!") {
            tree.found(&found)?;
            if depth > 4 {
                return Err(Problem::host(what(), "its interpreters are scripts without end"));
            }
            for interpreter in self.script_interpreters(path, line)? {
                self.program_below(tree, &interpreter, depth + 1)?;
            }
            return Ok(());
        }
        if !is_elf(&head) {
            return Err(Problem::host(what(), "it is neither an ELF file nor a script that begins with #!")
                .hint("name the program itself, not a file that a shell would have to guess about"));
        }
        if !found.source.executable {
            return Err(Problem::host(what(), "it may not be run: no execute permission"));
        }
        self.load(tree, &what(), found, &[])
    }

    /// The interpreter of a script and, for env(1), the program that it runs.
    fn script_interpreters(&mut self, script: &Path, line: &[u8]) -> Result<Vec<PathBuf>, Problem> {
        let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        let what = || format!("script {}", script.display());
        let Some(interpreter) = words.next().map(PathBuf::from) else {
            return Err(Problem::host(what(), "its first line names no interpreter"));
        };
        let mut all = vec![interpreter.clone()];
        if interpreter.file_name().is_some_and(|name| name == "env") {
            let Some(wanted) = words.find(|word| !word.starts_with('-') && !word.contains('=')) else {
                return Err(Problem::host(what(), "its first line names env(1) and no program"));
            };
            let mut places = PROGRAM_FOLDERS.iter().map(|folder| Path::new(folder).join(wanted));
            let there = places.find(|place| matches!(self.roots.find(place), Ok(Some(found)) if !found.is_folder));
            let missing = || {
                Problem::host(
                    what(),
                    format!("its interpreter `{wanted}` is in none of {}", PROGRAM_FOLDERS.join(", ")),
                )
            };
            all.push(there.ok_or_else(missing)?);
        }
        let name = all.last().and_then(|p| p.file_name()).map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if ["python", "perl", "ruby", "node"].iter().any(|language| name.starts_with(language)) {
            self.notes.push(format!(
                "{}: the guest has its interpreter {name}, and none of the modules that it may load",
                script.display()
            ));
        }
        Ok(all)
    }

    /// Adds a library that a program loads by dlopen(3), with its dependencies. `rpath_of` provides the RPATH.
    pub(crate) fn plugin(&mut self, tree: &mut Tree, path: &Path, rpath_of: &Path) -> Result<(), Problem> {
        let what = format!("library {}", path.display());
        let Some(found) = self.roots.find(path)?.filter(|found| !found.is_folder) else {
            return Err(Problem::host(what, format!("there is no such file in {}", self.roots.describe())));
        };
        let lender = self.roots.find(rpath_of)?.filter(|found| !found.is_folder);
        let rpaths = match lender {
            Some(lender) => {
                let elf = self.parse(&what, &lender)?;
                origin_folders(&elf.rpath, &lender.real)
            }
            None => Vec::new(),
        };
        self.load(tree, &what, found, &rpaths)
    }

    /// Adds a file and its libraries in ld.so's order: breadth first.
    fn load(&mut self, tree: &mut Tree, what: &str, found: Found, rpaths: &[PathBuf]) -> Result<(), Problem> {
        let elf = self.parse(what, &found)?;
        let musl = self.interpreter(tree, what, &elf)?;
        // $ORIGIN of a program is its real path, of a library the path by which it was found; in the guest both are the same
        // folders.
        let origin = found.real.clone();
        tree.found(&found)?;
        let mut inherited = origin_folders(&elf.rpath, &origin);
        inherited.extend_from_slice(rpaths);
        let mut queue = VecDeque::from([Object { found, elf, rpaths: inherited }]);
        let mut loaded: BTreeMap<String, Rc<Elf>> = BTreeMap::new();
        while let Some(object) = queue.pop_front() {
            for name in &object.elf.needed {
                if loaded.contains_key(name) || musl && is_musl_itself(name) {
                    continue;
                }
                if loaded.len() >= LIBRARIES_MAX {
                    return Err(Problem::host(what, format!("it loads more than {LIBRARIES_MAX} libraries")));
                }
                let library = self.library(what, name, &object)?;
                loaded.insert(name.clone(), Rc::clone(&library.elf));
                tree.found(&library.found)?;
                queue.push_back(library);
            }
            self.check_versions(what, &object, &loaded)?;
        }
        Ok(())
    }

    /// Adds the ELF interpreter. Returns whether it is musl's, which is the C library as well.
    fn interpreter(&mut self, tree: &mut Tree, what: &str, elf: &Elf) -> Result<bool, Problem> {
        let Some(interpreter) = &elf.interpreter else { return Ok(false) };
        let missing = || {
            Problem::host(what, format!("its interpreter {interpreter} is not in {}", self.roots.describe()))
                .hint("install the C library that the program was built for")
        };
        let found = self.roots.find(Path::new(interpreter))?.filter(|found| !found.is_folder).ok_or_else(missing)?;
        self.parse(&format!("interpreter {interpreter} of {what}"), &found)?;
        tree.found(&found)?;
        Ok(Path::new(interpreter).file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-musl-")))
    }

    fn library(&mut self, what: &str, name: &str, wanted_by: &Object) -> Result<Object, Problem> {
        let runpaths = origin_folders(&wanted_by.elf.runpath, &wanted_by.found.named);
        let own: &[PathBuf] = if wanted_by.elf.runpath.is_empty() { &wanted_by.rpaths } else { &runpaths };
        let mut misfits = Vec::new();
        let explicit: Vec<PathBuf> = if name.contains('/') {
            vec![guest_path(Path::new(name))]
        } else {
            own.iter().chain(&self.system).map(|folder| folder.join(name)).collect()
        };
        // An unpacked root takes precedence over the host in all folders.
        for root in self.roots.each() {
            for (number, place) in explicit.iter().enumerate() {
                let Some(found) = root.find(place)?.filter(|found| !found.is_folder) else { continue };
                // ld.so skips files of other machines too: multiarch folders may have both.
                match self.parse(&format!("library {}", found.source.path.display()), &found) {
                    Ok(elf) => {
                        if number >= own.len() && !name.contains('/') {
                            self.remember_place(name, &found);
                        }
                        let mut rpaths = origin_folders(&elf.rpath, &found.named);
                        rpaths.extend_from_slice(&wanted_by.rpaths);
                        return Ok(Object { found, elf, rpaths });
                    }
                    Err(problem) => misfits.push(problem.to_string().replace('\n', "; ")),
                }
            }
        }
        let by = if what.ends_with(&wanted_by.found.named.display().to_string()) {
            String::new()
        } else {
            format!(" (needed by {})", wanted_by.found.named.display())
        };
        let why = if misfits.is_empty() {
            let folders: BTreeSet<String> =
                explicit.iter().filter_map(|p| p.parent()).map(|p| p.display().to_string()).collect();
            let folders: Vec<String> = folders.into_iter().collect();
            format!("its library {name}{by} is not found in {} of {}", folders.join(", "), self.roots.describe())
        } else {
            format!("its library {name}{by} does not fit: {}", misfits.join("; "))
        };
        Err(Problem::host(what, why).hint("install the package that has this library, for the same machine"))
    }

    /// Libraries outside of ld.so's built-in folders get a link beside libc, whose folder is always built in.
    fn remember_place(&mut self, name: &str, found: &Found) {
        let folder = found.named.parent().map(Path::to_owned);
        if name == "libc.so.6" {
            self.libc_folder = folder;
        } else {
            self.by_configuration.entry(name.to_owned()).or_insert_with(|| found.real.clone());
        }
    }

    /// Links libraries that ld.so finds only by its configuration, which the guest does not have.
    pub(crate) fn finish(&self, tree: &mut Tree) -> Result<(), Problem> {
        let Some(libc) = &self.libc_folder else { return Ok(()) };
        for (name, real) in &self.by_configuration {
            let beside = libc.join(name);
            if beside != *real {
                tree.link(&beside, real)?;
            }
        }
        Ok(())
    }

    /// Adds libraries that the C library loads to look up users or to cancel a thread.
    pub(crate) fn libc_extras(&mut self, tree: &mut Tree) -> Result<(), Problem> {
        let Some(folder) = self.libc_folder.clone() else { return Ok(()) };
        for name in ["libnss_files.so.2", "libgcc_s.so.1"] {
            let mut places = vec![folder.join(name)];
            places.extend(self.system.iter().map(|system| system.join(name)));
            for place in places {
                if self.roots.find(&place)?.is_some_and(|found| !found.is_folder) {
                    self.plugin(tree, &place, &place)?;
                    self.by_configuration.entry(name.to_owned()).or_insert_with(|| guest_path(&place));
                    break;
                }
            }
        }
        Ok(())
    }

    fn check_versions(&self, what: &str, object: &Object, loaded: &BTreeMap<String, Rc<Elf>>) -> Result<(), Problem> {
        for (file, version) in &object.elf.versions_needed {
            let Some(library) = loaded.get(file) else { continue };
            if !library.versions_defined.is_empty() && !library.versions_defined.contains(version) {
                return Err(Problem::host(
                    what,
                    format!(
                        "{} needs {version} of {file}, and the {file} that was found in {} has no such version",
                        object.found.named.display(),
                        self.roots.describe()
                    ),
                )
                .hint(format!("put the package with {file} that it was built for beside it")));
            }
        }
        Ok(())
    }

    fn parse(&mut self, what: &str, found: &Found) -> Result<Rc<Elf>, Problem> {
        if let Some(elf) = self.parsed.get(&found.source.path) {
            return Ok(Rc::clone(elf));
        }
        let elf = elf::of_file(&found.source.path).map_err(|why| Problem::host(what, why))?;
        if elf.machine != self.machine {
            return Err(Problem::host(what, format!("it is for {}, the guest is {}", elf.machine, self.machine))
                .hint("take the program built for the machine of the guest"));
        }
        let elf = Rc::new(elf);
        self.parsed.insert(found.source.path.clone(), Rc::clone(&elf));
        Ok(elf)
    }
}

fn head_of(found: &Found) -> Result<Vec<u8>, String> {
    let mut head = Vec::new();
    let file = holdup_files::open_input(&found.source.path).map_err(|e| e.to_string())?;
    file.take(SCRIPT_LINE_MAX as u64).read_to_end(&mut head).map_err(|e| e.to_string())?;
    Ok(head)
}

/// musl's loader is its C library and resolves these names itself (ldso/dynlink.c).
fn is_musl_itself(name: &str) -> bool {
    name == "libc.so" || name.starts_with("libc.musl-") || name.starts_with("ld-musl-")
}

/// Search folders with placeholders replaced. Relative folders are left out, and placeholders that differ between CPUs.
fn origin_folders(folders: &[String], file: &Path) -> Vec<PathBuf> {
    let origin = file.parent().unwrap_or(Path::new("/")).display().to_string();
    folders
        .iter()
        .map(|folder| folder.replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin))
        .map(|folder| folder.replace("${LIB}", "lib").replace("$LIB", "lib"))
        .filter(|folder| folder.starts_with('/') && !folder.contains('$'))
        .map(PathBuf::from)
        .collect()
}

/// The folders of ld.so.conf, then ld.so's built-in ones.
fn system_folders(roots: &Roots, machine: Machine) -> Result<Vec<PathBuf>, Problem> {
    let mut all = Vec::new();
    // An unpacked root has no useful configuration; the host's is for the host's files.
    configured(roots, Path::new("/etc/ld.so.conf"), 0, &mut all)?;
    if let Some(arch) = crate::arch::of_elf(machine) {
        all.extend(["/lib", "/usr/lib"].map(|place| Path::new(place).join(arch.triplet)));
    }
    all.extend(["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib"].map(PathBuf::from));
    let mut seen = BTreeSet::new();
    all.retain(|folder| seen.insert(guest_path(folder)));
    Ok(all)
}

/// Reads ld.so.conf and its includes (ldconfig(8)), which may have a pattern in the last component.
fn configured(roots: &Roots, path: &Path, depth: usize, all: &mut Vec<PathBuf>) -> Result<(), Problem> {
    let Some(found) = roots.find(path)?.filter(|found| !found.is_folder && depth < 8) else { return Ok(()) };
    let Ok(text) = holdup_files::read_text_input(&found.source.path) else { return Ok(()) };
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(pattern) = line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t'])) {
            let pattern = Path::new("/etc").join(pattern.trim());
            let (Some(folder), Some(last)) = (pattern.parent(), pattern.file_name()) else { continue };
            let last = last.to_string_lossy();
            for name in roots.names(folder)? {
                if matches(&last, &name.to_string_lossy()) {
                    configured(roots, &folder.join(name), depth + 1, all)?;
                }
            }
        } else if line.starts_with('/') {
            all.push(PathBuf::from(line));
        }
    }
    Ok(())
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((front, back)) => {
            name.len() >= front.len() + back.len() && name.starts_with(front) && name.ends_with(back)
        }
    }
}
