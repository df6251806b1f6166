//! A search of settings as one page that needs no network and no script.

use crate::page::Table;
use crate::page::policy::policy;
use crate::pictures::{Axis, BELOW, HEIGHT, LEFT, WIDTH, escaped, point};
use crate::text::{self, clean};
use crate::tuning::{answer_of, setting, tested_row, under_way};
use askama::Template;
use holdup_model::foreign::lines;
use holdup_model::tuning::{Begin, Beliefs, Entry, MainEffect, Seen};
use holdup_model::{Direction, text::count};

const STYLE: &str = include_str!("../templates/page.css");

/// What the right edge of pictures takes.
const RIGHT: f64 = 20.0;
/// The names of settings, and the height of a row.
const NAMES: f64 = 330.0;
const ROW: f64 = 17.0;

#[derive(Template)]
#[template(path = "tuning.html")]
struct Page {
    title: String,
    details: String,
    metric: String,
    effects: String,
    interactions: Table,
    blocks: String,
    tested: Table,
    left_out: Table,
    design: Table,
    plan: String,
    policy: String,
    style: &'static str,
}

/// A search of settings as one page.
pub fn tuning_html(begin: &Begin, entries: &[Entry], beliefs: &Beliefs) -> String {
    let (title, details) = match answer_of(entries) {
        Some(answer) => first_and_rest(answer),
        None => (under_way(begin, beliefs), String::new()),
    };
    let page = Page {
        title,
        details,
        metric: clean(&begin.metric),
        effects: effects(begin, beliefs),
        interactions: interactions(begin, beliefs),
        blocks: blocks(entries),
        tested: tested(begin, beliefs),
        left_out: left_out(begin),
        design: design(begin, entries, beliefs),
        plan: begin.plan.lines().map(clean).collect::<Vec<_>>().join("\n"),
        policy: policy(None),
        style: STYLE,
    };
    lines(&page.render().expect("writing to a string cannot fail, and the template calls nothing that can"))
}

/// The first sentence, which may go on in a second line, and the rest as it is.
fn first_and_rest(answer: &str) -> (String, String) {
    let all: Vec<String> = answer.lines().map(clean).collect();
    let end = all.iter().position(|line| line.ends_with('.')).map_or(1, |at| at + 1).min(all.len());
    let title = all[..end].iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ");
    (title, all[end..].iter().map(|line| line.strip_prefix("  ").unwrap_or(line)).collect::<Vec<_>>().join("\n"))
}

fn svg(height: f64, label: &str) -> String {
    format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{label}\">")
}

/// A row for each level: its ratio with two standard errors, the best first.
fn effects(begin: &Begin, beliefs: &Beliefs) -> String {
    let gain = |e: &MainEffect| {
        e.ratio.map_or(f64::NEG_INFINITY, |(r, _)| if begin.better == Direction::Higher { r.ln() } else { -r.ln() })
    };
    let mut all: Vec<&MainEffect> = beliefs.effects.iter().collect();
    all.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
    let ends = all.iter().filter_map(|e| e.ratio).flat_map(|(r, se)| [r.ln() - 2.0 * se, r.ln() + 2.0 * se]);
    let most = ends.map(f64::abs).fold(0.05, f64::max).min(2.0);
    let x = |log: f64| NAMES + (log.clamp(-most, most) / most + 1.0) / 2.0 * (WIDTH - NAMES - RIGHT);
    let height = ROW * all.len() as f64 + 8.0 + BELOW;
    let mut out = svg(height, "what each setting does alone");
    for share in [-1.0, -0.5, 0.0, 0.5, 1.0] {
        let (at, label) = (x(most * share), text::number((most * share).exp()));
        let bottom = height - BELOW;
        out.push_str(&format!(
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"4\" y2=\"{bottom:.0}\"/><text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">×{label}</text>",
            height - 8.0
        ));
    }
    for (i, e) in all.iter().enumerate() {
        let y = 4.0 + ROW * (i as f64 + 0.5);
        let name = escaped(&setting(begin, e.tried, e.level));
        let name = if e.ratio.is_some() { name } else { format!("{name}: fails") };
        out.push_str(&format!(
            "<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{name}</text>",
            NAMES - 10.0,
            y + 4.0
        ));
        let Some((ratio, se)) = e.ratio else { continue };
        let log = ratio.ln();
        out.push_str(&format!(
            "<path class=\"fit\" d=\"M{:.1} {y:.1}L{:.1} {y:.1}\"/><circle class=\"point\" cx=\"{:.1}\" cy=\"{y:.1}\" r=\"4\"/>",
            x(log - 2.0 * se),
            x(log + 2.0 * se),
            x(log)
        ));
    }
    out + "</svg>"
}

