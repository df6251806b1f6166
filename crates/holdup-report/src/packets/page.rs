//! Captures as one page that needs no network and no script: the tables, and the worst connections over time.

use super::{GROUPS, count, one, rate, title, two};
use crate::page::Table;
use crate::page::policy::policy;
use crate::text::clean;
use askama::Template;
use holdup_model::captures::{Capture, CaptureComparison, CaptureTrace, PointKind, TracePoint};
use holdup_model::foreign::lines;

const STYLE: &str = include_str!("../../templates/page.css");

/// The size of a picture, and what its edges take.
const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 70.0;
const BELOW: f64 = 24.0;

pub(crate) struct Compared {
    pub(crate) name: String,
    pub(crate) answer: String,
    pub(crate) details: Vec<String>,
    pub(crate) totals: Table,
    pub(crate) marks: Table,
    pub(crate) legend: String,
    pub(crate) quantiles: Table,
    pub(crate) notes: Vec<String>,
}

pub(crate) struct Shown {
    pub(crate) name: String,
    pub(crate) answer: String,
    pub(crate) head: String,
    pub(crate) marks: Table,
    pub(crate) notes: Vec<String>,
    pub(crate) traces: Vec<Picture>,
}

pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) one_of: u32,
    pub(crate) svg: String,
}

impl Compared {
    /// The tables alone.
    pub(super) fn without_answer(self) -> Self {
        Compared { answer: String::new(), details: Vec::new(), ..self }
    }
}

#[derive(Template)]
#[template(path = "packets.html")]
struct Page {
    title: String,
    policy: String,
    style: &'static str,
    comparisons: Vec<Compared>,
    captures: Vec<Shown>,
}

/// Captures, what was compared of them, and their worst connections over time, as one page.
pub fn packets_html(captures: &[Capture], comparisons: &[CaptureComparison], traces: &[CaptureTrace]) -> String {
    let names: Vec<String> = captures.iter().map(|c| clean(&c.name)).collect();
    let page = Page {
        title: names.join(" against "),
        policy: policy(None),
        style: STYLE,
        comparisons: comparisons.iter().map(compared).collect(),
        captures: captures.iter().map(|c| shown(c, traces)).collect(),
    };
    lines(&page.render().expect("writing to a string cannot fail, and the template calls nothing that can"))
}

fn cleaned(texts: &[String]) -> Vec<String> {
    texts.iter().map(|t| clean(t)).collect()
}

/// A table of rows whose first cell is words.
fn table(head: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::numbers(head[0], head[1..].iter().map(|h| (*h).to_owned()));
    rows.into_iter().for_each(|row| table.row(row));
    table
}

/// What a comparison is called.
pub(super) fn against(c: &CaptureComparison) -> String {
    format!("{} against {}", c.other, c.baseline)
}

/// A row for each mark: its title, counts of A and B, rates of A and B, ratios by segments and by payload.
pub(super) fn mark_rows(c: &CaptureComparison) -> Vec<Vec<String>> {
    let marks = GROUPS.iter().flat_map(|(class, _)| c.marks.iter().filter(|m| m.mark.class == *class)).map(|m| {
        vec![
            format!("{} {}", two::sign(m.moved), title(&m.mark)),
            count(m.baseline.count),
            count(m.other.count),
            rate(m.baseline.per_million_segments),
            rate(m.other.per_million_segments),
            two::ratio(&m.per_segment),
            two::ratio(&m.per_byte),
        ]
    });
    marks.collect()
}

pub(super) fn compared(c: &CaptureComparison) -> Compared {
    Compared {
        name: clean(&against(c)),
        answer: clean(&c.answer),
        details: cleaned(&c.details),
        totals: table(&["", "A", "B", "B / A"], two::total_rows(&c.totals)),
        marks: table(
            &["", "A count", "B count", "A per million", "B per million", "B / A by segments", "B / A by payload"],
            mark_rows(c),
        ),
        legend: two::LEGEND.to_owned(),
        quantiles: table(&["", "A", "B", "B / A"], two::quantile_rows(&c.quantiles)),
        notes: cleaned(&c.notes),
    }
}

