//! Processes and their threads, read from /proc.
//!
//! A process is named by its pid *and* its start time: pids are used again.

use crate::{Host, HostError};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// What `/proc/PID/stat` says about a process, or `/proc/PID/task/TID/stat` about a thread.
///
/// Source: proc_pid_stat(5); `fs/proc/array.c:do_task_stat` (v6.18). Times are in clock ticks of
/// [`ticks_per_second`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Field 1: the pid, or the tid for a thread.
    pub pid: u32,
    /// Field 2: the name, at most 15 bytes for user processes; may hold spaces and parentheses.
    pub comm: String,
    /// Field 3: `R`, `S`, `D`, `Z`, `T` …
    pub state: char,
    /// Field 4: the parent, 0 for none.
    pub ppid: u32,
    /// Field 6: the session, which autogroup goes by.
    pub session: u32,
    /// Field 10: page faults without I/O.
    pub minor_faults: u64,
    /// Field 12: page faults with I/O.
    pub major_faults: u64,
    /// Field 14: time in user mode, in ticks.
    pub user_ticks: u64,
    /// Field 15: time in the kernel, in ticks.
    pub system_ticks: u64,
    /// Field 19: the nice value.
    pub nice: i32,
    /// Field 20: threads of the process.
    pub threads: u32,
    /// Field 22: when it began, in ticks since boot.
    pub start_time: u64,
    /// Field 39: the CPU that it ran on last; `None` where the line is shorter.
    pub last_cpu: Option<u32>,
}

impl Stat {
    /// Reads one line of `stat`.
    ///
    /// The name is everything between the first `(` and the last `)`, because it may hold both.
    /// `None` when the line is not one: cut short, or a field that is no number.
    pub fn parse(line: &str) -> Option<Stat> {
        let open = line.find('(')?;
        let close = line.rfind(')').filter(|close| *close > open)?;
        let pid = line[..open].trim().parse().ok()?;
        // Fields after the name; `fields[0]` is field 3.
        let fields: Vec<&str> = line[close + 1..].split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).copied();
        let number = |at: usize| field(at).and_then(|text| text.parse::<u64>().ok());
        let small = |at: usize| number(at).and_then(|n| u32::try_from(n).ok());
        Some(Stat {
            pid,
            comm: line[open + 1..close].to_owned(),
            state: field(3)?.chars().next()?,
            ppid: small(4)?,
            // A process that is being taken down has no session any more and shows -1.
            session: field(6)?.parse::<i64>().ok().and_then(|n| u32::try_from(n.max(0)).ok())?,
            minor_faults: number(10)?,
            major_faults: number(12)?,
            user_ticks: number(14)?,
            system_ticks: number(15)?,
            nice: field(19)?.parse().ok()?,
            threads: small(20)?,
            start_time: number(22)?,
            last_cpu: small(39),
        })
    }
}

/// Clock ticks in a second (USER_HZ), the unit of the times in [`Stat`].
pub fn ticks_per_second() -> u64 {
    rustix::param::clock_ticks_per_second()
}

/// What `/proc/PID/stat` says.
///
/// # Errors
/// When there is no such process, or the line cannot be understood.
pub fn stat(host: &Host, pid: u32) -> Result<Stat, HostError> {
    stat_at(host, &format!("/proc/{pid}/stat"))
}

/// What `/proc/PID/task/TID/stat` says.
///
/// # Errors
/// When there is no such thread, or the line cannot be understood.
pub fn task_stat(host: &Host, pid: u32, tid: u32) -> Result<Stat, HostError> {
    stat_at(host, &format!("/proc/{pid}/task/{tid}/stat"))
}

fn stat_at(host: &Host, path: &str) -> Result<Stat, HostError> {
    // Some fifty numbers; a file of a captured tree may be of any length.
    const LONGEST: usize = 4096;
    Stat::parse(&host.read_head(path, LONGEST)?).ok_or_else(|| {
        let why = io::Error::new(io::ErrorKind::InvalidData, "the line is cut short or not one of proc_pid_stat(5)");
        HostError::new("read", path, &why)
    })
}

