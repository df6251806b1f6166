//! HammerDB: its log, the output of its jobs, and the time profiles of both profilers (etprof, xtprof).

use super::{Kind, metric};
use crate::json::Node;
use crate::number::{ValueRange, leading, leading_ns, length_ns, number};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::{Measurement, Meta, Metric, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "hammerdb",
        summary: "HammerDB's log of TPROC-C, jobs, and time profiles (xtprof, etprof)",
        docs: "Each `TEST RESULT` is a run, and numbers of virtual users and databases are arms. NOPM is new orders per minute, which is comparable between \
               databases; TPM is a counter of the database, for PostgreSQL commits and rollbacks of all databases of the server, so it is comparable with \
               itself only. Both are means of the whole period, so no distribution is known. A run is void if a virtual user failed, even after a result \
               that looks whole. \
               Of a time profile of xtprof (hdbxtprofile.log, or `jobs JOBID timing` as JSON) the percentiles are those of the summary; the calls are the sum of those of the \
               users, since HammerDB 4.3 to 5.0 counts each call twice in the summary, and in the JSON nothing else is known. Both have the ramp-up. Since 6.0 a \
               percentile is of a sample, by default of 10,000 calls. \
               etprof times the first user only, without the calls in a call, and prints percentiles of windows of 10 s, which cannot be added; its `SAMPLES` is one \
               too large. Its mean is in clicks, which are microseconds on Linux.",
        references: &[
            "HammerDB 4.0, src/postgresql/pgoltp.tcl; hammerdb.com/docs4.0, 9.7 and 10.5",
            "HammerDB 4.12 and 6.0, modules/xtprof-1.0.tm:xttimeproflog, modules/etprof-1.1.tm, modules/jobs-1.0.tm:getjobtiming",
        ],
    },
    looks_like: |head| {
        head.contains("Vuser 1:")
            || head.contains("TEST RESULT : System achieved")
            || head.contains(REPORT)
            || is_timing(head)
    },
    read,
    folder: None,
};

/// A run while it is read.
#[derive(Default)]
struct Run {
    sample: Sample,
    profile: Profile,
}

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let head = input.head(crate::HEAD_BYTES)?;
    let mut results = Results {
        metrics: vec![
            metric("new_orders_per_min", "1/min", Higher, "new orders per minute (NOPM)"),
            metric(
                "transactions_per_min",
                "1/min",
                Higher,
                "transactions per minute, as the database counts them (TPM)",
            ),
        ],
        ..Results::default()
    };
    results.metrics.extend(profile_metrics());
    if is_timing(&head) {
        let document = input.json()?;
        let sample = timing(document.root())?;
        input.keep(&mut results, Some(sample))?;
        results.cautions.push(RAMP_UP.to_owned());
        return Ok(results);
    }
    log(input, &mut results)?;
    Ok(results)
}

fn log(input: &mut Input<'_>, results: &mut Results) -> Result<(), Problem> {
    let mut run: Option<Run> = None;
    while let Some(line) = input.line()? {
        if line.contains("Beginning rampup time of ") {
            input.keep(results, run.replace(Run::default()).map(whole))?;
        } else if let Some((database, _)) = line.split_once(REPORT) {
            input.keep(results, run.replace(Run::default()).map(whole))?;
            let run = run.get_or_insert_default();
            run.profile.is_report = true;
            run.sample.labels.insert("database".to_owned(), database.trim().to_owned());
        } else if let Some((_, minutes)) = line.split_once("Timing test period of ") {
            run.get_or_insert_default().sample.length_ns = Some(leading_ns(input, minutes, 60e9)?);
        } else if let Some((users, _)) = line.split_once(" Active Virtual Users configured") {
            let users = users.rsplit([':', '"', ' ']).next().unwrap_or_default();
            run.get_or_insert_default().sample.labels.insert("users".to_owned(), users.to_owned());
        } else if let Some((_, result)) = line.split_once("TEST RESULT : System achieved ") {
            let run = run.get_or_insert_default();
            if !run.sample.measurements.is_empty() {
                input.keep(results, Some(whole(std::mem::take(run))))?;
            }
            achieved(input, result, &mut run.sample)?;
        } else if line.contains("FINISHED FAILED") {
            let sample = &mut run.get_or_insert_default().sample;
            sample.void.get_or_insert_with(|| format!("{}: a virtual user failed", line.trim()));
        } else if let Some(run) = &mut run {
            run.profile.of_line(input, &line, &mut run.sample)?;
        }
    }
    input.keep(results, run.map(whole))?;
    let has = |id: &str| results.samples.iter().flat_map(|sample| &sample.measurements).any(|m| m.metric == id);
    if has("transactions_per_min") {
        let caution = "HammerDB's TPM is a counter of the database: it is comparable with itself only.";
        results.cautions.push(caution.to_owned());
    }
    if profile_metrics().iter().any(|metric| has(&metric.id)) {
        results.cautions.push(RAMP_UP.to_owned());
    }
    Ok(())
}

