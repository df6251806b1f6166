//! What is brought to nodes that share no storage with this host, and what is fetched from them.

use crate::client::Slurm;
use crate::folder::{Kept, RunFolder};
use crate::job::Job;
use crate::queue::{Mark, State, Task};
use crate::script::{FILES, STAGED};
use holdup_model::Problem;
use std::collections::{BTreeMap, BTreeSet};

/// How many nodes are served at the same time: each takes a program of Slurm.
const AT_THE_SAME_TIME: usize = 8;

/// Brings and fetches, as the tasks of a run ask for it.
pub(crate) struct Courier<'a> {
    slurm: Slurm,
    folder: &'a RunFolder,
    job: &'a Job,
    /// What was done, by task and what it said.
    done: BTreeSet<(u32, Mark)>,
    /// Why something could not be brought or fetched, by part.
    troubles: BTreeMap<u32, Problem>,
}

/// A task that waits for something.
struct Errand<'t> {
    part: u32,
    task: &'t Task,
    mark: &'t Mark,
}

impl<'a> Courier<'a> {
    pub(crate) fn new(slurm: Slurm, folder: &'a RunFolder, job: &'a Job) -> Self {
        Courier { slurm, folder, job, done: BTreeSet::new(), troubles: BTreeMap::new() }
    }

    /// Why something could not be brought to the node of a part or fetched from it.
    pub(crate) fn trouble(&self, part: u32) -> Option<&Problem> {
        self.troubles.get(&part)
    }

    /// Brings what tasks wait for, fetches the parts that have ended, and releases their tasks. Gives what failed for the first
    /// time, by part; it is tried again as long as the task waits.
    pub(crate) fn serve(&mut self, tasks: &BTreeMap<u32, Task>) -> Vec<(u32, Problem)> {
        let running = tasks.iter().filter(|(_, task)| task.state == State::Running);
        let errands = running.filter_map(|(part, task)| Some(Errand { part: *part, task, mark: task.mark.as_ref()? }));
        let (known, new): (Vec<_>, Vec<_>) =
            errands.partition(|errand| self.done.contains(&(errand.task.id, errand.mark.clone())));
        let is_over = |errand: &&Errand<'_>| matches!(errand.mark, Mark::Ended(..));
        // One that did not see the signal is sent it again.
        let named = |errand: &Errand<'_>| (errand.task.job, errand.part);
        let mut released: Vec<(u32, u32)> = known.iter().filter(is_over).map(named).collect();
        let mut failed = Vec::new();
        for some in new.chunks(AT_THE_SAME_TIME) {
            for (errand, done) in some.iter().zip(self.run(some)) {
                match done {
                    Ok(()) => {
                        self.troubles.remove(&errand.part);
                        self.done.insert((errand.task.id, errand.mark.clone()));
                        released.extend(Some(errand).filter(is_over).map(named));
                    }
                    Err(problem) => {
                        if self.troubles.insert(errand.part, problem.clone()).is_none() {
                            failed.push((errand.part, problem));
                        }
                    }
                }
            }
        }
        if !released.is_empty() {
            // It is tried again with the next look.
            let _later = self.slurm.release(&released);
        }
        failed
    }

    fn run(&self, errands: &[Errand<'_>]) -> Vec<Result<(), Problem>> {
        std::thread::scope(|scope| {
            let begun: Vec<_> = errands.iter().map(|errand| scope.spawn(|| self.one(errand))).collect();
            let lost = |_| Err(Problem::internal("what is brought to a node", "its thread ended early"));
            begun.into_iter().map(|thread| thread.join().unwrap_or_else(lost)).collect()
        })
    }

    fn one(&self, errand: &Errand<'_>) -> Result<(), Problem> {
        match errand.mark {
            Mark::Waits(at) => self.bring(errand.task.id, at),
            // A holdup that was interrupted may have fetched it.
            Mark::Ended(..) if self.folder.part(errand.part).exists() => Ok(()),
            Mark::Ended(code, at) => self.fetch(errand, *code, at),
        }
    }

    /// Brings the description of the run, the program, the machine and the files of the plan; last a file that says that all is
    /// there, for a file is seen before it is whole.
    fn bring(&self, task: u32, at: &str) -> Result<(), Problem> {
        for name in self.folder.needed() {
            self.slurm.put(task, &self.folder.path().join(name), &format!("{at}/{name}"))?;
        }
        for (from, name) in self.job.stage.iter().flat_map(|stage| &stage.files) {
            self.slurm.put(task, from, &format!("{at}/{FILES}/{}", name.display()))?;
        }
        self.slurm.put(task, &self.folder.path().join(STAGED), &format!("{at}/{STAGED}"))
    }

    /// Fetches a part, or what is known of why there is none.
    fn fetch(&self, errand: &Errand<'_>, code: u32, at: &str) -> Result<(), Problem> {
        let get = |kept: Kept| {
            let (folder, name) = self.folder.name(kept, errand.part);
            let from = format!("{at}/{folder}/{name}");
            self.folder.receive(kept, errand.part, errand.task.id, |to| self.slurm.get(errand.task.id, &from, to))
        };
        if code != 0 {
            get(Kept::Log)?;
            get(Kept::Problem)?;
        }
        // Last: with it the part is whole.
        match get(Kept::Part)? || code != 0 {
            true => Ok(()),
            false => Err(Problem::host(format!("part {}", errand.part), format!("it is not in {at} of its node"))),
        }
    }
}
