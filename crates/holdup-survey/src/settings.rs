//! The scheduler's settings, wherever this kernel keeps them, with their defaults.
//!
//! Sources: `kernel/sched/debug.c:sched_init_debug`, `kernel/sched/fair.c:update_sysctl, get_update_sysctl_factor`,
//! `kernel/sched/features.h` (v5.10, 6.1, 6.12, 6.18 to 7.3), `kernel/sysctl.c` (v5.10).

use holdup_host::kernel::KernelFacts;
use holdup_host::{Host, cpu_list, online_cpus};
use holdup_model::KernelVersion;
use holdup_model::survey::{Reading, Setting};

const DEBUG: &str = "/sys/kernel/debug/sched";
const SYSCTL: &str = "/proc/sys/kernel";

/// A setting that is one number in one of two files.
struct Tunable {
    name: &'static str,
    /// The file below debugfs/sched from 5.13 on.
    debug: &'static str,
    /// The sysctl up to 5.12.
    sysctl: &'static str,
    /// The versions that have it: from, and before.
    from: KernelVersion,
    before: KernelVersion,
    default: fn(&KernelFacts, Option<u32>) -> Option<u64>,
    folklore: fn(u64) -> Option<&'static str>,
}

const ALWAYS: KernelVersion = KernelVersion::new(0, 0);
const FOR_EVER: KernelVersion = KernelVersion::new(u32::MAX, 0);
/// EEVDF took the place of CFS.
const EEVDF: KernelVersion = KernelVersion::new(6, 6);

const TUNABLES: &[Tunable] = &[
    Tunable {
        name: "migration-cost",
        debug: "migration_cost_ns",
        sysctl: "sched_migration_cost_ns",
        from: ALWAYS,
        before: FOR_EVER,
        default: |_, _| Some(500_000),
        folklore: migration_cost,
    },
    Tunable {
        name: "base-slice",
        debug: "base_slice_ns",
        sysctl: "sched_base_slice_ns",
        from: EEVDF,
        before: FOR_EVER,
        default: |ground, cpus| {
            if ground.has_backports {
                return None;
            }
            scaled(if ground.version.value()? >= KernelVersion::new(6, 12) { 700_000 } else { 750_000 }, cpus)
        },
        folklore: |ns| {
            (ns < 100_000).then_some(
                "so short a slice results from a value in milliseconds that is written into a file of \
                 nanoseconds; a published benchmark did that with 3",
            )
        },
    },
    Tunable {
        name: "sched-latency",
        debug: "latency_ns",
        sysctl: "sched_latency_ns",
        from: ALWAYS,
        before: EEVDF,
        default: |_, cpus| scaled(6_000_000, cpus),
        folklore: |_| None,
    },
    Tunable {
        name: "min-granularity",
        debug: "min_granularity_ns",
        sysctl: "sched_min_granularity_ns",
        from: ALWAYS,
        before: EEVDF,
        default: |_, cpus| scaled(750_000, cpus),
        folklore: |ns| {
            (ns == 10_000_000).then_some(
                "10 ms is what tuned's throughput profiles set for CFS; it has no effect from 6.6 on, where the \
                 setting is gone",
            )
        },
    },
    Tunable {
        name: "wakeup-granularity",
        debug: "wakeup_granularity_ns",
        sysctl: "sched_wakeup_granularity_ns",
        from: ALWAYS,
        before: EEVDF,
        default: |_, cpus| scaled(1_000_000, cpus),
        folklore: |ns| {
            (ns == 15_000_000).then_some(
                "15 ms is what tuned's throughput profiles set for CFS; it has no effect from 6.6 on, where the \
                 setting is gone",
            )
        },
    },
    Tunable {
        name: "nr-migrate",
        debug: "nr_migrate",
        sysctl: "sched_nr_migrate",
        from: ALWAYS,
        before: FOR_EVER,
        default: |ground, _| Some(if ground.option("CONFIG_PREEMPT_RT").value()? { 8 } else { 32 }),
        folklore: |_| None,
    },
];

fn migration_cost(ns: u64) -> Option<&'static str> {
    match ns {
        500_000 => None,
        5_000_000 => Some(
            "5 ms is the advice of 2013 (PostgreSQL, 900 clients: 17k to 85k tps, together with autogroup off); \
             against it stands that on 128 CPUs in 2021 the same setting, lowered, gave +21 % at 256 clients and -15 % \
             at 144",
        ),
        _ => Some(
            "what is published about it contradicts itself: the same change gave +21 % at 256 clients and -15 % at \
             144 (PostgreSQL on 128 CPUs, 2021)",
        ),
    }
}

/// What a time of the scheduler is scaled by: 1 + log2 of the CPUs, of at most 8 (`get_update_sysctl_factor` with
/// `tunable_scaling` 1).
fn scaled(ns: u64, cpus: Option<u32>) -> Option<u64> {
    let cpus = cpus?.clamp(1, 8);
    Some(ns * u64::from(1 + cpus.ilog2()))
}

