//! The answers of a search of settings, and its page.

use holdup_model::tuning::{
    Answer, Begin, Beliefs, Bound, Confirmed, Entry, FORMAT, Guard, Interaction, LeftOut, MainEffect, Seen, Tested,
    Tried, TriedLevel,
};
use holdup_model::{Direction, Estimate};
use holdup_report::{tuning_answer, tuning_html, tuning_log, tuning_profile, tuning_space};

fn tried(name: &str, levels: &[&str]) -> Tried {
    let found = TriedLevel { label: String::new(), sets: Vec::new() };
    let level = |l: &&str| TriedLevel { label: (*l).to_owned(), sets: vec![(name.to_owned(), (*l).to_owned())] };
    let levels = std::iter::once(found).chain(levels.iter().map(level)).collect();
    Tried { name: name.to_owned(), levels, is_ordered: false, restarts: false, why: "guides say so".to_owned() }
}

fn begin() -> Begin {
    Begin {
        format: FORMAT,
        command: ["holdup", "tune", "pgbench"].map(str::to_owned).to_vec(),
        folder: "/".into(),
        began_unix_ns: 1_700_000_000_000_000_000,
        plan: "[[workload]]\nkind = \"pgbench\"\n".into(),
        workload: "pgbench".into(),
        searched_on: "local".into(),
        target: "local".into(),
        workload_has_server: true,
        metric: "tps".into(),
        better: Direction::Higher,
        guards: vec![Guard { metric: "latency_p99_us".into(), better: Direction::Lower, bound: Bound::Share(0.05) }],
        tried: vec![
            tried("autogroup", &["off"]),
            tried("postgres.wal_compression", &["pglz", "lz4"]),
            tried("postgres.jit", &["off"]),
            tried("huge-pages", &["on"]),
        ],
        left_out: vec![LeftOut { name: "preempt".into(), why: "debugfs is not mounted".into() }],
        least: 0.01,
        budget_s: 3600.0,
        seed: 1,
    }
}

fn estimate(value: f64, low: f64, high: f64) -> Estimate {
    Estimate { value, low, high, confidence: 0.95, n: 20, method: "paired".into() }
}

fn beliefs() -> Beliefs {
    let effect = |tried, level, ratio, se| MainEffect { tried, level, ratio: Some((ratio, se)), trials: 12 };
    Beliefs {
        best: vec![1, 2, 0, 0],
        effects: vec![
            effect(0, 1, 1.08, 0.01),
            effect(1, 1, 0.9, 0.01),
            effect(1, 2, 1.05, 0.01),
            effect(2, 1, 1.001, 0.002),
            MainEffect { tried: 3, level: 1, ratio: None, trials: 0 },
        ],
        interactions: vec![Interaction { of: [(0, 1), (1, 2)], ratio: 1.03, se_log: 0.01 }],
        tested: vec![Tested { levels: vec![1, 2, 0, 0], blocks: 9, ratio: (1.16, 0.01), is_eligible: true }],
        trials: 96,
        points: 61,
    }
}

fn answer(ratio: Estimate, p99: Estimate) -> Answer {
    let confirmed = |name: &str, ratio| Confirmed {
        name: name.into(),
        ratio: Some(ratio),
        caution: None,
        guards: vec![(Some(p99.clone()), 0.05)],
    };
    Answer {
        levels: vec![1, 2, 0, 0],
        confirmed: Some(confirmed("tuned", ratio)),
        beside: vec![confirmed("pgtune", estimate(1.02, 0.99, 1.05))],
        shares: vec![
            (0, 1, Some(estimate(1.07, 1.04, 1.1))),
            (1, 2, Some(estimate(1.05, 1.02, 1.08))),
            (2, 1, Some(estimate(1.0, 0.98, 1.02))),
        ],
        beliefs: beliefs(),
        bundle: Some("tune-1/confirm-1.holdup".into()),
        profile: Some("tune-1/tuned.toml".into()),
    }
}

