//! The tables of docs/calibration.md.

use super::rules::{self, MannWhitney};
use super::worlds::{Dice, SHAPES, Shape, World, seed_of};
use super::{curves, searches, slow, tunings};
use holdup_model::Verdict;
use holdup_stats::{BlockPair, Effect, Looks, NoEstimate, Question, decide, ratio_bootstrap, unsteady};

/// What stands above the tables.
pub const HEAD: &str = "\
# Calibration

Written by `cargo xtask calibrate`; do not edit. What is computed is described in statistics.md. In each cell 10,000
seeded experiments (2,000 for the bootstrap) with known truth; numbers are shares in %. Their simulation error is
0.2 points (0.5 for the bootstrap). **Bold** is outside of what is promised: coverage within 93–97 %, errors at most 5 %
(5.4 % with the simulation's error).

The noise of a single result: *normal* 2 %; *log-normal* with a spread of 20 %; *bimodal*, 3 of 10 results 4 % lower;
*heavy-tailed*, Student's t with 3 degrees of freedom; *stalls*, exponential losses of 2 %; *autocorrelated*, each
result resembles the one run before it (0.6); *one in five*, normal, but 1 of 5 results is 30 % lower.
";

/// What a cell may be without being marked.
#[derive(Debug, Clone, Copy)]
pub enum Promise {
    /// 93 to 97.
    Coverage,
    /// At most 5, to within two simulation errors.
    Error,
    /// None.
    Free,
}

pub struct Cell {
    pub column: String,
    /// Gives the number.
    pub run: Box<dyn Fn() -> f64>,
    /// What was promised of it.
    pub promise: Promise,
}

pub struct Row {
    /// Its first column.
    pub label: String,
    /// The others.
    pub cells: Vec<Cell>,
}

pub struct Table {
    /// For progress and seeds.
    pub id: &'static str,
    /// Heading.
    pub title: &'static str,
    /// What it shows.
    pub note: &'static str,
    /// What the rows are.
    pub corner: &'static str,
    /// Makes the rows.
    pub rows: fn() -> Vec<Row>,
}

/// Every table in the order of the page.
pub static ALL: &[Table] = &[
    Table {
        id: "coverage",
        title: "Coverage of 95 % intervals",
        note: "One session; columns are blocks. The rows \"+ blocks\" shift both arms of a block by 3 %. The true ratio is 1.05. \
               Above 97 an interval is wider than need be: with four blocks under lopsided noise.",
        corner: "noise",
        rows: || by_shape("coverage", 1.05, Promise::Coverage, |pairs, _| covers(&Effect::paired(pairs), 1.05)),
    },
    Table {
        id: "false-alarms",
        title: "A/A called different",
        note: "The true ratio is 1. With 3 blocks the verdict is always `undecided`.",
        corner: "noise",
        rows: || {
            by_shape("false-alarms", 1.0, Promise::Error, |pairs, _| judged(pairs, 0.02) == Some(Verdict::Different))
        },
    },
    Table {
        id: "false-equivalence",
        title: "A ratio at the margin called equivalent",
        note: "The true ratio lies exactly at the margin, the worst case of a wrong `equivalent`: 2 %, for log-normal noise 20 %. \
               Far fewer than 5 % where so few blocks could not even show equality.",
        corner: "noise",
        rows: || {
            by_shape("false-equivalence", 1.0, Promise::Error, |pairs, shape| {
                wrongly_equivalent(pairs, if shape == Shape::LogNormal { 0.2 } else { 0.02 })
            })
        },
    },
    Table {
        id: "sessions",
        title: "Several sessions",
        note: "Sessions × blocks in each. Each session shifts all results by 5 % and the ratio by 1 %. \"Forgotten\" is the \
               same test on blocks as if there were no sessions: what happens when a boot or a cluster is not honoured.",
        corner: "noise",
        rows: sessions,
    },
    Table {
        id: "methods",
        title: "Interval methods side by side: coverage",
        note: "Coverage of 95 % intervals of the same 2,000 experiments: ours (t, paired blended with Welch) and the hierarchical \
               BCa bootstrap with 1,000 resamples. In the last rows only B has stalls, which skews the ratio itself. The bootstrap \
               needs 20 blocks and more before it covers what it says, and is no better then, so t it is at every number of blocks.",
        corner: "noise",
        rows: methods,
    },
    Table {
        id: "power",
        title: "Power",
        note: "How often a true change is called different, noise normal with 2 %. Welch, Mann–Whitney, mmtests' and lkp's rules on the \
               same results. The last rows shift both arms of a block by 3 %, as a host does whose speed wanders.",
        corner: "change, blocks",
        rows: power,
    },
    Table {
        id: "sequential",
        title: "Stopping early",
        note: "A look after every block from the fourth on, up to the cap. *A/A* and *at margin*: wrong `different` and wrong \
               `equivalent` over the whole run. *5 %*: a true change of 5 %, how often it is found, and the blocks used on average. \
               *Peeking*: A/A called different by a 5 % test at every look, which is what the levels prevent.",
        corner: "noise, cap",
        rows: sequential,
    },
    Table {
        id: "trimmed",
        title: "Without slow trials",
        note: "`effect = \"trimmed\"` in blocks of 6, 10 and 20: coverage, and how often the change in the first column is found, beside the mean \
               of all blocks on the same results.",
        corner: "noise, change",
        rows: slow::effects,
    },
    Table {
        id: "trimmed-runs",
        title: "Sessions and stopping early, without slow trials",
        note: "The same in sessions × blocks (as above, the ratio is 1.05), and in runs that look after every block from the fourth on.",
        corner: "noise",
        rows: slow::sessions_and_looks,
    },
    Table {
        id: "slow-trials",
        title: "Slow trials",
        note: "How often an arm is said to have slow trials in a run of 3 arms; columns are the trials of each. Under normal, log-normal and \
               autocorrelated noise there are none; tails, stalls and two modes have some.",
        corner: "noise",
        rows: slow::named,
    },
    Table {
        id: "steadiness",
        title: "Ratios called unsteady",
        note: "How often a verdict is withheld because the ratio itself moved. *Steady* is a false alarm (two tests at 1 % each); \
               *drifts*: the ratio of the last block is 6 % above that of the first, noise normal with 2 %.",
        corner: "noise",
        rows: steadiness,
    },
    Table {
        id: "bands",
        title: "Quantile shifts: the band holds at all quantiles together",
        note: "A/A, 400 experiments (simulation error 1.1 points), 1,000 log-normal latencies in each trial; columns are the band and \
               the number of blocks. The band from all samples takes them for independent: where trials are shifted as a whole, as \
               real ones are, it is far too narrow, which is why reports use the one over blocks.",
        corner: "latencies",
        rows: curves::bands,
    },
    Table {
        id: "cliffs",
        title: "Cliffs",
        note: "Eight loads from 1 to 64, five blocks with levels of their own, 2 % noise; 1,000 smooth curves, 300 with a drop.",
        corner: "smooth curve",
        rows: curves::cliffs,
    },
    Table {
        id: "changes",
        title: "Change points",
        note: "Series of 60 runs with 2 % noise, a step after 30; 1,000 series. Runs that resemble their predecessor make false \
               changes: read the autocorrelation first.",
        corner: "noise",
        rows: curves::changes,
    },
    Table {
        id: "searches",
        title: "Searching the candidate that brought a step",
        note: "200 candidates, 2 % noise, stop at 95 %, at most 400 trials. Steps in standard deviations of a trial; *two said*: two steps were said to be likely, \
               with 20 fresh pairs of trials of the culprit and the one before it. An \
               oracle knows both levels and the noise; *in time* is a right answer within three times its mean number of trials. On the same histories: \
               git bisect with one and with five runs a step (both ends as often; the nearer end's mean decides), and the rule of \
               git_bayesect on trials that pass or fail (the limit is half way between five trials of each end; 95 %).",
        corner: "truth",
        rows: searches::rows,
    },
    Table {
        id: "tuning",
        title: "Tuning",
        note: "Surfaces of 4 to 8 factors with 2 to 4 levels, 64 to 4,096 points: 15 to 40 % of levels do something, by 2 to 20 %; one to three \
               pairs do; three in ten have a level that costs half, a pair that does, a level that fails, a pair that fails; on a tenth nothing \
               gains. 200 surfaces for each noise, 50 in the other rows (20 with 12 to 20 factors); blocks share 3 %. A search may take 40 % of the full grid (each point \
               once), 100 trials at least, 1,638 at most. *Within 2 %* of the best true value. *Confirmed*: the 95 % interval of 20 fresh blocks \
               of the default and the winner holds the true gain. On the same surfaces, with as many trials as ours took and with four times \
               as many, without what blocks share: random search and successive halving, each with one, two or four trials of a point at first, \
               whichever is right most often.",
        corner: "noise",
        rows: tunings::rows,
    },
];

impl Table {
    /// The table in Markdown.
    pub fn render(&self) -> String {
        let rows = (self.rows)();
        let columns: Vec<&str> =
            rows.first().map_or(Vec::new(), |r| r.cells.iter().map(|c| c.column.as_str()).collect());
        let mut out = format!("| {} | {} |\n|---|{}\n", self.corner, columns.join(" | "), "--:|".repeat(columns.len()));
        for row in &rows {
            let cells: Vec<String> = row.cells.iter().map(Cell::show).collect();
            out.push_str(&format!("| {} | {} |\n", row.label, cells.join(" | ")));
        }
        out
    }
}

impl Cell {
    fn show(&self) -> String {
        let value = (self.run)();
        let kept = match self.promise {
            Promise::Coverage => (92.95..=97.05).contains(&value),
            Promise::Error => value <= 5.45,
            Promise::Free => true,
        };
        if kept { format!("{value:.1}") } else { format!("**{value:.1}**") }
    }
}

const BLOCKS: [u32; 10] = [3, 4, 5, 6, 8, 10, 15, 20, 30, 40];

pub(super) fn covers(effect: &Result<Effect, NoEstimate>, truth: f64) -> bool {
    let estimate = effect.as_ref().ok().and_then(|e| e.estimate(0.95).ok());
    estimate.is_some_and(|e| e.low <= truth && truth <= e.high)
}

fn judged(pairs: &[BlockPair], margin: f64) -> Option<Verdict> {
    Effect::paired(pairs).ok().and_then(|effect| decide(&effect, &Question::alone(margin)))
}

/// True if the test of equivalence passes when B is moved to the margin.
fn wrongly_equivalent(pairs: &[BlockPair], margin: f64) -> bool {
    let moved: Vec<BlockPair> = pairs.iter().map(|p| BlockPair { b: p.b * (1.0 + margin), ..*p }).collect();
    let effect = Effect::paired(&moved).ok().filter(|e| e.blocks() >= holdup_stats::MIN_BLOCKS);
    effect.is_some_and(|e| e.p_equivalence(margin) <= holdup_stats::ALPHA)
}

/// The share of experiments in which something holds, in %.
pub(super) fn share(name: &str, experiments: u32, world: World, holds: impl Fn(&[BlockPair]) -> bool) -> f64 {
    let mut dice = Dice::new(seed_of(name));
    let hits = (0..experiments).filter(|_| holds(&world.pairs(&mut dice))).count();
    100.0 * hits as f64 / f64::from(experiments)
}

fn by_shape(table: &'static str, ratio: f64, promise: Promise, holds: fn(&[BlockPair], Shape) -> bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (shape, shape_name) in SHAPES {
        for (block_spread, suffix) in [(0.0, ""), (0.03, " + blocks")] {
            let label = format!("{shape_name}{suffix}");
            let cells = BLOCKS.iter().map(|&blocks| {
                let world = World { ratio, block_spread, ..World::plain(shape, blocks) };
                let name = format!("{table}/{label}/{blocks}");
                let run = Box::new(move || share(&name, super::EXPERIMENTS, world, |pairs| holds(pairs, shape)));
                Cell { column: blocks.to_string(), run, promise }
            });
            rows.push(Row { cells: cells.collect(), label });
        }
    }
    rows
}

