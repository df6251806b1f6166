//! PostgreSQL servers of a host, from /proc, their files, and a connection where the user gave one.
//!
//! Nothing is written, and nothing needs root: what only the server's user may read is unknown then, with its reason.

mod backends;
mod command_line;
pub mod conf;
mod files;
mod find;
mod memory;
mod settings;
mod sql;

use backends::Backends;
use files::Contents;
use find::{FoundServer, Processes};
use holdup_host::postgres::PostgresControl;
use holdup_host::{Host, cgroup};
use holdup_model::survey::{Reading, Server};
use settings::Settings;
use sql::Session;
use std::time::{Duration, Instant};

/// What makes known what only the server's user may read.
const AS_OWNER: &str = "run holdup as the server's user or as root, or give --pg URL";
/// What makes known what only the server itself can say.
const BY_SQL: &str = "give --pg URL";

/// One server among those of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// The one with this postmaster, or with this backend.
    Pid(u32),
    /// The one with this data directory, which need not run.
    DataDirectory(String),
}

/// The PostgreSQL servers of a host, sorted by pid; only the one that is asked for, if any.
///
/// `control` is a connection to one of them, which then comes first, if none is asked for. When its server is no process
/// of this host it is a separate server, known by SQL alone.
///
/// As root it reads what a server's files say in a child that is the server's user. At most 64 servers are looked at.
///
/// Reads /proc/PID/stat of all processes, /proc/PID/smaps of postmasters only, and title and page tables of at most 1000
/// processes of each server. Over `control` it makes at most three connections, and looks at wait events for 40 ms.
///
/// Unknown when /proc cannot be listed, hides processes of other users and shows no server, or does not have what is
/// asked for.
pub fn servers(host: &Host, asked: Option<&Asked>, control: Option<&dyn PostgresControl>) -> Reading<Vec<Server>> {
    let processes = match find::processes(host) {
        Ok(processes) => processes,
        Err(e) => return Reading::unknown("/proc", e.to_string()),
    };
    let connected = control.and_then(PostgresControl::postmaster_pid);
    let begun = Instant::now();
    let places = find::places(host, &processes, asked, connected);
    let alone = control.filter(|_| asked.is_none() && connected.is_none());
    let Some(found) = places.value else {
        return Reading { value: alone.map(|control| vec![by_sql(control)]), ..without_value(places) };
    };
    let mut servers: Vec<Server> = alone.map(by_sql).into_iter().collect();
    for (at, place) in found.iter().enumerate() {
        if at > 0 && begun.elapsed() > LONGEST_LOOK {
            let rest = found.len() - at;
            say_of_last(&mut servers, format!("{rest} more servers are not looked at: the others took too long."));
            break;
        }
        let is_connected = place.pid.value().is_some() && place.pid.value() == connected;
        servers.push(server(host, &processes, place, control.filter(|_| is_connected)));
    }
    if processes.passed_by.get() > 0 {
        let note = format!(
            "{} more servers are not looked at: the limit is {}.",
            processes.passed_by.get(),
            find::MOST_SERVERS
        );
        say_of_last(&mut servers, note);
    }
    Reading::found(servers, places.source)
}

/// After so long no further server is looked at.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

fn say_of_last(servers: &mut [Server], note: String) {
    if let Some(last) = servers.last_mut() {
        last.notes.push(note);
    }
}

/// The same without its value, for one of another type.
fn without_value<T, U>(known: Reading<T>) -> Reading<U> {
    known.and_then(|_| Err(String::new()))
}

fn server(host: &Host, processes: &Processes, place: &FoundServer, control: Option<&dyn PostgresControl>) -> Server {
    let asked = control.map(|control| (control, Session::ask(control)));
    let session = asked.as_ref().and_then(|(_, session)| session.as_ref().ok());
    let pid = place.pid.value();
    let smaps = shared_memory(host, place);
    let shared_bytes = smaps.get().map(|shared| shared.mapping.size_bytes);
    let Contents { settings, version } = contents(host, processes, place);
    let settings = Settings::of(settings, place, session);
    let mut notes = settings.notes(shared_bytes);
    if let Some((_, Err(problem))) = &asked {
        notes.push(format!("The connection of --pg does not answer: {}.", problem.why));
    }
    notes.extend(transparent_note(smaps.get()));
    let backends = look(host, processes, pid, &settings, session);
    let by_session = || asked.as_ref().and_then(|(control, session)| Some((*control, session.as_ref().ok()?)));
    let (pool, spin_waits) = match by_session() {
        Some((control, session)) => (session.pool(control), session.spin_waits(control)),
        None => (
            Reading::unknown("pg_buffercache", ONLY_SQL).but(BUFFERCACHE),
            Reading::unknown("pg_stat_activity", ONLY_SQL).but(BY_SQL),
        ),
    };
    let name = match (pid, place.data_directory.get()) {
        (Some(pid), _) => format!("postmaster {pid}"),
        (None, Some(folder)) => folder.clone(),
        (None, None) => "a server".to_owned(),
    };
    Server {
        name,
        pid: place.pid.clone(),
        data_directory: place.data_directory.clone(),
        major_version: major_version(version, place, session),
        version: session.map_or_else(
            || Reading::unknown("server_version", "only the server itself reports its minor version").but(BY_SQL),
            |session| Reading::found(session.version(), "server_version_num"),
        ),
        shared_buffers_bytes: settings.shared_buffers(shared_bytes),
        huge_pages_asked: settings.huge_pages(),
        huge_pages_in_effect: session
            .and_then(Session::huge_pages_in_effect)
            .unwrap_or_else(|| smaps.map(|shared| shared.is_huge)),
        max_connections: settings.max_connections(),
        clients: backends.clients,
        active_clients: backends.active_clients,
        page_tables_bytes: backends.page_tables_bytes,
        page_tables_largest_bytes: backends.page_tables_largest_bytes,
        pool,
        spin_waits,
        is_in_root_task_group: in_root_task_group(host, &place.pid),
        cpu_limit_cpus: cpu_limit(host, &place.pid),
        notes,
    }
}

