//! Any bytes as postgresql.conf and as what it includes.
//!
//! The input is parted by zero bytes: the main file, then files that every include finds in turn by the length of the
//! path that it asks for. Nothing panics, every setting is where a line is, and reading ends.
#![no_main]

use holdup_host::guc;
use holdup_survey::postgres::conf::{Configuration, Entry, Files, Unread};
use libfuzzer_sys::fuzz_target;

struct Parts<'a>(Vec<&'a [u8]>);

impl Files for Parts<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        if path == "/data/postgresql.conf" {
            return Ok(self.0[0].to_vec());
        }
        match self.0.get(path.len() % 7 + 1) {
            Some(part) => Ok(part.to_vec()),
            None => Err(Unread { is_gone: path.len().is_multiple_of(2), why: format!("cannot read {path}") }),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        Ok((0..path.len() % 4).map(|at| format!("{at}.conf")).collect())
    }
}

fuzz_target!(|bytes: &[u8]| {
    let parts = Parts(bytes.split(|byte| *byte == 0).collect());
    let read = Configuration::read(&parts, "/data/postgresql.conf");
    for entry in &read.entries {
        if let Entry::Set(setting) = entry {
            assert!(setting.line > 0 && setting.file.starts_with('/') && !setting.name.is_empty());
            assert!(read.all(&setting.name).next().is_some());
            let _any = read.last(&setting.name);
            if let Ok(blocks) = guc::integer(&setting.value, Some(guc::BLOCKS)) {
                assert_eq!(guc::integer(&blocks.to_string(), Some(guc::BLOCKS)), Ok(blocks));
            }
            let _truth = guc::boolean(&setting.value);
        }
    }
});
