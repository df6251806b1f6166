//! uperf: what its master prints, with its raw intervals (`-R`).

use super::{Kind, metric};
use crate::number::{leading, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::Higher;
use holdup_model::{Measurement, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "uperf",
        summary: "uperf's output, best with raw intervals (-R)",
        docs: "With `-R` the rates are those of the transaction that moved most data, from its first to its last line. Without it they are of the master's line, \
               whose time has connecting, disconnecting and a second between transactions too. Its bytes are 1024-based and its bits 1000-based. Its column \
               of errors is a share that may be 0 although there were some: a run with errors is void. uperf prints no percentile. The master counts what it \
               gave to its sockets; with UDP the slave's line says what arrived.",
        references: &["uperf 1.0.8 (c93e902), src/print.c, src/stats.c"],
    },
    looks_like: |head| head.contains("running profile:") || head.contains("name:Txn") || head.contains("Txn1 "),
    read,
    folder: None,
};

/// A transaction: its first and last line.
#[derive(Default, Clone)]
struct Transaction {
    name: String,
    first: Option<[f64; 3]>,
    last: [f64; 3],
}

/// A run while it is read.
#[derive(Default)]
struct Run {
    sample: Sample,
    transactions: Vec<Transaction>,
    is_whole: bool,
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results {
        metrics: vec![
            metric("bits_per_s", "bit/s", Higher, "data per second, of the master"),
            metric("operations_per_s", "1/s", Higher, "operations per second, of the master"),
            metric("received_bits_per_s", "bit/s", Higher, "data per second, of the slave"),
        ],
        ..Results::default()
    };
    let (mut run, mut has_raw) = (None::<Run>, false);
    while let Some(line) = input.line()? {
        // Live lines end with a carriage return, and the last of them begins the next line.
        let line = line.rsplit('\r').next().unwrap_or(&line);
        if let Some((begin, profile)) = line.split_once(" running profile:") {
            results.samples.extend(run.take().map(finish));
            let run = run.get_or_insert_default();
            let profile = profile.split(" ...").next().unwrap_or(profile);
            run.sample.labels.insert("profile".to_owned(), profile.trim().to_owned());
            run.sample.labels.extend(begin.strip_prefix("Starting ").map(|of| ("strands".to_owned(), of.to_owned())));
        } else if let Some(rest) = line.strip_prefix("timestamp_ms:") {
            has_raw = true;
            raw(input, rest, run.get_or_insert_default())?;
        } else if let Some(run) = &mut run {
            of_line(input, line, run)?;
        }
    }
    results.samples.extend(run.map(finish));
    if !has_raw {
        results
            .cautions
            .push("Without -R the time of uperf has connecting and the steps between transactions too.".to_owned());
    }
    Ok(results)
}

/// `1795283804373.4333 name:Txn2 nr_bytes:0 nr_ops:0`.
fn raw(input: &Input<'_>, rest: &str, run: &mut Run) -> Result<(), Problem> {
    let words: Vec<&str> = rest.split_whitespace().collect();
    let [time, name, bytes, operations] = words[..] else {
        return Err(input.problem(format!("{} of 4 words: the line was cut", words.len())));
    };
    let value = |text: &str, name: &str| match text.strip_prefix(name) {
        Some(text) => number(input, text),
        None => Err(input.problem(format!("{text:?} does not begin with {name}"))),
    };
    let at = [number(input, time)?, value(bytes, "nr_bytes:")?, value(operations, "nr_ops:")?];
    let name = name.strip_prefix("name:").ok_or_else(|| input.problem("there is no name: in it"))?;
    if name == "Total" {
        return Ok(());
    }
    match run.transactions.iter_mut().find(|transaction| transaction.name == name) {
        Some(known) => known.last = at,
        None => run.transactions.push(Transaction { name: name.to_owned(), first: Some(at), last: at }),
    }
    Ok(())
}

fn of_line(input: &Input<'_>, line: &str, run: &mut Run) -> Result<(), Problem> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_error = line.starts_with("** ") || line.contains("Errors detected") || line.starts_with("flag_error");
    match words.as_slice() {
        _ if is_error => {
            run.sample.void.get_or_insert_with(|| line.trim().to_owned());
        }
        [host, time, _, rate, operations, errors] if time.ends_with('s') && leading(input, errors).is_ok() => {
            let (Ok(time_s), Ok(operations)) = (leading(input, time), number(input, operations)) else { return Ok(()) };
            if *host != "master" {
                run.sample.measurements.push(Measurement::new("received_bits_per_s", bits(input, rate)?));
                return Ok(());
            }
            run.is_whole = true;
            run.sample.length_ns = Some((time_s * 1e9) as u64);
            run.sample.measurements.push(Measurement::new("bits_per_s", bits(input, rate)?));
            if time_s > 0.0 {
                run.sample.measurements.push(Measurement::new("operations_per_s", operations / time_s));
            }
        }
        _ => {}
    }
    Ok(())
}

/// `14.42Gb/s`: 1000-based.
fn bits(input: &Input<'_>, text: &str) -> Result<f64, Problem> {
    let factor =
        [("Gb/s", 1e9), ("Mb/s", 1e6), ("Kb/s", 1e3), ("b/s", 1.0)].iter().find(|(unit, _)| text.ends_with(unit));
    match factor {
        Some((_, factor)) => Ok(leading(input, text)? * factor),
        None if text == "0" => Ok(0.0),
        None => Err(input.problem(format!("{text:?} has no unit that is known: Gb/s, Mb/s, Kb/s, b/s"))),
    }
}

fn finish(mut run: Run) -> Sample {
    let moved = |one: &Transaction| one.first.map_or(0.0, |first| one.last[1] - first[1]);
    let most = run.transactions.iter().max_by(|a, b| moved(a).total_cmp(&moved(b))).cloned();
    if let Some((first, last)) =
        most.and_then(|one| Some((one.first?, one.last))).filter(|(first, last)| last[0] > first[0])
    {
        let seconds = (last[0] - first[0]) / 1e3;
        let sample = &mut run.sample;
        sample.measurements.retain(|m| m.metric == "received_bits_per_s");
        sample.measurements.push(Measurement::new("bits_per_s", (last[1] - first[1]) * 8.0 / seconds));
        sample.measurements.push(Measurement::new("operations_per_s", (last[2] - first[2]) / seconds));
        sample.begin_unix_ns = Some((first[0] * 1e6) as i64);
        sample.length_ns = Some((seconds * 1e9) as u64);
    }
    if !run.is_whole && run.sample.void.is_none() {
        run.sample.void = Some("there is no line of the master at its end: the run was cut".to_owned());
    }
    run.sample
}
