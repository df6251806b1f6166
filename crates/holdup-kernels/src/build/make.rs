//! Runs make, or another builder: its lines go into a log, its progress to the observer.

use crate::Options;
use holdup_model::{Event, Observer, Problem};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const REPORT_EVERY: Duration = Duration::from_secs(5);
const CANCEL_EVERY: Duration = Duration::from_millis(100);
/// From SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_secs(3);

/// A call of a program whose output matters only if it fails.
pub struct Call<'a> {
    /// For messages: `building Linux 7.2.12`.
    pub what: &'a str,
    /// Its output is appended here.
    pub log: &'a Path,
    /// Of these the flag that interrupts it counts.
    pub options: &'a Options,
}

/// The progress, parsed from make's short lines.
#[derive(Debug, Default)]
struct Progress {
    compiled: u64,
    at: String,
    tail: VecDeque<String>,
    errors: Vec<String>,
}

impl Progress {
    /// Source of the format: `scripts/Kbuild.include` and `Makefile` (v7.2): two blanks, a word in capitals such as `CC`, the
    /// target.
    fn line(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        if line.starts_with("  ")
            && let (Some(verb), Some(target)) = (words.next(), words.next())
            && verb.chars().all(|c| c.is_ascii_uppercase())
        {
            if matches!(verb, "CC" | "AS") {
                self.compiled += 1;
            }
            // The tree's own tools are named by absolute path.
            let file = if target.starts_with('/') { target.rsplit('/').next() } else { None };
            file.unwrap_or(target).clone_into(&mut self.at);
        }
        // PostgreSQL's make prints whole commands: `gcc … -c -o aset.o /source/aset.c`.
        if line.contains(" -c -o ")
            && let Some(file) = line.split_ascii_whitespace().find(|word| word.ends_with(".c"))
        {
            self.compiled += 1;
            file.rsplit('/').next().unwrap_or(file).clone_into(&mut self.at);
        }
        let is_error = line.contains("error:") || line.contains("*** ") || line.contains("undefined reference");
        if is_error && self.errors.len() < 4 {
            self.errors.push(shortened(line));
        }
        if !line.trim().is_empty() {
            if self.tail.len() == 4 {
                self.tail.pop_front();
            }
            self.tail.push_back(shortened(line));
        }
    }

    /// The first errors, else the last lines.
    fn reason(&self) -> String {
        match self.errors.is_empty() {
            false => self.errors.join("; "),
            true if self.tail.is_empty() => "it printed nothing".to_owned(),
            true => self.tail.iter().cloned().collect::<Vec<_>>().join("; "),
        }
    }
}

fn shortened(line: &str) -> String {
    line.trim().chars().filter(|c| !c.is_control()).take(240).collect()
}

/// Runs a program to its end, in a new process group that is ended as a whole.
///
/// # Errors
/// When it cannot be started, fails (with its error lines and the path of the log), or is interrupted.
pub fn run(mut command: Command, call: &Call<'_>, observer: &mut dyn Observer) -> Result<(), Problem> {
    let log_failed = |e: std::io::Error| Problem::host(format!("build log {}", call.log.display()), e.to_string());
    let mut log = File::options().create(true).append(true).open(call.log).map_err(log_failed)?;
    writeln!(log, "$ {command:?}").map_err(log_failed)?;
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |e: std::io::Error| Problem::host(call.what.to_owned(), format!("{program}: {e}"));
    let (reader, writer) = std::io::pipe().map_err(failed)?;
    let errors = writer.try_clone().map_err(failed)?;
    let mut child =
        command.stdin(Stdio::null()).stdout(writer).stderr(errors).process_group(0).spawn().map_err(failed)?;
    // The command has the write end of the pipe: the reader would not see the end of file.
    drop(command);
    let (sender, lines) = channel();
    // This thread is not joined: a process that the program left behind may keep the pipe open for ever.
    std::thread::spawn(move || {
        for line in BufReader::new(reader).split(b'\n') {
            let Ok(line) = line else { return };
            if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                return;
            }
        }
    });
    let mut progress = Progress::default();
    let listened = listen(&mut child, &lines, &mut progress, &mut log, call, observer);
    if listened.is_err() {
        end(&mut child);
    }
    drop(lines);
    let status = child.wait().map_err(failed)?;
    listened?;
    if status.success() {
        return Ok(());
    }
    let why = format!("{}: {}", ending(&program, status), progress.reason());
    Err(Problem::host(call.what.to_owned(), why).hint(format!("the whole log: {}", call.log.display())))
}

