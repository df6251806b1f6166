//! The release binary is one static file: no interpreter, no shared library.

use holdup_testkit::ignore;
use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

/// What makes a program need something beside itself.
fn needs(bytes: &[u8]) -> Result<Vec<String>, String> {
    let text = |e: object::read::Error| e.to_string();
    let header = FileHeader64::<Endianness>::parse(bytes).map_err(text)?;
    let endian = header.endian().map_err(text)?;
    let mut found = Vec::new();
    for segment in header.program_headers(endian, bytes).map_err(text)? {
        if segment.p_type(endian) == elf::PT_INTERP {
            found.push("PT_INTERP: it needs a dynamic loader".to_owned());
        }
        for entry in segment.dynamic(endian, bytes).map_err(text)?.unwrap_or_default() {
            if entry.tag(endian) == elf::DT_NEEDED {
                found.push("DT_NEEDED: it needs a shared library".to_owned());
            }
        }
    }
    Ok(found)
}

fn release_binary_is_static() {
    let Some(path) = std::env::var_os("HOLDUP_RELEASE_BINARY") else {
        ignore("HOLDUP_RELEASE_BINARY does not name the release binary (script/test sets it)");
    };
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(needs(&bytes), Ok(Vec::new()), "{}", path.display());
    println!("{}: {} bytes", path.display(), bytes.len());
}

fn static_and_dynamic_programs_are_distinguished() {
    // This test itself is linked to the C library of the host.
    let me = std::env::current_exe().expect("this program has a path");
    let found = needs(&std::fs::read(me).expect("this program can be read")).expect("it is ELF");
    assert!(found.iter().any(|f| f.starts_with("PT_INTERP")) && found.iter().any(|f| f.starts_with("DT_NEEDED")));
    assert!(needs(b"#!/bin/sh\n").is_err());
}

holdup_testkit::tests!(
    static_and_dynamic_programs_are_distinguished;
    truth:
    release_binary_is_static
);
