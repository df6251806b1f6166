//! The scheduler's features: one file that holds a word for each, `NO_` before those that are off.

use crate::kernel_file::KernelFile;
use crate::refused::garbled;
use crate::sample::{Answer, KernelText};
use holdup_host::Host;
use holdup_model::profile::Destination;
use holdup_model::{Availability, Problem};

const FILE: KernelFile = KernelFile {
    newest: "/sys/kernel/debug/sched/features",
    older: &[("up to Linux 5.12", "/sys/kernel/debug/sched_features")],
    needs: "a kernel with CONFIG_SCHED_DEBUG=y (from 6.15 on all have it)",
};

/// The file on the host in memory: one feature that is on at first, one that is off, each beside another whose name
/// begins with it.
pub(crate) const SAMPLE: KernelText = KernelText {
    answer: Answer::Made(switch),
    ..KernelText::new(FILE.newest, "PLACE_LAG RUN_TO_PARITY NO_NEXT_BUDDY WAKEUP_PREEMPTION NO_HRTICK NO_HRTICK_DL \n")
};

/// What the kernel shows after `wanted` was written: its word in the place of the one before.
fn switch(before: &str, wanted: &str) -> Option<String> {
    let plain = |word: &str| word.strip_prefix("NO_").unwrap_or(word).to_owned();
    let is_it = |word: &str| plain(word) == plain(wanted);
    let after = before.split_whitespace().map(|word| if is_it(word) { wanted } else { word });
    before.split_whitespace().any(is_it).then(|| after.map(|word| format!("{word} ")).collect())
}

/// Whether a feature can be set here.
pub(crate) fn probe(host: &Host, name: &str) -> Availability {
    let text = match FILE.ask(host) {
        Ok(text) => text,
        Err(hindrance) => return hindrance,
    };
    match parse(&text) {
        None => Availability::unavailable(garbled(FILE.path(host), &text).to_string()),
        Some(all) if all.iter().any(|(known, _)| *known == name) => Availability::Ready,
        Some(all) => Availability::unavailable_but(no_such(name), these(&all)),
    }
}

/// True if a feature is on.
pub(crate) fn read(host: &Host, name: &str) -> Result<bool, Problem> {
    let (path, text) = FILE.read(host)?;
    let all = parse(&text).ok_or_else(|| garbled(path, &text))?;
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, is_on)| *is_on).ok_or_else(|| Problem::usage(path, no_such(name)).hint(these(&all)))
}

/// Switches one feature; the kernel leaves the others as they are.
pub(crate) fn write(host: &Host, name: &str, is_on: bool) -> Result<(), Problem> {
    FILE.write(host, &word(name, is_on))
}

/// A command of the shell that switches it.
pub(crate) fn by_hand(name: &str, is_on: bool) -> String {
    FILE.by_hand(&word(name, is_on))
}

/// Where other tools switch it.
pub(crate) fn destination(name: &str, is_on: bool) -> Destination {
    FILE.destination(&word(name, is_on))
}

fn word(name: &str, is_on: bool) -> String {
    if is_on { name.to_owned() } else { format!("NO_{name}") }
}

fn no_such(name: &str) -> String {
    format!("the scheduler of this kernel has no feature `{name}`")
}

fn these(all: &[(&str, bool)]) -> String {
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    format!("take one of those that it has: {}", names.join(", "))
}

/// Each feature with whether it is on; `None` when this is not what `sched_feat_show` writes.
fn parse(text: &str) -> Option<Vec<(&str, bool)>> {
    let mut all: Vec<(&str, bool)> = Vec::new();
    for word in text.split_ascii_whitespace() {
        let (name, is_on) = word.strip_prefix("NO_").map_or((word, true), |name| (name, false));
        if !is_name(name) || all.iter().any(|(known, _)| *known == name) {
            return None;
        }
        all.push((name, is_on));
    }
    Some(all).filter(|all| !all.is_empty())
}

