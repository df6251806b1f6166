//! Test-and-set that asks the kernel for a longer slice while it holds the lock.

use super::tas::{self, Tas};
use super::{Algorithm, FREE};
use crate::world::World;
use holdup_model::Meta;

const META: Meta = Meta {
    id: "slice-extension",
    summary: "tas that asks for a longer time slice while it holds the lock (rseq)",
    docs: "Asks before the exchange and takes the request back after the release; a grant that was used is given back \
           by a system call then. What a kernel makes of the request is the kernel's part. Where it grants none, \
           asking costs two stores and two loads.",
    references: &["Linux: kernel/rseq.c, include/linux/rseq_entry.h, v7.2"],
};

#[derive(Debug)]
pub(super) struct SliceExtension;

impl Algorithm for SliceExtension {
    fn meta(&self) -> &'static Meta {
        &META
    }

    fn tries(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
        if world.locks[lock as usize].holder != FREE {
            return false;
        }
        let ns = world.atomic_ns(cpu, lock) + ASKING_NS;
        world.take(cpu, task, lock, ns);
        world.asks_to_extend(task, true);
        true
    }

    fn waits(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        Tas.waits(world, cpu, task, lock);
    }

    fn released(&self, world: &mut World, cpu: u32, task: u32, lock: u32) -> bool {
        Tas.released(world, cpu, task, lock);
        world.tasks[task as usize].extra_ns += ASKING_NS;
        world.gives_slice_back(cpu, task)
    }

    fn over(&self, world: &mut World, cpu: u32, task: u32, lock: u32) {
        if tas::exchanges(world, cpu, task, lock) {
            world.tasks[task as usize].extra_ns += ASKING_NS;
            world.asks_to_extend(task, true);
            world.has_it(cpu, task);
        }
    }

    fn switched_out(&self, world: &mut World, task: u32, lock: u32) {
        Tas.switched_out(world, task, lock);
    }

    fn switched_in(&self, world: &mut World, task: u32, lock: u32) {
        Tas.switched_in(world, task, lock);
    }
}

/// A store and a load on the task's own line.
const ASKING_NS: u64 = 1;