/// `8043 NOPM from 16365 Oracle TPM`, and before version 4 `0 Oracle TPM at 27975 NOPM`.
fn achieved(input: &Input<'_>, result: &str, sample: &mut Sample) -> Result<(), Problem> {
    let words: Vec<&str> = result.trim_end_matches(['"', ',']).split_whitespace().collect();
    let (orders, transactions, database) = match words.as_slice() {
        [orders, "NOPM", "from", transactions, database @ .., "TPM"] => (orders, transactions, database),
        [transactions, database @ .., "TPM", "at", orders, "NOPM"] => (orders, transactions, database),
        _ => return Err(input.problem(format!("{result:?} has no NOPM and TPM: the line was cut"))),
    };
    sample.labels.insert("database".to_owned(), database.join(" "));
    let (orders, transactions) = (number(input, orders)?, number(input, transactions)?);
    sample.measurements.push(Measurement::new("new_orders_per_min", orders));
    sample.measurements.push(match transactions {
        0.0 if orders > 0.0 => Measurement::absent("transactions_per_min", "the counter of the database was not read"),
        _ => Measurement::new("transactions_per_min", transactions),
    });
    Ok(())
}

fn whole(run: Run) -> Sample {
    run.profile.finish(run.sample).or_void("there is no result: the run was cut or failed")
}

/// How a report of xtprof begins, after the name of the database.
const REPORT: &str = "Hammerdb Time Profile Report @";

const RAMP_UP: &str = "HammerDB times calls from the start of its users: those of the ramp-up are in the latencies.";

/// Procedures as HammerDB names them, in lower or upper case, and as metrics name them.
const PROCEDURES: &[(&str, &str)] = &[
    ("neword", "new_order"),
    ("payment", "payment"),
    ("delivery", "delivery"),
    ("slev", "stock_level"),
    ("ostat", "order_status"),
];

/// Times of a procedure: the key in a report, that in JSON, the end of the metric, its quantile, its meaning.
const TIMES: &[(&str, &str, &str, Option<f64>, &str)] = &[
    ("P99", "p99_ms", "latency_p99_ms", Some(0.99), "99 of 100 calls took at most this"),
    ("P95", "p95_ms", "latency_p95_ms", Some(0.95), "95 of 100 calls took at most this"),
    ("P50", "p50_ms", "latency_p50_ms", Some(0.5), "half of the calls took at most this"),
    ("AVG", "avg_ms", "latency_mean_ms", None, "mean time of a call"),
    ("MAX", "max_ms", "latency_max_ms", None, "time of the longest call"),
];

fn procedure(name: &str) -> Option<&'static str> {
    PROCEDURES.iter().find(|(of, _)| of.eq_ignore_ascii_case(name.trim())).map(|(_, id)| *id)
}

fn profile_metrics() -> Vec<Metric> {
    let of = |(_, id): &(&str, &str)| {
        let named = |summary: &str| format!("{summary} ({})", id.replace('_', " "));
        let times = TIMES
            .iter()
            .map(|(_, _, end, _, summary)| metric(&format!("{id}_{end}"), "ms", Lower, &named(summary)))
            .collect::<Vec<_>>();
        let calls = metric(&format!("{id}_calls_per_s"), "1/s", Higher, &named("calls per second, with the ramp-up"));
        times.into_iter().chain([calls])
    };
    PROCEDURES.iter().flat_map(of).collect()
}

