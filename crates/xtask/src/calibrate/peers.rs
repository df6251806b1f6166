//! Other searches, on the histories on which ours is measured: one that knows what ours has to learn, and git_bayesect's rule.

use holdup_stats::bisection::{History, World};
use statrs::function::beta::ln_beta;

/// How a peer's search ended.
pub(super) struct End {
    /// True if it named the culprit.
    pub(super) found: bool,
    /// Trials taken.
    pub(super) trials: usize,
}

const CONFIDENCE: f64 = 0.95;

/// A search that knows both levels and the noise: no other needs fewer trials for the same certainty, but for chance.
pub(super) fn oracle(world: &World, seed: u64, most: usize) -> End {
    let n = world.candidates.n;
    let mut history = History::new(world, seed);
    let step = world.step.ln_1p();
    let mut logs = vec![0.0_f64; n];
    logs[0] = f64::NEG_INFINITY;
    for trials in 0..most {
        let most_log = logs.iter().copied().fold(f64::MIN, f64::max);
        let total: f64 = logs.iter().map(|log| (log - most_log).exp()).sum();
        let posterior = |c: usize| (logs[c] - most_log).exp() / total;
        if let Some(named) = (1..n).find(|&c| posterior(c) >= CONFIDENCE) {
            return End { found: history.culprit() == Some(named), trials };
        }
        // A trial is worth most where it is as likely before the step as after it.
        let mut so_far = 0.0;
        let mut chosen = (f64::INFINITY, n - 1);
        for c in 1..n {
            so_far += posterior(c);
            let off = (so_far - 0.5_f64).abs();
            if off < chosen.0 {
                chosen = (off, c);
            }
        }
        let chosen = chosen.1;
        let z = (history.log_value(chosen) - 1000.0_f64.ln()) / world.cv;
        let after = z * step / world.cv - 0.5 * (step / world.cv).powi(2);
        // Those up to the chosen one make it slow.
        logs[1..=chosen].iter_mut().for_each(|log| *log += after);
    }
    End { found: false, trials: most }
}

/// The rule of git_bayesect: a trial passes or fails, and how often it fails before and after the culprit is unknown, with the
/// beta priors of its source (0.05 and 0.95 before, 0.9 and 0.1 after). What fails is chosen here as a user would: what is
/// nearer to the bad end, after as many trials of both ends as ours takes.
pub(super) fn pass_fail(world: &World, seed: u64, end_trials: u32, most: usize) -> End {
    let n = world.candidates.n;
    let mut history = History::new(world, seed);
    let mut mean =
        |candidate: usize| (0..end_trials).map(|_| history.log_value(candidate)).sum::<f64>() / f64::from(end_trials);
    let (good, bad) = (mean(0), mean(n - 1));
    let (limit, is_up) = ((good + bad) / 2.0, bad > good);
    let (mut fails, mut passes) = (vec![0.0; n], vec![0.0; n]);
    for trials in 2 * end_trials as usize..most {
        let beliefs = beliefs(&fails, &passes);
        if let Some(named) = (1..n).find(|&c| beliefs[c].probability >= CONFIDENCE) {
            return End { found: history.culprit() == Some(named), trials };
        }
        let chosen = least_entropy(&beliefs);
        let is_fail = (history.log_value(chosen) > limit) == is_up;
        if is_fail { fails[chosen] += 1.0 } else { passes[chosen] += 1.0 }
    }
    End { found: false, trials: most }
}

/// What is believed if a candidate is the culprit.
struct Belief {
    probability: f64,
    fails_before: f64,
    fails_after: f64,
}

fn beliefs(fails: &[f64], passes: &[f64]) -> Vec<Belief> {
    const BEFORE: (f64, f64) = (0.05, 0.95);
    const AFTER: (f64, f64) = (0.9, 0.1);
    let (all_fails, all_passes) = (fails.iter().sum::<f64>(), passes.iter().sum::<f64>());
    let (mut f, mut p) = (0.0, 0.0);
    let mut all: Vec<Belief> = Vec::with_capacity(fails.len());
    for c in 0..fails.len() {
        let (after_f, after_p) = (all_fails - f, all_passes - p);
        let log = ln_beta(BEFORE.0 + f, BEFORE.1 + p) + ln_beta(AFTER.0 + after_f, AFTER.1 + after_p);
        all.push(Belief {
            probability: if c == 0 { f64::NEG_INFINITY } else { log },
            fails_before: (BEFORE.0 + f) / (1.0 + f + p),
            fails_after: (AFTER.0 + after_f) / (1.0 + after_f + after_p),
        });
        f += fails[c];
        p += passes[c];
    }
    let most = all.iter().map(|b| b.probability).fold(f64::MIN, f64::max);
    let total: f64 = all.iter().map(|b| (b.probability - most).exp()).sum();
    all.iter_mut().for_each(|b| b.probability = (b.probability - most).exp() / total);
    all
}

/// The candidate whose trial leaves the least entropy on average.
fn least_entropy(beliefs: &[Belief]) -> usize {
    let entropy = |w: f64| if w > 0.0 { w * w.ln() } else { 0.0 };
    // Sums of w and of w·ln w, for a trial that fails and one that passes, of culprits up to a place and behind it.
    let terms = |p: f64, rate: f64| [p * rate, entropy(p * rate), p * (1.0 - rate), entropy(p * (1.0 - rate))];
    let add = |sum: [f64; 4], term: [f64; 4]| std::array::from_fn(|i| sum[i] + term[i]);
    let mut behind = beliefs.iter().map(|b| terms(b.probability, b.fails_before)).fold([0.0; 4], add);
    let mut up_to = [0.0; 4];
    let mut best = (f64::INFINITY, 0);
    for (c, b) in beliefs.iter().enumerate() {
        up_to = add(up_to, terms(b.probability, b.fails_after));
        behind = add(behind, terms(b.probability, b.fails_before).map(|x| -x));
        let [fail, fail_log, pass, pass_log] = add(up_to, behind);
        let left = entropy(fail.max(0.0)) - fail_log + entropy(pass.max(0.0)) - pass_log;
        if left < best.0 {
            best = (left, c);
        }
    }
    best.1
}
