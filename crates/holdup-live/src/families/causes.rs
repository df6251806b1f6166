//! What `holdup explain` says about each window.

use super::{Family, Kind, Reading, Seen, Sink};
use holdup_model::outcome::FindingVerdict;

pub(super) const FAMILIES: &[Family] = &[
    Family {
        name: "holdup_cause_seconds",
        help: "Time that tasks lost to each cause of `holdup explain`, judged window by window; causes overlap.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["cause"],
        read: seconds,
    },
    Family {
        name: "holdup_cause_share_ratio",
        help: "Share of the last window that each cause has in what it is measured against (docs/explain.md).",
        kind: Kind::Gauge,
        unit: "ratio",
        labels: &["cause"],
        read: share,
    },
    Family {
        name: "holdup_cause_undecided_seconds",
        help: "Time watched in which a cause could not be judged, because evidence was missing.",
        kind: Kind::Counter,
        unit: "seconds",
        labels: &["cause"],
        read: undecided,
    },
    Family {
        name: "holdup_sessions_at_work",
        help: "Sessions at work in the last window, on average.",
        kind: Kind::Gauge,
        unit: "",
        labels: &[],
        read: sessions,
    },
];

/// Stands for no cause.
const NOTHING: &str = "nothing";

fn seconds(seen: &Seen<'_>, into: &mut Sink<'_>) {
    for cause in seen.alone.iter().flat_map(|arm| &arm.causes).filter(|c| c.id != NOTHING) {
        if let Some(tasks) = cause.tasks_held_up {
            into(&[&cause.id], Reading::Number(tasks * seen.length_s));
        }
    }
}

fn share(seen: &Seen<'_>, into: &mut Sink<'_>) {
    for cause in seen.alone.iter().flat_map(|arm| &arm.causes).filter(|c| c.id != NOTHING) {
        if let Some(share) = cause.plain_share {
            into(&[&cause.id], Reading::Number(share));
        }
    }
}

fn undecided(seen: &Seen<'_>, into: &mut Sink<'_>) {
    for cause in seen.alone.iter().flat_map(|arm| &arm.causes).filter(|c| c.id != NOTHING) {
        // One window has no interval: what is missing is evidence, and not certainty.
        let is_open = cause.verdict == FindingVerdict::Undecided && !cause.missing.is_empty();
        into(&[&cause.id], Reading::Number(if is_open { seen.length_s } else { 0.0 }));
    }
}

fn sessions(seen: &Seen<'_>, into: &mut Sink<'_>) {
    if let Some(account) = seen.alone.and_then(|arm| arm.account.as_ref()) {
        into(&[], Reading::Number(account.sessions));
    }
}
