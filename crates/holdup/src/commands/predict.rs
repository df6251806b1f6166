//! `holdup predict`: a plan on a machine that is not there, with what is not known of it.

use super::run;
use crate::progress::Progress;
use crate::world::World;
use crate::{output, signals};
use clap::ArgMatches;
use holdup_host::Host;
use holdup_report::TerminalOptions;
use holdup_target::PredictRequest;

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let host = Host::real();
    let world = World::here(&host);
    let machine = matches.get_one::<String>("machine").map(|name| format!("sim:{name}"));
    let (plan, _) = run::plan_for(matches, &world, Some(machine.unwrap_or_else(|| "sim".to_owned())))?;
    let (plan, notes) = run::target(&plan)?.settle(&host, plan);
    let quiet = matches.get_flag("quiet");
    if !quiet {
        notes.iter().for_each(|note| output::say(note));
    }
    let schedule = holdup_plan::schedule(&plan)?;
    let request = PredictRequest {
        host: &host,
        plan: &plan,
        schedule: &schedule,
        draws: matches.get_one("draws").copied().unwrap_or(20),
        cancel: signals::cancel_on_signals()?,
    };
    let prediction = holdup_target::predict(&request, &mut Progress::new(quiet))?;
    let options = TerminalOptions { width: output::width(), color: output::wants_color() };
    output::data(&match matches.get_flag("json") {
        true => holdup_report::predict_json(&prediction),
        false => holdup_report::predict_terminal(&prediction, &options),
    })?;
    Ok(0)
}