fn sessions() -> Vec<Row> {
    let layouts = [(2, 5), (3, 5), (4, 5), (6, 5), (10, 4)];
    let forgotten = |pairs: &[BlockPair]| {
        let pairs: Vec<BlockPair> = pairs.iter().map(|p| BlockPair { session: 0, ..*p }).collect();
        judged(&pairs, 0.02) == Some(Verdict::Different)
    };
    let mut rows = Vec::new();
    for (shape, shape_name) in SHAPES {
        let mut row = |what: &str, ratio: f64, promise: Promise, holds: fn(&[BlockPair]) -> bool| {
            let label = format!("{shape_name}: {what}");
            let cells = layouts.iter().map(|&(sessions, blocks)| {
                let world = World { ratio, sessions, session_spread: 0.01, ..World::plain(shape, blocks) };
                let name = format!("sessions/{label}/{sessions}x{blocks}");
                let run = Box::new(move || share(&name, super::EXPERIMENTS, world, holds));
                Cell { column: format!("{sessions} × {blocks}"), run, promise }
            });
            rows.push(Row { cells: cells.collect(), label });
        };
        row("coverage", 1.05, Promise::Coverage, |pairs| covers(&Effect::paired(pairs), 1.05));
        row("A/A different", 1.0, Promise::Error, |pairs| judged(pairs, 0.02) == Some(Verdict::Different));
        row("at margin equivalent", 1.0, Promise::Error, |pairs| wrongly_equivalent(pairs, 0.02));
        if shape == Shape::Normal {
            row("A/A different, sessions forgotten", 1.0, Promise::Free, forgotten);
        }
    }
    rows
}

