//! uperf: what its master prints, with its raw intervals (`-R`), and its log of response times (`-X`).

use super::{Kind, metric};
use crate::number::{leading, length_ns, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Meta, Problem};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "uperf",
        summary: "uperf's output, best with -R and -f, and its response times (-X)",
        docs: "With `-R` the rates are those of the transaction that moved most data, from its first to its last line. Without it they are of the master's line, \
               whose time has connecting, disconnecting and a second between transactions too. Its bytes are 1024-based and its bits 1000-based. Its column \
               of errors is a share that may be 0 although there were some: a run with errors is void. uperf prints no percentile; with `-f` or `-a` the \
               mean and the longest time of each flowop are read. The master counts what it gave to its sockets; with UDP the slave's line says what arrived. \
               A file of `-X` is text, not XML: a line with the end and the time of each flowop of the master. It does not say which flowop, so connecting, thinking, \
               reading and writing are one distribution, and it has no bytes. With `nprocs` the processes overwrite each other's lines: such a file is refused. Use \
               `nthreads`. There is no option `-x`, which the manual of uperf names.",
        references: &["uperf 1.0.8 (c93e902), src/main.c, src/print.c, src/stats.c:flush_history"],
    },
    looks_like: |head| {
        head.contains("running profile:") || head.contains("name:Txn") || head.contains("Txn1 ") || is_history(head)
    },
    read,
    folder: None,
};

/// `pid thread type end_ns time_ns`: the end is since 1970, so it has 19 digits from 2001 to 2286.
fn is_history(head: &str) -> bool {
    let fields: Vec<&str> = head.lines().next().unwrap_or_default().split_whitespace().collect();
    let is_number = |text: &&str| text.bytes().all(|b| b.is_ascii_digit());
    fields.len() == 5 && fields[3].len() == 19 && fields.iter().all(is_number)
}

/// What a flowop of a profile can be.
const FLOWOPS: &[&str] =
    &["read", "write", "connect", "disconnect", "accept", "nop", "think", "send", "recv", "sendfile", "sendfilev"];

/// A transaction: its first and last line.
#[derive(Default, Clone)]
struct Transaction {
    first: Option<[f64; 3]>,
    last: [f64; 3],
}

