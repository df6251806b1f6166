//! The kernel's console: its last MiB, and the lines that explain the end of a guest.

use std::collections::VecDeque;

/// The size of the ring.
pub const KEPT_BYTES: usize = 1 << 20;

/// Longer lines are split.
const LINE_BYTES: usize = 4096;

const MOST_NOTES: usize = 100;

/// The end of a guest according to the console, with the line.
///
/// Source: `panic` in kernel/panic.c, `do_exit` in kernel/exit.c, `out_of_memory` in mm/oom_kill.c, `__die` in arch/*/kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The kernel panicked, or oopsed, which makes everything after it unreliable.
    Panic(String),
    /// A panic for lack of memory, or the OOM killer took the agent.
    OutOfMemory(String),
    /// The first process ended or could not be started.
    InitDied(String),
}

/// The console so far.
#[derive(Debug, Clone, Default)]
pub struct Console {
    kept: VecDeque<u8>,
    total_bytes: u64,
    line: Vec<u8>,
    verdict: Option<Verdict>,
    notes: Vec<String>,
}

impl Console {
    /// Adds bytes. A line counts when it is complete.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        let newest = &bytes[bytes.len().saturating_sub(KEPT_BYTES)..];
        let surplus = (self.kept.len() + newest.len()).saturating_sub(KEPT_BYTES);
        self.kept.drain(..surplus);
        self.kept.extend(newest);
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            for part in piece.chunks(LINE_BYTES) {
                self.line.extend_from_slice(part);
                if part.last() == Some(&b'\n') || self.line.len() >= LINE_BYTES {
                    self.end_line();
                }
            }
        }
    }

    /// Ends an incomplete line: no more bytes will come.
    pub fn end_line(&mut self) {
        let line = readable(&std::mem::take(&mut self.line));
        if let Some(verdict) = verdict(&line) {
            // The first reason counts; later ones follow from it.
            self.verdict.get_or_insert(verdict);
        } else if is_notable(&line) && self.notes.len() < MOST_NOTES {
            self.notes.push(line);
        }
    }

    /// What ended the guest, if the console shows it.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// Lines to report with the results: soft lockups, RCU stalls, warnings, OOM kills. At most 100.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The bytes in the ring, oldest first.
    pub fn bytes(&self) -> Vec<u8> {
        self.kept.iter().copied().collect()
    }

    /// All bytes so far.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// The last non-empty lines, without control characters.
    pub fn tail(&self, lines: usize) -> Vec<String> {
        let mut tail = VecDeque::new();
        let bytes = self.bytes();
        for line in bytes.rsplit(|b| *b == b'\n') {
            if tail.len() >= lines {
                break;
            }
            for part in line.rchunks(LINE_BYTES) {
                let text = readable(part);
                if !text.is_empty() && tail.len() < lines {
                    tail.push_front(text);
                }
            }
        }
        tail.into()
    }
}

/// Removes control sequences, and replaces what is not UTF-8.
fn readable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let mut clean = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' && characters.peek() == Some(&'[') {
            characters.next();
            while characters.next_if(|c| matches!(c, '0'..='9' | ';' | '?')).is_some() {}
            characters.next();
        } else if !character.is_control() {
            clean.push(character);
        } else if character == '\t' {
            clean.push(' ');
        }
    }
    clean.trim().to_owned()
}

const PANIC: &str = "Kernel panic - not syncing";

/// After one of these a thread has died with its locks.
const OOPS: &[&str] = &[
    "Internal error: ",
    "Oops: ",
    "BUG: unable to handle",
    "BUG: kernel NULL pointer dereference",
    "Unable to handle kernel ",
    "general protection fault",
    "kernel BUG at ",
    "invalid opcode: ",
    "double fault: ",
    "stack guard page was hit",
];

const NOTABLE: &[&str] = &[
    "BUG: soft lockup",
    "watchdog: Watchdog detected hard LOCKUP",
    "rcu: INFO: rcu_",
    "self-detected stall",
    "blocked for more than",
    "WARNING: ",
    "Out of memory: Killed process",
    "Initramfs unpacking failed",
    "segfault at",
    "Call trace unavailable",
];

fn verdict(line: &str) -> Option<Verdict> {
    let line_of = || line.to_owned();
    if let Some((_, reason)) = line.split_once(PANIC) {
        return Some(if reason.contains("Attempted to kill init") || reason.contains("No working init found") {
            Verdict::InitDied(line_of())
        } else if reason.contains("deadlocked on memory") || reason.to_lowercase().contains("out of memory") {
            Verdict::OutOfMemory(line_of())
        } else {
            Verdict::Panic(line_of())
        });
    }
    if line.contains(crate::init::AGENT_DIED) {
        return Some(Verdict::InitDied(line_of()));
    }
    if killed_for_memory(line).is_some_and(|name| name == "init" || name.starts_with("holdup")) {
        return Some(Verdict::OutOfMemory(line_of()));
    }
    // A trap of a user program has similar words (`traps: postgres[12] general protection fault ip:`).
    let user = line.contains("traps: ") || line.contains(" ip:");
    (!user && OOPS.iter().any(|o| line.contains(o))).then(|| Verdict::Panic(line_of()))
}

