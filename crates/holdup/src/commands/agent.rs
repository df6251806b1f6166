//! `holdup agent`: the server side of a connection to another holdup.

use crate::cli::duration;
use crate::{output, signals};
use holdup_guest::init::{self, Role};
use holdup_host::Host;
use holdup_model::Problem;
use holdup_target::agent::{AgentRequest, Hosted, serve, serve_peer};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Serve another holdup on the standard streams
///
/// In a guest or on another host it takes orders in framed messages, answers them, and ends when its input does. Not for
/// interactive use.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// End, and restore the host, when the other side is silent for this long
    #[arg(long, value_parser = duration)]
    dead_after: Option<Duration>,
    /// How long to wait for another run on this host
    #[arg(long, default_value = "0s", value_parser = duration)]
    wait: Duration,
    /// Where large temporary files go [default: the folder of temporary files]
    #[arg(long, value_name = "DIR")]
    workdir: Option<PathBuf>,
}

/// Serves the standard streams until they end.
pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let duplicate = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let input = duplicate(stdin.as_fd()).map_err(|e| Problem::host("standard input", e.to_string()))?;
    let line = duplicate(stdout.as_fd()).map_err(|e| Problem::host("standard output", e.to_string()))?;
    let host = Host::real();
    let request = AgentRequest {
        host: &host,
        workdir: args.workdir.clone().unwrap_or_else(std::env::temp_dir),
        notes: Vec::new(),
        hosted: None,
    };
    let Some(dead_after) = args.dead_after else {
        serve(&request, input, line)?;
        return Ok(0);
    };
    let hosted = Hosted::new(dead_after, args.wait, signals::cancel_on_signals()?);
    let (input, line) = hosted.line(input, line).map_err(|e| Problem::host("standard output", e.to_string()))?;
    serve(&AgentRequest { hosted: Some(hosted), ..request }, input, line)?;
    Ok(0)
}

/// The life of a guest: set up, serve, switch off.
pub(crate) fn as_first_process() -> ExitCode {
    let failed = init::run(in_guest);
    output::error(&format!("the agent cannot be started: {failed}"));
    ExitCode::from(70)
}

fn in_guest() -> i32 {
    let notes = init::set_up();
    let failed = |why: String| Problem::host("the agent", why);
    let served =
        init::role().and_then(|role| Ok((role, init::open_line()?))).map_err(failed).and_then(|(role, line)| {
            let input = line.try_clone().map_err(|e| Problem::host("the agent's line", e.to_string()))?;
            let host = Host::real();
            let request = AgentRequest { host: &host, workdir: PathBuf::from("/tmp"), notes, hosted: None };
            match role {
                Role::Agent => serve(&request, input, line),
                Role::Peer(address) => serve_peer(&request, address.into(), input, line),
            }
        });
    match served {
        Ok(()) => 0,
        Err(problem) => {
            output::error(&problem.to_string());
            i32::from(problem.kind.exit_code())
        }
    }
}
