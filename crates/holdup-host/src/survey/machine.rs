//! Processors and memory, and what is taken from them.

use crate::machine::{cpu_list, meminfo};
use crate::{Host, cgroup, facts};
use holdup_model::survey::{Known, MachineSurvey, MemorySurvey};

const CPU: &str = "/sys/devices/system/cpu";

/// `pid`: the process whose control group counts; holdup's own without one.
pub(crate) fn machine(host: &Host, pid: Option<u32>) -> MachineSurvey {
    let group = pid.map_or_else(|| "/proc/self/cgroup".to_owned(), |pid| format!("/proc/{pid}/cgroup"));
    MachineSurvey {
        cpus_online: count(host, &format!("{CPU}/online")),
        numa_nodes: count(host, "/sys/devices/system/node/online"),
        steal_share: steal(host),
        hypervisor: hypervisor(host),
        governor: facts::governor(host),
        cpu_limit: cpu_limit(host, &group),
        throttled_periods: throttled(host, &group),
        virtual_switch: virtual_switch(host),
        cpu_pressure_share: pressure(host, "cpu"),
    }
}

pub(crate) fn memory(host: &Host) -> MemorySurvey {
    const PATH: &str = "/proc/meminfo";
    let text = host.read_text(PATH);
    let line = |name: &str| match &text {
        Err(e) => Known::unknown(PATH, e.message.clone()),
        Ok(text) => match meminfo(text, name) {
            Some(number) => Known::found(number, PATH),
            None => Known::unknown(PATH, format!("no number `{name}` in it")),
        },
    };
    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let transparent = super::one_line(host, THP).and_then(|text| match facts::chosen(&text, '[', ']') {
        Some(word) => Ok(word.to_owned()),
        None => Err(format!("no word of `{}` is in brackets", super::shown(&text))),
    });
    MemorySurvey {
        total_bytes: line("MemTotal"),
        available_bytes: line("MemAvailable"),
        page_tables_bytes: line("PageTables"),
        huge_pages_total: line("HugePages_Total"),
        huge_pages_free: free_huge_pages(&line("HugePages_Free"), &line("HugePages_Rsvd")),
        huge_page_bytes: line("Hugepagesize"),
        transparent_huge_pages: transparent,
        memory_pressure_share: pressure(host, "memory"),
    }
}

/// Free pages that nobody has reserved: those a new server could take.
fn free_huge_pages(free: &Known<u64>, reserved: &Known<u64>) -> Known<u64> {
    match (free.get(), reserved.get()) {
        (Some(free_pages), Some(reserved)) => Known::found(free_pages.saturating_sub(*reserved), free.source.clone()),
        (Some(_), None) => reserved.clone(),
        (None, _) => free.clone(),
    }
}

/// The length of a list such as `0-3`.
fn count(host: &Host, path: &str) -> Known<u32> {
    super::one_line(host, path).and_then(|text| {
        let listed = cpu_list(&text).and_then(|list| u32::try_from(list.len()).ok());
        listed.filter(|n| *n > 0).ok_or_else(|| format!("`{}` is not a list of numbers", super::shown(&text)))
    })
}

/// Fields of the line of all CPUs: user nice system idle iowait irq softirq steal (proc_stat(5)).
fn steal(host: &Host) -> Known<f64> {
    const PATH: &str = "/proc/stat";
    let head = match host.read_head(PATH, 1024) {
        Ok(head) => head,
        Err(e) => return Known::unknown(PATH, e.message),
    };
    let line = head.lines().find_map(|l| l.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|w| w.parse().ok()).collect();
    let all: u64 = ticks.iter().take(8).fold(0, |sum, t| sum.saturating_add(*t));
    match ticks.get(7) {
        Some(stolen) if all > 0 => Known::found(*stolen as f64 / all as f64, PATH),
        _ => Known::unknown(PATH, "no eighth number in the line `cpu`"),
    }
}

