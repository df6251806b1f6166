//! Which programs are under test, what files they have in memory, and the section maps of those.

use crate::arch;
use crate::kernel::cache::{MapCache, file_name};
use crate::kernel::layout::ROLES;
use crate::kernel::table::Images;
use crate::processes::{self, Area, FileKey, areas, is_foreign, mapped};
use crate::reading::{Meter, Reader};
use crate::tasks;
use crate::{CollectContext, ForeignPrograms};
use holdup_files::read_input;
use holdup_host::process::Stat;
use holdup_host::{FileIdentity, Host};
use holdup_model::sections::Machine;
use holdup_model::{MemoryBudget, SectionMap};
use holdup_sections::cached::CachedAnalysis;
use holdup_sections::lookup::Loaded;
use holdup_sections::{Callees, NamedFunction, Wanted};
use object::elf::FileHeader64;
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Architecture, Endianness, Object as _, ObjectSegment as _, ObjectSymbol as _, SegmentFlags};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Larger files are not analysed.
const LARGEST_FILE: usize = 256 << 20;

/// What is known of a file, kept for the next window of the same process of holdup.
#[derive(Clone)]
struct Analysis {
    map: Arc<SectionMap>,
    callees: Arc<Callees>,
    /// Its code: address, place in the file, size.
    segments: Arc<Vec<(u64, u64, u64)>>,
}

/// Files that were analysed already, by build id.
static BY_BUILD_ID: Mutex<BTreeMap<(String, Question), Result<Analysis, String>>> = Mutex::new(BTreeMap::new());

/// And by what a file is, which takes no reading.
static BY_IDENTITY: Mutex<BTreeMap<(FileIdentity, Question), Result<Analysis, String>>> = Mutex::new(BTreeMap::new());

/// So much of a file is read for its build id, bytes.
const HEAD: usize = 64 << 10;

/// The tables of all programs under test.
pub(crate) fn images(context: &CollectContext) -> Result<Images, String> {
    let mut meter = Meter::default();
    let mut images = Images::default();
    let found = meter.spend(&context.host, |reader| {
        let all = tasks::of_host(reader)?;
        let members = tasks::members(&all, &context.subjects)?;
        Ok::<_, String>(members.into_iter().map(|(_, stat)| stat).collect::<Vec<Stat>>())
    })?;
    let mut programs: BTreeMap<Vec<Area>, u32> = BTreeMap::new();
    let mut of_pid: BTreeMap<u32, (String, u32)> = BTreeMap::new();
    for stat in in_order_of_birth(found) {
        let link = format!("/proc/{}/exe", stat.pid);
        let Ok(exe) = context.host.read_link(&link) else { continue };
        // A child that runs its parent's program was forked from it, and has it at the same places.
        if let Some((_, number)) = of_pid.get(&stat.ppid).filter(|(of_parent, _)| *of_parent == exe) {
            let number = *number;
            images.assign(stat.pid, number);
            of_pid.insert(stat.pid, (exe, number));
            continue;
        }
        let Ok(files) = meter.spend(&context.host, |reader| files(reader, stat.pid)) else { continue };
        let number = match programs.get(&files) {
            Some(number) => *number,
            None => {
                let number = add(context, stat.pid, &exe, &files, &mut images);
                programs.insert(files, number);
                number
            }
        };
        images.assign(stat.pid, number);
        of_pid.insert(stat.pid, (exe, number));
    }
    Ok(images)
}

fn in_order_of_birth(mut found: Vec<Stat>) -> Vec<Stat> {
    found.sort_by_key(|stat| (stat.start_time, stat.pid));
    found
}

/// The files whose code a process has in memory.
fn files(reader: &mut Reader<'_>, pid: u32) -> Result<Vec<Area>, String> {
    let text = reader.text(&format!("/proc/{pid}/maps"))?;
    let mut files: Vec<Area> = Vec::new();
    for area in areas(&text) {
        let is_file = area.path.as_deref().is_some_and(|p| p.starts_with('/') && !p.starts_with("//"));
        if is_file && !files.iter().any(|f| f.path == area.path) {
            files.push(area);
        }
    }
    Ok(files)
}

