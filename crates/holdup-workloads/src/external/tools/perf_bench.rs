//! `perf bench sched`: messaging (hackbench of the kernel's tree) and pipe.

use crate::external::setup::{Setup, push};
use crate::external::text;
use crate::external::{About, Invocation, Reading, Run, Tool, ToolOutput};
use holdup_catalogue::Sharing;
use holdup_catalogue::external::{self, Mode, Protocol};
use holdup_model::Problem;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerfBench;

/// What `-l` is when it is not given: tools/perf/bench/sched-messaging.c and sched-pipe.c, Linux 6.18.
const MESSAGING_LOOPS: u64 = 100;
const PIPE_LOOPS: u64 = 1_000_000;

impl Tool for PerfBench {
    fn about(&self) -> &'static About {
        &About {
            tool: external::Tool::PerfBench,
            program: "perf",
            install: "apt install linux-perf",
            version: Some(&["--version"]),
            version_after: "perf version ",
            modes: &[Mode::Messaging, Mode::Pipe],
            protocols: &[Protocol::Unix, Protocol::Pipe],
            parameters: &["groups", "loops", "sharing"],
        }
    }

    fn measures(&self, setup: &Setup) -> &'static [&'static str] {
        match setup.mode {
            Some(Mode::Pipe) => &["total_time_s", "messages_per_s", "rtt_mean_us"],
            _ => &["total_time_s", "messages_per_s"],
        }
    }

    fn invocation(&self, setup: &Setup, _run: &Run) -> Result<Invocation, Problem> {
        let given = &setup.given;
        let mut arguments = vec!["bench".to_owned(), "sched".to_owned(), setup.mode.map_or("", Mode::word).to_owned()];
        arguments.extend(["-l".to_owned(), loops(setup)?.to_string()]);
        if setup.mode == Some(Mode::Messaging) {
            push(&mut arguments, "-g", given.groups);
            if setup.protocol == Some(Protocol::Pipe) {
                arguments.push("-p".to_owned());
            }
        } else if setup.given.groups.is_some() {
            return Err(setup.wrong("groups", "mode pipe has two tasks and no groups"));
        }
        if setup.given.sharing == Some(Sharing::Threads) {
            arguments.push(if setup.mode == Some(Mode::Messaging) { "-t" } else { "-T" }.to_owned());
        }
        arguments.extend(setup.further());
        Ok(Invocation { arguments, fixed_work: true, ..Invocation::default() })
    }

    fn read(&self, setup: &Setup, said: &ToolOutput<'_>) -> Result<Reading, String> {
        let loops = loops(setup).map_err(|p| p.why)?;
        match setup.mode {
            Some(Mode::Pipe) => pipe(said.stdout),
            _ => messaging(said.stdout, loops),
        }
    }
}

fn loops(setup: &Setup) -> Result<u64, Problem> {
    let default = if setup.mode == Some(Mode::Pipe) { PIPE_LOOPS } else { MESSAGING_LOOPS };
    Ok(setup.given.loops.unwrap_or(default))
}

fn total_time(stdout: &str) -> Result<f64, String> {
    let time = text::number_after(stdout, "Total time:").filter(|t| *t >= 0.0);
    time.ok_or_else(|| format!("there is no `Total time:` in it, it says: {}", text::shown(stdout)))
}

/// `# 20 sender and receiver processes per group`, `# 2 groups == 80 processes run`, `Total time: 0.238 [sec]`.
fn messaging(stdout: &str, loops: u64) -> Result<Reading, String> {
    let time = total_time(stdout)?;
    let line =
        |end: &str| stdout.lines().find(|l| l.contains(end)).and_then(|l| text::count_after(l, "# ")).map(|n| n as f64);
    let (Some(senders), Some(groups)) = (line(" sender and receiver "), line(" groups == ")) else {
        return Err("the lines before `Total time:` do not say how many tasks ran".to_owned());
    };
    let mut reading = Reading::default();
    reading.put("total_time_s", time);
    match time > 0.0 {
        true => reading.put("messages_per_s", groups * senders * senders * loops as f64 / time),
        false => reading.absent("messages_per_s", "the total time is below the millisecond that perf prints"),
    }
    Ok(reading)
}

/// `Total time: 0.084 [sec]`, `84.372000 usecs/op`, `11852 ops/sec`; an operation is a message there and one back.
fn pipe(stdout: &str) -> Result<Reading, String> {
    let mut reading = Reading::default();
    reading.put("total_time_s", total_time(stdout)?);
    let before = |unit: &str| stdout.lines().find(|l| l.contains(unit)).and_then(text::number);
    let usecs = before(" usecs/op").filter(|us| *us > 0.0);
    let usecs = usecs.ok_or("it does not say how long an operation took")?;
    reading.put("rtt_mean_us", usecs);
    reading.put("messages_per_s", 2e6 / usecs);
    Ok(reading)
}
