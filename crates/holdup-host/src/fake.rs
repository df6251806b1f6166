//! A file system in memory that fails where a test wants it to.
//!
//! It stands in for files only: knobs, journal and facts that run over it are the real ones.

use crate::Host;
use crate::fs::{CAPTURED_LOG, HostFs, error_of_words};
use crate::system::Scheduling;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which operations fail. They are counted from 1, over all that the fake is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// This one, without effect.
    Once(u64),
    /// This one, although it had its effect.
    OnceAfter(u64),
    /// Both of these, without effect: a failure, and one while it is made good.
    Twice(u64, u64),
    /// This one and all that follow, without effect: a crash, as seen from the disk.
    From(u64),
}

/// One operation that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// `read`, `read_link`, `write`, `list`, `exists`, `may_write`, `replace`, `remove`, `scheduling`, `set_scheduling`,
    /// `hold`, `release`, `holds`, `slice`, `set_slice`, `affinity`, `set_affinity`, `kernel_log`, `mode`, or a name given to
    /// [`MemoryFs::step`].
    pub name: String,
    /// What it was about: a path, or `task N`.
    pub about: String,
    /// True if it was made to fail by a [`Fault`].
    pub failed: bool,
}

/// What a file does with bytes that are written to it: gives what is read from then on, or refuses.
pub type OnWrite = dyn Fn(&[u8]) -> io::Result<Vec<u8>> + Send;

#[derive(Default)]
struct Tree {
    files: BTreeMap<String, Vec<u8>>,
    links: BTreeMap<String, String>,
    /// Folders that may be empty.
    folders: BTreeSet<String>,
    /// Files that are there and cannot be read, with the system's words.
    unreadable: BTreeMap<String, String>,
    refused: BTreeMap<(String, String), i32>,
    hooks: BTreeMap<String, Box<OnWrite>>,
    tasks: BTreeMap<u32, Scheduling>,
    affinity: BTreeMap<u32, Vec<u32>>,
    /// The slice of each task and whether it is its own.
    slices: BTreeMap<u32, (u64, bool)>,
    default_slice: Option<u64>,
    /// What the process holds open, and what is read of it meanwhile.
    held: BTreeMap<String, Vec<u8>>,
    kernel_log: Option<Vec<u8>>,
    has_log_file: bool,
    fault: Option<Fault>,
    log: Vec<Operation>,
}

/// A file system in memory, shared by its clones.
#[derive(Clone, Default)]
pub struct MemoryFs {
    tree: Arc<Mutex<Tree>>,
}

impl MemoryFs {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// One with these files, as (absolute path, content).
    pub fn of(files: &[(&str, &str)]) -> Self {
        let fs = Self::new();
        for (path, content) in files {
            fs.put(path, content);
        }
        fs
    }

    /// A host over it.
    pub fn host(&self) -> Host {
        Host::over(Arc::new(self.clone()))
    }