/// Adds the table of a program: the sections of its files, and what runs inside them of the libraries that they call.
fn add(context: &CollectContext, pid: u32, exe: &str, files: &[Area], images: &mut Images) -> u32 {
    let mut known: Vec<(Analysis, u64)> = Vec::new();
    let mut wanted: Vec<String> = Vec::new();
    for file in files {
        let is_program = file.name() == exe;
        let functions: Vec<String> = if is_program { context.options.sections.clone() } else { wanted.clone() };
        if !is_program && wanted.is_empty() {
            continue;
        }
        match analysed(context, pid, file, (is_program, functions)) {
            Ok(found) => {
                wanted.extend(found.map.imports.iter().chain(&found.callees.imports).cloned());
                if let Some(bias) = found.bias(file) {
                    known.push((found, bias));
                }
            }
            Err(why) => images.note(why),
        }
        // Without sections in the program nothing of its libraries runs inside one.
        if is_program && known.last().is_none_or(|(found, _)| found.map.sections.is_empty()) {
            break;
        }
    }
    let loaded: Vec<Loaded<'_>> = known
        .iter()
        .map(|(found, bias)| Loaded { map: Some(&found.map), callees: &found.callees.ranges, bias: *bias })
        .collect();
    for (found, _) in &known {
        for note in found.map.notes.iter().take(MOST_NOTES) {
            images.note(note.clone());
        }
    }
    images.add(&loaded)
}

/// Notes of a file; a large server has many locks that cannot be analysed.
const MOST_NOTES: usize = 5;

impl Analysis {
    fn of(kept: CachedAnalysis) -> Self {
        let CachedAnalysis { segments, map, callees, .. } = kept;
        Analysis { map: Arc::new(map), callees: Arc::new(callees), segments: Arc::new(segments) }
    }

    fn to_cached(&self, build_id: &str, (is_program, functions): &Question) -> CachedAnalysis {
        CachedAnalysis {
            build_id: build_id.to_owned(),
            is_program: *is_program,
            functions: functions.clone(),
            segments: self.segments.to_vec(),
            map: SectionMap::clone(&self.map),
            callees: Callees::clone(&self.callees),
        }
    }

    /// The kernel maps whole pages, so the begin of a segment is that of its page (fs/binfmt_elf.c:elf_load).
    fn bias(&self, file: &Area) -> Option<u64> {
        let page_bytes = rustix::param::page_size() as u64;
        let page = |at: u64| at & !(page_bytes - 1);
        let has = |(_, offset, size): &&(u64, u64, u64)| (page(*offset)..offset + size).contains(&file.offset);
        let (address, offset, _) = self.segments.iter().find(has)?;
        Some(file.start.wrapping_sub(page(*address).wrapping_add(file.offset - page(*offset))))
    }
}

/// Where variables lie in the programs of each role, by name; 0 where one is not exported, or they are not at the same places
/// in all programs of the role that have any.
pub(crate) fn variables<const N: usize>(
    context: &CollectContext,
    roles: &[String],
    names: [&str; N],
) -> [[u64; ROLES]; N] {
    let (mut places, mut known) = ([[0; ROLES]; N], ProgramCache::new());
    for (number, role) in roles.iter().enumerate() {
        let of_role = context.subjects.iter().filter(|subject| subject.role == *role);
        let mut found: Vec<[u64; N]> =
            of_role.map(|s| variables_of(context, s.pid, names, &mut known).unwrap_or([0; N])).collect();
        // What runs beside a server, such as its load, has none of them.
        found.retain(|places| places.iter().any(|at| *at != 0));
        found.dedup();
        if let [only] = found.as_slice() {
            places.iter_mut().zip(only).for_each(|(of_name, at)| of_name[number] = *at);
        }
    }
    places
}

