//! The user's `ssh` program, and commands of holdup that run on a host by it.

use crate::address::Address;
use crate::copy;
use crate::known;
use crate::line::{Line, Start};
use crate::trouble;
use holdup_host::Host;
use holdup_host::environment;
use holdup_model::Problem;
use holdup_model::text::size;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How often a wait looks whether it should end.
const LOOK: Duration = Duration::from_millis(20);

/// The longest that may pass until an agent says its first word: connecting takes most of it.
const FIRST_WORD: Duration = Duration::from_secs(120);

/// The longest that the pipes of a program that has ended may be silent before they are given up: what it started may hold them open.
const LEFTOVERS: Duration = Duration::from_secs(2);

/// The most that ssh and the programs there say beside their output.
const MOST_STDERR_BYTES: usize = 4 << 20;

/// Pieces of 64 KiB that were read and not yet taken.
const MOST_PIECES: usize = 16;

/// Output that comes at this rate or faster gets the time that it needs.
const SLOWEST_BYTES_PER_S: u64 = 1 << 20;

/// For the copy of holdup, which goes up a slow line in minutes.
const COPY: CommandLimits = CommandLimits { time: Duration::from_secs(900), stdout_bytes: 1 << 20 };

/// For removing copies, which prints a line.
const CLEAN: CommandLimits = CommandLimits { time: Duration::from_secs(120), stdout_bytes: 1 << 20 };

/// The ssh program with its first words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ssh(Vec<String>);

impl Ssh {
    /// `HOLDUP_SSH`, or `ssh`.
    pub fn from_environment() -> Self {
        let words = environment::SSH.get().unwrap_or_default();
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Ssh(if words.is_empty() { vec!["ssh".to_owned()] } else { words })
    }

    /// The name or address to which ssh would connect for a host: `HostName` of its configuration. Connects to nothing.
    ///
    /// # Errors
    /// When ssh does not say.
    pub fn host_name(&self, address: &Address) -> Result<String, Problem> {
        let failed = |why: String| {
            Problem::host(format!("host {address}"), format!("`ssh -G` does not say its name: {why}"))
                .hint("address in [hosts] says by which name the client reaches the server")
        };
        let (program, first) = self.0.split_first().ok_or_else(|| Problem::internal("ssh", "it has no name"))?;
        let output = Command::new(program).args(first).arg("-G").args(address.words()).stdin(Stdio::null()).output();
        let output = output.map_err(|e| failed(e.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        let name = said.lines().find_map(|line| line.strip_prefix("hostname "));
        name.map(|name| name.trim().to_owned())
            .ok_or_else(|| failed(trouble::last_line(&String::from_utf8_lossy(&output.stderr))))
    }
}

/// How hosts are worked on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshOptions {
    /// True if holdup runs there by `sudo -n`.
    pub with_sudo: bool,
    /// The longest that a line may be silent.
    pub dead_after: Duration,
    /// How long an agent waits for another run on its host.
    pub wait: Duration,
    /// Where large temporary files go there; `None` for its folder of temporary files.
    pub workdir: Option<PathBuf>,
}

impl Default for SshOptions {
    fn default() -> Self {
        SshOptions { with_sudo: false, dead_after: Duration::from_secs(30), wait: Duration::ZERO, workdir: None }
    }
}

/// A host that can be worked on.
#[derive(Clone)]
pub struct Remote<'a> {
    /// This host, for holdup's own files.
    pub host: &'a Host,
    pub address: &'a Address,
    /// With which program.
    pub ssh: &'a Ssh,
    pub options: &'a SshOptions,
}

/// The most that a command on a host may take. One that takes more is ended, and is a problem of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandLimits {
    /// From its start to its end, connecting included, beside the time for what it prints.
    pub time: Duration,
    /// Bytes that it may write to standard output.
    pub stdout_bytes: u64,
}

/// What a command on a host said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; `None` when a signal ended the ssh program.
    pub code: Option<i32>,
    /// Its standard error, with what ssh said.
    pub stderr: String,
}

