//! `holdup hosts`: what holdup leaves on other hosts.

use crate::cli::OverSsh;
use crate::{output, signals};
use holdup_host::Host;
use holdup_ssh::{Address, Remote, Ssh};

/// Remove holdup from hosts that it ran on over ssh
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Runs on other hosts leave a copy of holdup in ~/.cache/holdup/bin there.

Exit codes:
  0  removed, or nothing to do
  2  wrong command line
  3  a host could not be reached")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Remove the copies of holdup from hosts
    Clean {
        /// These hosts [default: all that have one]
        #[arg(value_name = "HOST")]
        hosts: Vec<String>,
        #[command(flatten)]
        ssh: OverSsh,
    },
    /// Print the hosts that have a copy
    List,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let host = Host::real();
    match &args.what {
        What::List => {
            let all: Vec<String> = holdup_ssh::known(&host).iter().map(ToString::to_string).collect();
            output::data(&if all.is_empty() { "no host has a copy of holdup".to_owned() } else { all.join("\n") })?;
            Ok(0)
        }
        What::Clean { hosts, ssh } => clean(&host, hosts, ssh),
    }
}

fn clean(host: &Host, named: &[String], over: &OverSsh) -> anyhow::Result<u8> {
    let addresses = match named {
        [] => holdup_ssh::known(host).into_iter().collect(),
        named => named.iter().map(|name| Address::parse(name)).collect::<Result<Vec<_>, _>>()?,
    };
    if addresses.is_empty() {
        output::data("no host has a copy of holdup")?;
        return Ok(0);
    }
    let (ssh, options) = (Ssh::from_environment(), over.options());
    let cancel = signals::cancel_on_signals()?;
    let mut worst = 0;
    for address in &addresses {
        let remote = Remote { host, address, ssh: &ssh, options: &options };
        match remote.clean(&|| cancel.is_cancelled()) {
            Ok(count) => {
                holdup_ssh::forget(host, std::slice::from_ref(address))?;
                let copies = if count == 1 { "copy" } else { "copies" };
                output::data(&format!("{address}: {count} {copies} removed"))?;
            }
            Err(problem) => {
                output::problem(&problem);
                worst = worst.max(problem.kind.exit_code());
            }
        }
    }
    Ok(worst)
}
