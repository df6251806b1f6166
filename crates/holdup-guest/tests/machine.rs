//! Real guests under emulation: one that works, and the ways in which one is lost.

use crate::support;
use holdup_guest::arch;
use holdup_guest::machine::{Cause, Lost, Machine};
use holdup_model::frame::encode;
use holdup_model::guest::Guest;
use holdup_testkit::ignore;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Bench, Boot, bench};

/// Longer than anything takes; nothing waits so long for success.
const LONG: Duration = Duration::from_secs(400);

fn bench_or_ignore() -> Bench {
    bench(arch::find("amd64").unwrap()).unwrap_or_else(|why| ignore(why))
}

fn hello() -> Vec<u8> {
    encode(0, b"hello")
}

fn lost_of(machine: &mut Machine) -> Lost {
    loop {
        match machine.receive(LONG) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("neither a message nor a loss; {:?}", machine.console_tail(20)),
            Err(lost) => return lost,
        }
    }
}

/// Boots, takes the hello, and gives what happened then, twice the same.
fn loss(boot: &Boot<'_>) -> Option<Lost> {
    let bench = bench_or_ignore();
    let mut machine = bench.start(boot);
    assert_eq!(machine.receive(LONG), Ok(Some(b"hello".to_vec())), "{:?}", machine.console_tail(20));
    let lost = lost_of(&mut machine);
    assert_eq!(machine.receive(Duration::ZERO), Err(lost.clone()), "a guest is lost once");
    machine.end();
    Some(lost)
}

fn a_guest_boots_and_speaks_and_ends() {
    let bench = bench_or_ignore();
    let boot = Boot::of("echo", b"ready\n");
    let guest = Guest { numa_nodes: 2, pin: vec![0], ..boot.guest.clone() };
    let machine = bench.start(&Boot { guest, ..boot });
    speaks_and_ends(machine, &[("guest.accel", "tcg"), ("guest.numa_nodes", "2"), ("guest.arch", "x86_64")]);
}

/// Exchanges messages with a guest that echoes them, and ends it.
fn speaks_and_ends(mut machine: Machine, facts: &[(&str, &str)]) {
    // What is no message is noise.
    while machine.noise_bytes() == 0 {
        assert_eq!(machine.receive(Duration::from_millis(100)), Ok(None));
    }
    assert_eq!(machine.boot_ns(), None);
    // Frames with every byte, some longer than all buffers on the way.
    for length in [0usize, 1, 5000, 100_000] {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        machine.send(&payload).unwrap();
        assert_eq!(machine.receive(LONG).unwrap(), Some(payload));
    }
    assert!(machine.boot_ns().is_some());
    let value = |key: &str| machine.facts().into_iter().find(|f| f.key == key).and_then(|f| f.value);
    for (key, expected) in facts {
        assert_eq!(value(key).as_deref(), Some(*expected), "{key}");
    }
    let ended = machine.end();
    assert_eq!((ended.status.as_str(), ended.killed, ended.stderr.as_str()), ("exit code 0", false, ""));
    assert_eq!(ended.console_bytes, ended.console.len() as u64);
}

fn a_guest_of_arm64_speaks_and_ends() {
    let bench = bench(arch::find("arm64").unwrap()).unwrap_or_else(|why| ignore(why));
    let facts = [("guest.arch", "aarch64"), ("guest.machine", "virt,gic-version=max"), ("guest.channel", "ttyS0")];
    speaks_and_ends(bench.start(&Boot::of("echo", b"ready\n")), &facts);
}

fn a_guest_of_s390x_speaks_and_ends() {
    let bench = bench(arch::find("s390x").unwrap()).unwrap_or_else(|why| ignore(why));
    let facts = [("guest.arch", "s390x"), ("guest.machine", "s390-ccw-virtio"), ("guest.channel", "port:holdup.agent")];
    speaks_and_ends(bench.start(&Boot::of("echo", b"ready\n")), &facts);
}

fn a_panic_of_arm64_is_reported() {
    panics("arm64");
}

fn a_panic_of_s390x_is_reported() {
    panics("s390x");
}

fn panics(architecture: &str) {
    let bench = bench(arch::find(architecture).unwrap()).unwrap_or_else(|why| ignore(why));
    let mut machine = bench.start(&Boot::of("panic", &hello()));
    assert_eq!(machine.receive(LONG), Ok(Some(b"hello".to_vec())), "{:?}", machine.console_tail(20));
    let lost = lost_of(&mut machine);
    assert!(matches!(&lost.cause, Cause::Panic { line } if line.contains("sysrq triggered crash")), "{lost}");
}

