//! Values that shall be in force, and where on a host each of them lives.

use crate::plan::Level;
use serde::{Deserialize, Serialize};

/// The factor of a plan whose levels are profiles.
pub const FACTOR: &str = "profile";
/// Its level without one: the host as it is.
pub const NONE: &str = "none";

/// Values of knobs that belong together: what `holdup apply` puts in force.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Its name: letters, digits and `-_.`, so that it can be the name of a file or of a unit.
    pub name: String,
    /// One line on what it is for; empty when the profile does not say.
    pub summary: String,
    /// The values, in the order in which they are put in force.
    pub settings: Vec<Setting>,
}

/// One value of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setting {
    /// The knob's name as in plans (`autogroup`, `postgres.huge_pages`).
    pub knob: String,
    /// The value.
    pub level: Level,
    /// True if the profile goes without it where the knob cannot be set.
    #[serde(default)]
    pub optional: bool,
}

/// Where a value lives, for tools that put it there without holdup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A sysctl.
    Sysctl {
        /// Its name with dots (`vm.nr_hugepages`).
        key: String,
        /// What is written.
        value: String,
    },
    /// A file of the kernel that is no sysctl, mostly in /sys.
    File {
        /// Its path; a `*` stands for every name (`/sys/…/cpu*/cpufreq/scaling_governor`).
        path: String,
        /// What is written.
        value: String,
    },
    /// A line in the unit of the service whose processes it is about.
    Service {
        /// The directive of systemd (`CPUSchedulingPolicy`, `CPUWeight`).
        directive: String,
        /// Its value.
        value: String,
    },
    /// How late CPUs may wake, which the kernel keeps to for as long as /dev/cpu_dma_latency is held open.
    WakeLatency {
        /// The bound, µs.
        us: u32,
    },
    /// A setting of a PostgreSQL server.
    Postgres {
        /// Its name.
        name: String,
        /// Its value, as in postgresql.conf without quotes.
        value: String,
    },
}

/// How a knob stands as against what a profile wants of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileState {
    /// The value is in force, and was before.
    InForce,
    /// It is put in force now.
    Applied,
    /// It would be put in force; nothing was done, because only the way was asked for.
    WouldChange,
    /// Another value is in force.
    Differs,
    /// The knob cannot be set here and the profile goes without it.
    LeftOut,
    /// What is in force cannot be read, or the knob cannot be set here.
    Unavailable,
}

/// What came of one value of a profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProfileLine {
    /// The knob.
    pub knob: String,
    /// The value as the profile has it.
    pub wanted: String,
    /// What is in force, or was until it was changed, with its unit; absent when it cannot be read.
    pub found: Option<String>,
    /// How it stands.
    pub state: ProfileState,
    /// What is to be said: why it is unavailable, what is lost.
    pub reason: Option<String>,
    /// What would help.
    pub remedy: Option<String>,
    /// What a change touches.
    pub touches: String,
}
