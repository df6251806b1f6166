//! What the workers of `lock-contention` know of themselves, for tests of what watches them from outside.
//!
//! With the parameter `truth` the measured loop is another instance of itself that also keeps a record: each worker
//! writes what it does into its own word, and the lock's memory names the holder. A file at the parameter's path
//! ([`Published`], JSON) records where all of that lies. It exists from before the window opens until the trial ends.
//! The task on the CPU, or the one just switched out of it, can be read at its own addresses (`bpf_probe_read_user` in a
//! program at `sched_switch` reads the memory of the task that leaves) and judged with [`role`].
//!
//! # How exact
//!
//! | algorithm | `truth_record` | names the holder | ambiguous |
//! |---|---|---|---|
//! | tas, the ttas family, postgres-s-lock, slice-extension | lock-word | the atomic operation itself, which is `lock cmpxchg` instead of `xchg` then | never |
//! | the same | owner-word | a store after the `xchg`, taken back before the release | 3 to 6 instructions from the `xchg` on (about 20 after a wait of postgres-s-lock, which adapts its delay first), and the one that releases |
//! | futex-mutex | both | the same store | the same |
//! | ticket | both | the number that is served, and the worker's own | from when a waiter is served until it has seen that and written it down |
//! | mcs, std-mutex | both | the same store | the same |
//! | clh, pthread-spin, parking-lot, holdfast | both | the same store | the same, and a worker that wants the lock while it is free |
//! | pthread-mutex, pthread-adaptive | both | glibc's `__owner` | in `pthread_mutex_lock` and `_unlock`, about 5 instructions each |
//!
//! Ambiguous is a worker that wants the lock or has it while no holder is named, so where a holder is switched out in those
//! instructions, all that wait behind it are ambiguous until it runs again. With ticket, a waiter that is served while it is not on
//! a CPU is ambiguous, alone: in one sense it holds the lock, but it does not know yet. Its instruction pointer says waiter.
//!
//! With mcs and clh the next of the queue is named when it runs. With more workers than CPUs it mostly does not run when its turn comes,
//! so nearly all that want the lock are ambiguous nearly always (4 workers on 2 CPUs: a holder in 1 of 1,100 to 5,700 looks).
//!
//! A test-and-set by `xchg` overwrites the name of the holder, also when it fails; that is why such a lock
//! can name its holder only by another instruction.

use holdup_files::{MOST_BYTES_OF_TEXT, read_input, write_output};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// What a worker's state word holds while it neither holds the lock nor wants it.
pub const NEITHER: u32 = 0;
/// While it wants the lock: from right before the acquisition begins.
pub const WAITING: u32 = 1;
/// From right after the acquisition until right after the release.
pub const HOLDING: u32 = 2;

/// The bytes to read at [`WorkerTruth::state_address`]: the state and the worker's number, two `u32`.
pub const STATE_BYTES: usize = 8;
/// The bytes to read at [`WorkerTruth::lock_address`]: the lock and, in the last four, the owner word.
pub const LOCK_BYTES: usize = 128;
/// Where the owner word is in them: 1 + the holder's place among the workers, or 0.
pub const OWNER_AT: usize = LOCK_BYTES - 4;
/// Where glibc keeps the owner's tid in a `pthread_mutex_t` (`struct __pthread_mutex_s`, the same on all architectures).
const PTHREAD_OWNER_AT: usize = 8;

/// How to read what a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Predicate {
    /// The lock's first word holds this value from the instruction that takes it to the one that gives it back.
    LockWordEquals(u32),
    /// The owner word holds this value, but for some instructions; the lock's first word is 0 when it is free.
    OwnerWordEquals(u32),
    /// The owner word holds this value, but for some instructions; the lock's own words do not say whether it is free.
    OwnerWordAlone(u32),
    /// The lock's words are the next number and the served one; the second word of the state is the worker's own.
    TicketServed,
    /// glibc's mutex names its owner's tid, but for some instructions; its first word is 0 when it is free.
    OwnerTid(u32),
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Truth {
    /// It holds the lock.
    Holder,
    /// It wants the lock and does not have it.
    Waiter,
    Neither,
    /// It is in the few instructions in which its records do not agree yet, or another one is.
    Ambiguous,
}

/// What a worker does, from the first bytes of its lock ([`LOCK_BYTES`]) and of its state ([`STATE_BYTES`]). `None` when
/// too few bytes were read.
pub fn role(predicate: Predicate, lock: &[u8], state: &[u8]) -> Option<Truth> {
    let said = word(state, 0)?;
    let waits_or_not = if said == WAITING { Truth::Waiter } else { Truth::Neither };
    let first = word(lock, 0)?;
    // No holder is named: free, or held by a worker that is not named yet or not any more.
    let unnamed = match (first, said) {
        (0, _) | (_, NEITHER) => waits_or_not,
        _ => Truth::Ambiguous,
    };
    Some(match predicate {
        Predicate::LockWordEquals(own) if first == own => Truth::Holder,
        Predicate::LockWordEquals(_) => waits_or_not,
        Predicate::OwnerWordEquals(own) => named(word(lock, OWNER_AT)?, own, waits_or_not, unnamed),
        Predicate::OwnerWordAlone(own) => {
            let none = if said == NEITHER { waits_or_not } else { Truth::Ambiguous };
            named(word(lock, OWNER_AT)?, own, waits_or_not, none)
        }
        Predicate::OwnerTid(tid) => named(word(lock, PTHREAD_OWNER_AT)?, tid, waits_or_not, unnamed),
        Predicate::TicketServed => match (word(lock, 4)? == word(state, 4)?, said) {
            (true, HOLDING) => Truth::Holder,
            (true, WAITING) => Truth::Ambiguous,
            _ => waits_or_not,
        },
    })
}

