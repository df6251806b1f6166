//! Loading the object for what is wanted, and attaching its programs.

use crate::kernel::layout::{HISTOGRAMS, SECTION_HISTOGRAMS};
use crate::kernel::table::Images;
use crate::kernel::{Wants, watch::Sampling};
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{BtfTracePoint, FEntry, FExit, Iter, PerfEvent, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel};
use aya_obj::btf::BtfKind;
use std::io::Read as _;

/// The compiled programs.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/watch.bpf.o"));

/// At most as many shards: one for each CPU up to here, and some CPUs share one beyond, so that the histograms stay below
/// the limit of memory on machines with hundreds of CPUs.
const MOST_SHARDS: u32 = 16;

/// A name for messages.
type Why = String;

/// A loaded object.
pub(crate) struct Loaded {
    pub(crate) object: Ebpf,
    pub(crate) btf: Btf,
    pub(crate) shards: u32,
    /// Whether causes come from the kernel's own tracepoint.
    pub(crate) knows_causes: bool,
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

/// Loads the object with what is wanted switched on. `cpus` is the number of possible CPUs.
///
/// # Errors
/// Why the kernel does not take it.
pub(crate) fn load(wants: Wants, roles: u32, images: &Images, cpus: u32) -> Result<Loaded, Why> {
    let btf = Btf::from_sys_fs().map_err(|e| message(&e))?;
    let resched = need_resched_name(&btf);
    let form = Form { switch_has_state: true, knows_causes: resched.is_some() };
    match create(wants, roles, images, cpus, &btf, form) {
        Ok((object, shards, notes)) => Ok(Loaded { object, btf, shards, knows_causes: form.knows_causes, notes }),
        Err(first) => {
            let older = Form { switch_has_state: false, ..form };
            let (object, shards, notes) =
                create(wants, roles, images, cpus, &btf, older).map_err(|second| format!("{first}; then {second}"))?;
            Ok(Loaded { object, btf, shards, knows_causes: form.knows_causes, notes })
        }
    }
}

/// What the tracepoint is called here: since 6.16 those without a trace event end in `_tp`.
fn need_resched_name(btf: &Btf) -> Option<&'static str> {
    let is_there = |name: &&str| btf.id_by_type_name_kind(&format!("btf_trace_{name}"), BtfKind::Typedef).is_ok();
    ["sched_set_need_resched_tp", "sched_set_need_resched"].into_iter().find(is_there)
}