/// True if it can be the name of a feature, which is one of C's in capitals.
pub(crate) fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase())
        && !name.starts_with("NO_")
        && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    const MOUNTS: (&str, &str) = ("/proc/mounts", "debugfs /sys/kernel/debug debugfs rw 0 0\n");
    const NOW: &str = "/sys/kernel/debug/sched/features";
    const OLD: &str = "/sys/kernel/debug/sched_features";
    const TEXT: &str = "PLACE_LAG NO_NEXT_BUDDY NONTASK_CAPACITY NI_RATE NO_HRTICK NO_HRTICK_DL \n";

    #[test]
    fn words_are_read_at_both_places_and_only_one_is_written() {
        for place in [NOW, OLD] {
            let fs = MemoryFs::of(&[MOUNTS, (place, TEXT)]);
            let host = fs.host();
            let states = ["PLACE_LAG", "NEXT_BUDDY", "NONTASK_CAPACITY", "NI_RATE", "HRTICK"].map(|n| read(&host, n));
            assert_eq!(states.map(Result::ok), [true, false, true, true, false].map(Some), "{place}");
            write(&host, "HRTICK", true).expect("there");
            assert_eq!(fs.get(place).as_deref(), Some("HRTICK"));
            write(&host, "HRTICK", false).expect("there");
            assert_eq!(fs.get(place).as_deref(), Some("NO_HRTICK"));
            assert!(by_hand("HRTICK", false).contains(place));
        }
    }

    #[test]
    fn an_unknown_feature_is_refused_and_the_known_ones_are_listed() {
        let host = MemoryFs::of(&[MOUNTS, (NOW, TEXT)]).host();
        let refused = read(&host, "LAST_BUDDY").expect_err("not there");
        assert!(refused.why.contains("no feature `LAST_BUDDY`"), "{refused}");
        let known = "PLACE_LAG, NEXT_BUDDY, NONTASK_CAPACITY, NI_RATE, HRTICK, HRTICK_DL";
        assert!(refused.hint.as_deref().is_some_and(|hint| hint.ends_with(known)), "{refused:?}");
        let found = format!("{:?}", probe(&host, "LAST_BUDDY"));
        assert!(found.contains("no feature `LAST_BUDDY`") && found.contains(known), "{found}");
        assert_eq!(probe(&host, "NEXT_BUDDY"), Availability::Ready);
    }

    #[test]
    fn each_reason_has_its_remedy() {
        let check = |files: &[(&str, &str)], errno: Option<i32>, expect: &str| {
            let fs = MemoryFs::of(files);
            if let Some(errno) = errno {
                fs.refuse("read", NOW, errno);
            }
            let found = format!("{:?}", probe(&fs.host(), "HRTICK"));
            assert!(found.contains(expect), "{files:?}: {found}");
        };
        check(&[], None, "mount -t debugfs");
        check(&[MOUNTS], None, "CONFIG_SCHED_DEBUG=y");
        check(&[MOUNTS, (NOW, TEXT)], Some(libc::EPERM), "boot without lockdown");
        check(&[MOUNTS, (NOW, TEXT)], Some(libc::EACCES), "run holdup as root");
        check(&[MOUNTS, (NOW, TEXT)], None, "Ready");
    }

    #[test]
    fn what_the_kernel_does_not_write_is_no_reading() {
        for garbage in
            ["", "\n", "hrtick", "HRTICK NO_HRTICK", "NO_", "NO_NO_HRTICK", "HRTICK=1", "0x1f", "HRTICK\u{0}"]
        {
            let host = MemoryFs::of(&[MOUNTS, (NOW, garbage)]).host();
            let refused = read(&host, "HRTICK").expect_err(garbage);
            assert!(refused.why.contains("is not what the kernel writes there"), "{garbage:?}: {refused}");
            assert!(!probe(&host, "HRTICK").is_usable(), "{garbage:?}");
        }
        let fs = MemoryFs::of(&[MOUNTS]);
        fs.put(NOW, [0xff, b'X', 0xfe]);
        assert!(read(&fs.host(), "X").is_err());
    }
}
