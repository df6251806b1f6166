//! Servers with known causes: a file each says how to start it and what the first sentence must say. Real servers of
//! PostgreSQL, and other programs, watched as `holdup record` watches them.

mod advisory_locks;
mod autovacuum;
mod backup;
mod buffer_pin;
mod busy_neighbours;
mod checkpoints;
mod connection_storm;
mod copy_in;
mod cpu_quota;
mod crash;
mod daemons;
mod deadlocks;
mod foreign_keys;
mod hostile_memory;
mod hot_row;
mod idle_server;
mod locked_table;
mod lone_session;
mod lost_standby;
mod many_readers;
mod memory_limit;
mod mutex;
mod neighbours_by_weight;
mod pgbench;
mod prepared_transaction;
mod programs;
mod queue_behind_ddl;
mod real_time_hog;
mod record;
mod row_of_an_idle_transaction;
mod sampling;
mod server;
mod sleeping_sessions;
mod slow_disks;
mod slow_reader;
mod slow_standby;
mod sources;
mod spilling_sorts;
mod spin_locks;
mod stopped_backend;
mod subtransactions;
mod think_time;
mod vacuum_delay;

use crate::recording;
use holdup_analysis::explain;
use holdup_evidence::CollectContext;
use holdup_model::explanation::ArmExplanation;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Availability, BundleData};
use holdup_testkit::ignore;
use record::USUAL;
use server::Server;

/// A server and what is wrong with it.
struct Situation {
    name: &'static str,
    /// Statements that prepare the server.
    setup: &'static [&'static str],
    /// What a session does before it stays idle, in a transaction or not.
    held: &'static [&'static str],
    /// Sessions, and the statement that each of them repeats.
    sessions: usize,
    statement: &'static str,
    /// The causes that may come first.
    first: &'static [&'static str],
    /// What the first sentence contains.
    says: &'static str,
    /// Causes that are not there.
    never: &'static [&'static str],
}

/// Nothing is set up, and nothing is wrong.
const QUIET: Situation = Situation {
    name: "",
    setup: &[],
    held: &[],
    sessions: 0,
    statement: "",
    first: &["nothing"],
    says: "No known cause of delay",
    never: &WAITS,
};

/// All that wait for another session or process wait in the same way.
const WAITS: [&str; 5] = ["heavyweight-lock", "lightweight-lock", "replication", "wal", "other-wait"];

/// The answer to a situation of a server alone.
fn judge(situation: &Situation) {
    judge_beside(situation, USUAL, |_| ());
}

/// The answer to a situation with something more, which gives what it holds until the record is over.
fn judge_beside<T>(
    situation: &Situation,
    windows: record::Windows,
    beside: impl FnOnce(&mut Server) -> T,
) -> (BundleData, ArmExplanation, T) {
    needs_account();
    let (bundle, induced, sessions) = server::watch(situation, windows, beside);
    let arm = answer(situation, &bundle);
    adds_up(situation, &bundle, sessions);
    (bundle, arm, induced)
}

fn cpus() -> u32 {
    u32::try_from(std::thread::available_parallelism().expect("a number").get()).expect("it fits")
}

fn needs_account() {
    match holdup_evidence::find("account").expect("listed").probe(&CollectContext::default()) {
        Availability::Ready | Availability::Degraded { .. } => {}
        Availability::Unavailable { reason, .. } => ignore(format!("account cannot work here: {reason}")),
    }
}

/// The answer, which is what the situation says.
fn answer(situation: &Situation, bundle: &BundleData) -> ArmExplanation {
    let mut explanation = explain(bundle);
    assert!(!explanation.arms.is_empty(), "{}: {:?} {:?}", situation.name, explanation.notes, bundle.trials);
    let arm = explanation.arms.remove(0);
    println!("{}: {}", situation.name, arm.answer);
    if std::env::var_os("SHOW").is_some() {
        show(&arm, bundle);
    }
    let found = found(&arm);
    let is_short =
        |c: &holdup_model::explanation::Cause| c.id == "oversubscription" && c.verdict != FindingVerdict::Refuted;
    let is_busy = arm.causes.iter().any(is_short) && is_machine_busy(bundle);
    let is_stolen = arm.causes.iter().any(|c| c.id == "steal" && c.verdict == FindingVerdict::Supported);
    if !situation.first.contains(&"oversubscription") && is_busy || situation.first == ["nothing"] && is_stolen {
        // As `script/truth` counts it.
        ignore("no quiet machine");
    }
    let first = found.first().copied().unwrap_or("nothing");
    assert!(situation.first.contains(&first), "{}: {first} {arm:#?}", situation.name);
    let of_first = arm.causes.iter().find(|c| c.id == first).map_or(&arm.answer, |c| &c.sentence);
    let sentence = if first == "nothing" { &arm.answer } else { of_first };
    assert!(sentence.contains(situation.says), "{}: {sentence}", situation.name);
    for never in situation.never {
        assert!(!found.contains(never), "{}: {never} {arm:#?}", situation.name);
    }
    for share in arm.causes.iter().filter_map(|c| c.share.as_ref().filter(|_| c.id != "slow-disk")) {
        assert!(share.high <= 1.0, "{}: {arm:#?}", situation.name);
    }
    let &Situation { first, says, never, .. } = situation;
    recording::keep(bundle, &recording::Demand { first, says, never, is_only: false });
    arm
}

