//! The parameters of an arm as a checked plan holds them, read once more with their types and bounds.

use holdup_model::{Parameters, Problem};

fn missing(name: &str) -> Problem {
    Problem::internal(format!("parameter {name}"), "the checked plan holds no value for it")
}

/// A text.
///
/// # Errors
/// When it is missing or no text.
pub(crate) fn text<'a>(parameters: &'a Parameters, name: &str) -> Result<&'a str, Problem> {
    parameters.text(name)?.ok_or_else(|| missing(name))
}

/// A truth.
///
/// # Errors
/// When it is missing or neither on nor off.
pub(crate) fn truth(parameters: &Parameters, name: &str) -> Result<bool, Problem> {
    parameters.boolean(name)?.ok_or_else(|| missing(name))
}

/// A whole number within bounds, which are not negative.
///
/// # Errors
/// When it is missing, no whole number or out of bounds.
pub(crate) fn whole(parameters: &Parameters, name: &str, min: i64, max: i64) -> Result<u64, Problem> {
    let value = parameters.integer(name)?.ok_or_else(|| missing(name))?;
    match u64::try_from(value) {
        Ok(whole) if value >= min && value <= max => Ok(whole),
        _ => Err(Problem::usage(format!("{name} {value}"), format!("it is not between {min} and {max}"))),
    }
}

/// The index of one of some words.
///
/// # Errors
/// When it is missing or another word.
pub(crate) fn word(parameters: &Parameters, name: &str, words: &[&str]) -> Result<usize, Problem> {
    let value = text(parameters, name)?;
    words.iter().position(|w| *w == value).ok_or_else(|| match words {
        [one, other] => Problem::usage(format!("{name} {value}"), format!("it is neither {one} nor {other}")),
        _ => Problem::usage(format!("{name} {value}"), format!("it is none of {}", words.join(", "))),
    })
}