fn create(
    wants: Wants,
    roles: u32,
    images: &Images,
    cpus: u32,
    btf: &Btf,
    form: Form,
) -> Result<(Ebpf, u32, Vec<String>), Why> {
    let shards = cpus.clamp(1, MOST_SHARDS);
    let flag = u32::from;
    let values = [
        ("roles", roles.max(1)),
        ("shards", shards),
        ("shared_shards", flag(shards < cpus)),
        ("want_switches", flag(wants.switches)),
        ("want_sections", flag(wants.sections)),
        ("want_faults", flag(wants.faults)),
        ("want_kworkers", flag(wants.kworkers)),
        ("switch_has_state", flag(form.switch_has_state)),
        ("knows_causes", flag(form.knows_causes)),
    ];
    let sections = u32::try_from(images.sections()).unwrap_or(u32::MAX).max(1);
    let mut loader = EbpfLoader::new();
    loader.btf(Some(btf)).allow_unsupported_maps().verifier_log_level(VerifierLogLevel::DEBUG);
    for (name, value) in &values {
        loader.override_global(name, value, true);
    }
    loader
        .map_max_entries("counts", shards)
        .map_max_entries("histograms", shards * roles.max(1) * HISTOGRAMS as u32)
        .map_max_entries("section_counts", sections)
        .map_max_entries("section_histograms", sections * SECTION_HISTOGRAMS as u32)
        .map_max_entries("section_table", u32::try_from(images.entries().len()).unwrap_or(u32::MAX).max(1))
        .map_max_entries("images", u32::try_from(images.images().len()).unwrap_or(u32::MAX).max(1));
    let mut object = loader.load(OBJECT).map_err(|e| message(&e))?;
    let mut notes = Vec::new();
    load_programs(&mut object, btf, wants, form, &mut notes)?;
    Ok((object, shards, notes))
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
fn load_programs(object: &mut Ebpf, btf: &Btf, wants: Wants, form: Form, notes: &mut Vec<String>) -> Result<(), Why> {
    tracepoint(object, "switched", "sched_switch", btf)?;
    tracepoint(object, "new_task", "task_newtask", btf)?;
    tracepoint(object, "executes", "sched_process_exec", btf)?;
    let tasks: &mut Iter = found(object, "find_tasks")?;
    tasks.load("task", btf).map_err(|e| format!("iter/task: {}", message(&e)))?;
    if form.knows_causes {
        let name = need_resched_name(btf).unwrap_or("sched_set_need_resched");
        tracepoint(object, "set_need_resched", name, btf)?;
        if let Err(why) = load_tick(object, btf) {
            notes.push(format!("the end of a slice is told from the slice alone: {why}"));
        }
    }
    if wants.sections {
        let sample: &mut PerfEvent = found(object, "section_sample")?;
        sample.load().map_err(|e| message(&e))?;
    }
    if wants.faults {
        let begin: &mut FEntry = found(object, "fault_begins")?;
        begin.load("handle_mm_fault", btf).map_err(|e| format!("fentry/handle_mm_fault: {}", message(&e)))?;
        let end: &mut FExit = found(object, "fault_ends")?;
        end.load("handle_mm_fault", btf).map_err(|e| format!("fexit/handle_mm_fault: {}", message(&e)))?;
        if let Err(why) = tracepoint(object, "fault_from_user", "page_fault_user", btf) {
            notes.push(format!("first touches are not told apart: {why}"));
        }
    }
    Ok(())
}

/// The tick's name since 6.10, and before.
const TICKS: [&str; 2] = ["sched_tick", "scheduler_tick"];

fn load_tick(object: &mut Ebpf, btf: &Btf) -> Result<(), Why> {
    let is_there = |name: &&&str| btf.id_by_type_name_kind(name, BtfKind::Func).is_ok();
    let name = TICKS.iter().find(is_there).ok_or("the kernel has no function sched_tick")?;
    let begin: &mut FEntry = found(object, "tick_begins")?;
    begin.load(name, btf).map_err(|e| message(&e))?;
    let end: &mut FExit = found(object, "tick_ends")?;
    end.load(name, btf).map_err(|e| message(&e))
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
        attach_optional(object);
    }
    if wants.faults {
        let begin: &mut FEntry = found(object, "fault_begins")?;
        begin.attach().map_err(|e| message(&e))?;
        let end: &mut FExit = found(object, "fault_ends")?;
        end.attach().map_err(|e| message(&e))?;
    }
    if wants.sections {
        let sample: &mut PerfEvent = found(object, "section_sample")?;
        for cpu in &sampling.cpus {
            let scope = PerfEventScope::AllProcessesOneCpu { cpu: *cpu };
            let config = PerfEventConfig::Software(SoftwareEvent::CpuClock);
            sample
                .attach(config, scope, SamplePolicy::Period(sampling.period_ns), true)
                .map_err(|e| format!("cpu-clock on CPU {cpu}: {}", message(&e)))?;
        }
    }
    attach_tracepoint(object, "switched")
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

/// What only sharpens the evidence; when the program was not loaded, its note says so already.
fn attach_optional(object: &mut Ebpf) {
    let begin: Result<&mut FEntry, Why> = found(object, "tick_begins");
    let _begins = begin.map(|p| p.attach().map(drop));
    let end: Result<&mut FExit, Why> = found(object, "tick_ends");
    let _ends = end.map(|p| p.attach().map(drop));
    let first: Result<&mut BtfTracePoint, Why> = found(object, "fault_from_user");
    let _first = first.map(|p| p.attach().map(drop));
}
