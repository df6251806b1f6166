//! How long the kernel lets a task run on that asked for a time slice extension.

use crate::kernel_file::{KernelFile, KernelNumber};
use crate::sample::Sample;
use holdup_host::Host;
use holdup_model::{Availability, Meta, ParameterKind};

const FILE: &str = "/sys/kernel/debug/rseq/slice_ext_nsec";

/// `rseq-slice-length`.
pub(crate) static KNOB: KernelNumber = KernelNumber {
    meta: &Meta {
        id: "rseq-slice-length",
        summary: "length of a granted time slice extension (5us to 50us, default 5us)",
        docs: "From Linux 7.0 on a thread can ask, through its rseq area, not to be taken off the CPU while it is in a \
               critical section. If a reschedule is due when the kernel is about to return from an interrupt to such \
               a thread, it gets this much more time and then has to yield. A longer extension lets longer sections \
               end, and is what others wait in addition at worst.\n\n\
               It acts on threads only that have asked: each has to register an rseq area of more than 32 bytes and \
               to switch the extension on with prctl (from 7.0.10 on; glibc up to 2.40 registers 32 bytes, and the \
               prctl then fails with errno 524). It does not keep the kernel from preempting a thread inside a page \
               fault or a system call.\n\n\
               The kernel must be built with CONFIG_RSEQ_SLICE_EXTENSION=y. x86, s390, riscv and loongarch have the \
               option, arm64 has not; Debian's kernels 7.0 to 7.3 are built without it.",
        references: &[
            "kernel/rseq.c:rseq_slice_ext_write, rseq_slice_cmdline (v7.2)",
            "include/linux/rseq_entry.h:rseq_grant_slice_extension (v7.2)",
            "Documentation/userspace-api/rseq.rst (v7.2)",
            "Documentation/admin-guide/kernel-parameters.txt: rseq_slice_ext= (v7.2)",
        ],
    },
    kind: ParameterKind::DURATION,
    samples: &[Sample {
        real_levels: &["10us", "20us", "30us"],
        ..Sample::number("rseq-slice-length", FILE, "5000\n", ["50us", "20us"])
    }],
    touches: "the length of rseq time slice extensions (debugfs rseq/slice_ext_nsec), for the whole host",
    file: KernelFile { newest: FILE, older: &[], needs: "a kernel with CONFIG_RSEQ_SLICE_EXTENSION=y" },
    bounds: (5_000, 50_000),
    expected: "a duration from 5us to 50us",
    hindrance: Some(hindrance),
};

fn hindrance(host: &Host, is_missing: bool) -> Option<Availability> {
    // A kernel of an older number may have it all the same, so its number counts only where the file is missing.
    let release = host.read_value("/proc/sys/kernel/osrelease").ok().filter(|_| is_missing);
    if let Some(release) = release.filter(|release| major(release).is_some_and(|major| major < 7)) {
        return Some(Availability::unavailable_but(
            format!("Linux {release} has no time slice extension: it came with 7.0"),
            "use a kernel from 7.0 on that is built with CONFIG_RSEQ_SLICE_EXTENSION=y",
        ));
    }
    let machine = host.read_value("/proc/sys/kernel/arch").ok().filter(|_| is_missing);
    if let Some(machine) = machine.filter(|machine| machine.starts_with("aarch64") || machine.starts_with("ppc")) {
        return Some(Availability::unavailable_but(
            format!("Linux has no time slice extension on {machine}"),
            "use a machine of the kind x86, s390, riscv or loongarch",
        ));
    }
    if is_switched_off(&host.read_value("/proc/cmdline").unwrap_or_default()) {
        return Some(Availability::unavailable_but(
            "time slice extensions are switched off on the kernel's command line (rseq_slice_ext=), so their length \
             has no effect",
            "boot without rseq_slice_ext=0",
        ));
    }
    None
}

fn major(release: &str) -> Option<u32> {
    release.split('.').next()?.parse().ok()
}

