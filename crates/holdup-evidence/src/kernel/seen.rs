//! What the programs counted, with the shards added up.

use crate::kernel::layout::{
    BUCKETS, CAUSES, COMM, CONTEXTS, Counts, Event, FAULTS, HISTOGRAMS, Histogram, Hog as HogKey, HogCounts, PLACES,
    Pair, PairCounts, SECTION_HISTOGRAMS, SectionCounts, SectionPreempter, bounds_ns, name, read, zeroed,
};
use crate::kernel::residuals::Residuals;
use crate::kernel::watch::array;
use aya::Ebpf;
use aya::maps::{HashMap, RingBuf};
use holdup_model::SparseHistogram;
use holdup_model::evidence::BpfCost;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Two names with how often, and the time, ns; most time first.
pub(crate) type Pairs = Vec<(String, String, u64, u64)>;

/// A kernel thread that waited for its CPU, and who had it.
#[derive(Debug, Clone)]
pub(crate) struct Hog {
    pub(crate) worker: String,
    pub(crate) hog: String,
    pub(crate) times: u64,
    pub(crate) wait_ns: u64,
    /// Of it, while the hog was in the kernel.
    pub(crate) in_kernel_ns: u64,
}

/// What the tasks of a role did.
#[derive(Debug, Clone)]
pub(crate) struct RoleSeen {
    pub(crate) role: String,
    pub(crate) left: [u64; PLACES],
    pub(crate) cause: [u64; CAUSES],
    /// Time off the CPU after each cause.
    pub(crate) preempted_off_ns: [u64; CAUSES],
    pub(crate) on_cpu_ns: u64,
    pub(crate) wait_ns: u64,
    pub(crate) off_cpu_ns: u64,
    /// By place, where that was asked for.
    pub(crate) off_place_ns: [u64; PLACES],
    pub(crate) migrated: u64,
    /// Minor, major, and of huge pages.
    pub(crate) faults: [u64; FAULTS],
    pub(crate) first_touch: u64,
    pub(crate) fault_ns: u64,
    /// In the order of state.h.
    pub(crate) histograms: Vec<SparseHistogram>,
}

/// What was seen of a section.
#[derive(Debug, Clone)]
pub(crate) struct SectionSeen {
    pub(crate) name: String,
    /// Of holders and waiters.
    pub(crate) left: [[u64; CONTEXTS]; 2],
    pub(crate) off_cpu_ns: [u64; CONTEXTS],
    pub(crate) cause: [u64; CAUSES],
    /// Who took the CPU from holders, and how often; most first.
    pub(crate) preempted_by: Vec<(String, u64)>,
    /// Of holders and waiters.
    pub(crate) samples: [u64; 2],
    pub(crate) samples_behind: u64,
    pub(crate) faults: u64,
    pub(crate) fault_ns: u64,
    pub(crate) histograms: Vec<SparseHistogram>,
    /// What was left of it when a preempted holder was back, until the lock was given back.
    pub(crate) residual: Option<SparseHistogram>,
}

/// All that was seen in a window.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) roles: Vec<RoleSeen>,
    pub(crate) sections: Vec<SectionSeen>,
    pub(crate) preempted_by: Pairs,
    /// Most time first.
    pub(crate) hogs: Vec<Hog>,
    /// In the order of their times.
    pub(crate) events: Vec<Event>,
    pub(crate) events_lost: u64,
    /// Samples of time off the CPU that found no room, and the time that they stand for, ns.
    pub(crate) stacks_lost: (u64, u64),
    /// Switches that were looked at.
    pub(crate) switches: u64,
    /// Preemptions whose cause was inferred.
    pub(crate) inferred: u64,
    /// Faults of which it was not known whether the page was of hugetlbfs, a transparent huge one.
    pub(crate) not_known: [u64; 2],
    /// Whether sections were watched at all.
    pub(crate) has_sections: bool,
    pub(crate) classified: [u64; 3],
    pub(crate) samples: [u64; 3],
    /// The time that one sample stands for.
    pub(crate) sample_period_ns: u64,
    /// What is missing, as (how many, why).
    pub(crate) lost: Vec<(u64, &'static str)>,
    pub(crate) notes: Vec<String>,
    /// Cost of all programs together, over the whole window.
    pub(crate) bpf: Option<BpfCost>,
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) cost_is_told: Arc<AtomicBool>,
}

