//! What the programs counted in a window, with the shards added up.

use crate::kernel::layout::{
    BUCKETS, COMM, Counts, HISTOGRAMS, Histogram, SECTION_HISTOGRAMS, SectionCounts, SectionPreempter, bounds_ns, name,
    read, zeroed,
};
use crate::kernel::residuals::Residuals;
use crate::kernel::watch::array;
use crate::reading::now_ns;
use aya::maps::{HashMap, Map, RingBuf};
use aya::{Ebpf, Pod};
use holdup_model::SparseHistogram;
use holdup_model::evidence::BpfCost;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// The counts of a section.
#[derive(Debug)]
pub(crate) struct SectionStats {
    pub(crate) name: String,
    pub(crate) counts: SectionCounts,
    /// Tasks that took the CPU from holders, with the number of times; most first.
    pub(crate) preempted_by: Vec<(String, u64)>,
    pub(crate) histograms: Vec<SparseHistogram>,
    /// How much longer preempted holders ran, once they were back, until they released the lock.
    pub(crate) residual: Option<SparseHistogram>,
}

/// The counts of a window.
#[derive(Debug)]
pub(crate) struct WindowCounts {
    pub(crate) roles: Vec<String>,
    pub(crate) counts: Counts,
    /// The time that the counts are of, on the clock of bpf_ktime_get_ns.
    pub(crate) span_ns: Range<u64>,
    /// Of each role.
    histograms: Vec<Vec<SparseHistogram>>,
    pub(crate) sections: Vec<SectionStats>,
    /// Whether sections were watched at all.
    pub(crate) has_sections: bool,
    /// The maps of the object, which outlive its programs.
    maps: Mutex<BTreeMap<String, Map>>,
    /// What is missing, as (number, why).
    pub(crate) lost: Vec<(u64, &'static str)>,
    pub(crate) notes: Vec<String>,
    /// The cost of all programs together, over the whole window.
    pub(crate) bpf: Option<BpfCost>,
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) cost_is_reported: AtomicBool,
}

impl WindowCounts {
    /// Reads counts and histograms; `before`, read at `begin_ns`, is subtracted from the counts.
    pub(crate) fn of(
        object: &Ebpf,
        shards: u32,
        (before, begin_ns): (Counts, u64),
        roles: Vec<String>,
    ) -> Result<Self, String> {
        Ok(WindowCounts {
            span_ns: begin_ns..now_ns(),
            counts: counts(object, shards)?.since(before),
            histograms: histograms(object, shards, roles.len())?,
            roles,
            sections: Vec::new(),
            has_sections: false,
            maps: Mutex::default(),
            lost: Vec::new(),
            notes: Vec::new(),
            bpf: None,
            memory_bytes: object.maps().filter_map(|(_, map)| map_bytes(map)).sum(),
            cpu_ns: 0,
            cost_is_reported: AtomicBool::new(false),
        })
    }

    /// Ends the programs and keeps the maps.
    pub(crate) fn keep_maps(&mut self, mut object: Ebpf) {
        let names: Vec<String> = object.maps().map(|(name, _)| name.to_owned()).collect();
        let maps = names.into_iter().filter_map(|name| object.take_map(&name).map(|map| (name, map)));
        self.maps = Mutex::new(maps.collect());
    }

    /// A histogram of a role, where it has values.
    pub(crate) fn histogram(&self, role: usize, which: usize) -> Option<&SparseHistogram> {
        self.histograms.get(role)?.get(which).filter(|h| h.count() > 0)
    }

    /// The rows of a hash map.
    pub(crate) fn rows<K: Pod, V: Pod>(&self, map: &str) -> Result<Vec<(K, V)>, String> {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        rows(maps.get(map), map)
    }

    /// Takes the records out of a ring.
    pub(crate) fn records<T: Pod>(&self, ring: &str) -> Result<Vec<T>, String> {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let map = maps.get_mut(ring).ok_or_else(|| format!("the object has no map {ring}"))?;
        let mut ring = RingBuf::try_from(map).map_err(|e| e.to_string())?;
        let mut records = Vec::new();
        while let Some(record) = ring.next() {
            records.push(read(&record));
        }
        Ok(records)
    }
}

