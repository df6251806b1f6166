//! QEMU's arguments and the kernel's command line.

use super::{Chosen, MachineRequest};
use crate::arch::Architecture;
use holdup_host::network::LinkEnd;
use holdup_model::{Problem, guest::Guest};
use std::ffi::OsString;

/// `COMMAND_LINE_SIZE` of arch/x86/include/asm/setup.h and arch/arm64/include/uapi/asm/setup.h (2048 up to 7.2), without the
/// final zero. On s390x it is 4096 (`CONFIG_COMMAND_LINE_SIZE`), and QEMU takes as many where the kernel says so (since 5.16).
const MOST_COMMAND_LINE_BYTES: usize = 2047;

/// The virtio port for frames.
pub const PORT: &str = "holdup.agent";

/// File descriptors that QEMU inherits.
#[derive(Debug, Clone, Copy)]
pub struct Descriptors {
    /// The kernel's console.
    pub console: i32,
    /// Frames.
    pub channel: i32,
    /// QMP.
    pub monitor: i32,
    /// The link to the peer.
    pub link: Option<i32>,
}

/// The kernel's command line: the machine's needs, then the request's, which take precedence.
///
/// Nothing in it affects scheduling:
/// - `console=`: for panics. `quiet` limits it to warnings, because each byte is a VM exit; the whole log is in /dev/kmsg.
/// - the other words of the architecture.
/// - `panic=-1`: a panic restarts immediately, which ends QEMU (`-no-reboot`).
/// - `rdinit=/init`, `hugepages=` of the guest, and `holdup.channel=` ([`Architecture::channel`]) for the agent.
/// - with a peer: [`Link::words`].
///
/// # Errors
/// When it is longer than the kernel accepts.
pub fn command_line(request: &MachineRequest<'_>) -> Result<String, Problem> {
    let words = request.arch.kernel_words.iter().chain(&["quiet", "panic=-1", "rdinit=/init"]);
    let mut words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    words.push(format!("holdup.channel={}", request.arch.channel(request.virtio_console)));
    if let Some(pages) = request.guest.hugepages {
        words.push(format!("hugepages={pages}"));
    }
    if let Some(link) = request.link {
        words.extend(link.words());
    }
    words.push(request.command_line.trim().to_owned());
    let line = words.join(" ").trim_end().to_owned();
    if line.contains(['\n', '\0']) {
        return Err(Problem::usage("the kernel's command line", "it has a line feed or a zero byte"));
    }
    if line.len() > MOST_COMMAND_LINE_BYTES {
        let why = format!("it has {} bytes, and the kernel keeps {MOST_COMMAND_LINE_BYTES}", line.len());
        return Err(Problem::usage("the kernel's command line", why));
    }
    Ok(line)
}

/// QEMU's arguments. The CPUs start paused (`-S`) until QMP's `cont`, so that they can be pinned first.
///
/// # Errors
/// When the guest's settings are inconsistent.
pub fn arguments(
    request: &MachineRequest<'_>,
    chosen: &Chosen,
    descriptors: Descriptors,
) -> Result<Vec<OsString>, Problem> {
    let guest = request.guest;
    check(guest, request.arch)?;
    let mut all: Vec<OsString> = Vec::new();
    let mut add = |words: &[&str]| all.extend(words.iter().map(OsString::from));
    let threads = match chosen.accel {
        "tcg" if request.arch.has_parallel_emulation() => "tcg,thread=multi",
        accel => accel,
    };
    add(&["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-S"]);
    let name = if request.link.is_some_and(|l| l.end == LinkEnd::Server) { "holdup-peer" } else { "holdup-guest" };
    add(&["-name", name, "-M", request.arch.board, "-accel", threads]);
    add(&["-cpu", request.arch.cpu_model(chosen.accel)]);
    add(&["-rtc", "base=utc,clock=host"]);
    let (cpus, nodes) = (guest.cpus, guest.numa_nodes);
    add(&["-smp", &format!("{cpus},sockets={nodes},cores={},threads=1", cpus / nodes)]);
    add(&["-m", &format!("{}M", guest.memory_bytes >> 20)]);
    if nodes > 1 {
        for node in 0..nodes {
            let bytes = guest.memory_bytes >> 20;
            // The last node takes the remainder.
            let share = bytes / u64::from(nodes);
            let share = if node + 1 == nodes { bytes - share * u64::from(nodes - 1) } else { share };
            let (first, last) = (node * (cpus / nodes), (node + 1) * (cpus / nodes) - 1);
            add(&["-object", &format!("memory-backend-ram,id=memory{node},size={share}M")]);
            add(&["-numa", &format!("node,nodeid={node},cpus={first}-{last},memdev=memory{node}")]);
        }
    }
    add(&["-chardev", &format!("socket,id=console,fd={}", descriptors.console), "-serial", "chardev:console"]);
    add(&["-chardev", &format!("socket,id=channel,fd={}", descriptors.channel)]);
    match &request.arch.serial {
        Some(port) if !request.virtio_console => add(&port.arguments),
        _ => {
            add(&["-device", &format!("virtio-serial-{},max_ports=2", request.arch.virtio.suffix())]);
            add(&["-device", &format!("virtserialport,chardev=channel,name={PORT}")]);
        }
    }
    add(&["-chardev", &format!("socket,id=monitor,fd={}", descriptors.monitor)]);
    add(&["-mon", "chardev=monitor,mode=control"]);
    if let (Some(link), Some(descriptor)) = (request.link, descriptors.link) {
        for words in link.arguments(descriptor, &guest.nic_options, request.arch.virtio) {
            add(&words.each_ref().map(String::as_str));
        }
    }
    for (flag, path) in [("-kernel", request.kernel), ("-initrd", request.initramfs)] {
        all.extend([OsString::from(flag), path.as_os_str().to_owned()]);
    }
    all.extend([OsString::from("-append"), command_line(request)?.into()]);
    Ok(all)
}

/// No distribution kernel boots with less.
const LEAST_MEMORY_BYTES: u64 = 128 << 20;

fn check(guest: &Guest, arch: &Architecture) -> Result<(), Problem> {
    let Guest { cpus, numa_nodes, memory_bytes, .. } = *guest;
    if cpus == 0 || numa_nodes == 0 {
        return Err(Problem::usage("[guest]", format!("{cpus} CPUs in {numa_nodes} NUMA nodes")).hint("1 is the least"));
    }
    if numa_nodes > 1 && !arch.has_numa {
        let why = format!("QEMU's machine for {} has no NUMA nodes", arch.id);
        return Err(Problem::usage("[guest] numa_nodes", why).hint("leave it out"));
    }
    if cpus % numa_nodes != 0 {
        let why = format!("{cpus} CPUs cannot be shared evenly by {numa_nodes} NUMA nodes");
        return Err(Problem::usage("[guest] numa_nodes", why).hint("make cpus a multiple of it"));
    }
    if memory_bytes < LEAST_MEMORY_BYTES {
        let why = format!("{} MiB is less than {} MiB", memory_bytes >> 20, LEAST_MEMORY_BYTES >> 20);
        return Err(Problem::usage("[guest] memory", why));
    }
    Ok(())
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
mod tests;
