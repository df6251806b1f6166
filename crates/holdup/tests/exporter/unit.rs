//! The unit, started by a real systemd.

use crate::common::{Sandbox, is_root, program};
use holdup_testkit::ignore;
use std::path::Path;
use std::process::{Command, Stdio};

/// CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYSLOG, CAP_PERFMON, CAP_BPF (include/uapi/linux/capability.h).
const CAPABILITIES: u64 = 1 << 2 | 1 << 19 | 1 << 34 | 1 << 38 | 1 << 39;

pub(crate) fn the_unit_runs_without_root_and_is_restarted_by_systemd() {
    if !is_root() || !Path::new("/lib/systemd/systemd").exists() {
        ignore("it takes root and systemd");
    }
    let place = Sandbox::new();
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let status = Command::new("sh")
        .arg(here.join("tests/exporter/unit.sh"))
        .arg(here.join("../../packaging/systemd/holdup-exporter.service"))
        .arg(program())
        .arg(place.path(""))
        .stdout(Stdio::null())
        .status()
        .unwrap();
    if status.code() == Some(9) {
        ignore("there is no overlay of this root, or no cgroup v2");
    }
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap_or_default();
    let (facts, said) = (read("facts"), read("said"));
    let words = |name: &str| -> Vec<&str> {
        let line = facts.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name}: {facts}\n{said}")).split_whitespace().collect()
    };
    let uid: u32 = words("Uid:")[1].parse().unwrap();
    assert!((61_184..=65_519).contains(&uid), "a dynamic user: {uid}");
    for set in ["CapEff:", "CapBnd:"] {
        assert_eq!(u64::from_str_radix(words(set)[0], 16).unwrap(), CAPABILITIES, "{set}");
    }
    assert_eq!((words("NoNewPrivs:"), words("Seccomp:")), (vec!["1"], vec!["2"]));
    assert_eq!((words("NRestarts="), words("ActiveState=")), (vec!["1"], vec!["active"]));
    assert_eq!((words("MemoryMax="), words("CPUQuotaPerSecUSec=")), (vec!["536870912"], vec!["200ms"]));
    assert_eq!((words("Result="), words("ExecMainStatus=")), (vec!["success"], vec!["0"]));
    assert!(said.contains("account: inside a PID namespace"), "what is missing there is said: {said}");
}
