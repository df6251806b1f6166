//! Facts about a server, with where they were read.

use super::private_dir::start_time;
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::{Fact, Problem};
use std::path::Path;

/// The settings that are not at their built-in default; those that only concern our own connection, or
/// follow from where the cluster is, are left out.
const SETTINGS: &str = "SELECT name, current_setting(name), source FROM pg_settings WHERE name = 'shared_buffers' \
                        OR source NOT IN ('default', 'override', 'client', 'session') ORDER BY name COLLATE \"C\"";

/// Those that say where the cluster is: they differ from run to run and mean nothing.
const PLACES: [&str; 2] = ["unix_socket_directories", "application_name"];

/// Facts about the server: version, process, huge pages, settings in force.
pub fn server(host: &Host, control: &dyn PostgresControl) -> Vec<Fact> {
    let mut facts = Vec::new();
    let pid = control.postmaster_pid();
    match pid.map(|pid| (pid, start_time(host, pid))) {
        Some((pid, Some(started))) => {
            let source = format!("/proc/{pid}/stat");
            facts.push(Fact::read("postgres.postmaster", format!("{pid} started {started}"), source).steady());
        }
        // Its end is what a steady fact must show, so it stands under the same key.
        Some((pid, None)) => {
            facts
                .push(Fact::absent("postgres.postmaster", format!("/proc/{pid}/stat"), "the process is gone").steady());
        }
        None => {
            let started = control.query("SELECT pg_postmaster_start_time()").map(|rows| first(&rows));
            facts.push(from_sql("postgres.postmaster", "pg_postmaster_start_time()", started).steady());
        }
    }
    match control.query(SETTINGS) {
        Ok(rows) => facts.extend(rows.iter().filter_map(|row| setting(row))),
        Err(problem) => facts.push(Fact::absent("postgres.shared_buffers", "pg_settings", problem.why)),
    }
    facts.push(huge_pages(host, control, pid));
    facts
}

fn setting(row: &[Option<String>]) -> Option<Fact> {
    let [Some(name), Some(value), Some(source)] = row else { return None };
    if PLACES.contains(&name.as_str()) {
        return None;
    }
    Some(Fact::read(format!("postgres.{name}"), value.as_str(), format!("pg_settings ({source})")).steady())
}

fn first(rows: &[Vec<Option<String>>]) -> Option<String> {
    rows.first().and_then(|row| row.first().cloned().flatten())
}

fn from_sql(key: &str, source: &str, value: Result<Option<String>, Problem>) -> Fact {
    match value {
        Ok(Some(value)) => Fact::read(key, value, source),
        Ok(None) => Fact::absent(key, source, "it gave no value"),
        Err(problem) => Fact::absent(key, source, problem.why),
    }
}

/// The first version with `SHOW huge_pages_status`.
const HUGE_PAGES_STATUS: u32 = 170_000;

/// Whether the shared memory really is in huge pages: the setting alone says `try`.
fn huge_pages(host: &Host, control: &dyn PostgresControl, pid: Option<u32>) -> Fact {
    let key = "postgres.huge_pages_in_effect";
    if control.version_num() >= HUGE_PAGES_STATUS {
        let rows = control.query("SHOW huge_pages_status").map(|rows| first(&rows));
        return from_sql(key, "SHOW huge_pages_status", rows).steady();
    }
    let Some(pid) = pid else {
        return Fact::absent(key, "/proc/PID/maps", "the server's process is not to be seen from here");
    };
    let source = format!("/proc/{pid}/maps");
    match host.read_text(&source) {
        Ok(maps) => Fact::read(key, in_huge_pages(&maps), source).steady(),
        Err(e) => Fact::absent(key, source, e.to_string()),
    }
}

/// The kernel names an anonymous shared mapping after its file: hugetlbfs calls it `/anon_hugepage`
/// (mm/mmap.c:ksys_mmap_pgoff, v6.18), shmem calls it `/dev/zero`.
fn in_huge_pages(maps: &str) -> &'static str {
    if maps.lines().any(|line| line.ends_with("/anon_hugepage (deleted)")) { "on" } else { "off" }
}

/// The type of the file system that a folder is on.
pub fn file_system(host: &Host, key: &str, folder: &Path) -> Fact {
    let source = "/proc/self/mountinfo";
    match host.read_text(source) {
        Ok(mounts) => match type_of(&mounts, folder) {
            Some(kind) => Fact::read(key, kind, source),
            None => Fact::absent(key, source, format!("no mount point holds {}", folder.display())),
        },
        Err(e) => Fact::absent(key, source, e.to_string()),
    }
}

/// proc_pid_mountinfo(5): field 5 is the mount point, the type stands after the ` - `.
fn type_of(mounts: &str, folder: &Path) -> Option<String> {
    let mut best: Option<(usize, &str)> = None;
    for line in mounts.lines() {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(point), Some(kind)) = (left.split(' ').nth(4), right.split(' ').next()) else { continue };
        let point = point.replace("\\040", " ");
        // A later mount covers an earlier one on the same place.
        if folder.starts_with(&point) && best.is_none_or(|(length, _)| point.len() >= length) {
            best = Some((point.len(), kind));
        }
    }
    best.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_mount_counts() {
        let mounts = "21 1 254:0 / / rw - ext4 /dev/vda rw\n30 21 0:26 / /dev/shm rw,nosuid shared:4 - tmpfs shm rw\n\
                      31 21 0:27 / /my\\040data rw - xfs /dev/vdb rw\nbroken\n";
        let check = |folder: &str, kind: &str| assert_eq!(type_of(mounts, Path::new(folder)).as_deref(), Some(kind));
        check("/tmp/x", "ext4");
        check("/dev/shm/x", "tmpfs");
        check("/dev/shmx", "ext4");
        check("/my data/pg", "xfs");
        assert_eq!(type_of("", Path::new("/")), None);
    }

    #[test]
    fn huge_pages_are_recognised_by_the_mapping() {
        let small = "7f00-7f10 rw-s 00000000 00:01 1025 /dev/zero (deleted)\n";
        assert_eq!(in_huge_pages(small), "off");
        assert_eq!(in_huge_pages(&small.replace("/dev/zero", "/anon_hugepage")), "on");
    }
}
