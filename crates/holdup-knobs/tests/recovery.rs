//! What a new process makes of the journal of one that was killed.

use crate::support;
use holdup_host::Scheduling;
use holdup_knobs::KnobContext;
use holdup_knobs::journal::{self, Applied};
use holdup_knobs::sample::Surface;
use holdup_model::{ProblemKind, Value};
use support::{AUTOGROUP, BOOT_ID, FEATURES, HUGE_PAGES, JOURNAL, MIGRATION_COST, PREEMPT, World, level, samples};

fn text(t: &str) -> Value {
    Value::Text(t.to_owned())
}

/// A world in which a run was killed after it had set these.
fn killed(factors: &[(&str, Value)]) -> World {
    let world = World::new();
    let mut journal = world.open().unwrap();
    for (factor, value) in factors {
        journal.apply(&world.context(), factor, value).unwrap();
    }
    world
}

fn what_a_running_process_changed_is_not_touched() {
    let world = World::new();
    let me = std::process::id();
    world.fs.put_process(me, 1, 555, Scheduling::other(0));
    let mut journal = world.open().unwrap();
    journal.apply(&world.context(), "autogroup", &Value::Bool(false)).unwrap();
    drop(journal);
    let recovered = world.recover().unwrap();
    assert_eq!((recovered.restored.len(), recovered.left.len()), (0, 0));
    assert_eq!(recovered.notes, [format!("autogroup is not touched: pid {me}, which changed it, still runs")]);
    assert_eq!(world.state("autogroup"), "0");
    assert_eq!(journal::forget(&world.host, JOURNAL).unwrap(), [""; 0], "nor forgotten");
    // The same pid, but another process: the owner is dead.
    world.fs.put_process(me, 1, 556, Scheduling::other(0));
    let recovered = world.recover().unwrap();
    assert_eq!(recovered.notes, ["autogroup is on again"]);
    assert_eq!((world.state("autogroup").as_str(), world.fs.get(JOURNAL)), ("1", None));
}

/// The kernel fills in a task's slice from the host's default when the task is put back.
fn the_default_slice_is_back_before_any_task_is() {
    let world = killed(&[("base-slice", Value::Integer(4_000_000)), ("sched-policy", text("idle"))]);
    let recovered = world.recover().unwrap();
    assert_eq!(recovered.left, []);
    let factors: Vec<&str> = recovered.notes.iter().filter_map(|note| note.split(' ').next()).collect();
    assert_eq!(factors, ["base-slice", "sched-policy"]);
}

fn after_a_boot_the_kernel_has_forgotten_and_the_server_has_not() {
    let world = killed(&[
        ("autogroup", Value::Bool(false)),
        ("sched-policy", text("batch")),
        ("postgres.work_mem", text("64MB")),
    ]);
    world.fs.put(BOOT_ID, "boot-2\n");
    world.fs.put(AUTOGROUP, "0\n");
    let recovered = world.recover().unwrap();
    assert_eq!(recovered.left, []);
    assert_eq!(world.state("autogroup"), "0", "what the new boot set is not holdup's to change");
    assert_eq!(world.server.altered("work_mem"), None);
    assert_eq!(
        recovered.notes,
        [
            "autogroup went back by itself: the host was booted since",
            "sched-policy went back by itself: the host was booted since",
            "postgres.work_mem is 4MB again",
        ]
    );
    assert_eq!(world.fs.get(JOURNAL), None);
}

