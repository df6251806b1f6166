//! Servers in made-up trees: what is found without root, and why the rest is not.
use holdup_host::fake::MemoryFs;
use holdup_host::postgres::{PostgresControl, Setting};
use holdup_model::Problem;
use holdup_model::survey::{HugePagesAsked, Pool, Reading, Server, SpinWaits};
use holdup_survey::postgres::{Asked, servers};

const MB: u64 = 1024 * 1024;
const DATA: &str = "/var/lib/postgresql/17/main";
const CONF: &str = "/etc/postgresql/17/main/postgresql.conf";

fn put_process(fs: &MemoryFs, pid: u32, comm: &str, ppid: u32, cmdline: &str) {
    let stat = format!("{pid} ({comm}) S {ppid} {pid} 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n");
    fs.put(&format!("/proc/{pid}/stat"), stat);
    fs.put(&format!("/proc/{pid}/cmdline"), cmdline.replace(' ', "\0"));
    fs.put(&format!("/proc/{pid}/status"), "VmPTE:\t     100 kB\n");
}

fn put_child(fs: &MemoryFs, pid: u32, title: &str) {
    put_process(fs, pid, "postgres", 812, "");
    fs.put(&format!("/proc/{pid}/cmdline"), format!("postgres: 17/main: {title}\0\0"));
}

/// A server as Debian sets it up: configuration in /etc, one client at work and one idle.
fn debian() -> MemoryFs {
    let fs = MemoryFs::new();
    put_process(&fs, 1, "systemd", 0, "/sbin/init");
    let program = "/usr/lib/postgresql/17/bin/postgres";
    put_process(&fs, 812, "postgres", 1, &format!("{program} -D {DATA} -c config_file={CONF}\0"));
    fs.put_link("/proc/812/cwd", DATA);
    fs.put("/proc/812/cgroup", "0::/system.slice/pg.service\n");
    fs.put("/sys/fs/cgroup/system.slice/cpu.weight", "100\n");
    fs.put("/sys/fs/cgroup/system.slice/pg.service/cpu.max", "150000 100000\n");
    fs.put("/proc/812/smaps", smaps("/dev/zero (deleted)", 145, ""));
    put_child(&fs, 820, "checkpointer ");
    put_child(&fs, 830, "app shop [local] idle");
    put_child(&fs, 831, "app shop 10.0.0.7(40112) UPDATE");
    put_child(&fs, 832, "walsender repl 10.0.0.8(40113) streaming 0/3000148");
    put_process(&fs, 900, "postgres_export", 1, "/usr/bin/postgres_exporter");
    fs.put(CONF, "shared_buffers = 128MB\nmax_connections 200\nhuge_pages = try # unless\nport = 5433\n");
    fs.put(&format!("{DATA}/PG_VERSION"), "17\n");
    fs
}

fn smaps(name: &str, size_mb: u64, flag: &str) -> String {
    let end = 0x7f00_0000_0000_u64 + size_mb * MB;
    format!(
        "55d0c0000000-55d0c0100000 r--p 00000000 fe:00 12 /usr/bin/postgres\nKernelPageSize:        4 kB\nVmFlags: rd\n\
         7f0000000000-{end:x} rw-s 00000000 00:01 1025    {name}\nKernelPageSize:        4 kB\nVmFlags: rd wr sh {flag}\n"
    )
}

fn all(fs: &MemoryFs) -> Vec<Server> {
    servers(&fs.host(), None, None).value.unwrap()
}

fn one(fs: &MemoryFs) -> Server {
    let mut all = all(fs);
    assert_eq!(all.len(), 1, "{all:#?}");
    all.remove(0)
}

fn why<T>(known: &Reading<T>) -> &str {
    known.why_unknown.as_deref().expect("it is not known")
}

