//! Counters of every thread of the process trees under test.

use crate::reading::{Reader, WindowStats, increase};
use crate::{CollectContext, Subject};
use holdup_host::process::{Stat, descendants};
use holdup_model::EvidenceItem;
use std::collections::BTreeMap;

/// Which thread: role, pid, the process's start time (so that a pid that is used again is another task), tid.
pub(crate) type Task = (String, u32, u64, u32);

/// Counters of each task.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counters<const N: usize> {
    by_task: BTreeMap<Task, [u64; N]>,
    unreadable: u64,
    /// Why the last unreadable one could not be read, for the case that none can.
    last_error: Option<String>,
}

/// The source of collectors that read the processes under test.
pub(crate) fn subjects(context: &CollectContext) -> Result<Vec<Subject>, String> {
    Ok(context.subjects.clone())
}

/// The stat line of every process of the host.
pub(crate) fn of_host(reader: &mut Reader<'_>) -> Result<Vec<Stat>, String> {
    let pids: Vec<u32> = reader.list("/proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    let lines = pids.iter().filter_map(|pid| reader.text(&format!("/proc/{pid}/stat")).ok());
    Ok(lines.filter_map(|line| Stat::parse(&line)).collect())
}

/// Every process of the trees, as (role, its stat line).
pub(crate) fn processes(reader: &mut Reader<'_>, subjects: &[Subject]) -> Result<Vec<(String, Stat)>, String> {
    members(&of_host(reader)?, subjects)
}

/// Those of the trees among all processes, as (role, its stat line).
pub(crate) fn members(all: &[Stat], subjects: &[Subject]) -> Result<Vec<(String, Stat)>, String> {
    let mut found = Vec::new();
    for subject in subjects {
        let members = descendants(all, &[subject.pid]);
        found.extend(
            all.iter()
                .filter(|s| s.pid == subject.pid || members.binary_search(&s.pid).is_ok())
                .map(|s| (subject.role.clone(), s.clone())),
        );
    }
    if found.is_empty() {
        return Err("no process under test is left".to_owned());
    }
    Ok(found)
}

/// `N` counters of each process, from its stat line.
pub(crate) fn of_processes<const N: usize>(
    reader: &mut Reader<'_>,
    subjects: &[Subject],
    counts: fn(&Stat) -> [u64; N],
) -> Result<Counters<N>, String> {
    let all = processes(reader, subjects)?;
    let by_task = all.into_iter().map(|(role, s)| ((role, s.pid, s.start_time, s.pid), counts(&s))).collect();
    Ok(Counters { by_task, unreadable: 0, last_error: None })
}

/// Reads `N` counters of each thread from one of its files under /proc.
pub(crate) fn read<const N: usize>(
    reader: &mut Reader<'_>,
    subjects: &[Subject],
    file: &str,
    parse: fn(&str) -> Option<[u64; N]>,
) -> Result<Counters<N>, String> {
    let mut counters = Counters { by_task: BTreeMap::new(), unreadable: 0, last_error: None };
    for (role, process) in processes(reader, subjects)? {
        let pid = process.pid;
        // A process that ended since is one that vanished: the comparison counts it.
        let tids = reader.list(&format!("/proc/{pid}/task")).unwrap_or_default();
        for tid in tids.iter().filter_map(|t| t.parse::<u32>().ok()) {
            let path = format!("/proc/{pid}/task/{tid}/{file}");
            match reader.text(&path).and_then(|text| parse(&text).ok_or_else(|| format!("{path} has another form"))) {
                Ok(counts) => {
                    counters.by_task.insert((role.clone(), pid, process.start_time, tid), counts);
                }
                Err(why) => {
                    counters.unreadable += 1;
                    counters.last_error = Some(why);
                }
            }
        }
    }
    match (counters.by_task.is_empty(), counters.last_error.take()) {
        (true, Some(why)) => Err(why),
        (_, last_error) => Ok(Counters { last_error, ..counters }),
    }
}

/// True if a file of this process under /proc has the form that a collector reads.
pub(crate) fn probe_own(context: &CollectContext, file: &str, is_understood: fn(&str) -> bool) -> Result<(), String> {
    let path = format!("/proc/self/{file}");
    let text = context.host.read_text(&path).map_err(|e| e.to_string())?;
    if is_understood(&text) { Ok(()) } else { Err(format!("{path} has another form on this kernel")) }
}

/// The increase of each role. A task that is new counts from zero, because it began inside the window; what one
/// that vanished did since the first reading cannot be known, and is counted as lost.
pub(crate) fn compare<const N: usize>(
    before: &Counters<N>,
    after: &Counters<N>,
    stats: &mut WindowStats,
) -> BTreeMap<String, [u64; N]> {
    let mut sums: BTreeMap<String, [u64; N]> = BTreeMap::new();
    let (mut began, mut backwards) = (0_u64, 0_u64);
    for (task, counts) in &after.by_task {
        let zero = [0; N];
        let from = before.by_task.get(task).unwrap_or_else(|| {
            began += 1;
            &zero
        });
        let sum = sums.entry(task.0.clone()).or_insert([0; N]);
        for index in 0..N {
            match counts[index].checked_sub(from[index]) {
                Some(more) => sum[index] += more,
                None => backwards += 1,
            }
        }
    }
    let vanished = before.by_task.keys().filter(|task| !after.by_task.contains_key(*task)).count() as u64;
    if began > 0 {
        stats.notes.push(format!("{began} tasks began inside the window and count from their begin"));
    }
    if vanished > 0 {
        stats.notes.push(format!("{vanished} tasks ended inside the window; what they did in it is not known"));
    }
    if backwards > 0 {
        stats.notes.push(format!("{backwards} counters ran backwards and were left out"));
    }
    let unreadable = before.unreadable.max(after.unreadable);
    if unreadable > 0 {
        stats.notes.push(format!("{unreadable} tasks could not be read"));
    }
    stats.lost += vanished + backwards + unreadable;
    sums
}

/// Two counters of each task, and the same of the whole host as one number.
pub(crate) type WithHost = (Counters<2>, Option<u64>);

/// A number of the whole host: a file of /proc, and the first word of the number's line.
pub(crate) type HostLine = (&'static str, &'static str);

/// The number of a line.
pub(crate) fn host_total(reader: &mut Reader<'_>, (path, word): HostLine) -> Option<u64> {
    let text = reader.text(path).ok()?;
    text.lines().find_map(|l| l.strip_prefix(word)?.strip_prefix(' '))?.trim().parse().ok()
}

/// The increases under these names: both by role, then that of the host.
pub(crate) fn compare_with_host(
    before: &WithHost,
    after: &WithHost,
    [first, second, host]: [&str; 3],
    (path, word): HostLine,
) -> WindowStats {
    let mut stats = WindowStats::default();
    for (role, sum) in compare(&before.0, &after.0, &mut stats) {
        for (name, count) in [first, second].into_iter().zip(sum) {
            stats.items.push(EvidenceItem::labelled(name, &role, "1", count as f64));
        }
    }
    stats.items.push(match before.1.zip(after.1).and_then(|(b, a)| increase(b, a)) {
        Some(count) => EvidenceItem::new(host, "1", count as f64),
        None => EvidenceItem::absent(host, "1", format!("{path} has no usable line `{word}`")),
    });
    stats
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(tasks: &[(&str, u32, u64, [u64; 1])]) -> Counters<1> {
        Counters {
            by_task: tasks.iter().map(|(role, pid, start, n)| (((*role).to_owned(), *pid, *start, *pid), *n)).collect(),
            unreadable: 0,
            last_error: None,
        }
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_task() {
        let mut stats = WindowStats::default();
        let before = counters(&[("server", 7, 100, [50])]);
        let after = counters(&[("server", 7, 900, [3])]);
        let sums = compare(&before, &after, &mut stats);
        assert_eq!(sums["server"], [3]);
        assert_eq!(stats.lost, 1, "the first one vanished: {:?}", stats.notes);
    }

    #[test]
    fn a_counter_that_ran_backwards_is_lost_and_not_negative() {
        let mut stats = WindowStats::default();
        let sums = compare(&counters(&[("a", 1, 1, [9])]), &counters(&[("a", 1, 1, [4])]), &mut stats);
        assert_eq!((sums["a"], stats.lost), ([0], 1));
    }
}
