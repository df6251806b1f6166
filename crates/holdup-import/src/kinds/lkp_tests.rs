//! Results of lkp-tests: `stats.json`, `matrix.json`, and what its `stats` scripts print.

use super::{Folder, Kind, each, id_of, metric};
use crate::number::number;
use crate::{Input, Results, Sample};
use holdup_model::Direction::{self, Higher, Lower};
use holdup_model::{Measurement, Meta, Problem};
use std::collections::BTreeSet;

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "lkp-tests",
        summary: "lkp-tests' stats.json, matrix.json, KEY: value, or a folder of runs",
        docs: "A stats.json is a run, a matrix.json has one run in each column; of a folder each stats.json is read. A run that lkp marks as incomplete is void. lkp \
               fills what is missing in a matrix with 0, so 0 is absent and not 0. Thousands of numbers of its monitors do not say which direction is better: \
               only those are read whose direction lkp's own index of performance names (throughput, rates, IOPS, elapsed time, latency), and how many were left \
               out is said.",
        references: &["lkp-tests bbbc29c4, lib/matrix.rb, lib/stats.rb:filter_incomplete_run, etc/index-perf-all.yaml"],
    },
    looks_like: |head| is_json(head) || is_text(head),
    read,
    folder: Some(Folder { holds: |path| path.ends_with("stats.json"), parts: &[], join: each }),
};

fn is_json(head: &str) -> bool {
    let names = ["\"stats_source\"", "\"last_state.is_incomplete_run\"", ".time.elapsed_time\"", "\"boot-time.boot\""];
    head.trim_start().starts_with('{') && names.iter().any(|name| head.contains(name))
}

/// `throughput: 3144324.49`: names of lower case, each with a number.
fn is_text(head: &str) -> bool {
    let is_row = |line: &str| {
        line.split_once(": ").is_some_and(|(name, value)| {
            name.starts_with(|c: char| c.is_ascii_lowercase()) && !name.contains(' ') && value.parse::<f64>().is_ok()
        })
    };
    let mut lines = head.lines();
    lines.next().is_some_and(is_row) && head.lines().rev().skip(1).all(is_row)
}

/// Ends of names, of those of etc/index-perf-all.yaml that say what they measure.
const DIRECTIONS: &[(&str, Direction)] = &[
    (".throughput", Higher),
    (".throughput_best", Higher),
    (".throughput_avg", Higher),
    (".throughput_worst", Higher),
    ("ops_per_sec", Higher),
    (".ops/s", Higher),
    (".jobs-per-min", Higher),
    (".jobs_per_min", Higher),
    (".tps", Higher),
    (".Throughput_tps", Higher),
    (".Throughput_Mbps", Higher),
    ("_bw_MBps", Higher),
    ("_iops", Higher),
    ("_ops", Higher),
    ("requests_per_second", Higher),
    ("files_per_sec", Higher),
    ("_bandwidth_MBps", Higher),
    (".elapsed_time", Lower),
    ("_per_iteration", Lower),
    (".latency_ms", Lower),
    (".latency_95th_ms", Lower),
];

/// Memory of a number with its metric, bytes.
const NUMBER_BYTES: u64 = 512;

fn direction(name: &str) -> Option<Direction> {
    let name = format!(".{name}");
    DIRECTIONS.iter().find(|(end, _)| name.ends_with(end)).map(|(_, direction)| *direction)
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let head = input.head(crate::HEAD_BYTES)?;
    let (mut results, mut runs, mut left_out) = (Results::default(), Vec::new(), 0_usize);
    let mut ids = BTreeSet::new();
    let mut add = |runs: &mut Vec<Sample>, run: usize, name: &str, value: f64, is_matrix: bool| {
        if runs.len() <= run {
            runs.resize_with(run + 1, Sample::default);
        }
        if name == "last_state.is_incomplete_run" && value != 0.0 {
            runs[run].void = Some("lkp marks the run as incomplete".to_owned());
        }
        let Some(better) = direction(name) else {
            left_out += usize::from(run == 0);
            return;
        };
        let id = id_of(name);
        results.add_metric(&mut ids, metric(&id, "1", better, &format!("{name} of lkp, in its own unit")));
        runs[run].measurements.push(match value {
            0.0 if is_matrix => Measurement::absent(id, "0, which lkp writes for what is missing, too"),
            _ => Measurement::new(id, value),
        });
    };
    if is_json(&head) {
        let document = input.json()?;
        for (name, value) in document.root().members()? {
            if name == "stats_source" {
                continue;
            }
            // Settings beside the numbers are texts.
            if value.is_list() {
                for (run, value) in value.items()?.enumerate() {
                    input.take(NUMBER_BYTES)?;
                    add(&mut runs, run, name, value.number()?, true);
                }
            } else if !value.is_text() {
                input.take(NUMBER_BYTES)?;
                add(&mut runs, 0, name, value.number()?, false);
            }
        }
    } else {
        while let Some(line) = input.line()? {
            let (name, value) = line
                .split_once(": ")
                .ok_or_else(|| input.problem(format!("{line:?} is no name and number: the file was cut")))?;
            input.keep_line();
            input.take(NUMBER_BYTES)?;
            add(&mut runs, 0, name, number(input, value)?, false);
        }
    }
    // What a benchmark measured stands before the time that all of it took.
    results.metrics.sort_by_key(|metric| metric.id.ends_with("elapsed_time"));
    let whole = |sample: Sample| sample.or_void("nothing in it says which direction is better");
    input.keep(&mut results, runs.into_iter().map(whole))?;
    if left_out > 0 {
        results
            .cautions
            .push(format!("{left_out} numbers of lkp do not say which direction is better: they were left out."));
    }
    Ok(results)
}