fn a_server_is_found_with_its_settings_and_its_processes() {
    let server = one(&debian());
    assert_eq!((server.name.as_str(), server.pid.value()), ("postmaster 812", Some(812)));
    assert_eq!(server.data_directory.value().as_deref(), Some(DATA));
    assert_eq!(server.major_version.value(), Some(17));
    assert_eq!(server.shared_buffers_bytes, Reading::found(128 * MB, format!("{CONF}:1")));
    assert_eq!(server.huge_pages_asked, Reading::found(HugePagesAsked::Try, format!("{CONF}:3")));
    assert_eq!(server.huge_pages_in_effect, Reading::found(false, "/proc/812/smaps"));
    assert_eq!(server.max_connections.value(), Some(200));
    assert_eq!((server.clients.value(), server.active_clients.value()), (Some(2), Some(1)));
    assert_eq!(server.page_tables_bytes.value(), Some(5 * 100 * 1024));
    assert_eq!(server.page_tables_largest_bytes.value(), Some(100 * 1024));
    assert_eq!(server.is_in_root_task_group.value(), Some(false));
    assert_eq!(server.cpu_limit_cpus.value(), Some(Some(1.5)));
    assert!(server.pool.remedy.unwrap().contains("pg_buffercache"));
    assert!(why(&server.spin_waits).contains("only the server itself"));
    assert_eq!(server.notes, [""; 0]);
}

fn alter_system_and_includes_and_the_command_line_count() {
    let check = |files: &[(&str, &str)], arguments: &str, expect: u64, source: &str| {
        let fs = debian();
        for (path, text) in files {
            fs.put(path, text);
        }
        fs.put("/proc/812/smaps", smaps("/dev/zero (deleted)", expect / MB + expect / MB / 20 + 10, ""));
        let cmdline = format!("postgres -D {DATA} -c config_file={CONF}{arguments}");
        fs.put("/proc/812/cmdline", cmdline.replace(' ', "\0"));
        let found = one(&fs).shared_buffers_bytes;
        assert_eq!(found.value(), Some(expect), "{files:?} {arguments} {found:?}");
        assert!(found.source.contains(source), "{found:?}");
    };
    let auto = format!("{DATA}/postgresql.auto.conf");
    check(&[(&auto, "# Do not edit\nshared_buffers = '2GB'\n")], "", 2048 * MB, "postgresql.auto.conf:2");
    check(&[(&auto, "shared_buffers = '2GB'\n")], " -B 1024", 8 * MB, "/proc/812/cmdline");
    check(&[(&auto, "shared_buffers = '2GB'\n")], " --shared-buffers=1GB", 1024 * MB, "/proc/812/cmdline");
    check(&[(CONF, "shared_buffers 1GB")], "", 1024 * MB, CONF);
    check(&[(CONF, "cluster_name = 'a # b'\nshared_buffers = '1GB' # '2GB'")], "", 1024 * MB, CONF);
    check(
        &[
            (CONF, "shared_buffers = 1GB\ninclude_dir 'conf.d'"),
            ("/etc/postgresql/17/main/conf.d/a.conf", "shared_buffers = 65536"),
        ],
        "",
        512 * MB,
        "conf.d/a.conf:1, in blocks of 8 kB unless",
    );
    check(&[(CONF, "shared_buffers = 1073741824B")], "", 1024 * MB, CONF);
    check(&[(CONF, "port = 1")], "", 128 * MB, "the default of shared_buffers");
}

fn values_that_the_server_would_not_take_are_not_taken() {
    let check = |text: &str, expect: &str| {
        let fs = debian();
        fs.put(CONF, text);
        let found = one(&fs).shared_buffers_bytes;
        assert!(why(&found).contains(expect), "{found:?}");
    };
    check("shared_buffers = 0", "shared_buffers = `0` is outside of what the server takes, 16 to 1073741823");
    check("shared_buffers = 100kB", "outside of what the server takes");
    check("shared_buffers = 1B", "outside");
    check("shared_buffers = 9000000GB", "exceeds the range");
    check("shared_buffers = lots", "`lots` is no number");
    check("shared_buffers = 128mb", "`mb` is no unit");
    let fs = debian();
    for (word, expect) in [
        ("On", Some(HugePagesAsked::On)),
        ("yes", Some(HugePagesAsked::On)),
        ("0", Some(HugePagesAsked::Off)),
        ("TRY", Some(HugePagesAsked::Try)),
        ("t", None),
        ("of", None),
    ] {
        fs.put(CONF, format!("huge_pages = {word}"));
        assert_eq!(one(&fs).huge_pages_asked.value(), expect, "{word}");
    }
}

