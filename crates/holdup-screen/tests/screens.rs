//! Screens as text, and what keys do.

use holdup_live::Memory;
use holdup_model::bundle::{BundleHead, OBSERVED};
use holdup_model::{
    BundleData, Collected, EvidenceHistogram, EvidenceItem, Machine, Plan, Schedule, SparseHistogram, Trial, Window,
};
use holdup_screen::{Act, KeyCode, State, text};

fn watch() -> BundleData {
    let head = BundleHead {
        run_id: "1".to_owned(),
        holdup_version: "0".to_owned(),
        command: Vec::new(),
        created_unix_ns: 0,
        target: "local".to_owned(),
        emulated: None,
        machine: Machine { cpus: 2, memory_bytes: 1 << 30 },
    };
    let plan = Plan::observational("record", "What?".to_owned(), OBSERVED, "local");
    BundleData::begun(head, plan, Schedule::of_windows(OBSERVED, 0))
}

fn of(collector: &str, items: Vec<EvidenceItem>) -> Collected {
    Collected { collector: collector.to_owned(), items, ..Collected::default() }
}

/// The nth window of a second: sessions wait for one another's rows from the twentieth on.
fn window(n: i64) -> Trial {
    let item = |name: &str, label: &str, value: f64| EvidenceItem::labelled(name, label, "s", value);
    let waits = if n < 20 { 0.2 } else { 4.0 + 0.1 * (n % 3) as f64 };
    let account = vec![
        item("account_s", "client backend | on CPU | ", 1.5),
        item("account_s", "client backend | behind own tasks | ", 0.5),
        item("account_s", "client backend | asleep | Lock:transactionid", waits),
        item("account_times", "client backend | asleep | Lock:transactionid", 100.0),
        item("account_s", "client backend | blocked | IO:WALSync", 0.3),
        item("account_s", "client backend | asleep | Client:ClientRead", 4.0),
        item("account_s", "checkpointer | asleep | Activity:CheckpointerMain", 1.0),
        item("woken_wait_s", "client backend | Lock:transactionid", 0.1),
        item("woken_by_s", "client backend | asleep | Lock:transactionid | client backend | running", waits * 0.75),
        item("woken_by_s", "client backend | asleep | Lock:transactionid | client backend | runnable", waits * 0.25),
    ];
    let mut histogram = SparseHistogram::new();
    [10_000, 20_000, 3_000_000].iter().for_each(|ns| histogram.record_ns(*ns));
    let label = Some("server: after wake-up".to_owned());
    let switches = vec![
        item("preempted_by", "postgres < pgbench", 50.0),
        item("preempted_by_off_cpu_s", "postgres < pgbench", 0.2),
    ];
    let mut switches = of("switches", switches);
    switches.histograms = vec![EvidenceHistogram { name: "run_queue_wait_ns".to_owned(), label, histogram }];
    let begin_unix_ns = n * 1_000_000_000;
    let window = Window { begin_unix_ns, end_unix_ns: begin_unix_ns + 1_000_000_000, length_ns: 1_000_000_000 };
    Trial {
        started_unix_ns: begin_unix_ns,
        ended_unix_ns: window.end_unix_ns,
        window: Some(window),
        evidence: vec![of("account", account), switches],
        ..Trial::default()
    }
}

fn state(windows: i64, has_colour: bool) -> State {
    let mut memory = Memory::new(64 << 20);
    memory.begin(watch());
    let mut state = State::new(has_colour);
    state.begin("the PostgreSQL server with postmaster 42", Vec::new());
    for n in 0..windows {
        memory.push(window(n));
    }
    state.window(&memory);
    state
}

fn press(state: &mut State, keys: &str) {
    for key in keys.chars() {
        assert_eq!(state.key(KeyCode::Char(key)), Act::None, "{key}");
    }
}

#[test]
fn a_usual_terminal_without_colour() {
    insta::assert_snapshot!(text(&state(30, false), 80, 24));
}

#[test]
fn a_wide_terminal() {
    insta::assert_snapshot!(text(&state(90, true), 160, 40));
}

#[test]
fn before_the_first_window_and_while_nothing_is_there() {
    let mut state = State::new(false);
    state.begin("process 42", vec!["account (it takes root)".to_owned()]);
    assert!(text(&state, 80, 24).contains("The first window has not ended yet."));
    state.gone("the server ended");
    let shown = text(&state, 80, 24);
    assert!(shown.contains("NOT WATCHED") && shown.contains("Not watched: the server ended."), "{shown}");
}

#[test]
fn a_small_terminal_says_what_it_takes() {
    let state = state(5, false);
    assert!(text(&state, 40, 10).contains("takes 60 by 16"));
    for (width, height) in [(1, 1), (60, 16), (61, 17), (500, 3), (3, 500), (300, 100)] {
        assert_eq!(text(&state, width, height).lines().count(), usize::from(height), "{width} by {height}");
    }
}

#[test]
fn keys_choose_lists_rows_and_more() {
    let mut state = state(30, false);
    let shows = |state: &State, what: &str| {
        let shown = text(state, 100, 30);
        assert!(shown.contains(what), "`{what}` is missing in\n{shown}");
    };
    shows(&state, "Changed: Lock:transactionid");
    assert_eq!(state.key(KeyCode::Enter), Act::None);
    shows(&state, " 75.0 %  client backend: running");
    assert_eq!(state.key(KeyCode::Esc), Act::None);
    press(&mut state, "2");
    shows(&state, "kind of process");
    press(&mut state, "5");
    shows(&state, "postgres < pgbench");
    press(&mut state, "6");
    shows(&state, "server: after wake-up");
    assert_eq!(state.key(KeyCode::Tab), Act::None);
    shows(&state, "there are no samples of stacks");
    press(&mut state, "1/sync");
    shows(&state, "only rows with: sync_");
    assert_eq!(state.key(KeyCode::Enter), Act::None);
    let rows = text(&state, 100, 30);
    let list = rows.split("wait event or system call").nth(1).unwrap_or_default();
    assert!(list.contains("IO:WALSync") && !list.contains("Lock:transactionid"), "{rows}");
    press(&mut state, "?");
    shows(&state, "this help");
    press(&mut state, "?s");
    shows(&state, "then without CPU*");
    assert_eq!(state.key(KeyCode::Char('r')), Act::Record);
    assert_eq!(state.key(KeyCode::Char('q')), Act::Quit);
}

#[test]
fn a_paused_screen_stays_as_it_is() {
    let mut memory = Memory::new(64 << 20);
    memory.begin(watch());
    let mut state = State::new(false);
    (0..5).for_each(|n| drop(memory.push(window(n))));
    state.window(&memory);
    press(&mut state, " ");
    let before = text(&state, 80, 24);
    assert!(before.contains("PAUSED"), "{before}");
    (5..40).for_each(|n| drop(memory.push(window(n))));
    state.window(&memory);
    assert_eq!(text(&state, 80, 24), before);
    press(&mut state, " ");
    state.window(&memory);
    assert_ne!(text(&state, 80, 24), before);
}
