//! `[guest]`: the machine that each boot gets.

use crate::boot::{BootFactor, check_parameter, targets_hint};
use crate::checker::Checker;
use crate::draft::{Draft, find};
use crate::errors::Wrong;
use crate::node::{Data, Entry};
use crate::values::TextIs;
use crate::words::{did_you_mean, shown};
use holdup_model::catalogue::KnobWords;
use holdup_model::guest::{Accelerator, BOOT_PREFIX, Devices, GuestArch, HOST, KERNEL};
use holdup_model::{Guest, ParameterKind, Value};

/// The keys of `[guest]`.
pub(crate) const GUEST_KEYS: &[&str] = &[
    "cpus",
    "memory",
    "numa",
    "hugepages",
    "append",
    "arch",
    "program",
    "accel",
    "pin",
    "devices",
    "boot_timeout",
    "peer",
    "nic_options",
];

const ARCHITECTURES: [GuestArch; 4] = [GuestArch::Host, GuestArch::Amd64, GuestArch::Arm64, GuestArch::S390x];

/// The longest `nic_options`, bytes.
const MOST_NIC_OPTIONS: usize = 500;

/// Properties of a network card that are not a plan's to set: what holds the machine together, and what names a file of
/// this host.
const OWN_NIC_OPTIONS: &[&str] = &["netdev", "vlan", "id", "driver", "bus", "addr", "mac", "romfile"];

const MOST_CPUS: i64 = 1024;
const MOST_NODES: i64 = 64;
/// Guests get whole megabytes.
const MEGABYTE: u64 = 1 << 20;
const LEAST_BYTES: u64 = 64 * MEGABYTE;
const MOST_BYTES: u64 = 64 << 40;
/// The kernel takes 2048 bytes for its whole command line (COMMAND_LINE_SIZE, x86).
const MOST_APPEND: usize = 1500;

