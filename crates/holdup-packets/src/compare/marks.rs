//! The marks of two captures: rates, ratios, verdicts.

use super::pieces::{Base, Pieces, cluster_types, why_none};
use crate::kinds::{Kind, MarkClass};
use holdup_model::captures::{Clusters, Mark, MarkComparison, MarkRate, Moved, RateRatio};
use holdup_model::{Estimate, Verdict};
use holdup_stats::{
    ALPHA, CONFIDENCE, Cluster, Effect, NoEstimate, cluster_rate, holm, judge_corrected, rate_bound, rate_unpaired,
};

const CAPTURE_ARTEFACT: &str = "a capture artefact: missed, merged or reordered segments, not the network";

struct Ratio {
    shown: RateRatio,
    effect: Option<Effect>,
    /// p of "no difference".
    p: Option<f64>,
}

/// A mark in two captures, before the correction over all rows.
pub(super) struct Row {
    comparison: MarkComparison,
    effect: Option<Effect>,
    p: Option<f64>,
}

impl Row {
    pub(super) fn into_comparison(self) -> MarkComparison {
        self.comparison
    }
}

pub(crate) fn mark(kind: Kind) -> Mark {
    Mark { field: kind.field().to_owned(), title: kind.title().to_owned(), class: kind.class() }
}

/// A kind's rates in one capture, with the widest interval of all cluster types.
pub(crate) fn rate(side: &Pieces<'_>, kind: Kind) -> MarkRate {
    let count = side.count(kind);
    let by = |base: Base| {
        let work = base.of(&side.traffic) as f64;
        (work > 0.0).then(|| count as f64 / work * base.unit())
    };
    let interval = |base: Base| {
        let each = sorts_of(&[side], kind, base).into_iter().filter_map(|sort| {
            let e = cluster_rate(&side.clusters(sort, kind, base), CONFIDENCE).ok()?;
            // A segment has a mark at most once.
            let most = if base == Base::Segments { base.unit() } else { f64::INFINITY };
            Some((e.low * base.unit(), (e.high * base.unit()).min(most)))
        });
        each.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)))
    };
    MarkRate {
        count,
        per_million_segments: by(Base::Segments),
        per_million_segments_interval: interval(Base::Segments),
        per_gb: by(Base::Bytes),
        per_gb_interval: interval(Base::Bytes),
    }
}

