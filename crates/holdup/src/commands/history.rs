//! `holdup history`: the series of a plan out of a store, where they changed, and what is open.

use super::store::{FilterArgs, StoreArg};
use crate::output;
use holdup_history::Split;
use holdup_model::Problem;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Show when the results of a plan changed, over all kept runs
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
A series is a metric of an arm on a host, run by run. Where one changed, the
facts about the host that changed with it are named.

Examples:
  holdup history demo --store results
  holdup history plans/demo.toml --since 90d --html demo.html
  holdup history demo --metric latency_p99_us --by kernel

Exit codes:
  0  no regression is open
  1  a regression is open
  2  wrong command line
  3  nothing could be looked at")]
pub(crate) struct Args {
    /// The plan: its file, or its name
    #[arg(value_name = "PLAN", required_unless_present = "plan")]
    named: Option<String>,
    #[command(flatten)]
    store: StoreArg,
    #[command(flatten)]
    filter: FilterArgs,
    /// Look at this metric [default: the primary one]
    #[arg(long, value_name = "ID")]
    metric: Option<String>,
    /// Begin a new series with each new kernel or server
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = ["kernel", "server"])]
    by: Vec<String>,
    /// Write one page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print everything instead of one screen
    #[arg(long)]
    details: bool,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let plan = args.named.as_deref().map(plan_name).transpose()?;
    let mut store = args.store.open()?;
    let filter = args.filter.filter(plan);
    let kept = store.series(&filter, args.metric.as_deref())?;
    super::store::say_left_out(&*store);
    if kept.values.is_empty() {
        let name = filter.plan.as_deref().unwrap_or_default();
        let what = format!("the history of {name}");
        return Err(match kept.runs.len() {
            0 => Problem::host(what, "the store has no such run").hint("holdup store list shows the plans"),
            n => Problem::host(what, format!("none of {n} runs has a value of the metric"))
                .hint("holdup list metrics FILE.holdup shows the metrics"),
        }
        .into());
    }
    let split =
        Split { kernel: args.by.iter().any(|by| by == "kernel"), server: args.by.iter().any(|by| by == "server") };
    let history = holdup_history::history(&kept, split);
    let near = holdup_history::runs_near_changes(&history);
    let ids: Vec<String> = near.iter().map(|run| history.runs[*run].run_id.clone()).collect();
    let mut facts = store.facts(&ids)?;
    let facts: BTreeMap<usize, _> =
        near.iter().filter_map(|run| Some((*run, facts.remove(&history.runs[*run].run_id)?))).collect();
    let history = holdup_history::named(history, &facts);
    if let Some(path) = &args.html {
        holdup_files::write_output(path, holdup_report::kept_history_html(&history).as_bytes())
            .map_err(|e| Problem::usage(format!("cannot write {}", path.display()), e.to_string()))?;
    }
    output::data(&match args.json {
        true => holdup_report::kept_history_json(&history),
        false => holdup_report::kept_history(&history, &output::terminal(args.details)),
    })?;
    Ok(if history.series.iter().any(|s| s.open.is_some()) {
        1
    } else if history.series.iter().all(|s| s.absent.is_some()) {
        3
    } else {
        0
    })
}

/// The name of a plan that is named, or of the plan in a file.
fn plan_name(named: &str) -> Result<String, Problem> {
    if !named.ends_with(".toml") {
        return Ok(named.to_owned());
    }
    let host = holdup_host::Host::real();
    let world = crate::world::World::here(&host);
    let path = std::path::Path::new(named);
    let planned = (Some(path), None::<&crate::design::Chosen<false>>);
    crate::design::plan_of(planned, &[], &holdup_plan::Overrides::default(), &world).map(|(plan, _)| plan.name)
}
