//! The command line. Each command declares its arguments beside what it does; here is what several of them share.

use crate::commands::{
    agent, apply, bisect, calibrate, check, compare, explain, export, exporter, gate, history, hosts, import, kernels,
    list, packets, postgres, predict, record, report, restore, run, store, tune, verify, watch,
};
use clap::{Args, Parser, Subcommand};
use holdup_host::Host;
use holdup_model::{MemoryBudget, Problem};
use holdup_target::{GuestOptions, SshOptions};
use holdup_watch::Watching;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
{about}

Usage: holdup <COMMAND> [OPTIONS]

{subcommands}

{options}

Start with `holdup check`. Each command's --help has its exit codes.";

/// Measure what the scheduler holds up, what it costs and what fixes it
#[derive(Debug, Parser)]
#[command(version, help_template = HELP, disable_help_subcommand = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(check::Args),
    Run(run::Args),
    Record(record::Args),
    Watch(watch::Args),
    Exporter(exporter::Args),
    Explain(explain::Args),
    Compare(compare::Args),
    Report(report::Args),
    Store(store::Args),
    History(history::Args),
    Gate(gate::Args),
    Bisect(bisect::Args),
    Tune(tune::Args),
    Packets(packets::Args),
    Predict(predict::Args),
    Calibrate(calibrate::Args),
    List(list::Args),
    Export(export::Args),
    Import(import::Args),
    Kernels(kernels::Args),
    Hosts(hosts::Args),
    Postgres(postgres::Args),
    Apply(apply::Args),
    Verify(verify::Args),
    Restore(restore::Args),
    Agent(agent::Args),
}

/// A share such as `3%` or `0.03`, from zero to below this one.
pub(crate) fn share(text: &str, below: f64) -> Option<f64> {
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let share = match text.trim().strip_suffix('%') {
        Some(percent) => number(percent).map(|p| p / 100.0),
        None => number(text),
    };
    share.filter(|share| (0.0..below).contains(share))
}

/// Reads a duration such as `30s`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let ns = holdup_plan::parse_duration_ns(text);
    ns.map(Duration::from_nanos).ok_or_else(|| "not a duration such as 500ms, 30s or 10m".to_owned())
}

// What is watched.
#[derive(Debug, Default, Args)]
#[group(id = "watched", required = true, multiple = false)]
pub(crate) struct Watched {
    /// Watch these processes and their descendants
    #[arg(long, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Vec<u32>,
    /// Watch the processes of this name and their descendants
    #[arg(long, value_name = "NAME")]
    pub(crate) comm: Option<String>,
    /// Watch all processes of this control group
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Watch this PostgreSQL server: auto, its PID or a URL
    ///
    /// A URL adds wait events and statistics. `auto` finds the only server of this host.
    #[arg(long, value_name = "SERVER")]
    pub(crate) pg: Option<String>,
}

impl Watched {
    /// Finds it, with the connection to a PostgreSQL server where there is one.
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) fn find(&self, host: &Host) -> Result<(Watching, Option<String>), Problem> {
        match self {
            Watched { comm: Some(name), .. } => Ok((Watching::comm(host, name)?, None)),
            Watched { cgroup: Some(path), .. } => Ok((Watching::cgroup(host, path)?, None)),
            Watched { pg: Some(server), .. } => Watching::postgres(host, server),
            Watched { pid, .. } => Ok((Watching::pids(host, pid)?, None)),
        }
    }

    /// True if it has a connection to a server.
    pub(crate) fn has_connection(&self) -> bool {
        self.pg.as_deref().is_some_and(is_connection)
    }
}

/// True if `--pg` names a way to connect, and not a process.
pub(crate) fn is_connection(server: &str) -> bool {
    server != "auto" && server.parse::<u32>().is_err()
}

/// The shortest window: shorter ones hold too few events.
const SHORTEST_WINDOW: Duration = Duration::from_millis(100);

/// Refuses a window of live watching that is too short.
pub(crate) fn check_window(window: Duration) -> Result<(), Problem> {
    if window < SHORTEST_WINDOW { Err(Problem::usage("--window", "a window takes 100 ms at least")) } else { Ok(()) }
}

/// A size such as `64MB`, in bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    holdup_model::units::size(text).map_err(|wrong| wrong.why)
}

// The memory that files may take.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MemoryLimit {
    /// Refuse files that take more memory to read [default: 384MB]
    #[arg(long, value_name = "SIZE", value_parser = bytes, hide_short_help = true)]
    max_memory: Option<u64>,
}

impl MemoryLimit {
    pub(crate) fn budget(&self) -> MemoryBudget {
        self.max_memory.map_or_else(MemoryBudget::default, MemoryBudget::new)
    }
}

// How long to wait for another run.
#[derive(Debug, Args)]
pub(crate) struct Wait {
    /// Wait up to TIME (1h) for another run to end
    #[arg(
        long,
        value_name = "TIME",
        num_args = 0..=1,
        default_missing_value = "1h",
        value_parser = duration,
        env = "HOLDUP_WAIT",
        hide_env = true,
        global = true
    )]
    wait: Option<Duration>,
}

