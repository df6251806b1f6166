use super::*;
use holdup_model::ReplayTask;

const US: u64 = 1_000;

/// Names of the tasks that the tests speak of, by thread id.
const NAMES: [&str; 4] = ["", "a", "b", "c"];

fn id(tid: u32) -> TaskId {
    let name = NAMES.get(tid as usize).copied().unwrap_or("d");
    TaskId { tid, priority: 120, name: Name::of(name.as_bytes()) }
}

fn switch(at_us: u64, cpu: u32, from: u32, left: Left, to: u32) -> Event {
    Event { at_ns: at_us * US, cpu, what: What::Switch { from: id(from), left, to: id(to) } }
}

fn waking(at_us: u64, cpu: u32, tid: u32, by: Option<u32>) -> Event {
    Event { at_ns: at_us * US, cpu, what: What::Waking { task: id(tid), cpu, by } }
}

fn event(at_us: u64, cpu: u32, what: What) -> Event {
    Event { at_ns: at_us * US, cpu, what }
}

fn replay(events: &[Event]) -> Replay {
    let mut reduction = Reduction::default();
    events.iter().for_each(|event| reduction.add(event));
    reduction.finish("trace").expect("there are switches")
}

/// A line for each task: how it begins, and its steps with their times in us.
fn shown(replay: &Replay) -> Vec<String> {
    let step = |step: &ReplayStep| match step {
        ReplayStep::Run { ns, switches, in_kernel } => {
            format!("run {}{} ({switches})", ns / US, if *in_kernel { " in the kernel" } else { "" })
        }
        ReplayStep::Return => "return".to_owned(),
        ReplayStep::Wake(task) => format!("wake {}", replay.tasks[*task as usize].name),
        ReplayStep::WakeAsleep(task) => format!("wake {} once it sleeps", replay.tasks[*task as usize].name),
        ReplayStep::For { task, steps, may_lead } => {
            let name = &replay.tasks[*task as usize].name;
            format!("{} {name} {steps}", if *may_lead { "soon for" } else { "for" })
        }
        ReplayStep::Sleep(ns) => format!("sleep {}", ns / US),
        ReplayStep::Wait => "wait".to_owned(),
    };
    let task = |task: &ReplayTask| {
        let begin = match task.begin {
            TaskBegin::At(ns) => format!("at {}", ns / US),
            TaskBegin::Woken => "woken".to_owned(),
        };
        let steps: Vec<String> = task.steps.iter().map(step).collect();
        format!("{}{}, {begin}: {}", task.name, if task.is_new { ", new" } else { "" }, steps.join(", "))
    };
    replay.tasks.iter().map(task).collect()
}

#[test]
fn a_task_runs_wakes_others_and_sleeps_but_does_not_wait() {
    let events = [
        // a has run since the begin, wakes b, and is preempted for 20 us.
        waking(0, 1, 3, None),
        waking(10, 0, 2, Some(1)),
        switch(15, 1, 0, Left::UserBoundary, 2),
        switch(25, 1, 2, Left::Sleeping, 0),
        switch(40, 0, 1, Left::UserBoundary, 3),
        switch(60, 0, 3, Left::Sleeping, 1),
        // It sleeps until an interrupt wakes it.
        switch(70, 0, 1, Left::Sleeping, 0),
        waking(170, 0, 1, None),
        switch(175, 0, 0, Left::UserBoundary, 1),
        // And b is waiting for c, which has ended by then.
        waking(180, 0, 2, Some(1)),
        switch(182, 1, 0, Left::UserBoundary, 2),
        switch(200, 1, 2, Left::Exited, 0),
        switch(210, 0, 1, Left::Blocked, 0),
    ];
    let replay = replay(&events);
    assert_eq!(
        shown(&replay),
        [
            "c, at 0: run 20 (1)",
            "b, woken: run 10 (1), wait, run 18 (1)",
            "a, at 0: run 10 (0), wake b, run 40 (1), sleep 100, run 5 (1), wake b, run 30 (0)",
        ]
    );
    assert_eq!((replay.relations, replay.timed, replay.span_ns), (1, 1, 210 * US));
    // After wake-ups 5 (b), 40 (c), 5 (a), 2 (b); after the preemption 20 (a).
    assert_eq!(replay.waits.count(), 5);
    assert_eq!(replay.waits.range_ns(), Some((2 * US, 40 * US + 31)));
}

