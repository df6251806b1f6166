//! The patches for PostgreSQL that holdup carries: `patches/postgresql-NN/NAME.patch` in its repository.

use crate::archive::decompressed;
use crate::build::patches::Patch;
use holdup_model::Problem;
use std::io::Read;

/// A patch for PostgreSQL that holdup carries.
#[derive(Debug, Clone, Copy)]
pub struct CarriedServer {
    /// Its name: a plan says `patches/NAME`.
    pub name: &'static str,
    /// One line of description.
    pub about: &'static str,
    /// Its texts, each for a major version, as build.rs compresses them.
    texts: &'static [(u32, &'static [u8])],
}

impl CarriedServer {
    /// The major versions that it is for.
    pub fn majors(&self) -> Vec<u32> {
        self.texts.iter().map(|(major, _)| *major).collect()
    }
}

macro_rules! texts {
    ($name:literal: $($major:literal)*) => {
        &[$(($major, include_bytes!(concat!(env!("OUT_DIR"), "/postgresql-", $major, "-", $name, ".gz")).as_slice())),*]
    };
}

/// All carried patches.
pub const CARRIED_SERVER: &[CarriedServer] = &[
    CarriedServer {
        name: "lwlock-wait-list-futex",
        about: "waiters for the list of an LWLock's waiters sleep in a futex",
        texts: texts!("lwlock-wait-list-futex": 17 18 19),
    },
    CarriedServer {
        name: "lwlock-wait-list-park",
        about: "they spin while that pays, and sleep where it does not",
        texts: texts!("lwlock-wait-list-park": 17 18 19),
    },
    CarriedServer {
        name: "spin-slice-extension",
        about: "holders of spin locks ask the kernel (7.0 and later) for a longer slice",
        texts: texts!("spin-slice-extension": 17 18 19),
    },
    CarriedServer {
        name: "prefault-buffer-headers",
        about: "no page fault under the free list's lock (19 has no free list)",
        texts: texts!("prefault-buffer-headers": 17 18),
    },
];

pub(super) fn names() -> Vec<&'static str> {
    CARRIED_SERVER.iter().map(|carried| carried.name).collect()
}

/// A carried patch for a major version.
///
/// # Errors
/// When there is none for this version.
pub(super) fn find(name: &str, major: u32) -> Result<Patch, Problem> {
    let carried = CARRIED_SERVER.iter().find(|carried| carried.name == name);
    let carried = carried.ok_or_else(|| Problem::internal(format!("patch {name}"), "the spec was not checked"))?;
    let (_, text) = carried.texts.iter().find(|(of, _)| *of == major).ok_or_else(|| {
        let majors: Vec<String> = carried.majors().iter().map(u32::to_string).collect();
        let why = format!("it is for PostgreSQL {}, not for {major}", majors.join(", "));
        Problem::usage(format!("patch {name}"), why)
    })?;
    let mut bytes = Vec::new();
    let damaged = |e: std::io::Error| Problem::internal(format!("patch {name}"), e.to_string());
    decompressed(*text).and_then(|mut text| text.read_to_end(&mut bytes)).map_err(damaged)?;
    Patch::read(name, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_carried_patch_is_in_the_form_of_format_patch_and_edits_the_server_only() {
        for carried in CARRIED_SERVER {
            for major in carried.majors() {
                let what = format!("{} for {major}", carried.name);
                let patch = find(carried.name, major).unwrap();
                let text = String::from_utf8(patch.bytes).unwrap();
                assert!(text.starts_with("From ") && text.contains("\nSubject: "), "{what}");
                assert!(patch.touches.iter().all(|file| file.starts_with("src/")), "{what}: {:?}", patch.touches);
            }
        }
        assert!(find("prefault-buffer-headers", 19).unwrap_err().why.contains("17, 18, not for 19"));
    }
}
