//! Loading the object with the parts of a window, and attaching its programs.

use crate::arch;
use crate::kernel::fault_slices::is_in_slices;
use crate::kernel::layout::{
    ENTRY_FUNCTIONS, ENTRY_UNKNOWN, EntryFunction, HISTOGRAMS, SECTION_HISTOGRAMS, TaskRecord, read,
};
use crate::kernel::table::Images;
use crate::kernel::watch::OffCpu;
use crate::kernel::{At, Parts, Program};
use aya::programs::perf_event::{PerfEventConfig, PerfEventScope, SamplePolicy, SoftwareEvent};
use aya::programs::{BtfTracePoint, FEntry, Iter, PerfEvent, ProgramError};
use aya::{Btf, Ebpf, EbpfLoader, VerifierLogLevel};
use aya_obj::btf::BtfKind;
use flate2::read::ZlibDecoder;
use holdup_host::Host;
use holdup_model::PreemptModel;
use std::io::Read as _;
use std::sync::OnceLock;

/// The compiled programs, as build.rs has packed them.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watch.bpf.o.zlib"));

fn unpacked() -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = ZlibDecoder::new(OBJECT).read_to_end(&mut bytes);
    read.map_err(|e| format!("the BPF programs cannot be unpacked: {e}"))?;
    Ok(bytes)
}

/// At most as many shards: one for each CPU up to here, and some CPUs share one beyond, so that the histograms stay below
/// the limit of memory on machines with hundreds of CPUs.
const MOST_SHARDS: u32 = 16;

/// With more CPUs the sum of a process's pages grows in steps that may be those of huge ones (faults.bpf.h).
pub(crate) const MOST_CPUS_OF_A_BATCH: u32 = 100;

/// How many parts the counts have.
#[derive(Clone, Copy)]
pub(crate) struct Shards {
    pub(crate) shards: u32,
    /// Possible CPUs: with more of them than shards, some share one.
    pub(crate) cpus: u32,
}

pub(crate) struct Loaded {
    pub(crate) object: Ebpf,
    pub(crate) shards: Shards,
    /// True if a program runs when a task is back on a CPU.
    pub(crate) has_sched_exit: bool,
    /// In the order in which they are attached.
    programs: Vec<Program>,
    /// What is missing on this kernel.
    pub(crate) notes: Vec<String>,
}

/// Programs of every window that come first.
const FIRST: [Program; 2] = [
    Program { name: "new_task", at: At::Tracepoint("task_newtask") },
    Program { name: "executes", at: At::Tracepoint("sched_process_exec") },
];

/// Why tasks are asked to leave.
const RESCHED_AT_FUNCTION: [Program; 1] = [Program { name: "asked_to_leave", at: At::Function(RESCHED, HAS_RESCHED) }];
const RESCHED: &str = "__resched_curr";
/// Since 6.16 tracepoints without a trace event end in `_tp`.
const RESCHED_AT_TRACEPOINT: [Program; 2] = [
    Program { name: "set_need_resched", at: At::TracepointIfAny("sched_set_need_resched_tp", HAS_RESCHED) },
    Program { name: "set_need_resched", at: At::TracepointIfAny("sched_set_need_resched", HAS_RESCHED) },
];
const HAS_RESCHED: &str = "has_resched";

const TICK: [Program; 2] = [
    Program { name: "timer_begins", at: At::Tracepoint("hrtimer_expire_entry") },
    Program { name: "timer_ends", at: At::Tracepoint("hrtimer_expire_exit") },
];

/// Programs of every window that come last: from the switch on, tasks are counted.
const LAST: [Program; 3] = [
    Program { name: "wakes_up", at: At::Tracepoint("sched_wakeup") },
    Program { name: "wakes_up_new", at: At::Tracepoint("sched_wakeup_new") },
    Program { name: "switched", at: At::Tracepoint("sched_switch") },
];

fn message(error: &dyn std::error::Error) -> String {
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

/// What the object is loaded for.
pub(crate) struct Purpose<'a> {
    pub(crate) parts: &'a Parts,
    pub(crate) roles: u32,
    pub(crate) images: &'a Images,
    /// Possible CPUs.
    pub(crate) cpus: u32,
    pub(crate) addresses: Addresses,
    pub(crate) off_cpu: OffCpu,
    /// True if page faults are timed in slices of the time only.
    pub(crate) samples_faults: bool,
    /// True if preempted holders are followed by breakpoints to the release of their lock.
    pub(crate) follows_holders: bool,
    /// See [`AskedAt::ways`].
    pub(crate) asked_at: &'static [AskedAt],
}

