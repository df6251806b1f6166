//! The answers of `holdup bisect`, and its log.

use crate::formats::terminal::TerminalOptions;
use crate::text::{self, clean, wrap};
use holdup_model::Estimate;
use holdup_model::search::{Answer, Begin, Candidate, Entry, Measured, short};

const WIDTH: usize = 80;
/// Facts that are listed.
const SHOWN_FACTS: usize = 4;
/// Candidates that are listed.
const SHOWN: usize = 12;

/// How people call a candidate.
pub(crate) fn name(candidate: &Candidate) -> String {
    clean(short(&candidate.name))
}

/// The geometric mean.
pub(crate) fn mean(values: &[f64]) -> f64 {
    (values.iter().map(|v| v.ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

/// Where a search stands that has no answer yet.
pub(crate) fn under_way(begin: &Begin, measured: &[Measured], no_change: f64) -> String {
    let trials: usize = measured.iter().map(|m| m.values.len()).sum();
    let likeliest = measured.iter().max_by(|a, b| a.probability.total_cmp(&b.probability));
    let Some(likeliest) = likeliest else { return String::new() };
    format!(
        "Under way: {} after {}; likeliest {} ({}), no change {}.",
        clean(&begin.metric),
        text::count(trials, "trial"),
        name(&likeliest.candidate),
        text::percent(likeliest.probability),
        text::percent(no_change)
    )
}

/// How much something changed, as a ratio has it: `18.2 % (14.1–22.3 %)`.
pub(crate) fn change(ratio: &Estimate) -> String {
    let [low, high] = if ratio.value >= 1.0 { [ratio.low, ratio.high] } else { [ratio.high, ratio.low] };
    let share = |x: f64| format!("{:.1}", (x - 1.0).abs() * 100.0);
    format!("{} % ({}–{} %)", share(ratio.value), share(low), share(high))
}

/// Where to search further.
fn further(answer: &Answer) -> Vec<String> {
    let other = |range: &String| {
        format!("a second change is likely among the candidates of {}: search again with that", clean(range))
    };
    let merged = |range: &String| format!("it is a merge; what it brought is searched with --range {}", clean(range));
    answer.others.iter().map(other).chain(answer.merged.iter().map(merged)).collect()
}

/// What speaks against trusting the ratio to its last digit.
fn cautious(answer: &Answer) -> String {
    // Where nothing is confirmed, there is nothing to be cautious about.
    let caution = answer.caution.as_ref().filter(|_| answer.is_confirmed());
    caution.map(|caution| wrap(&format!("caution: {}", clean(caution)), WIDTH, "  ", "    ")).unwrap_or_default()
}

/// The facts of the host that differ with the culprit.
fn differing(answer: &Answer) -> String {
    let shown = answer.differs.iter().take(SHOWN_FACTS);
    let lines = shown.map(|fact| wrap(&format!("differs with it: {}", clean(fact)), WIDTH, "  ", "    "));
    let more = answer.differs.len().saturating_sub(SHOWN_FACTS);
    let rest = (more > 0).then(|| format!("  {} more differ with it, in the blocks\n", text::count(more, "fact")));
    lines.chain(rest).collect()
}

/// The answer of a search that found something: its first line can be pasted into a report.
pub fn search_answer(answer: &Answer) -> String {
    let names: Vec<String> = answer.candidates.iter().map(name).collect();
    let culprit = match names.as_slice() {
        [one] => one.clone(),
        several => format!("one of {}", several.join(", ")),
    };
    let metric = clean(&answer.metric);
    let parent = name(&answer.parent);
    let mut out = String::new();
    match &answer.ratio {
        Some(ratio) if answer.is_confirmed() => {
            let verdict = if answer.is_worse() { "worse" } else { "better" };
            let way = if ratio.value >= 1.0 { "raises" } else { "lowers" };
            let line = format!("{culprit} {way} {metric} by {}, which is {verdict}.", change(ratio));
            out.push_str(&wrap(&line, WIDTH, "", "  "));
        }
        Some(ratio) => {
            let found = match answer.is_separate() {
                true => "show a change in the other direction from",
                false => "do not separate it from",
            };
            let line = format!(
                "Not confirmed: the search ended at {culprit}, and fresh blocks {found} {parent} ({metric}: ratio {}).",
                text::ratio(ratio)
            );
            out.push_str(&wrap(&line, WIDTH, "", "  "));
        }
        None => out.push_str(&wrap(
            &format!("Not confirmed: {culprit} could not be compared with {parent}."),
            WIDTH,
            "",
            "  ",
        )),
    }
    for candidate in answer.candidates.iter().filter(|c| !c.about.is_empty()) {
        let line = format!("{} {} ({})", name(candidate), clean(&candidate.about), clean(&candidate.date));
        out.push_str(&wrap(&line, WIDTH, "  ", "    "));
    }
    if let Some(ratio) = &answer.ratio {
        let before = if answer.is_commit { "its parent " } else { "" };
        let line = format!(
            "measured against {before}{parent} in {} fresh, interleaved blocks: ratio {}",
            ratio.n,
            text::ratio(ratio)
        );
        out.push_str(&wrap(&line, WIDTH, "  ", "    "));
    }
    out.push_str(&cautious(answer));
    out.push_str(&differing(answer));
    match (&answer.reverted, &answer.not_reverted) {
        (Some(ratio), _) => {
            let line = format!("the bad end without it over the bad end: ratio {}", text::ratio(ratio));
            out.push_str(&wrap(&line, WIDTH, "  ", "    "));
        }
        (None, Some(why)) => out.push_str(&wrap(&format!("not reverted: {}", clean(why)), WIDTH, "  ", "    ")),
        (None, None) => {}
    }
    for line in further(answer) {
        out.push_str(&wrap(&line, WIDTH, "  ", "    "));
    }
    let line = format!(
        "the search took {} of {} of {} candidates and ended with a probability of {}; blocks: {}",
        text::count(answer.trials, "trial"),
        answer.measured,
        answer.of,
        text::percent(answer.probability),
        clean(&answer.bundle)
    );
    out.push_str(&wrap(&line, WIDTH, "  ", "    "));
    out
}

/// The answer of a search that found no change.
pub fn search_without_change(begin: &Begin, probability: f64, least: f64, trials: usize) -> String {
    let [first, .., last] = begin.candidates.as_slice() else { return String::new() };
    let line = format!(
        "No change: {} is the same from {} to {}, with a probability of {} ({}; changes far below {} are not looked for).",
        clean(&begin.metric),
        name(first),
        name(last),
        text::percent(probability),
        text::count(trials, "trial"),
        text::percent(least)
    );
    wrap(&line, WIDTH, "", "  ")
}

/// The answer of a search that did not end with one.
///
/// `others` are options of searches for changes, where the trials fit two better than one.
pub fn search_undecided(begin: &Begin, reason: &str, left: &[&Candidate], others: &[String]) -> String {
    let line = format!(
        "Undecided: {}. The change of {}, if there is one, is among {} of {}.",
        clean(reason),
        clean(&begin.metric),
        text::count(left.len(), "candidate"),
        begin.candidates.len()
    );
    let mut out = wrap(&line, WIDTH, "", "  ");
    if !others.is_empty() {
        let line = format!("two changes are likelier than one: search again with {}", clean(&others.join(", and ")));
        out.push_str(&wrap(&line, WIDTH, "  ", "    "));
    }
    for candidate in left.iter().take(SHOWN) {
        out.push_str(&wrap(&format!("{} {}", name(candidate), clean(&candidate.about)), WIDTH, "  ", "    "));
    }
    if left.len() > SHOWN {
        out.push_str(&format!("  … and {} more\n", left.len() - SHOWN));
    }
    out
}

/// What a search has measured, candidate by candidate in their order, with what it believes.
pub fn search_log(
    begin: &Begin,
    entries: &[Entry],
    measured: &[Measured],
    no_change: f64,
    options: &TerminalOptions,
) -> String {
    let answer = entries.iter().rev().find_map(|entry| match entry {
        Entry::Answer { sentence, .. } => Some(sentence.lines().next().unwrap_or_default().to_owned()),
        _ => None,
    });
    let mut out = match answer {
        Some(answer) => format!("{}\n", clean(&answer)),
        None => wrap(&under_way(begin, measured, no_change), WIDTH, "", "  "),
    };
    out.push_str(&format!("began {}: {}\n\n", text::moment(begin.began_unix_ns), clean(&text::shell(&begin.command))));
    let mut rows = vec![vec![
        "candidate".to_owned(),
        "trials".into(),
        format!("mean {}", begin.unit),
        "culprit".into(),
        String::new(),
    ]];
    let mut between = 0.0;
    for candidate in measured {
        between += candidate.probability;
        if candidate.values.is_empty() && candidate.skipped.is_none() {
            continue;
        }
        let n = candidate.values.len();
        rows.push(vec![
            name(&candidate.candidate),
            n.to_string(),
            if n == 0 { "–".into() } else { text::number(mean(&candidate.values)) },
            format!("{:>5.1} %", between * 100.0),
            clean(candidate.skipped.as_ref().map_or(&candidate.candidate.about, |why| why)).chars().take(40).collect(),
        ]);
        between = 0.0;
    }
    out.push_str(&text::align(&rows, &[0, 4], "  "));
    out.push_str("\nculprit: the probability of this candidate and those since the row before it\n");
    if options.details { out } else { crate::screen::cut(out) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Direction;
    use holdup_model::search::LookFor;

    #[test]
    fn what_differs_with_the_culprit_is_listed_up_to_four_facts() {
        let candidate = |name: &str| Candidate { name: name.to_owned(), about: String::new(), date: String::new() };
        let fact = |i: usize| format!("fact.{i}: on, before off");
        let features = "scheduler.features: NO_PARANOID_AVG HRTICK HRTICK_DL NI_RATE, before NO_HRTICK NO_HRTICK_DL";
        let ratio = |value| Estimate { value, low: 2.0, high: 2.88, confidence: 0.95, n: 9, method: String::new() };
        let answer = Answer {
            candidates: vec![candidate("debian:7.1.3")],
            parent: candidate("debian:7.0.13"),
            of: 42,
            metric: "switched_out_in_kernel".to_owned(),
            better: Direction::Lower,
            look_for: LookFor::Worse,
            is_commit: false,
            probability: 0.951,
            ratio: Some(ratio(2.4)),
            caution: None,
            differs: std::iter::once(features.to_owned()).chain((0..5).map(fact)).collect(),
            reverted: None,
            not_reverted: None,
            others: Vec::new(),
            merged: None,
            trials: 16,
            measured: 12,
            bundle: "bisect-1/confirm-1.holdup".to_owned(),
        };
        let text = search_answer(&answer);
        assert!(
            text.contains("NO_PARANOID_AVG HRTICK HRTICK_DL NI_RATE,\n    before NO_HRTICK NO_HRTICK_DL\n")
                && text.contains("  differs with it: fact.2: on, before off\n  2 facts more differ with it, "),
            "{text}"
        );
        // An improvement is no answer to a search of a regression.
        let other = search_answer(&Answer { better: Direction::Higher, ..answer });
        let words = other.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.starts_with("Not confirmed: ") && words.contains(" show a change in the other direction "),
            "{other}"
        );
    }
}
