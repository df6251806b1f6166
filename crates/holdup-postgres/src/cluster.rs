//! A temporary server of holdup's own.

use super::child::{ChildOptions, Guarded, clean_command, last_lines, spawn};
use super::find::Binaries;
use super::network::Network;
use super::private_dir::{self, PrivateDir};
use super::server::{Layout, Server, end_of, end_orphans};
use super::sql;
use super::template;
use super::user::RunAs;
use holdup_files::MOST_BYTES_OF_TEXT;
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_load::Cancel;
use holdup_model::Problem;
use holdup_sql::Config;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How folders of clusters are called: this, the owner's pid and start time, a random number.
pub const PREFIX: &str = "holdup-pg";

/// Connections that are kept free beside the load: collectors, knobs, `superuser_reserved_connections`.
const RESERVE: u32 = 30;

/// Where ALTER SYSTEM writes.
const AUTO_CONF: &str = "postgresql.auto.conf";

/// The longest path of a Unix socket with its closing zero: `sun_path` of unix(7).
const SOCKET_PATH_MAX: usize = 108;

/// What a cluster is made from.
#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The programs.
    pub bin: Binaries,
    /// Where its folder goes.
    pub workdir: PathBuf,
    /// The most clients that will be connected at the same time.
    pub max_clients: u32,
    /// The address at which it listens, and the only one that may connect to it; `None` for the Unix socket alone.
    pub network: Option<(IpAddr, Vec<IpAddr>)>,
    /// Asks to end, while it is being made.
    pub cancel: Cancel,
}

/// A temporary server. Dropping it ends the server and removes its folder.
#[derive(Debug)]
pub struct Cluster {
    /// Before `folder`, so that the server ends before its files go.
    server: Mutex<Option<Server>>,
    layout: Layout,
    /// The folder with the server's program.
    programs: Mutex<PathBuf>,
    /// What initdb and pgbench -i write, in a file of ours.
    setup_log: File,
    folder: PrivateDir,
    host: Host,
    version_num: u32,
    generation: AtomicU64,
}

/// Removes the clusters that killed runs have left in `workdir`, and ends servers that still run in them.
/// Returns the folders that were removed.
pub fn sweep_stale(host: &Host, workdir: &Path) -> Vec<PathBuf> {
    private_dir::sweep(host, workdir, PREFIX, &|folder| match folder.folder("data") {
        Ok(data) => end_orphans(host, &data),
        // Not made yet.
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    })
}

impl Cluster {
    /// Makes a cluster and starts its server. UTF8, locale C, the superuser `holdup` without a password;
    /// no other user can enter the folder with its socket.
    ///
    /// # Errors
    /// When any step fails or is cancelled; nothing is left behind.
    pub fn create(host: &Host, options: &ClusterOptions) -> Result<Self, Problem> {
        let user = RunAs::for_this_process(host)?;
        let folder = PrivateDir::create(host, &options.workdir, PREFIX, user.as_ref())?;
        let failed = |e: io::Error| Problem::host(format!("cluster in {}", folder.path().display()), e.to_string());
        // Logs are opened before anything is handed over, and the server's user cannot reach them by name.
        let (setup_log, log) =
            (folder.folder().create_file("setup.log", 0o600), folder.folder().create_file("server.log", 0o600));
        let layout = Layout {
            bin: options.bin.clone(),
            data: folder.folder().create_folder("data", 0o700).map_err(failed)?,
            sockets: folder.create_folder_for("s", user.as_ref()).map_err(failed)?,
            log: log.map_err(failed)?,
            user,
            network: options.network.as_ref().map(|(server, clients)| Network::new(*server, clients)).transpose()?,
        };
        let setup_log = setup_log.map_err(failed)?;
        let socket = layout.socket();
        if socket.as_os_str().as_bytes().len() >= SOCKET_PATH_MAX {
            return Err(Problem::host(
                format!("Unix socket {}", socket.display()),
                format!("its path has {} bytes, the kernel allows {}", socket.as_os_str().len(), SOCKET_PATH_MAX - 1),
            )
            .hint("let TMPDIR or the working directory be a shorter path, such as /tmp"));
        }
        let (server, generation) = (Mutex::new(None), AtomicU64::new(0));
        let programs = Mutex::new(layout.bin.bin.clone());
        let mut cluster =
            Cluster { programs, server, layout, setup_log, folder, version_num: 0, generation, host: host.clone() };
        cluster.initdb(&options.cancel)?;
        cluster.write_settings(options.max_clients)?;
        if let Some(network) = cluster.network() {
            let written = network.write_hba(&cluster.layout.data);
            written.map_err(|e| Problem::host("pg_hba.conf", e.to_string()))?;
        }
        cluster.start(Some(&options.cancel))?;
        let version = sql::one(&mut sql::connect(&cluster.config("postgres"))?, "SHOW server_version_num")?;
        cluster.version_num =
            version.parse().map_err(|_| Problem::host("server_version_num", format!("`{version}` is not a number")))?;
        if let Some(network) = cluster.network() {
            network.create_roles(&cluster.config("postgres"))?;
        }
        Ok(cluster)
    }

