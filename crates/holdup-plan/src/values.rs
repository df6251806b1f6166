//! Values of a kind: what a node means for a parameter, a factor or a setting.

use crate::boot::BootFactor;
use crate::errors::Wrong;
use crate::node::{Data, Node};
use crate::source::{Location, resolve};
use crate::words::{did_you_mean, shown};
use holdup_model::plan::Level;
use holdup_model::units::{self, Relative};
use holdup_model::{Machine, ParameterKind, Value};

/// A value that was checked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Typed {
    pub(crate) level: Level,
    /// True if it depends on the machine.
    pub(crate) relative: bool,
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextIs {
    /// Just a text.
    Plain,
    /// A setting of PostgreSQL, which may be an amount relative to the machine.
    Setting,
    /// Something that is chosen when a guest boots.
    Boot(BootFactor),
}

/// What values are read against.
#[derive(Clone, Copy)]
pub(crate) struct Against<'a> {
    pub(crate) machine: Machine,
    /// The name of the file at a place, for paths that are relative to it; empty on the command line.
    pub(crate) file_name: &'a dyn Fn(&Location) -> String,
    pub(crate) text: TextIs,
}

impl Against<'_> {
    /// Reads a node as a value of a kind.
    pub(crate) fn read(&self, node: &Node, kind: &ParameterKind) -> Result<Typed, Wrong> {
        match kind {
            ParameterKind::Integer { .. } => {
                let hint = "for example 16 or \"2x cpus\"";
                self.amount(node, kind, |data| integer(data).map(Value::Integer), ("a whole number", hint))
            }
            ParameterKind::Float { .. } => {
                self.amount(node, kind, |data| float(data).map(Value::Float), ("a number", ""))
            }
            ParameterKind::Size { .. } => {
                let hint = "for example \"64MB\" or \"50% memory\"";
                self.amount(node, kind, |data| integer(data).map(Value::Integer), ("a size", hint))
            }
            ParameterKind::Duration { .. } => {
                let (ns, label) = duration_ns(node)?;
                let value = Value::Integer(i64::try_from(ns).unwrap_or(i64::MAX));
                kind.check(&value).map_err(Wrong::new)?;
                Ok(Typed { level: Level { value, label }, relative: false })
            }
            ParameterKind::Bool => boolean(node),
            ParameterKind::Choice(words) => choice(node, words),
            ParameterKind::Text => self.text(node),
            ParameterKind::Path => self.path(node),
            ParameterKind::CommandLine => command_line(node),
        }
    }

    /// A number within the bounds of its kind, or a text that stands for one.
    fn amount(
        &self,
        node: &Node,
        kind: &ParameterKind,
        number: impl Fn(&Data) -> Option<Value>,
        (wanted, example): (&str, &str),
    ) -> Result<Typed, Wrong> {
        let expected = || match example {
            "" => unexpected(node, wanted),
            _ => unexpected(node, wanted).hint(example),
        };
        let (value, relative) = match &node.data {
            Data::Text(text) => kind.parse(text, self.machine)?.ok_or_else(expected)?,
            data => (number(data).ok_or_else(expected)?, false),
        };
        kind.check(&value).map_err(Wrong::new)?;
        let label = match (kind, &node.data, &value) {
            (ParameterKind::Size { .. }, Data::Text(_), Value::Integer(bytes)) if relative => {
                units::postgres_size(bytes.unsigned_abs())
            }
            (ParameterKind::Size { .. }, Data::Text(text), _) => text.trim().to_owned(),
            _ => value.to_string(),
        };
        Ok(Typed { level: Level { value, label }, relative })
    }

    /// Text; numbers and truth values are taken as the text that they are written as.
    fn text(&self, node: &Node) -> Result<Typed, Wrong> {
        if let TextIs::Boot(factor) = self.text {
            let (value, written) = factor.read(node, &(self.file_name)(&node.place))?;
            let level = Level { label: label(&written), value: Value::Text(value) };
            return Ok(Typed { level, relative: false });
        }
        let (text, relative) = match &node.data {
            Data::Text(text) if self.text == TextIs::Setting => match units::relative(text, self.machine) {
                Some(Ok(Relative::Cpus(i))) => (i.to_string(), true),
                Some(Ok(Relative::Memory(bytes))) => (units::postgres_size(bytes), true),
                Some(Err(wrong)) => return Err(wrong),
                None => (text.clone(), false),
            },
            Data::Text(text) => (text.clone(), false),
            Data::Integer(i) => (i.to_string(), false),
            Data::Float(x) if x.is_finite() => (x.to_string(), false),
            Data::Bool(b) => (if *b { "on" } else { "off" }.to_owned(), false),
            _ => return Err(unexpected(node, "a text")),
        };
        if text.contains('\0') {
            return Err(Wrong::new("it holds a zero byte"));
        }
        Ok(Typed { level: Level { label: label(&text), value: Value::Text(text) }, relative })
    }

    fn path(&self, node: &Node) -> Result<Typed, Wrong> {
        match &node.data {
            Data::Text(text) if !text.is_empty() && !text.contains('\0') => {
                let path = resolve(&(self.file_name)(&node.place), text);
                Ok(Typed { level: Level { value: Value::Text(path), label: label(text) }, relative: false })
            }
            _ => Err(unexpected(node, "the path of a file")),
        }
    }
}

