//! schbench: its text of all versions, and its JSON.

use super::{Kind, metric};
use crate::number::{after, leading, length_ns, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::{Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "schbench",
        summary: "schbench's output of all versions, and its JSON (-j)",
        docs: "Percentiles of intervals are those since the begin, so the last block of a run is its result. Before April 2023 there was one latency, which is that \
               of the wake-up. Wake-ups of less than 1 us are not counted, so percentiles of wake-ups are too bad. `average rps` has the warm-up too. The \
               percentiles of requests per second rest on one value per second and are not read; the run queue delay of the last block is 0 because the \
               threads are gone, and is not read either. Percentiles are middles of buckets.",
        references: &["schbench 24e32b8 and 2eef447, schbench.c:show_latencies, write_json_stats"],
    },
    looks_like: |head| {
        head.contains("atency percentiles (usec)") || head.contains("atencies percentiles (usec)") || is_json(head)
    },
    read,
    folder: None,
};

fn is_json(head: &str) -> bool {
    head.trim_start().starts_with('{') && head.contains("\"int\"") && head.contains("wakeup_latency_pct")
}

const SHARES: &[(&str, &str, f64)] =
    &[("99", "p99", 0.99), ("90", "p90", 0.9), ("50", "p50", 0.5), ("99.9", "p999", 0.999)];

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results::default();
    let whose = [("wakeup", "wake-ups"), ("request", "requests")];
    // The first one that every run has is what a comparison is about: a tail, else what was done, else a maximum.
    for (of, what) in whose {
        for (share, name, _) in SHARES {
            let summary = format!("{share} of 100 {what} took at most this");
            results.metrics.push(metric(&format!("{of}_latency_{name}_us"), "us", Lower, &summary));
        }
    }
    results.metrics.push(metric("requests_per_s", "1/s", Higher, "requests per second"));
    for (of, what) in whose {
        let summary = format!("time of the longest of the {what}");
        results.metrics.push(metric(&format!("{of}_latency_max_us"), "us", Lower, &summary));
    }
    let head = input.head(crate::HEAD_BYTES)?;
    if is_json(&head) {
        json(input, &mut results)?;
    } else {
        text(input, &mut results)?;
    }
    results
        .cautions
        .push("schbench does not count wake-ups of less than 1 us: their percentiles are too bad.".to_owned());
    Ok(results)
}

/// A run while its blocks are read.
#[derive(Default)]
struct Run {
    sample: Sample,
    runtime_s: f64,
    is_new: bool,
    is_whole: bool,
}

fn text(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    let (mut run, mut threads) = (None::<Run>, None);
    // The latency of the block that is read, and its number of samples.
    let mut block: Option<(&str, Option<f64>)> = None;
    while let Some(line) = input.line()? {
        let text = line.trim_start();
        if let Some((header, rest)) = text.split_once(" percentiles (") {
            let runtime_s = after(rest, "runtime ").map(|text| number(input, text)).transpose()?.unwrap_or(0.0);
            // Time that goes back is another run.
            if run.as_ref().is_some_and(|run| runtime_s < run.runtime_s) {
                let done = run.take().map(|run| finish(input, run, threads.as_deref())).transpose()?;
                input.keep(results, done)?;
            }
            let count = rest.rsplit_once('(').filter(|(_, rest)| rest.contains("total samples"));
            let count = count.map(|(_, count)| leading(input, count)).transpose()?;
            block = match header {
                "Latency" | "Wakeup Latencies" => Some(("wakeup", count)),
                "Request Latencies" => Some(("request", count)),
                _ => None,
            };
            let run = run.get_or_insert_default();
            (run.runtime_s, run.is_new) = (runtime_s, run.is_new || header == "Wakeup Latencies");
            run.sample.measurements.retain(|m| !block.is_some_and(|(of, _)| m.metric.starts_with(of)));
        } else if let Some(count) = text.strip_prefix("setting worker threads to ") {
            threads = Some(count.trim().to_owned());
        } else if let Some(rate) = text.strip_prefix("average rps: ") {
            let mut done = run.take().ok_or_else(|| input.problem("a rate before any latency: the file is damaged"))?;
            done.sample.measure(Measurement::new("requests_per_s", number(input, rate)?));
            done.is_whole = true;
            input.keep(results, Some(finish(input, done, threads.as_deref())?))?;
            block = None;
        } else if let (Some((of, count)), Some(run)) = (block, &mut run) {
            row(input, text, of, count)?.into_iter().for_each(|one| run.sample.measure(one));
        }
    }
    input.keep(results, run.map(|run| finish(input, run, threads.as_deref())).transpose()?)
}

