//! How the kernel says what the bytes of a tracepoint mean (`events/*/*/format` of tracefs), and the events of the scheduler by it.

use crate::event::{IN_INTERRUPT, Left, Name, TaskId, What, waker};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy)]
struct Field {
    at: usize,
    size: usize,
    is_signed: bool,
}

impl Field {
    fn number(self, bytes: &[u8]) -> Option<i64> {
        let bytes = bytes.get(self.at..self.at.checked_add(self.size)?)?;
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let unused = 64 - 8 * u32::try_from(self.size).ok()?.min(8);
        let number = i64::from_le_bytes(wide);
        Some(match (self.is_signed, unused) {
            (_, 64) => 0,
            (true, _) => number << unused >> unused,
            (false, _) => number,
        })
    }

    fn name(self, bytes: &[u8]) -> Option<Name> {
        Some(Name::of(bytes.get(self.at..self.at.checked_add(self.size)?)?))
    }
}

/// A task's fields in a record.
#[derive(Debug, Clone, Copy)]
struct TaskFields {
    tid: Field,
    priority: Field,
    name: Field,
}

impl TaskFields {
    fn of(fields: &BTreeMap<&str, Field>, before: &str) -> Option<Self> {
        let field = |name: &str| fields.get(format!("{before}{name}").as_str()).copied();
        Some(TaskFields { tid: field("pid")?, priority: field("prio")?, name: field("comm")? })
    }

    fn read(self, bytes: &[u8]) -> Option<TaskId> {
        Some(TaskId {
            tid: u32::try_from(self.tid.number(bytes)?).ok()?,
            priority: i32::try_from(self.priority.number(bytes)?).ok()?,
            name: self.name.name(bytes)?,
        })
    }
}

#[derive(Debug, Clone)]
enum Kind {
    Switch { from: TaskFields, to: TaskFields, state: Field, letters: StateLetters },
    Wake { task: TaskFields, cpu: Field, how: Wake },
    Migrate { tid: Field, to_cpu: Field },
    SystemCall { number: Field },
    SystemCallEnd,
}

#[derive(Debug, Clone, Copy)]
enum Wake {
    Waking,
    Woken,
    New,
}

/// The bits of a state, as the format prints them: their numbers have changed between kernels.
#[derive(Debug, Clone, Default)]
struct StateLetters {
    bits: Vec<(u64, char)>,
    /// Set for a task that was preempted inside the kernel.
    in_kernel: u64,
}

impl StateLetters {
    /// From `{ 0x0001, "S" }, { 0x0002, "D" }, …` in the print format. The bit behind the last of them marks preemption
    /// (TASK_REPORT_MAX since 4.14, TASK_STATE_MAX before).
    fn of(print: &str) -> Self {
        let pair = |part: &str| {
            let (number, rest) = part.split_once(',')?;
            let letter = rest.split('"').nth(1)?.chars().next()?;
            let number = number.trim();
            let bits = match number.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16),
                None => number.parse(),
            };
            Some((bits.ok()?, letter))
        };
        let bits: Vec<(u64, char)> = print.split('{').skip(1).filter_map(pair).collect();
        let last = bits.iter().map(|(bit, _)| *bit).max().unwrap_or(0);
        StateLetters { bits, in_kernel: last.checked_shl(1).unwrap_or(0) }
    }

    fn left(&self, state: u64) -> Left {
        let letter = self.bits.iter().find(|(bit, _)| state & bit != 0).map(|(_, letter)| *letter);
        match letter {
            None if state & self.in_kernel != 0 => Left::InKernel,
            None => Left::UserBoundary,
            Some(letter) => Left::of_letters(letter.encode_utf8(&mut [0; 4])).unwrap_or(Left::Sleeping),
        }
    }
}

/// The events of a trace that are understood, by their numbers in it.
#[derive(Debug, Default)]
pub(crate) struct Formats {
    kinds: BTreeMap<u16, (Kind, Common)>,
    /// The names of those that are understood.
    pub(crate) names: Vec<String>,
}

/// The fields that all events have.
#[derive(Debug, Clone, Copy)]
struct Common {
    tid: Field,
    flags: Field,
}

