//! Where EEVDF and CFS differ.

use super::fair::Fair;
use super::{cfs, eevdf};

/// What decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rules {
    Eevdf(eevdf::Features),
    Cfs(cfs::Features),
}

impl Fair {
    pub(super) fn place(&mut self, queue: u32, id: u32, is_new: bool) {
        match self.rules {
            Rules::Eevdf(features) => self.eevdf_place(&features, queue, id, is_new),
            Rules::Cfs(features) => self.cfs_place(&features, queue, id, is_new),
        }
    }

    /// The virtual time of a queue: `avg_vruntime()`, under CFS `min_vruntime`.
    pub(crate) fn virtual_time(&self, queue: u32) -> i64 {
        match self.rules {
            Rules::Eevdf(_) => self.average(queue),
            Rules::Cfs(_) => self.queues[queue as usize].zero,
        }
    }

    /// What an entity keeps that leaves its queue.
    pub(super) fn remember(&mut self, queue: u32, id: u32, sleeps: bool) {
        match self.rules {
            Rules::Eevdf(features) => self.eevdf_remember(&features, queue, id, sleeps),
            Rules::Cfs(_) => self.entities[id as usize].relative_deadline = !sleeps,
        }
    }

    pub(super) fn delays(&self, queue: u32, id: u32) -> bool {
        match &self.rules {
            Rules::Eevdf(features) => features.delay_dequeue && !self.is_eligible(queue, self.vruntime(id)),
            Rules::Cfs(_) => false,
        }
    }

    pub(super) fn protect(&mut self, queue: u32, id: u32) {
        if let Rules::Eevdf(features) = self.rules {
            self.eevdf_protect(&features, queue, id);
        }
    }

    /// The entity of a queue that runs next; `NIL` when there is none.
    pub(crate) fn choose(&mut self, queue: u32, honours_protection: bool) -> u32 {
        match self.rules {
            Rules::Eevdf(_) => self.eevdf_choose(queue, honours_protection),
            Rules::Cfs(features) => self.cfs_choose(&features, queue),
        }
    }

    /// `sched_yield()` of the running task, as far as the fair class goes.
    pub(crate) fn yields(&mut self, cpu: u32) {
        let Some(id) = self.running(cpu).filter(|_| self.tasks(cpu) > 1) else { return };
        let queue = self.entities[id as usize].queue;
        match self.rules {
            Rules::Eevdf(features) => self.eevdf_yields(&features, queue, id),
            Rules::Cfs(_) => self.queues[queue as usize].skip = id,
        }
    }
}
