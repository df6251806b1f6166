//! What is searched: the candidates, what of the plan they are values of, and the metric.

use super::Args;
use super::worker::Worker;
use crate::commands::searching::only_workload;
use crate::progress::Progress;
use holdup_analysis::rates::{self, Per, Rate};
use holdup_catalogue::pgbench::BUILD;
use holdup_kernels::{Available, Cache};
use holdup_model::guest::KERNEL;
use holdup_model::search::Candidate;
use holdup_model::{Direction, Metric, Plan, Problem, Trial};

/// Most values of a range of numbers; a longer one is thinned out by equal factors.
const MOST_VALUES: usize = 200;

/// The key of the plan that the candidates are values of.
pub(super) fn key(args: &Args, plan: &Plan) -> Result<String, Problem> {
    let search = &args.search;
    if let Some(values) = &search.values {
        return Ok(values.split('=').next().unwrap_or_default().to_owned());
    }
    if search.kernels.is_some() || search.kernel_commits {
        return Ok(KERNEL.to_owned());
    }
    if args.is_of_commits() {
        let used = only_workload(plan)?;
        return match used.kind.as_str() {
            "command" => Ok("directory".to_owned()),
            "pgbench" => Ok(BUILD.to_owned()),
            other => Err(Problem::usage(format!("--git with workload {other}"), "no commit can be measured with it")
                .hint("command measures any program, pgbench a PostgreSQL that was built")),
        };
    }
    Err(Problem::usage("nothing to search", "the candidates are missing")
        .hint("--git DIR --range GOOD..BAD, --kernels debian:A..B, or --values KEY=A..B"))
}

/// What is followed: a metric of the workload, or a rate of what a collector counts.
pub(super) struct Followed {
    pub(super) metric: Metric,
    /// The rate, and what it is a rate of.
    pub(super) rate: Option<(&'static Rate, Per)>,
}

impl Followed {
    pub(super) fn value(&self, trial: &Trial) -> Result<f64, String> {
        match &self.rate {
            Some((rate, per)) => rate.of(trial, per),
            None => trial
                .metric(&self.metric.id)
                .filter(|value| *value > 0.0 && value.is_finite())
                .ok_or_else(|| "it is absent, zero or negative here; a search compares ratios".to_owned()),
        }
    }
}

/// The id in what `--metric` says: `ID`, `ID=DEFINITION` or `ID:lower`.
fn id_of(said: &str) -> &str {
    said.split(['=', ':']).next().unwrap_or_default()
}

/// The rate that `--metric` names.
pub(super) fn rate(args: &Args) -> Option<&'static Rate> {
    args.design.metric.iter().find_map(|said| rates::find(id_of(said)))
}

/// What of `--metric` is the plan's.
pub(super) fn metrics_of_plan(args: &Args) -> Vec<String> {
    args.design.metric.iter().filter(|said| rates::find(id_of(said)).is_none()).cloned().collect()
}

/// A problem with the metrics of a plan, whose hint has the rates of collectors, too.
pub(super) fn with_rates(args: &Args, problem: Problem) -> Problem {
    let is_of_metric = args.design.metric.iter().any(|said| problem.what.contains(id_of(said)));
    match &problem.hint {
        Some(hint) if is_of_metric => {
            let rates = rates::ALL.iter().map(|rate| rate.id).collect::<Vec<_>>().join(", ");
            let hint = format!("{hint}; collectors count {rates}");
            problem.hint(hint)
        }
        _ => problem,
    }
}

/// What is followed: what `--metric` names, else the primary metric.
pub(super) fn followed(args: &Args, plan: &Plan) -> Result<Followed, Problem> {
    let used = only_workload(plan)?;
    let of = holdup_workloads::find(&used.kind)
        .ok_or_else(|| Problem::internal(format!("workload {}", used.kind), "it is not in the catalogue"))?;
    let metrics = of.metrics_of(used, &plan.metrics);
    let said = args.design.metric.first();
    if let (Some(rate), Some(said)) = (rate(args), said) {
        let per = Per::of(&used.kind, &metrics);
        let mut metric = rate.metric(&per);
        if said.ends_with(":higher") {
            metric.better = Direction::Higher;
        }
        return Ok(Followed { metric, rate: Some((rate, per)) });
    }
    let primary = plan.metrics.iter().find(|m| m.primary).map(|m| m.id.as_str());
    let id = said.map(|said| id_of(said)).or(primary).or_else(|| of.primary_metric()).unwrap_or_default();
    let mut metric = metrics.iter().find(|m| m.id == id).cloned().ok_or_else(|| {
        let known = metrics.iter().map(|m| m.id.as_str()).collect::<Vec<_>>().join(", ");
        let problem = Problem::usage(format!("metric {id}"), format!("{} does not measure it", used.kind));
        with_rates(args, problem.hint(format!("it measures {known}")))
    })?;
    if let Some(better) = plan.metric_choice(&used.name, id).and_then(|choice| choice.better) {
        metric.better = better;
    }
    Ok(Followed { metric, rate: None })
}

