//! A real-time task has each CPU nine tenths of the time.

use crate::situations::record::Windows;
use crate::situations::{Situation, WAITS, judge_beside};
use holdup_testkit::ignore;
use std::time::Duration;

static SITUATION: Situation = Situation {
    name: "real-time hog",
    setup: &[],
    held: &[],
    sessions: 2,
    statement: "SELECT sum(g) FROM generate_series(1, 50000) g",
    first: &["stolen-by-higher-class"],
    says: "Real-time tasks: sessions wait",
    never: &WAITS,
};

fn judge(count: u32, length: Duration) {
    let windows = Windows { count, length, is_real_time: true };
    let (_, arm, ()) = judge_beside(&SITUATION, windows, |server| {
        for cpu in 0..crate::situations::cpus() {
            let thief = holdup_induce::cpu_thief(cpu, Duration::from_millis(90), Duration::from_millis(100));
            server.hinder(thief.unwrap_or_else(|problem| ignore(problem)));
        }
    });
    let share = arm.causes[0].share.as_ref().expect("a share").value;
    assert!((0.8..0.97).contains(&share), "{share}: {}", arm.answer);
    assert!(arm.answer.contains("hu-thief"), "{}", arm.answer);
}

pub(crate) fn a_real_time_hog_in_short_windows() {
    judge(3, Duration::from_secs(1));
}

pub(crate) fn a_real_time_hog_in_long_windows() {
    judge(2, Duration::from_secs(3));
}
