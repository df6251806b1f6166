//! A server of its own for each situation, its sessions, and the record of it.

use crate::situations::{Situation, record};
use holdup_host::{Host, process};
use holdup_induce::Group;
use holdup_load::Cancel;
use holdup_model::BundleData;
use holdup_model::progress::Silent;
use holdup_postgres::find::{Need, SearchPath};
use holdup_postgres::sql::{self, Rows};
use holdup_postgres::{Binaries, Cluster, ClusterOptions};
use holdup_sql::{Client, Config};
use holdup_testkit::ignore;
use std::any::Any;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long the sessions run before the record begins.
const SETTLE: Duration = Duration::from_millis(500);

/// Settings that were set and need one.
const NEEDS_RESTART: &str = "SELECT name FROM pg_file_settings WHERE error IS NOT NULL";

/// A server and its sessions. They end with it.
pub(crate) struct Server {
    /// What ends before the server does, because it keeps the server from ending.
    hindrances: Vec<Box<dyn Any>>,
    stop: Arc<AtomicBool>,
    held: Option<Client>,
    cluster: Option<Cluster>,
    threads: Vec<JoinHandle<()>>,
    _folder: tempfile::TempDir,
}

/// Starts the server and its sessions, and what else belongs to the situation, and records the server. Gives the number of
/// sessions, too.
pub(crate) fn watch<T>(
    situation: &Situation,
    windows: record::Windows,
    beside: impl FnOnce(&mut Server) -> T,
) -> (BundleData, T, usize) {
    let mut server = Server::begin(situation);
    let induced = beside(&mut server);
    let sessions = server.backends().len();
    let bundle = record::of(&[server.pid()], windows);
    (bundle, induced, sessions)
}

/// The record of a server that is asked as well (`--pg URL`).
pub(crate) fn watch_and_ask(situation: &Situation, windows: record::Windows) -> BundleData {
    let server = Server::start(situation);
    std::thread::sleep(SETTLE);
    let url = server.cluster().connection_string_for("postgres");
    record::observed(&[server.pid()], Some(url), windows, &mut Silent)
}

impl Server {
    /// Starts a server and its sessions.
    pub(crate) fn begin(situation: &Situation) -> Self {
        let server = Server::start(situation);
        std::thread::sleep(SETTLE);
        server
    }

    fn start(situation: &Situation) -> Self {
        let folder = tempfile::Builder::new().prefix("h").tempdir_in("/tmp").expect("a folder");
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
        let bin =
            Binaries::find(&SearchPath::of_this_host(None), Need::Server).unwrap_or_else(|problem| ignore(problem));
        let workdir = folder.path().to_owned();
        let options = ClusterOptions { bin, workdir, max_clients: 32, network: None, cancel: Cancel::default() };
        let cluster = Some(Cluster::create(&Host::real(), &options).expect("a cluster"));
        let stop = Arc::default();
        let mut server =
            Server { hindrances: Vec::new(), stop, held: None, cluster, threads: Vec::new(), _folder: folder };
        let mut client = server.connect();
        situation.setup.iter().for_each(|statement| drop(client.simple_query(statement).expect("set up")));
        let needs_restart = sql::rows(&mut client, NEEDS_RESTART).expect("the server answers");
        drop(client);
        if !needs_restart.is_empty() {
            server.cluster().restart().expect("it starts again");
        }
        if !situation.held.is_empty() {
            let mut holder = server.connect();
            situation.held.iter().for_each(|statement| drop(holder.simple_query(statement).expect("held")));
            server.held = Some(holder);
        }
        server.sessions(situation.sessions, |client| client.simple_query(situation.statement).is_ok());
        server
    }

    fn cluster(&self) -> &Cluster {
        self.cluster.as_ref().expect("it runs")
    }

    /// The postmaster.
    pub(crate) fn pid(&self) -> u32 {
        self.cluster().pid().expect("it runs")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.cluster().socket_folder().join(".s.PGSQL.5432")
    }

    fn config(&self) -> Config {
        self.cluster().config("postgres")
    }

    pub(crate) fn connect(&self) -> Client {
        connected(&self.config())
    }

    /// Sessions that do something again and again until it fails, which it does when the server ends.
    pub(crate) fn sessions(&mut self, count: usize, work: impl Fn(&mut Client) -> bool + Clone + Send + 'static) {
        for _ in 0..count {
            let (mut client, work) = (self.connect(), work.clone());
            self.thread(move |_| work(&mut client));
        }
    }

