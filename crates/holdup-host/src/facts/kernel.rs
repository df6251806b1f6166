//! The kernel: which one, how it preempts, how it was started.

use super::config::{Config, config};
use super::{chosen, from_file, from_list_file, why};
use crate::Host;
use holdup_model::Fact;

const COMMAND_LINE: &str = "/proc/cmdline";

pub(super) fn collect(host: &Host, all: &mut Vec<Fact>) {
    let release = from_file(host, "kernel.release", "/proc/sys/kernel/osrelease").steady();
    let config = config(host, release.value.as_deref());
    let command_line = from_file(host, "kernel.command_line", COMMAND_LINE);
    let model = preempt_with(host, &config, release.value.as_deref(), command_line.value.as_deref());
    all.push(release);
    all.push(from_file(host, "kernel.version", "/proc/version"));
    all.push(command_line);
    all.push(from_file(host, "kernel.boot_id", "/proc/sys/kernel/random/boot_id").steady());
    all.push(model.into_fact());
    all.push(match &config {
        Ok(config) => match config.get("CONFIG_HZ") {
            Some(hz) => Fact::read("kernel.hz", hz, &config.source).steady(),
            None => Fact::absent("kernel.hz", &config.source, "CONFIG_HZ is not in it").steady(),
        },
        Err(why) => Fact::absent("kernel.hz", "the kernel's configuration", why).steady(),
    });
    all.push(lockdown(host));
    all.push(from_list_file(host, "kernel.tainted", "/proc/sys/kernel/tainted"));
    all.push(
        from_file(host, "clock.source", "/sys/devices/system/clocksource/clocksource0/current_clocksource").steady(),
    );
    all.push(os(host));
}

/// How far the kernel locks itself down; it explains why root cannot read debugfs.
fn lockdown(host: &Host) -> Fact {
    super::from_choice_file(host, "kernel.lockdown", "/sys/kernel/security/lockdown")
}

fn os(host: &Host) -> Fact {
    const PATH: &str = "/etc/os-release";
    match host.read_text(PATH) {
        Err(e) => Fact::absent("os.name", PATH, why(&e)),
        Ok(text) => match text.lines().find_map(|l| l.strip_prefix("PRETTY_NAME=")) {
            Some(name) => Fact::read("os.name", name.trim_matches('"'), PATH),
            None => Fact::absent("os.name", PATH, "PRETTY_NAME is not in it"),
        },
    }
}

/// The preemption model, with how it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preempt {
    /// `none`, `voluntary`, `full`, `lazy`, `rt`; `None` when no source tells.
    pub model: Option<String>,
    /// Where it was read, and how far that can be relied on.
    pub source: String,
    /// Each better source that was asked first, with why it did not tell.
    pub passed_by: Vec<String>,
}

impl Preempt {
    fn into_fact(self) -> Fact {
        let fact = match self.model {
            Some(model) => Fact::read("kernel.preempt", model, self.source),
            None => Fact::absent("kernel.preempt", self.source, self.passed_by.join("; ")),
        };
        fact.steady()
    }
}

/// Which preemption model is in force. `uname` does not tell; the sources are asked best first:
/// the word in parentheses in debugfs, the kernel's log, the built-in configuration with the command line,
/// the command line alone.
pub fn preempt(host: &Host) -> Preempt {
    let release = host.read_value("/proc/sys/kernel/osrelease").ok();
    let command_line = host.read_value(COMMAND_LINE).ok();
    preempt_with(host, &config(host, release.as_deref()), release.as_deref(), command_line.as_deref())
}

/// Where debugfs stands, if it is mounted.
const DEBUG_PREEMPT: &str = "/sys/kernel/debug/sched/preempt";

fn preempt_with(
    host: &Host,
    config: &Result<Config, String>,
    release: Option<&str>,
    command_line: Option<&str>,
) -> Preempt {
    let mut passed_by = Vec::new();
    let found = |model: &str, source: String, passed_by: Vec<String>| Preempt {
        model: Some(model.to_owned()),
        source,
        passed_by,
    };
    if host.read_value("/sys/kernel/realtime").is_ok_and(|v| v == "1") {
        return found("rt", "/sys/kernel/realtime".to_owned(), passed_by);
    }
    match host.read_value(DEBUG_PREEMPT) {
        Ok(text) => match chosen(&text, '(', ')').filter(|word| is_model(word)) {
            Some(word) => return found(word, DEBUG_PREEMPT.to_owned(), passed_by),
            None => passed_by.push(format!("{DEBUG_PREEMPT}: no word of `{text}` is in parentheses")),
        },
        Err(e) => passed_by.push(format!("{DEBUG_PREEMPT}: {}", e.message)),
    }
    match host.kernel_log() {
        Ok(log) => match log.lines().rev().find_map(logged_model) {
            Some(word) => return found(word, "the kernel's log: `Dynamic Preempt:`".to_owned(), passed_by),
            None => passed_by.push("the kernel's log: no line `Dynamic Preempt:` in it (any more)".to_owned()),
        },
        Err(e) => passed_by.push(format!("the kernel's log: {}", e.message)),
    }
    let asked = command_line.and_then(asked_model);
    match config {
        Ok(config) => match configured_model(config, release, asked) {
            Some((word, source)) => found(word, source, passed_by),
            None => {
                passed_by.push(format!("{}: no CONFIG_PREEMPT option in it", config.source));
                Preempt { model: None, source: "kernel.preempt".to_owned(), passed_by }
            }
        },
        Err(why) => {
            passed_by.push(why.clone());
            match asked {
                Some(word) => found(word, format!("{COMMAND_LINE}: asked for, not confirmed by any source"), passed_by),
                None => {
                    passed_by.push(format!("{COMMAND_LINE}: no preempt= in it"));
                    Preempt { model: None, source: DEBUG_PREEMPT.to_owned(), passed_by }
                }
            }
        }
    }
}

