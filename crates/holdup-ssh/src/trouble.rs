//! What `ssh` and the shell at the far end say when something is wrong, as a [`Problem`].

use crate::address::Address;
use holdup_model::Problem;

/// The exit code of `ssh` itself (ssh(1), EXIT STATUS).
const OF_SSH: i32 = 255;

/// What the client says, why that is, and what to do; `HOST` stands for the host. The first that fits counts.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "its host key is not the one that was known: it was installed anew, or another machine answers in its place",
        "compare the key with its administrator's; if it is right: ssh-keygen -R HOST, then `ssh HOST` once",
    ),
    (
        "Host key verification failed",
        "its host key is not known here",
        "`ssh HOST` once shows the key and asks; compare it before you accept it",
    ),
    (
        "Permission denied (",
        "it accepts none of your keys, and no password is asked for",
        "`ssh HOST` must work without a question: ssh-copy-id HOST, or ssh-add for a key with a passphrase",
    ),
    (
        "Too many authentication failures",
        "it refused before the right key was offered",
        "name the key in ~/.ssh/config: IdentityFile with IdentitiesOnly yes",
    ),
    ("Could not resolve hostname", "there is no host of this name", "a name of DNS, /etc/hosts or ~/.ssh/config"),
    (
        "Connection refused",
        "nothing listens at its port",
        "is sshd running there, and at another port? ssh://HOST:PORT",
    ),
    ("Connection timed out", "it does not answer", "is it up, and may this machine reach it? `ssh HOST`"),
    ("Network is unreachable", "no route leads there", "an address of IPv6 needs IPv6 here: `ip -6 route`"),
    ("No route to host", "no route leads there", "is it up, and may this machine reach it? `ssh HOST`"),
    ("command not found", "a program is missing there", "holdup needs sh, uname, cat, mkdir, mv and sha256sum there"),
];

/// What is said of `sudo`.
const OF_SUDO: &[(&str, &str)] = &[
    ("sudo: a password is required", "sudo asks for a password there"),
    ("sudo: a terminal is required", "sudo asks for a password there"),
    ("is not in the sudoers file", "this user may not use sudo there"),
    ("may not run sudo", "this user may not use sudo there"),
    ("sudo: not found", "there is no sudo there"),
    ("sudo: command not found", "there is no sudo there"),
];

const SUDO_HINT: &str = "allow it there without a password (NOPASSWD in sudoers), log in as root, or leave --sudo away";

/// What the scripts of `copy.rs` say of themselves begins so.
pub(crate) const MARK: &str = "holdup: ";

/// The problem that an `ssh` ended with.
pub(crate) fn problem(host: &Address, code: Option<i32>, stderr: &str) -> Problem {
    let what = format!("host {host}");
    let filled = |hint: &str| hint.replace("HOST", &host.to_string());
    if let Some((_, why)) = OF_SUDO.iter().find(|(said, _)| stderr.contains(said)) {
        return Problem::host(what, *why).hint(SUDO_HINT);
    }
    if stderr.contains("No space left on device") || stderr.contains("Disk quota exceeded") {
        return Problem::host(what, "its disk has no room for the copy of holdup").hint(format!(
            "free 30 MB below ~/.cache there, or name another folder: XDG_CACHE_HOME for {host} in its shell's files"
        ));
    }
    if let Some(line) = stderr.lines().find_map(|line| line.strip_prefix(MARK)) {
        let (why, hint) = line.split_once("; ").map_or((line, None), |(why, hint)| (why, Some(hint)));
        let problem = Problem::host(what, why);
        return match hint {
            Some(hint) => problem.hint(filled(hint)),
            None => problem,
        };
    }
    let is_ssh = code == Some(OF_SSH) || code.is_none();
    let known = KNOWN.iter().find(|(said, ..)| stderr.contains(said));
    if let Some((_, why, hint)) = known.filter(|_| is_ssh || stderr.contains("command not found")) {
        return Problem::host(what, *why).hint(filled(hint));
    }
    let last = last_line(stderr);
    let why = match (last.is_empty(), code) {
        (false, _) => last,
        (true, Some(code)) => format!("its command ended with exit code {code} and said nothing"),
        (true, None) => "the ssh program was ended by a signal".to_owned(),
    };
    Problem::host(what, why).hint(filled("does `ssh HOST true` work?"))
}

/// The last line that says something.
pub(crate) fn last_line(stderr: &str) -> String {
    let line = stderr.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    line.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_of_ssh_has_its_reason_and_a_way_out() {
        let host = Address::parse("db1").expect("a host");
        let of = |code, said| problem(&host, Some(code), said);
        let unknown = of(
            255,
            "No ED25519 host key is known for db1 and you have requested strict checking.\r\nHost key verification failed.\r\n",
        );
        assert_eq!(unknown.why, "its host key is not known here");
        assert!(unknown.hint.is_some_and(|hint| hint.starts_with("`ssh db1` once")));
        let changed = of(255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.\n");
        assert!(changed.why.contains("not the one that was known") && changed.hint.is_some());
        assert!(of(255, "me@db1: Permission denied (publickey,password).").why.contains("none of your keys"));
        assert!(of(1, "sudo: a password is required").hint.is_some_and(|hint| hint.contains("NOPASSWD")));
        assert!(of(84, "cat: write error: No space left on device").why.contains("no room"));
        let marked = of(82, "motd\nholdup: it is Linux armv7l, this program is for x86_64; run holdup there");
        assert_eq!(
            (marked.why.as_str(), marked.hint.as_deref()),
            ("it is Linux armv7l, this program is for x86_64", Some("run holdup there"))
        );
        assert_eq!(of(3, "").why, "its command ended with exit code 3 and said nothing");
        assert_eq!(of(255, "a\nkex_exchange_identification: x\n\n").why, "kex_exchange_identification: x");
    }
}
