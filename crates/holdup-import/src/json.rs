//! A JSON document, with the place of what is wrong in it.

use crate::input::place;
use crate::number::{length_ns, parse, samples};
use holdup_model::{Fact, MemoryBudget, Problem};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// A document that was read.
pub(crate) struct Document {
    pub(crate) name: String,
    /// Lines and bytes of the file before it.
    pub(crate) before: (u64, u64),
    pub(crate) bytes: Vec<u8>,
    pub(crate) value: Value,
    /// Taken of the budget, bytes.
    pub(crate) budget: MemoryBudget,
    pub(crate) taken: u64,
}

impl Drop for Document {
    fn drop(&mut self) {
        self.budget.give(self.taken);
    }
}

/// Memory of a parsed document at most, bytes: a map has nodes for 11 members, a list has room for 4 values and doubles it, each text has
/// its own.
pub(crate) fn parsed_bytes(bytes: &[u8]) -> u64 {
    let beside = |byte: &u8| match byte {
        b'{' => 640,
        b'[' => 128,
        b',' => 112,
        b'"' => 16,
        _ => 0,
    };
    bytes.iter().map(beside).sum::<u64>() + bytes.len() as u64
}

/// A value in it.
#[derive(Clone, Copy)]
pub(crate) struct Node<'a> {
    document: &'a Document,
    value: &'a Value,
}

impl Document {
    pub(crate) fn root(&self) -> Node<'_> {
        Node { document: self, value: &self.value }
    }
}

impl<'a> Node<'a> {
    fn at(self, value: &'a Value) -> Self {
        Node { document: self.document, value }
    }

    /// A member, unless it is absent or null.
    pub(crate) fn get(self, key: &str) -> Option<Self> {
        self.value.get(key).filter(|value| !value.is_null()).map(|value| self.at(value))
    }

    /// A member that has to be there.
    pub(crate) fn need(self, key: &str) -> Result<Self, Problem> {
        self.get(key).ok_or_else(|| self.problem(format!("there is no `{key}` in it")))
    }

    /// The elements of a list.
    pub(crate) fn items(self) -> Result<impl ExactSizeIterator<Item = Node<'a>>, Problem> {
        let items = self.value.as_array().ok_or_else(|| self.problem(format!("{} is no list", self.shown())))?;
        Ok(items.iter().map(move |value| self.at(value)))
    }

    /// The members of an object, by name.
    pub(crate) fn members(self) -> Result<impl Iterator<Item = (&'a str, Node<'a>)>, Problem> {
        let members = self.value.as_object().ok_or_else(|| self.problem(format!("{} is no object", self.shown())))?;
        Ok(members.iter().map(move |(name, value)| (name.as_str(), self.at(value))))
    }

    /// A number; of a text, the number that is its whole.
    pub(crate) fn number(self) -> Result<f64, Problem> {
        match self.value {
            Value::Number(number) => number.as_f64().ok_or_else(|| self.problem(format!("{number} is no number"))),
            Value::String(text) => parse(text, |why| self.problem(why)),
            _ => Err(self.problem(format!("{} is no number", self.shown()))),
        }
    }

    /// A time in this unit, in ns.
    pub(crate) fn length_ns(self, unit_ns: f64) -> Result<u64, Problem> {
        length_ns(self.number()?, unit_ns, |why| self.problem(why))
    }

    pub(crate) fn is_list(self) -> bool {
        self.value.is_array()
    }

    pub(crate) fn is_text(self) -> bool {
        self.value.is_string()
    }

    /// How many samples a bucket of a histogram has.
    pub(crate) fn samples(self) -> Result<u64, Problem> {
        samples(self.number()?, |why| self.problem(why))
    }

    /// The number of a member, where there is one.
    pub(crate) fn number_of(self, key: &str) -> Result<Option<f64>, Problem> {
        self.get(key).map(Node::number).transpose()
    }

    pub(crate) fn text(self) -> Result<&'a str, Problem> {
        self.value.as_str().ok_or_else(|| self.problem(format!("{} is no text", self.shown())))
    }

    /// The text of a member, where there is one.
    pub(crate) fn text_of(self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str()
    }

    /// Facts that are texts of members, by the key of the fact and the name of the member.
    pub(crate) fn facts(self, members: &[(&str, &str)], source: &str) -> Vec<Fact> {
        members.iter().filter_map(|(key, name)| Some(Fact::read(*key, self.text_of(name)?, source))).collect()
    }

    /// True if a member is `true`.
    pub(crate) fn is_set(self, key: &str) -> bool {
        self.value.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The value for people, not endless.
    pub(crate) fn shown(self) -> String {
        match self.value {
            Value::String(text) => text.clone(),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "an object".to_owned(),
            other => other.to_string(),
        }
    }

    /// What is wrong with this value.
    pub(crate) fn problem(self, why: impl Into<String>) -> Problem {
        let document = self.document;
        let offset = path_to(&document.value, self.value).and_then(|path| offset(&document.bytes, &path));
        let place = offset.map(|offset| place(&document.name, document.before, &document.bytes, offset));
        Problem::usage(place.unwrap_or_else(|| document.name.clone()), why)
    }
}

/// A step from a value to one in it.
enum Step<'a> {
    Member(&'a str),
    Element(usize),
}

/// How to reach a value that is in another one: it is the same object in memory.
fn path_to<'a>(from: &'a Value, to: &Value) -> Option<Vec<Step<'a>>> {
    if std::ptr::eq(from, to) {
        return Some(Vec::new());
    }
    let inner = |step: Step<'a>, value: &'a Value| {
        path_to(value, to).map(|mut path| {
            path.insert(0, step);
            path
        })
    };
    match from {
        Value::Array(items) => items.iter().enumerate().find_map(|(n, item)| inner(Step::Element(n), item)),
        Value::Object(members) => members.iter().find_map(|(name, value)| inner(Step::Member(name), value)),
        _ => None,
    }
}

/// Where the value at the end of a path begins, bytes.
fn offset(bytes: &[u8], path: &[Step<'_>]) -> Option<usize> {
    let mut at: &RawValue = serde_json::from_slice(bytes).ok()?;
    for step in path {
        at = match step {
            Step::Element(n) => *serde_json::from_str::<Vec<&RawValue>>(at.get()).ok()?.get(*n)?,
            Step::Member(name) => serde_json::from_str::<BTreeMap<String, &RawValue>>(at.get()).ok()?.get(*name)?,
        };
    }
    (at.get().as_ptr() as usize).checked_sub(bytes.as_ptr() as usize)
}
