//! Which processes are postmasters, and where their files are.

use super::command_line::CommandLine;
use super::conf::absolute;
use super::files::{self, Late};
use super::{AS_OWNER, Asked};
use holdup_host::process::{self, Stat};
use holdup_host::{Host, HostError};
use holdup_model::survey::Reading;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;

/// Names of the server's program, as /proc/PID/stat has them.
const PROGRAMS: [&str; 3] = ["postgres", "postmaster", "edb-postgres"];

/// What every title of a process of a server begins with, but for the postmaster's own
/// (`src/backend/utils/misc/ps_status.c:init_ps_display`).
pub(super) const TITLE: &str = "postgres: ";

/// Servers that are looked at; the rest is counted.
pub(super) const MOST_SERVERS: usize = 64;
/// Processes of a captured tree that are looked at one by one.
const MOST_IN_TREE: usize = 20_000;
/// Bytes of all lists of children.
const MOST_OF_LISTS: usize = 4 << 20;
/// Bytes of a command line: no server has a longer one.
const LONGEST_COMMAND_LINE: usize = 64 << 10;

/// The processes that can be seen.
pub(super) struct Processes {
    /// Sorted by pid, but for those in `listed`.
    pub(super) all: Vec<Stat>,
    /// Children that a server's own list names; they are not looked at one by one.
    listed: BTreeMap<u32, BTreeSet<u32>>,
    /// Why there may be others.
    pub(super) hidden: Option<String>,
    /// Users whose files took too long.
    pub(super) late: Late,
    /// Servers that are too many to be looked at.
    pub(super) passed_by: Cell<usize>,
}

/// A place of a server: its postmaster, or at least its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundServer {
    /// The postmaster.
    pub(super) pid: Reading<u32>,
    /// The data directory, as the server sees it.
    pub(super) data_directory: Reading<String>,
    /// The command line, and where it stands.
    pub(super) command_line: Reading<CommandLine>,
    /// What the paths of the server begin with on this host: empty, or `/proc/PID/root` where it has other mounts.
    pub(super) prefix: String,
}

/// Looks at all processes. The many children of a server are taken from the list that it has where the kernel keeps one
/// (CONFIG_PROC_CHILDREN); those that the list leaves out because one of them ended meanwhile are met one by one.
pub(super) fn processes(host: &Host) -> Result<Processes, HostError> {
    let mut pids: Vec<u32> = host.list("/proc")?.iter().filter_map(|name| name.parse().ok()).collect();
    pids.sort_unstable();
    let (mut all, mut denied) = (Vec::new(), 0);
    let mut listed: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    let mut known: BTreeSet<u32> = BTreeSet::new();
    let (mut room, mut unseen) = (MOST_OF_LISTS, 0);
    for pid in pids {
        if known.contains(&pid) {
            continue;
        }
        if !host.is_live() && all.len() == MOST_IN_TREE {
            unseen += 1;
            continue;
        }
        match process::stat(host, pid) {
            Ok(stat) => {
                if PROGRAMS.contains(&stat.comm.as_str()) && room > 0 {
                    let path = format!("/proc/{pid}/task/{pid}/children");
                    let list = host.read_head(&path, room).unwrap_or_default();
                    room -= list.len().min(room);
                    let children: BTreeSet<u32> =
                        list.split_ascii_whitespace().filter_map(|c| c.parse().ok()).collect();
                    known.extend(&children);
                    listed.insert(pid, children);
                }
                all.push(stat);
            }
            Err(e) if e.kind == ErrorKind::PermissionDenied => denied += 1,
            // It has ended, or its line is broken: neither is a server that could be judged.
            Err(_) => {}
        }
    }
    all.sort_unstable_by_key(|stat| stat.pid);
    let hidden = if unseen > 0 {
        Some(format!("{unseen} processes are not looked at: the limit of a captured tree is {MOST_IN_TREE}"))
    } else if denied > 0 {
        Some(format!("{denied} processes of other users may not be looked at (/proc is mounted with hidepid)"))
    } else {
        hides_others(host, &all).then(|| "/proc is mounted with hidepid and hides processes of other users".to_owned())
    };
    Ok(Processes { all, listed, hidden, late: Late::default(), passed_by: Cell::new(0) })
}

