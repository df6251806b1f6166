//! The page of a search and its sentences.

use holdup_model::search::{Begin, Candidate, Entry, FORMAT, LookFor, Measured, Moment};
use holdup_model::{Direction, foreign};
use holdup_report::{search_html, search_undecided};

const N: usize = 20;
const CULPRIT: usize = 12;

fn candidate(i: usize) -> Candidate {
    let name = if i == 0 { "<b>&".to_owned() } else { format!("{i:012x}{:028x}", 0) };
    Candidate { name, about: format!("change <i>{i}</i>"), date: String::new() }
}

fn begin() -> Begin {
    Begin {
        format: FORMAT,
        command: vec!["holdup".into(), "bisect".into(), "a b".into()],
        folder: "/".into(),
        began_unix_ns: 1_700_000_000_000_000_000,
        plan: "name = \"<x>\"\n".into(),
        metric: "user_s".into(),
        unit: "s".into(),
        better: Direction::Lower,
        look_for: LookFor::Worse,
        least: 0.01,
        key: "directory".into(),
        candidates: (0..N).map(candidate).collect(),
    }
}

fn measured() -> Vec<Measured> {
    let one = |i: usize| Measured {
        candidate: candidate(i),
        values: if i.is_multiple_of(3) { vec![if i < CULPRIT { 1.0 } else { 1.06 }; 3] } else { Vec::new() },
        skipped: (i == 10).then(|| "it does <not> compile".to_owned()),
        probability: if i == CULPRIT { 0.9 } else { 0.005 },
    };
    (0..N).map(one).collect()
}

fn page(entries: &[Entry], moments: &[Moment]) -> String {
    let levels: Vec<f64> = (0..N).map(|i| if i < CULPRIT { 1.0 } else { 1.06 }).collect();
    search_html(&begin(), entries, &measured(), moments, &levels)
}

#[test]
fn the_page_of_a_search_begins_with_its_answer_and_loads_nothing() {
    let answer = "abc raises user_s by 5.9 % (1.9–10.1 %), which is\n  worse.\n  measured against its parent in 21\n    fresh blocks\n  a second line\n";
    let moment = |trials| Moment { trials, probabilities: vec![1.0 / N as f64; N], no_change: 0.0 };
    let answered = Entry::Answer { sentence: answer.to_owned(), code: 1 };
    let html = page(&[answered], &[moment(6), moment(7)]);
    assert!(html.contains("<h1>abc raises user_s by 5.9 % (1.9–10.1 %), which is worse.</h1>"), "{html}");
    assert!(html.contains("<p>measured against its parent in 21 fresh blocks</p>\n<p>a second line</p>"), "{html}");
    assert!(!html.contains("<script") && !html.contains("http://") && html.contains("script-src &#39;none&#39;"));
    for foreign in ["<b>", "<i>", "<not>", "<x>"] {
        assert!(!html.contains(foreign), "{foreign}");
    }
    assert_eq!(html.matches("class=\"point\"").count(), 7 * 3);
    assert_eq!(html.matches("class=\"cell\"").count(), 2 * N);
    assert_eq!(html, foreign::lines(&html));
}

#[test]
fn a_page_without_an_answer_says_where_the_search_stands() {
    let html = page(&[], &[]);
    assert!(html.contains("<h1>Under way: user_s after 21 trials; likeliest 00000000000c (90 %)"), "{html}");
}

#[test]
fn two_changes_are_said_with_what_searches_them() {
    let (begin, other) = (begin(), ["--range a..b".to_owned(), "--range c..d".to_owned()]);
    let said = search_undecided(&begin, "400 trials did not decide it", &[], &other);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("two changes are likelier than one: search again with --range a..b, and --range c..d"),
        "{said}"
    );
}
