//! Which programs are under test, what files they have in memory, and the section maps of those.

use crate::CollectContext;
use crate::kernel::layout::ROLES;
use crate::kernel::table::Images;
use crate::processes::{Area, areas};
use crate::reading::{Meter, Reader};
use crate::tasks;
use holdup_host::Host;
use holdup_host::process::Stat;
use holdup_model::SectionMap;
use holdup_sections::lookup::Loaded;
use holdup_sections::{Callees, NamedFunction, Wanted};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SegmentFlags};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Larger files are not analysed.
const LARGEST_FILE: usize = 256 << 20;

/// A file in memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Mapped {
    path: String,
    /// The first mapping of its code.
    start: u64,
    end: u64,
    offset: u64,
}

/// What is known of a file, kept for the next window of the same process of holdup.
#[derive(Clone)]
struct Known {
    map: Arc<SectionMap>,
    callees: Arc<Callees>,
    /// Its code: address, place in the file, size.
    segments: Arc<Vec<(u64, u64, u64)>>,
}

/// Analyses by build id and the functions asked for.
type Analyses = BTreeMap<(Vec<u8>, Vec<String>), Result<Known, String>>;

/// Files that were analysed already.
static ANALYSED: Mutex<Analyses> = Mutex::new(BTreeMap::new());