pub(super) fn shown(c: &Capture, traces: &[CaptureTrace]) -> Shown {
    let marks = GROUPS
        .iter()
        .flat_map(|(class, _)| c.marks.iter().filter(|m| m.mark.class == *class))
        .map(|m| vec![title(&m.mark), count(m.rate.count), rate(m.rate.per_million_segments), rate(m.rate.per_gb)]);
    Shown {
        name: clean(&c.name),
        answer: clean(&c.answer),
        head: clean(&one::head(c)),
        marks: table(&["", "count", "per million segments", "per GB of payload"], marks.collect()),
        notes: cleaned(&c.notes),
        traces: traces.iter().filter(|t| t.capture == c.name).map(|t| picture(clean(&title_of(t)), t)).collect(),
    }
}

/// `#4 10.0.0.1:40000 → 10.0.0.2:5201, 12 marks of trouble`.
pub(super) fn title_of(trace: &CaptureTrace) -> String {
    let marks = match trace.trouble {
        1 => "1 mark".to_owned(),
        n => format!("{} marks", count(n)),
    };
    format!("#{} {} → {}, {marks} of trouble", trace.stream, trace.from, trace.to)
}

pub(super) fn picture(title: String, trace: &CaptureTrace) -> Picture {
    Picture { title, one_of: trace.one_of, svg: svg(trace) }
}

/// Where a value lies between two ends, on a scale of a length.
fn place(value: i64, (low, high): (i64, i64), length: f64) -> f64 {
    let span = (high as f64 - low as f64).max(1.0);
    (value as f64 - low as f64) / span * length
}

/// The picture: bytes over time, nothing in it but numbers of ours.
fn svg(trace: &CaptureTrace) -> String {
    let ends = |of: fn(&TracePoint) -> i64, kept: fn(&&TracePoint) -> bool| {
        let all = || trace.points.iter().filter(kept).map(of);
        (all().min().unwrap_or(0), all().max().unwrap_or(0))
    };
    // What was sent sets the scale: an acknowledgement may be of anything.
    let (times, bytes) = (ends(|p| p.at_ns, |_| true), ends(|p| p.byte, |p| p.kind != PointKind::Ack));
    let x = |at_ns: i64| LEFT + place(at_ns, times, WIDTH - LEFT - 10.0);
    let y = |byte: i64| HEIGHT - BELOW - place(byte.clamp(bytes.0, bytes.1), bytes, HEIGHT - BELOW - 10.0);
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"bytes over time\">");
    for i in 0..=4_i64 {
        let byte = bytes.0 + bytes.1.saturating_sub(bytes.0) / 4 * i;
        let at = times.0 + times.1.saturating_sub(times.0) / 4 * i;
        let (h, v) = (y(byte), x(at));
        out.push_str(&format!("<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{h:.1}\" y2=\"{h:.1}\"/>"));
        let label = holdup_model::text::size(u64::try_from(byte.saturating_sub(bytes.0)).unwrap_or(0));
        out.push_str(&format!("<text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 4.0, h + 4.0));
        let label = crate::text::duration(u64::try_from(at).unwrap_or(0));
        let anchor = if i == 4 { "end" } else { "middle" };
        out.push_str(&format!("<text x=\"{v:.1}\" y=\"{:.0}\" text-anchor=\"{anchor}\">{label}</text>", HEIGHT - 6.0));
    }
    let mut line = String::new();
    // Acknowledgements are a staircase: a number holds until the next one.
    for p in trace.points.iter().filter(|p| p.kind == PointKind::Ack) {
        let step = if line.is_empty() { "M" } else { "H" };
        line.push_str(&match step {
            "M" => format!("M{:.1} {:.1}", x(p.at_ns), y(p.byte)),
            _ => format!("H{:.1}V{:.1}", x(p.at_ns), y(p.byte)),
        });
    }
    out.push_str(&format!("<path class=\"ack\" d=\"{line}\"/>"));
    for p in trace.points.iter().filter(|p| p.kind != PointKind::Ack) {
        let (x, y) = (x(p.at_ns), y(p.byte));
        out.push_str(&match p.kind {
            PointKind::SentAgain => {
                format!("<rect class=\"again\" x=\"{:.1}\" y=\"{:.1}\" width=\"5\" height=\"5\"/>", x - 2.5, y - 2.5)
            }
            _ => format!("<circle class=\"data\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"1.3\"/>"),
        });
    }
    out.push_str("</svg>");
    out
}
