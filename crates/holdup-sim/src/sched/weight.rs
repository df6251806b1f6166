//! What a nice value weighs.

/// The weight of nice 0 (`NICE_0_LOAD`, scaled down).
pub const NICE_0: u64 = 1024;

/// The weight of a task under SCHED_IDLE (`WEIGHT_IDLEPRIO`, kernel/sched/sched.h, v6.18).
pub const IDLE: u64 = 3;

/// `sched_prio_to_weight[]` (kernel/sched/core.c, v6.18), from nice -20 on: each step is about a quarter.
const OF_NICE: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904, 3906, 3121, 2501,
    1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight of a nice value; one outside -20 to 19 counts as the nearest.
pub fn of_nice(nice: i32) -> u64 {
    OF_NICE[(nice.clamp(-20, 19) + 20) as usize]
}

/// `calc_delta_fair()`: time of a weight as virtual time.
pub(crate) fn weighted(ns: u64, weight: u64) -> i64 {
    if weight == NICE_0 { ns as i64 } else { (ns * NICE_0 / weight) as i64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_nice_is_a_quarter() {
        assert_eq!(of_nice(0), NICE_0);
        assert_eq!((of_nice(-20), of_nice(19)), (88761, 15));
        assert_eq!((of_nice(-99), of_nice(99)), (88761, 15));
        for nice in -20..19 {
            let step = of_nice(nice) as f64 / of_nice(nice + 1) as f64;
            assert!((1.17..1.31).contains(&step), "nice {nice}: {step}");
        }
    }
}
