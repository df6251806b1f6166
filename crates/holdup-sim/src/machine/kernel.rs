//! Kernels by version: which fair class they have, with which rules and defaults, and which preemption models exist.
//!
//! Read in 5.10, 6.1, 6.12, 6.18, 7.0 to 7.3 (kernel/sched/fair.c, features.h, core.c, debug.c; kernel/Kconfig.preempt);
//! what lies between them follows from the release that each change was merged in, and says so where that is inferred.

use crate::preempt::Model;
use crate::sched::{cfs, eevdf};
use holdup_model::preempt::LAZY_SINCE;
use holdup_model::{KernelVersion, PreemptModel, Problem};

#[derive(Debug, Clone)]
pub struct Kernel {
    pub preempt: &'static Model,
    /// Ticks per second.
    pub hz: u32,
    /// What its fair class does, where that is EEVDF.
    pub fair: eevdf::Features,
    /// What its fair class does, where that is CFS.
    pub cfs: Option<cfs::Features>,
    /// HRTICK: a timer ends a slice, and asks in earnest; else a tick does.
    pub hrtick: bool,
    /// A task that ran so recently is not pulled to another CPU.
    pub migration_cost_ns: u64,
    /// How many tasks one balancing considers (`sched_nr_migrate`).
    pub nr_migrate: u32,
    /// How long a slice extension lasts; 0: the kernel grants none.
    pub slice_extension_ns: u64,
    /// True if each session is a group (`kernel.sched_autogroup_enabled`). It is off unless asked for: services
    /// in control groups with the cpu controller are not affected by it.
    pub autogroup: bool,
    /// What it runs on.
    pub arch: Arch,
    /// Which mechanisms of the model are on.
    pub mechanisms: Mechanisms,
}

/// An instruction set: programs have parts that differ by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// x86-64.
    X86,
    /// arm64.
    Arm,
}

impl Arch {
    /// Each with its name (`uname -m`).
    const NAMES: [(Arch, &'static str); 2] = [(Arch::X86, "x86_64"), (Arch::Arm, "aarch64")];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The instruction set of this name.
    pub fn find(name: &str) -> Option<Arch> {
        Self::NAMES.iter().find(|(_, known)| *known == name).map(|(arch, _)| *arch)
    }

    pub fn names() -> [&'static str; 2] {
        Self::NAMES.map(|(_, name)| name)
    }
}

/// Mechanisms of the model that can be switched off one by one, to see their effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mechanisms {
    /// A lazy request sends no interrupt to another CPU.
    pub lazy_needs_tick: bool,
    /// The first touch of a page by the holder of a lock is a fault.
    pub fault_under_lock: bool,
    /// s_lock on arm64 exchanges at every turn.
    pub exchanging_turns: bool,
}

/// A change from this version on.
struct Change {
    since: KernelVersion,
    makes: fn(&mut Kernel),
}

/// What releases changed, oldest first. Each line of a kernel is a default that its release notes or features.h name.
const CHANGES: &[Change] = &[
    // 5.13 (0c2de3f054a5): a slice of CFS is at least the minimal granularity.
    Change {
        since: KernelVersion::new(5, 13),
        makes: |k| k.cfs = k.cfs.map(|cfs| cfs::Features { base_slice: true, ..cfs }),
    },
    // 6.6 (147f3efaa241, 63304558ba5d): EEVDF; a task runs to parity.
    Change {
        since: KernelVersion::new(6, 6),
        makes: |k| {
            k.cfs = None;
            k.fair = eevdf::Features {
                place_lag: true,
                place_deadline_initial: true,
                run_to_parity: true,
                wakeup_preemption: true,
                ..k.fair
            };
        },
    },
    // 6.12 (152e11f6df29, 82e9d0456e06, 85e511df3cec, 857b158dc5e8): slices of one's own, delayed dequeue, relative
    // deadlines. 0.70 ms instead of 0.75 (2ae891b82695) is in 6.12.95 as well.
    Change {
        since: KernelVersion::new(6, 12),
        makes: |k| {
            k.fair = eevdf::Features {
                preempt_short: true,
                delay_dequeue: true,
                delay_zero: true,
                place_rel_deadline: true,
                base_slice_ns: k.fair.base_slice_ns / 75 * 70,
                ..k.fair
            };
        },
    },
    // 6.17 ("Limit run to parity to the min slice of enqueued entities"; the release is inferred): protection lasts for the shortest slice of the queue.
    Change { since: KernelVersion::new(6, 17), makes: |k| k.fair.protects_shortest = true },
    // 6.18 ("Forfeit vruntime on yield"; the release is inferred): a task that yields while it is eligible gives its slice up.
    Change { since: KernelVersion::new(6, 18), makes: |k| k.fair.yield_forfeits = true },
    // 7.1: HRTICK is on by default on x86.
    Change { since: KernelVersion::new(7, 1), makes: |k| k.hrtick = true },
];

impl Kernel {
    /// The kernel of a version such as `6.18`, with its defaults on a machine with this number of CPUs: x86, for HRTICK and the
    /// models. The extension of slices is off, as its Kconfig default is; set `slice_extension_ns` to
    /// [`SLICE_EXTENSION_NS`] for a kernel from 7.0 on that was built with it.
    ///
    /// # Errors
    /// When the version is none that is known, or does not offer the model.
    pub fn of(version: &str, preempt: &'static Model, hz: u32, cpus: u32) -> Result<Self, Problem> {
        let known = parsed(version)?;
        if !models(known).contains(&preempt.id) {
            return Err(Problem::usage(
                format!("kernel.preempt {} of kernel {version}", preempt.id),
                "that kernel does not offer the model",
            )
            .hint(format!("it offers {}", models(known).join(", "))));
        }
        Ok(Self::base(known, preempt, hz, cpus))
    }

