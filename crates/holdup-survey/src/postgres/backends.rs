//! The processes of a server: which are client connections, what they do, and what their page tables take.

use super::find::TITLE;
use super::{AS_OWNER, BY_SQL};
use holdup_host::Host;
use holdup_host::meminfo;
use holdup_model::survey::Reading;

/// Processes that are looked at; of more a sample is taken, so that the time does not grow with them.
const MOST_READ: usize = 1000;

/// The most bytes of /proc/PID/status that are read; what is looked for stands in its head.
pub(super) const LONGEST_STATUS: usize = 32 << 10;
/// The most bytes of a title.
const LONGEST_TITLE: usize = 8 << 10;

/// What the title of a process says it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A client connection, and whether it runs something; `None` where the title does not say.
    Client {
        /// True if it runs something: not `idle`, and not `idle in transaction`.
        is_active: Option<bool>,
    },
    /// Any other: checkpointer, autovacuum worker, walsender, a worker of an extension.
    Helper,
}

/// What the processes of a server come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Backends {
    /// Client connections.
    pub(super) clients: Reading<u32>,
    /// Those that run something.
    pub(super) active_clients: Reading<u32>,
    pub(super) page_tables_bytes: Reading<u64>,
    pub(super) page_tables_largest_bytes: Reading<u64>,
}

/// The kind of a process by its title; `None` when it has none yet: it was forked just now and shows the postmaster's
/// command line, or it has ended.
///
/// A client's title is `postgres: [CLUSTER: ]USER DATABASE HOST(PORT)|[local] ACTIVITY`
/// (`src/backend/tcop/backend_startup.c:process_startup_packet` and its like, PostgreSQL 15 to 18). A walsender has
/// `walsender USER HOST(PORT) …`; nothing else has a host.
pub(super) fn kind(title: &str) -> Option<Kind> {
    let rest = title.strip_prefix(TITLE)?;
    let words: Vec<&str> = rest.split(' ').collect();
    let Some(host) = words.iter().position(|word| is_host(word)) else { return Some(Kind::Helper) };
    // The name of the cluster ends with a colon, which a name of a user hardly does.
    let cluster = words[..host].iter().rposition(|word| word.ends_with(':')).map_or(0, |at| at + 1);
    if host < cluster + 2 || words[cluster] == "walsender" {
        return Some(Kind::Helper);
    }
    let activity = words[host + 1..].join(" ");
    let activity = activity.trim();
    let is_active = (!activity.is_empty()).then(|| activity != "idle" && !activity.starts_with("idle in transaction"));
    Some(Kind::Client { is_active })
}

fn is_host(word: &str) -> bool {
    let port = |word: &str| {
        let (host, port) = word.strip_suffix(')')?.rsplit_once('(')?;
        (!host.is_empty() && !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit())).then_some(())
    };
    word == "[local]" || port(word).is_some()
}

/// Looks at the children of a postmaster and at itself. `updates_titles` is `update_process_title`, where it is known.
pub(super) fn look(host: &Host, postmaster: u32, children: &[u32], updates_titles: Option<bool>) -> Backends {
    let sample = sample(children);
    let of = if sample.len() < children.len() {
        format!(", a sample of {} of {} processes", sample.len(), children.len())
    } else {
        String::new()
    };
    let scale = |count: u64| count * children.len().max(1) as u64 / sample.len().max(1) as u64;
    let (clients, active_clients) = clients(host, &sample, updates_titles, &of, &scale);
    let own = page_tables(host, postmaster);
    let (mut sum, mut largest, mut failed) = (0_u64, 0_u64, None);
    for read in in_parallel(&sample, |pid| page_tables(host, pid)) {
        match read {
            Ok(Some(bytes)) => {
                sum = sum.saturating_add(bytes);
                largest = largest.max(bytes);
            }
            Ok(None) => {}
            Err(why) => failed = Some(why),
        }
    }
    let source = format!("VmPTE in /proc/PID/status of {postmaster} and its children{of}");
    let unknown = |why: String| Reading::unknown(source.as_str(), why).but(AS_OWNER);
    let (page_tables_bytes, page_tables_largest_bytes) = match (own, failed) {
        (Err(why), _) | (_, Some(why)) => (unknown(why.clone()), unknown(why)),
        (Ok(None), None) => {
            let why = format!("process {postmaster} shows no VmPTE");
            (unknown(why.clone()), unknown(why))
        }
        (Ok(Some(own)), None) => (
            Reading::found(scale(sum).saturating_add(own), source.as_str()),
            Reading::found(largest.max(own), source.as_str()),
        ),
    };
    Backends { clients, active_clients, page_tables_bytes, page_tables_largest_bytes }
}

