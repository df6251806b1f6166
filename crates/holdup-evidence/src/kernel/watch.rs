//! One window of watching: from loading to the sums.

use crate::kernel::counts::{self, WindowCounts};
use crate::kernel::layout::{Counts, Entry, Image, ROLES, SectionFilter, Watched};
use crate::kernel::load::{self, Addresses, Loaded, Purpose};
use crate::kernel::residuals::Following;
use crate::kernel::stats::{self, Measuring};
use crate::kernel::table::Images;
use crate::kernel::{Parts, analysed, filter, roles};
use crate::reading::{now_ns, thread_cpu_ns};
use crate::{CollectContext, tasks};
use aya::Ebpf;
use aya::maps::{Array, HashMap, MapData, RingBuf};
use holdup_model::evidence::BpfCost;
use holdup_model::sections::ReleasedAt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

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
    /// Whether each sample is taken when its time is over (sched_exit_tp), so that all have the same weight.
    pub(crate) has_sched_exit: bool,
}

/// The pointer to a backend's wait event in PostgreSQL (utils/activity/wait_event.c, since 14).
const WAIT_EVENT: &str = "my_wait_event_info";

/// An array map by name.
pub(crate) fn array<'a, V: aya::Pod>(object: &'a Ebpf, name: &str) -> Result<Array<&'a MapData, V>, String> {
    let map = object.map(name).ok_or_else(|| format!("the object has no map {name}"))?;
    Array::try_from(map).map_err(|e| format!("{name}: {e}"))
}

fn array_mut<'a, V: aya::Pod>(object: &'a mut Ebpf, name: &str) -> Result<Array<&'a mut MapData, V>, String> {
    let map = object.map_mut(name).ok_or_else(|| format!("the object has no map {name}"))?;
    Array::try_from(map).map_err(|e| format!("{name}: {e}"))
}

/// Watching, for all collectors of a trial that want a part of it.
pub(crate) struct Watch {
    running: Mutex<State>,
}

enum State {
    Running(Box<Running>),
    Ended(Result<Arc<WindowCounts>, String>),
}

struct Running {
    loaded: Loaded,
    off_cpu: OffCpu,
    parts: Parts,
    roles: Vec<String>,
    images: Images,
    /// The counts at the begin, and when they were read.
    before: (Counts, u64),
    measuring: Option<Measuring>,
    following: Option<Following>,
    cpu_ns: u64,
}

impl Watch {
    /// Loads, attaches and begins to count.
    pub(crate) fn start(context: &CollectContext, parts: &Parts) -> Result<Self, String> {
        let begun = thread_cpu_ns();
        let mut images = if parts.has("want_sections") { analysed::images(context)? } else { Images::default() };
        let roles = roles(context);
        let cpus = possible_cpus(context)?;
        let addresses = Addresses::of_host(&context.host);
        let wait_event_at =
            if parts.has("want_stacks") { analysed::variable(context, &roles, WAIT_EVENT) } else { [0; ROLES] };
        let mut off_cpu = OffCpu { period_ns: OFF_CPU_PERIOD_NS, wait_event_at, has_sched_exit: true };
        let purpose = Purpose { parts, roles: roles.len() as u32, images: &images, cpus, addresses, off_cpu };
        let mut loaded = load::load(&purpose)?;
        off_cpu.has_sched_exit = loaded.has_sched_exit;
        fill(&mut loaded.object, &images)?;
        let found = watch_processes(context, &mut loaded.object, &roles, &images)?;
        let online = holdup_host::online_cpus(&context.host).ok_or("the CPUs that are online cannot be read")?;
        load::attach(&mut loaded, &online)?;
        catch_up(context, &mut loaded.object, &roles, &images, found)?;
        let releases = images.take_releases();
        let following =
            if releases.values().all(Vec::is_empty) { None } else { follow(context, &mut loaded, releases) };
        let before = (counts::counts(&loaded.object, loaded.shards)?, now_ns());
        let measuring = Measuring::begin();
        let cpu_ns = thread_cpu_ns().saturating_sub(begun);
        let parts = parts.clone();
        let running = Running { loaded, off_cpu, parts, roles, images, before, measuring, following, cpu_ns };
        Ok(Watch { running: Mutex::new(State::Running(Box::new(running))) })
    }

