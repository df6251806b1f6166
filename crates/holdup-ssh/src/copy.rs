//! The copy of this program on a host: named by its hash, looked at before each use.
//!
//! The scripts run by `sh` at the far end, not by the user's shell there: one word of one line, without single quotes,
//! backslashes and exclamation marks, which `sh`, `fish` and `csh` all take literally inside single quotes.

use holdup_model::Problem;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::sync::OnceLock;

/// Its exit code when the copy is missing or not the right one.
pub(crate) const MISSING: i32 = 83;

/// Where copies are, on the host.
const FOLDER: &str = "${XDG_CACHE_HOME:-$HOME/.cache}/holdup/bin";

/// This program as a file, even when its name is gone.
const ITSELF: &str = "/proc/self/exe";

/// Opens this program.
pub(crate) fn open() -> Result<File, Problem> {
    File::open(ITSELF).map_err(|e| Problem::host("the program holdup itself", e.to_string()))
}

/// The SHA-256 of this program.
pub(crate) fn hash() -> Result<&'static str, Problem> {
    static HASH: OnceLock<Result<String, Problem>> = OnceLock::new();
    let hash = HASH.get_or_init(|| {
        let (mut file, mut sum) = (open()?, Sha256::new());
        let mut bytes = vec![0; 1 << 20];
        loop {
            match file.read(&mut bytes).map_err(|e| Problem::host("the program holdup itself", e.to_string()))? {
                0 => break,
                n => sum.update(&bytes[..n]),
            }
        }
        Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    });
    hash.as_deref().map_err(Clone::clone)
}

/// Checks the host and the copy, then becomes it; its arguments are the script's.
pub(crate) fn use_script(hash: &str, with_sudo: bool) -> String {
    let arch = std::env::consts::ARCH;
    let sudo = if with_sudo { "sudo -n -- " } else { "" };
    format!(
        "m=$(uname -sm); f=\"{FOLDER}/holdup-{hash}\"; \
         if [ \"$m\" = \"Linux {arch}\" ]; then :; else \
         echo \"holdup: it is $m, and this program is for Linux {arch}; run holdup from a machine of its architecture\" >&2; exit 82; fi; \
         if command -v sha256sum >/dev/null; then :; else \
         echo \"holdup: it has no sha256sum to check the copy of holdup with; install coreutils there\" >&2; exit 82; fi; \
         if [ -x \"$f\" ]; then s=$(sha256sum <\"$f\"); if [ \"${{s%% *}}\" = {hash} ]; then exec {sudo}\"$f\" \"$@\"; fi; fi; \
         exit {MISSING}"
    )
}

/// Takes the program from its input, checks it, and gives it its name.
pub(crate) fn copy_script(hash: &str) -> String {
    format!(
        "umask 077; d=\"{FOLDER}\"; mkdir -p \"$d\" || exit 84; t=\"$d/.new-$$\"; \
         e() {{ rm -f \"$t\"; }}; trap e EXIT; trap \"exit 84\" HUP INT TERM PIPE; \
         cat >\"$t\" || exit 84; s=$(sha256sum <\"$t\"); \
         if [ \"${{s%% *}}\" = {hash} ]; then :; else \
         echo \"holdup: the copy of holdup arrived damaged; try again\" >&2; exit 85; fi; \
         chmod 700 \"$t\" && mv -f \"$t\" \"$d/holdup-{hash}\""
    )
}

/// Removes every copy, and says how many there were.
pub(crate) fn clean_script() -> String {
    format!(
        "d=\"{FOLDER}\"; n=0; for f in \"$d\"/holdup-* \"$d\"/.new-*; do \
         if [ -f \"$f\" ]; then rm -f -- \"$f\" && n=$((n+1)); fi; done; \
         rmdir \"$d\" \"${{d%/bin}}\" 2>/dev/null; echo \"removed $n\""
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_stay_whole_in_single_quotes_of_any_shell() {
        for script in [use_script("0a", true), use_script("0a", false), copy_script("0a"), clean_script()] {
            assert!(!script.contains(['\'', '!', '\n', '\\']), "{script}");
        }
    }

    #[test]
    fn the_hash_is_that_of_sha256sum() {
        let output = std::process::Command::new("sha256sum").arg(std::env::current_exe().expect("a path")).output();
        let said = String::from_utf8(output.expect("coreutils").stdout).expect("text");
        assert!(said.starts_with(hash().expect("it can be read")), "{said}");
    }
}