fn hides_others(host: &Host, all: &[Stat]) -> bool {
    let sees_init = all.first().is_some_and(|stat| stat.pid == 1);
    !sees_init
        && host.read_text("/proc/mounts").is_ok_and(|mounts| {
            mounts.lines().any(|line| {
                let mut words = line.split(' ').skip(1);
                words.next() == Some("/proc")
                    && words.next() == Some("proc")
                    && words.next().is_some_and(|options| {
                        let mut values = options.split(',').filter_map(|option| option.strip_prefix("hidepid="));
                        values.any(|value| !matches!(value, "0" | "off"))
                    })
            })
        })
}

impl Processes {
    fn of(&self, pid: u32) -> Option<&Stat> {
        self.all.binary_search_by_key(&pid, |stat| stat.pid).ok().map(|at| &self.all[at])
    }

    /// The postmasters: servers by name whose parent is none, that are no orphaned backend and no other use of the
    /// program.
    fn postmasters(&self, host: &Host) -> Vec<u32> {
        let is_server = |stat: &Stat| PROGRAMS.contains(&stat.comm.as_str()) && !matches!(stat.state, 'Z' | 'X');
        let has_server_above = |stat: &Stat| self.of(stat.ppid).is_some_and(is_server);
        let candidates = self.all.iter().filter(|stat| is_server(stat) && !has_server_above(stat));
        candidates
            .map(|stat| stat.pid)
            .filter(|pid| match command_line(host, *pid) {
                Ok(bytes) => !bytes.starts_with(TITLE.as_bytes()) && !CommandLine::of_cmdline(&bytes).is_no_server,
                Err(e) => !e.is_gone() || !host.is_live(),
            })
            .collect()
    }

    /// The children of a server, sorted.
    pub(super) fn children(&self, pid: u32) -> Vec<u32> {
        let mut children = self.listed.get(&pid).cloned().unwrap_or_default();
        children.extend(self.all.iter().filter(|stat| stat.ppid == pid).map(|stat| stat.pid));
        children.into_iter().collect()
    }
}

/// The servers asked for, or all; `also` is a postmaster that is known from elsewhere and comes first.
pub(super) fn places(
    host: &Host,
    processes: &Processes,
    asked: Option<&Asked>,
    also: Option<u32>,
) -> Reading<Vec<FoundServer>> {
    const SOURCE: &str = "/proc/*/stat";
    let hidden = |known: Reading<Vec<FoundServer>>| known.but(AS_OWNER);
    match asked {
        Some(Asked::Pid(pid)) => hidden(by_pid(host, processes, *pid)),
        Some(Asked::DataDirectory(folder)) => hidden(by_folder(host, processes, folder)),
        None => {
            let mut pids = processes.postmasters(host);
            if let Some(first) = also {
                pids.retain(|pid| *pid != first);
                pids.insert(0, first);
            }
            processes.passed_by.set(pids.len().saturating_sub(MOST_SERVERS));
            pids.truncate(MOST_SERVERS);
            match &processes.hidden {
                Some(why) if pids.is_empty() => hidden(Reading::unknown(SOURCE, why)),
                Some(why) => Reading::found(all(host, &pids), format!("{SOURCE}; {why}")),
                None => Reading::found(all(host, &pids), SOURCE),
            }
        }
    }
}

fn all(host: &Host, pids: &[u32]) -> Vec<FoundServer> {
    pids.iter().map(|pid| place(host, *pid)).collect()
}

/// The server of a pid, which may also be one of its backends.
fn by_pid(host: &Host, processes: &Processes, pid: u32) -> Reading<Vec<FoundServer>> {
    let source = format!("/proc/{pid}/stat");
    let stat = match process::stat(host, pid) {
        Ok(stat) => stat,
        Err(e) if e.is_gone() => return Reading::unknown(source, format!("there is no process {pid} to be seen")),
        Err(e) => return Reading::unknown(source, e.to_string()),
    };
    let postmasters = processes.postmasters(host);
    match [pid, stat.ppid].into_iter().find(|pid| postmasters.contains(pid)) {
        Some(pid) => Reading::found(vec![place(host, pid)], source),
        None => Reading::unknown(source, format!("process {pid} is `{}`, which is no PostgreSQL server", stat.comm)),
    }
}

