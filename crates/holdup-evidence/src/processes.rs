//! Which process is under test, and what it has mapped, while processes come and go.

use crate::ForeignPrograms;
use holdup_host::perf_samples::Record;
use holdup_host::process::{Stat, stat};
use holdup_host::{FileIdentity, Host};
use holdup_model::units::shown_size;
use holdup_model::{MemoryBudget, TooLarge};
use holdup_stacks::{KernelSymbols, Mapping, Module, ModuleId, SpaceId, Symbolizer, TaskId};
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// A file by its device (major, minor) and inode.
pub(crate) type FileKey = (u32, u32, u64);

/// Code that a process has mapped.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Area {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    pub(crate) file: FileKey,
    /// As the process knows it; `None` for code that is in no file.
    pub(crate) path: Option<String>,
}

impl Area {
    /// Its path, or nothing.
    pub(crate) fn name(&self) -> &str {
        self.path.as_deref().unwrap_or_default()
    }
}

#[derive(Debug, Clone, Default)]
struct Process {
    /// Which of the roles; `None` for a process outside.
    role: Option<usize>,
    /// `None` until it is asked for.
    areas: Option<Vec<Area>>,
    space: Option<Option<SpaceId>>,
}

/// What could not be had, for the notes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unreadable {
    /// Processes whose mappings could not be read before they ended.
    pub(crate) mappings: u64,
    /// Files that no code could be read from, with the reason.
    pub(crate) files: Vec<String>,
}

/// The processes under test.
pub(crate) struct Processes {
    host: Host,
    roles: Vec<String>,
    by_pid: BTreeMap<u32, Process>,
    tasks: BTreeMap<u32, TaskId>,
    names: BTreeMap<u32, String>,
    modules: BTreeMap<FileKey, Option<ModuleId>>,
    vdso: Option<Option<ModuleId>>,
    /// A process that has each module mapped, the module's build id, and whether other users can write it, by module.
    origins: Vec<(u32, String, bool)>,
    /// Modules whose debug files were looked for.
    with_debug_files: usize,
    pub(crate) unreadable: Unreadable,
    /// Bytes read from files.
    pub(crate) bytes: u64,
    /// True if each task is one, or all of a name are.
    by_task: bool,
    foreign: MemoryBudget,
}

/// Single tasks whose stacks are kept apart, at most, beyond the end of a window.
pub(crate) const MOST_TASKS: usize = 4096;

/// What a profile calls a single task, as `stackcollapse-perf --tid` does.
pub(crate) fn single_task(name: &str, tid: u32) -> String {
    format!("{name}-{tid}")
}

/// What the kernel calls the code that it puts into every process.
const VDSO: &str = "[vdso]";
/// Larger files are not read: their code stays unknown.
const LARGEST_FILE: usize = 256 << 20;
/// A file that other users can write takes a part of its size of the memory for all of them, so that the bytes that are read have a bound.
const PART_OF_FILE: u64 = 8;
/// A process that maps more pieces of code one by one is read anew.
const MOST_AREAS: usize = 8192;
/// Ids of tasks that ended long ago are forgotten.
const MOST_REMEMBERED: usize = 65_536;

impl Processes {
    /// Those that are there, with their roles.
    pub(crate) fn new(host: &Host, members: &[(String, Stat)], foreign: &ForeignPrograms) -> Self {
        let mut roles: Vec<String> = members.iter().map(|(role, _)| role.clone()).collect();
        roles.sort();
        roles.dedup();
        let with_role = |(role, process): &(String, Stat)| {
            let role = roles.iter().position(|known| known == role);
            (process.pid, Process { role, ..Process::default() })
        };
        let by_pid = members.iter().map(with_role).collect();
        Processes {
            host: host.clone(),
            roles,
            by_pid,
            tasks: BTreeMap::new(),
            names: BTreeMap::new(),
            modules: BTreeMap::new(),
            vdso: None,
            origins: Vec::new(),
            with_debug_files: 0,
            unreadable: Unreadable::default(),
            bytes: 0,
            by_task: false,
            foreign: foreign.0.clone(),
        }
    }