/// The metric of each trial, block by block.
fn blocks(entries: &[Entry]) -> String {
    let all: Vec<&Vec<Seen>> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Block { seen, .. } => Some(seen),
            _ => None,
        })
        .collect();
    let values = all.iter().flat_map(|seen| seen.iter()).filter_map(|s| s.value);
    let mut out = svg(HEIGHT, "trials, block by block");
    if let Some(axis) = Axis::of(values) {
        let x = |i: usize| LEFT + (i as f64 + 0.5) / all.len() as f64 * (WIDTH - LEFT - RIGHT);
        out.push_str(&axis.lines(RIGHT));
        let mut found = String::new();
        for (i, seen) in all.iter().enumerate() {
            for one in *seen {
                let Some(value) = one.value.filter(|v| *v > 0.0) else { continue };
                if one.levels.iter().all(|level| *level == 0) {
                    found.push_str(&format!(
                        "{}{:.1} {:.1}",
                        if found.is_empty() { "M" } else { "L" },
                        x(i),
                        axis.y(value)
                    ));
                } else {
                    out.push_str(&point(x(i), axis.y(value)));
                }
            }
        }
        out.push_str(&format!("<path class=\"fit\" d=\"{found}\"/>"));
    }
    out + "</svg>"
}

fn table(head: &[(&str, bool)]) -> Table {
    Table { head: head.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect(), rows: Vec::new() }
}

fn interactions(begin: &Begin, beliefs: &Beliefs) -> Table {
    let mut rows = table(&[("settings", false), ("ratio", true)]);
    for i in &beliefs.interactions {
        let [a, b] = i.of.map(|(tried, level)| setting(begin, tried, level));
        rows.row(vec![format!("{a} with {b}"), format!("×{:.3} ± {:.1} %", i.ratio, 200.0 * i.se_log)]);
    }
    rows
}

fn tested(begin: &Begin, beliefs: &Beliefs) -> Table {
    let mut rows = table(&[("measured", true), ("ratio", true), ("settings", false)]);
    beliefs.tested.iter().for_each(|tested| rows.row(tested_row(begin, tested)));
    rows
}

fn left_out(begin: &Begin) -> Table {
    let mut rows = table(&[("setting", false), ("why", false)]);
    begin.left_out.iter().for_each(|l| rows.row(vec![clean(&l.name), clean(&l.why)]));
    rows
}

fn design(begin: &Begin, entries: &[Entry], beliefs: &Beliefs) -> Table {
    let mut rows = table(&[("what", false), ("", false)]);
    let mut add = |what: &str, text: String| rows.row(vec![what.to_owned(), text]);
    add("began", text::moment(begin.began_unix_ns));
    add("command", clean(&text::shell(&begin.command)));
    let tried: Vec<String> = begin.tried.iter().map(|t| format!("{} ({})", clean(&t.name), clean(&t.why))).collect();
    add("tried", tried.join("; "));
    let (mut spent_s, mut blocks) = (0.0, 0);
    for entry in entries {
        match entry {
            Entry::Block { spent_s: s, .. } => (spent_s, blocks) = (spent_s + s, blocks + 1),
            Entry::Host { host } => add("host", clean(host)),
            _ => {}
        }
    }
    let (trials, points) = (count(beliefs.trials as usize, "trial"), count(beliefs.points, "combination"));
    add("search", format!("{trials} of {points} in {}, {spent_s:.0} s", count(blocks, "block")));
    rows
}
