//! What a record watches: processes that run already.

use holdup_evidence::Subject;
use holdup_host::postgres::PostgresControl;
use holdup_host::process::{self, Stat};
use holdup_host::{Host, HostError};
use holdup_model::Problem;
use holdup_postgres::External;
use std::collections::{BTreeMap, BTreeSet};

/// The length of a task's name in the kernel without the NUL (TASK_COMM_LEN, include/linux/sched.h v6.18).
const NAME_BYTES: usize = 15;
/// How deep sub-groups of a control group are followed.
const DEEPEST: u32 = 16;

/// Processes to watch. Numbers are those of this holdup's own /proc, also for processes in containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Watching {
    /// These processes, each with when it began, and their descendants.
    Pids(Vec<(u32, u64)>),
    /// All processes of this name, looked for again at each window, and their descendants.
    Comm(String),
    /// All processes of this control group and those below it, looked for again at each window. As (its folder, as given).
    Cgroup(String, String),
    /// A PostgreSQL server, by its postmaster and when that began.
    Server(u32, u64),
}

impl Watching {
    /// Processes by their numbers.
    pub fn pids(host: &Host, pids: &[u32]) -> Result<Self, Problem> {
        let began = pids.iter().map(|pid| Ok((*pid, began(host, *pid, "--pid")?)));
        began.collect::<Result<_, Problem>>().map(Watching::Pids)
    }

    /// All processes of a name. A name is cut to the 15 bytes that the kernel keeps.
    pub fn comm(host: &Host, name: &str) -> Result<Self, Problem> {
        let kept = name.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= NAME_BYTES).last();
        let watching = Watching::Comm(name[..kept.unwrap_or(0)].to_owned());
        watching.subjects(host).map_err(|why| {
            Problem::usage(format!("--comm {name}"), why).hint("`ps -e -o pid,comm` lists the names of processes")
        })?;
        Ok(watching)
    }

    /// All processes of a control group: its folder, or its path as in /proc/PID/cgroup.
    ///
    /// # Errors
    /// When there is no such group, or no process in it.
    pub fn cgroup(host: &Host, path: &str) -> Result<Self, Problem> {
        let problem = |why: String| {
            Problem::usage(format!("--cgroup {path}"), why)
                .hint("give a folder below /sys/fs/cgroup, or the path in /proc/PID/cgroup")
        };
        let bare = path.trim_end_matches('/');
        let below = format!("/sys/fs/cgroup/{}", bare.trim_start_matches('/'));
        let folders = [bare.to_owned(), below];
        let folder = folders
            .into_iter()
            .filter(|folder| folder.starts_with("/sys/fs/cgroup"))
            .find(|folder| host.exists(&format!("{folder}/cgroup.procs")))
            .ok_or_else(|| problem("there is no such control group".to_owned()))?;
        let watching = Watching::Cgroup(folder, path.to_owned());
        watching.subjects(host).map_err(problem)?;
        Ok(watching)
    }

    /// A PostgreSQL server: `auto` for the only one that runs here, the pid of its postmaster or a backend, or a
    /// connection. With it comes the connection for collectors that ask the server, where there is one.
    ///
    /// # Errors
    /// When it cannot be reached, several or none run, or its processes cannot be seen from here.
    pub fn postgres(host: &Host, named: &str) -> Result<(Self, Option<String>), Problem> {
        let (postmaster, connection) = if named == "auto" {
            (only_postmaster(host)?, None)
        } else if let Ok(pid) = named.parse() {
            began(host, pid, "--pg")?;
            (postmaster_above(host, pid), None)
        } else {
            let server = External::connect(host, named)?;
            let pid = server.postmaster_pid().ok_or_else(|| {
                Problem::host("--pg", "the server's processes cannot be seen from here").hint(
                    "they run on another host or in a container; where this /proc shows them, give --pid POSTMASTER",
                )
            })?;
            (pid, Some(server.connection_string()))
        };
        Ok((Watching::Server(postmaster, began(host, postmaster, "--pg")?), connection))
    }

    /// What a sentence calls it: `process 42`, `all processes named postgres`.
    pub fn in_words(&self) -> String {
        match self {
            Watching::Pids(pids) => {
                let numbers: Vec<String> = pids.iter().map(|(pid, _)| pid.to_string()).collect();
                format!("process {}", numbers.join(", "))
            }
            Watching::Comm(name) => format!("all processes named {name}"),
            Watching::Cgroup(_, given) => format!("control group {given}"),
            Watching::Server(pid, _) => format!("the PostgreSQL server with postmaster {pid}"),
        }
    }

    /// The roots of the process trees that are there now. No root lies below another, and holdup itself is never among
    /// them.
    pub fn subjects(&self, host: &Host) -> Result<Vec<Subject>, String> {
        let role = if matches!(self, Watching::Server(..)) { "server" } else { "watched" };
        let pids = match self {
            Watching::Pids(known) => alive(host, known),
            Watching::Server(pid, began) => alive(host, &[(*pid, *began)]),
            Watching::Comm(name) => {
                let all = process::all(host).map_err(|e| e.to_string())?;
                roots(&all, |s| s.comm == *name && !matches!(s.state, 'Z' | 'X'))
            }
            Watching::Cgroup(folder, _) => {
                let mut members = BTreeSet::new();
                gather(host, folder, DEEPEST, &mut members).map_err(|e| e.to_string())?;
                let all = process::all(host).map_err(|e| e.to_string())?;
                roots(&all, |s| members.contains(&s.pid))
            }
        };
        if pids.is_empty() {
            return Err(match self {
                Watching::Pids(_) => "the process ended".to_owned(),
                Watching::Server(..) => "the server ended".to_owned(),
                Watching::Comm(_) => "no such process runs".to_owned(),
                Watching::Cgroup(..) => "no process that can be seen from here is in it".to_owned(),
            });
        }
        Ok(pids.into_iter().map(|pid| Subject { role: role.to_owned(), pid }).collect())
    }
}

