//! The size of the machine, which relative sizes in a plan refer to.

use crate::{Host, system};
use holdup_model::Machine;

/// CPUs that this process may use, and the memory of the machine.
///
/// On the running system the CPUs are those of sched_getaffinity(2). A quota of a cgroup
/// (`cpu.max`) does not lessen them: it is a fact (`cgroup.cpu_quota`) and no number of CPUs.
/// In a captured tree they are those that were online. At least 1; memory is 0 only where
/// neither /proc/meminfo nor the system has it.
pub fn machine(host: &Host) -> Machine {
    let allowed = if host.is_live() { system::allowed_cpus().ok() } else { None };
    let listed = || {
        let stat = host.read_text("/proc/stat").ok()?;
        let rows = stat.lines().filter(|l| l.starts_with("cpu") && !l.starts_with("cpu ")).count();
        u32::try_from(rows).ok()
    };
    let cpus = allowed.or_else(|| online_cpus(host).and_then(|cpus| u32::try_from(cpus.len()).ok())).or_else(listed);
    let measured = host.read_text("/proc/meminfo").ok().and_then(|text| meminfo(&text, "MemTotal"));
    let memory_bytes = match measured {
        Some(bytes) => bytes,
        None if host.is_live() => system::total_memory(),
        None => 0,
    };
    Machine { cpus: cpus.unwrap_or(1).max(1), memory_bytes }
}

/// One line of /proc/meminfo in bytes (or, for the counts of huge pages, as it stands).
pub fn meminfo(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let mut words = rest.split_ascii_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    match words.next() {
        Some("kB") => number.checked_mul(1024),
        None => Some(number),
        Some(_) => None,
    }
}

/// The CPUs that are online, in order; `None` when the host does not list them.
pub fn online_cpus(host: &Host) -> Option<Vec<u32>> {
    cpu_list(&host.read_value("/sys/devices/system/cpu/online").ok()?)
}

/// The CPUs of a list such as `0-3,8,10-11`; `None` when it is not one. An empty list is empty.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    // No kernel is built for more; a longer range comes from a broken file.
    const MOST: u32 = 65_536;
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MOST || cpus.len() >= MOST as usize {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// CPUs as the kernel writes them: `0-3,8`. They must be sorted; [`cpu_list`] reads them again.
pub fn cpu_ranges(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*cpu) => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let word = |(first, last): &(u32, u32)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    ranges.iter().map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    #[test]
    fn cpu_lists_are_read_and_broken_ones_refused() {
        let check = |text: &str, expect: Option<&[u32]>| assert_eq!(cpu_list(text).as_deref(), expect, "{text:?}");
        check("0-1\n", Some(&[0, 1]));
        check("0,2-4,9", Some(&[0, 2, 3, 4, 9]));
        check("\n", Some(&[]));
        check(&"0-65535,".repeat(3), None);
        for broken in ["3-1", "a", "0-", "-1", "0-4294967295", "1;2", "\u{fffd}"] {
            check(broken, None);
        }
    }

    #[test]
    fn cpus_are_written_as_the_kernel_writes_them() {
        for list in ["", "0", "0-1", "0,2-4,9", "7,9"] {
            assert_eq!(cpu_ranges(&cpu_list(list).expect("a list")), list);
        }
        assert_eq!(cpu_ranges(&[u32::MAX]), u32::MAX.to_string());
    }

    #[test]
    fn a_captured_machine_is_as_large_as_its_files_say() {
        let check = |files: &[(&str, &str)], cpus: u32, memory_bytes: u64| {
            assert_eq!(machine(&MemoryFs::of(files).host()), Machine { cpus, memory_bytes }, "{files:?}");
        };
        let meminfo = ("/proc/meminfo", "MemTotal:       24684096 kB\nMemFree: 1 kB\n");
        check(&[("/sys/devices/system/cpu/online", "0-95\n"), meminfo], 96, 24_684_096 * 1024);
        check(&[("/proc/stat", "cpu  1 2\ncpu0 1\ncpu1 1\nintr 5\n"), ("/proc/meminfo", "MemTotal: x kB")], 2, 0);
        check(&[], 1, 0);
    }

    #[test]
    fn this_machine_has_a_cpu_and_memory() {
        let here = machine(&Host::real());
        let most = std::thread::available_parallelism().expect("Linux has it").get();
        assert!(here.cpus as usize >= most, "a quota must not lessen the count: {here:?}");
        assert!(here.memory_bytes > 1 << 20, "{here:?}");
    }
}
