//! The plan that a command line describes: a file or one workload of the catalogue, with what the options change in it.

use crate::world::{World, read_plan};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use holdup_model::plan::CollectOptions;
use holdup_model::{Parameter, ParameterKind, Plan, Problem};
use holdup_plan::Overrides;
use std::path::{Path, PathBuf};

type KeyValue = (String, String);

// What is planned.
#[derive(Debug, Args)]
pub(crate) struct Planned<const SIMULATED: bool> {
    /// The plan
    #[arg(value_name = "PLAN.toml", hide_short_help = true)]
    file: Option<PathBuf>,
    #[command(subcommand)]
    workload: Option<Chosen<SIMULATED>>,
}

impl<const SIMULATED: bool> Planned<SIMULATED> {
    /// True if the command line plans anything.
    pub(crate) fn is_given(&self) -> bool {
        self.file.is_some() || self.workload.is_some()
    }

    /// The checked plan, and its TOML.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub(crate) fn plan(&self, design: &Design, changes: Overrides, world: &World) -> Result<(Plan, String), Problem> {
        plan_of((self.file.as_deref(), self.workload.as_ref()), &design.metric, &design.overrides(changes), world)
    }
}

/// The workload that replays a trace.
pub(crate) const REPLAY: &str = holdup_catalogue::replay::DECLARED.id;

impl Planned<false> {
    /// The checked plan that replays a trace, and its TOML.
    ///
    /// # Errors
    /// When the command line names a plan or a workload beside it, and everything that is wrong with the plan.
    pub(crate) fn replay(
        &self,
        trace: &Path,
        design: &Design,
        changes: Overrides,
        world: &World,
    ) -> Result<(Plan, String), Problem> {
        if self.is_given() {
            let why = "a run takes a plan, a workload or a trace, not two of them";
            return Err(Problem::usage(format!("--replay {}", trace.display()), why)
                .hint("in a plan: kind = \"replay\" and trace = \"FILE\""));
        }
        // A comma would separate two traces.
        let trace = trace.display().to_string().replace(',', "\\,");
        let options = vec![("trace".to_owned(), trace)];
        let chosen = Chosen::<false> { id: REPLAY.to_owned(), options, commands: Vec::new() };
        plan_of((None, Some(&chosen)), &design.metric, &design.overrides(changes), world)
    }
}

/// The checked plan of a file or a workload, and its TOML.
///
/// # Errors
/// Everything that is wrong with it.
pub(crate) fn plan_of<const SIMULATED: bool>(
    planned: (Option<&Path>, Option<&Chosen<SIMULATED>>),
    metrics: &[String],
    overrides: &Overrides,
    world: &World,
) -> Result<(Plan, String), Problem> {
    match planned {
        (Some(file), Some(chosen)) => {
            let what = format!("{} and {}", file.display(), chosen.id);
            Err(Problem::usage(what, "a run takes a plan or a workload, not both"))
        }
        (None, Some(chosen)) => Ok(world.with(overrides, |inputs| {
            holdup_plan::from_command_line(&chosen.id, &chosen.options, &chosen.commands, metrics, inputs)
        })?),
        (Some(file), None) => {
            let text = read_plan(file)?;
            let name = file.display().to_string();
            let plan = world.with(overrides, |inputs| holdup_plan::check(&name, &text, inputs))?;
            Ok((plan, text))
        }
        (None, None) => Err(Problem::usage("nothing to run", "give a plan or a workload")
            .hint("for example plans/demo.toml; `holdup run -h` lists the workloads")),
    }
}

/// A workload of the catalogue and its options: subcommands that no struct can declare. With `SIMULATED` only those that
/// the simulator has.
#[derive(Debug)]
pub(crate) struct Chosen<const SIMULATED: bool> {
    id: String,
    /// As (parameter, value).
    options: Vec<KeyValue>,
    /// Programs with their arguments.
    commands: Vec<Vec<String>>,
}

const LINES: &str = "command-lines";
const PROGRAM: &str = "program";

