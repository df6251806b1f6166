use super::*;
use crate::sched::fair::Share;
use crate::sched::rules::Rules;

const MS: u64 = 1_000_000;

/// Tasks of a CPU that all begin at 0, the first one running.
fn queue(features: Features, slices_ns: &[u64]) -> Fair {
    let slices: Vec<Option<u64>> = slices_ns.iter().copied().map(Some).collect();
    Fair::with_tasks(Rules::Eevdf(features), &slices)
}

fn lag(fair: &Fair, task: u32) -> i64 {
    fair.average(0) - fair.vruntime(task)
}

fn with(change: impl FnOnce(&mut Features)) -> Features {
    let kernel = crate::machine::Kernel::of_version("6.18", 1, 250).expect("known");
    let mut features = Features { base_slice_ns: 3 * MS, ..kernel.fair };
    change(&mut features);
    features
}

#[test]
fn who_comes_back_has_the_lag_with_which_it_left() {
    for place_lag in [true, false] {
        let mut fair = queue(with(|f| f.place_lag = place_lag), &[3 * MS; 3]);
        fair.ran(0, 2 * MS);
        let before = lag(&fair, 1);
        assert!(before > 0);
        fair.dequeue_task(1, true);
        fair.ran(0, MS);
        fair.enqueue(0, 1, false);
        let after = lag(&fair, 1);
        let expect = if place_lag { before } else { 0 };
        assert!((after - expect).abs() <= 2, "{before} before, {after} after");
    }
}

#[test]
fn a_lag_that_is_kept_is_twice_the_slice_or_a_tick_at_most() {
    for (slice_ns, tick_ns, limit_ns) in [(3 * MS, 4 * MS, 6 * MS), (MS, 4 * MS, 4 * MS), (MS, MS, 2 * MS)] {
        let mut fair = queue(with(|f| f.tick_ns = tick_ns), &[slice_ns; 2]);
        fair.ran(0, 200 * MS);
        fair.dequeue_task(1, true);
        assert_eq!(fair.entities[1].lag, limit_ns as i64);
        // The other one is as far ahead.
        fair.enqueue(0, 1, false);
        fair.ran(0, 200 * MS);
        fair.dequeue_task(0, false);
        assert_eq!(fair.entities[0].lag, -(limit_ns as i64));
    }
}

#[test]
fn who_sleeps_with_negative_lag_stays_until_it_is_eligible() {
    let mut fair = queue(with(|_| ()), &[3 * MS; 2]);
    fair.ran(0, 3 * MS);
    assert!(lag(&fair, 0) < 0);
    fair.dequeue_task(0, true);
    assert!(fair.is_delayed(0) && fair.tasks(0) == 1);
    assert_eq!(fair.run_next(), Some(1));
    fair.ran(0, 2 * MS);
    assert!(fair.is_delayed(0), "the other one has not had as much yet");
    fair.ran(0, 2 * MS);
    assert_eq!(fair.run_next(), Some(1));
    assert!(!fair.is_delayed(0) && fair.queues[0].nr == 1, "it left when it was chosen");
    assert_eq!(fair.entities[0].lag, 0, "without what it gained while it slept");

    let mut fair = queue(with(|f| f.delay_dequeue = false), &[3 * MS; 2]);
    fair.ran(0, 3 * MS);
    fair.dequeue_task(0, true);
    assert!(!fair.is_delayed(0) && fair.entities[0].lag < 0);
}

#[test]
fn who_wakes_up_before_it_left_keeps_its_place_but_gains_nothing() {
    let mut fair = queue(with(|_| ()), &[3 * MS; 2]);
    fair.ran(0, 3 * MS);
    fair.dequeue_task(0, true);
    fair.run_next();
    fair.ran(0, MS);
    let vruntime = fair.vruntime(0);
    fair.enqueue(0, 0, false);
    assert_eq!((fair.vruntime(0), fair.is_delayed(0), fair.tasks(0)), (vruntime, false, 2));

    let mut fair = queue(with(|_| ()), &[3 * MS; 2]);
    fair.ran(0, 3 * MS);
    fair.dequeue_task(0, true);
    fair.run_next();
    fair.ran(0, 8 * MS);
    assert!(lag(&fair, 0) > 0);
    fair.enqueue(0, 0, false);
    assert_eq!(lag(&fair, 0), 0);
}

