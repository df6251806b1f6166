//! The schedules by which EEVDF's slices were introduced (P. Zijlstra, "sched/eevdf: Use sched_attr::sched_runtime to set
//! request/slice suggestion", linux-kernel 2024-04-05): quantum 8, sum of weights 4, members that begin at 0, 1, 2, 3.

use holdup_sim::machine::Kernel;
use holdup_sim::sched::eevdf::Features;
use holdup_sim::sched::single_queue::{Member, Step, schedule};

/// One unit of the published drawings, ns: requests of 8 and 16 units are slices that a task may ask for.
const UNIT_NS: i64 = 100_000;
const QUANTUM: i64 = 8;

/// The rules of the kernel that the drawings belong to: a slice is not cut short by another's.
fn v6_18() -> Features {
    Kernel::of_version("6.18", 1, 250).expect("known").fair
}

fn as_published() -> Features {
    Features { protects_shortest: false, ..v6_18() }
}

struct Vector {
    /// Name, weight, request.
    members: &'static [(char, u64, i64)],
    /// Who runs in each quantum.
    schedule: &'static str,
    /// Quantum and virtual time, as printed or as corrected.
    virtual_times: &'static [(usize, f64)],
}

const VECTORS: &[Vector] = &[
    Vector {
        members: &[('A', 1, 8), ('B', 1, 8), ('C', 1, 8), ('D', 1, 8)],
        schedule: "ABCDABCD",
        virtual_times: &[(0, 1.5), (1, 3.5), (2, 5.5), (3, 7.5)],
    },
    // The mail prints 8.25 and 12.25 for t = 4 and t = 6. Its own rule, one quantum of 8 among a weight of 4 is 2, gives
    // 9.25 and 13.25, and so do the positions that it draws: (16 + 1 + 2 * 10) / 4.
    Vector {
        members: &[('A', 1, 16), ('B', 1, 16), ('C', 2, 16)],
        schedule: "AACCBBCC",
        virtual_times: &[(0, 1.25), (2, 5.25), (4, 9.25), (6, 13.25)],
    },
    Vector {
        members: &[('A', 1, 16), ('B', 1, 8), ('C', 1, 16), ('D', 1, 16)],
        schedule: "BAACCBDD",
        virtual_times: &[(0, 1.5), (1, 3.5), (3, 7.5), (5, 11.5), (6, 13.5)],
    },
    Vector {
        members: &[('A', 1, 16), ('B', 1, 8), ('C', 2, 16)],
        schedule: "BCCAABCC",
        virtual_times: &[(0, 1.25), (1, 3.25), (3, 7.25), (5, 11.25), (6, 13.25)],
    },
    Vector {
        members: &[('A', 1, 16), ('B', 2, 16), ('C', 1, 8)],
        schedule: "BBCAABBC",
        virtual_times: &[(0, 1.0), (2, 5.0), (3, 7.0), (5, 11.0), (7, 15.0)],
    },
];

fn members(vector: &Vector) -> Vec<Member> {
    let member = |(place, (name, weight, request)): (usize, &(char, u64, i64))| Member {
        name: *name,
        weight: weight * 1024,
        slice_ns: (request * UNIT_NS) as u64,
        vruntime_ns: place as i64 * UNIT_NS,
    };
    vector.members.iter().enumerate().map(member).collect()
}

fn run(features: &Features, vector: &Vector, quanta: u64) -> Vec<Step> {
    schedule(features, &members(vector), (QUANTUM * UNIT_NS) as u64, quanta)
}

fn who(steps: &[Step]) -> String {
    steps.iter().map(|s| s.runs).collect()
}

fn units(ns: &[i64]) -> Vec<f64> {
    ns.iter().map(|ns| *ns as f64 / UNIT_NS as f64).collect()
}

#[test]
fn the_published_schedules_come_out_exactly() {
    for vector in VECTORS {
        let steps = run(&as_published(), vector, vector.schedule.len() as u64);
        println!("{:?}", vector.members);
        for (t, s) in steps.iter().enumerate() {
            let v = s.virtual_time_ns as f64 / UNIT_NS as f64;
            println!("  t={t} V={v:5.2} runs {} lag {:?}", s.runs, units(&s.lags_ns));
        }
        assert_eq!(who(&steps), vector.schedule, "{:?}", vector.members);
        for (t, v) in vector.virtual_times {
            assert_eq!(steps[*t].virtual_time_ns, (v * UNIT_NS as f64) as i64, "{:?} t={t}", vector.members);
        }
        for s in &steps {
            assert_eq!(s.lags_ns.iter().sum::<i64>(), 0, "lags sum to nothing");
        }
    }
}

#[test]
fn the_lags_of_four_equals_are_as_drawn() {
    let steps = run(&as_published(), &VECTORS[0], 4);
    let lags: Vec<Vec<f64>> = steps.iter().map(|s| units(&s.lags_ns)).collect();
    // V is 1.5, 3.5, 5.5, 7.5; a member that ran stands 8 further.
    assert_eq!(lags, [[1.5, 0.5, -0.5, -1.5], [-4.5, 2.5, 1.5, 0.5], [-2.5, -3.5, 3.5, 2.5], [-0.5, -1.5, -2.5, 4.5]]);
}

/// Each gets its share of every full period, which is W * max(r/w) long.
#[test]
fn a_full_period_is_shared_by_weight() {
    for vector in VECTORS {
        let longest = vector.members.iter().map(|(_, w, r)| r / *w as i64).max().expect("members");
        let period = (4 * longest / QUANTUM) as usize;
        let steps = run(&as_published(), vector, 6 * period as u64);
        for window in who(&steps).as_bytes().chunks(period) {
            for (name, weight, _) in vector.members {
                let ran = window.iter().filter(|c| **c == *name as u8).count();
                assert_eq!(ran * 4, period * *weight as usize, "{name} in {:?}", std::str::from_utf8(window));
            }
        }
    }
}

/// From 6.17 on the shortest slice of the queue cuts the protection of the others, so that a schedule with mixed
/// requests is another one, while the shares stay.
#[test]
fn a_short_request_cuts_the_slices_of_the_others_since_6_17() {
    let steps = run(&v6_18(), &VECTORS[2], 32);
    println!("6.18: {}", who(&steps));
    assert_ne!(&who(&steps)[..8], VECTORS[2].schedule);
    for (name, ..) in VECTORS[2].members {
        let ran = who(&steps).matches(*name).count();
        assert_eq!(ran, 8, "{name} in {}", who(&steps));
    }
    // Where all ask for the same, nothing changes.
    assert_eq!(who(&run(&v6_18(), &VECTORS[0], 8)), VECTORS[0].schedule);
    assert_eq!(who(&run(&v6_18(), &VECTORS[1], 8)), VECTORS[1].schedule);
}