    /// Puts a file there, past faults and log.
    pub fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        self.lock().files.insert(path.to_owned(), content.as_ref().to_vec());
    }

    /// Puts a symbolic link there, past faults and log. Paths that are read lead through it, paths that are written do not.
    pub fn put_link(&self, path: &str, target: &str) {
        self.lock().links.insert(path.to_owned(), target.to_owned());
    }

    /// Puts a folder there, past faults and log.
    pub fn put_folder(&self, path: &str) {
        self.lock().folders.insert(path.to_owned());
    }

    /// Puts a file there that cannot be read, with the reason in the system's words, past faults and log.
    pub fn put_unreadable(&self, path: &str, words: &str) {
        self.lock().unreadable.insert(path.to_owned(), words.to_owned());
    }

    /// Has the kernel's log where a captured tree has it.
    pub(crate) fn have_kernel_log_in_a_file(&self) {
        self.lock().has_log_file = true;
    }

    /// What a file holds, past faults and log.
    pub fn get(&self, path: &str) -> Option<String> {
        self.lock().files.get(path).map(|bytes| String::from_utf8_lossy(bytes).into_owned())
    }

    /// Takes a file, or a folder with all below it, away.
    pub fn take_away(&self, path: &str) {
        let below = format!("{}/", path.trim_end_matches('/'));
        let mut tree = self.lock();
        tree.files.retain(|name, _| name != path && !name.starts_with(&below));
        tree.links.retain(|name, _| name != path && !name.starts_with(&below));
        tree.folders.retain(|name| name != path && !name.starts_with(&below));
        tree.unreadable.retain(|name, _| name != path && !name.starts_with(&below));
    }

    /// Makes one operation (`read`, `write` …) on a path fail with this errno for ever.
    pub fn refuse(&self, operation: &str, path: &str, errno: i32) {
        self.lock().refused.insert((operation.to_owned(), path.to_owned()), errno);
    }

    /// Lets a file answer to writes as the kernel would.
    pub fn on_write(&self, path: &str, hook: impl Fn(&[u8]) -> io::Result<Vec<u8>> + Send + 'static) {
        self.lock().hooks.insert(path.to_owned(), Box::new(hook));
    }

    /// Puts a process with one thread there: its `stat`, its `task` folder and its scheduling. As a child it may run
    /// where its parent may, and has its parent's slice.
    pub fn put_process(&self, pid: u32, ppid: u32, start_time: u64, scheduling: Scheduling) {
        let stat = format!("{pid} (p {pid})) S {ppid} {pid} 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start_time} 0 0\n");
        self.put(&format!("/proc/{pid}/stat"), &stat);
        self.put(&format!("/proc/{pid}/task/{pid}/stat"), &stat);
        let mut tree = self.lock();
        tree.tasks.insert(pid, scheduling);
        let cpus = tree.affinity.get(&ppid).cloned().unwrap_or_else(|| vec![0]);
        tree.affinity.insert(pid, cpus);
        if let Some(slice) = tree.slices.get(&ppid).copied() {
            tree.slices.insert(pid, slice);
        }
    }

    /// Closes all that is held, as the end of the process does.
    pub fn end_holding(&self) {
        self.lock().held.clear();
    }

    /// What is held of a device, past faults and log.
    pub fn held(&self, path: &str) -> Option<Vec<u8>> {
        self.lock().held.get(path).cloned()
    }

    /// Gives the kernel slices, with this default in ns; without it the kernel is one that has none.
    pub fn put_default_slice(&self, default_ns: u64) {
        let mut tree = self.lock();
        tree.default_slice = Some(default_ns);
        let tids: Vec<u32> = tree.tasks.keys().copied().collect();
        for tid in tids {
            tree.slices.entry(tid).or_insert((default_ns, false));
        }
    }

    /// The slice of a task in ns and whether it is the task's own, past faults and log.
    pub fn task_slice(&self, tid: u32) -> Option<(u64, bool)> {
        self.lock().slices.get(&tid).copied()
    }

    /// Gives a task its own slice, past faults and log.
    pub fn put_own_slice(&self, tid: u32, own_ns: u64) {
        self.lock().slices.insert(tid, (own_ns, true));
    }

    /// The CPUs that a task may run on, past faults and log.
    pub fn task_affinity(&self, tid: u32) -> Option<Vec<u32>> {
        self.lock().affinity.get(&tid).cloned()
    }

    /// Sets the CPUs that a task may run on, past faults and log.
    pub fn put_affinity(&self, tid: u32, cpus: &[u32]) {
        self.lock().affinity.insert(tid, cpus.to_vec());
    }

    pub fn end_process(&self, pid: u32) {
        self.take_away(&format!("/proc/{pid}"));
        let mut tree = self.lock();
        tree.tasks.remove(&pid);
        tree.affinity.remove(&pid);
        tree.slices.remove(&pid);
    }

    /// The scheduling of a task, past faults and log.
    pub fn task(&self, tid: u32) -> Option<Scheduling> {
        self.lock().tasks.get(&tid).copied()
    }

    /// Sets the scheduling of a task, past faults and log.
    pub fn put_task(&self, tid: u32, scheduling: Scheduling) {
        self.lock().tasks.insert(tid, scheduling);
    }

    /// Gives it a kernel log.
    pub fn put_kernel_log(&self, log: impl AsRef<[u8]>) {
        self.lock().kernel_log = Some(log.as_ref().to_vec());
    }

    /// Begins to count operations at 1 again, empties the log, and sets what fails.
    pub fn arm(&self, fault: Option<Fault>) {
        let mut tree = self.lock();
        tree.fault = fault;
        tree.log.clear();
    }

    /// What was asked for since [`MemoryFs::arm`].
    pub fn log(&self) -> Vec<Operation> {
        self.lock().log.clone()
    }

    /// Counts an operation of a test's own (a query to a server, say) among those of the files, so that one
    /// sweep goes over both. Says whether it shall have its effect and whether it shall fail.
    pub fn step(&self, name: &str, about: &str) -> (bool, io::Result<()>) {
        self.lock().step(name, about)
    }

    fn lock(&self) -> MutexGuard<'_, Tree> {
        self.tree.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an operation through faults, refusals and the log.
    fn run<T>(&self, name: &str, path: &Path, effect: impl FnOnce(&mut Tree, &str) -> io::Result<T>) -> io::Result<T> {
        let path = path.to_string_lossy();
        let mut tree = self.lock();
        let (has_effect, outcome) = tree.step(name, &path);
        if !has_effect {
            return Err(outcome.err().unwrap_or_else(|| io::ErrorKind::Other.into()));
        }
        if let Some(errno) = tree.refused.get(&(name.to_owned(), path.to_string())) {
            return Err(io::Error::from_raw_os_error(*errno));
        }
        let done = effect(&mut tree, &path);
        outcome.and(done)
    }
}

