//! The environment as evidence: facts with their source, or the reason why they are not known.
//!
//! Facts marked steady must not change during a trial. Quick (some milliseconds) and without root;
//! what only root may read is absent for others, with the system's reason.

mod cpu;
mod kernel;
mod memory;
mod scheduler;

pub use cpu::governor;

use crate::text::chosen;
use crate::{Host, HostError};
use holdup_model::Fact;
use std::collections::BTreeMap;

/// What is known about the host now, in a fixed order of keys.
pub fn facts(host: &Host) -> Vec<Fact> {
    let mut all = Vec::with_capacity(64);
    kernel::collect(host, &mut all);
    cpu::collect(host, &mut all);
    memory::collect(host, &mut all);
    scheduler::collect(host, &mut all);
    all
}

/// The steady facts that differ, as they were found after.
///
/// A steady fact that is known in only one of the readings differs too: nothing shows
/// that it stayed. The source is not compared, because the same answer may come from elsewhere.
pub fn moved(before: &[Fact], after: &[Fact]) -> Vec<Fact> {
    let then: BTreeMap<&str, &Fact> = before.iter().map(|f| (f.key.as_str(), f)).collect();
    let now: BTreeMap<&str, &Fact> = after.iter().map(|f| (f.key.as_str(), f)).collect();
    let is_steady = |key: &str| then.get(key).is_some_and(|f| f.steady) || now.get(key).is_some_and(|f| f.steady);
    let value = |of: &BTreeMap<&str, &Fact>, key: &str| of.get(key).and_then(|f| f.value.clone());
    let changed = after
        .iter()
        .filter(|f| is_steady(&f.key) && value(&then, &f.key) != f.value)
        .map(|f| Fact { steady: true, ..f.clone() });
    let gone = before
        .iter()
        .filter(|f| f.steady && f.value.is_some() && !now.contains_key(f.key.as_str()))
        .map(|f| Fact::absent(&f.key, &f.source, "it was known before and is not there any more").steady());
    changed.chain(gone).collect()
}

/// The system's words for an error, without the path, which stands in the fact's source.
fn why(error: &HostError) -> String {
    error.message.clone()
}

/// What only the kernel that this process runs on says.
fn of_running_kernel(host: &Host, key: &str, source: &str, value: impl FnOnce() -> String) -> Fact {
    match host.is_live() {
        true => Fact::read(key, value(), source).steady(),
        false => Fact::absent(key, source, "these are files of another host").steady(),
    }
}

/// A file of one value as a fact.
fn from_file(host: &Host, key: &str, path: &str) -> Fact {
    match host.read_value(path) {
        Ok(value) if value.is_empty() => Fact::absent(key, path, "the file is empty"),
        Ok(value) => Fact::read(key, value, path),
        Err(e) => Fact::absent(key, path, why(&e)),
    }
}

/// A list file such as `isolated`, where an empty file says "none".
fn from_list_file(host: &Host, key: &str, path: &str) -> Fact {
    match host.read_value(path) {
        Ok(value) if value.is_empty() => Fact::read(key, "none", path),
        Ok(value) => Fact::read(key, value, path),
        Err(e) => Fact::absent(key, path, why(&e)),
    }
}

