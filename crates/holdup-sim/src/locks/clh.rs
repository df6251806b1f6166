//! CLH queue lock: first come, first served, each waiter spins on the line of the one before it (T. Craig, University of
//! Washington TR 93-02-02, 1993; P. Magnusson, A. Landin, E. Hagersten, IPPS 1994).
//!
//! A newcomer leaves its own line at the end of the queue with one exchange, and reads the line that it got for it. The
//! release is one plain write to the holder's own line. There is no list to wait for, as in MCS, and where no task
//! waits the newcomer still fetches the line of the last holder.

use crate::locking::{Algorithm, FREE, queued};

pub(super) const ALGORITHM: Algorithm = Algorithm {
    id: "clh",
    tries: |world, cpu, task, lock| {
        let l = &world.locks[lock as usize];
        let (is_free, last_holder_cpu) = (l.holder == FREE, l.data_cpu);
        if is_free {
            let ns = world.atomic_ns(cpu, lock) + world.transfer_ns(last_holder_cpu, cpu);
            world.take(cpu, task, lock, ns);
        }
        is_free
    },
    released: |world, cpu, _, lock| {
        let tail_cpu = world.locks[lock as usize].last_cpu;
        let stores_ns = std::mem::take(&mut world.lock(lock).data_ns);
        // The successor has a copy of the line on which it spins, which is dropped before the write.
        let next = world.locks[lock as usize].queue.front();
        let ns = next.map_or(0, |next| world.transfer_ns(cpu, world.tasks[*next as usize].cpu));
        queued::hands_over(world, cpu, lock, stores_ns + ns);
        world.lock(lock).last_cpu = tail_cpu;
        true
    },
    ..queued::BASE
};
