//! The terminal: verdicts, tables, notes. Readable at 80 columns and without colour.

use crate::tables::{self, Group};
use crate::text::{self, clean, wrap};
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Analysis, BundleData, Comparison, Finding, TrialStatus, Verdict};

/// How wide the terminal is, and whether it shows colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalOptions {
    /// Columns; lines are wrapped to it, but never narrower than 40.
    pub width: usize,
    /// Whether ANSI colours may be used; nothing is said by colour alone.
    pub color: bool,
}

impl TerminalOptions {
    fn columns(&self) -> usize {
        self.width.clamp(40, 120)
    }

    fn bold(&self, text: &str) -> String {
        if self.color { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// A whole report for a terminal.
pub fn terminal(bundle: &BundleData, analysis: &Analysis, options: &TerminalOptions) -> String {
    let mut out = head(bundle, options);
    out.push_str(&body(analysis, options));
    out.push_str(&voids(bundle, options));
    out.push_str(&format!("\n{}\n", options.bold("Again")));
    out.push_str(&format!("  {}\n", clean(&text::shell(&bundle.head.command))));
    out
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
    for group in &groups {
        out.push_str(&table(group, options));
    }
    if !groups.is_empty() {
        out.push('\n');
        out.push_str(&wrap(tables::LEGEND, options.columns(), "", ""));
    }
    out.push_str(&notes(analysis, options));
    out
}

fn head(bundle: &BundleData, options: &TerminalOptions) -> String {
    let mut out = format!("{}\n", options.bold(&clean(&bundle.plan.name)));
    out.push_str(&wrap(&bundle.plan.question, options.columns(), "", ""));
    let machine = bundle.head.machine;
    let done = bundle.trials.iter().filter(|t| t.is_done()).count();
    let line = format!(
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
    );
    out.push_str(&wrap(&line, options.columns(), "", ""));
    if let Some(what) = &bundle.head.emulated {
        out.push_str(&wrap(&format!("These times are not those of hardware: {what}."), options.columns(), "! ", "  "));
    }
    out
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
    for detail in &finding.details {
        out.push_str(&wrap(detail, options.columns(), "    ", "    "));
    }
    out
}

fn table(group: &Group<'_>, options: &TerminalOptions) -> String {
    let title = format!("{}: {}", clean(group.workload), tables::contrast(group.contrast));
    let mut out = format!("\n{}\n", options.bold(wrap(&title, options.columns(), "", "").trim_end()));
    let (baseline, level) = short_sides(group);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut cells_left_out = false;
    for (i, (metric, comparisons)) in group.metrics.iter().enumerate() {
        let mut head = vec![tables::metric(metric)];
        if i == 0 {
            head.extend([baseline.clone(), level.clone(), "ratio".to_owned(), String::new()]);
        } else {
            head.extend([String::new(), String::new(), String::new(), String::new()]);
        }
        // The cells of the primary metric are shown; of the others only the row for all of them.
        let shown: Vec<&&Comparison> =
            comparisons.iter().filter(|c| c.primary || c.pooled || comparisons.len() == 1).collect();
        cells_left_out |= shown.len() < comparisons.len();
        if let [only] = shown.as_slice() {
            head.truncate(1);
            if i == 0 {
                rows.push(vec![String::new(), baseline.clone(), level.clone(), "ratio".to_owned(), String::new()]);
            }
            rows.push(row(head.remove(0), only));
            continue;
        }
        rows.push(head);
        rows.extend(shown.into_iter().map(|c| row(format!("  {}", tables::cell(c)), c)));
    }
    out.push_str(&text::align(&rows, &[3], "  "));
    let floor = match group.noise_floor {
        Some(floor) => format!("noise floor ±{}", text::percent(floor)),
        None => "noise floor not known".to_owned(),
    };
    let mut foot = format!("{floor}, margin ±{}", text::percent(group.margin));
    if cells_left_out {
        foot.push_str("; other metrics are pooled: see page or JSON for cells");
    }
    out.push_str(&wrap(&foot, options.columns(), "  ", "  "));
    out
}

/// Names that are too long for a column are numbered there; the title holds them whole.
fn short_sides(group: &Group<'_>) -> (String, String) {
    let (a, b) = tables::sides(group.contrast);
    let fits = |s: &str| text::columns(s) <= 12;
    if fits(&a) && fits(&b) { (a, b) } else { ("baseline".to_owned(), "level".to_owned()) }
}

fn row(name: String, c: &Comparison) -> Vec<String> {
    let name = if text::columns(&name) > 30 { shorten(&name, 30) } else { name };
    vec![
        name,
        tables::mean(c.baseline.as_ref()),
        tables::mean(c.level.as_ref()),
        tables::ratio(c),
        match &c.verdict {
            Verdict::Undecided { .. } if c.ratio.is_none() => "~ no data".to_owned(),
            verdict => tables::sign(verdict).to_owned(),
        },
    ]
}

fn shorten(text: &str, columns: usize) -> String {
    let mut short: String = text.chars().take(columns - 1).collect();
    short.push('…');
    short
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
