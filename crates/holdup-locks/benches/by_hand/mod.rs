//! What one would write to measure a test-and-set lock on one thread, and nothing more.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[repr(align(128))]
#[derive(Default)]
struct CachePadded<T>(T);

/// The same atomics with the same padding as `lock-contention` has, without any timing.
#[derive(Default)]
pub(crate) struct ByHand {
    stop: CachePadded<AtomicBool>,
    lock: CachePadded<AtomicU32>,
    protected: CachePadded<AtomicU64>,
    operations: CachePadded<AtomicU64>,
}

impl ByHand {
    /// Takes and gives back the lock until the stop flag is set or enough was done.
    #[inline(never)]
    pub(crate) fn run(&self, limit: u64) -> u64 {
        let mut operations = 0;
        while !self.stop.0.load(Ordering::Relaxed) && operations < limit {
            for _ in 0..64 {
                while self.lock.0.swap(1, Ordering::Acquire) != 0 {
                    std::hint::spin_loop();
                }
                self.protected.0.store(self.protected.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                self.lock.0.store(0, Ordering::Release);
                operations += 1;
                self.operations.0.store(operations, Ordering::Relaxed);
            }
        }
        operations
    }
}
