//! Series with a known truth: changes are named where they are, a gate refuses what is worse and little else.

use holdup_history::{Split, gate, history, named, runs_near_changes};
use holdup_model::kept::*;
use holdup_model::{Direction, Metric};
use holdup_stats::random::Noise;
use std::collections::BTreeMap;

const DAY: i64 = 86_400_000_000_000;

fn metric() -> Metric {
    Metric { id: "tps".into(), unit: "1/s".into(), better: Direction::Higher, summary: "transactions".into() }
}

fn run(day: usize, host: &str) -> KeptRun {
    KeptRun {
        run_id: format!("{day:08x}{host}"),
        created_unix_ns: 1_770_000_000_000_000_000 + day as i64 * DAY,
        plan: "demo".into(),
        question: "Does it get slower?".into(),
        target: "local".into(),
        emulated: None,
        host: Some(host.into()),
        kernel: Some("6.18".into()),
        server: None,
        holdup_version: "0.1.0".into(),
        ending: Some("complete".into()),
        trials_done: 10,
        trials_void: 0,
    }
}

fn value(mean: f64) -> KeptMetric {
    KeptMetric { metric: metric(), is_primary: true, margin: 0.03, trials: 10, mean, cv: Some(0.02) }
}

/// A series of one arm on one host with 1 % noise between runs.
fn series(seed: u64, days: usize, level: impl Fn(usize) -> f64) -> KeptSeries {
    let mut noise = Noise::new(seed);
    let mut kept = KeptSeries::default();
    for day in 0..days {
        kept.runs.push(run(day, "db1"));
        let value = value(level(day) * (0.01 * noise.normal()).exp());
        kept.values.push(KeptValue {
            run: day,
            arm: "clients=8".into(),
            workload: "w".into(),
            design: "d".into(),
            value,
        });
    }
    kept
}

fn new(mean: f64, name: &str) -> Kept {
    let arm = KeptArm {
        arm: 0,
        label: "clients=8".into(),
        workload: "w".into(),
        design: "d".into(),
        replica: None,
        metrics: vec![value(mean)],
    };
    let run = KeptRun { run_id: name.into(), ..run(1_000, "db1") };
    Kept { run, arms: vec![arm], facts: BTreeMap::new() }
}

#[test]
fn a_loss_is_open_until_it_is_made_good_and_what_changed_with_it_is_named() {
    let lost = history(&series(1, 40, |day| if day < 25 { 1_000.0 } else { 900.0 }), Split::default());
    let [only] = lost.series.as_slice() else { panic!("{:?}", lost.series) };
    assert_eq!((only.changes.len(), only.changes[0].at), (1, 25));
    let open = only.open.as_ref().expect("an open regression");
    assert!((open.ratio - 0.9).abs() < 0.01 && open.runs == 15, "{open:?}");
    let facts = |day: usize| -> BTreeMap<String, String> {
        let kernel = if day < 25 { "6.18" } else { "6.19" };
        [("kernel.release", kernel.to_owned()), ("clock", day.to_string())].map(|(k, v)| (k.to_owned(), v)).into()
    };
    let facts: BTreeMap<usize, _> = runs_near_changes(&lost).into_iter().map(|run| (run, facts(run))).collect();
    let lost = named(lost, &facts);
    assert_eq!(lost.series[0].changes[0].environment, ["kernel.release: 6.18 → 6.19"]);
    let first = &lost.findings[0];
    assert!(first.sentence.starts_with("Open regression, ×0.90 now. clients=8: tps ×0.9"), "{}", first.sentence);
    assert!(first.sentence.contains("worse since 2026-02-27 (run 00000019)"), "{}", first.sentence);
    let level = |day: usize| if (15..30).contains(&day) { 900.0 } else { 1_000.0 };
    let mended = history(&series(2, 45, level), Split::default());
    assert_eq!((mended.series[0].changes.len(), &mended.series[0].open), (2, &None));
}