fn methods() -> Vec<Row> {
    let mut rows = Vec::new();
    let lopsided = [(Shape::Normal, "normal, stalls in B")];
    for (i, (shape, shape_name)) in SHAPES.into_iter().chain(lopsided).enumerate() {
        let only_b = i == SHAPES.len();
        for bootstrap in [false, true] {
            let method = if bootstrap { "bootstrap" } else { "ours" };
            let label = format!("{shape_name}: {method}");
            let cells = [5, 6, 8, 10, 15, 20, 30, 40].map(|blocks| {
                let world = World::plain(shape, blocks);
                // Both methods see the same experiments.
                let name = format!("methods/{shape_name}/{blocks}");
                let run = Box::new(move || {
                    let mut dice = Dice::new(seed_of(&name));
                    let hits = (0..2_000_u32)
                        .filter(|seed| {
                            let mut pairs = world.pairs(&mut dice);
                            // The mean of an exponential loss of 3 % is taken out again, so that the truth stays 1.
                            let stalls = |dice: &mut Dice| (0.03 * (dice.uniform().ln() + 1.0)).exp();
                            pairs.iter_mut().for_each(|p| p.b *= if only_b { stalls(&mut dice) } else { 1.0 });
                            if bootstrap {
                                let estimate = ratio_bootstrap(&pairs, 0.95, 1_000, u64::from(*seed));
                                estimate.is_ok_and(|e| e.low <= 1.0 && 1.0 <= e.high)
                            } else {
                                covers(&Effect::paired(&pairs), 1.0)
                            }
                        })
                        .count();
                    hits as f64 / 20.0
                });
                Cell { column: blocks.to_string(), run, promise: Promise::Coverage }
            });
            rows.push(Row { label, cells: cells.into() });
        }
    }
    rows
}

