//! What a store keeps: lists of runs, the history of a plan, the answer of a gate.

use crate::formats::json::pretty;
use crate::formats::terminal::{TerminalOptions, caution, findings_alone};
use crate::matrix::shorten;
use crate::screen::cut;
use crate::text::{self, clean};
use holdup_model::Estimate;
use holdup_model::kept::{
    ChangedSeries, Gate, GateAnswer, GateCheck, GatePast, KeptHistory, KeptRun, OpenRegression, SeriesKey,
};
use serde_json::json;

/// Values of a series that are drawn in its row.
const DRAWN: usize = 10;

/// Columns of names where one screen is shown.
const NAME: usize = 29;
const ARM: usize = 26;

/// The runs of a store, oldest first.
pub fn kept_list(runs: &[KeptRun], options: &TerminalOptions) -> String {
    let head = ["run", "begun", "plan", "host", "kernel", "trials", "ended"].map(str::to_owned).to_vec();
    let row = |run: &KeptRun| {
        let trials = match run.trials_void {
            0 => run.trials_done.to_string(),
            void => format!("{} + {void} void", run.trials_done),
        };
        let ending = clean(run.ending.as_deref().unwrap_or("never"));
        let [plan, host, kernel] = [Some(&run.plan), run.host.as_ref(), run.kernel.as_ref()]
            .map(|t| t.map_or_else(|| "–".to_owned(), |t| clean(t)));
        let [plan, host, kernel] = if options.details {
            [plan, host, kernel]
        } else {
            [shorten(&plan, 18), shorten(&host, 14), shorten(&kernel, 12)]
        };
        let begun = holdup_model::text::day(run.created_unix_ns);
        vec![short(run), begun, plan, host, kernel, trials, ending]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(runs.iter().rev().map(row)).collect();
    let table = text::align(&rows, &[1, 2, 3, 4, 6], "");
    let end = format!("{} in the store, newest first\n", text::count(runs.len(), "run"));
    if options.details { table + &end } else { crate::screen::list(&(table + &end), false) }
}

/// The same as JSON, schema `holdup.store/1`.
pub fn kept_list_json(runs: &[KeptRun]) -> String {
    pretty(&json!({ "schema": "holdup.store/1", "runs": runs }))
}

/// As much of a run's id as is shown. It is foreign text.
fn short(run: &KeptRun) -> String {
    clean(&run.run_id.chars().take(8).collect::<String>())
}

/// What a series is called: its workload and arm, and where it is of.
pub(crate) fn name(key: &SeriesKey) -> String {
    let host = key.host.as_deref().unwrap_or("unknown host");
    let more =
        [key.kernel.as_ref().map(|k| format!("kernel {k}")), key.server.as_ref().map(|s| format!("PostgreSQL {s}"))];
    let more: String = more.into_iter().flatten().map(|m| format!(", {m}")).collect();
    clean(&format!("{host}{more}: {}", bare(key)))
}

/// An arm without its workload's name, where something else is left of it.
fn bare(key: &SeriesKey) -> &str {
    let rest = key.arm.strip_prefix(key.workload.as_str()).map(str::trim_start);
    rest.filter(|rest| !rest.is_empty()).unwrap_or(&key.arm)
}

/// The history of a plan for a terminal: what changed, then each series in a row.
pub fn kept_history(history: &KeptHistory, options: &TerminalOptions) -> String {
    let mut out = caution(history.caution.as_deref(), options);
    let (first, last) = (history.runs.first(), history.runs.last());
    let day = |run: Option<&KeptRun>| run.map(|r| holdup_model::text::day(r.created_unix_ns)).unwrap_or_default();
    let plan = first.map(|r| clean(&r.plan)).unwrap_or_default();
    out.push_str(&format!("{plan}: {} from {} to {}\n", text::count(history.runs.len(), "run"), day(first), day(last)));
    out.push_str(&findings_alone(&history.findings, options));
    let mut metrics: Vec<(&str, &str)> =
        history.series.iter().map(|s| (s.metric.id.as_str(), s.metric.unit.as_str())).collect();
    metrics.sort_unstable();
    metrics.dedup();
    for (metric, unit) in metrics {
        out.push_str(&format!("\n{} ({})\n", clean(metric), clean(unit)));
        let of: Vec<&ChangedSeries> = history.series.iter().filter(|s| s.metric.id == metric).collect();
        out.push_str(&table(&of, options.details));
    }
    if options.details { out } else { cut(out) }
}

fn table(series: &[&ChangedSeries], has_details: bool) -> String {
    let head = ["series", "runs", "now", "last runs", "open"].map(str::to_owned).to_vec();
    let row = |s: &&ChangedSeries| {
        let begin = s.changes.last().map_or(0, |c| c.at);
        let now = level(&s.values[begin..]);
        let open =
            |o: &OpenRegression| format!("{} for {}", holdup_model::text::factor(o.ratio), text::count(o.runs, "run"));
        let name = if has_details { name(&s.key) } else { shorten(&name(&s.key), NAME) };
        let open = s.open.as_ref().map_or_else(String::new, open);
        vec![name, s.values.len().to_string(), text::number(now), drawn(&s.values), open]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(series.iter().map(row)).collect();
    text::align(&rows, &[3, 4], "  ")
}

pub(crate) fn level(values: &[f64]) -> f64 {
    let n = values.len().max(1) as f64;
    if values.iter().all(|v| *v > 0.0) {
        return (values.iter().map(|v| v.ln()).sum::<f64>() / n).exp();
    }
    values.iter().sum::<f64>() / n
}

/// The newest values as bars between their smallest and their largest.
fn drawn(values: &[f64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let newest = &values[values.len().saturating_sub(DRAWN)..];
    let (low, high) =
        newest.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (v.min(low), v.max(high)));
    let bar = |v: &f64| {
        let share = if high > low { (v - low) / (high - low) } else { 0.5 };
        BARS[((share * 7.0).round() as usize).min(7)]
    };
    newest.iter().map(bar).collect()
}

/// The history as JSON, schema `holdup.kept-history/1`.
pub fn kept_history_json(history: &KeptHistory) -> String {
    pretty(&json!({
        "schema": "holdup.kept-history/1",
        "caution": history.caution,
        "runs": history.runs,
        "findings": history.findings,
        "series": history.series,
    }))
}

fn word(answer: GateAnswer) -> &'static str {
    match answer {
        GateAnswer::Regression => "regression",
        GateAnswer::Undecided => "undecided",
        GateAnswer::NoRegression => "no regression",
    }
}

fn ratio(check: &GateCheck) -> String {
    check.ratio.as_ref().map_or_else(|| "–".to_owned(), |r| format!("×{}", holdup_model::text::ratio_parts(r)[0]))
}

fn ratio_in_words(ratio: &Estimate) -> String {
    let [value, low, high] = holdup_model::text::ratio_parts(ratio);
    format!("{value} ({low} to {high})")
}

fn interval(check: &GateCheck) -> String {
    check.ratio.as_ref().map_or_else(
        || "–".to_owned(),
        |r| {
            let [_, low, high] = holdup_model::text::ratio_parts(r);
            format!("{low} to {high}")
        },
    )
}

/// How often the gate would have been wrong on what is kept.
pub(crate) fn past(past: &GatePast) -> String {
    if past.judged == 0 {
        return "On the kept runs it cannot be tried: too few have five others before and five after them.".to_owned();
    }
    let times = |n: usize| if n == 1 { "once".to_owned() } else { format!("{n} times") };
    let wolf = match past.false_alarms {
        0 => "never cried wolf".to_owned(),
        n => format!("cried wolf {}", times(n)),
    };
    let right = match past.justified {
        0 => String::new(),
        n => format!(", refused {} where the history has a change for the worse", times(n)),
    };
    format!(
        "On {} that are kept this gate would have {wolf}{right}, and left {} undecided.",
        text::count(past.judged, "value"),
        past.undecided
    )
}

/// The answer of a gate for a terminal.
pub fn gate_terminal(gate: &Gate, options: &TerminalOptions) -> String {
    let mut out = caution(gate.caution.as_deref(), options);
    out.push_str(&text::wrap(&gate.sentence, options.columns(), "", ""));
    out.push('\n');
    let head = ["arm", "level", "runs", "new by level", "answer"].map(str::to_owned).to_vec();
    let row = |c: &GateCheck| {
        let arm = clean(bare(&c.key));
        vec![
            if options.details { arm } else { shorten(&arm, ARM) },
            c.level.map_or_else(|| "–".to_owned(), text::number),
            c.runs.to_string(),
            c.ratio.as_ref().map_or_else(|| "–".to_owned(), |r| format!("×{}", ratio_in_words(r))),
            word(c.answer).to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(gate.checks.iter().map(row)).collect();
    if let Some(check) = gate.checks.first() {
        out.push_str(&format!("{} ({})\n", clean(&check.metric.id), clean(&check.metric.unit)));
    }
    out.push_str(&text::align(&rows, &[4], "  "));
    out.push('\n');
    if options.details {
        for check in &gate.checks {
            if let Some(reason) = &check.reason {
                out.push_str(&text::wrap(&format!("{}: {reason}.", check.key.arm), options.columns(), "  ", "    "));
            }
        }
    }
    out.push_str(&text::wrap(&past(&gate.past), options.columns(), "", ""));
    if options.details { out } else { cut(out) }
}

/// The same as JSON, schema `holdup.gate/1`.
pub fn gate_json(gate: &Gate) -> String {
    let mut document = json!({ "schema": "holdup.gate/1" });
    if let (Some(document), Ok(serde_json::Value::Object(all))) = (document.as_object_mut(), serde_json::to_value(gate))
    {
        document.extend(all);
    }
    pretty(&document)
}

/// For a merge request: Markdown.
pub fn gate_markdown(gate: &Gate) -> String {
    let cell = |text: &str| clean(text).replace('|', "\\|").replace('<', "&lt;");
    let mark = match gate.answer {
        GateAnswer::Regression => "✗",
        GateAnswer::Undecided => "?",
        GateAnswer::NoRegression => "✓",
    };
    let mut out = format!("### {mark} {}\n\n", cell(&gate.sentence));
    if let Some(caution) = &gate.caution {
        out.push_str(&format!("**{}**\n\n", cell(caution)));
    }
    out.push_str(
        "| arm | metric | new | level | kept runs | ratio | interval | answer |\n|---|---|--:|--:|--:|--:|--:|---|\n",
    );
    for c in &gate.checks {
        let level = c.level.map_or_else(|| "–".to_owned(), text::number);
        out.push_str(&format!(
            "| {} | {} ({}) | {} | {level} | {} | {} | {} | {} |\n",
            cell(&c.key.arm),
            cell(&c.metric.id),
            cell(&c.metric.unit),
            text::number(c.value),
            c.runs,
            ratio(c),
            interval(c),
            word(c.answer)
        ));
    }
    out.push('\n');
    for c in gate.checks.iter().filter(|c| c.reason.is_some()) {
        out.push_str(&format!("- {}: {}.\n", cell(&c.key.arm), cell(c.reason.as_deref().unwrap_or_default())));
    }
    let runs: Vec<String> = gate.runs.iter().map(|r| format!("`{}`", short(r))).collect();
    out.push_str(&format!("\n{} Runs: {}.\n", past(&gate.past), runs.join(", ")));
    out
}

/// For a pipeline: JUnit XML. A regression is a failure, what is undecided is skipped.
pub fn gate_junit(gate: &Gate) -> String {
    let escaped =
        |text: &str| clean(text).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let of = |answer: GateAnswer| gate.checks.iter().filter(|c| c.answer == answer).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"holdup gate {}\" tests=\"{}\" failures=\"{}\" \
         skipped=\"{}\" errors=\"0\">\n",
        escaped(&gate.plan),
        gate.checks.len(),
        of(GateAnswer::Regression),
        of(GateAnswer::Undecided)
    );
    for c in &gate.checks {
        let name = format!("{}: {}", c.key.arm, c.metric.id);
        let said = format!("{} against {} runs: {} ({})", word(c.answer), c.runs, ratio(c), interval(c));
        let inside = match c.answer {
            GateAnswer::NoRegression => format!("<system-out>{}</system-out>", escaped(&said)),
            GateAnswer::Regression => format!("<failure message=\"{}\"/>", escaped(&said)),
            GateAnswer::Undecided => {
                format!("<skipped message=\"{}\"/>", escaped(c.reason.as_deref().unwrap_or(&said)))
            }
        };
        out.push_str(&format!(
            "    <testcase classname=\"{}\" name=\"{}\">{inside}</testcase>\n",
            escaped(&c.key.workload),
            escaped(&name)
        ));
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}
