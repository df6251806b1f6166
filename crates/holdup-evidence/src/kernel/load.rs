//! Loading the object for what is wanted, and attaching its programs.

use crate::kernel::Wants;
use crate::kernel::layout::{HISTOGRAMS, SECTION_HISTOGRAMS};
use crate::kernel::table::Images;
use crate::kernel::watch::{OffCpu, Sampling};
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{BtfTracePoint, Iter, PerfEvent, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel};
use aya_obj::btf::BtfKind;
use holdup_host::Host;
use std::io::Read as _;
use std::sync::OnceLock;

/// The compiled programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));

/// At most as many shards: one for each CPU up to here, and some CPUs share one beyond, so that the histograms stay below
/// the limit of memory on machines with hundreds of CPUs.
const MOST_SHARDS: u32 = 16;

/// With more CPUs the sum of a process's pages grows in steps that may be those of huge ones (faults.bpf.h).
pub(crate) const MOST_CPUS_OF_A_BATCH: u32 = 100;

/// The ring of the timeline: some 100,000 events.
const EVENTS_BYTES: u32 = 8 << 20;

/// The ring of samples of the time off the CPU: some 480 of them, which is more than come between two looks at it.
const STACKS_BYTES: u32 = 8 << 20;

/// A name for messages.
type Why = String;

/// A loaded object.
pub(crate) struct Loaded {
    pub(crate) object: Ebpf,
    pub(crate) shards: u32,
    /// Whether causes come from the kernel's own tracepoint.
    pub(crate) knows_causes: bool,
    /// Whether tasks tell that they are back on a CPU.
    pub(crate) tells_return: bool,
    /// Whether the tick is told from other timers.
    knows_tick: bool,
    /// What could not be attached, and what is missing for it.
    pub(crate) notes: Vec<String>,
}

/// Which forms of the kernel's interfaces to try.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// sched_switch has the previous state as its fourth argument (since 5.18, and in kernels that took it back).
    switch_has_state: bool,
    /// sched_set_need_resched exists (since 6.18).
    knows_causes: bool,
    /// sched_exit_tp exists (since 6.16).
    tells_return: bool,
}

fn message(error: &dyn std::error::Error) -> Why {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    // The verifier's log is long; its last lines say what it did not like.
    let lines: Vec<&str> = text.lines().collect();
    match lines.len() {
        0..=6 => text,
        n => format!("{} … {}", lines[0], lines[n - 12..].join(" | ")),
    }
}

/// What the object is made for.
pub(crate) struct Purpose<'a> {
    pub(crate) wants: Wants,
    pub(crate) roles: u32,
    pub(crate) images: &'a Images,
    /// Possible CPUs.
    pub(crate) cpus: u32,
    pub(crate) places: Places,
    pub(crate) off_cpu: OffCpu,
}

/// Loads the object with what is wanted switched on.
///
/// # Errors
/// Why the kernel does not take it.
pub(crate) fn load(purpose: &Purpose<'_>) -> Result<Loaded, Why> {
    let btf = Btf::from_sys_fs().map_err(|e| message(&e))?;
    let resched = need_resched_name(&btf);
    let tells_return = has_tracepoint(&btf, SCHED_EXIT);
    let form = Form { switch_has_state: true, knows_causes: resched.is_some(), tells_return };
    create(purpose, &btf, form).or_else(|first| {
        let older = Form { switch_has_state: false, ..form };
        create(purpose, &btf, older).map_err(|second| format!("{first}; then {second}"))
    })
}

/// Told at the end of `__schedule` by the task that came to the CPU (since 6.16).
const SCHED_EXIT: &str = "sched_exit_tp";

fn has_tracepoint(btf: &Btf, name: &str) -> bool {
    btf.id_by_type_name_kind(&format!("btf_trace_{name}"), BtfKind::Typedef).is_ok()
}

/// What the tracepoint is called here: since 6.16 those without a trace event end in `_tp`.
fn need_resched_name(btf: &Btf) -> Option<&'static str> {
    ["sched_set_need_resched_tp", "sched_set_need_resched"].into_iter().find(|name| has_tracepoint(btf, name))
}