#[test]
fn a_task_that_another_one_makes_begins_there() {
    let made = What::Wakeup { task: id(2), cpu: 0, by: Some(1), is_new: true };
    let events = [
        switch(0, 0, 0, Left::UserBoundary, 1),
        event(10, 0, made.clone()),
        switch(20, 0, 1, Left::Sleeping, 2),
        switch(30, 0, 2, Left::Exited, 0),
        // The thread id comes again.
        waking(40, 0, 1, None),
        switch(40, 0, 0, Left::UserBoundary, 1),
        event(45, 0, made),
        switch(50, 0, 1, Left::Exited, 2),
        switch(70, 0, 2, Left::Exited, 0),
    ];
    assert_eq!(
        shown(&replay(&events)),
        [
            "a, at 0: soon for b 2, run 10 (1), wake b, run 10 (0), sleep 20, soon for b 2, run 5 (1), wake b, run 5 (0)",
            "b, new, woken: run 10 (1)",
            "b, new, woken: run 20 (1)",
        ]
    );
}

#[test]
fn long_calls_are_in_the_kernel_and_short_ones_are_part_of_what_is_around_them() {
    let (enter, leave) =
        (|at| event(at, 0, What::SystemCall { tid: 1, number: 0 }), |at| event(at, 0, What::SystemCallEnd { tid: 1 }));
    let events = [
        switch(0, 0, 0, Left::UserBoundary, 1),
        enter(10),
        leave(11),
        enter(20),
        leave(50),
        enter(60),
        switch(61, 0, 1, Left::Sleeping, 0),
        waking(80, 0, 1, None),
        switch(80, 0, 0, Left::UserBoundary, 1),
        leave(81),
        switch(90, 0, 1, Left::Exited, 0),
    ];
    let replay = replay(&events);
    assert!(replay.has_calls);
    assert_eq!(
        shown(&replay),
        ["a, at 0: run 20 (1), run 30 in the kernel (0), return, run 10 (0), run 1 in the kernel (0), sleep 19, \
          run 1 in the kernel (1), return, run 9 (0)"]
    );
}

#[test]
fn a_thread_of_the_kernel_is_known_by_its_name_and_keeps_its_cpu() {
    let worker = TaskId { tid: 9, priority: 120, name: Name::of(b"kworker/3:1-ev") };
    let anywhere = TaskId { tid: 10, priority: 49, name: Name::of(b"kworker/u8:2") };
    let come = |at, from: TaskId, to: TaskId| event(at, 0, What::Switch { from, left: Left::Sleeping, to });
    let replay = replay(&[come(0, id(0), worker), come(10, worker, anywhere), come(30, anywhere, id(1))]);
    let of = |place: usize| {
        let task = &replay.tasks[place];
        (task.is_kernel, task.is_bound.then_some(task.cpu), task.priority)
    };
    assert_eq!([of(0), of(1), of(2)], [(true, Some(3), 120), (true, None, 49), (false, None, 120)]);
    assert_eq!(replay.tasks[0].steps, [ReplayStep::Run { ns: 10 * US, switches: 1, in_kernel: true }]);
}

#[test]
fn without_wake_ups_sleeps_last_until_the_task_runs_again_and_that_is_said() {
    let replay = replay(&[
        switch(0, 0, 0, Left::UserBoundary, 1),
        switch(10, 0, 1, Left::Sleeping, 2),
        switch(40, 0, 2, Left::UserBoundary, 1),
        switch(50, 0, 1, Left::Sleeping, 2),
    ]);
    // When b could run first is not known.
    assert_eq!(shown(&replay), ["a, at 0: run 10 (1), sleep 30, run 10 (1)", "b, at 10: run 30 (2)"]);
    assert_eq!(replay.waits.count(), 1, "b waits after its preemption");
    assert!(replay.notes.iter().any(|note| note.contains("it has no wake-ups")), "{:?}", replay.notes);
}

