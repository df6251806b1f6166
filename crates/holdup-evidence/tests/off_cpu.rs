//! Where tasks are while they are off the CPU, and who wakes them, on real threads.
#![expect(clippy::print_stdout, reason = "it is shown where a test fails or cannot run")]

use holdup_evidence::{CollectContext, Collecting, Collector, Subject};
use holdup_model::{Availability, Collected, StackProfile};
use std::hint::black_box;
use std::io::{PipeReader, PipeWriter, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn collector() -> Option<&'static dyn Collector> {
    let collector = holdup_evidence::find("off-cpu").expect("listed");
    match collector.probe(&CollectContext::default()) {
        Availability::Unavailable { reason, .. } => {
            println!("ignored, because {reason}");
            None
        }
        _ => Some(collector),
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
fn sleeps_on_the_pipe(pipe: &mut PipeReader, times: &mut u64) {
    let mut byte = [0];
    while black_box(&mut *pipe).read(&mut byte).is_ok_and(|read| read == 1) {
        *times += 1;
    }
}

#[inline(never)]
fn wakes_by_the_pipe(mut pipe: PipeWriter, end: &AtomicBool) {
    while !end.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(3));
        black_box(&mut pipe).write_all(&[1]).expect("written");
    }
}

#[test]
fn a_sleeping_thread_is_found_where_it_sleeps_and_with_who_wakes_it() {
    let Some(collector) = collector() else { return };
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let end = AtomicBool::new(false);
    let (collected, length) = std::thread::scope(|scope| {
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        named("the-sleeper")
            .spawn_scoped(scope, move || {
                let mut times = 0;
                sleeps_on_the_pipe(&mut reader, &mut times);
                assert!(times > 0);
            })
            .expect("a thread");
        let asked = &end;
        named("the-waker").spawn_scoped(scope, move || wakes_by_the_pipe(writer, asked)).expect("a thread");
        std::thread::sleep(Duration::from_millis(50));
        let running = collector.start(&context("command", std::process::id())).expect("started");
        let begun = Instant::now();
        std::thread::sleep(Duration::from_secs(3));
        let length = begun.elapsed();
        let collected = running.stop();
        end.store(true, Ordering::SeqCst);
        (collected, length)
    });
    show(&collected);
    let window_ns = length.as_nanos() as f64;
    let (slept, inside) = weights(profile(&collected, "off_cpu"), "the-sleeper", "sleeps_on_the_pipe");
    assert!(slept as f64 > 0.6 * window_ns && (slept as f64) < 1.4 * window_ns, "{slept} of {window_ns}");
    assert!(inside as f64 > 0.95 * slept as f64, "{inside} of {slept}");
    let (woke, inside) = weights(profile(&collected, "waker"), "the-waker", "wakes_by_the_pipe");
    assert!(woke as f64 > 0.6 * window_ns && (woke as f64) < 1.4 * window_ns, "{woke} of {window_ns}");
    assert!(inside as f64 > 0.95 * woke as f64, "{inside} of {woke}");
    let pair = collected.items.iter().find(|i| i.label.as_deref() == Some("the-sleeper < the-waker"));
    assert!(pair.and_then(|i| i.value.value()).is_some_and(|s| s > 0.6 * length.as_secs_f64()));
    // Who sleeps for a time is woken by a timer, whatever task that interrupts.
    let (by_interrupt, _) = weights(profile(&collected, "waker"), "[interrupt]", "hrtimer_wakeup");
    assert!(by_interrupt as f64 > 0.5 * window_ns, "{by_interrupt}");
    let place = collected.items.iter().find(|i| i.label.as_deref() == Some("command: sleeping"));
    assert!(place.and_then(|i| i.value.value()).is_some_and(|s| s > 1.2 * length.as_secs_f64()));
}

/// Ended with the test.
struct Shell(Child);

impl Drop for Shell {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn of_others_nothing_is_told() {
    let Some(collector) = collector() else { return };
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
