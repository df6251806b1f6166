//! `holdup check`: which preemption model is in force, and whether known cases hit this host.

use crate::output;
use clap::ArgMatches;
use holdup_host::Host;
use holdup_host::postgres::PostgresControl;
use holdup_host::survey::postgres::Asked;
use holdup_model::Problem;
use holdup_model::survey::Exposure;
use holdup_report::{Checked, TerminalOptions};
use std::path::PathBuf;
use std::time::Duration;

/// How long the probe measures.
const PROBE: Duration = Duration::from_secs(2);

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let root = matches.get_one::<PathBuf>("root");
    let host = match root {
        Some(root) if !root.is_dir() => {
            return Err(Problem::usage(format!("--root {}", root.display()), "there is no such folder")
                .hint("give the folder that holds proc, sys and etc of the captured host")
                .into());
        }
        Some(root) => Host::at(root),
        None => match matches.get_one::<PathBuf>("capture") {
            Some(folder) => Host::capturing(folder).map_err(|e| {
                Problem::usage(e.to_string(), "a capture goes into a folder of its own").hint("name a new folder")
            })?,
            None => Host::real(),
        },
    };
    let (asked, control) = server(matches.get_one::<String>("pg"), &host, root.is_some())?;
    let mut survey = holdup_host::survey::survey(&host, asked.as_ref(), control.as_deref());
    if matches.get_flag("probe") {
        holdup_host::survey::probe_into(&mut survey, PROBE);
    }
    let findings = holdup_analysis::check(&survey);
    let overall = holdup_analysis::overall(&findings);
    let impossible = holdup_analysis::impossible(&survey);
    let checked = Checked { survey: &survey, findings: &findings, overall, impossible: &impossible };
    let text = if matches.get_flag("json") {
        holdup_report::check_json(&checked)
    } else {
        let options = TerminalOptions { width: output::width(), color: output::wants_color() };
        match matches.get_flag("details") {
            true => holdup_report::check_details(&checked, &options),
            false => holdup_report::check_terminal(&checked, &options),
        }
    };
    output::data(&text)?;
    if let Some(folder) = matches.get_one::<PathBuf>("capture") {
        let folder = folder.display();
        output::say(&format!("captured into {folder}: look for secrets (postgresql.conf) before you pass it on"));
    }
    Ok(match overall {
        Exposure::NotExposed => 0,
        Exposure::Exposed => 1,
        Exposure::Undecided => 3,
    })
}

type Named = (Option<Asked>, Option<Box<dyn PostgresControl>>);

/// The server that `--pg` names: a number is a process, what has `://` or `=` a connection, all else a folder.
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
    let server = holdup_workloads::postgres::External::connect(host, named)?;
    Ok((None, Some(Box::new(server))))
}