/// A histogram from buckets; a value is counted at the middle of its bucket.
fn histogram(buckets: &[u64; BUCKETS]) -> SparseHistogram {
    let mut histogram = SparseHistogram::new();
    for (bucket, count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (low, end) = bounds_ns(bucket);
        histogram.record_n_ns(low.midpoint(end - 1), *count);
    }
    histogram
}

fn plus(into: &mut [u64; BUCKETS], buckets: &Histogram) {
    for (into, count) in into.iter_mut().zip(buckets.buckets) {
        *into += count;
    }
}

/// Reads the counts of all shards.
pub(crate) fn counts(object: &Ebpf, shards: u32) -> Result<Counts, String> {
    let counts = array::<Counts>(object, "counts")?;
    let mut sum = zeroed::<Counts>();
    for shard in 0..shards {
        sum = sum.plus(counts.get(&shard, 0).map_err(|e| e.to_string())?);
    }
    Ok(sum)
}

/// Reads what each role did.
pub(crate) fn roles(object: &Ebpf, sum: &Counts, shards: u32, names: &[String]) -> Result<Vec<RoleSeen>, String> {
    let all = array::<Histogram>(object, "histograms")?;
    let per_shard = names.len().max(1) * HISTOGRAMS;
    let mut seen = Vec::new();
    for (role, name) in names.iter().enumerate() {
        let mut histograms = Vec::new();
        for h in 0..HISTOGRAMS {
            let mut buckets = [0; BUCKETS];
            for shard in 0..shards as usize {
                let index = (shard * per_shard + role * HISTOGRAMS + h) as u32;
                plus(&mut buckets, &all.get(&index, 0).map_err(|e| e.to_string())?);
            }
            histograms.push(histogram(&buckets));
        }
        seen.push(RoleSeen {
            role: name.clone(),
            left: sum.left[role],
            cause: sum.cause[role],
            preempted_off_ns: sum.preempted_off_ns[role],
            on_cpu_ns: sum.on_cpu_ns[role],
            wait_ns: sum.wait_ns[role],
            off_cpu_ns: sum.off_cpu_ns[role],
            off_place_ns: sum.off_place_ns[role],
            migrated: sum.migrated[role],
            faults: sum.faults[role],
            first_touch: sum.first_touch[role],
            fault_ns: sum.fault_ns[role],
            histograms,
        });
    }
    Ok(seen)
}

/// Reads what was seen of each section.
pub(crate) fn sections(object: &Ebpf, names: &[String], residuals: &Residuals) -> Result<Vec<SectionSeen>, String> {
    let counts = array::<SectionCounts>(object, "section_counts")?;
    let all = array::<Histogram>(object, "section_histograms")?;
    let mut preempters = preempters(object)?;
    let mut seen = Vec::new();
    for (section, name) in names.iter().enumerate() {
        let c = counts.get(&(section as u32), 0).map_err(|e| e.to_string())?;
        let mut histograms = Vec::new();
        for h in 0..SECTION_HISTOGRAMS {
            let index = (section * SECTION_HISTOGRAMS + h) as u32;
            histograms.push(histogram(&all.get(&index, 0).map_err(|e| e.to_string())?.buckets));
        }
        seen.push(SectionSeen {
            name: name.clone(),
            left: c.left,
            off_cpu_ns: c.off_cpu_ns,
            cause: c.cause,
            preempted_by: preempters.remove(&(section as u32)).unwrap_or_default(),
            samples: c.samples,
            samples_behind: c.samples_behind,
            faults: c.faults,
            fault_ns: c.fault_ns,
            histograms,
            residual: residuals.of_section.get(&(section as u16)).cloned(),
        });
    }
    Ok(seen)
}

