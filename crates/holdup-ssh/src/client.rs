//! The user's `ssh` program, and commands of holdup that run on a host by it.

use crate::address::Address;
use crate::copy;
use crate::known;
use crate::line::{Line, Start};
use crate::trouble;
use holdup_host::Host;
use holdup_host::environment;
use holdup_model::Problem;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How often a wait looks whether it should end.
const LOOK: Duration = Duration::from_millis(20);

/// The longest that may pass until an agent says its first word: connecting takes most of it.
const FIRST_WORD: Duration = Duration::from_secs(120);

/// The longest that what a program has left in its pipes is read for, after its end: what it started may hold them open.
const LEFTOVERS: Duration = Duration::from_secs(2);

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

/// What a command on a host said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its exit code; `None` when a signal ended the ssh program.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error, with what ssh said.
    pub stderr: String,
}

impl Remote<'_> {
    /// Runs holdup there with these arguments and waits for its end.
    ///
    /// # Errors
    /// When the host cannot be reached or cannot run it, or this is cancelled. Its own exit code is no error.
    pub fn run(&self, words: &[&str], cancelled: &dyn Fn() -> bool) -> Result<Output, Problem> {
        let hash = copy::hash()?;
        let script = copy::use_script(hash, self.options.with_sudo);
        let mut output = self.wait(self.start(&script, words, Stdio::null())?, cancelled)?;
        if output.code == Some(copy::MISSING) {
            self.copy(hash, cancelled)?;
            output = self.wait(self.start(&script, words, Stdio::null())?, cancelled)?;
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
            let child = self.start(&script, &words, Stdio::piped())?;
            let line = Line::new(child, self.address.clone(), self.options.dead_after);
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
        let output = self.wait(self.start(&copy::clean_script(), &[], Stdio::null())?, cancelled)?;
        let said = String::from_utf8_lossy(&output.stdout);
        let count = said.lines().find_map(|line| line.strip_prefix("removed ")?.parse().ok());
        count
            .filter(|_| output.code == Some(0))
            .ok_or_else(|| trouble::problem(self.address, output.code, &output.stderr))
    }

    /// Puts this program there.
    fn copy(&self, hash: &str, cancelled: &dyn Fn() -> bool) -> Result<(), Problem> {
        // Written down first: what is not there is removed without harm, and a copy that is not written down would stay for ever.
        known::remember(self.host, self.address)?;
        let output = self.wait(self.start(&copy::copy_script(hash), &[], copy::open()?.into())?, cancelled)?;
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

    fn wait(&self, mut child: Child, cancelled: &dyn Fn() -> bool) -> Result<Output, Problem> {
        let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
        let code = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status.code(),
                Ok(None) if cancelled() => {
                    end(&mut child);
                    return Err(Problem::interrupted(format!("host {}", self.address)));
                }
                Ok(None) => std::thread::sleep(LOOK),
                Err(e) => return Err(Problem::host(format!("host {}", self.address), e.to_string())),
            }
        };
        let stderr = String::from_utf8_lossy(&taken(&stderr)).into_owned();
        Ok(Output { code, stdout: taken(&stdout), stderr })
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
fn drain(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        let mut pipe = pipe;
        let mut bytes = vec![0; 64 << 10];
        while let Some(Ok(n @ 1..)) = pipe.as_mut().map(|pipe| pipe.read(&mut bytes)) {
            if send.send(bytes[..n].to_vec()).is_err() {
                return;
            }
        }
    });
    receive
}

/// What a pipe brought.
fn taken(pipe: &Receiver<Vec<u8>>) -> Vec<u8> {
    let until = Instant::now() + LEFTOVERS;
    let mut all = Vec::new();
    while let Ok(bytes) = pipe.recv_timeout(until.saturating_duration_since(Instant::now())) {
        all.extend(bytes);
    }
    all
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
}