fn is_model(word: &str) -> bool {
    matches!(word, "none" | "voluntary" | "full" | "lazy")
}

/// The model that a line of the log says was set. A line `unsupported mode: none` says that one was not.
fn logged_model(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("Dynamic Preempt: ")?;
    Some(rest.trim()).filter(|word| is_model(word))
}

/// The last `preempt=` of the command line.
fn asked_model(command_line: &str) -> Option<&str> {
    command_line.split_ascii_whitespace().rev().find_map(|w| w.strip_prefix("preempt=")).filter(|w| is_model(w))
}

/// The model by the configuration, and by the command line where the kernel heeds it.
fn configured_model<'a>(config: &Config, release: Option<&str>, asked: Option<&'a str>) -> Option<(&'a str, String)> {
    if config.is_set("CONFIG_PREEMPT_RT") {
        return Some(("rt", config.source.clone()));
    }
    let built = [
        ("CONFIG_PREEMPT_LAZY", "lazy"),
        ("CONFIG_PREEMPT", "full"),
        ("CONFIG_PREEMPT_VOLUNTARY", "voluntary"),
        ("CONFIG_PREEMPT_NONE", "none"),
    ];
    let default = built.iter().find(|(option, _)| config.is_set(option)).map(|(_, model)| *model)?;
    if !config.is_set("CONFIG_PREEMPT_DYNAMIC") {
        return Some((default, format!("{}: the only model of this kernel", config.source)));
    }
    match asked.filter(|word| is_offered(word, config, release)) {
        Some(word) => Some((word, format!("{COMMAND_LINE} and {}: as booted", config.source))),
        None => Some((default, format!("{}: the default of this kernel, as booted", config.source))),
    }
}

/// Whether a kernel with dynamic preemption takes this word (`sched_dynamic_mode`, kernel/sched/core.c):
/// lazy where the architecture has it; none and voluntary only before 7.0 there.
fn is_offered(word: &str, config: &Config, release: Option<&str>) -> bool {
    let has_lazy = config.is_set("CONFIG_ARCH_HAS_PREEMPT_LAZY");
    let major = release.and_then(|r| r.split('.').next()).and_then(|major| major.parse::<u32>().ok());
    match word {
        "full" => true,
        "lazy" => has_lazy,
        _ => !has_lazy || major.is_some_and(|major| major < 7),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    const DYNAMIC: &str = "CONFIG_PREEMPT_LAZY=y\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_ARCH_HAS_PREEMPT_LAZY=y\n";
    const RELEASE: &str = "/proc/sys/kernel/osrelease";

    #[test]
    fn the_best_source_that_tells_is_named() {
        let check = |files: &[(&str, &str)], log: Option<&str>, model: Option<&str>, source: &str| {
            let fs = MemoryFs::of(files);
            if let Some(log) = log {
                fs.put_kernel_log(log);
            }
            let found = preempt(&fs.host());
            assert_eq!(found.model.as_deref(), model, "{files:?} {log:?}: {found:?}");
            assert!(found.source.contains(source), "{files:?} {log:?}: {found:?}");
        };
        let debug = (DEBUG_PREEMPT, "full (lazy)\n");
        let log = "<6>[    0.3] Dynamic Preempt: none\n<6>[   1.0] x\n";
        let v618 = (RELEASE, "6.18.1\n");
        let v7 = (RELEASE, "7.0.13+deb13-amd64\n");
        let config = ("/boot/config-6.18.1", DYNAMIC);
        let config7 = ("/boot/config-7.0.13+deb13-amd64", DYNAMIC);
        let asked_none = ("/proc/cmdline", "quiet preempt=none\n");
        check(&[debug, v618, config, asked_none], Some(log), Some("lazy"), "debug/sched/preempt");
        check(&[v618, config], Some(log), Some("none"), "the kernel's log");
        check(&[v618, config, asked_none], Some("nothing\n"), Some("none"), "/proc/cmdline and");
        check(&[v7, config7, asked_none], None, Some("lazy"), "the default");
        let refused = "[0.3] Dynamic Preempt: unsupported mode: none\n";
        check(&[v7, config7, asked_none], Some(refused), Some("lazy"), "the default");
        check(&[v618, config], None, Some("lazy"), "the default");
        check(
            &[v618, ("/boot/config-6.18.1", "CONFIG_PREEMPT_VOLUNTARY=y\n"), asked_none],
            None,
            Some("voluntary"),
            "only",
        );
        check(&[v618, ("/boot/config-6.18.1", "CONFIG_PREEMPT_RT=y\nCONFIG_PREEMPT=y\n")], None, Some("rt"), "config");
        check(&[("/sys/kernel/realtime", "1\n"), debug], None, Some("rt"), "realtime");
        check(&[asked_none], None, Some("none"), "not confirmed");
        check(&[("/proc/cmdline", "preempt=lots")], None, None, "");
        check(&[(DEBUG_PREEMPT, "none voluntary")], None, None, "");
        check(&[], None, None, "");
    }

    #[test]
    fn what_did_not_tell_says_why() {
        let fs = MemoryFs::new();
        fs.put(DEBUG_PREEMPT, "x");
        fs.refuse("read", DEBUG_PREEMPT, libc::EPERM);
        let fact = preempt(&fs.host()).into_fact();
        let absent = fact.absent.expect("nothing tells");
        for part in
            ["debug/sched/preempt: operation not permitted", "the kernel's log: ", "/proc/config.gz", "no preempt="]
        {
            assert!(absent.contains(part), "{part}: {absent}");
        }
    }
}