fn create(purpose: &Purpose<'_>, btf: &Btf, form: Form) -> Result<Loaded, Why> {
    let &Purpose { wants, roles, images, cpus, places, off_cpu } = purpose;
    let shards = cpus.clamp(1, MOST_SHARDS);
    let flag = u32::from;
    let values = [
        ("roles", roles.max(1)),
        ("shards", shards),
        ("shared_shards", flag(shards < cpus)),
        ("want_switches", flag(wants.switches)),
        ("want_sections", flag(wants.sections)),
        ("want_faults", flag(wants.faults)),
        ("want_residuals", flag(wants.sections && images.has_releases())),
        ("want_kworkers", flag(wants.kworkers)),
        ("want_timeline", flag(wants.timeline)),
        ("want_stacks", flag(wants.stacks)),
        ("tells_return", flag(form.tells_return)),
        ("switch_has_state", flag(form.switch_has_state)),
        ("knows_causes", flag(form.knows_causes)),
        ("tells_transparent", flag(cpus <= MOST_CPUS_OF_A_BATCH)),
    ];
    let sections = u32::try_from(images.sections()).unwrap_or(u32::MAX).max(1);
    let of_images = u32::try_from(images.images().len()).unwrap_or(u32::MAX).max(1);
    let mut loader = EbpfLoader::new();
    loader.btf(Some(btf)).allow_unsupported_maps().verifier_log_level(VerifierLogLevel::DEBUG);
    for (name, value) in &values {
        loader.override_global(name, value, true);
    }
    loader.override_global("tick_function", &places.tick, true);
    loader.override_global("charge_begin", &places.charge.0, true);
    loader.override_global("charge_length", &places.charge.1, true);
    loader.override_global("off_cpu_period_ns", &off_cpu.period_ns, true);
    loader.override_global("wait_event_at", &off_cpu.wait_event_at, true);
    loader
        .map_max_entries("events", if wants.timeline { EVENTS_BYTES } else { 4096 })
        .map_max_entries("stack_samples", if wants.stacks { STACKS_BYTES } else { 4096 })
        .map_max_entries("counts", shards)
        .map_max_entries("histograms", shards * roles.max(1) * HISTOGRAMS as u32)
        .map_max_entries("section_counts", sections)
        .map_max_entries("section_histograms", sections * SECTION_HISTOGRAMS as u32)
        .map_max_entries("section_table", u32::try_from(images.entries().len()).unwrap_or(u32::MAX).max(1))
        .map_max_entries("images", of_images)
        .map_max_entries("section_lines", of_images);
    let mut object = loader.load(OBJECT).map_err(|e| message(&e))?;
    let mut notes = Vec::new();
    load_programs(&mut object, btf, form, places.tick != 0, &mut notes)?;
    if wants.sections {
        load_sampler(&mut object, "section_sample")?;
        if images.has_releases() {
            load_sampler(&mut object, "residual_ends")?;
        }
    }
    if wants.faults {
        tracepoint(&mut object, "user_fault_begins", "page_fault_user", btf)?;
        tracepoint(&mut object, "kernel_fault_begins", "page_fault_kernel", btf)?;
        load_sampler(&mut object, "minor_fault_ends")?;
        load_sampler(&mut object, "major_fault_ends")?;
    }
    if wants.stacks {
        tracepoint(&mut object, "is_waking", "sched_waking", btf)?;
        if form.tells_return {
            tracepoint(&mut object, "task_is_back", SCHED_EXIT, btf)?;
        }
    }
    Ok(Loaded {
        object,
        shards,
        knows_causes: form.knows_causes,
        tells_return: form.tells_return,
        knows_tick: places.tick != 0 && form.knows_causes,
        notes,
    })
}

fn load_sampler(object: &mut Ebpf, name: &str) -> Result<(), Why> {
    let program: &mut PerfEvent = found(object, name)?;
    program.load().map_err(|e| format!("{name}: {}", message(&e)))
}

fn tracepoint(object: &mut Ebpf, program: &str, name: &str, btf: &Btf) -> Result<(), Why> {
    let program: &mut BtfTracePoint = found(object, program)?;
    program.load(name, btf).map_err(|e| format!("{name}: {}", message(&e)))
}

/// The program of this name in the object.
fn found<'a, P>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut P, Why>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let program = object.program_mut(name).ok_or_else(|| format!("the object has no program {name}"))?;
    program.try_into().map_err(|e: ProgramError| message(&e))
}

/// Has the kernel check every program that is wanted; what is optional and is not taken becomes a note.
fn load_programs(
    object: &mut Ebpf,
    btf: &Btf,
    form: Form,
    knows_tick: bool,
    notes: &mut Vec<String>,
) -> Result<(), Why> {
    tracepoint(object, "switched", "sched_switch", btf)?;
    tracepoint(object, "wakes_up", "sched_wakeup", btf)?;
    tracepoint(object, "wakes_up_new", "sched_wakeup_new", btf)?;
    tracepoint(object, "new_task", "task_newtask", btf)?;
    tracepoint(object, "executes", "sched_process_exec", btf)?;
    let tasks: &mut Iter = found(object, "find_tasks")?;
    tasks.load("task", btf).map_err(|e| format!("iter/task: {}", message(&e)))?;
    if form.knows_causes {
        let name = need_resched_name(btf).unwrap_or("sched_set_need_resched");
        tracepoint(object, "set_need_resched", name, btf)?;
        if knows_tick {
            tracepoint(object, "timer_begins", "hrtimer_expire_entry", btf)?;
            tracepoint(object, "timer_ends", "hrtimer_expire_exit", btf)?;
        } else {
            notes.push(
                "the end of a slice is told from the slice alone, because the tick's function is not known".to_owned(),
            );
        }
    }
    Ok(())
}

/// The function of the timer that is the tick since 6.9, and before.
const TICKS: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

/// Places in the kernel's code that programs compare with, 0 where they are not told (addresses are hidden from those who
/// may not know them).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Places {
    /// The function of the timer that is the tick.
    tick: u64,
    /// The function that charges a task for its time, and its length.
    charge: (u64, u64),
}

