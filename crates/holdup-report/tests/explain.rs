//! What a reader of an explanation sees, as snapshots and on the page.

use crate::common;
use crate::made::story;
use holdup_analysis::{analyse, explain};
use holdup_model::BundleData;
use holdup_report::{TerminalOptions, explain_markdown, explain_terminal, html, markdown};
use story::{Story, bundle};

const PLAIN: TerminalOptions = TerminalOptions { width: 100, color: false, details: true };

fn terminal(bundle: &BundleData) -> String {
    explain_terminal(&explain(bundle), "observed.holdup", &PLAIN)
}

#[test]
fn preempted_holders_read_well() {
    insta::assert_snapshot!(terminal(&Story::quiet().preempted_holder().bundle()));
}

/// The default of `explain` and `record` is one screen.
#[test]
fn the_answer_fits_one_screen() {
    let screen = TerminalOptions { width: 80, color: false, details: false };
    let (quiet, held) = (Story::quiet(), Story::quiet().preempted_holder());
    let stories = [
        ("quiet", bundle(&[("observed", &quiet)])),
        ("preempted holder", held.bundle()),
        ("everything", Story::quiet().preempted_holder().fault_under_lock().throttling().slow_disk().bundle()),
        ("oversubscribed", Story::quiet().oversubscription().bundle()),
        ("little known", Story::quiet().slow_disk().without("critical-sections").without("kworkers").bundle()),
        ("two arms", bundle(&[("huge_pages=off", &held), ("huge_pages=on", &quiet)])),
        ("nothing", BundleData { trials: Vec::new(), ..held.bundle() }),
    ];
    for (name, bundle) in &stories {
        let text = explain_terminal(&explain(bundle), "observed.holdup", &screen);
        common::is_one_screen(name, &text);
        common::is_one_screen(name, &holdup_report::terminal(bundle, &analyse(bundle), &screen));
        insta::assert_snapshot!(format!("screen of {name}"), text);
    }
}

#[test]
fn what_is_not_known_reads_well() {
    let story = Story::quiet().slow_disk().without("critical-sections").absent("faults", "BPF needs CAP_BPF");
    let mut bundle = story.without("kworkers").bundle();
    bundle.head.emulated = Some("emulated by QEMU TCG".into());
    insta::assert_snapshot!(terminal(&bundle));
}

#[test]
fn two_arms_read_well() {
    let (held, quiet) = (Story::quiet().fault_under_lock(), Story::quiet());
    insta::assert_snapshot!(terminal(&bundle(&[("huge_pages=off", &held), ("huge_pages=on", &quiet)])));
}

#[test]
fn markdown_reads_well() {
    insta::assert_snapshot!(explain_markdown(&explain(&Story::quiet().throttling().bundle())));
}

#[test]
fn the_page_and_the_markdown_have_the_section_where_there_is_evidence() {
    let result = Story::quiet().preempted_holder().bundle();
    let page = html(&result, &analyse(&result));
    for words in
        ["Causes of delay", "Lock-holder preemption: the watched tasks spend", "time slice extension", "#trial-9"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert!(markdown(&result, &analyse(&result)).contains("## Causes of delay"));
    let mut silent = result;
    silent.plan.workloads[0].kind = "pgbench".into();
    silent.trials.iter_mut().for_each(|t| t.evidence.retain(|c| c.collector == "cpu"));
    let analysis = analyse(&silent);
    assert!(analysis.explanation.is_none());
    assert!(!html(&silent, &analysis).contains("Causes of delay"));
}

#[test]
fn foreign_names_cannot_leave_their_line() {
    let lines = |text: &str| text.lines().count();
    let evil = "x\u{1b}[31m\n▸ all is well <script>";
    let label = format!("StrategyGetBuffer < {evil}");
    let story = Story::quiet().preempted_holder().set("critical-sections", "holder_preempted_by", &label, 9_000.0);
    let bundle = story.bundle();
    let text = terminal(&bundle);
    assert!(
        !text.contains('\u{1b}') && lines(&text) < lines(&terminal(&Story::quiet().preempted_holder().bundle())) + 3
    );
    let page = html(&bundle, &analyse(&bundle));
    assert!(!page.contains("well <script>"));
}

#[test]
fn every_line_fits() {
    let wide = terminal(&Story::quiet().preempted_holder().fault_under_lock().throttling().bundle());
    for line in wide.lines().filter(|l| l.chars().count() > 100) {
        assert!(!line.trim().contains(' '), "{line}");
    }
}
