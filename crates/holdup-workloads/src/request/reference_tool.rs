//! schbench in the place of this engine.

use super::results::METRICS;
use crate::external::reference_tool::{ReferenceTools, carry};
use holdup_model::{Parameters, Problem};

/// schbench's operations are multiplications of matrices, whose length cannot be set: only `operations` can.
pub(crate) const REFERENCE_TOOLS: ReferenceTools =
    ReferenceTools { metrics: METRICS, translate, derive: |_| Vec::new() };

fn translate(_tool: &str, own: &Parameters) -> Result<Parameters, Problem> {
    let mut theirs = carry(own, &[("messengers", "messengers"), ("workers", "threads"), ("placement", "placement")]);
    let mut arguments = vec!["-n".to_owned(), own.integer("operations")?.unwrap_or(5).to_string()];
    arguments.extend(["-s".to_owned(), (own.integer("think")?.unwrap_or(0) / 1_000).to_string()]);
    if own.boolean("lock")? == Some(false) {
        arguments.push("-L".to_owned());
    }
    let quoted: Vec<String> = arguments.iter().map(|word| format!("\"{word}\"")).collect();
    theirs.set("arguments", format!("[{}]", quoted.join(",")).as_str());
    // 0 is a closed loop with both.
    if let Some(rate) = own.float("rate")?.filter(|rate| *rate > 0.0) {
        theirs.set("rate", rate.round() as i64);
    }
    Ok(theirs)
}
