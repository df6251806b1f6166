//! Where real tasks are switched out, with the kernel's own tracepoint. Needs root; tracefs is mounted for the test's
//! thread alone where it is not mounted.

use crate::mounts;
use holdup_evidence::{CollectContext, Collector, Subject};
use holdup_host::Host;
use holdup_model::{Availability, Collected};
use holdup_testkit::ignore;
use mounts::mount_for_this_thread;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

fn collector() -> &'static dyn Collector {
    holdup_evidence::find("switch-outs").expect("it is in the catalogue")
}

/// Runs a test on a thread that sees tracefs.
fn where_tracefs_is(test: fn()) {
    let thread = std::thread::spawn(move || {
        let context = |subjects| CollectContext { host: Host::real(), subjects, ..CollectContext::default() };
        let first = collector().probe(&context(Vec::new()));
        if !first.is_usable() {
            let mounted = mount_for_this_thread(c"none", c"/sys/kernel/tracing", Some(c"tracefs"), 0);
            let second = collector().probe(&context(Vec::new()));
            if let (false, _) | (_, Availability::Unavailable { .. }) = (mounted, second) {
                ignore(format!("switch-outs cannot work here: {first:?}"));
            }
        }
        test();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// A process that is ended with the test.
struct Running(Child);

impl Running {
    /// A shell's command on the first CPU that this process may use.
    fn on_one_cpu(command: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let cpus = rustix::thread::sched_getaffinity(None).expect("its own");
        let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| cpus.is_set(*cpu)).expect("one at least");
        let pin = move || {
            let mut one = rustix::thread::CpuSet::new();
            one.set(first);
            rustix::thread::sched_setaffinity(None, &one)?;
            Ok(())
        };
        // SAFETY: between fork and exec only a system call is made.
        unsafe { std::os::unix::process::CommandExt::pre_exec(&mut shell, pin) };
        Running(shell.spawn().expect("a shell"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}

/// Counts for about a second and a half.
fn watch(subjects: &[(&str, &Running)]) -> Collected {
    let subjects =
        subjects.iter().map(|(role, running)| Subject { role: (*role).to_owned(), pid: running.0.id() }).collect();
    let context = CollectContext { host: Host::real(), subjects, ..CollectContext::default() };
    // The shells must have become what they run.
    std::thread::sleep(Duration::from_millis(200));
    let running = collector().start(&context).expect("the probe said that it works");
    std::thread::sleep(Duration::from_millis(1500));
    running.stop()
}

/// Blocked, at the user boundary, in the kernel.
fn counts(collected: &Collected, role: &str) -> [f64; 3] {
    ["blocked", "user boundary (R)", "in the kernel (R+)"].map(|place| {
        let label = format!("{role} {place}");
        let item = collected.items.iter().find(|i| i.label.as_deref() == Some(&label));
        item.and_then(|i| i.value.value()).unwrap_or_else(|| panic!("{label}: {collected:?}"))
    })
}

const LOOP: &str = "while :; do :; done";

fn two_loops_on_one_cpu_are_switched_out_at_the_user_boundary() {
    where_tracefs_is(|| {
        let (one, two) = (Running::on_one_cpu(LOOP), Running::on_one_cpu(LOOP));
        let collected = watch(&[("one", &one), ("two", &two)]);
        eprintln!("{collected:?}");
        for role in ["one", "two"] {
            let [_, boundary, kernel] = counts(&collected, role);
            // A slow emulator spends much of its time in the timer's interrupt, at whose end `full` preempts as well.
            assert!(boundary >= 10.0 && kernel <= boundary / 2.0, "{role}: {boundary} R, {kernel} R+");
        }
        assert_eq!(collected.coverage.lost, 0, "{:?}", collected.coverage);
        // Both are called `sh`, so only their ids distinguish them.
        assert!(collected.coverage.notes.iter().any(|n| n.starts_with("tasks of one were selected by id: the 1")));
        assert!(collected.cost.cpu_ns > 0 && collected.cost.wakeups == 2, "{:?}", collected.cost);
    });
}

/// A reader of a pipe into which a line is written every 10 ms. (A shell that starts a `sleep` each time is preempted
/// in the kernel where it makes the child, under full and lazy.)
fn who_waits_for_lines_is_blocked() {
    where_tracefs_is(|| {
        let mut reader = Running::on_one_cpu("while read -r line; do :; done");
        let mut lines = reader.0.stdin.take().expect("piped");
        let writer = std::thread::spawn(move || {
            while lines.write_all(b"line\n").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let collected = watch(&[("reader", &reader)]);
        eprintln!("{collected:?}");
        let [blocked, boundary, kernel] = counts(&collected, "reader");
        assert!(blocked >= 10.0 && blocked > boundary + kernel, "{blocked} blocked, {boundary} R, {kernel} R+");
        drop(reader);
        writer.join().expect("it ends without a reader");
    });
}

/// Reading /dev/zero in pieces of 64 MB is all time in one system call, which looks for others after each page under
/// every model: with `cond_resched` under none and voluntary, by preemption under full and lazy.
fn a_long_system_call_beside_a_loop_is_switched_out_in_the_kernel() {
    where_tracefs_is(|| {
        let reader = Running::on_one_cpu("exec dd if=/dev/zero of=/dev/null bs=64M");
        let other = Running::on_one_cpu(LOOP);
        let collected = watch(&[("reader", &reader), ("other", &other)]);
        eprintln!("{collected:?}");
        let [_, boundary, kernel] = counts(&collected, "reader");
        assert!(kernel >= 10.0 && boundary <= kernel / 5.0, "reader: {boundary} R, {kernel} R+");
        let [_, boundary, kernel] = counts(&collected, "other");
        assert!(boundary >= 10.0 && kernel <= boundary / 2.0, "other: {boundary} R, {kernel} R+");
        // No other task here is called `dd`.
        assert!(collected.coverage.notes.iter().any(|n| n.starts_with("tasks of reader were selected")));
    });
}

/// Yields are not preemptions, and the tracepoint shows both alike: this holds what the docs say.
fn a_task_that_yields_is_runnable_at_the_boundary() {
    where_tracefs_is(|| {
        let yielding = "exec python3 -c 'import os\nwhile True: os.sched_yield()'";
        let both = [Running::on_one_cpu(yielding), Running::on_one_cpu(yielding)];
        if Command::new("python3").arg("--version").output().is_err() {
            ignore("python3 is not here");
        }
        std::thread::sleep(Duration::from_millis(500));
        let collected = watch(&[("a", &both[0])]);
        eprintln!("{collected:?}");
        let [_, boundary, kernel] = counts(&collected, "a");
        assert!(boundary >= 50.0 && kernel <= boundary / 10.0, "{boundary} R, {kernel} R+");
    });
}

holdup_testkit::tests!(
    truth:
    two_loops_on_one_cpu_are_switched_out_at_the_user_boundary,
    who_waits_for_lines_is_blocked,
    a_long_system_call_beside_a_loop_is_switched_out_in_the_kernel,
    a_task_that_yields_is_runnable_at_the_boundary
);
