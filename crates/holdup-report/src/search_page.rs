//! A search as one page that needs no network and no script: the answer, what was measured, what was believed over time.

use crate::page::Table;
use crate::page::policy::policy;
use crate::pictures::{Axis, BELOW, HEIGHT, LEFT, WIDTH, escaped, point};
use crate::search::{mean, name};
use crate::text::{self, clean};
use askama::Template;
use holdup_model::foreign::lines;
use holdup_model::search::{Begin, Entry, LookFor, Measured, Moment};

const STYLE: &str = include_str!("../templates/page.css");

/// What the right edge of a picture takes.
const RIGHT: f64 = 40.0;

/// A belief below this is not drawn.
const LEAST_SHADE: f64 = 0.004;
/// Cells of a row of the picture of beliefs; candidates beyond are put together.
const MOST_CELLS: usize = 200;

#[derive(Template)]
#[template(path = "search.html")]
struct Page {
    title: String,
    details: Vec<String>,
    metric: String,
    values: String,
    beliefs: String,
    candidates: Table,
    design: Table,
    plan: String,
    policy: String,
    style: &'static str,
}

/// A search as one page. `moments` are beliefs in the order of the trials, `fitted` the level of each candidate as it is
/// believed now, in the metric's unit; both are empty before the ends are measured.
pub fn search_html(
    begin: &Begin,
    entries: &[Entry],
    measured: &[Measured],
    moments: &[Moment],
    fitted: &[f64],
) -> String {
    let answer = entries.iter().rev().find_map(|entry| match entry {
        Entry::Answer { sentence, .. } => Some(sentence.as_str()),
        _ => None,
    });
    let (title, details) = match answer {
        Some(answer) => first_and_rest(answer),
        None => (crate::search::under_way(begin, measured, moments.last().map_or(0.0, |m| m.no_change)), Vec::new()),
    };
    let page = Page {
        title,
        details,
        metric: format!("{} ({})", clean(&begin.metric), clean(&begin.unit)),
        values: values(measured, fitted),
        beliefs: beliefs(measured, moments),
        candidates: candidates(begin, measured),
        design: design(begin, entries, measured),
        plan: clean_lines(&begin.plan),
        policy: policy(None),
        style: STYLE,
    };
    lines(&page.render().expect("writing to a string cannot fail, and the template calls nothing that can"))
}

/// The sentence that an answer begins with, and its other lines. Lines that continue one are set in by more than those above.
fn first_and_rest(answer: &str) -> (String, Vec<String>) {
    let mut whole: Vec<(usize, String)> = Vec::new();
    for line in answer.lines().filter(|line| !line.trim().is_empty()) {
        let depth = line.len() - line.trim_start().len();
        match whole.last_mut() {
            // The first line continues at the depth of a detail; its sentence has no end before.
            Some((above, text)) if depth > *above && (*above > 0 || !text.ends_with('.')) => {
                text.push(' ');
                text.push_str(&clean(line.trim()));
            }
            _ => whole.push((depth, clean(line.trim()))),
        }
    }
    let mut texts = whole.into_iter().map(|(_, text)| text);
    (texts.next().unwrap_or_default(), texts.collect())
}

fn clean_lines(text: &str) -> String {
    text.lines().map(clean).collect::<Vec<_>>().join("\n")
}

fn begin_svg(height: f64, label: &str) -> String {
    let frame = format!(
        "<rect class=\"frame\" x=\"{LEFT}\" y=\"6\" width=\"{:.0}\" height=\"{:.0}\"/>",
        WIDTH - LEFT - RIGHT,
        height - BELOW - 6.0
    );
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{label}\">{frame}")
}

/// Where a candidate stands from left to right: the middle of its share of the width.
fn across(index: f64, n: usize) -> f64 {
    LEFT + (index + 0.5) / n.max(1) as f64 * (WIDTH - LEFT - RIGHT)
}

/// The names of the first and the last candidate, and of the likeliest one, where there is room for it.
fn names(out: &mut String, measured: &[Measured], height: f64) {
    let n = measured.len();
    let likeliest = (0..n).max_by(|a, b| measured[*a].probability.total_cmp(&measured[*b].probability));
    let middle = likeliest.filter(|i| (0.2..0.8).contains(&(*i as f64 / n as f64)) && measured[*i].probability > 0.1);
    for (i, anchor) in [(Some(0), "start"), (middle, "middle"), (n.checked_sub(1), "end")] {
        let Some(i) = i else { continue };
        let name = escaped(&name(&measured[i].candidate));
        let x = across(i as f64, n);
        out.push_str(&format!("<text x=\"{x:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{name}</text>", height - 8.0));
    }
}

