//! The sentences of a comparison.

use super::pieces::Pieces;
use crate::kinds::{Kind, MarkClass};
use crate::words::{number, percent, ratio};
use holdup_model::captures::{CaptureComparison, Clusters, MarkComparison, Moved};
use holdup_model::outcome::FindingVerdict;
use holdup_model::text::{capital, count, factor, list};

const NAMED: usize = 4;

/// From this share of segments on, a note reports missed segments.
const MISSED: f64 = 1e-3;

/// From this share of segments on, a note reports super-packets.
const MERGED: f64 = 0.01;

/// From this ratio of mean sizes on, rates by segment and by byte differ noticeably.
const SIZES_DIFFER: f64 = 1.2;

/// Writes answer, details and notes.
pub(super) fn write(one: &mut CaptureComparison, a: &Pieces<'_>, b: &Pieces<'_>) {
    let trouble: Vec<&MarkComparison> = one.marks.iter().filter(|m| m.mark.class == MarkClass::Trouble).collect();
    let mut worse: Vec<&MarkComparison> = trouble.iter().copied().filter(|m| m.moved == Moved::Worse).collect();
    worse.sort_by(|a, b| credible(b).total_cmp(&credible(a)));
    let open: Vec<&MarkComparison> =
        trouble.iter().copied().filter(|m| m.moved == Moved::Undecided && !is_no_worse(m, one.margin)).collect();
    let (verdict, answer) = match worse.split_first() {
        Some((first, others)) => (FindingVerdict::Supported, got_worse(first, others)),
        None if open.is_empty() => (FindingVerdict::Refuted, nothing_worse(&trouble, a, b)),
        None => (FindingVerdict::Undecided, undecided(&open)),
    };
    let mut details = Vec::new();
    details.extend(still_open(&worse, &open));
    details.extend(moved(&trouble, Moved::Better).map(|rows| format!("Better: {rows}.")));
    details.extend(capture_artefacts(&one.marks));
    details.extend(by_bytes(&worse, a, b));
    (one.verdict, one.answer, one.details) = (verdict, answer, details);
    one.notes = notes(one, a, b);
}

/// The lower bound of the worsening.
fn credible(row: &MarkComparison) -> f64 {
    row.per_segment.ratio.as_ref().map(|e| e.low).or(row.per_segment.at_least).unwrap_or(0.0)
}

/// True if the upper bound is within the margin.
fn is_no_worse(row: &MarkComparison, margin: f64) -> bool {
    let high = row.per_segment.ratio.as_ref().map(|e| e.high).or(row.per_segment.at_most);
    high.is_some_and(|high| high <= 1.0 + margin)
}

/// `×30.1 (21.2 to 43.1)`, `at least ×12`.
fn how_much(row: &MarkComparison) -> String {
    let shown = &row.per_segment;
    match (&shown.ratio, shown.at_least, shown.at_most) {
        (Some(e), ..) => ratio(e),
        (None, Some(x), _) => format!("at least {}", factor(x)),
        (None, None, Some(x)) => format!("at most {}", factor(x)),
        (None, None, None) => "no ratio".to_owned(),
    }
}

fn named(row: &MarkComparison) -> String {
    format!("{} {}", row.mark.plain_title(), how_much(row))
}

fn names(rows: &[&MarkComparison]) -> String {
    let mut words: Vec<String> = rows.iter().take(NAMED).map(|row| named(row)).collect();
    if rows.len() > NAMED {
        words.push(format!("{} more", rows.len() - NAMED));
    }
    list(&words)
}

fn got_worse(first: &MarkComparison, others: &[&MarkComparison]) -> String {
    let rates = match (first.baseline.per_million_segments, first.other.per_million_segments) {
        (Some(0.0), Some(b)) => format!(": {} per million segments, and none before", number(b)),
        (Some(a), Some(b)) => format!(": {} per million segments instead of {}", number(b), number(a)),
        _ => String::new(),
    };
    let mut out = format!("Got worse the most: {}{rates}.", named(first));
    if !others.is_empty() {
        out.push_str(&format!(" Also worse: {}.", names(others)));
    }
    out
}

fn nothing_worse(trouble: &[&MarkComparison], a: &Pieces<'_>, b: &Pieces<'_>) -> String {
    if trouble.is_empty() {
        let segments = |p: &Pieces<'_>| number(p.traffic.segments as f64);
        return format!(
            "Nothing got worse: no mark of trouble in {} segments before and {} after.",
            segments(a),
            segments(b)
        );
    }
    let rows = count(trouble.len(), "mark");
    format!("Nothing got worse: {rows} of trouble, none more frequent than before.")
}

/// The undecided row that may be the worst.
fn most_open<'a>(open: &[&'a MarkComparison]) -> Option<&'a MarkComparison> {
    let high = |row: &MarkComparison| match &row.per_segment.ratio {
        Some(e) => e.high,
        None => f64::INFINITY,
    };
    let sure = |row: &MarkComparison| row.p_adjusted.unwrap_or(2.0);
    open.iter().copied().min_by(|a, b| sure(a).total_cmp(&sure(b)).then(high(b).total_cmp(&high(a))))
}

