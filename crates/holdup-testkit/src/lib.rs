//! A harness for tests that need what a machine may not have: root, PostgreSQL, a program, a kernel's feature.
//!
//! Such a test calls [`ignore`] with the reason. It is then reported as ignored, not as passed, and its reason is printed.
//! Where the environment names a file (`HOLDUP_IGNORED`), a line is added to it for each: `BINARY::TEST`, a tab, the
//! reason. `cargo xtask ignored` compares that file with the list of tests that may be ignored.
//!
//! A test file of this harness has `harness = false` in its Cargo.toml, no `#[test]`, and names its tests at its end:
//! `holdup_testkit::tests!(one, two; by_hand: three);`. A test that is missing there is dead code, which is an error.
//! Those after `by_hand` run with `--ignored` only: other tests start them in a process of their own. The tests of a
//! file run one after another, because they share the host.

use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::any::Any;
use std::cell::RefCell;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, set_hook, take_hook};
use std::path::Path;
use std::process::ExitCode;

/// The panic by which a test ends that cannot run here.
struct Ignored(String);

/// Ends this test: it cannot run here, for that reason.
///
/// # Panics
/// Always: the harness takes it as the test's result. Outside of the harness the test fails.
pub fn ignore(reason: impl Display) -> ! {
    panic_any(Ignored(reason.to_string()))
}

/// Reports that a part of this test cannot run here; the rest continues.
///
/// # Panics
/// When the file of `HOLDUP_IGNORED` cannot be written.
pub fn ignore_part(reason: impl Display) {
    let name = running();
    note(&name, &format!("in part: {reason}")).expect("the file that HOLDUP_IGNORED names can be written");
}

thread_local! {
    /// The test that this thread runs.
    static RUNNING: RefCell<String> = const { RefCell::new(String::new()) };
}

/// The name of the test that this thread runs; empty on other threads.
pub fn running() -> String {
    RUNNING.with_borrow(Clone::clone)
}

/// What a test may return.
pub trait Returned {
    /// Why it failed, if it did.
    fn failure(self) -> Option<String>;
}

impl Returned for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: std::fmt::Debug> Returned for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|e| format!("{e:?}"))
    }
}

/// One test; one that is `by_hand` runs only with `--ignored`.
pub fn trial<R: Returned + 'static>(name: &str, test: fn() -> R, by_hand: bool) -> Trial {
    let name = name.replace(' ', "");
    let trial = Trial::ignorable_test(name.clone(), move || outcome(&name, test));
    trial.with_ignored_flag(by_hand)
}

fn outcome<R: Returned>(name: &str, test: fn() -> R) -> Result<Completion, Failed> {
    RUNNING.set(name.to_owned());
    match catch_unwind(AssertUnwindSafe(|| test().failure())) {
        Ok(None) => Ok(Completion::Completed),
        Ok(Some(why)) => Err(why.into()),
        Err(panic) => match panic.downcast::<Ignored>() {
            Ok(ignored) => {
                note(name, &ignored.0)?;
                Ok(Completion::ignored_with(ignored.0))
            }
            Err(panic) => Err(panic_message(&*panic).into()),
        },
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "panicked".to_owned())
}

#[allow(clippy::print_stderr, reason = "a test that cannot run here gives its reason")]
fn note(name: &str, reason: &str) -> io::Result<()> {
    let reason = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    eprintln!("ignored: {name}: {reason}");
    let Some(file) = std::env::var_os("HOLDUP_IGNORED") else { return Ok(()) };
    // What cargo builds ends with a dash and sixteen hexadecimal digits.
    let program = std::env::args().next().unwrap_or_default();
    let stem = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let binary = stem.rsplit_once('-').map_or(stem.as_str(), |(binary, _)| binary);
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    file.write_all(format!("{binary}::{name}\t{reason}\n").as_bytes())?;
    Ok(())
}

/// Runs the tests that the command line asks for, with the arguments of libtest.
pub fn run(trials: Vec<Trial>) -> ExitCode {
    let hook = take_hook();
    set_hook(Box::new(move |panic| {
        if !panic.payload().is::<Ignored>() {
            hook(panic);
        }
    }));
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The `main` of a test file, with the names of its tests.
#[macro_export]
macro_rules! tests {
    ($($test:path),* $(,)? $(; by_hand: $($hand:path),* $(,)?)?) => {
        fn main() -> std::process::ExitCode {
            $crate::run(vec![
                $($crate::trial(stringify!($test), $test, false),)*
                $($($crate::trial(stringify!($hand), $hand, true),)*)?
            ])
        }
    };
}
