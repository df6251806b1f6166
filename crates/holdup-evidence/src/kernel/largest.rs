//! The tasks with the largest numbers of a window, in bounded memory.

use crate::kernel::layout::{FUTEX_LOCK, NO_SYSCALL, TaskRecord};

/// Tasks that are kept for each number that they are compared by.
const EACH: usize = 32;
/// The numbers: time on a CPU, time runnable without one, time asleep for something of others, switches.
const NUMBERS: usize = 4;
/// When there are more, those that are not among the largest are added up.
const MOST: usize = 8 * EACH * NUMBERS;

/// The numbers of tasks that are not kept, added up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Others {
    pub(crate) tasks: u64,
    pub(crate) on_ns: u64,
    pub(crate) without_ns: u64,
    pub(crate) asleep_ns: u64,
    pub(crate) left: u64,
    pub(crate) left_runnable: u64,
}

/// The tasks of a window: at most 128, and the sums of the others.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    pub(crate) kept: Vec<TaskRecord>,
    pub(crate) others: Others,
}

/// Gathers them, one task after the other.
#[derive(Debug, Default)]
pub(crate) struct Largest(Tasks);

/// Classes of PostgreSQL's wait events, the highest byte (utils/wait_event.h, 15 to 19): processes without work, and sessions
/// whose client has not asked for anything.
const WITHOUT_WORK: [u32; 2] = [0x05, 0x06];

/// True if who sleeps for this waits for others: in other programs that is known of mutexes and page faults.
fn is_wait(wait_event: u32, syscall: u32) -> bool {
    if wait_event == 0 {
        syscall == FUTEX_LOCK as u32 || syscall == NO_SYSCALL as u32
    } else {
        !WITHOUT_WORK.contains(&(wait_event >> 24))
    }
}

fn numbers(task: &TaskRecord) -> [u64; NUMBERS] {
    let waits = task.slept.iter().filter(|slept| is_wait(slept.wait_event, slept.syscall));
    [task.on_ns, task.without_ns, waits.map(|slept| slept.ns).sum(), u64::from(task.left)]
}

impl Others {
    fn add(&mut self, task: &TaskRecord) {
        self.tasks += 1;
        self.on_ns += task.on_ns;
        self.without_ns += task.without_ns;
        self.asleep_ns += task.asleep_ns;
        self.left += u64::from(task.left);
        self.left_runnable += u64::from(task.left_runnable);
    }
}

impl Largest {
    pub(crate) fn add(&mut self, task: &TaskRecord) {
        self.0.kept.push(*task);
        if self.0.kept.len() >= MOST {
            self.prune();
        }
    }

    /// The largest of all that were added.
    pub(crate) fn end(mut self) -> Tasks {
        self.prune();
        self.0
    }

    fn prune(&mut self) {
        let Tasks { kept, others } = &mut self.0;
        let mut is_large = vec![false; kept.len()];
        for number in 0..NUMBERS {
            let mut order: Vec<usize> = (0..kept.len()).filter(|at| numbers(&kept[*at])[number] > 0).collect();
            order.sort_by_key(|at| std::cmp::Reverse(numbers(&kept[*at])[number]));
            order.into_iter().take(EACH).for_each(|at| is_large[at] = true);
        }
        let mut at = 0;
        kept.retain(|task| {
            at += 1;
            if !is_large[at - 1] {
                others.add(task);
            }
            is_large[at - 1]
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::layout::{Slept, zeroed};

    fn task(tid: u32, on_ns: u64) -> TaskRecord {
        TaskRecord { tid, on_ns, ..zeroed() }
    }

    #[test]
    fn the_largest_of_many_are_kept_and_all_others_are_added_up() {
        let mut largest = Largest::default();
        // The order is not that of the size.
        let tids = (0..10_000).map(|n| n * 7_919 % 10_000);
        tids.for_each(|tid| largest.add(&task(tid, u64::from(tid))));
        let mut waits = task(20_000, 0);
        waits.slept[1] = Slept { wait_event: 0x0300_0000, syscall: 202, ns: 1 };
        largest.add(&waits);
        let Tasks { kept, others } = largest.end();
        let mut tids: Vec<u32> = kept.iter().map(|task| task.tid).collect();
        tids.sort_unstable();
        assert_eq!(tids, (10_000 - EACH as u32..10_000).chain([20_000]).collect::<Vec<_>>());
        let rest = 10_000 - EACH as u64;
        assert_eq!((others.tasks, others.on_ns), (rest, rest * (rest - 1) / 2));
    }

    #[test]
    fn a_session_without_work_and_a_thread_that_waits_for_events_wait_for_nothing() {
        let client_read = 0x0600_0000;
        assert!(!is_wait(client_read, 232) && !is_wait(0, 232) && !is_wait(0x0500_0003, 232));
        assert!(is_wait(0x0400_0005, 202) && is_wait(0, FUTEX_LOCK as u32) && is_wait(0, NO_SYSCALL as u32));
    }
}
