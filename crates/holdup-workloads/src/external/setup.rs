//! The parameters of `external`, read and checked against what each tool knows.

use crate::external::tools;
use crate::external::{About, Tool};
use holdup_catalogue::external::{self, Mode, Protocol};
use holdup_host::Host;
use holdup_load::placement::Placement;
use holdup_model::{Parameters, Problem, Value};
use std::fmt::Display;

/// One arm's parameters.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) tool: &'static dyn Tool,
    /// The mode, the tool's first one when none is given; `None` for a tool that has only one.
    pub(crate) mode: Option<Mode>,
    /// The protocol, the tool's first one when none is given; `None` for a tool that has none.
    pub(crate) protocol: Option<Protocol>,
    /// What the plan gives.
    pub(crate) given: external::Parameters,
}

impl Setup {
    /// Reads the parameters of an arm.
    ///
    /// # Errors
    /// When the tool is missing, does not know a parameter that was given, or has no such mode or protocol.
    pub(crate) fn read(parameters: &Parameters) -> Result<Self, Problem> {
        // A workload that lets a tool measure gives what it has itself, without the defaults of this one.
        let mut values = external::Parameters::defaults(1);
        parameters.0.iter().for_each(|(name, value)| values.set(name, value.clone()));
        let given = external::Parameters::read(&values)?;
        let tool = tools::find(given.tool);
        let about = tool.about();
        for (name, value) in &parameters.0 {
            known(about, name, value)?;
        }
        Ok(Setup {
            tool,
            mode: one_of(about, "mode", given.mode, about.modes)?,
            protocol: one_of(about, "protocol", given.protocol, about.protocols)?,
            given,
        })
    }

    /// The CPUs of client and server, as of the two sides of holdup's own workloads.
    ///
    /// # Errors
    /// When this machine has no such CPUs, or does not show its topology.
    pub(crate) fn placement(&self, host: &Host) -> Result<Placement, Problem> {
        Placement::on(self.given.placement, host)
    }

    /// A duration in whole microseconds, when it was given.
    ///
    /// # Errors
    /// When the tool has no option for it.
    pub(crate) fn microseconds(&self, name: &str, ns: Option<u64>) -> Result<Option<u64>, Problem> {
        match ns {
            Some(ns) if ns % 1000 != 0 => {
                let what = format!("{name} {ns}ns of tool {}", self.given.tool);
                Err(Problem::usage(what, "the tool takes whole microseconds only"))
            }
            ns => Ok(ns.map(|ns| ns / 1000)),
        }
    }

    /// The arguments that the plan adds.
    pub(crate) fn further(&self) -> impl Iterator<Item = String> {
        self.given.arguments.iter().flatten().cloned()
    }

    /// A problem with parameters that do not go together.
    pub(crate) fn wrong(&self, name: &str, why: impl Into<String>) -> Problem {
        Problem::usage(format!("{name} of tool {}", self.given.tool), why)
    }
}

/// Adds `flag` and the number to arguments, when it was given.
pub(crate) fn push(arguments: &mut Vec<String>, flag: &str, value: Option<u64>) {
    arguments.extend(value.into_iter().flat_map(|value| [flag.to_owned(), value.to_string()]));
}

fn known(about: &About, name: &str, value: &Value) -> Result<(), Problem> {
    let always = ["tool", "placement", "arguments"].contains(&name);
    let by_list = (name == "mode" && !about.modes.is_empty()) || (name == "protocol" && !about.protocols.is_empty());
    if always || by_list || about.parameters.contains(&name) {
        return Ok(());
    }
    let mut all: Vec<&str> = about.parameters.to_vec();
    if !about.modes.is_empty() {
        all.push("mode");
    }
    if !about.protocols.is_empty() {
        all.push("protocol");
    }
    Err(Problem::usage(format!("{name} = {value} for tool {}", about.tool), "the tool has no such parameter")
        .hint(format!("it has {}; anything else goes to `arguments` as the tool itself has it", all.join(", "))))
}

/// The word that was given, or the first that the tool has.
fn one_of<T: Copy + PartialEq + Display>(
    about: &About,
    name: &str,
    given: Option<T>,
    all: &'static [T],
) -> Result<Option<T>, Problem> {
    let Some(given) = given else { return Ok(all.first().copied()) };
    if all.contains(&given) {
        return Ok(Some(given));
    }
    let words: Vec<String> = all.iter().map(T::to_string).collect();
    Err(Problem::usage(format!("{name} = {given} for tool {}", about.tool), format!("the tool has no such {name}"))
        .hint(format!("it is one of {}", words.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(given: &[(&str, Value)]) -> Result<Setup, Problem> {
        let mut parameters = Parameters::default();
        for (name, value) in given {
            parameters.set(name, value.clone());
        }
        Setup::read(&parameters)
    }

    #[test]
    fn what_a_tool_does_not_know_is_refused() {
        let check = |given: &[(&str, Value)], expect: &str| {
            let problem = setup(given).err().expect("wrong");
            assert_eq!(format!("{}: {}", problem.what, problem.why), expect);
        };
        check(&[], "parameter tool: the checked plan holds no value for it");
        check(
            &[("tool", "netperf".into())],
            "tool netperf: it must be one of cyclictest, hackbench, perf-bench, sockperf, uperf, schbench, iperf3, sysbench",
        );
        check(
            &[("tool", "cyclictest".into()), ("groups", 3.into())],
            "groups = 3 for tool cyclictest: the tool has no such parameter",
        );
        check(
            &[("tool", "cyclictest".into()), ("mode", "pipe".into())],
            "mode = pipe for tool cyclictest: the tool has no such parameter",
        );
        check(
            &[("tool", "sockperf".into()), ("mode", "pipe".into())],
            "mode = pipe for tool sockperf: the tool has no such mode",
        );
        check(
            &[("tool", "sockperf".into()), ("protocol", "unix".into())],
            "protocol = unix for tool sockperf: the tool has no such protocol",
        );
        check(
            &[("tool", "schbench".into()), ("arguments", "[\"\\u0000\"]".into())],
            "arguments [\"\\u0000\"]: it must be a program with its arguments, without zero bytes",
        );
    }

    #[test]
    fn every_parameter_is_one_that_some_tool_knows_and_the_other_way_round() {
        for parameter in external::Parameters::ALL
            .iter()
            .filter(|p| !["tool", "placement", "arguments", "mode", "protocol"].contains(&p.name))
        {
            assert!(tools::ALL.iter().any(|t| t.about().parameters.contains(&parameter.name)), "{}", parameter.name);
        }
        for about in tools::ALL.iter().map(|t| t.about()) {
            let is_declared = |name: &&str| external::Parameters::ALL.iter().any(|p| p.name == *name);
            assert!(about.parameters.iter().all(is_declared), "{}", about.tool);
        }
        assert!(tools::ALL.iter().map(|t| t.about().tool.word()).eq(external::Tool::WORDS.iter().copied()));
    }
}
