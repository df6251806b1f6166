//! The level of a series, and whether new runs belong to it.

use crate::changes::{level, options};
use holdup_model::kept::{GateAnswer, KeptMetric};
use holdup_model::{Direction, Estimate};
use holdup_stats::change_points::change_points;
use holdup_stats::students_t;

/// The newest runs that a level is looked for in.
const MOST_RUNS: usize = 60;

/// Runs that a level needs.
pub(crate) const LEAST_RUNS: usize = 5;

/// The chance of a change in the level's runs where there is none; one that is seen wrongly makes the level shorter and nothing worse.
const CHANGE: f64 = 0.01;

/// What the runs before say of the next one.
#[derive(Debug, Clone)]
pub(crate) struct Level {
    /// Runs since the last change.
    pub(crate) runs: usize,
    /// Their geometric mean.
    pub(crate) mean: f64,
    /// Standard deviation of their logarithms.
    pub(crate) spread: f64,
}

/// The level that a series ends with: its runs since the last change.
///
/// # Errors
/// In words, where there are too few runs or a value has no logarithm.
pub(crate) fn of(kept: &[KeptMetric]) -> Result<Level, String> {
    let values: Vec<f64> = kept[kept.len().saturating_sub(MOST_RUNS)..].iter().map(|k| k.mean).collect();
    if values.iter().any(|v| *v <= 0.0) {
        return Err("a kept value is not above zero, and ratios need logarithms".to_owned());
    }
    if values.len() < LEAST_RUNS {
        let runs = holdup_model::text::count(values.len(), "run");
        let are = if values.len() == 1 { "is" } else { "are" };
        return Err(format!("{runs} of this host and arm {are} kept, and {LEAST_RUNS} are needed"));
    }
    // Too few for two segments: there is one level.
    let changes = change_points(&values, options(CHANGE)).unwrap_or_default();
    let begin = changes.last().map_or(0, |c| c.index);
    let logs: Vec<f64> = values[begin..].iter().map(|v| v.ln()).collect();
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    let variance = logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / (n - 1.0);
    Ok(Level { runs: logs.len(), mean: level(&values[begin..]), spread: variance.sqrt() })
}

/// What is said of new runs.
#[derive(Debug, Clone)]
pub(crate) struct Judged {
    pub(crate) value: f64,
    pub(crate) ratio: Option<Estimate>,
    pub(crate) answer: GateAnswer,
    pub(crate) reason: Option<String>,
}

/// Judges new runs of one metric by the level, at `alpha` (two-sided).
pub(crate) fn judge(known: &Level, new: &[&KeptMetric], better: Direction, margin: f64, alpha: f64) -> Judged {
    let values: Vec<f64> = new.iter().map(|k| k.mean).collect();
    let value = level(&values);
    let undecided = |reason: String| Judged { value, ratio: None, answer: GateAnswer::Undecided, reason: Some(reason) };
    if value <= 0.0 {
        return undecided("the new value is not above zero, and ratios need logarithms".to_owned());
    }
    let n = new.len().max(1) as f64;
    // A run of few trials scatters more than the runs of the level: its own trials say by how much.
    let own = new.iter().filter_map(|k| Some(k.cv?.powi(2) / f64::from(k.trials.max(1)))).sum::<f64>() / n;
    let variance = known.spread.powi(2).max(own) / n + known.spread.powi(2) / known.runs as f64;
    let Some(t) = students_t::quantile(1.0 - alpha / 2.0, known.runs as f64 - 1.0) else {
        return undecided("the interval has no end".to_owned());
    };
    let (log, half) = ((value / known.mean).ln(), t * variance.sqrt());
    let ratio = Estimate {
        value: log.exp(),
        low: (log - half).exp(),
        high: (log + half).exp(),
        confidence: 1.0 - alpha,
        n: u32::try_from(known.runs).unwrap_or(u32::MAX),
        method: format!("Student's t on the logs of {} runs", known.runs),
    };
    // Logarithms in the direction of worse.
    let sign = if better == Direction::Higher { -1.0 } else { 1.0 };
    let (loss, limit) = (sign * log, margin.ln_1p());
    let (answer, reason) = if loss - half > 0.0 && loss > limit {
        (GateAnswer::Regression, None)
    } else if loss + half <= limit {
        (GateAnswer::NoRegression, None)
    } else {
        (GateAnswer::Undecided, Some(why_undecided(known, n, t, limit, loss)))
    };
    Judged { value, ratio: Some(ratio), answer, reason }
}

/// What it would take to decide.
fn why_undecided(known: &Level, n: f64, t: f64, limit: f64, loss: f64) -> String {
    let percent = |x: f64| format!("{:.1} %", (x.exp_m1()) * 100.0);
    let spread = percent(known.spread);
    // Half the interval must be as small as what is between the loss and the margin or zero, whichever is nearer.
    let wanted = (limit - loss).abs().max(limit / 2.0).min(limit.max(loss));
    let needed = (1..=50)
        .find(|runs| t * known.spread * (1.0 / (n + f64::from(*runs)) + 1.0 / known.runs as f64).sqrt() <= wanted);
    let way = match needed {
        Some(runs) => format!("about {} would decide", holdup_model::text::count(runs as usize, "more new run")),
        None => "more runs of the level must be kept, or the margin must be wider".to_owned(),
    };
    format!("runs of this level differ by {spread} (standard deviation), the margin is {}; {way}", percent(limit))
}
