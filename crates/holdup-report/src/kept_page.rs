//! The history of a plan as one page that needs no network and no script.

use crate::kept::{level, name};
use crate::page::Table;
use crate::page::policy::policy;
use crate::pictures::{Axis, BELOW, HEIGHT, LEFT, WIDTH, escaped, point};
use crate::text::{self, clean};
use askama::Template;
use holdup_model::foreign::lines;
use holdup_model::kept::{ChangedSeries, KeptHistory, KeptRun};

const STYLE: &str = include_str!("../templates/page.css");

/// What the right edge of a picture takes.
const RIGHT: f64 = 16.0;

/// Runs that the table has; of more the newest.
const ROWS: usize = 500;

#[derive(Template)]
#[template(path = "kept.html")]
struct Page {
    title: String,
    details: Vec<String>,
    findings: Vec<Said>,
    charts: Vec<Chart>,
    runs: Table,
    policy: String,
    style: &'static str,
}

struct Said {
    sentence: String,
    details: Vec<String>,
}

struct Chart {
    name: String,
    note: String,
    picture: String,
}

/// A history as one page.
pub fn kept_history_html(history: &KeptHistory) -> String {
    let plan = history.runs.first().map(|run| clean(&run.plan)).unwrap_or_default();
    let question = history.runs.last().map(|run| clean(&run.question));
    let page = Page {
        title: format!("{plan}: {}", text::count(history.runs.len(), "run")),
        details: history.caution.iter().map(|c| clean(c)).chain(question).collect(),
        findings: history
            .findings
            .iter()
            .map(|f| Said { sentence: clean(&f.sentence), details: f.details.iter().map(|d| clean(d)).collect() })
            .collect(),
        charts: history.series.iter().map(|series| chart(history, series)).collect(),
        runs: runs(&history.runs),
        policy: policy(None),
        style: STYLE,
    };
    lines(&page.render().expect("writing to a string cannot fail, and the template calls nothing that can"))
}

fn chart(history: &KeptHistory, series: &ChangedSeries) -> Chart {
    let open = series.open.as_ref().map_or_else(
        || "No regression is open.".to_owned(),
        |o| format!("An open regression: {} for {}.", holdup_model::text::factor(o.ratio), text::count(o.runs, "run")),
    );
    let absent = series.absent.as_ref().map(|why| format!(" Changes were not looked for: {}.", clean(why)));
    let changes = text::count(series.changes.len(), "change");
    Chart {
        name: format!("{}, {} ({})", name(&series.key), clean(&series.metric.id), clean(&series.metric.unit)),
        note: format!("{}, {changes}. {open}{}", text::count(series.values.len(), "run"), absent.unwrap_or_default()),
        picture: picture(history, series),
    }
}

fn picture(history: &KeptHistory, series: &ChangedSeries) -> String {
    let n = series.values.len();
    let across = |index: f64| LEFT + (index + 0.5) / n.max(1) as f64 * (WIDTH - LEFT - RIGHT);
    let frame = format!(
        "<rect class=\"frame\" x=\"{LEFT}\" y=\"6\" width=\"{:.0}\" height=\"{:.0}\"/>",
        WIDTH - LEFT - RIGHT,
        HEIGHT - BELOW - 6.0
    );
    let mut out =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"values of each run\">{frame}");
    if let Some(axis) = Axis::of(series.values.iter().copied()) {
        out.push_str(&axis.lines(RIGHT));
        for (i, value) in series.values.iter().enumerate().filter(|(_, v)| **v > 0.0) {
            out.push_str(&point(across(i as f64), axis.y(*value)));
        }
        let edges: Vec<usize> =
            std::iter::once(0).chain(series.changes.iter().map(|c| c.at)).chain(std::iter::once(n)).collect();
        let mut path = String::new();
        for edge in edges.windows(2).filter(|edge| edge[0] < edge[1]) {
            let now = level(&series.values[edge[0]..edge[1]]);
            if now > 0.0 {
                let (from, to) = (across(edge[0] as f64 - 0.5), across(edge[1] as f64 - 0.5));
                let move_or_line = if path.is_empty() { 'M' } else { 'L' };
                path.push_str(&format!("{move_or_line}{from:.1} {y:.1}L{to:.1} {y:.1}", y = axis.y(now)));
            }
        }
        out.push_str(&format!("<path class=\"fit\" d=\"{path}\"/>"));
    }
    for (at, anchor) in [(0, "start"), (n.saturating_sub(1), "end")] {
        let day = series.runs.get(at).map(|run| holdup_model::text::day(history.runs[*run].created_unix_ns));
        let (x, y) = (across(at as f64), HEIGHT - 8.0);
        out.push_str(&format!(
            "<text x=\"{x:.1}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(&day.unwrap_or_default())
        ));
    }
    out + "</svg>"
}

fn runs(all: &[KeptRun]) -> Table {
    let head = [
        ("run", false),
        ("begun", false),
        ("host", false),
        ("kernel", false),
        ("PostgreSQL", false),
        ("holdup", false),
        ("trials", true),
    ];
    let mut table = Table { head: head.map(|(h, n)| (h.to_owned(), n)).to_vec(), rows: Vec::new() };
    for run in all.iter().rev().take(ROWS) {
        let or_dash = |text: &Option<String>| text.as_deref().map_or_else(|| "–".to_owned(), clean);
        table.row(vec![
            clean(&run.run_id),
            text::moment(run.created_unix_ns),
            or_dash(&run.host),
            or_dash(&run.kernel),
            or_dash(&run.server),
            clean(&run.holdup_version),
            run.trials_done.to_string(),
        ]);
    }
    table
}
