//! Profiles on the host that holdup runs on: applied, verified, restored.

use crate::local;
use holdup_host::lock::HostLock;
use holdup_host::postgres::PostgresControl;
use holdup_host::{Host, process, state};
use holdup_knobs::connection::without_password;
use holdup_knobs::journal::{self, AppliedProfile, ProfileJournal, Restored};
use holdup_knobs::{KnobContext, find};
use holdup_model::profile::{Destination, ProfileLine, Setting};
use holdup_model::{Problem, Profile};
use holdup_postgres::External;
use holdup_watch::unix_ns;
use std::time::Duration;

/// What the knobs of a profile act on beside the host.
#[derive(Default)]
pub struct Subjects {
    server: Option<External>,
    /// Processes whose descendants count as well.
    roots: Vec<u32>,
}

impl Subjects {
    /// The server at a URL, if there is one, and some processes. Knobs of processes act on the processes with all
    /// their descendants; where none are named, on those of the server.
    ///
    /// # Errors
    /// When the server cannot be reached, or a process is not there.
    pub fn reach(host: &Host, url: Option<&str>, pids: &[u32]) -> Result<Self, Problem> {
        for pid in pids {
            process::stat(host, *pid).map_err(|e| {
                Problem::usage(format!("--pid {pid}"), e.message).hint("name a process that runs on this host")
            })?;
        }
        let server = url.map(|url| External::connect(host, url)).transpose()?;
        let postmaster = server.as_ref().and_then(PostgresControl::postmaster_pid);
        let roots = if pids.is_empty() { postmaster.into_iter().collect() } else { pids.to_vec() };
        Ok(Subjects { server, roots })
    }

    fn context<'a>(&'a self, host: &'a Host) -> Result<KnobContext<'a>, Problem> {
        let mut pids = Vec::new();
        for root in &self.roots {
            pids.extend(process::tree(host, *root)?.into_iter().filter(|pid| !pids.contains(pid)).collect::<Vec<_>>());
        }
        Ok(KnobContext { host, postgres: self.server.as_ref().map(|s| s as &dyn PostgresControl), pids })
    }
}

/// The lock's hint speaks of `--wait`, which `holdup apply` does not have.
fn without_queue(refused: Problem) -> Problem {
    let hint =
        refused.hint.map(|_| "wait for it to end, or end it with Ctrl-C: it then puts back what it set".to_owned());
    Problem { hint, ..refused }
}

/// Puts a profile in force. Returns a line for each value, and notes.
///
/// # Errors
/// When another holdup is at work, when a run that was killed left something that cannot be put back, and those of
/// [`ProfileJournal::apply`].
pub fn apply(host: &Host, subjects: &Subjects, profile: &Profile) -> Result<(Vec<ProfileLine>, Vec<String>), Problem> {
    // A run under way would measure the change, and put it back without knowing of it.
    let _lock = HostLock::take(Duration::ZERO, &|| false).map_err(without_queue)?;
    let notes = local::recover(host)?;
    let mut journal = ProfileJournal::open(host.clone(), &state::profile_journal_path(), unix_ns())?;
    let lines = journal.apply(&subjects.context(host)?, profile)?;
    Ok((lines, notes))
}

/// What [`apply`] would do. Touches nothing; the problem is the one that it would end with.
///
/// # Errors
/// A value that is none of its knob.
pub fn dry_run(
    host: &Host,
    subjects: &Subjects,
    profile: &Profile,
) -> Result<(Vec<ProfileLine>, Option<Problem>), Problem> {
    let lines = journal::survey(&subjects.context(host)?, profile)?;
    let refusal = journal::refusal(profile, &lines);
    Ok((lines, refusal))
}

/// Compares what is in force with what a profile wants.
///
/// # Errors
/// A value that is none of its knob.
pub fn verify(host: &Host, subjects: &Subjects, settings: &[Setting]) -> Result<Vec<ProfileLine>, Problem> {
    journal::verify(&subjects.context(host)?, settings)
}

/// The profiles that were applied on this host and not restored, oldest first.
pub fn applied(host: &Host) -> Result<Vec<AppliedProfile>, Problem> {
    let journal = ProfileJournal::open(host.clone(), &state::profile_journal_path(), unix_ns())?;
    Ok(journal.applied().to_vec())
}

/// Several profiles as one: where two speak of the same knob, the later wins.
pub fn together(applied: &[AppliedProfile]) -> Option<Profile> {
    let names: Vec<&str> = applied.iter().map(|a| a.profile.name.as_str()).collect();
    let mut all = Profile { name: names.join("+"), ..applied.last()?.profile.clone() };
    for earlier in applied.iter().rev().skip(1) {
        for setting in &earlier.profile.settings {
            if !all.settings.iter().any(|s| s.knob.eq_ignore_ascii_case(&setting.knob)) {
                all.settings.push(setting.clone());
            }
        }
    }
    Some(all)
}

