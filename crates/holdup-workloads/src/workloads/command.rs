//! Any program.

use crate::command::extract::{self, Definition, Output};
use crate::command::spawn::Program;
use crate::command::supervise::{self, Completed, Exit, Usage, Watch};
use crate::command::{arguments, arguments::Placeholders, preload};
use holdup_catalogue::command as declared;
use holdup_host::Host;
use holdup_load::{PrepareContext, Prepared, TrialContext, TrialResult, Workload};
use holdup_model::plan::MetricChoice;
use holdup_model::{Direction, Fact, Measured, Measurement, Meta, Metric, Parameter, Parameters, Problem};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The workload.
#[derive(Debug, Clone, Copy)]
pub struct Command;

const META: Meta = Meta {
    id: "command",
    summary: "any command line: its time, or a number that it prints",
    docs: "Each trial starts the program once; the first trial may start it several times: when the collectors that run \
           by default take more than 1 % of its window, the most expensive ones are left out and the trial is measured \
           again. With --collect the program runs once in every trial. The window begins when the program is let run and ends when it has \
           ended; its length is the program's own, not the plan's duration. A plan's duration and warm-up reach \
           the program only where its arguments say `{window_s}` or `{warmup_s}` (seconds), and the trial's seed where \
           they say `{seed}`; the environment has it as HOLDUP_SEED too. No other braces are touched. There is no shell. With \
           `directory` the program runs in that folder, and a program with a slash is looked for there.\n\n\
           Metrics come from the plan: `regex` takes the first group of the last match in stdout, and in stderr when stdout \
           has none; `json` reads stdout as one JSON document; `duration` is the wall time in seconds. Without any, \
           duration_s is the metric. A number that is not found is absent with its reason, and voids the trial when the \
           metric is the primary one. What the kernel accounts to the program and to the children that it waited for \
           (CPU time, memory, switches) is always there.\n\n\
           The last 64 KiB of each stream are kept, 4 MiB of stdout where a metric reads JSON; a first line that was cut \
           is not searched. A trial is void when the exit code is not the expected one, a signal ended the \
           program, or it ran into the timeout. The program is the first of its own process group, and \
           the whole group is ended with the trial: SIGTERM, then SIGKILL after a second. A descendant that makes \
           its own session (a daemon) gets away.\n\n\
           With `holdfast = preload` the locks of pthread's functions are holdfast's (docs/holdfast.md): a library is written to a private \
           folder, stands first in the LD_PRELOAD of the program, and is removed after the trial. A note says how many locks it \
           served, which went to the C library and why, and where it had no effect: in programs that are statically linked (Go's \
           too), of 32 bits, setuid, or of another C library than glibc.",
    references: &[
        "wait4(2), getrusage(2); signal(7) on process groups; prctl(2) PR_SET_PDEATHSIG",
        "RFC 6901, JavaScript Object Notation (JSON) Pointer",
        "ld.so(8) on LD_PRELOAD",
    ],
};

/// What is always measured: id, unit, summary.
const ALWAYS: [(&str, &str, &str); 6] = [
    ("duration_s", "s", "the program's own duration"),
    ("user_s", "s", "CPU time in user mode, of the program and the children that it waited for"),
    ("system_s", "s", "CPU time in the kernel, of the program and the children that it waited for"),
    ("max_rss_bytes", "bytes", "largest resident memory of one of its processes"),
    ("voluntary_switches", "1", "context switches because it waited"),
    ("involuntary_switches", "1", "context switches because it was preempted"),
];

/// Bytes kept of each stream, and of a stdout that is read as JSON.
const KEPT: usize = 64 << 10;
const KEPT_JSON: usize = 4 << 20;

impl Workload for Command {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn parameters(&self) -> &'static [Parameter] {
        declared::Parameters::ALL
    }

    fn metrics(&self, chosen: &[MetricChoice]) -> Vec<Metric> {
        let mut metrics = extract::metrics(chosen);
        for (id, unit, summary) in ALWAYS {
            if !metrics.iter().any(|m| m.id == id) {
                metrics.push(Metric {
                    id: id.to_owned(),
                    unit: unit.to_owned(),
                    better: Direction::Lower,
                    summary: summary.to_owned(),
                });
            }
        }
        metrics
    }

    fn primary_metric(&self) -> Option<&'static str> {
        Some("duration_s")
    }

    fn takes_metrics(&self) -> bool {
        true
    }

    fn ends_its_window(&self) -> bool {
        true
    }

    fn may_be_background(&self) -> bool {
        true
    }

    fn prepare(&self, context: PrepareContext<'_>) -> Result<Box<dyn Prepared>, Problem> {
        let definitions = extract::definitions(context.metrics)?;
        let primary = context.metrics.iter().find(|m| m.primary).map(|m| m.id.clone());
        let mut session = Session {
            host: context.host.clone(),
            definitions,
            primary,
            path: std::env::var_os("PATH"),
            programs: Vec::new(),
            workdir: context.workdir.clone(),
        };
        preload::sweep(&session.host, &session.workdir);
        for parameters in context.combinations {
            let settings = Settings::read(parameters)?;
            let filled = arguments::fill(&settings.arguments, Placeholders { window_ns: 0, warmup_ns: 0, seed: 0 });
            let file = arguments::find(&filled[0], &settings.folder()?, session.path.as_deref())?;
            if !session.programs.contains(&file) {
                session.programs.push(file);
            }
        }
        Ok(Box::new(session))
    }
}