/// The kernel's own limit (include/linux/namei.h, MAXSYMLINKS).
const MOST_LINKS: u32 = 40;

fn not_found() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOENT)
}

/// Where a path leads by the links of a file system in memory. It does not leave the root; the path itself where the
/// links have no end.
pub(crate) fn resolve<'a>(path: &str, target_of: impl Fn(&str) -> Option<&'a str>) -> String {
    let mut to_go: Vec<String> = path.split('/').rev().map(str::to_owned).collect();
    let mut at = String::new();
    let mut links = 0;
    while let Some(part) = to_go.pop() {
        let length = at.len();
        match part.as_str() {
            "" | "." => continue,
            ".." => at.truncate(at.rfind('/').unwrap_or(0)),
            name => at.extend(["/", name]),
        }
        if let Some(target) = target_of(&at) {
            links += 1;
            if links > MOST_LINKS {
                return path.to_owned();
            }
            at.truncate(if target.starts_with('/') { 0 } else { length });
            to_go.extend(target.split('/').rev().map(str::to_owned));
        }
    }
    at
}

impl Tree {
    fn step(&mut self, name: &str, about: &str) -> (bool, io::Result<()>) {
        let number = self.log.len() as u64 + 1;
        let (has_effect, failed) = match self.fault {
            Some(Fault::Once(at)) if at == number => (false, true),
            Some(Fault::OnceAfter(at)) if at == number => (true, true),
            Some(Fault::Twice(first, second)) if number == first || number == second => (false, true),
            Some(Fault::From(at)) if number >= at => (false, true),
            _ => (true, false),
        };
        self.log.push(Operation { name: name.to_owned(), about: about.to_owned(), failed });
        let outcome = if failed { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) };
        (has_effect, outcome)
    }

    fn file(&self, path: &str) -> io::Result<&Vec<u8>> {
        self.files.get(&self.resolved(path)).ok_or_else(|| self.missing(path))
    }

    /// Why a path that is not there cannot be read.
    fn missing(&self, path: &str) -> io::Error {
        self.unreadable.get(path).map_or_else(not_found, |words| error_of_words(words))
    }

    fn resolved(&self, path: &str) -> String {
        resolve(path, |link| self.links.get(link).map(String::as_str))
    }

    /// The names of all that is below a folder, as paths from there.
    fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = &'a str> {
        fn from<'a>(names: impl Iterator<Item = &'a String>, folder: &'a str) -> impl Iterator<Item = &'a str> {
            names.map_while(move |name| name.strip_prefix(folder))
        }
        let first = || folder.to_owned()..;
        let files = from(self.files.range(first()).map(|(name, _)| name), folder);
        let links = from(self.links.range(first()).map(|(name, _)| name), folder);
        files.chain(links).chain(from(self.folders.range(first()), folder))
    }

    fn is_folder(&self, path: &str) -> bool {
        self.folders.contains(path) || self.below(&format!("{}/", path.trim_end_matches('/'))).next().is_some()
    }
}