/// The flag of x86, or a name of the maker of the machine.
fn hypervisor(host: &Host) -> Known<String> {
    const CPUINFO: &str = "/proc/cpuinfo";
    let name = ["/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor"]
        .into_iter()
        .find_map(|path| host.read_value(path).ok().filter(|v| !v.is_empty()).map(|v| (v, path)));
    let head = host.read_head(CPUINFO, 8192);
    let flags = head.as_ref().ok().and_then(|text| text.lines().find(|l| l.starts_with("flags")));
    match (flags, name) {
        (Some(flags), name) if flags.split_ascii_whitespace().any(|flag| flag == "hypervisor") => Known::found(
            name.map_or_else(|| "yes".to_owned(), |(name, _)| super::shown(&name)),
            "flag `hypervisor` in /proc/cpuinfo",
        ),
        (Some(_), _) => Known::found("none".to_owned(), CPUINFO),
        (None, Some((name, path))) if path == "/sys/hypervisor/type" => Known::found(super::shown(&name), path),
        (None, _) => match head {
            Ok(_) => Known::unknown(CPUINFO, "this architecture has no flag for it"),
            Err(e) => Known::unknown(CPUINFO, e.message),
        },
    }
}

fn cpu_limit(host: &Host, group: &str) -> Known<Option<f64>> {
    match host.read_text(group) {
        Err(e) => Known::unknown(group, e.message),
        Ok(text) => cgroup::cpu_limit(host, &text).map(|limit| limit.map(|limit| limit.cpus)),
    }
}

fn throttled(host: &Host, group: &str) -> Known<u64> {
    let text = match host.read_text(group) {
        Ok(text) => text,
        Err(e) => return Known::unknown(group, e.message),
    };
    let folders: Vec<String> = text.lines().filter_map(cgroup::cpu_folder).map(|(folder, _)| folder).collect();
    let mut tried = group.to_owned();
    for folder in folders.iter().flat_map(|folder| cgroup::upwards(folder)) {
        let path = format!("{folder}/cpu.stat");
        if let Ok(stat) = host.read_text(&path)
            && let Some(periods) = stat.lines().find_map(|l| l.strip_prefix("nr_throttled ")?.trim().parse().ok())
        {
            return Known::found(periods, path);
        }
        tried = path;
    }
    Known::unknown(tried, "no `nr_throttled` in it: no limit was ever set here, or the file cannot be read")
}

/// Modules that move packets or run guests inside the kernel; each is told with its users where it has any.
fn virtual_switch(host: &Host) -> Known<Vec<String>> {
    const FOLDER: &str = "/sys/module";
    let names = match host.list(FOLDER) {
        Ok(names) => names,
        Err(e) => return Known::unknown(FOLDER, e.message),
    };
    let of_interest = ["openvswitch", "vhost_net", "kvm"];
    let seen = of_interest.iter().filter(|module| names.iter().any(|name| name == *module)).filter(|module| {
        // A module without users moves nothing. What is built in has no count and is passed by.
        let users = host.read_value(&format!("{FOLDER}/{module}/refcnt")).ok().and_then(|n| n.parse::<u64>().ok());
        let is_base_of_another = **module == "kvm";
        users.is_some_and(|n| n > u64::from(is_base_of_another))
    });
    Known::found(seen.map(|m| (*m).to_owned()).collect(), FOLDER)
}

/// `some avg300` of a file of /proc/pressure.
fn pressure(host: &Host, what: &str) -> Known<f64> {
    let path = format!("/proc/pressure/{what}");
    let text = match host.read_text(&path) {
        Ok(text) => text,
        Err(e) => return Known::unknown(path, e.message),
    };
    let line = text.lines().find(|l| l.starts_with("some "));
    let word = line.and_then(|l| l.split_ascii_whitespace().find_map(|w| w.strip_prefix("avg300=")));
    match word.and_then(|w| w.parse::<f64>().ok()).filter(|percent| (0.0..=100.0).contains(percent)) {
        Some(percent) => Known::found(percent / 100.0, path),
        None => Known::unknown(path, "no `some … avg300=` in it"),
    }
}
