//! A cache line that goes to and fro between two CPUs.

use super::bench::{beside, each_ns, repeats};
use super::samples::quiet;
use super::{Context, Cost, Samples};
use holdup_host::CpuTopology;
use holdup_load::board::CachePadded;
use holdup_load::clock::now_ns;
use holdup_model::Problem;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

const DOCS: &str = "compare-and-exchange on one line by two CPUs in turn, half of a round less atomic_ns, pieces of 20 \
                    rounds; the first two CPUs at this distance";

pub(super) const CORE: Cost = Cost { name: "transfer_core_ns", docs: DOCS, measure: |c| measure(c, "core", in_core) };
pub(super) const LLC: Cost = Cost { name: "transfer_llc_ns", docs: DOCS, measure: |c| measure(c, "llc", in_llc) };
pub(super) const NODE: Cost = Cost { name: "transfer_node_ns", docs: DOCS, measure: |c| measure(c, "node", in_node) };
pub(super) const FAR: Cost = Cost { name: "transfer_far_ns", docs: DOCS, measure: |c| measure(c, "far", is_far) };

fn in_core(a: &CpuTopology, b: &CpuTopology) -> bool {
    a.core.contains(&b.cpu)
}

fn in_llc(a: &CpuTopology, b: &CpuTopology) -> bool {
    !in_core(a, b) && a.llc.contains(&b.cpu)
}

fn in_node(a: &CpuTopology, b: &CpuTopology) -> bool {
    !in_core(a, b) && !a.llc.is_empty() && !a.llc.contains(&b.cpu) && a.node.contains(&b.cpu)
}

fn is_far(a: &CpuTopology, b: &CpuTopology) -> bool {
    !a.node.is_empty() && !a.node.contains(&b.cpu)
}

/// The first two CPUs of which `are` is true.
fn pair(cpus: &[CpuTopology], are: fn(&CpuTopology, &CpuTopology) -> bool) -> Option<(u32, u32)> {
    cpus.iter().find_map(|a| cpus.iter().find(|b| b.cpu != a.cpu && are(a, b)).map(|b| (a.cpu, b.cpu)))
}

const ROUNDS: u32 = 20;
/// How long a piece may take until the other side counts as away.
const PIECE_NS: u64 = 20_000_000;

fn hands_over(line: &CachePadded<AtomicU32>, from: u32, to: u32, ends: impl Fn() -> bool) -> bool {
    let mut turns = 0u32;
    while line.0.compare_exchange(from, to, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        turns += 1;
        if turns.is_multiple_of(64) && ends() {
            return false;
        }
    }
    true
}

fn measure(context: &Context, distance: &str, are: fn(&CpuTopology, &CpuTopology) -> bool) -> Result<Samples, Problem> {
    let Some((cpu, other)) = pair(&context.cpus, are) else {
        return Err(Problem::host(format!("distance {distance}"), "no two CPUs here are known to be that far apart"));
    };
    let atomic_ns = context.known("atomic_ns")?;
    let line = CachePadded(AtomicU32::new(0));
    let answer = |stop: &AtomicBool| while hands_over(&line, 1, 0, || stop.load(Ordering::Relaxed)) {};
    beside((cpu, &[other]), &answer, &|| (), || {
        repeats("a line to and fro", || {
            let mut pieces = Vec::with_capacity(100);
            for _ in 0..100 {
                let end = now_ns() + PIECE_NS;
                let mut whole = true;
                // The last round is over when the other side has given the line back, which the next one waits for.
                let ns = each_ns(ROUNDS, || whole &= hands_over(&line, 0, 1, || now_ns() > end));
                if whole {
                    pieces.push(ns / 2.0 - atomic_ns);
                }
                if now_ns() > end {
                    break;
                }
            }
            Ok(quiet(pieces))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_of_their_distance() {
        let place = |cpu: u32| CpuTopology {
            cpu,
            core: vec![cpu & !1, cpu | 1],
            llc: (0..4).map(|n| (cpu & !3) + n).collect(),
            node: (0..8).map(|n| (cpu & !7) + n).collect(),
        };
        let cpus: Vec<CpuTopology> = (0..16).map(place).collect();
        let found: Vec<_> = [in_core, in_llc, in_node, is_far].into_iter().map(|are| pair(&cpus, are)).collect();
        assert_eq!(found, [Some((0, 1)), Some((0, 2)), Some((0, 4)), Some((0, 8))]);
        let silent = |cpu| CpuTopology { cpu, core: Vec::new(), llc: Vec::new(), node: Vec::new() };
        let cpus: Vec<CpuTopology> = (0..2).map(silent).collect();
        assert!([in_core, in_llc, in_node, is_far].into_iter().all(|are| pair(&cpus, are).is_none()));
    }
}
