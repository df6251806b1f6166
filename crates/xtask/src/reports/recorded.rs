//! Numbers of records against the bundles that they are computed from.

use anyhow::{Context as _, Result};
use holdup_catalogue::reports;
use holdup_model::Analysis;
use holdup_model::outcome::Contrast;
use holdup_model::published::RecordedRatio;
use std::collections::BTreeMap;
use std::path::Path;

/// The most bytes of a bundle in the repository.
const MOST_BYTES: u64 = 100 << 10;

/// Ratios that are not those of their bundles. `unpacked` is a folder for the bundles as they were written.
///
/// # Errors
/// When a bundle is missing, too large or cannot be read.
pub fn not_of_their_bundles(root: &Path, unpacked: &Path) -> Result<Vec<String>> {
    let mut analyses: BTreeMap<&str, Analysis> = BTreeMap::new();
    let mut wrong = Vec::new();
    for claim in reports::all().iter().flat_map(|report| &report.claims) {
        for recorded in claim.evidence.iter().filter_map(|evidence| evidence.recorded.as_ref()) {
            let name = recorded.bundle.as_str();
            if !analyses.contains_key(name) {
                analyses.insert(name, analysis(root, unpacked, name).with_context(|| format!("the bundle {name}"))?);
            }
            let found = ratio(&analyses[name], recorded);
            let is_same = |found: [f64; 3]| found.iter().zip(recorded.ratio).all(|(a, b)| (a - b).abs() <= 0.0005);
            if !found.is_some_and(is_same) {
                wrong.push(format!("claim {}: {:?} in the record, {found:?} in {name}", claim.id, recorded.ratio));
            }
        }
    }
    Ok(wrong)
}

fn analysis(root: &Path, unpacked: &Path, name: &str) -> Result<Analysis> {
    let packed = root.join(format!("reports/bundles/{name}.holdup.gz"));
    let bytes = std::fs::metadata(&packed)?.len();
    anyhow::ensure!(bytes <= MOST_BYTES, "{bytes} bytes, at most {MOST_BYTES}");
    let path = unpacked.join(format!("{name}.holdup"));
    let mut reader = flate2::read::GzDecoder::new(std::fs::File::open(packed)?);
    std::io::copy(&mut reader, &mut std::fs::File::create(&path)?)?;
    let bundle = holdup_bundle::read(&path).map_err(|problem| anyhow::anyhow!("{problem}"))?;
    Ok(holdup_analysis::analyse(&bundle))
}

/// The ratio and its interval; over all cells where the record names none.
fn ratio(analysis: &Analysis, recorded: &RecordedRatio) -> Option<[f64; 3]> {
    let found = analysis.comparisons.iter().find(|c| {
        matches!(&c.contrast, Contrast::Factor { factor, level, .. } if *factor == recorded.factor && *level == recorded.level)
            && (c.workload == recorded.workload, &c.metric.id, &c.cell) == (true, &recorded.metric, &recorded.at)
    })?;
    found.ratio.as_ref().map(|ratio| [ratio.value, ratio.low, ratio.high])
}