fn what_someone_else_changed_is_left_alone_and_reported_with_the_command() {
    let check = |factor: &str, value: Value, expect: &str| {
        let world = killed(&[(factor, value)]);
        world.foreign(factor);
        let theirs = world.state(factor);
        let recovered = world.recover().unwrap();
        assert_eq!(recovered.left.iter().map(ToString::to_string).collect::<Vec<_>>(), [expect]);
        assert_eq!(recovered.check().unwrap_err().kind.exit_code(), 5);
        let rest = if factor == "sched-policy" { "nice: 9" } else { theirs.as_str() };
        assert!(world.state(factor).contains(rest), "{}", world.state(factor));
        // It is reported again until it is forgotten, or as it was.
        assert_eq!(world.recover().unwrap().left.len(), 1);
        let forgotten = journal::forget(&world.host, JOURNAL).unwrap();
        assert!(forgotten.len() == 1 && forgotten[0].starts_with(factor), "{forgotten:?}");
        assert_eq!(world.recover().unwrap(), journal::Restored::default());
    };
    check(
        "migration-cost",
        Value::Integer(5_000_000),
        "migration-cost is 777 and was 500000: someone else changed it after holdup had set 5000000; to put it back: \
         echo 500000 > /sys/kernel/debug/sched/migration_cost_ns   # up to Linux 5.12: \
         /proc/sys/kernel/sched_migration_cost_ns",
    );
    check(
        "base-slice",
        Value::Integer(3_000_000),
        "base-slice is 777 and was 2100000: someone else changed it after holdup had set 3000000; to put it back: echo \
         2100000 > /sys/kernel/debug/sched/base_slice_ns   # up to Linux 5.12: \
         /proc/sys/kernel/sched_min_granularity_ns; Linux 5.13 to 6.5: /sys/kernel/debug/sched/min_granularity_ns",
    );
    check(
        "preempt",
        text("none"),
        "preempt is voluntary and was lazy: someone else changed it after holdup had set none; to put it back: echo \
         lazy > /sys/kernel/debug/sched/preempt   # Linux 5.12: /sys/kernel/debug/sched_preempt",
    );
    check(
        "huge-pages-reserved",
        Value::Integer(6),
        "huge-pages-reserved is 99 and was 1: someone else changed it after holdup had set 6; to put it back: sysctl \
         vm.nr_hugepages=1",
    );
    check(
        "postgres.work_mem",
        text("64MB"),
        "postgres.work_mem is 77MB and was 4MB: someone else changed it after holdup had set 64MB; to put it back: \
         ALTER SYSTEM RESET \"work_mem\"; SELECT pg_reload_conf();",
    );
    check(
        "postgres.shared_buffers",
        text("1GB"),
        "postgres.shared_buffers is 77MB and was 256MB: someone else changed it after holdup had set 1GB; to put it \
         back: ALTER SYSTEM SET \"shared_buffers\" = '256MB'; SELECT pg_reload_conf();",
    );
    check(
        "sched-policy",
        text("batch"),
        "sched-policy is mixed: batch nice:1 slice:5ms on 1 tasks, nice:9 on 1 tasks, other on 1 tasks and was mixed: \
         batch nice:1 slice:5ms on 1 tasks, nice:3 on 1 tasks, other on 1 tasks: someone else changed it; to put it \
         back: for p in 10; do chrt -a --other -T 0 -p 0 $p; renice -n 0 -p $(ls /proc/$p/task); done; for p in 11; do \
         chrt -a --other -T 0 -p 0 $p; renice -n 3 -p $(ls /proc/$p/task); done   # a slice takes chrt of util-linux \
         2.41 or later",
    );
}

fn a_journal_that_cannot_be_written_does_not_keep_the_values_from_coming_back() {
    for errno in [libc::ENOSPC, libc::EROFS] {
        let world = killed(&[("autogroup", Value::Bool(false)), ("huge-pages-reserved", Value::Integer(6))]);
        for operation in ["replace", "remove"] {
            world.fs.refuse(operation, JOURNAL, errno);
        }
        let recovered = world.recover().unwrap();
        assert_eq!((world.state("autogroup").as_str(), world.state("huge-pages-reserved").as_str()), ("1", "1"));
        assert_eq!((recovered.restored.len(), recovered.left.len()), (2, 0));
        let note = recovered.notes.last().unwrap();
        assert!(note.starts_with("the undo journal still lists what was put back") && note.contains(JOURNAL), "{note}");
    }
}

fn a_slice_of_a_level_that_is_the_default_one_too_is_not_reported_as_left() {
    let world = killed(&[("base-slice", Value::Integer(3_000_000)), ("sched-policy", text("batch slice:3ms"))]);
    // The tasks ran under the new default meanwhile, and show it until they run again.
    for tid in [10, 11, 12] {
        world.fs.put_own_slice(tid, 3_000_000);
    }
    let recovered = world.recover().unwrap();
    assert_eq!((recovered.left, world.state("base-slice").as_str()), (vec![], "2100000"));
}