/// Every setting that this kernel has, or may have.
pub(crate) fn settings(host: &Host, ground: &KernelFacts) -> Vec<Setting> {
    let cpus = online_cpus(host).and_then(|list| u32::try_from(list.len()).ok()).filter(|n| *n > 0);
    let version = ground.version.value();
    let mut all = vec![autogroup(host, ground)];
    for place in TUNABLES {
        // Where the version is not known, only what can be read is reported.
        let is_there = version.is_none_or(|v| (place.from..place.before).contains(&v));
        let value = number(host, ground, place);
        if !is_there && value.get().is_none() || version.is_none() && value.get().is_none() {
            continue;
        }
        let is_trusted = version.is_some_and(KernelVersion::is_read) && is_scaled_by_log(host);
        let default = if is_trusted { (place.default)(ground, cpus) } else { None };
        let folklore = value.get().filter(|ns| Some(**ns) != default).and_then(|ns| (place.folklore)(*ns));
        all.push(Setting {
            name: place.name.to_owned(),
            unit: place.debug.ends_with("_ns").then(|| "ns".to_owned()),
            value: value.map(|ns| ns.to_string()),
            default: default.map(|ns| ns.to_string()),
            folklore: folklore.map(str::to_owned),
        });
    }
    let features = features(host, ground);
    all.push(hrtick(ground, &features));
    all.push(switched_features(features));
    all.push(numa_balancing(host, ground));
    all
}

/// Defaults are known for logarithmic scaling only, the kernel's default, which an unreadable file is taken for.
fn is_scaled_by_log(host: &Host) -> bool {
    let paths = [format!("{DEBUG}/tunable_scaling"), format!("{SYSCTL}/sched_tunable_scaling")];
    let value = paths.iter().find_map(|path| host.read_value(path).ok());
    value.is_none_or(|word| word == "1" || word.eq_ignore_ascii_case("log") || word.contains("(logarithmic)"))
}

fn number(host: &Host, ground: &KernelFacts, place: &Tunable) -> Reading<u64> {
    let is_old = ground.version.get().is_some_and(|v| *v < KernelVersion::new(5, 13));
    let sysctl = format!("{SYSCTL}/{}", place.sysctl);
    let debug = format!("{DEBUG}/{}", place.debug);
    let path = if is_old || host.exists(&sysctl) { sysctl } else { debug };
    let read = holdup_host::text::one_line(host, &path);
    let known = read.and_then(|text| {
        text.parse().map_err(|_| format!("`{}` is not what the kernel writes there", holdup_host::text::shown(&text)))
    });
    known.but(how_to_read(&path, ground))
}

/// What would let debugfs be read.
fn how_to_read(path: &str, ground: &KernelFacts) -> &'static str {
    if !path.starts_with(DEBUG) {
        return "use a kernel with CONFIG_SCHED_DEBUG=y";
    }
    match ground.lockdown.get().map(String::as_str) {
        Some("none") | None => "run holdup as root, with debugfs mounted (mount -t debugfs none /sys/kernel/debug)",
        Some(_) => "boot without lockdown: it closes debugfs also to root",
    }
}

fn autogroup(host: &Host, ground: &KernelFacts) -> Setting {
    const PATH: &str = "/proc/sys/kernel/sched_autogroup_enabled";
    let value = match host.read_value(PATH) {
        Ok(text) if text == "0" || text == "1" => Reading::found(text, PATH),
        Ok(text) => {
            Reading::unknown(PATH, format!("`{}` is not what the kernel writes there", holdup_host::text::shown(&text)))
        }
        Err(e) if e.kind == std::io::ErrorKind::NotFound => {
            let option = ground.option("CONFIG_SCHED_AUTOGROUP");
            let has_noautogroup =
                ground.command_line.get().is_some_and(|line| line.split_ascii_whitespace().any(|w| w == "noautogroup"));
            match option.get() {
                _ if has_noautogroup => Reading::found("0".to_owned(), "/proc/cmdline: noautogroup"),
                Some(false) => Reading::found("0".to_owned(), option.source.clone()),
                _ => Reading::unknown(PATH, "it does not exist"),
            }
        }
        Err(e) => Reading::unknown(PATH, e.message),
    };
    let has_it = ground.option("CONFIG_SCHED_AUTOGROUP").value();
    // Debian builds it in but begins with it switched off: seen in 5.10 and 6.1, not any more in 6.12.
    let is_of_debian = host.read_head("/proc/version", 1024).is_ok_and(|text| text.contains("Debian"));
    let default = match (has_it, ground.version.value()) {
        (Some(false), _) => Some("0".to_owned()),
        (Some(true), Some(v)) if is_of_debian && v <= KernelVersion::new(6, 1) => Some("0".to_owned()),
        (Some(true), Some(v)) if is_of_debian && v < KernelVersion::new(6, 12) => None,
        (Some(true), Some(v)) if v.is_read() && !ground.has_backports => Some("1".to_owned()),
        (Some(true), _) | (None, _) => None,
    };
    let folklore = (value.get().is_some_and(|v| v == "0") && default.as_deref() == Some("1")).then(|| {
        "off is the advice of 2013 for database servers (PostgreSQL, 900 clients: 17k to 85k tps, together with \
         migration cost 5 ms); it has no effect on services that systemd runs in a group of their own"
            .to_owned()
    });
    Setting { name: "autogroup".to_owned(), unit: None, value, default, folklore }
}

