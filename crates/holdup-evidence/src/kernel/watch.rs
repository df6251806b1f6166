//! Watching, from loading to the last window. Windows are cut by snapshots of the tables, so nothing is lost between them.

use crate::kernel::counts::{self, Account, Maps, Snapshot, WindowCounts};
use crate::kernel::fault_slices::FaultSlices;
use crate::kernel::largest::Largest;
use crate::kernel::layout::{Counts, Entry, Image, ROLES, SectionFilter, Watched};
use crate::kernel::load::{self, Addresses, AskedAt, Loaded, Purpose, Shards};
use crate::kernel::residuals::Following;
use crate::kernel::stats::{self, Measuring};
use crate::kernel::table::Images;
use crate::kernel::{Parts, analysed, filter, roles};
use crate::postgres::Versions;
use crate::reading::thread_cpu_ns;
use crate::{CollectContext, tasks};
use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use holdup_model::evidence::BpfCost;
use holdup_model::sections::ReleasedAt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Sections are sampled 251 times a second: a prime, so that it does not beat with the tick.
pub(crate) const SAMPLE_PERIOD_NS: u64 = 1_000_000_000 / 251;

/// 10 ms of time off the CPU for each sample.
const OFF_CPU_PERIOD_NS: u64 = 10_000_000;

/// How the time off the CPU is sampled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OffCpu {
    /// The time for each sample.
    pub(crate) period_ns: u64,
    /// Where the tasks of each role have the pointer to what they wait for; 0 for none.
    pub(crate) wait_event_at: [u64; ROLES],
    /// True if each sample is taken when its time is over (sched_exit_tp), so that all have the same weight.
    pub(crate) has_sched_exit: bool,
}

/// The pointer to a backend's wait event in PostgreSQL (utils/activity/wait_event.c, since 14).
const WAIT_EVENT: &str = "my_wait_event_info";

/// What kind of process a PostgreSQL process is (miscadmin.h, since 13).
const BACKEND_TYPE: &str = "MyBackendType";

pub(crate) fn array<'a, V: aya::Pod>(object: &'a Ebpf, name: &str) -> Result<Array<&'a MapData, V>, String> {
    let map = object.map(name).ok_or_else(|| format!("the object has no map {name}"))?;
    Array::try_from(map).map_err(|e| format!("{name}: {e}"))
}

pub(crate) fn array_mut<'a, V: aya::Pod>(
    object: &'a mut Ebpf,
    name: &str,
) -> Result<Array<&'a mut MapData, V>, String> {
    let map = object.map_mut(name).ok_or_else(|| format!("the object has no map {name}"))?;
    Array::try_from(map).map_err(|e| format!("{name}: {e}"))
}

/// Watching, for all collectors that want a part of it; it ends when it is dropped.
pub(crate) struct Watch {
    running: Mutex<Running>,
}

struct Running {
    // Before the maps, because their threads read some of them.
    following: Option<Following>,
    fault_slices: Option<FaultSlices>,
    maps: Arc<Maps>,
    shards: Shards,
    notes: Vec<String>,
    off_cpu: OffCpu,
    parts: Parts,
    roles: Vec<String>,
    images: Images,
    versions: Arc<Versions>,
    /// Why this kernel has no account.
    no_account: Option<String>,
    /// What was counted until the last edge.
    before: Snapshot,
    /// The runs of programs until then, and those that were left out.
    runs_before: (BpfCost, u64),
    measuring: Option<Measuring>,
    /// Windows that have ended, and the last of them.
    windows: u32,
    last: Result<Arc<WindowCounts>, String>,
    /// CPU time of preparing, until the first window has said so.
    prepared_ns: Option<u64>,
}

/// All programs, or all but the account's, with the reason, where the kernel's checker does not take those.
fn load_most(purpose: &Purpose<'_>) -> Result<(Loaded, Parts, Option<String>), String> {
    match load::load(purpose) {
        Err(why) if purpose.parts.has("want_account") => {
            let less = purpose.parts.without("want_account");
            let loaded = load::load(&Purpose { parts: &less, ..*purpose }).map_err(|_| why.clone())?;
            Ok((loaded, less, Some(why)))
        }
        loaded => Ok((loaded?, purpose.parts.clone(), None)),
    }
}