fn a_line_of_auto_conf_comes_back_exactly() {
    let world = World::new();
    let before = (world.server.altered("shared_buffers"), world.server.altered("work_mem"));
    assert_eq!(before, (Some("256MB".to_owned()), None));
    let mut journal = world.open().unwrap();
    for (name, value) in
        [("shared_buffers", "1GB"), ("work_mem", "64MB"), ("shared_buffers", "256MB"), ("work_mem", "4MB")]
    {
        journal.apply(&world.context(), &format!("postgres.{name}"), &text(value)).unwrap();
    }
    // The value is the old one, but the line was not there.
    assert_eq!(world.server.altered("work_mem").as_deref(), Some("4MB"));
    assert_eq!(journal.restore_all(&world.context()).left, []);
    assert_eq!((world.server.altered("shared_buffers"), world.server.altered("work_mem")), before);
}

fn values_of_the_same_effect_change_nothing() {
    let world = World::new();
    let mut journal = world.open().unwrap();
    let unchanged = |journal: &mut journal::Journal, factor: &str, value: Value| {
        matches!(journal.apply(&world.context(), factor, &value).unwrap(), Applied::Unchanged { .. })
    };
    assert!(unchanged(&mut journal, "postgres.shared_buffers", text("262144kB")));
    assert!(unchanged(&mut journal, "postgres.shared_buffers", text("32768")));
    assert!(unchanged(&mut journal, "autogroup", Value::Bool(true)));
    assert_eq!((world.fs.get(JOURNAL), journal.pending().len()), (None, 0));
}

fn settings_of_a_temporary_cluster_go_with_it() {
    let mut world = World::new();
    world.server.is_temporary = true;
    let mut journal = world.open().unwrap();
    journal.apply(&world.context(), "postgres.work_mem", &text("64MB")).unwrap();
    drop(journal);
    let recovered = journal::recover(&world.host, JOURNAL, &|_| None).unwrap();
    assert_eq!(
        (recovered.left, recovered.notes),
        (vec![], vec!["postgres.work_mem was set in the temporary cluster /var/lib/pg and goes with it".to_owned()])
    );
    assert_eq!(world.fs.get(JOURNAL), None);
}

fn a_server_that_cannot_be_reached_or_is_another_one_is_reported() {
    let world = killed(&[("postgres.work_mem", text("64MB"))]);
    let unreached = journal::recover(&world.host, JOURNAL, &|_| None).unwrap();
    assert!(unreached.left[0].why.contains("`host=/tmp/s user=u` cannot be reached"), "{}", unreached.left[0]);
    let mut other = world.server.clone();
    other.data_directory = "/elsewhere".to_owned();
    let another = journal::recover(&world.host, JOURNAL, &|_| Some(Box::new(other.clone()))).unwrap();
    assert!(another.left[0].why.contains("another one now"), "{}", another.left[0]);
    assert_eq!(world.server.altered("work_mem").as_deref(), Some("64MB"));
    assert_eq!(world.recover().unwrap().left, []);
    assert_eq!(world.server.altered("work_mem"), None);
}

fn a_journal_that_cannot_be_understood_is_neither_lost_nor_followed() {
    for broken in ["", "{", "[]", "\u{0}", r#"{"schema":"holdup.journal/9","entries":[]}"#] {
        let world = World::new();
        world.fs.put(JOURNAL, broken);
        for problem in [world.open().map(|_| ()).unwrap_err(), world.recover().map(|_| ()).unwrap_err()] {
            assert_eq!(problem.kind, ProblemKind::NotRestored, "{problem}");
        }
        assert_eq!(world.fs.get(JOURNAL).as_deref(), Some(broken));
        assert_eq!(journal::forget(&world.host, JOURNAL).unwrap().len(), 1);
        assert!(world.open().is_ok());
    }
}