    /// The way into it from another host.
    pub(crate) fn network(&self) -> Option<&Network> {
        self.layout.network.as_ref()
    }

    fn initdb(&self, cancel: &Cancel) -> Result<(), Problem> {
        let Layout { bin, data, user, .. } = &self.layout;
        if template::copy_fitting(Path::new(template::FOLDER), bin, data, user.as_ref())? {
            return Ok(());
        }
        if let Some(user) = user {
            data.give_to(user.uid, user.gid).map_err(|e| Problem::host("initdb", e.to_string()))?;
        }
        let mut command = clean_command(&bin.program("initdb"));
        command.arg("-D").arg(data.path());
        command.args(["-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C", "-U", "holdup"]);
        self.run("initdb", command, cancel)
    }

    /// Runs a program as the server's user, with its output in a file of ours.
    ///
    /// # Errors
    /// When it fails (with its last lines) or is cancelled.
    pub(crate) fn run(&self, what: &str, mut command: Command, cancel: &Cancel) -> Result<(), Problem> {
        let failed = |e: io::Error| Problem::host(what, e.to_string());
        let from = self.setup_log.metadata().map_err(failed)?.len();
        let output = self.setup_log.try_clone().map_err(failed)?;
        command.current_dir(self.layout.data.path()).stdout(Stdio::null()).stderr(output);
        let options = ChildOptions { user: self.user().cloned(), death_signal: libc::SIGKILL, many_files: false };
        let mut child = Guarded(spawn(command, &options).map_err(failed)?);
        let status = child.wait(what, Duration::MAX, Some(cancel))?;
        if status.is_some_and(|s| s.success()) {
            return Ok(());
        }
        let said = last_lines(&end_of(&self.setup_log, from).map_err(failed)?, 4);
        let how = status.map_or_else(|| "no exit status".to_owned(), |s| s.to_string());
        Err(Problem::host(what, format!("{how}: {said}")))
    }