/// Leaves out what was counted until now; returns the cost of that.
fn begin_first_window(maps: &Maps, parts: &Parts) -> Result<(BpfCost, u64), String> {
    let mut object = maps.object.lock().unwrap_or_else(PoisonError::into_inner);
    if parts.has("want_account") {
        drop(maps.account(&mut object)?);
    }
    drop(maps.preempters(&mut object)?);
    Ok(stats::of(&object))
}

impl Watch {
    /// Loads, attaches and begins to count.
    pub(crate) fn start(context: &CollectContext, parts: &Parts) -> Result<Self, String> {
        let begun = thread_cpu_ns();
        let mut images = if parts.has("want_sections") { analysed::images(context)? } else { Images::default() };
        let roles = roles(context);
        let cpus = possible_cpus(context)?;
        let addresses = Addresses::of_host(&context.host);
        let has_postgres = parts.has("want_stacks") || parts.has("want_account");
        let [wait_event_at, backend_type_at] = if has_postgres {
            analysed::variables(context, &roles, [WAIT_EVENT, BACKEND_TYPE])
        } else {
            Default::default()
        };
        let versions = Versions::read(context, &roles, |role| wait_event_at[role] != 0);
        let mut off_cpu = OffCpu { period_ns: OFF_CPU_PERIOD_NS, wait_event_at, has_sched_exit: true };
        let samples_faults = parts.has("want_faults") && context.options.samples_faults;
        let follows_holders = images.has_releases() && !context.options.without_breakpoints;
        let purpose = Purpose {
            parts,
            roles: roles.len() as u32,
            images: &images,
            cpus,
            addresses,
            off_cpu,
            samples_faults,
            follows_holders,
            asked_at: AskedAt::ways(&context.host),
        };
        let (mut loaded, parts, no_account) = load_most(&purpose)?;
        off_cpu.has_sched_exit = loaded.has_sched_exit;
        fill(&mut loaded.object, &images)?;
        let lookup = Lookup { context, roles: &roles, images: &images, wait_event_at, backend_type_at };
        let found = lookup.processes(&mut loaded.object)?;
        let online = holdup_host::online_cpus(&context.host).ok_or("the CPUs that are online cannot be read")?;
        load::attach(&mut loaded, &online)?;
        let fault_slices = match samples_faults {
            true => Some(FaultSlices::begin(&context.host, &mut loaded.object, &online)?),
            false => None,
        };
        lookup.catch_up(&mut loaded.object, found)?;
        let releases = images.take_releases();
        let following = if follows_holders { follow(context, &mut loaded, releases) } else { None };
        let Loaded { mut object, shards, notes, .. } = loaded;
        if parts.has("want_account") {
            // What was charged while the programs were attached is before the first window.
            load::walk_tasks(&mut object, "cut_tasks", &mut |_| {})?;
            counts::take_busiest(&mut object)?;
        }
        let before = Snapshot::of(&object, shards, roles.len(), images.names().len())?;
        let maps = Maps::new(object);
        let runs_before = begin_first_window(&maps, &parts)?;
        let running = Running {
            following,
            fault_slices,
            maps,
            shards,
            notes,
            off_cpu,
            parts,
            roles,
            images,
            versions: Arc::new(versions),
            no_account,
            before,
            runs_before,
            measuring: Measuring::begin(),
            windows: 0,
            last: Err("no window has ended".to_owned()),
            prepared_ns: Some(thread_cpu_ns().saturating_sub(begun)),
        };
        Ok(Watch { running: Mutex::new(running) })
    }

    /// The samples of time off the CPU, for a thread that reads them during the window.
    ///
    /// # Errors
    /// When another thread has taken them.
    pub(crate) fn stacks(&self) -> Result<(OffCpu, RingBuf<MapData>), String> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut object = running.maps.object.lock().unwrap_or_else(PoisonError::into_inner);
        let map = object.take_map("stack_samples").ok_or("the samples are being read already")?;
        Ok((running.off_cpu, RingBuf::try_from(map).map_err(|e| e.to_string())?))
    }

    /// The counts of a window, from 1. The first collector that asks for it ends it, and the next one begins.
    pub(crate) fn window(&self, number: u32) -> Result<Arc<WindowCounts>, String> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.windows < number {
            running.windows = number;
            running.last = running.end_window().map(Arc::new);
        }
        running.last.clone()
    }
}

