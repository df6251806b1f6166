//! Processors and memory, and what is taken from them.

use holdup_host::{Host, cgroup};
use holdup_host::{cpu_list, meminfo};
use holdup_model::survey::{MachineSurvey, MemorySurvey, Reading};

const CPU: &str = "/sys/devices/system/cpu";

/// `pid`: the process whose control group counts; holdup's own without one.
pub(crate) fn machine(host: &Host, pid: Option<u32>) -> MachineSurvey {
    let group = pid.map_or_else(|| "/proc/self/cgroup".to_owned(), |pid| format!("/proc/{pid}/cgroup"));
    let cpu_limit = cpu_limit(host, &group);
    MachineSurvey {
        cpus_online: count(host, &format!("{CPU}/online")),
        numa_nodes: count(host, "/sys/devices/system/node/online"),
        steal_share: steal(host),
        hypervisor: hypervisor(host),
        governor: holdup_host::governor(host),
        throttled_periods: throttled(host, &group, &cpu_limit),
        cpu_limit_cpus: cpu_limit,
        virtual_switch: virtual_switch(host),
        cpu_pressure_share: pressure(host, "cpu"),
    }
}

pub(crate) fn memory(host: &Host) -> MemorySurvey {
    const PATH: &str = "/proc/meminfo";
    let text = host.read_text(PATH);
    let line = |name: &str| match &text {
        Err(e) => Reading::unknown(PATH, e.message.clone()),
        Ok(text) => match meminfo(text, name) {
            Some(number) => Reading::found(number, PATH),
            None => Reading::unknown(PATH, format!("no number `{name}` in it")),
        },
    };
    const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
    let transparent =
        holdup_host::text::one_line(host, THP).and_then(|text| match holdup_host::text::chosen(&text, '[', ']') {
            Some(word) => Ok(word.to_owned()),
            None => Err(format!("no word of `{}` is in brackets", holdup_host::text::shown(&text))),
        });
    MemorySurvey {
        total_bytes: line("MemTotal"),
        available_bytes: line("MemAvailable"),
        page_tables_bytes: line("PageTables"),
        huge_pages_total: line("HugePages_Total"),
        huge_pages_all_bytes: line("Hugetlb"),
        huge_pages_free: free_huge_pages(&line("HugePages_Free"), &line("HugePages_Rsvd")),
        huge_page_bytes: line("Hugepagesize"),
        transparent_huge_pages: transparent,
        memory_pressure_share: pressure(host, "memory"),
    }
}

/// Free pages without a reservation: those a new server could take.
fn free_huge_pages(free: &Reading<u64>, reserved: &Reading<u64>) -> Reading<u64> {
    match (free.get(), reserved.get()) {
        (Some(free_pages), Some(reserved)) => Reading::found(free_pages.saturating_sub(*reserved), free.source.clone()),
        (Some(_), None) => reserved.clone(),
        (None, _) => free.clone(),
    }
}

/// The length of a list such as `0-3`.
fn count(host: &Host, path: &str) -> Reading<u32> {
    holdup_host::text::one_line(host, path).and_then(|text| {
        let listed = cpu_list(&text).and_then(|list| u32::try_from(list.len()).ok());
        listed
            .filter(|n| *n > 0)
            .ok_or_else(|| format!("`{}` is not a list of numbers", holdup_host::text::shown(&text)))
    })
}

