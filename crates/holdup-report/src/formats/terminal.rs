//! The terminal: verdicts, tables, notes. Readable at 80 columns and without colour.

use crate::matrix::shorten;
use crate::packets::kept;
use crate::page::sections;
use crate::screen::Screen;
use crate::tables::{self, Group};
use crate::text::{self, clean, wrap};
use crate::{explain, forest, matrix};
use holdup_model::outcome::{ArmSummary, FindingVerdict};
use holdup_model::{Analysis, BundleData, Finding};

/// How wide the terminal is, and whether it shows colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Columns; lines are wrapped to it, but never narrower than 40.
    pub width: usize,
    /// True if ANSI colours may be used; nothing is said by colour alone.
    pub color: bool,
    /// Everything, instead of the answer on one screen of 24 lines.
    pub details: bool,
}

impl TerminalOptions {
    pub(crate) fn columns(&self) -> usize {
        self.width.clamp(40, 120)
    }

    fn bold(&self, text: &str) -> String {
        if self.color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// Each line of a text that ends its lines, in bold.
    pub(crate) fn bold_lines(&self, text: &str) -> String {
        text.lines().map(|line| format!("{}\n", self.bold(line))).collect()
    }
}

/// A report for a terminal: the answer on one screen, or all of it.
pub fn terminal(bundle: &BundleData, analysis: &Analysis, options: &TerminalOptions) -> String {
    let explanation = analysis.explanation.as_ref().filter(|_| sections::is_record(bundle));
    if !options.details {
        return match explanation {
            None if bundle.is_of_captures() => kept::screen(bundle, options),
            Some(explanation) => explain::explain_terminal(explanation, &bundle.plan.question, options),
            None => one_screen(Some(bundle), analysis, &head(bundle, options), options),
        };
    }
    let mut out = caution(analysis.caution.as_deref(), options);
    out.push_str(&head(bundle, options));
    match explanation {
        Some(explanation) => out.push_str(&explain::body(explanation, options)),
        // One imported capture is compared with nothing.
        None if bundle.head.is_imported() && analysis.findings.is_empty() => {}
        None => out.push_str(&body(analysis, options)),
    }
    out.push_str(&kept::terminal(bundle, options));
    out.push_str(&voids(bundle, options));
    out.push_str(&format!("\n{}\n", options.bold("Again, and as a page with charts")));
    out.push_str(&format!("  {}\n", clean(&text::shell(&bundle.head.command))));
    out.push_str(&format!("  {}\n", clean(&text::shell(&page_command(&bundle.head.command)))));
    out
}

/// The answer, the numbers behind it, warnings, and where the rest is. Without a bundle two sides were named.
pub(crate) fn one_screen(
    bundle: Option<&BundleData>,
    analysis: &Analysis,
    head: &str,
    options: &TerminalOptions,
) -> String {
    let width = options.columns();
    let mut screen = Screen::new(&end(bundle, analysis, width));
    screen.begin(&format!("{}{head}\n", caution(analysis.caution.as_deref(), options)));
    let groups = forest::groups(analysis);
    let effects: Vec<&Finding> = analysis.findings.iter().filter(|f| forest::is_shown(f)).collect();
    for finding in analysis.findings.iter().filter(|f| f.headline && !forest::is_shown(f)) {
        screen.offer(&options.bold_lines(&wrap(&finding.sentence, width, "▸ ", "  ")));
    }
    match effects.as_slice() {
        [] => {}
        [one] => screen.begin(&options.bold_lines(&wrap(&one.sentence, width, "", ""))),
        _ => screen.begin(&options.bold_lines(&wrap(&forest::summary(&groups), width, "", ""))),
    }
    let plot = forest::text(&groups, width);
    if plot.is_empty() {
        bundle.into_iter().for_each(|bundle| screen.begin(&levels(bundle, analysis)));
        bundle.into_iter().for_each(|bundle| screen.begin(&kept::terminal(bundle, options)));
    } else {
        screen.begin(&format!("\n{plot}"));
    }
    if let Some(n) = forest::blocks_needed(&groups).filter(|_| effects.len() > 1) {
        screen.offer(&wrap(
            &format!("About {} would decide the rest.", text::count(n as usize, "further block")),
            width,
            "",
            "",
        ));
    }
    if effects.len() > 1 {
        for line in time_of_effects(analysis) {
            screen.offer(&wrap(&line, width, "▸ ", "  "));
        }
    }
    for arm in analysis.explanation.iter().flat_map(|e| &e.arms).filter(|a| a.verdict == FindingVerdict::Supported) {
        screen.offer(&wrap(&format!("{}: {}", arm.label, arm.answer), width, "▸ ", "  "));
    }
    // Void trials are at the end of the screen, and what is not measured is in the details.
    let is_elsewhere = |f: &Finding| ["void-trials", "completeness"].contains(&f.analysis.as_str());
    let warnings = analysis.findings.iter().filter(|f| !f.headline && f.verdict == FindingVerdict::Supported);
    for warning in warnings.filter(|f| !is_elsewhere(f)) {
        screen.offer(&wrap(&warning.sentence, width, "! ", "  "));
    }
    screen.finish("finding")
}

/// Where the time of sessions went, of each effect that the plot shows: the last sentence of its finding.
fn time_of_effects(analysis: &Analysis) -> Vec<String> {
    let headlines = analysis.comparisons.iter().filter(|c| c.headline);
    headlines
        .filter_map(|c| Some(format!("{}: {}", matrix::head(&c.contrast), holdup_model::text::time_points(c)?)))
        .collect()
}

/// The primary metric of each arm, where there is nothing to compare.
fn levels(bundle: &BundleData, analysis: &Analysis) -> String {
    let row = |summary: &ArmSummary| {
        let arm = bundle.schedule.arms.iter().find(|a| a.id == summary.arm)?;
        let metric = summary.metrics.first()?;
        let unit = bundle.metrics.iter().find(|(w, m)| *w == arm.workload && m.id == metric.metric);
        let name = unit.map_or_else(|| clean(&metric.metric), |(_, m)| tables::metric(m));
        let value = match (&metric.mean, metric.value) {
            (Some(e), _) => {
                let [value, low, high] = [e.value, e.low, e.high].map(text::number);
                format!("{value} ({low} to {high})")
            }
            (None, Some(value)) => text::number(value),
            (None, None) => format!("– ({})", clean(metric.absent.as_deref().unwrap_or("not measured"))),
        };
        Some(vec![shorten(&clean(&arm.label), 30), name, value])
    };
    let rows: Vec<Vec<String>> = analysis.arms.iter().filter_map(row).collect();
    text::align(&rows, &[1, 2], "")
}

/// What passed, void trials, and where the rest is.
fn end(bundle: Option<&BundleData>, analysis: &Analysis, width: usize) -> String {
    let passed = analysis.findings.iter().filter(|f| !f.headline && f.verdict == FindingVerdict::Refuted).count();
    let mut short = Vec::new();
    if passed > 0 {
        short.push(format!("{} passed.", text::count(passed, "check")));
    }
    let void = bundle.map_or(0, |b| b.trials.iter().filter(|t| !t.is_done()).count());
    if void > 0 {
        let reason = bundle.map(sections::voids).and_then(|v| v.into_iter().next()).map(|(reason, _)| reason);
        short.push(format!("{} void: {}.", are(void, "trial"), shorten(&reason.unwrap_or_default(), 120)));
    }
    short.push("Tables, noise and every check: --details.".to_owned());
    let mut out = wrap(&short.join(" "), width, "", "");
    if let Some(bundle) = bundle {
        out.push_str(&wrap(
            &format!("As a page: {}", text::shell(&page_command(&bundle.head.command))),
            width,
            "",
            "  ",
        ));
    }
    out
}

fn are(n: usize, what: &str) -> String {
    format!("{} {}", text::count(n, what), if n == 1 { "is" } else { "are" })
}

/// The command for the page: with the bundle's name where the command line gave it one.
fn page_command(command: &[String]) -> Vec<String> {
    let mut words = command.iter();
    let mut out = None;
    while let Some(word) = words.next() {
        if word == "--" {
            break;
        }
        if word == "--out" || word == "-o" {
            out = words.next().cloned();
        } else if let Some(name) = word.strip_prefix("--out=") {
            out = Some(name.to_owned());
        }
    }
    let bundle = out.unwrap_or_else(|| "BUNDLE.holdup".to_owned());
    let page = format!("{}.html", bundle.strip_suffix(".holdup").unwrap_or(&bundle));
    ["holdup".to_owned(), "report".to_owned(), bundle, "--html".to_owned(), page].into()
}

/// The report at 80 columns without colour, as the registry of formats has it.
pub(crate) fn plain(bundle: &BundleData, analysis: &Analysis) -> String {
    terminal(bundle, analysis, &TerminalOptions { width: 80, color: false, details: true })
}

/// The findings of a history, which has no comparisons of arms.
pub(crate) fn findings_alone(findings: &[Finding], options: &TerminalOptions) -> String {
    let analysis = Analysis {
        caution: None,
        findings: findings.to_vec(),
        comparisons: Vec::new(),
        arms: Vec::new(),
        shifts: Vec::new(),
        explanation: None,
    };
    body(&analysis, options)
}

/// What stands the same in a report and in a comparison: verdicts, tables, notes.
pub(crate) fn body(analysis: &Analysis, options: &TerminalOptions) -> String {
    let mut out = String::new();
    for finding in analysis.findings.iter().filter(|f| f.headline) {
        out.push('\n');
        out.push_str(&headline(finding, options));
    }
    if !analysis.findings.iter().any(|f| f.headline) {
        out.push_str("\nNothing was compared, so there is no verdict.\n");
    }
    let groups = tables::groups(analysis);
    let mut names: Vec<&str> = groups.iter().map(|g| g.workload).collect();
    names.dedup();
    for name in names {
        let of: Vec<&Group<'_>> = groups.iter().filter(|g| g.workload == name).collect();
        out.push_str(&workload(name, &of, options));
    }
    if !groups.is_empty() {
        out.push('\n');
        out.push_str(&wrap(tables::LEGEND, options.columns(), "", ""));
    }
    out.push_str(&hows(analysis, options));
    out.push_str(&notes(analysis, options));
    out
}

/// The first line of every rendering of times that are not those of hardware; nothing where they are.
pub(crate) fn caution(sentence: Option<&str>, options: &TerminalOptions) -> String {
    sentence.map(|s| options.bold_lines(&wrap(s, options.columns(), "! ", "  "))).unwrap_or_default()
}

fn head(bundle: &BundleData, options: &TerminalOptions) -> String {
    let mut out = String::new();
    if options.details {
        out.push_str(&format!("{}\n", options.bold(&clean(&bundle.plan.name))));
    }
    out.push_str(&wrap(&bundle.plan.question, options.columns(), "", ""));
    if options.details || bundle.head.is_imported() {
        out.push_str(&wrap(&where_and_when(bundle), options.columns(), "", ""));
    } else {
        let cpus = text::count(bundle.head.machine.cpus as usize, "CPU");
        let line = format!("{}, {} with {cpus}", counts(bundle), clean(&bundle.head.target));
        out.push_str(&wrap(&line, options.columns(), "", ""));
    }
    for banner in sections::banners(bundle) {
        out.push_str(&wrap(&banner, options.columns(), "! ", "  "));
    }
    out
}

fn where_and_when(bundle: &BundleData) -> String {
    if bundle.head.is_imported() {
        return imported(bundle);
    }
    let machine = bundle.head.machine;
    format!(
        "{} on {}, {}, {} of memory; {}; seed {}; run {} by holdup {}",
        text::moment(bundle.head.created_unix_ns),
        bundle.head.target,
        text::count(machine.cpus as usize, "CPU"),
        memory(machine.memory_bytes),
        counts(bundle),
        bundle.plan.design.seed,
        bundle.head.run_id,
        bundle.head.holdup_version,
    )
}

/// `24 trials`, `20 trials that count, 4 void`.
pub(crate) fn counts(bundle: &BundleData) -> String {
    let done = bundle.trials.iter().filter(|t| t.is_done()).count();
    match bundle.trials.len() - done {
        0 => text::count(done, "trial"),
        void => format!("{} that count, {void} void", text::count(done, "trial")),
    }
}

/// What stands in the place of the machine and the trials where nothing was run.
pub(crate) fn imported(bundle: &BundleData) -> String {
    let head = &bundle.head;
    let what = match bundle.is_of_captures() {
        true => text::count(bundle.trials.len(), "capture"),
        false => {
            format!("{} of {}", text::count(bundle.trials.len(), "run"), text::count(bundle.schedule.arms.len(), "arm"))
        }
    };
    // Most results have no date.
    let first = match head.created_unix_ns {
        0 => String::new(),
        begin => format!(" The first begins {}.", text::moment(begin)),
    };
    format!(
        "Imported from {what} by holdup {}, which ran none of it.{first} Import {}.",
        head.holdup_version, head.run_id
    )
}

/// `4.0 GiB`.
pub(crate) fn memory(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1_u64 << 30) as f64)
}

