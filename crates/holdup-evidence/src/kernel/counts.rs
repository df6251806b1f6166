//! What the programs counted in a window, with the shards added up.

use crate::kernel::largest::Tasks;
use crate::kernel::layout::{
    AccountKey, AccountValue, BUCKETS, BehindKey, Busiest, COARSE, COMM, CoarseHistogram, Counts, HISTOGRAM_FAULT,
    HISTOGRAM_WAIT_PREEMPTED, HISTOGRAM_WAIT_WOKEN, HISTOGRAMS, Histogram, NAMED_BEHIND, NAMED_PREEMPTERS, NAMED_ROWS,
    NAMED_WOKEN, Namer, SECTION_FAULT, SECTION_HISTOGRAMS, SectionCounts, SectionPreempter, WokenKey, bounds_ns,
    bytes_of, name, plus, read, since, zeroed,
};
use crate::kernel::load::Shards;
use crate::kernel::residuals::Residuals;
use crate::kernel::watch::{array, array_mut};
use crate::postgres::Versions;
use crate::reading::now_ns;
use aya::maps::{HashMap, Map, PerCpuHashMap, RingBuf};
use aya::{Ebpf, Pod};
use holdup_model::SparseHistogram;
use holdup_model::evidence::BpfCost;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

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

#[derive(Debug)]
pub(crate) struct WindowCounts {
    pub(crate) roles: Vec<String>,
    pub(crate) counts: Counts,
    /// The time that the counts are of, on the clock of bpf_ktime_get_ns.
    pub(crate) span_ns: Range<u64>,
    /// Of each role.
    histograms: Vec<Vec<SparseHistogram>>,
    /// The waits for each CPU, of all roles.
    pub(crate) waits_by_cpu: Vec<SparseHistogram>,
    pub(crate) sections: Vec<SectionStats>,
    /// True if sections were watched at all.
    pub(crate) has_sections: bool,
    maps: Arc<Maps>,
    /// What is missing, as (number, why).
    pub(crate) lost: Vec<(u64, &'static str)>,
    pub(crate) notes: Vec<String>,
    /// The cost of all programs together, over the whole window.
    pub(crate) bpf: Option<BpfCost>,
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) cost_is_reported: AtomicBool,
    /// The account, or why there is none.
    pub(crate) account: Result<Account, String>,
    /// The thread that was on a CPU for longest, with the account.
    pub(crate) busiest: Option<Busiest>,
    pub(crate) versions: Arc<Versions>,
    /// The part of the time in which faults were timed, where that was not all of it.
    pub(crate) faults_timed: Option<f64>,
}

/// The bytes of values by map and key.
type RowsBefore = BTreeMap<(String, Vec<u8>), Vec<u8>>;

fn row<K: Pod>(map: &str, key: &mut K) -> (String, Vec<u8>) {
    (map.to_owned(), bytes_of(key).to_vec())
}

/// The rows of the account.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) states: Vec<(AccountKey, AccountValue)>,
    pub(crate) behind: Vec<(BehindKey, AccountValue)>,
    pub(crate) woken: Vec<(WokenKey, AccountValue)>,
    /// Single tasks, with `want_tasks`.
    pub(crate) tasks: Tasks,
}

/// The object while it counts, and what rows of its hash maps had at the last edge.
pub(crate) struct Maps {
    pub(crate) object: Mutex<Ebpf>,
    before: Mutex<RowsBefore>,
}

impl Maps {
    pub(crate) fn new(object: Ebpf) -> Arc<Self> {
        Arc::new(Maps { object: Mutex::new(object), before: Mutex::default() })
    }

    /// The account since the last call. Read at the edge of a window, as the tasks are charged until then.
    pub(crate) fn account(&self, object: &mut Ebpf) -> Result<Account, String> {
        let (behind, woken) = (rows_of_cpus(object, "behind")?, rows_of_cpus(object, "woken")?);
        Ok(Account {
            states: self.since_last("account", rows_of_cpus(object, "account")?).0,
            behind: self.named_since_last(object, ("behind", NAMED_BEHIND), behind)?,
            woken: self.named_since_last(object, ("woken", NAMED_WOKEN), woken)?,
            tasks: Tasks::default(),
        })
    }

