//! Times in which holdup, its load or the whole machine stood still while something was measured.
//!
//! A thread wakes every 20 ms and compares CLOCK_MONOTONIC with when it should have woken: a process that was stopped
//! (SIGSTOP, the freezer of its control group), a virtual machine that was paused and a CPU that was not to be had all
//! show as a gap. What else can be known comes from its own source: SIGCONT after a stop, the state of child processes
//! (waitid(2)), CLOCK_BOOTTIME for a suspended host (clock_gettime(2)), and stolen time (proc_stat(5)).

use crate::Host;
use rustix::time::{ClockId, clock_gettime};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the thread wakes.
const BEAT: Duration = Duration::from_millis(20);
/// Gaps from here on are added up; shorter ones are what a busy CPU does.
const GAP: Duration = Duration::from_millis(50);
/// Beats between two looks at the child processes, for which the kernel walks all of them.
const BEATS_BETWEEN_LOOKS: u32 = 5;
/// A clock that is ahead of another one by less was read at another moment.
const CLOCK_NOISE_NS: u64 = 5_000_000;
/// A gap without a known cause counts from here on, or from this share of the window, whichever is longer. Behind 256
/// tasks that spin on two CPUs the longest gap of 6 s was 52 ms (6.18, EEVDF).
const UNEXPLAINED_NS: u64 = 150_000_000;
const UNEXPLAINED_SHARE: f64 = 0.05;

/// What stood still in a window.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Stalls {
    /// The window by CLOCK_MONOTONIC, ns.
    pub window_ns: u64,
    /// The longest gap, ns: how much later than asked for the thread woke.
    pub longest_ns: u64,
    /// The sum of all gaps of 50 ms and more, ns.
    pub sum_ns: u64,
    /// How long the host was suspended, ns.
    pub suspended_ns: u64,
    /// True if this process was continued after a stop.
    pub was_continued: bool,
    /// Children of this process that were stopped or continued: pid and name.
    pub stopped_children: Vec<(u32, String)>,
    /// The share of all CPU time that the hypervisor took, from 0 to 1; `None` when the kernel does not say.
    pub steal_share: Option<f64>,
}

impl Stalls {
    /// Why what was measured in the window does not count: what stood still, and for how long.
    pub fn verdict(&self, max_steal_share: f64) -> Option<(&'static str, String)> {
        let ms = |ns: u64| format!("{:.0} ms", ns as f64 / 1e6);
        let of = format!("of a window of {}", ms(self.window_ns));
        if self.suspended_ns > CLOCK_NOISE_NS {
            return Some(("the host was suspended", format!("for {} in the window", ms(self.suspended_ns))));
        }
        if let Some((pid, name)) = self.stopped_children.first() {
            let others = match self.stopped_children.len() - 1 {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            return Some(("a process of the load was stopped", format!("pid {pid} ({name}){others}, in the window")));
        }
        if self.was_continued && self.sum_ns > 0 {
            return Some(("holdup was stopped", format!("for {} {of}", ms(self.sum_ns))));
        }
        let unexplained = UNEXPLAINED_NS.max((self.window_ns as f64 * UNEXPLAINED_SHARE) as u64);
        if self.longest_ns > unexplained {
            let why = format!("it was paused, or holdup got no CPU, for {} {of}", ms(self.longest_ns));
            return Some(("the machine stood still", why));
        }
        let stolen = self.steal_share.filter(|share| *share > max_steal_share)?;
        let why = format!(
            "{:.1} % of all CPU time in the window, the limit is {:.1} %",
            stolen * 100.0,
            max_steal_share * 100.0
        );
        Some(("the hypervisor took CPU time", why))
    }
}

/// Watches for stalls until it is stopped.
pub struct StallWatch {
    host: Host,
    begin: Instant,
    ahead_ns: i64,
    steal: Option<(u64, u64)>,
    /// Dropping it ends the thread.
    end: Option<mpsc::Sender<()>>,
    beats: JoinHandle<Beats>,
}

#[derive(Debug, Default)]
struct Beats {
    longest: Duration,
    sum: Duration,
    stopped: Vec<(u32, String)>,
}

impl StallWatch {
    /// Begins to watch.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(host: &Host) -> io::Result<Self> {
        let steal = steal(host);
        // What was pending from before the window is not in it.
        let _from_before = stopped_children(host);
        continued().store(false, Ordering::Relaxed);
        let (end, ended) = mpsc::channel();
        let for_beats = host.clone();
        let beats = std::thread::Builder::new().name("holdup-stalls".to_owned());
        let beats = beats.stack_size(64 << 10).spawn(move || beat(&for_beats, &ended))?;
        Ok(StallWatch {
            host: host.clone(),
            begin: Instant::now(),
            ahead_ns: boottime_ahead_ns(),
            steal,
            end: Some(end),
            beats,
        })
    }