/// `* 99.0th: 2788       (1084 samples)` or `min=1, max=22327`.
fn row(input: &Input<'_>, text: &str, of: &str, count: Option<f64>) -> Result<Option<Measurement>, Problem> {
    if let Some((_, most)) = text.split_once("max=").filter(|_| text.starts_with("min=")) {
        return Ok(Some(Measurement::new(format!("{of}_latency_max_us"), leading(input, most)?)));
    }
    let Some((share, value)) = text.trim_start_matches(['*', ' ']).split_once("th: ") else { return Ok(None) };
    let share = number(input, share)?;
    let known = SHARES.iter().find(|(_, _, quantile)| (quantile * 100.0 - share).abs() < 1e-6);
    let Some((_, name, quantile)) = known else { return Ok(None) };
    let (id, value) = (format!("{of}_latency_{name}_us"), leading(input, value)?);
    Ok(Some(match count {
        Some(count) => Measurement::percentile_of(&id, value, *quantile, count),
        None => Measurement::new(id, value),
    }))
}

fn finish(input: &Input<'_>, run: Run, threads: Option<&str>) -> Result<Sample, Problem> {
    let is_cut = run.is_new && !run.is_whole;
    let length_ns = length_ns(run.runtime_s, 1e9, |why| input.problem(why))?;
    Ok(Sample {
        labels: threads.map(|threads| ("threads".to_owned(), threads.to_owned())).into_iter().collect(),
        length_ns: (run.runtime_s > 0.0).then_some(length_ns),
        void: is_cut
            .then(|| format!("the output ends after {} s, without its last block: the run was cut", run.runtime_s)),
        ..run.sample
    })
}

fn json(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    let document = input.json()?;
    let (about, numbers) = (document.root().need("normal")?, document.root().need("int")?);
    let facts = [("kernel.release", "version"), ("host.name", "hostname")];
    results.facts.extend(about.facts(&facts, "schbench -j"));
    let mut sample = Sample::default();
    // The command names the file of each run, so it is no label.
    sample.notes.extend(about.text_of("cmdline").map(str::to_owned));
    sample.labels.extend(about.text_of("jobname").map(|name| ("job".to_owned(), name.to_owned())));
    for of in ["wakeup", "request"] {
        for (share, name, _) in SHARES {
            let share = if share.contains('.') { (*share).to_owned() } else { format!("{share}.0") };
            let value = numbers.need(&format!("{of}_latency_pct{share}"))?.number()?;
            sample.measurements.push(Measurement::new(format!("{of}_latency_{name}_us"), value));
        }
        let most = numbers.need(&format!("{of}_latency_max"))?.number()?;
        sample.measurements.push(Measurement::new(format!("{of}_latency_max_us"), most));
    }
    let runtime = numbers.need("runtime")?;
    let runtime_s = runtime.number()?;
    let end_s = numbers.number_of("time")?;
    sample.begin_unix_ns = end_s.map(|end_s| ((end_s - runtime_s) * 1e9) as i64);
    sample.length_ns = Some(runtime.length_ns(1e9)?);
    input.keep(results, Some(sample))?;
    results.cautions.push(
        "schbench's JSON has no number of samples: its percentiles may rest on fewer than ten of them.".to_owned(),
    );
    Ok(())
}