    /// How often tasks took the CPU from the holders of each section, since the last call.
    pub(crate) fn preempters(&self, object: &mut Ebpf) -> Result<Vec<(SectionPreempter, u64)>, String> {
        const MAP: &str = "holder_preempted_by";
        self.named_since_last(object, (MAP, NAMED_PREEMPTERS), rows(object.map(MAP), MAP)?)
    }

    /// The increase of a table with names. Rows without one are taken out, of a table that is half full all of them, and the rows of each
    /// process are counted anew: who fills a table takes the room of one window.
    fn named_since_last<K: Pod, V: Pod>(
        &self,
        object: &mut Ebpf,
        (map, table): (&str, usize),
        rows: Vec<(K, V)>,
    ) -> Result<Vec<(K, V)>, String> {
        let all = rows.len();
        let (increased, mut gone) = self.since_last(map, rows);
        if increased.len() > NAMED_ROWS / 2 {
            gone.extend(increased.iter().map(|(key, _)| *key));
        }
        let kept = (all - gone.len()) as u32;
        for mut key in gone {
            self.before.lock().unwrap_or_else(PoisonError::into_inner).remove(&row(map, &mut key));
            remove::<K, V>(object, map, key);
        }
        array_mut::<u32>(object, "named_rows")?.set(table as u32, kept, 0).map_err(|e| format!("named_rows: {e}"))?;
        let namers: Vec<(Namer, u32)> = self::rows(object.map("namers"), "namers")?;
        for (namer, _) in namers.into_iter().filter(|(namer, _)| namer.table == table as u32) {
            remove::<Namer, u32>(object, "namers", namer);
        }
        Ok(increased)
    }

    /// The rows of a map with their increase since the last call, and the keys of those without one.
    fn since_last<K: Pod, V: Pod>(&self, map: &str, rows: Vec<(K, V)>) -> (Vec<(K, V)>, Vec<K>) {
        let mut before = self.before.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut increased, mut same) = (Vec::new(), Vec::new());
        for (mut key, mut value) in rows {
            let then = before.insert(row(map, &mut key), bytes_of(&mut value).to_vec()).unwrap_or_default();
            let mut increase = since(value, read(&then));
            if bytes_of(&mut increase).iter().any(|byte| *byte != 0) {
                increased.push((key, increase));
            } else {
                same.push(key);
            }
        }
        (increased, same)
    }
}

impl std::fmt::Debug for Maps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maps").finish_non_exhaustive()
    }
}

impl WindowCounts {
    /// Makes what was counted of faults in a part of the time that of the whole.
    pub(crate) fn scale_faults(&mut self, share: f64) {
        self.faults_timed = Some(share);
        if share == 0.0 {
            return;
        }
        let scale = |count: &mut u64| *count = (*count as f64 / share).round() as u64;
        let c = &mut self.counts;
        c.faults.iter_mut().flatten().chain(&mut c.fault_ns).chain(&mut c.first_touch).for_each(scale);
        let of_roles = self.histograms.iter_mut().filter_map(|of_role| of_role.get_mut(HISTOGRAM_FAULT));
        of_roles.for_each(|histogram| histogram.scale(1.0 / share));
        for section in &mut self.sections {
            [&mut section.counts.faults, &mut section.counts.fault_ns].into_iter().for_each(scale);
            section.histograms.get_mut(SECTION_FAULT).into_iter().for_each(|histogram| histogram.scale(1.0 / share));
        }
    }

    /// A histogram of a role, where it has values.
    pub(crate) fn histogram(&self, role: usize, which: usize) -> Option<&SparseHistogram> {
        self.histograms.get(role)?.get(which).filter(|h| h.count() > 0)
    }

