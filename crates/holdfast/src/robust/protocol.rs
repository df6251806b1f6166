//! What a thread, and the kernel for a dead one, make of the two words of a robust mutex.
//!
//! Pure functions, which the lock itself and the check of all its small states (`check.rs`) share. Both words are one value of 64
//! bits, the first word below.
//!
//! | bits | name | meaning |
//! |---|---|---|
//! | 0–29 | owner | the kernel's id of the thread that holds it (gettid(2)); 0 when free |
//! | 30 | `OWNER_DIED` | the last owner died with it |
//! | 31 | `WAITERS` | threads may sleep on the first word |
//! | 32–33 | state | 0: the data is whole; 1: an owner died; 2: given up |
//! | 34–63 | turn | counts owners; wraps |
//!
//! The first word is the kernel's contract for robust futexes (Documentation/locking/robust-futexes.rst; kernel/futex/core.c:
//! `handle_futex_death`, 6.18). One thing differs from the C library's mutex: a release leaves `WAITERS` set and clears it only
//! when the kernel says that no thread slept. If a thread dies between its release and its wake-up while another has taken the
//! lock already, the kernel wakes no thread, and the new owner must know of the sleepers. The turn keeps a late clearing from
//! hitting a later release: without it the check finds a lost wake-up after two deaths.

/// Threads may sleep.
pub(super) const WAITERS: u64 = 1 << 31;
/// The last owner died.
pub(super) const OWNER_DIED: u64 = 1 << 30;
const OWNER: u64 = OWNER_DIED - 1;
const FIRST_WORD: u64 = (1 << 32) - 1;
const STATE: u64 = 3 << 32;
const STATE_DIED: u64 = 1 << 32;
const STATE_GIVEN_UP: u64 = 2 << 32;
const TURN: u64 = 1 << 34;

/// What stands in the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Whole,
    Died,
    GivenUp,
}

/// What a thread that wants the lock does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Exchange the words for these: the lock is ours then.
    Take(u64),
    /// Exchange the words for these, and look again.
    Mark(u64),
    /// Sleep while the first word is this one.
    Sleep(u32),
    /// The thread has it already.
    Deadlock,
}

/// The thread that holds it, or 0.
pub(super) fn owner(words: u64) -> u32 {
    (words & OWNER) as u32
}

/// The state of the data. A forged one counts as given up.
pub(super) fn state(words: u64) -> State {
    match words & STATE {
        0 => State::Whole,
        STATE_DIED => State::Died,
        _ => State::GivenUp,
    }
}

/// What thread `me` does that has seen `words`; `has_slept` if it slept before.
pub(super) fn look(words: u64, me: u32, has_slept: bool) -> Step {
    match owner(words) {
        0 => {
            let others = if has_slept { WAITERS } else { words & WAITERS };
            let is_first_after_death = words & OWNER_DIED != 0 && state(words) == State::Whole;
            let died = if is_first_after_death { STATE_DIED } else { 0 };
            Step::Take((words & !FIRST_WORD | died).wrapping_add(TURN) | others | u64::from(me))
        }
        owner if owner == me => Step::Deadlock,
        _ if words & WAITERS == 0 => Step::Mark(words | WAITERS),
        _ => Step::Sleep((words & FIRST_WORD) as u32),
    }
}

/// What a release leaves of the words, and whether a thread must be woken then. Who gives back data that is not whole gives it up.
pub(super) fn release(words: u64) -> (u64, bool) {
    let kept = words & !FIRST_WORD | words & WAITERS;
    let left = if state(words) == State::Died { kept & !STATE | STATE_GIVEN_UP } else { kept };
    (left, words & WAITERS != 0)
}

/// After a wake-up that found `woken` sleepers: what the words become if they still are what the release `left`.
pub(super) fn after_wake(left: u64, woken: u32) -> Option<u64> {
    (woken == 0).then_some(left & !WAITERS)
}

/// The words of an owner that has repaired the data.
pub(super) fn make_whole(words: u64) -> u64 {
    if state(words) == State::Died { words & !STATE } else { words }
}

/// What the kernel does to the words of a thread `dead` that held the lock or was about to take or release it: the new words, if
/// it writes any, and whether it wakes a thread.
#[cfg(test)]
pub(super) fn death(words: u64, dead: u32) -> (Option<u64>, bool) {
    match owner(words) {
        // `pending_op && !pi && !owner`
        0 => (None, true),
        owner if owner == dead => (Some(words & !FIRST_WORD | words & WAITERS | OWNER_DIED), words & WAITERS != 0),
        _ => (None, false),
    }
}