/// The parameters of an arm.
struct Settings {
    arguments: Vec<String>,
    timeout: Option<Duration>,
    expect_exit: i64,
    holdfast: declared::Holdfast,
    directory: Option<PathBuf>,
}

impl Settings {
    fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let declared::Parameters { command, timeout, expect_exit, holdfast, directory } =
            declared::Parameters::read(parameters)?;
        let timeout = timeout.map(Duration::from_nanos);
        Ok(Settings { arguments: command, timeout, expect_exit: expect_exit.into(), holdfast, directory })
    }

    /// The folder that the program runs in, absolute; empty for that of this process.
    fn folder(&self) -> Result<PathBuf, Problem> {
        let Some(folder) = &self.directory else { return Ok(PathBuf::new()) };
        match std::fs::canonicalize(folder) {
            Ok(path) if path.is_dir() => Ok(path),
            Ok(_) => Err(Problem::usage(format!("directory {}", folder.display()), "it is not a folder")),
            Err(e) => Err(Problem::usage(format!("directory {}", folder.display()), e.to_string())),
        }
    }
}

struct Session {
    host: Host,
    definitions: Vec<Definition>,
    /// The metric without which a trial does not count.
    primary: Option<String>,
    path: Option<OsString>,
    programs: Vec<PathBuf>,
    workdir: PathBuf,
}

impl Prepared for Session {
    fn facts(&mut self) -> Vec<Fact> {
        // A program that is built anew between two trials is another program.
        let fact = |file: &PathBuf| {
            let key = format!("command.program {}", file.display());
            match std::fs::metadata(file) {
                Ok(m) => Fact::read(
                    key,
                    format!("{} bytes, changed {}.{:09}", m.size(), m.mtime(), m.mtime_nsec()),
                    "stat(2)",
                ),
                Err(e) => Fact::absent(key, "stat(2)", e.to_string()),
            }
            .steady()
        };
        self.programs.iter().map(fact).collect()
    }

    fn run(&mut self, trial: TrialContext<'_>) -> Result<TrialResult, Problem> {
        let settings = Settings::read(trial.parameters)?;
        let fillings = Placeholders { window_ns: trial.duration_ns, warmup_ns: trial.warmup_ns, seed: trial.seed };
        let filled = arguments::fill(&settings.arguments, fillings);
        let holdfast = match settings.holdfast {
            declared::Holdfast::Off => None,
            declared::Holdfast::Preload => Some(preload::Preload::create(&self.host, &self.workdir)?),
        };
        let program = self.program(&filled, &settings, trial.seed, holdfast.as_ref())?;
        let stdout = if extract::needs_whole_output(&self.definitions) { KEPT_JSON } else { KEPT };
        let watch = Watch {
            timeout: settings.timeout,
            cancel: &trial.cancel,
            enough: &trial.enough,
            host: &self.host,
            kept: (stdout, KEPT),
            cpus: None,
            server: None,
        };
        let own_bytes = resident_bytes(&self.host);
        let file = program.file.clone();
        let mut ended = supervise::run(&program, &watch, trial.window, &filled[0])?;
        judge(&filled[0], &settings, &mut ended)?;
        let mut result =
            TrialResult { measurements: self.measurements(&mut ended, own_bytes)?, ..TrialResult::default() };
        if trial.warmup_ns > 0 && !arguments::warms_up(&settings.arguments) {
            result.notes.push("the warm-up does not apply: no argument of the program has {warmup_s}".to_owned());
        }
        if let Some(holdfast) = holdfast {
            result.notes.push(holdfast.remove(Path::new(OsStr::from_bytes(file.as_bytes())))?);
        }
        if ended.left_running > 0 {
            let n = ended.left_running;
            result
                .notes
                .push(format!("{n} processes of its group still ran when the program had ended, and were ended"));
        }
        Ok(result)
    }
}