/// The sum of an item over all windows, of the labels that are wanted.
fn seconds(bundle: &BundleData, item: &str, is_wanted: impl Fn(&str) -> bool) -> f64 {
    let items = bundle.trials.iter().flat_map(|t| &t.evidence).flat_map(|c| &c.items);
    let wanted = items.filter(|i| i.name == item && i.label.as_deref().is_some_and(&is_wanted));
    wanted.filter_map(|i| i.value.value()).sum()
}

/// True where tasks that are not part of the situation, and that do not watch it (threads of holdup, this test and what runs
/// it), are most of what it waits behind.
fn is_machine_busy(bundle: &BundleData) -> bool {
    const OWN: [&str; 4] = ["holdup-", "it-", "nextest-", "tokio-rt-worker"];
    let is_other = |label: &str| {
        let task = label.rsplit_once("| behind other tasks | ").map(|(_, task)| task);
        task.is_some_and(|task| !OWN.iter().any(|own| task.starts_with(own)))
    };
    seconds(bundle, "behind_s", is_other) > seconds(bundle, "account_s", |label| label.contains("| behind own tasks |"))
}

/// Every cause, and the account.
fn show(arm: &ArmExplanation, bundle: &BundleData) {
    for cause in &arm.causes {
        println!("  {} {:?} {:?}: {}", cause.id, cause.verdict, cause.tasks_held_up, cause.sentence);
        cause.details.iter().for_each(|detail| println!("    {detail}"));
    }
    let account = bundle.trials.iter().flat_map(|t| &t.evidence).filter(|c| c.collector == "account");
    for collected in account {
        println!("  window {:?}", collected.coverage.notes);
        for item in collected.items.iter().filter(|i| i.value.value().is_some_and(|v| v > 0.001) && i.unit == "s") {
            println!("    {} {:?} {:?}", item.name, item.label, item.value.value());
        }
    }
}

/// Causes of the whole host, which other work of this machine may have, and what is no cause.
const NOT_OF_THE_SERVER: [&str; 3] = ["steal", "kworker-behind-hog", "nothing"];

/// The causes that were found, the largest first.
fn found(arm: &ArmExplanation) -> Vec<&str> {
    let is_found = |c: &&holdup_model::explanation::Cause| {
        c.verdict == FindingVerdict::Supported
            && !NOT_OF_THE_SERVER.contains(&c.id.as_str())
            && !c.sentence.starts_with("Memory is short: tasks of this host")
    };
    arm.causes.iter().filter(is_found).map(|c| c.id.as_str()).collect()
}

/// The states of the sessions add up to the length of the windows.
fn adds_up(situation: &Situation, bundle: &BundleData, sessions: usize) {
    let (mut accounted_s, mut windows_s) = (0.0, 0.0);
    for trial in bundle.trials.iter().filter(|t| t.is_done()) {
        windows_s += trial.window.map_or(0.0, |w| w.length_ns as f64 / 1e9);
        accounted_s += pgbench::account_s(trial, "account_s", |label| label.starts_with("client backend |"));
    }
    println!("  {accounted_s:.3} s of {sessions} sessions in {windows_s:.3} s");
    let off = (accounted_s / (windows_s * sessions as f64) - 1.0).abs();
    assert!(off < 0.01, "{}: {accounted_s} s of {sessions} sessions in {windows_s} s", situation.name);
}

fn a_row_of_an_idle_transaction() {
    judge(&row_of_an_idle_transaction::SITUATION);
}