/// Some of what a program wrote.
enum PipePiece {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
}

impl Remote<'_> {
    /// Runs holdup there with these arguments and waits for its end. Its standard output goes to `stdout` as it comes.
    ///
    /// # Errors
    /// When the host cannot be reached, cannot run it or exceeds a limit, `stdout` cannot be written, or this is cancelled. Its own
    /// exit code is no error.
    pub fn run(
        &self,
        words: &[&str],
        limits: CommandLimits,
        stdout: &mut dyn Write,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Output, Problem> {
        let hash = copy::hash()?;
        let script = copy::use_script(hash, self.options.with_sudo);
        let mut output = self.wait(self.start(&script, words, Stdio::null())?, limits, stdout, cancelled)?;
        if output.code == Some(copy::MISSING) {
            self.copy(hash, cancelled)?;
            output = self.wait(self.start(&script, words, Stdio::null())?, limits, stdout, cancelled)?;
        }
        match output.code {
            Some(0..=5 | 70) => Ok(output),
            code => Err(trouble::problem(self.address, code, &output.stderr)),
        }
    }

    /// Starts the agent there, and gives the line to it.
    ///
    /// # Errors
    /// As [`Remote::run`].
    pub fn agent(&self, step: &mut dyn FnMut(&str), cancelled: &dyn Fn() -> bool) -> Result<Line, Problem> {
        let hash = copy::hash()?;
        let script = copy::use_script(hash, self.options.with_sudo);
        let dead_after = format!("{}ms", self.options.dead_after.as_millis());
        // An agent whose line was cut may hold the host for as long as that.
        let wait = self.options.wait + self.options.dead_after * 2 + Duration::from_secs(30);
        let wait = format!("{}ms", wait.as_millis());
        let workdir = self.options.workdir.as_ref().map(|folder| folder.display().to_string());
        let mut words = vec!["agent", "--dead-after", &dead_after, "--wait", &wait];
        words.extend(workdir.iter().flat_map(|folder| ["--workdir", folder]));
        let mut is_copied = false;
        loop {
            let failed = |e: std::io::Error| Problem::host("a socket for ssh", e.to_string());
            let (input, theirs) = UnixStream::pair().map_err(failed)?;
            // A pipe has no time limit for writing to a host that reads nothing.
            input.set_write_timeout(Some(self.options.dead_after)).map_err(failed)?;
            let child = self.start(&script, &words, OwnedFd::from(theirs).into())?;
            let line = Line::new(child, input, self.address.clone(), self.options.dead_after);
            match line?.first_word(FIRST_WORD, cancelled)? {
                Start::Line(line) => return Ok(*line),
                Start::Ended { code: Some(copy::MISSING), .. } if !is_copied => {
                    step(&format!("{}: copying holdup", self.address));
                    self.copy(hash, cancelled)?;
                    is_copied = true;
                }
                Start::Ended { code, stderr } => return Err(trouble::problem(self.address, code, &stderr)),
            }
        }
    }

    /// Removes every copy of holdup there; how many there were.
    ///
    /// # Errors
    /// When the host cannot be reached.
    pub fn clean(&self, cancelled: &dyn Fn() -> bool) -> Result<u32, Problem> {
        let mut said = Vec::new();
        let output = self.wait(self.start(&copy::clean_script(), &[], Stdio::null())?, CLEAN, &mut said, cancelled)?;
        let said = String::from_utf8_lossy(&said);
        let count = said.lines().find_map(|line| line.strip_prefix("removed ")?.parse().ok());
        count
            .filter(|_| output.code == Some(0))
            .ok_or_else(|| trouble::problem(self.address, output.code, &output.stderr))
    }

    /// Puts this program there.
    fn copy(&self, hash: &str, cancelled: &dyn Fn() -> bool) -> Result<(), Problem> {
        // Written down first: what is not there is removed without harm, and a copy that is not written down would stay for ever.
        known::remember(self.host, self.address)?;
        let child = self.start(&copy::copy_script(hash), &[], copy::open()?.into())?;
        let output = self.wait(child, COPY, &mut std::io::sink(), cancelled)?;
        match output.code {
            Some(0) => Ok(()),
            code => Err(trouble::problem(self.address, code, &output.stderr)),
        }
    }

    /// Starts ssh with a script for the far end, as the leader of a process group: Ctrl-C reaches holdup alone.
    fn start(&self, script: &str, words: &[&str], input: Stdio) -> Result<Child, Problem> {
        let (program, first) = self.ssh.0.split_first().ok_or_else(|| Problem::internal("ssh", "it has no name"))?;
        // What makes it silent for so long is the same for ssh as for the agent.
        let alive = format!("ServerAliveInterval={}", self.options.dead_after.as_secs().div_ceil(3).max(1));
        let mut command = Command::new(program);
        // ssh takes the first value of an option, so what the user has put behind the program's name stands before these.
        command.args(first).args(["-T", "-a", "-x"]);
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=15",
            "ClearAllForwardings=yes",
            "RemoteCommand=none",
            "ServerAliveCountMax=3",
            &alive,
        ] {
            command.args(["-o", option]);
        }
        command.args(self.address.words()).arg(far_command(script, words)).env("LC_ALL", "C").process_group(0);
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|e| {
            Problem::host(format!("the program {program}"), e.to_string())
                .hint("holdup connects by OpenSSH's client (Debian: apt-get install openssh-client); HOLDUP_SSH names another")
        })
    }

    fn wait(
        &self,
        mut child: Child,
        limits: CommandLimits,
        stdout: &mut dyn Write,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Output, Problem> {
        let (send, pieces) = sync_channel(MOST_PIECES);
        drain(child.stdout.take(), send.clone(), PipePiece::Stdout);
        drain(child.stderr.take(), send, PipePiece::Stderr);
        let output = self.follow(&mut child, &pieces, limits, stdout, cancelled);
        if output.is_err() {
            end(&mut child);
        }
        output
    }

    /// Passes on what a program writes until it has ended.
    fn follow(
        &self,
        child: &mut Child,
        pieces: &Receiver<PipePiece>,
        limits: CommandLimits,
        stdout: &mut dyn Write,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Output, Problem> {
        let failed = |why: String| Problem::host(format!("host {}", self.address), why);
        let hint = || format!("does `ssh {} true` end?", self.address);
        let (begun, mut last) = (Instant::now(), Instant::now());
        let (mut status, mut bytes, mut stderr) = (None, 0, Vec::new());
        loop {
            let received = pieces.recv_timeout(LOOK);
            match &received {
                Ok(PipePiece::Stdout(piece)) => {
                    bytes += piece.len() as u64;
                    if bytes > limits.stdout_bytes {
                        let why = format!("its command printed more than {}", size(limits.stdout_bytes));
                        return Err(failed(why).hint("look at what runs there: holdup prints less"));
                    }
                    stdout.write_all(piece).map_err(|e| failed(e.to_string()))?;
                }
                Ok(PipePiece::Stderr(piece)) => {
                    stderr.extend_from_slice(piece);
                    if stderr.len() > MOST_STDERR_BYTES {
                        let why = format!("it said more than {} on standard error", size(MOST_STDERR_BYTES as u64));
                        return Err(failed(why).hint(hint()));
                    }
                }
                Err(RecvTimeoutError::Disconnected) if status.is_none() => std::thread::sleep(LOOK),
                Err(_) => {}
            }
            if received.is_ok() {
                last = Instant::now();
            }
            let Some(ended) = status else {
                status = child.try_wait().map_err(|e| failed(e.to_string()))?;
                let limit = limits.time + Duration::from_secs(bytes / SLOWEST_BYTES_PER_S);
                match status {
                    Some(_) => last = Instant::now(),
                    None if cancelled() => return Err(Problem::interrupted(format!("host {}", self.address))),
                    None if begun.elapsed() > limit => {
                        let why = format!("its command did not end within {} s", limit.as_secs());
                        return Err(failed(why).hint(hint()));
                    }
                    None => {}
                }
                continue;
            };
            if received.is_err_and(|e| e == RecvTimeoutError::Disconnected) || last.elapsed() > LEFTOVERS {
                let stderr = String::from_utf8_lossy(&stderr).into_owned();
                return Ok(Output { code: ended.code(), stderr });
            }
        }
    }
}

/// The command line for the user's shell at the far end.
fn far_command(script: &str, words: &[&str]) -> String {
    let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let mut command = format!("exec sh -c {} holdup", quoted(script));
    for word in words {
        command.push(' ');
        command.push_str(&quoted(word));
    }
    command
}

/// Ends a program that was started here.
pub(crate) fn end(child: &mut Child) {
    // It may have ended by itself.
    let _gone = child.kill();
    let _gone = child.wait();
}

/// Reads a pipe in the background. A control master that ssh started may keep the pipe open after ssh has ended.
fn drain(pipe: Option<impl Read + Send + 'static>, to: SyncSender<PipePiece>, piece: fn(Vec<u8>) -> PipePiece) {
    std::thread::spawn(move || {
        let mut pipe = pipe;
        let mut bytes = vec![0; 64 << 10];
        while let Some(Ok(n @ 1..)) = pipe.as_mut().map(|pipe| pipe.read(&mut bytes)) {
            if to.send(piece(bytes[..n].to_vec())).is_err() {
                return;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_script_as_they_are() {
        let words = ["a b", "it's", "$(false)", "", "\"*\""];
        let command = far_command("for w in \"$0\" \"$@\"; do echo \"[$w]\"; done", &words);
        let output = Command::new("sh").args(["-c", &command]).output().expect("a shell");
        let said = String::from_utf8(output.stdout).expect("text");
        assert_eq!(said, "[holdup]\n[a b]\n[it's]\n[$(false)]\n[]\n[\"*\"]\n");
    }

    /// A command on a host whose `ssh` is this script, with what it printed.
    fn run(script: &str, time: Duration) -> (Result<Output, Problem>, Vec<u8>) {
        let (host, address) = (Host::real(), Address::parse("db1").expect("a host"));
        let ssh = Ssh(["sh", "-c", script].map(str::to_owned).to_vec());
        let remote = Remote { host: &host, address: &address, ssh: &ssh, options: &SshOptions::default() };
        let (limits, mut stdout) = (CommandLimits { time, stdout_bytes: 1 << 20 }, Vec::new());
        (remote.run(&["check"], limits, &mut stdout, &|| false), stdout)
    }

    #[test]
    fn a_host_that_prints_without_end_is_given_up() {
        let refused = |script: &str| run(script, Duration::from_secs(600)).0.expect_err(script);
        let (printed, complained) = (refused("exec cat /dev/zero"), refused("exec cat /dev/zero >&2"));
        assert_eq!((printed.what.as_str(), printed.why.as_str()), ("host db1", "its command printed more than 1 MiB"));
        assert_eq!(complained.why, "it said more than 4 MiB on standard error");
        assert!(printed.hint.is_some() && complained.hint.is_some());
    }

    #[test]
    fn a_host_that_says_nothing_is_given_up() {
        let refused = run("exec sleep 600", Duration::from_millis(100)).0.expect_err("it does not end");
        assert_eq!(refused.why, "its command did not end within 0 s");
        assert!(refused.hint.is_some_and(|hint| hint.contains("`ssh db1 true`")));
    }

    #[test]
    fn all_that_a_command_printed_is_there_when_it_has_ended() {
        let (output, stdout) = run("head -c 1000000 /dev/zero; echo no >&2; exit 3", Duration::from_secs(600));
        assert_eq!(output, Ok(Output { code: Some(3), stderr: "no\n".to_owned() }));
        assert_eq!(stdout.len(), 1_000_000);
    }
}
