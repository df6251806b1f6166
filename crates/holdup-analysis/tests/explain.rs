//! Each cause is named when it is there, not named when it is not, and undecided when its evidence is missing.

use crate::common;
use common::story::{Story, bundle, cause, only};
use holdup_analysis::{compare_bundles, explain, explanations};
use holdup_model::bundle::Ending;
use holdup_model::explanation::ArmExplanation;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Availability, EvidenceItem, Finding, TrialStatus};

fn with(arm: &ArmExplanation, verdict: FindingVerdict) -> Vec<&str> {
    arm.causes.iter().filter(|c| c.verdict == verdict).map(|c| c.id.as_str()).collect()
}

/// Each cause: how it is induced, and a collector that it cannot be judged without.
type Induced = (&'static str, fn(Story) -> Story, &'static [&'static str], &'static str);

const CAUSES: &[Induced] = &[
    ("preempted-holder", Story::preempted_holder, &["critical-sections"], "critical-sections"),
    ("fault-under-lock", Story::fault_under_lock, &["faults"], "faults"),
    ("spin-wait", Story::spin_wait, &["critical-sections", "cpu-profile"], "critical-sections"),
    ("throttling", Story::throttling, &["cgroup-throttling", "switches"], "cgroup-throttling"),
    ("stolen-by-higher-class", Story::stolen, &["switches"], "switches"),
    ("steal", Story::steal, &["cpu"], "cpu"),
    ("slow-disk", Story::slow_disk, &["switches"], "switches"),
    ("memory-pressure", Story::memory, &["pressure"], "pressure"),
    ("kworker-behind-hog", Story::kworker, &["kworkers"], "kworkers"),
    ("oversubscription", Story::oversubscription, &["switches", "run-queue"], "run-queue"),
];

/// Causes that only the account shows.
const OF_THE_ACCOUNT: [(&str, Induce); 13] = [
    ("heavyweight-lock", |s| s.session("asleep | Lock:transactionid", 4.0)),
    ("lightweight-lock", |s| s.session("asleep | LWLock:LockManager", 4.0)),
    ("lightweight-lock", |s| s.session("asleep | Buffer:BufferShared", 4.0)),
    // The locks of extensions, and of versions that are not known, have numbers.
    ("lightweight-lock", |s| s.session("asleep | LWLock number 93", 4.0)),
    ("heavyweight-lock", |s| s.session("asleep | Lock number 4", 4.0)),
    ("other-wait", |s| s.session("asleep | wait event 0x7f000001", 4.0)),
    ("replication", |s| s.session("asleep | IPC:SyncRep", 4.0)),
    ("wal", |s| s.session("asleep | IO:WALSync", 2.0).session("asleep | LWLock:WALWrite", 2.0)),
    ("other-wait", |s| s.session("asleep | Timeout:PgSleep", 4.0)),
    ("other-wait", |s| s.session("asleep | Buffer:BufferCleanup", 4.0)),
    ("short-connections", |s| s.short_connections(0.003)),
    ("saturated-thread", |story| story.saturated_thread(0.0)),
    ("mutex", |story| story.mutex(0.0)),
];

/// Causes that the account shows better than other evidence does.
const BETTER_BY_THE_ACCOUNT: [(&str, Induce); 4] = [
    ("throttling", |s| s.session("throttled | ", 1.0)),
    ("stolen-by-higher-class", |s| s.session("behind a higher class | ", 1.0)),
    ("slow-disk", |s| s.session("blocked | IO:DataFileRead", 2.0)),
    ("oversubscription", |s| s.session("behind own tasks | ", 2.0).set("cpu", "cpu_share", "idle", 0.01)),
];

type Induce = fn(Story) -> Story;

#[test]
fn an_autovacuum_worker_that_has_the_cpu_is_named_where_sessions_wait_for_it() {
    let busy = |on_s: f64| {
        let story =
            Story::quiet().with_account().session("behind own tasks | ", 2.0).set("cpu", "cpu_share", "idle", 0.01);
        only(&story.set("account", "account_s", "autovacuum worker | on CPU | ", on_s))
    };
    let says = |arm: &ArmExplanation| cause(arm, "oversubscription").details.join(" ");
    let (much, little) = (says(&busy(0.8)), says(&busy(0.02)));
    assert!(much.contains("The server's own processes have 41 % of all CPU time: autovacuum worker 41 %."), "{much}");
    assert!(!little.contains("autovacuum"), "{little}");
}

#[test]
fn what_the_account_shows_is_named_and_nothing_else() {
    for (id, induce) in OF_THE_ACCOUNT.iter().chain(&BETTER_BY_THE_ACCOUNT) {
        let arm = only(&induce(Story::quiet().with_account()));
        assert_eq!(with(&arm, FindingVerdict::Supported), [*id], "{arm:#?}");
        assert_eq!(with(&arm, FindingVerdict::Undecided), [""; 0], "{arm:#?}");
        let share = cause(&arm, id).share.as_ref().expect("a share");
        assert!(share.high <= 1.0 && arm.answer.starts_with(&cause(&arm, id).sentence), "{}", arm.answer);
    }
    let quiet = only(&Story::quiet().with_account());
    assert_eq!(with(&quiet, FindingVerdict::Supported), ["nothing"], "{quiet:#?}");
    assert!(quiet.answer.contains("sessions are on a CPU 96 % of their time at work"), "{}", quiet.answer);
    let without = only(&Story::quiet());
    let looked_for = |id: &str| without.causes.iter().any(|c| c.id == id);
    assert!(OF_THE_ACCOUNT.iter().all(|(id, _)| !looked_for(id)), "{without:#?}");
}

#[test]
fn the_part_of_the_scheduler_is_said_where_the_cause_is_another() {
    let story = Story::quiet().with_account().session("asleep | Lock:transactionid", 8.46);
    let answer = only(&story.session("behind own tasks | ", 0.03)).answer;
    assert!(answer.starts_with("Row locks: sessions spend 84 %") && answer.contains("The scheduler: 0.4"), "{answer}");
}

#[test]
fn a_holder_of_a_mutex_without_a_cpu_is_said_and_one_that_runs_is_not() {
    let without = only(&Story::quiet().with_account().mutex(1.5));
    assert!(without.answer.contains("for 50 % of that the thread that releases it has no CPU"), "{}", without.answer);
    assert!(without.answer.contains("through tasks that they wait for"), "{}", without.answer);
    let running = only(&Story::quiet().with_account().mutex(0.0));
    assert!(!running.answer.contains("no CPU") && !running.answer.contains("through"), "{}", running.answer);
}

#[test]
fn who_ends_a_wait_is_named_and_waits_that_do_not_end_are_not_attributed() {
    let locked = || Story::quiet().with_account().session("asleep | LWLock:WALWrite", 8.0);
    let flusher = locked()
        .woken_by("LWLock:WALWrite", "client backend | LWLock:WALWrite", 4.0)
        .woken_by("LWLock:WALWrite", "client backend | IO:WALSync", 3.0)
        .woken_by("LWLock:WALWrite", "client backend | running", 1.0);
    let flusher = only(&flusher);
    let details = &cause(&flusher, "wal").details;
    let said = "Client backends end 100 % of these waits; meanwhile they wait for IO:WALSync (75 %) and run (25 %).";
    assert!(details.iter().any(|d| d == said), "{details:?}");
    let many = only(&locked().woken_by("LWLock:WALWrite", "(other programs) | ", 8.0));
    assert!(
        cause(&many, "wal").details.iter().any(|d| d.starts_with("Other programs end 100 % of these waits")),
        "{many:?}"
    );
    let standstill = only(&locked().woken_by("Client:ClientRead", "pgbench | ", 1.0));
    let details = &cause(&standstill, "wal").details;
    assert!(details.iter().any(|d| d.contains("Hardly any of these waits ended")), "{details:?}");
    assert!(!standstill.answer.contains("through"), "{}", standstill.answer);
}

#[test]
fn a_chain_of_waits_is_followed_to_its_end() {
    let story = Story::quiet()
        .with_account()
        .session("asleep | Lock:transactionid", 8.0)
        .woken_by("Lock:transactionid", "client backend | IPC:SyncRep", 7.0)
        .woken_by("Lock:transactionid", "client backend | running", 1.0)
        .woken_by("IPC:SyncRep", "walsender | Activity:WalSenderMain", 5.0);
    let arm = only(&story);
    let details = &cause(&arm, "heavyweight-lock").details;
    let chain = "The chain: client backend in IPC:SyncRep, which waits for walsender in Activity:WalSenderMain.";
    assert!(details.iter().any(|d| d == chain), "{details:?}");
}

#[test]
fn reads_of_what_memory_had_no_place_for_are_explained_by_that() {
    let reads = Story::quiet().with_account().session("blocked | IO:DataFileRead", 2.0);
    let arm = only(&reads.clone().memory_of_the_group());
    assert_eq!(with(&arm, FindingVerdict::Supported), ["memory-pressure"], "{arm:#?}");
    assert!(cause(&arm, "slow-disk").sentence.contains("explained by memory pressure"), "{arm:#?}");
    assert!(arm.answer.starts_with("Memory is short: tasks of their control group"), "{}", arm.answer);
    // Most of the disk's time has nothing to do with memory.
    let both = only(&reads.memory_of_the_group().set("pressure", "group_pressure_share", "io some", 0.9));
    assert_eq!(with(&both, FindingVerdict::Supported), ["slow-disk", "memory-pressure"], "{both:#?}");
}

#[test]
fn a_session_that_waits_for_an_ios_end_or_in_a_locks_group_waits_for_the_disk_or_the_lock() {
    let found = |state| only(&Story::quiet().with_account().session(state, 4.0));
    let io = found("asleep | IPC:BufferIo");
    assert_eq!(with(&io, FindingVerdict::Supported), ["slow-disk"], "{io:#?}");
    let lock = found("asleep | IPC:ProcarrayGroupUpdate");
    assert_eq!(with(&lock, FindingVerdict::Supported), ["lightweight-lock"], "{lock:#?}");
}

#[test]
fn sessions_that_hardly_use_a_cpu_do_not_spin() {
    let story = Story::quiet().with_account().session("on CPU | ", 0.01).session("asleep | Lock:relation", 5.0);
    let arm = only(&story.without("critical-sections").without("faults").without("cpu-profile"));
    assert_eq!(with(&arm, FindingVerdict::Undecided), [""; 0], "{arm:#?}");
    assert_eq!(with(&arm, FindingVerdict::Supported), ["heavyweight-lock"]);
}

#[test]
fn a_thread_that_waits_for_a_cpu_now_and_then_is_saturated_and_one_that_mostly_waits_is_not() {
    let with_wait = |wait_s| only(&Story::quiet().with_account().saturated_thread(wait_s));
    let now_and_then = with_wait(0.3);
    assert!(with(&now_and_then, FindingVerdict::Supported).contains(&"saturated-thread"), "{now_and_then:#?}");
    // In one window others had the CPU.
    let mut stalled = Story::quiet().with_account().saturated_thread(0.0);
    stalled.windows[0] = Story::quiet().with_account().saturated_thread(0.9).windows.swap_remove(0);
    let stalled = only(&stalled);
    assert!(with(&stalled, FindingVerdict::Supported).contains(&"saturated-thread"), "{stalled:#?}");
    let mostly = with_wait(0.7);
    assert!(!with(&mostly, FindingVerdict::Supported).contains(&"saturated-thread"), "{mostly:#?}");
}

/// What two records say of where time goes.
fn time_shift(before: &Story, after: &Story) -> Option<Finding> {
    let (before, mut after) = (before.bundle(), after.bundle());
    after.head.run_id = "00000000feed000000000002".into();
    let compared = compare_bundles(&before, &after).expect("one arm in both");
    let mut shifts = compared.findings.into_iter().filter(|f| f.analysis == "time-shift");
    let first = shifts.next();
    assert!(shifts.next().is_none(), "{first:#?}");
    first
}

#[test]
fn two_records_differ_in_the_states_that_changed_and_in_no_other() {
    let quiet = Story::quiet().with_account();
    let locked = quiet.clone().session("asleep | Lock:transactionid", 1.5);
    let shift = time_shift(&quiet, &locked).expect("both have an account");
    assert_eq!((shift.verdict, shift.headline), (FindingVerdict::Supported, true));
    // 1.5 of 1.56 s are 96 %, 1.5 of 3.06 s are 49 %.
    assert!(
        shift.sentence.contains("Lock:transactionid 0 % → 49 % (+49 to +49 points); on a CPU 96 % → 49 %"),
        "{shift:#?}"
    );
    assert!(!shift.sentence.contains("WALSync"), "{shift:#?}");
    let same = time_shift(&quiet, &quiet).expect("both have an account");
    assert_eq!(same.verdict, FindingVerdict::Refuted, "{same:#?}");
    assert!(time_shift(&Story::quiet(), &locked).is_none(), "one side has no account");
}

/// Shares that differ by less than their intervals.
#[test]
fn a_difference_within_the_intervals_is_none() {
    let noisy = |seed: u32| {
        let mut story = Story::quiet().with_account();
        for (n, window) in (0_u32..).zip(&mut story.windows) {
            let seconds = f64::from((n * 7 + seed * 3) % 10) / 5.0;
            let account = window.iter_mut().find(|c| c.collector == "account").expect("it has one");
            account.items.push(EvidenceItem::labelled(
                "account_s",
                "client backend | asleep | Lock:tuple",
                "s",
                seconds,
            ));
        }
        story.windows.truncate(7);
        story
    };
    let shift = time_shift(&noisy(1), &noisy(2)).expect("both have an account");
    assert_eq!(shift.verdict, FindingVerdict::Refuted, "{shift:#?}");
}

#[test]
fn sessions_that_end_after_work_are_no_short_connections() {
    let arm = only(&Story::quiet().with_account().short_connections(0.1));
    assert!(!with(&arm, FindingVerdict::Supported).contains(&"short-connections"), "{arm:#?}");
}

#[test]
fn each_cause_has_a_story() {
    let of_account = OF_THE_ACCOUNT.iter().map(|(id, _)| *id);
    let result: Vec<&str> = CAUSES.iter().map(|(id, ..)| *id).chain(of_account).collect();
    for explainer in explanations::ALL.iter().filter(|e| e.meta.id != "nothing") {
        assert!(result.contains(&explainer.meta.id), "{}", explainer.meta.id);
    }
}

#[test]
fn a_quiet_system_has_no_cause_and_the_bound_is_reported() {
    let arm = only(&Story::quiet());
    assert_eq!(with(&arm, FindingVerdict::Supported), ["nothing"], "{arm:#?}");
    assert_eq!(with(&arm, FindingVerdict::Undecided), [""; 0]);
    assert_eq!(arm.verdict, FindingVerdict::Refuted);
    assert!(arm.answer.starts_with("No known cause") && arm.answer.contains("at most"), "{}", arm.answer);
}

#[test]
fn what_is_induced_is_named_and_nothing_else() {
    for (id, induce, ..) in CAUSES {
        let arm = only(&induce(Story::quiet()));
        assert_eq!(with(&arm, FindingVerdict::Supported), [*id], "{arm:#?}");
        assert_eq!(with(&arm, FindingVerdict::Undecided), [""; 0], "{arm:#?}");
        let found = cause(&arm, id);
        assert!(arm.answer.starts_with(&found.sentence), "{}", arm.answer);
        let share = found.share.as_ref().expect("a share");
        assert!(share.low >= found.minimum && share.low <= share.value && share.value <= share.high, "{share:?}");
        assert_eq!(found.trials.len(), 10);
        assert!(!found.evidence.is_empty() && !found.advice.is_empty(), "{found:#?}");
        assert_eq!(arm.causes[0].id, *id, "it comes first");
    }
}

#[test]
fn without_its_collector_a_cause_is_undecided_and_says_what_is_missing() {
    for (id, induce, needs, missing) in CAUSES {
        let story = needs.iter().fold(induce(Story::quiet()), |story, collector| story.without(collector));
        let arm = only(&story);
        let found = cause(&arm, id);
        assert_eq!(found.verdict, FindingVerdict::Undecided, "{found:#?}");
        assert!(found.sentence.contains(missing), "{}", found.sentence);
        assert_eq!(found.missing[0].collector, *missing, "{found:#?}");
        assert_eq!(found.missing[0].remedy, format!("--collect {missing}"));
        assert!(arm.answer.contains(&found.name), "what is open stands in the answer: {}", arm.answer);
        assert_ne!(arm.verdict, FindingVerdict::Refuted);
    }
}

#[test]
fn a_collector_that_brought_only_reasons_is_missing_with_its_reason() {
    for (id, induce, needs, missing) in CAUSES {
        let story = needs.iter().fold(induce(Story::quiet()), |story, c| story.absent(c, "no BPF in this container"));
        let arm = only(&story);
        let found = cause(&arm, id);
        assert_eq!(found.verdict, FindingVerdict::Undecided, "{found:#?}");
        assert!(
            found.missing.iter().any(|m| m.collector == *missing && m.why == "no BPF in this container"),
            "{found:#?}"
        );
    }
}

#[test]
fn a_collector_that_cannot_work_here_says_why_and_how() {
    let mut bundle = Story::quiet().without("critical-sections").bundle();
    bundle.collectors.push(holdup_model::bundle::CollectorState {
        id: "critical-sections".into(),
        availability: Availability::unavailable_but("BPF needs root", "sudo"),
    });
    let arm = explain(&bundle).arms.remove(0);
    let missing = &cause(&arm, "preempted-holder").missing[0];
    assert_eq!((missing.why.as_str(), missing.remedy.as_str()), ("BPF needs root", "sudo"));
}

#[test]
fn without_a_section_map_nothing_is_said_of_locks() {
    let arm = only(&Story::quiet().set("critical-sections", "sections_mapped", "", 0.0));
    for id in ["preempted-holder", "spin-wait"] {
        let found = cause(&arm, id);
        assert_eq!(found.verdict, FindingVerdict::Undecided, "{found:#?}");
        assert!(found.missing[0].remedy.contains("--section"), "{found:#?}");
    }
}

#[test]
fn that_a_holder_runs_is_said_only_where_one_was_seen() {
    let section = "critical-sections";
    let holders = |samples: f64| {
        let story = Story::quiet().spin_wait().set(section, "section_samples", "StrategyGetBuffer: holder", samples);
        cause(&only(&story), "spin-wait").sentence.clone()
    };
    assert!(holders(300.0).ends_with("spinning for a lock whose holder runs."), "{}", holders(300.0));
    assert!(holders(0.0).ends_with("; whether its holder runs is not known."), "{}", holders(0.0));
    let some = holders(100.0);
    assert!(some.contains("of that its holder runs, for the rest that is not known."), "{some}");
}

#[test]
fn behind_a_lock_that_does_not_show_nothing_is_ruled_out() {
    let story = Story::quiet().spin_wait().set("critical-sections", "waiter_not_known_s", "StrategyGetBuffer", 0.35);
    let arm = only(&story);
    let found = cause(&arm, "preempted-holder");
    assert_eq!(found.verdict, FindingVerdict::Undecided, "{found:#?}");
    assert!(found.sentence.contains("whose holder may be off the CPU"), "{}", found.sentence);
    let spinning = cause(&arm, "spin-wait");
    assert!(spinning.sentence.ends_with("; whether its holder runs is not known."), "{}", spinning.sentence);
}

#[test]
fn what_explains_a_wait_is_named_and_the_wait_is_not() {
    let both = Story::quiet().oversubscription().preempted_holder();
    let arm = only(&both);
    assert_eq!(with(&arm, FindingVerdict::Supported), ["preempted-holder"], "{arm:#?}");
    let wait = cause(&arm, "oversubscription");
    assert!(
        wait.sentence.contains("lock-holder preemption") && wait.sentence.contains("explained by"),
        "{}",
        wait.sentence
    );
}

#[test]
fn tasks_that_would_fit_alone_are_held_up_by_others() {
    let story = Story::quiet()
        .set("switches", "run_queue_wait_s", "server", 0.8)
        .set("switches", "on_cpu_s", "server", 0.3)
        .set("cpu", "cpu_share", "idle", 0.01);
    let arm = only(&story);
    let found = cause(&arm, "oversubscription");
    assert_eq!(found.verdict, FindingVerdict::Supported, "{found:#?}");
    assert!(found.details.iter().any(|d| d.contains("Other work")), "{found:#?}");
    assert!(found.advice.iter().all(|a| !a.change.starts_with("fewer running tasks")), "{found:#?}");
}

#[test]
fn idle_cpus_are_not_short() {
    let arm = only(&Story::quiet().oversubscription().set("cpu", "cpu_share", "idle", 0.5));
    let found = cause(&arm, "oversubscription");
    assert_eq!(found.verdict, FindingVerdict::Undecided);
    assert!(found.sentence.contains("idle"), "{}", found.sentence);
}

#[test]
fn several_causes_stand_in_order_of_what_they_held_up() {
    let arm = only(&Story::quiet().slow_disk().kworker().steal());
    assert_eq!(with(&arm, FindingVerdict::Supported), ["slow-disk", "steal", "kworker-behind-hog"], "{arm:#?}");
    assert!(arm.answer.contains("Also: CPU steal"), "{}", arm.answer);
}

#[test]
fn tasks_blocked_on_something_else_than_a_disk_are_not_a_slow_disk() {
    let story = Story::quiet().slow_disk().set("pressure", "pressure_share", "io some", 0.0005);
    assert_eq!(cause(&only(&story), "slow-disk").verdict, FindingVerdict::Refuted);
    let blind = Story::quiet().slow_disk().without("pressure").without("cpu");
    let arm = only(&blind);
    let found = cause(&arm, "slow-disk");
    assert_eq!((found.verdict, found.missing[0].collector.as_str()), (FindingVerdict::Undecided, "pressure"));
}

#[test]
fn backends_that_wait_in_io_events_are_a_slow_disk_by_name() {
    let mut story = Story::quiet().set("pressure", "pressure_share", "io some", 0.5);
    for window in &mut story.windows {
        window.push(holdup_model::Collected {
            collector: "wait-events".into(),
            items: vec![
                holdup_model::EvidenceItem::labelled("backends_waiting", "IO:DataFileRead", "backends", 3.0),
                holdup_model::EvidenceItem::labelled("backends_waiting", "CPU", "backends", 1.0),
                holdup_model::EvidenceItem::new("wait_event_samples", "samples", 50.0),
            ],
            coverage: holdup_model::Coverage { seen: 50, lost: 0, notes: Vec::new() },
            ..Default::default()
        });
    }
    let arm = only(&story);
    let found = cause(&arm, "slow-disk");
    assert_eq!(found.verdict, FindingVerdict::Supported);
    assert!(
        found.sentence.starts_with("I/O wait: 3 backends") && found.details.iter().any(|d| d.contains("DataFileRead")),
        "{found:#?}"
    );
}

#[test]
fn faults_alone_are_a_lower_bound() {
    let arm = only(&Story::quiet().fault_under_lock().without("critical-sections"));
    let found = cause(&arm, "fault-under-lock");
    assert!(found.details.iter().any(|d| d.contains("lower bound")), "{found:#?}");
    let small =
        Story::quiet().set("faults", "fault_in_section_s", "StrategyGetBuffer", 0.002).without("critical-sections");
    let arm = only(&small);
    let found = cause(&arm, "fault-under-lock");
    assert_eq!(found.verdict, FindingVerdict::Undecided, "a bound below the minimum speaks for neither: {found:#?}");
}

#[test]
fn stacks_alone_show_spinning_and_cannot_exclude_it() {
    let spinning = only(&Story::quiet().spin_wait().without("critical-sections"));
    let found = cause(&spinning, "spin-wait");
    assert_eq!(found.verdict, FindingVerdict::Supported, "{found:#?}");
    assert!(
        found.details.iter().any(|d| d.contains("ReadBuffer → StrategyGetBuffer → s_lock.constprop.0")),
        "{found:#?}"
    );
    let quiet = only(&Story::quiet().without("critical-sections"));
    assert_eq!(cause(&quiet, "spin-wait").verdict, FindingVerdict::Undecided);
}

#[test]
fn the_length_of_sections_is_reported_where_residuals_are() {
    let arm = only(&Story::quiet().preempted_holder());
    let found = cause(&arm, "preempted-holder");
    let result = found.details.iter().find(|d| d.contains("is held for")).expect("a length");
    let us: f64 =
        result.split("held for ").nth(1).and_then(|t| t.split(' ').next()).and_then(|n| n.parse().ok()).expect("us");
    assert!((15.0..25.0).contains(&us), "{result}");
    // All are of one length: those that were hit are no longer than the others.
    assert!(!result.contains("Interrupted ones"), "{result}");
    // Of nine exponential lengths of 10 us and one of 110 us the mean is 20 us, and that of those that are hit 130 us.
    let more_than = |ns: f64| 0.45 * (-ns / 10_000.0).exp() + 0.55 * (-ns / 110_000.0).exp();
    let mut ns = 0.0;
    let mut residuals: Vec<(u64, u64)> = Vec::new();
    for place in 0..4_000 {
        while more_than(ns) > 1.0 - (f64::from(place) + 0.5) / 4_000.0 {
            ns += 1.0;
        }
        residuals.push((ns as u64, 1));
    }
    let two = Story::quiet().preempted_holder();
    let two = two.histogram("critical-sections", "section_residual_ns", "StrategyGetBuffer", &residuals);
    let arm = only(&two);
    let found = cause(&arm, "preempted-holder");
    let result = found.details.iter().find(|d| d.contains("is held for")).expect("a length");
    assert!(result.contains("Interrupted ones are"), "{result}");
}

#[test]
fn who_takes_the_cpu_from_holders_is_named() {
    let arm = only(&Story::quiet().preempted_holder());
    let found = cause(&arm, "preempted-holder");
    assert!(found.sentence.contains("most often by pgbench"), "{}", found.sentence);
}

#[test]
fn one_window_is_undecided_and_void_ones_do_not_count() {
    let mut bundle = Story::quiet().preempted_holder().bundle();
    for trial in bundle.trials.iter_mut().skip(1) {
        trial.status = TrialStatus::Void { reason: "the process ended".into() };
    }
    bundle.ending = Some(Ending::Failed { reason: "the process ended".into() });
    let result = explain(&bundle);
    assert_eq!(result.arms[0].windows, 1);
    let found = cause(&result.arms[0], "preempted-holder");
    assert_eq!(found.verdict, FindingVerdict::Undecided);
    assert!(found.sentence.contains("one window"), "{}", found.sentence);
    assert!(result.notes.iter().any(|n| n.contains("the process ended")));
}

#[test]
fn a_bundle_without_evidence_is_undecided() {
    let mut bundle = Story::quiet().bundle();
    bundle.trials.clear();
    let result = explain(&bundle);
    assert!(result.arms.is_empty() && result.verdict() == FindingVerdict::Undecided, "{result:#?}");
    assert!(result.notes[0].contains("observed"));
}

#[test]
fn arms_are_distinguished() {
    let (quiet, held) = (Story::quiet(), Story::quiet().preempted_holder());
    let result = explain(&bundle(&[("huge_pages=on", &quiet), ("huge_pages=off", &held), ("again", &quiet)]));
    assert_eq!(result.verdict(), FindingVerdict::Supported);
    assert!(result.differences[0].contains("Lock-holder preemption: huge_pages=on"), "{:?}", result.differences);
    assert!(result.differences.last().is_some_and(|d| d.contains("same explanation")), "{:?}", result.differences);
}

#[test]
fn the_baseline_and_its_twin_are_one() {
    let (held, bare) = (Story::quiet().steal(), Story::quiet());
    let mut bundle = bundle(&[("baseline", &held), ("baseline (A/A)", &held), ("baseline (unobserved)", &bare)]);
    bundle.schedule.arms[1].replica = Some(holdup_model::Replica::Same);
    bundle.schedule.arms[2].replica = Some(holdup_model::Replica::Unobserved);
    bundle.trials.iter_mut().filter(|t| t.arm == 2).for_each(|t| t.evidence.clear());
    let result = explain(&bundle);
    assert_eq!((result.arms.len(), result.arms[0].windows), (1, 20));
    assert_eq!(result.notes, [""; 0]);
}

#[test]
fn an_item_that_is_absent_is_no_zero() {
    for (collector, item, id) in [
        ("critical-sections", "waiter_behind_off_cpu_holder_s", "preempted-holder"),
        ("critical-sections", "section_samples", "spin-wait"),
        ("faults", "fault_in_section_s", "fault-under-lock"),
        ("kworkers", "kworker_wait_in_kernel_s", "kworker-behind-hog"),
        ("switches", "preempted_by_cause", "stolen-by-higher-class"),
        ("cpu", "cpu_share", "steal"),
    ] {
        let mut story = Story::quiet();
        for found in story.windows.iter_mut().flatten().filter(|c| c.collector == collector) {
            for item in found.items.iter_mut().filter(|i| i.name == item) {
                item.value = holdup_model::Measured::Absent("perf events are refused".into());
            }
        }
        let arm = only(&story);
        let found = cause(&arm, id);
        assert_eq!(found.verdict, FindingVerdict::Undecided, "{found:#?}");
        assert_eq!(found.missing[0].why, "perf events are refused");
    }
}

#[test]
fn numbers_that_cannot_be_are_undecided_and_break_nothing() {
    for value in [f64::NAN, f64::INFINITY, -1.0, f64::MAX, f64::MIN_POSITIVE] {
        let mut story = Story::quiet().preempted_holder().slow_disk().kworker();
        for item in story.windows.iter_mut().flatten().flat_map(|c| &mut c.items) {
            item.value = holdup_model::Measured::Value(value);
        }
        for found in story.windows.iter_mut().flatten() {
            found.coverage.lost = u64::MAX;
            found.cost.cpu_ns = u64::MAX;
            for stack in found.stacks.iter_mut().flat_map(|p| &mut p.stacks) {
                stack.frames.push(u32::MAX);
                stack.weight = u64::MAX;
            }
        }
        let arm = only(&story);
        let shares = arm.causes.iter().filter_map(|c| c.share.as_ref());
        assert!(shares.into_iter().all(|s| s.low.is_finite() && s.high.is_finite()), "{value}: {arm:#?}");
    }
}

#[test]
fn losses_are_reported_with_the_cause_that_they_affect() {
    let mut story = Story::quiet().preempted_holder();
    for found in story.windows.iter_mut().flatten().filter(|c| c.collector == "critical-sections") {
        found.coverage.lost = found.coverage.seen / 4;
    }
    let arm = only(&story);
    assert!(cause(&arm, "preempted-holder").details.iter().any(|d| d.contains("lost 20 %")), "{arm:#?}");
    assert!(arm.cost.contains("BPF"), "{}", arm.cost);
}
