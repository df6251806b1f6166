//! Whether BPF programs can be loaded here, by files alone.

use crate::arch;
use holdup_host::Host;
use holdup_host::process::capabilities;
use holdup_model::Availability;

/// include/uapi/linux/capability.h
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The inode of the namespace that the host begins with: PROC_PID_INIT_INO of include/linux/proc_ns.h.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// What a kernel needs to have for all programs.
pub(crate) fn probe(host: &Host) -> Availability {
    if arch::PROGRAMS.is_none() {
        return Availability::unavailable(
            "the programs were written for x86-64 and arm64, and have not been tried elsewhere",
        );
    }
    if let Err(why) = in_first_pid_namespace(host) {
        return Availability::unavailable_but(
            why,
            "run it on the host, or give the container the host's: --pid=host, or hostPID: true in Kubernetes",
        );
    }
    if !host.exists("/sys/kernel/btf/vmlinux") {
        return Availability::unavailable_but(
            "the kernel does not describe its types (CONFIG_DEBUG_INFO_BTF): there is no /sys/kernel/btf/vmlinux",
            "boot a kernel with it: distributions' have it, and one that is built here gets it with DEBUG_INFO_BTF=y \
             (needs pahole; Debian: apt-get install dwarves)",
        );
    }
    if host.read_text("/sys/kernel/security/lockdown").is_ok_and(|text| text.contains("[confidentiality]")) {
        return Availability::unavailable(
            "the kernel is locked down (confidentiality): BPF programs may not read its memory",
        );
    }
    match capabilities(host) {
        Some(held) if may_load(held) => Availability::Ready,
        Some(_) => Availability::unavailable("BPF programs need root, or CAP_BPF with CAP_PERFMON"),
        None => Availability::unavailable("/proc/self/status does not show the capabilities of this process"),
    }
}

/// Whether the ids that the kernel's events have are those that are seen here.
pub(crate) fn in_first_pid_namespace(host: &Host) -> Result<(), String> {
    match host.read_link("/proc/self/ns/pid") {
        Ok(link) if link == FIRST_PID_NAMESPACE => Ok(()),
        Ok(_) => {
            Err("inside a PID namespace (a container) the process ids of the kernel's events are not known".to_owned())
        }
        Err(e) => Err(e.to_string()),
    }
}

fn may_load(held: u64) -> bool {
    let has = |capability: u32| held & (1 << capability) != 0;
    has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_decide() {
        assert!(may_load(0x1ff_ffff_ffff));
        assert!(may_load(1 << CAP_BPF | 1 << CAP_PERFMON));
        assert!(!may_load(1 << CAP_BPF));
        assert!(!may_load(0));
    }
}
