//! Work folders of mmtests: the outputs of its benchmarks, and how its tests ended.

use super::{Folder, Kind};
use crate::number::number;
use crate::{Input, Results, Sample};
use holdup_model::{Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "mmtests",
        summary: "work folders of mmtests (work/log/RUN)",
        docs: "The outputs in `iter-N/BENCHMARK/logs` are read as those of the tools that wrote them (perf bench, schbench, sockperf, cyclictest, pgbench, sysbench, \
               netperf, stress-ng, iperf3, fio), so a folder stands for all of its iterations; other outputs are left out, and how many is said. Each benchmark \
               is a workload. A test whose exit code in `tests-timestamp` is not 0 is void, with all of its runs. mmtests' own interval is the standard deviation of \
               runs and not of their mean; its cyclictest leaves out the last CPU, that of 2019 all CPUs from the tenth; its hackbench runs again up to \
               five times when it failed. None of this is taken over.",
        references: &["mmtests 638401e0, run-mmtests.sh, bin/lib/MMTests, shellpack_src/src/hackbench/hackbench-bench"],
    },
    looks_like: |head| head.lines().next().is_some_and(|line| line.starts_with("start :: ")),
    read,
    folder: Some(Folder {
        holds: |path| {
            let name = path.rsplit('/').next().unwrap_or(path);
            let is_log = path.contains("/logs/") && !NO_OUTPUT.iter().any(|begin| name.starts_with(begin));
            name == "tests-timestamp" || is_log
        },
        parts: &[
            "perf-bench",
            "hackbench",
            "schbench",
            "sockperf",
            "cyclictest",
            "pgbench",
            "sysbench",
            "netperf",
            "stress-ng",
            "iperf3",
            "fio",
        ],
        join,
    }),
};

/// Files beside the outputs that are no results: times, settings and logs of servers.
const NO_OUTPUT: &[&str] = &["time-", "dblog", "pgbench.param", "postgresql.conf", "mmtests.log", "pgbench-init"];

/// Of `tests-timestamp` only what ended badly is known; each becomes a void run, which [`join`] spreads over the runs of the test.
fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let (mut results, mut open) = (Results::default(), None::<String>);
    while let Some(line) = input.line()? {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["test", "begin", "::", test, _] => open = Some((*test).to_owned()),
            ["test", "end", "::", _, _] => open = None,
            ["test", "end", "::", test, _, code] => {
                open = None;
                let code = number(input, code)?;
                if code != 0.0 {
                    let why = format!("mmtests: the test ended with exit code {code}");
                    input.keep(&mut results, Some(void(test, why)))?;
                }
            }
            _ => {}
        }
    }
    input.keep(&mut results, open.map(|test| void(&test, "mmtests: the test did not end".to_owned())))?;
    Ok(results)
}

fn void(test: &str, why: String) -> Sample {
    Sample { labels: [("benchmark".to_owned(), test.to_owned())].into(), void: Some(why), ..Sample::default() }
}

/// `iter-0/hackbench-process-pipes/logs/hackbench-4`: the iteration and the benchmark.
fn place(path: &str) -> (&str, &str) {
    let before = path.split_once("/logs/").map_or(path, |(before, _)| before);
    before.rsplit_once('/').unwrap_or(("", before))
}

fn join(files: Vec<(String, Results)>) -> Results {
    let (stamps, outputs): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(path, _)| path.ends_with("tests-timestamp"));
    let of_output = |(path, mut results): (String, Results)| {
        let (iteration, benchmark) = place(&path);
        let stamp =
            stamps.iter().find(|(stamp, _)| stamp.rsplit_once('/').map_or("", |(folder, _)| folder) == iteration);
        let mut ends = stamp.into_iter().flat_map(|(_, results)| &results.samples);
        // A configuration may add words to the name of the test.
        let is_its =
            |end: &&Sample| end.labels.get("benchmark").is_some_and(|test| benchmark.starts_with(test.as_str()));
        let end = ends.rfind(is_its);
        for sample in &mut results.samples {
            sample.labels.insert("benchmark".to_owned(), benchmark.to_owned());
            if let Some(end) = end {
                sample.void.clone_from(&end.void);
            }
        }
        results
    };
    let mut all: Results = outputs.into_iter().map(of_output).collect();
    all.cautions.push(
        "mmtests runs all of one kernel before the next: what drifted meanwhile is in the difference.".to_owned(),
    );
    all
}