fn huge_pages_that_were_only_asked_for_are_not_in_effect() {
    let fs = debian();
    assert_eq!(
        (one(&fs).huge_pages_asked.value(), one(&fs).huge_pages_in_effect.value()),
        (Some(HugePagesAsked::Try), Some(false))
    );
    fs.put("/proc/812/smaps", smaps("/anon_hugepage (deleted)", 146, "ht"));
    assert_eq!(one(&fs).huge_pages_in_effect.value(), Some(true));
    fs.put("/proc/812/smaps", smaps("/dev/zero (deleted)", 146, "\nShmemPmdMapped: 2048 kB"));
    let server = one(&fs);
    assert_eq!(server.huge_pages_in_effect.value(), Some(false));
    assert!(server.notes[0].starts_with("Transparent huge pages hold 2097152 of the"), "{:?}", server.notes);
}

fn a_pool_that_does_not_fit_the_shared_memory_waits_for_a_restart() {
    let fs = debian();
    fs.put(CONF, "shared_buffers = 8GB");
    let server = one(&fs);
    assert!(why(&server.shared_buffers_bytes).contains("a restart is pending"), "{server:#?}");
    assert_eq!(server.shared_buffers_bytes.remedy.as_deref(), Some("give --pg URL"));
    assert!(server.notes.iter().any(|note| note.contains("a restart is pending")), "{:?}", server.notes);
    // One that is far too small was not in force at the start either; what connections take is no reason to doubt.
    let check = |size_mb: u64, is_known: bool| {
        let fs = debian();
        fs.put("/proc/812/smaps", smaps("/dev/zero (deleted)", size_mb, ""));
        assert_eq!(one(&fs).shared_buffers_bytes.value.is_some(), is_known, "{size_mb}");
    };
    check(127, false);
    check(145, true);
    check(1000, true);
    check(8400, false);
}

fn settings_that_stand_twice_and_files_with_errors_are_reported() {
    let fs = debian();
    fs.put(CONF, "shared_buffers = 64MB\nshared_buffers = 128MB\nwork_mem = 1.5GB\n");
    assert_eq!(
        one(&fs).notes,
        [
            format!("shared_buffers = `128MB` in {CONF}:2 counts and hides `64MB` in {CONF}:1."),
            format!(
                "{CONF}:3 has a syntax error near `GB`: PostgreSQL takes nothing from its files as long as this stands there."
            ),
        ]
    );
}

fn what_another_user_may_not_read_is_unknown_with_its_reason() {
    let fs = debian();
    fs.refuse("read_link", "/proc/812/cwd", libc::EACCES);
    fs.refuse("read", "/proc/812/smaps", libc::EACCES);
    fs.refuse("read", &format!("{DATA}/PG_VERSION"), libc::EACCES);
    fs.refuse("read", &format!("{DATA}/postgresql.auto.conf"), libc::EACCES);
    let server = one(&fs);
    assert_eq!(server.data_directory, Reading::found(DATA.to_owned(), "-D in /proc/812/cmdline"));
    assert_eq!(server.major_version.value(), Some(17), "by the path of the program");
    let remedy = "run holdup as the server's user or as root, or give --pg URL";
    for known in [why(&server.shared_buffers_bytes), why(&server.max_connections), why(&server.huge_pages_asked)] {
        assert!(known.contains("postgresql.auto.conf: permission denied"), "{known}");
    }
    assert_eq!(server.shared_buffers_bytes.remedy.as_deref(), Some(remedy));
    assert!(why(&server.huge_pages_in_effect).contains("/proc/812/smaps: permission denied"));
    assert_eq!(server.huge_pages_in_effect.remedy.as_deref(), Some(remedy));
    // Titles and page tables are open to all.
    assert_eq!((server.clients.value(), server.page_tables_bytes.value()), (Some(2), Some(5 * 100 * 1024)));
    // What the command line sets wins over any file.
    fs.put("/proc/812/cmdline", format!("postgres -D {DATA} -N 50").replace(' ', "\0"));
    assert_eq!(one(&fs).max_connections.value(), Some(50));
}

