//! The types in an object's BTF (Documentation/bpf/btf.rst), as Rust.

use std::fmt::Write as _;

/// A type that C code may share with Rust.
enum Type {
    Integer {
        bytes: u32,
        is_signed: bool,
    },
    Pointer(u32),
    Array {
        of: u32,
        count: u32,
    },
    Struct {
        name: String,
        bytes: u32,
        members: Vec<(String, u32, u32)>,
    },
    Enum(Vec<(String, u32)>),
    /// A typedef, const or volatile.
    Alias(u32),
    Variable {
        name: String,
        of: u32,
    },
    Other,
}

/// Rust for what the variables `shared_*` point to: structures, and the values of enumerations as `usize`.
///
/// # Errors
/// What is no type of plain integers.
pub(crate) fn rust(object: &[u8]) -> Result<String, String> {
    let types = section(object, b".BTF").and_then(types).ok_or("the object has no BTF that can be read")?;
    let at = |id: u32| types.get(id as usize).ok_or_else(|| format!("BTF has no type {id}"));
    let mut text = String::new();
    let mut waiting: Vec<u32> = Vec::new();
    for variable in &types {
        if let Type::Variable { name, of } = variable
            && name.starts_with("shared_")
            && let Type::Pointer(of) = at(*of)?
        {
            waiting.push(*of);
        }
    }
    let mut done: Vec<u32> = Vec::new();
    while let Some(id) = waiting.pop() {
        if done.contains(&id) {
            continue;
        }
        done.push(id);
        match at(id)? {
            Type::Enum(values) => {
                for (name, value) in values {
                    let _infallible = writeln!(text, "pub(crate) const {name}: usize = {value};");
                }
            }
            Type::Struct { name, bytes, members } => {
                structure(&types, (name, *bytes, members), &mut text, &mut waiting)?;
            }
            Type::Alias(of) => waiting.push(*of),
            _ => return Err(format!("BTF type {id} is shared, and is neither a structure nor an enumeration")),
        }
    }
    if done.is_empty() { Err("the object shares no types".to_owned()) } else { Ok(text) }
}

fn structure(
    types: &[Type],
    (name, bytes, members): (&str, u32, &[(String, u32, u32)]),
    text: &mut String,
    waiting: &mut Vec<u32>,
) -> Result<(), String> {
    let camel = camel(name);
    let (mut fields, mut offsets, mut end) = (String::new(), String::new(), 0);
    for (field, of, bit) in members {
        // Padding would be uninitialised bytes, which neither keys of maps nor a cast to bytes may have.
        if *bit != 8 * end {
            return Err(format!("struct {name} has padding or a bit field at {field}: name the padding"));
        }
        let (written, size) = field_type(types, *of, waiting)?;
        let _infallible = write!(fields, " pub(crate) {field}: {written},");
        let _infallible = write!(offsets, " && std::mem::offset_of!({camel}, {field}) == {end}");
        end += size;
    }
    if end != bytes {
        return Err(format!("struct {name} has padding at its end: name it"));
    }
    let _infallible = write!(
        text,
        "#[repr(C)]\n#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]\npub(crate) struct {camel} {{{fields} }}\n\
         // SAFETY: integers alone, and no padding.\nunsafe impl aya::Pod for {camel} {{}}\n\
         const _: () = assert!(size_of::<{camel}>() == {bytes}{offsets});\n"
    );
    Ok(())
}

/// A field's type in Rust, and its size in bytes.
fn field_type(types: &[Type], id: u32, waiting: &mut Vec<u32>) -> Result<(String, u32), String> {
    match types.get(id as usize) {
        Some(Type::Integer { bytes, is_signed }) => {
            Ok((format!("{}{}", if *is_signed { 'i' } else { 'u' }, 8 * bytes), *bytes))
        }
        Some(Type::Array { of, count }) => {
            let (of, bytes) = field_type(types, *of, waiting)?;
            Ok((format!("[{of}; {count}]"), bytes * count))
        }
        Some(Type::Struct { name, bytes, .. }) => {
            waiting.push(id);
            Ok((camel(name), *bytes))
        }
        Some(Type::Alias(of)) => field_type(types, *of, waiting),
        _ => Err(format!("a shared structure has a field of BTF type {id}, which is no integer")),
    }
}

