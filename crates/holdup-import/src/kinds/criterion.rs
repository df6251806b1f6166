//! Criterion's `sample.json` and `estimates.json`.

use super::{Folder, Kind, each, metric};
use crate::number::length_ns;
use crate::{Input, Results, Sample};
use holdup_model::Direction::Lower;
use holdup_model::{Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "criterion",
        summary: "Criterion's sample.json or estimates.json, or the folder with them",
        docs: "A file is a run: its measurements follow each other in one process and are not independent, so Criterion's own interval, which is of them, says \
               nothing about another process. Of `sample.json` the mean and the median time of an iteration are known, of `estimates.json` what Criterion \
               estimated of it. Of a folder the `sample.json` of each `new` is read. The benchmark is named by the folders of the file.",
        references: &["criterion 0.5, src/analysis/mod.rs, src/connection.rs:SavedSample"],
    },
    looks_like: |head| is_sample(head) || is_estimates(head),
    read,
    folder: Some(Folder { holds: |path| path.ends_with("new/sample.json"), parts: &[], join: each }),
};

fn is_sample(head: &str) -> bool {
    head.contains("\"sampling_mode\"") && head.contains("\"iters\"")
}

fn is_estimates(head: &str) -> bool {
    head.contains("\"point_estimate\"") && head.contains("\"confidence_interval\"")
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut sample = Sample::default();
    sample.labels.extend(benchmark(input.name(), input.within()).map(|name| ("benchmark".to_owned(), name)));
    let document = input.json()?;
    let root = document.root();
    let (mean, median) = if let Some(times_of) = root.get("times") {
        let iterations = root.need("iters")?;
        let (times, each) = (times_of.items()?, iterations.items()?);
        if times.len() != each.len() || times.len() == 0 {
            return Err(iterations.problem(format!("{} numbers of iterations, but {} times", each.len(), times.len())));
        }
        let mut one_ns = Vec::new();
        let mut all_ns = 0.0;
        for (time, iterations) in times.zip(each) {
            all_ns += time.number()?;
            if iterations.number()? <= 0.0 {
                return Err(iterations.problem(format!("{} iterations: at least one is needed", iterations.shown())));
            }
            one_ns.push(time.number()? / iterations.number()?);
        }
        sample.length_ns = Some(length_ns(all_ns, 1.0, |why| times_of.problem(why))?);
        one_ns.sort_by(f64::total_cmp);
        let middle = one_ns.len() / 2;
        let median = if one_ns.len() % 2 == 1 { one_ns[middle] } else { (one_ns[middle - 1] + one_ns[middle]) / 2.0 };
        (one_ns.iter().sum::<f64>() / one_ns.len() as f64, median)
    } else {
        let estimate = |what: &str| root.need(what)?.need("point_estimate")?.number();
        (estimate("mean")?, estimate("median")?)
    };
    sample.measurements = vec![Measurement::new("time_mean_ns", mean), Measurement::new("time_median_ns", median)];
    Ok(Results {
        metrics: vec![
            metric("time_mean_ns", "ns", Lower, "mean time of an iteration"),
            metric("time_median_ns", "ns", Lower, "median time of an iteration"),
        ],
        samples: vec![sample],
        cautions: vec![
            "Measurements of Criterion are of one process and not independent: a file is one run.".to_owned(),
        ],
        ..Results::default()
    })
}

/// The benchmark that a path names: what stands between the folder that was named, or `criterion`, and `new` or `base`.
fn benchmark(path: &str, within: Option<&str>) -> Option<String> {
    let mut folders: Vec<&str> = within.unwrap_or(path).split('/').collect();
    folders.pop();
    if folders.last().is_some_and(|last| ["new", "base"].contains(last)) {
        folders.pop();
    }
    let begin = folders.iter().rposition(|folder| *folder == "criterion").map(|at| at + 1);
    let name = folders[begin.or(within.map(|_| 0))?..].join("/");
    (!name.is_empty()).then_some(name)
}