/// The programs to load, those that this kernel has tracepoints for, and the constants that say which these are.
fn programs(purpose: &Purpose<'_>, btf: &Btf, asked_at: AskedAt) -> (Vec<Program>, Vec<&'static str>) {
    let (mut programs, mut constants): (Vec<Program>, Vec<&str>) = (Vec::new(), Vec::new());
    let faults = if purpose.parts.has("want_faults") { arch::fault_begins() } else { &[] };
    let resched: &[Program] = match asked_at {
        AskedAt::Function => &RESCHED_AT_FUNCTION,
        AskedAt::Tracepoint => &RESCHED_AT_TRACEPOINT,
        AskedAt::Nowhere => &[],
    };
    let first = FIRST.into_iter().chain(resched.iter().copied());
    // The ends of faults first: none that is timed ends without.
    for program in first.chain(purpose.parts.programs()).chain(faults.iter().copied()) {
        let needs = match program.at {
            At::TracepointIfAny(name, constant) => Some((has_tracepoint(btf, name), constant)),
            At::Function(_, constant) => Some((true, constant)),
            At::Tracepoint(_) | At::Event(..) => None,
        };
        match needs {
            Some((true, constant)) if !constants.contains(&constant) => constants.push(constant),
            Some(_) => continue,
            None => {}
        }
        programs.push(program);
    }
    if purpose.addresses.tick != 0 && constants.contains(&HAS_RESCHED) {
        programs.extend(TICK);
    }
    programs.extend(LAST);
    (programs, constants)
}

/// Loads the object with these parts switched on.
pub(crate) fn load(purpose: &Purpose<'_>) -> Result<Loaded, String> {
    let btf = Btf::from_sys_fs().map_err(|e| message(&e))?;
    // sched_switch has the previous state as its fourth argument since 5.18, and in kernels that took it back.
    let mut failed = Vec::new();
    // The compiler may have put the function into its callers.
    let has = |way: &&AskedAt| **way != AskedAt::Function || has_function(&btf, RESCHED);
    let ways = purpose.asked_at.iter().filter(has);
    for (asked_at, switch_has_state) in ways.flat_map(|way| [(*way, true), (*way, false)]) {
        match create(purpose, &btf, switch_has_state, asked_at) {
            Ok(loaded) => return Ok(loaded),
            Err(why) if failed.contains(&why) => {}
            Err(why) => failed.push(why),
        }
    }
    Err(failed.join("; then "))
}

/// Where a program sees that a task is asked to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedAt {
    Function,
    Tracepoint,
    Nowhere,
}

impl AskedAt {
    /// The ways to be tried on a host, best first.
    ///
    /// The tracepoint is called in `rcu_read_unlock_special()` too (kernel/rcu/tree_plugin.h, 7.2), and a program at a tracepoint ends
    /// with `rcu_read_unlock()` (kernel/trace/bpf_trace.c:__bpf_trace_run), which calls it again, until the stack ends and the kernel
    /// panics. That takes a task that was preempted inside the kernel while it read under RCU; with PREEMPT_RT it took seconds.
    pub(crate) fn ways(host: &Host) -> &'static [AskedAt] {
        let model = holdup_host::kernel::preemption(host).model;
        let cpus = host.read_text("/proc/cpuinfo").unwrap_or_default();
        Self::ways_for(model.get().copied(), &cpus)
    }

    fn ways_for(model: Option<PreemptModel>, cpus: &str) -> &'static [AskedAt] {
        use AskedAt::{Function, Nowhere, Tracepoint};
        // To be at a function changes its code, and QEMU then executes what was there before: a guest on emulated CPUs of x86 died
        // of that more often than the tracepoint ever kills one (docs/journal/2026-11-26-stale-code-in-an-emulator.md).
        let is_emulated = cpus.contains("QEMU TCG CPU");
        match model {
            Some(PreemptModel::Rt) if is_emulated => &[Nowhere],
            Some(_) if is_emulated => &[Tracepoint, Nowhere],
            Some(PreemptModel::None | PreemptModel::Voluntary) => &[Function, Tracepoint, Nowhere],
            _ => &[Function, Nowhere],
        }
    }
}

fn has_function(btf: &Btf, name: &str) -> bool {
    btf.id_by_type_name_kind(name, BtfKind::Func).is_ok()
}

