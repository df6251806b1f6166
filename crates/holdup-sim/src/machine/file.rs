//! Machines as files.
//!
//! A machine file is TOML: `name`, `summary`, `memory_gib`; `[topology]` with `smt`, `cores`, `llcs`, `nodes` and the
//! `source` of that; `[kernel]` with `arch` (`x86_64` where it is not named), `version`, `preempt`, `hz`; `[costs]` with a
//! line for each cost:
//! `switch_ns = { value = 1500, range = [1200, 2500], source = "measured: …" }`. A source begins with `measured: `,
//! `published: ` or `assumed: `; the range says within what the value lies, and `holdup predict` draws from it; `chosen_for`
//! names the report for which a value was chosen so that its number comes out. A cost that the file does not name has the value of the same cost in the default machine and is assumed.

use super::{Arch, Costs, Kernel, Machine, Topology};
use crate::preempt;
use holdup_model::{Problem, Value};
use std::fmt::Write as _;
use std::str::FromStr as _;
use toml_edit::{Document, Item, TableLike};

/// How a value is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Provenance {
    /// Measured on the machine.
    Measured,
    /// Published by others.
    Published,
    /// Not measured.
    Assumed,
}

/// A cost as its machine file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in `[costs]`.
    pub name: &'static str,
    pub value_ns: u64,
    /// The least and the most that it may be, ns.
    pub range_ns: (u64, u64),
    /// Where it comes from.
    pub provenance: Provenance,
    /// In words.
    pub source: String,
    /// The report for which the value was chosen, if it was.
    pub chosen_for: Option<String>,
}

impl Parameter {
    /// A cost that was not measured: that of the default machine, from half to twice of it. `why` comes after a semicolon.
    pub fn assumed(name: &'static str, why: Option<&str>) -> Self {
        let mut defaults = Costs::DEFAULT;
        let value_ns = defaults.place(name).map_or(0, |place| *place);
        let source = "assumed: as in the default machine";
        Parameter {
            name,
            value_ns,
            range_ns: (value_ns / 2, value_ns * 2),
            provenance: Provenance::Assumed,
            source: why.map_or_else(|| source.to_owned(), |why| format!("{source}; {why}")),
            chosen_for: None,
        }
    }
}

/// A machine with the sources of its values.
#[derive(Debug, Clone)]
pub struct Described {
    pub name: String,
    /// One line.
    pub summary: String,
    pub memory_bytes: u64,
    /// Where its topology comes from.
    pub topology_source: String,
    /// The kernel's version, such as `6.18`.
    pub version: String,
    pub machine: Machine,
    /// Every cost.
    pub parameters: Vec<Parameter>,
}

/// The most CPUs of a machine.
pub const MOST_CPUS: u64 = 4096;
/// The most that one cost may be, ns.
const MOST_COST_NS: u64 = 1_000_000_000;

impl Described {
    /// Reads a machine file. `file` is its name in errors.
    ///
    /// # Errors
    /// When it is no TOML, when a key is not known, missing or of the wrong type, when a number is out of bounds.
    pub fn parse(file: &str, text: &str) -> Result<Self, Problem> {
        let (reader, document) = Reader::of(file, text)?;
        reader.machine(document.as_table())
    }

