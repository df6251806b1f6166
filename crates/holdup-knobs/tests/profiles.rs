//! Profiles on a host in memory: applied, laid on top of each other, verified, restored; with a failure and a crash at
//! every operation.

use crate::support;
use holdup_host::fake::Fault;
use holdup_knobs::journal::{self, ProfileJournal, Restored};
use holdup_model::plan::Level;
use holdup_model::profile::{ProfileLine, ProfileState, Setting};
use holdup_model::{Problem, ProblemKind, Profile, Value};
use proptest::prelude::*;
use support::{AUTOGROUP, BOOT_ID, JOURNAL, MIGRATION_COST, World, factors, has_parts, is_paired};

const PROFILE: &str = "/var/lib/holdup/profile.json";

fn profile(name: &str, settings: &[(&str, Value)]) -> Profile {
    let setting = |(knob, value): &(&str, Value)| Setting {
        knob: (*knob).to_owned(),
        level: Level::plain(value.clone()),
        optional: false,
    };
    Profile { name: name.to_owned(), summary: String::new(), settings: settings.iter().map(setting).collect() }
}

fn text(t: &str) -> Value {
    Value::Text(t.to_owned())
}

/// Every knob that can be in a profile once, and then every knob with another value.
fn two() -> (Profile, Profile) {
    two_of(&|_| true)
}

/// The same with one knob for each way to change something: faults are swept over every operation.
fn two_to_sweep() -> (Profile, Profile) {
    two_of(&|name| ["autogroup", "affinity", "irq-affinity"].contains(&name) || is_paired(name))
}

fn two_of(takes: &dyn Fn(&str) -> bool) -> (Profile, Profile) {
    let of = |index: usize| -> Vec<(&'static str, Value)> {
        applicable().filter(|(name, _)| takes(name)).map(|(name, levels)| (name, levels[index].clone())).collect()
    };
    (profile("a", &of(0)), profile("b", &of(1)))
}

/// The wake-up latency ends with the process, so no profile can hold it.
fn applicable() -> impl Iterator<Item = (&'static str, [Value; 2])> {
    factors().iter().filter(|(name, _)| *name != "cpu-dma-latency").cloned()
}

fn open(world: &World) -> Result<ProfileJournal, Problem> {
    ProfileJournal::open(world.host.clone(), PROFILE, 1_700_000_000_000_000_000)
}

fn apply(world: &World, profile: &Profile) -> Result<Vec<ProfileLine>, Problem> {
    open(world)?.apply(&world.context(), profile)
}

fn restore(world: &World) -> Result<Restored, Problem> {
    journal::restore_profiles(&world.host, PROFILE, &|_| Some(Box::new(world.server.clone())))
}

fn state(world: &World) -> Vec<(&'static str, String)> {
    factors().iter().map(|(name, _)| (*name, world.state(name))).collect()
}

fn states(lines: &[ProfileLine]) -> Vec<ProfileState> {
    lines.iter().map(|line| line.state).collect()
}

fn what_is_applied_stays_until_it_is_restored() {
    let world = World::new();
    let before = state(&world);
    let (a, b) = two();
    let lines = apply(&world, &a).unwrap();
    assert!(states(&lines).iter().all(|s| *s == ProfileState::Applied), "{lines:#?}");
    let of_a = state(&world);
    let verified = journal::verify(&world.context(), &a.settings).unwrap();
    assert!(states(&verified).iter().all(|s| *s == ProfileState::InForce), "{verified:#?}");
    // The same again changes nothing, and forgets nothing.
    let lines = apply(&world, &a).unwrap();
    assert!(states(&lines).iter().all(|s| *s == ProfileState::InForce), "{lines:#?}");
    assert_eq!((state(&world), open(&world).unwrap().applied().len()), (of_a.clone(), 1));
    // Another one on top keeps the values from before the first.
    apply(&world, &b).unwrap();
    assert_ne!(state(&world), of_a);
    let names: Vec<String> = open(&world).unwrap().applied().iter().map(|a| a.profile.name.clone()).collect();
    assert_eq!(names, ["a", "b"]);
    let restored = restore(&world).unwrap();
    assert_eq!((restored.left, state(&world)), (Vec::new(), before));
    assert_eq!(world.fs.get(PROFILE), None);
    assert_eq!(restore(&world).unwrap(), Restored::default(), "a second time there is nothing to do");
}