#[test]
fn a_running_task_is_protected_until_its_slice_ends() {
    let takes = |features: Features, ran_ns: u64| {
        let mut fair = queue(features, &[3 * MS, 3 * MS]);
        fair.dequeue_task(1, true);
        fair.ran(0, ran_ns);
        // It was away with an older deadline: it comes back with the earliest one.
        fair.enqueue(0, 1, false);
        fair.nodes[0].deadline += 10 * MS as i64;
        fair.takes_over(0, 1)
    };
    assert!(!takes(with(|_| ()), 2 * MS));
    assert!(takes(with(|f| f.run_to_parity = false), 2 * MS));
    assert!(!takes(with(|f| f.run_to_parity = false), MS / 2), "0.7 ms are everyone's");
    assert!(!takes(with(|f| (f.run_to_parity, f.wakeup_preemption) = (false, false)), 2 * MS));
}

#[test]
fn a_shorter_slice_breaks_the_protection() {
    for (preempt_short, slice_ns) in [(true, MS), (false, MS), (true, 3 * MS)] {
        let mut fair = queue(with(|f| f.preempt_short = preempt_short), &[3 * MS, slice_ns]);
        fair.dequeue_task(1, true);
        // It runs alone, and is protected for all of its slice.
        fair.run_next();
        fair.ran(0, MS / 2);
        fair.enqueue(0, 1, false);
        assert_eq!(fair.takes_over(0, 1), preempt_short && slice_ns < 3 * MS, "{preempt_short} {slice_ns}");
    }
}

#[test]
fn a_new_task_has_half_a_slice_until_its_first_deadline() {
    for (initial, expect_ns) in [(true, 3 * MS / 2), (false, 3 * MS)] {
        let mut fair = queue(with(|f| f.place_deadline_initial = initial), &[3 * MS]);
        let share = Share { slice_ns: Some(3 * MS), ..Share::NICE_0 };
        let task = fair.add(&share);
        fair.enqueue(0, task, true);
        let node = fair.nodes[task as usize];
        assert_eq!(node.deadline - node.vruntime, expect_ns as i64);
    }
}

#[test]
fn who_moves_keeps_how_far_its_deadline_is() {
    for keeps in [true, false] {
        let mut fair = queue(with(|f| f.place_rel_deadline = keeps), &[3 * MS; 2]);
        fair.ran(0, MS);
        fair.put(0);
        let ahead = fair.nodes[0].deadline - fair.vruntime(0);
        assert_eq!(ahead, 2 * MS as i64);
        fair.dequeue_task(0, false);
        fair.enqueue(0, 0, false);
        let expect = if keeps { ahead } else { 3 * MS as i64 };
        assert_eq!(fair.nodes[0].deadline - fair.vruntime(0), expect);
    }
}

#[test]
fn who_yields_gives_its_slice_up_since_6_18() {
    for forfeits in [true, false] {
        let mut fair = queue(with(|f| f.yield_forfeits = forfeits), &[3 * MS; 2]);
        let deadline = fair.nodes[0].deadline;
        fair.yields(0);
        let expect = if forfeits { deadline } else { 0 };
        assert_eq!((fair.vruntime(0), fair.nodes[0].deadline), (expect, deadline + 3 * MS as i64));
        assert_eq!(fair.run_next(), Some(1));
    }
}

/// The virtual time advances with what runs, advances or stays with a task that leaves under DELAY_DEQUEUE, and a task that comes moves it
/// by no more than its lag.
#[test]
fn virtual_time_does_not_go_back_while_the_same_tasks_run() {
    let mut fair = queue(with(|_| ()), &[3 * MS, MS, 10 * MS]);
    let mut random = crate::random::Random::new(3, 0);
    let mut last = fair.average(0);
    for _ in 0..10_000 {
        let asks = fair.ran(0, random.below(2 * MS));
        let now = fair.average(0);
        assert!(now >= last, "{now} after {last}");
        last = now;
        if asks {
            fair.run_next();
            assert_eq!(fair.average(0), last, "a switch takes no virtual time");
        }
    }
}