fn integer(data: &Data) -> Option<i64> {
    match data {
        Data::Integer(i) => Some(*i),
        _ => None,
    }
}

/// One zero only, so that two levels that are the same number are seen to be.
fn float(data: &Data) -> Option<f64> {
    match data {
        Data::Integer(i) => Some(*i as f64),
        Data::Float(x) if *x == 0.0 => Some(0.0),
        Data::Float(x) => Some(*x),
        _ => None,
    }
}

/// A duration in ns, and how it is shown.
pub(crate) fn duration_ns(node: &Node) -> Result<(u64, String), Wrong> {
    match &node.data {
        Data::Text(text) => units::duration(text).map(|ns| (ns, text.split_whitespace().collect::<String>())),
        Data::Integer(0) => Ok((0, "0".to_owned())),
        Data::Integer(i) if *i > 0 => {
            let hint = format!("write \"{i}ms\" or \"{i}s\"");
            Err(Wrong::new("a duration needs a unit").hint(hint))
        }
        Data::Integer(_) => Err(Wrong::new("a duration cannot be negative")),
        _ => Err(unexpected(node, "a duration").hint("for example \"500ms\" or \"2s\"")),
    }
}

fn boolean(node: &Node) -> Result<Typed, Wrong> {
    truth(node).map(|b| Typed { level: Level::plain(b), relative: false })
}

/// True or false.
pub(crate) fn truth(node: &Node) -> Result<bool, Wrong> {
    match &node.data {
        Data::Bool(b) => Ok(*b),
        Data::Text(text) if text == "on" || text == "true" => Ok(true),
        Data::Text(text) if text == "off" || text == "false" => Ok(false),
        _ => Err(unexpected(node, "true or false").hint("true, false, \"on\" or \"off\"")),
    }
}

fn choice(node: &Node, words: &[&str]) -> Result<Typed, Wrong> {
    let text = match &node.data {
        Data::Text(text) => text.clone(),
        Data::Integer(i) => i.to_string(),
        Data::Bool(b) => if *b { "on" } else { "off" }.to_owned(),
        _ => return Err(unexpected(node, "one of its words").hint(did_you_mean("", words))),
    };
    if !words.contains(&text.as_str()) {
        return Err(Wrong::new("it is not one of its words").hint(did_you_mean(&text, words)));
    }
    Ok(Typed { level: Level::plain(text.as_str()), relative: false })
}

fn command_line(node: &Node) -> Result<Typed, Wrong> {
    let hint = "write it as a list: [\"sleep\", \"1\"], or after `--`";
    let Data::List(nodes) = &node.data else {
        return Err(unexpected(node, "a program with its arguments").hint(hint));
    };
    let mut words = Vec::new();
    for node in nodes {
        match &node.data {
            Data::Text(text) if !text.contains('\0') => words.push(text.clone()),
            Data::Integer(i) => words.push(i.to_string()),
            _ => {
                return Err(
                    Wrong::new(format!("each of its words must be a text, {} is not", node.describe())).hint(hint)
                );
            }
        }
    }
    if words.first().is_none_or(String::is_empty) {
        return Err(Wrong::new("it names no program").hint(hint));
    }
    let label = command_label(&words, label);
    let json = serde_json::Value::from(words).to_string();
    Ok(Typed { level: Level { value: Value::Text(json), label }, relative: false })
}

/// A command line as people write it; of `sh -c LINE` the line.
pub(crate) fn command_label(words: &[String], quoted: impl Fn(&str) -> String) -> String {
    match words {
        [shell, option, line] if shell == "sh" && option == "-c" => line.clone(),
        words => words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
    }
}

/// A text as a label: as it is, or quoted when its end would be hard to see.
fn label(text: &str) -> String {
    let is_plain = !text.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '"');
    if is_plain { text.to_owned() } else { serde_json::Value::from(text).to_string() }
}

pub(crate) fn unexpected(node: &Node, wanted: &str) -> Wrong {
    Wrong::new(format!("{wanted} was expected, this is {}", node.describe()))
}

/// Whether something can be the name of a plan's workload or metric: it stands in labels and on command lines.
pub(crate) fn check_name(name: &str) -> Result<(), Wrong> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '+' | '@' | ':');
    if name.is_empty() {
        return Err(Wrong::new("it is empty"));
    }
    if name.chars().count() > 100 {
        return Err(Wrong::new("it has more than 100 characters"));
    }
    match name.chars().find(|c| !fits(*c)) {
        None => Ok(()),
        Some(c) => Err(Wrong::new(format!("`{}` cannot stand in it", shown(&c.to_string())))
            .hint("letters, digits and -_.+@: can")),
    }
}
