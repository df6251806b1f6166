//! The scheduler.

use super::{Group, Tunable};

pub(super) const GROUP: Group = Group {
    id: "scheduler",
    summary: "preemption model, slices, balancing, grouping",
    tunables: &[
        Tunable::safe("preempt", &["none", "voluntary", "lazy", "full"], "7.0 drops none on most architectures"),
        Tunable::safe(
            "autogroup",
            &["off", "on"],
            "a server that was started from a terminal shares its CPUs by session",
        ),
        Tunable::ordered(
            "migration-cost",
            &["50us", "5ms", "50ms"],
            "TuneD's profile for PostgreSQL has 50 ms, a talk of 2013 5 ms",
        ),
        Tunable::ordered("base-slice", &["1ms", "3ms", "10ms"], "TuneD's profile for PostgreSQL has 10 ms"),
        Tunable::safe(
            "sched-policy",
            &["batch", "other slice:3ms", "other slice:20ms"],
            "fewer wakeups that preempt, or longer slices",
        ),
        Tunable::safe("hrtick", &["on", "off"], "7.1 turns it on by default on x86"),
        Tunable::ordered("nr-migrate", &["8", "128"], "how much one balancing moves"),
    ],
};
