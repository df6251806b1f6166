//! The parameters of `external`, read and checked against what each tool knows.

use crate::external::tools;
use crate::external::{About, Tool};
use holdup_catalogue::external;
use holdup_host::Host;
use holdup_load::placement::Placement;
use holdup_model::{Parameters, Problem, Value};

/// One arm's parameters.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) tool: &'static dyn Tool,
    /// The mode, the tool's first one when none is given; empty for a tool that has only one.
    pub(crate) mode: &'static str,
    /// The protocol, the tool's first one when none is given; empty for a tool that has none.
    pub(crate) protocol: &'static str,
    /// Further arguments.
    pub(crate) arguments: Vec<String>,
    given: Parameters,
}

impl Setup {
    /// Reads the parameters of an arm.
    ///
    /// # Errors
    /// When the tool is missing, does not know a parameter that was given, or has no such mode or protocol.
    pub(crate) fn read(parameters: &Parameters) -> Result<Self, Problem> {
        let id = parameters.text("tool")?.ok_or_else(|| {
            Problem::usage("tool", "there is none").hint(format!("it is one of {}", external::Tool::WORDS.join(", ")))
        })?;
        let tool = tools::find(id).ok_or_else(|| {
            Problem::usage(format!("tool {id}"), "there is no such tool")
                .hint(format!("it is one of {}", external::Tool::WORDS.join(", ")))
        })?;
        let about = tool.about();
        for (name, value) in &parameters.0 {
            known(about, name, value)?;
        }
        Ok(Setup {
            tool,
            mode: word(about, "mode", parameters.text("mode")?, about.modes)?,
            protocol: word(about, "protocol", parameters.text("protocol")?, about.protocols)?,
            arguments: parameters.text("arguments")?.map_or(Ok(Vec::new()), further)?,
            given: parameters.clone(),
        })
    }

    /// The CPUs of client and server, as of the two sides of holdup's own workloads.
    ///
    /// # Errors
    /// When this machine has no such CPUs, or does not show its topology.
    pub(crate) fn placement(&self, host: &Host) -> Result<Placement, Problem> {
        match self.given.text("placement")? {
            None => Ok(Placement::default()),
            Some(word) => Placement::on(word.parse().unwrap_or(holdup_catalogue::Placement::None), host),
        }
    }

    /// A whole number, when it was given. Durations are in ns, sizes in bytes.
    ///
    /// # Errors
    /// When it is no whole number, or negative.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(value) = self.given.integer(name)? else { return Ok(None) };
        let wrong = || Problem::usage(format!("{name} {value}"), "it is negative");
        u64::try_from(value).map(Some).map_err(|_| wrong())
    }

    /// A duration in whole microseconds, when it was given.
    ///
    /// # Errors
    /// When the tool has no option for it.
    pub(crate) fn microseconds(&self, name: &str) -> Result<Option<u64>, Problem> {
        let Some(ns) = self.number(name)? else { return Ok(None) };
        if ns % 1000 != 0 {
            let what = format!("{name} {ns}ns of tool {}", self.tool.about().id);
            return Err(Problem::usage(what, "the tool takes whole microseconds only"));
        }
        Ok(Some(ns / 1000))
    }

    /// Adds `flag` and the number to arguments, when it was given.
    pub(crate) fn flag(&self, arguments: &mut Vec<String>, flag: &str, name: &str) -> Result<(), Problem> {
        if let Some(value) = self.number(name)? {
            arguments.extend([flag.to_owned(), value.to_string()]);
        }
        Ok(())
    }

    /// Whether tasks are threads, where that was said.
    pub(crate) fn threads_share(&self) -> Result<Option<bool>, Problem> {
        Ok(self.given.text("sharing")?.map(|word| word == "threads"))
    }

    /// A problem with parameters that do not go together.
    pub(crate) fn wrong(&self, name: &str, why: impl Into<String>) -> Problem {
        Problem::usage(format!("{name} of tool {}", self.tool.about().id), why)
    }
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
    Err(Problem::usage(format!("{name} = {value} for tool {}", about.id), "the tool has no such parameter")
        .hint(format!("it has {}; anything else goes to `arguments` as the tool itself has it", all.join(", "))))
}

fn word(about: &About, name: &str, given: Option<&str>, all: &[&'static str]) -> Result<&'static str, Problem> {
    let Some(given) = given else { return Ok(all.first().copied().unwrap_or_default()) };
    all.iter().find(|w| **w == given).copied().ok_or_else(|| {
        Problem::usage(format!("{name} = {given} for tool {}", about.id), format!("the tool has no such {name}"))
            .hint(format!("it is one of {}", all.join(", ")))
    })
}

/// Further arguments: a JSON array of texts, as the plan's checker makes it.
fn further(text: &str) -> Result<Vec<String>, Problem> {
    let wrong = |why: String| Problem::usage(format!("arguments {text}"), why).hint("write a list: [\"-m\", \"-a\"]");
    let all: Vec<String> = serde_json::from_str(text).map_err(|e| wrong(format!("it is not a list of texts: {e}")))?;
    if all.iter().any(|a| a.contains('\0')) {
        return Err(wrong("it holds a zero byte".to_owned()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::ParameterKind;

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
        check(&[], "tool: there is none");
        check(&[("tool", "netperf".into())], "tool netperf: there is no such tool");
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
            "arguments [\"\\u0000\"]: it holds a zero byte",
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
        let choices = |name: &str| match external::Parameters::ALL.iter().find(|p| p.name == name).map(|p| p.kind) {
            Some(ParameterKind::Choice(words)) => words,
            _ => panic!("{name} is a choice"),
        };
        for about in tools::ALL.iter().map(|t| t.about()) {
            assert!(
                about.parameters.iter().all(|n| external::Parameters::ALL.iter().any(|p| p.name == *n)),
                "{}",
                about.id
            );
            assert!(about.modes.iter().all(|m| choices("mode").contains(m)), "{}", about.id);
            assert!(about.protocols.iter().all(|m| choices("protocol").contains(m)), "{}", about.id);
        }
        assert!(tools::ALL.iter().map(|t| t.about().id).eq(external::Tool::WORDS.iter().copied()));
    }
}