    /// The rows of a table with names that counted in this window; to be asked for once.
    pub(crate) fn rows<K: Pod, V: Pod>(&self, map: &str, table: usize) -> Result<Vec<(K, V)>, String> {
        let mut object = self.maps.object.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = rows(object.map(map), map)?;
        self.maps.named_since_last(&mut object, (map, table), rows)
    }

    /// Takes the records out of a ring.
    pub(crate) fn records<T: Pod>(&self, ring: &str) -> Result<Vec<T>, String> {
        let mut object = self.maps.object.lock().unwrap_or_else(PoisonError::into_inner);
        let map = object.map_mut(ring).ok_or_else(|| format!("the object has no map {ring}"))?;
        let mut ring = RingBuf::try_from(map).map_err(|e| e.to_string())?;
        let mut records = Vec::new();
        while let Some(record) = ring.next() {
            records.push(read(&record));
        }
        Ok(records)
    }
}

/// What was counted until a moment.
pub(crate) struct Snapshot {
    pub(crate) at_ns: u64,
    pub(crate) counts: Counts,
    histograms: Vec<Vec<Buckets>>,
    /// The waits for each CPU, of all roles.
    waits: Vec<CoarseBuckets>,
    sections: Vec<SectionTable>,
}

type Buckets = Box<[u64; BUCKETS]>;
type CoarseBuckets = Box<[u64; BUCKETS / COARSE]>;

type SectionTable = (SectionCounts, Vec<Buckets>);

impl Snapshot {
    /// Reads all tables.
    pub(crate) fn of(object: &Ebpf, shards: Shards, roles: usize, sections: usize) -> Result<Self, String> {
        let at_ns = now_ns();
        let (histograms, waits) = histograms(object, shards, roles)?;
        Ok(Snapshot {
            at_ns,
            counts: counts(object, shards.shards)?,
            histograms,
            waits,
            sections: section_tables(object, sections)?,
        })
    }

    /// The window from an earlier snapshot to this one.
    pub(crate) fn since(&self, before: &Self, roles: &[String], maps: Arc<Maps>) -> WindowCounts {
        let pairs = self.histograms.iter().zip(&before.histograms);
        WindowCounts {
            span_ns: before.at_ns..self.at_ns,
            counts: since(self.counts, before.counts),
            histograms: pairs.map(|(now, then)| increases(now, then)).collect(),
            waits_by_cpu: self.waits.iter().zip(&before.waits).map(|(now, then)| coarse_histogram(now, then)).collect(),
            roles: roles.to_vec(),
            sections: Vec::new(),
            has_sections: false,
            maps,
            lost: Vec::new(),
            notes: Vec::new(),
            bpf: None,
            memory_bytes: 0,
            cpu_ns: 0,
            cost_is_reported: AtomicBool::new(false),
            account: Err("it was not asked for".to_owned()),
            busiest: None,
            versions: Arc::default(),
            faults_timed: None,
        }
    }

    /// The counts of each section since an earlier snapshot.
    pub(crate) fn sections_since(
        &self,
        before: &Self,
        names: &[String],
        residuals: &Residuals,
        preempters: &[(SectionPreempter, u64)],
    ) -> Vec<SectionStats> {
        // The idle tasks of all CPUs are one.
        let mut by_name: BTreeMap<(u32, String), u64> = BTreeMap::new();
        for (key, times) in preempters {
            *by_name.entry((key.section, task_name(&key.by))).or_default() += times;
        }
        let mut preempted_by: BTreeMap<u32, Vec<(String, u64)>> = BTreeMap::new();
        for ((section, by), times) in by_name {
            preempted_by.entry(section).or_default().push((by, times));
        }
        preempted_by.values_mut().for_each(|all| all.sort_by_key(|(_, times)| std::cmp::Reverse(*times)));
        let tables = self.sections.iter().zip(&before.sections);
        let of_section = |(section, (name, (now, then))): (usize, (&String, (&SectionTable, &SectionTable)))| {
            let ((now, buckets), (then, buckets_then)) = (now, then);
            SectionStats {
                name: name.clone(),
                counts: since(*now, *then),
                preempted_by: preempted_by.remove(&(section as u32)).unwrap_or_default(),
                histograms: increases(buckets, buckets_then),
                residual: residuals.of_section.get(&(section as u16)).cloned(),
            }
        };
        names.iter().zip(tables).enumerate().map(of_section).collect()
    }
}