/// A file of words of which one is in brackets, as a fact with that word.
fn from_choice_file(host: &Host, key: &str, path: &str) -> Fact {
    match host.read_value(path) {
        Ok(text) => match chosen(&text, '[', ']') {
            Some(word) => Fact::read(key, word, path),
            None => Fact::absent(key, path, format!("no word of `{text}` is in brackets")),
        },
        Err(e) => Fact::absent(key, path, why(&e)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Fault, MemoryFs};

    #[test]
    fn only_steady_facts_move() {
        let fact = |key: &str, value: &str| Fact::read(key, value, "/x");
        let check = |before: &[Fact], after: &[Fact], expect: &[&str]| {
            let found = moved(before, after);
            let keys: Vec<String> =
                found.iter().map(|f| format!("{}={}", f.key, f.value.as_deref().unwrap_or("-"))).collect();
            assert_eq!(keys, expect);
            assert!(found.iter().all(|f| f.steady));
        };
        check(&[fact("a", "1")], &[fact("a", "2")], &[]);
        check(&[fact("a", "1").steady()], &[fact("a", "1").steady()], &[]);
        check(&[fact("a", "1").steady()], &[fact("a", "2").steady()], &["a=2"]);
        check(&[fact("a", "1").steady()], &[], &["a=-"]);
        check(&[], &[fact("a", "1").steady()], &["a=1"]);
        check(&[fact("a", "1").steady()], &[Fact::absent("a", "/x", "no").steady()], &["a=-"]);
        check(&[Fact::absent("a", "/x", "no").steady()], &[Fact::absent("a", "/x", "other").steady()], &[]);
        check(&[Fact::absent("a", "/x", "no").steady()], &[], &[]);
        let elsewhere = Fact { source: "/y".to_owned(), ..fact("a", "1").steady() };
        check(&[fact("a", "1").steady()], &[elsewhere], &[]);
    }

    #[test]
    fn this_host_has_its_facts_and_they_hold_still() {
        let host = Host::real();
        let before = facts(&host);
        for fact in &before {
            assert_eq!(fact.value.is_some(), fact.absent.is_none(), "{fact:?}");
            assert!(!fact.source.is_empty() && fact.value.as_deref() != Some(""), "{fact:?}");
        }
        let known = |key: &str| before.iter().any(|f| f.key == key && f.value.is_some());
        for key in ["kernel.release", "kernel.boot_id", "cpu.online", "memory.total_bytes", "holdup.scheduling"] {
            assert!(known(key), "{key}");
        }
        let mut keys: Vec<&str> = before.iter().map(|f| f.key.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), before.len(), "a key stands twice");
        // Another test of this machine may change a knob in between, so only what none of them touches is held to.
        let still = moved(&before, &facts(&host));
        assert!(still.iter().all(|f| f.key.contains("autogroup") || f.key.contains("huge_pages")), "{still:?}");
    }

    #[test]
    fn a_host_without_sys_and_with_garbage_gives_absent_facts_with_reasons() {
        let nothing = facts(&MemoryFs::new().host());
        assert!(nothing.iter().all(|f| f.value.is_none() && f.absent.is_some()), "{nothing:#?}");
        let garbage = MemoryFs::new();
        let sources: Vec<String> = facts(&Host::real()).into_iter().map(|f| f.source).collect();
        for source in sources.iter().filter(|s| s.starts_with('/')) {
            garbage.put(source, b"\xff\xfe\x00garbage [\xff (");
        }
        for file in ["/proc/meminfo", "/proc/cpuinfo", "/proc/stat", "/proc/config.gz", "/proc/self/status"] {
            garbage.put(file, b"\xff\xfe\x00 cpu kB MemTotal: \xff (");
        }
        for fact in facts(&garbage.host()) {
            assert_eq!(fact.value.is_some(), fact.absent.is_none(), "{fact:?}");
        }
    }

    #[test]
    fn a_read_that_fails_makes_one_fact_absent_and_nothing_else() {
        let fs = MemoryFs::of(&[
            ("/proc/sys/kernel/osrelease", "6.18.0\n"),
            ("/proc/sys/kernel/sched_autogroup_enabled", "1\n"),
            ("/sys/devices/system/cpu/online", "0-1\n"),
            ("/proc/meminfo", "MemTotal: 8 kB\n"),
        ]);
        fs.arm(None);
        let whole = facts(&fs.host());
        let operations = fs.log().len() as u64;
        for at in 1..=operations {
            fs.arm(Some(Fault::Once(at)));
            let some = facts(&fs.host());
            for fact in some.iter().filter(|f| f.value.is_some()) {
                assert!(whole.contains(fact), "operation {at} made {fact:?}");
            }
        }
    }
}
