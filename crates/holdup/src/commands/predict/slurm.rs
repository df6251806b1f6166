//! `holdup predict --on slurm`: the trials of a prediction in parts on a cluster, and its answer from their values.

use super::{Args, show};
use crate::cluster::{
    Cluster, ClusterArgs, Earlier, LOOK, Work, again, attempt, continued, plan_of_node, removed, threads_of_task,
};
use crate::progress::Progress;
use crate::{output, signals};
use holdup_host::Host;
use holdup_model::prediction::Wanted;
use holdup_model::{Event, Machine, Plan, Problem, Schedule};
use holdup_slurm::{Collected, Follow, Job, Kind, Options, Piece, RunFolder, Slurm, Span};
use holdup_target::{PredictRequest, Sweep};
use std::path::{Path, PathBuf};

/// The most bytes of the values of a part: some more than it takes to have 10,000 draws in one.
const MOST_BYTES: u64 = 256 << 20;

/// What needs no plan on the command line: a prediction that is continued.
pub(super) fn without_plan(args: &Args) -> anyhow::Result<Option<u8>> {
    match args.cluster.earlier(args.planned.is_given())? {
        None => Ok(None),
        Some(Earlier::Cancelled) => Ok(Some(0)),
        Some(Earlier::Part(number, _)) => {
            Err(Problem::usage(format!("--part {number}"), "it is for `holdup run`, of every kind of part").into())
        }
        Some(Earlier::Run(folder, job)) => {
            let Kind::Predict { draws, reach } = &job.kind else {
                return Err(Problem::usage("--continue", "it is a run").hint(again(&folder, &job)).into());
            };
            let (host, schedule) = (Host::real(), holdup_plan::schedule(&job.plan)?);
            let request = request(&host, (&job.plan, &schedule), (*draws, reach))?;
            follow(args, folder, &job, &request).map(Some)
        }
    }
}

fn request<'a>(
    host: &'a Host,
    (plan, schedule): (&'a Plan, &'a Schedule),
    (draws, reach): (u32, &[Wanted]),
) -> Result<PredictRequest<'a>, Problem> {
    Ok(PredictRequest { host, plan, schedule, draws, reach: reach.to_vec(), cancel: signals::cancel_on_signals()? })
}

/// Cuts the trials of a prediction, submits the parts and follows them.
pub(super) fn predict(
    args: &Args,
    cluster: &mut Cluster,
    request: &PredictRequest<'_>,
    (source, machine): (&str, Machine),
) -> anyhow::Result<u8> {
    cluster.narrow(request.plan)?;
    let described = holdup_target::described_of(request)?;
    let sweep = Sweep::new(request, &described)?;
    let trials = u32::try_from(sweep.trials())
        .map_err(|_| Problem::usage("--draws", "these are more than 4,294,967,295 trials").hint("fewer draws"))?;
    let cost = sweep.trial_cost(LOOK)?;
    let parts = holdup_slurm::even(trials, cluster.parts(&args.cluster, request.host, (cost, trials)));
    let named = ClusterArgs::name_run();
    let sbatch = cluster.sbatch(&args.cluster, &format!("holdup-{}", named.0))?;
    let work = Work {
        kind: Kind::Predict { draws: request.draws, reach: request.reach.clone() },
        plan: request.plan,
        source,
        notes: Vec::new(),
        machine,
        is_simulated: true,
        out: PathBuf::new(),
        options: Options::default(),
        parts,
    };
    let beside = Path::new(&request.plan.name).with_extension("prediction");
    let (folder, job) = args.cluster.begin(work, named, (sbatch, request.host, &beside))?;
    if !args.quiet {
        output::say(&format!("{trials} trials in {} parts; folder {}", job.parts.len(), folder.path().display()));
    }
    follow(args, folder, &job, request)
}

/// Follows a prediction to its end, prints it as one of this host, and removes its folder.
fn follow(args: &Args, folder: RunFolder, job: &Job, request: &PredictRequest<'_>) -> anyhow::Result<u8> {
    let held = folder.hold()?;
    let values = gather(args, &folder, job, request).map_err(|problem| continued(problem, &folder, job))?;
    let described = holdup_target::described_of(request)?;
    let prediction = Sweep::new(request, &described)?.judge(&values)?;
    drop(held);
    removed(folder);
    show(args, &prediction)
}

/// The values of all parts, in their order.
fn gather(args: &Args, folder: &RunFolder, job: &Job, request: &PredictRequest<'_>) -> Result<Vec<f64>, Problem> {
    let is_cancelled = || request.cancel.is_cancelled();
    let following = Follow { slurm: Slurm, folder, job, is_cancelled: &is_cancelled };
    let progress = &mut Progress::new(args.quiet);
    let mut all = Vec::new();
    holdup_slurm::follow(&following, progress, &mut |number, piece| {
        let path = match piece {
            Piece::Whole(path) => path,
            // A prediction of a part of its machines would be another one.
            Piece::Missing(problem) => return Err(problem.clone()),
        };
        let Some(span) = job.parts.get(number as usize) else { return Ok(Collected::Whole) };
        match values(path, span) {
            Ok(values) => {
                all.truncate(span.first as usize);
                all.extend(values);
                Ok(Collected::Whole)
            }
            Err(problem) => Ok(Collected::Damaged(problem)),
        }
    })?;
    holdup_model::Observer::event(progress, Event::End);
    Ok(all)
}

/// The values in the file of a part: one a line, as the hexadecimal number of its bits, so that all of them come back.
fn values(path: &Path, span: &Span) -> Result<Vec<f64>, Problem> {
    let damaged = |why: String| Problem::host(format!("part {}", path.display()), why);
    let bytes = holdup_files::read_input(path, MOST_BYTES).map_err(|e| damaged(e.to_string()))?;
    let value = |line: &str| u64::from_str_radix(line, 16).ok().map(f64::from_bits);
    let values: Option<Vec<f64>> = std::str::from_utf8(&bytes).ok().and_then(|text| text.lines().map(value).collect());
    values.filter(|values| values.len() == span.len() as usize).ok_or_else(|| damaged("it is damaged".to_owned()))
}

/// Computes a part of a prediction.
pub(in crate::commands) fn part(
    (number, span): (u32, Span),
    folder: &RunFolder,
    job: &Job,
    of: (u32, &[Wanted]),
) -> Result<u8, Problem> {
    let (host, plan) = (Host::real(), plan_of_node(folder, job));
    let schedule = holdup_plan::schedule(&plan)?;
    let request = request(&host, (&plan, &schedule), of)?;
    let described = holdup_target::described_of(&request)?;
    let range = span.first as usize..span.end as usize;
    let values =
        Sweep::new(&request, &described)?.simulate(range, Some(threads_of_task()), &mut Progress::new(true))?;
    let lines: String = values.iter().map(|value| format!("{:x}\n", value.to_bits())).collect();
    let partial = folder.partial(number, &attempt());
    holdup_files::write_output(&partial, lines.as_bytes())
        .map_err(|e| Problem::host(format!("part {number}"), format!("cannot be written ({e})")))?;
    folder.keep(number, &partial)?;
    Ok(0)
}
