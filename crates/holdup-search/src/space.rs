//! What a search of settings tries on a host: tunables of the catalogue that can be set there, at levels that are not in
//! force already.

use holdup_host::Host;
use holdup_host::postgres::{PostgresControl, SettingContext};
use holdup_knobs::tunables::{self, Class, PAGES_OF_POOL, Tunable};
use holdup_knobs::{Knob, KnobContext, find};
use holdup_model::tuning::{LeftOut, Tried, TriedLevel};
use holdup_model::units::{self, Relative};
use holdup_model::{Availability, Machine, Problem, Value};
use std::collections::BTreeMap;

/// The most settings that a search takes.
pub const MOST_TRIED: usize = holdup_stats::tuning::MOST_FACTORS;

/// Where settings are tried.
pub struct Place<'a> {
    pub host: &'a Host,
    /// What amounts are relative to.
    pub machine: Machine,
    /// The settings of the server under test, each with what a new value needs; `None` without a server.
    pub settings: Option<BTreeMap<String, SettingContext>>,
    /// The server, if it runs already.
    pub server: Option<&'a dyn PostgresControl>,
    /// Whether a simulated machine has a knob; `None` where no trial is simulated.
    pub simulated: Option<&'a dyn Fn(&str) -> bool>,
    /// True if trials run on the host as well.
    pub is_real: bool,
    /// What the plan sets for all trials.
    pub fixed: &'a [String],
}

/// One `--try KEY=V1,V2`.
pub type Asked = (String, Vec<String>);

/// The tunables that `--knobs` names: groups (`scheduler`), classes of a group (`postgres.durability`) and names of
/// tunables, with commas between.
///
/// # Errors
/// When a name is none of these.
pub fn chosen(names: &[String]) -> Result<Vec<&'static Tunable>, Problem> {
    let mut all: Vec<&'static Tunable> = Vec::new();
    for name in names {
        let found = named(name);
        if found.is_empty() {
            let groups: Vec<&str> = tunables::ALL.iter().map(|group| group.id).collect();
            return Err(Problem::usage(
                format!("--knobs {name}"),
                "there is no such group and nothing of this name to try",
            )
            .hint(format!(
                "groups: {}; GROUP.durability and GROUP.risky name what may lose data; `holdup list tunables` has all; \
                     --try KEY=V1,V2 tries any knob",
                groups.join(", ")
            )));
        }
        for tunable in found {
            if all.iter().all(|other| other.name != tunable.name) {
                all.push(tunable);
            }
        }
    }
    Ok(all)
}

fn named(name: &str) -> Vec<&'static Tunable> {
    if let Some(tunable) = tunables::ALL.iter().flat_map(|group| group.tunables).find(|t| t.name == name) {
        return vec![tunable];
    }
    let (id, class) = match name.rsplit_once('.') {
        Some((id, class)) => (id, Class::ALL.into_iter().find(|c| c.name() == class)),
        None => (name, Some(Class::Safe)),
    };
    let group = tunables::ALL.iter().find(|group| group.id == id);
    let of = group.into_iter().flat_map(|group| group.tunables);
    of.filter(|tunable| Some(tunable.class) == class).collect()
}