impl Formats {
    /// Adds what a format file says; one that is not understood is left out.
    pub(crate) fn add(&mut self, system: &str, text: &str) {
        if matches!(system, "sched" | "raw_syscalls") {
            self.add_known(text);
        }
    }

    fn add_known(&mut self, text: &str) -> Option<()> {
        let line = |key: &str| text.lines().find_map(|line| line.trim().strip_prefix(key)).map(str::trim);
        let (name, number) = (line("name:")?, line("ID:")?.parse().ok()?);
        let fields: BTreeMap<&str, Field> = text.lines().filter_map(field).collect();
        let get = |name: &str| fields.get(name).copied();
        let wake = |how| {
            Some(Kind::Wake { task: TaskFields::of(&fields, "")?, cpu: get("target_cpu").or_else(|| get("cpu"))?, how })
        };
        let kind = match name {
            "sched_switch" => Kind::Switch {
                from: TaskFields::of(&fields, "prev_")?,
                to: TaskFields::of(&fields, "next_")?,
                state: get("prev_state")?,
                letters: StateLetters::of(line("print fmt:")?),
            },
            "sched_waking" => wake(Wake::Waking)?,
            "sched_wakeup" => wake(Wake::Woken)?,
            "sched_wakeup_new" => wake(Wake::New)?,
            "sched_migrate_task" => Kind::Migrate { tid: get("pid")?, to_cpu: get("dest_cpu")? },
            "sys_enter" => Kind::SystemCall { number: get("id")? },
            "sys_exit" => Kind::SystemCallEnd,
            _ => return None,
        };
        self.kinds.insert(number, (kind, Common { tid: get("common_pid")?, flags: get("common_flags")? }));
        self.names.push(name.to_owned());
        Some(())
    }

    /// What a record says; `None` where it is of another event, or is shorter than its fields.
    pub(crate) fn read(&self, bytes: &[u8]) -> Option<What> {
        let number = crate::bytes::u16_at(bytes, 0)?;
        let (kind, common) = self.kinds.get(&number)?;
        let own = || Some(u32::try_from(common.tid.number(bytes)?).unwrap_or(0));
        Some(match kind {
            Kind::Switch { from, to, state, letters } => What::Switch {
                from: from.read(bytes)?,
                left: letters.left(state.number(bytes)?.cast_unsigned()),
                to: to.read(bytes)?,
            },
            Kind::Wake { task, cpu, how } => {
                let flags = common.flags.number(bytes)?.cast_unsigned();
                let by = waker(own()?, flags & IN_INTERRUPT != 0);
                let (task, cpu) = (task.read(bytes)?, u32::try_from(cpu.number(bytes)?).ok()?);
                match how {
                    Wake::Waking => What::Waking { task, cpu, by },
                    Wake::Woken => What::Wakeup { task, cpu, by, is_new: false },
                    Wake::New => What::Wakeup { task, cpu, by, is_new: true },
                }
            }
            Kind::Migrate { tid, to_cpu } => What::Migrate {
                tid: u32::try_from(tid.number(bytes)?).ok()?,
                to_cpu: u32::try_from(to_cpu.number(bytes)?).ok()?,
            },
            Kind::SystemCall { number } => {
                What::SystemCall { tid: own()?, number: u32::try_from(number.number(bytes)?).ok()? }
            }
            Kind::SystemCallEnd => What::SystemCallEnd { tid: own()? },
        })
    }
}

/// `field:char prev_comm[16]; offset:8; size:16; signed:0;`, with tabs between them.
fn field(line: &str) -> Option<(&str, Field)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?;
    let name = declared.split('[').next()?.rsplit(|c: char| c.is_whitespace() || c == '*').next()?;
    let (mut at, mut size, mut is_signed) = (None, None, false);
    for part in parts {
        match part.split_once(':') {
            Some(("offset", number)) => at = number.parse().ok(),
            Some(("size", number)) => size = number.parse().ok(),
            Some(("signed", number)) => is_signed = number == "1",
            _ => {}
        }
    }
    Some((name, Field { at: at?, size: size?, is_signed }))
}
