//! Servers that are no PostgreSQL, with clients that are idle or ask for more than one thread does.

use crate::situations::programs::{Ending, prefer, started};
use crate::situations::{QUIET, Situation, answer, needs_account, record};
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const IDLE: Situation = Situation { says: "the watched tasks hardly run", ..QUIET };
const SATURATED: Situation = Situation { first: &["saturated-thread"], ..QUIET };

static IDLE_REDIS: Situation = Situation { name: "idle Redis", ..IDLE };
static BUSY_REDIS: Situation =
    Situation { name: "Redis with pipelines", says: "One thread is the limit: redis-server", ..SATURATED };
static SLOW_SCRIPT: Situation = Situation { name: "Redis with a slow script", ..BUSY_REDIS };
static IDLE_MEMCACHED: Situation = Situation { name: "idle memcached", ..IDLE };
static BUSY_MEMCACHED: Situation =
    Situation { name: "memcached with one thread", says: "One thread is the limit: m", ..SATURATED };
static IDLE_MARIADB: Situation = Situation { name: "idle MariaDB", ..IDLE };
/// A row lock, for which InnoDB's threads wait at a condition variable: nothing is known of it.
static HOT_ROW: Situation = Situation { name: "MariaDB with a hot row", first: &["mutex"], says: "Mutexes:", ..QUIET };
static IDLE_NGINX: Situation = Situation { name: "idle nginx", ..IDLE };
static BUSY_NGINX: Situation =
    Situation { name: "nginx with one worker", says: "One thread is the limit: nginx", ..SATURATED };

/// A server and the folder with its socket.
struct Daemon {
    process: Ending,
    folder: tempfile::TempDir,
}

impl Daemon {
    /// Starts a server, which is given the folder, and waits until it listens on the socket `s` in it.
    fn start(program: &str, arguments: impl Fn(&Path, &mut Command)) -> Self {
        needs_account();
        let folder = tempfile::Builder::new().prefix("h").tempdir_in("/tmp").expect("a folder");
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("ours");
        let mut command = Command::new(program);
        arguments(folder.path(), &mut command);
        let daemon = Daemon { process: started(&mut command), folder };
        for _ in 0..500 {
            if UnixStream::connect(daemon.socket()).is_ok() {
                return daemon;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{program} does not listen on {}", daemon.socket().display())
    }

    fn redis() -> Self {
        Daemon::start("redis-server", |folder, command| {
            command.args(["--port", "0", "--save", "", "--dir"]).arg(folder).arg("--unixsocket").arg(folder.join("s"));
        })
    }

    fn memcached() -> Self {
        Daemon::start("memcached", |folder, command| {
            command.args(["-u", "root", "-t", "1", "-s"]).arg(folder.join("s"));
        })
    }

    fn nginx() -> Self {
        Daemon::start("nginx", |folder, command| {
            let at = folder.display();
            let text = format!(
                "daemon off; master_process off; user root; pid {at}/pid; error_log {at}/log; events {{}} http {{\n\
                 access_log off; gzip on; gzip_comp_level 9; gzip_types *; server {{ listen unix:{at}/s; root {at}; keepalive_requests 100000000; }} }}\n"
            );
            std::fs::write(folder.join("conf"), text).expect("a file");
            let page: String = (0..200_000_u64).map(|n| (n * n).to_string()).collect();
            std::fs::write(folder.join("page"), page).expect("a file");
            command.arg("-p").arg(folder).arg("-c").arg(folder.join("conf"));
        })
    }

    fn mariadb() -> Self {
        Daemon::start("mariadbd", |folder, command| {
            let data = folder.join("data");
            let mut install = Command::new("mariadb-install-db");
            install.args([
                "--no-defaults",
                "--user=root",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ]);
            if let Ok(output) = install.arg(format!("--datadir={}", data.display())).output() {
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            }
            command.args(["--no-defaults", "--user=root", "--skip-networking", "--innodb-flush-log-at-trx-commit=0"]);
            command.arg(format!("--datadir={}", data.display()));
            command.arg(format!("--socket={}", folder.join("s").display()));
        })
    }

    /// A client of MariaDB that executes statements from a file.
    fn executes(&self, statements: &str) -> Command {
        let file = self.folder.path().join("statements");
        std::fs::write(&file, statements).expect("a file");
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "-u", "root", "-S"]).arg(self.socket());
        command.arg("-e").arg(format!("source {}", file.display()));
        command
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    /// A client that sends a request again and again, and takes the answers; it ends with the server.
    fn client(&self, request: &str) {
        let requests = request.repeat(1000).into_bytes();
        let mut writes = UnixStream::connect(self.socket()).expect("it listens");
        let mut reads = writes.try_clone().expect("a socket");
        std::thread::spawn(move || while writes.write_all(&requests).is_ok() {});
        std::thread::spawn(move || {
            let mut answers = vec![0; 1 << 16];
            while reads.read(&mut answers).is_ok_and(|read| read > 0) {}
        });
    }

    fn judge(&self, situation: &Situation, windows: record::Windows) {
        std::thread::sleep(Duration::from_millis(300));
        answer(situation, &record::of(&[self.process.0.id()], windows));
    }

    /// The same, of a server that has a CPU before what else runs here.
    fn judge_preferred(&self, situation: &Situation) {
        prefer(self.process.0.id());
        self.judge(situation, record::MANY);
    }
}

pub(crate) fn an_idle_redis() {
    Daemon::redis().judge(&IDLE_REDIS, record::USUAL);
}

pub(crate) fn a_redis_with_pipelines() {
    let daemon = Daemon::redis();
    (0..2).for_each(|_| daemon.client("INCR a\r\n"));
    daemon.judge_preferred(&BUSY_REDIS);
}

pub(crate) fn a_redis_with_a_slow_script() {
    let daemon = Daemon::redis();
    daemon.client("EVAL \"local n = 0; for i = 1, 1e9 do n = n + i end; return n\" 0\r\n");
    daemon.judge_preferred(&SLOW_SCRIPT);
}

pub(crate) fn an_idle_memcached() {
    Daemon::memcached().judge(&IDLE_MEMCACHED, record::USUAL);
}

pub(crate) fn a_memcached_with_one_thread() {
    let daemon = Daemon::memcached();
    (0..2).for_each(|_| daemon.client(&format!("get{}\r\n", " a".repeat(500))));
    daemon.judge_preferred(&BUSY_MEMCACHED);
}

pub(crate) fn an_idle_nginx() {
    Daemon::nginx().judge(&IDLE_NGINX, record::USUAL);
}

pub(crate) fn an_nginx_with_one_worker() {
    let daemon = Daemon::nginx();
    (0..2).for_each(|_| daemon.client("GET /page HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"));
    daemon.judge_preferred(&BUSY_NGINX);
}

pub(crate) fn an_idle_mariadb() {
    Daemon::mariadb().judge(&IDLE_MARIADB, record::USUAL);
}

pub(crate) fn a_mariadb_with_a_hot_row() {
    let daemon = Daemon::mariadb();
    let table = "CREATE DATABASE d; CREATE TABLE d.t (id int PRIMARY KEY, v int); INSERT INTO d.t VALUES (1, 0);";
    assert!(daemon.executes(table).status().expect("it runs").success());
    let updates = "UPDATE d.t SET v = v + 1 WHERE id = 1;\n".repeat(1_000_000);
    let _clients: Vec<Ending> = (0..8).map(|_| started(&mut daemon.executes(&updates))).collect();
    daemon.judge(&HOT_ROW, record::MANY);
}
