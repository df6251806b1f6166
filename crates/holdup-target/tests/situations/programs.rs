//! Programs that are no server of PostgreSQL.

use crate::situations::{QUIET, Situation, answer, needs_account, record, seconds};
use holdup_host::{Host, Scheduling};
use holdup_testkit::ignore;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

static SATURATED: Situation = Situation {
    name: "saturated thread",
    first: &["saturated-thread"],
    says: "One thread is the limit: hu-busy",
    ..QUIET
};

static IDLE: Situation = Situation { name: "idle program", ..QUIET };

static IDLE_JAVA: Situation = Situation { name: "idle Java program", ..QUIET };

static COLLECTING_JAVA: Situation = Situation {
    name: "Java program that allocates",
    first: &["saturated-thread"],
    says: "One thread is the limit:",
    ..QUIET
};

/// Each of its threads has a CPU before what else runs here. A nice value would count within its session alone, where the
/// kernel groups tasks by session (sched(7), autogroup).
pub(crate) fn prefer(pid: u32) {
    let wanted = Scheduling { policy: Scheduling::FIFO, reset_on_fork: false, nice: 0, priority: 1 };
    let host = Host::real();
    let threads = host.list(&format!("/proc/{pid}/task")).expect("it runs");
    for thread in threads.iter().filter_map(|name| name.parse().ok()) {
        if let Err(error) = host.set_scheduling(thread, wanted) {
            println!("what else runs here is not kept away: {error}");
        }
    }
}

pub(crate) fn a_program_with_one_saturated_thread() {
    needs_account();
    let busy = holdup_induce::oversubscription(1).unwrap_or_else(|problem| ignore(problem));
    let idle = holdup_induce::nothing().unwrap_or_else(|problem| ignore(problem));
    prefer(busy.pids()[0]);
    prefer(idle.pids()[0]);
    answer(&SATURATED, &record::of(&[busy.pids()[0], idle.pids()[0]], record::MANY));
}

pub(crate) fn an_idle_program() {
    needs_account();
    let idle = holdup_induce::nothing().unwrap_or_else(|problem| ignore(problem));
    prefer(idle.pids()[0]);
    answer(&IDLE, &record::of(idle.pids(), record::USUAL));
}

static IDLE_POOL: Situation = Situation { name: "idle pool of threads", never: &["mutex"], ..QUIET };

pub(crate) fn an_idle_pool_of_threads() {
    needs_account();
    let idle = holdup_induce::idle_pool().unwrap_or_else(|problem| ignore(problem));
    prefer(idle.pids()[0]);
    let bundle = record::of(idle.pids(), record::USUAL);
    answer(&IDLE_POOL, &bundle);
    assert!(seconds(&bundle, "account_s", |label| label == "watched | asleep | futex") > 1.0, "it waits by futex(2)");
}

/// A program that ends with the test.
pub(crate) struct Ending(pub(crate) Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _has_ended = self.0.kill();
        let _status = self.0.wait();
    }
}

/// Starts a program without output.
pub(crate) fn started(command: &mut Command) -> Ending {
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    started.map(Ending).unwrap_or_else(|error| ignore(format!("{}: {error}", command.get_program().display())))
}

/// A Java program that has begun to run `body`.
fn java(folder: &std::path::Path, body: &str) -> Ending {
    let source = folder.join("Program.java");
    let text = format!(
        "class Program {{ static volatile Object kept;\n\
         public static void main(String[] a) throws Exception {{ System.out.println(\"begun\"); {body} }} }}\n"
    );
    std::fs::write(&source, text).expect("a file");
    let mut command = Command::new("java");
    command.args(["-XX:+UseSerialGC", "-Xmx64m"]).arg(&source).current_dir(folder);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.map(Ending).unwrap_or_else(|error| ignore(format!("java: {error}")));
    let mut line = String::new();
    let output = child.0.stdout.take().expect("piped");
    if BufReader::new(output).read_line(&mut line).expect("it writes") == 0 {
        ignore("java cannot run a source file here");
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    child
}

pub(crate) fn an_idle_java_program() {
    needs_account();
    let folder = tempfile::tempdir().expect("a folder");
    let program = java(folder.path(), "Thread.sleep(600000);");
    answer(&IDLE_JAVA, &record::of(&[program.0.id()], record::USUAL));
}

pub(crate) fn a_java_program_that_allocates() {
    needs_account();
    let folder = tempfile::tempdir().expect("a folder");
    let program = java(folder.path(), "while (true) { kept = new int[100]; }");
    prefer(program.0.id());
    answer(&COLLECTING_JAVA, &record::of(&[program.0.id()], record::MANY));
}
