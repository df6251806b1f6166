//! Folded stacks: one line for each, outermost function first.

use super::{marked, task_name};
use holdup_model::StackProfile;
use holdup_model::foreign::is_harmful;

/// Lines `task;function;function weight` (the input of flamegraph.pl and of the tools that read what it reads), heaviest
/// first. Semicolons and line feeds inside of names are written as colons and spaces, because the format has no
/// escapes; a frame that the profile does not have is left out.
pub fn folded(profile: &StackProfile) -> String {
    let names: Vec<String> = profile.frames.iter().map(|frame| plain(&marked(frame))).collect();
    let mut out = String::new();
    for stack in &profile.stacks {
        out.push_str(&plain(&task_name(stack)));
        for name in stack.frames.iter().filter_map(|frame| names.get(*frame as usize)) {
            out.push(';');
            out.push_str(name);
        }
        out.push_str(&format!(" {}\n", stack.weight));
    }
    out
}

fn plain(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            ';' => ':',
            c if is_harmful(c) => ' ',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::folded;
    use crate::stacks::tests::profile;

    #[test]
    fn each_line_can_be_taken_apart_again() {
        let text = folded(&profile());
        let lines: Vec<(Vec<&str>, u64)> = text
            .lines()
            .map(|line| {
                let (stack, weight) = line.rsplit_once(' ').expect("a weight");
                (stack.split(';').collect(), weight.parse().expect("a number"))
            })
            .collect();
        let inlined = "std::map<int: \"a\">::find 7_[i]";
        assert_eq!(lines[0], (vec!["postgres (server)", "main", inlined, "do_syscall_64_[k]"], 70));
        assert_eq!(lines[2], (vec!["a:b ", "[unknown]"], 5));
        assert_eq!(lines[3], (vec!["pgbench (load)"], 4));
        assert_eq!(lines[4].0.len(), 2, "a frame that is not there is left out");
        assert_eq!(lines.iter().map(|(_, weight)| weight).sum::<u64>(), 100);
    }
}