const ONLY_SQL: &str = "only the server itself reports it";
const BUFFERCACHE: &str = "give --pg URL of a database with CREATE EXTENSION pg_buffercache";

/// A server that is only known over its connection: on another host, or not to be seen here.
fn by_sql(control: &dyn PostgresControl) -> Server {
    const WHY: &str = "the server is no process that can be seen on this host";
    let answer = Session::ask(control);
    let (session, mut notes) = match &answer {
        Ok(session) => (Some(session), Vec::new()),
        Err(problem) => (None, vec![format!("The connection of --pg does not answer: {}.", problem.why)]),
    };
    notes.push(
        "No process of this server can be seen on this host: what is said of this host need not be about it."
            .to_owned(),
    );
    let place = FoundServer {
        pid: Reading::unknown("pg_backend_pid()", WHY).but("run holdup on the server's host"),
        data_directory: session.and_then(|session| session.setting("data_directory")).map_or_else(
            || {
                Reading::unknown("data_directory", "this user may not see it")
                    .but("GRANT pg_read_all_settings to the user of --pg")
            },
            |folder| Reading::found(folder.to_owned(), "pg_settings (data_directory)"),
        ),
        command_line: Reading::unknown("/proc/PID/cmdline", WHY),
        prefix: String::new(),
    };
    let settings = Settings::without_files(&place, session);
    notes.extend(settings.notes(None));
    let backends = look_by_sql(session, &place.pid);
    let pool = session.map_or_else(|| Reading::unknown("pg_buffercache", WHY), |session| session.pool(control));
    let spin_waits =
        session.map_or_else(|| Reading::unknown("pg_stat_activity", WHY), |session| session.spin_waits(control));
    Server {
        name: session.map_or_else(|| "the server of --pg".to_owned(), Session::name),
        major_version: Reading::found(control.version_num() / 10_000, "server_version_num"),
        version: Reading::found(sql::version(control.version_num()), "server_version_num"),
        shared_buffers_bytes: settings.shared_buffers(None),
        huge_pages_asked: settings.huge_pages(),
        huge_pages_in_effect: session
            .and_then(Session::huge_pages_in_effect)
            .unwrap_or_else(|| without_value(place.pid.clone())),
        max_connections: settings.max_connections(),
        clients: backends.clients,
        active_clients: backends.active_clients,
        page_tables_bytes: backends.page_tables_bytes,
        page_tables_largest_bytes: backends.page_tables_largest_bytes,
        pool,
        spin_waits,
        is_in_root_task_group: without_value(place.pid.clone()),
        cpu_limit_cpus: without_value(place.pid.clone()),
        notes,
        data_directory: place.data_directory.clone(),
        pid: place.pid.clone(),
    }
}

/// What the files of a server say, as its user may read them.
fn contents(host: &Host, processes: &Processes, place: &FoundServer) -> Contents {
    let work = |reader: &files::Reader<'_>| settings::contents(reader, place);
    let folder = place.data_directory.get().map(String::as_str);
    let read = match (place.pid.get(), folder) {
        (Some(pid), _) => files::as_user_of(host, &processes.late, *pid, work),
        (None, Some(folder)) => files::as_owner_of(host, &processes.late, folder, work),
        (None, None) => Err("neither a process nor a data directory of the server is known".to_owned()),
    };
    read.unwrap_or_else(|why| Contents::unread(&why, folder.is_some()))
}

/// The major version: of the connection, of the data directory, or in the path of the program.
fn major_version(
    version: Option<Result<String, String>>,
    place: &FoundServer,
    session: Option<&Session>,
) -> Reading<u32> {
    if let Some(session) = session {
        return Reading::found(session.major_version(), "server_version_num");
    }
    let path = place.version_file();
    if let (Some(path), Some(Ok(text))) = (&path, &version) {
        return match text.trim().parse::<u32>() {
            Ok(major) => Reading::found(major, path.as_str()),
            // Before 10 two numbers made a major version; none of those is known here.
            Err(_) => Reading::unknown(
                path.as_str(),
                format!("`{}` is no major version", holdup_host::text::shown(text.trim())),
            ),
        };
    }
    let program = place.command_line.get().map(|line| line.program.as_str()).unwrap_or_default();
    if let Some(major) = version_in(program) {
        return Reading::found(major, format!("the path {program} of the program"));
    }
    match (path, version) {
        (Some(path), Some(Err(why))) => Reading::unknown(path, why).but(AS_OWNER),
        _ => without_value(place.data_directory.clone()),
    }
}