fn began(host: &Host, pid: u32, option: &str) -> Result<u64, Problem> {
    let hint =
        "`ps -e` lists the processes that can be seen from here; one in another PID namespace has another number there";
    let problem = |why: String| Problem::usage(format!("{option} {pid}"), why).hint(hint);
    let stat = process::stat(host, pid).map_err(|e| match e.is_gone() {
        true => problem("there is no such process".to_owned()),
        false => problem(e.to_string()),
    })?;
    if matches!(stat.state, 'Z' | 'X') {
        return Err(problem("the process has ended and waits for its parent to look".to_owned()));
    }
    Ok(stat.start_time)
}

fn alive(host: &Host, known: &[(u32, u64)]) -> Vec<u32> {
    known.iter().filter(|(pid, began)| process::alive(host, *pid, *began)).map(|(pid, _)| *pid).collect()
}

/// The processes that are wanted and have no wanted one above them; never holdup itself.
fn roots(all: &[Stat], wanted: impl Fn(&Stat) -> bool) -> Vec<u32> {
    let parents: BTreeMap<u32, u32> = all.iter().map(|s| (s.pid, s.ppid)).collect();
    let own = std::process::id();
    let chosen: BTreeSet<u32> = all.iter().filter(|s| s.pid != own && wanted(s)).map(|s| s.pid).collect();
    let is_below = |pid: u32| {
        let mut above = parents.get(&pid).copied();
        // The list is not one instant: a pid that was used again must not make an endless loop.
        for _ in 0..all.len() {
            match above {
                Some(parent) if chosen.contains(&parent) => return true,
                Some(parent) => above = parents.get(&parent).copied().filter(|p| *p != parent),
                None => return false,
            }
        }
        false
    };
    chosen.iter().copied().filter(|pid| !is_below(*pid)).collect()
}

/// The processes of a control group and of those below it. Those of other PID namespaces are listed as 0.
fn gather(host: &Host, folder: &str, deeper: u32, into: &mut BTreeSet<u32>) -> Result<(), HostError> {
    let text = host.read_text(&format!("{folder}/cgroup.procs"))?;
    into.extend(text.lines().filter_map(|line| line.trim().parse::<u32>().ok()).filter(|pid| *pid > 0));
    if deeper == 0 {
        return Ok(());
    }
    for name in host.list(folder)? {
        let below = format!("{folder}/{name}");
        // Files of the controllers have a dot in their names; groups may have one too.
        if host.exists(&format!("{below}/cgroup.procs")) {
            match gather(host, &below, deeper - 1, into) {
                Err(e) if !e.is_gone() => return Err(e),
                _ => {}
            }
        }
    }
    Ok(())
}

fn is_postgres(stat: &Stat) -> bool {
    stat.comm.starts_with("postgres") || stat.comm == "postmaster"
}

/// The postmaster above a process of a server: the last parent that is one, too.
fn postmaster_above(host: &Host, pid: u32) -> u32 {
    let mut at = pid;
    while let Some(parent) = process::stat(host, at).ok().and_then(|s| process::stat(host, s.ppid).ok()) {
        if !is_postgres(&parent) || parent.pid == at {
            break;
        }
        at = parent.pid;
    }
    at
}