/// The words of the scheduler's features.
fn features(host: &Host, ground: &KernelFacts) -> Reading<String> {
    const UP_TO_5_12: &str = "/sys/kernel/debug/sched_features";
    let path = if host.exists(UP_TO_5_12) { UP_TO_5_12.to_owned() } else { format!("{DEBUG}/features") };
    holdup_host::text::one_line(host, &path).but(how_to_read(&path, ground))
}

/// Slices that end by a timer of their own instead of at the tick.
fn hrtick(ground: &KernelFacts, features: &Reading<String>) -> Setting {
    let value = features.clone().and_then(|text| {
        let has = |name: &str| text.split_ascii_whitespace().any(|word| word == name);
        match (has("HRTICK"), has("NO_HRTICK")) {
            (true, false) => Ok("on".to_owned()),
            (false, true) => Ok("off".to_owned()),
            _ => Err("HRTICK is not among its words".to_owned()),
        }
    });
    // Since 7.1 it is on where HRTIMER_REARM_DEFERRED is (kernel/sched/features.h, v7.1).
    let default = match ground.version.value().filter(|v| v.is_read()) {
        Some(version) if version < KernelVersion::new(7, 1) && !ground.has_backports => Some(false),
        Some(_) => {
            // A vendor that has the option may have put it into any version; without it HRTICK is off in all.
            ground.option("CONFIG_HRTIMER_REARM_DEFERRED").value().filter(|on| !(*on && ground.has_backports))
        }
        None => None,
    };
    let word = |on: bool| if on { "on" } else { "off" };
    let default = default.map(|on| word(on).to_owned());
    Setting { name: "hrtick".to_owned(), unit: None, value, default, folklore: None }
}

/// The features of EEVDF that common advice switches off, where they are off.
fn switched_features(features: Reading<String>) -> Setting {
    const ADVISED: [&str; 4] = ["PLACE_LAG", "RUN_TO_PARITY", "WAKEUP_PREEMPTION", "DELAY_DEQUEUE"];
    let value = features.map(|text| {
        let is_off = |name: &&str| text.split_ascii_whitespace().any(|word| word.strip_prefix("NO_") == Some(name));
        let off: Vec<String> = ADVISED.iter().filter(|name| is_off(name)).map(|name| format!("NO_{name}")).collect();
        if off.is_empty() { "none".to_owned() } else { off.join(" ") }
    });
    let folklore = value.get().filter(|words| words.contains("PLACE_LAG") || words.contains("PARITY")).map(|_| {
        "NO_PLACE_LAG with NO_RUN_TO_PARITY is advice of 2024 for MySQL on EEVDF: one lab won back a part of what it \
         had lost, another saw +6 %, and by mid 2025 the first saw it make things worse"
            .to_owned()
    });
    let default = Some("none".to_owned());
    Setting { name: "features switched off".to_owned(), unit: None, value, default, folklore }
}

/// Pages that follow their tasks between NUMA nodes (`mm/mempolicy.c:check_numabalancing_enable`, v6.18).
fn numa_balancing(host: &Host, ground: &KernelFacts) -> Setting {
    const PATH: &str = "/proc/sys/kernel/numa_balancing";
    let nodes = host.read_value("/sys/devices/system/node/online").ok().and_then(|list| cpu_list(&list));
    let by_build = ground.option("CONFIG_NUMA_BALANCING_DEFAULT_ENABLED").value();
    let default = match (by_build, nodes) {
        (Some(on), Some(nodes)) => Some(if on && nodes.len() > 1 { "1" } else { "0" }.to_owned()),
        _ => None,
    };
    let value = holdup_host::text::one_line(host, PATH);
    Setting { name: "numa-balancing".to_owned(), unit: None, value, default, folklore: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;

    #[test]
    fn a_version_has_no_default_where_parts_are_newer_or_it_was_not_read() {
        let defaults = |release: &str| {
            let config = format!("/boot/config-{release}");
            let fs = MemoryFs::of(&[
                ("/proc/sys/kernel/osrelease", release),
                (config.as_str(), "CONFIG_SCHED_AUTOGROUP=y\nCONFIG_HRTIMER_REARM_DEFERRED=y\n"),
                ("/sys/devices/system/cpu/online", "0-1\n"),
                ("/sys/kernel/debug/sched/base_slice_ns", "1400000\n"),
            ]);
            let all = settings(&fs.host(), &KernelFacts::of(&fs.host()));
            let default = |name: &str| all.iter().find(|s| s.name == name).and_then(|s| s.default.clone());
            ["base-slice", "autogroup", "hrtick"].map(default)
        };
        let some = |words: [&str; 3]| words.map(|word| Some(word.to_owned()));
        assert_eq!(defaults("6.18.15"), some(["1400000", "1", "off"]));
        assert_eq!(defaults("6.12.0-55.el10"), [None, None, None]);
        assert_eq!(defaults("99.1.0"), [None, None, None]);
    }
}