#[test]
fn a_winner_has_the_ratio_of_fresh_blocks_and_what_each_setting_adds() {
    let answer = answer(estimate(1.13, 1.1, 1.16), estimate(0.95, 0.9, 1.0));
    insta::assert_snapshot!("found", tuning_answer(&begin(), &answer));
    let profile = tuning_profile(&begin(), &answer, &["2 CPUs".to_owned()], "name = \"tuned\"\n");
    insta::assert_snapshot!("profile", profile);
    insta::assert_snapshot!("space", tuning_space(&begin()));
}

/// Without line ends.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_broken_guard_and_an_interval_with_1_are_no_gain() {
    let broken = answer(estimate(1.13, 1.1, 1.16), estimate(1.2, 1.1, 1.3));
    assert!(!broken.is_confirmed(&begin()));
    let text = joined(&tuning_answer(&begin(), &broken));
    assert!(
        text.starts_with("Not confirmed: the search ended at autogroup=off, postgres.wal_compression=lz4, and it"),
        "{text}"
    );
    assert!(text.contains("breaks the guard of latency_p99_us") && !text.contains("holdup apply"), "{text}");
    let unseen = answer(estimate(1.01, 0.98, 1.04), estimate(1.0, 0.99, 1.01));
    let text = joined(&tuning_answer(&begin(), &unseen));
    assert!(text.contains("fresh blocks do not separate it from what is set now"), "{text}");
    let nothing = Answer { levels: vec![0; 4], confirmed: None, shares: Vec::new(), bundle: None, ..unseen };
    let text = joined(&tuning_answer(&begin(), &nothing));
    assert!(
        text.starts_with("None of 4 settings improves tps of pgbench by 1 % or more within the guards. "),
        "{text}"
    );
}

#[test]
fn an_answer_on_many_settings_fits_a_screen() {
    let names: Vec<String> = (0..40).map(|i| format!("postgres.a_setting_with_a_name_{i}")).collect();
    let begin = Begin { tried: names.iter().map(|name| tried(name, &["10000", "20000"])).collect(), ..begin() };
    let kinds = [Some((1.2, 0.01)), Some((0.8, 0.01)), Some((1.0, 0.001)), Some((1.0, 0.1)), None];
    let effects = (0..80).map(|i| MainEffect {
        tried: i / 2,
        level: (i % 2 + 1) as u8,
        ratio: kinds[i % 5],
        trials: u32::from(kinds[i % 5].is_some()),
    });
    let answer = Answer {
        levels: vec![1; 40],
        shares: (0..40).map(|at| (at, 1, Some(estimate(1.01, 1.005, 1.02)))).collect(),
        beliefs: Beliefs { effects: effects.collect(), ..beliefs() },
        ..answer(estimate(1.3, 1.2, 1.4), estimate(1.0, 0.9, 1.1))
    };
    let text = tuning_answer(&begin, &answer);
    assert!(text.starts_with("40 settings raise tps of pgbench by 30.0 % (20.0–40.0 %).\n"), "{text}");
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_page_holds_what_was_tried_and_nothing_from_elsewhere() {
    let hostile = "<script>alert(1)</script>";
    let begin =
        Begin { metric: hostile.into(), workload: hostile.into(), tried: vec![tried(hostile, &[hostile])], ..begin() };
    let seen = |level, value| Seen { levels: vec![level], value, guards: vec![None], failed: None };
    let block = Entry::Block {
        phase: "each setting alone".into(),
        bundle: "block-1.holdup".into(),
        spent_s: 3.0,
        seen: vec![seen(0, Some(100.0)), seen(1, Some(110.0)), seen(1, None)],
    };
    let beliefs = Beliefs {
        best: vec![1],
        effects: vec![MainEffect { tried: 0, level: 1, ratio: Some((1.1, 0.02)), trials: 1 }],
        interactions: Vec::new(),
        tested: Vec::new(),
        trials: 3,
        points: 2,
    };
    let page = tuning_html(&begin, std::slice::from_ref(&block), &beliefs);
    assert!(page.contains("Under way") && page.contains("What each setting does alone"), "{page}");
    assert!(!page.contains("<script") && !page.contains("http://") && !page.contains("https://"), "{page}");
    let log = tuning_log(&begin, &[block], &beliefs);
    assert!(log.starts_with("Under way: "), "{log}");
}
