//! `holdup export`: a bundle or a profile in the formats of other tools.

mod parts;

use crate::cli::MemoryLimit;
use crate::output;
use holdup_bundle::{Reader, Rows};
use holdup_host::Host;
use holdup_model::{BundleData, Problem};
use holdup_report::Choice;
use std::path::PathBuf;

/// Convert a bundle, or a profile, for other tools
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_long_help = "\
Examples:
  holdup export a.holdup -f csv
  holdup export a.holdup -f parquet --table comparisons -o comparisons.parquet
  holdup export a.holdup -f svg --chart all -o charts
  holdup export held-up.holdup -f folded | inferno-flamegraph >stacks.svg
  holdup export profile profiles/database.toml -f tuned -o tuned.conf"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    profile: Option<Sub>,
    /// The bundle
    #[arg(value_name = "FILE.holdup", required = true)]
    bundle: Option<PathBuf>,
    /// The format
    #[arg(short, long, value_enum, default_value = "json")]
    format: Format,
    /// For stacks and timelines: only this arm
    #[arg(long)]
    arm: Option<String>,
    /// For stacks and timelines: only this trial
    #[arg(long, value_name = "N")]
    trial: Option<u32>,
    /// For stacks: on_cpu, off_cpu or waker
    #[arg(long = "profile", value_name = "NAME")]
    profile_name: Option<String>,
    /// For Arrow and Parquet: the table, or all into a folder
    #[arg(long, value_name = "KIND")]
    table: Option<String>,
    /// For SVG: the chart, or all into a folder [default: the first]
    #[arg(long, value_name = "ID")]
    chart: Option<String>,
    #[command(flatten)]
    memory: MemoryLimit,
    #[command(flatten)]
    out: Out,
}

#[derive(Debug, clap::Args)]
struct Out {
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, clap::Subcommand)]
enum Sub {
    /// Convert a profile for tuned, sysctl.d, systemd or postgresql.conf
    #[command(after_long_help = "\
A comment in the file names each setting that the format cannot express.")]
    Profile {
        /// The profile: name, summary and [knobs]
        #[arg(value_name = "PROFILE.toml")]
        profile: PathBuf,
        /// tuned.conf, a file for sysctl.d, a oneshot unit of systemd, or settings of
        /// PostgreSQL
        #[arg(short, long, value_parser = clap::builder::PossibleValuesParser::new(holdup_report::profile::FORMATS))]
        format: String,
        #[command(flatten)]
        out: Out,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// Everything but the histograms
    Json,
    /// A row for each trial and metric
    Csv,
    /// A table of trials, evidence, comparisons, …
    Parquet,
    /// The same as an IPC file
    Arrow,
    /// A chart of the page
    Svg,
    /// Go's benchmark format
    Benchstat,
    /// The plan as it ran
    Plan,
    /// A JSON document on a line for each TCP connection
    Flows,
    /// A timeline for ui.perfetto.dev
    Perfetto,
    /// Call stacks, one on a line
    Folded,
    /// Call stacks for speedscope.app
    Speedscope,
    /// Call stacks for go tool pprof
    Pprof,
}

pub(super) fn run(args: &Args) -> anyhow::Result<u8> {
    let path = match (&args.profile, &args.bundle) {
        (Some(Sub::Profile { profile, format, out }), _) => {
            let profile = super::apply::read(&Host::real(), profile)?;
            let places = holdup_target::profiles::destinations(&profile)?;
            let text = holdup_report::profile::export(format, &profile, &places)
                .ok_or_else(|| anyhow::anyhow!("clap let the format {format} through"))?;
            return write(out, &text);
        }
        (None, Some(path)) => path,
        (None, None) => anyhow::bail!("clap let a missing bundle through"),
    };
    check_parts(args)?;
    let out = args.out.out.as_deref();
    if let Format::Arrow | Format::Parquet = args.format {
        let wanted = args.table.as_deref().unwrap_or("trials");
        parts::tables(Rows::open(path, &args.memory.budget())?, wanted, args.format, out)?;
        return Ok(0);
    }
    let bundle = holdup_bundle::read_without_events(path, &args.memory.budget())?;
    if args.format == Format::Svg {
        parts::charts(&bundle, args.chart.as_deref(), out)?;
        return Ok(0);
    }
    let choice = Choice { arm: args.arm.clone(), trial: args.trial, profile: args.profile_name.clone() };
    if args.format == Format::Pprof {
        let profile = holdup_report::stack_profile(&bundle, &choice)?;
        parts::write(&holdup_export::pprof(&profile), "pprof", "stacks.pb.gz", out)?;
        return Ok(0);
    }
    let text = match args.format {
        Format::Perfetto => perfetto(&bundle, &choice, &Reader::open(path, &args.memory.budget())?)?,
        Format::Folded => holdup_report::stacks::folded(&holdup_report::stack_profile(&bundle, &choice)?),
        Format::Speedscope => holdup_report::stacks::speedscope(&holdup_report::stack_profile(&bundle, &choice)?),
        Format::Csv => holdup_report::csv(&bundle, &holdup_analysis::analyse(&bundle)),
        Format::Benchstat => holdup_report::benchstat(&bundle, &holdup_analysis::analyse(&bundle)),
        Format::Plan => bundle.plan_source.clone(),
        Format::Flows => holdup_report::flows(&bundle)?,
        Format::Json => holdup_report::json(&bundle, &holdup_analysis::analyse(&bundle)),
        Format::Arrow | Format::Parquet | Format::Pprof | Format::Svg => anyhow::bail!("written already"),
    };
    write(&args.out, &text)
}

/// That no option selects a part which the format does not have.
fn check_parts(args: &Args) -> Result<(), Problem> {
    let has_stacks = matches!(args.format, Format::Perfetto | Format::Folded | Format::Speedscope | Format::Pprof);
    if !has_stacks && (args.arm.is_some() || args.trial.is_some() || args.profile_name.is_some()) {
        let problem = Problem::usage("--arm, --trial and --profile", "this format holds the whole bundle");
        return Err(problem.hint("leave them out, or use perfetto, folded, speedscope or pprof"));
    }
    if args.table.is_some() && !matches!(args.format, Format::Arrow | Format::Parquet) {
        return Err(Problem::usage("--table", "this format has no tables").hint("use it with parquet or arrow"));
    }
    if args.chart.is_some() && args.format != Format::Svg {
        return Err(Problem::usage("--chart", "this format has no charts").hint("use it with svg"));
    }
    Ok(())
}

fn perfetto(bundle: &BundleData, choice: &Choice, reader: &Reader) -> Result<String, Problem> {
    if choice.profile.is_some() {
        return Err(Problem::usage("--profile", "it selects stacks, and perfetto shows a timeline"));
    }
    let (trial, counted) = holdup_report::timeline(bundle, choice)?;
    let whole = reader.trial(trial.seq)?;
    let timeline = whole.evidence.iter().find_map(|collected| collected.timeline.as_ref()).unwrap_or(counted);
    let arm = bundle.schedule.arms.iter().find(|a| a.id == trial.arm).map_or("", |a| a.label.as_str());
    Ok(holdup_report::perfetto(timeline, &format!("trial {}, {arm}", trial.seq)))
}

fn write(out: &Out, text: &str) -> anyhow::Result<u8> {
    match &out.out {
        Some(out) => super::report::write_file(out, text)?,
        None => output::exact(text)?,
    }
    Ok(0)
}