impl Place<'_> {
    /// What can be tried here, and what not and why.
    ///
    /// # Errors
    /// When something that was asked for by its name cannot be set here, or nothing is left.
    pub fn space(&self, tunables: &[&Tunable], asked: &[Asked]) -> Result<(Vec<Tried>, Vec<LeftOut>), Problem> {
        let (mut tried, mut left_out) = (Vec::new(), Vec::new());
        let pools = pools(tunables, asked);
        let is_asked = |tunable: &Tunable| asked.iter().any(|(key, _)| key == tunable.name);
        for tunable in tunables.iter().filter(|tunable| !is_asked(tunable)) {
            let choices = tunable.choices().into_iter().map(|(label, sets)| {
                let sets = sets.into_iter().map(|(knob, value)| (knob.to_owned(), self.resolved(value, &pools)));
                (self.resolved(label, &pools), sets.collect())
            });
            let choices: Vec<_> = choices.collect();
            tried.extend(self.tried(tunable.name, tunable.is_ordered, tunable.why, choices, &mut left_out));
        }
        for (key, values) in asked {
            let before = left_out.len();
            let choices = values.iter().map(|value| {
                let sets = vec![(key.clone(), self.resolved(value, &pools))];
                (value.clone(), sets)
            });
            match self.tried(key, false, "it was asked for", choices.collect(), &mut left_out) {
                Some(one) => tried.push(one),
                None => {
                    let why = left_out[before..].iter().map(|l| l.why.clone()).next();
                    let why = why.unwrap_or_else(|| "all its values are in force already".to_owned());
                    return Err(Problem::host(format!("--try {key}"), why));
                }
            }
        }
        if tried.is_empty() {
            let why = left_out.iter().take(3).map(|l| format!("{}: {}", l.name, l.why)).collect::<Vec<_>>().join("; ");
            return Err(Problem::host("nothing to try", why).hint("--knobs and --try name more"));
        }
        if tried.len() > MOST_TRIED {
            let why = format!("{} settings are more than the {MOST_TRIED} that a search takes", tried.len());
            return Err(Problem::usage("--knobs", why).hint("name fewer"));
        }
        Ok((tried, left_out))
    }

    /// One of them with the levels that can be set here and are not in force.
    fn tried(
        &self,
        name: &str,
        is_ordered: bool,
        why: &str,
        choices: Vec<(String, Vec<(String, String)>)>,
        left_out: &mut Vec<LeftOut>,
    ) -> Option<Tried> {
        let mut restarts = false;
        for (knob, _) in choices.first().into_iter().flat_map(|(_, sets)| sets) {
            match self.hindrance(knob) {
                Ok(restart) => restarts |= restart,
                Err(why) => {
                    left_out.push(LeftOut { name: name.to_owned(), why });
                    return None;
                }
            }
        }
        let mut levels = vec![TriedLevel { label: String::new(), sets: Vec::new() }];
        for (label, sets) in choices {
            let wrong = sets.iter().find_map(|(knob, value)| self.refused(knob, value));
            if let Some(why) = wrong {
                left_out.push(LeftOut { name: format!("{name} = {label}"), why });
            } else if sets.iter().all(|(knob, value)| self.is_in_force(knob, value)) {
                left_out.push(LeftOut { name: format!("{name} = {label}"), why: "it is in force already".to_owned() });
            } else {
                levels.push(TriedLevel { label, sets });
            }
        }
        let (name, why) = (name.to_owned(), why.to_owned());
        (levels.len() > 1).then_some(Tried { name, levels, is_ordered, restarts, why })
    }

    fn context(&self) -> KnobContext<'_> {
        KnobContext { host: self.host, postgres: self.server, pids: vec![std::process::id()] }
    }

    /// True if a knob needs a restart of the server; the error is why it cannot be set here.
    fn hindrance(&self, name: &str) -> Result<bool, String> {
        let (knob, instance) = find(name).ok_or("there is no such knob; `holdup list knobs` has all")?;
        if self.fixed.iter().any(|fixed| fixed.eq_ignore_ascii_case(name)) {
            return Err("the plan sets it".to_owned());
        }
        if self.simulated.is_some_and(|has| !has(name)) {
            return Err("a simulated machine does not have it".to_owned());
        }
        if !self.is_real {
            return Ok(false);
        }
        if knob.is_of_server() {
            let settings = self.settings.as_ref().ok_or("the workload has no PostgreSQL")?;
            let known = settings.iter().find(|(known, _)| known.eq_ignore_ascii_case(instance));
            let context = known.map(|(_, context)| *context).ok_or("this version of PostgreSQL does not have it")?;
            let may_restart = self.server.is_none_or(PostgresControl::can_restart);
            return match context {
                SettingContext::Internal => Err("it is fixed when the server is built".to_owned()),
                SettingContext::Postmaster if !may_restart => {
                    Err("it needs a restart, and holdup does not restart a server that it did not start".to_owned())
                }
                context => Ok(context == SettingContext::Postmaster),
            };
        }
        match knob.probe(&self.context(), instance) {
            Availability::Unavailable { reason, .. } => Err(reason),
            _ if !knob.outlives_process() => Err("a profile cannot hold it: it lasts as long as a process".to_owned()),
            _ => Ok(false),
        }
    }

    /// Why a value cannot be set.
    fn refused(&self, name: &str, value: &str) -> Option<String> {
        let (knob, instance) = find(name)?;
        if !self.is_real || knob.is_of_server() {
            return None;
        }
        match self.value(knob, value) {
            None => Some("it is no value of this knob".to_owned()),
            Some(value) => knob.check_here(&self.context(), instance, &value).err().map(|problem| problem.why),
        }
    }

    fn is_in_force(&self, name: &str, value: &str) -> bool {
        let Some((knob, instance)) = find(name) else { return false };
        if !self.is_real || knob.is_of_server() && self.server.is_none() {
            return false;
        }
        let found = knob.read(&self.context(), instance);
        let wanted = self.value(knob, value);
        found.is_ok_and(|found| wanted.is_some_and(|wanted| knob.same_here(&self.context(), instance, &wanted, &found)))
    }

    fn value(&self, knob: &dyn Knob, text: &str) -> Option<Value> {
        knob.values().parse(text, self.machine).ok().flatten().map(|(value, _)| value)
    }

    /// A value with what is relative to the host filled in.
    fn resolved(&self, value: &str, pools: &[String]) -> String {
        if value == PAGES_OF_POOL {
            return self.pages_of_pool(pools).to_string();
        }
        match units::relative(value, self.machine) {
            Some(Ok(Relative::Memory(bytes))) => units::postgres_size(bytes),
            Some(Ok(Relative::Cpus(n))) => n.to_string(),
            _ => value.to_owned(),
        }
    }

    /// Huge pages for the largest buffer pool that is tried, with room for the rest of the shared memory.
    fn pages_of_pool(&self, pools: &[String]) -> u64 {
        const REST: f64 = 1.15;
        const SMALL_POOL: u64 = 256 << 20;
        let bytes = pools.iter().filter_map(|pool| match units::relative(pool, self.machine) {
            Some(Ok(Relative::Memory(bytes))) => Some(bytes),
            Some(_) => None,
            None => units::size(pool).ok(),
        });
        let page = huge_page_bytes(self.host);
        (bytes.max().unwrap_or(SMALL_POOL) as f64 * REST / page as f64).ceil() as u64
    }
}

/// The sizes of the buffer pool that are tried.
fn pools(tunables: &[&Tunable], asked: &[Asked]) -> Vec<String> {
    const POOL: &str = "postgres.shared_buffers";
    let of_catalogue = tunables.iter().filter(|t| t.name == POOL).flat_map(|t| t.choices());
    let of_catalogue = of_catalogue.map(|(label, _)| label.to_owned());
    let of_asked = asked.iter().filter(|(key, _)| key == POOL).flat_map(|(_, values)| values.iter().cloned());
    of_catalogue.chain(of_asked).collect()
}

/// The default size of huge pages.
fn huge_page_bytes(host: &Host) -> u64 {
    let meminfo = host.read_text("/proc/meminfo").unwrap_or_default();
    let line = meminfo.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()).unwrap_or(2048) << 10
}
