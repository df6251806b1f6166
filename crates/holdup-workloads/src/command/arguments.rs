//! A command line: read, filled in, and its program found.

use holdup_model::Problem;
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The values of `{name}` in arguments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placeholders {
    pub(crate) window_ns: u64,
    pub(crate) warmup_ns: u64,
    pub(crate) seed: u64,
}

/// The arguments with `{window_s}`, `{warmup_s}` and `{seed}` filled in. Everything else stays as it is.
pub(crate) fn fill(arguments: &[String], with: Placeholders) -> Vec<String> {
    let fill = |argument: &String| {
        argument
            .replace("{window_s}", &seconds(with.window_ns))
            .replace("{warmup_s}", &seconds(with.warmup_ns))
            .replace("{seed}", &with.seed.to_string())
    };
    arguments.iter().map(fill).collect()
}

/// True if an argument holds the length of the warm-up.
pub(crate) fn warms_up(arguments: &[String]) -> bool {
    arguments.iter().any(|a| a.contains("{warmup_s}"))
}

/// Exact and short: `2`, `0.5`, `0.000000001`.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// For `execve`. [`read`] has seen that no argument holds a zero byte.
pub(crate) fn c_string(text: &OsStr) -> Result<CString, Problem> {
    CString::new(text.as_bytes())
        .map_err(|_| Problem::usage(format!("command {}", text.to_string_lossy()), "it holds a zero byte"))
}

/// The file of a program that runs in a folder: itself, seen from there, when it has a slash, else the first on the PATH.
pub(crate) fn find(program: &str, folder: &Path, path: Option<&OsStr>) -> Result<PathBuf, Problem> {
    if program.contains('/') {
        return executable(&folder.join(program)).map_err(|why| missing(program, why));
    }
    let folders = path.unwrap_or_else(|| OsStr::new("/usr/local/bin:/usr/bin:/bin"));
    let mut found_but = None;
    for folder in std::env::split_paths(folders) {
        match executable(&folder.join(program)) {
            Ok(file) => return Ok(file),
            Err(why) if why != NOT_THERE => found_but = Some(why),
            Err(_) => {}
        }
    }
    Err(missing(program, found_but.unwrap_or("there is no such program on the PATH")))
}

const NOT_THERE: &str = "there is no such file";

fn executable(file: &Path) -> Result<PathBuf, &'static str> {
    let Ok(about) = std::fs::metadata(file) else { return Err(NOT_THERE) };
    if !about.is_file() {
        return Err("it is not a file");
    }
    if about.permissions().mode() & 0o111 == 0 {
        return Err("it is not executable");
    }
    Ok(file.to_owned())
}

fn missing(program: &str, why: &str) -> Problem {
    let hint = if program.contains(' ') {
        "behind -- stands one program with its arguments; several command lines are compared without it: run command 'A' 'B'"
    } else {
        "a shell is not used: for pipes, built-ins and variables write [\"sh\", \"-c\", \"…\"]"
    };
    Problem::usage(format!("command {program}"), why).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_placeholders_are_filled_in_and_nothing_else() {
        let with = Placeholders { window_ns: 2_000_000_000, warmup_ns: 1_500_000_000, seed: 42 };
        let check = |argument: &str, expect: &str| assert_eq!(fill(&[argument.to_owned()], with), [expect]);
        check("--time={window_s}", "--time=2");
        check("{warmup_s}/{seed}/{seed}", "1.5/42/42");
        check("{print $1} {clients} {window_s", "{print $1} {clients} {window_s");
        assert_eq!([0, 1, 10_000_000_000, 1_234_500_000].map(seconds), ["0", "0.000000001", "10", "1.2345"]);
    }

    #[test]
    fn programs_are_found_like_a_shell_does() {
        let check = |program: &str, path: &str, expect: Result<&str, &str>| {
            let got = find(program, Path::new(""), Some(OsStr::new(path)));
            assert_eq!(
                got.map(|f| f.display().to_string()).map_err(|p| p.why),
                expect.map(str::to_owned).map_err(str::to_owned),
                "{program}"
            );
        };
        check("/bin/sh", "", Ok("/bin/sh"));
        check("sh", "/nowhere:/bin", Ok("/bin/sh"));
        check("sh", "/nowhere", Err("there is no such program on the PATH"));
        check("./no-such-file", "/bin", Err("there is no such file"));
        check("/etc/passwd", "", Err("it is not executable"));
        check("passwd", "/etc", Err("it is not executable"));
        check("/etc", "", Err("it is not a file"));
        assert_eq!(find("./sh", Path::new("/bin"), None).unwrap(), Path::new("/bin/./sh"));
    }
}
