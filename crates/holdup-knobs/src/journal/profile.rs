//! Profiles: values that are put in force on purpose and stay after the process has ended.
//!
//! Their changes are in a separate journal, whose entries belong to no process: a run takes what a profile has
//! set as it is, and only `holdup restore` undoes it. Applying on top of a profile keeps the values from before the
//! first one.

use super::outcome::{self, Outcome};
use super::record::{self, AppliedProfile, Book, Entry, Owner};
use super::{Applied, Change, Failed, Journal, Pending, read_back};
use crate::{Knob, KnobContext, Standing};
use holdup_host::Host;
use holdup_model::profile::{ProfileLine, ProfileState, Setting};
use holdup_model::{Availability, Problem, ProblemKind, Profile, Value};

/// The journal of the profiles of a host.
pub struct ProfileJournal {
    journal: Journal,
}

/// A value that was put in force, and what it takes to go back to the one before.
struct Step<'a> {
    setting: &'a Setting,
    before: Vec<Entry>,
    /// The entries that it is about; those beyond `before` are its own.
    changed: Vec<usize>,
    /// What was in force, as it was written where an earlier profile wrote it.
    previous: Value,
}

/// What came of a value.
enum Stepped<'a> {
    /// It was in force already.
    InForce,
    /// It is in force now.
    Done(Step<'a>),
    /// It could not be put in force, or not wholly.
    Failed(Step<'a>, Problem),
}

impl ProfileJournal {
    /// Opens the journal at `path`; `now_unix_ns` stands in its entries. Writes nothing. What a boot has put back
    /// since is no longer in it.
    ///
    /// # Errors
    /// When there is a file that cannot be read or understood: what it holds must not be lost.
    pub fn open(host: Host, path: &str, now_unix_ns: i64) -> Result<Self, Problem> {
        let owner = Owner::this_process(&host);
        let boot_id = record::boot_id(&host);
        let Book { mut entries, applied } = record::load(&host, path)?;
        let before = entries.len();
        entries.retain(|entry| !entry.went_with_boot(boot_id.as_deref()));
        let is_behind = entries.len() != before;
        let (path, opened_unix_ns, others) = (path.to_owned(), now_unix_ns, Vec::new());
        Ok(ProfileJournal {
            journal: Journal { host, path, owner, boot_id, opened_unix_ns, others, entries, applied, is_behind },
        })
    }

    /// The profiles that were applied and not yet restored, oldest first.
    pub fn applied(&self) -> &[AppliedProfile] {
        &self.journal.applied
    }

    /// What is changed and not yet put back, oldest first.
    pub fn pending(&self) -> Vec<Pending> {
        self.journal.pending()
    }

    /// Puts a profile in force. Everything is asked first; the values from before are on disk before the first one
    /// is written. When one cannot be written, those before it go back to what they were before this call.
    ///
    /// # Errors
    /// A value that is none of its knob, a knob that cannot be set here, a write that the host refuses, or a value
    /// that someone else changed since a profile set it: then the host is as it was before, or the error is
    /// [`ProblemKind::NotRestored`], says what is not, and the journal still knows.
    pub fn apply(&mut self, context: &KnobContext<'_>, profile: &Profile) -> Result<Vec<ProfileLine>, Problem> {
        let mut lines = survey(context, profile)?;
        if let Some(problem) = refusal(profile, &lines) {
            return Err(problem);
        }
        let applied_before = self.journal.applied.clone();
        self.journal.applied.retain(|a| a.profile.name != profile.name);
        self.journal.applied.push(AppliedProfile {
            profile: profile.clone(),
            applied_unix_ns: self.journal.opened_unix_ns,
            boot_id: self.journal.boot_id.clone(),
        });
        self.look_ahead(context, profile, &lines)?;
        let mut steps = Vec::new();
        for (setting, line) in profile.settings.iter().zip(&mut lines) {
            if line.state == ProfileState::LeftOut {
                continue;
            }
            match self.step(context, setting) {
                Ok(Stepped::InForce) => line.state = ProfileState::InForce,
                Ok(Stepped::Done(step)) => {
                    line.state = ProfileState::Applied;
                    steps.push(step);
                }
                Ok(Stepped::Failed(step, problem)) => {
                    steps.push(step);
                    return Err(self.take_back(context, &steps, applied_before, problem));
                }
                Err(problem) => return Err(self.take_back(context, &steps, applied_before, problem)),
            }
        }
        match self.journal.sync() {
            // What is on disk since the first write names all that was changed; only which of two values of holdup's
            // own stood last is not known from it.
            Err(_) if !steps.is_empty() => Ok(lines),
            Err(problem) => {
                self.journal.applied = applied_before;
                Err(problem)
            }
            Ok(()) => Ok(lines),
        }
    }

    /// Finds what someone else changed before anything is touched.
    fn look_ahead(
        &mut self,
        context: &KnobContext<'_>,
        profile: &Profile,
        lines: &[ProfileLine],
    ) -> Result<(), Problem> {
        for (setting, line) in profile.settings.iter().zip(lines) {
            if line.state == ProfileState::WouldChange {
                let (knob, instance) = knob_of(setting)?;
                self.strike_out_restored(context, knob, instance, setting)?;
                let server = server_of(context, knob);
                self.journal.touched(knob, &setting.knob, instance, context, server.as_ref())?;
            }
        }
        Ok(())
    }

    /// Puts one value in force. After an error nothing was written.
    fn step<'a>(&mut self, context: &KnobContext<'_>, setting: &'a Setting) -> Result<Stepped<'a>, Problem> {
        let (knob, instance) = knob_of(setting)?;
        self.strike_out_restored(context, knob, instance, setting)?;
        let found = knob.read(context, instance)?;
        let server = server_of(context, knob);
        let written = self.journal.entries.iter().filter(|e| e.is_about(&setting.knob, server.as_ref()));
        let previous = written
            .flat_map(|e| e.written.iter().rev())
            .find(|written| knob.same_here(context, instance, written, &found))
            .cloned()
            .unwrap_or_else(|| found.clone());
        let before = self.journal.entries.clone();
        match self.journal.change(context, &setting.knob, &setting.level.value) {
            Ok(Change { applied: Applied::Unchanged { .. }, .. }) => Ok(Stepped::InForce),
            Ok(Change { applied: Applied::Changed { .. }, changed }) => {
                Ok(Stepped::Done(Step { setting, before, changed, previous }))
            }
            Err(Failed::Untouched(problem)) => Err(problem),
            Err(Failed::Written { changed, problem }) => {
                Ok(Stepped::Failed(Step { setting, before, changed, previous }, problem))
            }
        }
    }

    /// Takes out what was put back by hand, and what is gone: the values before this profile are then those of now.
    fn strike_out_restored(
        &mut self,
        context: &KnobContext<'_>,
        knob: &dyn Knob,
        instance: &str,
        setting: &Setting,
    ) -> Result<(), Problem> {
        let server = server_of(context, knob);
        let mut gone = Vec::new();
        for (index, entry) in self.journal.entries.iter().enumerate() {
            if entry.is_about(&setting.knob, server.as_ref())
                && matches!(knob.standing(context, instance, &entry.past())?, Standing::Restored | Standing::Gone(_))
            {
                gone.push(index);
            }
        }
        for index in gone.into_iter().rev() {
            self.journal.entries.remove(index);
            self.journal.is_behind = true;
        }
        Ok(())
    }

    /// Goes back over the steps, the last first; gives the problem, with what else went wrong.
    fn take_back(
        &mut self,
        context: &KnobContext<'_>,
        steps: &[Step<'_>],
        applied_before: Vec<AppliedProfile>,
        problem: Problem,
    ) -> Problem {
        let mut left = Vec::new();
        for step in steps.iter().rev() {
            left.extend(self.step_back(context, step));
        }
        self.journal.applied = applied_before;
        self.journal.sync_later();
        if left.is_empty() {
            return problem;
        }
        let why = format!("{}; and the host is not as it was: {}", problem.why, left.join("; "));
        Problem { kind: ProblemKind::NotRestored, why, ..problem }
    }

    /// Goes back over one step; gives what could not be put back.
    fn step_back(&mut self, context: &KnobContext<'_>, step: &Step<'_>) -> Vec<String> {
        let mut left = Vec::new();
        let (own, earlier): (Vec<usize>, Vec<usize>) = step.changed.iter().partition(|i| **i >= step.before.len());
        // What an earlier profile set goes back to that, not to what was there before it.
        if !earlier.is_empty() {
            match self.write_previous(context, step) {
                Ok(()) => {
                    for index in earlier {
                        self.journal.entries[index] = step.before[index].clone();
                    }
                }
                Err(problem) => {
                    let why = format!("{}: {}", problem.what, problem.why);
                    left.push(format!("{} was {}: {why}", step.setting.knob, step.previous));
                }
            }
        }
        for index in own.into_iter().rev() {
            match outcome::undo(&self.journal.entries[index], context) {
                Outcome::Left(what) => left.push(what.to_string()),
                Outcome::Restored | Outcome::Dropped(_) => {
                    self.journal.entries.remove(index);
                }
            }
        }
        self.journal.is_behind = true;
        left
    }

    fn write_previous(&mut self, context: &KnobContext<'_>, step: &Step<'_>) -> Result<(), Problem> {
        let (knob, instance) = knob_of(step.setting)?;
        for index in &step.changed {
            let Entry { written, ever, .. } = &mut self.journal.entries[*index];
            for list in [written, ever] {
                if !list.contains(&step.previous) {
                    list.push(step.previous.clone());
                }
            }
        }
        // The value may be a new one to the journal on disk only where the entries do not name it already; a disk that
        // cannot take it is no reason to leave the host as it is.
        self.journal.sync_later();
        knob.write(context, instance, &step.previous)?;
        read_back(knob, context, instance, &step.setting.knob, &step.previous).map(|_| ())
    }
}

/// Asks every knob of a profile: what is in force, and whether the value can be put in force. Touches nothing.
///
/// # Errors
/// A value that is none of its knob ([`ProblemKind::Usage`]).
pub fn survey(context: &KnobContext<'_>, profile: &Profile) -> Result<Vec<ProfileLine>, Problem> {
    for setting in &profile.settings {
        let (knob, instance) = knob_of(setting)?;
        knob.check(instance, &setting.level.value)?;
    }
    profile
        .settings
        .iter()
        .map(|setting| {
            let (knob, instance) = knob_of(setting)?;
            let mut line = line(knob, instance, setting);
            match probe(knob, context, instance) {
                Availability::Unavailable { reason, remedy } => {
                    (line.reason, line.remedy) = (Some(reason), remedy);
                    line.state = unavailable(setting);
                    return Ok(line);
                }
                Availability::Degraded { reason } => line.reason = Some(reason),
                Availability::Ready => {}
            }
            if let Err(problem) = knob.check_here(context, instance, &setting.level.value) {
                (line.reason, line.remedy) = (Some(problem.why), problem.hint);
                line.state = unavailable(setting);
                return Ok(line);
            }
            match knob.read(context, instance) {
                Err(problem) => {
                    line.reason = Some(format!("{}: {}", problem.what, problem.why));
                    line.remedy = problem.hint;
                    line.state = unavailable(setting);
                }
                Ok(found) => {
                    let is_in_force = knob.same_here(context, instance, &setting.level.value, &found);
                    line.state = if is_in_force { ProfileState::InForce } else { ProfileState::WouldChange };
                    line.found = Some(knob.values().show(&found));
                }
            }
            Ok(line)
        })
        .collect()
}

/// Why a profile cannot be applied here: every knob that cannot be set and is not optional.
pub fn refusal(profile: &Profile, lines: &[ProfileLine]) -> Option<Problem> {
    let refused: Vec<&ProfileLine> = lines.iter().filter(|l| l.state == ProfileState::Unavailable).collect();
    let [first, rest @ ..] = refused.as_slice() else { return None };
    let reason = |line: &ProfileLine| {
        let reason = line.reason.as_deref().unwrap_or("it cannot be set here");
        format!("{} = {}: {reason}", line.knob, line.wanted)
    };
    let why = refused.iter().map(|line| reason(line)).collect::<Vec<_>>().join("; ");
    let mut hints: Vec<String> = Vec::new();
    for line in std::iter::once(first).chain(rest) {
        hints.extend(line.remedy.clone().filter(|remedy| !hints.contains(remedy)));
    }
    hints.push("or let the profile go without it: { value = …, optional = true }".to_owned());
    Some(Problem::host(format!("profile {} cannot be applied here", profile.name), why).hint(hints.join("; ")))
}

/// Compares what is in force with what the settings want. Touches nothing and needs no right to write.
///
/// # Errors
/// A value that is none of its knob ([`ProblemKind::Usage`]).
pub fn verify(context: &KnobContext<'_>, settings: &[Setting]) -> Result<Vec<ProfileLine>, Problem> {
    settings
        .iter()
        .map(|setting| {
            let (knob, instance) = knob_of(setting)?;
            knob.check(instance, &setting.level.value)?;
            let mut line = line(knob, instance, setting);
            match knob.read(context, instance) {
                Ok(found) => {
                    let is_in_force = knob.same_here(context, instance, &setting.level.value, &found);
                    line.state = if is_in_force { ProfileState::InForce } else { ProfileState::Differs };
                    line.found = Some(knob.values().show(&found));
                }
                Err(problem) => {
                    line.state = unavailable(setting);
                    (line.reason, line.remedy) = match probe(knob, context, instance) {
                        // The probe knows more often than the failed reading what would help.
                        Availability::Unavailable { reason, remedy } => (Some(reason), remedy),
                        _ => (Some(format!("{}: {}", problem.what, problem.why)), problem.hint),
                    };
                }
            }
            Ok(line)
        })
        .collect()
}

fn line(knob: &dyn Knob, instance: &str, setting: &Setting) -> ProfileLine {
    ProfileLine {
        knob: setting.knob.clone(),
        wanted: setting.level.label.clone(),
        found: None,
        state: ProfileState::Unavailable,
        reason: None,
        remedy: None,
        touches: knob.touches(instance),
    }
}

fn unavailable(setting: &Setting) -> ProfileState {
    if setting.optional { ProfileState::LeftOut } else { ProfileState::Unavailable }
}

/// The probe of a knob; where what it acts on was not given it says how to give it.
fn probe(knob: &dyn Knob, context: &KnobContext<'_>, instance: &str) -> Availability {
    if knob.is_of_server() && context.postgres.is_none() {
        return Availability::unavailable_but("it is a setting of a server, and none was given", "give --pg URL");
    }
    if knob.is_of_processes() && context.pids.is_empty() {
        return Availability::unavailable_but(
            "it is about processes, and none were given",
            "give --pid PID, or --pg URL for those of a server on this host",
        );
    }
    if !knob.outlives_process() {
        return Availability::unavailable_but(
            "it lasts only as long as the process that sets it, which ends with `holdup apply`",
            "export the profile for TuneD, which stays and holds it",
        );
    }
    knob.probe(context, instance)
}

fn server_of(context: &KnobContext<'_>, knob: &dyn Knob) -> Option<record::Server> {
    if knob.is_of_server() { record::Server::of(context, false) } else { None }
}

fn knob_of(setting: &Setting) -> Result<(&'static dyn Knob, &str), Problem> {
    crate::find(&setting.knob)
        .ok_or_else(|| Problem::usage(format!("knob {}", setting.knob), "there is no knob of that name"))
}
