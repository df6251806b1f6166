//! Values of levels, parameters and settings.

use crate::problem::Problem;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// One value. Durations are integers in nanoseconds and sizes integers in
/// bytes; which one it is stands in the parameter's kind, not in the value.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// True or false.
    Bool(bool),
    /// A whole number, also nanoseconds and bytes.
    Integer(i64),
    /// A real number.
    Float(f64),
    /// Any text, also the values of PostgreSQL settings.
    Text(String),
}

impl Value {
    /// The value as a number; `None` for words and truth.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Integer(i) => Some(*i as f64),
            Value::Float(x) => Some(*x),
            Value::Bool(_) | Value::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Bool(b) => write!(f, "{}", if *b { "on" } else { "off" }),
            Value::Integer(i) => write!(f, "{i}"),
            Value::Float(x) => write!(f, "{x}"),
            Value::Text(t) => f.write_str(t),
        }
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Value::Integer(i)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Value::Bool(b)
    }
}

impl From<f64> for Value {
    fn from(x: f64) -> Self {
        Value::Float(x)
    }
}

impl From<&str> for Value {
    fn from(t: &str) -> Self {
        Value::Text(t.to_owned())
    }
}

/// The resolved parameters of a workload in one arm, by name.
///
/// The plan has been checked against the workload's [`crate::Parameter`] list
/// before a `Parameters` exists, so a wrong type here is a fault of holdup.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Parameters(pub BTreeMap<String, Value>);

impl Parameters {
    /// The value under `name`, if one was given.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Puts `value` under `name`, replacing what stood there.
    pub fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// A whole number; `None` when absent.
    pub fn integer(&self, name: &str) -> Result<Option<i64>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Integer(i)) => Ok(Some(*i)),
            Some(other) => Err(Self::wrong_type(name, "a whole number", other)),
        }
    }

    /// A real number (a whole one is accepted); `None` when absent.
    pub fn float(&self, name: &str) -> Result<Option<f64>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Integer(i)) => Ok(Some(*i as f64)),
            Some(Value::Float(x)) => Ok(Some(*x)),
            Some(other) => Err(Self::wrong_type(name, "a number", other)),
        }
    }

    /// True or false; `None` when absent.
    pub fn boolean(&self, name: &str) -> Result<Option<bool>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Bool(b)) => Ok(Some(*b)),
            Some(other) => Err(Self::wrong_type(name, "on or off", other)),
        }
    }

    /// Text; `None` when absent.
    pub fn text(&self, name: &str) -> Result<Option<&str>, Problem> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Text(t)) => Ok(Some(t)),
            Some(other) => Err(Self::wrong_type(name, "text", other)),
        }
    }

    fn wrong_type(name: &str, wanted: &str, got: &Value) -> Problem {
        Problem::internal(format!("parameter {name}"), format!("{wanted} was expected, the checked plan holds {got:?}"))
    }
}
