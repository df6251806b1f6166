//! Trials in the benchmark format of Go, which benchstat reads.

use holdup_model::{Analysis, BundleData};
use std::collections::BTreeMap;

/// Lines of the Go benchmark format (golang.org/design/14313-benchmark-format): one for each trial that counts, with
/// every metric that was measured; the levels stand in the name as `key=value`. Void trials and absent values are
/// left out, as the format has no word for them; how many is said in a configuration line.
pub fn benchstat(bundle: &BundleData, analysis: &Analysis) -> String {
    let void = bundle.trials.iter().filter(|t| !t.is_done()).count();
    let caution = analysis.caution.as_ref().map(|c| format!("holdup-emulated: {}\n", one_line(c))).unwrap_or_default();
    let mut out = format!(
        "{caution}holdup-plan: {}\nholdup-run: {}\nholdup-target: {}\nholdup-void-trials: {void}\n",
        one_line(&bundle.plan.name),
        one_line(&bundle.head.run_id),
        one_line(&bundle.head.target),
    );
    let units: BTreeMap<(&str, &str), &str> =
        bundle.metrics.iter().map(|(w, m)| ((w.as_str(), m.id.as_str()), m.unit.as_str())).collect();
    let mut directions: BTreeMap<String, &str> = BTreeMap::new();
    for (_, metric) in &bundle.metrics {
        let better = match metric.better {
            holdup_model::Direction::Higher => "higher",
            holdup_model::Direction::Lower => "lower",
        };
        directions.insert(unit(&metric.id, &metric.unit), better);
    }
    for (unit, better) in directions {
        out.push_str(&format!("Unit {unit} better={better}\n"));
    }
    out.push('\n');
    for trial in bundle.trials.iter().filter(|t| t.is_done()) {
        let Some(arm) = bundle.schedule.arms.iter().find(|a| a.id == trial.arm) else { continue };
        let mut name = format!("Benchmark{}", capital(&word(&arm.workload)));
        for (key, level) in arm.axes.iter().chain(&arm.factors) {
            name.push_str(&format!("/{}={}", word(key), word(&level.label)));
        }
        match arm.replica {
            None => {}
            Some(holdup_model::Replica::Same) => name.push_str("/replica=same"),
            Some(holdup_model::Replica::Unobserved) => name.push_str("/replica=unobserved"),
        }
        let values: Vec<String> = trial
            .measurements
            .iter()
            .filter_map(|m| {
                let of = units.get(&(arm.workload.as_str(), m.metric.as_str())).copied().unwrap_or_default();
                m.value.value().map(|v| format!("{v} {}", unit(&m.metric, of)))
            })
            .collect();
        if !values.is_empty() {
            out.push_str(&format!("{name}{} 1 {}\n", without_procs(&name), values.join(" ")));
        }
    }
    out
}

/// The unit of a value: the metric's id, with the unit where the id does not end in it (`operations_per_s` is in 1/s).
fn unit(id: &str, unit: &str) -> String {
    let ending = unit.strip_prefix("1/").map_or_else(|| unit.to_owned(), |per| format!("per_{per}"));
    let is_in_id = matches!((id, unit), (_, "" | "1") | ("tps", "1/s")) || id.ends_with(&format!("_{ending}"));
    if is_in_id { word(id) } else { word(&format!("{id}:{unit}")) }
}

/// Readers take a number behind a last hyphen for GOMAXPROCS: where a level ends so, they are given one to take.
fn without_procs(name: &str) -> &'static str {
    let ends_in_number = |(_, end): (&str, &str)| !end.is_empty() && end.bytes().all(|b| b.is_ascii_digit());
    if name.rsplit_once('-').is_some_and(ends_in_number) { "-1" } else { "" }
}

/// White space and slashes would end a name or start a part of it.
fn word(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_whitespace() || holdup_model::foreign::is_harmful(c) { '_' } else { c })
        .collect::<String>()
        .replace('/', "∕")
}

fn one_line(text: &str) -> String {
    crate::text::clean(text)
}

/// The format wants a capital letter, or none, after `Benchmark`.
fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|c| c.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