/// A run while it is read.
#[derive(Default)]
struct Run {
    sample: Sample,
    transactions: Vec<Transaction>,
    /// Their places by name.
    places: BTreeMap<String, usize>,
    /// The next lines are averages of flowops.
    in_flowops: bool,
    /// Number, sum and longest, us, of the flowops of each name: a profile may have several.
    flowops: BTreeMap<String, (f64, f64, f64)>,
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
    if is_history(&input.head(crate::HEAD_BYTES)?) {
        history(input, &mut results)?;
        return Ok(results);
    }
    for flowop in FLOWOPS {
        for (end, summary) in [("mean_us", "mean time"), ("max_us", "longest time")] {
            let (id, summary) = (format!("{flowop}_{end}"), format!("{summary} of a {flowop}"));
            results.metrics.push(metric(&id, "us", Lower, &summary));
        }
    }
    let (mut run, mut has_raw) = (None::<Run>, false);
    while let Some(line) = input.line()? {
        // Live lines end with a carriage return, and the last of them begins the next line.
        let line = line.rsplit('\r').next().unwrap_or(&line);
        if let Some((begin, profile)) = line.split_once(" running profile:") {
            let done = run.take().map(|run| finish(input, run)).transpose()?;
            input.keep(&mut results, done)?;
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
    input.keep(&mut results, run.map(|run| finish(input, run)).transpose()?)?;
    if !has_raw {
        results.cautions.push(WITHOUT_RAW.to_owned());
    }
    Ok(results)
}

const WITHOUT_RAW: &str = "Without -R the time of uperf has connecting and the steps between transactions too.";

const OVERWRITTEN: &str =
    "it does not have a process, a thread, a type, an end and a time: it was cut, or another process wrote into it";

/// Nanoseconds since 1970 are more than an f64 can hold.
fn whole(input: &Input<'_>, text: &str) -> Result<u64, Problem> {
    text.parse().map_err(|_| input.problem(format!("{text:?} is no number of nanoseconds")))
}

fn history(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    let of_times = [
        metric("operation_p99_us", "us", Lower, "99 of 100 flowops took at most this"),
        metric("operation_mean_us", "us", Lower, "mean time of a flowop"),
    ];
    results.metrics.splice(0..0, of_times);
    let (mut times, mut ends, mut processes) = (Histogram::new(), (u64::MAX, 0_u64), BTreeSet::new());
    while let Some(line) = input.line()? {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (process, end, time) = match fields[..] {
            [process, _, _, end, time] if end.len() == 19 => (process, whole(input, end)?, whole(input, time)?),
            _ => return Err(input.problem(OVERWRITTEN).hint("with -X use nthreads, not nprocs, in the profile")),
        };
        ends = (ends.0.min(end), ends.1.max(end));
        times.record_ns(time);
        if !processes.contains(process) {
            input.keep_line();
            processes.insert(process.to_owned());
        }
    }
    let length_ns = ends.1.saturating_sub(ends.0);
    let mean = times.mean_ns().map(|ns| Measurement::new("operation_mean_us", ns / 1e3));
    let measurements = [
        // The first end begins the time that is counted.
        Measurement::per_second("operations_per_s", times.count().saturating_sub(1), length_ns),
        Measurement::percentile("operation_p99_us", &times, 0.99, 1e3),
    ];
    results
        .cautions
        .push("-X does not name flowops: those to connect and to think are in the distribution too.".to_owned());
    if processes.len() > 1 {
        results.cautions.push("Several processes wrote into one file: lines may be missing.".to_owned());
    }
    let sample = Sample {
        begin_unix_ns: i64::try_from(ends.0).ok(),
        length_ns: Some(length_ns),
        measurements: measurements.into_iter().chain(mean).collect(),
        histograms: vec![NamedHistogram { name: "operation".to_owned(), histogram: times }],
        ..Sample::default()
    };
    input.keep(results, Some(sample))
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
    if let Some(known) = run.places.get(name) {
        run.transactions[*known].last = at;
    } else {
        input.keep_line();
        run.places.insert(name.to_owned(), run.transactions.len());
        run.transactions.push(Transaction { first: Some(at), last: at });
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
        [] => run.in_flowops = false,
        ["Flowop", "Count", "avg", "cpu", "max", "min"] => run.in_flowops = true,
        [name, times, mean, _, max, _] if run.in_flowops && FLOWOPS.contains(name) => {
            let (times, mean, max) = (number(input, times)?, micros(input, mean)?, micros(input, max)?);
            let all = run.flowops.entry((*name).to_owned()).or_default();
            *all = (all.0 + times, all.1 + times * mean, all.2.max(max));
        }
        [host, time, _, rate, operations, errors] if time.ends_with('s') && leading(input, errors).is_ok() => {
            let (Ok(time_s), Ok(operations)) = (leading(input, time), number(input, operations)) else { return Ok(()) };
            if *host != "master" {
                run.sample.measure(Measurement::new("received_bits_per_s", bits(input, rate)?));
                return Ok(());
            }
            run.is_whole = true;
            run.sample.length_ns = Some(length_ns(time_s, 1e9, |why| input.problem(why))?);
            run.sample.measure(Measurement::new("bits_per_s", bits(input, rate)?));
            if time_s > 0.0 {
                run.sample.measure(Measurement::new("operations_per_s", operations / time_s));
            }
        }
        _ => {}
    }
    Ok(())
}

/// `44.38us`.
fn micros(input: &Input<'_>, text: &str) -> Result<f64, Problem> {
    let units = [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    match units.iter().find(|(unit, _)| text.ends_with(unit)) {
        Some((_, factor)) => Ok(leading(input, text)? * factor),
        None => Err(input.problem(format!("{text:?} has no unit that is known: ns, us, ms, s"))),
    }
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

fn finish(input: &Input<'_>, mut run: Run) -> Result<Sample, Problem> {
    let moved = |one: &Transaction| one.first.map_or(0.0, |first| one.last[1] - first[1]);
    let most = run.transactions.iter().max_by(|a, b| moved(a).total_cmp(&moved(b))).cloned();
    if let Some((first, last)) =
        most.and_then(|one| Some((one.first?, one.last))).filter(|(first, last)| last[0] > first[0])
    {
        let seconds = (last[0] - first[0]) / 1e3;
        let sample = &mut run.sample;
        sample.measure(Measurement::new("bits_per_s", (last[1] - first[1]) * 8.0 / seconds));
        sample.measure(Measurement::new("operations_per_s", (last[2] - first[2]) / seconds));
        sample.begin_unix_ns = Some((first[0] * 1e6) as i64);
        sample.length_ns = Some(length_ns(seconds, 1e9, |why| input.problem(why))?);
    }
    for (name, (times, sum_us, max_us)) in run.flowops.into_iter().filter(|(_, (times, ..))| *times > 0.0) {
        run.sample.measurements.push(Measurement::new(format!("{name}_mean_us"), sum_us / times));
        run.sample.measurements.push(Measurement::new(format!("{name}_max_us"), max_us));
    }
    if !run.is_whole && run.sample.void.is_none() {
        run.sample.void =
            Some("there is no line of the master at its end: the run was cut, or had no statistics (-n)".to_owned());
    }
    Ok(run.sample)
}