impl Places {
    /// Those of the kernel that runs: read once, because they stay while it does and the file is long.
    pub(crate) fn here(host: &Host) -> Self {
        static HERE: OnceLock<Places> = OnceLock::new();
        *HERE.get_or_init(|| Places::of(&host.read_text("/proc/kallsyms").unwrap_or_default()))
    }

    /// From the text of /proc/kallsyms.
    fn of(kallsyms: &str) -> Self {
        let symbol = |line| {
            let mut words = str::split_ascii_whitespace(line);
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.nth(1)?))
        };
        let symbols = || kallsyms.lines().filter_map(symbol);
        let mut places = Places::default();
        for (address, name) in symbols() {
            if TICKS.contains(&name) {
                places.tick = address;
            } else if name == "update_curr" {
                places.charge.0 = address;
            }
        }
        let behind = symbols().map(|(address, _)| address).filter(|address| *address > places.charge.0).min();
        if let Some(behind) = behind.filter(|_| places.charge.0 != 0) {
            places.charge.1 = behind - places.charge.0;
        }
        places
    }
}

/// Attaches what was loaded, the switch last, and finds the tasks that are there.
///
/// # Errors
/// What could not be attached.
pub(crate) fn attach(loaded: &mut Loaded, wants: Wants, sampling: &Sampling) -> Result<(), Why> {
    let object = &mut loaded.object;
    for name in ["new_task", "executes"] {
        attach_tracepoint(object, name)?;
    }
    find_tasks(object)?;
    if loaded.knows_causes {
        attach_tracepoint(object, "set_need_resched")?;
        if loaded.knows_tick {
            attach_tracepoint(object, "timer_begins")?;
            attach_tracepoint(object, "timer_ends")?;
        }
    }
    if wants.faults {
        let each = SamplePolicy::Period(1);
        attach_event(object, "minor_fault_ends", SoftwareEvent::PageFaultsMin, &each, &sampling.cpus)?;
        attach_event(object, "major_fault_ends", SoftwareEvent::PageFaultsMaj, &each, &sampling.cpus)?;
        attach_tracepoint(object, "user_fault_begins")?;
        attach_tracepoint(object, "kernel_fault_begins")?;
    }
    if wants.sections {
        let policy = SamplePolicy::Period(sampling.period_ns);
        attach_event(object, "section_sample", SoftwareEvent::CpuClock, &policy, &sampling.cpus)?;
    }
    if wants.stacks {
        attach_tracepoint(object, "is_waking")?;
        if loaded.tells_return {
            attach_tracepoint(object, "task_is_back")?;
        }
    }
    for name in ["wakes_up", "wakes_up_new", "switched"] {
        attach_tracepoint(object, name)?;
    }
    Ok(())
}

/// Runs over every task of the host: those under test get their state.
pub(crate) fn find_tasks(object: &mut Ebpf) -> Result<(), Why> {
    let tasks: &mut Iter = found(object, "find_tasks")?;
    let link = tasks.attach().map_err(|e| message(&e))?;
    let link = tasks.take_link(link).map_err(|e| message(&e))?;
    let mut file = link.into_file().map_err(|e| message(&e))?;
    let mut nothing = Vec::new();
    file.read_to_end(&mut nothing).map_err(|e| format!("iter/task: {e}"))?;
    Ok(())
}

fn attach_tracepoint(object: &mut Ebpf, name: &str) -> Result<(), Why> {
    let program: &mut BtfTracePoint = found(object, name)?;
    program.attach().map(drop).map_err(|e| format!("{name}: {}", message(&e)))
}

/// Has a program run at the overflows of a software event on each CPU.
fn attach_event(
    object: &mut Ebpf,
    name: &str,
    event: SoftwareEvent,
    policy: &SamplePolicy,
    cpus: &[u32],
) -> Result<(), Why> {
    let program: &mut PerfEvent = found(object, name)?;
    for cpu in cpus {
        let scope = PerfEventScope::AllProcessesOneCpu { cpu: *cpu };
        let policy = match policy {
            SamplePolicy::Period(period) => SamplePolicy::Period(*period),
            SamplePolicy::Frequency(frequency) => SamplePolicy::Frequency(*frequency),
        };
        program
            .attach(PerfEventConfig::Software(event), scope, policy, false)
            .map_err(|e| format!("{name} on CPU {cpu}: {}", message(&e)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_the_functions_and_hidden_ones_are_none() {
        let shown = "ffffffff81000100 t update_curr\nffffffff81000180 T schedule\nffffffff81000140 t pick\ngarbage\n\
                     ffffffff81002000 t tick_nohz_handler\nffffffff81003000 t dummy\t[module]\n";
        let places = Places::of(shown);
        assert_eq!(places, Places { tick: 0xffff_ffff_8100_2000, charge: (0xffff_ffff_8100_0100, 0x40) });
        let hidden =
            "0000000000000000 t update_curr\n0000000000000000 T schedule\n0000000000000000 t tick_nohz_handler\n";
        assert_eq!(Places::of(hidden), Places::default());
        assert_eq!(Places::of(""), Places::default());
    }
}