fn increases(now: &[Buckets], then: &[Buckets]) -> Vec<SparseHistogram> {
    let increase = |(now, then): (&Buckets, &Buckets)| {
        let mut buckets = now.clone();
        buckets.iter_mut().zip(then.iter()).for_each(|(now, then)| *now = now.saturating_sub(*then));
        histogram(&buckets)
    };
    now.iter().zip(then).map(increase).collect()
}

fn rows<K: Pod, V: Pod>(map: Option<&Map>, name: &str) -> Result<Vec<(K, V)>, String> {
    let map = map.ok_or_else(|| format!("the object has no map {name}"))?;
    let map: HashMap<_, K, V> = HashMap::try_from(map).map_err(|e| e.to_string())?;
    map.iter().map(|row| row.map_err(|e| e.to_string())).collect()
}

/// Takes a row out of a map, which may have a value for each CPU.
fn remove<K: Pod, V: Pod>(object: &mut Ebpf, map: &str, key: K) {
    let Some(map) = object.map_mut(map) else { return };
    // A row that is not there any more needs nothing.
    let _gone = match map {
        Map::PerCpuHashMap(_) => PerCpuHashMap::<_, K, V>::try_from(map).and_then(|mut map| map.remove(&key)),
        _ => HashMap::<_, K, V>::try_from(map).and_then(|mut map| map.remove(&key)),
    };
}

/// The rows of a map that has a value for each CPU, added up.
fn rows_of_cpus<K: Pod, V: Pod>(object: &Ebpf, map: &str) -> Result<Vec<(K, V)>, String> {
    let rows = object.map(map).ok_or_else(|| format!("the object has no map {map}"))?;
    let rows: PerCpuHashMap<_, K, V> = PerCpuHashMap::try_from(rows).map_err(|e| e.to_string())?;
    let sum = |values: aya::maps::PerCpuValues<V>| values.iter().copied().fold(zeroed(), plus);
    rows.iter().map(|row| row.map(|(key, values)| (key, sum(values))).map_err(|e| e.to_string())).collect()
}