fn has_tracepoint(btf: &Btf, name: &str) -> bool {
    btf.id_by_type_name_kind(&format!("btf_trace_{name}"), BtfKind::Typedef).is_ok()
}

/// Constants of 64 bits.
fn long_constants<'a>(purpose: &'a Purpose<'_>, machine: &'a arch::Programs) -> [(&'static str, &'a u64); 5] {
    [
        ("signature_bits", &machine.signature_bits),
        ("tick_function", &purpose.addresses.tick),
        ("charge_begin", &purpose.addresses.charge.0),
        ("charge_length", &purpose.addresses.charge.1),
        ("off_cpu_period_ns", &purpose.off_cpu.period_ns),
    ]
}

fn create(purpose: &Purpose<'_>, btf: &Btf, switch_has_state: bool, asked_at: AskedAt) -> Result<Loaded, String> {
    let &Purpose { parts, roles, images, cpus, addresses, off_cpu, samples_faults, follows_holders, .. } = purpose;
    let shards = cpus.clamp(1, MOST_SHARDS);
    let (mut programs, present) = programs(purpose, btf, asked_at);
    let mut values = vec![
        ("roles", roles.max(1)),
        ("shards", shards),
        ("shared_shards", u32::from(shards < cpus)),
        ("want_residuals", u32::from(follows_holders)),
        ("switch_has_state", u32::from(switch_has_state)),
        ("samples_faults", u32::from(samples_faults)),
        ("counts_transparent", u32::from(cpus <= MOST_CPUS_OF_A_BATCH)),
    ];
    let machine = arch::PROGRAMS.ok_or("the programs were not written for this architecture")?;
    let switches = parts.switches().chain(present.iter().copied()).map(|name| (name, 1));
    values.extend(switches.chain(machine.constants.iter().copied()));
    let mut loader = EbpfLoader::new();
    loader.btf(Some(btf)).allow_unsupported_maps().verifier_log_level(VerifierLogLevel::DEBUG);
    for (name, value) in &values {
        loader.override_global(name, value, true);
    }
    for (name, value) in long_constants(purpose, &machine) {
        loader.override_global(name, value, true);
    }
    let entry_functions = addresses.entry_functions();
    loader.override_global("entry_functions", &entry_functions[..], true);
    loader.override_global("wait_event_at", &off_cpu.wait_event_at, true);
    let at_least_one = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).max(1);
    let (sections, of_images) = (at_least_one(images.names().len()), at_least_one(images.images().len()));
    for (map, entries) in [
        ("counts", shards),
        ("histograms", shards * roles.max(1) * HISTOGRAMS as u32),
        ("section_counts", sections),
        ("section_histograms", sections * SECTION_HISTOGRAMS as u32),
        ("section_table", at_least_one(images.entries().len())),
        ("images", of_images),
        ("section_filter", of_images),
        ("asked_on", cpus),
        ("cpu_waits", if shards < cpus { cpus } else { 1 }),
        ("on_cpus", if parts.has("want_account") { cpus } else { 1 }),
    ]
    .into_iter()
    .chain(parts.rings())
    {
        loader.map_max_entries(map, entries);
    }
    let mut object = loader.load(&unpacked()?).map_err(|e| message(&e))?;
    programs.iter().try_for_each(|program| load_program(&mut object, program, btf))?;
    // Whether they can be attached is seen now, when it is not too late to do without.
    for Program { name, at } in &programs {
        if let At::Function(function, _) = at {
            let program: &mut FEntry = found(&mut object, name)?;
            program.attach().map_err(|e| format!("{function}: {}", message(&e)))?;
        }
    }
    programs.retain(|program| !matches!(program.at, At::Function(..)));
    if samples_faults {
        programs.retain(|program| !is_in_slices(program.name));
    }
    for walk in ["find_tasks", "cut_tasks"].into_iter().take(1 + usize::from(parts.has("want_account"))) {
        let tasks: &mut Iter = found(&mut object, walk)?;
        tasks.load("task", btf).map_err(|e| format!("iter/task: {}", message(&e)))?;
    }
    if follows_holders {
        load_event(&mut object, "residual_ends")?;
    }
    let has_sched_exit = present.contains(&HAS_SCHED_EXIT);
    let notes = hidden(parts, &addresses, &present);
    Ok(Loaded { object, shards: Shards { shards, cpus }, has_sched_exit, programs, notes })
}

