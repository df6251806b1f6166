//! Screens as text, and what keys do.

#[path = "windows/mod.rs"]
mod windows;

use holdup_live::Memory;
use holdup_screen::{Act, KeyCode, State, text};
use windows::{watch, window, with_stacks};

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
    press(&mut state, "6");
    shows(&state, "postgres < pgbench");
    press(&mut state, "7");
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

#[test]
fn the_list_of_tasks_has_the_others_last_however_it_is_sorted() {
    let mut state = state(30, false);
    press(&mut state, "3");
    insta::assert_snapshot!(text(&state, 80, 24));
    for sorted_by in ["no CPU*", "largest wait*", "switches*", "task", "on CPU*"] {
        press(&mut state, "s");
        let shown = text(&state, 80, 24);
        assert!(shown.contains(sorted_by), "{shown}");
        let rows: Vec<&str> = shown.lines().skip_while(|line| !line.starts_with("task ")).skip(1).collect();
        let last = rows.iter().rposition(|row| row.contains('%')).unwrap_or_default();
        assert!(rows[last].starts_with("all 57 others together"), "{shown}");
        let first = if sorted_by == "largest wait*" { "4712 client" } else { "4711 client" };
        assert!(rows[0].starts_with(first) || sorted_by == "task", "by {sorted_by}: {shown}");
    }
    // They stay in sight where not all rows have room.
    let narrow = text(&state, 80, 16);
    assert!(narrow.contains("4711 client") && narrow.contains("all 57 others") && !narrow.contains("901 "), "{narrow}");
    assert_eq!(state.key(KeyCode::End), Act::None);
    assert!(text(&state, 80, 16).contains("901 archiver"), "{}", text(&state, 80, 16));
    assert_eq!(state.key(KeyCode::Home), Act::None);
    // A filter looks at what a task waits for as well.
    press(&mut state, "/transactionid");
    let shown = text(&state, 80, 24);
    assert!(shown.contains("4712 client backend") && !shown.contains("4711 client backend"), "{shown}");
}

#[test]
fn stacks_are_wanted_while_they_are_looked_at_and_some_windows_longer() {
    let mut memory = Memory::new(64 << 20);
    memory.begin(watch());
    (0..5).for_each(|n| drop(memory.push(window(n))));
    let mut state = State::new(false);
    state.window(&memory);
    press(&mut state, "1");
    assert_eq!(state.key(KeyCode::Enter), Act::None);
    assert!(!state.wants_stacks(), "who ends a wait needs no stacks");
    press(&mut state, "3");
    assert_eq!(state.key(KeyCode::Enter), Act::None);
    assert!(state.wants_stacks());
    let shown = text(&state, 80, 24);
    assert!(shown.contains("80.0 %  on a CPU") && shown.contains("are collected while this is open"), "{shown}");
    (5..40).for_each(|n| {
        drop(memory.push(with_stacks(window(n))));
        state.window(&memory);
    });
    assert!(state.wants_stacks() && text(&state, 80, 24).contains("WITH STACKS"));
    insta::assert_snapshot!("more_about_a_task", text(&state, 80, 24));
    assert_eq!(state.key(KeyCode::Esc), Act::None);
    for n in 0..10 {
        assert!(state.wants_stacks(), "after {n} windows");
        state.window(&memory);
    }
    assert!(!state.wants_stacks());
    // A query has those of sessions that execute nothing else.
    press(&mut state, "4");
    assert_eq!(state.key(KeyCode::Enter), Act::None);
    insta::assert_snapshot!("more_about_a_query", text(&state, 80, 24));
    assert_eq!(state.key(KeyCode::Esc), Act::None);
    assert_eq!(state.key(KeyCode::Down), Act::None);
    assert_eq!(state.key(KeyCode::Enter), Act::None);
    let shown = text(&state, 80, 24);
    assert!(shown.contains("execute other queries too within a window"), "{shown}");
}

#[test]
fn more_stays_about_its_row_when_rows_move() {
    let mut memory = Memory::new(64 << 20);
    memory.begin(watch());
    (0..10).for_each(|n| drop(memory.push(window(n))));
    let mut state = State::new(false);
    state.window(&memory);
    press(&mut state, "3s");
    assert_eq!(state.key(KeyCode::Enter), Act::None);
    let before = text(&state, 80, 24);
    assert!(before.contains("It leaves its CPU 1200.0 times a second, 200.0 of them"), "{before}");
    let mut other = window(10);
    for item in other.evidence.iter_mut().flat_map(|c| &mut c.items).filter(|i| i.name == "task_without_cpu_s") {
        item.label = item.label.as_ref().map(|label| label.replace("4711", "4712"));
    }
    drop(memory.push(other));
    (11..20).for_each(|n| drop(memory.push(window(n))));
    state.window(&memory);
    assert!(text(&state, 80, 24).contains("4711 client backend"));
}

#[test]
fn a_narrow_terminal_has_the_title_of_the_chosen_list() {
    let mut state = state(5, false);
    press(&mut state, "9");
    let shown = text(&state, 60, 20);
    assert!(shown.contains("8 9 Group") && shown.lines().all(|line| line.chars().count() <= 60), "{shown}");
}