    /// Ends, and says what stood still.
    pub fn stop(mut self) -> Stalls {
        let window_ns = u64::try_from(self.begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let suspended_ns = boottime_ahead_ns().saturating_sub(self.ahead_ns).max(0).unsigned_abs();
        drop(self.end.take());
        let beats = self.beats.join().unwrap_or_default();
        let steal_share = match (self.steal, steal(&self.host)) {
            (Some((steal, all)), Some((steal_now, all_now))) if all_now > all => {
                Some(steal_now.saturating_sub(steal) as f64 / (all_now - all) as f64)
            }
            _ => None,
        };
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Stalls {
            window_ns,
            longest_ns: ns(beats.longest),
            sum_ns: ns(beats.sum),
            suspended_ns,
            was_continued: continued().swap(false, Ordering::Relaxed),
            stopped_children: beats.stopped,
            steal_share,
        }
    }
}

/// Wakes until `ended` is dropped.
fn beat(host: &Host, ended: &mpsc::Receiver<()>) -> Beats {
    let mut beats = Beats::default();
    for number in 1_u32.. {
        let asleep = Instant::now();
        let is_end = !matches!(ended.recv_timeout(BEAT), Err(mpsc::RecvTimeoutError::Timeout));
        let late = asleep.elapsed().saturating_sub(BEAT);
        beats.longest = beats.longest.max(late);
        if late >= GAP {
            beats.sum += late;
        }
        if is_end || number.is_multiple_of(BEATS_BETWEEN_LOOKS) {
            for child in stopped_children(host) {
                if !beats.stopped.contains(&child) {
                    beats.stopped.push(child);
                }
            }
        }
        if is_end {
            break;
        }
    }
    beats
}

/// How far CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, which stands still while the host is suspended, ns.
fn boottime_ahead_ns() -> i64 {
    let ns = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
    };
    // The pair with the least time around it counts: one that was preempted between both would look like a suspension.
    let pairs = (0..5).map(|_| {
        let (before, boot, after) = (ns(ClockId::Monotonic), ns(ClockId::Boottime), ns(ClockId::Monotonic));
        (after - before, boot - before)
    });
    pairs.min().map_or(0, |(_, ahead)| ahead)
}

/// Set by SIGCONT, which a stopped process gets when it continues (signal(7)).
fn continued() -> &'static AtomicBool {
    static CONTINUED: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    CONTINUED.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        // Without the handler a stop is a gap without a known cause.
        let _handler = signal_hook::flag::register(libc::SIGCONT, flag.clone());
        flag
    })
}

/// The children of this process that were stopped or continued since the last look, with their names. Those that have
/// ended are left to the caller that waits for them.
fn stopped_children(host: &Host) -> Vec<(u32, String)> {
    let mut found = Vec::new();
    // A child that is stopped and continued without end must not keep this one here.
    for _ in 0..64 {
        // SAFETY: an empty siginfo_t is a valid one to be written to.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: `info` is one that the kernel may write.
        let answer =
            unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, libc::WSTOPPED | libc::WCONTINUED | libc::WNOHANG) };
        // SAFETY: waitid(2) wrote the fields of SIGCHLD, or left them zero.
        let pid = unsafe { info.si_pid() };
        let Some(pid) = u32::try_from(pid).ok().filter(|pid| answer == 0 && *pid > 0) else { break };
        let name = host.read_value(&format!("/proc/{pid}/comm")).unwrap_or_else(|_| "ended since".to_owned());
        found.push((pid, name));
    }
    found
}

/// Stolen and all CPU time of the host since its boot, in ticks (proc_stat(5)).
fn steal(host: &Host) -> Option<(u64, u64)> {
    let text = host.read_text("/proc/stat").ok()?;
    let ticks: Vec<u64> = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))?
        .split_ascii_whitespace()
        .map_while(|w| w.parse().ok())
        .collect();
    // User and nice have the time of guests in them, which stands once more behind.
    Some((*ticks.get(7)?, ticks.iter().take(8).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    fn quiet() -> Stalls {
        Stalls { window_ns: 3_000_000_000, longest_ns: 40_000_000, steal_share: Some(0.01), ..Stalls::default() }
    }

    #[test]
    fn each_stall_has_its_reason() {
        assert_eq!(quiet().verdict(0.1), None);
        let check = |stalls: Stalls, expect: &str| {
            let (what, why) = stalls.verdict(0.1).expect("it stood still");
            assert!(format!("{what}: {why}").contains(expect), "{what}: {why}");
        };
        check(Stalls { suspended_ns: 60_000_000_000, ..quiet() }, "the host was suspended: for 60000 ms");
        check(
            Stalls { was_continued: true, sum_ns: 80_000_000, ..quiet() },
            "holdup was stopped: for 80 ms of a window of 3000 ms",
        );
        check(Stalls { longest_ns: 300_000_000, ..quiet() }, "the machine stood still");
        check(
            Stalls { steal_share: Some(0.3), ..quiet() },
            "30.0 % of all CPU time in the window, the limit is 10.0 %",
        );
        let two = vec![(7, "pgbench".to_owned()), (8, "x".to_owned())];
        check(Stalls { stopped_children: two, ..quiet() }, "pid 7 (pgbench) and 1 more");
        assert_eq!(Stalls { was_continued: true, ..quiet() }.verdict(0.1), None, "SIGCONT alone stops nothing");
        let long = Stalls { window_ns: 100_000_000_000, longest_ns: 300_000_000, ..quiet() };
        assert_eq!(long.verdict(0.1), None, "too little of a long window");
        assert_eq!(Stalls { steal_share: None, ..quiet() }.verdict(0.0), None, "absent is not zero");
    }

    #[test]
    fn a_child_that_was_stopped_is_named() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let pid = rustix::process::Pid::from_child(&child);
        let watch = StallWatch::start(&Host::real()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
        let state = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&state).unwrap().contains(") T ") {
            std::thread::yield_now();
        }
        let stalls = watch.stop();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(stalls.stopped_children, [(child.id(), "sleep".to_owned())]);
    }

    #[test]
    fn stolen_time_is_a_share_of_all() {
        let fs = MemoryFs::default();
        fs.put("/proc/stat", "cpu  100 0 100 600 0 0 0 200 50 0\n");
        assert_eq!(steal(&fs.host()), Some((200, 1000)), "time of guests counts once");
        fs.put("/proc/stat", "cpu  1 2 3 4\n");
        assert_eq!(steal(&fs.host()), None);
    }
}
