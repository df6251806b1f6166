//! The behavioural probe as a part of the survey.

use crate::probe::{self, Measured, Waits};
use holdup_model::survey::{Probed, Reading, Survey};
use std::time::{Duration, Instant};

/// What the measurement is called among the sources.
const SOURCE: &str = "the probe";

/// Measures for about `budget` how the kernel preempts, and puts it into the survey; where it does not fit what the
/// sources say, that is said there.
pub fn probe_into(survey: &mut Survey, budget: Duration) {
    let probed = probed(budget);
    if let (Some(model), Some(measured)) = (survey.preempt.model.get(), probed.models.get())
        && !measured.contains(model)
    {
        let words: Vec<&str> = measured.iter().map(|m| m.word()).collect();
        let said = format!("what was measured fits {}, not {}", words.join(" or "), model.word());
        let before = survey.preempt.disagreement.take().map_or_else(String::new, |text| format!("{text}; "));
        survey.preempt.disagreement = Some(format!("{before}{said}"));
    }
    survey.probe = Some(probed);
}

fn probed(budget: Duration) -> Probed {
    let begun = Instant::now();
    let (models, measured) = match probe::probe(budget) {
        Err(problem) => (Reading::unknown(SOURCE, format!("{}: {}", problem.what, problem.why)), Vec::new()),
        Ok(found) => {
            let why = found.verdict.why.clone();
            let models = match found.verdict.models {
                [] => Reading::unknown(SOURCE, why.clone()),
                models => Reading::found(models.to_vec(), SOURCE),
            };
            (models, sentences(&why, &found.measured))
        }
    };
    let duration_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Probed { models: models.but("probe again on a quieter host"), measured, duration_ns }
}

/// The verdict in words, then the median wait behind each kind of task.
fn sentences(why: &str, measured: &Measured) -> Vec<String> {
    let mut all = vec![format!("{}.", holdup_model::text::capital(why))];
    let kinds = [
        ("user mode", &measured.user),
        ("page faults", &measured.faults),
        ("a call of several ticks", &measured.walk),
        ("a shorter call", &measured.poll),
    ];
    for (kind, waits) in kinds {
        all.push(match waits {
            Ok(waits) => median(kind, waits),
            Err(why) => format!("Behind {kind}: {why}."),
        });
    }
    all.push(format!("The tick is {} us.", measured.tick_ns / 1000));
    all
}

fn median(kind: &str, waits: &Waits) -> String {
    let call = if waits.call_ns > 0 { format!(", the call alone {} us", waits.call_ns / 1000) } else { String::new() };
    format!(
        "Behind {kind}: median wait {} us, a tenth above {} us, {} waits{call}.",
        waits.kept.p50 / 1000,
        waits.kept.p90 / 1000,
        waits.samples
    )
}