/// Notes on what is missing where the kernel's addresses are hidden.
fn hidden(parts: &Parts, addresses: &Addresses, present: &[&str]) -> Vec<String> {
    let mut notes = Vec::new();
    if present.contains(&HAS_RESCHED) && addresses.tick == 0 {
        let why = "the end of a slice is derived from the slice alone, because the tick's function is not known";
        notes.push(why.to_owned());
    }
    if parts.has("want_requests") && addresses.entries == Addresses::default().entries {
        let why = "what the kernel was entered for is not known, because the addresses of its functions are hidden";
        notes.push(why.to_owned());
    }
    notes
}

/// The constant of a kernel with sched_exit_tp (since 6.16).
pub(crate) const HAS_SCHED_EXIT: &str = "has_sched_exit";

fn load_program(object: &mut Ebpf, Program { name, at }: &Program, btf: &Btf) -> Result<(), String> {
    match at {
        At::Tracepoint(tracepoint) | At::TracepointIfAny(tracepoint, _) => {
            let program: &mut BtfTracePoint = found(object, name)?;
            program.load(tracepoint, btf).map_err(|e| format!("{tracepoint}: {}", message(&e)))
        }
        At::Function(function, _) => {
            let program: &mut FEntry = found(object, name)?;
            program.load(function, btf).map_err(|e| format!("{function}: {}", message(&e)))
        }
        At::Event(..) => load_event(object, name),
    }
}

fn load_event(object: &mut Ebpf, name: &str) -> Result<(), String> {
    let program: &mut PerfEvent = found(object, name)?;
    program.load().map_err(|e| format!("{name}: {}", message(&e)))
}

/// The program of this name in the object.
pub(crate) fn found<'a, P>(object: &'a mut Ebpf, name: &str) -> Result<&'a mut P, String>
where
    &'a mut P: TryFrom<&'a mut aya::programs::Program, Error = ProgramError>,
{
    let program = object.program_mut(name).ok_or_else(|| format!("the object has no program {name}"))?;
    program.try_into().map_err(|e: ProgramError| message(&e))
}

/// The function of the timer that is the tick since 6.9, and before.
const TICKS: [&str; 2] = ["tick_nohz_handler", "tick_sched_timer"];

/// Addresses in the kernel's code that programs compare with; 0 where they are hidden.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The function of the timer that is the tick.
    tick: u64,
    /// The function that charges a task for its time, and its length.
    charge: (u64, u64),
    /// Begins and ends of the functions that the kernel is entered by, in the order of the architecture's list.
    entries: [(u64, u64); ENTRY_FUNCTIONS],
}

impl Addresses {
    /// Those of the kernel that runs: read once, because they stay while it does and the file is long.
    pub(crate) fn of_host(host: &Host) -> Self {
        static KNOWN: OnceLock<Addresses> = OnceLock::new();
        *KNOWN.get_or_init(|| Addresses::of(&host.read_text("/proc/kallsyms").unwrap_or_default()))
    }

    /// From the text of /proc/kallsyms.
    fn of(kallsyms: &str) -> Self {
        let symbol = |line| {
            let mut words = str::split_ascii_whitespace(line);
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            Some((address, words.nth(1)?))
        };
        let symbols = || kallsyms.lines().filter_map(symbol);
        let mut sorted: Vec<u64> = symbols().map(|(address, _)| address).collect();
        sorted.sort_unstable();
        let behind = |begin: u64| sorted.get(sorted.partition_point(|address| *address <= begin)).copied();
        let entries = arch::PROGRAMS.map_or(&[][..], |machine| machine.entries);
        let mut addresses = Addresses::default();
        for (begin, name) in symbols().filter(|(begin, _)| *begin != 0) {
            if TICKS.contains(&name) {
                addresses.tick = begin;
            } else if name == "update_curr" {
                addresses.charge = (begin, behind(begin).map_or(0, |behind| behind - begin));
            } else if let Some(index) = entries.iter().position(|(entry, _)| *entry == name) {
                addresses.entries[index] = (begin, behind(begin).unwrap_or(begin));
            }
        }
        addresses
    }

    /// As the programs have them.
    fn entry_functions(&self) -> [EntryFunction; ENTRY_FUNCTIONS] {
        let entries = arch::PROGRAMS.map_or(&[][..], |machine| machine.entries);
        std::array::from_fn(|index| {
            let ((begin, end), entry) =
                (self.entries[index], entries.get(index).map_or(ENTRY_UNKNOWN, |known| known.1));
            EntryFunction { begin, end, entry: entry as u64 }
        })
    }
}