    /// What the harness itself needs; everything else stays as initdb made it. In the file and not on
    /// the command line, so that a factor can still say otherwise.
    fn write_settings(&self, max_clients: u32) -> Result<(), Problem> {
        let connections = max_clients.saturating_add(RESERVE).max(100);
        let text = format!("\n# Needed by holdup.\nmax_connections = {connections}\n");
        let data = &self.layout.data;
        data.open_to_write("postgresql.conf")
            .and_then(|mut file| {
                file.seek(SeekFrom::End(0))?;
                file.write_all(text.as_bytes())
            })
            .map_err(|e| Problem::host(format!("{}/postgresql.conf", data.path().display()), e.to_string()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Server>> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the server, if it does not run.
    pub(crate) fn start(&self, cancel: Option<&Cancel>) -> Result<(), Problem> {
        let mut server = self.lock();
        if server.as_mut().is_some_and(Server::is_alive) {
            return Ok(());
        }
        *server = None;
        *server = Some(Server::start(&self.host, &self.layout, &self.programs(), cancel)?);
        self.generation.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Restarts the server by a fast shutdown. Not to be cancelled: it is also how things are put back.
    ///
    /// # Errors
    /// When it does not start again; its own message is quoted.
    pub fn restart(&self) -> Result<(), Problem> {
        if let Some(mut server) = self.lock().take() {
            server.stop(true);
        }
        self.start(None)
    }

    /// The folder with the server's program.
    pub(crate) fn programs(&self) -> PathBuf {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Lets another build of the same version serve the same data, from now on.
    ///
    /// # Errors
    /// When it does not start; its own message is quoted.
    pub(crate) fn serve_with(&self, programs: &Path) -> Result<(), Problem> {
        if self.programs() == programs {
            return Ok(());
        }
        *self.programs.lock().unwrap_or_else(PoisonError::into_inner) = programs.to_owned();
        self.restart()
    }

    /// How often the server was started. A change means that its buffer pool was emptied.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Whether the postmaster runs; when it does not, the last lines of its log.
    pub fn check_alive(&self) -> Result<(), Problem> {
        if self.lock().as_mut().is_some_and(Server::is_alive) {
            return Ok(());
        }
        Err(Problem::trial("PostgreSQL server", format!("it is gone; its log says: {}", self.layout.log_end(0))))
    }

    /// The postmaster's pid.
    pub fn pid(&self) -> Option<u32> {
        self.lock().as_ref().map(Server::pid)
    }

    /// The folder that holds the data, the socket and the log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The data folder.
    pub fn data(&self) -> PathBuf {
        self.layout.data.path().to_owned()
    }

    /// The user that the server and its clients run as; `None` for ours.
    pub fn user(&self) -> Option<&RunAs> {
        self.layout.user.as_ref()
    }

    /// The programs.
    pub fn bin(&self) -> &Binaries {
        &self.layout.bin
    }

    /// The `server_version_num`.
    pub(crate) fn version(&self) -> u32 {
        self.version_num
    }

    /// How to connect to a database of it.
    pub fn config(&self, database: &str) -> Config {
        self.layout.config(database)
    }

    /// What ALTER SYSTEM has written.
    pub(crate) fn read_auto_conf(&self) -> Result<Vec<u8>, Problem> {
        self.layout.data.read(AUTO_CONF, MOST_BYTES_OF_TEXT).map_err(|e| Problem::host(AUTO_CONF, e.to_string()))
    }

    /// Puts back what ALTER SYSTEM had written before.
    pub(crate) fn write_auto_conf(&self, bytes: &[u8]) -> Result<(), Problem> {
        let write = || {
            let mut file = self.layout.data.open_to_write(AUTO_CONF)?;
            file.set_len(0)?;
            file.write_all(bytes)
        };
        write().map_err(|e| Problem::host(AUTO_CONF, e.to_string()))
    }

    /// The folder of its socket, for PGHOST.
    pub fn socket_folder(&self) -> &Path {
        self.layout.sockets.path()
    }

    /// Ends the server and removes the folder.
    pub fn discard(self) -> Result<(), Problem> {
        let Cluster { server, folder, .. } = self;
        drop(server);
        folder.remove()
    }
}

impl Cluster {
    /// A connection string for a database of it.
    pub fn connection_string_for(&self, database: &str) -> String {
        format!(
            "host={} port={} user=holdup dbname={} application_name=holdup",
            sql::conninfo(&self.socket_folder().display().to_string()),
            self.layout.port(),
            sql::conninfo(database)
        )
    }

    /// Whether the server answers a query; used by tests and after a refusal.
    pub fn ping(&self) -> Result<(), Problem> {
        self.query("SELECT 1").map(|_| ())
    }
}