/// A time as a measurement; `calls` is what a percentile rests on.
fn time(id: &str, end: &str, quantile: Option<f64>, ms: f64, calls: f64) -> Measurement {
    let id = format!("{id}_{end}");
    match quantile {
        Some(quantile) => Measurement::percentile_of(&id, ms, quantile, calls),
        None => Measurement::new(id, ms),
    }
}

/// What a profiler says of a procedure.
#[derive(Default)]
struct Procedure {
    id: &'static str,
    /// The sum of those of the single users.
    calls_of_users: f64,
    /// Those of the summary, each counted twice by HammerDB 4.3 to 5.0.
    calls: f64,
    /// Times of the summary, by their place in [`TIMES`].
    times_ms: Vec<(usize, f64)>,
    /// The mean of etprof.
    mean_ms: Option<f64>,
    /// 99th percentiles of the windows of etprof.
    windows_p99_ms: ValueRange,
}

/// A time profile while it is read.
#[derive(Default)]
struct Profile {
    /// A report of xtprof has begun.
    is_report: bool,
    in_summary: bool,
    is_whole: bool,
    elapsed_s: f64,
    /// Which of `procedures` the next lines are of.
    current: Option<usize>,
    procedures: Vec<Procedure>,
}

impl Profile {
    fn of(&mut self, id: &'static str) -> usize {
        self.procedures.iter().position(|known| known.id == id).unwrap_or_else(|| {
            self.procedures.push(Procedure { id, ..Procedure::default() });
            self.procedures.len() - 1
        })
    }

    fn of_line(&mut self, input: &Input<'_>, line: &str, sample: &mut Sample) -> Result<(), Problem> {
        if !self.is_report {
            return self.of_etprof(input, line);
        }
        if let Some(name) = line.strip_prefix(">>>>> PROC: ") {
            self.current = procedure(name).map(|id| self.of(id));
        } else if let Some(part) = line.strip_prefix(">>>>> ") {
            let (whose, elapsed) =
                part.split_once("ELAPSED TIME : ").ok_or_else(|| input.problem("no elapsed time: the line was cut"))?;
            self.elapsed_s = leading(input, elapsed)? / 1e3;
            if let Some(users) = whose.strip_prefix("SUMMARY OF ") {
                self.in_summary = true;
                let users = users.split_whitespace().next().unwrap_or_default();
                sample.labels.insert("users".to_owned(), users.to_owned());
                sample.length_ns = Some(length_ns(self.elapsed_s, 1e9, |why| input.problem(why))?);
            }
        } else if line.starts_with("CALLS: ") || line.starts_with("P99: ") {
            self.numbers(input, line)?;
        } else if line.starts_with("+-+-") {
            self.is_whole = self.in_summary;
        } else if !line.trim().is_empty() && !self.is_whole {
            return Err(input.problem(format!("{line:?}: no line of a report of xtprof")));
        }
        Ok(())
    }

    /// `CALLS: 15738\tMIN: 0.330ms\t…`, `P99: 8.909ms\t…`
    fn numbers(&mut self, input: &Input<'_>, line: &str) -> Result<(), Problem> {
        for part in line.split('\t').filter(|part| !part.trim().is_empty()) {
            let (key, value) = part
                .split_once(": ")
                .ok_or_else(|| input.problem(format!("{part:?} has no number: the line was cut")))?;
            let value = leading(input, value)?;
            let Some(of) = self.current.and_then(|at| self.procedures.get_mut(at)) else { continue };
            match (key, TIMES.iter().position(|(of, ..)| *of == key)) {
                ("CALLS", _) if self.in_summary => of.calls = value,
                ("CALLS", _) => of.calls_of_users += value,
                (_, Some(at)) if self.in_summary && of.times_ms.iter().any(|(known, _)| *known == at) => {
                    return Err(input.problem(format!("{key} of {} is twice in the summary", of.id)));
                }
                (_, Some(at)) if self.in_summary => of.times_ms.push((at, value)),
                _ => {}
            }
        }
        Ok(())
    }