fn variables_of<const N: usize>(
    context: &CollectContext,
    pid: u32,
    names: [&str; N],
    known: &mut ProgramCache<(Analysis, [Option<u64>; N])>,
) -> Option<[u64; N]> {
    let look = |_: &Area, bytes: &[u8]| {
        let elf = object::File::parse(bytes).map_err(|e| e.to_string())?;
        let place = |name: &str| {
            let symbol = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok(name) && symbol.is_definition());
            symbol.map(|symbol| symbol.address())
        };
        let segments = Arc::new(segments(&elf));
        Ok((Analysis { map: Arc::default(), callees: Arc::default(), segments }, names.map(place)))
    };
    let (file, (program, addresses)) = look_in_program(context, pid, known, look).ok()?;
    let bias = program.bias(&file)?;
    Some(addresses.map(|address| address.map_or(0, |address| bias.wrapping_add(address))))
}

/// Results for programs, by their files: processes of a server have the same one.
pub(crate) type ProgramCache<T> = BTreeMap<(FileKey, Option<String>), Result<T, String>>;

/// Where the program of a process is mapped, and what `look` finds in its bytes.
pub(crate) fn look_in_program<T: Clone>(
    context: &CollectContext,
    pid: u32,
    known: &mut ProgramCache<T>,
    look: impl FnOnce(&Area, &[u8]) -> Result<T, String>,
) -> Result<(Area, T), String> {
    let host = &context.host;
    let exe = host.read_link(&format!("/proc/{pid}/exe")).map_err(|e| e.to_string())?;
    let files = Meter::default().spend(host, |reader| files(reader, pid))?;
    let file = files.into_iter().find(|file| file.name() == exe).ok_or_else(|| format!("{exe} is not mapped"))?;
    let found = known.entry((file.file, file.path.clone())).or_insert_with(|| {
        let (bytes, _) = whole(host, pid, &file, &context.foreign)?;
        look(&file, &bytes)
    });
    found.clone().map(|found| (file, found))
}

/// The code of a file: address, place in the file, size.
fn segments(elf: &object::File<'_>) -> Vec<(u64, u64, u64)> {
    // Of the executable ones: two segments may share a page of the file.
    let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0);
    let code = elf.segments().filter(|s| is_code(s.flags()));
    code.map(|s| (s.address(), s.file_range().0, s.file_range().1)).collect()
}

/// Bytes of a mapped file, and which file that is.
type Read = (Vec<u8>, Option<FileIdentity>);
fn whole(host: &Host, pid: u32, file: &Area, foreign: &ForeignPrograms) -> Result<Read, String> {
    processes::whole(host, pid, file, &foreign.0).map_err(|why| format!("{}: {why}", file.name()))
}
fn bytes(host: &Host, pid: u32, file: &Area, longest: usize) -> Result<Read, String> {
    mapped(host, pid, file, longest).map_err(|why| format!("{}: {why}", file.name()))
}

/// What is asked of a file: whether it is the program, and the functions that are named.
type Question = (bool, Vec<String>);

/// The analysis of a file, made once for each build: asked for by what the file is, by its build id, of the disk, made.
fn analysed(context: &CollectContext, pid: u32, file: &Area, question: Question) -> Result<Analysis, String> {
    let host = &context.host;
    let place = format!("/proc/{pid}/map_files/{:x}-{:x}", file.start, file.end);
    let identity = host.identity(&place).ok();
    let known = identity.and_then(|identity| lock(&BY_IDENTITY).get(&(identity, question.clone())).cloned());
    if let Some(known) = known {
        return known;
    }
    let (read, result) = match bytes(host, pid, file, HEAD) {
        Ok(head) => (head.1, by_build_id(context, pid, file, &head, &question)),
        Err(why) => (None, Err(why)),
    };
    // Of what was read: the process may have mapped another file there since. The next window has memory for others again.
    if let Some(read) = read.filter(|_| context.foreign.0.exceeded().is_none()) {
        lock(&BY_IDENTITY).insert((read, question), result.clone());
    }
    result
}

