//! How `ping` compares with sockperf, in the same interleaved run, on the same CPUs.
//!
//! `unshare -n sh -c 'ip link set lo up; cargo bench -p holdup-workloads --bench ping_pairs [-- PAIRS [SECONDS]]'`
//!
//! A separate namespace is needed because what was delivered of sockperf's datagrams is read from the counters of
//! the whole namespace: `InDatagrams` of /proc/net/snmp. sockperf reports only what it sent; over TCP that is taken for
//! what was delivered, because nothing is lost there. Its latency is half of a round trip and is doubled here.
//! Runs alternate in order, so that what else the machine does falls on both; printed are medians and the median of the
//! pairs' ratios, ours over theirs. On a machine that does much else rates say little; CPU time per message does.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers on stdout")]

#[path = "by_hand/ping_trial.rs"]
mod ping_trial;

use ping_trial::Trial;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// What one run brought.
#[derive(Clone, Copy)]
struct Run {
    /// Messages that were delivered, or round trips, per second.
    rate: f64,
    /// Messages that were sent per second.
    sent: f64,
    /// Median of round trips, us; not a number where there are none.
    p50_us: f64,
    /// CPU time of both ends over all that was delivered, begin and end of the run included, ns.
    cpu_ns: f64,
}

/// One comparison.
struct Case {
    mode: &'static str,
    protocol: &'static str,
    placement: &'static str,
    /// The CPUs of sockperf's client and server.
    cpus: (&'static str, &'static str),
}

fn main() {
    // Cargo passes --bench; the numbers are ours.
    let mut numbers = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let (pairs, seconds) = (numbers.next().unwrap_or(9).max(3), numbers.next().unwrap_or(2).max(1));
    if Command::new("sockperf").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        println!("left out, because sockperf is not installed");
        return;
    }
    println!("{pairs} pairs of {seconds} s; ratios are ours over sockperf's");
    for mode in ["throughput", "ping-pong"] {
        for protocol in ["udp", "tcp"] {
            for (placement, cpus) in [("two-cpus", ("0", "1")), ("same-cpu", ("0", "0"))] {
                compare(&Case { mode, protocol, placement, cpus }, pairs, seconds);
            }
        }
    }
}

fn compare(case: &Case, pairs: u64, seconds: u64) {
    let trial = Trial::new(case.mode, case.protocol, case.placement);
    let ours = || {
        let before_ns = children_ns();
        let result = trial.run(Duration::from_secs(seconds));
        let used_ns = children_ns() - before_ns;
        let metric = |id: &str| {
            result.measurements.iter().find(|m| m.metric == id).and_then(|m| m.value.value()).unwrap_or(f64::NAN)
        };
        let cpu_ns = used_ns / metric("messages_received");
        Run { rate: metric("messages_per_s"), sent: metric("sent_per_s"), p50_us: metric("rtt_p50_us"), cpu_ns }
    };
    let theirs = || sockperf(case, seconds);
    let runs: Vec<(Run, Run)> = (0..pairs)
        .map(|i| {
            if i.is_multiple_of(2) {
                let first = ours();
                (first, theirs())
            } else {
                let first = theirs();
                (ours(), first)
            }
        })
        .collect();
    println!("{} over {}, {}", case.mode, case.protocol, case.placement);
    report("delivered per s", &runs, |run| run.rate);
    report("sent per s", &runs, |run| run.sent);
    report("p50 us", &runs, |run| run.p50_us);
    report("cpu ns", &runs, |run| run.cpu_ns);
}

fn report(name: &str, runs: &[(Run, Run)], of: fn(&Run) -> f64) {
    let (ours, theirs) = runs.iter().map(|(o, t)| (of(o), of(t))).collect::<(Vec<_>, Vec<_>)>();
    if ours.iter().chain(&theirs).any(|x| x.is_nan()) {
        return;
    }
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(o, t)| o / t).collect();
    let all = ratios.iter().map(|r| format!("{r:.2}")).collect::<Vec<_>>().join(" ");
    println!(
        "  {name:16} ours {:12.1}  sockperf {:12.1}  ratio {:.3}  ({all})",
        median(ours),
        median(theirs),
        median(ratios)
    );
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

/// Ends a server that was started here.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _waited = self.0.wait();
    }
}

fn sockperf(case: &Case, seconds: u64) -> Run {
    const PORT: &str = "11111";
    let tcp: &[&str] = if case.protocol == "tcp" { &["--tcp"] } else { &[] };
    let on = |cpu: &str| {
        let mut command = Command::new("taskset");
        command.args(["-c", cpu, "sockperf"]);
        command
    };
    let mut server = on(case.cpus.1);
    server.args(["sr", "-i", "127.0.0.1", "-p", PORT]).args(tcp).stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server(server.spawn().expect("sockperf starts"));
    // Until it listens; its client gives up immediately otherwise.
    std::thread::sleep(Duration::from_millis(400));
    let verb = if case.mode == "throughput" { "tp" } else { "pp" };
    let (before, before_ns) = (in_datagrams(), children_ns());
    let out = on(case.cpus.0)
        .args([verb, "-i", "127.0.0.1", "-p", PORT, "-t", &seconds.to_string()])
        .args(tcp)
        .output()
        .expect("sockperf runs");
    let delivered = (in_datagrams() - before) as f64;
    drop(server);
    let used_ns = children_ns() - before_ns;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let number = |before: &str| -> f64 {
        let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("no {before:?} in {text}"));
        let rest = rest.trim_start_matches([' ', '=']);
        rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().and_then(|n| n.parse().ok()).expect("a number")
    };
    if verb == "tp" {
        let (sent, length) = (number("Total of "), number("messages sent in "));
        let delivered = if case.protocol == "udp" { delivered } else { sent };
        Run { rate: delivered / length, sent: sent / length, p50_us: f64::NAN, cpu_ns: used_ns / delivered }
    } else {
        let valid = text.split("[Valid Duration]").nth(1).expect("it prints its valid duration").to_owned();
        let of_valid = |before: &str| -> f64 {
            let rest = valid.split(before).nth(1).expect("it is there");
            rest.split(|c: char| !c.is_ascii_digit() && c != '.').next().and_then(|n| n.parse().ok()).expect("a number")
        };
        let rate = of_valid("ReceivedMessages=") / of_valid("RunTime=");
        let sent = of_valid("SentMessages=") / of_valid("RunTime=");
        // Of the whole run, as the CPU time is.
        let cpu_ns = used_ns / number("ReceivedMessages=");
        Run { rate, sent, p50_us: 2.0 * number("percentile 50.000 ="), cpu_ns }
    }
}

/// Datagrams that were delivered to sockets of this namespace.
fn in_datagrams() -> u64 {
    let text = std::fs::read_to_string("/proc/net/snmp").expect("the namespace's counters");
    let values = text.lines().filter(|l| l.starts_with("Udp: ")).nth(1).expect("values follow names");
    values.split_whitespace().nth(1).and_then(|n| n.parse().ok()).expect("a number")
}

/// CPU time of all children that have ended so far, ns.
fn children_ns() -> f64 {
    // SAFETY: an all-zero rusage is valid, and the kernel fills in one.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let ns = |t: libc::timeval| t.tv_sec as f64 * 1e9 + t.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}
