//! One capture.

use super::{GROUPS, count, notes, quantile, rate, speed, title, value};
use crate::formats::terminal::TerminalOptions;
use crate::text::{self, align, clean, wrap};
use holdup_model::captures::{Capture, CapturePart, Judged, MarkClass, MarkCount, Parts};
use holdup_model::text::size;

/// Marks that are named of a part.
const NAMED: usize = 4;

/// Columns of the longest bar.
const BAR: f64 = 24.0;

/// From this width on the rates by bytes have room as well.
pub(super) const WIDE: usize = 96;

/// A capture in full: the answer, what it is, marks, where the trouble is, how long things took.
pub(super) fn capture(capture: &Capture, options: &TerminalOptions) -> String {
    let mut out = options.bold_lines(&wrap(&capture.answer, options.columns(), "", ""));
    out.push_str(&wrap(&head(capture), options.columns(), "", ""));
    out.push_str(&marks(capture, options));
    out.push_str(&judgement(capture, options));
    out.push_str(&parts(capture, options));
    out.push_str(&distributions(capture, options));
    out.push_str(&notes(&capture.notes, options));
    out
}

/// A capture beside a comparison: what the comparison does not say.
pub(super) fn beside(capture: &Capture, options: &TerminalOptions) -> String {
    let mut out = options.bold_lines(&wrap(&capture.name, options.columns(), "", ""));
    out.push_str(&wrap(&capture.answer, options.columns(), "", ""));
    out.push_str(&wrap(&head(capture), options.columns(), "", ""));
    out.push_str(&judgement(capture, options));
    out.push_str(&parts(capture, options));
    out.push_str(&notes(&capture.notes, options));
    out
}

/// `full.pcap: 12 s from 2026-02-25 10:00:00 UTC, 1,234,567 frames, 4.1 GiB of payload, 2.9 Gbit/s`.
pub(super) fn head(c: &Capture) -> String {
    let seconds = c.length_ns as f64 / 1e9;
    let speed = match seconds > 0.0 {
        true => format!(", {} on the wire", speed(c.frame_bytes as f64 / seconds)),
        false => String::new(),
    };
    format!(
        "{}: {} from {}, {}, {} of payload{speed}",
        c.name,
        text::duration(c.length_ns),
        text::moment(c.begin_unix_ns),
        if c.frames == 1 { "1 frame".to_owned() } else { format!("{} frames", count(c.frames)) },
        size(c.traffic.payload_bytes),
    )
}

fn marks(c: &Capture, options: &TerminalOptions) -> String {
    if c.marks.is_empty() {
        return String::new();
    }
    let is_wide = options.columns() >= WIDE;
    let mut head = vec![String::new(), "count".to_owned(), "per million segments".to_owned()];
    if is_wide {
        head.push("per GB of payload".to_owned());
    }
    let mut rows = vec![head];
    for (class, name) in GROUPS {
        let of: Vec<&MarkCount> = c.marks.iter().filter(|m| m.mark.class == class).collect();
        if !of.is_empty() {
            rows.push(vec![name.to_owned()]);
        }
        for m in of {
            let with = |value: Option<f64>, interval: Option<(f64, f64)>| match interval {
                // How often connections begin and end is no sample of anything.
                Some((low, high)) if class != MarkClass::Normal => {
                    format!("{} ({} to {})", rate(value), rate(Some(low)), rate(Some(high)))
                }
                _ => rate(value),
            };
            let r = &m.rate;
            let mut row = vec![format!("  {}", title(&m.mark)), count(r.count)];
            row.push(with(r.per_million_segments, r.per_million_segments_interval));
            if is_wide {
                row.push(rate(r.per_gb));
            }
            rows.push(row);
        }
    }
    format!("\n{}", align(&rows, &[2], ""))
}

/// Our own judgement, where it was asked for.
fn judgement(c: &Capture, options: &TerminalOptions) -> String {
    let Some(lines) = &c.judgement else { return String::new() };
    let head = options.bold_lines("Our own judgement");
    if lines.is_empty() {
        return format!("\n{head}  nothing was lost, overtaken or sent again, and no connection stood still\n");
    }
    let row = |line: &Judged| {
        let length = line.length_ns.map(|ns| format!("{} in all", text::duration(ns))).unwrap_or_default();
        vec![format!("  {}", clean(&line.title)), count(line.count), length]
    };
    format!("\n{head}{}", align(&lines.iter().map(row).collect::<Vec<_>>(), &[], ""))
}

fn parts(c: &Capture, options: &TerminalOptions) -> String {
    let shown: Vec<&CapturePart> =
        c.parts.iter().filter(|p| c.by == Parts::Time || c.parts_in_all == 1 || p.trouble > 0).collect();
    if shown.is_empty() {
        return String::new();
    }
    let what = match c.by {
        Parts::Flow => "Connections with the most trouble",
        Parts::Host => "Hosts that sent the segments with the most trouble",
        Parts::Time => "Spans of time",
    };
    let named = if options.columns() >= WIDE { NAMED } else { NAMED - 1 };
    let head = ["", "segments", "payload", "trouble", "per million"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let per_million = |part: &CapturePart| part.trouble as f64 / part.traffic.segments.max(1) as f64 * 1e6;
    let most = shown.iter().map(|part| per_million(part)).fold(0.0, f64::max);
    for part in shown {
        let mut row = vec![
            format!("  {}", clean(&part.name)),
            count(part.traffic.segments),
            size(part.traffic.payload_bytes),
            count(part.trouble),
            rate(Some(per_million(part))),
        ];
        if c.by == Parts::Time {
            row.push("▪".repeat((per_million(part) / most.max(1e-9) * BAR).round() as usize));
        }
        rows.push(row);
        if part.trouble > 0 && c.by != Parts::Time {
            // A single cell widens no column.
            rows.push(vec![format!("    {}", first_marks(part, named))]);
        }
    }
    format!("\n{}{}", options.bold_lines(what), align(&rows, &[5], ""))
}

/// `duplicate ACK 120, fast retransmission 8`.
fn first_marks(part: &CapturePart, named: usize) -> String {
    let of = part.marks.iter().filter(|(mark, _)| mark.class == MarkClass::Trouble);
    let marks: Vec<String> = of.take(named).map(|(mark, n)| format!("{} {}", title(mark), count(*n))).collect();
    marks.join(", ")
}

fn distributions(c: &Capture, options: &TerminalOptions) -> String {
    if c.distributions.is_empty() {
        return String::new();
    }
    let quantiles = &c.distributions[0].quantiles;
    let mut rows = vec![vec![String::new(), "values".to_owned()]];
    rows[0].extend(quantiles.iter().map(|(q, ..)| quantile(*q)));
    let mut is_thin = false;
    for d in &c.distributions {
        let mut row = vec![format!("  {}", clean(&d.title)), count(d.count)];
        for (_, x, thin) in &d.quantiles {
            is_thin |= thin;
            row.push(format!("{}{}", value(&d.name, *x), if *thin { "*" } else { "" }));
        }
        rows.push(row);
    }
    let mut out = format!("\n{}{}", options.bold_lines("Times and sizes"), align(&rows, &[], ""));
    if is_thin {
        out.push_str(THIN);
    }
    out
}

/// What a star means.
pub(super) const THIN: &str = "  * fewer than 10 values beyond\n";