#[test]
fn phases_are_cut_where_events_were_lost_and_no_relation_leads_into_the_gap() {
    let replay = replay(&[
        waking(0, 0, 1, None),
        switch(0, 0, 0, Left::UserBoundary, 1),
        switch(10, 0, 1, Left::Sleeping, 2),
        waking(20, 0, 3, Some(2)),
        // Of b nothing is known from 20 on; c is seen again.
        event(30, 0, What::Lost { count: 7 }),
        switch(100, 0, 3, Left::Sleeping, 2),
        waking(110, 0, 1, Some(2)),
        switch(120, 0, 2, Left::Sleeping, 1),
        switch(130, 0, 1, Left::Sleeping, 0),
    ]);
    assert_eq!(
        shown(&replay),
        [
            "a, at 0: run 10 (1), wait, run 10 (1)",
            // It was first seen when it came to its CPU, and events are missing: it does not begin before.
            "b, at 10: soon for c 2, run 10 (1), wake c, sleep 80, soon for a 2, run 10 (1), wake a, run 10 (0)",
            // It came to its CPU at an unknown time after the last event before.
            "c, woken: run 70 (1)",
        ]
    );
    assert!(replay.notes[0].starts_with("7 events were lost, in 1 gaps"), "{:?}", replay.notes);
}

#[test]
fn a_task_that_is_woken_while_it_goes_to_sleep_waits_for_the_waker() {
    let woken = |rest: &[Event]| {
        let begin =
            [switch(0, 0, 0, Left::UserBoundary, 1), switch(0, 1, 0, Left::UserBoundary, 2), waking(9, 1, 1, Some(2))];
        shown(&replay(&[&begin[..], rest].concat()))
    };
    let slept = woken(&[
        switch(10, 0, 1, Left::Sleeping, 0),
        switch(12, 0, 0, Left::UserBoundary, 1),
        switch(20, 0, 1, Left::Sleeping, 0),
    ]);
    assert_eq!(slept, ["a, at 0: run 9 (1), wait, run 9 (1)", "b, at 0: run 9 (1), wake a, run 11 (0)"]);
    // It was so early that it did not leave its CPU.
    let wakeup = What::Wakeup { task: id(1), cpu: 0, by: Some(2), is_new: false };
    let stayed = woken(&[event(9, 1, wakeup), switch(20, 0, 1, Left::Sleeping, 0)]);
    assert_eq!(stayed, ["a, at 0: run 9 (1), wait, run 11 (0)", "b, at 0: run 9 (1), wake a, run 11 (0)"]);
}

#[test]
fn a_task_on_a_cpu_to_which_no_switch_was_seen_has_run_since_it_was_woken() {
    // The tracer is not shown what the idle task does.
    let replay = replay(&[
        switch(0, 0, 0, Left::UserBoundary, 1),
        switch(0, 1, 2, Left::Sleeping, 0),
        waking(40, 0, 2, Some(1)),
        switch(45, 0, 1, Left::Sleeping, 0),
        waking(50, 1, 1, Some(2)),
        switch(60, 1, 2, Left::Sleeping, 0),
        switch(70, 0, 1, Left::Sleeping, 0),
    ]);
    assert_eq!(
        shown(&replay),
        ["a, at 0: run 40 (1), wake b, run 5 (0), wait, run 20 (1)", "b, at 0: wait, run 10 (1), wake a, run 10 (0)"]
    );
    assert_eq!((replay.relations, replay.timed), (2, 0));
    assert!(replay.notes[0].starts_with("2 switches are missing"), "{:?}", replay.notes);
}

