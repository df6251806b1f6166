//! Where the time goes, as a reader sees it: on a terminal, in Markdown and on the page.

use crate::common;
use crate::made;
use common::{data, is_one_screen, section};
use holdup_analysis::{analyse, explain};
use holdup_model::BundleData;
use holdup_report::{TerminalOptions, explain_markdown, explain_terminal, html, json, markdown, terminal};
use made::story::{Story, bundle};
use serde_json::Value;

/// Sessions that wait for a row for most of their time, and for other work for some of it.
fn locked() -> Story {
    let story = Story::quiet().with_account().session("asleep | Lock:transactionid", 4.0);
    let story = story.session("behind other tasks | ", 0.4).session("asleep | IPC:MessageQueuePutMessage", 0.2);
    let behind = |name: &str| format!("client backend | behind other tasks | {name}");
    let names = ["cc1", "rustc", "ld", "make", "cargo", "sh", "sed"].into_iter().zip(1..);
    names.fold(story, |story, (name, n)| story.set("account", "behind_s", &behind(name), 0.2 / f64::from(n)))
}

/// The same without the lock.
fn freed() -> Story {
    Story::quiet().with_account().session("throttled | ", 0.2)
}

fn two() -> BundleData {
    bundle(&[("fillfactor=100", &locked()), ("fillfactor=50", &freed())])
}

/// From the words on to the next empty line.
fn from(text: &str, words: &str, paragraphs: usize) -> String {
    let (_, rest) = text.split_once(words).unwrap_or_else(|| panic!("{words} is not in {text}"));
    let parts: Vec<&str> = rest.split("\n\n").take(paragraphs).collect();
    format!("{words}{}", parts.join("\n\n"))
}

#[test]
fn the_table_of_a_terminal_reads_well() {
    let options = TerminalOptions { width: 80, color: false, details: true };
    let text = explain_terminal(&explain(&locked().bundle()), "observed.holdup", &options);
    let table = from(&text, "Where the time goes", 1);
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{table}");
    insta::assert_snapshot!(table);
    let screen = TerminalOptions { details: false, ..options };
    let short = explain_terminal(&explain(&locked().bundle()), "observed.holdup", &screen);
    assert!(!short.contains("Where the time goes"), "the default is one screen");
}

#[test]
fn the_table_in_markdown_reads_well() {
    insta::assert_snapshot!(from(&explain_markdown(&explain(&locked().bundle())), "Where the time goes", 3));
}

fn lines(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_section_of_the_page_reads_well() {
    for (name, bundle) in [("one arm", locked().bundle()), ("two arms", two())] {
        let page = html(&bundle, &analyse(&bundle));
        insta::assert_snapshot!(format!("page of {name}"), lines(&section(&page, "time")));
    }
}

#[test]
fn the_charts_have_the_same_states_in_the_same_colours() {
    let page = html(&two(), &analyse(&two()));
    let data = data(&page);
    let mut colours: Vec<(String, String)> = Vec::new();
    for id in ["account-0", "account-1"] {
        assert!(page.contains(&format!("data-chart=\"{id}\"")), "{id}");
        let chart = &data["charts"][id];
        let windows = chart["windows"].as_array().expect("windows").len();
        for state in chart["states"].as_array().expect("states") {
            assert_eq!(state["sessions"].as_array().map(Vec::len), Some(windows));
            let colour = format!("{} {}", state["class"], state["place"]);
            colours.push((state["name"].to_string(), colour));
        }
    }
    for (name, colour) in &colours {
        let is_same = |(n, c): &(String, String)| (n == name) == (c == colour);
        assert!(colours.iter().all(is_same), "{name}: {colours:?}");
    }
}

#[test]
fn without_an_account_there_is_no_section() {
    let bundle = Story::quiet().bundle();
    let page = html(&bundle, &analyse(&bundle));
    assert!(!page.contains("id=\"time\"") && !page.contains("account-0"));
    assert!(!explain_markdown(&explain(&bundle)).contains("Where the time goes"));
}

#[test]
fn sessions_that_are_not_at_work_are_no_table() {
    let mut story = Story::quiet().with_account();
    for account in story.windows.iter_mut().flatten().filter(|c| c.collector == "account") {
        account.items.retain(|i| i.label.as_deref().is_some_and(|label| label.ends_with("Client:ClientRead")));
    }
    let bundle = story.bundle();
    let page = html(&bundle, &analyse(&bundle));
    assert!(section(&page, "time").contains("No sessions were at work."));
    assert_eq!(data(&page)["charts"]["account-0"], Value::Null);
}

#[test]
fn foreign_names_cannot_leave_their_cell() {
    let evil = "x\u{1b}[31m</td><script>|";
    let story = locked().session(&format!("asleep | Extension:{evil}"), 1.0);
    let story = story.set("account", "behind_s", &format!("client backend | behind other tasks | {evil}"), 0.5);
    let bundle = story.bundle();
    let page = html(&bundle, &analyse(&bundle));
    assert!(!page.contains("</td><script>|"), "it is text");
    let options = TerminalOptions { width: 80, color: false, details: true };
    assert!(!explain_terminal(&explain(&bundle), "a", &options).contains('\u{1b}'));
    let markdown = explain_markdown(&explain(&bundle));
    let rows = markdown.lines().filter(|l| l.starts_with('|'));
    for row in rows {
        assert_eq!(row.replace("\\|", "").matches('|').count(), 6, "{row}");
    }
}

#[test]
fn an_effect_says_everywhere_which_states_it_is_of() {
    let bundle = made::with_account(|_| 0.7);
    let analysis = analyse(&bundle);
    let screen = terminal(&bundle, &analysis, &TerminalOptions { width: 80, color: false, details: false });
    is_one_screen("an effect with its account", &screen);
    insta::assert_snapshot!("effect_with_account", screen);
    let words = "Of the 30 points lost, 30 (";
    assert!(markdown(&bundle, &analysis).contains(words) && html(&bundle, &analysis).contains(words));
    let document: Value = serde_json::from_str(&json(&bundle, &analysis)).expect("JSON");
    let comparisons = document["comparisons"].as_array().expect("a list");
    let of = |c: &&Value| c["time_points"].is_object();
    let points: Vec<&Value> = comparisons.iter().filter(of).map(|c| &c["time_points"]).collect();
    assert_eq!((points.len(), &points[0]["change"]), (1, &Value::from("lost")));
}
