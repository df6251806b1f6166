//! Any interleaving of applying, failing, crashing, putting back and of changes by others ends in the old state or in
//! a report with the exact difference.

use crate::support;
use holdup_host::Scheduling;
use holdup_host::fake::Fault;
use holdup_knobs::journal::{self, Journal};
use proptest::prelude::*;
use std::collections::BTreeMap;
use support::{JOURNAL, World, factors, has_parts};

#[derive(Debug, Clone)]
enum Step {
    /// Applies a level of a factor.
    Apply(usize, usize),
    /// Applies one while an operation fails.
    Failing(usize, usize, Fault),
    /// Puts everything back while an operation fails, or none.
    Restore(Option<Fault>),
    /// The process dies within applying, and a new one starts.
    Crash(usize, usize, u64),
    /// Someone else changes a factor.
    Foreign(usize),
    /// A backend is born of a process under test.
    Fork,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let factor = 0..factors().len();
    let fault = prop_oneof![(1_u64..60).prop_map(Fault::Once), (1_u64..60).prop_map(Fault::OnceAfter)];
    let step = prop_oneof![
        4 => (factor.clone(), 0..2_usize).prop_map(|(f, l)| Step::Apply(f, l)),
        3 => (factor.clone(), 0..2_usize, fault.clone()).prop_map(|(f, l, fault)| Step::Failing(f, l, fault)),
        2 => proptest::option::of(fault).prop_map(Step::Restore),
        2 => (factor.clone(), 0..2_usize, 1_u64..60).prop_map(|(f, l, at)| Step::Crash(f, l, at)),
        1 => factor.prop_map(Step::Foreign),
        1 => Just(Step::Fork),
    ];
    proptest::collection::vec(step, 1..14)
}

/// What is true beside what holdup knows: what each factor was before holdup changed it.
struct Model {
    world: World,
    baseline: BTreeMap<&'static str, String>,
    /// What others set while holdup had it changed, as a report should name it.
    meddled: BTreeMap<&'static str, &'static str>,
    born: u32,
}

impl Model {
    fn new() -> Self {
        let world = World::new();
        let baseline = factors().iter().map(|(name, _)| (*name, world.state(name))).collect();
        Model { world, baseline, meddled: BTreeMap::new(), born: 0 }
    }

    fn is_pending(&self, factor: &str) -> bool {
        journal::pending(&self.world.host, JOURNAL).unwrap().iter().any(|p| p.factor == factor)
    }

    fn foreign(&mut self, journal: &Journal, factor: &'static str) {
        let is_on_disk = self.is_pending(factor);
        let is_held = journal.pending().iter().any(|p| p.factor == factor);
        let named = self.world.foreign(factor);
        if is_on_disk {
            self.meddled.insert(factor, named);
        }
        // An entry on disk that the process does not hold is one whose change never came: this is the state to keep,
        // and to report it is right as well.
        if !is_held {
            self.baseline.insert(factor, self.world.state(factor));
        }
    }

    fn fork(&mut self) {
        self.born += 1;
        let parent = self.world.fs.task(10).unwrap();
        let pid = 100 + self.born;
        self.world.fs.put_process(pid, 10, 1000 + u64::from(self.born), parent);
    }

    /// The old state everywhere, or reported exactly.
    fn check(&self, left: &[journal::Left], at: &str) -> Result<(), TestCaseError> {
        for (factor, was) in &self.baseline {
            let now = self.world.state(factor);
            match left.iter().find(|l| l.factor == *factor) {
                None => prop_assert_eq!(&now, was, "{}: {} is not as it was, without a report", at, factor),
                Some(left) => {
                    let named = self.meddled.get(factor);
                    let found = left.found.as_ref().map(ToString::to_string).unwrap_or_default();
                    prop_assert!(
                        named.is_some_and(|n| found.contains(n)),
                        "{at}: {factor} is {now}, reported as {left}"
                    );
                    prop_assert!(now.contains(found.trim()) || has_parts(factor), "{at}: {now} reported as {left}");
                }
            }
        }
        // What was born while its parent had another policy, or other CPUs, has its parent's own again.
        let is_left = |factor: &str| left.iter().any(|l| l.factor == factor);
        for pid in (1..=self.born).map(|n| 100 + n) {
            let (policy, cpus) = (self.world.fs.task(pid), self.world.fs.task_affinity(pid));
            let policy = (policy, self.world.fs.task_slice(pid));
            let is_back = policy == (Some(Scheduling::other(0)), Some((2_100_000, false)));
            prop_assert!(is_left("sched-policy") || is_back, "{at}: {pid} has {policy:?}");
            prop_assert!(is_left("affinity") || cpus == Some(vec![0, 1, 2, 3]), "{at}: {pid} has {cpus:?}");
        }
        Ok(())
    }

    fn run(&mut self, journal: &mut Journal, step: &Step) {
        let apply = |journal: &mut Journal, world: &World, factor: usize, level: usize| {
            let (name, levels) = &factors()[factor];
            let _tried = journal.apply(&world.context(), name, &levels[level]);
        };
        match step {
            Step::Apply(factor, level) => apply(journal, &self.world, *factor, *level),
            Step::Failing(factor, level, fault) => {
                self.world.fs.arm(Some(*fault));
                apply(journal, &self.world, *factor, *level);
            }
            Step::Restore(fault) => {
                self.world.fs.arm(*fault);
                let _tried = journal.restore_all(&self.world.context());
            }
            Step::Crash(factor, level, at) => {
                self.world.fs.arm(Some(Fault::From(*at)));
                apply(journal, &self.world, *factor, *level);
                self.world.fs.arm(None);
                self.world.recover().unwrap();
                *journal = self.world.open().unwrap();
            }
            Step::Foreign(factor) => self.foreign(journal, factors()[*factor].0),
            Step::Fork => self.fork(),
        }
        self.world.fs.arm(None);
        // What is not pending any more was put back as it had been; a meddling is over with it.
        for (name, _) in factors() {
            if !self.is_pending(name) && self.meddled.remove(name).is_some() {
                self.baseline.insert(name, self.world.state(name));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, failure_persistence: None, ..ProptestConfig::default() })]
    fn the_host_ends_as_it_was_or_the_difference_is_reported(steps in steps(), ends_by_crash in any::<bool>()) {
        let mut model = Model::new();
        let mut journal = model.world.open().unwrap();
        for step in &steps {
            model.run(&mut journal, step);
        }
        let left = if ends_by_crash {
            drop(journal);
            model.world.recover().unwrap().left
        } else {
            journal.restore_all(&model.world.context()).left
        };
        model.check(&left, &format!("{steps:?}"))?;
        prop_assert_eq!(model.world.fs.get(JOURNAL).is_some(), !left.is_empty());
    }
}

holdup_testkit::tests!(the_host_ends_as_it_was_or_the_difference_is_reported);
