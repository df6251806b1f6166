//! `perf bench`: its output, and its numbers alone (`--format=simple`).

use super::Kind;
use super::hackbench::mode;
use crate::number::{Row, leading, length_ns, measured, metrics_of, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::{Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "perf-bench",
        summary: "perf bench (sched, syscall, mem, futex, epoll), and --format=simple",
        docs: "Outputs may follow each other in one file: each is a run, each benchmark a workload, and its settings are arms. What `mem` prints is of the function that it \
               names. A deviation behind `+-` is of threads or repetitions of one run and is not read. `--format=simple` has neither a name nor a unit: its \
               numbers are taken for seconds, which `sched` and `syscall` print; those of other benchmarks are not. The time of sched/messaging has no time \
               to fork; with pipes it is mostly that of the pipe's lock.",
        references: &["tools/perf/bench/sched-pipe.c, sched-messaging.c, mem-functions.c, futex-hash.c (v6.18)"],
    },
    looks_like: |head| head.contains("# Running '") || is_simple(head),
    read,
    folder: None,
};

/// Only numbers with three decimals, one a line.
fn is_simple(head: &str) -> bool {
    let is_time = |line: &str| {
        line.split_once('.').is_some_and(|(whole, rest)| {
            rest.len() == 3
                && [whole, rest].iter().all(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))
        })
    };
    // The last line of what was looked at may be a part of one.
    head.lines().next().is_some_and(is_time) && head.lines().rev().skip(1).all(is_time)
}

const ROWS: &[Row] = &[
    ("Total time: ", "time_s", "s", Lower, "time of the whole benchmark"),
    ("usecs/op", "time_us_per_op", "us", Lower, "time of an operation"),
    ("ops/sec", "operations_per_s", "1/s", Higher, "operations per second"),
    ("GB/sec", "gb_per_s", "GB/s", Higher, "memory per second"),
    ("MB/sec", "mb_per_s", "MB/s", Higher, "memory per second"),
    ("Averaged ", "operations_per_thread_s", "1/s", Higher, "operations per second, mean of the threads"),
];

/// Units that stand behind their number.
const UNITS: &[&str] = &["usecs/op", "ops/sec", "GB/sec", "MB/sec"];

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results { metrics: metrics_of(ROWS), ..Results::default() };
    let is_simple = is_simple(&input.head(crate::HEAD_BYTES)?);
    let mut run: Option<Sample> = None;
    while let Some(line) = input.line()? {
        if is_simple {
            let time_s = number(input, &line)?;
            input.keep(&mut results, Some(timed(input, Sample::default(), time_s)?))?;
        } else if let Some(name) = line.strip_prefix("# Running '") {
            input.keep(&mut results, run.replace(Sample::default()).map(whole))?;
            let name = name.split('\'').next().unwrap_or_default();
            labelled(run.get_or_insert_default(), "benchmark", name);
        } else if let Some(function) = line.strip_prefix("# function '") {
            let sample = run.get_or_insert_default();
            let next = Sample { labels: sample.labels.clone(), ..Sample::default() };
            if !sample.measurements.is_empty() {
                input.keep(&mut results, Some(std::mem::replace(sample, next)))?;
            }
            labelled(sample, "function", function.split('\'').next().unwrap_or_default());
        } else if let Some(sample) = &mut run {
            of_line(input, &line, sample)?;
        }
    }
    input.keep(&mut results, run.map(whole))?;
    if is_simple {
        results.cautions.push(
            "perf bench --format=simple prints no name and no unit: its numbers are taken for seconds.".to_owned(),
        );
    }
    Ok(results)
}

fn of_line(input: &Input<'_>, line: &str, sample: &mut Sample) -> Result<(), Problem> {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["#", groups, "groups", "==", _, what, "run"] => {
            labelled(sample, "groups", groups);
            labelled(sample, "mode", mode(what));
        }
        ["#", "Executed", operations, ..] => labelled(sample, "operations", operations),
        ["#", "Copying", size, ..] => labelled(sample, "size", size),
        ["Run", "summary", .., "secs."] => {
            let threads = line.split_once("]: ").and_then(|(_, rest)| rest.split_once(" threads"));
            if let Some((threads, _)) = threads {
                labelled(sample, "threads", threads);
            }
        }
        ["Total", "time:", seconds, ..] => {
            *sample = timed(input, std::mem::take(sample), leading(input, seconds)?)?;
        }
        [value, unit] if UNITS.contains(unit) => {
            measured(input, &format!("{unit}{value}"), ROWS)?.into_iter().for_each(|one| sample.measure(one));
        }
        _ => measured(input, line, ROWS)?.into_iter().for_each(|one| sample.measure(one)),
    }
    Ok(())
}

fn labelled(sample: &mut Sample, label: &str, value: &str) {
    sample.labels.insert(label.to_owned(), value.to_owned());
}

fn timed(input: &Input<'_>, mut sample: Sample, time_s: f64) -> Result<Sample, Problem> {
    sample.measure(Measurement::new("time_s", time_s));
    Ok(Sample { length_ns: Some(length_ns(time_s, 1e9, |why| input.problem(why))?), ..sample })
}

fn whole(sample: Sample) -> Sample {
    sample.or_void("there is no result: the run was cut or failed")
}
