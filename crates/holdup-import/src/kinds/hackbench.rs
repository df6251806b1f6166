//! hackbench of rt-tests, and `perf bench sched messaging`, which is the same.

use super::{Kind, metric};
use crate::number::{length_ns, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::Lower;
use holdup_model::{Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "hackbench",
        summary: "hackbench of rt-tests, and perf bench sched messaging",
        docs: "Each `Time:` (or `Total time:`) is a run. Runs with other groups, file descriptors, messages or sizes are other arms. The time has no time to \
               fork. With pipes it is mostly that of the pipe's lock and its wake-up, so it says little about the scheduler.",
        references: &["rt-tests 2.4, src/hackbench/hackbench.c", "tools/perf/bench/sched-messaging.c (v6.18)"],
    },
    looks_like: |head| {
        head.contains("Each sender will pass ") && head.contains("Running in ")
            || head.contains("# Running 'sched/messaging' benchmark")
    },
    read,
    folder: None,
};

/// `process` of `processes`, `thread` of `threads`.
pub(super) fn mode(what: &str) -> &str {
    what.strip_suffix("es").or(what.strip_suffix('s')).unwrap_or(what)
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results {
        metrics: vec![metric("time_s", "s", Lower, "time until all messages were received")],
        ..Results::default()
    };
    let mut run: Option<Sample> = None;
    while let Some(line) = input.line()? {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["Running", "in", mode, "mode", "with", groups, "groups", "using", descriptors, ..] => {
                let mut sample = Sample::default();
                for (label, value) in [("mode", mode), ("groups", groups), ("descriptors", descriptors)] {
                    sample.labels.insert(label.to_owned(), (*value).to_owned());
                }
                input.keep(&mut results, run.replace(sample).map(cut))?;
            }
            ["#", "Running", "'sched/messaging'", ..] => {
                input.keep(&mut results, run.replace(Sample::default()).map(cut))?;
            }
            ["Each", "sender", "will", "pass", messages, "messages", "of", bytes, ..] => {
                for (label, value) in [("messages", messages), ("bytes", bytes)] {
                    run.get_or_insert_default().labels.insert(label.to_owned(), (*value).to_owned());
                }
            }
            ["#", groups, "groups", "==", _, what, "run"] => {
                let labels = &mut run.get_or_insert_default().labels;
                labels.insert("groups".to_owned(), (*groups).to_owned());
                labels.insert("mode".to_owned(), mode(what).to_owned());
            }
            ["Time:", seconds] | ["Total", "time:", seconds, "[sec]"] => {
                let Some(mut sample) = run.take() else {
                    return Err(input.problem("a time without the lines that say what was run"));
                };
                let seconds = number(input, seconds)?;
                sample.length_ns = Some(length_ns(seconds, 1e9, |why| input.problem(why))?);
                sample.measurements.push(Measurement::new("time_s", seconds));
                input.keep(&mut results, Some(sample))?;
            }
            _ => {}
        }
    }
    input.keep(&mut results, run.map(cut))?;
    Ok(results)
}

fn cut(sample: Sample) -> Sample {
    Sample { void: Some("there is no time: the run was cut or failed".to_owned()), ..sample }
}