/// A rule on pairs, and on the same results as two sides.
type Rule = Box<dyn Fn(&[BlockPair], &[f64], &[f64]) -> bool>;

fn power() -> Vec<Row> {
    let mut rows = Vec::new();
    for (block_spread, suffix) in [(0.0, ""), (0.03, " + blocks")] {
        for change in [0.0, 0.01, 0.02, 0.05] {
            for blocks in [4, 5, 6, 8, 10, 20, 30] {
                let world = World { ratio: 1.0 + change, block_spread, ..World::plain(Shape::Normal, blocks) };
                let label = format!("{} %, {blocks}{suffix}", change * 100.0);
                let name = format!("power/{label}");
                let cell = |column: &str, rule: Rule| {
                    let name = name.clone();
                    let run = Box::new(move || {
                        share(&name, super::EXPERIMENTS, world, |pairs| {
                            let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().map(|p| (p.a, p.b)).unzip();
                            rule(pairs, &a, &b)
                        })
                    });
                    Cell { column: column.to_owned(), run, promise: Promise::Free }
                };
                let ranks = MannWhitney::new(blocks as usize);
                let cells = vec![
                    cell("holdup", Box::new(|pairs, _, _| judged(pairs, 0.02) == Some(Verdict::Different))),
                    cell("Welch", Box::new(|_, a, b| rules::welch(a, b))),
                    cell("Mann–Whitney", Box::new(move |_, a, b| ranks.differs(a, b))),
                    cell("mmtests", Box::new(|_, a, b| rules::mmtests(a, b))),
                    cell("lkp", Box::new(|_, a, b| rules::lkp(a, b))),
                ];
                rows.push(Row { label, cells });
            }
        }
    }
    rows
}

