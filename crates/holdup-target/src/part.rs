//! A part of a schedule: what it takes over from earlier attempts, and what its sessions say of the node.

use crate::head::Clock;
use crate::run::{Part, Walk};
use crate::session::Session;
use holdup_bundle::Reader;
use holdup_model::{Fact, MemoryBudget, Problem, Schedule, Trial, TrialSpec, TrialStatus};

impl Walk<'_> {
    /// Takes over what earlier attempts at this part left, and gives the place in the schedule from which on is to be run.
    ///
    /// Computed trials count, as they would come out the same again. Those that were measured are void: their session
    /// is set up anew, perhaps on another node, and is measured as a whole.
    pub(crate) fn take_over(&mut self) -> Result<usize, Problem> {
        let Some(part) = &self.request.part else { return Ok(0) };
        let Some((reader, why_void)) = fullest(part) else { return Ok(0) };
        let mut place = 0;
        let mut last = None;
        for seq in 0..reader.trials() {
            // What is damaged is run again.
            let Ok(mut trial) = reader.trial(seq) else { break };
            // A trial that was interrupted is void. One whose machine stopped is too, and is void again.
            if self.clock == Clock::Simulated && !trial.is_done() {
                break;
            }
            let schedule = self.request.schedule;
            let Some(spec) = planned(schedule, place, &trial, self.clock) else { break };
            if last != Some(trial.boot) {
                last = Some(trial.boot);
                for reading in reader.data().environment.iter().filter(|reading| reading.boot == trial.boot) {
                    self.writer.add_environment(reading.session, reading.boot, &reading.facts)?;
                }
            }
            trial.seq = self.seq;
            if self.clock == Clock::Host && trial.is_done() {
                trial.status = TrialStatus::Void { reason: why_void.to_owned() };
            }
            match trial.is_done() {
                true => self.done += 1,
                false => self.void += 1,
            }
            self.writer.add_trial(&trial)?;
            self.seq += 1;
            *self.attempts.entry(spec.seq).or_default() = trial.attempt + 1;
            place += usize::from(self.clock == Clock::Simulated);
        }
        Ok(place)
    }

    /// The environment at the begin of a session, with what the part adds to that of a host.
    pub(crate) fn facts_of(&self, session: &mut dyn Session) -> Vec<Fact> {
        let mut facts = session.environment();
        if let (Some(part), Clock::Host) = (&self.request.part, self.clock) {
            facts.extend(part.facts.iter().cloned());
        }
        facts
    }
}

/// The earlier attempt that came furthest, each of which holds what those before it left.
fn fullest(part: &Part) -> Option<(Reader, &str)> {
    let readers = part
        .earlier
        .iter()
        .filter_map(|earlier| Some((Reader::open(&earlier.path, &MemoryBudget::default()).ok()?, &*earlier.why_void)));
    readers.max_by_key(|(reader, _)| reader.trials())
}

