//! The tables of effects without slow trials, and of slow trials themselves.

use super::EXPERIMENTS;
use super::tables::{Cell, Promise, Row, covers, share, walk};
use super::worlds::{Dice, Shape, World, seed_of};
use holdup_model::{Direction, Verdict};
use holdup_stats::{ArmValue, BlockPair, Effect, Looks, NoEstimate, Question, decide, slow_trials};

/// The noise of single results, with a change that is found in about half of 20 blocks; for one in five it is 5 %.
const SHAPES: [(Shape, &str, f64); 7] = [
    (Shape::OneInFive, "one in five", 0.05),
    (Shape::Normal, "normal", 0.013),
    (Shape::LogNormal, "log-normal", 0.13),
    (Shape::Bimodal, "bimodal", 0.013),
    (Shape::HeavyTailed, "heavy-tailed", 0.013),
    (Shape::Stalls, "stalls", 0.013),
    (Shape::Autocorrelated, "autocorrelated", 0.013),
];

fn trimmed(pairs: &[BlockPair]) -> Result<Effect, NoEstimate> {
    Effect::trimmed(pairs, Direction::Higher)
}

fn mean(pairs: &[BlockPair]) -> Result<Effect, NoEstimate> {
    Effect::paired(pairs)
}

fn differs(effect: Result<Effect, NoEstimate>) -> bool {
    effect.is_ok_and(|e| decide(&e, &Question::alone(0.02)) == Some(Verdict::Different))
}

/// Coverage and power without slow trials, beside the power of the mean on the same results.
pub(super) fn effects() -> Vec<Row> {
    let mut rows = Vec::new();
    for (shape, shape_name, change) in SHAPES {
        for (block_spread, suffix) in [(0.0, ""), (0.03, " + blocks")] {
            let label = format!("{shape_name}{suffix}, {} %", (change * 1000.0_f64).round() / 10.0);
            let ratio = 1.0 + change;
            let mut cells = Vec::new();
            for blocks in [6, 10, 20] {
                let mut cell = |what: &str, ratio: f64, promise: Promise, holds: fn(&[BlockPair], f64) -> bool| {
                    let world = World { ratio, block_spread, ..World::plain(shape, blocks) };
                    let name = format!("trimmed/{label}/{blocks}");
                    let run = Box::new(move || share(&name, EXPERIMENTS, world, |pairs| holds(pairs, ratio)));
                    cells.push(Cell { column: format!("{what}, {blocks}"), run, promise });
                };
                cell("coverage", ratio, Promise::Coverage, |pairs, ratio| covers(&trimmed(pairs), ratio));
                cell("found", ratio, Promise::Free, |pairs, _| differs(trimmed(pairs)));
                cell("found by the mean", ratio, Promise::Free, |pairs, _| differs(mean(pairs)));
            }
            rows.push(Row { label, cells });
        }
    }
    rows
}

/// Several sessions, and runs that stop early, without slow trials.
pub(super) fn sessions_and_looks() -> Vec<Row> {
    let mut rows = Vec::new();
    for (shape, shape_name, _) in SHAPES {
        let mut cells = Vec::new();
        for (sessions, blocks) in [(4, 5), (10, 4), (10, 1)] {
            let world = World { ratio: 1.05, sessions, session_spread: 0.01, ..World::plain(shape, blocks) };
            let name = format!("trimmed-sessions/{shape_name}/{sessions}x{blocks}");
            let run = Box::new(move || share(&name, EXPERIMENTS, world, |pairs| covers(&trimmed(pairs), 1.05)));
            let column = format!("coverage, {sessions} × {blocks}");
            cells.push(Cell { column, run, promise: Promise::Coverage });
        }
        for cap in [10, 20] {
            for (what, ratio, promise) in [("A/A different", 1.0, Promise::Error), ("5 %: found", 1.05, Promise::Free)]
            {
                let world = World { ratio, ..World::plain(shape, cap) };
                let name = format!("trimmed-looks/{shape_name}/{cap}/{ratio}");
                let run = Box::new(move || {
                    let looks = Looks::until(cap);
                    share(&name, EXPERIMENTS, world, |pairs| {
                        walk(pairs, trimmed, |n| looks.level(n)).0 == Some(Verdict::Different)
                    })
                });
                cells.push(Cell { column: format!("{what}, cap {cap}"), run, promise });
            }
        }
        rows.push(Row { label: shape_name.to_owned(), cells });
    }
    rows
}

/// How often slow trials are named in an arm of a run of three.
pub(super) fn named() -> Vec<Row> {
    let row = |(shape, shape_name, _): (Shape, &str, f64)| {
        let cells = [6, 8, 10, 20, 30, 40].map(|trials| {
            let name = format!("slow-trials/{shape_name}/{trials}");
            let run = Box::new(move || {
                let mut dice = Dice::new(seed_of(&name));
                let world = World::plain(shape, trials);
                let hits = (0..EXPERIMENTS).filter(|_| {
                    let arms = (0..3).flat_map(|arm| {
                        let results = world.pairs(&mut dice).into_iter();
                        results.map(move |p| ArmValue { arm, session: 0, value: p.a }).collect::<Vec<_>>()
                    });
                    slow_trials(&arms.collect::<Vec<_>>(), Direction::Higher).iter().any(|arm| arm.is_named)
                });
                100.0 * hits.count() as f64 / f64::from(EXPERIMENTS)
            });
            Cell { column: trials.to_string(), run, promise: Promise::Free }
        });
        Row { label: shape_name.to_owned(), cells: cells.into() }
    };
    SHAPES.into_iter().map(row).collect()
}
