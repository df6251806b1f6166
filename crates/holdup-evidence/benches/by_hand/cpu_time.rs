//! CPU time of processes, for what wall-clock rates on a shared machine do not show.

use std::process::Child;
use std::time::{Duration, Instant};

fn wait(child: &Child, options: i32) -> Option<f64> {
    // SAFETY: zero bytes are a valid rusage, and the kernel writes one.
    let (ended, usage) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        (libc::wait4(child.id() as i32, std::ptr::null_mut(), options, &raw mut usage), usage)
    };
    (ended != 0).then(|| of_usage(&usage))
}

fn of_usage(usage: &libc::rusage) -> f64 {
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

/// Waits for a process; gives the CPU time of its whole life and that of the children it waited for, s.
pub(crate) fn of_ended(child: &Child) -> f64 {
    wait(child, 0).unwrap_or(0.0)
}

/// Sends a signal to a process and waits for its end; kills it when that takes longer than `patience`.
pub(crate) fn end(child: &Child, signal: i32, patience: Duration) -> Result<(), String> {
    // SAFETY: a plain system call on a child that has not been waited for, so that the number is its own.
    let send = |signal| unsafe { libc::kill(child.id() as i32, signal) };
    send(signal);
    let begun = Instant::now();
    while wait(child, libc::WNOHANG).is_none() {
        if begun.elapsed() > patience {
            send(libc::SIGKILL);
            of_ended(child);
            return Err(format!("it did not end within {} s", patience.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// CPU time of this process, s.
pub(crate) fn of_this() -> f64 {
    // SAFETY: zero bytes are a valid rusage, and the kernel writes one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    of_usage(&usage)
}

/// CPU time of a living process and of its children that have ended, s.
pub(crate) fn of_running(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    // Fields 14 to 17 of proc(5), in ticks of which there are 100 a second on every Linux that we know.
    after_name.split_ascii_whitespace().skip(11).take(4).filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Switches of all CPUs since the machine started.
pub(crate) fn switches() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    stat.lines().find_map(|line| line.strip_prefix("ctxt ")?.trim().parse().ok()).unwrap_or(0)
}
