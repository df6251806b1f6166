//! stress-ng's YAML.

use super::Kind;
use crate::number::{Row, leading, leading_ns, measured, metrics_of};
use crate::{Input, Results, Sample};
use holdup_model::Direction::{Higher, Lower};
use holdup_model::{Fact, Meta, Problem};

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "stress-ng",
        summary: "stress-ng's YAML (--yaml with --metrics)",
        docs: "Each stressor of a file is a run and a workload. Its bogo operations per second are of the real time. stress-ng's manual says that a bogo operation is \
               no measure for a benchmark: what one does changes with the version, so compare files of one version. Stressors of one file may have run at \
               the same time. Metrics of single stressors do not say which direction is better: they are notes.",
        references: &["stress-ng 0.15.06, stress-ng.c:stress_metrics_dump; stress-ng(1), --metrics"],
    },
    looks_like: |head| head.contains("stress-ng-version:"),
    read,
    folder: None,
};

const ROWS: &[Row] = &[
    ("bogo-ops-per-second-real-time: ", "bogo_operations_per_s", "1/s", Higher, "bogo operations per second"),
    (
        "bogo-ops-per-second-usr-sys-time: ",
        "bogo_operations_per_cpu_s",
        "1/s",
        Higher,
        "bogo operations per second of CPU time",
    ),
    ("max-rss: ", "resident_max_kb", "KB", Lower, "largest resident set"),
];

/// Keys of a stressor that are no metrics of its work.
const OTHER: &[&str] = &["bogo-ops", "wall-clock-time", "user-time", "system-time", "cpu-usage-per-instance"];

/// Facts of the host by their keys.
const FACTS: &[(&str, &str)] = &[
    ("release", "kernel.release"),
    ("hostname", "host.name"),
    ("machine", "host.machine"),
    ("cpus-online", "cpu.online"),
    ("stress-ng-version", "stress-ng.version"),
];

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let mut results = Results { metrics: metrics_of(ROWS), ..Results::default() };
    let (mut section, mut begin_s) = (String::new(), None);
    let mut is_whole = true;
    while let Some(line) = input.line()? {
        let text = line.trim_start();
        if line == "---" || line == "..." {
            is_whole = line == "...";
            section.clear();
        } else if text.len() == line.len() && text.ends_with(':') {
            section = text.trim_end_matches(':').to_owned();
        } else if let Some((key, value)) = text.split_once(':').filter(|_| !text.starts_with("- ")) {
            let value = value.trim().trim_matches('\'');
            match section.as_str() {
                "system-info" => {
                    let key = FACTS.iter().find(|(name, _)| *name == key);
                    key.iter().for_each(|_| input.keep_line());
                    results.facts.extend(key.map(|(_, key)| Fact::read(*key, value, "stress-ng --yaml")));
                    if let Some(seconds) = text.strip_prefix("epoch-secs:") {
                        begin_s = Some(leading(input, seconds)?);
                    }
                }
                "metrics" => {
                    let Some(sample) = results.samples.last_mut() else {
                        return Err(input.problem("a metric before any stressor: the file is damaged"));
                    };
                    match measured(input, text, ROWS)? {
                        Some(measurement) => sample.measure(measurement),
                        None if key == "wall-clock-time" => {
                            sample.length_ns = Some(leading_ns(input, value, 1e9)?);
                        }
                        None if OTHER.contains(&key) => {}
                        None => {
                            input.keep_line();
                            sample.notes.push(format!("{key}: {value}"));
                        }
                    }
                }
                _ => {}
            }
        } else if let Some(stressor) = text.strip_prefix("- stressor:").filter(|_| section == "metrics") {
            let sample = Sample {
                labels: [("benchmark".to_owned(), stressor.trim().to_owned())].into(),
                begin_unix_ns: begin_s.map(|seconds: f64| (seconds * 1e9) as i64),
                ..Sample::default()
            };
            input.keep(&mut results, Some(sample))?;
        }
    }
    if let Some(last) = results.samples.last_mut().filter(|_| !is_whole) {
        last.void = Some("the file ends without its last line (`...`): it was cut".to_owned());
    }
    results
        .cautions
        .push("What a bogo operation does changes with the version of stress-ng: compare one version.".to_owned());
    if results.samples.len() > 1 {
        results.cautions.push("Stressors of one file may have run at the same time.".to_owned());
    }
    Ok(results)
}
