//! hackbench of rt-tests: groups of senders and receivers, a fixed number of messages.

use crate::external::setup::{Setup, push};
use crate::external::text;
use crate::external::{About, Invocation, Reading, Run, Tool, ToolOutput};
use holdup_catalogue::Sharing;
use holdup_catalogue::external::{self, Protocol};
use holdup_model::Problem;

/// The tool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hackbench;

impl Tool for Hackbench {
    fn about(&self) -> &'static About {
        &About {
            tool: external::Tool::Hackbench,
            program: "hackbench",
            install: "apt install rt-tests",
            version: Some(&["--help"]),
            version_after: "hackbench V ",
            modes: &[],
            protocols: &[Protocol::Unix, Protocol::Pipe, Protocol::Tcp],
            parameters: &["groups", "senders", "loops", "size", "sharing"],
        }
    }

    fn measures(&self, _setup: &Setup) -> &'static [&'static str] {
        &["total_time_s", "messages_per_s"]
    }

    fn invocation(&self, setup: &Setup, _run: &Run) -> Result<Invocation, Problem> {
        let given = &setup.given;
        let mut arguments = Vec::new();
        for (flag, value) in [("-g", given.groups), ("-f", given.senders), ("-l", given.loops), ("-s", given.size)] {
            push(&mut arguments, flag, value);
        }
        arguments.extend(given.sharing.map(|sharing| if sharing == Sharing::Threads { "-T" } else { "-P" }.to_owned()));
        match setup.protocol {
            Some(Protocol::Pipe) => arguments.push("-p".to_owned()),
            Some(Protocol::Tcp) => arguments.push("-i".to_owned()),
            _ => {}
        }
        arguments.extend(setup.further());
        Ok(Invocation { arguments, fixed_work: true, ..Invocation::default() })
    }

    fn read(&self, _setup: &Setup, said: &ToolOutput<'_>) -> Result<Reading, String> {
        parse(said.stdout)
    }
}

/// Three lines: groups with their descriptors (twice the senders of one), messages of each sender to each receiver
/// of its group, and the time, which does not include making the tasks.
fn parse(stdout: &str) -> Result<Reading, String> {
    let time = text::number_after(stdout, "Time:").filter(|t| *t >= 0.0);
    let time = time.ok_or_else(|| format!("there is no `Time:` in it, it says: {}", text::shown(stdout)))?;
    let counts = (
        text::count_after(stdout, "mode with "),
        text::count_after(stdout, "groups using "),
        text::count_after(stdout, "Each sender will pass "),
    );
    let (Some(groups), Some(descriptors), Some(messages)) = counts else {
        return Err("the lines before `Time:` do not say how many messages went".to_owned());
    };
    let senders = (descriptors / 2) as f64;
    let mut reading = Reading::default();
    reading.put("total_time_s", time);
    match time > 0.0 {
        true => reading.put("messages_per_s", groups as f64 * senders * senders * messages as f64 / time),
        false => reading.absent("messages_per_s", "the total time is below the millisecond that hackbench prints"),
    }
    if time < 0.1 {
        reading.note(format!("hackbench prints whole milliseconds, of which its time has {:.0}", time * 1e3));
    }
    Ok(reading)
}
