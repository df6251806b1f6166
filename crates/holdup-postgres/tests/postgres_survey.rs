//! What is found of a server without asking it, against what it says itself.

use crate::common;
use common::{binaries, cluster, workdir};
use holdup_host::postgres::PostgresControl;
use holdup_host::{Host, guc};
use holdup_model::survey::{HugePagesAsked, Server};
use holdup_postgres::Cluster;
use holdup_survey::postgres::conf::{ConfLine, Configuration, Entry, Files, Unread, lines};
use holdup_survey::postgres::{Asked, servers};
use holdup_testkit::ignore;
use postgres::{Client, NoTls, SimpleQueryMessage};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

const MB: u64 = 1024 * 1024;

/// The one server of a pid.
fn found(cluster: &Cluster, control: Option<&dyn PostgresControl>) -> Server {
    let asked = Asked::Pid(cluster.pid().unwrap());
    let servers = servers(&Host::real(), Some(&asked), control);
    let mut all = servers.value.unwrap_or_else(|| panic!("{:?}", servers.why_unknown));
    assert_eq!(all.len(), 1);
    all.remove(0)
}

/// Looks again until the server is as expected: connections end some time after the query that they were made for.
fn until(cluster: &Cluster, control: Option<&dyn PostgresControl>, is_so: impl Fn(&Server) -> bool) -> Server {
    let begun = Instant::now();
    loop {
        let server = found(cluster, control);
        if is_so(&server) {
            return server;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{server:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn has_huge_pages() -> bool {
    let meminfo = Host::real().read_text("/proc/meminfo").unwrap();
    !meminfo.lines().any(|l| l.starts_with("HugePages_Total:") && l.ends_with(" 0"))
}

fn connect(cluster: &Cluster) -> Client {
    postgres::Config::from((*cluster.config("postgres")).clone()).connect(NoTls).unwrap()
}

fn a_server_is_known_without_asking_it() {
    let bin = binaries();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    cluster.alter("shared_buffers", Some("48MB")).unwrap();
    let pid = cluster.pid().unwrap();
    let mut clients: Vec<Client> = (0..3).map(|_| connect(&cluster)).collect();
    let backend = clients[0].simple_query("SELECT pg_backend_pid()").unwrap();
    let backend = backend.iter().find_map(|m| match m {
        SimpleQueryMessage::Row(row) => row.get(0).unwrap().parse().ok(),
        _ => None,
    });
    let cancel = clients[2].cancel_token();
    let mut busy = clients.pop().unwrap();
    let sleeper = std::thread::spawn(move || busy.simple_query("SELECT pg_sleep(300)").is_ok());

    let server = until(&cluster, None, |s| s.clients.value() == Some(3) && s.active_clients.value() == Some(1));
    assert_eq!(server.name, format!("postmaster {pid}"));
    assert_eq!(server.major_version.value(), Some(cluster.version_num() / 10_000));
    assert_eq!(server.data_directory.value(), Some(cluster.data().display().to_string()));
    assert_eq!(server.shared_buffers_bytes.value(), Some(48 * MB));
    assert!(server.shared_buffers_bytes.source.contains("postgresql.auto.conf:"), "{server:#?}");
    assert_eq!(server.huge_pages_asked.value(), Some(HugePagesAsked::Try));
    if !has_huge_pages() {
        assert_eq!(server.huge_pages_in_effect.value(), Some(false));
    }
    assert_eq!(server.max_connections.value(), Some(100));
    let (sum, largest) = (server.page_tables_bytes.value().unwrap(), server.page_tables_largest_bytes.value().unwrap());
    assert!(largest > 0 && sum > largest, "{sum} {largest}");
    assert!(server.is_in_root_task_group.value.is_some(), "{:?}", server.is_in_root_task_group);
    for (what, why) in
        [("pool", &server.pool.remedy), ("spins", &server.spin_waits.remedy), ("version", &server.version.remedy)]
    {
        assert!(why.as_deref().is_some_and(|remedy| remedy.contains("--pg URL")), "{what}: {why:?}");
    }
    let hides = server.notes.iter().find(|note| note.starts_with("shared_buffers")).expect("it stands twice");
    assert!(hides.contains("`48MB`") && hides.contains("postgresql.conf:"), "{hides}");

    let others = [
        Some(Asked::DataDirectory(format!("{}/", cluster.data().display()))),
        Some(Asked::Pid(backend.unwrap())),
        None,
    ];
    for asked in others {
        let all = servers(&Host::real(), asked.as_ref(), None).value.unwrap();
        assert!(all.iter().any(|server| server.pid.value() == Some(pid)), "{asked:?}");
        assert!(asked.is_none() || all.len() == 1, "{asked:?}");
    }
    let me = servers(&Host::real(), Some(&Asked::Pid(std::process::id())), None);
    assert!(me.why_unknown.is_some_and(|why| why.contains("is no PostgreSQL server")));
    cancel.cancel_query(NoTls).unwrap();
    assert!(!sleeper.join().unwrap());
    cluster.discard().unwrap();
}

fn a_server_that_is_asked_reports_more_and_agrees() {
    let bin = binaries();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    cluster.alter("shared_buffers", Some("48MB")).unwrap();
    let _client = connect(&cluster);
    let asked = until(&cluster, Some(&cluster), |s| s.clients.value() == Some(1));
    let version = cluster.query("SHOW server_version").unwrap().remove(0).remove(0).unwrap();
    assert_eq!(asked.version.value().as_deref(), version.split(' ').next());
    assert_eq!(asked.active_clients.value(), Some(0));
    assert_eq!(asked.shared_buffers_bytes.source, "pg_settings (shared_buffers)");
    let unasked = until(&cluster, None, |s| s.clients.value() == Some(1));
    assert_eq!(asked.shared_buffers_bytes.value(), unasked.shared_buffers_bytes.value());
    assert_eq!(asked.max_connections.value(), unasked.max_connections.value());
    assert_eq!(asked.huge_pages_asked.value(), unasked.huge_pages_asked.value());
    assert_eq!(asked.huge_pages_in_effect.value(), unasked.huge_pages_in_effect.value());
    assert_eq!(asked.major_version.value(), unasked.major_version.value());
    assert_eq!(asked.spin_waits.value.is_some(), cluster.version_num() >= 160_000, "{:?}", asked.spin_waits);
    assert!(asked.pool.remedy.as_deref().is_some_and(|remedy| remedy.contains("CREATE EXTENSION")), "{:?}", asked.pool);
    match cluster.query("CREATE SCHEMA \"Odd one\"; CREATE EXTENSION pg_buffercache SCHEMA \"Odd one\"") {
        Err(problem) => ignore(problem),
        Ok(_) => {
            let pool = found(&cluster, Some(&cluster)).pool.value.unwrap();
            assert!(pool.is_cold() && pool.buffers == 48 * MB / 8192 && pool.unused_buffers < pool.buffers, "{pool:?}");
        }
    }
    cluster.discard().unwrap();
}

fn a_pending_restart_is_reported() {
    let bin = binaries();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    cluster.query("ALTER SYSTEM SET shared_buffers = '1GB'").unwrap();
    let unasked = found(&cluster, None);
    let why = unasked.shared_buffers_bytes.why_unknown.unwrap();
    assert!(why.contains("a restart is pending"), "{why}");
    assert!(unasked.notes.iter().any(|note| note.contains("a restart is pending")), "{:?}", unasked.notes);
    let asked = found(&cluster, Some(&cluster));
    let in_force =
        cluster.query("SELECT setting::bigint * 8192 FROM pg_settings WHERE name = 'shared_buffers'").unwrap();
    assert_eq!(asked.shared_buffers_bytes.value().map(|bytes| bytes.to_string()), in_force[0][0]);
    let note = asked.notes.iter().find(|note| note.contains("pending")).expect("it is reported");
    assert!(note.contains("`1GB`") && note.contains("of 8kB is in force"), "{note}");
    cluster.discard().unwrap();
}

/// Lines that real files have, and such as try the scanner.
const ODD_LINES: &[&str] = &[
    "port 5433",
    "port = 5433 # comment",
    "port=5433#comment",
    "Work_Mem=4MB",
    "work_mem '8 MB'",
    "application_name = 'it''s'",
    "application_name = 'a # b'",
    "application_name = 'a\\'b\\n\\101\\tc'",
    "application_name = '\\7'",
    "application_name = 'x",
    "application_name = 'x'y",
    "application_name'x'",
    "application_name = a.b",
    "application_name = a.b.c",
    "my.custom = 1",
    "my.custom.deep = 1",
    "my. custom = 1",
    "a-b = 1",
    "a b c",
    "a = b c",
    "a =",
    "a",
    "=",
    "= 1",
    "== 1",
    "a == 1",
    "1 = a",
    "'a' = 1",
    "a = -5",
    "a = +5kB",
    "a = 0x1F",
    "a = 0x1Fg",
    "a = 0x",
    "a = 1.5",
    "a = 1.5MB",
    "a = .5",
    "a = 5.",
    "a = .",
    "a = 1e5",
    "a = 1.e5",
    "a = 1.5e-3",
    "a = 1.5e",
    "a = -",
    "a = --5",
    "a = 10%",
    "a = on;",
    "a = a:b/c-d.e",
    "a = /tmp",
    "a = ''",
    "a = ''''",
    "a = '''",
    "a = 'b'''",
    "a = ''b''",
    "a = '\\'",
    "a = '\\\\'",
    "\ta\t=\tb\r",
    "  # only",
    "#",
    "",
    "a = \"b\"",
    "é = é",
    "a = é1",
    "a@b = 1",
    "include_dir_ = 'x'",
    "a = 'b' 'c'",
    "a = b'c'",
    "a = 1'c'",
    "a = 08MB",
    "a.b = c",
    "a = 5_000",
    "a = _x",
    "a='x'#y",
    "a = 0x1Fe+3",
    "a = 1.5.5",
    "a = '\\400x'",
    "a = '\\1234'",
    "a = '\\8'",
];

/// Lines put together at random from what the scanner distinguishes; the same in every run.
fn random_lines(count: usize) -> Vec<String> {
    const PIECES: &[&str] = &[
        "a", "b1", "_", ".", "=", " ", "'", "''", "\\", "\\'", "#", "-", "+", "0", "7", "0x", "1.5", "e", "E3", "MB",
        ":", "/", "é", "\t", "\r", "\"", "x.y", ",", "8",
    ];
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    (0..count)
        .map(|at| {
            let head = if at % 3 == 0 { "" } else { ["a = ", "a.b ", "a=", "a = '"][at % 4] };
            let body: String = (0..=next(7)).map(|_| PIECES[next(PIECES.len())]).collect();
            format!("{head}{body}")
        })
        .filter(|line| !line.to_lowercase().starts_with("include"))
        .collect()
}

type Set = Option<(String, String)>;

/// What the server makes of lines, each in its own file because a backend gives a file up at the first error:
/// (number of the line, name and value unless it refuses it).
fn as_the_server_reads(client: &mut Client, folder: &Path, lines: &[String]) -> BTreeMap<usize, Set> {
    let _absent = std::fs::remove_dir_all(folder);
    std::fs::create_dir(folder).unwrap();
    for (at, line) in lines.iter().enumerate() {
        std::fs::write(folder.join(format!("{at:05}.conf")), line).unwrap();
        // A folder is given up at the first error in any of its files, so each file is included by name.
        let include = format!("include '{at:05}.conf'\n");
        let top = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("top"));
        top.unwrap().write_all(include.as_bytes()).unwrap();
    }
    let rows = client
        .simple_query(
            "SELECT sourcefile, lower(name), setting, error FROM pg_file_settings WHERE sourcefile LIKE '%/odd/%'",
        )
        .unwrap();
    let rows = rows.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        let at = row.get(0).unwrap().rsplit('/').next().unwrap()[..5].parse().unwrap();
        let set = row.get(1).map(|name| (name.to_owned(), row.get(2).unwrap_or_default().to_owned()));
        (at, set.filter(|_| row.get(3) != Some("syntax error")))
    })
    .collect()
}

fn as_we_read(text: &str) -> Option<Set> {
    let mut all = lines(text.as_bytes());
    assert!(all.len() < 2, "{text:?} is one line");
    Some(match all.pop()? {
        ConfLine::Set { name, value, .. } => Some((name, value)),
        ConfLine::Wrong { .. } => None,
    })
}

fn lines_mean_what_the_server_makes_of_them() {
    let bin = binaries();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    let main = cluster.data().join("postgresql.conf");
    let text = std::fs::read_to_string(&main).unwrap();
    std::fs::write(&main, format!("{text}\ninclude 'odd/top'\n")).unwrap();
    let mut client = connect(&cluster);
    let odd: Vec<String> = ODD_LINES.iter().map(|line| (*line).to_owned()).collect();
    let (mut set, mut refused) = (0, 0);
    for lines in [odd, random_lines(3000)] {
        let theirs = as_the_server_reads(&mut client, &cluster.data().join("odd"), &lines);
        for (at, text) in lines.iter().enumerate() {
            assert_eq!(as_we_read(text).as_ref(), theirs.get(&at), "{text:?}");
        }
        set += theirs.values().flatten().count();
        refused += theirs.values().filter(|set| set.is_none()).count();
    }
    assert!(set > 300 && refused > 300, "{set} lines set something, {refused} are refused");
    cluster.discard().unwrap();
}

struct RealFiles;

impl Files for RealFiles {
    fn read(&self, path: &str) -> Result<Vec<u8>, Unread> {
        Host::real().read(path).map_err(|e| Unread { is_gone: e.is_gone(), why: e.to_string() })
    }

    fn list(&self, path: &str) -> Result<Vec<String>, Unread> {
        Host::real().list(path).map_err(|e| Unread { is_gone: e.is_gone(), why: e.to_string() })
    }
}

fn includes_are_followed_as_the_server_follows_them() {
    let bin = binaries();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    let data = cluster.data();
    let put = |name: &str, text: &str| std::fs::write(data.join(name), text).unwrap();
    for folder in ["conf.d", "sub"] {
        std::fs::create_dir(data.join(folder)).unwrap();
    }
    put("conf.d/b.conf", "work_mem = 3MB\n");
    put("conf.d/a.conf", "work_mem = 2MB\ninclude '../sub/rel.conf'\n");
    put("conf.d/.hidden.conf", "work_mem = 9MB\n");
    put("conf.d/no.txt", "work_mem = 8MB\n");
    put("conf.d/.conf", "work_mem = 7MB\n");
    put("sub/rel.conf", "include_if_exists 'sub.conf'\ninclude_if_exists 'gone.conf'\nmy.x = rel\n");
    put("sub/sub.conf", "my.y = sub\n");
    put("top.conf", "INCLUDE_DIR = 'conf.d'\nInclude_If_Exists './sub/../conf.d//b.conf'\nmy.z = 'end'\n");
    let mut client = connect(&cluster);
    let text = std::fs::read_to_string(data.join("postgresql.conf")).unwrap();
    put("postgresql.conf", &format!("{text}\ninclude = 'top.conf'\n"));
    let rows =
        client.simple_query("SELECT lower(name), setting, sourcefile, sourceline FROM pg_file_settings").unwrap();
    let theirs: Vec<String> = rows
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..4).map(|i| row.get(i).unwrap_or("-")).collect::<Vec<_>>().join(" "))
            }
            _ => None,
        })
        .collect();
    let read = Configuration::read(&RealFiles, &data.join("postgresql.conf").display().to_string());
    let ours: Vec<String> = read
        .entries
        .iter()
        .map(|entry| match entry {
            Entry::Set(s) => format!("{} {} {} {}", s.name, s.value, s.file, s.line),
            Entry::Gap(why) => why.clone(),
        })
        .collect();
    assert_eq!(ours, theirs);
    assert_eq!(read.errors, [""; 0]);
    cluster.discard().unwrap();
}