/// The server of a data directory, which need not run.
fn by_folder(host: &Host, processes: &Processes, folder: &str) -> Reading<Vec<FoundServer>> {
    let folder = absolute(folder, "/");
    let pids = processes.postmasters(host);
    let places = pids.iter().map(|pid| place(host, *pid));
    if let Some(place) = places.into_iter().find(|place| place.data_directory.get() == Some(&folder)) {
        return Reading::found(vec![place], format!("{folder} as the working directory of a postmaster"));
    }
    let lock = format!("{folder}/postmaster.pid");
    let version = format!("{folder}/PG_VERSION");
    let read = files::as_owner_of(host, &processes.late, &folder, |reader| {
        // The folder may be named by another path; the server writes its pid into the first line of this file.
        let pid = reader.text(&lock).ok().and_then(|text| text.lines().next()?.trim().parse::<u32>().ok());
        let version = reader.read(&version).map(|_| ()).map_err(|e| (e.is_gone(), e.to_string()));
        let options = reader.text(&format!("{folder}/postmaster.opts")).map_err(|e| e.to_string());
        (pid, version, options)
    });
    let (written, is_there, options) = match read {
        Ok(read) => read,
        Err(why) => return Reading::unknown(folder, why),
    };
    if let Some(pid) = written.filter(|pid| pids.contains(pid)) {
        return Reading::found(vec![place(host, pid)], lock);
    }
    match is_there {
        Err((true, _)) => Reading::unknown(version, format!("{folder} is no data directory: it has no PG_VERSION")),
        Err((false, why)) => Reading::unknown(version, why),
        Ok(()) => {
            let opts = format!("{folder}/postmaster.opts");
            let command_line = match options {
                Ok(text) => Reading::found(CommandLine::of_opts_file(&text), opts),
                Err(why) => Reading::unknown(opts, why),
            };
            let pid = Reading::unknown(lock, format!("no server runs in {folder}")).but("start the server");
            let data_directory = Reading::found(folder, "as asked for");
            Reading::found(vec![FoundServer { pid, data_directory, command_line, prefix: String::new() }], version)
        }
    }
}

fn command_line(host: &Host, pid: u32) -> Result<Vec<u8>, HostError> {
    host.read_head_bytes(&format!("/proc/{pid}/cmdline"), LONGEST_COMMAND_LINE)
}

impl FoundServer {
    /// The file with the major version.
    pub(super) fn version_file(&self) -> Option<String> {
        self.data_directory.get().map(|folder| format!("{}{folder}/PG_VERSION", self.prefix))
    }
}

/// Where the files of a postmaster are.
fn place(host: &Host, pid: u32) -> FoundServer {
    let cmdline = format!("/proc/{pid}/cmdline");
    let command_line = match command_line(host, pid) {
        Ok(bytes) => Reading::found(CommandLine::of_cmdline(&bytes), cmdline.as_str()),
        Err(e) => Reading::unknown(cmdline.as_str(), e.to_string()),
    };
    let cwd = format!("/proc/{pid}/cwd");
    let named = command_line.get().and_then(|line| line.data_directory.clone());
    // The postmaster changes into its data directory before it does anything else
    // (`src/backend/utils/init/miscinit.c:ChangeToDataDir`), also where -D names the folder of the configuration.
    let data_directory = match (host.read_link(&cwd), named) {
        (Ok(folder), _) => Reading::found(folder, cwd),
        (Err(_), Some(folder)) if folder.starts_with('/') => {
            Reading::found(absolute(&folder, "/"), format!("-D in {cmdline}"))
        }
        (Err(e), _) => Reading::unknown(cwd, e.to_string()).but(AS_OWNER),
    };
    FoundServer {
        pid: Reading::found(pid, format!("/proc/{pid}/stat")),
        data_directory,
        command_line,
        prefix: prefix(host, pid),
    }
}

/// A server in a container has its own mounts: its paths name other files here.
fn prefix(host: &Host, pid: u32) -> String {
    let mounts = |pid: &str| host.read_link(&format!("/proc/{pid}/ns/mnt")).ok();
    match (mounts(&pid.to_string()), mounts("self")) {
        (Some(its), Some(ours)) if its != ours => format!("/proc/{pid}/root"),
        _ => String::new(),
    }
}
