//! A bundle on its way into a store.

use holdup_files::DraftFile;
use holdup_history::{keep, trials};
use holdup_model::kept::{Kept, KeptRun, KeptTrial};
use holdup_model::{MemoryBudget, Problem};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The largest bundle that is kept, bytes.
pub(crate) const MOST: u64 = 2 << 30;

/// A whole bundle with what is kept beside it.
#[derive(Debug, Clone)]
pub struct Incoming {
    /// What is kept beside it.
    pub kept: Kept,
    /// The metrics of each workload that the values of trials are of.
    pub metrics: BTreeMap<String, Vec<String>>,
    pub trials: Vec<KeptTrial>,
    /// The file.
    pub bytes: Vec<u8>,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
}

impl Incoming {
    /// Reads a bundle. `host` takes the place of the host's name that the bundle has.
    ///
    /// # Errors
    /// When it is no bundle, damaged, or written to at the same time.
    pub fn read(path: &Path, host: Option<&str>) -> Result<Self, Problem> {
        let wrong = |why: String| Problem::host(format!("bundle {}", path.display()), why);
        // Reading it first rolls back what a crash left half written, so that the bytes are those of a whole bundle.
        let data = holdup_bundle::read_numbers(path, &MemoryBudget::default())?;
        // Of another user's bundle only a copy was rolled back.
        if holdup_bundle::has_journal(path) {
            return Err(wrong("a crash left it half written".to_owned())
                .hint("its owner mends it with holdup verify FILE; push it then"));
        }
        let state = || path.metadata().map(|m| (m.len(), m.mtime(), m.mtime_nsec(), m.ino()));
        let before = state().map_err(|e| wrong(e.to_string()))?;
        let bytes = holdup_files::read_input(path, MOST).map_err(|e| wrong(e.to_string()))?;
        // While it is written, a link of its name leads to it.
        let real = path.canonicalize().map_err(|e| wrong(e.to_string()))?;
        if state().ok() != Some(before) || DraftFile::has(&real) && data.ending.is_none() {
            return Err(wrong("it is being written".to_owned()).hint("push it when its run has ended"));
        }
        let mut kept = keep(&data);
        if !is_file_name(&kept.run.run_id) {
            return Err(wrong(format!("its run id {:?} is none that holdup gives", kept.run.run_id))
                .hint("holdup gives ids of letters and digits: see who made this bundle"));
        }
        if let Some(host) = host {
            kept.run.host = Some(host.to_owned());
        }
        let (metrics, trials) = trials(&data);
        let sha256 = hex(&bytes);
        Ok(Incoming { kept, metrics, trials, bytes, sha256 })
    }
}

/// True if a run's id can name its file in a folder, and the store lists that.
fn is_file_name(id: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=200).contains(&id.len()) && id.chars().all(fits) && !id.starts_with('.')
}

/// SHA-256 of bytes, hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").expect("writing into a string cannot fail");
    }
    text
}

/// True if a bundle takes the place of one of the same run: the run had not ended, or was continued, and has more trials now.
pub(crate) fn is_newer(new: &KeptRun, known: &KeptRun) -> bool {
    let trials = |run: &KeptRun| run.trials_done + run.trials_void;
    trials(new) > trials(known) || trials(new) == trials(known) && known.ending.is_none() && new.ending.is_some()
}