fn what_another_run_left_is_not_taken_for_the_old_value() {
    let world = killed(&[("migration-cost", Value::Integer(5_000_000))]);
    let other = world.fs.get(JOURNAL).unwrap().replace(&format!("\"pid\": {}", std::process::id()), "\"pid\": 999999");
    world.fs.put(JOURNAL, other);
    let mut journal = world.open().unwrap();
    let refused = journal.apply(&world.context(), "migration-cost", &Value::Integer(0)).unwrap_err();
    assert!(refused.hint.as_deref().is_some_and(|h| h.contains("holdup restore")), "{refused}");
    journal.apply(&world.context(), "autogroup", &Value::Bool(false)).unwrap();
    assert_eq!(journal.restore_all(&world.context()).left, []);
    // The entry of the other run is still there, and still good.
    assert_eq!(world.recover().unwrap().restored.len(), 1);
    assert_eq!(world.fs.get(MIGRATION_COST).as_deref(), Some("500000"));
}

fn someone_else_setting_the_same_factor_ends_the_applying() {
    let world = killed(&[]);
    let mut journal = world.open().unwrap();
    journal.apply(&world.context(), "migration-cost", &Value::Integer(5_000_000)).unwrap();
    world.foreign("migration-cost");
    let refused = journal.apply(&world.context(), "migration-cost", &Value::Integer(0)).unwrap_err();
    assert!(refused.why.contains("someone else") && refused.why.contains("777"), "{refused}");
    assert_eq!(world.state("migration-cost"), "777");
}

fn a_value_that_this_kernel_has_not_is_refused_before_anything_is_touched() {
    let check = |factor: &str, value: Value, expect: &str| {
        let world = World::new();
        world.fs.put(PREEMPT, "full (lazy) \n");
        let mut journal = world.open().unwrap();
        world.fs.arm(None);
        let refused = journal.apply(&world.context(), factor, &value).unwrap_err();
        assert!(format!("{refused:?}").contains(expect), "{refused:?}");
        let log = world.fs.log();
        assert!(log.iter().all(|o| o.name == "read" || o.name == "exists"), "{factor}: {log:?}");
        assert_eq!(world.fs.get(JOURNAL), None);
    };
    check("preempt", text("none"), "offers only full and lazy");
    check("sched-feature.LAST_BUDDY", Value::Bool(true), "RUN_TO_PARITY, NEXT_BUDDY");
    check("sched-feature.HRTICK", Value::Bool(true), "use the factor hrtick");
    check("rseq-slice-length", Value::Integer(51_000), "from 5us to 50us");
    check("base-slice", Value::Integer(0), "from 100us to 1s");
}

fn a_file_that_holds_garbage_is_an_error_and_stays_as_it_is() {
    let in_one_file = samples().filter_map(|sample| match &sample.surface {
        Surface::File(file) | Surface::Word(_, file) => Some((sample, file)),
        _ => None,
    });
    for (sample, file) in in_one_file {
        for garbage in ["", "\n", "\u{0}\u{1}", "maybe", "1 2 3", "((full))", "99999999999999999999999"] {
            let world = World::new();
            world.fs.put(file.path, garbage);
            let mut journal = world.open().unwrap();
            let refused =
                journal.apply(&world.context(), sample.factor, &level(sample.factor, sample.levels[0])).unwrap_err();
            assert!(refused.why.contains("is not what the kernel writes there"), "{}: {refused}", sample.factor);
            assert_eq!((world.fs.get(file.path).as_deref(), world.fs.get(JOURNAL)), (Some(garbage), None));
        }
    }
}

fn two_knobs_of_one_file_leave_each_other_alone() {
    let world = World::new();
    let mut journal = world.open().unwrap();
    journal.apply(&world.context(), "hrtick", &Value::Bool(true)).unwrap();
    journal.apply(&world.context(), "sched-feature.WAKEUP_PREEMPTION", &Value::Bool(false)).unwrap();
    // Someone else sets a third feature meanwhile, which is theirs to keep.
    world.host.write(FEATURES, "NEXT_BUDDY").unwrap();
    let now = world.fs.get(FEATURES).unwrap();
    assert_eq!(now.trim(), "PLACE_LAG RUN_TO_PARITY NEXT_BUDDY NO_WAKEUP_PREEMPTION HRTICK NO_HRTICK_DL");
    drop(journal);
    assert_eq!(world.recover().unwrap().left, []);
    let now = world.fs.get(FEATURES).unwrap();
    assert_eq!(now.trim(), "PLACE_LAG RUN_TO_PARITY NEXT_BUDDY WAKEUP_PREEMPTION NO_HRTICK NO_HRTICK_DL");
}

