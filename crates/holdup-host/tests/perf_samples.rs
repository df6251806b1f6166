//! Samples of this process by the running kernel.

use holdup_host::perf_samples::{Record, Sampler, Sampling, UserSide};
use holdup_host::{Host, online_cpus};
use holdup_testkit::ignore;
use std::hint::black_box;
use std::time::{Duration, Instant};

fn sampler(ring_bytes: usize) -> Sampler {
    let host = Host::real();
    let cpus = online_cpus(&host).expect("this machine has CPUs");
    match host.sampler(&cpus, Sampling { frequency_hz: 997, stack_bytes: 16 << 10, ring_bytes }) {
        Ok(sampler) => sampler,
        Err(e) => ignore(e),
    }
}

/// Works until this thread has had so much of a CPU.
fn work(how_long: Duration) {
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let begun = Duration::try_from(now()).expect("not negative");
    while Duration::try_from(now()).expect("not negative") - begun < how_long {
        black_box((0..1000_u64).map(black_box).sum::<u64>());
    }
}

fn a_busy_task_is_seen_with_registers_stack_and_name() {
    let mut sampler = sampler(4 << 20);
    sampler.enable().expect("it is ours");
    let program = std::process::Command::new("true").status();
    work(Duration::from_millis(200));
    sampler.disable().expect("it is ours");
    let (mut own, mut last_ns, mut began, mut named) = (0, 0, 0, false);
    let drained = sampler.drain(|time_ns, record| {
        assert!(time_ns >= last_ns, "in the order of time");
        last_ns = time_ns;
        match record {
            Record::Sample { pid, user: UserSide::Bits64(at, stack), .. } if *pid == std::process::id() => {
                assert!(at.ip != 0 && at.sp % 8 == 0 && !stack.is_empty(), "{at:?}");
                own += 1;
            }
            Record::Began { parent_pid, .. } if *parent_pid == std::process::id() => began += 1,
            Record::Named { name, is_exec: true, .. } if name == "true" => named = true,
            _ => {}
        }
    });
    assert_eq!(drained.broken, 0);
    let lost = sampler.lost().unwrap_or(0);
    assert!(own > 20 || lost > 0, "200 ms at 997 Hz: {own}, {lost} lost");
    if program.is_ok_and(|status| status.success()) && lost == 0 {
        assert!(began >= 1 && named, "the child: {began} {named}");
    }
    assert_eq!(sampler.drain(|_, _| {}).broken, 0, "what comes after is whole as well");
}

fn what_finds_no_room_is_counted() {
    // Three samples with their stacks fit.
    let mut sampler = sampler(64 << 10);
    sampler.enable().expect("it is ours");
    let (mut reported, mut seen) = (0, 0);
    let begun = Instant::now();
    while reported == 0 && begun.elapsed() < Duration::from_secs(60) {
        work(Duration::from_millis(100));
        sampler.drain(|_, record| match record {
            Record::Lost(count) => reported += count,
            Record::Sample { .. } => seen += 1,
            _ => {}
        });
    }
    sampler.disable().expect("it is ours");
    assert!(reported > 0 && seen > 0, "{reported} lost, {seen} seen");
    // The kernel's own count has those of the end, too, and may be of a kernel that has none.
    assert!(sampler.lost().is_none_or(|lost| lost >= reported), "{reported} {:?}", sampler.lost());
}

holdup_testkit::tests!(a_busy_task_is_seen_with_registers_stack_and_name, what_finds_no_room_is_counted);