/// The memory of a map, as the kernel accounts for it.
fn map_bytes(map: &Map) -> Option<u64> {
    let data = match map {
        Map::Array(d)
        | Map::HashMap(d)
        | Map::PerCpuArray(d)
        | Map::PerCpuHashMap(d)
        | Map::RingBuf(d)
        | Map::Unsupported(d) => d,
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

/// What coarse buckets have more than before.
fn coarse_histogram(now: &CoarseBuckets, then: &CoarseBuckets) -> SparseHistogram {
    let mut histogram = SparseHistogram::new();
    for (bucket, (now, then)) in now.iter().zip(then.iter()).enumerate().filter(|(_, (now, then))| now > then) {
        let (low, end) = (bounds_ns(bucket * COARSE).0, bounds_ns(bucket * COARSE + COARSE - 1).1);
        histogram.record_n_ns(low.midpoint(end - 1), now - then);
    }
    histogram
}

fn counts(object: &Ebpf, shards: u32) -> Result<Counts, String> {
    let counts = array::<Counts>(object, "counts")?;
    (0..shards).try_fold(zeroed(), |sum, shard| Ok(plus(sum, counts.get(&shard, 0).map_err(|e| e.to_string())?)))
}

/// The histograms of each role over all shards, and the waits for each CPU over all roles.
fn histograms(object: &Ebpf, of: Shards, roles: usize) -> Result<(Vec<Vec<Buckets>>, Vec<CoarseBuckets>), String> {
    let all = array::<Histogram>(object, "histograms")?;
    let per_shard = roles.max(1) * HISTOGRAMS;
    let is_shared = of.shards < of.cpus;
    let mut in_shards: Vec<CoarseBuckets> = (0..of.shards).map(|_| Box::new([0; BUCKETS / COARSE])).collect();
    let mut of_index = |index: usize| {
        let is_wait = matches!(index % HISTOGRAMS, HISTOGRAM_WAIT_WOKEN | HISTOGRAM_WAIT_PREEMPTED);
        let mut buckets = Box::new([0; BUCKETS]);
        for (shard, waits) in in_shards.iter_mut().enumerate() {
            let of_shard = all.get(&((shard * per_shard + index) as u32), 0).map_err(|e| e.to_string())?;
            buckets.iter_mut().zip(of_shard.buckets).for_each(|(sum, count)| *sum += count);
            if is_wait && !is_shared {
                let coarse = of_shard.buckets.chunks_exact(COARSE).map(|fine| fine.iter().sum::<u64>());
                waits.iter_mut().zip(coarse).for_each(|(sum, count)| *sum += count);
            }
        }
        Ok::<Buckets, String>(buckets)
    };
    let of_roles = (0..roles).map(|role| (0..HISTOGRAMS).map(|h| of_index(role * HISTOGRAMS + h)).collect());
    let of_roles = of_roles.collect::<Result<_, String>>()?;
    if !is_shared {
        return Ok((of_roles, in_shards));
    }
    let waits = array::<CoarseHistogram>(object, "cpu_waits")?;
    let of_cpu = |cpu| waits.get(&cpu, 0).map(|waits| Box::new(waits.buckets)).map_err(|e| e.to_string());
    Ok((of_roles, (0..of.cpus).map(of_cpu).collect::<Result<_, String>>()?))
}

/// The counts and histograms of each section.
fn section_tables(object: &Ebpf, sections: usize) -> Result<Vec<SectionTable>, String> {
    let all = array::<SectionCounts>(object, "section_counts")?;
    let all_histograms = array::<Histogram>(object, "section_histograms")?;
    let of_section = |section: usize| {
        let histograms = (0..SECTION_HISTOGRAMS).map(|h| {
            let index = (section * SECTION_HISTOGRAMS + h) as u32;
            all_histograms.get(&index, 0).map(|h| Box::new(h.buckets)).map_err(|e| e.to_string())
        });
        let counts = all.get(&(section as u32), 0).map_err(|e| e.to_string())?;
        Ok((counts, histograms.collect::<Result<_, String>>()?))
    };
    (0..sections).map(of_section).collect()
}

/// The thread that was on a CPU for longest since the last call.
pub(crate) fn take_busiest(object: &mut Ebpf) -> Result<Option<Busiest>, String> {
    let mut map = array_mut::<Busiest>(object, "busiest")?;
    let busiest = map.get(&0, 0).map_err(|e| e.to_string())?;
    map.set(0, zeroed::<Busiest>(), 0).map_err(|e| e.to_string())?;
    Ok(Some(busiest).filter(|busiest| busiest.ns > 0))
}

/// The memory of all maps.
pub(crate) fn memory_bytes(object: &Ebpf) -> u64 {
    object.maps().filter_map(|(_, map)| map_bytes(map)).sum()
}

/// The name of the rest, where there are too many (`state.h:others`).
pub(crate) const OTHERS: &str = "(other programs)";

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

    #[test]
    fn eight_buckets_are_one_that_is_narrow_enough() {
        let mut buckets = Box::new([0; BUCKETS / COARSE]);
        let then = buckets.clone();
        buckets[1] = 2;
        buckets[16] = 1;
        let h = coarse_histogram(&buckets, &then);
        assert_eq!(h.count(), 3);
        assert_eq!(h.range_ns(), Some((11, 135)));
        for bucket in 128 / COARSE..BUCKETS / COARSE {
            let (low, end) = (bounds_ns(bucket * COARSE).0, bounds_ns(bucket * COARSE + COARSE - 1).1);
            assert!((low.midpoint(end - 1) - low) as f64 / low as f64 <= 0.0625, "bucket {bucket}");
        }
    }
}