/// The tables of all programs under test.
pub(crate) fn images(context: &CollectContext) -> Result<Images, String> {
    let mut meter = Meter::default();
    let mut images = Images::default();
    let found = meter.spend(&context.host, |reader| {
        let all = tasks::of_host(reader)?;
        let members = tasks::members(&all, &context.subjects)?;
        Ok::<_, String>(members.into_iter().map(|(_, stat)| stat).collect::<Vec<Stat>>())
    })?;
    let mut programs: BTreeMap<Vec<Mapped>, u32> = BTreeMap::new();
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
fn files(reader: &mut Reader<'_>, pid: u32) -> Result<Vec<Mapped>, String> {
    let text = reader.text(&format!("/proc/{pid}/maps"))?;
    let mut files: Vec<Mapped> = Vec::new();
    for Area { start, end, offset, path, .. } in areas(&text) {
        let Some(path) = path.filter(|p| p.starts_with('/') && !p.starts_with("//")) else { continue };
        if !files.iter().any(|f| f.path == path) {
            files.push(Mapped { path, start, end, offset });
        }
    }
    Ok(files)
}

/// Adds the table of a program: the sections of its files, and what runs inside them of the libraries that they call.
fn add(context: &CollectContext, pid: u32, exe: &str, files: &[Mapped], images: &mut Images) -> u32 {
    let mut known: Vec<(Known, u64)> = Vec::new();
    let mut wanted: Vec<String> = Vec::new();
    for file in files {
        let is_program = file.path == exe;
        let functions: Vec<String> = if is_program { context.options.sections.clone() } else { wanted.clone() };
        if !is_program && wanted.is_empty() {
            continue;
        }
        match analysed(&context.host, pid, file, is_program, functions) {
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

/// What could not be analysed is told up to here; a large server has many locks that are taken in ways of their own.
const MOST_NOTES: usize = 5;

impl Known {
    /// The kernel maps whole pages, so the begin of a segment is that of its page (fs/binfmt_elf.c:elf_load).
    fn bias(&self, file: &Mapped) -> Option<u64> {
        let page = |at: u64| at & !(PAGE - 1);
        let has = |(_, offset, size): &&(u64, u64, u64)| (page(*offset)..offset + size).contains(&file.offset);
        let (address, offset, _) = self.segments.iter().find(has)?;
        Some(file.start.wrapping_sub(page(*address).wrapping_add(file.offset - page(*offset))))
    }
}

/// The page of x86-64.
const PAGE: u64 = 4096;

/// Where a variable of this name lies in the programs of each role; 0 where none is exported, or not at the same place in
/// all programs of the role.
pub(crate) fn variable(context: &CollectContext, roles: &[String], name: &str) -> [u64; ROLES] {
    let mut places = [0; ROLES];
    for (place, role) in places.iter_mut().zip(roles) {
        let of_role = context.subjects.iter().filter(|subject| subject.role == *role);
        let mut found: Vec<u64> = of_role.map(|s| variable_of(&context.host, s.pid, name).unwrap_or(0)).collect();
        found.dedup();
        if let [only] = found.as_slice() {
            *place = *only;
        }
    }
    places
}

fn variable_of(host: &Host, pid: u32, name: &str) -> Option<u64> {
    let exe = host.read_link(&format!("/proc/{pid}/exe")).ok()?;
    let mut meter = Meter::default();
    let file = meter.spend(host, |reader| files(reader, pid)).ok()?.into_iter().find(|file| file.path == exe)?;
    let bytes = bytes(host, pid, &file).ok()?;
    let elf = object::File::parse(bytes.as_slice()).ok()?;
    let symbol = elf.dynamic_symbols().find(|symbol| symbol.name() == Ok(name) && symbol.is_definition())?;
    let bias =
        Known { map: Arc::default(), callees: Arc::default(), segments: Arc::new(segments(&elf)) }.bias(&file)?;
    Some(bias.wrapping_add(symbol.address()))
}

/// The code of a file: address, place in the file, size.
fn segments(elf: &object::File<'_>) -> Vec<(u64, u64, u64)> {
    // Of the executable ones: two segments may share a page of the file.
    let is_code = |flags| matches!(flags, SegmentFlags::Elf { p_flags, .. } if p_flags.0 & object::elf::PF_X.0 != 0);
    let code = elf.segments().filter(|s| is_code(s.flags()));
    code.map(|s| (s.address(), s.file_range().0, s.file_range().1)).collect()
}

/// The bytes of a mapped file: of the file itself, also when another one has its path by now.
fn bytes(host: &Host, pid: u32, file: &Mapped) -> Result<Vec<u8>, String> {
    let path = file.path.trim_end_matches(" (deleted)");
    let itself = format!("/proc/{pid}/map_files/{:x}-{:x}", file.start, file.end);
    let inside = format!("/proc/{pid}/root{path}");
    let read = host.read_head_bytes(&itself, LARGEST_FILE + 1);
    let read = match read {
        Err(_) if path == file.path => host.read_head_bytes(&inside, LARGEST_FILE + 1),
        read => read,
    };
    let bytes = read.map_err(|e| format!("{path}: {e}"))?;
    if bytes.len() > LARGEST_FILE {
        return Err(format!("{path}: it has more than {LARGEST_FILE} bytes"));
    }
    Ok(bytes)
}

/// The analysis of a file, made once for each build.
fn analysed(host: &Host, pid: u32, file: &Mapped, is_program: bool, functions: Vec<String>) -> Result<Known, String> {
    let bytes = bytes(host, pid, file)?;
    let told = |why: String| format!("{}: {why}", file.path);
    let elf = object::File::parse(bytes.as_slice()).map_err(|e| told(e.to_string()))?;
    let Some(build_id) = elf.build_id().ok().flatten().map(<[u8]>::to_vec) else {
        return analyse(&bytes, is_program, &functions).map_err(told);
    };
    let key = (build_id, functions);
    let known = ANALYSED.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
    if let Some(known) = known {
        return known;
    }
    let result = analyse(&bytes, is_program, &key.1).map_err(told);
    ANALYSED.lock().unwrap_or_else(PoisonError::into_inner).insert(key, result.clone());
    result
}

fn analyse(bytes: &[u8], is_program: bool, functions: &[String]) -> Result<Known, String> {
    let elf = object::File::parse(bytes).map_err(|e| e.to_string())?;
    let segments = segments(&elf);
    let (map, callees) = if is_program {
        let named = functions.iter().map(|name| NamedFunction { name: name.clone(), lock: None }).collect();
        let wanted = Wanted { shipped: true, functions: named };
        (holdup_sections::map(bytes, &wanted).map_err(|p| p.why)?, Callees::default())
    } else {
        let names: Vec<&str> = functions.iter().map(String::as_str).collect();
        (SectionMap::default(), holdup_sections::callees(bytes, &names).map_err(|p| p.why)?)
    };
    Ok(Known { map: Arc::new(map), callees: Arc::new(callees), segments: Arc::new(segments) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_begins_inside_a_page_is_mapped_from_that_page_on() {
        let known = Known {
            map: Arc::default(),
            callees: Arc::default(),
            segments: Arc::new(vec![(0x2f_5c80, 0x2f_4c80, 0x10_0000)]),
        };
        let file = Mapped { path: String::new(), start: 0x5555_0000_0000, end: 0, offset: 0x2f_4000 };
        assert_eq!(known.bias(&file), Some(0x5555_0000_0000 - 0x2f_5000));
        assert_eq!(known.bias(&Mapped { offset: 0x1000, ..file }), None);
    }
}