/// Follows preempted holders; where that is impossible, a note says why.
fn follow(
    context: &CollectContext,
    loaded: &mut Loaded,
    releases: BTreeMap<u32, Vec<ReleasedAt>>,
) -> Option<Following> {
    match Following::begin(&context.host, &mut loaded.object, releases) {
        Ok(following) => Some(following),
        Err(why) => {
            loaded.notes.push(format!("the residual times of preempted holders are not known: {why}"));
            None
        }
    }
}

/// CPUs that may ever be there: tables are made for all of them.
fn possible_cpus(context: &CollectContext) -> Result<u32, String> {
    let path = "/sys/devices/system/cpu/possible";
    let text = context.host.read_text(path).map_err(|e| e.to_string())?;
    let cpus = holdup_host::cpu_list(&text).ok_or_else(|| format!("{path} has another form: {text}"))?;
    cpus.last().map(|last| last + 1).ok_or_else(|| format!("{path} is empty"))
}

fn fill(object: &mut Ebpf, images: &Images) -> Result<(), String> {
    let mut table = array_mut::<Entry>(object, "section_table")?;
    for (index, entry) in images.entries().iter().enumerate() {
        table.set(index as u32, entry, 0).map_err(|e| e.to_string())?;
    }
    let mut spans = array_mut::<Image>(object, "images")?;
    for (index, image) in images.images().iter().enumerate() {
        spans.set(index as u32, image, 0).map_err(|e| e.to_string())?;
    }
    let mut filters = array_mut::<SectionFilter>(object, "section_filter")?;
    for (index, image) in images.images().iter().enumerate() {
        filters.set(index as u32, filter::of(images.entries_of(image)), 0).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Processes under test, by pid, with their roles.
type Found = BTreeMap<u32, u32>;

/// Looks for the processes to watch.
struct Lookup<'a> {
    context: &'a CollectContext,
    roles: &'a [String],
    images: &'a Images,
    wait_event_at: [u64; ROLES],
    backend_type_at: [u64; ROLES],
}

impl Lookup<'_> {
    /// Gives the programs the processes to watch.
    fn processes(&self, object: &mut Ebpf) -> Result<Found, String> {
        let mut meter = crate::reading::Meter::default();
        let found = meter.spend(&self.context.host, |reader| tasks::processes(reader, &self.context.subjects))?;
        let map = object.map_mut("processes").ok_or("the object has no map processes")?;
        let mut map: HashMap<_, u32, Watched> = HashMap::try_from(map).map_err(|e| e.to_string())?;
        let mut by_pid = Found::new();
        for (role, stat) in found {
            let Some(role) = self.roles.iter().position(|r| *r == role) else { continue };
            by_pid.insert(stat.pid, role as u32);
            map.insert(stat.pid, self.watched(stat.pid, role), 0)
                .map_err(|e| format!("{} processes: {e}", by_pid.len()))?;
        }
        Ok(by_pid)
    }

    fn watched(&self, pid: u32, role: usize) -> Watched {
        let (wait_event_at, backend_type_at) = (self.wait_event_at[role], self.backend_type_at[role]);
        let host = &self.context.host;
        let number = |at: u64| host.read_memory::<4>(pid, at).ok().map(u32::from_ne_bytes);
        // A program under the server that is not of its binary has nothing there, or something else.
        let pointer = (wait_event_at != 0).then(|| host.read_memory::<8>(pid, wait_event_at).ok()).flatten();
        let wait_event = pointer.and_then(|pointer| number(u64::from_ne_bytes(pointer)));
        let kind = (backend_type_at != 0).then(|| number(backend_type_at)).flatten().filter(|kind| *kind < 64);
        Watched {
            wait_event_at: if wait_event.is_some() { wait_event_at } else { 0 },
            backend_type_at: if wait_event.is_some() { backend_type_at } else { 0 },
            role: role as u32,
            image: self.images.of(pid),
            wait_event: wait_event.unwrap_or(0),
            kind: kind.unwrap_or(0),
        }
    }

    /// Processes that began between the first look and the attaching are looked for until a look finds none.
    fn catch_up(&self, object: &mut Ebpf, mut known: Found) -> Result<(), String> {
        for _ in 0..8 {
            let now = self.processes(object)?;
            load::walk_tasks(object, "find_tasks", &mut |_| {})?;
            if now.keys().all(|pid| known.contains_key(pid)) {
                break;
            }
            known = now;
        }
        Ok(())
    }
}