fn an_init_that_exits_is_reported() {
    let Some(lost) = loss(&Boot::of("exit", &hello())) else { return };
    assert!(matches!(&lost.cause, Cause::InitDied { line } if line.contains("exitcode=0x00000100")), "{lost}");
    // The kernel's trace may be longer than what is kept of the console, so the line itself may have gone out of it.
    assert!(!lost.console.is_empty(), "{lost}");
    assert!(lost.problem("7.2").why.starts_with("its first process died: "));
}

fn a_panic_is_reported_by_its_first_line() {
    let Some(lost) = loss(&Boot::of("panic", &hello())) else { return };
    assert!(matches!(&lost.cause, Cause::Panic { line } if line.contains("sysrq triggered crash")), "{lost}");
}

fn a_guest_without_memory_is_reported() {
    let Some(lost) = loss(&Boot::of("memory", &hello())) else { return };
    assert!(matches!(&lost.cause, Cause::OutOfMemory { .. }), "{lost}");
}

fn a_guest_that_switches_itself_off_did_not_panic() {
    let Some(lost) = loss(&Boot::of("off", &hello())) else { return };
    assert_eq!(lost.cause, Cause::GuestOff { reason: "guest-shutdown".to_owned() }, "{lost}");
}

fn silence_is_a_hang_and_qemu_still_runs() {
    let silence = Duration::from_secs(3);
    let Some(lost) = loss(&Boot { silence, ..Boot::of("silence", &hello()) }) else { return };
    assert!(matches!(&lost.cause, Cause::Hang { seconds, status } if *seconds >= 3 && status == "running"), "{lost}");
}

fn a_boot_that_takes_too_long_is_ended() {
    let bench = bench_or_ignore();
    let mut machine = bench.start(&Boot { boot: Duration::from_secs(1), ..Boot::of("late", b"") });
    let lost = lost_of(&mut machine);
    assert_eq!(lost.cause, Cause::Timeout { seconds: 1, status: "running".to_owned() });
}

fn a_killed_qemu_is_reported_with_its_signal() {
    let bench = bench_or_ignore();
    let mut machine = bench.start(&Boot::of("killed", &hello()));
    let pid = rustix::process::Pid::from_raw(machine.pid().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let lost = lost_of(&mut machine);
    assert!(matches!(&lost.cause, Cause::QemuDied { signal: Some(9), .. }), "{lost}");
    let lost = machine.send(&[0; 1 << 20]).unwrap_err();
    assert!(matches!(&lost.cause, Cause::QemuDied { signal: Some(9), .. }), "{lost}");
}

fn qemus_message_about_an_invalid_kernel_is_the_error() {
    let bench = bench_or_ignore();
    let error = bench.try_start("/dev/null").unwrap_err();
    assert!(error.why.contains("not a regular file"), "{error}");
    let error = bench.try_start(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).unwrap_err();
    assert!(error.what.contains("qemu-system-x86_64 with tcg"), "{error}");
    assert!(!error.why.is_empty() && !error.why.contains("exit code 0"), "{error}");
}

/// The process that is killed by the test below: it starts a guest, says QEMU's pid and waits.
fn parent_of_a_guest() {
    let bench = bench_or_ignore();
    let machine = bench.start(&Boot::of("orphan", b""));
    println!("\nqemu {}", machine.pid());
    std::thread::sleep(LONG);
}

fn a_killed_holdup_leaves_no_qemu() {
    bench_or_ignore();
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "machine::parent_of_a_guest", "--ignored", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let pid = lines.find_map(|l| l.unwrap().strip_prefix("qemu ").map(str::to_owned)).unwrap();
    let command = format!("/proc/{pid}/comm");
    assert!(std::fs::read_to_string(&command).unwrap().starts_with("qemu"), "QEMU runs as {pid}");
    parent.kill().unwrap();
    parent.wait().unwrap();
    // It becomes another's child, which reaps it; a zombie has no memory map any more.
    let runs = || std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("qemu"));
    let mut tries = 0;
    while runs() {
        tries += 1;
        assert!(tries < 1000, "QEMU {pid} survived the one that started it");
        std::thread::sleep(Duration::from_millis(20));
    }
}

holdup_testkit::tests!(
    alone:
    a_guest_boots_and_speaks_and_ends;
    long:
    a_guest_of_arm64_speaks_and_ends,
    a_guest_of_s390x_speaks_and_ends,
    a_panic_of_arm64_is_reported,
    a_panic_of_s390x_is_reported,
    an_init_that_exits_is_reported,
    a_panic_is_reported_by_its_first_line,
    a_guest_without_memory_is_reported,
    a_guest_that_switches_itself_off_did_not_panic,
    silence_is_a_hang_and_qemu_still_runs,
    a_boot_that_takes_too_long_is_ended,
    a_killed_qemu_is_reported_with_its_signal,
    qemus_message_about_an_invalid_kernel_is_the_error,
    a_killed_holdup_leaves_no_qemu;
    by_hand:
    parent_of_a_guest
);
