//! One run of pgbench: started, watched, ended, read.

use super::clock::ClockOffset;
use super::parameters::{Script, Settings};
use super::server::Server;
use super::summary::Summary;
use crate::RunAs;
use crate::child::{ChildOptions, Guarded, last_lines, signal, spawn};
use crate::pgbench_log::{LogCounts, LogFormat, LogReader};
use holdup_files::Folder;
use holdup_load::Cancel;
use holdup_model::{Histogram, Problem};
use rustix::process::Signal;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

/// How often every wait looks whether it should end.
const TICK: Duration = Duration::from_millis(20);

/// How long the last transactions may take after the load was asked to end.
const LAST_TRANSACTIONS: Duration = Duration::from_secs(60);

/// Closed loops are ended by a signal; pgbench's own time limit is only there in case that none is sent.
const SPARE_S: u64 = 600;

/// What a run of pgbench is made from.
pub(crate) struct LoadPlan<'a> {
    pub(crate) settings: &'a Settings,
    /// The copy of the user's script, with script = file.
    pub(crate) script: Option<&'a Path>,
    pub(crate) warmup_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) seed: u64,
    /// What the server knows its connections by.
    pub(crate) application: &'a str,
}

/// Names in the private folder.
const TRIAL: &str = "trial";
const STDOUT: &str = "stdout";
const STDERR: &str = "stderr";
/// The most files of a run: a log for each thread, and once more where one has been rotated.
const MOST_LOGS: usize = 100_000;
/// The most bytes of what a run prints.
const MOST_PRINTED: u64 = 64 << 20;

/// The output of one run, removed when it is dropped: logs in a folder of the user that pgbench runs as, and what it
/// prints in files of ours that were open before.
#[derive(Debug)]
struct Output {
    private: Folder,
    logs: Folder,
}

impl Output {
    fn create(private: &Path, user: Option<&RunAs>) -> std::io::Result<Self> {
        let private = Folder::open(private)?;
        let logs = private.create_folder(TRIAL, 0o700)?;
        let output = Output { private, logs };
        user.map_or(Ok(()), |user| output.logs.give_to(user.uid, user.gid))?;
        Ok(output)
    }

    fn printed(&self, name: &str) -> std::io::Result<String> {
        Ok(String::from_utf8_lossy(&self.private.read(name, MOST_PRINTED)?).into_owned())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // What is left goes with the private folder around it.
        for name in [TRIAL, STDOUT, STDERR] {
            let _removed = self.private.remove_tree(name);
        }
    }
}

/// A pgbench that runs. Dropping it ends it and removes its output.
#[derive(Debug)]
pub(crate) struct Load {
    child: Guarded,
    output: Output,
    /// The clocks when it started.
    pub(crate) started: ClockOffset,
    arguments: Vec<String>,
}

/// What a run that ended well has brought.
pub(crate) struct LoadResult {
    pub(crate) summary: Summary,
    pub(crate) counts: LogCounts,
    pub(crate) latency: Histogram,
    pub(crate) lag: Histogram,
    /// What it wrote to stderr.
    pub(crate) complaints: Vec<String>,
}

fn failed(why: impl std::fmt::Display) -> Problem {
    Problem::trial("pgbench", why.to_string())
}

impl LoadPlan<'_> {
    fn arguments(&self, log_prefix: &Path) -> Vec<String> {
        let s = self.settings;
        let mut all = vec!["-n".to_owned(), "-l".to_owned(), format!("--log-prefix={}", log_prefix.display())];
        all.push(format!("--time={}", self.seconds()));
        all.push(format!("--client={}", s.clients));
        all.push(format!("--jobs={}", s.threads));
        all.push(format!("--protocol={}", s.protocol));
        all.push(format!("--random-seed={}", self.seed));
        match (&s.script, self.script) {
            (Script::Builtin(name), _) => all.push(format!("--builtin={name}")),
            (Script::File(original), copy) => {
                all.push(format!("--file={}", copy.unwrap_or(original).display()));
                // Only scripts that are not built in need it.
                all.push(format!("--scale={}", s.tables.scale));
            }
        }
        if let Some(rate) = s.rate {
            all.push(format!("--rate={rate}"));
        }
        if let Some(limit) = s.latency_limit_ns {
            all.push(format!("--latency-limit={}", limit as f64 / 1e6));
        }
        if s.max_tries != 1 {
            all.push(format!("--max-tries={}", s.max_tries));
        }
        all
    }

    /// pgbench counts whole seconds from before its clients connect. With a rate its end must be near the
    /// window's: a client that sleeps until its next transaction does not see the signal before that, but
    /// ends immediately when that transaction would come after pgbench's own end.
    fn seconds(&self) -> u64 {
        let load = self.warmup_ns.saturating_add(self.duration_ns).div_ceil(1_000_000_000);
        let connecting = 1 + u64::from(self.settings.clients) / 200;
        load.saturating_add(if self.settings.rate.is_some() { connecting } else { SPARE_S })
    }
}

