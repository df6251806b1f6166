//! Effects of real machines that the model leaves out.

/// Effect that no simulated machine has.
#[derive(Debug, Clone, Copy)]
pub struct ModelOmission {
    pub id: &'static str,
    /// Words that continue "it leaves out".
    pub what: &'static str,
}

/// All of them; a simulation says nothing against a claim that rests on one.
pub const OMISSIONS: &[ModelOmission] = &[
    ModelOmission {
        id: "search-cost",
        what: "time to search for tasks and to pull them, waits for locks of run queues",
    },
    ModelOmission { id: "late-segments", what: "late segments that TCP takes for lost and sends again" },
    ModelOmission { id: "cold-caches", what: "caches and TLBs that are cold after a switch or a migration" },
    ModelOmission { id: "smt-sharing", what: "threads of one core that slow each other down" },
    ModelOmission { id: "memory-bandwidth", what: "bandwidth of memory and of the links between sockets" },
    ModelOmission { id: "memory-pressure", what: "memory that runs short, and what the kernel does then" },
    ModelOmission { id: "storage", what: "storage and page cache, but for one device under the log" },
    ModelOmission { id: "contended-rows", what: "rows and pages of a database that several clients want" },
    ModelOmission { id: "other-locks", what: "locks of a server but for the list of free buffers and the log" },
    ModelOmission { id: "other-processes", what: "checkpoints, vacuum and programs beside the workload" },
    ModelOmission { id: "hypervisor", what: "a hypervisor: guests are tasks of the host" },
    ModelOmission { id: "open-vswitch", what: "the switch of Open vSwitch inside the kernel" },
];