/// All candidates, in order.
pub(super) fn all(worker: &Worker<'_>) -> Result<Vec<Candidate>, Problem> {
    let search = &worker.args.search;
    let plain = |name: String| Candidate { name, about: String::new(), date: String::new() };
    if let Some(repository) = &worker.repository {
        let range = search.range.as_deref().ok_or_else(|| {
            Problem::usage("--git", "the range is missing").hint("--range GOOD..BAD, such as v1.0..HEAD")
        })?;
        let all = repository.range(range)?;
        repository.check_room(&all[all.len() - 1].name, 2)?;
        return Ok(all);
    }
    if let Some(range) = &search.kernels {
        return kernels(worker, range).map(|all| all.into_iter().map(plain).collect());
    }
    let values = search.values.as_deref().unwrap_or_default();
    let (_, range) = values.split_once('=').unwrap_or_default();
    let wrong = || {
        let why = "it is neither KEY=A..B with two different whole numbers nor KEY=V1,V2,…";
        Problem::usage(format!("--values {values}"), why)
            .hint("for example clients=8..1024, or postgres-server=deb:16,deb:17,deb:18; the good end comes first")
    };
    if range.contains(',') {
        let all: Vec<Candidate> = range.split(',').map(|value| plain(value.trim().to_owned())).collect();
        let is_new = |(i, value): (usize, &Candidate)| !value.name.is_empty() && !all[..i].contains(value);
        return if all.iter().enumerate().all(is_new) { Ok(all) } else { Err(wrong()) };
    }
    let (from, to) = range.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<i64>().map_err(|_| wrong());
    let (from, to) = (number(from)?, number(to)?);
    if from == to {
        return Err(wrong());
    }
    Ok(numbers(from, to).into_iter().map(|n| plain(n.to_string())).collect())
}

/// Whole numbers from one end to the other: all, or with equal factors between where there are many.
fn numbers(from: i64, to: i64) -> Vec<i64> {
    let count = usize::try_from(from.abs_diff(to)).unwrap_or(usize::MAX).saturating_add(1);
    let steps = count.min(MOST_VALUES) - 1;
    let at = |i: usize| {
        let f = i as f64 / steps as f64;
        if count <= MOST_VALUES || from.min(to) <= 0 {
            (from as f64 + f * (to - from) as f64).round() as i64
        } else {
            (from as f64 * (to as f64 / from as f64).powf(f)).round() as i64
        }
    };
    let mut all: Vec<i64> = (0..=steps).map(at).collect();
    all.dedup();
    all
}

/// Specs of the kernels of the default flavour from one version to another, oldest first.
fn kernels(worker: &Worker<'_>, range: &str) -> Result<Vec<String>, Problem> {
    let what = || format!("--kernels {range}");
    let wrong = || Problem::usage(what(), "it is not debian:A..B").hint("for example debian:6.12..7.0");
    let (from, to) = range.strip_prefix("debian:").and_then(|range| range.split_once("..")).ok_or_else(wrong)?;
    let (from, to) = (version(from), version(to));
    if from.is_empty() || to.is_empty() {
        return Err(wrong());
    }
    let cache = Cache::open(&worker.args.place.cache())?;
    let available = cache.available(&worker.options, &mut Progress::new(false))?;
    let (low, high) = if from <= to { (&from, &to) } else { (&to, &from) };
    // `7.3` takes 7.3.4 in.
    let inside = |v: &Vec<u64>| v >= low && (v <= high || v.starts_with(high));
    let mut found: Vec<(Vec<u64>, &Available)> =
        available.iter().filter(|k| k.flavour.is_none()).map(|k| (version(&k.release), k)).collect();
    found.retain(|(v, _)| inside(v));
    found.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.release.cmp(&b.1.release)));
    found.dedup_by(|a, b| a.1.release == b.1.release);
    if from > to {
        found.reverse();
    }
    if found.len() < 2 {
        return Err(Problem::usage(what(), format!("the archive has {} of them, and two are needed", found.len()))
            .hint("`holdup kernels list --available` shows what there is"));
    }
    // Builds of one release have one name, which stands for the newest of them.
    let mut specs: Vec<String> = found.into_iter().map(|(_, kernel)| kernel.spec()).collect();
    specs.dedup();
    Ok(specs)
}

/// The numbers at the head of a version: `6.19.14+deb13-amd64` is 6, 19, 14.
fn version(text: &str) -> Vec<u64> {
    let head: &str = &text[..text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len())];
    head.split('.').filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ranges_are_thinned_out_by_equal_factors() {
        assert_eq!(numbers(3, 6), [3, 4, 5, 6]);
        assert_eq!(numbers(6, 3), [6, 5, 4, 3]);
        let all = numbers(8, 1024);
        assert_eq!((all[0], all[all.len() - 1]), (8, 1024));
        assert!(all.len() <= MOST_VALUES && all.windows(2).all(|w| w[0] < w[1]), "{all:?}");
        assert_eq!(numbers(1024, 8).iter().rev().copied().collect::<Vec<_>>(), all);
        assert_eq!(numbers(0, 1000).len(), MOST_VALUES);
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        assert_eq!(version("6.19.14+deb13-amd64"), [6, 19, 14]);
        assert!(version("6.9") < version("6.12") && version("7.3").as_slice() < version("7.3.4").as_slice());
    }
}
