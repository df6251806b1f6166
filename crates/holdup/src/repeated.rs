//! Options that may stand several times, on both sides of a subcommand: `run --set a=1 pgbench --set b=2`. clap takes those after the
//! subcommand alone, and says nothing; so the others are moved there before it reads the command line.

use clap::{Arg, ArgAction, Command};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// The words of a command line, with such options behind the last subcommand.
pub(crate) fn together(make: impl FnOnce() -> Command, words: Vec<OsString>) -> Vec<OsString> {
    let mut seen = BTreeSet::new();
    let is_again = |word: &OsString| long(word).is_some_and(|(name, _)| !seen.insert(name.to_owned()));
    // The whole command line is built only where it is needed: that takes as long as the rest of a short command.
    if !words.iter().any(is_again) {
        return words;
    }
    let mut command = make();
    command.build();
    moved(&command, words)
}

fn moved(command: &Command, words: Vec<OsString>) -> Vec<OsString> {
    let mut command = command;
    let mut words = words.into_iter();
    // Up to the last subcommand; the options to be moved behind it; what follows it, with whether it would be moved.
    let mut before: Vec<OsString> = words.next().into_iter().collect();
    let mut repeated = Vec::new();
    let mut behind: Vec<(bool, OsString)> = Vec::new();
    while let Some(word) = words.next() {
        if word == "--" {
            behind.push((false, word));
            break;
        }
        if let Some((option, length)) = option_of(command, &word) {
            let moves = option.is_global_set() && matches!(option.get_action(), ArgAction::Append);
            behind.extend(std::iter::once(word).chain(words.by_ref().take(length - 1)).map(|word| (moves, word)));
        } else if let Some(sub) = word.to_str().and_then(|word| command.find_subcommand(word)) {
            command = sub;
            for (moves, word) in behind.drain(..) {
                if moves { &mut repeated } else { &mut before }.push(word);
            }
            before.push(word);
        } else {
            behind.push((false, word));
        }
    }
    before.into_iter().chain(repeated).chain(behind.into_iter().map(|(_, word)| word)).chain(words).collect()
}

/// The name of a long option, and whether its value is in the same word.
fn long(word: &OsString) -> Option<(&str, bool)> {
    let name = word.to_str()?.strip_prefix("--").filter(|name| !name.is_empty())?;
    Some(name.split_once('=').map_or((name, false), |(name, _)| (name, true)))
}

/// The option that this word is, and how many words it takes.
fn option_of<'a>(command: &'a Command, word: &OsString) -> Option<(&'a Arg, usize)> {
    let (option, has_value) = match long(word) {
        Some((name, has_value)) => (command.get_arguments().find(|a| a.get_long() == Some(name))?, has_value),
        None => {
            let mut letters = word.to_str()?.strip_prefix('-')?.chars();
            let letter = letters.next()?;
            (command.get_arguments().find(|a| a.get_short() == Some(letter))?, letters.next().is_some())
        }
    };
    let takes_next = option.get_action().takes_values() && !has_value && !option.is_require_equals_set();
    Some((option, 1 + usize::from(takes_next)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    fn line(words: &str) -> String {
        let words = std::iter::once("holdup").chain(words.split(' ')).map(OsString::from).collect();
        together(Cli::command, words).iter().skip(1).map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_that_repeat_come_behind_the_workload() {
        assert_eq!(
            line("run --set a=1 --accel tcg lock-contention --set b=2 --blocks 1"),
            "run --accel tcg lock-contention --set a=1 --set b=2 --blocks 1"
        );
        assert_eq!(
            line("run --vary k=1,2 --set=a=1 -o x --set c=3 pgbench --vary l=3,4 --set b=2"),
            "run -o x pgbench --vary k=1,2 --set=a=1 --set c=3 --vary l=3,4 --set b=2"
        );
    }

    #[test]
    fn what_is_no_subcommand_is_left() {
        for same in [
            "run --set a=1 --out pgbench --set b=2",
            "run plan.toml --set a=1 --set b=2",
            "run command --set a=1 --set b=2 -- echo --set x pgbench --set y",
            "run --set a=1 pgbench --clients 8",
        ] {
            assert_eq!(line(same), same);
        }
    }
}
