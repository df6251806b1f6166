//! The tables of what looks at curves, distributions and series.

use super::tables::{Cell, Promise, Row};
use super::worlds::{Dice, seed_of};
use holdup_model::Histogram;
use holdup_stats::quantile_bands::quantile_shift_over_blocks_from;
use holdup_stats::scaling::calibrate::{CliffRates, Truth, World as Sweep, cliff_rates};
use holdup_stats::scaling::{Repairman, Usl};
use holdup_stats::{ChangeOptions, change_points, quantile_shift};

const LOADS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 24.0, 32.0, 64.0];

pub(super) fn cell(column: &str, promise: Promise, run: impl Fn() -> f64 + 'static) -> Cell {
    Cell { column: column.to_owned(), run: Box::new(run), promise }
}

/// The quantile shift: whether its band holds at every quantile.
pub(super) fn bands() -> Vec<Row> {
    let mut rows = Vec::new();
    for (spread, label) in
        [(0.0, "independent samples"), (0.03, "trials shifted by 3 %"), (0.2, "trials shifted by 20 %")]
    {
        let mut cells = Vec::new();
        for over_blocks in [true, false] {
            for blocks in [5_u32, 10, 20] {
                let column = format!("{}, {blocks}", if over_blocks { "over blocks" } else { "all samples" });
                let name = format!("bands/{label}/{blocks}");
                let promise = if over_blocks { Promise::Coverage } else { Promise::Free };
                cells.push(cell(&column, promise, move || {
                    let mut dice = Dice::new(seed_of(&name));
                    let experiments = 400;
                    let held = (0..experiments).filter(|_| band_holds(&mut dice, blocks, spread, over_blocks)).count();
                    100.0 * held as f64 / f64::from(experiments)
                }));
            }
        }
        rows.push(Row { label: label.to_owned(), cells });
    }
    rows
}

/// A/A latencies around 1 ms: whether the band includes 1 at every quantile.
fn band_holds(dice: &mut Dice, blocks: u32, spread: f64, over_blocks: bool) -> bool {
    let trial = |dice: &mut Dice| {
        let (mut histogram, shift) = (Histogram::new(), spread * dice.normal());
        for _ in 0..1_000 {
            histogram.record_ns((1e6 * (shift + 0.5 * dice.normal()).exp()) as u64);
        }
        histogram
    };
    let pairs: Vec<(Histogram, Histogram)> = (0..blocks).map(|_| (trial(dice), trial(dice))).collect();
    let shift = if over_blocks {
        quantile_shift_over_blocks_from(&pairs, 399, 1).unwrap_or_default()
    } else {
        let (mut a, mut b) = (Histogram::new(), Histogram::new());
        for (of_a, of_b) in &pairs {
            a.add(of_a);
            b.add(of_b);
        }
        quantile_shift(&a, &b)
    };
    !shift.is_empty() && shift.iter().all(|q| q.low.is_none_or(|l| l <= 1.0) && q.high.is_none_or(|h| h >= 1.0))
}

/// What is read off a simulation of cliffs.
type CliffReading = fn(&CliffRates) -> f64;

/// Cliffs in sweeps of eight loads and five blocks.
pub(super) fn cliffs() -> Vec<Row> {
    let curves = [
        ("USL, α 4 %, β 0.67 %", Truth::Usl(Usl { alpha: 0.04, beta: 0.0067, gamma: 1_400.0 })),
        ("Amdahl, α 5 %", Truth::Usl(Usl { alpha: 0.05, beta: 0.0, gamma: 1_400.0 })),
        ("repairman, 1 ms and 10 ms", Truth::Repairman(Repairman { service_s: 0.001, think_s: 0.01 })),
    ];
    let mut rows = Vec::new();
    for (label, truth) in curves {
        let column = |column: &str, promise: Promise, drop: Option<(f64, usize)>, runs: u32, read: CliffReading| {
            let name = format!("cliffs/{label}/{column}");
            cell(column, promise, move || {
                let world = Sweep { truth, loads: &LOADS, blocks: 5, cv: 0.02, cv_at_largest: 0.02, drop };
                100.0 * read(&cliff_rates(&world, runs, seed_of(&name)))
            })
        };
        let cells = vec![
            column("no drop: found", Promise::Error, None, 1_000, |r| r.found),
            column("30 % beyond 16: found", Promise::Free, Some((0.3, 5)), 300, |r| r.found),
            column("its interval holds the place", Promise::Free, Some((0.3, 5)), 300, |r| r.interval_holds_place),
            column("10 % beyond 16: found", Promise::Free, Some((0.1, 5)), 300, |r| r.found),
        ];
        rows.push(Row { label: label.to_owned(), cells });
    }
    rows
}

/// Change points in series of 60 runs.
pub(super) fn changes() -> Vec<Row> {
    let mut rows = Vec::new();
    for (memory, label) in [(0.0, "independent"), (0.3, "autocorrelated (0.3)")] {
        let mut cells = Vec::new();
        for (step, column) in
            [(0.0, "no step: any seen"), (0.02, "2 %: seen"), (0.05, "5 %: seen"), (0.05, "5 %: within 2 runs")]
        {
            let name = format!("changes/{label}/{step}");
            let placed = column.ends_with("runs");
            let promise = if step == 0.0 && memory == 0.0 { Promise::Error } else { Promise::Free };
            cells.push(cell(column, promise, move || {
                let mut dice = Dice::new(seed_of(&name));
                let experiments = 1_000;
                let hits = (0..experiments).filter(|_| {
                    let mut last = dice.normal();
                    let values: Vec<f64> = (0..60)
                        .map(|i| {
                            last = memory * last + (1.0_f64 - memory * memory).sqrt() * dice.normal();
                            1_000.0 * (0.02 * last).exp() * if i >= 30 { 1.0 + step } else { 1.0 }
                        })
                        .collect();
                    let found = change_points(&values, ChangeOptions::default()).unwrap_or_default();
                    found.iter().any(|c| !placed || c.index.abs_diff(30) <= 2)
                });
                100.0 * hits.count() as f64 / f64::from(experiments)
            }));
        }
        rows.push(Row { label: label.to_owned(), cells });
    }
    rows
}
