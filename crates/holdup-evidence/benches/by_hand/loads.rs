//! What is watched: PostgreSQL under pgbench, hackbench, and pairs of processes that do nothing but switch.

use crate::arguments::Arguments;
use crate::cpu_time;
use crate::switching::{self, Handing, Switching};
use holdup_evidence::Subject;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What one window of a load did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    /// Work per second, by the load's own clock.
    pub(crate) rate: f64,
    /// How much work that was.
    pub(crate) work: f64,
    /// CPU time that it took, s.
    pub(crate) cpu_s: f64,
}

/// A load that can be run again and again.
pub(crate) trait Load {
    /// The unit of its rate.
    fn unit(&self) -> &'static str;

    /// Makes a run that waits for the word to go.
    fn ready(&mut self) -> Result<Ready, String>;

    /// The processes to watch.
    fn subjects(&self, ready: &Ready) -> Vec<Subject>;

    /// Lets it run to its end.
    fn run(&mut self, ready: Ready) -> Result<Done, String>;
}

/// What begins at a word.
pub(crate) enum Ready {
    Program(Program),
    Pairs(Switching),
}

impl Ready {
    fn program(self) -> Result<Program, String> {
        match self {
            Ready::Program(program) => Ok(program),
            Ready::Pairs(_) => Err("it is not a program".to_owned()),
        }
    }

    fn subjects(&self, role: &str) -> Vec<Subject> {
        let pids = match self {
            Ready::Program(program) => vec![program.0.id()],
            Ready::Pairs(pairs) => pairs.pids(),
        };
        pids.into_iter().map(|pid| Subject { role: role.to_owned(), pid }).collect()
    }
}

/// A program whose shell waits for the word.
pub(crate) struct Program(Child);

impl Program {
    /// The shell becomes the program, so a tool that watches it has the pid before it begins.
    fn ready(command: &[String]) -> Result<Ready, String> {
        let child = Command::new("sh")
            .args(["-c", "read go && exec \"$@\"", "sh"])
            .args(command)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        child.map(|child| Ready::Program(Program(child))).map_err(|e| format!("sh: {e}"))
    }

    /// Its output and its CPU time.
    fn go(mut self) -> Result<(String, f64), String> {
        let written = self.0.stdin.take().map(|mut stdin| stdin.write_all(b"go\n"));
        written.transpose().map_err(|e| e.to_string())?;
        let (mut text, mut errors) = (String::new(), String::new());
        if let (Some(mut out), Some(mut err)) = (self.0.stdout.take(), self.0.stderr.take()) {
            out.read_to_string(&mut text).map_err(|e| e.to_string())?;
            err.read_to_string(&mut errors).map_err(|e| e.to_string())?;
        }
        let cpu_s = cpu_time::of_ended(&self.0);
        // Only the last lines matter when there is no number in it.
        Ok((format!("{text}\n{errors}"), cpu_s))
    }
}

pub(crate) fn load(name: &str, arguments: &Arguments) -> Result<Box<dyn Load>, String> {
    match name {
        "pgbench" => Ok(Box::new(Postgres::start(arguments, None)?)),
        "pgbench-5000" => Ok(Box::new(Postgres::start(arguments, Some(LONG))?)),
        "pgbench-50000" => Ok(Box::new(Postgres::start(arguments, Some(SHORT))?)),
        "hackbench" => Ok(Box::new(Hackbench::sized(arguments)?)),
        "ping-pong" => Ok(Box::new(PingPong { length: Duration::from_secs_f64(arguments.seconds) })),
        _ => Err(format!("no load {name}; there are pgbench, pgbench-5000, pgbench-50000, hackbench, ping-pong")),
    }
}

/// Transactions of which two busy CPUs make some 5,000 and 50,000 switches a second.
const LONG: &str = "SELECT sum(g) FROM generate_series(1, 6000) g;\n";
const SHORT: &str = "SELECT sum(g) FROM generate_series(1, 250) g;\n";