impl Checker<'_> {
    /// The guest of a plan whose target boots one. Amounts in it are relative to this machine; those of the rest of the
    /// plan are relative to the guest.
    pub(crate) fn guest(&mut self, draft: &Draft) -> Option<Guest> {
        for entry in draft.guest.iter().filter(|e| !GUEST_KEYS.contains(&e.key.as_str())) {
            let wrong = Wrong::new("[guest] has no such key").hint(did_you_mean(&entry.key, GUEST_KEYS));
            self.complain(&entry.place, format!("key `{}`", shown(&entry.key)), wrong);
        }
        if self.boots != Some(true) {
            if let Some(first) = draft.guest.first().filter(|_| self.boots == Some(false)) {
                let wrong = Wrong::new("the target of this plan boots no guest")
                    .hint(targets_hint(&self.words.all.boot_targets));
                self.complain(&first.place, format!("{} of [guest]", shown(&first.key)), wrong);
            }
            return None;
        }
        let keys = &draft.guest;
        let default = Guest::default();
        let cpus = self.guest_count(keys, "cpus", 1, MOST_CPUS).unwrap_or(default.cpus);
        let numa_nodes = self.guest_count(keys, "numa", 1, MOST_NODES).unwrap_or(default.numa_nodes);
        if let Some(entry) = find(keys, "numa").filter(|_| !cpus.is_multiple_of(numa_nodes)) {
            let wrong = Wrong::new(format!("{cpus} cpus cannot be shared evenly by {numa_nodes} nodes"))
                .hint("a number of nodes that divides cpus");
            self.complain(&entry.node.place, format!("numa = {}", entry.node.written()), wrong);
        }
        let guest = Guest {
            cpus,
            memory_bytes: self.guest_memory(keys, numa_nodes).unwrap_or(default.memory_bytes),
            numa_nodes,
            hugepages: self.guest_count(keys, "hugepages", 0, i64::from(u32::MAX)),
            append: self.append(keys).unwrap_or_default(),
            arch: ARCHITECTURES[self.word(keys, "arch", &ARCHITECTURES.map(GuestArch::word))],
            program: self.program(keys).unwrap_or_default(),
            accel: [Accelerator::Auto, Accelerator::Kvm, Accelerator::Tcg]
                [self.word(keys, "accel", &["auto", "kvm", "tcg"])],
            pin: self.pin(keys),
            devices: [Devices::Auto, Devices::Virtio, Devices::Emulated]
                [self.word(keys, "devices", &["auto", "virtio", "emulated"])],
            boot_timeout_ns: self.duration_of(keys, "boot_timeout", false).unwrap_or(default.boot_timeout_ns),
            peer: self.truth_of(keys, "peer", default.peer),
            nic_options: self.nic_options(keys).unwrap_or_default(),
        };
        if let Some(entry) = find(keys, "nic_options").filter(|_| !guest.peer && !guest.nic_options.is_empty()) {
            let wrong = Wrong::new("a guest without a peer has no network card").hint("peer = true gives it both");
            self.complain(&entry.place, "nic_options of [guest]", wrong);
        }
        self.machine = guest.machine();
        self.kernel_is_named(draft);
        self.same_parameters(draft);
        Some(guest)
    }

    /// What a guest does is the answer of its kernel, so a plan says which.
    fn kernel_is_named(&mut self, draft: &Draft) {
        if find(&draft.factors, KERNEL).or_else(|| find(&draft.settings, KERNEL)).is_some() {
            return;
        }
        let place = find(&draft.head, "target").map_or_else(|| self.begin(draft), |e| e.node.place.clone());
        let wrong = Wrong::new("no kernel is named for its guests").hint("kernel = \"debian:7.0\" in [set]");
        self.complain(&place, "the plan", wrong);
    }

    /// The kernel takes `-` and `_` in the name of a parameter for the same (kernel/params.c:parameq, Linux 6.19), and
    /// of two values the last.
    fn same_parameters(&mut self, draft: &Draft) {
        let of_boot = |e: &&Entry| e.key.starts_with(BOOT_PREFIX);
        let all: Vec<&Entry> = draft.settings.iter().chain(&draft.factors).filter(of_boot).collect();
        let plain = |entry: &Entry| entry.key.replace('-', "_");
        for (at, entry) in all.iter().enumerate() {
            if let Some(first) = all[..at].iter().find(|e| e.key != entry.key && plain(e) == plain(entry)) {
                let wrong = Wrong::new(format!("it is the same parameter as `{}`", shown(&first.key))).hint("keep one");
                self.complain(&entry.place, format!("`{}`", shown(&entry.key)), wrong);
            }
        }
    }

    /// What a text is that names something chosen at boot.
    pub(crate) fn at_boot(&self, name: &str, words: &KnobWords) -> Result<(ParameterKind, TextIs), Wrong> {
        if name == HOST {
            let target = self.words.all.host_targets.first().copied().unwrap_or("ssh");
            return match self.is_elsewhere {
                Some(false) => {
                    Err(Wrong::new("it names the host of a trial, and the target of this plan has only one")
                        .hint(format!("target = \"{target}:A,B\"")))
                }
                _ => Ok((words.values, TextIs::Boot(BootFactor::of(words.id)))),
            };
        }
        if self.boots == Some(false) {
            let wrong = Wrong::new("it is chosen when a guest boots, and the target of this plan boots none");
            return Err(wrong.hint(targets_hint(&self.words.all.boot_targets)));
        }
        if let Some(parameter) = name.strip_prefix(BOOT_PREFIX) {
            check_parameter(parameter)?;
        }
        Ok((words.values, TextIs::Boot(BootFactor::of(words.id))))
    }

    fn guest_count(&mut self, keys: &[Entry], key: &str, min: i64, max: i64) -> Option<u32> {
        let entry = find(keys, key)?;
        let typed = self.value(key, &entry.node, &ParameterKind::Integer { min, max }, TextIs::Plain)?;
        match typed.level.value {
            Value::Integer(i) => u32::try_from(i).ok(),
            _ => None,
        }
    }

    fn guest_memory(&mut self, keys: &[Entry], nodes: u32) -> Option<u64> {
        let entry = find(keys, "memory")?;
        let typed = self.value("memory", &entry.node, &ParameterKind::SIZE, TextIs::Plain)?;
        let Value::Integer(bytes) = typed.level.value else { return None };
        let step = MEGABYTE * u64::from(nodes);
        let bytes = u64::try_from(bytes).ok()?;
        // A share of this machine's memory is seldom a whole number of megabytes; what is written out must be.
        let bytes = if typed.relative { bytes - bytes % step } else { bytes };
        let wrong = if !(LEAST_BYTES..=MOST_BYTES).contains(&bytes) {
            Wrong::new("it must be from 64MB to 64TB")
        } else if !bytes.is_multiple_of(step) {
            let each = if nodes > 1 { format!(" for each of {nodes} nodes") } else { String::new() };
            Wrong::new(format!("it must be a whole number of MB{each}"))
        } else {
            return Some(bytes);
        };
        self.complain(&entry.node.place, format!("memory = {}", entry.node.written()), wrong);
        None
    }

    fn append(&mut self, keys: &[Entry]) -> Option<String> {
        let entry = find(keys, "append")?;
        let typed = self.value("append", &entry.node, &ParameterKind::Text, TextIs::Plain)?;
        let Value::Text(text) = typed.level.value else { return None };
        let text = text.trim();
        let is_printable = |c: char| c.is_ascii_graphic() || c == ' ';
        let wrong = if text.len() > MOST_APPEND {
            Wrong::new(format!("it has more than {MOST_APPEND} bytes"))
        } else if let Some(c) = text.chars().find(|c| !is_printable(*c)) {
            Wrong::new(format!("`{}` cannot stand on a kernel's command line", shown(&c.to_string())))
                .hint("one line of ASCII")
        } else {
            return Some(text.to_owned());
        };
        self.complain(&entry.node.place, format!("append = {}", entry.node.written()), wrong);
        None
    }

    /// Whether there is such a file is the target's question.
    fn program(&mut self, keys: &[Entry]) -> Option<String> {
        let entry = find(keys, "program")?;
        let typed = self.value("program", &entry.node, &ParameterKind::Text, TextIs::Plain)?;
        let Value::Text(text) = typed.level.value else { return None };
        Some(text.trim().to_owned())
    }

    /// Properties of QEMU's device. Which there are is QEMU's to say; here they are only kept from being anything else.
    fn nic_options(&mut self, keys: &[Entry]) -> Option<String> {
        let entry = find(keys, "nic_options")?;
        let typed = self.value("nic_options", &entry.node, &ParameterKind::Text, TextIs::Plain)?;
        let Value::Text(text) = typed.level.value else { return None };
        let text = text.trim();
        let wrong = match wrong_nic_options(text) {
            None => return Some(text.to_owned()),
            Some(wrong) => wrong,
        };
        self.complain(&entry.node.place, format!("nic_options = {}", entry.node.written()), wrong);
        None
    }

    /// The host's CPUs. Whether there are such is the target's question.
    fn pin(&mut self, keys: &[Entry]) -> Vec<u32> {
        let Some(entry) = find(keys, "pin") else { return Vec::new() };
        let mut cpus: Vec<u32> = Vec::new();
        for node in entry.node.levels().iter().filter(|n| !n.is_bad()) {
            let cpu = match &node.data {
                Data::Integer(i) => u32::try_from(*i).ok(),
                _ => None,
            };
            let wrong = match cpu.filter(|cpu| i64::from(*cpu) < 64 * MOST_CPUS) {
                Some(cpu) if cpus.contains(&cpu) => Wrong::new("this CPU stands there twice").hint("name it once"),
                Some(cpu) => {
                    cpus.push(cpu);
                    continue;
                }
                None => Wrong::new("it is not the number of a CPU").hint("pin = [0, 1]: CPUs of this host, from 0"),
            };
            self.complain(&node.place, format!("pin = {}", node.written()), wrong);
        }
        cpus
    }
}

fn wrong_nic_options(text: &str) -> Option<Wrong> {
    let hint = "for example \"mrg_rxbuf=off,mq=off\"";
    if text.len() > MOST_NIC_OPTIONS {
        return Some(Wrong::new(format!("it has more than {MOST_NIC_OPTIONS} bytes")));
    }
    let is_known = |c: char| c.is_ascii_alphanumeric() || "-_.=,".contains(c);
    if let Some(c) = text.chars().find(|c| !is_known(*c)) {
        let why = format!("`{}` cannot stand in a property of a network card", shown(&c.to_string()));
        return Some(Wrong::new(why).hint(hint));
    }
    for option in text.split(',').filter(|_| !text.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        if name.is_empty() || value.is_empty() || value.contains('=') {
            return Some(Wrong::new(format!("`{}` is no NAME=VALUE", shown(option))).hint(hint));
        }
        if OWN_NIC_OPTIONS.contains(&name) {
            return Some(Wrong::new(format!("`{name}` is set by holdup itself")));
        }
    }
    None
}
