//! Against SciPy and R: `tests/vectors/make.py` made `vectors.json`, `make.R` made `vectors_r.json`; both name versions.

use holdup_stats::{BlockPair, BlockValue, DriftPoint, Effect, drift, holm, ratio_bootstrap, students_t};
use serde_json::Value;

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors/vectors.json")).expect("the vectors are JSON")
}

fn vectors_of_r() -> Value {
    serde_json::from_str(include_str!("vectors/vectors_r.json")).expect("the vectors are JSON")
}

fn pairs(row: &Value) -> Vec<BlockPair> {
    let (a, b) = (numbers(row, "a"), numbers(row, "b"));
    (0_u32..).zip(a.into_iter().zip(b)).map(|(block, (a, b))| BlockPair { session: 0, block, a, b }).collect()
}

/// The paired t test alone: the mean of the blocks' ratios against 1.
fn mean_of_ratios(pairs: &[BlockPair]) -> Effect {
    let ratios: Vec<BlockValue> =
        pairs.iter().map(|p| BlockValue { session: p.session, block: p.block, value: p.b / p.a }).collect();
    Effect::of_mean(&ratios).expect("an effect")
}

fn rows<'a>(all: &'a Value, name: &str) -> &'a [Value] {
    let rows = all[name].as_array().expect("a list");
    assert!(rows.len() >= 3, "{name} has {} rows", rows.len());
    rows
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
}

fn numbers(row: &Value, name: &str) -> Vec<f64> {
    row[name].as_array().expect("a list").iter().map(|v| v.as_f64().expect("a number")).collect()
}

#[track_caller]
fn close(ours: f64, theirs: f64, relative: f64, what: &str) {
    let tolerance = relative * theirs.abs().max(1e-12);
    assert!((ours - theirs).abs() <= tolerance, "{what}: ours {ours:e}, theirs {theirs:e}");
}

#[test]
fn t_quantiles_to_nine_digits() {
    for row in rows(&vectors(), "t_quantiles") {
        let (df, p, t) = (number(row, "df"), number(row, "p"), number(row, "t"));
        let ours = students_t::quantile(p, df).expect("a quantile");
        assert!((ours - t).abs() <= 1e-9 * t.abs().max(1.0), "p {p} df {df}: ours {ours:e}, SciPy {t:e}");
    }
}

#[test]
fn t_tails_to_ten_digits() {
    for row in rows(&vectors(), "t_tails") {
        let (df, t, p) = (number(row, "df"), number(row, "t"), number(row, "p"));
        close(students_t::two_sided_p(t, df).expect("a p"), p, 1e-10, &format!("t {t} df {df}"));
    }
}

#[test]
fn the_paired_t_test_and_tost() {
    for row in rows(&vectors(), "paired") {
        let effect = mean_of_ratios(&pairs(row));
        let interval = effect.estimate(0.95).expect("an interval");
        let theirs = numbers(row, "log_interval");
        let n = interval.n;
        close(effect.log_value(), number(row, "log_ratio"), 1e-9, &format!("n {n} log ratio"));
        close(interval.low.ln(), theirs[0], 1e-8, &format!("n {n} low"));
        close(interval.high.ln(), theirs[1], 1e-8, &format!("n {n} high"));
        close(effect.p_difference(), number(row, "p"), 1e-8, &format!("n {n} p"));
        close(
            effect.p_equivalence(number(row, "margin")),
            number(row, "p_equivalence"),
            1e-8,
            &format!("n {n} equivalence"),
        );
        assert_eq!(n as usize, numbers(row, "a").len());
    }
}

#[test]
fn welch() {
    let side = |values: Vec<f64>| -> Vec<BlockValue> {
        (0_u32..).zip(values).map(|(block, value)| BlockValue { session: 0, block, value }).collect()
    };
    for row in rows(&vectors(), "welch") {
        let effect = Effect::unpaired(&side(numbers(row, "a")), &side(numbers(row, "b"))).expect("an effect");
        let interval = effect.estimate(0.95).expect("an interval");
        let theirs = numbers(row, "log_interval");
        close(interval.low.ln(), theirs[0], 1e-8, "low");
        close(interval.high.ln(), theirs[1], 1e-8, "high");
        close(effect.p_difference(), number(row, "p"), 1e-8, "p");
    }
}

