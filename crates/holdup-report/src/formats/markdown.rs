//! Markdown for a ticket or a mail.

use crate::tables;
use crate::text;
use holdup_model::foreign::markdown as escape;
use holdup_model::outcome::FindingVerdict;
use holdup_model::{Analysis, BundleData, TrialStatus};

/// The report in Markdown with tables (GitHub's flavour).
pub fn markdown(bundle: &BundleData, analysis: &Analysis) -> String {
    let mut out = analysis.caution.as_ref().map(|c| format!("**{}**\n\n", escape(c))).unwrap_or_default();
    out.push_str(&format!("# {}\n\n{}\n\n", escape(&bundle.plan.name), escape(&bundle.plan.question)));
    for banner in crate::page::sections::banners(bundle) {
        out.push_str(&format!("**{}**\n\n", escape(&banner)));
    }
    for finding in analysis.findings.iter().filter(|f| f.headline) {
        out.push_str(&format!("- **{}**\n", escape(&finding.sentence)));
        for detail in &finding.details {
            out.push_str(&format!("  - {}\n", escape(detail)));
        }
    }
    if bundle.head.is_imported() {
        out.push_str(&format!("\n{}\n", escape(&super::terminal::imported(bundle))));
    } else if !analysis.findings.iter().any(|f| f.headline) {
        out.push_str("Nothing was compared, so there is no verdict.\n");
    }
    for group in tables::groups(analysis) {
        let (a, b) = tables::sides(group.contrast);
        out.push_str(&format!("\n## {}: {}\n\n", escape(group.workload), escape(&tables::contrast(group.contrast))));
        out.push_str(&format!("| metric | cell | {} | {} | ratio | answer |\n", escape(&a), escape(&b)));
        out.push_str("|---|---|--:|--:|:--|---|\n");
        for (metric, rows) in &group.metrics {
            for c in rows {
                out.push_str(&format!(
                    "| {} | {} | {} | {} | {} | {} {} |\n",
                    escape(&tables::metric(metric)),
                    escape(&tables::cell(c)),
                    tables::mean(c.baseline.as_ref()),
                    tables::mean(c.level.as_ref()),
                    tables::ratio(c),
                    // A tilde alone could open struck-out text.
                    tables::sign(&c.verdict).replace('~', "\\~"),
                    tables::word(&c.verdict),
                ));
            }
        }
        let floor = group.noise_floor.map_or("not known".to_owned(), |f| format!("±{}", text::percent(f)));
        out.push_str(&format!("\nNoise floor {floor}, margin ±{}.\n", text::percent(group.margin)));
    }
    if let Some(explanation) = &analysis.explanation {
        out.push_str(&format!("\n{}", crate::explain::explain_markdown(explanation)));
    }
    out.push_str(&crate::packets::kept::markdown(bundle));
    out.push_str("\n## Notes\n\n");
    for finding in analysis.findings.iter().filter(|f| !f.headline) {
        out.push_str(&format!("- {}: {}\n", kind(finding.verdict), escape(&finding.sentence)));
        for detail in &finding.details {
            out.push_str(&format!("  - {}\n", escape(detail)));
        }
    }
    for trial in &bundle.trials {
        if let TrialStatus::Void { reason } = &trial.status {
            out.push_str(&format!("- void: trial {}: {}\n", trial.seq, escape(reason)));
        }
    }
    let command = text::clean(&text::shell(&bundle.head.command));
    out.push_str(&format!("\n## Again\n\n    {command}\n"));
    out
}

/// What kind of note a verdict makes of a finding.
pub(crate) fn kind(verdict: FindingVerdict) -> &'static str {
    match verdict {
        FindingVerdict::Supported => "warning",
        FindingVerdict::Undecided => "open",
        FindingVerdict::Refuted => "checked",
        FindingVerdict::Skipped => "not checked",
    }
}
