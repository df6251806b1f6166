//! The same command of holdup on many hosts, and their answers in one table.

use crate::cli::OverSsh;
use crate::output;
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::Problem;
use holdup_report::{HostRow, HostState, fleet_head, fleet_json, fleet_terminal, sort_hosts};
use holdup_ssh::{Address, CommandLimits, Output, Remote, Ssh, SshOptions};
use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The most connections at the same time.
const MOST_AT_ONCE: usize = 16;

/// The hosts that `--target` names.
///
/// # Errors
/// When it names none.
pub(super) fn hosts(target: &str) -> Result<Vec<Address>, Problem> {
    match target.strip_prefix("ssh:") {
        Some(hosts) => holdup_ssh::hosts(hosts),
        None => Err(Problem::usage(format!("--target {target}"), "it names no hosts").hint("--target ssh:HOST,HOST")),
    }
}

/// How long a host may take beside what it is asked for: connecting, a look at its processes and files, putting them into a document.
const GRACE: Duration = Duration::from_secs(120);

/// The limits of a command that takes a time by itself and prints so much at most.
pub(super) fn limits(time: Duration, stdout_bytes: u64) -> CommandLimits {
    CommandLimits { time: time.saturating_add(GRACE), stdout_bytes }
}

/// Runs holdup with these words on every host, some at a time, and gives each answer in the order of the hosts. A host that fails
/// stops no other. Each host prints into a value, which is read at the end.
pub(super) fn ask<W: Write, T: Send>(
    addresses: &[Address],
    over: &OverSsh,
    cancel: &Cancel,
    (words, limits): (&[String], CommandLimits),
    into: impl Fn(&Address) -> W + Sync,
    read: impl Fn(&Address, W, Result<Output, Problem>) -> T + Sync,
) -> Vec<T> {
    let (host, ssh, options): (Host, Ssh, SshOptions) = (Host::real(), Ssh::from_environment(), over.options());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let next = Mutex::new(addresses.iter().enumerate());
    let answers = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..addresses.len().min(MOST_AT_ONCE) {
            scope.spawn(|| {
                loop {
                    let turn = next.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some((at, address)) = turn else { return };
                    let remote = Remote { host: &host, address, ssh: &ssh, options: &options };
                    let mut printed = into(address);
                    let output = remote.run(&words, limits, &mut printed, &|| cancel.is_cancelled());
                    let answer = read(address, printed, output);
                    answers.lock().unwrap_or_else(PoisonError::into_inner).push((at, answer));
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// The row of a host that could not be asked.
pub(super) fn failed(address: &Address, problem: &Problem) -> HostRow {
    let own = format!("host {address}");
    let answer = if problem.what == own { problem.why.clone() } else { format!("{}: {}", problem.what, problem.why) };
    HostRow {
        host: address.to_string(),
        state: HostState::Failed,
        verdict: "not asked".to_owned(),
        kernel: "-".to_owned(),
        answer,
        hint: problem.hint.clone(),
    }
}

/// The problem that a holdup at the far end printed.
pub(super) fn refused(address: &Address, output: &Output) -> Problem {
    let find = |head: &str| output.stderr.lines().find_map(|line| line.strip_prefix(head)).map(str::to_owned);
    let why = find("error: ").unwrap_or_else(|| "it gave no answer that can be read".to_owned());
    let problem = Problem::host(format!("host {address}"), why);
    match find("hint: ") {
        Some(hint) => problem.hint(hint),
        None => problem,
    }
}

/// Prints the table. The exit code is that of the worst answer: 1 for what was found, 3 for what is not known.
pub(super) fn print(mut rows: Vec<HostRow>, found: &str, as_json: bool, details: bool) -> Result<u8, Problem> {
    sort_hosts(&mut rows);
    let text = match as_json {
        true => fleet_json(&rows),
        false => fleet_terminal(&rows, &fleet_head(&rows, found), &output::terminal(details)),
    };
    output::data(&text)?;
    let has = |state: HostState| rows.iter().any(|row| row.state == state);
    Ok(match () {
        () if has(HostState::Found) => 1,
        () if has(HostState::Failed) || has(HostState::Undecided) => 3,
        () => 0,
    })
}
