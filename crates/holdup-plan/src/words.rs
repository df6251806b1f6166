//! What a plan may name, looked up by name; the nearest name when there is none.

use holdup_model::Parameter;
use holdup_model::ParameterKind;
use holdup_model::catalogue::{KnobWords, Vocabulary, WorkloadWords};
use holdup_model::{guest, profile};

/// The prefix of the settings of a PostgreSQL server.
pub(crate) const POSTGRES: &str = "postgres.";

/// What a factor's or a setting's name means.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Meaning<'a> {
    /// A knob of the host; for every workload.
    Knob(&'a ParameterKind),
    /// A setting of the PostgreSQL under test; for the workloads that have one.
    PostgresSetting(&'a ParameterKind),
    /// Chosen when a guest boots.
    Boot(&'a KnobWords),
    /// What only simulated machines have.
    Simulated(&'a ParameterKind),
    /// A factor that some workloads offer.
    Offered(&'a Parameter),
    /// Files of profiles: values of several knobs.
    Profile,
    /// A parameter of a workload: an axis, not a factor.
    Parameter,
    /// Nothing.
    Unknown,
}

/// The vocabulary with its lookups.
#[derive(Clone, Copy)]
pub(crate) struct Words<'a> {
    pub(crate) all: &'a Vocabulary,
}

impl<'a> Words<'a> {
    pub(crate) fn workload(&self, id: &str) -> Option<&'a WorkloadWords> {
        self.all.workloads.iter().find(|w| w.id == id)
    }

    /// What `name` means as a factor or as a fixed setting.
    pub(crate) fn meaning(&self, name: &str) -> Meaning<'a> {
        if let Some(knob) = self.all.knobs.iter().find(|k| k.prefix.is_none() && k.id == name) {
            return Meaning::Knob(&knob.values);
        }
        let offered = self.all.workloads.iter().flat_map(|w| w.factors).find(|f| f.name == name);
        if let Some(offered) = offered {
            return Meaning::Offered(offered);
        }
        let of_family = |prefix: &str| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty());
        if let Some(knob) = self.all.knobs.iter().find(|k| k.prefix.is_some_and(of_family)) {
            let is_postgres = knob.prefix == Some(POSTGRES);
            return if is_postgres { Meaning::PostgresSetting(&knob.values) } else { Meaning::Knob(&knob.values) };
        }
        let at_boot = |k: &&KnobWords| k.prefix.map_or(k.id == name, of_family);
        if let Some(boot) = self.all.boot_factors.iter().find(at_boot) {
            return Meaning::Boot(boot);
        }
        if let Some(simulated) = self.all.simulated_factors.iter().find(|k| k.id == name) {
            return Meaning::Simulated(&simulated.values);
        }
        if name == profile::FACTOR {
            return Meaning::Profile;
        }
        let is_parameter = self.all.workloads.iter().any(|w| w.parameters.iter().any(|p| p.name == name));
        if is_parameter { Meaning::Parameter } else { Meaning::Unknown }
    }

    /// True if a factor or setting of this name does something to a workload.
    pub(crate) fn acts_on(&self, name: &str, workload: &WorkloadWords) -> bool {
        match self.meaning(name) {
            Meaning::Boot(words) if words.id == guest::POSTGRES_SERVER => workload.has_postgres,
            Meaning::Knob(_) | Meaning::Boot(_) | Meaning::Simulated(_) | Meaning::Profile => true,
            Meaning::PostgresSetting(_) => workload.has_postgres,
            Meaning::Offered(_) => workload.factors.iter().any(|f| f.name == name),
            Meaning::Parameter | Meaning::Unknown => false,
        }
    }

    /// The names of all knobs, families as `postgres.`.
    pub(crate) fn knob_names(&self) -> Vec<&'a str> {
        self.all.knobs.iter().map(|k| k.prefix.unwrap_or(k.id)).collect()
    }

    /// The names of all factors, families as `postgres.`.
    pub(crate) fn factor_names(&self) -> Vec<&'a str> {
        let mut names = self.knob_names();
        names.extend(self.all.boot_factors.iter().map(|k| k.prefix.unwrap_or(k.id)));
        for name in self.all.workloads.iter().flat_map(|w| w.factors).map(|f| f.name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// A hint for a name that is not known: the nearest one that is, and the list when it is short.
pub(crate) fn did_you_mean(word: &str, known: &[&str]) -> String {
    let list = if known.is_empty() {
        "there are none".to_owned()
    } else {
        let more = if known.len() > 16 { ", …" } else { "" };
        format!("known here: {}{more}", known.iter().take(16).copied().collect::<Vec<_>>().join(", "))
    };
    match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`? {list}"),
        None => list,
    }
}

/// The known name that is nearest to a word, when one is near.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // A longer word is no slip of the pen, and comparing it would take long.
    if word.is_empty() || word.len() > 64 {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace(['-', ' '], "_");
    let wanted = plain(word);
    let distance = |name: &str| strsim::damerau_levenshtein(&wanted, &plain(name));
    let near = known.iter().map(|name| (distance(name), *name)).min()?;
    (near.0 <= wanted.chars().count().max(3) / 3).then_some(near.1)
}

/// A text as it may stand in a message: on one line and not endless.
pub(crate) fn shown(text: &str) -> String {
    const MOST: usize = 60;
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == MOST {
            out.push('…');
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_near() {
        let known = ["autogroup", "sched-policy", "clients", "threads"];
        let check = |word: &str, expect: Option<&str>| assert_eq!(nearest(word, &known), expect, "{word}");
        check("autogruop", Some("autogroup"));
        check("Sched_Policy", Some("sched-policy"));
        check("client", Some("clients"));
        check("preempt", None);
        check("", None);
        check(&"a".repeat(1000), None);
    }

    #[test]
    fn what_is_shown_stays_on_one_line() {
        assert_eq!(shown("a\nb"), "a\\nb");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), 61);
    }
}