fn a_run_takes_the_values_of_a_profile_as_the_state_of_the_host() {
    let world = World::new();
    apply(&world, &profile("a", &[("migration-cost", Value::Integer(5_000_000))])).unwrap();
    let mut run = world.open().unwrap();
    run.apply(&world.context(), "migration-cost", &Value::Integer(1_000_000)).unwrap();
    run.apply(&world.context(), "autogroup", &Value::Bool(false)).unwrap();
    assert_eq!(run.restore_all(&world.context()).left, []);
    assert_eq!((world.state("migration-cost").as_str(), world.state("autogroup").as_str()), ("5000000", "1"));
    assert_eq!(restore(&world).unwrap().left, []);
    assert_eq!(world.state("migration-cost"), "500000");
    // Killed in between: first the run's journal, then the profile's.
    apply(&world, &profile("a", &[("migration-cost", Value::Integer(5_000_000))])).unwrap();
    world.open().unwrap().apply(&world.context(), "migration-cost", &Value::Integer(1_000_000)).unwrap();
    assert_eq!(world.recover().unwrap().left, []);
    assert_eq!(restore(&world).unwrap().left, []);
    assert_eq!((world.state("migration-cost").as_str(), world.fs.get(JOURNAL)), ("500000", None));
}

fn after_a_boot_the_kernel_has_forgotten_and_the_server_has_not() {
    let world = World::new();
    let wanted = [("autogroup", Value::Bool(false)), ("postgres.work_mem", text("64MB"))];
    apply(&world, &profile("a", &wanted)).unwrap();
    world.fs.put(BOOT_ID, "boot-2\n");
    world.fs.put(AUTOGROUP, "1\n");
    let lines = journal::verify(&world.context(), &profile("a", &wanted).settings).unwrap();
    assert_eq!(states(&lines), [ProfileState::Differs, ProfileState::InForce]);
    // Applied again in the new boot, it is undone in this one.
    apply(&world, &profile("a", &wanted)).unwrap();
    assert_eq!(world.state("autogroup"), "0");
    let restored = restore(&world).unwrap();
    assert_eq!((restored.left.len(), world.state("autogroup").as_str()), (0, "1"));
    assert_eq!(world.server.altered("work_mem"), None);
    // Without that nothing of the old boot is left to undo, also where the new boot came up with the same value.
    apply(&world, &profile("a", &wanted[..1])).unwrap();
    world.fs.put(BOOT_ID, "boot-3\n");
    let restored = restore(&world).unwrap();
    assert_eq!(restored.notes, ["autogroup went back by itself: the host was booted since"]);
    assert_eq!((world.state("autogroup").as_str(), world.fs.get(PROFILE)), ("0", None));
}

fn what_someone_else_changed_is_left_alone_and_reported() {
    let (a, b) = two();
    for (factor, _) in applicable() {
        let world = World::new();
        apply(&world, &a).unwrap();
        let found = world.foreign(factor);
        // What is on or off has no third value that could be someone else's.
        if found.is_empty() {
            continue;
        }
        let theirs = state(&world);
        // What someone else gave to one of several tasks, CPUs or interrupts is still holdup's for the others.
        if !has_parts(factor) {
            let refused = apply(&world, &b).unwrap_err();
            assert!(refused.why.contains("someone else changed it") && refused.kind == ProblemKind::Host, "{refused}");
            assert!(refused.hint.is_some_and(|hint| hint.contains("holdup restore")));
            assert_eq!(state(&world), theirs, "{factor}: nothing was touched");
        }
        let restored = restore(&world).unwrap();
        assert_eq!(restored.check().unwrap_err().kind, ProblemKind::NotRestored);
        let left: Vec<&str> = restored.left.iter().map(|l| l.factor.as_str()).collect();
        assert_eq!(left, [factor]);
        assert!(restored.left[0].to_string().contains(found), "{}", restored.left[0]);
        assert_eq!(restored.restored.len(), applicable().count() - 1);
        let forgotten = journal::forget_profiles(&world.host, PROFILE).unwrap();
        assert!(forgotten.len() == 1 && forgotten[0].contains(factor), "{forgotten:?}");
        assert_eq!(world.fs.get(PROFILE), None);
    }
}

fn what_was_put_back_by_hand_counts_as_the_old_value() {
    let world = World::new();
    let a = profile("a", &[("migration-cost", Value::Integer(5_000_000))]);
    apply(&world, &a).unwrap();
    world.fs.put(MIGRATION_COST, "500000\n");
    apply(&world, &a).unwrap();
    assert_eq!(world.state("migration-cost"), "5000000");
    restore(&world).unwrap();
    assert_eq!(world.state("migration-cost"), "500000");
}