/// A cluster of our own, with pgbench's tables at scale 10: all in shared buffers.
struct Postgres {
    bin: PathBuf,
    // The folder goes after the server.
    server: Server,
    folder: tempfile::TempDir,
    command: Vec<String>,
    seconds: f64,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: a plain system call on a child that has not been waited for. SIGINT is PostgreSQL's fast shutdown.
        unsafe { libc::kill(self.0.id() as i32, libc::SIGINT) };
        let _ended = self.0.wait();
    }
}

fn to_its_end(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(format!("{name}: {}: {text} {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

/// The numbers of the user that PostgreSQL runs as: it refuses root.
fn postgres_user() -> Result<(u32, u32), String> {
    let number = |flag: &str| {
        let text = to_its_end(Command::new("id").args([flag, "postgres"]))?;
        text.trim().parse::<u32>().map_err(|e| format!("id {flag} postgres: {e}"))
    };
    Ok((number("-u")?, number("-g")?))
}

impl Postgres {
    /// With the transactions of this script, or those of `pgbench -S`.
    fn start(arguments: &Arguments, script: Option<&str>) -> Result<Self, String> {
        let bin = arguments.pg_bin.clone();
        let (user, group) = postgres_user()?;
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).map_err(|e| e.to_string())?;
        let data = folder.path().join("data");
        let as_user = |program: &str| {
            let mut command = Command::new(bin.join(program));
            command.uid(user).gid(group).current_dir(folder.path());
            command
        };
        to_its_end(as_user("initdb").args(["-A", "trust", "-U", "postgres", "-N", "-D"]).arg(&data))?;
        let mut command = as_user("postgres");
        command.arg("-D").arg(&data).arg("-k").arg(folder.path());
        for setting in ["listen_addresses=", "fsync=off", "shared_buffers=512MB", "max_connections=200"] {
            command.args(["-c", setting]);
        }
        let log = std::fs::File::create(folder.path().join("log")).map_err(|e| e.to_string())?;
        let server = Server(command.stdout(Stdio::null()).stderr(log).spawn().map_err(|e| e.to_string())?);
        wait_for(&bin, folder.path())?;
        let socket = folder.path().display().to_string();
        let in_words = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<String>>();
        let pgbench = bin.join("pgbench").display().to_string();
        let mut fill = in_words(&["-q", "-i", "-s", "10", "-h", &socket, "-U", "postgres", "postgres"]);
        to_its_end(Command::new(&pgbench).args(&mut fill))?;
        let (clients, whole) = (arguments.clients.to_string(), (arguments.seconds.ceil().max(1.0)).to_string());
        let file = folder.path().join("script.sql");
        std::fs::write(&file, script.unwrap_or_default()).map_err(|e| e.to_string())?;
        let what = script.map_or_else(|| "-S".to_owned(), |_| format!("-f{}", file.display()));
        let words = ["-n", &what, "-M", "prepared", "-c", &clients, "-j", "2", "-T", &whole, "-h", &socket];
        let command = [in_words(&[&pgbench]), in_words(&words), in_words(&["-U", "postgres", "postgres"])].concat();
        let mut it = Postgres { bin, server, folder, command, seconds: arguments.seconds.ceil().max(1.0) };
        // One that does not count: pages and plans are there afterwards.
        let first = it.ready()?;
        it.run(first)?;
        Ok(it)
    }
}

fn wait_for(bin: &Path, socket: &Path) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        match to_its_end(Command::new(bin.join("pg_isready")).arg("-h").arg(socket)) {
            Ok(_) => return Ok(()),
            Err(why) if begun.elapsed() > Duration::from_secs(30) => {
                let log = std::fs::read_to_string(socket.join("log")).unwrap_or_default();
                return Err(format!("{why}; {log}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// How many children a process has.
fn children(pid: u32) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().count()
}

impl Load for Postgres {
    fn unit(&self) -> &'static str {
        "transactions/s"
    }

    fn ready(&mut self) -> Result<Ready, String> {
        Program::ready(&self.command)
    }

    fn subjects(&self, ready: &Ready) -> Vec<Subject> {
        let server = Subject { role: "server".to_owned(), pid: self.server.0.id() };
        [vec![server], ready.subjects("load")].concat()
    }

    fn run(&mut self, ready: Ready) -> Result<Done, String> {
        let children_before = children(self.server.0.id());
        let before = cpu_time::of_running(self.server.0.id());
        let (text, client_s) = ready.program()?.go()?;
        // The backends' CPU time is in the postmaster's account once it has waited for all of them.
        let begun = Instant::now();
        while children(self.server.0.id()) > children_before && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let cpu_s = client_s + cpu_time::of_running(self.server.0.id()) - before;
        let rate = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse::<f64>().ok());
        let where_ = (&self.bin, self.folder.path());
        let rate = rate.ok_or_else(|| format!("pgbench of {where_:?} printed no tps: {text}"))?;
        Ok(Done { rate, work: rate * self.seconds, cpu_s })
    }
}

/// Always the same number of messages, which took about the window when nothing watched.
struct Hackbench {
    groups: u32,
    loops: u32,
}

impl Hackbench {
    fn sized(arguments: &Arguments) -> Result<Self, String> {
        let mut it = Hackbench { groups: arguments.groups, loops: 100 };
        // The second run has the right order of size, so what starting the tasks takes no longer weighs.
        for _ in 0..2 {
            let ready = it.ready()?;
            let done = it.run(ready)?;
            let took_s = done.work / done.rate;
            it.loops = ((f64::from(it.loops) * arguments.seconds / took_s).round() as u32).max(10);
        }
        Ok(it)
    }

    /// 20 senders and 20 receivers in a group; each sender sends to each receiver in each loop.
    fn messages(&self) -> f64 {
        f64::from(self.groups) * 400.0 * f64::from(self.loops)
    }
}

impl Load for Hackbench {
    fn unit(&self) -> &'static str {
        "messages/s"
    }

    fn ready(&mut self) -> Result<Ready, String> {
        let words = ["hackbench", "-g", &self.groups.to_string(), "-l", &self.loops.to_string()].map(str::to_owned);
        Program::ready(&words)
    }

    fn subjects(&self, ready: &Ready) -> Vec<Subject> {
        ready.subjects("load")
    }

    fn run(&mut self, ready: Ready) -> Result<Done, String> {
        let (text, cpu_s) = ready.program()?.go()?;
        let time = text.lines().find_map(|line| line.strip_prefix("Time: ")?.trim().parse::<f64>().ok());
        let time_s = time.ok_or_else(|| format!("hackbench printed no time: {text}"))?;
        Ok(Done { rate: self.messages() / time_s, work: self.messages(), cpu_s })
    }
}

/// A pair of processes on each CPU that hand it to each other through pipes: the most switches that there can be.
struct PingPong {
    length: Duration,
}

impl Load for PingPong {
    fn unit(&self) -> &'static str {
        "switches/s"
    }

    fn ready(&mut self) -> Result<Ready, String> {
        Ok(Ready::Pairs(Switching::new(Handing::Pipe, &switching::cpus())))
    }

    fn subjects(&self, ready: &Ready) -> Vec<Subject> {
        ready.subjects("load")
    }

    fn run(&mut self, ready: Ready) -> Result<Done, String> {
        let Ready::Pairs(pairs) = ready else { return Err("it is a program".to_owned()) };
        let cpu_s = || pairs.pids().into_iter().map(cpu_time::of_running).sum::<f64>();
        let (switches_before, cpu_before) = (pairs.account().switches(), cpu_s());
        let (_, length) = pairs.run(self.length);
        let work = (pairs.account().switches() - switches_before) as f64;
        Ok(Done { rate: work / length.as_secs_f64(), work, cpu_s: cpu_s() - cpu_before })
    }
}