/// What a process uses; `None` for what cannot be read.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// CPU time, s.
    pub cpu_s: Option<f64>,
    /// Resident memory, bytes.
    pub resident_bytes: Option<f64>,
    /// Open descriptors.
    pub descriptors: Option<f64>,
}

/// What a process uses now.
///
/// Source: proc_pid_stat(5), proc_pid_statm(5), proc_pid_fd(5).
pub fn usage(host: &Host, pid: u32) -> Usage {
    let ticks = stat(host, pid).ok().map(|s| (s.user_ticks + s.system_ticks) as f64);
    let statm = host.read_text(&format!("/proc/{pid}/statm")).ok();
    let pages = statm.and_then(|text| text.split_ascii_whitespace().nth(1)?.parse::<f64>().ok());
    Usage {
        cpu_s: ticks.map(|ticks| ticks / ticks_per_second() as f64),
        resident_bytes: pages.map(|pages| pages * rustix::param::page_size() as f64),
        descriptors: host.list(&format!("/proc/{pid}/fd")).ok().map(|names| names.len() as f64),
    }
}

/// When a process began, in ticks since boot. With the pid it names a process for as long as the host is up.
pub fn start_time(host: &Host, pid: u32) -> Result<u64, HostError> {
    stat(host, pid).map(|s| s.start_time)
}

/// True if the process with this pid is still the one that began then, and has not ended
/// (a zombie has ended; only its parent has not looked yet).
pub fn alive(host: &Host, pid: u32, start_time: u64) -> bool {
    stat(host, pid).is_ok_and(|s| s.start_time == start_time && !matches!(s.state, 'Z' | 'X'))
}

