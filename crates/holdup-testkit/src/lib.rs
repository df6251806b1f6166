//! A harness for tests that need what a machine may not have: root, PostgreSQL, a program, a kernel's feature.
//!
//! Such a test calls [`ignore`] with the reason. It is then reported as ignored, not as passed, and its reason is printed.
//! Where the environment names a file (`HOLDUP_IGNORED`), a line is added to it for each: `PACKAGE::FILE::TEST`, a tab, the
//! reason. `cargo xtask ignored` compares that file with the list of tests that may be ignored.
//!
//! The tests of a crate are one executable. A test file has no `#[test]` and names its tests at its end, by where they run:
//! `holdup_testkit::tests!(one, two; alone: three; truth: four);`. A test that is missing there is dead code, which is an error.
//!
//! | label | the test | runs |
//! |---|---|---|
//! | none | computes, or touches only what it made | in the gate, beside others |
//! | `alone` | changes or needs the host as a whole | in the gate, one at a time |
//! | `truth` | measures a live host | in `script/truth`, repeated and counted |
//! | `long` | takes minutes, or needs what is installed for it alone | in `script/test long` |
//! | `by_hand` | is started by other tests in a separate process | with `--ignored` |
//!
//! `holdup_testkit::main!(file, other_file);` in `tests/it.rs` joins the files, `holdup_testkit::main!();` stands in the only file of a
//! crate. The name of a test is `LABEL::FILE::TEST`.

pub use libtest_mimic::Trial;
use libtest_mimic::{Arguments, Completion, Failed};
use std::any::Any;
use std::cell::RefCell;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, set_hook, take_hook};
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

/// Takes a trial again whose window other work on this machine stretched, which is void, at most ten times.
pub fn on_time<T, E: Display>(mut trial: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let is_late = |e: &E| e.to_string().starts_with("the window took too long");
    let ended = (0..10).map(|_| trial()).find(|result| !result.as_ref().is_err_and(is_late));
    ended.unwrap_or_else(trial)
}

/// True of root with its capabilities: to give files away, to become another user, to make namespaces. User 0 of a container, or
/// of a bounding set without these, is no such root.
pub fn is_root() -> bool {
    is_user_0() && has_capabilities()
}

/// True of user 0 without these capabilities.
pub fn is_bare_root() -> bool {
    is_user_0() && !has_capabilities()
}

/// Ends this test where user 0 cannot become the user that PostgreSQL would run as, which refuses to run as root.
///
/// # Panics
/// As [`ignore`].
pub fn needs_a_user_for_postgres() {
    if is_bare_root() {
        ignore("PostgreSQL refuses to run as root, and this root may not become another user");
    }
}

fn is_user_0() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// `CAP_CHOWN`, `CAP_SETUID`, `CAP_NET_ADMIN` and `CAP_SYS_ADMIN` (include/uapi/linux/capability.h).
fn has_capabilities() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let held = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let held = held.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default();
    [0, 7, 12, 21].iter().all(|capability| held & (1 << capability) != 0)
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

/// One test of a module, with its label.
pub fn trial<R: Returned + 'static>(module: &str, label: &str, name: &str, test: fn() -> R) -> Trial {
    // A crate of one file of tests is that file.
    let file = module.split_once("::").map_or(module, |(_, file)| file);
    let name = format!("{file}::{}", name.replace(' ', ""));
    let is_by_hand = label == "by_hand";
    let shown = if label.is_empty() || is_by_hand { name.clone() } else { format!("{label}::{name}") };
    Trial::ignorable_test(shown, move || outcome(&name, test)).with_ignored_flag(is_by_hand)
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
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "unknown".to_owned());
    let mut file = OpenOptions::new().append(true).create(true).open(file)?;
    file.write_all(format!("{package}::{name}\t{reason}\n").as_bytes())?;
    Ok(())
}

/// Runs the tests that the command line asks for, with the arguments of libtest. A test that is asked for by its exact name and is not
/// there is a failure: tests that start themselves again would otherwise try nothing.
#[allow(clippy::print_stderr, reason = "the harness has no other way to say it")]
pub fn run(trials: Vec<Trial>) -> ExitCode {
    let hook = take_hook();
    set_hook(Box::new(move |panic| {
        if !panic.payload().is::<Ignored>() {
            hook(panic);
        }
    }));
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(1);
    let unknown = arguments.filter.as_ref().filter(|name| arguments.exact && !trials.iter().any(|t| t.name() == *name));
    if let Some(name) = unknown {
        eprintln!("error: there is no test {name}");
        return ExitCode::FAILURE;
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The list of a test file's tests, by label.
#[macro_export]
macro_rules! tests {
    ($($label:ident: $($labelled:path),* $(,)?);+) => {
        $crate::tests!(; $($label: $($labelled),*);+);
    };
    ($($test:path),* $(,)? $(; $label:ident: $($labelled:path),* $(,)?)*) => {
        /// The tests of this file.
        pub(crate) fn listed_tests() -> Vec<$crate::Trial> {
            vec![
                $($crate::trial(module_path!(), "", stringify!($test), $test),)*
                $($($crate::trial(module_path!(), stringify!($label), stringify!($labelled), $labelled),)*)*
            ]
        }
    };
}

/// The `main` of a crate's tests, with its files.
#[macro_export]
macro_rules! main {
    () => {
        fn main() -> std::process::ExitCode {
            $crate::run(listed_tests())
        }
    };
    ($($file:ident),+ $(,)?) => {
        fn main() -> std::process::ExitCode {
            $crate::run($crate::files!($($file),+))
        }
    };
}

/// The tests of several files.
#[macro_export]
macro_rules! files {
    ($($file:ident),+ $(,)?) => {
        [$($file::listed_tests()),+].into_iter().flatten().collect()
    };
}
