//! A whole host of hostile files: the first byte of each piece says which file it is. Survey and cases never panic, and
//! a host of which nothing is known is never called exposed.
#![no_main]

use holdup_host::fake::MemoryFs;
use holdup_survey::survey;
use libfuzzer_sys::fuzz_target;

const FILES: &[&str] = &[
    "/proc/sys/kernel/osrelease",
    "/proc/version",
    "/proc/cmdline",
    "/boot/config-7.0.1",
    "/sys/kernel/debug/sched/preempt",
    "/sys/kernel/debug/sched/features",
    "/sys/kernel/debug/sched/migration_cost_ns",
    "/sys/kernel/security/lockdown",
    "/proc/self/auxv",
    "/proc/self/cgroup",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/stat",
    "/sys/devices/system/cpu/online",
    "/proc/7/stat",
    "/proc/7/comm",
    "/proc/7/cmdline",
    "/proc/7/smaps",
    "/proc/7/status",
    "/srv/pg/postgresql.conf",
    "/srv/pg/PG_VERSION",
    "/srv/pg/postmaster.opts",
];

fuzz_target!(|data: &[u8]| {
    let fs = MemoryFs::of(&[("/proc/sys/kernel/osrelease", "7.0.1\n"), ("/proc/7/cmdline", "postgres\0-D\0/srv/pg\0")]);
    for piece in data.split(|b| *b == 0xff) {
        if let [file, content @ ..] = piece {
            fs.put(FILES[usize::from(*file) % FILES.len()], content);
        }
    }
    let survey = survey(&fs.host(), None, None);
    for finding in holdup_analysis::check(&survey) {
        assert!(!finding.reasons.is_empty());
    }
});