impl Session {
    fn program(
        &self,
        filled: &[String],
        settings: &Settings,
        seed: u64,
        holdfast: Option<&preload::Preload>,
    ) -> Result<Program, Problem> {
        let folder = settings.folder()?;
        let file = arguments::find(&filled[0], &folder, self.path.as_deref())
            .map_err(|p| p.of_kind(holdup_model::ProblemKind::Trial))?;
        let mut environment = Vec::new();
        let own = holdfast.map(preload::Preload::environment).unwrap_or_default();
        let kept = |name: &OsString| name != "HOLDUP_SEED" && own.iter().all(|(own, _)| own != name);
        let variables: Vec<_> = std::env::vars_os().filter(|(name, _)| kept(name)).collect();
        for (name, value) in variables.into_iter().chain(own.clone()) {
            let mut entry = name;
            entry.push("=");
            entry.push(value);
            environment.push(arguments::c_string(&entry)?);
        }
        environment.push(arguments::c_string(OsStr::new(&format!("HOLDUP_SEED={seed}")))?);
        Ok(Program {
            file: arguments::c_string(file.as_os_str())?,
            arguments: filled.iter().map(|a| arguments::c_string(OsStr::new(a))).collect::<Result<_, _>>()?,
            environment,
            folder: settings.directory.as_ref().map(|_| arguments::c_string(folder.as_os_str())).transpose()?,
        })
    }

    /// Every metric that `Workload::metrics` names, in its order.
    fn measurements(&self, ended: &mut Completed, own_bytes: Option<u64>) -> Result<Vec<Measurement>, Problem> {
        let mut output = Output { stdout: &mut ended.stdout, stderr: &mut ended.stderr, duration_s: ended.duration_s };
        let mut all: Vec<Measurement> =
            self.definitions.iter().map(|d| Measurement { metric: d.id.clone(), value: d.read(&mut output) }).collect();
        for measurement in accounts(&ended.usage, ended.duration_s, own_bytes) {
            if !all.iter().any(|m| m.metric == measurement.metric) {
                all.push(measurement);
            }
        }
        let primary = all.iter().find(|m| Some(&m.metric) == self.primary.as_ref());
        match primary.map(|m| &m.value) {
            Some(Measured::Absent(why)) => {
                let id = self.primary.as_deref().unwrap_or_default();
                Err(Problem::trial(format!("primary metric {id}"), why.clone()).hint(last_words(ended)))
            }
            _ => Ok(all),
        }
    }
}

fn accounts(usage: &Usage, duration_s: f64, own_bytes: Option<u64>) -> [Measurement; 6] {
    // A process that is made by fork begins with the memory of its parent, and the kernel's maximum keeps that.
    let memory = match own_bytes {
        Some(own) if usage.max_rss_bytes > own => Measurement::new("max_rss_bytes", usage.max_rss_bytes as f64),
        Some(own) => Measurement::absent(
            "max_rss_bytes",
            format!("it is below the {own} bytes that holdup had when it started it"),
        ),
        None => Measurement::absent("max_rss_bytes", "holdup's own memory, which is its lower bound, is not known"),
    };
    [
        Measurement::new("duration_s", duration_s),
        Measurement::new("user_s", usage.user_s),
        Measurement::new("system_s", usage.system_s),
        memory,
        Measurement::new("voluntary_switches", usage.voluntary as f64),
        Measurement::new("involuntary_switches", usage.involuntary as f64),
    ]
}

/// holdup's own resident memory.
fn resident_bytes(host: &Host) -> Option<u64> {
    let status = host.read_text("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// Whether the program ended as it should.
fn judge(name: &str, settings: &Settings, ended: &mut Completed) -> Result<(), Problem> {
    let why = match ended.how {
        Exit::Cancelled => return Err(Problem::interrupted("the trial")),
        Exit::Enough => return Ok(()),
        Exit::Code(code) if i64::from(code) == settings.expect_exit => return Ok(()),
        Exit::Code(code) => format!("it ended with exit code {code}, {} was expected", settings.expect_exit),
        Exit::Signal(signal) => format!("it was killed by signal {signal}"),
        Exit::TimedOut => {
            format!("it ran into the timeout of {} s", settings.timeout.unwrap_or_default().as_secs_f64())
        }
    };
    Err(Problem::trial(format!("command {name}"), format!("{why}; {}", last_words(ended))))
}

/// What the program output last.
fn last_words(ended: &mut Completed) -> String {
    let (stderr, stdout) = (ended.stderr.last_lines(3), ended.stdout.last_lines(3));
    match (stderr.is_empty(), stdout.is_empty()) {
        (false, _) => format!("its stderr ends with: {stderr}"),
        (true, false) => format!("its stdout ends with: {stdout}"),
        (true, true) => "it output nothing".to_owned(),
    }
}
