//! Programs in several languages, compiled from a few lines.

use crate::situations::programs::{Ending, prefer, started};
use crate::situations::{QUIET, Situation, answer, needs_account, record};
use holdup_testkit::ignore;
use std::process::Command;
use std::time::Duration;

const SATURATED: Situation = Situation { first: &["saturated-thread"], ..QUIET };

static IDLE_GO: Situation = Situation { name: "idle Go program", says: "the watched tasks hardly run", ..QUIET };
static ONE_PROCESSOR: Situation =
    Situation { name: "Go program with one processor", says: "One thread is the limit: program", ..SATURATED };
static CONSUMER: Situation =
    Situation { name: "Rust program with one consumer", says: "One thread is the limit: consumer", ..SATURATED };
static MUTEX: Situation = Situation {
    name: "C program with one mutex",
    first: &["mutex"],
    says: "Mutexes: the watched tasks spend",
    ..QUIET
};

static HOLDFAST: Situation = Situation { name: "C program with one mutex of holdfast", ..MUTEX };

const GO_IDLE: &str = "package main\nimport \"time\"\nfunc main() {\n\
    for i := 0; i < 8; i++ { go func() { for { time.Sleep(100 * time.Millisecond) } }() }\n\
    time.Sleep(time.Hour) }\n";

const GO_BUSY: &str = "package main\nimport \"runtime\"\nfunc main() { runtime.GOMAXPROCS(1)\n\
    for i := 0; i < 8; i++ { go func() { for n := 0; ; n++ {} }() }\n\
    select {} }\n";

const RUST_CONSUMER: &str = r#"
use std::sync::mpsc::sync_channel;
fn main() {
    let (sender, receiver) = sync_channel::<u64>(100);
    for n in 0..4 {
        let sender = sender.clone();
        std::thread::spawn(move || while sender.send(n).is_ok() {});
    }
    let work = move || receiver.iter().fold(0_u64, |sum, n| (0..20_000).fold(sum, |s, i| s ^ std::hint::black_box(i + n)));
    std::thread::Builder::new().name("consumer".into()).spawn(work).unwrap().join().unwrap();
}
"#;

const C_MUTEX: &str = r"
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long sum;
static void *work(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&lock);
		for (int i = 0; i < 100000; i++)
			sum += i;
		pthread_mutex_unlock(&lock);
	}
	return unused;
}
int main(void)
{
	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], 0, work, 0);
	return pthread_join(threads[0], 0);
}
";

/// The same program with the locks of `holdfast.h`.
fn with_holdfast() -> String {
    C_MUTEX
        .replace("static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER", "static holdfast_mutex_t lock")
        .replace("#include <pthread.h>", "#include <holdfast.h>")
        .replace("pthread_mutex_", "holdfast_mutex_")
}

/// Compiles a source, file name and text, to `program` in a new folder.
pub(crate) fn built(source: (&str, &str), compiler: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(source.0), source.1).expect("a file");
    let mut compile = Command::new(compiler[0]);
    compile.args(&compiler[1..]).args(["-o", "program", source.0]).current_dir(folder.path());
    match compile.env("GO111MODULE", "off").env("GOCACHE", folder.path().join("cache")).output() {
        Err(error) => ignore(format!("{}: {error}", compiler[0])),
        Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
    }
    folder
}

/// Compiles a program, starts it, and judges it.
fn judge(situation: &Situation, source: (&str, &str), compiler: &[&str], windows: record::Windows) {
    needs_account();
    let folder = built(source, compiler);
    let program: Ending = started(&mut Command::new(folder.path().join("program")));
    std::thread::sleep(Duration::from_millis(500));
    prefer(program.0.id());
    answer(situation, &record::of(&[program.0.id()], windows));
}

pub(crate) fn an_idle_go_program() {
    judge(&IDLE_GO, ("p.go", GO_IDLE), &["go", "build"], record::USUAL);
}

pub(crate) fn a_go_program_with_one_processor() {
    judge(&ONE_PROCESSOR, ("p.go", GO_BUSY), &["go", "build"], record::MANY);
}

pub(crate) fn a_rust_program_with_one_consumer() {
    judge(&CONSUMER, ("p.rs", RUST_CONSUMER), &["rustc", "-O"], record::MANY);
}

pub(crate) fn a_c_program_with_one_mutex_of_holdfast() {
    let include = concat!("-I", env!("CARGO_MANIFEST_DIR"), "/../holdfast/include");
    judge(&HOLDFAST, ("p.c", &with_holdfast()), &["cc", "-O1", "-pthread", include], record::MANY);
}

pub(crate) fn a_c_program_with_one_mutex() {
    judge(&MUTEX, ("p.c", C_MUTEX), &["cc", "-O1", "-pthread"], record::MANY);
}
