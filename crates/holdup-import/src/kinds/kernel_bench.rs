//! The CSV of Tomas Vondra's kernel-bench, and tables of that form.

use super::{Kind, metric};
use crate::number::number;
use crate::{Input, Results, Sample};
use holdup_model::Direction::Higher;
use holdup_model::{Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "kernel-bench",
        summary: "tables of pgbench on several kernels: kernel scale test run clients tps",
        docs: "Each line is a run: kernel, scale, test, number of the run, clients, transactions per second, with spaces, tabs, semicolons or commas between them. \
               The kernels are what is compared, and the first one is the baseline. The runs of one kernel follow each other, on a machine that may have \
               been booted and filled anew for each kernel: what differs between two boots is in the difference. A line without a number at its end is a run \
               that failed.",
        references: &["github.com/tvondra/kernel-bench bb6174f, e5-4620/build-csv.sh"],
    },
    looks_like: |head| {
        let mut lines = head.lines();
        lines.next().is_some_and(|line| columns(line).is_some())
    },
    read,
    folder: None,
};

/// `3.10.101 30 read-only 1 1 8649.453371`; the last column is empty where a run failed.
fn columns(line: &str) -> Option<Vec<&str>> {
    let between = [';', ',', '\t'].into_iter().find(|between| line.contains(*between));
    let columns: Vec<&str> = match between {
        Some(between) => line.split(between).map(str::trim).collect(),
        None => line.split_whitespace().collect(),
    };
    let is_number = |at: usize| columns.get(at).is_some_and(|text| text.parse::<u32>().is_ok());
    let is_test = |at: usize| columns.get(at).is_some_and(|text| text.starts_with("read-") || text.contains("tpcb"));
    let has_begin = columns.first().is_some_and(|kernel| kernel.contains('.')) && is_number(1) && is_test(2);
    (has_begin && is_number(3) && is_number(4) && columns.len() >= 5).then_some(columns)
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results {
        metrics: vec![metric("tps", "1/s", Higher, "transactions per second")],
        cautions: vec![
            "Each kernel was booted for all of its runs: what differs between two boots is in the difference."
                .to_owned(),
        ],
        ..Results::default()
    };
    while let Some(line) = input.line()? {
        if line.trim().is_empty() {
            continue;
        }
        let columns = columns(&line)
            .ok_or_else(|| input.problem(format!("{line:?} is no kernel, scale, test, run, clients and throughput")))?;
        let mut sample = Sample { compared: Some(columns[0].to_owned()), ..Sample::default() };
        for (label, at) in [("scale", 1), ("test", 2), ("clients", 4)] {
            sample.labels.insert(label.to_owned(), columns[at].to_owned());
        }
        match columns[5..] {
            [] | [""] => sample.void = Some("there is no throughput: the run failed".to_owned()),
            [tps] => sample.measurements.push(Measurement::new("tps", number(input, tps)?)),
            // A decimal comma makes two columns of one.
            _ => {
                return Err(input
                    .problem(format!("{} of 6 columns", columns.len()))
                    .hint("numbers with a decimal comma: write them with LC_ALL=C"));
            }
        }
        input.keep(&mut results, Some(sample))?;
    }
    Ok(results)
}
