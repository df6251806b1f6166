//! The file format of speedscope.

use super::{marked, task_name};
use holdup_model::StackProfile;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A file by the schema that it names (type `sampled`), with a profile for each task name, the heaviest first. Weights
/// are nanoseconds where the profile says how long a sample stands for or counts times, and plain numbers else. A frame that the profile does not have is left out.
pub fn speedscope(profile: &StackProfile) -> String {
    let frames: Vec<Value> = profile
        .frames
        .iter()
        .map(|frame| match &frame.module {
            Some(module) => json!({ "name": marked(frame), "file": module }),
            None => json!({ "name": marked(frame) }),
        })
        .collect();
    let (unit, factor) = match (profile.unit.as_str(), profile.period_ns) {
        ("samples", period_ns) if period_ns > 0 => ("nanoseconds", period_ns),
        ("ns", _) => ("nanoseconds", 1),
        _ => ("none", 1),
    };
    let mut by_task: BTreeMap<String, (Vec<Value>, Vec<u64>)> = BTreeMap::new();
    for stack in &profile.stacks {
        let (samples, weights) = by_task.entry(task_name(stack)).or_default();
        let known = stack.frames.iter().filter(|frame| (**frame as usize) < frames.len());
        samples.push(known.copied().collect());
        weights.push(stack.weight.saturating_mul(factor));
    }
    let mut by_weight: Vec<(u64, String, Vec<Value>, Vec<u64>)> = by_task
        .into_iter()
        .map(|(task, (samples, weights))| {
            (weights.iter().fold(0, |sum: u64, weight| sum.saturating_add(*weight)), task, samples, weights)
        })
        .collect();
    by_weight.sort_by_key(|(weight, ..)| std::cmp::Reverse(*weight));
    let profiles: Vec<Value> = by_weight
        .into_iter()
        .map(|(end, task, samples, weights)| {
            json!({
                "type": "sampled",
                "name": task,
                "unit": unit,
                "startValue": 0,
                "endValue": end,
                "samples": samples,
                "weights": weights,
            })
        })
        .collect();
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": profile.name,
        "exporter": "holdup",
        "activeProfileIndex": 0,
        "shared": { "frames": frames },
        "profiles": profiles,
    });
    file.to_string()
}

#[cfg(test)]
mod tests {
    use super::speedscope;
    use crate::stacks::tests::profile;
    use serde_json::Value;

    #[test]
    fn the_file_has_what_the_schema_requires_and_gives_the_stacks_back() {
        let file: Value = serde_json::from_str(&speedscope(&profile())).expect("JSON");
        let frames = file["shared"]["frames"].as_array().expect("frames");
        assert!(frames.iter().all(|frame| frame["name"].is_string()));
        assert_eq!(frames[3].get("file"), None, "a file that is not known is no file");
        let profiles = file["profiles"].as_array().expect("profiles");
        assert_eq!(profiles.len(), 3);
        let mut weight = 0;
        for profile in profiles {
            assert_eq!((profile["type"].as_str(), profile["unit"].as_str()), (Some("sampled"), Some("nanoseconds")));
            let (samples, weights) = (profile["samples"].as_array(), profile["weights"].as_array());
            let (samples, weights) = (samples.expect("samples"), weights.expect("weights"));
            assert_eq!(samples.len(), weights.len(), "the reader refuses anything else");
            let in_range = |frame: &Value| frame.as_u64().is_some_and(|at| at < frames.len() as u64);
            assert!(samples.iter().all(|stack| stack.as_array().expect("a stack").iter().all(in_range)));
            let sum: u64 = weights.iter().filter_map(Value::as_u64).sum();
            assert_eq!((profile["startValue"].as_u64(), profile["endValue"].as_u64()), (Some(0), Some(sum)));
            weight += sum;
        }
        assert_eq!(weight, 100 * 10_101_010);
        assert_eq!(profiles[0]["name"], "postgres (server)");
        assert_eq!(profiles[0]["samples"][0], serde_json::json!([0, 1, 2]));
    }

    #[test]
    fn times_stay_times() {
        let mut waits = profile();
        (waits.unit, waits.period_ns) = ("ns".to_owned(), 0);
        let file: Value = serde_json::from_str(&speedscope(&waits)).expect("JSON");
        assert_eq!(file["profiles"][0]["endValue"], 91);
    }
}