fn by_build_id(
    context: &CollectContext,
    pid: u32,
    file: &Area,
    (head, found): &Read,
    question: &Question,
) -> Result<Analysis, String> {
    let of_file = |why: String| format!("{}: {why}", file.name());
    let whole = || match whole(&context.host, pid, file, &context.foreign)? {
        // Another file may have its place by now.
        (_, now) if now != *found => Err(of_file("it changed while it was read".to_owned())),
        (whole, _) => Ok(whole),
    };
    // Who writes a program also writes its build id, and could take that of another user's program.
    let is_foreign = is_foreign(*found);
    let budget = processes::budget(is_foreign, &context.foreign.0);
    let Some(build_id) = build_id(head).filter(|_| !is_foreign) else {
        return analysed_here(&whole()?, question, &budget).map_err(of_file);
    };
    let key = (build_id, question.clone());
    let known = lock(&BY_BUILD_ID).get(&key).cloned();
    if let Some(known) = known {
        return known;
    }
    let build_id = &key.0;
    let maps = context.maps.as_deref().map(MapCache);
    let kept = maps.as_ref().and_then(|maps| maps.get(build_id, question.0, &question.1));
    let result = match kept {
        Some(kept) => Ok(Analysis::of(kept)),
        None => {
            let whole = whole()?;
            if self::build_id(&whole).as_ref() != Some(build_id) {
                return Err(of_file("it changed while it was read".to_owned()));
            }
            let result = analysed_here(&whole, question, &budget).map_err(of_file);
            if let (Ok(known), Some(maps)) = (&result, &maps) {
                maps.put(&known.to_cached(build_id, question));
            }
            result
        }
    };
    lock(&BY_BUILD_ID).insert(key, result.clone());
    result
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the analysis of a program in a folder, and gives the file's name there: a guest that finds it in its own does not
/// analyse the program, which takes it minutes where it is emulated. `None` for a program of which nothing is kept. `begins` is
/// called where it takes seconds, because the program is not known yet.
///
/// # Errors
/// When the program cannot be read or analysed.
pub fn keep_map(
    host: &Host,
    program: &Path,
    sections: &[String],
    maps: &Path,
    begins: &mut dyn FnMut(),
) -> Result<Option<String>, String> {
    let bytes = read_input(program, LARGEST_FILE as u64).map_err(|e| e.to_string())?;
    let identity = host.identity(&program.to_string_lossy()).map_err(|e| e.to_string())?;
    let Some(build_id) = build_id(&bytes).filter(|_| !identity.is_foreign()) else { return Ok(None) };
    let question: Question = (true, sections.to_vec());
    let maps = MapCache(maps);
    if maps.get(&build_id, true, sections).is_none() {
        begins();
        let elf = object::File::parse(bytes.as_slice()).map_err(|e| e.to_string())?;
        maps.put(
            &analyse(&elf, &bytes, &question, &MemoryBudget::for_trusted_program())?.to_cached(&build_id, &question),
        );
    }
    Ok(maps.get(&build_id, true, sections).and_then(|_| file_name(&build_id, true, sections)))
}

/// The build id in a file's notes, which linkers put behind its program headers, hexadecimal.
fn build_id(head: &[u8]) -> Option<String> {
    let elf = FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = elf.endian().ok()?;
    for segment in elf.program_headers(endian, head).ok()? {
        let Ok(Some(mut notes)) = segment.notes(endian, head) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == object::elf::ELF_NOTE_GNU && note.n_type(endian) == object::elf::NT_GNU_BUILD_ID {
                return Some(note.desc().iter().map(|b| format!("{b:02x}")).collect());
            }
        }
    }
    None
}

/// The analysis of a program that runs here.
fn analysed_here(bytes: &[u8], question: &Question, budget: &MemoryBudget) -> Result<Analysis, String> {
    let elf = object::File::parse(bytes).map_err(|e| e.to_string())?;
    let here = match arch::PROGRAMS.map(|known| known.machine) {
        Some(Machine::X86_64) => Architecture::X86_64,
        Some(Machine::Aarch64) => Architecture::Aarch64,
        None => Architecture::Unknown,
    };
    if elf.architecture() != here {
        return Err(format!("it is for {:?}, and the BPF programs read the registers of {here:?}", elf.architecture()));
    }
    analyse(&elf, bytes, question, budget)
}