fn camel(name: &str) -> String {
    name.split('_')
        .flat_map(|word| word[..1].to_uppercase().chars().chain(word[1..].chars()).collect::<Vec<_>>())
        .collect()
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<usize> {
    number(bytes, at).map(u16::from_ne_bytes).map(usize::from)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    number(bytes, at).map(u32::from_ne_bytes)
}

/// A section of a 64-bit ELF file of this machine's byte order, which clang's target `bpf` is.
fn section<'a>(elf: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let word = |at| number(elf, at).map(u64::from_ne_bytes).and_then(|word| usize::try_from(word).ok());
    let (headers, size) = (word(0x28)?, u16_at(elf, 0x3a)?);
    let (count, names) = (u16_at(elf, 0x3c)?, u16_at(elf, 0x3e)?);
    let content = |index: usize| {
        let header = headers + index * size;
        elf.get(word(header + 0x18)?..)?.get(..word(header + 0x20)?)
    };
    let names = content(names)?;
    let is_named = |index: &usize| {
        let at = u32_at(elf, headers + index * size).and_then(|at| names.get(at as usize..));
        at.and_then(|at| at.strip_prefix(name)).is_some_and(|rest| rest.first() == Some(&0))
    };
    (0..count).find(is_named).and_then(content)
}

/// All types by their ids; the first is `void`.
fn types(btf: &[u8]) -> Option<Vec<Type>> {
    let header = u32_at(btf, 4)? as usize;
    let part = |at: usize| btf.get(header + u32_at(btf, at)? as usize..)?.get(..u32_at(btf, at + 4)? as usize);
    let (all, strings) = (part(8)?, part(16)?);
    let name = |at: u32| {
        let text = strings.get(at as usize..)?.split(|byte| *byte == 0).next()?;
        String::from_utf8(text.to_vec()).ok()
    };
    let (mut types, mut at) = (vec![Type::Other], 0);
    while at < all.len() {
        let (named, info, of) = (name(u32_at(all, at)?)?, u32_at(all, at + 4)?, u32_at(all, at + 8)?);
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        at += 12;
        let rows = |size: usize| (0..count).map(move |row| at + row * size);
        let (read, length) = match kind {
            1 => {
                let encoding = u32_at(all, at)? >> 24;
                // `char` is signed here, and text.
                (Type::Integer { bytes: of, is_signed: encoding & 1 != 0 && named != "char" }, 4)
            }
            2 => (Type::Pointer(of), 0),
            3 => (Type::Array { of: u32_at(all, at)?, count: u32_at(all, at + 8)? }, 12),
            4 => {
                let members = rows(12)
                    .map(|row| Some((name(u32_at(all, row)?)?, u32_at(all, row + 4)?, u32_at(all, row + 8)?)))
                    .collect::<Option<_>>()?;
                (Type::Struct { name: named, bytes: of, members }, 12 * count)
            }
            6 => {
                let values = rows(8)
                    .map(|row| Some((name(u32_at(all, row)?)?, u32_at(all, row + 4)?)))
                    .collect::<Option<_>>()?;
                (Type::Enum(values), 8 * count)
            }
            8..=11 => (Type::Alias(of), 0),
            14 => (Type::Variable { name: named, of }, 4),
            // Unions, sections of data, enumerations of 64 bits; prototypes; tags.
            5 | 15 | 19 => (Type::Other, 12 * count),
            13 => (Type::Other, 8 * count),
            17 => (Type::Other, 4),
            7 | 12 | 16 | 18 => (Type::Other, 0),
            _ => return None,
        };
        types.push(read);
        at += length;
    }
    Some(types)
}