    /// `Vuser 2:|neword|MIN-313|P50%-718.5|…`, and the table at the end: `|neword| 18722715|33.91%| 14427| 1297| 19430961|`
    fn of_etprof(&mut self, input: &Input<'_>, line: &str) -> Result<(), Problem> {
        let Some((before, row)) = line.trim_end_matches(['"', ',']).split_once('|') else { return Ok(()) };
        if !(before.is_empty() || before.ends_with([':', '"'])) {
            return Ok(());
        }
        let fields: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
        let [name, numbers @ ..] = fields.as_slice() else { return Ok(()) };
        let Some(id) = procedure(name) else { return Ok(()) };
        let at = self.of(id);
        match numbers {
            [total, share, calls, _, _] if share.ends_with('%') => {
                leading(input, share)?;
                let (total_us, calls) = (number(input, total)?, number(input, calls)?);
                self.procedures[at].mean_ms = Some(total_us / calls / 1e3).filter(|mean| mean.is_finite());
            }
            [min, .., p99, _, _] if min.starts_with("MIN-") => {
                for text in numbers {
                    leading(input, text.split_once('-').map_or("", |(_, value)| value))?;
                }
                let p99 = p99.strip_prefix("P99%-").ok_or_else(|| input.problem(format!("{p99:?} is no P99%")))?;
                self.procedures[at].windows_p99_ms.extend([leading(input, p99)? / 1e3]);
            }
            _ => return Err(input.problem(format!("{} of 5 or 6 numbers: the line was cut", numbers.len()))),
        }
        Ok(())
    }

    fn finish(self, mut sample: Sample) -> Sample {
        if self.is_report && !self.is_whole {
            sample.void.get_or_insert_with(|| "the report has no whole summary of its users: it was cut".to_owned());
        }
        for of in &self.procedures {
            let calls = if of.calls_of_users > 0.0 { of.calls_of_users } else { of.calls };
            for (at, ms) in &of.times_ms {
                let (_, _, end, quantile, _) = TIMES[*at];
                sample.measurements.push(time(of.id, end, quantile, *ms, calls));
            }
            if self.is_report && self.elapsed_s > 0.0 {
                sample.measurements.push(Measurement::new(format!("{}_calls_per_s", of.id), calls / self.elapsed_s));
            }
            if let Some((least, most)) = of.windows_p99_ms.ends() {
                let windows = of.windows_p99_ms.count;
                let why = "etprof prints it of windows of 10 s, which cannot be added";
                sample.measurements.push(Measurement::absent(format!("{}_latency_p99_ms", of.id), why));
                sample.notes.push(format!("{}: p99 of {windows} windows of {least} to {most} ms", of.id));
            }
            let mean = of.mean_ms.map(|mean| Measurement::new(format!("{}_latency_mean_ms", of.id), mean));
            sample.measurements.extend(mean);
        }
        sample
    }
}

/// What `jobs JOBID timing` prints, of a job with or without a profile.
fn is_timing(head: &str) -> bool {
    head.trim_start().starts_with('{') && (head.contains("\"ratio_pct\"") || head.contains(NO_PROFILE))
}

/// HammerDB makes names and values of the words of its message.
const NO_PROFILE: &str = "\"Jobid\": \"has\"";

fn timing(root: Node<'_>) -> Result<Sample, Problem> {
    let mut sample = Sample::default();
    for (name, of) in root.members()? {
        if of.text_of("Jobid") == Some("has") {
            return Err(of
                .problem(format!("job {name} has no time profile"))
                .hint("run it with the time profile of the driver (pg_timeprofile true) and the profiler xtprof"));
        }
        let Some(id) = procedure(name) else { continue };
        let (calls, elapsed_s) = (of.need("calls")?.number()?, of.need("elapsed_ms")?.number()? / 1e3);
        sample.length_ns = Some(length_ns(elapsed_s, 1e9, |why| of.problem(why))?);
        // Since 6.0 there is a 75th percentile, and each call is counted once.
        let is_once = of.get("p75_ms").is_some();
        let known = if is_once { calls } else { calls / 2.0 };
        for (_, key, end, quantile, _) in TIMES {
            sample.measurements.push(time(id, end, *quantile, of.need(key)?.number()?, known));
        }
        let rate = format!("{id}_calls_per_s");
        sample.measurements.push(match is_once && elapsed_s > 0.0 {
            true => Measurement::new(rate, calls / elapsed_s),
            false => Measurement::absent(rate, "HammerDB before 6.0 counts each call of all users twice here"),
        });
    }
    match sample.measurements.is_empty() {
        true => Err(root.problem("no procedure of TPROC-C is in it")),
        false => Ok(sample),
    }
}
