//! `holdup check`: the preemption model in force, and the known regressions that affect this host.

use super::fleet;
use crate::cli::OverSsh;
use crate::{output, signals};
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::Problem;
use holdup_model::survey::Exposure;
use holdup_report::{Checked, HostRow, HostState};
use holdup_ssh::{Address, Output};
use holdup_survey::postgres::Asked;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// How long the probe measures.
const PROBE: Duration = Duration::from_secs(2);

/// The longest document of another host. It takes some ten times as much memory while it is read, for sixteen hosts at the same time.
const MOST_BYTES_OF_HOST: u64 = 4 << 20;

/// Check this host for known regressions and its preemption model
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Only reads, needs no root, and reports what it could not check.

Exit codes:
  0  not affected
  1  affected
  2  wrong command line
  3  undecided")]
pub(crate) struct Args {
    /// Check this PostgreSQL server [default: all of this host]
    ///
    /// A connection URL, a data directory or the PID of the postmaster.
    #[arg(long, value_name = "SERVER")]
    pg: Option<String>,
    /// Also measure how the kernel preempts (2 s of two CPUs)
    #[arg(long, conflicts_with = "root")]
    probe: bool,
    /// Print all that was read, with its source
    #[arg(long)]
    details: bool,
    /// Copy all files read to this new file, for --root
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    capture: Option<PathBuf>,
    /// Check a captured tree instead of this host
    #[arg(long, value_name = "FILE")]
    root: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Check these hosts over ssh instead: ssh:HOST,HOST
    #[arg(long, value_name = "ssh:HOST,…", conflicts_with_all = ["root", "capture"])]
    target: Option<String>,
    #[command(flatten)]
    ssh: OverSsh,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    if let Some(target) = &args.target {
        return on_hosts(args, target);
    }
    let root = args.root.as_ref();
    let host = match root {
        Some(root) if !root.exists() => {
            return Err(Problem::usage(format!("--root {}", root.display()), "there is no such file")
                .hint("give the file of check --capture, or a folder with proc, sys and etc of a host")
                .into());
        }
        Some(root) => Host::captured(root)?,
        None => match &args.capture {
            Some(file) => Host::capturing(file).map_err(|e| {
                Problem::usage(e.to_string(), "the file of a capture must be new")
                    .hint("name a file that does not exist")
            })?,
            None => Host::real(),
        },
    };
    let (asked, control) = server(args.pg.as_ref(), &host, root.is_some())?;
    let mut survey = holdup_survey::survey(&host, asked.as_ref(), control.as_deref());
    if args.probe {
        holdup_survey::probe_into(&mut survey, PROBE);
    }
    let findings = holdup_analysis::check(&survey);
    let overall = holdup_analysis::overall(&findings);
    let impossible = holdup_analysis::impossible(&survey);
    let checked = Checked { survey: &survey, findings: &findings, overall, impossible: &impossible };
    let text = if args.json {
        holdup_report::check_json(&checked)
    } else {
        holdup_report::check_terminal(&checked, &output::terminal(args.details))
    };
    output::data(&text)?;
    if let Some(file) = &args.capture {
        host.write_capture().map_err(Problem::from)?;
        let file = file.display();
        output::say(&format!("captured to {file}: remove secrets (postgresql.conf) before you share it"));
    }
    Ok(match overall {
        Exposure::NotExposed => 0,
        Exposure::Exposed => 1,
        Exposure::Undecided => 3,
    })
}

/// Checks hosts, each by the holdup there, and prints one table.
fn on_hosts(args: &Args, target: &str) -> anyhow::Result<u8> {
    let addresses = fleet::hosts(target)?;
    let mut words = vec!["check".to_owned(), "--json".to_owned()];
    words.extend(args.probe.then(|| "--probe".to_owned()));
    words.extend(args.pg.iter().map(|pg| format!("--pg={pg}")));
    let cancel = signals::cancel_on_signals()?;
    let limits = fleet::limits(if args.probe { PROBE } else { Duration::ZERO }, MOST_BYTES_OF_HOST);
    let document = |_: &Address| Vec::<u8>::new();
    let rows = fleet::ask(&addresses, &args.ssh, &cancel, (&words, limits), document, |address, printed, output| {
        let row = output.and_then(|output| row(address, &printed, &output));
        row.unwrap_or_else(|problem| fleet::failed(address, &problem))
    });
    if cancel.is_cancelled() {
        return Err(Problem::interrupted("check").into());
    }
    Ok(fleet::print(rows, "exposed", args.json, args.details)?)
}

/// What the JSON document of a host says, in a row.
fn row(address: &Address, printed: &[u8], output: &Output) -> Result<HostRow, Problem> {
    let text = String::from_utf8_lossy(printed);
    // Before it may stand what the shell there prints.
    let begin = if text.starts_with('{') { Some(0) } else { text.find("\n{").map(|at| at + 1) };
    let document: Option<Value> = begin.and_then(|at| serde_json::from_str(&text[at..]).ok());
    let document = document.ok_or_else(|| fleet::refused(address, output))?;
    let word = |at: &str| document.pointer(at).and_then(Value::as_str).unwrap_or("not known").to_owned();
    let verdict = word("/verdict");
    let state = match verdict.as_str() {
        "exposed" => HostState::Found,
        "not-exposed" => HostState::Clear,
        _ => HostState::Undecided,
    };
    let findings = document.pointer("/findings").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let summaries: Vec<String> = findings
        .iter()
        .filter(|f| of(f, "exposure") == verdict && state != HostState::Clear && of(f, "weight") != "none")
        .map(|f| of(f, "summary"))
        .collect();
    let model = format!("preempt={}", word("/survey/preempt/model/value"));
    Ok(HostRow {
        host: address.to_string(),
        state,
        verdict: verdict.replace("not-exposed", "not exposed"),
        kernel: word("/survey/kernel/release/value"),
        answer: [vec![model], summaries].concat().join("; "),
        hint: None,
    })
}

type Named = (Option<Asked>, Option<Box<dyn PostgresControl>>);

/// The server that `--pg` names: a number is a process, a text with `://` or `=` a connection, any other a folder.
fn server(named: Option<&String>, host: &Host, is_captured: bool) -> Result<Named, Problem> {
    let Some(named) = named else { return Ok((None, None)) };
    if let Ok(pid) = named.parse() {
        return Ok((Some(Asked::Pid(pid)), None));
    }
    if !named.contains("://") && !named.contains('=') {
        return Ok((Some(Asked::DataDirectory(named.clone())), None));
    }
    if is_captured {
        return Err(Problem::usage("--pg with a connection", "a captured tree cannot be connected to")
            .hint("give the data directory as it stands in the tree, or leave --root out"));
    }
    let server = holdup_postgres::External::connect(host, named)?;
    Ok((None, Some(Box::new(server))))
}
