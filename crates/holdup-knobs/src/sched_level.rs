//! The levels of `sched-policy` in words: `batch nice:5 slice:3ms`.

use holdup_host::Scheduling;
use holdup_model::{Problem, Value};
use std::fmt;

use crate::refused::wrong;

const EXPECTED: &str = "idle, fifo:N (1 to 99), or other or batch with nice:N (-20 to 19) and slice:D (100us to \
                        100ms) after it, such as `batch nice:5`; other may be left out";

/// A level as asked for; what it means for a task can depend on the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Fair { is_batch: bool, nice: i32, slice_ns: Option<u64> },
    Idle,
    Fifo(i32),
}

/// What shall become of a task's slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slice {
    /// The policy does not let it be set.
    Kept,
    Default,
    Own(u64),
}

impl Level {
    pub(crate) fn parse(value: &Value) -> Result<Level, Problem> {
        let refused = || wrong("sched-policy", value, EXPECTED);
        let Value::Text(text) = value else { return Err(refused()) };
        if text == "idle" {
            return Ok(Level::Idle);
        }
        if let Some(priority) = text.strip_prefix("fifo:") {
            let priority = number(priority).filter(|n| (1..=99).contains(n)).ok_or_else(refused)?;
            return i32::try_from(priority).map(Level::Fifo).map_err(|_| refused());
        }
        let mut words = text.split(' ').peekable();
        let policy = words.next_if(|word| matches!(*word, "other" | "batch"));
        let (mut nice, mut slice_ns) = (None, None);
        for word in words.by_ref() {
            match word.split_once(':') {
                Some(("nice", n)) if nice.is_none() && slice_ns.is_none() => {
                    nice = Some(nice_value(n).ok_or_else(refused)?);
                }
                Some(("slice", d)) if slice_ns.is_none() => slice_ns = Some(slice_value(d).ok_or_else(refused)?),
                _ => return Err(refused()),
            }
        }
        if policy.is_none() && nice.is_none() && slice_ns.is_none() {
            return Err(refused());
        }
        Ok(Level::Fair { is_batch: policy == Some("batch"), nice: nice.unwrap_or(0), slice_ns })
    }

    /// The policy, nice value and priority of a task under it.
    pub(crate) fn scheduling(self, now: Scheduling) -> Scheduling {
        match self {
            Level::Fair { is_batch, nice, .. } => {
                let policy = if is_batch { Scheduling::BATCH } else { Scheduling::OTHER };
                Scheduling { policy, ..Scheduling::other(nice) }
            }
            // The nice value has no meaning under these; keeping it spares a way back that may be closed.
            Level::Idle => Scheduling { policy: Scheduling::IDLE, ..Scheduling::other(now.nice) },
            Level::Fifo(priority) => Scheduling { policy: Scheduling::FIFO, priority, ..Scheduling::other(now.nice) },
        }
    }

    /// The slice of a task under it. A level that names none means the default one, so that it undoes another level's.
    pub(crate) fn slice(self, now: Scheduling) -> Slice {
        match self {
            Level::Fair { slice_ns: Some(own), .. } => Slice::Own(own),
            Level::Fair { slice_ns: None, .. } => Slice::Default,
            Level::Idle | Level::Fifo(_) if is_fair(now) => Slice::Default,
            Level::Idle | Level::Fifo(_) => Slice::Kept,
        }
    }

    /// The same level with a slice that is the default one anyway left out: they cannot be distinguished.
    pub(crate) fn without_default(self, defaults: &[u64]) -> Level {
        match self {
            Level::Fair { is_batch, nice, slice_ns: Some(own) } if defaults.contains(&own) => {
                Level::Fair { is_batch, nice, slice_ns: None }
            }
            level => level,
        }
    }

    pub(crate) fn slice_ns(self) -> Option<u64> {
        if let Level::Fair { slice_ns, .. } = self { slice_ns } else { None }
    }
}

/// True if a task is under a policy whose slice can be set (`kernel/sched/sched.h:fair_policy`, v6.18).
pub(crate) fn is_fair(s: Scheduling) -> bool {
    matches!(s.policy, Scheduling::OTHER | Scheduling::BATCH)
}