#[test]
fn steady_series_are_accused_no_more_often_than_is_said() {
    let accused = (0..100)
        .filter(|seed| !history(&series(1_000 + seed, 30, |_| 500.0), Split::default()).series[0].changes.is_empty())
        .count();
    // 5 %: more than 12 of 100 has a chance of 0.1 %.
    assert!(accused <= 12, "{accused} of 100");
}

#[test]
fn hosts_targets_and_designs_are_never_pooled() {
    let mut kept = series(3, 12, |_| 1_000.0);
    for (at, run) in kept.runs.iter_mut().enumerate() {
        run.host = Some(if at % 2 == 0 { "db1" } else { "db2" }.into());
        run.kernel = Some(if at < 6 { "6.18" } else { "6.19" }.into());
    }
    kept.values[4].design = "other".into();
    assert_eq!(history(&kept, Split::default()).series.len(), 3);
    assert_eq!(history(&kept, Split { kernel: true, server: false }).series.len(), 5);
}

#[test]
fn a_gate_refuses_a_loss_lets_pass_what_is_as_before_and_says_when_it_cannot_know() {
    let kept = series(4, 40, |_| 1_000.0);
    let answer = |mean: f64| gate(&[new(mean, "new")], &kept, None).answer;
    assert_eq!(answer(900.0), GateAnswer::Regression);
    assert_eq!(answer(1_005.0), GateAnswer::NoRegression);
    assert_eq!(answer(1_200.0), GateAnswer::NoRegression, "better is no regression");
    assert_eq!(answer(975.0), GateAnswer::Undecided);
    let several = gate(&[new(961.0, "a"), new(960.0, "b"), new(962.0, "c")], &kept, None);
    assert_eq!(several.answer, GateAnswer::Regression, "{}", several.sentence);
    let few = gate(&[new(900.0, "new")], &series(4, 4, |_| 1_000.0), None);
    assert!(few.sentence.contains("4 runs of this host and arm are kept, and 5 are needed"), "{}", few.sentence);
    let mut elsewhere = new(900.0, "new");
    elsewhere.run.host = Some("db9".into());
    let elsewhere = gate(&[elsewhere], &kept, None);
    assert!(elsewhere.sentence.contains("are kept of db1, none of db9"), "{}", elsewhere.sentence);
    let wide = gate(&[new(960.0, "new")], &kept, Some(0.1));
    assert_eq!(wide.answer, GateAnswer::NoRegression);
}

#[test]
fn a_gate_compares_with_the_level_since_the_last_change() {
    let kept = series(5, 40, |day| if day < 20 { 1_000.0 } else { 800.0 });
    let gate = gate(&[new(800.0, "new")], &kept, None);
    assert_eq!(gate.answer, GateAnswer::NoRegression, "{}", gate.sentence);
    assert_eq!(gate.checks[0].runs, 20);
    // The loss itself is where the gate would have been right.
    assert!(gate.past.justified >= 1 && gate.past.false_alarms == 0, "{:?}", gate.past);
}

#[test]
fn a_gate_cries_wolf_no_more_often_than_is_said() {
    let (mut judged, mut alarms) = (0, 0);
    for seed in 0..40 {
        let past = gate(&[new(1_000.0, "new")], &series(2_000 + seed, 40, |_| 1_000.0), Some(0.0)).past;
        (judged, alarms) = (judged + past.judged, alarms + past.false_alarms);
    }
    // At a margin of nothing 2.5 % of the values: 1,200 of them that share levels.
    assert!(judged == 40 * 30 && alarms as f64 <= 0.05 * judged as f64, "{alarms} of {judged}");
}

#[test]
fn new_runs_that_are_kept_already_are_not_compared_with_themselves() {
    let mut kept = series(6, 30, |_| 1_000.0);
    kept.runs.push(KeptRun { run_id: "new".into(), ..run(1_000, "db1") });
    kept.values.push(KeptValue { run: 30, value: value(500.0), ..kept.values[0].clone() });
    let gate = gate(&[new(500.0, "new")], &kept, None);
    assert_eq!((gate.answer, gate.checks[0].runs), (GateAnswer::Regression, 30));
}
