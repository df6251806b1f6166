//! `holdup restore`: resets what a killed run left changed and what profiles set.

use crate::cli::Wait;
use crate::output;
use holdup_host::Host;
use holdup_target::profiles;

/// Undo what a killed run left changed and what `apply` set
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Resets the values from before the first profile. Each run starts by undoing
what another run left; profiles stay.

Exit codes:
  0  restored, or nothing to do
  5  something could not be restored")]
pub(crate) struct Args {
    /// A server whose settings were changed, with its password
    #[arg(long, value_name = "URL")]
    pg: Option<String>,
    /// Drop the remaining journal entries without restoring them
    #[arg(long)]
    forget: bool,
    #[command(flatten)]
    wait: Wait,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let host = Host::real();
    if args.forget {
        for line in profiles::forget(&host, args.wait.longest())? {
            output::say(&format!("forgotten: {line}"));
        }
        return Ok(0);
    }
    let (restored, broken) = profiles::restore(&host, args.pg.as_deref(), args.wait.longest())?;
    for note in &restored.notes {
        output::say(note);
    }
    for left in &restored.left {
        output::error(&left.to_string());
    }
    if !restored.left.is_empty() {
        output::say("hint: restore by hand what you need, then run `holdup restore` again; --forget drops the rest");
    }
    let mut broken = broken.into_iter();
    match (broken.next(), broken.next()) {
        (Some(first), second) => {
            if let Some(second) = second {
                output::error(&format!("{}: {}", second.what, second.why));
            }
            return Err(first.into());
        }
        (None, _) if !restored.left.is_empty() => return Ok(5),
        (None, _) => {}
    }
    output::data(if restored.restored.is_empty() { "nothing to restore" } else { "restored" })?;
    Ok(0)
}
