//! `holdup check`: the preemption model in force, and the known regressions that affect this host.

use crate::output;
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_model::Problem;
use holdup_model::survey::Exposure;
use holdup_report::Checked;
use holdup_survey::postgres::Asked;
use std::path::PathBuf;
use std::time::Duration;

/// How long the probe measures.
const PROBE: Duration = Duration::from_secs(2);

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
    /// Copy all files read to this new folder, for --root
    #[arg(long, value_name = "DIR", conflicts_with = "root")]
    capture: Option<PathBuf>,
    /// Check a captured tree instead of this host
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let root = args.root.as_ref();
    let host = match root {
        Some(root) if !root.is_dir() => {
            return Err(Problem::usage(format!("--root {}", root.display()), "there is no such folder")
                .hint("give the folder that holds proc, sys and etc of the captured host")
                .into());
        }
        Some(root) => Host::at(root),
        None => match &args.capture {
            Some(folder) => Host::capturing(folder).map_err(|e| {
                Problem::usage(e.to_string(), "the folder of a capture must be new")
                    .hint("name a folder that does not exist")
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
    if let Some(folder) = &args.capture {
        let folder = folder.display();
        output::say(&format!("captured to {folder}: remove secrets (postgresql.conf) before you share it"));
    }
    Ok(match overall {
        Exposure::NotExposed => 0,
        Exposure::Exposed => 1,
        Exposure::Undecided => 3,
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
