use super::*;
use crate::sched::fair::Share;
use crate::sched::rules::Rules;

const MS: u64 = 1_000_000;

/// The times of one CPU.
const FEATURES: Features = Features {
    gentle_fair_sleepers: true,
    start_debit: true,
    wakeup_preemption: true,
    base_slice: true,
    latency_ns: 6 * MS,
    min_granularity_ns: 750_000,
    wakeup_granularity_ns: MS,
};

/// Tasks of a CPU that begin at 0, the first one running.
fn queue(features: Features, tasks: usize) -> Fair {
    Fair::with_tasks(Rules::Cfs(features), &vec![None; tasks])
}

#[test]
fn who_slept_long_is_put_back_by_half_a_period() {
    for (gentle, credit_ns) in [(true, 3 * MS), (false, 6 * MS)] {
        let mut fair = queue(Features { gentle_fair_sleepers: gentle, ..FEATURES }, 2);
        fair.dequeue_task(1, true);
        fair.ran(0, 100 * MS);
        fair.enqueue(0, 1, false);
        assert_eq!(fair.vruntime(0) - fair.vruntime(1), credit_ns as i64);
    }
    // Who slept for a moment keeps what it had.
    let mut fair = queue(FEATURES, 2);
    fair.dequeue_task(1, true);
    fair.ran(0, MS);
    fair.enqueue(0, 1, false);
    assert_eq!(fair.vruntime(1), 0);
}

#[test]
fn who_wakes_up_takes_over_when_it_is_behind_by_more_than_the_granularity() {
    for (ran_ns, takes) in [(MS - 1, false), (MS, false), (MS + 1, true)] {
        let mut fair = queue(FEATURES, 2);
        fair.dequeue_task(1, true);
        fair.ran(0, ran_ns);
        fair.enqueue(0, 1, false);
        assert_eq!(fair.takes_over(0, 1), takes, "{ran_ns} ns");
    }
}

#[test]
fn a_new_task_waits_for_a_slice() {
    for (debit, expect_ns) in [(true, 3 * MS), (false, 0)] {
        let mut fair = queue(Features { start_debit: debit, ..FEATURES }, 1);
        let task = fair.add(&Share::NICE_0);
        fair.enqueue(0, task, true);
        assert_eq!(fair.vruntime(task), expect_ns as i64);
    }
}

/// Eight tasks share the period, and more stretch it by a granularity each.
#[test]
fn a_period_holds_eight_granularities() {
    for (tasks, slice_ns) in [(1, 6 * MS), (2, 3 * MS), (4, 1_500_000), (8, 750_000), (20, 750_000)] {
        let fair = queue(FEATURES, tasks);
        assert_eq!(fair.slice_ns(&FEATURES, 0, 0), slice_ns, "{tasks} tasks");
    }
}

#[test]
fn a_tick_takes_off_who_used_its_slice() {
    for (ran_ns, makes_room) in [(3 * MS, false), (3 * MS + 1, true)] {
        let mut fair = queue(FEATURES, 2);
        assert!(!fair.ran(0, ran_ns), "only a tick does");
        assert_eq!(fair.tick(0), makes_room, "{ran_ns} ns");
    }
    let mut alone = queue(FEATURES, 1);
    alone.ran(0, 100 * MS);
    assert!(!alone.tick(0));
}

#[test]
fn who_yields_is_passed_over_once() {
    let mut fair = queue(FEATURES, 3);
    fair.ran(0, MS / 2);
    // It is first in the queue again after the others ran.
    for task in [1, 2] {
        assert_eq!(fair.run_next(), Some(task));
        fair.ran(0, MS);
    }
    assert_eq!(fair.run_next(), Some(0));
    fair.yields(0);
    assert_ne!(fair.run_next(), Some(0));
}

#[test]
fn the_origin_never_goes_back() {
    let mut fair = queue(FEATURES, 4);
    let mut random = crate::random::Random::new(5, 0);
    let mut last = 0;
    for _ in 0..5_000 {
        fair.ran(0, random.below(4 * MS));
        let task = random.below(4) as u32;
        let runs = fair.running(0);
        match (runs, fair.entities[task as usize].on_queue) {
            (_, false) => fair.enqueue(0, task, false),
            (Some(current), true) if current != task && random.below(2) == 0 => fair.dequeue_task(task, true),
            _ => {}
        }
        let zero = fair.virtual_time(0);
        assert!(zero >= last, "{zero} after {last}");
        last = zero;
        if fair.tick(0) {
            fair.run_next();
        }
    }
    assert!(last > 100 * MS as i64);
}
