//! The parameters of an arm as a checked plan holds them, read once more with their types and bounds.

use holdup_model::{Parameters, Problem};

/// A whole number within bounds, which are not negative.
///
/// # Errors
/// When it is missing, no whole number or out of bounds.
pub fn whole(parameters: &Parameters, name: &str, min: i64, max: i64) -> Result<u64, Problem> {
    let value = parameters.required_integer(name)?;
    match u64::try_from(value) {
        Ok(whole) if value >= min && value <= max => Ok(whole),
        _ => Err(Problem::usage(format!("{name} {value}"), format!("it is not between {min} and {max}"))),
    }
}

/// The index of one of some words.
///
/// # Errors
/// When it is missing or another word.
pub fn word(parameters: &Parameters, name: &str, words: &[&str]) -> Result<usize, Problem> {
    let value = parameters.required_text(name)?;
    words.iter().position(|w| *w == value).ok_or_else(|| match words {
        [one, other] => Problem::usage(format!("{name} {value}"), format!("it is neither {one} nor {other}")),
        _ => Problem::usage(format!("{name} {value}"), format!("it is none of {}", words.join(", "))),
    })
}

/// The same for a parameter that may be absent.
///
/// # Errors
/// When it is no whole number or out of bounds.
pub fn whole_or_none(parameters: &Parameters, name: &str, min: i64, max: i64) -> Result<Option<u64>, Problem> {
    parameters.integer(name)?.map(|_| whole(parameters, name, min, max)).transpose()
}

/// A number that is neither negative nor beyond all bounds.
///
/// # Errors
/// When it is missing, of another type or out of bounds.
pub fn number(parameters: &Parameters, name: &str, max: f64) -> Result<f64, Problem> {
    let value = parameters.required_float(name)?;
    match value >= 0.0 && value <= max {
        true => Ok(value),
        false => Err(Problem::usage(format!("{name} {value}"), format!("it is not between 0 and {max}"))),
    }
}

/// What one of these words means.
///
/// # Errors
/// When it is missing, of another type or none of them.
pub fn parse_enum<T>(
    parameters: &Parameters,
    name: &str,
    words: &[&str],
    meaning: impl Fn(&str) -> Option<T>,
) -> Result<T, Problem> {
    let value = parameters.required_text(name)?;
    meaning(value).ok_or_else(|| {
        Problem::usage(format!("{name} {value}"), "there is no such value")
            .hint(format!("it is one of {}", words.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdup_model::Value;

    #[test]
    fn values_are_checked_once_more() {
        let with = |value: Value| {
            let mut parameters = Parameters::default();
            parameters.set("x", value);
            parameters
        };
        let shown = |result: Result<String, Problem>| result.unwrap_or_else(|p| format!("{}: {}", p.what, p.why));
        let a_whole = |value: Value| shown(whole(&with(value), "x", 1, 5).map(|w| w.to_string()));
        assert_eq!(a_whole(1.into()), "1");
        assert_eq!(a_whole(6.into()), "x 6: it is not between 1 and 5");
        assert_eq!(a_whole((-1).into()), "x -1: it is not between 1 and 5");
        let a_number = |value: Value| shown(number(&with(value), "x", 10.0).map(|w| w.to_string()));
        assert_eq!(a_number(2.5.into()), "2.5");
        assert_eq!(a_number(f64::NAN.into()), "x NaN: it is not between 0 and 10");
        assert_eq!(a_number((-0.5).into()), "x -0.5: it is not between 0 and 10");
        let a_word =
            |value: Value| shown(parse_enum(&with(value), "x", &["a"], |w| (w == "a").then(|| "A".to_owned())));
        assert_eq!(a_word("a".into()), "A");
        assert_eq!(a_word("b".into()), "x b: there is no such value");
        assert_eq!(
            shown(number(&Parameters::default(), "x", 1.0).map(|s| s.to_string())),
            "parameter x: the checked plan holds no value for it"
        );
    }
}