/// Puts back what a run that was killed has left, then what profiles have set, each the last change first. `url` is
/// used for its server in place of the stored one, which has no password. A journal that cannot be read keeps nothing
/// of the other one from being put back; its problem is given beside.
///
/// # Errors
/// When another holdup is at work for longer than `wait`.
pub fn restore(host: &Host, url: Option<&str>, wait: Duration) -> Result<(Restored, Vec<Problem>), Problem> {
    let _lock = HostLock::take(wait, &|| false)?;
    Ok(restore_at(host, &[state::journal_path(), state::profile_journal_path()], url))
}

/// The same with the journals of runs and of profiles at these paths.
fn restore_at(host: &Host, [runs, profiles]: &[String; 2], url: Option<&str>) -> (Restored, Vec<Problem>) {
    let given = url.map(|url| (without_password(url), url));
    let reach = |stored: &str| match &given {
        Some((without, url)) if without == stored => local::reach(host, url),
        _ => local::reach(host, stored),
    };
    let (mut all, mut broken) = (Restored::default(), Vec::new());
    // The hint of a broken journal is `holdup restore --forget`, which lets go of both.
    for outcome in [journal::recover(host, runs, &reach), journal::restore_profiles(host, profiles, &reach)] {
        match outcome {
            Ok(Restored { restored, left, notes, dropped }) => {
                all.restored.extend(restored);
                all.left.extend(left);
                all.notes.extend(notes);
                all.dropped.extend(dropped);
            }
            Err(problem) => broken.push(problem),
        }
    }
    (all, broken)
}

/// Lets go of everything that either journal lists, but what a running process owns; gives what that was.
///
/// # Errors
/// When another holdup is at work for longer than `wait`, or a journal cannot be removed or brought up to date.
pub fn forget(host: &Host, wait: Duration) -> Result<Vec<String>, Problem> {
    let _lock = HostLock::take(wait, &|| false)?;
    let mut gone = journal::forget(host, &state::journal_path())?;
    gone.extend(journal::forget_profiles(host, &state::profile_journal_path())?);
    Ok(gone)
}

/// Where each value of a profile lives, in the order of its settings.
///
/// # Errors
/// A value that is none of its knob.
pub fn destinations(profile: &Profile) -> Result<Vec<Vec<Destination>>, Problem> {
    profile
        .settings
        .iter()
        .map(|setting| {
            let (knob, instance) = find(&setting.knob)
                .ok_or_else(|| Problem::usage(format!("knob {}", setting.knob), "there is no knob of that name"))?;
            knob.check(instance, &setting.level.value)?;
            Ok(knob.destinations(instance, &setting.level.value))
        })
        .collect()
}

/// Puts back what a run that was killed has left changed, once no other run is under way.
///
/// # Errors
/// When something cannot be put back, or another run does not end in time.
pub fn put_back_left(host: &Host, wait: Duration) -> Result<Vec<String>, Problem> {
    let _lock = HostLock::take(wait, &|| false)?;
    local::recover(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_host::fake::MemoryFs;
    use holdup_model::ProblemKind;
    use holdup_model::plan::Level;

    #[test]
    fn no_option_is_named_that_the_command_does_not_have() {
        let refused = without_queue(Problem::host("this host", "another holdup run is under way").hint("give --wait"));
        assert!(refused.hint.is_some_and(|hint| !hint.contains("--wait") && hint.contains("wait for it to end")));
        assert_eq!(without_queue(Problem::host("the lock", "EACCES")).hint, None);
    }

    #[test]
    fn a_broken_journal_does_not_keep_the_other_one_from_being_put_back() {
        const AUTOGROUP: &str = "/proc/sys/kernel/sched_autogroup_enabled";
        let (runs, profiles) = ("/state/journal.json", "/state/profile.json");
        for broken in ["", "{\"schema\":", "{\"schema\": \"holdup.journal/9\", \"entries\": []}"] {
            let fs = MemoryFs::of(&[(AUTOGROUP, "1\n"), (runs, broken)]);
            let host = fs.host();
            let off = Setting { knob: "autogroup".to_owned(), level: Level::plain(false), optional: false };
            let profile = Profile { name: "off".to_owned(), summary: String::new(), settings: vec![off] };
            let context = KnobContext { host: &host, postgres: None, pids: Vec::new() };
            ProfileJournal::open(host.clone(), profiles, 0).expect("new").apply(&context, &profile).expect("it takes");
            assert_eq!(fs.get(AUTOGROUP).as_deref(), Some("0"));
            let (restored, problems) = restore_at(&host, &[runs.to_owned(), profiles.to_owned()], None);
            assert_eq!((restored.restored.len(), fs.get(AUTOGROUP).as_deref(), fs.get(profiles)), (1, Some("1"), None));
            assert_eq!(
                (problems.len(), problems[0].kind, fs.get(runs).as_deref()),
                (1, ProblemKind::NotRestored, Some(broken))
            );
        }
    }
}