fn rows<K: Pod, V: Pod>(map: Option<&Map>, name: &str) -> Result<Vec<(K, V)>, String> {
    let map = map.ok_or_else(|| format!("the object has no map {name}"))?;
    let map: HashMap<_, K, V> = HashMap::try_from(map).map_err(|e| e.to_string())?;
    map.iter().map(|row| row.map_err(|e| e.to_string())).collect()
}

/// The memory of a map, as the kernel accounts for it.
fn map_bytes(map: &Map) -> Option<u64> {
    let data = match map {
        Map::Array(d) | Map::HashMap(d) | Map::PerCpuArray(d) | Map::RingBuf(d) | Map::Unsupported(d) => d,
        _ => return None,
    };
    let info = data.info().ok()?;
    Some(u64::from(info.max_entries()) * (u64::from(info.key_size()) + u64::from(info.value_size())))
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

/// The counts of all shards.
pub(crate) fn counts(object: &Ebpf, shards: u32) -> Result<Counts, String> {
    let counts = array::<Counts>(object, "counts")?;
    let mut sum = zeroed::<Counts>();
    for shard in 0..shards {
        sum = sum.plus(counts.get(&shard, 0).map_err(|e| e.to_string())?);
    }
    Ok(sum)
}

/// The histograms of each role.
fn histograms(object: &Ebpf, shards: u32, roles: usize) -> Result<Vec<Vec<SparseHistogram>>, String> {
    let all = array::<Histogram>(object, "histograms")?;
    let per_shard = roles.max(1) * HISTOGRAMS;
    let of_index = |index: usize| {
        let mut buckets = [0; BUCKETS];
        for shard in 0..shards as usize {
            let of_shard = all.get(&((shard * per_shard + index) as u32), 0).map_err(|e| e.to_string())?;
            buckets.iter_mut().zip(of_shard.buckets).for_each(|(sum, count)| *sum += count);
        }
        Ok(histogram(&buckets))
    };
    (0..roles).map(|role| (0..HISTOGRAMS).map(|h| of_index(role * HISTOGRAMS + h)).collect()).collect()
}

/// The counts of each section.
pub(crate) fn sections(object: &Ebpf, names: &[String], residuals: &Residuals) -> Result<Vec<SectionStats>, String> {
    let all = array::<SectionCounts>(object, "section_counts")?;
    let all_histograms = array::<Histogram>(object, "section_histograms")?;
    let mut preempters = preempters(object)?;
    let of_section = |(section, name): (usize, &String)| {
        let histograms = (0..SECTION_HISTOGRAMS).map(|h| {
            let index = (section * SECTION_HISTOGRAMS + h) as u32;
            all_histograms.get(&index, 0).map(|h| histogram(&h.buckets)).map_err(|e| e.to_string())
        });
        Ok(SectionStats {
            name: name.clone(),
            counts: all.get(&(section as u32), 0).map_err(|e| e.to_string())?,
            preempted_by: preempters.remove(&(section as u32)).unwrap_or_default(),
            histograms: histograms.collect::<Result<_, String>>()?,
            residual: residuals.of_section.get(&(section as u16)).cloned(),
        })
    };
    names.iter().enumerate().map(of_section).collect()
}

/// The tasks that took the CPU from the holders of each section, most often first.
fn preempters(object: &Ebpf) -> Result<BTreeMap<u32, Vec<(String, u64)>>, String> {
    const MAP: &str = "holder_preempted_by";
    let mut sums: BTreeMap<(u32, String), u64> = BTreeMap::new();
    for (key, times) in rows::<SectionPreempter, u64>(object.map(MAP), MAP)? {
        // The idle tasks of all CPUs are one.
        *sums.entry((key.section, task_name(&key.by))).or_default() += times;
    }
    let mut preempters: BTreeMap<u32, Vec<(String, u64)>> = BTreeMap::new();
    for ((section, by), times) in sums {
        preempters.entry(section).or_default().push((by, times));
    }
    preempters.values_mut().for_each(|all| all.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0))));
    Ok(preempters)
}

/// A task's name; the idle task is called `swapper/N` on each CPU.
pub(crate) fn task_name(comm: &[u8; COMM]) -> String {
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
