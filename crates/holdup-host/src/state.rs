//! Where holdup keeps its own files.

use crate::environment::{self, Variable};

/// The folder of holdup's own files, as an absolute path. It is made when the first file is written.
///
/// `HOLDUP_STATE_DIR`; else `/var/lib/holdup` for root; else `$XDG_STATE_HOME/holdup` or `~/.local/state/holdup`.
pub fn dir() -> String {
    dir_for(rustix::process::geteuid().as_raw(), &Variable::get)
}

/// The undo journal of runs.
pub fn journal_path() -> String {
    format!("{}/journal.json", dir())
}

/// The undo journal of profiles, whose values stay in force until they are restored.
pub fn profile_journal_path() -> String {
    format!("{}/profile.json", dir())
}

/// The machine file that `holdup calibrate` writes: what this host is to the simulator.
pub fn machine_path() -> String {
    format!("{}/machine.toml", dir())
}

/// The folder for a user whose environment is `get`.
pub fn dir_for(euid: u32, get: &dyn Fn(&Variable) -> Option<String>) -> String {
    // The XDG base directory specification wants relative paths to be ignored; a relative one would
    // also hide the journal from a `holdup restore` that is started in another folder.
    let absolute = |variable: &Variable| get(variable).filter(|path| path.starts_with('/'));
    let joined = |base: String, rest: &str| format!("{}/{rest}", base.trim_end_matches('/'));
    if let Some(dir) = absolute(&environment::STATE_DIR) {
        return if dir.len() > 1 { dir.trim_end_matches('/').to_owned() } else { dir };
    }
    if euid == 0 {
        return "/var/lib/holdup".to_owned();
    }
    if let Some(base) = absolute(&environment::XDG_STATE_HOME) {
        return joined(base, "holdup");
    }
    match absolute(&environment::HOME) {
        Some(home) => joined(home, ".local/state/holdup"),
        None => format!("/var/tmp/holdup-{euid}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_follows_the_user_and_the_environment() {
        let check = |euid: u32, set: &[(&str, &str)], expect: &str| {
            let get = |v: &Variable| set.iter().find(|(name, _)| *name == v.name).map(|(_, value)| (*value).to_owned());
            assert_eq!(dir_for(euid, &get), expect, "{euid} {set:?}");
        };
        check(0, &[], "/var/lib/holdup");
        check(0, &[("HOME", "/root"), ("XDG_STATE_HOME", "/x")], "/var/lib/holdup");
        check(1000, &[("HOME", "/home/u")], "/home/u/.local/state/holdup");
        check(1000, &[("HOME", "/home/u"), ("XDG_STATE_HOME", "/x/")], "/x/holdup");
        check(1000, &[("HOME", "/home/u"), ("XDG_STATE_HOME", "relative")], "/home/u/.local/state/holdup");
        check(1000, &[], "/var/tmp/holdup-1000");
        check(1000, &[("HOLDUP_STATE_DIR", "/s/"), ("HOME", "/home/u")], "/s");
        check(0, &[("HOLDUP_STATE_DIR", "/s")], "/s");
        check(0, &[("HOLDUP_STATE_DIR", "s")], "/var/lib/holdup");
    }
}
