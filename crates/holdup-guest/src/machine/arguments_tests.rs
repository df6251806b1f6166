use super::super::{Chosen, Link, Nic};
use super::*;
use std::path::Path;
use std::time::Duration;

fn line(guest: &Guest, arch: &str, accel: &'static str, virtio_console: bool) -> Result<String, Problem> {
    linked(guest, (arch, accel, virtio_console), None)
}

fn linked(
    guest: &Guest,
    (arch, accel, virtio_console): (&str, &'static str, bool),
    link: Option<Link>,
) -> Result<String, Problem> {
    let request = MachineRequest {
        kernel: Path::new("/k/vmlinuz"),
        initramfs: Path::new("/k/initramfs"),
        guest,
        command_line: "preempt=lazy",
        arch: crate::arch::find(arch).unwrap(),
        virtio_console,
        folder: Path::new("/run"),
        silence: Duration::from_secs(60),
        link,
    };
    let chosen = Chosen { accel, why: None, program: "/bin/qemu".into(), qemu_version: "7.2.22".into(), host_cpus: 2 };
    let all =
        arguments(&request, &chosen, Descriptors { console: 10, channel: 11, monitor: 12, link: link.map(|_| 13) })?;
    let mut text = String::new();
    for word in all {
        let word = word.into_string().unwrap();
        text += if word.starts_with('-') { "\n" } else { " " };
        text += &word;
    }
    Ok(text.trim().to_owned())
}

#[test]
fn arguments_of_an_emulated_guest() {
    insta::assert_snapshot!(line(&Guest::default(), "x86_64", "tcg", false).unwrap());
}

#[test]
fn arguments_of_a_guest_with_nodes_and_huge_pages() {
    let guest = Guest { cpus: 8, numa_nodes: 3, memory_bytes: 4 << 30, hugepages: Some(512), ..Guest::default() };
    let error = line(&guest, "x86_64", "kvm", true).unwrap_err();
    assert_eq!(error.why, "8 CPUs cannot be shared evenly by 3 NUMA nodes");
    insta::assert_snapshot!(line(&Guest { cpus: 6, ..guest }, "x86_64", "kvm", true).unwrap());
}

#[test]
fn arguments_of_an_arm_guest() {
    insta::assert_snapshot!(line(&Guest { cpus: 1, ..Guest::default() }, "aarch64", "tcg", false).unwrap());
}

#[test]
fn arguments_of_an_s390x_guest_with_a_peer() {
    let guest = Guest { cpus: 2, peer: true, nic_options: "mrg_rxbuf=off".to_owned(), ..Guest::default() };
    let link = Link { end: LinkEnd::Client, nic: Nic::VirtioNet };
    // It has no serial port for frames, whether or not its kernel is known to have a virtio console.
    let of = |virtio_console| linked(&guest, ("s390x", "tcg", virtio_console), Some(link)).unwrap();
    insta::assert_snapshot!(of(true));
    assert_eq!(of(true), of(false));
    let error = line(&Guest { cpus: 2, numa_nodes: 2, ..Guest::default() }, "s390x", "tcg", true).unwrap_err();
    assert_eq!(error.why, "QEMU's machine for s390x has no NUMA nodes");
}

#[test]
fn arguments_of_a_guest_and_its_peer() {
    let guest = Guest { cpus: 2, peer: true, nic_options: "mrg_rxbuf=off".to_owned(), ..Guest::default() };
    let of = |end, nic, guest| linked(guest, ("x86_64", "tcg", true), Some(Link { end, nic })).unwrap();
    let both = [of(LinkEnd::Client, Nic::VirtioNet, &guest), of(LinkEnd::Server, Nic::VirtioNet, &guest)];
    insta::assert_snapshot!(both.join("\n\n"));
    let plain = Guest { nic_options: String::new(), ..guest.clone() };
    let emulated = of(LinkEnd::Server, Nic::E1000, &plain);
    assert!(emulated.contains("-device e1000,netdev=link,mac=52:54:00:4d:00:02,romfile=\n"), "{emulated}");
}

#[test]
fn inconsistent_guests_are_refused() {
    let error = |guest: Guest| line(&guest, "x86_64", "tcg", false).unwrap_err().to_string();
    assert!(error(Guest { cpus: 0, ..Guest::default() }).contains("0 CPUs"));
    assert!(error(Guest { numa_nodes: 0, ..Guest::default() }).contains("0 NUMA nodes"));
    assert!(error(Guest { memory_bytes: 64 << 20, ..Guest::default() }).contains("64 MiB is less than 128 MiB"));
}

#[test]
fn a_command_line_that_the_kernel_would_truncate_is_refused() {
    let guest = Guest::default();
    let of = |command_line: &str| {
        let request = MachineRequest {
            kernel: Path::new("k"),
            initramfs: Path::new("i"),
            guest: &guest,
            command_line,
            arch: crate::arch::find("amd64").unwrap(),
            virtio_console: true,
            folder: Path::new("."),
            silence: Duration::from_secs(60),
            link: None,
        };
        super::command_line(&request)
    };
    let bare = of("").unwrap();
    assert!(bare.ends_with("holdup.channel=port:holdup.agent"), "{bare}");
    let room = MOST_COMMAND_LINE_BYTES - bare.len() - 1;
    assert_eq!(of(&"x".repeat(room)).map(|l| l.len()), Ok(2047));
    assert_eq!(of(&"x".repeat(room + 1)).unwrap_err().why, "it has 2048 bytes, and the kernel keeps 2047");
    assert!(of("a\nb").is_err());
}