impl Wait {
    /// Without the option another run is an error.
    pub(crate) fn longest(&self) -> Duration {
        self.wait.unwrap_or_default()
    }
}

pub(crate) const GUESTS: &str = "Guest options (target qemu)";

// Where the kernels and packages of guests come from.
#[derive(Debug, Args)]
#[command(next_help_heading = GUESTS)]
pub(crate) struct GuestSource {
    /// How guests run their CPUs
    #[arg(long, value_name = "KIND", value_parser = ["auto", "kvm", "tcg"], global = true, hide_short_help = true)]
    pub(crate) accel: Option<String>,
    /// Fetch from this Debian archive [default: the one apt uses]
    #[arg(long, value_name = "URL", global = true, hide_short_help = true)]
    mirror: Option<String>,
    /// Use only cached kernels and packages
    #[arg(long, global = true, hide_short_help = true)]
    offline: bool,
    /// The cache folder [default: $HOLDUP_CACHE or ~/.cache/holdup]
    #[arg(long, value_name = "DIR", global = true, hide_short_help = true)]
    cache: Option<PathBuf>,
}

impl GuestSource {
    /// What kernels are fetched with.
    pub(crate) fn kernel_options(&self) -> holdup_kernels::Options {
        holdup_kernels::Options { mirror: self.mirror.clone(), offline: self.offline, ..Default::default() }
    }

    /// The folder of what is fetched and built.
    pub(crate) fn cache(&self) -> PathBuf {
        self.cache.clone().unwrap_or_else(holdup_kernels::Cache::default_root)
    }

    pub(crate) fn options(&self, parallel: u32) -> GuestOptions {
        GuestOptions { cache: self.cache.clone(), mirror: self.mirror.clone(), offline: self.offline, parallel }
    }
}

// How other hosts are worked on.
#[derive(Debug, Args)]
#[command(next_help_heading = "Host options")]
pub(crate) struct OverSsh {
    /// Run holdup by `sudo -n` on hosts of --target ssh:HOST
    #[arg(long, global = true, hide_short_help = true)]
    sudo: bool,
    /// Hosts restore themselves when ssh is silent for this long
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = dead_after, global = true, hide_short_help = true)]
    dead_after: Duration,
}

impl OverSsh {
    pub(crate) fn options(&self) -> SshOptions {
        SshOptions { with_sudo: self.sudo, dead_after: self.dead_after, ..SshOptions::default() }
    }
}

/// Heartbeats come each second, so less than three of them would end lines that live.
fn dead_after(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| match time >= Duration::from_secs(3) {
        true => Ok(time),
        false => Err("it must be 3s or more".to_owned()),
    })
}

// The server and the processes that settings of a profile apply to.
#[derive(Debug, Args)]
pub(crate) struct Subjects {
    /// Apply `postgres.…` settings to this server
    #[arg(long, value_name = "URL")]
    pub(crate) pg: Option<String>,
    /// Apply process settings to these processes [default: --pg's]
    ///
    /// Includes their descendants. The default is the processes of --pg.
    #[arg(long, value_name = "PID,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Vec<u32>,
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        <super::Cli as clap::CommandFactory>::command().debug_assert();
    }

    /// The pages of a folder and of those in it.
    fn pages(folder: &std::path::Path, into: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                pages(&path, into);
            } else if path.extension().is_some_and(|e| e == "md") {
                let text = std::fs::read_to_string(&path).expect("a page");
                into.push((path.display().to_string(), text.replace("\\\n", " ")));
            }
        }
    }

    /// The words of the shell's first command on a line, without what comments, pipes and redirections add.
    fn words(line: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let (mut quote, mut is_open) = (None, false);
        for c in line.chars() {
            match (quote, c) {
                (Some(q), c) if c == q => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(c);
                    words.extend((!is_open).then(String::new));
                    is_open = true;
                }
                (None, ' ') => is_open = false,
                (None, '#') if !is_open => break,
                (None, '|' | '&' | '>' | '<') if !is_open => break,
                (_, c) => {
                    words.extend((!is_open).then(String::new));
                    is_open = true;
                    words.last_mut().expect("there is one").push(c);
                }
            }
        }
        words
    }

    #[test]
    fn every_command_of_the_documentation_is_one() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut all = Vec::new();
        pages(&root.join("docs"), &mut all);
        all.retain(|(path, _)| !path.contains("/journal/"));
        let (mut known, mut wrong) = (0, Vec::new());
        for (path, text) in &all {
            let mut fenced = false;
            for line in text.lines() {
                fenced ^= line.starts_with("```");
                let Some(code) = line.strip_prefix("    ").or(fenced.then_some(line)) else { continue };
                let code = code.strip_prefix("sudo ").unwrap_or(code);
                // Brackets and dots stand for what a reader puts there.
                if !code.starts_with("holdup ") || code.contains(['…', '[']) {
                    continue;
                }
                known += 1;
                if let Err(e) = <super::Cli as clap::Parser>::try_parse_from(words(&code.replace("$$", "1")))
                    && e.use_stderr()
                {
                    wrong.push(format!("{path}: {code}\n  {}", e.to_string().lines().next().unwrap_or_default()));
                }
            }
        }
        assert!(known > 150, "only {known} commands: this is not the documentation");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