fn only_postmasters_are_servers() {
    let fs = debian();
    // A backend whose postmaster was killed, a server for one user, and one that has ended.
    put_process(&fs, 700, "postgres", 1, "");
    fs.put("/proc/700/cmdline", "postgres: app shop [local] idle\0");
    put_process(&fs, 701, "postgres", 1, "postgres --single -D /x db");
    put_process(&fs, 702, "postgres", 1, "");
    fs.put("/proc/702/stat", "702 (postgres) Z 1 702 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 77 0 0\n");
    assert_eq!(all(&fs).len(), 1);
    put_process(&fs, 813, "postgres", 1, "/opt/pg/bin/postgres -D /data");
    let two = all(&fs);
    assert_eq!(two.iter().map(|server| server.pid.value()).collect::<Vec<_>>(), [Some(812), Some(813)]);
    assert!(why(&two[1].major_version).contains("/data/PG_VERSION"));
}

fn children_are_taken_from_the_list_of_the_kernel_where_there_is_one() {
    let fs = debian();
    let without = one(&fs);
    // One ended while the list was made, which cuts it short; 832 is met on its own.
    fs.put("/proc/812/task/812/children", "820 830 831 ");
    fs.arm(None);
    assert_eq!(one(&fs), without);
    let read: Vec<String> = fs.log().into_iter().map(|operation| operation.about).collect();
    assert!(!read.contains(&"/proc/831/stat".to_owned()) && read.contains(&"/proc/832/stat".to_owned()));
}

fn a_host_without_servers_has_none_and_one_that_hides_them_says_so() {
    let fs = MemoryFs::new();
    assert!(why(&servers(&fs.host(), None, None)).contains("cannot list /proc"));
    put_process(&fs, 1, "systemd", 0, "/sbin/init");
    assert_eq!(servers(&fs.host(), None, None).value, Some(vec![]));
    fs.refuse("read", "/proc/812/stat", libc::EPERM);
    put_process(&fs, 812, "postgres", 1, "postgres");
    fs.refuse("read", "/proc/812/stat", libc::EACCES);
    let hidden = servers(&fs.host(), None, None);
    assert!(why(&hidden).starts_with("1 processes of other users may not be looked at"), "{hidden:?}");
    assert!(hidden.remedy.is_some());
    let fs = MemoryFs::of(&[("/proc/mounts", "proc /proc proc rw,nosuid,hidepid=invisible 0 0\n")]);
    put_process(&fs, 500, "holdup", 1, "holdup");
    assert!(why(&servers(&fs.host(), None, None)).contains("hidepid"));
    fs.put("/proc/mounts", "proc /proc proc rw,nosuid,hidepid=off 0 0\n");
    assert_eq!(servers(&fs.host(), None, None).value, Some(vec![]));
}

fn one_server_can_be_asked_for() {
    let fs = debian();
    let ask = |asked: Asked| servers(&fs.host(), Some(&asked), None);
    for asked in [Asked::Pid(812), Asked::Pid(830), Asked::DataDirectory(format!("{DATA}/"))] {
        assert_eq!(ask(asked.clone()).value.unwrap()[0].pid.value(), Some(812), "{asked:?}");
    }
    assert!(why(&ask(Asked::Pid(7))).contains("no process 7"));
    assert!(why(&ask(Asked::Pid(1))).contains("process 1 is `systemd`, which is no PostgreSQL server"));
    assert!(why(&ask(Asked::DataDirectory("/nowhere".into()))).contains("/nowhere is no data directory"));
    // By another path of the folder, through the server's own file.
    fs.put("/srv/pg/postmaster.pid", "812\n/var/lib/postgresql/17/main\n");
    assert_eq!(ask(Asked::DataDirectory("/srv/pg".into())).value.unwrap()[0].pid.value(), Some(812));
    // A server that does not run has its settings.
    fs.put("/srv/old/PG_VERSION", "15\n");
    fs.put("/srv/old/postgresql.conf", "shared_buffers = 1GB");
    fs.put("/srv/old/postmaster.opts", "/usr/bin/postgres \"-D\" \"/srv/old\" \"-N\" \"7\"\n");
    let stopped = ask(Asked::DataDirectory("/srv/old".into())).value.unwrap().remove(0);
    assert_eq!((stopped.name.as_str(), stopped.major_version.value()), ("/srv/old", Some(15)));
    assert_eq!((stopped.shared_buffers_bytes.value(), stopped.max_connections.value()), (Some(1024 * MB), Some(7)));
    assert!(why(&stopped.pid).contains("no server runs in /srv/old") && why(&stopped.clients).contains("does not run"));
}