/// How a run that looks after every block ends: its verdict, if any, and the blocks used.
pub(super) fn walk(
    pairs: &[BlockPair],
    effect: impl Fn(&[BlockPair]) -> Result<Effect, NoEstimate>,
    level: impl Fn(u32) -> f64,
) -> (Option<Verdict>, u32) {
    let cap = u32::try_from(pairs.len()).unwrap_or(u32::MAX);
    for n in 4..=cap {
        let Ok(effect) = effect(&pairs[..n as usize]) else { continue };
        let verdict = decide(&effect, &Question { level: level(n), ..Question::alone(0.02) });
        if verdict.is_some() {
            return (verdict, n);
        }
    }
    (None, cap)
}

/// What is read off a run that may stop early.
type Reading = fn(&Option<Verdict>, u32) -> f64;

fn sequential() -> Vec<Row> {
    let mut rows = Vec::new();
    for (shape, shape_name) in SHAPES {
        for cap in [6, 10, 20, 40] {
            let label = format!("{shape_name}, {cap}");
            let cell = |column: &'static str, ratio: f64, peeking: bool, promise: Promise, read: Reading| {
                let world = World { ratio, ..World::plain(shape, cap) };
                let name = format!("sequential/{label}/{ratio}");
                let run = Box::new(move || {
                    let (looks, mut dice) = (Looks::until(cap), Dice::new(seed_of(&name)));
                    let experiments = super::EXPERIMENTS;
                    let sum: f64 = (0..experiments)
                        .map(|_| {
                            let level = |n| if peeking { holdup_stats::ALPHA } else { looks.level(n) };
                            let (verdict, blocks) = walk(&world.pairs(&mut dice), Effect::paired, level);
                            read(&verdict, blocks)
                        })
                        .sum();
                    sum / f64::from(experiments)
                });
                Cell { column: column.to_owned(), run, promise }
            };
            let different: Reading = |v, _| if *v == Some(Verdict::Different) { 100.0 } else { 0.0 };
            let equivalent: Reading = |v, _| if *v == Some(Verdict::Equivalent) { 100.0 } else { 0.0 };
            let cells = vec![
                cell("A/A different", 1.0, false, Promise::Error, different),
                cell("at margin equivalent", 1.02, false, Promise::Error, equivalent),
                cell("5 %: found", 1.05, false, Promise::Free, different),
                cell("5 %: blocks used", 1.05, false, Promise::Free, |_, blocks| f64::from(blocks)),
                cell("A/A: blocks used", 1.0, false, Promise::Free, |_, blocks| f64::from(blocks)),
                cell("A/A different, peeking", 1.0, true, Promise::Free, different),
            ];
            rows.push(Row { label, cells });
        }
    }
    rows
}

fn steadiness() -> Vec<Row> {
    let mut rows = Vec::new();
    for (shape, shape_name) in SHAPES {
        for drift in [0.0, 0.06] {
            if drift > 0.0 && shape != Shape::Normal {
                continue;
            }
            let label = format!("{shape_name}, {}", if drift > 0.0 { "drifts" } else { "steady" });
            let cells = [8, 10, 20, 40].map(|blocks| {
                let world = World { block_spread: 0.03, ..World::plain(shape, blocks) };
                let name = format!("steadiness/{label}/{blocks}");
                let run = Box::new(move || {
                    share(&name, super::EXPERIMENTS, world, |pairs| {
                        let mut pairs = pairs.to_vec();
                        for (i, pair) in pairs.iter_mut().enumerate() {
                            pair.b *= (drift * i as f64 / f64::from(blocks - 1)).exp();
                        }
                        unsteady(&pairs).is_some()
                    })
                });
                Cell { column: blocks.to_string(), run, promise: Promise::Free }
            });
            rows.push(Row { label, cells: cells.into() });
        }
    }
    rows
}
