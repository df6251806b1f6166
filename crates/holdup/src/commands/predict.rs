//! `holdup predict`: simulates a plan on machines drawn from the ranges of a machine file.

mod slurm;

pub(super) use slurm::part;

use crate::cluster::ClusterArgs;
use crate::design::{Design, Planned};
use crate::progress::Progress;
use crate::world::World;
use crate::{output, signals};
use holdup_host::Host;
use holdup_model::prediction::{Prediction, Wanted};
use holdup_plan::Overrides;
use holdup_target::PredictRequest;

/// Simulate a plan on another machine, with its uncertainty
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Simulates every arm on machines drawn from the ranges of the machine file's
parameters, and on the machine with each parameter at both ends of its range:
these give the intervals and the parameters that they depend on. Short windows
are enough: --duration 200ms.")]
pub(crate) struct Args {
    #[command(flatten)]
    planned: Planned<true>,
    /// Simulate this machine [default: the plan's, or this host]
    ///
    /// A machine of `holdup list machines`, or a machine file: FILE.toml, or a path. The default is the plan's machine, else
    /// this host as `holdup calibrate` measured it.
    #[arg(long, value_name = "NAME|FILE", global = true)]
    machine: Option<String>,
    /// Draw N machines
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=10_000), global = true)]
    draws: u32,
    /// Find machines on which LEVEL has this effect or more
    #[arg(long, value_name = "F=LEVEL:RATIO", value_parser = wanted, global = true)]
    reach: Vec<Wanted>,
    /// For --reach: vary each cost by up to N times
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(2..=1000), global = true)]
    widen: u32,
    /// Print no progress and no notes
    #[arg(short, long, global = true, hide_short_help = true)]
    quiet: bool,
    /// Print everything instead of one screen
    #[arg(long, global = true)]
    details: bool,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    design: Design,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    if let Some(code) = slurm::without_plan(args)? {
        return Ok(code);
    }
    let host = Host::real();
    let world = World::here(&host);
    let mut cluster = args.cluster.chosen()?;
    let plan_on = |target: Option<String>| {
        let changes = Overrides { target, ..Overrides::default() };
        args.planned.plan(&args.design, changes, &world)
    };
    let machine = args.machine.as_ref().map(|name| format!("sim:{name}"));
    // A plan may name its machine; one with another target is predicted for this host.
    let own = || plan_on(None).ok().map(|(plan, _)| plan.target).filter(|target| target.starts_with("sim:"));
    let (plan, source) = plan_on(Some(machine.or_else(own).unwrap_or_else(|| "sim".to_owned())))?;
    let (plan, notes) = super::run::target(&plan)?.drop_unavailable_factors(&host, plan);
    if !args.quiet {
        notes.iter().for_each(|note| output::say(note));
    }
    let schedule = holdup_plan::schedule(&plan)?;
    let request = PredictRequest {
        host: &host,
        plan: &plan,
        schedule: &schedule,
        draws: args.draws,
        reach: args.reach.iter().map(|wanted| Wanted { widen: f64::from(args.widen), ..wanted.clone() }).collect(),
        cancel: signals::cancel_on_signals()?,
    };
    if let Some(cluster) = &mut cluster {
        return slurm::predict(args, cluster, &request, (&source, world.machine));
    }
    show(args, &holdup_target::predict(&request, &mut Progress::new(args.quiet))?)
}

fn show(args: &Args, prediction: &Prediction) -> anyhow::Result<u8> {
    output::data(&match args.json {
        true => holdup_report::predict_json(prediction),
        false => holdup_report::predict_terminal(prediction, &output::terminal(args.details)),
    })?;
    Ok(0)
}

/// `preempt=lazy:0.51`
fn wanted(text: &str) -> Result<Wanted, String> {
    let wrong = |why: &str| format!("{why}\nhint: write it as in --reach preempt=lazy:0.51");
    let (what, ratio) = text.rsplit_once(':').ok_or_else(|| wrong("it has no ratio"))?;
    let (factor, level) = what.split_once('=').ok_or_else(|| wrong("it has no level"))?;
    let ratio: f64 = ratio.parse().map_err(|_| wrong("the ratio is no number"))?;
    match ratio.is_finite() && ratio > 0.0 && (ratio - 1.0).abs() > f64::EPSILON {
        true => Ok(Wanted { factor: factor.to_owned(), level: level.to_owned(), ratio, widen: 0.0 }),
        false => Err(wrong("the ratio is not above 0, or it is 1")),
    }
}
