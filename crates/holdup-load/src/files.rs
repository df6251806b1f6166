//! Room for open files.

use holdup_model::Problem;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::{Mutex, PoisonError};

/// What holdup itself has open beside its load: standard streams, the store, collectors.
const SPARE: u64 = 128;

/// One change of the limit at a time: a background and its foreground open their files at the same moment.
static CHANGING: Mutex<()> = Mutex::new(());

/// Whether `files` more may be opened by this process once its soft limit is raised to its hard one.
///
/// # Errors
/// Of kind `Host` when the hard limit is lower, with what would help.
pub fn fit(files: u64) -> Result<(), Problem> {
    let wanted = files.saturating_add(SPARE);
    match getrlimit(Resource::Nofile).maximum {
        Some(hard) if hard < wanted => Err(Problem::host(
            format!("{files} open files"),
            format!("a process may have {hard} here (RLIMIT_NOFILE), {SPARE} of them are for holdup itself"),
        )
        .hint(format!("take fewer, or raise the limit: ulimit -Hn {wanted}"))),
        _ => Ok(()),
    }
}

/// Opens `files` files with `open`. The soft limit is raised for that time where it is too low, and is what it was
/// afterwards; a file that is open stays open.
///
/// # Errors
/// When there is no room for that number, or `open` fails.
pub fn with_room<T>(files: u64, open: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    fit(files)?;
    let _one = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
    let before = getrlimit(Resource::Nofile);
    if before.current.is_none_or(|soft| soft >= files.saturating_add(SPARE)) {
        return open();
    }
    setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum }).map_err(|e| {
        Problem::host(format!("{files} open files"), format!("the limit on open files cannot be raised: {e}"))
    })?;
    let opened = open();
    let _lowered = setrlimit(Resource::Nofile, before);
    opened
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn more_than_the_hard_limit_is_a_clear_error() {
        let problem = with_room::<()>(1 << 40, || unreachable!("nothing is opened")).expect_err("too many");
        let text = problem.to_string();
        assert!(text.starts_with("1099511627776 open files: a process may have "), "{text}");
        assert!(text.contains("ulimit -Hn 1099511627904"), "{text}");
    }

    #[test]
    fn the_soft_limit_is_raised_while_files_are_opened() {
        let before = getrlimit(Resource::Nofile);
        let low = Rlimit { current: Some(200), maximum: before.maximum };
        setrlimit(Resource::Nofile, low).expect("may be lowered");
        let files = with_room(600, || Ok((0..600).map(|_| File::open("/dev/null")).collect::<Result<Vec<_>, _>>()));
        let after = getrlimit(Resource::Nofile);
        setrlimit(Resource::Nofile, before).expect("may be raised again");
        let files = files.expect("there is room").expect("all can be opened");
        assert_eq!((files.len(), after), (600, low));
    }
}
