//! Where CPU time went: the host's split, and the time of the processes under test.

use crate::Subject;
use crate::reading::{Produces, Reader, TwoReadings, WindowStats, increase};
use crate::tasks::{self, Counters};
use holdup_host::process::ticks_per_second;
use holdup_model::{EvidenceItem, Meta};
use std::time::Duration;
pub(crate) static CPU: &TwoReadings<Vec<Subject>, Reading> = &TwoReadings {
    meta: &META,
    produces: PRODUCES,
    probe: |context| {
        let text = context.host.read_text("/proc/stat").map_err(|e| e.to_string())?;
        host_line(&text).map(drop)
    },
    remedy: None,
    open: tasks::subjects,
    read: |subjects, reader| read(subjects, reader),
    compare,
};

static META: Meta = Meta {
    id: "cpu",
    summary: "user, system, interrupt and stolen CPU time, and that of the server",
    docs: "The host's split comes from the first line of /proc/stat, as shares of all CPU time between two readings. \
           Time of a guest is inside user time there; it is taken out and reported as `guest`. The processes under test are measured in CPUs: \
           2.0 is two CPUs used in full. Both are counted by the kernel in ticks (usually 10 ms) and, without \
           CONFIG_VIRT_CPU_ACCOUNTING, the split of user and system is sampled at the tick. What a process did that \
           ended inside the window is not known.",
    references: &[
        "kernel/sched/cputime.c:account_process_tick (v6.18)",
        "fs/proc/stat.c:show_stat (v6.18)",
        "proc(5): /proc/stat, /proc/pid/stat",
    ],
};

const PRODUCES: Produces = &[
    (
        "cpu_share",
        "share",
        "share of all CPU time, by kind: user, nice, system, irq, softirq, steal, guest, idle, iowait",
    ),
    ("cpu_used", "cpus", "CPUs used by the processes under test, by role and user or system"),
];

const KINDS: [&str; 9] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest"];

#[derive(Clone)]
pub(crate) struct Reading {
    host: Vec<u64>,
    /// User and system ticks.
    tasks: Result<Counters<2>, String>,
}

fn host_line(text: &str) -> Result<Vec<u64>, String> {
    let line = text.lines().find_map(|l| l.strip_prefix("cpu ")).ok_or("/proc/stat has no line `cpu`")?;
    let mut ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|w| w.parse().ok()).collect();
    if ticks.len() < 4 {
        return Err(format!("the line `cpu` of /proc/stat has {} numbers", ticks.len()));
    }
    // Time of guests is counted in user and nice as well (kernel/sched/cputime.c:account_guest_time).
    let guest = (ticks.get(8).copied().unwrap_or(0), ticks.get(9).copied().unwrap_or(0));
    ticks[0] = ticks[0].saturating_sub(guest.0);
    ticks[1] = ticks[1].saturating_sub(guest.1);
    ticks.truncate(8);
    if ticks.len() == 8 {
        ticks.push(guest.0 + guest.1);
    }
    Ok(ticks)
}

fn read(subjects: &[Subject], reader: &mut Reader<'_>) -> Result<Reading, String> {
    let host = host_line(&reader.text("/proc/stat")?)?;
    let tasks = tasks::of_processes(reader, subjects, |s| [s.user_ticks, s.system_ticks]);
    Ok(Reading { host, tasks })
}

fn compare(before: &Reading, after: &Reading, elapsed: Duration) -> WindowStats {
    let mut stats = WindowStats::default();
    host_split(before, after, &mut stats);
    match (&before.tasks, &after.tasks) {
        (Ok(before), Ok(after)) => used(before, after, elapsed, &mut stats),
        (Err(why), _) | (_, Err(why)) => stats.items.push(EvidenceItem::absent("cpu_used", "cpus", why)),
    }
    stats
}

fn host_split(before: &Reading, after: &Reading, stats: &mut WindowStats) {
    // The kernel's idle and iowait may run backwards by a tick; such a kind is absent for this window.
    let ticks: Vec<Option<u64>> = before.host.iter().zip(&after.host).map(|(b, a)| increase(*b, *a)).collect();
    let total: u64 = ticks.iter().flatten().sum();
    for (kind, ticks) in KINDS.iter().zip(&ticks) {
        match ticks {
            Some(ticks) if total > 0 => {
                stats.items.push(EvidenceItem::labelled("cpu_share", *kind, "share", *ticks as f64 / total as f64));
            }
            _ => stats.lost += 1,
        }
    }
    if total == 0 {
        stats.items.push(EvidenceItem::absent("cpu_share", "share", "no tick passed between the two readings"));
    }
}

fn used(before: &Counters<2>, after: &Counters<2>, elapsed: Duration, stats: &mut WindowStats) {
    let ticks_of_window = elapsed.as_secs_f64() * ticks_per_second() as f64;
    for (role, ticks) in tasks::compare(before, after, stats) {
        for (kind, ticks) in ["user", "system"].iter().zip(ticks) {
            let cpus = ticks as f64 / ticks_of_window;
            stats.items.push(EvidenceItem::labelled("cpu_used", format!("{role} {kind}"), "cpus", cpus));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::host_line;

    #[test]
    fn the_line_of_every_kernel_is_read_and_garbage_is_an_error() {
        for (text, expected) in [
            ("cpu  10 20 30 40\n", Ok(vec![10, 20, 30, 40])),
            ("cpu  10 20 30 40 50 60 70 80 4 5\ncpu0 1\n", Ok(vec![6, 15, 30, 40, 50, 60, 70, 80, 9])),
            ("cpu  1 2 x\n", Err("the line `cpu` of /proc/stat has 2 numbers".to_owned())),
            ("intr 1\n", Err("/proc/stat has no line `cpu`".to_owned())),
            ("", Err("/proc/stat has no line `cpu`".to_owned())),
        ] {
            assert_eq!(host_line(text), expected, "{text:?}");
        }
    }
}
