//! The terminal: verdicts, tables, notes. Readable at 80 columns and without colour.

use crate::matrix;
use crate::packets::kept;
use crate::page::sections;
use crate::tables::{self, Group};
use crate::text::{self, clean, wrap};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Analysis, BundleData, Finding, TrialStatus};

/// How wide the terminal is, and whether it shows colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Columns; lines are wrapped to it, but never narrower than 40.
    pub width: usize,
    /// Whether ANSI colours may be used; nothing is said by colour alone.
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

/// A whole report for a terminal.
pub fn terminal(bundle: &BundleData, analysis: &Analysis, options: &TerminalOptions) -> String {
    let mut out = caution(analysis.caution.as_deref(), options);
    out.push_str(&head(bundle, options));
    // One imported capture is compared with nothing, and nobody asked for that.
    if !bundle.head.is_imported() || !analysis.findings.is_empty() {
        out.push_str(&body(analysis, options));
    }
    out.push_str(&kept::terminal(bundle, options));
    out.push_str(&voids(bundle, options));
    out.push_str(&format!("\n{}\n", options.bold("Again, and as a page with charts")));
    out.push_str(&format!("  {}\n", clean(&text::shell(&bundle.head.command))));
    out.push_str(&format!("  {}\n", clean(&text::shell(&page_command(&bundle.head.command)))));
    out
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
    let mut out = format!("{}\n", options.bold(&clean(&bundle.plan.name)));
    out.push_str(&wrap(&bundle.plan.question, options.columns(), "", ""));
    out.push_str(&wrap(&where_and_when(bundle), options.columns(), "", ""));
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
    let done = bundle.trials.iter().filter(|t| t.is_done()).count();
    format!(
        "{} on {}, {}, {} of memory; {}; seed {}; run {} by holdup {}",
        text::moment(bundle.head.created_unix_ns),
        bundle.head.target,
        text::count(machine.cpus as usize, "CPU"),
        memory(machine.memory_bytes),
        match bundle.trials.len() - done {
            0 => text::count(done, "trial"),
            void => format!("{} that count, {void} void", text::count(done, "trial")),
        },
        bundle.plan.design.seed,
        bundle.head.run_id,
        bundle.head.holdup_version,
    )
}

/// What stands in the place of the machine and the trials where nothing was run.
pub(crate) fn imported(bundle: &BundleData) -> String {
    format!(
        "Imported from {} by holdup {}, and not run: nothing is known of a host. The first begins {}. Import {}.",
        text::count(bundle.trials.len(), "capture"),
        bundle.head.holdup_version,
        text::moment(bundle.head.created_unix_ns),
        bundle.head.run_id,
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

/// How a detail begins that says how a number was made; it is told once, below the tables.
const HOW: &str = "How: ";

fn hows(analysis: &Analysis, options: &TerminalOptions) -> String {
    let mut hows: Vec<&String> = analysis
        .findings
        .iter()
        .filter(|f| f.headline)
        .flat_map(|f| &f.details)
        .filter(|d| d.starts_with(HOW))
        .collect();
    let mut seen: Vec<&String> = Vec::new();
    hows.retain(|how| {
        let new = !seen.contains(how);
        seen.push(how);
        new
    });
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
    let mut reasons: Vec<(&str, Vec<u32>)> = Vec::new();
    for trial in &bundle.trials {
        let TrialStatus::Void { reason } = &trial.status else { continue };
        match reasons.iter_mut().find(|(r, _)| r == reason) {
            Some((_, seqs)) => seqs.push(trial.seq),
            None => reasons.push((reason, vec![trial.seq])),
        }
    }
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