fn number(text: &str) -> Option<i64> {
    let is_plain = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

fn nice_value(text: &str) -> Option<i32> {
    let nice = match text.strip_prefix('-') {
        Some(rest) => -number(rest)?,
        None => number(text)?,
    };
    i32::try_from(nice).ok().filter(|nice| (-20..=19).contains(nice))
}

/// The kernel takes 0.1 to 100 ms and would cut others down without a word (`__setparam_fair`).
fn slice_value(text: &str) -> Option<u64> {
    let units = [("ms", 1_000_000), ("us", 1000), ("ns", 1)];
    let (count, unit) = units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
    let ns = u64::try_from(number(count)?).ok()?.checked_mul(*unit)?;
    Some(ns).filter(|ns| (100_000..=100_000_000).contains(ns))
}

fn slice_word(ns: u64) -> String {
    match ns {
        _ if ns.is_multiple_of(1_000_000) => format!("slice:{}ms", ns / 1_000_000),
        _ if ns.is_multiple_of(1000) => format!("slice:{}us", ns / 1000),
        _ => format!("slice:{ns}ns"),
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Level::Idle => f.write_str("idle"),
            Level::Fifo(priority) => write!(f, "fifo:{priority}"),
            Level::Fair { is_batch, nice, slice_ns } => {
                let mut words = Vec::new();
                if *is_batch {
                    words.push("batch".to_owned());
                } else if *nice == 0 {
                    words.push("other".to_owned());
                }
                if *nice != 0 {
                    words.push(format!("nice:{nice}"));
                }
                words.extend(slice_ns.map(slice_word));
                f.write_str(&words.join(" "))
            }
        }
    }
}

/// A state in the words of the levels, or in others where no level says it.
pub(crate) fn word(s: Scheduling, own_slice: Option<u64>) -> String {
    let slice = own_slice.map(|ns| format!(" {}", slice_word(ns))).unwrap_or_default();
    let state = match s.policy {
        Scheduling::OTHER | Scheduling::BATCH => {
            let is_batch = s.policy == Scheduling::BATCH;
            Level::Fair { is_batch, nice: s.nice, slice_ns: own_slice }.to_string()
        }
        Scheduling::IDLE => format!("idle{slice}"),
        Scheduling::FIFO => Level::Fifo(s.priority).to_string(),
        Scheduling::RR => format!("rr at priority {}", s.priority),
        Scheduling::DEADLINE => "deadline".to_owned(),
        Scheduling::EXT => format!("ext at nice {}{slice}", s.nice),
        policy => format!("policy {policy} at nice {}{slice}", s.nice),
    };
    if s.reset_on_fork { format!("{state} reset-on-fork") } else { state }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fair(is_batch: bool, nice: i32, slice_ns: Option<u64>) -> Level {
        Level::Fair { is_batch, nice, slice_ns }
    }

    #[test]
    fn levels_are_read_and_written_the_same() {
        let check = |text: &str, expect: Level, shown: &str| {
            let level = Level::parse(&Value::Text(text.to_owned())).expect(text);
            assert_eq!((level, level.to_string().as_str()), (expect, shown), "{text}");
            assert_eq!(Level::parse(&Value::Text(shown.to_owned())).expect(shown), expect, "{shown}");
        };
        check("other", fair(false, 0, None), "other");
        check("nice:0", fair(false, 0, None), "other");
        check("other nice:5", fair(false, 5, None), "nice:5");
        check("nice:-20", fair(false, -20, None), "nice:-20");
        check("batch", fair(true, 0, None), "batch");
        check("batch nice:5 slice:3ms", fair(true, 5, Some(3_000_000)), "batch nice:5 slice:3ms");
        check("slice:100us", fair(false, 0, Some(100_000)), "other slice:100us");
        check("other slice:1500000ns", fair(false, 0, Some(1_500_000)), "other slice:1500us");
        check("idle", Level::Idle, "idle");
        check("fifo:99", Level::Fifo(99), "fifo:99");
    }

    #[test]
    fn what_no_task_can_have_is_refused() {
        let bad = "nice:20,nice:-21,nice:,nice:+1,fifo,fifo:0,fifo:100,fifo:1 nice:1,fifo:-1,Batch,,mixed: other on 1 tasks,\
                   idle nice:1,idle slice:3ms,slice:99us,slice:101ms,slice:3,slice:3s,slice:ms,slice:1.5ms,other other,\
                   batch  nice:1, other,other ,slice:3ms nice:1,nice:1 nice:2,slice:99999999999999999999ms";
        for text in bad.split(',') {
            assert!(Level::parse(&Value::Text(text.to_owned())).is_err(), "`{text}`");
        }
        assert!(Level::parse(&Value::Integer(5)).is_err());
    }
}