/// Who took the CPU from holders, by section.
type Preempters = BTreeMap<u32, Vec<(String, u64)>>;

/// Reads who took the CPU from the holders of each section, most often first.
fn preempters(object: &Ebpf) -> Result<Preempters, String> {
    let map = object.map("holder_preempted_by").ok_or("the object has no map holder_preempted_by")?;
    let map: HashMap<_, SectionPreempter, u64> = HashMap::try_from(map).map_err(|e| e.to_string())?;
    let mut sums: BTreeMap<(u32, String), u64> = BTreeMap::new();
    for row in &map {
        let (key, times) = row.map_err(|e| e.to_string())?;
        // The idle tasks of all CPUs are one.
        *sums.entry((key.section, told(&key.by))).or_default() += times;
    }
    let mut preempters = Preempters::new();
    for ((section, by), times) in sums {
        preempters.entry(section).or_default().push((by, times));
    }
    preempters.values_mut().for_each(|all| all.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0))));
    Ok(preempters)
}

/// Reads a table of pairs of names.
pub(crate) fn pairs(object: &Ebpf, map: &str) -> Result<Pairs, String> {
    let map = object.map(map).ok_or_else(|| format!("the object has no map {map}"))?;
    let map: HashMap<_, Pair, PairCounts> = HashMap::try_from(map).map_err(|e| e.to_string())?;
    let mut pairs: Pairs = Vec::new();
    for row in &map {
        let (key, value) = row.map_err(|e| e.to_string())?;
        pairs.push((told(&key.victim), told(&key.by), value.times, value.off_cpu_ns));
    }
    pairs.sort_by(|a, b| (b.3, &a.0, &a.1).cmp(&(a.3, &b.0, &b.1)));
    Ok(pairs)
}

/// Reads who waited behind whom.
pub(crate) fn hogs(object: &Ebpf) -> Result<Vec<Hog>, String> {
    let map = object.map("hogs").ok_or("the object has no map hogs")?;
    let map: HashMap<_, HogKey, HogCounts> = HashMap::try_from(map).map_err(|e| e.to_string())?;
    let mut hogs: Vec<Hog> = Vec::new();
    for row in &map {
        let (key, value) = row.map_err(|e| e.to_string())?;
        let (worker, hog) = (told(&key.worker), told(&key.hog));
        hogs.push(Hog { worker, hog, times: value.times, wait_ns: value.wait_ns, in_kernel_ns: value.in_kernel_ns });
    }
    hogs.sort_by(|a, b| (b.wait_ns, &a.worker, &a.hog).cmp(&(a.wait_ns, &b.worker, &b.hog)));
    Ok(hogs)
}

/// Takes all events out of the ring.
pub(crate) fn events(object: &mut Ebpf) -> Result<Vec<Event>, String> {
    let map = object.map_mut("events").ok_or("the object has no map events")?;
    let mut ring = RingBuf::try_from(map).map_err(|e| e.to_string())?;
    let mut events = Vec::new();
    while let Some(item) = ring.next() {
        events.push(read::<Event>(&item));
    }
    events.sort_by_key(|e| e.ns);
    Ok(events)
}

/// The idle task is called `swapper/N` on each CPU.
fn told(comm: &[u8; COMM]) -> String {
    let name = name(comm);
    if name.starts_with("swapper/") { "idle".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_becomes_its_middle() {
        let mut buckets = [0; BUCKETS];
        buckets[5] = 2;
        buckets[128] = 1;
        let h = histogram(&buckets);
        assert_eq!(h.count(), 3);
        assert_eq!(h.range_ns(), Some((5, 128)));
    }
}
