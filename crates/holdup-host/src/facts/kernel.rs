//! The kernel: which one, how it preempts, how it was started.

use super::{from_file, from_list_file, of_running_kernel, why};
use crate::Host;
use crate::kernel::{kernel_config, preemption};
use holdup_model::Fact;
use holdup_model::survey::Preemption;

pub(super) fn collect(host: &Host, all: &mut Vec<Fact>) {
    let release = from_file(host, "kernel.release", "/proc/sys/kernel/osrelease").steady();
    let config = kernel_config(host, release.value.as_deref());
    all.push(from_file(host, "host.name", "/proc/sys/kernel/hostname"));
    all.push(release);
    all.push(of_running_kernel(host, "kernel.machine", "uname(2)", || {
        rustix::system::uname().machine().to_string_lossy().into_owned()
    }));
    all.push(from_file(host, "kernel.version", "/proc/version"));
    all.push(from_file(host, "kernel.command_line", "/proc/cmdline"));
    all.push(from_file(host, "kernel.boot_id", "/proc/sys/kernel/random/boot_id").steady());
    all.push(preempt(preemption(host)).steady());
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

/// The preemption model in force, as [`preemption`] finds it.
fn preempt(found: Preemption) -> Fact {
    const KEY: &str = "kernel.preempt";
    match found.model.value {
        Some(model) => Fact::read(KEY, model.word(), found.model.source),
        None => Fact::absent(KEY, found.model.source, found.model.why_unknown.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    #[test]
    fn sources_without_a_model_say_why() {
        let fs = MemoryFs::of(&[("/sys/kernel/debug/sched/preempt", "x"), ("/proc/cmdline", "quiet\n")]);
        fs.refuse("read", "/sys/kernel/debug/sched/preempt", libc::EPERM);
        let absent = preempt(preemption(&fs.host())).absent.expect("no source");
        for part in
            ["debug/sched/preempt: operation not permitted", "the kernel's log: ", "/proc/config.gz", "no preempt="]
        {
            assert!(absent.contains(part), "{part}: {absent}");
        }
    }
}
