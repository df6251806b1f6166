//! Everything that a survey holds as lines of words.

use crate::text::{clean, grouped, number, percent};
use holdup_model::survey::{HugePagesAsked, Reading, Server, Survey};
use holdup_model::text::size;

/// One thing that was looked for.
pub(super) struct Line {
    pub(super) label: String,
    /// What it is; `None` when it is not known.
    pub(super) value: Option<String>,
    pub(super) source: String,
    pub(super) why: String,
    pub(super) remedy: Option<String>,
}

/// Lines under a heading.
pub(super) struct Group {
    pub(super) title: String,
    pub(super) lines: Vec<Line>,
}

fn line<T>(label: impl Into<String>, known: &Reading<T>, show: impl Fn(&T) -> String) -> Line {
    Line {
        label: label.into(),
        value: known.get().map(|v| clean(&show(v))),
        source: clean(&known.source),
        why: clean(known.why_unknown.as_deref().unwrap_or_default()),
        remedy: known.remedy.clone(),
    }
}

fn whole(value: &u64) -> String {
    grouped(&value.to_string())
}

fn yes_no(value: &bool) -> String {
    if *value { "yes" } else { "no" }.to_owned()
}

fn limit(value: &Option<f64>) -> String {
    value.map_or_else(|| "none".to_owned(), |cpus| format!("{} CPUs", number(cpus)))
}

/// All groups in the order of the page.
pub(super) fn groups(survey: &Survey) -> Vec<Group> {
    let mut all = vec![kernel(survey), settings(survey), extension(survey)];
    match survey.servers.get() {
        Some(servers) => all.extend(servers.iter().map(server)),
        None => all.push(Group {
            title: "PostgreSQL".to_owned(),
            lines: vec![line("servers", &survey.servers, |all| all.len().to_string())],
        }),
    }
    all.extend([machine(survey), memory(survey)]);
    all
}

fn kernel(survey: &Survey) -> Group {
    let kernel = &survey.kernel;
    let mut lines = vec![
        line("release", &kernel.release, String::clone),
        line("architecture", &kernel.architecture, String::clone),
        line("preemption", &survey.preempt.model, |m| m.word().to_owned()),
        line("models it offers", &survey.preempt.choices, |all| {
            all.iter().map(|m| m.word()).collect::<Vec<_>>().join(", ")
        }),
        line("ticks in a second", &kernel.hz, u32::to_string),
        line("lockdown", &kernel.lockdown, String::clone),
        line("distribution", &kernel.distribution, String::clone),
    ];
    if kernel.has_backports {
        lines.push(line(
            "vendor",
            &Reading::found(
                "puts newer parts under this version, which therefore says less".to_owned(),
                "kernel.release",
            ),
            String::clone,
        ));
    }
    Group { title: "Kernel".to_owned(), lines }
}

fn settings(survey: &Survey) -> Group {
    let lines = survey.settings.iter().map(|setting| {
        line(setting.name.as_str(), &setting.value, |value| {
            let unit = setting.unit.as_ref().map_or_else(String::new, |unit| format!(" {unit}"));
            let shown = if unit.is_empty() { value.clone() } else { grouped(value) };
            match (&setting.default, setting.is_default()) {
                (_, Some(true)) => format!("{shown}{unit}, the default"),
                (Some(default), _) => {
                    let default = if unit.is_empty() { default.clone() } else { grouped(default) };
                    format!("{shown}{unit}; the default is {default}{unit}")
                }
                (None, _) => format!("{shown}{unit}; its default is not known"),
            }
        })
    });
    Group { title: "Scheduler settings".to_owned(), lines: lines.collect() }
}

fn extension(survey: &Survey) -> Group {
    let extension = &survey.slice_extension;
    let lines = vec![
        line("usable", &extension.usable, yes_no),
        line("length", &extension.length_ns, |ns| format!("{} ns", whole(ns))),
        line("rseq offered", &extension.feature_size_bytes, |bytes| format!("{bytes} bytes")),
        line("C library", &extension.libc, String::clone),
    ];
    Group { title: "Time slice extension (rseq)".to_owned(), lines }
}

fn server(server: &Server) -> Group {
    let asked = |asked: &HugePagesAsked| match asked {
        HugePagesAsked::On => "on".to_owned(),
        HugePagesAsked::Try => "try".to_owned(),
        HugePagesAsked::Off => "off".to_owned(),
    };
    let lines = vec![
        line("major version", &server.major_version, u32::to_string),
        line("version", &server.version, String::clone),
        line("data directory", &server.data_directory, String::clone),
        line("shared_buffers", &server.shared_buffers_bytes, |b| size(*b)),
        line("huge_pages", &server.huge_pages_asked, asked),
        line("on huge pages", &server.huge_pages_in_effect, yes_no),
        line("max_connections", &server.max_connections, u32::to_string),
        line("clients", &server.clients, u32::to_string),
        line("clients running", &server.active_clients, u32::to_string),
        line("page tables", &server.page_tables_bytes, |b| size(*b)),
        line("largest page table", &server.page_tables_largest_bytes, |b| size(*b)),
        line("free buffers", &server.pool, |p| format!("{} of {}", whole(&p.unused_buffers), whole(&p.buffers))),
        line("spinlock waits", &server.spin_waits, |w| {
            format!("at {} of {} looks", whole(&w.waiting), whole(&w.looks))
        }),
        line("in the root task group", &server.is_in_root_task_group, yes_no),
        line("CPU limit", &server.cpu_limit_cpus, limit),
    ];
    Group { title: format!("PostgreSQL: {}", clean(&server.name)), lines }
}

fn machine(survey: &Survey) -> Group {
    let machine = &survey.machine;
    let share = |share: &f64| percent(*share);
    let lines = vec![
        line("CPUs online", &machine.cpus_online, u32::to_string),
        line("NUMA nodes", &machine.numa_nodes, u32::to_string),
        line("hypervisor", &machine.hypervisor, String::clone),
        line("stolen since boot", &machine.steal_share, share),
        line("frequency governor", &machine.governor, String::clone),
        line("CPU limit", &machine.cpu_limit_cpus, limit),
        line("throttled periods", &machine.throttled_periods, whole),
        line("waiting for CPU", &machine.cpu_pressure_share, |s| format!("{} of the last 5 min", percent(*s))),
        line("virtual switch", &machine.virtual_switch, |all| {
            if all.is_empty() { "none in use".to_owned() } else { all.join(", ") }
        }),
    ];
    Group { title: "Machine".to_owned(), lines }
}

fn memory(survey: &Survey) -> Group {
    let memory = &survey.memory;
    let bytes = |b: &u64| size(*b);
    let lines = vec![
        line("memory", &memory.total_bytes, bytes),
        line("available", &memory.available_bytes, bytes),
        line("page tables", &memory.page_tables_bytes, bytes),
        line("huge pages", &memory.huge_pages_total, whole),
        line("in huge pages", &memory.huge_pages_all_bytes, bytes),
        line("huge pages free", &memory.huge_pages_free, whole),
        line("huge page size", &memory.huge_page_bytes, bytes),
        line("transparent huge pages", &memory.transparent_huge_pages, String::clone),
        line("waiting for memory", &memory.memory_pressure_share, |s| format!("{} of the last 5 min", percent(*s))),
    ];
    Group { title: "Memory".to_owned(), lines }
}