/// At most [`MOST_READ`] of them, spread evenly.
fn sample(children: &[u32]) -> Vec<u32> {
    if children.len() <= MOST_READ {
        return children.to_vec();
    }
    (0..MOST_READ).map(|at| children[at * children.len() / MOST_READ]).collect()
}

fn clients(
    host: &Host,
    sample: &[u32],
    updates_titles: Option<bool>,
    of: &str,
    scale: &dyn Fn(u64) -> u64,
) -> (Reading<u32>, Reading<u32>) {
    let source = format!("the titles of the server's processes (/proc/PID/cmdline){of}");
    let (mut clients, mut active, mut silent) = (0, 0, 0);
    for title in in_parallel(sample, |pid| host.read_head_bytes(&format!("/proc/{pid}/cmdline"), LONGEST_TITLE)) {
        let title = match title {
            Ok(title) => title,
            Err(e) if e.is_gone() => continue,
            Err(e) => {
                let unknown = || Reading::unknown(source.as_str(), e.to_string()).but(AS_OWNER);
                return (unknown(), unknown());
            }
        };
        let title = String::from_utf8_lossy(&title);
        if let Some(Kind::Client { is_active }) = kind(title.trim_end_matches(['\0', ' '])) {
            clients += 1;
            match is_active {
                Some(true) => active += 1,
                Some(false) => {}
                None => silent += 1,
            }
        }
    }
    let count = |count: u64| Reading::found(u32::try_from(scale(count)).unwrap_or(u32::MAX), source.as_str());
    // A connection that is just being made has no activity yet; it is at work.
    let are_silent = updates_titles == Some(false) || (updates_titles.is_none() && silent > 0);
    let active = if are_silent && clients > 0 {
        Reading::unknown(source.as_str(), "update_process_title is off: titles do not say what a connection does")
            .but(BY_SQL)
    } else {
        count(active + silent)
    };
    (count(clients), active)
}

/// Reads something of each process, in their order. Opening files of /proc takes most of the time of a look at a server
/// with many processes, so two threads share it.
fn in_parallel<T: Send>(pids: &[u32], read: impl Fn(u32) -> T + Sync) -> Vec<T> {
    const FEW: usize = 64;
    let all = |pids: &[u32]| pids.iter().map(|pid| read(*pid)).collect::<Vec<T>>();
    if pids.len() <= FEW {
        return all(pids);
    }
    let (first, second) = pids.split_at(pids.len() / 2);
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || all(second));
        let mut found = all(first);
        match other.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(rest)) => found.extend(rest),
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            // No thread is to be had.
            Err(_) => found.extend(all(second)),
        }
        found
    })
}