    /// The samples of time off the CPU, for a thread that reads them during the window.
    ///
    /// # Errors
    /// When the window has ended, or another thread has taken them.
    pub(crate) fn stacks(&self) -> Result<(OffCpu, RingBuf<MapData>), String> {
        let mut state = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let State::Running(running) = &mut *state else { return Err("watching has ended".to_owned()) };
        let map = running.loaded.object.take_map("stack_samples").ok_or("the samples are being read already")?;
        Ok((running.off_cpu, RingBuf::try_from(map).map_err(|e| e.to_string())?))
    }

    /// Ends watching at the first call; gives the counts at each.
    pub(crate) fn end(&self) -> Result<Arc<WindowCounts>, String> {
        let mut state = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = match std::mem::replace(&mut *state, State::Ended(Err("it is being ended".to_owned()))) {
            State::Running(running) => running.end().map(Arc::new),
            State::Ended(counts) => counts,
        };
        *state = State::Ended(ended.clone());
        ended
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

/// Gives the programs the processes to watch.
fn watch_processes(
    context: &CollectContext,
    object: &mut Ebpf,
    roles: &[String],
    images: &Images,
) -> Result<Found, String> {
    let mut meter = crate::reading::Meter::default();
    let found = meter.spend(&context.host, |reader| tasks::processes(reader, &context.subjects))?;
    let map = object.map_mut("processes").ok_or("the object has no map processes")?;
    let mut map: HashMap<_, u32, Watched> = HashMap::try_from(map).map_err(|e| e.to_string())?;
    let mut by_pid = Found::new();
    for (role, stat) in found {
        let Some(role) = roles.iter().position(|r| *r == role) else { continue };
        by_pid.insert(stat.pid, role as u32);
        let watched = Watched { role: role as u32, image: images.of(stat.pid) };
        map.insert(stat.pid, watched, 0).map_err(|e| format!("{} processes: {e}", by_pid.len()))?;
    }
    Ok(by_pid)
}

/// Processes that began between the first look and the attaching are looked for until a look finds none.
fn catch_up(
    context: &CollectContext,
    object: &mut Ebpf,
    roles: &[String],
    images: &Images,
    mut known: Found,
) -> Result<(), String> {
    for _ in 0..8 {
        let now = watch_processes(context, object, roles, images)?;
        load::find_tasks(object)?;
        if now.keys().all(|pid| known.contains_key(pid)) {
            break;
        }
        known = now;
    }
    Ok(())
}

impl Running {
    fn end(mut self) -> Result<WindowCounts, String> {
        let begun = thread_cpu_ns();
        let residuals = self.following.take().map(Following::end).unwrap_or_default();
        let Loaded { object, shards, notes, .. } = self.loaded;
        let (bpf, missed) = stats::of(&object);
        let bpf = self.measuring.take().and_then(Measuring::end).map(|factor| BpfCost {
            runs: (bpf.runs as f64 * factor) as u64,
            run_ns: (bpf.run_ns as f64 * factor) as u64,
        });
        let mut window = WindowCounts::of(&object, shards, self.before, self.roles)?;
        let sum = window.counts;
        window.lost = vec![
            (missed, "runs of a program that the kernel left out because it was running already"),
            (sum.clock_backwards, "times that were negative, because clocks of CPUs differ"),
            (sum.no_wakeup, "waits whose wake-up was not seen"),
            (sum.no_storage, "tasks that there was no memory for"),
            (sum.matrix_full, "preemptions between more pairs of names than there is room for"),
            (sum.unreadable_stack, "switches in a function whose return address could not be read"),
        ];
        window.lost.retain(|(count, _)| *count > 0);
        (window.bpf, window.notes) = (bpf, notes);
        window.notes.extend(residuals.notes());
        window.notes.extend(self.images.notes().iter().cloned());
        if self.parts.has("want_sections") {
            window.sections = counts::sections(&object, self.images.names(), &residuals)?;
            window.has_sections = !window.sections.is_empty();
            if sum.executed > 0 {
                let executed = sum.executed;
                window
                    .notes
                    .push(format!("{executed} programs started inside the window: their sections are not known"));
            }
        }
        window.keep_maps(object);
        // What was done before the window opened did not disturb it.
        let before_ms = self.cpu_ns as f64 / 1e6;
        window.notes.push(format!("preparing took {before_ms:.0} ms of CPU time before the window"));
        window.cpu_ns = thread_cpu_ns().saturating_sub(begun) + residuals.cpu_ns;
        Ok(window)
    }
}