fn fewer_huge_pages_than_asked_for_are_an_error_that_says_how_many() {
    let world = World::new();
    world.fs.on_write(HUGE_PAGES, |bytes| {
        let asked: u32 = String::from_utf8_lossy(bytes).trim().parse().unwrap();
        Ok(asked.min(4).to_string().into_bytes())
    });
    let mut journal = world.open().unwrap();
    let refused = journal.apply(&world.context(), "huge-pages-reserved", &Value::Integer(6)).unwrap_err();
    assert_eq!(refused.why, "the kernel gave 4 of 6 pages");
    assert_eq!((world.state("huge-pages-reserved").as_str(), world.fs.get(JOURNAL)), ("1", None));
}

fn a_value_that_does_not_take_is_found_and_undone() {
    let world = World::new();
    world.fs.on_write(MIGRATION_COST, |bytes| Ok(if bytes == b"500000" { b"500000".to_vec() } else { b"1".to_vec() }));
    let mut journal = world.open().unwrap();
    let refused = journal.apply(&world.context(), "migration-cost", &Value::Integer(7)).unwrap_err();
    // The 1 belongs to no known writer, and holdup says so.
    assert!(refused.why.contains("7 was written and 1 is in force"), "{refused}");
    assert!(refused.why.contains("the old value is not back"), "{refused}");
    assert_eq!(journal.restore_all(&world.context()).left[0].found, Some(Value::Integer(1)));
}

fn a_process_that_was_born_under_one_level_and_missed_the_next_is_put_back() {
    let world = World::new();
    let mut journal = world.open().unwrap();
    journal.apply(&world.context(), "sched-policy", &text("nice:5")).unwrap();
    world.fs.put_process(13, 10, 300, Scheduling::other(5));
    journal.apply(&world.context(), "sched-policy", &text("batch")).unwrap();
    assert_eq!(journal.restore_all(&world.context()).left, []);
    assert_eq!(world.fs.task(13), Some(Scheduling::other(0)));
}

fn two_groups_of_processes_keep_their_own_old_states() {
    let world = World::new();
    world.fs.put_process(20, 1, 200, Scheduling::other(7));
    let context = |pids: &[u32]| KnobContext { host: &world.host, postgres: None, pids: pids.to_vec() };
    let mut journal = world.open().unwrap();
    journal.apply(&context(&[10, 11]), "sched-policy", &text("batch")).unwrap();
    journal.apply(&context(&[20]), "sched-policy", &text("idle")).unwrap();
    journal.apply(&context(&[10, 11]), "sched-policy", &text("nice:2")).unwrap();
    // A backend is born under the level and dies before the end, another one lives.
    world.fs.put_process(13, 10, 300, Scheduling::other(2));
    world.fs.put_process(14, 10, 301, Scheduling::other(2));
    journal.apply(&context(&[10, 11, 13, 14]), "sched-policy", &text("batch")).unwrap();
    world.fs.end_process(13);
    assert_eq!(journal.pending().len(), 2);
    assert_eq!(journal.restore_all(&context(&[])).left, []);
    let now: Vec<_> = [10, 11, 14, 20].map(|tid| world.fs.task(tid).unwrap()).into();
    assert_eq!(now, [0, 3, 0, 7].map(Scheduling::other));
    assert_eq!(world.fs.task(15), Some(Scheduling { policy: Scheduling::BATCH, ..Scheduling::other(1) }));
}

fn a_server_that_does_not_answer_keeps_nothing_else_from_coming_back() {
    let world = killed(&[
        ("postgres.work_mem", text("64MB")),
        ("autogroup", Value::Bool(false)),
        ("postgres.shared_buffers", text("512MB")),
        ("transparent-huge-pages", text("never")),
    ]);
    let asked = std::cell::Cell::new(0);
    let no_connection = |_: &str| {
        asked.set(asked.get() + 1);
        None
    };
    let restored = journal::recover(&world.host, JOURNAL, &no_connection).unwrap();
    let factors: Vec<&str> = restored.restored.iter().map(|done| done.factor.as_str()).collect();
    assert_eq!(factors, ["transparent-huge-pages", "autogroup"]);
    let left: Vec<&str> = restored.left.iter().map(|left| left.factor.as_str()).collect();
    assert_eq!((left, asked.get()), (vec!["postgres.shared_buffers", "postgres.work_mem"], 1), "it is asked once");
    let kept = world.fs.get(JOURNAL).unwrap();
    assert!(kept.contains("postgres.work_mem") && !kept.contains("autogroup"), "{kept}");
    // When it answers again, the rest is put back.
    assert_eq!(world.recover().unwrap().left, []);
    assert_eq!(world.fs.get(JOURNAL), None);
}