    /// Reads a machine file that may lay itself over another one: `base = "NAME"` names a machine of the catalogue, and what
    /// the file says takes the place of what that one says. Its table `[factors]` sets what plans set.
    ///
    /// # Errors
    /// As [`Described::parse`]; when there is no such base, or the machine does not have a factor.
    pub fn parse_laid_over(file: &str, text: &str) -> Result<Machine, Problem> {
        let (reader, document) = Reader::of(file, text)?;
        let mut top = document.as_table().clone();
        let factors = top.remove("factors");
        if let Some(item) = top.remove("base") {
            let name = item.as_str().ok_or_else(|| reader.wrong(Some(&item), "base", "a text was expected"))?;
            let base = super::catalogue::text(name)?;
            let mut under = toml_edit::DocumentMut::from_str(base)
                .map_err(|e| Problem::internal(format!("machine {name}"), e.message().trim().to_owned()))?;
            lay_over(under.as_table_mut(), &top);
            top = under.as_table().clone();
        }
        let mut machine = reader.machine(&top)?.machine;
        let Some(factors) = factors else { return Ok(machine) };
        let table =
            factors.as_table_like().ok_or_else(|| reader.wrong(Some(&factors), "factors", "a table was expected"))?;
        for (name, item) in table.iter() {
            let integer = item.as_integer().map(Value::Integer);
            let value = integer.or(item.as_bool().map(Value::Bool)).or(item.as_str().map(Value::from));
            let what = format!("factors.{name}");
            let value = value
                .ok_or_else(|| reader.wrong(Some(item), &what, "a whole number, a text, true or false was expected"))?;
            crate::factors::set(&mut machine, name, &value).map_err(|p| reader.wrong(Some(item), &p.what, p.why))?;
        }
        Ok(machine)
    }

    /// The machine with a cost set to another value.
    #[must_use]
    pub fn with(&self, name: &str, ns: u64) -> Machine {
        let mut machine = self.machine.clone();
        if let Some(place) = machine.costs.place(name) {
            *place = ns;
        }
        machine
    }

    /// The file that stands for the machine.
    pub fn to_toml(&self) -> String {
        let mut out = String::new();
        let t = self.machine.topology;
        let kernel = &self.machine.kernel;
        let quoted = |text: &str| toml_edit::Value::from(text).to_string().trim().to_owned();
        let _infallible = writeln!(
            out,
            "name = {}\nsummary = {}\nmemory_gib = {}\n\n[topology]\nsmt = {}\ncores = {}\nllcs = {}\nnodes = {}\nsource = {}\n\n\
             [kernel]\narch = {}\nversion = {}\npreempt = {}\nhz = {}\n\n[costs]",
            quoted(&self.name),
            quoted(&self.summary),
            self.memory_bytes >> 30,
            t.smt,
            t.cores,
            t.llcs,
            t.nodes,
            quoted(&self.topology_source),
            quoted(kernel.arch.name()),
            quoted(&self.version),
            quoted(kernel.preempt.id),
            kernel.hz,
        );
        for p in &self.parameters {
            let _infallible = writeln!(
                out,
                "{} = {{ value = {}, range = [{}, {}], source = {}{} }}",
                p.name,
                p.value_ns,
                p.range_ns.0,
                p.range_ns.1,
                quoted(&p.source),
                p.chosen_for.as_ref().map_or_else(String::new, |report| format!(", chosen_for = {}", quoted(report)))
            );
        }
        out
    }
}