fn listen(
    child: &mut Child,
    lines: &Receiver<String>,
    progress: &mut Progress,
    log: &mut File,
    call: &Call<'_>,
    observer: &mut dyn Observer,
) -> Result<(), Problem> {
    let begun = Instant::now();
    let mut reported = begun;
    loop {
        call.options.check(call.what)?;
        match lines.recv_timeout(CANCEL_EVERY) {
            Ok(line) => {
                progress.line(&line);
                writeln!(log, "{line}")
                    .map_err(|e| Problem::host(format!("build log {}", call.log.display()), e.to_string()))?;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            // The program has ended, and a process that it left behind keeps the pipe open.
            Err(RecvTimeoutError::Timeout) if matches!(child.try_wait(), Ok(Some(_))) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if reported.elapsed() >= REPORT_EVERY && progress.compiled > 0 {
            reported = Instant::now();
            let text = format!(
                "{}: {} files compiled in {} s, at {}",
                call.what,
                progress.compiled,
                begun.elapsed().as_secs(),
                progress.at
            );
            observer.event(Event::Step(&text));
        }
    }
}

fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let Some(group) = group else { return };
    // The group may be gone already.
    let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
}

fn ending(program: &str, status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("{program} ended with exit code {code}"),
        (None, Some(signal)) => format!("{program} was ended by signal {signal}"),
        (None, None) => format!("{program} ended"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::ProblemKind;
    use holdup_model::progress::Silent;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn makes_lines_are_counted_and_its_errors_recorded() {
        let mut progress = Progress::default();
        for line in
            ["  CC      mm/memory.o", "  AS      arch/x86/lib/x.o", "  LD      vmlinux", "Note: CC here is none", ""]
        {
            progress.line(line);
        }
        assert_eq!((progress.compiled, progress.at.as_str()), (2, "vmlinux"));
        progress.line("  CC      /cache/build/x/objects/tools/objtool/check.o");
        assert_eq!(progress.at, "check.o");
        progress.line("gcc -Wall -O2 -I/s/src/include -c -o aset.o /s/src/backend/utils/mmgr/aset.c -MMD -MP");
        assert_eq!((progress.compiled, progress.at.as_str()), (4, "aset.c"));
        assert!(progress.reason().contains("vmlinux"), "{}", progress.reason());
        progress.line("../mm/memory.c:7:1: error: expected ';'");
        progress.line("make[3]: *** [../scripts/Makefile.build:7: mm/memory.o] Error 1");
        progress.line("make: quiet");
        assert!(progress.reason().starts_with("../mm/memory.c:7:1: error: expected ';'; make[3]: ***"));
    }

    #[test]
    fn a_failed_program_is_reported_with_its_last_lines_and_the_log() {
        let folder = tempfile::tempdir().unwrap();
        let (log, options) = (folder.path().join("log"), Options::default());
        let call = Call { what: "building a test", log: &log, options: &options };
        run(shell("echo fine"), &call, &mut Silent).unwrap();
        let problem = run(shell("echo out; echo 'x.c:1: error: bad' >&2; exit 3"), &call, &mut Silent).unwrap_err();
        assert_eq!(problem.why, "sh ended with exit code 3: x.c:1: error: bad");
        assert!(problem.hint.unwrap().contains("log"));
        let text = std::fs::read_to_string(&log).unwrap();
        assert!(text.contains("fine\n") && text.contains("out\n"), "{text}");
        let problem = run(Command::new("no-such-program-here"), &call, &mut Silent).unwrap_err();
        assert!(problem.why.contains("no-such-program-here"), "{problem}");
    }

    #[test]
    fn processes_left_behind_are_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let (log, pid, options) = (folder.path().join("log"), folder.path().join("pid"), Options::default());
        let call = Call { what: "building a test", log: &log, options: &options };
        run(shell(&format!("sleep 60 & echo $! > {}; echo last", pid.display())), &call, &mut Silent).unwrap();
        let left = std::fs::read_to_string(pid).unwrap().trim().to_owned();
        let command = std::fs::read_to_string(format!("/proc/{left}/cmdline")).unwrap_or_default();
        assert!(command.starts_with("sleep"), "it was waited for: {command}");
        assert!(std::fs::read_to_string(log).unwrap().contains("last\n"));
        let killed = Command::new("kill").arg(left).status().unwrap();
        assert!(killed.success());
    }

    #[test]
    fn an_interrupted_build_ends_all_its_processes() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let cancel = Arc::new(AtomicBool::new(false));
        let options = Options { cancel: Some(Arc::clone(&cancel)), ..Options::default() };
        let call = Call { what: "building a test", log: &log, options: &options };
        let pids = folder.path().join("pids");
        let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", pids.display());
        let setter = std::thread::spawn(move || {
            while !pids.exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
            cancel.store(true, Ordering::Relaxed);
            std::fs::read_to_string(pids).unwrap().trim().to_owned()
        });
        let problem = run(shell(&script), &call, &mut Silent).unwrap_err();
        assert_eq!(problem.kind, ProblemKind::Interrupted);
        let grandchild = setter.join().unwrap();
        let state = || std::fs::read_to_string(format!("/proc/{grandchild}/stat")).unwrap_or_default();
        // A killed orphan disappears when its new parent reaps it.
        while !(state().is_empty() || state().contains(") Z ")) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