fn undecided(open: &[&MarkComparison]) -> String {
    let Some(first) = most_open(open) else { return String::new() };
    let mut out = format!("Undecided: nothing got worse beyond noise, but {} could have: ", count(open.len(), "mark"));
    out.push_str(&match &first.per_segment.absent {
        Some(why) => {
            format!("{} {} and {}, and {why}", first.mark.plain_title(), first.baseline.count, first.other.count)
        }
        None => named(first),
    });
    out.push('.');
    match first.traffic_needed {
        Some(times) => {
            out.push_str(&format!(" About {} times as much traffic would probably decide it.", number(times)));
        }
        None if first.per_segment.ratio.is_some() => {
            out.push_str(" Far more traffic would be needed.");
        }
        None => {}
    }
    out
}

fn still_open(worse: &[&MarkComparison], open: &[&MarkComparison]) -> Option<String> {
    (!worse.is_empty() && !open.is_empty()).then(|| format!("Open: {}.", names(open)))
}

fn moved(rows: &[&MarkComparison], how: Moved) -> Option<String> {
    let found: Vec<&MarkComparison> = rows.iter().copied().filter(|m| m.moved == how).collect();
    (!found.is_empty()).then(|| names(&found))
}

fn capture_artefacts(rows: &[MarkComparison]) -> Option<String> {
    let moved = |m: &&MarkComparison| {
        m.mark.class == MarkClass::CaptureArtefact && matches!(m.moved, Moved::More | Moved::Less)
    };
    let found: Vec<&MarkComparison> = rows.iter().filter(moved).collect();
    (!found.is_empty()).then(|| {
        let verb = if found.len() == 1 { "comes" } else { "come" };
        format!(
            "{} {verb} from the capture itself, or from loss and reordering before it: --engine rfc distinguishes these.",
            capital(&names(&found))
        )
    })
}

/// The rows that are not worse by bytes.
fn by_bytes(worse: &[&MarkComparison], a: &Pieces<'_>, b: &Pieces<'_>) -> Option<String> {
    let size = |p: &Pieces<'_>| p.traffic.payload_bytes as f64 / p.traffic.data_segments.max(1) as f64;
    let (before, after) = (size(a), size(b));
    let differ = before > 0.0 && after > 0.0 && (after / before).max(before / after) > SIZES_DIFFER;
    let parts: Vec<String> = worse
        .iter()
        .filter_map(|row| {
            let e = row.per_byte.ratio.as_ref().filter(|e| e.low <= 1.0)?;
            Some(format!("{} {}", row.mark.plain_title(), ratio(e)))
        })
        .collect();
    match (parts.is_empty(), differ) {
        (true, _) => None,
        (false, true) => Some(format!(
            "By bytes of payload this is not certain: {}. Segments with payload have {} bytes on average instead of \
             {}, so the same bytes give another number of segments.",
            list(&parts),
            number(after),
            number(before)
        )),
        (false, false) => Some(format!("By bytes of payload this is not certain: {}.", list(&parts))),
    }
}

fn notes(one: &CaptureComparison, a: &Pieces<'_>, b: &Pieces<'_>) -> Vec<String> {
    let mut notes =
        vec!["The captures were not interleaved: every ratio includes all else that changed between them.".to_owned()];
    let share = |p: &Pieces<'_>, kind| p.count(kind) as f64 / p.traffic.segments.max(1) as f64;
    for (name, p) in [(&one.baseline, a), (&one.other, b)] {
        let missed = share(p, Kind::LostSegment) + share(p, Kind::AckLostSegment);
        if missed > MISSED {
            notes.push(format!(
                "{name}: {} marks per million segments indicate segments that were not captured; marks that follow from them may \
                 be capture artefacts.",
                number(missed * 1e6)
            ));
        }
        let merged = share(p, Kind::MssExceeded);
        if merged > MERGED {
            notes.push(format!(
                "{name}: {} of the segments are longer than the MSS: the capture holds super-packets (TSO, GRO), so that its \
                 segments are not the packets on the wire.",
                percent(merged)
            ));
        }
    }
    notes.extend(rests_on(one));
    notes
}

fn rests_on(one: &CaptureComparison) -> Option<String> {
    let with = |by| one.marks.iter().filter(|m| m.per_segment.clusters == Some(by)).count();
    match (with(Clusters::Connections), with(Clusters::Spans)) {
        (0, 0) => None,
        (_, 0) => Some("Intervals rest on how rates differ between connections.".to_owned()),
        (0, _) => Some(
            "Intervals rest on how rates differ between spans of time; whether other connections would show the same is \
             not known."
                .to_owned(),
        ),
        (flows, spans) => Some(format!(
            "Intervals rest on how rates differ between connections ({flows} of the rows) or between spans of time \
             ({spans}), whichever is more."
        )),
    }
}