#[test]
fn spearman_and_the_line_of_one_arm() {
    for row in rows(&vectors(), "spearman") {
        let values = numbers(row, "values");
        let points: Vec<DriftPoint> = values.iter().map(|&value| DriftPoint { arm: 0, value }).collect();
        let found = drift(&points).expect("drift");
        close(found.rank_correlation, number(row, "rho"), 1e-10, "rho");
        close(found.p, number(row, "p"), 1e-8, "p");
        let change = (number(row, "log_slope") * (values.len() - 1) as f64).exp_m1();
        close(found.change, change, 1e-8, "change");
    }
}

#[test]
fn holm_as_r_does_it() {
    // R 4: p.adjust(c(0.01, 0.04, 0.03, 0.005), "holm") is 0.03 0.06 0.06 0.02.
    let ours = holm(&[0.01, 0.04, 0.03, 0.005]);
    for (ours, theirs) in ours.iter().zip([0.03, 0.06, 0.06, 0.02]) {
        close(*ours, theirs, 1e-12, "holm");
    }
    assert_eq!(holm(&[]), Vec::<f64>::new());
    assert_eq!(holm(&[f64::NAN, 0.02, 3.0]), [1.0, 0.04, 1.0]);
}

#[test]
fn the_blend_of_paired_and_welch() {
    for row in rows(&vectors(), "blend") {
        let effect = Effect::paired(&pairs(row)).expect("an effect");
        close(effect.p_difference(), number(row, "p"), 1e-8, &format!("n {} p", effect.blocks()));
        let pairing = format!("pairing counts {:.0} %", 100.0 * (1.0 - number(row, "weight")));
        assert!(effect.method().contains(&pairing), "{} does not say {pairing}", effect.method());
        // The interval belongs to the p: at the confidence 1 - p it ends at 1.
        let edge = effect.estimate(1.0 - effect.p_difference()).expect("an interval");
        let near = if effect.value() > 1.0 { edge.low } else { edge.high };
        assert!((near - 1.0).abs() < 1e-9, "{edge:?}");
    }
}

#[test]
fn r_agrees_on_t_and_welch() {
    for row in rows(&vectors_of_r(), "paired") {
        let effect = mean_of_ratios(&pairs(row));
        let (ours, theirs) = (effect.estimate(0.95).expect("an interval"), numbers(row, "log_interval"));
        close(effect.p_difference(), number(row, "p"), 1e-8, "p");
        close(ours.low.ln(), theirs[0], 1e-7, "low");
        close(ours.high.ln(), theirs[1], 1e-7, "high");
    }
    let side = |values: Vec<f64>| -> Vec<BlockValue> {
        (0_u32..).zip(values).map(|(block, value)| BlockValue { session: 0, block, value }).collect()
    };
    for row in rows(&vectors_of_r(), "welch") {
        let effect = Effect::unpaired(&side(numbers(row, "a")), &side(numbers(row, "b"))).expect("an effect");
        close(effect.p_difference(), number(row, "p"), 1e-8, "p of Welch");
        close(
            effect.estimate(0.95).expect("an interval").low.ln(),
            numbers(row, "log_interval")[0],
            1e-7,
            "low of Welch",
        );
    }
}

#[test]
fn r_agrees_on_the_bootstrap() {
    // Both draw at random: with 200,000 draws each an end scatters by about 1 % of the interval's width.
    for row in rows(&vectors_of_r(), "bca") {
        let ours = ratio_bootstrap(&pairs(row), 0.95, 200_000, 7).expect("an interval");
        let theirs = numbers(row, "log_interval");
        let width = theirs[1] - theirs[0];
        for (ours, theirs, end) in [(ours.low.ln(), theirs[0], "low"), (ours.high.ln(), theirs[1], "high")] {
            assert!((ours - theirs).abs() < 0.02 * width, "n {} {end}: {ours} and {theirs}", numbers(row, "a").len());
        }
    }
}
