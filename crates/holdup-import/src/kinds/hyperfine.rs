//! hyperfine's JSON.

use super::{Kind, metric};
use crate::{Input, Results, Sample};
use holdup_model::Direction::Lower;
use holdup_model::{Measurement, Meta, Problem};
use serde_json::Value;

pub(super) const KIND: Kind = Kind {
    meta: Meta {
        id: "hyperfine",
        summary: "hyperfine's JSON (--export-json)",
        docs: "Each time is a run of its command, and each command an arm, with the parameters of a scan as labels. Commands ran one after the other, so what \
               drifted meanwhile is in the difference. A run that failed (`--ignore-failure`) does not count.",
        references: &["hyperfine 1.15, src/export/json.rs"],
    },
    looks_like: |head| {
        head.trim_start().starts_with('{')
            && head.contains("\"results\"")
            && head.contains("\"command\"")
            && head.contains("\"stddev\"")
    },
    read,
};

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let document = input.json()?;
    let mut results =
        Results { metrics: vec![metric("time_s", "s", Lower, "time of the command")], ..Results::default() };
    let commands =
        document["results"].as_array().ok_or_else(|| Problem::usage(input.name(), "it has no list `results`"))?;
    for (n, one) in commands.iter().enumerate() {
        let command = one["command"]
            .as_str()
            .ok_or_else(|| Problem::usage(input.name(), format!("result {n} has no command")))?;
        let Some(times) = one["times"].as_array() else {
            return Err(Problem::usage(input.name(), format!("result {n} has no `times`: only its mean is known"))
                .hint("hyperfine 1.0 and later writes them; a mean alone cannot be compared"));
        };
        let codes = one["exit_codes"].as_array();
        let mut labels = vec![("command".to_owned(), command.to_owned())];
        labels.extend(
            one["parameters"]
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))),
        );
        for (run, time) in times.iter().enumerate() {
            let seconds = time
                .as_f64()
                .ok_or_else(|| Problem::usage(input.name(), format!("result {n}, run {run}: {time} is no time")))?;
            let code = codes.and_then(|codes| codes.get(run)).filter(|code| code.as_i64() != Some(0));
            results.samples.push(Sample {
                labels: labels.iter().cloned().collect(),
                length_ns: Some((seconds * 1e9) as u64),
                measurements: vec![Measurement::new("time_s", seconds)],
                void: code.map(ended),
                ..Sample::default()
            });
        }
    }
    if commands.len() > 1 {
        results.cautions.push(
            "hyperfine runs all of one command before the next: what drifted meanwhile is in the difference."
                .to_owned(),
        );
    }
    Ok(results)
}

fn ended(code: &Value) -> String {
    match code.as_i64() {
        Some(code) => format!("it ended with exit code {code}"),
        None => "it was ended by a signal".to_owned(),
    }
}