/// Attaches what was loaded, and finds the tasks that are there.
pub(crate) fn attach(loaded: &mut Loaded, cpus: &[u32]) -> Result<(), String> {
    let object = &mut loaded.object;
    for (index, Program { name, at }) in loaded.programs.iter().enumerate() {
        if index == FIRST.len() {
            walk_tasks(object, "find_tasks", &mut |_| {})?;
        }
        match at {
            At::Tracepoint(_) | At::TracepointIfAny(..) => {
                let program: &mut BtfTracePoint = found(object, name)?;
                program.attach().map(drop).map_err(|e| format!("{name}: {}", message(&e)))?;
            }
            At::Function(..) => {}
            At::Event(event, period) => attach_event(object, name, *event, *period, cpus)?,
        }
    }
    Ok(())
}

/// The kernel gives at most eight pages of them in one read (kernel/bpf/bpf_iter.c:bpf_seq_read), and no half ones.
const RECORDS_BYTES: usize = 64 << 10;

/// Runs a program over every task of the host: `find_tasks` gives those under test their state, `cut_tasks` charges
/// them until now and, with `want_tasks`, gives out a record of each.
pub(crate) fn walk_tasks(object: &mut Ebpf, program: &str, each: &mut dyn FnMut(&TaskRecord)) -> Result<(), String> {
    let tasks: &mut Iter = found(object, program)?;
    let link = tasks.attach().map_err(|e| message(&e))?;
    let link = tasks.take_link(link).map_err(|e| message(&e))?;
    let mut file = link.into_file().map_err(|e| message(&e))?;
    let mut records = vec![0; RECORDS_BYTES];
    loop {
        let bytes = file.read(&mut records).map_err(|e| format!("iter/task: {e}"))?;
        if bytes == 0 {
            return Ok(());
        }
        records[..bytes].chunks_exact(size_of::<TaskRecord>()).for_each(|record| each(&read(record)));
    }
}

/// Has a program run at every `period` counts of a software event, on each CPU.
fn attach_event(object: &mut Ebpf, name: &str, event: SoftwareEvent, period: u64, cpus: &[u32]) -> Result<(), String> {
    let program: &mut PerfEvent = found(object, name)?;
    for cpu in cpus {
        let scope = PerfEventScope::AllProcessesOneCpu { cpu: *cpu };
        program
            .attach(PerfEventConfig::Software(event), scope, SamplePolicy::Period(period), false)
            .map_err(|e| format!("{name} on CPU {cpu}: {}", message(&e)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_program_is_at_the_tracepoint_where_the_kernel_could_panic() {
        use AskedAt::{Function, Nowhere, Tracepoint};
        let ways = |model| AskedAt::ways_for(model, "model name : AMD EPYC");
        assert_eq!(ways(Some(PreemptModel::None)), [Function, Tracepoint, Nowhere]);
        for model in [Some(PreemptModel::Full), Some(PreemptModel::Lazy), Some(PreemptModel::Rt), None] {
            assert_eq!(ways(model), [Function, Nowhere], "{model:?}");
        }
        let emulated = |model| AskedAt::ways_for(Some(model), "model name\t: QEMU TCG CPU version 2.5+");
        assert_eq!(emulated(PreemptModel::Lazy), [Tracepoint, Nowhere]);
        assert_eq!(emulated(PreemptModel::Rt), [Nowhere]);
    }

    #[test]
    fn addresses_are_those_of_the_functions_and_hidden_ones_are_0() {
        let shown = "ffffffff81000100 t update_curr\nffffffff81000180 T schedule\nffffffff81000140 t pick\ngarbage\n\
                     ffffffff81002000 t tick_nohz_handler\nffffffff81003000 t dummy\t[module]\n";
        let charge = (0xffff_ffff_8100_0100, 0x40);
        assert_eq!(Addresses::of(shown), Addresses { tick: 0xffff_ffff_8100_2000, charge, ..Addresses::default() });
        let entry = arch::PROGRAMS.map_or("nothing", |machine| machine.entries[1].0);
        let found = Addresses::of(&format!("{shown}ffffffff81000120 T {entry}\n"));
        assert_eq!(found.entries[1], (0xffff_ffff_8100_0120, 0xffff_ffff_8100_0140));
        let hidden =
            "0000000000000000 t update_curr\n0000000000000000 T schedule\n0000000000000000 t tick_nohz_handler\n";
        assert_eq!(Addresses::of(hidden), Addresses::default());
        assert_eq!(Addresses::of(""), Addresses::default());
    }
}