/// The process in `Out of memory: Killed process 1 (init) total-vm:…`. Kills for a cgroup's limit do not concern the guest.
fn killed_for_memory(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("Out of memory: Killed process ")?;
    let name = rest.split_once('(')?.1.split_once(')')?.0;
    (!before.ends_with("cgroup ")).then_some(name)
}

fn is_notable(line: &str) -> bool {
    NOTABLE.iter().any(|n| line.contains(n))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn after(pieces: &[&[u8]]) -> Console {
        let mut console = Console::default();
        for piece in pieces {
            console.feed(piece);
        }
        console
    }

    #[test]
    fn the_causes_of_a_guests_end_are_distinguished() {
        let check = |line: &str, make: Option<fn(String) -> Verdict>| {
            let console = after(&[b"[    1.000000] Run /init as init process\r\n", line.as_bytes(), b"\r\n"]);
            assert_eq!(console.verdict(), make.map(|m| m(line.to_owned())).as_ref(), "{line}");
        };
        let panic: Option<fn(String) -> Verdict> = Some(Verdict::Panic);
        let memory: Option<fn(String) -> Verdict> = Some(Verdict::OutOfMemory);
        let init: Option<fn(String) -> Verdict> = Some(Verdict::InitDied);
        check("[    2.1] Kernel panic - not syncing: Attempted to kill init! exitcode=0x00000100", init);
        check("[    2.1] Kernel panic - not syncing: No working init found.  Try passing init= option", init);
        check("[    2.1] Kernel panic - not syncing: System is deadlocked on memory", memory);
        check("[    2.1] Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled", memory);
        check("[    2.1] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)", panic);
        check("[    9.9] Oops: Oops: 0002 [#1] PREEMPT SMP NOPTI", panic);
        check("[    9.9] Internal error: Oops: 0000000096000044 [#1] PREEMPT SMP", panic);
        check("[    9.9] BUG: kernel NULL pointer dereference, address: 0000000000000010", panic);
        check("[    9.9] Out of memory: Killed process 77 (holdup-agent) total-vm:1kB", memory);
        check("[    9.9] Out of memory: Killed process 78 (postgres) total-vm:9kB, anon-rss:1kB", None);
        check("[    9.9] Memory cgroup out of memory: Killed process 78 (holdup) total-vm:9kB", None);
        check("[    9.9] watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [postgres:212]", None);
        check("[    9.9] traps: pgbench[70] general protection fault ip:55d0 sp:7ffc error:0 in pgbench", None);
        check("[    9.9] Freeing unused kernel image (initmem) memory: 2000K", None);
    }

    #[test]
    fn the_first_reason_and_the_notes_are_recorded() {
        let console = after(&[
            b"watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [x:1]\n",
            b"Oops: Oops: 0002 [#1] SMP\nKernel panic - not syncing: Attempted to kill init! exitcode=0x9\n",
        ]);
        assert_eq!(console.verdict(), Some(&Verdict::Panic("Oops: Oops: 0002 [#1] SMP".to_owned())));
        assert_eq!(console.notes(), ["watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [x:1]"]);
    }

    #[test]
    fn a_line_without_end_counts_at_the_end() {
        let mut console = after(&[b"Kernel panic - not syncing: ", b"hung_task"]);
        assert_eq!(console.verdict(), None);
        console.end_line();
        assert_eq!(console.verdict(), Some(&Verdict::Panic("Kernel panic - not syncing: hung_task".to_owned())));
    }

    #[test]
    fn the_ring_is_bounded_and_its_tail_readable() {
        let mut console = Console::default();
        for i in 0..3000 {
            console.feed(format!("{i} {}\r\n", "x".repeat(1000)).as_bytes());
        }
        console.feed(b"\x1b[0;32mSeaBIOS\x1b[0m \xff\x00 z\r\n\r\n");
        assert_eq!(console.bytes().len(), KEPT_BYTES);
        assert!(console.total_bytes() > 3_000_000);
        assert_eq!(console.tail(1), ["SeaBIOS \u{fffd} z"]);
        assert!(console.tail(2)[0].starts_with("2999 xxx"));
        assert!(console.tail(usize::MAX).len() < 3000);
    }

    proptest! {
        #[test]
        fn a_panic_is_found_in_any_noise(
            noise in prop::collection::vec(any::<u8>(), 0..6000), cut in 1usize..50,
        ) {
            let mut line = noise;
            line.extend_from_slice(b"\n[ 1.0] Kernel panic - not syncing: x\r\n");
            let mut console = Console::default();
            for piece in line.chunks(cut) {
                console.feed(piece);
            }
            prop_assert!(matches!(console.verdict(), Some(Verdict::Panic(l)) if l.ends_with("not syncing: x")));
            prop_assert_eq!(console.total_bytes(), line.len() as u64);
        }
    }
}
