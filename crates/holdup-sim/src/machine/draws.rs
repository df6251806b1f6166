//! Machines drawn from what is not known of one.

use super::{Described, Machine, Parameter};
use crate::random::Random;

/// Machines whose costs lie anywhere in their ranges, each as likely on the scale of logarithms, drawn so that each
/// parameter comes once from each of `count` equal parts of its range (Latin hypercube: McKay, Beckman, Conover,
/// Technometrics 21(2), 1979).
pub fn draws(described: &Described, count: usize, seed: u64) -> Vec<Machine> {
    let mut machines = vec![described.machine.clone(); count];
    for (number, parameter) in described.parameters.iter().enumerate() {
        let mut random = Random::new(seed, number as u64 + 1);
        let mut parts: Vec<usize> = (0..count).collect();
        // Fisher and Yates.
        for last in (1..count).rev() {
            parts.swap(last, random.below(last as u64 + 1) as usize);
        }
        for (machine, part) in machines.iter_mut().zip(parts) {
            let share = (part as f64 + 1.0 - random.share()) / count as f64;
            if let Some(place) = machine.costs.place(parameter.name) {
                *place = between(parameter, share);
            }
        }
    }
    machines
}

/// The value at a share of the way from the lower end of a range to the upper one.
fn between(parameter: &Parameter, share: f64) -> u64 {
    let (low, high) = parameter.range_ns;
    if low == high {
        return low;
    }
    // A range that begins at 0 has no logarithm there.
    let (from, to) = (libm::log(low.max(1) as f64), libm::log(high.max(1) as f64));
    (libm::exp(from + (to - from) * share) as u64).clamp(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::catalogue;

    #[test]
    fn each_part_of_a_range_is_drawn_from_once() {
        let described = catalogue::find("server-8").expect("it is there");
        let count = 16;
        let machines = draws(&described, count, 7);
        for parameter in described.parameters.iter().filter(|p| p.range_ns.0 > 100) {
            let (low, high) = parameter.range_ns;
            let width = (libm::log(high as f64) - libm::log(low as f64)) / count as f64;
            let mut parts: Vec<usize> = machines
                .iter()
                .map(|m| {
                    let ns = *m.clone().costs.place(parameter.name).expect("it is a cost");
                    assert!((low..=high).contains(&ns), "{}: {ns}", parameter.name);
                    // A whole nanosecond may lie just below its part.
                    ((libm::log(ns as f64 + 0.5) - libm::log(low as f64)) / width) as usize
                })
                .collect();
            parts.sort_unstable();
            parts.dedup();
            assert!(parts.len() >= count - 2, "{}: {parts:?}", parameter.name);
        }
    }
}
