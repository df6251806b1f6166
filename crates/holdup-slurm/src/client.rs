//! The programs of Slurm.

use crate::queue::{self, Node, Task};
use crate::queue::{SACCT_FIELDS, SINFO_FORMAT, SQUEUE_FORMAT};
use holdup_model::Problem;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// Slurm as its programs on the PATH show it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slurm;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub name: String,
    /// CPUs that jobs can have.
    pub usable_cpus: u32,
    /// The fewest CPUs of a node.
    pub node_cpus: u32,
    /// The least memory of a node, MB.
    pub node_memory_mb: u64,
    /// The longest time of a job, minutes; `None` for no limit.
    pub limit_minutes: Option<u64>,
    /// Its nodes; none where Slurm does not show them.
    pub nodes: Vec<Node>,
}

impl Slurm {
    /// The partition of this name, or the default one.
    ///
    /// # Errors
    /// When Slurm cannot be asked, or has no such partition.
    pub fn partition(self, name: Option<&str>) -> Result<Partition, Problem> {
        let all = queue::partitions(&run("sinfo", ["--noheader", "--exact", "--format", SINFO_FORMAT])?);
        let lines = all.iter().filter(|nodes| name.map_or(nodes.is_default, |name| nodes.partition == name));
        let mut found: Option<Partition> = None;
        for nodes in lines {
            let partition = found.get_or_insert_with(|| Partition {
                name: nodes.partition.clone(),
                usable_cpus: 0,
                node_cpus: u32::MAX,
                node_memory_mb: u64::MAX,
                limit_minutes: nodes.limit_minutes,
                nodes: Vec::new(),
            });
            partition.usable_cpus = partition.usable_cpus.saturating_add(nodes.usable_cpus);
            partition.node_cpus = partition.node_cpus.min(nodes.node_cpus);
            partition.node_memory_mb = partition.node_memory_mb.min(nodes.node_memory_mb);
        }
        if let Some(partition) = &mut found {
            // Where it may not be asked, sbatch says what there is not.
            let nodes = queue::nodes(&run("scontrol", ["show", "node", "--oneliner"]).unwrap_or_default());
            partition.nodes = nodes.into_iter().filter(|node| node.partitions.contains(&partition.name)).collect();
        }
        found.ok_or_else(|| {
            let mut known: Vec<&str> = all.iter().map(|nodes| nodes.partition.as_str()).collect();
            known.dedup();
            let (what, why) = match name {
                Some(name) => (format!("partition {name}"), "Slurm has no such partition"),
                None => ("--on slurm".to_owned(), "Slurm has no default partition"),
            };
            Problem::usage(what, why).hint(format!("name one: --on slurm:NAME, one of {}", known.join(", ")))
        })
    }

    /// The largest index of an array job.
    pub fn largest_index(self) -> u32 {
        let config = run("scontrol", ["show", "config"]).unwrap_or_default();
        let size = config
            .lines()
            .find_map(|line| line.strip_prefix("MaxArraySize")?.trim().strip_prefix('=')?.trim().parse().ok());
        // The default of slurm.conf(5).
        size.unwrap_or(1001_u32).saturating_sub(1)
    }

    /// Submits the tasks of these numbers, and gives the number of the array job.
    ///
    /// # Errors
    /// When Slurm refuses them.
    pub fn submit(self, arguments: &[String], numbers: &[u32], script: &Path) -> Result<u32, Problem> {
        let array = format!("--array={}", ranges(numbers));
        let words = arguments.iter().map(String::as_str).chain([array.as_str()]).map(OsStr::new);
        let said = run("sbatch", words.chain([script.as_os_str()]))?;
        // With several clusters the name of one follows.
        let id = said.trim().split(';').next().unwrap_or_default();
        id.parse().map_err(|_| Problem::host("sbatch", format!("it printed no number of a job, but `{}`", said.trim())))
    }

    /// The tasks of all jobs of this name that the queue knows, and the jobs whose waiting tasks were cancelled.
    ///
    /// # Errors
    /// When Slurm cannot be asked.
    pub fn tasks(self, name: &str) -> Result<(BTreeMap<u32, Task>, BTreeSet<u32>), Problem> {
        let name = format!("--name={name}");
        let said = run("squeue", ["--noheader", "--array", "--states=all", &name, "--format", SQUEUE_FORMAT])?;
        Ok((queue::tasks(&said), queue::cancelled_waiting(&said)))
    }

    /// What the accounting knows of tasks that the queue forgot; nothing without a database.
    pub fn accounted(self, name: &str) -> BTreeMap<u32, Task> {
        let name = format!("--name={name}");
        let fields = format!("--format={SACCT_FIELDS}");
        let words = ["--noheader", "--parsable2", "--allocations", "--starttime=now-30days", &name, &fields];
        run("sacct", words).map(|said| queue::accounted(&said)).unwrap_or_default()
    }

    /// The exit code of a task that failed.
    pub fn exit_code(self, job: u32, index: u32) -> Option<u32> {
        let said = run("scontrol", ["show", "job", &format!("{job}_{index}"), "--oneliner"]).ok()?;
        queue::exit_code(&said)
    }

    /// Puts a file of this host on the node of a running task.
    ///
    /// # Errors
    /// When the node cannot be reached or written to.
    pub(crate) fn put(self, task: u32, from: &Path, to: &str) -> Result<(), Problem> {
        let task = format!("--jobid={task}");
        let words = [OsStr::new(&task), OsStr::new("--force"), from.as_os_str(), OsStr::new(to)];
        Asked { program: "sbcast", out: Stdio::null(), patience: SILENCE }.run(words)?;
        Ok(())
    }