fn headline(finding: &Finding, options: &TerminalOptions) -> String {
    let mut out = wrap(&finding.sentence, options.columns(), "▸ ", "  ");
    if options.color {
        let color = match finding.verdict {
            FindingVerdict::Supported => "1;33",
            FindingVerdict::Refuted => "1;32",
            FindingVerdict::Undecided | FindingVerdict::Skipped => "1",
        };
        out = out.lines().map(|line| format!("\u{1b}[{color}m{line}\u{1b}[0m\n")).collect();
    }
    for detail in finding.details.iter().filter(|d| !d.starts_with(HOW)) {
        out.push_str(&wrap(detail, options.columns(), "    ", "    "));
    }
    out
}

/// How a detail begins that says how a number was made; it stands once, below the tables.
const HOW: &str = "How: ";

fn hows(analysis: &Analysis, options: &TerminalOptions) -> String {
    let mut hows: Vec<&String> = Vec::new();
    for how in analysis.findings.iter().filter(|f| f.headline).flat_map(|f| &f.details) {
        if how.starts_with(HOW) && !hows.contains(&how) {
            hows.push(how);
        }
    }
    hows.into_iter().map(|how| wrap(how, options.columns(), "", "")).collect()
}

/// All that was compared in one workload.
fn workload(name: &str, groups: &[&Group<'_>], options: &TerminalOptions) -> String {
    let margin = groups.first().map_or(0.0, |g| g.margin);
    let head = format!("{} (margin ±{})", clean(name), text::percent(margin));
    let mut out = format!("\n{}\n", options.bold(wrap(&head, options.columns(), "", "").trim_end()));
    let matrices = matrix::matrices(groups, options.columns());
    for (i, matrix) in matrices.iter().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        out.push_str(&matrix.lines());
    }
    let mut none: Vec<String> = matrices.iter().flat_map(matrix::Matrix::without_data).collect();
    none.sort();
    none.dedup();
    if !none.is_empty() {
        out.push_str(&wrap(&format!("Nothing to compare on {}.", none.join(", ")), options.columns(), "  ", "  "));
    }
    if matrices.iter().any(matrix::Matrix::leaves_out) {
        let line = "Metrics in one row are over all cells; each cell stands in the page and the JSON.";
        out.push_str(&wrap(line, options.columns(), "  ", "  "));
    }
    out
}

