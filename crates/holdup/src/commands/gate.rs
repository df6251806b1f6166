//! `holdup gate`: new runs against what a store knows of this host and arm.

use super::run::Place;
use crate::design::{Chosen, Design, plan_of};
use crate::progress::Progress;
use crate::world::World;
use crate::{bundles, cli, output, signals};
use holdup_host::Host;
use holdup_model::Problem;
use holdup_model::kept::{Gate, GateAnswer, KeptFilter};
use holdup_store::{Incoming, Store};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Refuse a change that makes a plan slower than what is kept
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Runs a plan, or takes bundles of it, and compares each arm with the kept runs
of the same host since their last change.

Examples:
  holdup gate plans/demo.toml --against results --push
  holdup gate new.holdup --against postgresql://db1/results --markdown gate.md

Exit codes:
  0  no regression
  1  a regression
  2  wrong command line
  3  undecided, or it cannot be said")]
pub(crate) struct Args {
    /// The plan, or bundles of one plan
    #[arg(value_name = "PLAN.toml|FILE.holdup", required = true)]
    what: Vec<PathBuf>,
    /// The store: a folder, or a connection to PostgreSQL
    #[arg(long, value_name = "DIR|URL", env = holdup_store::VARIABLE, hide_env = true)]
    against: Option<String>,
    /// The largest loss that counts as none, such as 3% [default: the plan's]
    #[arg(long, value_name = "SHARE", value_parser = share)]
    margin: Option<f64>,
    /// The host's name, where the bundles do not have it
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Keep the new runs, unless they are a regression
    #[arg(long)]
    push: bool,
    /// Write a summary for a merge request
    #[arg(long, value_name = "FILE.md")]
    markdown: Option<PathBuf>,
    /// Write a JUnit report
    #[arg(long, value_name = "FILE.xml")]
    junit: Option<PathBuf>,
    /// Write the bundle of the plan's run here [default: NAME-N.holdup]
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print everything instead of one screen
    #[arg(long)]
    details: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
    /// Print no progress of the run
    #[arg(short, long, hide_short_help = true)]
    quiet: bool,
    #[command(flatten)]
    design: Design,
    #[command(flatten)]
    place: Place,
}

fn share(text: &str) -> Result<f64, String> {
    cli::share(text, 1.0).ok_or_else(|| "not a share such as 3%".to_owned())
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    // A store that cannot be reached is known before hours of trials.
    let mut store = super::store::open(args.against.as_deref())?;
    store.list(&KeptFilter { last: Some(1), ..KeptFilter::default() })?;
    let files = match args.what.as_slice() {
        [plan] if plan.extension().is_some_and(|ending| ending == "toml") => match run_plan(args, plan)? {
            Ok(bundle) => vec![bundle],
            Err(code) => return Ok(code),
        },
        bundles => bundles.to_vec(),
    };
    let new = files.iter().map(|file| Incoming::read(file, args.host.as_deref())).collect::<Result<Vec<_>, _>>()?;
    let gate = judge(args, store.as_mut(), &new)?;
    for (path, text) in
        [(&args.markdown, holdup_report::gate_markdown(&gate)), (&args.junit, holdup_report::gate_junit(&gate))]
    {
        if let Some(path) = path {
            holdup_files::write_output(path, text.as_bytes())
                .map_err(|e| Problem::usage(format!("cannot write {}", path.display()), e.to_string()))?;
        }
    }
    output::data(&match args.json {
        true => holdup_report::gate_json(&gate),
        false => holdup_report::gate_terminal(&gate, &output::terminal(args.details)),
    })?;
    if args.push && gate.answer != GateAnswer::Regression {
        new.iter().try_for_each(|bundle| store.push(bundle).map(drop))?;
    }
    Ok(match gate.answer {
        GateAnswer::NoRegression => 0,
        GateAnswer::Regression => 1,
        GateAnswer::Undecided => 3,
    })
}

fn judge(args: &Args, store: &mut dyn Store, new: &[Incoming]) -> Result<Gate, Problem> {
    let kept: Vec<_> = new.iter().map(|bundle| bundle.kept.clone()).collect();
    let mut plans: Vec<&str> = kept.iter().map(|k| k.run.plan.as_str()).collect();
    plans.dedup();
    if plans.len() > 1 {
        return Err(Problem::usage(plans.join(", "), "a gate takes bundles of one plan"));
    }
    let filter = KeptFilter { plan: plans.first().map(|p| (*p).to_owned()), ..KeptFilter::default() };
    let known = store.series(&filter, None)?;
    super::store::say_left_out(&*store);
    Ok(holdup_history::gate(&kept, &known, args.margin))
}

/// Runs a plan; `Err` is the exit code of a run that has no result to judge.
fn run_plan(args: &Args, file: &Path) -> anyhow::Result<Result<PathBuf, u8>> {
    let host = Host::real();
    let world = World::here(&host);
    let overrides = args.design.overrides(args.place.changes());
    let planned = (Some(file), None::<&Chosen<false>>);
    let (plan, source) = plan_of(planned, &args.design.metric, &overrides, &world)?;
    let (plan, mut notes) = super::run::target(&plan)?.drop_unavailable_factors(&host, plan);
    notes.extend(holdup_plan::notes(&plan));
    let schedule = holdup_plan::schedule(&plan)?;
    let out = args.out.clone().unwrap_or_else(|| bundles::free_name(&plan.name));
    let run = super::run::Run { plan: &plan, source: &source, schedule: &schedule, notes, patience: Duration::ZERO };
    let cancel = signals::cancel_on_signals()?;
    let outcome = args.place.run(run, (&host, &world), &out, cancel, &mut Progress::new(args.quiet))?;
    Ok(match super::run::end(&out, &outcome) {
        0 => Ok(out),
        code => Err(code),
    })
}