fn only_postmaster(host: &Host) -> Result<u32, Problem> {
    let all = process::all(host).map_err(|e| Problem::host("--pg auto", e.to_string()))?;
    let found = roots(&all, |s| is_postgres(s) && s.state != 'Z');
    match found.as_slice() {
        [one] => Ok(*one),
        [] => Err(Problem::usage("--pg auto", "no PostgreSQL server can be seen from here")
            .hint("give --pg URL or --pid PID")),
        several => {
            let pids: Vec<String> = several.iter().map(u32::to_string).collect();
            Err(Problem::usage("--pg auto", format!("{} PostgreSQL servers run here", several.len()))
                .hint(format!("give one of them: --pg {}", pids.join(", --pg "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    fn stat(pid: u32, comm: &str, ppid: u32) -> (String, String) {
        let tail = "0 0 0 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 77 0 0";
        let tail = tail.strip_prefix("0 ").unwrap_or(tail);
        (format!("/proc/{pid}/stat"), format!("{pid} ({comm}) S {ppid} {tail}\n"))
    }

    fn host(processes: &[(u32, &str, u32)], more: &[(&str, &str)]) -> Host {
        let mut files: Vec<(String, String)> = processes.iter().map(|(p, c, pp)| stat(*p, c, *pp)).collect();
        files.extend(more.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        MemoryFs::of(&files).host()
    }

    fn pids(watching: &Watching, host: &Host) -> Vec<u32> {
        watching.subjects(host).expect("some run").into_iter().map(|s| s.pid).collect()
    }

    const SERVER: &[(u32, &str, u32)] = &[
        (1, "init", 0),
        (10, "postgres", 1),
        (11, "postgres", 10),
        (12, "postgres", 10),
        (20, "bash", 1),
        (21, "a b)", 20),
    ];

    #[test]
    fn a_tree_is_watched_once() {
        let host = host(SERVER, &[]);
        assert_eq!(pids(&Watching::comm(&host, "postgres").expect("they run"), &host), [10]);
        assert_eq!(pids(&Watching::comm(&host, "a b)").expect("it runs"), &host), [21]);
        assert!(Watching::comm(&host, "no-such-name").expect_err("none").why.contains("no such process"));
        assert!(Watching::comm(&host, "").is_err());
    }

    #[test]
    fn names_are_cut_as_the_kernel_cuts_them() {
        let host = host(&[(7, "a-very-long-nam", 1)], &[]);
        assert_eq!(pids(&Watching::comm(&host, "a-very-long-name-indeed").expect("it runs"), &host), [7]);
        assert!(Watching::comm(&host, "ééééééééééééé").is_err(), "cut between characters, not inside");
    }

    #[test]
    fn a_pid_that_is_used_again_is_not_watched() {
        let first = host(SERVER, &[]);
        let watching = Watching::pids(&first, &[12, 20]).expect("they run");
        assert_eq!(pids(&watching, &first), [12, 20]);
        let later = host(
            &[(1, "init", 0)],
            &[("/proc/12/stat", "12 (other) S 1 0 0 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 99 0 0\n")],
        );
        assert!(watching.subjects(&later).expect_err("gone").contains("ended"));
        assert!(Watching::pids(&first, &[4_000_000]).expect_err("none").why.contains("no such process"));
        let zombie = host(&[], &[("/proc/5/stat", "5 (z) Z 1 0 0 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 99 0 0\n")]);
        assert!(Watching::pids(&zombie, &[5]).expect_err("a zombie").why.contains("has ended"));
    }

    #[test]
    fn a_control_group_has_its_sub_groups() {
        let host = host(
            SERVER,
            &[
                ("/sys/fs/cgroup/db/cgroup.procs", "10\n0\n"),
                ("/sys/fs/cgroup/db/cpu.max", "max\n"),
                ("/sys/fs/cgroup/db/sub.slice/cgroup.procs", "20\n"),
                ("/sys/fs/cgroup/empty/cgroup.procs", "0\n"),
            ],
        );
        for path in ["/db", "db/", "/sys/fs/cgroup/db"] {
            assert_eq!(pids(&Watching::cgroup(&host, path).expect(path), &host), [10, 20], "{path}");
        }
        assert!(Watching::cgroup(&host, "/empty").expect_err("empty").why.contains("no process"));
        assert!(Watching::cgroup(&host, "/none").expect_err("none").why.contains("no such control group"));
        assert!(Watching::cgroup(&host, "/etc").is_err());
    }

    #[test]
    fn a_server_is_found_from_any_of_its_processes() {
        let one = host(SERVER, &[]);
        for named in ["auto", "10", "12"] {
            let (watching, connection) = Watching::postgres(&one, named).expect(named);
            assert_eq!((pids(&watching, &one), connection), (vec![10], None), "{named}");
            assert_eq!(watching.subjects(&one).expect("it runs")[0].role, "server");
        }
        let two = host(&[(1, "init", 0), (10, "postgres", 1), (30, "postgres", 1)], &[]);
        assert!(Watching::postgres(&two, "auto").expect_err("two").hint.expect("a hint").contains("--pg 30"));
        let none = host(&[(1, "init", 0)], &[]);
        assert!(Watching::postgres(&none, "auto").is_err());
    }
}