impl HostFs for MemoryFs {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.run("read", path, |tree, path| match tree.held.get(path) {
            Some(held) => Ok(held.clone()),
            None => tree.file(path).cloned(),
        })
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.run("write", path, |tree, path| {
            tree.file(path)?;
            let content = match tree.hooks.get(path) {
                Some(hook) => hook(bytes)?,
                None => bytes.to_vec(),
            };
            tree.files.insert(path.to_owned(), content);
            Ok(())
        })
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.run("list", path, |tree, path| {
            let path = tree.resolved(path);
            if !tree.is_folder(&path) {
                return Err(not_found());
            }
            let below = format!("{}/", path.trim_end_matches('/'));
            let rest = tree.below(&below);
            let mut names: Vec<String> =
                rest.map(|rest| rest.split('/').next().unwrap_or_default().to_owned()).collect();
            names.sort_unstable();
            names.dedup();
            Ok(names)
        })
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        self.run("read_link", path, |tree, path| {
            let (folder, name) = path.rsplit_once('/').unwrap_or_default();
            let path = format!("{}/{name}", tree.resolved(folder));
            tree.links.get(&path).map(PathBuf::from).ok_or_else(not_found)
        })
    }

    fn exists(&self, path: &Path) -> bool {
        let asked = self.run("exists", path, |tree, path| {
            let resolved = tree.resolved(path);
            Ok(tree.files.contains_key(&resolved) || tree.is_folder(&resolved) || tree.unreadable.contains_key(path))
        });
        asked.unwrap_or(false)
    }

    /// What refuses writes with EPERM has no right to write for anybody, as the kernel shows it.
    fn mode(&self, path: &Path) -> io::Result<u32> {
        self.run("mode", path, |tree, path| {
            tree.file(path)?;
            let refused = tree.refused.get(&("write".to_owned(), path.to_owned()));
            Ok(if refused == Some(&libc::EPERM) { 0o444 } else { 0o644 })
        })
    }

    fn may_write(&self, path: &Path) -> io::Result<()> {
        // A file that refuses writes also refuses to be opened for them.
        self.run("may_write", path, |tree, path| match tree.refused.get(&("write".to_owned(), path.to_owned())) {
            Some(errno) => Err(io::Error::from_raw_os_error(*errno)),
            None => tree.file(path).map(|_| ()),
        })
    }

    fn replace_synced(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.run("replace", path, |tree, path| {
            tree.files.insert(path.to_owned(), bytes.to_vec());
            Ok(())
        })
    }

    fn remove_synced(&self, path: &Path) -> io::Result<()> {
        self.run("remove", path, |tree, path| {
            tree.files.remove(path);
            Ok(())
        })
    }

    fn scheduling(&self, tid: u32) -> io::Result<Scheduling> {
        self.run("scheduling", Path::new(&format!("task {tid}")), |tree, _| {
            tree.tasks.get(&tid).copied().ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
        })
    }

    fn set_scheduling(&self, tid: u32, wanted: Scheduling) -> io::Result<()> {
        self.run("set_scheduling", Path::new(&format!("task {tid}")), |tree, _| match tree.tasks.get_mut(&tid) {
            Some(task) => {
                *task = wanted;
                Ok(())
            }
            None => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        })
    }

    fn hold(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.run("hold", path, |tree, path| {
            tree.file(path)?;
            tree.held.insert(path.to_owned(), bytes.to_vec());
            Ok(())
        })
    }

    fn release(&self, path: &Path) -> io::Result<()> {
        self.run("release", path, |tree, path| {
            tree.held.remove(path);
            Ok(())
        })
    }

    fn holds(&self, path: &Path) -> io::Result<bool> {
        self.run("holds", path, |tree, path| Ok(tree.held.contains_key(path)))
    }

    fn slice(&self, tid: u32) -> io::Result<Option<u64>> {
        self.run("slice", Path::new(&format!("task {tid}")), |tree, _| {
            let task = tree.tasks.get(&tid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
            let is_realtime = matches!(task.policy, Scheduling::FIFO | Scheduling::RR | Scheduling::DEADLINE);
            Ok(tree.slices.get(&tid).map(|(slice, _)| *slice).filter(|_| !is_realtime))
        })
    }

    fn set_slice(&self, tid: u32, own_ns: Option<u64>) -> io::Result<()> {
        self.run("set_slice", Path::new(&format!("task {tid}")), |tree, _| {
            let task = tree.tasks.get(&tid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
            if !matches!(task.policy, Scheduling::OTHER | Scheduling::BATCH) {
                return Err(io::ErrorKind::Unsupported.into());
            }
            if let Some(default_ns) = tree.default_slice {
                tree.slices.insert(tid, (own_ns.unwrap_or(default_ns), own_ns.is_some()));
            }
            Ok(())
        })
    }

    fn affinity(&self, tid: u32) -> io::Result<Vec<u32>> {
        self.run("affinity", Path::new(&format!("task {tid}")), |tree, _| {
            tree.affinity.get(&tid).cloned().ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
        })
    }

    fn set_affinity(&self, tid: u32, cpus: &[u32]) -> io::Result<()> {
        self.run("set_affinity", Path::new(&format!("task {tid}")), |tree, _| match tree.affinity.get_mut(&tid) {
            Some(_) if cpus.is_empty() => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            Some(known) => {
                *known = cpus.to_vec();
                Ok(())
            }
            None => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        })
    }

    fn kernel_log(&self) -> io::Result<Vec<u8>> {
        self.run("kernel_log", Path::new("the kernel's log"), |tree, _| {
            if tree.has_log_file {
                return tree.file(CAPTURED_LOG).cloned();
            }
            tree.kernel_log.clone().ok_or_else(|| io::Error::from_raw_os_error(libc::EPERM))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_strike_where_they_are_set_and_are_logged() {
        let fs = MemoryFs::of(&[("/a/b", "1"), ("/a/c/d", "2")]);
        let host = fs.host();
        assert_eq!(host.list("/a").expect("there"), ["b", "c"]);
        assert!(host.exists("/a/c") && !host.exists("/a/x"));
        fs.arm(Some(Fault::Once(1)));
        assert!(host.write("/a/b", "9").is_err());
        assert_eq!(fs.get("/a/b").as_deref(), Some("1"));
        fs.arm(Some(Fault::OnceAfter(1)));
        assert!(host.write("/a/b", "9").is_err());
        assert_eq!(fs.get("/a/b").as_deref(), Some("9"));
        fs.arm(Some(Fault::From(2)));
        assert!(host.read("/a/b").is_ok() && host.read("/a/b").is_err() && host.remove_synced("/a/b").is_err());
        assert!(fs.log().iter().map(|o| o.failed).eq([false, true, true]));
        fs.arm(None);
        fs.refuse("write", "/a/b", libc::EPERM);
        assert_eq!(
            host.write("/a/b", "1").expect_err("refused").to_string(),
            "cannot write /a/b: operation not permitted"
        );
        assert!(host.may_write("/a/b").is_err());
        assert!(host.write("/no", "1").is_err(), "a write makes no file");
    }
}