fn a_journal_that_cannot_be_written_does_not_keep_a_profile_in_force() {
    let world = World::new();
    let before = state(&world);
    apply(&world, &two().0).unwrap();
    for operation in ["replace", "remove"] {
        world.fs.refuse(operation, PROFILE, libc::ENOSPC);
    }
    let restored = restore(&world).unwrap();
    assert_eq!((state(&world), restored.left), (before, vec![]));
    assert!(restored.notes.last().unwrap().starts_with("the undo journal still lists"), "{:?}", restored.notes);
}

fn everything_is_asked_before_anything_is_touched() {
    let world = World::new();
    let before = state(&world);
    world.fs.refuse("write", MIGRATION_COST, libc::EACCES);
    let (mut a, _) = two();
    a.settings.push(Setting { knob: "postgres.no_such".to_owned(), level: Level::plain("1"), optional: false });
    world.fs.arm(None);
    let refused = apply(&world, &a).unwrap_err();
    assert_eq!(refused.kind, ProblemKind::Host);
    assert!(refused.why.contains("migration-cost = 5000000") && refused.why.contains("no_such"), "{refused}");
    assert!(refused.hint.as_ref().is_some_and(|h| h.contains("root") && h.contains("optional = true")), "{refused}");
    assert_eq!((state(&world), world.fs.get(PROFILE)), (before, None));
    let wrote = world.fs.log().into_iter().any(|o| matches!(o.name.as_str(), "write" | "replace" | "alter system"));
    assert!(!wrote, "{:?}", world.fs.log());
    // What is optional is left out instead.
    a.settings.iter_mut().for_each(|setting| setting.optional = true);
    let lines = apply(&world, &a).unwrap();
    let left_out: Vec<&str> =
        lines.iter().filter(|l| l.state == ProfileState::LeftOut).map(|l| l.knob.as_str()).collect();
    assert_eq!(left_out, ["migration-cost", "postgres.no_such"]);
    // A value that is none of its knob is an error of the profile, not of the host.
    let wrong = apply(&world, &profile("w", &[("sched-policy", text("fifo"))])).unwrap_err();
    assert_eq!(wrong.kind, ProblemKind::Usage);
    // Where there is no server and no process, what is missing is said.
    let alone = holdup_knobs::KnobContext { host: &world.host, postgres: None, pids: Vec::new() };
    let some = profile("w", &[("sched-policy", text("slice:3ms")), ("postgres.work_mem", text("64MB"))]);
    let lines = journal::survey(&alone, &some).unwrap();
    let remedies: Vec<String> = lines.into_iter().filter_map(|l| l.remedy).collect();
    assert!(remedies[0].contains("--pid") && remedies[1].contains("--pg"), "{remedies:?}");
}