fn analyse(
    elf: &object::File<'_>,
    bytes: &[u8],
    (is_program, functions): &Question,
    budget: &MemoryBudget,
) -> Result<Analysis, String> {
    let segments = segments(elf);
    let (map, callees) = if *is_program {
        let named = functions.iter().map(|name| NamedFunction { name: name.clone(), lock: None }).collect();
        let wanted = Wanted { shipped: true, functions: named };
        (holdup_sections::map_within(bytes, &wanted, budget).map_err(|p| p.why)?, Callees::default())
    } else {
        let names: Vec<&str> = functions.iter().map(String::as_str).collect();
        holdup_sections::library_within(bytes, &names, budget).map_err(|p| p.why)?
    };
    Ok(Analysis { map: Arc::new(map), callees: Arc::new(callees), segments: Arc::new(segments) })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;
    use std::process::{Child, Command};

    #[test]
    fn a_segment_that_begins_inside_a_page_is_mapped_from_that_page_on() {
        let known = Analysis {
            map: Arc::default(),
            callees: Arc::default(),
            segments: Arc::new(vec![(0x2f_5c80, 0x2f_4c80, 0x10_0000)]),
        };
        let file = Area { path: None, start: 0x5555_0000_0000, end: 0, offset: 0x2f_4000, file: (0, 0, 0) };
        assert_eq!(known.bias(&file), Some(0x5555_0000_0000 - 0x2f_5000));
        assert_eq!(known.bias(&Area { offset: 0x1000, ..file }), None);
    }

    #[test]
    fn a_file_for_another_architecture_is_refused() {
        let mut bytes = std::fs::read("/bin/cat").expect("cat is there");
        let question = (true, Vec::new());
        assert!(analysed_here(&bytes, &question, &MemoryBudget::default()).is_ok());
        // The machine in the head of the file (elf(5)): EM_X86_64 or EM_AARCH64.
        bytes[18] = if bytes[18] == 183 { 62 } else { 183 };
        let why = analysed_here(&bytes, &question, &MemoryBudget::default()).err().expect("its registers are others");
        assert!(why.contains("Aarch64") && why.contains("X86_64"), "{why}");
    }

    /// Processes of a program in this folder that other users can write.
    pub(crate) fn sleeping(folder: &Path, count: usize, length: Option<u64>) -> Vec<Child> {
        let program = folder.join("sleep");
        std::fs::copy("/bin/sleep", &program).expect("it is there");
        std::fs::set_permissions(&program, Permissions::from_mode(0o777)).expect("ours");
        if let Some(length) = length {
            std::fs::OpenOptions::new().write(true).open(&program).and_then(|f| f.set_len(length)).expect("ours");
        }
        // It is busy while a process that another test begins has the file open (ETXTBSY).
        let begin = || (0..1_000).find_map(|_| Command::new(&program).arg("600").spawn().ok()).expect("it runs");
        let children: Vec<Child> = (0..count).map(|_| begin()).collect();
        // The kernel lets the parent of a vfork go on before it maps the new program (fs/exec.c, exec_mmap).
        let maps = |child: &Child| std::fs::read_to_string(format!("/proc/{}/maps", child.id())).expect("it runs");
        let is_mapped = |child| maps(child).lines().any(|line| line.contains("r-xp") && line.ends_with("/sleep"));
        while !children.iter().all(is_mapped) {
            std::thread::yield_now();
        }
        children
    }

    #[test]
    fn a_program_of_many_processes_is_read_once_and_a_refusal_holds_for_its_window() {
        use crate::Subject;
        let top = tempfile::tempdir().expect("a folder");
        let mut children = sleeping(top.path(), 4, None);
        let part = std::fs::metadata(top.path().join("sleep")).expect("there").len() / 8;
        let subject = |child: &std::process::Child| Subject { role: "a".to_owned(), pid: child.id() };
        let subjects: Vec<Subject> = children.iter().map(subject).collect();
        let with = |bytes| {
            let (subjects, foreign) = (subjects.clone(), ForeignPrograms(MemoryBudget::new(bytes)));
            CollectContext { host: Host::real(), subjects, foreign, ..CollectContext::default() }
        };
        let window = with(3 * part);
        variables(&window, &["a".to_owned()], ["environ"]);
        assert_eq!(window.foreign.0.left(), 2 * part);
        let pid = children[0].id();
        let (file, ()) = look_in_program(&window, pid, &mut ProgramCache::new(), |_, _| Ok(())).expect("it runs");
        let question = (true, Vec::new());
        let why = analysed(&with(1), pid, &file, question.clone()).err().expect("is refused");
        assert!(why.contains("takes more than"), "{why}");
        assert!(analysed(&with(64 << 20), pid, &file, question).is_ok());
        children.iter_mut().for_each(|child| child.kill().and_then(|()| child.wait()).map(drop).expect("it ran"));
    }

    /// Also that of a program for another architecture, and never that of one that others can write.
    #[test]
    fn a_map_is_kept_for_a_guest() {
        use std::fs::{Permissions, set_permissions};
        use std::os::unix::fs::PermissionsExt as _;
        let top = tempfile::tempdir().expect("a folder");
        let (program, maps) = (top.path().join("program"), top.path().join("maps"));
        let mut bytes = std::fs::read("/bin/cat").expect("cat is there");
        let keep = |bytes: &[u8], mode| {
            std::fs::write(&program, bytes).expect("ours");
            set_permissions(&program, Permissions::from_mode(mode)).expect("ours");
            keep_map(&Host::real(), &program, &["f".to_owned()], &maps, &mut || {}).expect("it is an ELF file")
        };
        assert_eq!(keep(&bytes, 0o757), None);
        let name = keep(&bytes, 0o755).expect("it has a build id");
        assert!(maps.join(&name).is_file());
        assert_eq!(keep(&bytes, 0o755), Some(name.clone()), "it is there already");
        std::fs::remove_file(maps.join(&name)).expect("ours");
        bytes[18] = if bytes[18] == 183 { 62 } else { 183 };
        assert_eq!(keep(&bytes, 0o755), Some(name));
    }

    /// A program of a watched user may have the build id of a server: its analysis is not that of the server.
    #[test]
    fn of_a_program_that_another_user_can_write_nothing_is_kept() {
        use std::fs::{Permissions, set_permissions};
        use std::io::{Read as _, Write as _};
        use std::os::unix::fs::PermissionsExt as _;
        use std::process::{Command, Stdio};
        let top = tempfile::tempdir().expect("a folder");
        let (program, maps) = (top.path().join("program"), top.path().join("maps"));
        std::fs::copy("/bin/cat", &program).expect("cat is there");
        let mut command = Command::new(&program);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a program");
        // A program that answers is mapped; execve(2) lets the parent go on before.
        process.stdin.as_mut().expect("a pipe").write_all(b".").expect("it reads");
        process.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it writes");
        let pid = process.id();
        let context = CollectContext { host: Host::real(), maps: Some(maps.clone()), ..CollectContext::default() };
        let look = |mode: u32| {
            set_permissions(&program, Permissions::from_mode(mode)).expect("ours");
            let all = Meter::default().spend(&context.host, |reader| files(reader, pid)).expect("it runs");
            let file = all.iter().find(|file| Some(file.name()) == program.to_str()).expect("it is mapped").clone();
            // A question that no other test asks.
            let question = (false, vec!["no_such_function".to_owned()]);
            analysed(&context, pid, &file, question.clone()).expect("it is an ELF file");
            let is_known = lock(&BY_BUILD_ID).keys().any(|(_, asked)| *asked == question);
            (is_known, std::fs::read_dir(&maps).map_or(0, Iterator::count))
        };
        let found = [0o757, 0o775, 0o755].map(look);
        process.kill().expect("it is ours");
        process.wait().expect("it is ours");
        assert_eq!(found, [(false, 0), (false, 0), (true, 1)]);
    }
}
