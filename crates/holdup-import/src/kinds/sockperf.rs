//! sockperf: what it prints, and its log of single messages (`--full-log`).

use super::{Kind, metric};
use crate::number::{Row, after, leading, leading_ns, measured, metrics_of, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::foreign::without_colours;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "sockperf",
        summary: "sockperf's output and its log of messages (--full-log)",
        docs: "A latency of sockperf is half of a round trip, unless it ran with `--full-rtt`: both have other names here. In the mode under-load one of 100 \
               messages is measured, so a second has some 50 samples and its high percentiles are the maximum: those that rest on fewer than ten samples are \
               absent. Its standard error and its interval take messages for independent, which they are not. Its Mbps are MiB/s times 8, of the payload, and \
               count what was sent: what arrived is known to the server only. Messages that were lost are in no latency.",
        references: &["sockperf 3.7 and 3.10, src/client.cpp:client_statistics, src/packet.h"],
    },
    looks_like: |head| head.contains("sockperf: ") || head.contains("sockperf[CLIENT]"),
    read,
    folder: None,
};

const ROWS: &[Row] = &[
    ("Summary: Message Rate is ", "messages_per_s", "1/s", Higher, "messages per second that were sent"),
    ("Summary: BandWidth is ", "mib_per_s", "MiB/s", Higher, "payload per second that was sent"),
    ("Summary: Latency is ", "latency_mean_us", "us", Lower, "half of a round trip, on average"),
    ("Summary: Round trip is ", "round_trip_mean_us", "us", Lower, "a round trip, on average"),
    ("# dropped messages = ", "dropped", "1", Lower, "messages without an answer"),
];

/// A run while it is read.
#[derive(Default)]
struct Run {
    sample: Sample,
    /// `latency` or `round_trip`.
    of: &'static str,
    observations: f64,
    log: Histogram,
    is_whole: bool,
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results::default();
    let whose = [("latency", "halves of round trips"), ("round_trip", "round trips")];
    for (of, what) in whose {
        for (share, name) in [("99", "p99"), ("50", "p50")] {
            let summary = format!("{share} of 100 {what} took at most this");
            results.metrics.push(metric(&format!("{of}_{name}_us"), "us", Lower, &summary));
        }
    }
    results.metrics.extend(metrics_of(ROWS));
    for (of, what) in whose {
        results.metrics.push(metric(&format!("{of}_max_us"), "us", Lower, &format!("the longest of the {what}")));
    }
    let (mut run, mut is_rate) = (Run { of: "latency", ..Run::default() }, false);
    let mut has_log = false;
    while let Some(line) = input.line()? {
        let line = without_colours(&line);
        if line.contains("== version #") && (run.is_whole || !run.sample.measurements.is_empty()) {
            let done = std::mem::replace(&mut run, Run { of: "latency", ..Run::default() });
            input.keep(&mut results, Some(finish(done)))?;
        }
        has_log |= line.starts_with("packet, txTime");
        if has_log && line.as_bytes().first().is_some_and(u8::is_ascii_digit) {
            row(input, &line, &mut run)?;
        } else {
            of_line(input, &line, &mut run)?;
        }
        is_rate |= line.contains("Summary: BandWidth");
    }
    input.keep(&mut results, Some(finish(run)))?;
    results.cautions.push(match is_rate {
        true => "sockperf counts what was sent: what arrived is not known.".to_owned(),
        false => "sockperf's standard error takes messages for independent: it is too small.".to_owned(),
    });
    Ok(results)
}

fn of_line(input: &Input<'_>, line: &str, run: &mut Run) -> Result<(), Problem> {
    let text = line.strip_prefix("sockperf: ").unwrap_or(line).trim_start();
    if let Some((_, protocol)) = text.split_once(" # ").filter(|_| text.contains("PORT = ")) {
        run.sample.labels.insert("protocol".to_owned(), protocol.trim().to_owned());
    } else if let Some((_, parameters)) = text.split_once("following parameters: ") {
        for (name, label) in [("--msg-size=", "message_bytes"), ("--mps=", "rate")] {
            run.sample.labels.extend(after(parameters, name).map(|value| (label.to_owned(), value.to_owned())));
        }
        if parameters.contains("--full-rtt") {
            run.of = "round_trip";
        }
    } else if let Some((_, seconds)) = text.split_once("[Valid Duration] RunTime=") {
        run.sample.length_ns = Some(leading_ns(input, seconds, 1e9)?);
    } else if let Some((_, seconds)) = text.split_once(" messages sent in ") {
        run.sample.length_ns = Some(leading_ns(input, seconds, 1e9)?);
    } else if let Some(count) = text.strip_prefix("Total ").filter(|_| text.contains("observations")) {
        run.observations = leading(input, count)?;
    } else if let Some((share, value)) = text.strip_prefix("---> percentile ").and_then(|rest| rest.split_once('=')) {
        let share = number(input, share)?;
        let name = [(99.0, "p99"), (50.0, "p50")].iter().find(|(known, _)| *known == share).map(|(_, name)| *name);
        let value = number(input, value)?;
        let of = run.of;
        let one = name
            .map(|name| Measurement::percentile_of(&format!("{of}_{name}_us"), value, share / 100.0, run.observations));
        one.into_iter().for_each(|one| run.sample.measure(one));
    } else if let Some((_, value)) = text.split_once("<MAX> observation =") {
        run.sample.measure(Measurement::new(format!("{}_max_us", run.of), number(input, value)?));
    } else if text.starts_with("ERROR") {
        run.sample.void.get_or_insert_with(|| text.to_owned());
    } else if let Some(measurement) = measured(input, text, ROWS)? {
        if measurement.metric == "round_trip_mean_us" {
            run.of = "round_trip";
        }
        run.is_whole |= text.starts_with("Summary: ");
        run.sample.measure(measurement);
    }
    Ok(())
}

/// `1, 0.100000000, 0.100050000, 25.000`; logs of old versions have no fourth column.
fn row(input: &Input<'_>, line: &str, run: &mut Run) -> Result<(), Problem> {
    let columns: Vec<&str> = line.split(',').collect();
    let us = match columns.as_slice() {
        [_, sent, received] => {
            let round_trip_us = (number(input, received)? - number(input, sent)?) * 1e6;
            if run.of == "latency" { round_trip_us / 2.0 } else { round_trip_us }
        }
        [_, _, _, latency, ..] => number(input, latency)?,
        _ => return Err(input.problem(format!("{} of at least 3 columns: the log was cut", columns.len()))),
    };
    if us < 0.0 {
        return Err(input.problem(format!("a latency of {us} us: the clocks of the times differ")));
    }
    run.log.record_ns((us * 1e3) as u64);
    Ok(())
}

fn finish(mut run: Run) -> Sample {
    if run.log.count() > 0 {
        if (run.log.count() as f64) < run.observations {
            let (rows, of) = (run.log.count(), run.observations);
            run.sample.void = Some(format!("the log has {rows} of {of} messages: it was cut"));
        }
        for (name, quantile) in [("p99", 0.99), ("p50", 0.5)] {
            let id = format!("{}_{name}_us", run.of);
            run.sample.measure(Measurement::percentile(&id, &run.log, quantile, 1e3));
        }
        run.sample.histograms = vec![NamedHistogram { name: run.of.to_owned(), histogram: run.log }];
    } else if !run.is_whole && run.sample.void.is_none() {
        run.sample.void = Some("there is no summary: the run was cut or failed".to_owned());
    }
    run.sample
}
