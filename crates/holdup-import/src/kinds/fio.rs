//! fio's JSON, with and without bins.

use super::{Kind, metric};
use crate::json::Node;
use crate::number::parse;
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::trial::NamedHistogram;
use holdup_model::{Fact, Histogram, Measurement, Meta, Problem};
use std::collections::BTreeMap;

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "fio",
        summary: "fio's JSON of all versions (--output-format=json, json+)",
        docs: "Jobs of one name and group are one run: their rates are added, and with json+ their distributions; without bins a percentile of several jobs \
               cannot be known. Percentiles are of the time to completion (clat), which does not have the time to submit; with `lat_percentiles=1` they \
               are of both. A rate is of the time in which that direction ran, with the ramp left out. Without `rate` fio is a closed loop: an operation \
               that is late delays those behind it. \
               Before 3.0 times are whole microseconds: a percentile of 0 is absent, and not 0. Before 2.2.6 rates are cut to whole operations; before 2.21 data \
               per second is cut to whole KiB.",
        references: &[
            "fio 3.33, stat.c:add_ddir_status_json, show_thread_status_json; HOWTO, \"JSON+ output\"",
            "fio 2.1 and 2.21, stat.c:add_ddir_status_json; 9966af7b (total_ios), 9f68fe3a (iops), c12d597a (io_bytes)",
        ],
    },
    looks_like: |head| head.contains("\"fio version\"") && head.contains('{'),
    read,
    folder: None,
};

/// Of `mixed` are all of a job with `unified_rw_reporting`.
const DIRECTIONS: &[&str] = &["read", "write", "trim", "mixed"];

/// The options that distinguish arms.
const OPTIONS: &[&str] = &["rw", "bs", "iodepth", "ioengine", "numjobs", "direct", "rate_iops", "rate"];