    /// Gets a file from the node of a running task, by a step beside what runs there; whether there is such a file.
    ///
    /// # Errors
    /// When the node cannot be reached.
    pub(crate) fn get(self, task: u32, from: &str, to: File) -> Result<bool, Problem> {
        let task = format!("--jobid={task}");
        let step =
            [&*task, "--overlap", "--nodes=1", "--ntasks=1", "--mem=0", "--input=none", "--export=NONE", "--chdir=/"];
        let script = format!("[ -e \"$1\" ] || exit {NO_FILE}; exec cat \"$1\"");
        let words = step.into_iter().chain(["/bin/sh", "-c", &script, "sh", from]);
        let asked = Asked { program: "srun", out: Stdio::from(to), patience: SILENCE };
        match asked.run(words) {
            Ok(_) => Ok(true),
            Err(Unanswered { code: Some(NO_FILE), .. }) => Ok(false),
            Err(unanswered) => Err(unanswered.problem),
        }
    }

    /// Says to tasks, named by their array job and their index, that what they made was fetched. The number of one of them as a job
    /// is that of the array too, and would name all.
    ///
    /// # Errors
    /// When Slurm cannot be asked.
    pub(crate) fn release(self, tasks: &[(u32, u32)]) -> Result<(), Problem> {
        let tasks = tasks.iter().map(|(job, index)| format!("{job}_{index}"));
        run("scancel", ["--signal=USR1".to_owned(), "--batch".to_owned()].into_iter().chain(tasks)).map(drop)
    }

    /// Ends all jobs of this name.
    ///
    /// # Errors
    /// When Slurm cannot be asked.
    pub fn cancel(self, name: &str) -> Result<(), Problem> {
        run("scancel", [format!("--name={name}")]).map(drop)
    }
}

/// Numbers in ascending order as Slurm reads them: `0-3,7`.
pub(crate) fn ranges(numbers: &[u32]) -> String {
    let rows = numbers.chunk_by(|a, b| a + 1 == *b);
    let words = rows.map(|row| match row {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    });
    words.collect::<Vec<_>>().join(",")
}

/// How long a program of Slurm may take: what it speaks to may be a node that is gone.
const SILENCE: Duration = Duration::from_secs(300);
/// The exit code of a step for a file that is not there.
const NO_FILE: i32 = 44;

/// Runs a program of Slurm, and gives what it printed.
fn run(program: &'static str, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String, Problem> {
    Ok(Asked { program, out: Stdio::piped(), patience: SILENCE }.run(words)?)
}

/// A program of Slurm that is to be run.
struct Asked {
    program: &'static str,
    out: Stdio,
    patience: Duration,
}

/// Why a program gave no answer.
struct Unanswered {
    code: Option<i32>,
    problem: Problem,
}

impl From<Unanswered> for Problem {
    fn from(unanswered: Unanswered) -> Problem {
        unanswered.problem
    }
}

impl Asked {
    fn run(self, words: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<String, Unanswered> {
        let Asked { program, out, patience } = self;
        let mut command = Command::new(program);
        command.args(words).stdin(Stdio::null()).stdout(out).stderr(Stdio::piped());
        command.env("LC_ALL", "C").env("SLURM_TIME_FORMAT", "standard");
        // Ctrl-C is for holdup, and not for a program that submits.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let failed = |why: String| Unanswered { code: None, problem: Problem::host(program, why) };
        let child = command.spawn().map_err(|e| match e.kind() {
            ErrorKind::NotFound => Unanswered {
                code: None,
                problem: Problem::host("--on slurm", format!("there is no {program} on the PATH"))
                    .hint("run on a login node of the cluster, or install Slurm's programs (Debian: slurm-client)"),
            },
            _ => failed(format!("it cannot be started ({e})")),
        })?;
        let output = bounded(child, patience).map_err(failed)?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(Unanswered { code: output.status.code(), problem: refusal(program, &output) }),
        }
    }
}

/// Waits for a program to end, and ends it after this time.
fn bounded(child: Child, patience: Duration) -> Result<Output, String> {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let pid = rustix::process::Pid::from_child(&child);
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let is_late = ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
            let _gone = is_late.then(|| rustix::process::kill_process(pid, rustix::process::Signal::KILL));
            is_late
        });
        let output = child.wait_with_output();
        drop(end);
        match watch.join().unwrap_or_default() {
            true => Err(format!("it gave no answer in {} s", patience.as_secs())),
            false => output.map_err(|e| format!("it cannot be waited for ({e})")),
        }
    })
}

/// What a program said when it failed.
fn refusal(program: &str, output: &Output) -> Problem {
    let errors = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let lines: Vec<&str> = lines.iter().map(|line| line.split_once("error: ").map_or(*line, |(_, why)| why)).collect();
    let problem = Problem::host(
        program,
        match lines.is_empty() {
            true => format!("it failed ({})", output.status),
            false => lines.join("; "),
        },
    );
    match errors.contains("ontact slurm controller") {
        true => problem.hint("see whether slurmctld runs: scontrol ping"),
        false => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_numbers_are_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 7, 9, 10]), "0-2,7,9-10");
        assert_eq!(ranges(&[4]), "4");
    }
}
