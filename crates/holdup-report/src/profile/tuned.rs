//! A profile for TuneD: tuned-profiles(7), tuned.conf.

use super::{FEATURES, elsewhere, head, is_plain, is_plain_value, one_line, placed};
use holdup_model::Profile;
use holdup_model::profile::Destination;
use std::collections::BTreeMap;

/// Sections in the order in which they are written.
const SECTIONS: &[&str] = &["sysctl", "vm", "cpu", "scheduler", "sysfs"];

/// Files that a plugin of TuneD has an option for: it finds them also where another kernel keeps them.
const OPTIONS: &[(&str, &str, &str)] = &[
    ("/sys/kernel/mm/transparent_hugepage/enabled", "vm", "transparent_hugepages"),
    ("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor", "cpu", "governor"),
    ("/sys/kernel/debug/sched/migration_cost_ns", "scheduler", "sched_migration_cost_ns"),
    ("/sys/kernel/debug/sched/nr_migrate", "scheduler", "sched_nr_migrate"),
];

/// The profile as a tuned.conf, and as comments what no plugin sets. `destinations` says where each setting lives, in their
/// order.
pub fn tuned(profile: &Profile, destinations: &[Vec<Destination>]) -> String {
    let placed = placed(profile, destinations);
    let name = &profile.name;
    let mut out = head(
        profile,
        "tuned",
        &[
            format!(
                "Put it into /etc/tuned/profiles/{name}/tuned.conf (older TuneD: /etc/tuned/{name}/tuned.conf), then"
            ),
            format!("`tuned-adm profile {name}`."),
        ],
    );
    // It begins variables and functions; comments have none.
    let summary = one_line(&profile.summary).replace('$', "");
    out.push_str(&format!("\n[main]\nsummary={}\n", if summary.is_empty() { name.clone() } else { summary }));
    let mut sections: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (_, destination) in &placed {
        if let Some((section, key, value)) = destination.and_then(option) {
            let lines = sections.entry(section).or_default();
            // Without this the plugin watches every process that begins, which is not what was asked for.
            if section == "scheduler" && lines.is_empty() {
                lines.push("runtime=0".to_owned());
            }
            lines.push(format!("{key}={value}"));
        }
    }
    for section in SECTIONS {
        if let Some(lines) = sections.get(section) {
            out.push_str(&format!("\n[{section}]\n{}\n", lines.join("\n")));
        }
    }
    out.push_str(&elsewhere(&placed, |destination| option(destination).is_some(), ""));
    out
}

/// Section, key and value of a destination.
fn option(destination: &Destination) -> Option<(&'static str, String, String)> {
    match destination {
        Destination::Sysctl { key, value } if is_plain_value(key) && is_plain_value(value) => {
            Some(("sysctl", key.clone(), value.clone()))
        }
        // TuneD puts back what it has read, which of the list of features is no value that can be written.
        Destination::File { path, value } if path != FEATURES && is_plain(path) && is_plain_value(value) => {
            let known = OPTIONS.iter().find(|(file, ..)| file == path);
            let (section, key) = known.map_or(("sysfs", path.as_str()), |(_, section, key)| (*section, *key));
            Some((section, key.to_owned(), value.clone()))
        }
        Destination::WakeLatency { us } => Some(("cpu", "force_latency".to_owned(), us.to_string())),
        _ => None,
    }
}
