//! hyperfine's JSON.

use super::{Kind, metric};
use crate::json::Node;
use crate::{Input, Results, Sample};
use holdup_model::Direction::Lower;
use holdup_model::{Measurement, Meta, Problem};

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
    folder: None,
};

fn read(input: &mut Input<'_>) -> Result<Results, Problem> {
    let document = input.json()?;
    let mut results =
        Results { metrics: vec![metric("time_s", "s", Lower, "time of the command")], ..Results::default() };
    let commands = document.root().need("results")?.items()?;
    let several = commands.len() > 1;
    for one in commands {
        let mut labels = vec![("command".to_owned(), one.need("command")?.text()?.to_owned())];
        if let Some(parameters) = one.get("parameters") {
            labels.extend(parameters.members()?.map(|(key, value)| (key.to_owned(), value.shown())));
        }
        let Some(times) = one.get("times") else {
            return Err(one
                .problem("it has no `times`: only its mean is known")
                .hint("hyperfine 1.0 and later writes them; a mean alone cannot be compared"));
        };
        let codes: Vec<Node<'_>> = one.get("exit_codes").map(Node::items).transpose()?.into_iter().flatten().collect();
        for (run, time) in times.items()?.enumerate() {
            let seconds = time.number()?;
            let sample = Sample {
                labels: labels.iter().cloned().collect(),
                length_ns: Some(time.length_ns(1e9)?),
                measurements: vec![Measurement::new("time_s", seconds)],
                void: codes.get(run).and_then(|code| ended(*code)),
                ..Sample::default()
            };
            input.keep(&mut results, Some(sample))?;
        }
    }
    if several {
        results.cautions.push(
            "hyperfine runs all of one command before the next: what drifted meanwhile is in the difference."
                .to_owned(),
        );
    }
    Ok(results)
}

fn ended(code: Node<'_>) -> Option<String> {
    match code.shown().parse::<f64>() {
        Ok(0.0) => None,
        Ok(code) => Some(format!("it ended with exit code {code}")),
        // It is null.
        Err(_) => Some("it was ended by a signal".to_owned()),
    }
}