/// What the upper table has takes the place of what the lower one has.
fn lay_over(under: &mut dyn TableLike, over: &dyn TableLike) {
    for (key, item) in over.iter() {
        match (under.get_mut(key).and_then(Item::as_table_like_mut), item.as_table_like()) {
            // A cost is replaced as a whole: its value goes with its range and source.
            (Some(under), Some(over)) if !over.contains_key("value") => lay_over(under, over),
            _ => {
                under.insert(key, item.clone());
            }
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

struct Reader<'a> {
    file: &'a str,
    text: &'a str,
}

const TOP: &[&str] = &["name", "summary", "memory_gib", "topology", "kernel", "costs"];
const TOPOLOGY: &[&str] = &["smt", "cores", "llcs", "nodes", "source"];
const KERNEL: &[&str] = &["arch", "version", "preempt", "hz"];

impl<'a> Reader<'a> {
    fn of(file: &'a str, text: &'a str) -> Result<(Self, Document<&'a str>), Problem> {
        let document = Document::parse(text).map_err(|e| {
            let line = e.span().map_or(1, |span| line_of(text, span.start));
            Problem::usage(format!("machine {file}, line {line}"), e.message().trim().to_owned())
        })?;
        Ok((Reader { file, text }, document))
    }

    fn wrong(&self, item: Option<&Item>, what: &str, why: impl Into<String>) -> Problem {
        let line = item.and_then(Item::span).map(|span| format!(", line {}", line_of(self.text, span.start)));
        Problem::usage(format!("machine {}{}: {what}", self.file, line.unwrap_or_default()), why)
    }

    fn known(&self, table: &dyn TableLike, keys: &[&str], of: &str) -> Result<(), Problem> {
        match table.iter().find(|(key, _)| !keys.contains(key)) {
            None => Ok(()),
            Some((key, item)) => Err(self
                .wrong(Some(item), &format!("{of}{key}"), "there is no such key")
                .hint(format!("known here: {}", keys.join(", ")))),
        }
    }

    fn number(&self, table: &dyn TableLike, of: &str, key: &str, bounds: (u64, u64)) -> Result<u64, Problem> {
        let what = format!("{of}{key}");
        let item = table.get(key).ok_or_else(|| self.wrong(None, &what, "it is missing"))?;
        self.whole(item, &what, bounds)
    }

    fn whole(&self, item: &Item, what: &str, (least, most): (u64, u64)) -> Result<u64, Problem> {
        let value = item.as_integer().ok_or_else(|| self.wrong(Some(item), what, "a whole number was expected"))?;
        match u64::try_from(value) {
            Ok(n) if (least..=most).contains(&n) => Ok(n),
            _ => Err(self.wrong(Some(item), what, format!("{value} is not between {least} and {most}"))),
        }
    }

    fn text(&self, table: &dyn TableLike, of: &str, key: &str) -> Result<String, Problem> {
        let what = format!("{of}{key}");
        let item = table.get(key).ok_or_else(|| self.wrong(None, &what, "it is missing"))?;
        let text = item.as_str().ok_or_else(|| self.wrong(Some(item), &what, "a text was expected"))?;
        match text.chars().any(char::is_control) || text.len() > 500 {
            true => Err(self.wrong(Some(item), &what, "it is longer than 500 bytes or holds a control character")),
            false => Ok(text.to_owned()),
        }
    }

    fn table<'t>(&self, table: &'t dyn TableLike, key: &str) -> Result<&'t dyn TableLike, Problem> {
        let item = table.get(key).ok_or_else(|| self.wrong(None, key, "it is missing"))?;
        item.as_table_like().ok_or_else(|| self.wrong(Some(item), key, "a table was expected"))
    }

    fn machine(&self, top: &dyn TableLike) -> Result<Described, Problem> {
        self.known(top, TOP, "")?;
        let topology = self.table(top, "topology")?;
        let shape = self.topology(topology)?;
        let kernel = self.table(top, "kernel")?;
        let version = self.text(kernel, "kernel.", "version")?;
        let kernel = self.kernel(kernel, &version, shape.cpus())?;
        let parameters = self.costs(top)?;
        let mut costs = Costs::DEFAULT;
        for p in &parameters {
            if let Some(place) = costs.place(p.name) {
                *place = p.value_ns;
            }
        }
        Ok(Described {
            name: self.text(top, "", "name")?,
            summary: self.text(top, "", "summary")?,
            memory_bytes: self.number(top, "", "memory_gib", (1, 1 << 20))? << 30,
            topology_source: self.text(topology, "topology.", "source")?,
            version,
            machine: Machine { topology: shape, costs, kernel },
            parameters,
        })
    }

    fn topology(&self, table: &dyn TableLike) -> Result<Topology, Problem> {
        self.known(table, TOPOLOGY, "topology.")?;
        let number = |key| self.number(table, "topology.", key, (1, MOST_CPUS));
        let (smt, cores, llcs, nodes) = (number("smt")?, number("cores")?, number("llcs")?, number("nodes")?);
        let cpus = smt.saturating_mul(cores).saturating_mul(llcs).saturating_mul(nodes);
        if cpus > MOST_CPUS {
            let why = format!("smt × cores × llcs × nodes are {cpus} CPUs, the most is {MOST_CPUS}");
            return Err(self.wrong(None, "topology", why));
        }
        Ok(Topology { smt: smt as u32, cores: cores as u32, llcs: llcs as u32, nodes: nodes as u32 })
    }

    fn kernel(&self, table: &dyn TableLike, version: &str, cpus: u32) -> Result<Kernel, Problem> {
        self.known(table, KERNEL, "kernel.")?;
        let model = self.text(table, "kernel.", "preempt")?;
        let preempt = preempt::find(&model).ok_or_else(|| {
            let known: Vec<&str> = preempt::ALL.iter().map(|m| m.id).collect();
            self.wrong(table.get("preempt"), &format!("kernel.preempt {model}"), "there is no such preemption model")
                .hint(format!("models: {}", known.join(", ")))
        })?;
        let hz = self.number(table, "kernel.", "hz", (10, 10_000))? as u32;
        let arch = match table.get("arch") {
            None => Arch::X86,
            Some(item) => {
                let name = self.text(table, "kernel.", "arch")?;
                Arch::find(&name).ok_or_else(|| {
                    self.wrong(Some(item), &format!("kernel.arch {name}"), "it is not known here")
                        .hint(format!("known here: {}", Arch::names().join(", ")))
                })?
            }
        };
        let kernel = Kernel::of(version, preempt, hz, cpus).map_err(|problem| {
            let wrong = self.wrong(table.get("version"), &problem.what, problem.why);
            match problem.hint {
                Some(hint) => wrong.hint(hint),
                None => wrong,
            }
        })?;
        Ok(Kernel { arch, ..kernel })
    }

    fn costs(&self, top: &dyn TableLike) -> Result<Vec<Parameter>, Problem> {
        let table = match top.get("costs") {
            None => None,
            Some(_) => Some(self.table(top, "costs")?),
        };
        if let Some(table) = table {
            self.known(table, Costs::NAMES, "costs.")?;
        }
        let cost = |name: &'static str| match table.and_then(|table| table.get(name)) {
            Some(item) => self.cost(name, item),
            None => Ok(Parameter::assumed(name, None)),
        };
        Costs::NAMES.iter().copied().map(cost).collect()
    }

    fn cost(&self, name: &'static str, item: &Item) -> Result<Parameter, Problem> {
        let what = format!("costs.{name}");
        let of = format!("{what}.");
        let table = item
            .as_table_like()
            .ok_or_else(|| self.wrong(Some(item), &what, "a table with value, range and source was expected"))?;
        self.known(table, &["value", "range", "source", "chosen_for"], &of)?;
        let value_ns = self.number(table, &of, "value", (0, MOST_COST_NS))?;
        let source = self.text(table, &of, "source")?;
        let provenance = match source.split_once(": ").map(|(known, _)| known) {
            Some("measured") => Provenance::Measured,
            Some("published") => Provenance::Published,
            Some("assumed") => Provenance::Assumed,
            _ => {
                let why = "it does not state how the value is known";
                return Err(self
                    .wrong(table.get("source"), &format!("{of}source"), why)
                    .hint("begin with `measured: `, `published: ` or `assumed: `"));
            }
        };
        let range_ns = match table.get("range") {
            None => (value_ns, value_ns),
            Some(item) => self.range(item, &format!("{of}range"), value_ns)?,
        };
        let chosen_for = table.get("chosen_for").map(|_| self.text(table, &of, "chosen_for")).transpose()?;
        Ok(Parameter { name, value_ns, range_ns, provenance, source, chosen_for })
    }

    fn range(&self, item: &Item, what: &str, value_ns: u64) -> Result<(u64, u64), Problem> {
        let bounds: Vec<Option<u64>> = item
            .as_array()
            .map(|a| a.iter().map(|v| v.as_integer().and_then(|n| u64::try_from(n).ok())).collect())
            .unwrap_or_default();
        match bounds[..] {
            [Some(least), Some(most)] if least <= value_ns && value_ns <= most && most <= MOST_COST_NS => {
                Ok((least, most))
            }
            [Some(_), Some(_)] => Err(self.wrong(
                Some(item),
                what,
                format!("the value {value_ns} does not lie in it, or it ends beyond 1 s"),
            )),
            _ => Err(self.wrong(Some(item), what, "two whole numbers were expected: [least, most]")),
        }
    }
}
