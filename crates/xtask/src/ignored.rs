//! Which tests could not run: what the harness of `holdup-testkit` noted, against what may be ignored on the machine of CI.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// What was ignored, as a text for the end of a run of all tests.
pub fn summary(noted: &str) -> String {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (test, reason) in lines(noted) {
        by_reason.entry(reason).or_default().push(test);
    }
    let (parts, whole): (Vec<_>, Vec<_>) = lines(noted).into_iter().partition(|(_, reason)| reason.starts_with(PART));
    let mut text = format!("{} tests were ignored, and parts of {}\n", whole.len(), parts.len());
    for (reason, tests) in by_reason {
        // Writing to a String does not fail.
        let _ = writeln!(text, "  {reason}\n    {}", tests.join("\n    "));
    }
    text
}

/// The tests that were ignored and may not be. `allowed` has a line for each that may: its name, then why.
pub fn check(allowed: &str, noted: &str) -> Vec<String> {
    let may = |test: &str| allowed.lines().any(|line| line.split_whitespace().next() == Some(test));
    let wrong = lines(noted).into_iter().filter(|(test, _)| !may(test));
    wrong.map(|(test, reason)| format!("{test} must run on this machine and was ignored: {reason}")).collect()
}

/// How the reason begins where only a part of a test was ignored.
const PART: &str = "in part: ";

/// Each once, in order: a test and its reason.
fn lines(noted: &str) -> Vec<(&str, &str)> {
    let mut lines: Vec<_> = noted.lines().filter_map(|line| line.split_once('\t')).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTED: &str = "a::one\tno root\nb::two\tin part: no tool\na::one\tno root\nc::three\tno root\n";

    #[test]
    fn what_was_ignored_stands_below_its_reason() {
        let expected = "2 tests were ignored, and parts of 1\n  in part: no tool\n    b::two\n  no root\n    a::one\n    c::three\n";
        assert_eq!(summary(NOTED), expected);
    }

    #[test]
    fn what_is_ignored_beyond_the_list_is_wrong() {
        assert_eq!(
            check("a::one because\n# c::three\nb::two x", NOTED),
            ["c::three must run on this machine and was ignored: no root"]
        );
        assert_eq!(check("a::one\nb::two\nc::three", NOTED), Vec::<String>::new());
    }
}