/// The arms of a plan that compares profiles put back what another one set.
fn one_factor_is_put_back_and_the_others_stay() {
    for sample in samples() {
        let other = if sample.factor == "autogroup" { "migration-cost" } else { "autogroup" };
        if matches!(sample.surface, Surface::RealOnly) {
            continue;
        }
        let world = World::new();
        let (before, before_other) = (world.state(sample.factor), world.state(other));
        let mut journal = world.open().unwrap();
        let set_other = level(other, if other == "autogroup" { "off" } else { "5ms" });
        journal.apply(&world.context(), other, &set_other).unwrap();
        journal.put_back_factor(&world.context(), sample.factor).unwrap();
        for text in sample.levels {
            journal.apply(&world.context(), sample.factor, &level(sample.factor, text)).unwrap();
        }
        journal.put_back_factor(&world.context(), sample.factor).unwrap();
        assert_eq!(world.state(sample.factor), before, "{}", sample.factor);
        assert_ne!(world.state(other), before_other, "{other} stays changed");
        assert_eq!(journal.pending().len(), 1, "{}", sample.factor);
        // What is back is saved anew when it is set again.
        journal.apply(&world.context(), sample.factor, &level(sample.factor, sample.levels[0])).unwrap();
        assert_eq!(journal.restore_all(&world.context()).left, []);
        assert_eq!((world.state(sample.factor), world.state(other)), (before, before_other));
    }
}

fn what_someone_else_changed_is_not_put_back_by_the_next_arm() {
    let world = World::new();
    let mut journal = world.open().unwrap();
    journal.apply(&world.context(), "swappiness", &Value::Integer(1)).unwrap();
    world.fs.put("/proc/sys/vm/swappiness", "777\n");
    let problem = journal.put_back_factor(&world.context(), "swappiness").unwrap_err();
    assert!(problem.why.contains("someone else changed it"), "{problem}");
    assert_eq!(journal.pending().len(), 1, "the journal still knows");
}

holdup_testkit::tests!(
    what_a_running_process_changed_is_not_touched,
    the_default_slice_is_back_before_any_task_is,
    after_a_boot_the_kernel_has_forgotten_and_the_server_has_not,
    what_someone_else_changed_is_left_alone_and_reported_with_the_command,
    a_journal_that_cannot_be_written_does_not_keep_the_values_from_coming_back,
    a_slice_of_a_level_that_is_the_default_one_too_is_not_reported_as_left,
    a_line_of_auto_conf_comes_back_exactly,
    values_of_the_same_effect_change_nothing,
    settings_of_a_temporary_cluster_go_with_it,
    a_server_that_cannot_be_reached_or_is_another_one_is_reported,
    a_journal_that_cannot_be_understood_is_neither_lost_nor_followed,
    what_another_run_left_is_not_taken_for_the_old_value,
    someone_else_setting_the_same_factor_ends_the_applying,
    a_value_that_this_kernel_has_not_is_refused_before_anything_is_touched,
    a_file_that_holds_garbage_is_an_error_and_stays_as_it_is,
    two_knobs_of_one_file_leave_each_other_alone,
    fewer_huge_pages_than_asked_for_are_an_error_that_says_how_many,
    a_value_that_does_not_take_is_found_and_undone,
    a_process_that_was_born_under_one_level_and_missed_the_next_is_put_back,
    two_groups_of_processes_keep_their_own_old_states,
    a_server_that_does_not_answer_keeps_nothing_else_from_coming_back,
    one_factor_is_put_back_and_the_others_stay,
    what_someone_else_changed_is_not_put_back_by_the_next_arm
);