/// The page tables of a process, in bytes; `None` when it has ended or is ending.
fn page_tables(host: &Host, pid: u32) -> Result<Option<u64>, String> {
    match host.read_head(&format!("/proc/{pid}/status"), LONGEST_STATUS) {
        Ok(status) => Ok(meminfo(&status, "VmPTE")),
        Err(e) if e.is_gone() => Ok(None),
        Err(e) => Err(e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn clients_are_distinguished_from_helpers_by_title() {
        let client = |title: &str, is_active: Option<bool>| {
            assert_eq!(kind(title), Some(Kind::Client { is_active }), "{title}");
        };
        client("postgres: app shop [local] idle", Some(false));
        client("postgres: app shop [local] idle in transaction", Some(false));
        client("postgres: app shop [local] idle in transaction (aborted)", Some(false));
        client("postgres: app shop 10.0.0.7(51324) SELECT", Some(true));
        client("postgres: app shop fe80::1%eth0(51324) INSERT waiting", Some(true));
        client("postgres: app shop db-7.example(51324) idle", Some(false));
        client("postgres: 15/main: app shop [local] UPDATE", Some(true));
        client("postgres: my cluster: app shop [local] BIND", Some(true));
        client("postgres: app shop [local] authentication", Some(true));
        client("postgres: app shop [local]", None);
        client("postgres: a user my db [local] COMMIT", Some(true));
        client("postgres: walwriter startup [local] idle", Some(false));
        for helper in [
            "checkpointer",
            "checkpointer performing shutdown checkpoint",
            "background writer",
            "walwriter",
            "logger",
            "autovacuum launcher",
            "autovacuum worker shop",
            "logical replication launcher",
            "stats collector",
            "logical replication worker for subscription 16394",
            "walsender repl 10.0.0.9(44321) streaming 0/3000148",
            "walsender repl [local] START_REPLICATION",
            "walreceiver streaming 0/3000148",
            "archiver last was 0001",
            "startup recovering 000000010000000000000003",
            "io worker 2",
            "slotsync worker",
            "walsummarizer",
            "parallel worker for PID 4711",
            "pg_cron launcher",
            "TimescaleDB Background Worker Launcher",
            "",
        ] {
            for title in [format!("postgres: {helper}"), format!("postgres: 15/main: {helper}")] {
                assert_eq!(kind(&title), Some(Kind::Helper), "{title}");
            }
        }
        for none in ["", "/usr/lib/postgresql/15/bin/postgres -D /data", "postgres", "psql: a b [local] idle"] {
            assert_eq!(kind(none), None, "{none}");
        }
    }

    fn server(titles: &[&str]) -> (MemoryFs, Vec<u32>) {
        let fs = MemoryFs::of(&[("/proc/10/status", "Name:\tpostgres\nVmPTE:\t     200 kB\n")]);
        let mut pids = Vec::new();
        for (at, title) in titles.iter().enumerate() {
            let pid = 100 + u32::try_from(at).expect("few");
            fs.put(&format!("/proc/{pid}/cmdline"), format!("{title}   \0\0"));
            fs.put(&format!("/proc/{pid}/status"), format!("Name:\tpostgres\nVmPTE:\t     {} kB\n", 100 + at));
            pids.push(pid);
        }
        (fs, pids)
    }

    #[test]
    fn counts_and_page_tables_are_summed() {
        let (fs, pids) =
            server(&["postgres: a b [local] idle", "postgres: a b [local] SELECT", "postgres: walwriter "]);
        let found = look(&fs.host(), 10, &pids, Some(true));
        assert_eq!((found.clients.value(), found.active_clients.value()), (Some(2), Some(1)));
        assert_eq!(found.page_tables_bytes.value(), Some((200 + 100 + 101 + 102) * 1024));
        assert_eq!(found.page_tables_largest_bytes.value(), Some(200 * 1024));
        // One that ended meanwhile is left out; one that may not be read makes the sum unknown.
        let mut with_ended = pids.clone();
        with_ended.push(999);
        assert_eq!(look(&fs.host(), 10, &with_ended, Some(true)), found);
        fs.refuse("read", "/proc/101/status", libc::EACCES);
        let found = look(&fs.host(), 10, &pids, Some(true));
        assert!(found.page_tables_bytes.why_unknown.is_some_and(|why| why.contains("/proc/101/status: permission")));
        assert_eq!(found.clients.value(), Some(2));
    }

    #[test]
    fn titles_that_are_not_updated_do_not_show_which_are_active() {
        let (fs, pids) = server(&["postgres: a b [local]", "postgres: a b [local]"]);
        for updates in [Some(false), None] {
            let found = look(&fs.host(), 10, &pids, updates);
            assert_eq!(found.clients.value(), Some(2));
            assert!(found.active_clients.why_unknown.is_some_and(|why| why.contains("update_process_title")));
        }
        let (fs, pids) = server(&["postgres: walwriter"]);
        assert_eq!(look(&fs.host(), 10, &pids, Some(false)).active_clients.value(), Some(0));
    }

    #[test]
    fn of_very_many_processes_a_sample_is_read_and_the_source_says_so() {
        let titles = vec!["postgres: a b [local] idle"; 2500];
        let (fs, pids) = server(&titles);
        fs.arm(None);
        let found = look(&fs.host(), 10, &pids, Some(true));
        assert!(fs.log().len() <= 2 * MOST_READ + 1);
        assert_eq!(found.clients.value(), Some(2500));
        assert!(found.clients.source.ends_with("a sample of 1000 of 2500 processes"), "{}", found.clients.source);
        let sum = found.page_tables_bytes.value().expect("known") / 1024;
        let whole = 200 + (0..2500).map(|at| 100 + at).sum::<u64>();
        assert!(sum.abs_diff(whole) < whole / 500, "{sum} {whole}");
    }
}