/// The version in `/usr/lib/postgresql/15/bin/postgres` or `/usr/pgsql-15/bin/postgres`.
fn version_in(program: &str) -> Option<u32> {
    let folder = program.strip_suffix("/bin/postgres").or_else(|| program.strip_suffix("/bin/postmaster"))?;
    let name = folder.rsplit('/').next()?;
    name.strip_prefix("pgsql-").unwrap_or(name).parse().ok().filter(|major| (10..100).contains(major))
}

/// The shared memory as the postmaster maps it.
fn shared_memory(host: &Host, place: &FoundServer) -> Reading<memory::Shared> {
    let Some(pid) = place.pid.get() else { return without_value(place.pid.clone()) };
    let source = format!("/proc/{pid}/smaps");
    // A process can have many thousand mappings; a postmaster has some hundred.
    const LONGEST: usize = 16 << 20;
    match host.read_bounded(&source, LONGEST) {
        Err(e) => Reading::unknown(source, e.to_string()).but(AS_OWNER),
        Ok(text) => match memory::shared(&String::from_utf8_lossy(&text)) {
            Some(shared) => Reading::found(shared, source),
            None => Reading::unknown(source, "there is no shared mapping in it that can hold the buffer pool"),
        },
    }
}

fn transparent_note(shared: Option<&memory::Shared>) -> Option<String> {
    let shared = shared.filter(|shared| shared.mapping.transparent_bytes > 0)?;
    Some(format!(
        "Transparent huge pages hold {} of the {} bytes of shared memory that the postmaster maps (ShmemPmdMapped).",
        shared.mapping.transparent_bytes, shared.mapping.size_bytes
    ))
}

fn look(
    host: &Host,
    processes: &Processes,
    pid: Option<u32>,
    settings: &Settings,
    session: Option<&Session>,
) -> Backends {
    let Some(pid) = pid else {
        return look_by_sql(session, &Reading::unknown("postmaster.pid", "the server does not run"));
    };
    let mut backends = backends::look(host, pid, &processes.children(pid), settings.updates_titles());
    if let Some((clients, active)) = session.and_then(Session::clients) {
        backends.clients = Reading::found(clients, "pg_stat_activity");
        if let Some(active) = active {
            backends.active_clients = Reading::found(active, "pg_stat_activity");
        }
    }
    backends
}

fn look_by_sql(session: Option<&Session>, pid: &Reading<u32>) -> Backends {
    let counts = session.and_then(Session::clients);
    let count = |count: Option<u32>, why: &str| match count {
        Some(count) => Reading::found(count, "pg_stat_activity"),
        None => Reading::unknown("pg_stat_activity", why).but("GRANT pg_monitor to the user of --pg"),
    };
    let hidden = "this user may not see other users' connections";
    Backends {
        clients: match session {
            Some(_) => count(counts.map(|(clients, _)| clients), hidden),
            None => without_value(pid.clone()),
        },
        active_clients: match session {
            Some(_) => count(counts.and_then(|(_, active)| active), hidden),
            None => without_value(pid.clone()),
        },
        page_tables_bytes: without_value(pid.clone()),
        page_tables_largest_bytes: without_value(pid.clone()),
    }
}

fn in_root_task_group(host: &Host, pid: &Reading<u32>) -> Reading<bool> {
    let Some(pid) = pid.get() else { return without_value(pid.clone()) };
    let source = format!("/proc/{pid}/cgroup");
    match cgroup::in_root_task_group(host, *pid) {
        Some(is_in) => Reading::found(is_in, source),
        None => Reading::unknown(source, "the control group of the scheduler is not known"),
    }
}

fn cpu_limit(host: &Host, pid: &Reading<u32>) -> Reading<Option<f64>> {
    let Some(pid) = pid.get() else { return without_value(pid.clone()) };
    let source = format!("/proc/{pid}/cgroup");
    let quota = match host.read_text(&source) {
        Ok(text) => cgroup::cpu_limit(host, &text).map(|limit| limit.map(|limit| limit.cpus)),
        Err(e) => Reading::unknown(source, e.to_string()),
    };
    // A server that is bound to some CPUs may use no more than those, also where the quota of its group is higher.
    let status = format!("/proc/{pid}/status");
    let bound = host.read_head(&status, backends::LONGEST_STATUS).ok().and_then(|text| {
        let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        holdup_host::cpu_list(list).map(|cpus| cpus.len() as f64).filter(|cpus| *cpus > 0.0)
    });
    match (bound, holdup_host::online_cpus(host)) {
        (Some(bound), Some(online)) if bound < online.len() as f64 => match quota.get() {
            Some(Some(quota_cpus)) if *quota_cpus <= bound => quota,
            _ => Reading::found(Some(bound), format!("Cpus_allowed_list in {status}")),
        },
        _ => quota,
    }
}
