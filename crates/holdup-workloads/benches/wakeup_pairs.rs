//! What `wakeup` adds to a bare loop around clock_nanosleep(2): lateness (p50) and CPU time per wake-up.
//!
//! `cargo bench -p holdup-workloads --bench wakeup_pairs [-- PAIRS [MILLISECONDS]]`
//!
//! Both have one thread on CPU 0 that wakes each millisecond, in alternating order. The bare loop reads the clock and
//! keeps every lateness in memory that is there already.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers on stdout")]

#[path = "../../holdup-locks/benches/by_hand/pairs.rs"]
mod pairs;

use holdup_induce::trial::{self, Trial};
use holdup_load::clock::now_ns;
use holdup_load::placement::stay_on;
use holdup_model::Value;

const INTERVAL_NS: u64 = 1_000_000;

/// Median lateness and CPU time per wake-up, both in us.
type Measured = (f64, f64);

fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn bare(ms: u64) -> Measured {
    let wakes = (ms * 1_000_000 / INTERVAL_NS) as usize;
    let thread = std::thread::spawn(move || {
        stay_on(&[0]).expect("CPU 0 may be used");
        let mut late = vec![0u64; wakes];
        let (mut next_ns, cpu) = (now_ns() + INTERVAL_NS, cpu_ns());
        for late in &mut late {
            let at =
                libc::timespec { tv_sec: (next_ns / 1_000_000_000) as i64, tv_nsec: (next_ns % 1_000_000_000) as i64 };
            // SAFETY: the kernel reads one timespec.
            unsafe {
                libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut());
            }
            let now = now_ns();
            *late = now.saturating_sub(next_ns);
            next_ns += (*late / INTERVAL_NS + 1) * INTERVAL_NS;
        }
        let cpu_us = (cpu_ns() - cpu) as f64 / 1e3 / wakes as f64;
        late.sort_unstable();
        (late[wakes / 2] as f64 / 1e3, cpu_us)
    });
    thread.join().expect("it ends well")
}

fn ours(ms: u64) -> Measured {
    let values: [(&str, Value); 8] = [
        ("threads", 1.into()),
        ("interval", (INTERVAL_NS as i64).into()),
        ("distance", 0.into()),
        ("priority", 0.into()),
        ("pin", true.into()),
        ("cpus", "0".into()),
        ("placement", "none".into()),
        ("by", "holdup".into()),
    ];
    let mut parameters = holdup_catalogue::wakeup::Parameters::defaults(2);
    for (name, value) in values {
        parameters.set(name, value);
    }
    let mut prepared = trial::prepare("wakeup", &parameters).expect("it can be prepared everywhere");
    let result = Trial { warmup_ms: 0, ..Trial::new(&parameters, ms) }.run(&mut *prepared);
    let measurements = result.unwrap_or_else(|problem| panic!("{problem}")).measurements;
    let value = |id: &str| measurements.iter().find(|m| m.metric == id).and_then(|m| m.value.value());
    (value("latency_p50_us").unwrap_or(f64::NAN), value("cpu_us_per_cycle").unwrap_or(f64::NAN))
}

fn main() {
    // Cargo passes --bench; the numbers are ours.
    let mut numbers = std::env::args().skip(1).filter_map(|a| a.parse::<u64>().ok());
    let (count, ms) = (numbers.next().map_or(15, |n| n.max(6) as usize), numbers.next().unwrap_or(2_000));
    let runs = pairs::interleaved(count, &mut || bare(ms).0, &mut || ours(ms).0);
    println!("late, p50: {}", pairs::in_words("bare loop", "us", &runs));
    let mut added: Vec<f64> = runs.iter().map(|(bare, ours)| ours - bare).collect();
    added.sort_by(f64::total_cmp);
    println!("added lateness, p50: {:.3} us (median of pairs)", added[added.len() / 2]);
    let runs = pairs::interleaved(count, &mut || bare(ms).1, &mut || ours(ms).1);
    println!("CPU per wake-up: {}", pairs::in_words("bare loop", "us", &runs));
}
