//! Small ELF files of assembled code.
#![allow(dead_code, unreachable_pub, reason = "each of the tests uses what it needs")]

use holdup_model::sections::SectionRole;
use holdup_sections::lookup::{Inside, Loaded, Registers, Table, classify};
use holdup_sections::{NamedFunction, SectionMap, Wanted};
use iced_x86::BlockEncoderOptions;
use iced_x86::code_asm::{CodeAssembler, CodeLabel};

/// Where the code begins.
pub const BASE: u64 = 0x40_1000;

pub fn named(names: &[&str]) -> Wanted {
    let functions = names.iter().map(|name| NamedFunction { name: (*name).to_owned(), lock: None }).collect();
    Wanted { shipped: false, functions }
}

/// One letter per instruction: H holder, W waiter, a dot for neither.
pub fn roles(map: &SectionMap, places: &[u64], registers: &Registers) -> String {
    let table = Table::new(&[Loaded { map: Some(map), callees: &[], bias: 0 }]);
    let letter = |at: &u64| match classify(&table, *at, registers, &|_| None) {
        Some(Inside { role: SectionRole::Holder, .. }) => 'H',
        Some(Inside { role: SectionRole::Waiter, .. }) => 'W',
        None => '.',
    };
    places.iter().map(letter).collect()
}

/// A section header: name, type, flags, address, place, link, info, size of an entry.
type Row = (u32, u32, u64, u64, usize, u32, u32, u64);

/// A file for x86-64 with code, function symbols (name, offset, bytes) and the bytes of a note.
pub fn file(code: &[u8], functions: &[(String, u64, u64)], note: &[u8]) -> Vec<u8> {
    file_for(62, code, functions, note)
}

/// The number of AArch64 in the head of a file.
pub const AARCH64: u8 = 183;

/// The same for a machine by its number in the file's head.
pub fn file_for(machine: u8, code: &[u8], functions: &[(String, u64, u64)], note: &[u8]) -> Vec<u8> {
    let (mut names, mut symbols) = (vec![0u8], vec![0u8; 24]);
    for (name, offset, bytes) in functions {
        symbols.extend((names.len() as u32).to_le_bytes());
        // A global function in section 1.
        symbols.extend([0x12, 0, 1, 0]);
        symbols.extend((BASE + offset).to_le_bytes());
        symbols.extend(bytes.to_le_bytes());
        names.extend(name.as_bytes());
        names.push(0);
    }
    let section_names = b"\0.text\0.symtab\0.strtab\0.shstrtab\0.note.holdup\0";
    let parts: [&[u8]; 5] = [code, &symbols, &names, section_names, note];
    let mut bytes = vec![0; 0x1000];
    let mut places = Vec::new();
    for part in parts {
        while !bytes.len().is_multiple_of(16) {
            bytes.push(0);
        }
        places.push((bytes.len() as u64, part.len() as u64));
        bytes.extend(part);
    }
    while !bytes.len().is_multiple_of(16) {
        bytes.push(0);
    }
    let headers = bytes.len() as u64;
    let rows: [Row; 5] = [
        (1, 1, 6, BASE, 0, 0, 0, 0),
        (7, 2, 0, 0, 1, 3, 1, 24),
        (15, 3, 0, 0, 2, 0, 0, 0),
        (23, 3, 0, 0, 3, 0, 0, 0),
        (33, 7, 0, 0, 4, 0, 0, 0),
    ];
    bytes.extend([0; 64]);
    for (name, kind, flags, address, part, link, info, entry) in rows {
        bytes.extend(name.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        for number in [flags, address, places[part].0, places[part].1] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(link.to_le_bytes());
        bytes.extend(info.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(entry.to_le_bytes());
    }
    let mut header = Vec::from(*b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    header.extend([2, 0, machine, 0, 1, 0, 0, 0]);
    for number in [BASE, 64, headers] {
        header.extend(number.to_le_bytes());
    }
    header.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 64, 0, 6, 0, 4, 0]);
    // One segment: loaded, readable and executable.
    header.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for number in [0x1000, BASE, BASE, code.len() as u64, code.len() as u64, 0x1000] {
        header.extend(number.to_le_bytes());
    }
    bytes[..header.len()].copy_from_slice(&header);
    bytes
}

/// An assembler that knows where functions begin.
pub struct Source {
    pub asm: CodeAssembler,
    functions: Vec<(String, CodeLabel)>,
}

impl Source {
    pub fn new() -> Self {
        Source { asm: CodeAssembler::new(64).expect("64 bits"), functions: Vec::new() }
    }

    /// A function begins here; its label is for those that call it.
    pub fn function(&mut self, name: &str) -> CodeLabel {
        let mut label = self.asm.create_label();
        self.function_at(name, &mut label);
        label
    }

    /// A function that was jumped to before begins here.
    pub fn function_at(&mut self, name: &str, label: &mut CodeLabel) {
        self.asm.set_label(label).expect("a new label");
        self.functions.push((name.to_owned(), *label));
    }

    /// The file, and the address of every instruction.
    pub fn build(mut self, note: impl Fn(&[u64]) -> Vec<u8>) -> (Vec<u8>, Vec<u64>) {
        let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
        let result = self.asm.assemble_options(BASE, options).expect("it can be assembled");
        let begins: Vec<u64> =
            self.functions.iter().map(|(_, label)| result.label_ip(label).expect("it is set") - BASE).collect();
        let code = result.inner.code_buffer.clone();
        let ends = begins.iter().skip(1).copied().chain([code.len() as u64]);
        let functions: Vec<(String, u64, u64)> = self
            .functions
            .iter()
            .zip(&begins)
            .zip(ends)
            .map(|(((name, _), at), end)| (name.clone(), *at, end - at))
            .collect();
        let places: Vec<u64> = result.inner.new_instruction_offsets.iter().map(|at| BASE + u64::from(*at)).collect();
        (file(&code, &functions, &note(&places)), places)
    }
}