/// What is known of a direction of a run.
#[derive(Default)]
struct Direction {
    iops: f64,
    bytes_per_s: f64,
    operations: f64,
    latency_sum_ns: f64,
    length_ms: f64,
    /// The 99th percentile, if one job alone says it.
    p99_ns: Option<f64>,
    bins: Histogram,
    is_total: bool,
    jobs: u32,
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let document = input.json()?;
    let root = document.root();
    let version = root.need("fio version")?;
    let mut results = Results::default();
    for one in DIRECTIONS {
        let mut add = |id: &str, unit: &str, better, summary: &str| {
            results.metrics.push(metric(&format!("{one}_{id}"), unit, better, &format!("{summary} ({one})")));
        };
        add("iops", "1/s", Higher, "operations per second");
        add("bytes_per_s", "B/s", Higher, "data per second");
        add("completion_p99_us", "us", Lower, "99 of 100 operations were completed within this of their submission");
        add("latency_p99_us", "us", Lower, "99 of 100 operations took at most this");
        add("latency_mean_us", "us", Lower, "mean time of an operation, with its submission");
    }
    results.facts.push(Fact::read("fio.version", version.text()?, "fio JSON"));
    let jobs: Vec<Node<'_>> = root.need("jobs")?.items()?.collect();
    let (mut groups, mut places) = (Vec::<(&str, Vec<Node<'_>>)>::new(), BTreeMap::new());
    for job in jobs {
        let name = job.need("jobname")?.text()?;
        let key = (name, job.get("groupid").map(Node::shown).unwrap_or_default());
        let place = *places.entry(key).or_insert_with(|| {
            groups.push((name, Vec::new()));
            groups.len() - 1
        });
        groups[place].1.push(job);
    }
    if groups.len() > 1 {
        results.cautions.push(
            "Jobs of one file ran at the same time, unless one waited for another (stonewall): they are no independent runs."
                .to_owned(),
        );
    }
    for (name, jobs) in groups {
        input.keep(&mut results, Some(sample(name, &jobs, root)?))?;
    }
    results.cautions.push("Without a rate fio is a closed loop: percentiles are too good.".to_owned());
    Ok(results)
}

fn sample(name: &str, jobs: &[Node<'_>], root: Node<'_>) -> Result<Sample, Problem> {
    let mut sample = Sample::default();
    sample.labels.insert("job".to_owned(), name.to_owned());
    let options = jobs.iter().filter_map(|job| job.get("job options")).chain(root.get("global options"));
    for options in options {
        for option in OPTIONS {
            if let Some(value) = options.get(option) {
                sample.labels.entry((*option).to_owned()).or_insert_with(|| value.shown());
            }
        }
    }
    for job in jobs {
        if let Some(error) = job.number_of("error")?.filter(|error| *error != 0.0) {
            sample.void = Some(format!("a job ended with error {error}"));
        }
    }
    let mut length_ms: f64 = 0.0;
    for one in DIRECTIONS {
        let mut all = Direction::default();
        for job in jobs {
            if let Some(of) = job.get(one) {
                add(of, &mut all)?;
            }
        }
        if all.operations > 0.0 {
            length_ms = length_ms.max(all.length_ms);
            measure(one, all, &mut sample);
        }
    }
    sample.length_ns = Some((length_ms * 1e6) as u64);
    Ok(sample.or_void("no operation was completed"))
}

/// Adds a job.
fn add(of: Node<'_>, all: &mut Direction) -> Result<(), Problem> {
    let iops = of.need("iops")?.number()?;
    let runtime_ms = of.need("runtime")?.number()?;
    // Before version 2.1.14 only the rate is printed.
    let operations = of.number_of("total_ios")?.unwrap_or((iops * runtime_ms / 1e3).round());
    if operations == 0.0 {
        return Ok(());
    }
    all.jobs += 1;
    all.operations += operations;
    all.iops += iops;
    all.bytes_per_s += bytes_per_s(of, runtime_ms)?;
    all.length_ms = all.length_ms.max(runtime_ms);
    // Before version 3.0 times are microseconds, and their members do not name the unit.
    let (total, completion, unit_ns) =
        if of.get("lat").is_some() { ("lat", "clat", 1e3) } else { ("lat_ns", "clat_ns", 1.0) };
    let latency = of.need(total)?;
    all.latency_sum_ns += latency.need("mean")?.number()? * unit_ns * operations;
    all.is_total = latency.get("percentile").is_some();
    let distribution = if all.is_total { Some(latency) } else { of.get(completion) };
    let Some(distribution) = distribution else { return Ok(()) };
    if let Some(bins) = distribution.get("bins") {
        for (time, count) in bins.members()? {
            let ns = parse(time, |why| count.problem(why))? * unit_ns;
            all.bins.record_n_ns(ns as u64, count.samples()?);
        }
    }
    if let Some(percentiles) = distribution.get("percentile") {
        all.p99_ns = percentiles.number_of("99.000000")?.map(|time| time * unit_ns);
    }
    Ok(())
}

/// `bw_bytes` is of 3.0 and later. `bw` is in whole KiB/s; `io_bytes` is in bytes where there is `io_kbytes` too, else in KiB.
fn bytes_per_s(of: Node<'_>, runtime_ms: f64) -> Result<f64, Problem> {
    if let Some(rate) = of.number_of("bw_bytes")? {
        return Ok(rate);
    }
    match of.number_of("io_bytes")?.filter(|_| of.get("io_kbytes").is_some() && runtime_ms > 0.0) {
        Some(bytes) => Ok(bytes * 1e3 / runtime_ms),
        None => Ok(of.need("bw")?.number()? * 1024.0),
    }
}

const BELOW: &str = "less than 1 us, which fio before 3.0 prints as 0";

fn measure(name: &str, of: Direction, sample: &mut Sample) {
    let id = |what: &str| format!("{name}_{what}");
    let p99 = id(if of.is_total { "latency_p99_us" } else { "completion_p99_us" });
    let value = match of.p99_ns {
        _ if of.bins.count() > 0 => Measurement::percentile(&p99, &of.bins, 0.99, 1e3),
        _ if of.jobs > 1 => {
            Measurement::absent(&*p99, "of several jobs, and without bins (json+) they cannot be added")
        }
        Some(ns) => Measurement::percentile_of(&p99, ns / 1e3, 0.99, of.operations),
        None => Measurement::absent(&*p99, "the file does not say it"),
    };
    sample.measurements.extend([
        Measurement::new(id("iops"), of.iops),
        Measurement::new(id("bytes_per_s"), of.bytes_per_s),
        if value.value.value() == Some(0.0) { Measurement::absent(p99, BELOW) } else { value },
        Measurement::new(id("latency_mean_us"), of.latency_sum_ns / of.operations / 1e3),
    ]);
    if of.bins.count() > 0 {
        let name = id(if of.is_total { "latency" } else { "completion" });
        sample.histograms.push(NamedHistogram { name, histogram: of.bins });
    }
}