#[test]
fn of_two_tasks_alone_one_that_found_its_answer_done_goes_on_when_the_other_one_sleeps() {
    let round = |at: u64, a_sleeps: bool| {
        let mut events = vec![waking(at, 0, 2, Some(1))];
        if a_sleeps {
            events.extend([
                switch(at + 1, 0, 1, Left::Sleeping, 2),
                waking(at + 5, 0, 1, Some(2)),
                switch(at + 6, 0, 2, Left::Sleeping, 1),
            ]);
        } else {
            // b is faster than a, which is preempted.
            events.extend([switch(at + 1, 0, 1, Left::UserBoundary, 2), switch(at + 6, 0, 2, Left::Sleeping, 1)]);
        }
        events
    };
    let begin = vec![switch(0, 0, 0, Left::UserBoundary, 1)];
    let events = [begin, round(10, false), round(20, true), round(30, true)].concat();
    let replay = replay(&events);
    assert_eq!(
        shown(&replay)[0],
        "a, at 0: run 10 (1), wake b, run 5 (1), wake b once it sleeps, run 1 (0), wait, run 4 (1), wake b, run 1 (0), wait"
    );
    // A third task that a wakes up as often makes b one of several: what a does for b can wait until b sleeps. c wakes nobody: what a
    // does for it may come one wake-up before that.
    let third = (0..4).flat_map(|n| [waking(40 + 4 * n, 0, 3, Some(1)), switch(41 + 4 * n, 1, 3, Left::Sleeping, 0)]);
    assert_eq!(
        shown(&self::replay(&events.into_iter().chain(third).collect::<Vec<_>>()))[0],
        "a, at 0: for b 2, run 10 (1), wake b, for b 2, run 5 (1), wake b, run 1 (0), wait, for b 2, run 4 (1), wake b, \
         run 1 (0), wait, soon for c 2, run 4 (1), wake c, soon for c 2, run 4 (0), wake c, soon for c 2, run 4 (0), wake c, \
         soon for c 2, run 4 (0), wake c, run 1 (0)"
    );
}

#[test]
fn a_task_that_is_woken_after_a_gap_waits_for_the_waker() {
    let replay = replay(&[
        switch(0, 0, 0, Left::UserBoundary, 1),
        switch(0, 1, 0, Left::UserBoundary, 2),
        // What a did then was not seen.
        switch(10, 0, 3, Left::Sleeping, 0),
        waking(30, 1, 1, Some(2)),
        switch(40, 0, 0, Left::UserBoundary, 1),
        switch(50, 0, 1, Left::Sleeping, 0),
    ]);
    assert_eq!(shown(&replay)[0], "a, at 0: wait, run 10 (2)");
    assert_eq!(shown(&replay)[1], "b, at 0: run 30 (1), wake a, run 20 (0)");
}

#[test]
fn a_trace_without_tasks_or_switches_is_an_error() {
    let refused = |events: &[Event]| {
        let mut reduction = Reduction::default();
        events.iter().for_each(|event| reduction.add(event));
        let problem = reduction.finish("t.dat").expect_err("nothing to replay");
        format!("{}: {}", problem.what, problem.why)
    };
    assert_eq!(refused(&[waking(0, 0, 1, None)]), "t.dat: there is no switch in it");
    assert_eq!(refused(&[]), "t.dat: there is no switch in it");
    assert_eq!(refused(&[switch(0, 0, 0, Left::UserBoundary, 0)]), "t.dat: no task but the idle one is in it");
}

#[test]
fn a_trace_that_is_longer_than_the_room_is_cut_and_its_relations_stay_whole() {
    let mut reduction = Reduction::with_room(40);
    for round in 0..100 {
        let at = round * 10;
        reduction.add(&waking(at, 0, 2, Some(1)));
        reduction.add(&switch(at + 2, 0, 1, Left::Sleeping, 2));
        reduction.add(&waking(at + 4, 0, 1, Some(2)));
        reduction.add(&switch(at + 6, 0, 2, Left::Sleeping, 1));
    }
    let replay = reduction.finish("trace").expect("there are switches");
    let count = |is: fn(&ReplayStep) -> bool| replay.tasks.iter().flat_map(|t| &t.steps).filter(|s| is(s)).count();
    assert_eq!(count(|step| matches!(step, ReplayStep::Wait)) as u64, replay.relations);
    // The first wake-up of each begins it.
    assert!(count(|step| matches!(step, ReplayStep::Wake(_) | ReplayStep::WakeAsleep(_))) as u64 >= replay.relations);
    assert!(replay.tasks.iter().map(|t| t.steps.len()).sum::<usize>() < 50);
    assert!(replay.notes[0].contains("are replayed: there is room for 40 steps"), "{:?}", replay.notes);
}
