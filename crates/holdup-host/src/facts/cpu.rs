//! The processors: which, how many, how fast they may run, and what is taken from them.

use super::{from_file, from_list_file, why};
use crate::Host;
use holdup_model::Fact;
use holdup_model::survey::Reading;
use std::collections::BTreeMap;

const CPU: &str = "/sys/devices/system/cpu";

pub(super) fn collect(host: &Host, all: &mut Vec<Fact>) {
    processor(host, all);
    all.push(from_file(host, "cpu.online", &format!("{CPU}/online")).steady());
    all.push(allowed(host).steady());
    all.push(from_list_file(host, "cpu.isolated", &format!("{CPU}/isolated")).steady());
    all.push(from_list_file(host, "cpu.nohz_full", &format!("{CPU}/nohz_full")));
    all.push(from_file(host, "cpu.smt", &format!("{CPU}/smt/control")).steady());
    all.push(from_file(host, "cpu.numa_nodes", "/sys/devices/system/node/online").steady());
    for (key, file) in [
        ("cpu.governor", "scaling_governor"),
        ("cpu.frequency_driver", "scaling_driver"),
        ("cpu.max_frequency_khz", "scaling_max_freq"),
    ] {
        all.push(of_policies(host, key, file).steady());
    }
    all.push(boost(host).steady());
    all.push(steal(host));
    all.push(from_file(host, "host.load_average", "/proc/loadavg"));
}

/// The governor of the CPU frequency; each with the number of its policies where they differ.
pub fn governor(host: &Host) -> Reading<String> {
    let fact = of_policies(host, "cpu.governor", "scaling_governor");
    match fact.value {
        Some(value) => Reading::found(value, fact.source),
        None => Reading::unknown(fact.source, fact.absent.unwrap_or_default()),
    }
}

/// Model, microcode and the flag of a hypervisor, from the first processor of /proc/cpuinfo.
fn processor(host: &Host, all: &mut Vec<Fact>) {
    const PATH: &str = "/proc/cpuinfo";
    // One processor takes about 1.5 KiB; the whole file of a large machine takes long to make.
    let text = host.read_head(PATH, 8192);
    let field = |name: &str| match &text {
        Err(e) => Err(why(e)),
        Ok(text) => text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| key.trim() == name)
            .map(|(_, value)| value.trim().to_owned())
            .filter(|value| !value.is_empty())
            .ok_or_else(|| format!("no field `{name}` in it")),
    };
    let fact = |key: &str, value: Result<String, String>| match value {
        Ok(value) => Fact::read(key, value, PATH),
        Err(why) => Fact::absent(key, PATH, why),
    };
    // On arm64 there is no model name but the numbers of the implementer and the part. On s390x each processor has a line
    // `processor 0: version = 00,  identification = 100000,  machine = 8561`.
    let part = || Ok(format!("implementer {} part {}", field("CPU implementer")?, field("CPU part")?));
    let machine =
        || Ok(format!("{} {}", field("vendor_id")?, field("processor 0")?.rsplit_once(", ").ok_or("")?.1.trim()));
    let model =
        field("model name").or_else(|missing| part().or_else(|_: String| machine()).map_err(|_: String| missing));
    all.push(fact("cpu.model", model));
    all.push(fact("cpu.microcode", field("microcode")).steady());
    let guest = field("flags").map(|flags| {
        let named = flags.split_ascii_whitespace().any(|flag| flag == "hypervisor");
        if named { "yes" } else { "no" }.to_owned()
    });
    all.push(fact("cpu.hypervisor", guest));
}

/// The CPUs that holdup may use, which everything that it starts inherits.
fn allowed(host: &Host) -> Fact {
    const PATH: &str = "/proc/self/status";
    match host.read_text(PATH) {
        Err(e) => Fact::absent("cpu.allowed", PATH, why(&e)),
        Ok(text) => match text.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).map(str::trim) {
            Some(list) if !list.is_empty() => Fact::read("cpu.allowed", list, PATH),
            _ => Fact::absent("cpu.allowed", PATH, "no field `Cpus_allowed_list` in it"),
        },
    }
}

