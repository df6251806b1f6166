//! Sessions on other hosts: the agent there, over the user's `ssh`.

mod ends;
mod host;
mod session;

use crate::asking::{self, CHECK_TIMEOUT};
use crate::session::{Readiness, SessionRequest};
use holdup_catalogue::pgbench::{BUILD, VERSION};
use holdup_host::Host;
use holdup_load::Cancel;
use holdup_model::guest::HOST;
use holdup_model::wire::{Answer, Order, Work};
use holdup_model::{Arm, Machine, Observer, Plan, Problem, TrialSpec, progress::Silent};
use holdup_ssh::{Address, SshOptions};
use host::AtHost;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

pub(crate) use session::SshSession;

/// The hosts behind `ssh:` in the target of a plan.
fn named(target: &str) -> Result<Vec<Address>, Problem> {
    holdup_ssh::hosts(target.strip_prefix("ssh:").unwrap_or(target))
}

/// The host that an arm names by the factor `host`.
fn of_arm(plan: &Plan, arm: &Arm) -> Result<Option<Address>, Problem> {
    plan.chosen_at_boot(arm).get(HOST).map(|level| Address::parse(&level.value.to_string())).transpose()
}

/// The host of a trial: that of its level of `host`, else of its session, which take the hosts of the target in turn.
fn of_trial(plan: &Plan, arm: &Arm, session: u32) -> Result<Address, Problem> {
    if let Some(address) = of_arm(plan, arm)? {
        return Ok(address);
    }
    let all = named(&plan.target)?;
    let at = session as usize % all.len().max(1);
    all.get(at).cloned().ok_or_else(|| Problem::internal("the target", "it names no host"))
}

/// Every host of a run, with the arms that it runs.
fn hosts_of(request: &SessionRequest<'_>) -> Result<BTreeMap<Address, Vec<Arm>>, Problem> {
    let mut all: BTreeMap<Address, BTreeSet<u32>> = BTreeMap::new();
    let of_number: BTreeMap<u32, &Arm> = request.schedule.arms.iter().map(|arm| (arm.id, arm)).collect();
    for trial in &request.schedule.trials {
        if let Some(arm) = of_number.get(&trial.arm) {
            all.entry(of_trial(request.plan, arm, trial.session)?).or_default().insert(trial.arm);
        }
    }
    let arms = |numbers: BTreeSet<u32>| -> Vec<Arm> {
        numbers.iter().filter_map(|n| of_number.get(n).map(|arm| (*arm).clone())).collect()
    };
    Ok(all.into_iter().map(|(address, numbers)| (address, arms(numbers))).collect())
}

fn work(request: &SessionRequest<'_>, arms: Vec<Arm>) -> Work {
    let bin = request.postgres.bin.as_ref().map(|bin| bin.display().to_string());
    Work { postgres_url: request.postgres.url.clone(), ..asking::work(request.plan, arms, bin, BTreeMap::new()) }
}

/// Refuses what only this machine could do.
fn check_plan(plan: &Plan) -> Result<(), Problem> {
    match [BUILD, VERSION].into_iter().find(|name| crate::levels::levels(plan, name).next().is_some()) {
        None => Ok(()),
        Some(name) => {
            Err(Problem::usage(name, "servers are built for the machine that builds them, not for hosts over ssh")
                .hint("run holdup on that host, or install the server there and name it with --pg-bin"))
        }
    }
}

/// Asks each host whether it can do its part.
pub(crate) fn ready(request: &SessionRequest<'_>, observer: &mut dyn Observer) -> Result<Readiness, Problem> {
    check_plan(request.plan)?;
    ends::check(request.plan, request)?;
    let mut readiness = Readiness::default();
    for (address, arms) in hosts_of(request)? {
        let mut host = AtHost::connect(request, &address, observer)?;
        let order = Order::Check(Box::new(work(request, arms)));
        let checked = match host.ask(&order, CHECK_TIMEOUT, &request.cancel, observer) {
            Ok(Answer::Checked(checked)) => checked.map_err(|problem| host.inside(problem))?,
            Ok(other) => return Err(host.inside(asking::out_of_turn(&other))),
            Err(no) => return Err(host.problem(&no, "while it was asked what it can do")),
        };
        host.end();
        readiness.add(*checked, &address.to_string());
    }
    if let Some(hosts) = &request.plan.hosts {
        let _nothing_to_restore = ends::close(ends::open(request, hosts, &ends::reached_as(hosts)?, observer)?);
    }
    Ok(readiness)
}

