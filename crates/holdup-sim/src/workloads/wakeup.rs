//! Periodic timers, and how late each wakes its thread: the programs of `wakeup`.

use super::{Files, Levels, Results, Workload, account};
use crate::machine::Machine;
use crate::placement::Placement;
use crate::program::{Op, Program};
use crate::stats::WindowStats;
use crate::world::{Load, Policy, TaskSpec};
use holdup_catalogue::wakeup;
use holdup_model::trial::NamedHistogram;
use holdup_model::{Histogram, Measurement, Parameters, Problem};
use holdup_stats::tail::Tail;

pub(super) struct Wakeup;

/// Wake-ups; their lengths are how late they were.
const LATE: u8 = 0;
/// Moments that were over before their thread had woken.
const MISSED: u8 = 1;
/// The share of wake-ups that the fitted level is exceeded by.
const LEVEL: f64 = 1e-5;

fn thread(interval_ns: u64) -> Program {
    let ops = vec![Op::NextMoment { interval_ns, late: LATE, missed: MISSED }, Op::Jump(0)];
    Program::new("wakeup", ops)
}

/// The CPUs of the threads; empty for anywhere.
fn cpus(p: &wakeup::Parameters, machine: &Machine) -> Result<Vec<u32>, Problem> {
    let all = machine.topology.cpus();
    let (is_pinned, named) = (p.pin, p.cpus.as_str());
    let wrong = |why: String, hint: &str| Err(Problem::usage(format!("cpus {named}"), why).hint(hint));
    let mut cpus: Vec<u32> = Vec::new();
    match (named, Placement::of(p.placement, machine.topology)?.client) {
        ("allowed", Some(cpu)) => return Ok(vec![cpu]),
        ("allowed", None) if is_pinned => return Ok((0..all).collect()),
        ("allowed", None) => return Ok(Vec::new()),
        (_, Some(_)) => return wrong("placement names CPUs as well".to_owned(), "give one of the two"),
        _ => {}
    }
    for part in named.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last && last < all => cpus.extend(first..=last),
            (Ok(_), Ok(_)) => return wrong(format!("the machine has {all} CPUs"), "write it as 0-3,8"),
            _ => return wrong("it is no list of CPUs".to_owned(), "write it as 0-3,8"),
        }
    }
    if is_pinned || cpus.len() == 1 {
        return Ok(cpus);
    }
    wrong("a simulated task stays on one CPU or on none".to_owned(), "take pin = on, or all CPUs")
}

fn tail(lengths: &Histogram) -> Measurement {
    let values: Vec<(f64, u64)> = lengths.buckets().map(|(low, high, n)| ((low + high) as f64 / 2.0, n)).collect();
    match Tail::fit(&values) {
        Ok(tail) => Measurement::new("tail_1e5_us", tail.level(LEVEL) / 1e3),
        Err(why) => Measurement::absent("tail_1e5_us", why.to_string()),
    }
}

impl Workload for Wakeup {
    fn id(&self) -> &'static str {
        "wakeup"
    }

    fn leaves_out(&self) -> &'static str {
        "a thread reads the clock without taking time; a timer with slack comes at the end of it, also where another \
         interrupt would serve it earlier; CPUs have one idle state"
    }

    fn load(&self, parameters: &Parameters, _levels: &Levels, machine: &Machine, _: &Files) -> Result<Load, Problem> {
        let p = wakeup::Parameters::read_simulated(parameters)?;
        let (threads, interval_ns, distance_ns) = (p.threads, p.interval, p.distance);
        let policy = match p.priority {
            0 => Policy::Other,
            priority => Policy::Fifo(priority as u8),
        };
        let cpus = cpus(&p, machine)?;
        let programs = if distance_ns == 0 { 1 } else { threads };
        let task = |number: u32| TaskSpec {
            policy,
            pinned: (!cpus.is_empty()).then(|| cpus[number as usize % cpus.len()]),
            begins_ns: Some(interval_ns * u64::from(number) / u64::from(threads)),
            ..TaskSpec::new(number % programs, 0)
        };
        Ok(Load {
            programs: (0..programs).map(|number| thread(interval_ns + distance_ns * u64::from(number))).collect(),
            tasks: (0..threads).map(task).collect(),
            marks: 2,
            ..Load::default()
        })
    }

    fn results(&self, _parameters: &Parameters, seen: &WindowStats, _length_ns: u64) -> Results {
        let late = &seen.marks[LATE as usize];
        let measurements = vec![
            Measurement::percentile("latency_p50_us", &late.lengths, 0.5, 1e3),
            Measurement::percentile("latency_p99_us", &late.lengths, 0.99, 1e3),
            Measurement::percentile("latency_p999_us", &late.lengths, 0.999, 1e3),
            tail(&late.lengths),
            Measurement::new("cycles", late.count as f64),
            Measurement::new("missed_periods", seen.marks[MISSED as usize].count as f64),
            match late.count {
                0 => Measurement::absent("cpu_us_per_cycle", "no thread woke in the window"),
                cycles => {
                    Measurement::new("cpu_us_per_cycle", account(&seen.roles).cpu_ns as f64 / 1e3 / cycles as f64)
                }
            },
        ];
        (measurements, vec![NamedHistogram { name: "latency".to_owned(), histogram: late.lengths.clone() }])
    }
}