/// A file of every frequency policy: one value when they agree, else each with how many policies have it.
fn of_policies(host: &Host, key: &str, file: &str) -> Fact {
    let folder = format!("{CPU}/cpufreq");
    let source = format!("{folder}/policy*/{file}");
    let names = match host.list(&folder) {
        Ok(names) => names,
        Err(e) => return Fact::absent(key, source, format!("{folder}: {}", why(&e))),
    };
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for name in names.iter().filter(|name| name.starts_with("policy")) {
        match host.read_value(&format!("{folder}/{name}/{file}")) {
            Ok(value) => *counts.entry(value).or_default() += 1,
            Err(e) => return Fact::absent(key, source, format!("{name}: {}", why(&e))),
        }
    }
    match counts.len() {
        0 => Fact::absent(key, source, "no frequency policy: the kernel does not set the frequency here"),
        1 => Fact::read(key, counts.into_keys().next().unwrap_or_default(), source),
        _ => {
            let parts: Vec<String> = counts.iter().map(|(value, count)| format!("{value} ×{count}")).collect();
            Fact::read(key, parts.join(", "), source)
        }
    }
}

/// Whether the processor may run above its nominal frequency.
fn boost(host: &Host) -> Fact {
    const INVERTED: &str = "/sys/devices/system/cpu/intel_pstate/no_turbo";
    let plain = format!("{CPU}/cpufreq/boost");
    let word = |on: bool| if on { "on" } else { "off" };
    let read = |path: &str| host.read_value(path).ok().filter(|v| v == "0" || v == "1");
    if let Some(value) = read(&plain) {
        return Fact::read("cpu.boost", word(value == "1"), plain);
    }
    match read(INVERTED) {
        Some(value) => Fact::read("cpu.boost", word(value == "0"), INVERTED),
        None => Fact::absent("cpu.boost", plain, format!("neither this file nor {INVERTED} can be read")),
    }
}

/// Ticks since boot in which the hypervisor ran something else.
fn steal(host: &Host) -> Fact {
    const PATH: &str = "/proc/stat";
    const KEY: &str = "cpu.steal_ticks";
    match host.read_head(PATH, 1024) {
        Err(e) => Fact::absent(KEY, PATH, why(&e)),
        // Field 8 of the line of all CPUs (proc_stat(5)).
        Ok(text) => {
            let line = text.lines().find_map(|l| l.strip_prefix("cpu "));
            match line.and_then(|l| l.split_ascii_whitespace().nth(7)).and_then(|w| w.parse::<u64>().ok()) {
                Some(ticks) => Fact::read(KEY, ticks.to_string(), PATH),
                None => Fact::absent(KEY, PATH, "no eighth number in the line `cpu`"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    fn value(files: &[(&str, &str)], key: &str) -> Option<String> {
        let mut all = Vec::new();
        collect(&MemoryFs::of(files).host(), &mut all);
        all.into_iter().find(|f| f.key == key).expect("every key is there").value
    }

    #[test]
    fn processors_of_several_kinds_are_read() {
        let check = |files: &[(&str, &str)], key: &str, expect: Option<&str>| {
            assert_eq!(value(files, key).as_deref(), expect, "{files:?} {key}");
        };
        let x86 = [(
            "/proc/cpuinfo",
            "processor\t: 0\nmodel name\t: AMD EPYC\nmicrocode\t: 0x1\nflags\t\t: fpu hypervisor\n",
        )];
        check(&x86, "cpu.model", Some("AMD EPYC"));
        check(&x86, "cpu.microcode", Some("0x1"));
        check(&x86, "cpu.hypervisor", Some("yes"));
        let arm = [("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n")];
        check(&arm, "cpu.model", Some("implementer 0x41 part 0xd40"));
        let z = "vendor_id       : IBM/S390\nprocessor 0: version = 00,  identification = 000000,  machine = 8561\n";
        check(&[("/proc/cpuinfo", z)], "cpu.model", Some("IBM/S390 machine = 8561"));
        check(&arm, "cpu.hypervisor", None);
        let g = |n: u32| format!("{CPU}/cpufreq/policy{n}/scaling_governor");
        let (g0, g1) = (g(0), g(1));
        check(&[(&g0, "powersave\n"), (&g1, "powersave\n")], "cpu.governor", Some("powersave"));
        check(&[(&g0, "powersave\n"), (&g1, "performance\n")], "cpu.governor", Some("performance ×1, powersave ×1"));
        check(&[], "cpu.governor", None);
        check(&[("/sys/devices/system/cpu/intel_pstate/no_turbo", "1\n")], "cpu.boost", Some("off"));
        check(&[("/sys/devices/system/cpu/cpufreq/boost", "1\n")], "cpu.boost", Some("on"));
        check(&[("/proc/stat", "cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 1\n")], "cpu.steal_ticks", Some("88"));
        check(&[("/proc/stat", "cpu  1 2 3\n")], "cpu.steal_ticks", None);
        check(&[("/sys/devices/system/cpu/isolated", "\n")], "cpu.isolated", Some("none"));
    }
}