impl<const SIMULATED: bool> FromArgMatches for Chosen<SIMULATED> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let unknown = || clap::Error::raw(ErrorKind::InvalidSubcommand, "there is no such workload\n");
        let (id, given) = matches.subcommand().ok_or_else(unknown)?;
        let workload = holdup_workloads::find(id).ok_or_else(unknown)?;
        let parameters = workload.parameters().iter();
        let (programs, options): (Vec<_>, Vec<_>) = parameters.partition(|p| p.kind == ParameterKind::CommandLine);
        let given_value = |p: &Parameter| given.get_one::<String>(p.name).map(|v| (p.name.to_owned(), v.clone()));
        let options = options.into_iter().filter_map(given_value).collect();
        let mut commands: Vec<Vec<String>> = Vec::new();
        if !programs.is_empty() {
            let words = |id| given.get_many::<String>(id).into_iter().flatten();
            commands.extend(words(LINES).map(|line| holdup_plan::shell_words(line)));
            commands.extend(Some(words(PROGRAM).cloned().collect()).filter(|program: &Vec<_>| !program.is_empty()));
        }
        Ok(Chosen { id: id.to_owned(), options, commands })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<const SIMULATED: bool> Subcommand for Chosen<SIMULATED> {
    fn augment_subcommands(command: Command) -> Command {
        let command = command.subcommand_value_name("WORKLOAD").subcommand_help_heading("Workloads");
        let all = holdup_workloads::workloads::ALL.iter().filter(|w| Self::has_subcommand(w.meta().id));
        all.fold(command, |command, workload| {
            let meta = workload.meta();
            let parameters = workload.parameters().iter();
            let (programs, options): (Vec<_>, Vec<_>) = parameters.partition(|p| p.kind == ParameterKind::CommandLine);
            let program = programs.first().map(|_| {
                let lines = "Command lines; several are compared with the first";
                let program = "One program and its arguments, without a shell";
                [
                    Arg::new(LINES).value_name("COMMAND").num_args(1..).conflicts_with(PROGRAM).help(lines),
                    Arg::new(PROGRAM).value_name("PROGRAM").num_args(1..).last(true).help(program),
                ]
            });
            let arguments = options.into_iter().map(parameter_option).chain(program.into_iter().flatten());
            let command_of = Command::new(meta.id).about(meta.summary);
            command.subcommand(command_of.after_long_help(meta.docs).args(arguments))
        })
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        holdup_workloads::find(name).is_some() && (!SIMULATED || holdup_target::is_simulated(name))
    }
}

/// `--clients 8,64` for the parameter `clients`.
fn parameter_option(parameter: &'static Parameter) -> Arg {
    let mut help = parameter.summary.to_owned();
    if let ParameterKind::Choice(words) = parameter.kind {
        help = format!("{help}: {}", words.join(", "));
    }
    if let Some(default) = parameter.default {
        help = format!("{help} [default: {default}]");
    }
    Arg::new(parameter.name)
        .long(parameter.name.replace('_', "-"))
        .value_name("V[,V…]")
        .allow_hyphen_values(true)
        .help(help)
        // A member's options are those of its workload, and there are a hundred of them.
        .hide(parameter.name.contains('.') || parameter.summary.starts_with("for tests"))
        .help_heading("Workload options")
}

// What the command line changes in a plan.
#[derive(Debug, Args)]
#[command(next_help_heading = "Design options")]
pub(crate) struct Design {
    /// Add a factor; its first value is the baseline
    #[arg(long, value_name = "KEY=V1,V2", value_parser = key_value, global = true)]
    vary: Vec<KeyValue>,
    /// Set a parameter or design key; several values: an axis
    #[arg(long, value_name = "KEY=V,…", value_parser = key_value, global = true)]
    set: Vec<KeyValue>,
    /// Measure for this long in each trial, such as 2s
    #[arg(long, value_name = "TIME", global = true)]
    duration: Option<String>,
    /// Run the load for this long before each measurement
    #[arg(long, value_name = "TIME", global = true, hide_short_help = true)]
    warmup: Option<String>,
    /// End after this time at the latest, such as 5m
    #[arg(long, value_name = "TIME", global = true, hide_short_help = true)]
    budget: Option<String>,
    /// Run exactly N blocks in each session
    #[arg(long, value_name = "N", global = true, hide_short_help = true)]
    blocks: Option<u32>,
    /// Run at most N blocks; end once all is decided [default: 20]
    #[arg(long, value_name = "N", conflicts_with = "blocks", global = true, hide_short_help = true)]
    max_blocks: Option<u32>,
    /// Run N sessions, each with a fresh cluster or guest
    #[arg(long, value_name = "N", global = true, hide_short_help = true)]
    sessions: Option<u32>,
    /// Seed of the order of trials
    #[arg(long, value_name = "N", global = true, hide_short_help = true)]
    seed: Option<u64>,
    /// Add a metric of `command`: NAME=regex:…, NAME=json:/pointer or
    /// NAME=duration, then :higher or :lower
    #[arg(long, value_name = "DEF", global = true, hide_short_help = true)]
    pub(crate) metric: Vec<String>,
    /// Run these collectors; `none` for none
    #[arg(long, value_name = "ID,…", value_delimiter = ',', global = true)]
    collect: Option<Vec<String>>,
    #[command(flatten)]
    pub(crate) sampling: Sampling,
}

