//! Every operation fails once, or is the last one before a crash: the old state comes back, or the difference is reported.

use crate::support;
use holdup_host::fake::Fault;
use holdup_knobs::journal::{Left, Restored};
use holdup_model::Value;
use support::{JOURNAL, World, factors, is_swept_pair};

/// Of a pair of factors every third operation fails, of a factor alone every one.
const PAIR_STRIDE: usize = 3;

fn strides(steps: &Steps) -> impl Iterator<Item = u64> + use<> {
    let is_alone = steps.iter().all(|(name, _)| *name == steps[0].0);
    (1_u64..).step_by(if is_alone { 1 } else { PAIR_STRIDE })
}

type Steps = Vec<(&'static str, Value)>;

/// What is applied: each factor alone over both levels, and the pairs that may disturb each other, in each order.
fn sequences() -> Vec<Steps> {
    let factors = factors();
    let mut all: Vec<Steps> = Vec::new();
    for (name, [first, second]) in factors {
        all.push(vec![(name, first.clone()), (name, second.clone()), (name, first.clone())]);
        for (other, [level, _]) in factors.iter().filter(|(other, _)| is_swept_pair(name, other)) {
            all.push(vec![(name, first.clone()), (other, level.clone()), (name, second.clone())]);
        }
    }
    all
}

/// Opens, applies, puts back. `None` when the journal did not open.
fn run(world: &World, steps: &Steps, initial: &[(String, String)]) -> Option<Restored> {
    let mut journal = world.open().ok()?;
    for (factor, value) in steps {
        let before = world.state(factor);
        if let Err(problem) = journal.apply(&world.context(), factor, value) {
            let now = world.state(factor);
            let at_first = &initial.iter().find(|(name, _)| name == factor).unwrap().1;
            let is_reported = problem.why.contains("the old value is not back");
            assert!(
                is_reported || now == before || now == *at_first,
                "{factor}: {before} became {now} without a report: {problem}"
            );
        }
    }
    Some(journal.restore_all(&world.context()))
}

fn initial(world: &World) -> Vec<(String, String)> {
    factors().iter().map(|(name, _)| ((*name).to_owned(), world.state(name))).collect()
}

fn now(world: &World) -> Vec<(String, String)> {
    initial(world)
}

fn without_a_fault_everything_is_applied_and_put_back() {
    for steps in sequences() {
        let world = World::new();
        let before = initial(&world);
        let mut journal = world.open().unwrap();
        for (factor, value) in &steps {
            journal.apply(&world.context(), factor, value).unwrap_or_else(|p| panic!("{factor} {value}: {p}"));
        }
        assert_ne!(now(&world), before, "{steps:?} changed nothing");
        let restored = journal.restore_all(&world.context());
        assert_eq!((restored.left, now(&world)), (Vec::new(), before), "{steps:?}");
        assert_eq!(world.fs.get(JOURNAL), None);
    }
}

fn one_failure_anywhere_is_undone_or_reported() {
    let mut failures = 0;
    for steps in sequences() {
        // A failure that had its effect all the same differs per knob, not per pair of knobs.
        let is_alone = steps.iter().all(|(name, _)| *name == steps[0].0);
        let kinds: &[fn(u64) -> Fault] = if is_alone { &[Fault::Once, Fault::OnceAfter] } else { &[Fault::Once] };
        for fault in kinds {
            for at in strides(&steps) {
                let world = World::new();
                let before = initial(&world);
                world.fs.arm(Some(fault(at)));
                let restored = run(&world, &steps, &before);
                let log = world.fs.log();
                if (log.len() as u64) < at {
                    break;
                }
                failures += 1;
                let what =
                    format!("{steps:?}, operation {at} of {fault:?}: {:?}", log[at as usize - 1], fault = fault(at));
                let reported = restored.map(|r| r.left).unwrap_or_default();
                undone_or_reported(&world, &before, &reported, &what);
            }
        }
    }
    assert!(failures > 1000, "the sweep was {failures} operations long");
}

/// What differs is reported, and the next start puts it back.
fn undone_or_reported(world: &World, before: &[(String, String)], reported: &[Left], what: &str) {
    for (factor, was) in before {
        let is_reported = reported.iter().any(|left| left.factor == *factor);
        let now = world.state(factor);
        assert!(is_reported || now == *was, "{what}: {factor} is {now} and was {was}");
    }
    world.fs.arm(None);
    let recovered = world.recover().unwrap_or_else(|p| panic!("{what}: {p}"));
    assert_eq!(recovered.left, [], "{what}");
    assert_eq!(now(world), before, "{what}");
    assert_eq!(world.fs.get(JOURNAL), None, "{what}");
}

fn a_second_failure_while_the_first_is_made_good_is_undone_or_reported() {
    // A rollback takes at most this number of operations.
    const APART: u64 = 16;
    let mut failures = 0;
    for steps in sequences().into_iter().filter(|steps| steps.iter().all(|(name, _)| *name == steps[0].0)) {
        for first in 1.. {
            let mut is_over = false;
            for second in first + 1..=first + APART {
                let world = World::new();
                let before = initial(&world);
                world.fs.arm(Some(Fault::Twice(first, second)));
                let restored = run(&world, &steps, &before);
                let length = world.fs.log().len() as u64;
                if length < second {
                    is_over = length < first;
                    break;
                }
                failures += 1;
                let what =
                    format!("{steps:?}, operations {first} and {second}: {:?}", world.fs.log()[second as usize - 1]);
                let reported = restored.map(|r| r.left).unwrap_or_default();
                undone_or_reported(&world, &before, &reported, &what);
            }
            if is_over {
                break;
            }
        }
    }
    assert!(failures > 5_000, "the sweep was {failures} pairs long");
}

fn a_crash_anywhere_is_made_good_by_the_next_start() {
    let mut crashes = 0;
    for steps in sequences() {
        for at in strides(&steps) {
            let world = World::new();
            let before = initial(&world);
            world.fs.arm(Some(Fault::From(at)));
            // All that follows the crash fails, so what the process believes then does not matter.
            let _dead = world.open().map(|mut journal| {
                for (factor, value) in &steps {
                    let _dead = journal.apply(&world.context(), factor, value);
                }
                journal.restore_all(&world.context())
            });
            if (world.fs.log().len() as u64) < at {
                break;
            }
            crashes += 1;
            let what = format!("{steps:?}, crash at operation {at}");
            let on_disk = world.fs.get(JOURNAL).unwrap_or_default();
            for (factor, was) in &before {
                let is_listed = on_disk.contains(&format!("\"factor\": \"{factor}\""));
                assert!(is_listed || world.state(factor) == *was, "{what}: {factor} was changed without a journal");
            }
            assert!(!on_disk.contains("heim"), "{what}: a password is on disk");
            world.fs.arm(None);
            let recovered = world.recover().unwrap_or_else(|p| panic!("{what}: {p}"));
            assert_eq!(recovered.left, [], "{what}");
            assert_eq!(now(&world), before, "{what}");
            assert_eq!(world.fs.get(JOURNAL), None, "{what}");
        }
    }
    assert!(crashes > 500, "the sweep was {crashes} operations long");
}

fn a_crash_while_recovering_is_made_good_by_the_one_after() {
    for steps in sequences() {
        for at in strides(&steps) {
            let world = World::new();
            let before = initial(&world);
            let mut journal = world.open().unwrap();
            for (factor, value) in &steps {
                journal.apply(&world.context(), factor, value).unwrap();
            }
            drop(journal);
            world.fs.arm(Some(Fault::From(at)));
            let _dead = world.recover();
            if (world.fs.log().len() as u64) < at {
                break;
            }
            world.fs.arm(None);
            let recovered = world.recover().unwrap();
            assert_eq!((recovered.left, now(&world)), (Vec::new(), before), "{steps:?}, crash at operation {at}");
            assert_eq!(world.fs.get(JOURNAL), None);
        }
    }
}

holdup_testkit::tests!(
    without_a_fault_everything_is_applied_and_put_back,
    one_failure_anywhere_is_undone_or_reported,
    a_second_failure_while_the_first_is_made_good_is_undone_or_reported,
    a_crash_anywhere_is_made_good_by_the_next_start,
    a_crash_while_recovering_is_made_good_by_the_one_after
);
