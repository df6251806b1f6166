//! What machines must be for a ratio that somebody found to come out.

use super::shown;
use crate::text::{align, clean, count, wrap};
use holdup_model::prediction::{Reach, ReachedAlone};

/// Parameters that are shown, of those that come nearest alone.
const SHOWN: usize = 6;

/// The answer, then each parameter alone, then what the machines that reach the ratio have in common.
pub(super) fn section(reach: &Reach, width: usize) -> String {
    let mut out = wrap(&answer(reach), width, "▸ ", "  ");
    out.push_str(&wrap(&alone_sentence(reach), width, "  ", "  "));
    out.push_str(&align(&alone_rows(reach), &[4], "    "));
    if reach.reached > 0 {
        out.push_str(&wrap(&together_sentence(reach), width, "  ", "  "));
        out.push_str(&align(&together_rows(reach), &[], "    "));
    }
    out
}

fn answer(reach: &Reach) -> String {
    let bound = if reach.wanted < 1.0 { "or less" } else { "or more" };
    format!(
        "{}={} instead of {} giving ×{} {bound}: {} of {} reach it, with every cost between 1/{:.0} of its value and {:.0} times it. \
         The machine as its file has it gives ×{}; those drawn ×{} ({} to {}), at the extremes ×{} and ×{}.",
        clean(&reach.factor),
        clean(&reach.level),
        clean(&reach.baseline),
        shown(reach.wanted),
        reach.reached,
        count(reach.machines as usize, "machine"),
        reach.widened,
        reach.widened,
        shown(reach.as_described),
        shown(reach.drawn.median),
        shown(reach.drawn.low),
        shown(reach.drawn.high),
        shown(reach.extremes.0),
        shown(reach.extremes.1),
    )
}

fn alone_sentence(reach: &Reach) -> String {
    match reach.alone.iter().filter(|a| a.reached_at_ns.is_some()).count() {
        0 => "No parameter alone brings it there. Those that come nearest:".to_owned(),
        n => format!(
            "{} alone {} it there. Those that come nearest:",
            count(n, "parameter"),
            if n == 1 { "brings" } else { "bring" }
        ),
    }
}

fn alone_rows(reach: &Reach) -> Vec<Vec<String>> {
    let row = |a: &ReachedAlone| {
        vec![
            clean(&a.parameter),
            format!("{} ns", a.value_ns),
            format!("→ {} ns", a.nearest_ns),
            format!("×{}", shown(a.nearest)),
            a.reached_at_ns.map(|ns| format!("reached at {ns} ns")).unwrap_or_default(),
        ]
    };
    reach.alone.iter().take(SHOWN).map(row).collect()
}

fn together_sentence(reach: &Reach) -> String {
    match reach.together.is_empty() {
        true => "The machines that reach it have no parameter by which they differ from the others.".to_owned(),
        false => "The machines that reach it differ from the others by (least, median, greatest of them; drawn from):"
            .to_owned(),
    }
}

fn together_rows(reach: &Reach) -> Vec<Vec<String>> {
    let row = |t: &holdup_model::prediction::ReachedTogether| {
        let (least, median, greatest) = t.reaching_ns;
        vec![
            clean(&t.parameter),
            format!("{least}, {median}, {greatest} ns"),
            format!("{} to {} ns", t.drawn_ns.0, t.drawn_ns.1),
            format!("{:.2} apart", t.apart),
        ]
    };
    reach.together.iter().map(row).collect()
}