/// The cluster types for a kind's error. Marks of connection setup and teardown depend on when connections begin, which says
/// nothing about bursts, so spans are not used for them.
fn sorts_of(sides: &[&Pieces<'_>], kind: Kind, base: Base) -> Vec<Clusters> {
    let all = cluster_types(sides, base);
    match kind.class() == MarkClass::Normal && all.contains(&Clusters::Connections) {
        true => vec![Clusters::Connections],
        false => all,
    }
}

pub(super) fn rows(a: &Pieces<'_>, b: &Pieces<'_>) -> Vec<Row> {
    let seen = Kind::ALL.iter().filter(|kind| a.count(**kind) + b.count(**kind) > 0);
    seen.map(|kind| row(a, b, *kind)).collect()
}

fn row(a: &Pieces<'_>, b: &Pieces<'_>, kind: Kind) -> Row {
    let per_segment = any_ratio(a, b, kind, Base::Segments);
    let comparison = MarkComparison {
        mark: mark(kind),
        baseline: rate(a, kind),
        other: rate(b, kind),
        per_segment: per_segment.shown,
        per_byte: any_ratio(a, b, kind, Base::Bytes).shown,
        p_adjusted: None,
        verdict: Verdict::Undecided { reason: String::new(), blocks_needed: None },
        moved: Moved::Undecided,
        traffic_needed: None,
        caveat: (kind.class() == MarkClass::CaptureArtefact).then(|| CAPTURE_ARTEFACT.to_owned()),
    };
    Row { comparison, effect: per_segment.effect, p: per_segment.p }
}

fn any_ratio(a: &Pieces<'_>, b: &Pieces<'_>, kind: Kind, base: Base) -> Ratio {
    match (a.count(kind), b.count(kind)) {
        (0, _) => bound(b, a, kind, base, |at_least| (Some(at_least), None)),
        (_, 0) => bound(a, b, kind, base, |at_least| (None, Some(1.0 / at_least))),
        _ => ratio(a, b, kind, base),
    }
}

fn ratio(a: &Pieces<'_>, b: &Pieces<'_>, kind: Kind, base: Base) -> Ratio {
    let mut why = why_none(&[a, b]);
    let mut best: Option<(Estimate, Effect, Clusters)> = None;
    for by in sorts_of(&[a, b], kind, base) {
        let found = rate_unpaired(&a.clusters(by, kind, base), &b.clusters(by, kind, base))
            .and_then(|effect| Ok((effect.estimate(CONFIDENCE)?, effect)));
        match found {
            Ok((e, effect)) => {
                if best.as_ref().is_none_or(|(wide, ..)| e.high / e.low > wide.high / wide.low) {
                    best = Some((e, effect, by));
                }
            }
            Err(no) => why = no.reason,
        }
    }
    match best {
        Some((estimate, effect, by)) => {
            let p = Some(effect.p_difference());
            let shown =
                RateRatio { ratio: Some(estimate), at_least: None, at_most: None, clusters: Some(by), absent: None };
            Ratio { shown, effect: Some(effect), p }
        }
        None => Ratio { shown: nothing(why), effect: None, p: None },
    }
}

fn bound(
    with: &Pieces<'_>,
    without: &Pieces<'_>,
    kind: Kind,
    base: Base,
    place: impl Fn(f64) -> (Option<f64>, Option<f64>),
) -> Ratio {
    let work = base.of(&without.traffic) as f64;
    // With too few clusters, all marks may be one cluster.
    let whole = || vec![Cluster { events: with.count(kind) as f64, work: base.of(&with.traffic) as f64 }];
    let mut each: Vec<(Option<Clusters>, Vec<Cluster>)> =
        sorts_of(&[with], kind, base).into_iter().map(|by| (Some(by), with.clusters(by, kind, base))).collect();
    if each.is_empty() {
        each.push((None, whole()));
    }
    let bounds = each.into_iter().map(|(by, clusters)| rate_bound(&clusters, work).map(|bound| (by, bound)));
    let least = bounds.reduce(|a, b| match (a, b) {
        (Ok(a), Ok(b)) => Ok(if b.1.at_least < a.1.at_least { b } else { a }),
        (Err(_), other) | (other, Err(_)) => other,
    });
    match least {
        Some(Ok((by, bound))) => {
            let (at_least, at_most) = place(bound.at_least);
            let shown = RateRatio { ratio: None, at_least, at_most, clusters: by, absent: None };
            Ratio { shown, effect: None, p: Some(bound.p_difference) }
        }
        Some(Err(no)) => Ratio { shown: nothing(no.reason), effect: None, p: None },
        None => Ratio { shown: nothing(why_none(&[with])), effect: None, p: None },
    }
}

pub(super) fn nothing(why: String) -> RateRatio {
    RateRatio { ratio: None, at_least: None, at_most: None, clusters: None, absent: Some(why) }
}

/// A ratio with an interval from spans, or the reason why there is none.
pub(super) fn over_spans(effect: Result<Effect, NoEstimate>) -> RateRatio {
    match effect.and_then(|effect| effect.estimate(CONFIDENCE)) {
        Ok(estimate) => RateRatio {
            ratio: Some(estimate),
            at_least: None,
            at_most: None,
            clusters: Some(Clusters::Spans),
            absent: None,
        },
        Err(no) => nothing(no.reason),
    }
}

pub(super) fn judge<'a>(rows: impl Iterator<Item = &'a mut Row>, margin: f64) {
    let mut rows: Vec<&mut Row> = rows.collect();
    let p: Vec<f64> = rows.iter().map(|row| row.p.unwrap_or(f64::NAN)).collect();
    let family = u32::try_from(p.iter().filter(|p| !p.is_nan()).count()).unwrap_or(u32::MAX);
    for (row, (p, adjusted)) in rows.iter_mut().zip(p.iter().zip(holm(&p))) {
        row.comparison.p_adjusted = (!p.is_nan()).then_some(adjusted);
        row.comparison.verdict = match &row.effect {
            Some(effect) => judge_corrected(effect, margin, adjusted, family),
            None if !p.is_nan() && adjusted <= ALPHA => Verdict::Different,
            None => Verdict::Undecided { reason: why_open(&row.comparison), blocks_needed: None },
        };
        row.comparison.traffic_needed = match (&row.comparison.verdict, &row.effect) {
            (Verdict::Undecided { blocks_needed: Some(more), .. }, Some(effect)) => {
                Some(1.0 + f64::from(*more) / f64::from(effect.blocks().max(1)))
            }
            _ => None,
        };
        row.comparison.moved = moved(&row.comparison);
    }
}

fn why_open(row: &MarkComparison) -> String {
    match &row.per_segment.absent {
        Some(why) => why.clone(),
        None => {
            format!("one side has none, and {} on the other may be chance", row.baseline.count.max(row.other.count))
        }
    }
}

fn moved(row: &MarkComparison) -> Moved {
    let is_up = match (&row.per_segment.ratio, row.per_segment.at_least) {
        (Some(e), _) => e.value > 1.0,
        (None, bound) => bound.is_some(),
    };
    match (&row.verdict, row.mark.class, is_up) {
        (Verdict::Undecided { .. }, ..) => Moved::Undecided,
        (Verdict::Equivalent, ..) => Moved::Same,
        (Verdict::Different, MarkClass::Trouble, true) => Moved::Worse,
        (Verdict::Different, MarkClass::Trouble, false) => Moved::Better,
        (Verdict::Different, _, true) => Moved::More,
        (Verdict::Different, _, false) => Moved::Less,
    }
}
