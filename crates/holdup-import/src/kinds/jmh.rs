//! JMH's JSON.

use super::{Kind, metric};
use crate::json::Node;
use crate::number::samples;
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "jmh",
        summary: "JMH's JSON (-rf json)",
        docs: "A fork is a run, for its iterations are of one virtual machine and not independent; JMH's own error takes all of them for independent, so it is too \
               small. The value of a run is the mean of its iterations. Benchmarks are workloads; modes, threads and parameters are arms. In the mode `sample` there is a \
               distribution, from which JMH left out operations to reach its rate of samples. Secondary metrics (profilers) are not read.",
        references: &["JMH 1.37, org.openjdk.jmh.results.format.JSONResultFormat"],
    },
    looks_like: |head| {
        head.contains("\"primaryMetric\"") || (head.contains("\"jmhVersion\"") && head.contains("\"benchmark\""))
    },
    read,
    folder: None,
};

/// Units of time, ns.
const UNITS: &[(&str, f64)] =
    &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10), ("hr", 3.6e12), ("day", 8.64e13)];

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let document = input.json()?;
    let mut results = Results {
        metrics: vec![
            metric("operations_per_s", "1/s", Higher, "operations per second"),
            metric("time_ns", "ns", Lower, "mean time of an operation"),
            metric("time_p99_ns", "ns", Lower, "99 of 100 operations took at most this"),
        ],
        cautions: vec![
            "JMH's own error takes iterations of one fork for independent: it is too small. A fork is one run here."
                .to_owned(),
        ],
        ..Results::default()
    };
    for one in document.root().items()? {
        let score = one.need("primaryMetric")?;
        let mut labels = vec![
            ("benchmark".to_owned(), one.need("benchmark")?.text()?.to_owned()),
            ("mode".to_owned(), one.need("mode")?.text()?.to_owned()),
            ("threads".to_owned(), one.need("threads")?.shown()),
        ];
        if let Some(parameters) = one.get("params") {
            labels.extend(parameters.members()?.map(|(name, value)| (name.to_owned(), value.shown())));
        }
        let unit = score.need("scoreUnit")?;
        let forks = match (score.get("rawData"), score.get("rawDataHistogram")) {
            (Some(forks), _) | (None, Some(forks)) => forks,
            (None, None) => return Err(score.problem("it has no `rawData`: only its mean is known")),
        };
        for fork in forks.items()? {
            let mut sample = Sample { labels: labels.iter().cloned().collect(), ..Sample::default() };
            match score.get("rawData") {
                Some(_) => sample.measurements.extend(mean(fork, unit)?),
                None => distribution(fork, unit, &mut sample)?,
            }
            input.keep(&mut results, Some(sample.or_void("the fork has no iteration")))?;
        }
    }
    Ok(results)
}

/// The mean of the iterations of a fork.
fn mean(fork: Node<'_>, unit: Node<'_>) -> Result<Option<Measurement>, Problem> {
    let values = fork.items()?.map(Node::number).collect::<Result<Vec<_>, _>>()?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let of = match unit.text()?.split_once('/') {
        Some(("ops", time)) => Measurement::new("operations_per_s", mean * 1e9 / ns(time, unit)?),
        Some((time, "op")) => Measurement::new("time_ns", mean * ns(time, unit)?),
        _ => return Err(unit.problem(format!("{} is no unit that is known", unit.shown()))),
    };
    Ok((!values.is_empty()).then_some(of))
}

/// The distribution of a fork: a list of `[value, count]` for each iteration.
fn distribution(fork: Node<'_>, unit: Node<'_>, sample: &mut Sample) -> Result<(), Problem> {
    let ns = ns(unit.text()?.trim_end_matches("/op"), unit)?;
    let (mut all, mut sum, mut count) = (Histogram::new(), 0.0, 0.0);
    for iteration in fork.items()? {
        for pair in iteration.items()? {
            let numbers = pair.items()?.map(Node::number).collect::<Result<Vec<_>, _>>()?;
            let [value, times] = numbers[..] else { return Err(pair.problem("it is no pair of a value and a number")) };
            all.record_n_ns((value * ns) as u64, samples(times, |why| pair.problem(why))?);
            (sum, count) = (sum + value * ns * times, count + times);
        }
    }
    if all.count() > 0 {
        sample.measurements =
            vec![Measurement::new("time_ns", sum / count), Measurement::percentile("time_p99_ns", &all, 0.99, 1.0)];
        sample.histograms = vec![NamedHistogram { name: "time".to_owned(), histogram: all }];
    }
    Ok(())
}

fn ns(unit: &str, at: Node<'_>) -> Result<f64, Problem> {
    let known = UNITS.iter().find(|(name, _)| *name == unit);
    known.map(|(_, ns)| *ns).ok_or_else(|| at.problem(format!("{unit:?} is no unit of time that is known")))
}