fn a_locked_table() {
    judge(&locked_table::SITUATION);
}

fn advisory_locks_of_an_application() {
    judge(&advisory_locks::SITUATION);
}

fn a_lost_standby() {
    judge(&lost_standby::SITUATION);
}

fn sessions_that_sleep() {
    judge(&sleeping_sessions::SITUATION);
}

fn more_readers_than_cpus() {
    judge(&many_readers::SITUATION);
}

fn an_idle_server() {
    judge(&idle_server::SITUATION);
}

fn a_pinned_page() {
    judge(&buffer_pin::SITUATION);
}

fn a_prepared_transaction_that_is_left() {
    judge(&prepared_transaction::SITUATION);
}

// By hand are those whose answer is not right: threads that take turns are not seen as one that is saturated, and of a wait at a
// condition variable it is not known what it is for.
holdup_testkit::tests!(
    truth:
    hot_row::a_hot_row,
    pgbench::clients_that_wait_for_locks,
    pgbench::clients_that_read,
    pgbench::clients_that_read_now_and_then,
    a_row_of_an_idle_transaction,
    a_locked_table,
    advisory_locks_of_an_application,
    a_lost_standby,
    sessions_that_sleep,
    more_readers_than_cpus,
    an_idle_server,
    stopped_backend::a_backend_that_is_stopped_with_the_lock_of_the_log,
    think_time::sessions_that_think,
    cpu_quota::a_quota_of_the_group,
    cpu_quota::a_quota_of_the_group_above,
    slow_reader::clients_that_read_slowly,
    programs::an_idle_program,
    programs::an_idle_java_program,
    programs::an_idle_pool_of_threads,
    vacuum_delay::a_vacuum_beside_idle_sessions,
    connection_storm::a_storm_of_connections,
    a_pinned_page,
    queue_behind_ddl::a_queue_behind_ddl,
    busy_neighbours::busy_neighbours_on_each_cpu,
    programs::a_program_with_one_saturated_thread,
    mutex::a_mutex_whose_holder_has_no_cpu,
    row_of_an_idle_transaction::who_holds_a_row,
    real_time_hog::a_real_time_hog_in_short_windows,
    real_time_hog::a_real_time_hog_in_long_windows,
    hot_row::a_hot_row_without_track_activities,
    cpu_quota::a_quota_that_a_neighbour_uses_up,
    checkpoints::checkpoints_that_follow_one_another,
    autovacuum::an_autovacuum_worker_that_has_a_cpu,
    slow_disks::a_pool_that_is_cold,
    slow_disks::flushes_that_take_long,
    slow_standby::a_standby_that_answers_late,
    spilling_sorts::sorts_that_spill,
    spilling_sorts::a_leader_that_waits_for_its_workers,
    a_prepared_transaction_that_is_left,
    deadlocks::sessions_that_deadlock,
    foreign_keys::rows_that_refer_to_one,
    subtransactions::readers_of_subtransactions,
    backup::a_backup_beside_idle_sessions,
    crash::a_crash_of_a_backend,
    lone_session::a_session_that_computes,
    lone_session::a_client_that_is_far_away,
    neighbours_by_weight::neighbours_of_a_low_nice_value,
    neighbours_by_weight::neighbours_of_the_class_batch,
    neighbours_by_weight::neighbours_that_run_when_nothing_else_does,
    copy_in::a_producer_that_is_slow,
    memory_limit::a_memory_limit_below_the_need,
    daemons::an_idle_redis,
    daemons::a_redis_with_pipelines,
    daemons::a_redis_with_a_slow_script,
    daemons::an_idle_memcached,
    daemons::a_memcached_with_one_thread,
    daemons::an_idle_mariadb,
    daemons::an_idle_nginx,
    daemons::an_nginx_with_one_worker,
    sources::an_idle_go_program,
    sources::a_go_program_with_one_processor,
    sources::a_rust_program_with_one_consumer,
    sources::a_c_program_with_one_mutex,
    sources::a_c_program_with_one_mutex_of_holdfast,
    spin_locks::a_lock_function_of_its_own,
    spin_locks::a_spin_lock_of_the_library_in_a_container,
    spin_locks::an_exchange_in_a_function_without_a_name,
    spin_locks::a_holder_of_another_lock_sleeps,
    spin_locks::a_ticket_lock,
    hostile_memory::memory_of_no_server;
    by_hand:
    programs::a_java_program_that_allocates,
    daemons::a_mariadb_with_a_hot_row
);
