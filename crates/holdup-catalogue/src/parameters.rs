//! One declaration of a parameter: its line in a table, and its field in a struct.

use crate::workloads::Declared;
use holdup_model::{Machine, Parameter, Parameters, Problem, Value};
use std::path::PathBuf;

/// A duration, ns.
pub type Nanoseconds = u64;
/// A size in bytes.
pub type Bytes = u64;
/// A program with its arguments.
pub type CommandLine = Vec<String>;

/// The type of a parameter in a struct.
pub trait FromValue: Sized {
    /// The value; `None` when it has another type, or does not fit.
    fn from_value(value: &Value) -> Option<Self>;
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: &Value) -> Option<Self> {
                match value {
                    Value::Integer(n) => (*n).try_into().ok(),
                    _ => None,
                }
            }
        }
    )*};
}

whole_numbers!(u32, u64, usize);

impl FromValue for f64 {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Integer(n) => Some(*n as f64),
            Value::Float(x) => Some(*x),
            _ => None,
        }
    }
}

impl FromValue for bool {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(is_on) => Some(*is_on),
            _ => None,
        }
    }
}

impl FromValue for String {
    fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl FromValue for PathBuf {
    fn from_value(value: &Value) -> Option<Self> {
        String::from_value(value).map(PathBuf::from)
    }
}

impl FromValue for CommandLine {
    fn from_value(value: &Value) -> Option<Self> {
        let words: CommandLine = serde_json::from_str(&String::from_value(value)?).ok()?;
        let names_program = words.first().is_some_and(|program| !program.is_empty());
        (names_program && !words.iter().any(|word| word.contains('\0'))).then_some(words)
    }
}

/// The value of a parameter that may be absent.
///
/// # Errors
/// When it is of another type or out of bounds.
pub(crate) fn optional<T: FromValue>(values: &Parameters, parameter: &Parameter) -> Result<Option<T>, Problem> {
    let name = parameter.name;
    let Some(value) = values.get(name) else { return Ok(None) };
    parameter.kind.check(value).map_err(|why| Problem::usage(format!("{name} {value}"), why))?;
    match T::from_value(value) {
        Some(value) => Ok(Some(value)),
        None => {
            let why = format!("it must be {}", parameter.kind.expected());
            Err(Problem::usage(format!("{name} {value}"), why))
        }
    }
}

/// The value of a parameter that a checked plan holds.
///
/// # Errors
/// When it is absent, of another type or out of bounds.
pub(crate) fn required<T: FromValue>(values: &Parameters, parameter: &Parameter) -> Result<T, Problem> {
    let missing =
        || Problem::internal(format!("parameter {}", parameter.name), "the checked plan holds no value for it");
    optional(values, parameter)?.ok_or_else(missing)
}

/// The values of a plan that names none, on a machine with this number of CPUs.
pub fn defaults(parameters: &[Parameter], cpus: u32) -> Parameters {
    let machine = Machine { cpus, memory_bytes: 0 };
    let mut values = Parameters::default();
    for parameter in parameters {
        if let Some(value) = parameter.default_on(machine) {
            values.set(parameter.name, value);
        }
    }
    values
}

/// Refuses values that a simulated workload does not have.
///
/// # Errors
/// When one of them is given and is not the default.
pub(crate) fn refuse_unsimulated(declared: &Declared, values: &Parameters) -> Result<(), Problem> {
    let machine = Machine { cpus: 1, memory_bytes: 0 };
    for parameter in declared.parameters.iter().filter(|p| !p.simulated) {
        let Some(value) = values.get(parameter.name) else { continue };
        if parameter.default_on(machine).as_ref() != Some(value) {
            let what = format!("{} {value}", parameter.name);
            let why = format!("the simulated {} does not have this parameter", declared.id);
            return Err(Problem::host(what, why).hint(format!("leave {} out", parameter.name)));
        }
    }
    Ok(())
}

/// A line of documentation without the space in front of it.
pub(crate) const fn line(doc: &'static str) -> &'static str {
    match doc.as_bytes() {
        [b' ', rest @ ..] => match std::str::from_utf8(rest) {
            Ok(line) => line,
            Err(_) => doc,
        },
        _ => doc,
    }
}

/// Declares the parameters of a workload: a struct with a field for each, and `Parameters::ALL`, the table of them.
///
/// ```text
/// /// one line of help
/// name: TYPE [MIN..=MAX] = "DEFAULT",
/// ```
///
/// The default is written as in a plan; a parameter without one must be given, unless its type is `Option<…>`. Bounds
/// stand behind numbers, durations (ns) and sizes (bytes). `#[real]` before the name: the simulator does not have it.
macro_rules! parameters {
    (
        $(#[$about:meta])*
        $workload:literal
        $(
            #[doc = $summary:literal]
            $(#[$real:ident])?
            $name:ident : $type:ident $(< $inner:ident >)? $([$min:literal ..= $max:expr])? $(= $default:literal)?,
        )*
    ) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct Parameters {
            $(#[doc = $summary] pub $name: $type $(< $inner >)?,)*
        }

        /// The workload with its parameters.
        pub const DECLARED: $crate::workloads::Declared =
            $crate::workloads::Declared { id: $workload, parameters: Parameters::ALL };

        impl Parameters {
            /// Every parameter, in the order shown to users.
            pub const ALL: &'static [holdup_model::Parameter] = &[
                $(holdup_model::Parameter {
                    name: stringify!($name),
                    kind: $crate::parameters::kind!($type $($inner)?, $($min, $max)?),
                    default: $crate::parameters::default_text!($($default)?),
                    required: $crate::parameters::is_required!($type $($default)?),
                    summary: $crate::parameters::line($summary),
                    simulated: $crate::parameters::is_simulated!($($real)?),
                },)*
            ];

            /// The values of a plan that names none, on a machine with this number of CPUs.
            pub fn defaults(cpus: u32) -> holdup_model::Parameters {
                $crate::defaults(Self::ALL, cpus)
            }

            /// Reads the parameters of an arm, in one place for all that run or simulate it.
            ///
            /// # Errors
            /// When a value is missing, of another type or out of bounds.
            pub fn read(values: &holdup_model::Parameters) -> Result<Self, holdup_model::Problem> {
                let mut all = Self::ALL.iter();
                Ok(Parameters {
                    $($name: {
                        let parameter = all.next().expect("a line for each field");
                        $crate::parameters::read!($type, values, parameter)?
                    },)*
                })
            }

            /// The same for a simulated workload.
            ///
            /// # Errors
            /// When a value cannot be read, or the simulator does not have it.
            pub fn read_simulated(values: &holdup_model::Parameters) -> Result<Self, holdup_model::Problem> {
                $crate::parameters::refuse_unsimulated(&DECLARED, values)?;
                Self::read(values)
            }
        }
    };
}

macro_rules! kind {
    (Option $inner:ident, $($bounds:tt)*) => { $crate::parameters::kind!($inner, $($bounds)*) };
    (u32, $min:literal, $max:expr) => { holdup_model::ParameterKind::Integer { min: $min, max: $max } };
    (u64, $min:literal, $max:expr) => { holdup_model::ParameterKind::Integer { min: $min, max: $max } };
    (usize, $min:literal, $max:expr) => { holdup_model::ParameterKind::Integer { min: $min, max: $max } };
    (f64, $min:literal, $max:expr) => { holdup_model::ParameterKind::Float { min: $min, max: $max } };
    (Nanoseconds, $min:literal, $max:expr) => { holdup_model::ParameterKind::Duration { min: $min, max: $max } };
    (Nanoseconds,) => { holdup_model::ParameterKind::DURATION };
    (Bytes, $min:literal, $max:expr) => { holdup_model::ParameterKind::Size { min: $min, max: $max } };
    (Bytes,) => { holdup_model::ParameterKind::SIZE };
    (bool,) => { holdup_model::ParameterKind::Bool };
    (String,) => { holdup_model::ParameterKind::Text };
    (PathBuf,) => { holdup_model::ParameterKind::Path };
    (CommandLine,) => { holdup_model::ParameterKind::CommandLine };
    ($words:ident,) => { holdup_model::ParameterKind::Choice(<$words as strum::VariantNames>::VARIANTS) };
}

macro_rules! default_text {
    () => {
        None
    };
    ($default:literal) => {
        Some($default)
    };
}

macro_rules! is_required {
    (Option) => {
        false
    };
    ($type:ident) => {
        true
    };
    ($type:ident $default:literal) => {
        false
    };
}

macro_rules! is_simulated {
    () => {
        true
    };
    (real) => {
        false
    };
}

macro_rules! read {
    (Option, $values:ident, $parameter:ident) => {
        $crate::parameters::optional($values, $parameter)
    };
    ($type:ident, $values:ident, $parameter:ident) => {
        $crate::parameters::required($values, $parameter)
    };
}

/// Declares the words of a parameter: an enum, whose variants in kebab-case are the words.
macro_rules! words {
    ($(#[$about:meta])* $name:ident { $($(#[$of_variant:meta])* $variant:ident,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::EnumString, strum::IntoStaticStr, strum::VariantNames)]
        #[derive(serde::Serialize, serde::Deserialize)]
        #[strum(serialize_all = "kebab-case")]
        #[serde(rename_all = "kebab-case")]
        pub enum $name { $($(#[$of_variant])* $variant,)* }

        impl $name {
            /// The words of plans, in the order shown to users.
            pub const WORDS: &'static [&'static str] = <$name as strum::VariantNames>::VARIANTS;

            /// Its word in plans.
            pub fn word(self) -> &'static str {
                self.into()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl $crate::parameters::FromValue for $name {
            fn from_value(value: &holdup_model::Value) -> Option<Self> {
                match value {
                    holdup_model::Value::Text(word) => word.parse().ok(),
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use {default_text, is_required, is_simulated, kind, parameters, read, words};

#[cfg(test)]
mod tests {
    use super::{FromValue, defaults};
    use crate::workloads::{ALL, find};
    use crate::{lock_contention, pgbench};
    use holdup_model::{Parameters, Value};

    fn values(id: &str, changes: &[(&str, Value)]) -> Parameters {
        let mut values = defaults(find(id).expect("it is declared").parameters, 4);
        changes.iter().for_each(|(name, value)| values.set(name, value.clone()));
        values
    }

    /// What a default says is a value of its parameter, and help fits a line.
    #[test]
    fn every_declaration_holds() {
        for declared in ALL {
            let values = values(declared.id, &[]);
            for p in declared.parameters {
                assert_eq!(values.get(p.name).is_some(), p.default.is_some(), "{} of {}", p.name, declared.id);
                assert!(!p.summary.starts_with(' ') && p.summary.len() < 110, "{} of {}", p.name, declared.id);
            }
        }
    }

    #[test]
    fn values_are_read_with_their_types_and_bounds() {
        let read = |changes: &[(&str, Value)]| {
            let read = lock_contention::Parameters::read(&values("lock-contention", changes));
            read.map(|p| format!("{} {} {} {}", p.threads, p.algorithm, p.section, p.pages)).map_err(|p| p.to_string())
        };
        let refused = |name: &str, value: Value| read(&[(name, value)]).expect_err(name);
        assert_eq!(read(&[]).as_deref(), Ok("4 tas 100 4k"));
        assert_eq!(read(&[("threads", 4096.into()), ("pages", "huge".into())]).as_deref(), Ok("4096 tas 100 huge"));
        assert_eq!(refused("threads", 0.into()), "threads 0: it must be from 1 to 4096");
        assert_eq!(refused("threads", 4097.into()), "threads 4097: it must be from 1 to 4096");
        assert_eq!(refused("threads", "two".into()), "threads two: it must be from 1 to 4096");
        assert_eq!(refused("think", (-1).into()), "think -1: it must be 0ns or more");
        assert_eq!(refused("pages", "1g".into()), "pages 1g: it must be one of 4k, huge");
        assert_eq!(refused("pin", "maybe".into()), "pin maybe: it must be on or off");
        let none = lock_contention::Parameters::read(&Parameters::default()).expect_err("nothing was given");
        assert_eq!(none.to_string(), "parameter threads: the checked plan holds no value for it");
    }

    #[test]
    fn a_command_line_names_a_program() {
        let read = |text: &str| super::CommandLine::from_value(&text.into()).map(|words| words.len());
        assert_eq!(read(r#"["sleep","1"]"#), Some(2));
        for text in ["", "sleep", "[]", r#"[""]"#, "[1]", r#"["a\u0000b"]"#, r#"{"a":1}"#] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn what_the_simulator_lacks_is_refused_unless_it_is_the_default() {
        let read = |id: &str, changes: &[(&str, Value)]| match id {
            "pgbench" => pgbench::Parameters::read_simulated(&values(id, changes)).map(|_| ()),
            _ => crate::messenger::Parameters::read_simulated(&values(id, changes)).map(|_| ()),
        };
        assert_eq!(read("pgbench", &[("clients", 8.into())]), Ok(()));
        assert_eq!(read("messenger", &[("messages", 0.into())]), Ok(()));
        let refused = read("pgbench", &[("rate", 10.5.into())]).expect_err("an open loop").to_string();
        assert_eq!(refused, "rate 10.5: the simulated pgbench does not have this parameter\nhint: leave rate out");
    }
}