    /// The same with each task by itself.
    pub(crate) fn by_task(self, by_task: bool) -> Self {
        Processes { by_task, ..self }
    }

    /// Forgets the stacks of a window, and tasks too where they are single ones and there are many.
    pub(crate) fn clear(&mut self, symbolizer: &mut Symbolizer) {
        if self.by_task && symbolizer.tasks() > MOST_TASKS {
            symbolizer.forget_tasks();
            self.tasks.clear();
        } else {
            symbolizer.clear();
        }
    }

    /// What could not be read.
    pub(crate) fn notes(&self) -> Vec<String> {
        let Unreadable { mappings, files } = &self.unreadable;
        let counts = [
            (*mappings, "processes ended before their mappings were read; their functions are unknown"),
            (files.len() as u64, "files could not be read whole; functions of them are unknown"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        counts.chain(files.iter().take(3).cloned()).collect()
    }

    /// Those that began before the kernel announced them. A role that was not there before is left out.
    pub(crate) fn add(&mut self, members: &[(String, Stat)]) {
        for (role, process) in members {
            let role = self.roles.iter().position(|known| known == role);
            self.by_pid.entry(process.pid).or_insert_with(|| Process { role, ..Process::default() });
        }
    }

    /// The roles; [`Processes::role`] gives places in this list.
    pub(crate) fn roles(&self) -> &[String] {
        &self.roles
    }

    /// The role of a process. One that was not announced is looked up by its parents once.
    pub(crate) fn role(&mut self, pid: u32) -> Option<usize> {
        if let Some(known) = self.by_pid.get(&pid) {
            return known.role;
        }
        let role = self.role_of_parents(pid);
        if self.by_pid.len() >= MOST_REMEMBERED {
            self.by_pid.retain(|_, process| process.role.is_some());
        }
        self.by_pid.insert(pid, Process { role, ..Process::default() });
        role
    }

    fn role_of_parents(&self, pid: u32) -> Option<usize> {
        let mut at = pid;
        for _ in 0..64 {
            at = stat(&self.host, at).ok()?.ppid;
            if let Some(known) = self.by_pid.get(&at) {
                return known.role;
            }
        }
        None
    }

    /// Takes note of a record that is no sample.
    pub(crate) fn note(&mut self, record: &Record<'_>) {
        match record {
            Record::Began { pid, tid, parent_pid, parent_tid } => {
                self.tasks.remove(tid);
                match self.names.get(parent_tid).cloned() {
                    Some(name) => self.names.insert(*tid, name),
                    None => self.names.remove(tid),
                };
                if pid != parent_pid {
                    // The child of a fork has what its parent has mapped.
                    let role = self.role(*parent_pid);
                    let parent = self.by_pid.get(parent_pid).filter(|_| role.is_some());
                    self.by_pid.insert(*pid, parent.cloned().unwrap_or_default());
                }
            }
            Record::Ended { tid, .. } => {
                self.tasks.remove(tid);
                self.names.remove(tid);
            }
            Record::Named { pid, tid, name, is_exec } => {
                self.tasks.remove(tid);
                if self.names.len() < MOST_REMEMBERED {
                    self.names.insert(*tid, name.clone());
                }
                if *is_exec && let Some(process) = self.by_pid.get_mut(pid) {
                    process.areas = Some(Vec::new());
                    process.space = None;
                }
            }
            Record::Mapped { pid, start, length, offset, file, path } => {
                let Some(process) = self.by_pid.get_mut(pid).filter(|process| process.role.is_some()) else { return };
                let Some(areas) = &mut process.areas else { return };
                let is_known = path == VDSO || (path.starts_with('/') && !path.starts_with("//"));
                let path = is_known.then(|| path.clone());
                let end = start.saturating_add(*length);
                areas.push(Area { start: *start, end, offset: *offset, file: *file, path });
                process.space = None;
                if areas.len() > MOST_AREAS {
                    process.areas = None;
                }
            }
            Record::Sample { .. } | Record::Lost(_) | Record::Throttled => {}
        }
    }

    /// A process has mapped other code: it is read again at the next request.
    pub(crate) fn forget_code(&mut self, pid: u32) {
        if let Some(process) = self.by_pid.get_mut(&pid) {
            process.areas = None;
            process.space = None;
        }
    }

    /// What profiles call a task.
    pub(crate) fn task(&mut self, pid: u32, tid: u32, symbolizer: &mut Symbolizer) -> TaskId {
        if let Some(known) = self.tasks.get(&tid) {
            return *known;
        }
        let name = self.names.get(&tid).cloned().or_else(|| {
            let name = self.host.read_text(&format!("/proc/{pid}/task/{tid}/comm")).ok()?;
            Some(name.trim_end_matches('\n').to_owned())
        });
        let role = self.role(pid).and_then(|role| self.roles.get(role)).map(String::as_str);
        let name = name.as_deref().unwrap_or("[unknown]");
        let task = match self.by_task {
            true => symbolizer.task(&single_task(name, tid), role),
            false => symbolizer.task(name, role),
        };
        if self.tasks.len() >= MOST_REMEMBERED {
            self.tasks.clear();
        }
        self.tasks.insert(tid, task);
        task
    }

    /// What a process has mapped; `None` when that is not known.
    pub(crate) fn space(&mut self, pid: u32, symbolizer: &mut Symbolizer) -> Option<SpaceId> {
        let process = self.by_pid.get(&pid)?;
        if let Some(known) = process.space {
            return known;
        }
        let areas = match &process.areas {
            Some(areas) => areas.clone(),
            None => match self.host.read_text(&format!("/proc/{pid}/maps")) {
                Ok(text) => {
                    self.bytes += text.len() as u64;
                    areas(&text)
                }
                Err(_) => {
                    self.unreadable.mappings += 1;
                    Vec::new()
                }
            },
        };
        let mappings: Vec<Mapping> = areas
            .iter()
            .map(|area| {
                let module = self.module(pid, area, symbolizer);
                Mapping { start: area.start, end: area.end, offset: area.offset, module }
            })
            .collect();
        let space = if mappings.is_empty() { None } else { symbolizer.add_space(&mappings) };
        let process = self.by_pid.get_mut(&pid)?;
        process.areas = Some(areas);
        process.space = Some(space);
        space
    }

    fn module(&mut self, pid: u32, area: &Area, symbolizer: &mut Symbolizer) -> Option<ModuleId> {
        let path = area.path.as_deref()?;
        if path == VDSO {
            return self.vdso(symbolizer);
        }
        if let Some(known) = self.modules.get(&area.file) {
            return *known;
        }
        let read = whole(&self.host, pid, area, &self.foreign);
        let is_foreign = read.as_ref().is_ok_and(|(_, found)| is_foreign(*found));
        let name = path.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or(path);
        let module = match read {
            Err(why) => Err(format!("{path}: {why}")),
            Ok((file, _)) => {
                self.bytes += file.len() as u64;
                Module::parse_within(name, &file, &budget(is_foreign, &self.foreign))
            }
        };
        if let Some(why) = self.left_out(is_foreign) {
            self.unreadable.files.push(format!("{path}: {why}"));
        }
        let module = match module {
            Ok(module) => {
                let build_id = module.build_id();
                let id = symbolizer.add_module(module);
                if id.is_some() {
                    self.origins.push((pid, build_id, is_foreign));
                }
                id
            }
            Err(why) => {
                self.unreadable.files.push(why);
                None
            }
        };
        self.modules.insert(area.file, module);
        module
    }

    /// The reason why functions of a file may be left out; of files that other users cannot write none are.
    fn left_out(&self, is_foreign: bool) -> Option<String> {
        self.foreign.exceeded().filter(|_| is_foreign).map(too_large)
    }

    /// The vDSO is the same in every process.
    fn vdso(&mut self, symbolizer: &mut Symbolizer) -> Option<ModuleId> {
        if self.vdso.is_none() {
            let module = self.host.vdso().ok().and_then(|file| Module::parse(VDSO, &file).ok());
            let id = module.and_then(|module| symbolizer.add_module(module));
            if id.is_some() {
                self.origins.push((0, String::new(), false));
            }
            self.vdso = Some(id);
        }
        self.vdso.flatten()
    }

    /// Reads the files that distributions keep symbols and debug information in, where they are installed.
    pub(crate) fn add_debug_files(&mut self, symbolizer: &mut Symbolizer) {
        let known = std::mem::replace(&mut self.with_debug_files, self.origins.len());
        for (module, (pid, build_id, is_foreign)) in symbolizer.modules_mut().iter_mut().zip(&self.origins).skip(known)
        {
            let Some((head, tail)) = build_id.split_at_checked(2).filter(|(_, tail)| !tail.is_empty()) else {
                continue;
            };
            let path = format!("/usr/lib/debug/.build-id/{head}/{tail}.debug");
            let places = [format!("/proc/{pid}/root{path}"), path.clone()];
            let read = places.iter().find_map(|place| self.host.read_head_bytes(place, LARGEST_FILE + 1).ok());
            let Some(file) = read else { continue };
            self.bytes += file.len() as u64;
            let added = match file.len() > LARGEST_FILE {
                true => Err(format!("{path}: {}", too_long())),
                false => module.add_debug_file_within(&file, &budget(*is_foreign, &self.foreign)),
            };
            let why = added.err().or_else(|| self.left_out(*is_foreign).map(|why| format!("{path}: {why}")));
            self.unreadable.files.extend(why);
        }
    }
}

fn too_long() -> String {
    format!("it has more than {}", shown_size(LARGEST_FILE as i64))
}

fn too_large(refused: TooLarge) -> String {
    format!("what is read of programs that other users can write {refused}")
}

/// The first bytes of the file that a process has mapped there, and which file that is. A process chooses what has its
/// paths: only a regular file is opened that is the mapped one, and did not change while it was read.
pub(crate) fn mapped(
    host: &Host,
    pid: u32,
    area: &Area,
    longest: usize,
) -> Result<(Vec<u8>, Option<FileIdentity>), String> {
    let path = area.name();
    // The mapped file itself, also when another one has its path by now, or in another mount namespace.
    let itself = format!("/proc/{pid}/map_files/{:x}-{:x}", area.start, area.end);
    let first = match host.read_identified(&itself, longest) {
        Ok(read) => return Ok(read),
        Err(e) => e,
    };
    if path.ends_with(" (deleted)") {
        return Err(first.to_string());
    }
    // Without CAP_CHECKPOINT_RESTORE only the path is left (fs/proc/base.c:proc_map_files_get_link, v6.18).
    let (bytes, found) =
        host.read_identified(&format!("/proc/{pid}/root{path}"), longest).map_err(|e| e.to_string())?;
    let is_it = |found: FileIdentity| {
        let device = (rustix::fs::major(found.device), rustix::fs::minor(found.device));
        let (major, minor, inode) = area.file;
        // Files of overlayfs and btrfs have other devices in maps than in stat(2), of which one has no major number.
        found.inode == inode && (device == (major, minor) || major == 0 || device.0 == 0)
    };
    if found.is_none_or(is_it) { Ok((bytes, found)) } else { Err("another file has its path by now".to_owned()) }
}

/// True if other users can write a file; holdup itself, which runs, does not count.
pub(crate) fn is_foreign(found: Option<FileIdentity>) -> bool {
    static OWN: LazyLock<Option<FileIdentity>> = LazyLock::new(|| Host::real().identity("/proc/self/exe").ok());
    found.is_some_and(|found| found.is_foreign() && Some(found) != *OWN)
}

/// The memory for what is made of a file: `foreign` if other users can write it.
pub(crate) fn budget(is_foreign: bool, foreign: &MemoryBudget) -> MemoryBudget {
    if is_foreign { foreign.clone() } else { MemoryBudget::for_trusted_program() }
}

/// All of a mapped file, and which file that is.
pub(crate) fn whole(
    host: &Host,
    pid: u32,
    area: &Area,
    foreign: &MemoryBudget,
) -> Result<(Vec<u8>, Option<FileIdentity>), String> {
    let (bytes, found) = mapped(host, pid, area, LARGEST_FILE + 1)?;
    if bytes.len() > LARGEST_FILE {
        return Err(too_long());
    }
    if is_foreign(found) {
        foreign.take(bytes.len() as u64 / PART_OF_FILE).map_err(too_large)?;
    }
    Ok((bytes, found))
}

/// How many stacks of a role were followed.
pub(crate) fn followed_note(role: &str, whole: u64, truncated: u64) -> String {
    let share = 100.0 * whole as f64 / (whole + truncated).max(1) as f64;
    format!("{role}: {whole} stacks followed to their outermost function ({share:.1} %), {truncated} truncated")
}

/// The functions of the kernel; with none of them, a sentence that says why.
pub(crate) fn kernel_symbols(host: &Host) -> (KernelSymbols, Option<String>) {
    let (symbols, why) = match host.read_text("/proc/kallsyms") {
        Ok(text) => (KernelSymbols::parse(&text), "their addresses are hidden (kernel.kptr_restrict)".to_owned()),
        Err(e) => (KernelSymbols::default(), e.to_string()),
    };
    let nameless = symbols.is_empty().then(|| format!("functions of the kernel have no names: {why}"));
    (symbols, nameless)
}

/// The code in the text of /proc/PID/maps (fs/proc/task_mmu.c:show_map_vma): `start-end perms offset dev inode path`.
pub(crate) fn areas(maps: &str) -> Vec<Area> {
    maps.lines().filter_map(area).collect()
}

fn area(line: &str) -> Option<Area> {
    let mut parts = line.splitn(6, ' ');
    let (start, end) = parts.next()?.split_once('-')?;
    let permissions = parts.next()?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = hex(parts.next()?)?;
    let (major, minor) = parts.next()?.split_once(':')?;
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    let (major, minor, inode) = (number(major)?, number(minor)?, parts.next()?.parse().ok()?);
    let path = parts.next().map(str::trim_start).filter(|path| *path == VDSO || (path.starts_with('/') && inode != 0));
    // The kernel writes a line feed in a path as \012.
    let path = path.map(|path| path.replace("\\012", "\n"));
    permissions.contains('x').then_some(Area {
        start: hex(start)?,
        end: hex(end)?,
        offset,
        file: (major, minor, inode),
        path,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    const MAPS: &str = "55d0a0000000-55d0a00e0000 r--p 00000000 fe:00 1234    /usr/lib/postgresql/15/bin/postgres\n\
                        55d0a00e0000-55d0a0500000 r-xp 000e0000 fe:00 1234    /usr/lib/postgresql/15/bin/postgres\n\
                        7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n\
                        7f0000100000-7f0000200000 r-xp 00001000 fe:00 99      /tmp/a file (deleted)\n\
                        7ffd0be00000-7ffd0be02000 r-xp 00000000 00:00 0       [vdso]\ngarbage\n1-2\n";

    #[test]
    fn only_code_is_an_area_and_only_files_have_paths() {
        let areas = areas(MAPS);
        let paths: Vec<_> = areas.iter().map(|area| area.path.as_deref()).collect();
        assert_eq!(
            paths,
            [Some("/usr/lib/postgresql/15/bin/postgres"), None, Some("/tmp/a file (deleted)"), Some("[vdso]")]
        );
        assert_eq!((areas[0].start, areas[0].offset, areas[0].file), (0x55d0_a00e_0000, 0xe0000, (0xfe, 0, 1234)));
    }

    #[test]
    fn only_the_mapped_file_itself_is_read() {
        use rustix::fs::{CWD, FileType, mknodat};
        use std::os::unix::fs::MetadataExt as _;
        let (host, me) = (Host::real(), std::process::id());
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it runs");
        let program = areas(&maps).into_iter().find(|area| area.path.is_some()).expect("a program");
        let (head, _) = mapped(&host, me, &program, 4).expect("it is mapped");
        assert_eq!(head, b"\x7fELF");
        // What a hostile process puts in the place of a file that it has mapped; nothing is mapped at 0.
        let top = tempfile::tempdir().expect("a folder");
        let path = |name: &str| top.path().join(name);
        let at = |name: &str| {
            let found = std::fs::metadata(path(name)).expect("it is there");
            let device = found.dev();
            let file = (rustix::fs::major(device), rustix::fs::minor(device), found.ino());
            Area { start: 0, end: 4096, offset: 0, file, path: path(name).to_str().map(str::to_owned) }
        };
        std::fs::write(path("mapped"), "1234").expect("writable");
        std::fs::write(path("other"), "secret").expect("writable");
        mknodat(CWD, path("fifo"), FileType::Fifo, 0o600.into(), 0).expect("writable");
        let area = at("mapped");
        assert_eq!(mapped(&host, me, &area, 3).map(|(bytes, _)| bytes).as_deref(), Ok(&b"123"[..]));
        let why = |area: &Area| mapped(&host, me, area, 100).expect_err("it is not the mapped one");
        assert!(why(&at("fifo")).ends_with("it is a FIFO, not a regular file"), "{}", why(&at("fifo")));
        std::fs::rename(path("other"), path("mapped")).expect("ours");
        assert_eq!(why(&area), "another file has its path by now");
        std::fs::remove_file(path("mapped")).expect("ours");
        std::os::unix::fs::symlink("/dev/zero", path("mapped")).expect("ours");
        assert!(why(&area).ends_with("it is a character device, not a regular file"), "{}", why(&area));
    }

    #[test]
    fn what_is_left_out_of_a_program_is_said() {
        let top = tempfile::tempdir().expect("a folder");
        let mut children = crate::kernel::analysed::tests::sleeping(top.path(), 1, Some((72 << 20) - 8192));
        let (pid, budget) = (children[0].id(), MemoryBudget::new(9 << 20));
        let mut processes = Processes::new(&Host::real(), &[member(pid)], &ForeignPrograms(budget));
        assert!(processes.space(pid, &mut Symbolizer::new()).is_some());
        let said = &processes.unreadable.files;
        let why = "/sleep: what is read of programs that other users can write takes more than 9MB of memory";
        assert!(said.len() == 1 && said[0].ends_with(why), "{said:?}");
        children.iter_mut().for_each(|child| child.kill().and_then(|()| child.wait()).map(drop).expect("it ran"));
    }

    fn member(pid: u32) -> (String, Stat) {
        let line = format!("{pid} (postgres) S 1 {pid} {pid} 0 -1 0 {}", "0 ".repeat(43));
        ("server".to_owned(), Stat::parse(&line).expect("a line"))
    }

    #[test]
    fn children_inherit_the_role_and_programs_that_are_begun_have_mappings_of_their_own() {
        let fs = MemoryFs::of(&[("/proc/7/maps", MAPS)]);
        // Any program does; this one is there.
        let program = std::fs::read("/proc/self/exe").expect("it runs");
        fs.put("/proc/7/map_files/55d0a00e0000-55d0a0500000", &program);
        fs.put("/proc/8/root/bin/sh", &program);
        let mut symbolizer = Symbolizer::new();
        let mut processes = Processes::new(&fs.host(), &[member(7)], &ForeignPrograms::default());
        let server = processes.space(7, &mut symbolizer);
        assert!(server.is_some());
        let unreadable = &processes.unreadable.files;
        assert_eq!(unreadable.len(), 1, "{unreadable:?}");
        assert!(unreadable[0].starts_with("/tmp/a file (deleted): cannot read "), "{unreadable:?}");
        processes.note(&Record::Began { pid: 8, tid: 8, parent_pid: 7, parent_tid: 7 });
        assert_eq!((processes.role(8), processes.space(8, &mut symbolizer)), (Some(0), server));
        processes.note(&Record::Named { pid: 8, tid: 8, name: "sh".to_owned(), is_exec: true });
        assert_eq!(processes.space(8, &mut symbolizer), None, "nothing is mapped yet");
        let (file, path) = ((8, 1, 5), "/bin/sh".to_owned());
        processes.note(&Record::Mapped { pid: 8, start: 0x1000, length: 0x1000, offset: 0, file, path });
        let shell = processes.space(8, &mut symbolizer);
        assert!(shell.is_some() && shell != server);
        assert_eq!(processes.role(9), None, "it was not announced");
        processes.note(&Record::Began { pid: 10, tid: 10, parent_pid: 9, parent_tid: 9 });
        assert_eq!(processes.role(10), None);
    }
}
