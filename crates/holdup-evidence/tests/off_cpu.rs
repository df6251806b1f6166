//! Where tasks are while they are off the CPU, and who wakes them, on real threads.

#![expect(clippy::print_stdout, reason = "it is shown where a test fails or cannot run")]

use holdup_evidence::{CollectContext, Collector, Subject};
use holdup_model::{Availability, Collected, StackProfile};
use holdup_testkit::ignore;
use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn collector() -> &'static dyn Collector {
    let collector = holdup_evidence::find("off-cpu").expect("listed");
    match collector.probe(&CollectContext::default()) {
        Availability::Unavailable { reason, .. } => ignore(reason),
        _ => collector,
    }
}

fn context(role: &str, pid: u32) -> CollectContext {
    CollectContext { subjects: vec![Subject { role: role.to_owned(), pid }], ..CollectContext::default() }
}

fn show(c: &Collected) {
    println!("{}: {:?} {:?}", c.collector, c.coverage, c.cost);
    for i in &c.items {
        println!("  {} {:?} {:?}", i.name, i.label, i.value);
    }
    for profile in &c.stacks {
        println!("  {}: {} ns truncated", profile.name, profile.truncated);
        for stack in profile.stacks.iter().take(8) {
            println!(
                "    {} {:?} {} {}",
                stack.task,
                stack.role,
                stack.weight,
                functions(profile, &stack.frames).join(";")
            );
        }
    }
}

fn functions<'a>(profile: &'a StackProfile, frames: &[u32]) -> Vec<&'a str> {
    frames.iter().map(|frame| profile.frames[*frame as usize].function.as_str()).collect()
}

fn profile<'a>(collected: &'a Collected, name: &str) -> &'a StackProfile {
    collected.stacks.iter().find(|profile| profile.name == name).expect("a profile")
}

/// The weight of a task's stacks, and of those of them in which a function is.
fn weights(profile: &StackProfile, task: &str, function: &str) -> (u64, u64) {
    let of_task = profile.stacks.iter().filter(|stack| stack.task == task);
    of_task.fold((0, 0), |(all, inside), stack| {
        let is_inside = functions(profile, &stack.frames).iter().any(|name| name.contains(function));
        (all + stack.weight, inside + if is_inside { stack.weight } else { 0 })
    })
}

#[inline(never)]
fn sleeps_on_the_pipe(pipe: &mut PipeReader) -> Vec<[Instant; 2]> {
    let (mut byte, mut sleeps) = ([0], Vec::new());
    loop {
        let begun = Instant::now();
        if !black_box(&mut *pipe).read(&mut byte).is_ok_and(|read| read == 1) {
            return sleeps;
        }
        sleeps.push([begun, Instant::now()]);
    }
}

/// The time of those that lie between two moments, ns.
fn between(sleeps: &[[Instant; 2]], begin: Instant, end: Instant) -> f64 {
    let inside = sleeps.iter().filter(|[begun, ended]| *begun >= begin && *ended <= end);
    inside.map(|[begun, ended]| ended.duration_since(*begun).as_nanos() as f64).sum()
}

#[inline(never)]
fn wakes_by_the_pipe(mut pipe: PipeWriter, end: &AtomicBool) {
    while !end.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(3));
        black_box(&mut pipe).write_all(&[1]).expect("written");
    }
}

fn a_sleeping_thread_is_found_where_it_sleeps_with_its_waker() {
    let collector = collector();
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let end = AtomicBool::new(false);
    let (collected, sleeps, moments) = std::thread::scope(|scope| {
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let sleeper =
            named("the-sleeper").spawn_scoped(scope, move || sleeps_on_the_pipe(&mut reader)).expect("a thread");
        let asked = &end;
        named("the-waker").spawn_scoped(scope, move || wakes_by_the_pipe(writer, asked)).expect("a thread");
        std::thread::sleep(Duration::from_millis(50));
        let mut moments = vec![Instant::now()];
        let running = collector.start(&context("command", std::process::id())).expect("started");
        moments.push(Instant::now());
        std::thread::sleep(Duration::from_secs(3));
        moments.push(Instant::now());
        let collected = running.stop();
        moments.push(Instant::now());
        end.store(true, Ordering::SeqCst);
        (collected, sleeper.join().expect("it ends"), moments)
    });
    show(&collected);
    // What lies inside of the window for certain, and what may do.
    let (least, most) = (between(&sleeps, moments[1], moments[2]), between(&sleeps, moments[0], moments[3]));
    let is_right = |ns: u64| ns as f64 > 0.7 * least && (ns as f64) < 1.3 * most;
    let (slept, inside) = weights(profile(&collected, "off_cpu"), "the-sleeper", "sleeps_on_the_pipe");
    assert!(is_right(slept), "{slept} of {least} to {most}");
    assert!(inside as f64 > 0.95 * slept as f64, "{inside} of {slept}");
    let (woke, inside) = weights(profile(&collected, "waker"), "the-waker", "wakes_by_the_pipe");
    assert!(is_right(woke), "{woke} of {least} to {most}");
    assert!(inside as f64 > 0.95 * woke as f64, "{inside} of {woke}");
    let pair = collected.items.iter().find(|i| i.label.as_deref() == Some("the-sleeper < the-waker"));
    assert_eq!(pair.and_then(|i| i.value.value()), Some(woke as f64 / 1e9));
    // A timed sleep is ended by a timer, which may interrupt any task.
    let (by_interrupt, _) = weights(profile(&collected, "waker"), "[interrupt]", "hrtimer_wakeup");
    assert!(by_interrupt > 0);
    let place = collected.items.iter().find(|i| i.label.as_deref() == Some("command: sleeping"));
    assert!(place.and_then(|i| i.value.value()).is_some_and(|s| s > 0.9 * least / 1e9));
}

/// Ended with the test.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

fn tasks_that_are_not_under_test_are_left_out() {
    let collector = collector();
    let idle = Shell(Command::new("sh").args(["-c", "read nothing"]).stdin(Stdio::piped()).spawn().expect("a shell"));
    let busy = Shell(Command::new("sh").args(["-c", "while :; do sleep 0.01; done"]).spawn().expect("a shell"));
    std::thread::sleep(Duration::from_millis(100));
    let running = collector.start(&context("command", idle.0.id())).expect("started");
    std::thread::sleep(Duration::from_millis(500));
    let collected = running.stop();
    drop((idle, busy));
    show(&collected);
    assert!(collected.stacks.iter().all(|profile| profile.stacks.is_empty()));
    assert_eq!((collected.coverage.seen, collected.coverage.lost), (0, 0));
    assert!(!collected.items.iter().any(|i| i.name == "off_cpu_s"));
}

holdup_testkit::tests!(
    truth:
    a_sleeping_thread_is_found_where_it_sleeps_with_its_waker,
    tasks_that_are_not_under_test_are_left_out
);
