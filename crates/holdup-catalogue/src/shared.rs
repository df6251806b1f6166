//! Words that several workloads have.

use crate::parameters::words;

words! {
    /// What workers are.
    Sharing {
        /// Threads of holdup: one set of page tables.
        Threads,
        /// Processes forked from holdup: page tables of their own over the same memory.
        Processes,
    }
}

words! {
    /// Where the two sides of a workload run. Whether the two share a run queue, a core, a cache or nothing decides most
    /// of the measured value.
    Placement {
        /// Anywhere.
        None,
        /// On one CPU.
        SameCpu,
        /// On two CPUs of different cores.
        TwoCpus,
        /// On two threads of one core.
        SmtSiblings,
        /// On the CPUs of one last-level cache.
        Llc,
        /// On the CPUs of one memory node.
        Node,
    }
}

words! {
    /// The lock algorithms of `lock-contention`, real or simulated; `docs` of each: `holdup list algorithms`.
    Algorithm {
        /// Test-and-set.
        Tas,
        /// Test-and-set in a time slice that the kernel extends.
        SliceExtension,
        /// Test-and-test-and-set.
        Ttas,
        /// The same without a pause.
        TtasNoPause,
        /// The same with arm64's `yield`.
        TtasYield,
        /// The same with arm64's `wfe`.
        TtasWfe,
        /// Test-and-test-and-set with backoff.
        TtasBackoff,
        /// PostgreSQL's s_lock.
        PostgresSLock,
        /// The C library's spin lock.
        PthreadSpin,
        /// A ticket lock.
        Ticket,
        /// The queue lock of Mellor-Crummey and Scott.
        Mcs,
        /// The queue lock of Craig, and of Landin and Hagersten.
        Clh,
        /// A mutex on futex(2).
        FutexMutex,
        /// The C library's mutex.
        PthreadMutex,
        /// The C library's mutex whose waiters spin first.
        PthreadAdaptive,
        /// The mutex of Rust's standard library.
        StdMutex,
        /// The mutex of parking_lot.
        ParkingLot,
        /// The mutex of holdfast.
        Holdfast,
        /// The mutex of holdfast in a time slice that the kernel extends.
        HoldfastSlice,
    }
}
