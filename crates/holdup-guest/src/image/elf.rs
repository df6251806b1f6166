//! The dependencies of an ELF file: its interpreter, its libraries, their search folders.
//!
//! Everything is read through program headers, as the kernel and ld.so do (elf(5)), except version names, which need section
//! headers. The files are untrusted: no number in them sizes an allocation before it is checked.

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, ReadCache, ReadRef, StringTable};
use std::path::Path;

/// Real files have about a dozen.
const HEADERS_MAX: u16 = 1024;

/// Of a dynamic section or a version table. Those of libc have some kilobytes.
const TABLE_BYTES_MAX: u64 = 1 << 20;

const NAMES_MAX: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Machine(pub u16);

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match elf::Machine(self.0) {
            elf::EM_X86_64 => f.write_str("x86-64"),
            elf::EM_AARCH64 => f.write_str("arm64"),
            elf::EM_386 => f.write_str("i386"),
            elf::EM_S390 => f.write_str("s390x"),
            elf::EM_RISCV => f.write_str("RISC-V"),
            elf::EM_ARM => f.write_str("32-bit ARM"),
            other => write!(f, "machine number {}", other.0),
        }
    }
}

/// The dependencies of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Elf {
    pub machine: Machine,
    /// PT_INTERP; `None` for libraries and static programs.
    pub interpreter: Option<String>,
    /// DT_NEEDED, in order.
    pub needed: Vec<String>,
    /// DT_SONAME.
    pub soname: Option<String>,
    /// DT_RPATH, split at colons; empty if there is a DT_RUNPATH, which makes ld.so ignore it.
    pub rpath: Vec<String>,
    /// DT_RUNPATH, split at colons.
    pub runpath: Vec<String>,
    /// Required symbol versions by library, such as `libc.so.6`, `GLIBC_2.38`, without weak ones.
    pub versions_needed: Vec<(String, String)>,
    /// Defined symbol versions.
    pub versions_defined: Vec<String>,
}

/// The modules that a kernel module depends on: `depends=` in its section `.modinfo`, which modpost writes
/// (scripts/mod/modpost.c:add_depends, v6.18).
///
/// # Errors
/// When it is not a whole 64-bit ELF file, or has no such section.
pub fn modules_needed(module: &[u8]) -> Result<Vec<String>, String> {
    let bad = |e: object::read::Error| format!("it is not a whole ELF file: {e}");
    let header = FileHeader64::<Endianness>::parse(module).map_err(bad)?;
    let order = header.endian().map_err(bad)?;
    let sections = header.sections(order, module).map_err(bad)?;
    let info = sections.section_by_name(order, b".modinfo").ok_or("it has no section .modinfo")?.1;
    let info = info.data(order, module).map_err(bad)?;
    let named = info.split(|b| *b == 0).find_map(|entry| entry.strip_prefix(b"depends="));
    let names = String::from_utf8_lossy(named.unwrap_or_default()).into_owned();
    Ok(names.split(',').filter(|name| !name.is_empty()).take(NAMES_MAX).map(str::to_owned).collect())
}

/// The dependencies of the file at a path.
///
/// # Errors
/// When it cannot be read, or [`Elf::parse`] fails.
pub fn of_file(path: &Path) -> Result<Elf, String> {
    let file = holdup_files::open_input(path).map_err(|e| e.to_string())?;
    Elf::parse(&ReadCache::new(file))
}

/// True if a file begins with the ELF magic number.
pub fn is_elf(head: &[u8]) -> bool {
    head.starts_with(&elf::ELFMAG)
}

impl Elf {
    /// Reads the dependencies of a file.
    ///
    /// # Errors
    /// Describes the error without naming the file.
    pub fn parse<'d, R: ReadRef<'d>>(data: R) -> Result<Elf, String> {
        let ident = data.read_bytes_at(0, 20).map_err(|()| "it is too short for an ELF file".to_owned())?;
        if !is_elf(ident) {
            return Err("it is not an ELF file".to_owned());
        }
        match (ident[4], ident[5]) {
            (2, 1 | 2) => {}
            (1, 1 | 2) => return Err(format!("it is a 32-bit ELF file for {}", machine_of(ident))),
            (class, order) => return Err(format!("its ELF class is {class} and its byte order {order}")),
        }
        let header = FileHeader64::<Endianness>::parse(data).map_err(|e| said(&e))?;
        let order = header.endian().map_err(|e| said(&e))?;
        if header.e_phnum(order) > HEADERS_MAX {
            return Err(format!("it has {} program headers", header.e_phnum(order)));
        }
        let segments = header.program_headers(order, data).map_err(|e| said(&e))?;
        let mut found = Elf {
            machine: Machine(header.e_machine(order).0),
            interpreter: None,
            needed: Vec::new(),
            soname: None,
            rpath: Vec::new(),
            runpath: Vec::new(),
            versions_needed: Vec::new(),
            versions_defined: Vec::new(),
        };
        let mut dynamic = None;
        for segment in segments {
            match segment.p_type(order) {
                elf::PT_INTERP if segment.p_filesz(order) > 4096 => return Err("its PT_INTERP is too long".to_owned()),
                elf::PT_DYNAMIC if segment.p_filesz(order) > TABLE_BYTES_MAX => {
                    return Err("its dynamic section is too long".to_owned());
                }
                elf::PT_INTERP => {
                    let path = segment.interpreter(order, data).map_err(|e| said(&e))?;
                    found.interpreter = path.map(text).transpose()?;
                }
                elf::PT_DYNAMIC => dynamic = segment.dynamic(order, data).map_err(|e| said(&e))?,
                _ => {}
            }
        }
        if let Some(dynamic) = dynamic {
            found.read_dynamic(order, data, segments, dynamic)?;
        }
        found.read_versions(order, header, data)?;
        Ok(found)
    }