fn files_of_a_server_in_a_container_are_read_in_it() {
    let fs = debian();
    fs.put_link("/proc/812/ns/mnt", "mnt:[4026532211]");
    fs.put_link("/proc/self/ns/mnt", "mnt:[4026531841]");
    fs.put(&format!("/proc/812/root{CONF}"), "shared_buffers = 96MB");
    fs.put(&format!("/proc/812/root{DATA}/PG_VERSION"), "16");
    let server = one(&fs);
    assert_eq!((server.shared_buffers_bytes.value(), server.major_version.value()), (Some(96 * MB), Some(16)));
}

fn garbage_makes_unknowns_and_no_panic() {
    let fs = debian();
    let paths =
        ["/proc/812/smaps", "/proc/812/cgroup", "/proc/812/cmdline", "/proc/831/status", CONF, "/proc/830/cmdline"];
    for path in paths {
        for garbage in [&b""[..], b"\xff\xfe\0\0", b"(", b"VmPTE: x kB", &[b'-'; 5000]] {
            let before = fs.get(path).unwrap();
            fs.put(path, garbage);
            assert!(servers(&fs.host(), None, None).value.is_some(), "{path} {garbage:?}");
            fs.put(path, before);
        }
    }
    fs.put(&format!("{DATA}/PG_VERSION"), "9.6\n");
    assert_eq!(why(&one(&fs).major_version), "`9.6` is no major version");
}

/// A connection that answers from data.
struct Answers {
    pid: Option<u32>,
    version_num: u32,
    rows: Vec<(&'static str, Vec<Vec<Option<&'static str>>>)>,
}

impl PostgresControl for Answers {
    fn postmaster_pid(&self) -> Option<u32> {
        self.pid
    }

    fn connection_string(&self) -> String {
        "host=db password=geheim".to_owned()
    }

    fn version_num(&self) -> u32 {
        self.version_num
    }

