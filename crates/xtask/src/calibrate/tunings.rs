//! The table of searches over settings.

use super::curves::cell;
use super::searches::Played;
use super::tables::{Cell, Promise, Row};
use holdup_stats::Effect;
use holdup_stats::tuning::{
    Options, Played as End, Surface, SurfaceOptions, simulate_halving, simulate_random, simulate_tuning,
};
use std::sync::Arc;

/// A point within this share of the best one is right.
const NEAR: f64 = 0.02;

/// The share of the full grid that a search may take, and what it may take in any case: where the grid has fewer points,
/// main effects alone need that much.
const GRID_SHARE: f64 = 0.4;
const LEAST_TRIALS: f64 = 100.0;

/// The most trials: 40 % of the largest of the small grids.
const MOST_TRIALS: f64 = 1_638.0;

/// The engine's thresholds were chosen on surfaces before this one.
const FRESH: u64 = 10_000;

/// Blocks in which the winner is measured afresh.
const CONFIRMING_BLOCKS: u32 = 20;

/// How often the peers measure each point (first round of halving); the best of these is listed.
const REPEATS: [u32; 3] = [1, 2, 4];

struct World {
    label: &'static str,
    surfaces: u64,
    options: SurfaceOptions,
    /// Budget over the usual one.
    times: f64,
}

fn worlds() -> Vec<World> {
    let world = |label, surfaces, options| World { label, surfaces, options, times: 1.0 };
    let small = SurfaceOptions::small;
    let nothing = |cv| SurfaceOptions { nothing_share: 1.0, ..small(cv) };
    let guard = |cv| SurfaceOptions { has_guard: true, ..small(cv) };
    vec![
        world("2 %", 200, small(0.02)),
        world("5 %", 200, small(0.05)),
        world("10 %", 200, small(0.1)),
        World { times: 2.5, ..world("10 %, as many trials as the grid", 50, small(0.1)) },
        world("nothing gains, 2 %", 50, nothing(0.02)),
        world("nothing gains, 10 %", 50, nothing(0.1)),
        world("guard, 5 %", 50, guard(0.05)),
        world("12 to 20 factors, 2 %", 20, SurfaceOptions::large(0.02)),
        world("12 to 20 factors, 5 %", 20, SurfaceOptions::large(0.05)),
    ]
}

/// One surface: how our search ended and those of the peers with the same number of trials and four times as many.
struct Game {
    ours: End,
    is_covered: bool,
    random: [[bool; REPEATS.len()]; 2],
    halving: [[bool; REPEATS.len()]; 2],
}

fn game(options: &SurfaceOptions, times: f64, seed: u64) -> Game {
    let surface = Surface::new(options, seed);
    let most_trials = (GRID_SHARE * surface.grid()).clamp(LEAST_TRIALS, MOST_TRIALS) * times;
    let search = Options { most_trials: most_trials as u32, ..Options::default() };
    let (ours, _) = simulate_tuning(&surface, &search, seed).expect("a surface");
    let peers = |play: fn(&Surface, u32, u32, u64) -> End| {
        [1, 4].map(|times| REPEATS.map(|r| play(&surface, ours.trials * times, r, seed).is_within(NEAR)))
    };
    let (random, halving) = (peers(simulate_random), peers(simulate_halving));
    let pairs = surface.confirm(&ours.point, CONFIRMING_BLOCKS, seed);
    let interval = Effect::paired(&pairs).and_then(|e| e.estimate(0.95));
    let truth = surface.value_log(&ours.point).map(f64::exp);
    let is_covered = interval.is_ok_and(|e| truth.is_some_and(|t| e.low <= t && t <= e.high));
    Game { ours, is_covered, random, halving }
}

/// One row for each noise and kind of surface.
pub(super) fn rows() -> Vec<Row> {
    worlds().into_iter().map(row).collect()
}

fn row(world: World) -> Row {
    let (options, times) = (world.options, world.times);
    let played = Played::new(world.surfaces, move |seed| game(&options, times, FRESH + seed));
    let percent = |name: &str, holds: fn(&Game) -> bool| {
        let p = Arc::clone(&played);
        cell(name, Promise::Free, move || p.percent(holds))
    };
    let mean = |name: &str, read: fn(&Game) -> f64| {
        let p = Arc::clone(&played);
        cell(name, Promise::Free, move || p.mean(read))
    };
    let peer = |name: &str, read: fn(&Game) -> &[bool; REPEATS.len()]| -> Cell {
        let p = Arc::clone(&played);
        let best = move || (0..REPEATS.len()).map(|r| p.percent(|g| read(g)[r])).fold(0.0, f64::max);
        cell(name, Promise::Free, best)
    };
    let covered = Arc::clone(&played);
    let cells = vec![
        percent("within 2 %", |g| g.ours.is_within(NEAR)),
        mean("trials", |g| f64::from(g.ours.trials)),
        mean("trials, % of the grid", |g| 100.0 * f64::from(g.ours.trials) / g.ours.grid),
        percent("within 2 %, at most 40 % of the grid", |g| {
            g.ours.is_within(NEAR) && f64::from(g.ours.trials) <= GRID_SHARE * g.ours.grid
        }),
        percent("default named", |g| g.ours.point.is_default()),
        percent("worse than the default", |g| g.ours.value_log.is_none_or(|v| v < 0.0)),
        cell("confirmed gain covers", Promise::Free, move || covered.percent(|g| g.is_covered)),
        peer("random: within 2 %", |g| &g.random[0]),
        peer("random, 4 × trials", |g| &g.random[1]),
        peer("halving: within 2 %", |g| &g.halving[0]),
        peer("halving, 4 × trials", |g| &g.halving[1]),
    ];
    Row { label: world.label.to_owned(), cells }
}