    fn read_dynamic<'d, R: ReadRef<'d>>(
        &mut self,
        order: Endianness,
        data: R,
        segments: &[elf::ProgramHeader64<Endianness>],
        dynamic: &[elf::Dyn64<Endianness>],
    ) -> Result<(), String> {
        let entries =
            || dynamic.iter().map(|d| (d.d_tag(order), d.d_val(order))).take_while(|(tag, _)| *tag != elf::DT_NULL);
        let value = |wanted| entries().find(|(tag, _)| *tag == wanted).map(|(_, value)| value);
        let (Some(address), Some(size)) = (value(elf::DT_STRTAB), value(elf::DT_STRSZ)) else {
            let named = |tag| [elf::DT_NEEDED, elf::DT_RPATH, elf::DT_RUNPATH].contains(&tag);
            return if entries().any(|(tag, _)| named(tag)) {
                Err("its dynamic section names libraries, but no table of strings".to_owned())
            } else {
                Ok(())
            };
        };
        let start = file_offset(order, segments, address).ok_or("its table of strings lies in no segment")?;
        let end = start.checked_add(size).ok_or("its table of strings is too long")?;
        let strings = StringTable::new(data, start, end);
        let string = |value: u64| {
            let offset = u32::try_from(value).ok();
            let bytes = offset.and_then(|offset| strings.get(offset).ok());
            bytes.ok_or_else(|| format!("its string {value} lies outside of its table of strings")).and_then(text)
        };
        for (tag, value) in entries() {
            match tag {
                elf::DT_NEEDED => self.needed.push(string(value)?),
                elf::DT_SONAME => self.soname = Some(string(value)?),
                elf::DT_RPATH => self.rpath.extend(string(value)?.split(':').map(str::to_owned)),
                elf::DT_RUNPATH => self.runpath.extend(string(value)?.split(':').map(str::to_owned)),
                _ => {}
            }
            if self.needed.len().max(self.rpath.len()).max(self.runpath.len()) > NAMES_MAX {
                return Err(format!("it names more than {NAMES_MAX} libraries or folders"));
            }
        }
        if !self.runpath.is_empty() {
            self.rpath.clear();
        }
        Ok(())
    }

    fn read_versions<'d, R: ReadRef<'d>>(
        &mut self,
        order: Endianness,
        header: &FileHeader64<Endianness>,
        data: R,
    ) -> Result<(), String> {
        // Zero means none, or more than 65,279, which no relevant file has.
        if header.e_shnum(order) == 0 {
            return Ok(());
        }
        let Ok(sections) = header.section_headers(order, data) else { return Ok(()) };
        let mut names = 0_usize;
        for section in sections.iter().filter(|s| s.sh_size(order) <= TABLE_BYTES_MAX) {
            if let Ok(Some((mut needs, link))) = section.gnu_verneed(order, data) {
                let Some(strings) = string_table(order, sections, link.0, data) else { continue };
                while let Ok(Some((need, mut versions))) = needs.next() {
                    let file = need.file(order, strings).map_err(|e| said(&e)).and_then(text)?;
                    while let Ok(Some(version)) = versions.next() {
                        names += 1;
                        if names > NAMES_MAX {
                            return Err(format!("it names more than {NAMES_MAX} versions"));
                        }
                        if version.vna_flags.get(order).0 & elf::VER_FLG_WEAK.0 == 0 {
                            let name = version.name(order, strings).map_err(|e| said(&e)).and_then(text)?;
                            self.versions_needed.push((file.clone(), name));
                        }
                    }
                }
            } else if let Ok(Some((mut defines, link))) = section.gnu_verdef(order, data) {
                let Some(strings) = string_table(order, sections, link.0, data) else { continue };
                while let Ok(Some((_, mut versions))) = defines.next() {
                    names += 1;
                    if names > NAMES_MAX {
                        return Err(format!("it names more than {NAMES_MAX} versions"));
                    }
                    // The first is the version itself, the others its predecessors.
                    if let Ok(Some(version)) = versions.next() {
                        let name = version.name(order, strings).map_err(|e| said(&e)).and_then(text)?;
                        self.versions_defined.push(name);
                    }
                }
            }
        }
        Ok(())
    }
}

fn string_table<'d, R: ReadRef<'d>>(
    order: Endianness,
    sections: &[elf::SectionHeader64<Endianness>],
    index: usize,
    data: R,
) -> Option<StringTable<'d, R>> {
    sections.get(index)?.strings(order, data).ok().flatten()
}

fn machine_of(ident: &[u8]) -> Machine {
    let word = [ident[18], ident[19]];
    Machine(if ident[5] == 2 { u16::from_be_bytes(word) } else { u16::from_le_bytes(word) })
}

/// The file offset of a virtual address.
fn file_offset(order: Endianness, segments: &[elf::ProgramHeader64<Endianness>], address: u64) -> Option<u64> {
    segments.iter().filter(|s| s.p_type(order) == elf::PT_LOAD).find_map(|s| {
        let into = address.checked_sub(s.p_vaddr(order))?;
        (into < s.p_filesz(order)).then(|| s.p_offset(order).checked_add(into)).flatten()
    })
}

fn said(error: &object::read::Error) -> String {
    format!("it cannot be read as ELF: {error}")
}

fn text(bytes: &[u8]) -> Result<String, String> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| "it has a name that is not UTF-8".to_owned())
}