/// The planned trial that a trial is of; of a simulation it must be the next one.
fn planned<'s>(schedule: &'s Schedule, place: usize, trial: &Trial, clock: Clock) -> Option<&'s TrialSpec> {
    let is_of = |spec: &&TrialSpec| {
        (spec.session, spec.boot, spec.block, spec.position, spec.arm)
            == (trial.session, trial.boot, trial.block, trial.position, trial.arm)
    };
    match clock {
        Clock::Simulated => schedule.trials.get(place).filter(is_of),
        Clock::Host => schedule.trials.iter().find(is_of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Added, Begun, Earlier, GuestOptions, Merger, NotAdded, RunRequest};
    use holdup_host::Host;
    use holdup_load::{Cancel, PostgresOptions};
    use holdup_model::bundle::Ending;
    use holdup_model::{Event, Machine, Observer, Plan};
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    const PLAN: &str = "target = \"sim:server-8\"\n[design]\nblocks = 6\nduration = \"2ms\"\nwarmup = \"1ms\"\nseed = 5\n\
        [[workload]]\nkind = \"lock-contention\"\nthreads = 12\nalgorithm = [\"tas\", \"ticket\"]\n";
    const MACHINE: Machine = Machine { cpus: 8, memory_bytes: 1 << 30 };

    /// Counts trials, and interrupts after some.
    struct Count(u32, u32, Cancel);

    impl Observer for Count {
        fn event(&mut self, event: Event<'_>) {
            if let Event::TrialEnd { .. } = event {
                self.0 += 1;
                if self.0 == self.1 {
                    self.2.cancel();
                }
            }
        }
    }

    fn request<'a>(plan: &'a Plan, schedule: &'a Schedule, out: &'a Path, host: &'a Host) -> RunRequest<'a> {
        RunRequest {
            host,
            plan,
            plan_source: PLAN,
            schedule,
            machine: MACHINE,
            out,
            command: vec!["holdup".to_owned(), "run".to_owned()],
            notes: vec!["a note".to_owned()],
            postgres: PostgresOptions::default(),
            workdir: std::env::temp_dir(),
            guests: GuestOptions::default(),
            ssh: holdup_ssh::SshOptions::default(),
            wait: Duration::ZERO,
            part: None,
            cancel: Cancel::default(),
            is_decided: &|_| false,
        }
    }

    fn run(request: &RunRequest<'_>, interrupt_after: u32) -> (u32, Ending) {
        let mut count = Count(0, interrupt_after, request.cancel.clone());
        let outcome = crate::run(request, &mut count).expect("it runs");
        (count.0, outcome.ending)
    }

    /// The parts of a schedule with these numbers of trials.
    fn parts(plan: &Plan, schedule: &Schedule, folder: &Path, sizes: &[usize]) -> Vec<PathBuf> {
        let mut first = 0;
        let part = |(number, size): (usize, &usize)| {
            let trials = schedule.trials[first..first + size].to_vec();
            first += size;
            let of_part = Schedule { arms: schedule.arms.clone(), trials };
            let out = folder.join(format!("{number}.holdup"));
            let host = Host::real();
            let whole = request(plan, &of_part, &out, &host);
            run(&RunRequest { notes: Vec::new(), part: Some(Part::default()), ..whole }, 0);
            out
        };
        sizes.iter().enumerate().map(part).collect()
    }

    fn merged(request: &RunRequest<'_>, parts: &[PathBuf]) -> Result<(), NotAdded> {
        let mut merger =
            Merger::new(request, Begun { run_id: "x".to_owned(), unix_ns: 1, replaces: false }).expect("it begins");
        for part in parts {
            assert_eq!(merger.add(part)?, Added::Whole);
        }
        merger.finish().map(drop).map_err(NotAdded::Unwritable)
    }

    #[test]
    fn parts_of_any_size_make_the_bundle_of_the_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let (plan, schedule) = crate::checked(PLAN, MACHINE);
        let alone = folder.path().join("alone.holdup");
        run(&request(&plan, &schedule, &alone, &Host::real()), 0);
        let trials = schedule.trials.len();
        for (number, sizes) in [vec![trials], vec![1, trials - 1], vec![5, 7, trials - 12]].iter().enumerate() {
            let below = folder.path().join(number.to_string());
            std::fs::create_dir(&below).expect("a folder");
            let out = below.join("out.holdup");
            let host = Host::real();
            merged(&request(&plan, &schedule, &out, &host), &parts(&plan, &schedule, &below, sizes)).expect("merged");
            assert!(std::fs::read(&alone).expect("read") == std::fs::read(&out).expect("read"), "{sizes:?}");
        }
    }

    #[test]
    fn what_an_attempt_left_is_taken_over_and_not_computed_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let (plan, schedule) = crate::checked(PLAN, MACHINE);
        let names = ["alone", "left", "rest", "merged"].map(|name| folder.path().join(format!("{name}.holdup")));
        let [alone, left, rest, out] = &names;
        let host = Host::real();
        run(&request(&plan, &schedule, alone, &host), 0);
        let (done, ending) = run(&RunRequest { notes: Vec::new(), ..request(&plan, &schedule, left, &host) }, 7);
        assert_eq!((done, ending), (7, Ending::Interrupted));
        let earlier = vec![Earlier { path: left.clone(), why_void: String::new() }];
        let part = Some(Part { earlier, ..Part::default() });
        let again = RunRequest { notes: Vec::new(), part, ..request(&plan, &schedule, rest, &host) };
        let (computed, ending) = run(&again, 0);
        assert_eq!((computed as usize, ending), (schedule.trials.len() - 7, Ending::Complete));
        merged(&request(&plan, &schedule, out, &host), std::slice::from_ref(rest)).expect("merged");
        assert!(std::fs::read(alone).expect("read") == std::fs::read(out).expect("read"), "the bytes differ");
    }

    #[test]
    fn a_part_that_never_ended_or_is_damaged_is_not_merged() {
        let folder = tempfile::tempdir().expect("a folder");
        let (plan, schedule) = crate::checked(PLAN, MACHINE);
        let (part, out) = (folder.path().join("0.holdup"), folder.path().join("out.holdup"));
        let host = Host::real();
        run(&RunRequest { notes: Vec::new(), ..request(&plan, &schedule, &part, &host) }, 0);
        let size = std::fs::metadata(&part).expect("it is there").len();
        let file = std::fs::OpenOptions::new().write(true).open(&part).expect("it opens");
        std::os::unix::fs::FileExt::write_all_at(&file, &[0xa5; 4096], size / 2).expect("it is written");
        let refused = merged(&request(&plan, &schedule, &out, &host), &[part]);
        assert!(matches!(refused, Err(NotAdded::Damaged(_))), "{refused:?}");
        assert!(!out.exists());
    }
}