fn notes(analysis: &Analysis, options: &TerminalOptions) -> String {
    let notes: Vec<&Finding> = analysis.findings.iter().filter(|f| !f.headline).collect();
    let mut out = String::new();
    let parts = [
        ("Warnings", "! ", FindingVerdict::Supported),
        ("Open", "~ ", FindingVerdict::Undecided),
        ("Checked", "✓ ", FindingVerdict::Refuted),
        ("Not checked", "– ", FindingVerdict::Skipped),
    ];
    for (title, mark, verdict) in parts {
        let of_kind: Vec<&&Finding> = notes.iter().filter(|f| f.verdict == verdict).collect();
        if of_kind.is_empty() {
            continue;
        }
        out.push_str(&format!("\n{}\n", options.bold(title)));
        for finding in of_kind {
            out.push_str(&wrap(&finding.sentence, options.columns(), mark, "  "));
            for detail in &finding.details {
                out.push_str(&wrap(detail, options.columns(), "    ", "    "));
            }
        }
    }
    out
}

/// Void trials with their reasons, the same reason once.
fn voids(bundle: &BundleData, options: &TerminalOptions) -> String {
    let reasons = sections::voids(bundle);
    if reasons.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}\n", options.bold("Void trials (they do not count)"));
    for (reason, seqs) in reasons {
        let shown: Vec<String> = seqs.iter().take(10).map(u32::to_string).collect();
        let more = if seqs.len() > 10 { format!(" and {} more", seqs.len() - 10) } else { String::new() };
        let noun = if seqs.len() == 1 { "trial" } else { "trials" };
        out.push_str(&wrap(&format!("{noun} {}{more}: {reason}", shown.join(", ")), options.columns(), "– ", "  "));
    }
    out
}