    /// The kernel of a version under the model that it is built with by default: none, and lazy from 7.0 on.
    pub fn of_version(version: &str, cpus: u32, hz: u32) -> Result<Self, Problem> {
        let known = parsed(version)?;
        let model = crate::preempt::find(PreemptModel::default_of(known).word())
            .ok_or_else(|| Problem::usage(format!("kernel.version {version}"), "its model is not known"))?;
        Self::of(version, model, hz, cpus)
    }

    /// The models that a version offers on architectures that have the lazy one.
    pub fn models(version: &str) -> Result<Vec<&'static str>, Problem> {
        parsed(version).map(models)
    }

    /// What depends on the number of CPUs, on a machine with another one.
    pub(crate) fn rescale(&mut self, from: u32, to: u32) {
        let scaled = |ns: u64| ns / scaling(from) * scaling(to);
        self.fair.base_slice_ns = scaled(self.fair.base_slice_ns);
        if let Some(cfs) = &mut self.cfs {
            for ns in [&mut cfs.latency_ns, &mut cfs.min_granularity_ns, &mut cfs.wakeup_granularity_ns] {
                *ns = scaled(*ns);
            }
        }
    }

    fn base(version: KernelVersion, preempt: &'static Model, hz: u32, cpus: u32) -> Self {
        let factor = scaling(cpus);
        let mut kernel = Kernel {
            preempt,
            hz,
            fair: eevdf::Features {
                base_slice_ns: 750_000 * factor,
                tick_ns: 1_000_000_000 / u64::from(hz),
                ..eevdf::Features::default()
            },
            cfs: Some(cfs::Features {
                gentle_fair_sleepers: true,
                start_debit: true,
                wakeup_preemption: true,
                base_slice: false,
                latency_ns: 6_000_000 * factor,
                min_granularity_ns: 750_000 * factor,
                wakeup_granularity_ns: 1_000_000 * factor,
            }),
            hrtick: false,
            migration_cost_ns: 500_000,
            nr_migrate: if preempt.sleeping_locks { 8 } else { 32 },
            slice_extension_ns: 0,
            autogroup: false,
            arch: Arch::X86,
            mechanisms: Mechanisms { lazy_needs_tick: true, fault_under_lock: true, exchanging_turns: true },
        };
        for change in CHANGES.iter().filter(|change| change.since <= version) {
            (change.makes)(&mut kernel);
        }
        kernel
    }
}