impl Running {
    /// The counts since the last edge.
    fn end_window(&mut self) -> Result<WindowCounts, String> {
        let begun = thread_cpu_ns();
        let residuals = self.following.as_ref().map(Following::take).unwrap_or_default();
        let mut object = self.maps.object.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut busiest, mut account) = (None, Err(self.no_account.clone().unwrap_or_default()));
        if self.parts.has("want_account") {
            let mut largest = Largest::default();
            load::walk_tasks(&mut object, "cut_tasks", &mut |task| largest.add(task))?;
            account = Ok(Account { tasks: largest.end(), ..self.maps.account(&mut object)? });
            busiest = counts::take_busiest(&mut object)?;
        }
        let names = self.images.names();
        let now = Snapshot::of(&object, self.shards, self.roles.len(), names.len())?;
        let preempters = self.maps.preempters(&mut object)?;
        let (runs, missed) = stats::of(&object);
        let memory_bytes = counts::memory_bytes(&object);
        drop(object);
        let factor = self.measuring.take().and_then(Measuring::end);
        self.measuring = Measuring::begin();
        let (runs_before, missed_before) = std::mem::replace(&mut self.runs_before, (runs, missed));
        let mut window = now.since(&self.before, &self.roles, self.maps.clone());
        (window.memory_bytes, window.account, window.busiest) = (memory_bytes, account, busiest);
        window.versions = self.versions.clone();
        window.bpf = factor.map(|factor| BpfCost {
            runs: ((runs.runs - runs_before.runs) as f64 * factor) as u64,
            run_ns: ((runs.run_ns - runs_before.run_ns) as f64 * factor) as u64,
        });
        window.lost = lost(&window.counts, missed - missed_before);
        window.notes.clone_from(&self.notes);
        window.notes.extend(residuals.notes());
        window.notes.extend(self.images.notes().iter().cloned());
        if self.parts.has("want_sections") {
            window.sections = now.sections_since(&self.before, names, &residuals, &preempters);
            window.has_sections = !window.sections.is_empty();
            let executed = window.counts.executed;
            if executed > 0 {
                let note = format!("{executed} programs started inside the window: their sections are not known");
                window.notes.push(note);
            }
        }
        if let Some(slices) = &mut self.fault_slices {
            let span = window.span_ns.end.saturating_sub(window.span_ns.start);
            window.scale_faults(slices.edge(Duration::from_nanos(span)));
        }
        // What was done before the window opened did not disturb it.
        if let Some(prepared_ns) = self.prepared_ns.take() {
            let prepared_ms = prepared_ns as f64 / 1e6;
            window.notes.push(format!("preparing took {prepared_ms:.0} ms of CPU time before the window"));
        }
        self.before = now;
        window.cpu_ns = thread_cpu_ns().saturating_sub(begun) + residuals.cpu_ns;
        Ok(window)
    }
}

/// What is missing of a window, as (number, why).
fn lost(counts: &Counts, missed: u64) -> Vec<(u64, &'static str)> {
    let mut lost = vec![
        (missed, "runs of a program that the kernel left out because it was running already"),
        (counts.clock_backwards, "times that were negative, because clocks of CPUs differ"),
        (counts.no_wakeup, "waits whose wake-up was not seen"),
        (counts.no_storage, "tasks that there was no memory for"),
        (counts.matrix_full, "preemptions between more pairs of names than there is room for"),
        (counts.account_full_ns / 1_000_000, "ms of the account that there was no room for"),
        (counts.unreadable_stack, "switches in a function whose return address could not be read"),
    ];
    lost.retain(|(count, _)| *count > 0);
    lost
}
