//! The table of searches for the candidate that brought a step.

use super::curves::cell;
use super::peers::{End, oracle, pass_fail};
use super::tables::{Promise, Row};
use holdup_stats::bisection::{Finding, Next, Options, Outcome, Tail, World, simulate_binary_search, simulate_search};
use std::sync::{Arc, OnceLock};

const CANDIDATES: usize = 200;
const NOISE: f64 = 0.02;
const MOST_TRIALS: u32 = 400;

/// Histories where searches are short, and where they take hundreds of trials.
const MANY: u64 = 200;
const FEW: u64 = 50;

/// A step in standard deviations of a trial.
fn step(deviations: f64) -> World {
    World::new(CANDIDATES, (deviations * NOISE).exp_m1(), NOISE)
}

/// A second step, elsewhere.
fn and_of(deviations: f64, world: World) -> World {
    World { second: (deviations * NOISE).exp_m1(), ..world }
}

/// With the number of histories.
fn worlds() -> Vec<(&'static str, World, u64)> {
    let outliers = Tail::Outliers { share: 0.05, times: 10.0 };
    let drift = 0.02 * NOISE;
    vec![
        ("step of 3", step(3.0), MANY),
        ("step of 1", step(1.0), FEW),
        ("no step", step(0.0), FEW),
        ("step of 3, t with 3 degrees", World { tail: Tail::StudentT { df: 3 }, ..step(3.0) }, MANY),
        ("step of 3, 5 % of trials 10 times off", World { tail: outliers, ..step(3.0) }, MANY),
        ("step of 3, a third does not build", World { skipped_share: 0.33, ..step(3.0) }, MANY),
        ("step of 3, builds differ by 1", World { build_cv: NOISE, ..step(3.0) }, FEW),
        ("step of 5, builds differ by 2", World { build_cv: 2.0 * NOISE, ..step(5.0) }, FEW),
        ("step of 3, drift of 2 in 100 trials", World { drift, ..step(3.0) }, MANY),
        ("no step, builds differ by 1", World { build_cv: NOISE, ..step(0.0) }, FEW),
        ("no step, drift of 2 in 100 trials", World { drift, ..step(0.0) }, FEW),
        ("steps of 3 and 3", and_of(3.0, step(3.0)), MANY),
        ("steps of 3 and 1.5", and_of(1.5, step(3.0)), MANY),
        ("steps of 5 and −2", and_of(-2.0, step(5.0)), MANY),
    ]
}

/// All searches of one kind over the same worlds, played once.
pub(super) struct Played<T> {
    all: OnceLock<Vec<T>>,
    count: u64,
    play: Box<dyn Fn(u64) -> T + Send + Sync>,
}

impl<T: Send + Sync> Played<T> {
    /// Searches of the worlds with the seeds `0..count`.
    pub(super) fn new(count: u64, play: impl Fn(u64) -> T + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Played { all: OnceLock::new(), count, play: Box::new(play) })
    }

    /// On all CPUs; the order is that of the seeds.
    fn play_all(&self) -> Vec<T> {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
        std::thread::scope(|scope| {
            let of = |first: u64| (first..self.count).step_by(threads as usize).map(|seed| (seed, (self.play)(seed)));
            let workers: Vec<_> = (0..threads).map(|t| scope.spawn(move || of(t).collect::<Vec<_>>())).collect();
            let mut all: Vec<(u64, T)> = workers.into_iter().flat_map(|w| w.join().expect("a search")).collect();
            all.sort_by_key(|(seed, _)| *seed);
            all.into_iter().map(|(_, played)| played).collect()
        })
    }

    pub(super) fn mean(&self, read: impl Fn(&T) -> f64) -> f64 {
        let all = self.all.get_or_init(|| self.play_all());
        all.iter().map(read).sum::<f64>() / all.len() as f64
    }

    pub(super) fn percent(&self, holds: impl Fn(&T) -> bool) -> f64 {
        100.0 * self.mean(|t| f64::from(u8::from(holds(t))))
    }
}

fn is_undecided(o: &Outcome) -> bool {
    // Where there is a step, "no step" is no answer, and accuses no commit.
    matches!(o.end, Next::Undecidable { .. })
        || (o.culprit.is_some() && matches!(o.end, Next::Done(Finding::NoStep { .. })))
}

/// One row for each world.
pub(super) fn rows() -> Vec<Row> {
    worlds().into_iter().map(|(label, world, histories)| row(label, world, histories)).collect()
}

fn row(label: &str, world: World, histories: u64) -> Row {
    let options = Options { most_trials: MOST_TRIALS, min_step: 0.005, ..Options::default() };
    let world = Arc::new(world);
    let of = |world: &Arc<World>| Arc::clone(world);
    let (w, has_step) = (of(&world), world.step != 0.0);
    // It knows one step.
    let has_oracle = has_step && world.second == 0.0;
    let ours = Played::new(histories, move |seed| simulate_search(&w, seed, &options).expect("a world"));
    let w = of(&world);
    let known = Played::new(histories, move |seed| oracle(&w, seed, MOST_TRIALS as usize));
    let git = [1, 5].map(|runs| {
        let w = of(&world);
        Played::new(histories, move |seed| simulate_binary_search(&w, seed, runs).expect("a world"))
    });
    let w = of(&world);
    let beta = Played::new(histories, move |seed| pass_fail(&w, seed, 5, MOST_TRIALS as usize));
    let mut cells = vec![cell("histories", Promise::Free, move || histories as f64)];
    let o = Arc::clone(&ours);
    cells.push(cell("right", Promise::Free, move || o.percent(|o| o.found)));
    let o = Arc::clone(&ours);
    cells.push(cell("undecided", Promise::Free, move || o.percent(is_undecided)));
    let o = Arc::clone(&ours);
    let promise = if has_step { Promise::Free } else { Promise::Error };
    cells.push(cell("wrong", promise, move || o.percent(|o| o.false_accusation)));
    let o = Arc::clone(&ours);
    cells.push(cell("two said", Promise::Free, move || o.percent(|o| o.two_steps.is_some())));
    let o = Arc::clone(&ours);
    cells.push(cell("trials", Promise::Free, move || o.mean(|o| o.trials as f64)));
    let k = Arc::clone(&known);
    cells.push(cell(
        "oracle: trials",
        Promise::Free,
        move || if has_oracle { k.mean(|e| e.trials as f64) } else { 0.0 },
    ));
    cells.push(cell("in time", Promise::Free, move || {
        let most = if has_oracle { 3.0 * known.mean(|e| e.trials as f64) } else { f64::INFINITY };
        ours.percent(|o| o.found && o.trials as f64 <= most)
    }));
    for (runs, played) in [1, 5].into_iter().zip(git) {
        let p = Arc::clone(&played);
        cells.push(cell(&format!("git, {runs}: right"), Promise::Free, move || p.percent(|o| o.found)));
        cells.push(cell(&format!("git, {runs}: trials"), Promise::Free, move || played.mean(|o| o.trials as f64)));
    }
    let b = Arc::clone(&beta);
    let right = |e: &End| e.found;
    cells.push(cell("git_bayesect: right", Promise::Free, move || b.percent(right)));
    cells.push(cell("git_bayesect: trials", Promise::Free, move || beta.mean(|e| e.trials as f64)));
    Row { label: label.to_owned(), cells }
}