impl Load {
    pub(crate) fn start(server: &Server, plan: &LoadPlan<'_>, folder: &Path) -> Result<Self, Problem> {
        let output = Output::create(folder, server.user()).map_err(failed)?;
        let print_to = |name| output.private.create_file(name, 0o600).map_err(failed);
        let arguments = plan.arguments(&output.logs.path().join("log"));
        let mut command = server.pgbench(plan.settings.tables, plan.application);
        command.args(&arguments).current_dir(output.logs.path()).stdout(print_to(STDOUT)?).stderr(print_to(STDERR)?);
        // SIGKILL: when holdup is gone, no process reads the logs.
        let options = ChildOptions { user: server.user().cloned(), death_signal: libc::SIGKILL, many_files: true };
        let started = ClockOffset::now();
        let child = Guarded(spawn(command, &options).map_err(failed)?);
        Ok(Load { child, output, started, arguments })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.0.id()
    }

    /// Its arguments in one line, for the notes. Nothing secret is among them.
    pub(crate) fn command_line(&self) -> String {
        let folder = self.output.logs.path().display().to_string();
        format!("pgbench {}", self.arguments.join(" ").replace(&folder, "DIR"))
    }

    /// The last lines of what it wrote to stderr.
    pub(crate) fn complaint(&self) -> String {
        let text = self.output.printed(STDERR).unwrap_or_default();
        // With many clients the same words come many times; the reason stands in the first of them.
        let mut lines: Vec<&str> = text.lines().filter(|l| is_complaint(l)).collect();
        if lines.len() > 4 {
            lines = vec![lines[0], lines[1], "…", lines[lines.len() - 1]];
        }
        if lines.is_empty() { "nothing on stderr".to_owned() } else { last_lines(&lines.join("\n"), 4) }
    }