/// The host after a fault, as it was before, and what applying came to.
type Swept = (World, Vec<(&'static str, String)>, Result<Vec<ProfileLine>, Problem>);

/// Applies `b` over `a` with a fault, gives what it came to. `None` when the fault came after the end.
fn over(first: Option<&Profile>, second: &Profile, fault: Fault, at: u64) -> Option<Swept> {
    let world = World::new();
    if let Some(first) = first {
        apply(&world, first).unwrap();
    }
    let before = state(&world);
    world.fs.arm(Some(fault));
    let result = apply(&world, second);
    let reached = world.fs.log().len() as u64 >= at;
    world.fs.arm(None);
    reached.then_some((world, before, result))
}

fn one_failure_anywhere_is_undone_or_reported() {
    let (a, b) = two_to_sweep();
    let at_first = state(&World::new());
    let (mut failures, mut refused, mut reported) = (0, 0, 0);
    for first in [None, Some(&a)] {
        for kind in [Fault::Once as fn(u64) -> Fault, Fault::OnceAfter] {
            for at in 1.. {
                let Some((world, before, result)) = over(first, &b, kind(at), at) else { break };
                failures += 1;
                let what = format!("over {:?}, operation {at} of {:?}", first.map(|f| &f.name), kind(at));
                match result {
                    Ok(_) => {
                        let lines = journal::verify(&world.context(), &b.settings).unwrap();
                        assert!(states(&lines).iter().all(|s| *s == ProfileState::InForce), "{what}: {lines:#?}");
                    }
                    Err(problem) if problem.kind == ProblemKind::NotRestored => {
                        reported += 1;
                        let is_reported = problem.why.contains("the host is not as it was");
                        assert!(is_reported || state(&world) == before, "{what}: {problem}");
                    }
                    Err(problem) => {
                        refused += 1;
                        assert_eq!(state(&world), before, "{what}: {problem}");
                    }
                }
                let restored = restore(&world).unwrap_or_else(|p| panic!("{what}: {p}"));
                assert_eq!((restored.left, state(&world)), (Vec::new(), at_first.clone()), "{what}");
                assert_eq!(world.fs.get(PROFILE), None, "{what}");
            }
        }
    }
    assert!(failures > 150 && refused > 100, "{failures} failures, {refused} refused, {reported} reported");
}

fn a_crash_anywhere_is_made_good_by_restore() {
    let (a, b) = two_to_sweep();
    let at_first = state(&World::new());
    let mut crashes = 0;
    for first in [None, Some(&a)] {
        for at in 1.. {
            let Some((world, _, _)) = over(first, &b, Fault::From(at), at) else { break };
            crashes += 1;
            let what = format!("over {:?}, crash at operation {at}", first.map(|f| &f.name));
            let on_disk = world.fs.get(PROFILE).unwrap_or_default();
            for ((factor, now), (_, was)) in state(&world).iter().zip(&at_first) {
                let is_listed = on_disk.contains(&format!("\"factor\": \"{factor}\""));
                assert!(is_listed || now == was, "{what}: {factor} was changed without a journal");
            }
            // Half of the profile may be in force: applying it again brings it there wholly, restoring undoes all.
            if at % 2 == 0 {
                apply(&world, &b).unwrap_or_else(|p| panic!("{what}: {p}"));
                let lines = journal::verify(&world.context(), &b.settings).unwrap();
                assert!(states(&lines).iter().all(|s| *s == ProfileState::InForce), "{what}: {lines:#?}");
            }
            let restored = restore(&world).unwrap_or_else(|p| panic!("{what}: {p}"));
            assert_eq!((restored.left, state(&world)), (Vec::new(), at_first.clone()), "{what}");
        }
    }
    assert!(crashes > 80, "{crashes} crashes");
}

fn a_crash_or_a_failure_while_restoring_is_made_good_by_the_next_try() {
    let (a, _) = two_to_sweep();
    let at_first = state(&World::new());
    let mut faults = 0;
    for kind in [Fault::Once as fn(u64) -> Fault, Fault::OnceAfter, Fault::From] {
        for at in 1.. {
            let world = World::new();
            apply(&world, &a).unwrap();
            world.fs.arm(Some(kind(at)));
            let _half_way = restore(&world);
            if (world.fs.log().len() as u64) < at {
                break;
            }
            world.fs.arm(None);
            faults += 1;
            let restored = restore(&world).unwrap_or_else(|p| panic!("{:?}: {p}", kind(at)));
            assert_eq!((restored.left, state(&world)), (Vec::new(), at_first.clone()), "{:?}", kind(at));
            assert_eq!(world.fs.get(PROFILE), None);
        }
    }
    assert!(faults > 60, "{faults} faults");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any profiles in any order, some of them failing at some operation: restoring brings the first state back.
    fn any_history_goes_back(
        history in prop::collection::vec((prop::collection::vec((0_usize..6, 0_usize..2), 1..5), 0_u64..60), 1..6)
    ) {
        let world = World::new();
        let before = state(&world);
        for (picks, fault) in &history {
            let mut settings: Vec<(&str, Value)> = Vec::new();
            for (factor, level) in picks {
                let (name, levels) = factors()[*factor].clone();
                if !settings.iter().any(|(known, _)| *known == name) {
                    settings.push((name, levels[*level].clone()));
                }
            }
            let was = state(&world);
            world.fs.arm((*fault > 0).then_some(Fault::Once(*fault)));
            let result = apply(&world, &profile("p", &settings));
            world.fs.arm(None);
            if let Err(problem) = result && problem.kind != ProblemKind::NotRestored {
                prop_assert_eq!(state(&world), was, "{}", problem);
            }
        }
        let restored = restore(&world).map_err(|p| TestCaseError::fail(p.to_string()))?;
        prop_assert_eq!(restored.left, Vec::new());
        prop_assert_eq!(state(&world), before);
        prop_assert_eq!(world.fs.get(PROFILE), None);
    }
}

holdup_testkit::tests!(
    what_is_applied_stays_until_it_is_restored,
    a_run_takes_the_values_of_a_profile_as_the_state_of_the_host,
    after_a_boot_the_kernel_has_forgotten_and_the_server_has_not,
    what_someone_else_changed_is_left_alone_and_reported,
    what_was_put_back_by_hand_counts_as_the_old_value,
    a_journal_that_cannot_be_written_does_not_keep_a_profile_in_force,
    everything_is_asked_before_anything_is_touched,
    one_failure_anywhere_is_undone_or_reported,
    a_crash_anywhere_is_made_good_by_restore,
    a_crash_or_a_failure_while_restoring_is_made_good_by_the_next_try,
    any_history_goes_back
);