/// The effective capabilities of this process, a bit each (capabilities(7), include/uapi/linux/capability.h); `None` where
/// /proc/self/status does not show them.
pub fn capabilities(host: &Host) -> Option<u64> {
    let status = host.read_text("/proc/self/status").ok()?;
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// All processes that can be seen, sorted by pid. One that ends meanwhile is left out.
///
/// # Errors
/// When /proc cannot be listed, or a process that runs cannot be read.
pub fn all(host: &Host) -> Result<Vec<Stat>, HostError> {
    let pids = numbers(&host.list("/proc")?);
    let read = pids.into_iter().map(|pid| stat(host, pid)).filter(|read| !matches!(read, Err(e) if e.is_gone()));
    read.collect()
}

/// The threads of a process, sorted; the first of them is the process itself unless its main thread has ended.
pub fn tasks(host: &Host, pid: u32) -> Result<Vec<u32>, HostError> {
    host.list(&format!("/proc/{pid}/task")).map(|names| numbers(&names))
}

/// The direct children of a process, sorted. Empty when there are none, or no such process.
///
/// # Errors
/// When /proc cannot be listed.
pub fn children(host: &Host, pid: u32) -> Result<Vec<u32>, HostError> {
    Ok(all(host)?.into_iter().filter(|s| s.ppid == pid).map(|s| s.pid).collect())
}

/// A process and all its descendants: the process first, the others sorted by pid.
/// Empty when there is no such process.
///
/// A descendant whose parent ended was given to another parent and is not found here.
///
/// # Errors
/// When /proc cannot be listed.
pub fn tree(host: &Host, root: u32) -> Result<Vec<u32>, HostError> {
    let all = all(host)?;
    if !all.iter().any(|s| s.pid == root) {
        return Ok(Vec::new());
    }
    let mut pids = vec![root];
    pids.extend(descendants(&all, &[root]));
    Ok(pids)
}

/// The descendants of some processes within a list of all, sorted, without the roots themselves.
pub fn descendants(all: &[Stat], roots: &[u32]) -> Vec<u32> {
    let mut by_parent: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for s in all {
        by_parent.entry(s.ppid).or_default().push(s.pid);
    }
    let mut found = BTreeSet::new();
    let mut open = roots.to_vec();
    while let Some(parent) = open.pop() {
        for child in by_parent.get(&parent).into_iter().flatten() {
            // The list is not one instant: a pid that was used again must not make an endless loop.
            if !roots.contains(child) && found.insert(*child) {
                open.push(*child);
            }
        }
    }
    found.into_iter().collect()
}

fn numbers(names: &[String]) -> Vec<u32> {
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    const TAIL: &str = "0 -1 4194560 42850 7 11 627 176 717 2 3 20 -5 13 0 3321 51802112 4658 18446744073709551615 \
                        1 1 0 0 0 0 0 4096 1256 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0";

    #[test]
    fn capabilities_are_those_that_are_in_effect() {
        let of = |status| capabilities(&MemoryFs::of(&[("/proc/self/status", status)]).host());
        assert_eq!(of("Name:\tx\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
        assert_eq!(of("CapEff:\tzz"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn names_with_parentheses_and_spaces_do_not_shift_the_fields() {
        let check = |comm: &str| {
            let s = Stat::parse(&format!("42 ({comm}) S 7 40 41 {TAIL}\n")).expect(comm);
            assert_eq!((s.pid, s.comm.as_str(), s.state, s.ppid, s.session), (42, comm, 'S', 7, 41));
            assert_eq!((s.minor_faults, s.major_faults, s.user_ticks, s.system_ticks), (42850, 11, 176, 717));
            assert_eq!((s.nice, s.threads, s.start_time, s.last_cpu), (-5, 13, 3321, Some(1)));
        };
        for comm in ["sleep", "tmux: server", "a) R 1 2 3 (b", "((", "))", "", "(sd-pam)"] {
            check(comm);
        }
    }

    #[test]
    fn a_line_that_is_cut_or_foreign_is_none() {
        let whole = format!("42 (sleep) S 7 40 41 {TAIL}");
        let needed = whole.find(" 3321").expect("the start time") + " 3321".len();
        for length in 0..whole.len() {
            let parsed = Stat::parse(&whole[..length]);
            if length < needed - 3 {
                assert_eq!(parsed, None, "{:?}", &whole[..length]);
            }
        }
        for foreign in ["", "(", ")(", "x (y) S 1", "1 (x) S -1 2 3", "1 (x)"] {
            assert_eq!(Stat::parse(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn this_process_its_threads_and_a_child_are_found() {
        let host = Host::real();
        let me = std::process::id();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep is there");
        let began = start_time(&host, child.id()).expect("it runs");
        assert!(alive(&host, child.id(), began) && !alive(&host, child.id(), began + 1));
        assert!(children(&host, me).expect("/proc").contains(&child.id()));
        let tree = tree(&host, me).expect("/proc");
        assert_eq!(tree[0], me);
        assert!(tree.contains(&child.id()));
        assert!(tasks(&host, me).expect("/proc").contains(&me));
        assert_eq!(task_stat(&host, me, me).expect("/proc").start_time, start_time(&host, me).expect("/proc"));
        child.kill().expect("it is ours");
        // A zombie until it is waited for: it is still listed and yet not alive.
        while alive(&host, child.id(), began) {
            std::thread::yield_now();
        }
        child.wait().expect("it is ours");
        assert!(stat(&host, child.id()).is_err());
    }

    #[test]
    fn a_loop_of_parents_ends() {
        let of = |pid, ppid| Stat { pid, ppid, ..Stat::parse(&format!("1 (x) S 0 0 0 {TAIL}")).expect("whole") };
        let all = [of(1, 0), of(2, 3), of(3, 2), of(4, 2), of(5, 1)];
        assert_eq!(descendants(&all, &[2]), [3, 4]);
        assert_eq!(descendants(&all, &[1]), [5]);
        assert_eq!(descendants(&all, &[9]), [0_u32; 0]);
    }
}