/// `get_update_sysctl_factor()` with the default scaling (kernel/sched/fair.c).
fn scaling(cpus: u32) -> u64 {
    1 + u64::from(cpus.clamp(1, 8).ilog2())
}

/// `slice_ext_nsec` by default, which is its minimum too: 5 us; it can be set to up to 50 us (kernel/rseq.c, v7.2.12).
pub const SLICE_EXTENSION_NS: u64 = 5_000;

fn parsed(version: &str) -> Result<KernelVersion, Problem> {
    let (oldest, newest) = (KernelVersion::OLDEST_READ, KernelVersion::NEWEST_READ);
    let numbers = version.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match numbers.map(|(major, minor)| KernelVersion::new(major, minor)) {
        Some(version) if version.is_read() => Ok(version),
        Some(_) => {
            Err(Problem::usage(format!("kernel.version {version}"), "the model of the scheduler does not know it")
                .hint(format!("versions from {oldest} to {newest} are known")))
        }
        None => Err(Problem::usage(format!("kernel.version {version}"), "no version of Linux reads so")
            .hint("give it as \"6.18\"")),
    }
}

/// The words of the models that a version offers on x86.
fn models(version: KernelVersion) -> Vec<&'static str> {
    PreemptModel::built_for(version, version >= LAZY_SINCE).into_iter().map(PreemptModel::word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_grow_with_the_logarithm_of_the_cpus() {
        let slice = |cpus| Kernel::of_version("6.18", cpus, 250).expect("known").fair.base_slice_ns;
        let slices: Vec<u64> = [1, 2, 3, 4, 7, 8, 64, 192].into_iter().map(slice).collect();
        let ms = [0.70, 1.40, 1.40, 2.10, 2.10, 2.80, 2.80, 2.80];
        assert_eq!(slices, ms.map(|ms| (ms * 1e6) as u64));
    }

    #[test]
    fn versions_have_the_class_and_the_features_that_they_were_released_with() {
        let of = |version: &str| Kernel::of_version(version, 8, 250).expect("known");
        for (version, is_cfs, base_slice) in
            [("5.4", true, false), ("5.10", true, false), ("6.1", true, true), ("6.5", true, true)]
        {
            let cfs = of(version).cfs;
            assert_eq!(cfs.is_some(), is_cfs, "{version}");
            let cfs = cfs.expect("CFS");
            assert_eq!(cfs.base_slice, base_slice, "{version}");
            let times = (cfs.latency_ns, cfs.min_granularity_ns, cfs.wakeup_granularity_ns);
            assert_eq!(times, (24_000_000, 3_000_000, 4_000_000), "{version}");
        }
        // Version, slice, delayed dequeue, protection by the shortest slice, yield forfeits, HRTICK.
        for (version, slice_ns, delays, shortest, forfeits, hrtick) in [
            ("6.6", 3_000_000, false, false, false, false),
            ("6.12", 2_800_000, true, false, false, false),
            ("6.18", 2_800_000, true, true, true, false),
            ("7.0", 2_800_000, true, true, true, false),
            ("7.1", 2_800_000, true, true, true, true),
            ("7.3", 2_800_000, true, true, true, true),
        ] {
            let k = of(version);
            assert!(k.cfs.is_none(), "{version}");
            let has =
                (k.fair.base_slice_ns, k.fair.delay_dequeue, k.fair.protects_shortest, k.fair.yield_forfeits, k.hrtick);
            assert_eq!(has, (slice_ns, delays, shortest, forfeits, hrtick), "{version}");
        }
    }

    #[test]
    fn a_model_that_the_version_does_not_offer_is_refused() {
        let none = crate::preempt::find("none").expect("a model");
        let problem = Kernel::of("7.0", none, 250, 8).expect_err("no such model");
        assert_eq!(problem.hint.as_deref(), Some("it offers full, lazy, rt"));
    }

    #[test]
    fn versions_that_are_not_known_are_refused() {
        for version in ["4.19", "8.0", "6", "six.one", ""] {
            assert!(Kernel::of_version(version, 8, 250).is_err(), "{version}");
        }
    }
}