/// Values for a setting in blocks of 8 kB, from 1 on.
const SIZES: &[&str] = &[
    "16384",
    "128MB",
    " 128 MB ",
    "1.5GB",
    "1e-3TB",
    "0x4000",
    "010MB",
    "017",
    "08",
    "08MB",
    "134217728B",
    "4096B",
    "4097B",
    "12288B",
    "20480B",
    "1e3",
    "1e",
    "1.",
    ".5MB",
    "-1",
    "+5",
    "128mb",
    "128Mb",
    "128M",
    "1s",
    "1 2",
    "",
    "0",
    "MB",
    "16TB",
    "15TB",
    "nan",
    "0x10MB",
    "0X10",
    "1.1kB",
    "30.1GB",
    "99999999999999999999",
    "1e99",
    "12 kB",
    "1\tMB",
    "2147483647",
    "2147483648",
    "0.0001GB",
    "1.0005MB",
    "inf",
    "1e3MB",
    "--5",
    "\\5",
];

fn values_are_taken_as_the_server_takes_them() {
    let bin = binaries();
    let folder = workdir();
    let cluster = cluster(bin, &folder);
    let mut client = connect(&cluster);
    let mut ask = |name: &str, value: &str| -> Option<String> {
        let value = value.replace('\'', "''");
        client.simple_query(&format!("SELECT set_config('{name}', '{value}', false)")).ok()?;
        let rows = client.simple_query(&format!("SELECT setting FROM pg_settings WHERE name = '{name}'")).ok()?;
        rows.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
    };
    for &text in SIZES {
        let ours =
            guc::integer(text, Some(guc::BLOCKS)).ok().filter(|blocks| *blocks >= 1).map(|blocks| blocks.to_string());
        assert_eq!(ours, ask("effective_cache_size", text), "{text:?}");
    }
    for text in ["100", "99.5", "100.5", "1e2", "0x64", "0144", "100MB", "1e2 ", "ten", "5 %"] {
        let ours = guc::integer(text, None).ok().map(|number| number.to_string());
        assert_eq!(ours, ask("default_statistics_target", text), "{text:?}");
    }
    for text in [
        "on", "ON", "of", "o", "t", "tru", "true", "truee", "y", "ye", "yes", "n", "no", "f", "1", "0", "10", "", "01",
        " on",
    ] {
        let ours = guc::boolean(text).map(|is_on| if is_on { "on" } else { "off" }.to_owned());
        assert_eq!(ours, ask("enable_seqscan", text), "{text:?}");
    }
    cluster.discard().unwrap();
}

holdup_testkit::tests!(
    a_server_is_known_without_asking_it,
    a_server_that_is_asked_reports_more_and_agrees,
    a_pending_restart_is_reported,
    lines_mean_what_the_server_makes_of_them,
    includes_are_followed_as_the_server_follows_them,
    values_are_taken_as_the_server_takes_them
);