    fn query(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, Problem> {
        let rows = self.rows.iter().find(|(part, _)| sql.contains(part));
        let (_, rows) = rows.ok_or_else(|| Problem::host("query", "ERROR: permission denied"))?;
        Ok(rows.iter().map(|row| row.iter().map(|cell| cell.map(str::to_owned)).collect()).collect())
    }

    fn setting(&self, name: &str) -> Result<Setting, Problem> {
        Err(Problem::host(name, "not asked for"))
    }

    fn can_restart(&self) -> bool {
        false
    }

    fn alter(&self, name: &str, _value: Option<&str>) -> Result<(), Problem> {
        Err(Problem::host(name, "the survey only reads"))
    }
}

fn seventeen(pid: Option<u32>) -> Answers {
    let setting = |name, value, unit, pending| vec![Some("setting"), Some(name), Some(value), unit, pending];
    let state = vec![
        setting("shared_buffers", "15728640", Some("8kB"), None),
        setting("huge_pages", "try", None, None),
        setting("huge_pages_status", "on", None, None),
        setting("max_connections", "1000", None, Some("pending")),
        setting("update_process_title", "off", None, None),
        setting("port", "5432", None, None),
        vec![Some("clients"), Some("900"), Some("96"), Some("0"), Some("0")],
        vec![Some("address"), Some("10.0.0.5")],
        vec![Some("buffercache"), Some("public"), Some("pg_buffercache_summary()")],
    ];
    let look = || vec![Some("look"), Some("96"), Some("31")];
    let spins = vec![look(), vec![Some("")], vec![Some("")], look()];
    let rows = vec![
        ("SpinDelay", spins),
        ("public.pg_buffercache_summary()", vec![vec![Some("15000000"), Some("15728640")]]),
        ("pg_settings", state),
    ];
    Answers { pid, version_num: 170_011, rows }
}

fn a_connection_shows_what_is_in_force() {
    let fs = debian();
    let found = servers(&fs.host(), None, Some(&seventeen(Some(812)))).value.unwrap();
    assert_eq!(found.len(), 1);
    let server = &found[0];
    assert_eq!(server.version.value().as_deref(), Some("17.11"));
    assert_eq!(server.shared_buffers_bytes.value(), Some(15_728_640 * 8192));
    assert_eq!(server.huge_pages_in_effect, Reading::found(true, "SHOW huge_pages_status"));
    assert_eq!((server.clients.value(), server.active_clients.value()), (Some(900), Some(96)));
    assert_eq!(server.pool.value(), Some(Pool { unused_buffers: 15_000_000, buffers: 15_728_640 }));
    assert_eq!(server.spin_waits.value(), Some(SpinWaits { waiting: 62, looks: 192 }));
    assert_eq!(
        server.notes,
        [
            format!("shared_buffers = `128MB` in {CONF}:1, but 15728640 of 8kB is in force: a restart is pending."),
            format!("max_connections = `200` in {CONF}:2, but 1000 is in force: a restart is pending."),
        ]
    );
}

fn a_server_elsewhere_is_known_by_its_connection_alone() {
    let fs = debian();
    let found = servers(&fs.host(), None, Some(&seventeen(None))).value.unwrap();
    assert_eq!(found.len(), 2, "and the one that runs here");
    let server = &found[0];
    assert_eq!(server.name, "host=10.0.0.5 port=5432");
    assert_eq!((server.max_connections.value(), server.active_clients.value()), (Some(1000), Some(96)));
    assert!(why(&server.page_tables_bytes).contains("no process that can be seen on this host"));
    assert!(server.notes[0].starts_with("No process of this server"), "{:?}", server.notes);
    assert!(!format!("{found:?}").contains("geheim"));
}

fn a_connection_that_may_see_little_leaves_reasons() {
    let fs = debian();
    let mut control = seventeen(Some(812));
    control.rows.retain(|(part, _)| *part == "pg_settings");
    control.rows[0].1.retain(|row| row[0] != Some("clients") && row[1] != Some("update_process_title"));
    control.rows[0].1.push(vec![Some("clients"), Some("1"), Some("0"), Some("899"), Some("0")]);
    let server = servers(&fs.host(), None, Some(&control)).value.unwrap().remove(0);
    assert_eq!(server.clients.value(), Some(2), "by the titles");
    assert_eq!(why(&server.pool), "ERROR: permission denied");
    assert!(why(&server.spin_waits).contains("hides other users"));
    control.version_num = 150_018;
    let server = servers(&fs.host(), None, Some(&control)).value.unwrap().remove(0);
    assert!(why(&server.spin_waits).contains("PostgreSQL 15 does not report"));
    control.rows.clear();
    let server = servers(&fs.host(), None, Some(&control)).value.unwrap().remove(0);
    assert_eq!(server.shared_buffers_bytes.value(), Some(128 * MB), "by the files");
    assert!(server.notes.iter().any(|note| note.contains("does not answer: ERROR: permission denied")));
}

holdup_testkit::tests!(
    a_server_is_found_with_its_settings_and_its_processes,
    alter_system_and_includes_and_the_command_line_count,
    values_that_the_server_would_not_take_are_not_taken,
    huge_pages_that_were_only_asked_for_are_not_in_effect,
    a_pool_that_does_not_fit_the_shared_memory_waits_for_a_restart,
    settings_that_stand_twice_and_files_with_errors_are_reported,
    what_another_user_may_not_read_is_unknown_with_its_reason,
    only_postmasters_are_servers,
    children_are_taken_from_the_list_of_the_kernel_where_there_is_one,
    a_host_without_servers_has_none_and_one_that_hides_them_says_so,
    one_server_can_be_asked_for,
    files_of_a_server_in_a_container_are_read_in_it,
    garbage_makes_unknowns_and_no_panic,
    a_connection_shows_what_is_in_force,
    a_server_elsewhere_is_known_by_its_connection_alone,
    a_connection_that_may_see_little_leaves_reasons
);