// What collectors may be set to.
#[derive(Debug, Args)]
pub(crate) struct Sampling {
    /// Treat this function as a critical section, too (repeatable)
    #[arg(long, value_name = "FUNCTION", global = true, hide_short_help = true)]
    section: Vec<String>,
    /// Sample each CPU this often [default: depends on the collector]
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(1..=i64::from(CollectOptions::MOST_HZ)),
        global = true, hide_short_help = true)]
    frequency: Option<u32>,
    /// Set no breakpoints, which stop 20 preempted lock holders a second once each; no section has a length then
    #[arg(long, global = true, hide_short_help = true)]
    no_breakpoints: bool,
}

impl Sampling {
    pub(crate) fn options(&self) -> CollectOptions {
        let (sections, without_breakpoints) = (self.section.clone(), self.no_breakpoints);
        CollectOptions { sections, frequency_hz: self.frequency, without_breakpoints, ..CollectOptions::default() }
    }

    /// These options as words for the holdup on another host.
    pub(crate) fn words(&self) -> impl Iterator<Item = String> {
        let sections = self.section.iter().map(|name| format!("--section={name}"));
        let frequency = self.frequency.map(|hz| format!("--frequency={hz}"));
        sections.chain(frequency).chain(self.no_breakpoints.then(|| "--no-breakpoints".to_owned()))
    }
}

// What is watched without an end.
#[derive(Debug, Args)]
pub(crate) struct Staying {
    /// Time every page fault, not only those in 5 % of the time; a server with many of them is slower then
    #[arg(long, hide_short_help = true)]
    all_faults: bool,
}

impl Staying {
    pub(crate) fn options(&self, sampling: &Sampling) -> CollectOptions {
        CollectOptions { samples_faults: !self.all_faults, ..sampling.options() }
    }
}

impl Design {
    /// `--budget`.
    pub(crate) fn budget(&self) -> Option<&str> {
        self.budget.as_deref()
    }

    /// `--seed`.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.seed
    }

    /// What the options change, added to `changes`, whose `set` comes after that of the options.
    pub(crate) fn overrides(&self, changes: Overrides) -> Overrides {
        Overrides {
            set: self.set.iter().cloned().chain(changes.set).collect(),
            vary: self.vary.clone(),
            blocks: self.blocks,
            max_blocks: self.max_blocks,
            sessions: self.sessions,
            seed: self.seed,
            warmup: self.warmup.clone(),
            duration: self.duration.clone(),
            budget: self.budget.clone(),
            collect: self.collect.as_deref().map(collectors),
            sections: Some(self.sampling.section.clone()).filter(|names| !names.is_empty()),
            frequency: self.sampling.frequency,
            no_breakpoints: self.sampling.no_breakpoints,
            ..changes
        }
    }
}

/// The collectors that `--collect` names.
pub(crate) fn collectors(given: &[String]) -> Vec<String> {
    let ids = given.iter().map(|id| id.trim()).filter(|id| !id.is_empty());
    let ids: Vec<String> = ids.map(str::to_owned).collect();
    if ids == ["none"] { Vec::new() } else { ids }
}

/// `KEY=VALUE`; what lacks the `=` has an empty value, which the plan's check reports.
#[expect(clippy::unnecessary_wraps, reason = "clap's parsers are fallible")]
pub(crate) fn key_value(text: &str) -> Result<KeyValue, String> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    Ok((key.to_owned(), value.to_owned()))
}