fn named(owner: u32, own: u32, other: Truth, none: Truth) -> Truth {
    match owner {
        0 => none,
        owner if owner == own => Truth::Holder,
        _ => other,
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

/// Where one worker's record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerTruth {
    /// Its place among the workers, from 0.
    pub index: u32,
    /// Its thread, in the PID namespace of holdup.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
    /// Where its state is, in its own address space.
    pub state_address: u64,
    /// Where its lock is, in its own address space.
    pub lock_address: u64,
    /// How to read both.
    pub predicate: Predicate,
}

/// What the file holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// The algorithm's id.
    pub algorithm: String,
    /// The name of its section in the ELF note.
    pub section: String,
    /// All workers; every one of them runs.
    pub workers: Vec<WorkerTruth>,
}

impl Published {
    /// Reads what a trial has published at this path.
    ///
    /// # Errors
    /// When there is no such file (the trial has not begun or is over), or what it holds was not written by a trial.
    pub fn read(path: &Path) -> io::Result<Self> {
        serde_json::from_slice(&read_input(path, MOST_BYTES_OF_TEXT)?).map_err(io::Error::from)
    }

    /// Makes the file, whole from its first moment; dropping what is returned removes it.
    pub(crate) fn write(&self, path: &Path) -> io::Result<Guard> {
        write_output(path, &serde_json::to_vec(self)?)?;
        Ok(Guard(path.to_owned()))
    }
}

/// The file while its trial lasts.
pub(crate) struct Guard(PathBuf);

impl Drop for Guard {
    fn drop(&mut self) {
        // Gone already is as good.
        let _removed = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[(usize, u32)], length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        for (at, word) in words {
            bytes[*at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn a_role_follows_from_what_names_the_holder() {
        use Predicate::{LockWordEquals, OwnerTid, OwnerWordEquals, TicketServed};
        use Truth::{Ambiguous, Holder, Neither, Waiter};
        let check = |predicate, lock: &[(usize, u32)], state: [u32; 2], expect| {
            let (lock, state_bytes) = (bytes(lock, LOCK_BYTES), bytes(&[(0, state[0]), (4, state[1])], STATE_BYTES));
            assert_eq!(role(predicate, &lock, &state_bytes), Some(expect), "{predicate:?}, state {state:?}");
        };
        // The lock's word names the holder before and after the worker has written down that it is one.
        for (word, said, expect) in [
            (3, WAITING, Holder),
            (3, HOLDING, Holder),
            (4, WAITING, Waiter),
            (0, WAITING, Waiter),
            (0, HOLDING, Neither),
            (4, HOLDING, Neither),
            (4, NEITHER, Neither),
        ] {
            check(LockWordEquals(3), &[(0, word)], [said, 0], expect);
        }
        for (word, owner, said, expect) in [
            (1, 3, WAITING, Holder),
            (1, 3, HOLDING, Holder),
            (2, 4, WAITING, Waiter),
            (0, 0, WAITING, Waiter),
            (1, 0, WAITING, Ambiguous),
            (1, 0, HOLDING, Ambiguous),
            (1, 0, NEITHER, Neither),
            (0, 0, HOLDING, Neither),
            (1, 4, HOLDING, Neither),
        ] {
            check(OwnerWordEquals(3), &[(0, word), (OWNER_AT, owner)], [said, 0], expect);
            check(OwnerTid(3), &[(0, word), (PTHREAD_OWNER_AT, owner)], [said, 0], expect);
        }
        for (serving, own, said, expect) in [
            (7, 7, HOLDING, Holder),
            (7, 7, WAITING, Ambiguous),
            (7, 8, WAITING, Waiter),
            (8, 7, HOLDING, Neither),
            (8, 7, NEITHER, Neither),
        ] {
            check(TicketServed, &[(0, 9), (4, serving)], [said, own], expect);
        }
    }

    #[test]
    fn too_few_bytes_are_no_record() {
        let (lock, state) = ([0; LOCK_BYTES], [0; STATE_BYTES]);
        assert_eq!(role(Predicate::LockWordEquals(1), &[], &state), None);
        assert_eq!(role(Predicate::LockWordEquals(1), &lock, &state[..3]), None);
        assert_eq!(role(Predicate::OwnerWordEquals(1), &lock[..OWNER_AT], &state), None);
        assert_eq!(role(Predicate::OwnerTid(1), &lock[..8], &state), None);
        assert_eq!(role(Predicate::TicketServed, &lock[..4], &state), None);
    }

    #[test]
    fn what_is_published_is_read_back_and_goes_with_its_trial() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("truth.json");
        let worker = |index| WorkerTruth {
            index,
            tid: 10 + index,
            pid: 10,
            state_address: u64::MAX - u64::from(index),
            lock_address: 4096,
            predicate: Predicate::OwnerTid(10 + index),
        };
        let published = Published { algorithm: "a".into(), section: "s".into(), workers: (0..2).map(worker).collect() };
        let guard = published.write(&path).expect("writable");
        assert_eq!(Published::read(&path).expect("it is there"), published);
        drop(guard);
        assert_eq!(Published::read(&path).expect_err("it is gone").kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "{\"algorithm\": 1}").expect("writable");
        assert!(Published::read(&path).is_err());
    }
}