    /// A thread that does something again and again until it fails, or the server ends.
    pub(crate) fn thread(&mut self, mut work: impl FnMut(&Config) -> bool + Send + 'static) {
        let (stop, config) = (self.stop.clone(), self.config());
        let thread = move || while !stop.load(Ordering::Relaxed) && work(&config) {};
        self.threads.push(std::thread::spawn(thread));
    }

    pub(crate) fn folder(&self) -> &Path {
        self.cluster().folder()
    }

    /// A program of PostgreSQL that connects to it.
    pub(crate) fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.cluster().bin().program(name));
        command.arg("-h").arg(self.cluster().socket_folder()).args(["-U", "holdup"]).stdin(Stdio::null());
        command
    }

    /// Drops a table from the page cache.
    pub(crate) fn forget(&self, table: &str) {
        self.ask("CHECKPOINT");
        let path = self.ask(&format!("SELECT pg_relation_filepath('{table}')"));
        let path = self.cluster().data().join(path[0][0].as_deref().expect("a path"));
        let file = std::fs::File::open(path).expect("a table");
        file.sync_all().expect("it is written");
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).expect("it is dropped");
    }

    /// Moves its processes into the control group of a folder.
    pub(crate) fn join(&self, folder: &str) {
        let host = Host::real();
        let children = process::children(&host, self.pid()).expect("processes");
        for pid in [self.pid()].into_iter().chain(children) {
            let moved = host.write(&format!("{folder}/cgroup.procs"), &pid.to_string());
            // A parallel worker may have ended meanwhile.
            assert!(moved.is_ok() || !host.exists(&format!("/proc/{pid}")), "{moved:?}");
        }
    }

    /// Its processes have the CPUs before what else runs here.
    pub(crate) fn prefer(&mut self) {
        match Group::with_more_weight() {
            Ok(group) => self.join_until_the_end(group),
            Err(problem) => println!("what else runs here is not kept away: {problem}"),
        }
    }

    /// Moves its processes into a group until the record is over.
    pub(crate) fn join_until_the_end(&mut self, group: Group) {
        self.join(group.folder());
        self.hinder(Joined(group));
    }

    /// Holds what ends before the server does.
    pub(crate) fn hinder(&mut self, by: impl Any) {
        self.hindrances.push(Box::new(by));
    }

    /// The rows of a statement. The process that answered has ended then: it is none of the situation's sessions.
    pub(crate) fn ask(&self, statement: &str) -> Rows {
        let mut client = self.connect();
        let own = sql::rows(&mut client, "SELECT pg_backend_pid()").expect("the server answers");
        let rows = sql::rows(&mut client, statement).expect("the server answers");
        drop(client);
        let process = format!("/proc/{}", own[0][0].as_deref().expect("a pid"));
        let begun = Instant::now();
        while Path::new(&process).exists() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        rows
    }

    /// The processes that serve clients, but for that which is asked.
    pub(crate) fn backends(&self) -> Vec<u32> {
        let rows = self
            .ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
        rows.iter().map(|row| row[0].as_deref().expect("a pid").parse().expect("a number")).collect()
    }
}

/// A group that its processes leave when this is dropped.
struct Joined(Group);

impl Drop for Joined {
    fn drop(&mut self) {
        let host = Host::real();
        let folder = Path::new(self.0.folder());
        let above = folder.parent().unwrap_or(folder).join("cgroup.procs");
        let inside = host.read_text(&format!("{}/cgroup.procs", folder.display())).unwrap_or_default();
        for pid in inside.lines() {
            let _has_ended = host.write(&above.display().to_string(), pid);
        }
    }
}

pub(crate) fn connected(config: &Config) -> Client {
    Client::connect(config).expect("the server answers").with_limit(Duration::from_secs(120))
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hindrances.clear();
        self.stop.store(true, Ordering::Relaxed);
        self.held = None;
        // What waits ends with an error.
        let is_discarded = self.cluster.take().is_none_or(|cluster| cluster.discard().is_ok());
        let have_ended = self.threads.drain(..).map(JoinHandle::join).filter(Result::is_err).count() == 0;
        assert!(std::thread::panicking() || is_discarded && have_ended, "a server or its sessions are left");
    }
}