    /// Fails when it has ended, or when holdup is asked to end.
    pub(crate) fn check(&mut self, cancel: &Cancel, when: &str) -> Result<(), Problem> {
        if cancel.is_cancelled() {
            return Err(Problem::interrupted("the trial"));
        }
        match self.child.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(failed(format!("it ended {when} ({status}): {}", self.complaint()))),
            Err(e) => Err(failed(e)),
        }
    }

    /// Lets the load run for a time, or until there is enough.
    pub(crate) fn run_for(&mut self, ns: u64, cancel: &Cancel, enough: &Cancel, when: &str) -> Result<(), Problem> {
        let end = Instant::now() + Duration::from_nanos(ns);
        loop {
            self.check(cancel, when)?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || enough.is_cancelled() {
                return Ok(());
            }
            std::thread::sleep(left.min(TICK));
        }
    }

    /// Ends the load and waits until the logs are written.
    ///
    /// SIGALRM is what ends pgbench at the end of `--time` (`handle_sig_alarm` in
    /// src/bin/pgbench/pgbench.c, 15.18), so sent from outside it ends it the same way at any moment: each
    /// client ends its transaction, logs are flushed, the summary is printed. SIGINT and SIGTERM kill it
    /// with up to 4 KiB of log for each thread unwritten.
    pub(crate) fn end(&mut self, cancel: &Cancel) -> Result<(), Problem> {
        signal(&self.child.0, Signal::ALARM);
        let Some(status) = self.child.wait("the trial", LAST_TRANSACTIONS, Some(cancel))? else {
            return Err(failed(format!(
                "its last transactions had not ended {} s after the window: {}",
                LAST_TRANSACTIONS.as_secs(),
                self.complaint()
            )));
        };
        self.succeeded(status)
    }

    fn succeeded(&self, status: ExitStatus) -> Result<(), Problem> {
        if status.success() { Ok(()) } else { Err(failed(format!("it failed ({status}): {}", self.complaint()))) }
    }

    /// Reads its logs and its summary, and holds one against the other.
    pub(crate) fn read(self, settings: &Settings, begin_us: i64, end_us: i64) -> Result<LoadResult, Problem> {
        let format = LogFormat { lag: settings.rate.is_some(), retries: settings.max_tries != 1 };
        let mut reader = LogReader::new(begin_us, end_us, format, settings.clients);
        let found = self.output.logs.list(MOST_LOGS).map_err(failed)?;
        for log in found.iter().filter_map(|entry| entry.name.to_str()).filter(|name| name.starts_with("log.")) {
            reader.read_file(self.output.logs.open_file(log).map_err(failed)?)?;
        }
        let (counts, latency, lag) = reader.finish();
        let summary = Summary::parse(&self.output.printed(STDOUT).map_err(failed)?);
        same_count(&summary, &counts)?;
        let printed = self.output.printed(STDERR).unwrap_or_default();
        let complaints = printed.lines().filter(|l| is_complaint(l)).take(5).map(str::to_owned).collect();
        Ok(LoadResult { summary, counts, latency, lag, complaints })
    }
}

/// With a seed that was given, pgbench says so on every run.
fn is_complaint(line: &str) -> bool {
    !line.trim().is_empty() && !line.contains("setting random seed to ")
}

/// pgbench does not notice when its log cannot be written (a full disk): the counts show it.
fn same_count(summary: &Summary, counts: &LogCounts) -> Result<(), Problem> {
    let Some(processed) = summary.processed else {
        return Err(failed("it did not say how many transactions it processed"));
    };
    let said = processed.saturating_add(summary.failed.unwrap_or(0));
    let skipped = summary.skipped.unwrap_or(0);
    if said == counts.all_tried && skipped == counts.all_skipped {
        return Ok(());
    }
    Err(Problem::trial(
        "pgbench log",
        format!(
            "it has {} transactions and {} skipped ones, pgbench counted {said} and {skipped}; is the file system of \
             the log full?",
            counts.all_tried, counts.all_skipped
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(rate: Option<f64>, clients: i64, load_ns: u64) -> u64 {
        let mut parameters = holdup_catalogue::pgbench::Parameters::defaults(2);
        parameters.set("clients", clients);
        if let Some(rate) = rate {
            parameters.set("rate", rate);
        }
        let settings = Settings::from(&parameters).unwrap();
        let plan = LoadPlan {
            settings: &settings,
            script: None,
            warmup_ns: load_ns / 4,
            duration_ns: load_ns - load_ns / 4,
            seed: 1,
            application: "x",
        };
        plan.seconds()
    }

    #[test]
    fn pgbench_always_outlasts_the_window() {
        assert_eq!(seconds(Some(10.0), 8, 2_000_000_000), 3);
        assert_eq!(seconds(Some(10.0), 1000, 2_000_000_001), 9);
        assert!(seconds(None, 8, 2_000_000_000) >= 2 + SPARE_S);
        assert!(seconds(None, 8, u64::MAX) > 1 << 30);
    }

    #[test]
    fn a_log_that_lacks_lines_is_not_believed() {
        let summary = |processed, failed, skipped| Summary { processed, failed, skipped, ..Summary::default() };
        let counts = LogCounts { all_tried: 10, all_skipped: 2, ..LogCounts::default() };
        same_count(&summary(Some(10), None, Some(2)), &counts).unwrap();
        same_count(&summary(Some(7), Some(3), Some(2)), &counts).unwrap();
        for wrong in [summary(Some(11), None, Some(2)), summary(Some(10), None, None), summary(None, None, Some(2))] {
            assert!(same_count(&wrong, &counts).is_err(), "{wrong:?}");
        }
    }
}