/// True if the last `rseq_slice_ext=` that the kernel understands says no (lib/kstrtox.c:kstrtobool, v7.2).
fn is_switched_off(command_line: &str) -> bool {
    let words = command_line.split_ascii_whitespace().rev();
    let said = words.filter_map(|word| word.strip_prefix("rseq_slice_ext=")).find_map(|said| {
        let said = said.trim_matches('"').to_ascii_lowercase();
        match said.get(..1)? {
            "1" | "y" | "t" | "e" => Some(true),
            "0" | "n" | "f" | "d" => Some(false),
            "o" => match said.get(1..2)? {
                "n" => Some(true),
                "f" => Some(false),
                _ => None,
            },
            _ => None,
        }
    });
    said == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Knob, KnobContext};
    use holdup_host::fake::MemoryFs;
    use holdup_model::Value;

    const PATH: &str = "/sys/kernel/debug/rseq/slice_ext_nsec";
    const MOUNTS: (&str, &str) = ("/proc/mounts", "debugfs /sys/kernel/debug debugfs rw 0 0\n");

    fn probe(files: &[(&str, &str)], refused: Option<i32>) -> String {
        let fs = MemoryFs::of(files);
        if let Some(errno) = refused {
            fs.refuse("read", PATH, errno);
        }
        let host = fs.host();
        format!("{:?}", KNOB.probe(&KnobContext { host: &host, postgres: None, pids: Vec::new() }, ""))
    }

    #[test]
    fn each_reason_has_its_remedy() {
        let check = |files: &[(&str, &str)], refused: Option<i32>, expect: &str| {
            let found = probe(files, refused);
            assert!(found.contains(expect), "{files:?}: {found}");
        };
        let old = ("/proc/sys/kernel/osrelease", "6.18.15+deb13-amd64\n");
        let new = ("/proc/sys/kernel/osrelease", "7.2.12+deb14-amd64\n");
        let arm = ("/proc/sys/kernel/arch", "aarch64\n");
        let x86 = ("/proc/sys/kernel/arch", "x86_64\n");
        let off = ("/proc/cmdline", "quiet rseq_slice_ext=0\n");
        let there = (PATH, "5000\n");
        check(&[MOUNTS, old], None, "6.18.15+deb13-amd64 has no time slice extension");
        check(&[MOUNTS, old], None, "use a kernel from 7.0 on");
        check(&[MOUNTS, new, arm], None, "no time slice extension on aarch64");
        check(&[MOUNTS, new, arm], None, "x86, s390, riscv or loongarch");
        check(&[MOUNTS, new, x86], None, "use a kernel with CONFIG_RSEQ_SLICE_EXTENSION=y");
        check(&[new, x86], None, "mount -t debugfs");
        check(&[MOUNTS, new, x86, ("/sys/kernel/security/lockdown", "none [integrity]\n")], None, "without lockdown");
        check(&[MOUNTS, new, x86, there], Some(libc::EPERM), "locked down, also for root");
        check(&[MOUNTS, new, x86, there], Some(libc::EACCES), "run holdup as root");
        check(&[MOUNTS, new, x86, off, there], None, "boot without rseq_slice_ext=0");
        check(&[MOUNTS, new, x86, there], None, "Ready");
        check(&[MOUNTS, old, there], None, "Ready");
        check(&[MOUNTS, ("/proc/sys/kernel/osrelease", "\u{fffd}\n")], None, "CONFIG_RSEQ_SLICE_EXTENSION=y");
    }

    #[test]
    fn the_command_line_is_understood_as_the_kernel_does() {
        for off in ["rseq_slice_ext=0", "rseq_slice_ext=1 rseq_slice_ext=off", "rseq_slice_ext=No rseq_slice_ext=?"] {
            assert!(is_switched_off(off), "{off}");
        }
        for on in [
            "",
            "quiet",
            "rseq_slice_ext=0 rseq_slice_ext=on",
            "rseq_slice_ext=",
            "rseq_slice_ext=ö",
            "xrseq_slice_ext=0",
        ] {
            assert!(!is_switched_off(on), "{on}");
        }
    }

    #[test]
    fn lengths_that_the_kernel_refuses_are_refused_before() {
        for wrong in [Value::Integer(0), Value::Integer(4_999), Value::Integer(50_001), Value::Text("10us".to_owned())]
        {
            assert!(KNOB.check("", &wrong).expect_err("out of range").hint.is_some(), "{wrong:?}");
        }
        for right in [5_000, 50_000] {
            KNOB.check("", &Value::Integer(right)).expect("in range");
        }
    }
}