/// Trials of each candidate, and the level that is believed.
fn values(measured: &[Measured], fitted: &[f64]) -> String {
    let n = measured.len();
    let mut out = begin_svg(HEIGHT, "measured values of each candidate");
    if let Some(axis) = Axis::of(measured.iter().flat_map(|m| &m.values).chain(fitted).copied()) {
        out.push_str(&axis.lines(RIGHT));
        for (i, m) in measured.iter().enumerate() {
            let x = across(i as f64, n);
            for value in m.values.iter().filter(|v| **v > 0.0) {
                out.push_str(&point(x, axis.y(*value)));
            }
            if m.skipped.is_some() {
                let (b, t) = (HEIGHT - BELOW - 4.0, HEIGHT - BELOW - 10.0);
                let (l, r) = (x - 3.0, x + 3.0);
                out.push_str(&format!("<path class=\"skipped\" d=\"M{l:.1} {t}L{r:.1} {b}M{l:.1} {b}L{r:.1} {t}\"/>"));
            }
        }
        let steps = fitted.iter().enumerate().map(|(i, v)| {
            let (from, to) = (across(i as f64 - 0.5, n), across(i as f64 + 0.5, n));
            format!("{} {from:.1} {y:.1}L{to:.1} {y:.1}", if i == 0 { "M" } else { "L" }, y = axis.y(*v))
        });
        out.push_str(&format!("<path class=\"fit\" d=\"{}\"/>", steps.collect::<String>()));
    }
    names(&mut out, measured, HEIGHT);
    out + "</svg>"
}

/// A row for each moment, a cell for each candidate or a few neighbours, as dark as they are likely.
fn beliefs(measured: &[Measured], moments: &[Moment]) -> String {
    let n = measured.len();
    let row = (HEIGHT / moments.len().max(1) as f64).clamp(3.0, 14.0);
    let height = 6.0 + row * moments.len() as f64 + BELOW;
    let mut out = begin_svg(height, "belief in each candidate over the trials");
    let cells = n.clamp(1, MOST_CELLS);
    for (i, moment) in moments.iter().enumerate() {
        let y = 6.0 + row * i as f64;
        let edge = |cell: usize| cell * n / cells;
        for cell in 0..cells {
            let sum: f64 = moment.probabilities[edge(cell)..edge(cell + 1)].iter().sum();
            if sum >= LEAST_SHADE {
                let (from, to) = (across(edge(cell) as f64 - 0.5, n), across(edge(cell + 1) as f64 - 0.5, n));
                // Roots, so that what is unlikely still shows.
                out.push_str(&format!(
                    "<rect class=\"cell\" x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{row:.1}\" fill-opacity=\"{:.2}\"/>",
                    to - from,
                    sum.sqrt().min(1.0)
                ));
            }
        }
        out.push_str(&format!(
            "<rect class=\"none\" x=\"{:.0}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{row:.1}\"/>",
            WIDTH - RIGHT + 4.0,
            (moment.no_change * (RIGHT - 8.0)).max(0.0)
        ));
        if i == 0 || i + 1 == moments.len() || i % (moments.len() / 4).max(1) == 0 && i + 3 < moments.len() {
            let (x, y) = (LEFT - 6.0, y + row / 2.0 + 4.0);
            out.push_str(&format!("<text x=\"{x:.0}\" y=\"{y:.1}\" text-anchor=\"end\">{}</text>", moment.trials));
        }
    }
    names(&mut out, measured, height);
    out + "</svg>"
}

fn candidates(begin: &Begin, measured: &[Measured]) -> Table {
    let head = ["candidate", "trials", &format!("mean {}", begin.unit), "culprit", "about"].map(clean);
    let is_number = [false, true, true, true, false];
    let mut table = Table { head: head.into_iter().zip(is_number).collect(), rows: Vec::new() };
    let mut between = 0.0;
    for m in measured {
        between += m.probability;
        if m.values.is_empty() && m.skipped.is_none() {
            continue;
        }
        let about = match &m.skipped {
            Some(why) => format!("skipped: {}", clean(why)),
            None => clean(&m.candidate.about),
        };
        let mean = if m.values.is_empty() { "–".to_owned() } else { text::number(mean(&m.values)) };
        let culprit = format!("{:.1} %", between * 100.0);
        table.row(vec![name(&m.candidate), m.values.len().to_string(), mean, culprit, about]);
        between = 0.0;
    }
    table
}

fn design(begin: &Begin, entries: &[Entry], measured: &[Measured]) -> Table {
    let mut table = Table { head: vec![("what".into(), false), (String::new(), false)], rows: Vec::new() };
    let mut add = |what: &str, text: String| table.row(vec![what.to_owned(), text]);
    add("began", text::moment(begin.began_unix_ns));
    add("command", clean(&text::shell(&begin.command)));
    let looked_for = match begin.look_for {
        LookFor::Worse => "for the worse",
        LookFor::Better => "for the better",
        LookFor::Any => "in either direction",
    };
    add("looked for", format!("a change {looked_for} of {} or more", text::percent(begin.least)));
    let trials: usize = measured.iter().map(|m| m.values.len()).sum();
    let tried = measured.iter().filter(|m| !m.values.is_empty()).count();
    add("trials", format!("{trials} of {tried} of {} candidates", measured.len()));
    let (mut builds, mut build_s, mut trial_s) = (0, 0.0, 0.0);
    for entry in entries {
        match entry {
            Entry::Built { build_s: s, .. } => (builds, build_s) = (builds + 1, build_s + s),
            Entry::Trial { spent_s, .. } => trial_s += spent_s,
            Entry::Host { host } => add("host", clean(host)),
            _ => {}
        }
    }
    add("time", format!("{trial_s:.0} s in trials, {build_s:.0} s in {}", text::count(builds, "build")));
    table
}
