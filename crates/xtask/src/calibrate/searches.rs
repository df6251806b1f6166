//! The table of searches for the candidate that brought a step.

use super::curves::cell;
use super::peers::{End, oracle, pass_fail};
use super::tables::{Promise, Row};
use holdup_stats::bisection::{Finding, Next, Options, Outcome, Tail, World, simulate_binary_search, simulate_search};
use std::cell::OnceCell;
use std::rc::Rc;

const CANDIDATES: usize = 200;
const NOISE: f64 = 0.02;
const HISTORIES: u64 = 50;
const MOST_TRIALS: u32 = 400;

/// A step in standard deviations of a trial.
fn step(deviations: f64) -> World {
    World::new(CANDIDATES, (deviations * NOISE).exp_m1(), NOISE)
}

fn worlds() -> Vec<(&'static str, World)> {
    let outliers = Tail::Outliers { share: 0.05, times: 10.0 };
    let drift = 0.02 * NOISE;
    vec![
        ("step of 3", step(3.0)),
        ("step of 1", step(1.0)),
        ("no step", step(0.0)),
        ("step of 3, t with 3 degrees", World { tail: Tail::StudentT { df: 3 }, ..step(3.0) }),
        ("step of 3, 5 % of trials 10 times off", World { tail: outliers, ..step(3.0) }),
        ("step of 3, a third does not build", World { skipped_share: 0.33, ..step(3.0) }),
        ("step of 3, builds differ by 1", World { build_cv: NOISE, ..step(3.0) }),
        ("step of 5, builds differ by 2", World { build_cv: 2.0 * NOISE, ..step(5.0) }),
        ("step of 3, drift of 2 in 100 trials", World { drift, ..step(3.0) }),
    ]
}

/// All searches of one kind over the same histories, played once.
struct Played<T>(OnceCell<Vec<T>>, Box<dyn Fn(u64) -> T>);

impl<T> Played<T> {
    fn new(play: impl Fn(u64) -> T + 'static) -> Rc<Self> {
        Rc::new(Played(OnceCell::new(), Box::new(play)))
    }

    fn mean(&self, read: impl Fn(&T) -> f64) -> f64 {
        let all = self.0.get_or_init(|| (0..HISTORIES).map(&self.1).collect());
        all.iter().map(read).sum::<f64>() / all.len() as f64
    }

    fn percent(&self, holds: impl Fn(&T) -> bool) -> f64 {
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
    worlds().into_iter().map(|(label, world)| row(label, world)).collect()
}

fn row(label: &str, world: World) -> Row {
    let options = Options { most_trials: MOST_TRIALS, min_step: 0.005, ..Options::default() };
    let world = Rc::new(world);
    let of = |world: &Rc<World>| Rc::clone(world);
    let (w, has_step) = (of(&world), world.step != 0.0);
    let ours = Played::new(move |seed| simulate_search(&w, seed, &options).expect("a world"));
    let w = of(&world);
    let known = Played::new(move |seed| oracle(&w, seed, MOST_TRIALS as usize));
    let git = [1, 5].map(|runs| {
        let w = of(&world);
        Played::new(move |seed| simulate_binary_search(&w, seed, runs).expect("a world"))
    });
    let w = of(&world);
    let beta = Played::new(move |seed| pass_fail(&w, seed, 5, MOST_TRIALS as usize));
    let mut cells = Vec::new();
    let o = Rc::clone(&ours);
    cells.push(cell("right", Promise::Free, move || o.percent(|o| o.found)));
    let o = Rc::clone(&ours);
    cells.push(cell("undecided", Promise::Free, move || o.percent(is_undecided)));
    let o = Rc::clone(&ours);
    let promise = if has_step { Promise::Free } else { Promise::Error };
    cells.push(cell("wrong", promise, move || o.percent(|o| o.false_accusation)));
    let o = Rc::clone(&ours);
    cells.push(cell("trials", Promise::Free, move || o.mean(|o| o.trials as f64)));
    let k = Rc::clone(&known);
    cells.push(cell("oracle: trials", Promise::Free, move || if has_step { k.mean(|e| e.trials as f64) } else { 0.0 }));
    cells.push(cell("in time", Promise::Free, move || {
        let most = if has_step { 3.0 * known.mean(|e| e.trials as f64) } else { f64::INFINITY };
        ours.percent(|o| o.found && o.trials as f64 <= most)
    }));
    for (runs, played) in [1, 5].into_iter().zip(git) {
        let p = Rc::clone(&played);
        cells.push(cell(&format!("git, {runs}: right"), Promise::Free, move || p.percent(|o| o.found)));
        cells.push(cell(&format!("git, {runs}: trials"), Promise::Free, move || played.mean(|o| o.trials as f64)));
    }
    let b = Rc::clone(&beta);
    let right = |e: &End| e.found;
    cells.push(cell("git_bayesect: right", Promise::Free, move || b.percent(right)));
    cells.push(cell("git_bayesect: trials", Promise::Free, move || beta.mean(|e| e.trials as f64)));
    Row { label: label.to_owned(), cells }
}
