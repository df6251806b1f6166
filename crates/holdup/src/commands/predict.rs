//! `holdup predict`: a plan on a machine that is not there, with what is not known of it.

use super::run;
use crate::progress::Progress;
use crate::world::World;
use crate::{output, signals};
use clap::ArgMatches;
use holdup_host::Host;
use holdup_model::Problem;
use holdup_report::TerminalOptions;
use holdup_target::{PredictRequest, Wanted};

pub(super) fn run(matches: &ArgMatches) -> anyhow::Result<u8> {
    let host = Host::real();
    let world = World::here(&host);
    let machine = matches.get_one::<String>("machine").map(|name| format!("sim:{name}"));
    // A plan may name its machine; one with another target is predicted for this host.
    let own = || run::plan_for(matches, &world, None).ok().map(|(plan, _)| plan.target);
    let machine = machine.or_else(|| own().filter(|target| target.starts_with("sim:")));
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
        reach: reach(matches)?,
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

/// The ratios after `--reach`.
fn reach(matches: &ArgMatches) -> Result<Vec<Wanted>, Problem> {
    let widen = f64::from(matches.get_one::<u32>("widen").copied().unwrap_or(4));
    let given = matches.get_many::<String>("reach").into_iter().flatten();
    given.map(|text| wanted(text, widen)).collect()
}

fn wanted(text: &str, widen: f64) -> Result<Wanted, Problem> {
    let wrong =
        |why: &str| Problem::usage(format!("--reach {text}"), why).hint("write it as in --reach preempt=lazy:0.51");
    let (what, ratio) = text.rsplit_once(':').ok_or_else(|| wrong("there is no ratio in it"))?;
    let (factor, level) = what.split_once('=').ok_or_else(|| wrong("there is no level in it"))?;
    let ratio: f64 = ratio.parse().map_err(|_| wrong("the ratio is no number"))?;
    match ratio.is_finite() && ratio > 0.0 && (ratio - 1.0).abs() > f64::EPSILON {
        true => Ok(Wanted { factor: factor.to_owned(), level: level.to_owned(), ratio, widen }),
        false => Err(wrong("the ratio is not above 0, or it is 1")),
    }
}