/// Fields of the line of all CPUs: user nice system idle iowait irq softirq steal (proc_stat(5)).
fn steal(host: &Host) -> Reading<f64> {
    const PATH: &str = "/proc/stat";
    let head = match host.read_head(PATH, 1024) {
        Ok(head) => head,
        Err(e) => return Reading::unknown(PATH, e.message),
    };
    let line = head.lines().find_map(|l| l.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_ascii_whitespace().map_while(|w| w.parse().ok()).collect();
    let all: u64 = ticks.iter().take(8).fold(0, |sum, t| sum.saturating_add(*t));
    match ticks.get(7) {
        Some(stolen) if all > 0 => Reading::found(*stolen as f64 / all as f64, PATH),
        _ => Reading::unknown(PATH, "no eighth number in the line `cpu`"),
    }
}

/// The flag of x86, or a name of the maker of the machine.
fn hypervisor(host: &Host) -> Reading<String> {
    const CPUINFO: &str = "/proc/cpuinfo";
    let name = ["/sys/hypervisor/type", "/sys/class/dmi/id/sys_vendor"]
        .into_iter()
        .find_map(|path| host.read_value(path).ok().filter(|v| !v.is_empty()).map(|v| (v, path)));
    let head = host.read_head(CPUINFO, 8192);
    let flags = head.as_ref().ok().and_then(|text| text.lines().find(|l| l.starts_with("flags")));
    match (flags, name) {
        (Some(flags), name) if flags.split_ascii_whitespace().any(|flag| flag == "hypervisor") => Reading::found(
            name.map_or_else(|| "yes".to_owned(), |(name, _)| holdup_host::text::shown(&name)),
            "flag `hypervisor` in /proc/cpuinfo",
        ),
        (Some(_), _) => Reading::found("none".to_owned(), CPUINFO),
        (None, Some((name, path))) if path == "/sys/hypervisor/type" => {
            Reading::found(holdup_host::text::shown(&name), path)
        }
        (None, _) => match head {
            Ok(_) => Reading::unknown(CPUINFO, "this architecture has no flag for it"),
            Err(e) => Reading::unknown(CPUINFO, e.message),
        },
    }
}

fn cpu_limit(host: &Host, group: &str) -> Reading<Option<f64>> {
    match host.read_text(group) {
        Err(e) => Reading::unknown(group, e.message),
        Ok(text) => cgroup::cpu_limit(host, &text).map(|limit| limit.map(|limit| limit.cpus)),
    }
}

/// The group whose limit is in force is the one that is throttled: `limit` names its file.
fn throttled(host: &Host, group: &str, limit: &Reading<Option<f64>>) -> Reading<u64> {
    let text = match host.read_text(group) {
        Ok(text) => text,
        Err(e) => return Reading::unknown(group, e.message),
    };
    let limited = limit.get().copied().flatten().and_then(|_| limit.source.rsplit_once('/')).map(|(folder, _)| folder);
    let folders: Vec<String> = match limited {
        Some(folder) => vec![folder.to_owned()],
        None => {
            let own = text.lines().filter_map(cgroup::cpu_folder);
            own.flat_map(|(folder, _)| cgroup::upwards(&folder)).collect()
        }
    };
    let mut tried = group.to_owned();
    for folder in folders {
        let path = format!("{folder}/cpu.stat");
        if let Ok(stat) = host.read_text(&path)
            && let Some(periods) = stat.lines().find_map(|l| l.strip_prefix("nr_throttled ")?.trim().parse().ok())
        {
            return Reading::found(periods, path);
        }
        tried = path;
    }
    Reading::unknown(tried, "no `nr_throttled` in it: no limit was ever set here, or the file cannot be read")
}

/// Modules that move packets or run guests inside the kernel now. A guest holds the module of its processor
/// (`virt/kvm/kvm_main.c:kvm_create_vm`), which in turn holds `kvm` whether there are guests or not.
fn virtual_switch(host: &Host) -> Reading<Vec<String>> {
    const FOLDER: &str = "/sys/module";
    // Where this is missing, KVM has found no processor that can run guests.
    const GUESTS: &str = "/sys/class/misc/kvm";
    let names = match host.list(FOLDER) {
        Ok(names) => names,
        Err(e) => return Reading::unknown(FOLDER, e.message),
    };
    let of_interest = ["openvswitch", "vhost_net", "kvm", "kvm_intel", "kvm_amd"];
    let (mut seen, mut not_counted) = (Vec::new(), None);
    for module in of_interest.into_iter().filter(|module| names.iter().any(|name| name == module)) {
        let path = format!("{FOLDER}/{module}/refcnt");
        // The modules that need this one count among its users and move nothing by themselves.
        let holders = host.list(&format!("{FOLDER}/{module}/holders")).map_or(0, |all| all.len() as u64);
        match host.read_value(&path).map(|text| text.parse::<u64>()) {
            Ok(Ok(users)) if users > holders => seen.push(module.to_owned()),
            Ok(Ok(_)) => {}
            // What is built in has no count.
            Err(e) if e.kind == std::io::ErrorKind::NotFound => {
                if !module.starts_with("kvm") || host.exists(GUESTS) {
                    not_counted =
                        Some(Reading::unknown(path, format!("{module} is built in, so its users are not counted")));
                }
            }
            Err(e) => not_counted = Some(Reading::unknown(path, e.message)),
            Ok(Err(_)) => not_counted = Some(Reading::unknown(path, "it holds no number")),
        }
    }
    match not_counted {
        Some(unknown) if seen.is_empty() => unknown.but("look for guests and virtual switches by hand"),
        _ => Reading::found(seen, FOLDER),
    }
}

/// `some avg300` of a file of /proc/pressure.
fn pressure(host: &Host, what: &str) -> Reading<f64> {
    let path = format!("/proc/pressure/{what}");
    let text = match host.read_text(&path) {
        Ok(text) => text,
        Err(e) => return Reading::unknown(path, e.message),
    };
    let line = text.lines().find(|l| l.starts_with("some "));
    let word = line.and_then(|l| l.split_ascii_whitespace().find_map(|w| w.strip_prefix("avg300=")));
    match word.and_then(|w| w.parse::<f64>().ok()).filter(|percent| (0.0..=100.0).contains(percent)) {
        Some(percent) => Reading::found(percent / 100.0, path),
        None => Reading::unknown(path, "no `some … avg300=` in it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn guests_hold_the_module_of_the_processor() {
        let check = |files: &[(&str, &str)], expect: Option<&[&str]>| {
            let found = virtual_switch(&MemoryFs::of(files).host());
            let words = found.get().map(|all| all.iter().map(String::as_str).collect::<Vec<_>>());
            assert_eq!(words.as_deref(), expect, "{files:?}: {found:?}");
        };
        let loaded = ("/sys/module/kvm/refcnt", "1\n");
        let held = ("/sys/module/kvm/holders/kvm_intel/refcnt", "");
        let amd = ("/sys/module/kvm/holders/kvm_amd/refcnt", "");
        check(&[loaded, held, ("/sys/module/kvm_intel/refcnt", "0\n")], Some(&[]));
        check(&[loaded, held, ("/sys/module/kvm_intel/refcnt", "2\n")], Some(&["kvm_intel"]));
        check(&[loaded, amd, ("/sys/module/kvm_amd/refcnt", "1\n")], Some(&["kvm_amd"]));
        // On s390 there is one module, and one guest is one user.
        check(&[loaded], Some(&["kvm"]));
        check(&[("/sys/module/vhost_net/refcnt", "0\n")], Some(&[]));
        check(&[("/sys/module/openvswitch/refcnt", "4\n")], Some(&["openvswitch"]));
        // Built in, as on arm64: without the device there are no guests, with it they are not counted.
        check(&[("/sys/module/kvm/parameters/halt_poll_ns", "1")], Some(&[]));
        check(&[("/sys/module/kvm/parameters/halt_poll_ns", "1"), ("/sys/class/misc/kvm/dev", "10:232")], None);
        check(&[("/sys/module/openvswitch/version", "1")], None);
        check(&[("/sys/module/vhost_net/refcnt", "many\n")], None);
        check(&[], None);
    }

    #[test]
    fn the_group_with_the_limit_is_the_one_that_is_throttled() {
        let fs = MemoryFs::of(&[
            ("/proc/7/cgroup", "0::/above/own\n"),
            ("/sys/fs/cgroup/above/cpu.max", "100000 100000\n"),
            ("/sys/fs/cgroup/above/cpu.stat", "nr_throttled 12\n"),
            ("/sys/fs/cgroup/above/own/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/above/own/cpu.stat", "nr_throttled 0\n"),
        ]);
        let found = machine(&fs.host(), Some(7));
        assert_eq!(
            (found.cpu_limit_cpus.value(), found.throttled_periods.value()),
            (Some(Some(1.0)), Some(12)),
            "{found:?}"
        );
    }
}