/// Opens the session of a trial on its host.
pub(crate) fn open<'a>(
    request: &'a SessionRequest<'a>,
    at: &TrialSpec,
    observer: &mut dyn Observer,
) -> Result<SshSession<'a>, Problem> {
    let arms = asking::arms_of(request.schedule, at.boot);
    let first = arms.first().ok_or_else(|| Problem::internal(format!("boot {}", at.boot), "it has no arms"))?;
    let address = of_trial(request.plan, first, at.session)?;
    let mut host = AtHost::connect(request, &address, observer)?;
    let mut reached_as = None;
    if let Some(hosts) = &request.plan.hosts {
        let name = ends::reached_as(hosts)?;
        host.clients = ends::open(request, hosts, &name, observer)?;
        reached_as = Some(name);
    }
    SshSession::open(request, host, work(request, arms), reached_as, observer)
}

/// The machine that relative sizes are relative to: the first host's. Each is asked once.
pub(crate) fn machine(here: &Host, argument: &str) -> Result<Option<Machine>, Problem> {
    static ASKED: Mutex<BTreeMap<Address, Machine>> = Mutex::new(BTreeMap::new());
    let Some(address) = named(argument)?.into_iter().next() else { return Ok(None) };
    let known = ASKED.lock().unwrap_or_else(PoisonError::into_inner).get(&address).copied();
    if let Some(machine) = known {
        return Ok(Some(machine));
    }
    let host = AtHost::over(here, &SshOptions::default(), &address, &Cancel::default(), &mut Silent)?;
    let machine = host.hello().machine;
    host.end();
    ASKED.lock().unwrap_or_else(PoisonError::into_inner).insert(address, machine);
    Ok(Some(machine))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(text: &str) -> Vec<String> {
        let (plan, schedule) = crate::checked(text, Machine { cpus: 2, memory_bytes: 8 << 30 });
        let of = |trial: &TrialSpec| {
            let arm = &schedule.arms[trial.arm as usize];
            let level = arm.factors.get(HOST).map_or("-", |level| level.label.as_str());
            let address = of_trial(&plan, arm, trial.session).expect("a host");
            format!("{} {level} {address}", trial.session)
        };
        let all: BTreeSet<String> = schedule.trials.iter().map(of).collect();
        all.into_iter().collect()
    }

    #[test]
    fn sessions_go_round_the_hosts_of_a_target_and_the_factor_names_its_own() {
        let head = "[[workload]]\nkind = \"lock-contention\"\nthreads = [2, 4]\n[design]\nblocks = 1\nsessions = 3\n";
        assert_eq!(places(&format!("target = \"ssh:a,me@b:22\"\n{head}")), ["0 - a", "1 - me@b:22", "2 - a"]);
        let varied = format!("target = \"ssh:a\"\n{head}[factors]\nhost = [\"a\", \"b\"]\n");
        assert_eq!(places(&varied), ["0 a a", "0 b b", "1 a a", "1 b b", "2 a a", "2 b b"]);
    }

    #[test]
    fn servers_that_are_built_here_are_refused() {
        let text = "target = \"ssh:a\"\n[[workload]]\nkind = \"pgbench\"\n[set]\n\"postgres.version\" = \"17\"\n";
        let (plan, _) = crate::checked(text, Machine { cpus: 2, memory_bytes: 8 << 30 });
        assert!(check_plan(&plan).is_err_and(|problem| problem.hint.is_some()));
    }
}
